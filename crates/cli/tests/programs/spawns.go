// Starts a program again and again, from one thread, in the way of Go (vfork), and says how each ended.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

func main() {
	runtime.LockOSThread()
	for n := 0; n < 12; n++ {
		said, err := exec.Command(os.Args[1], os.Args[2:]...).CombinedOutput()
		fmt.Println(string(said), err)
	}
}
