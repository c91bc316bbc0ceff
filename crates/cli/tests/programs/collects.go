// A program of Go: goroutines on small stacks, collections, a child, a file. Prints sums.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"sort"
	"strings"
	"sync"
	"time"
)

type rec struct {
	a int
	s string
	n []int
}

func main() {
	m := map[string]*rec{}
	for i := 0; i < 300000; i++ {
		k := fmt.Sprintf("key%07d", i*7919%1000003)
		m[k] = &rec{i, strings.Repeat("x", i%40), []int{i, i + 1, i + 2}}
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	h := sha256.New()
	for _, k := range keys {
		r := m[k]
		fmt.Fprintf(h, "%s%d%s%d", k, r.a, r.s, r.n[2])
	}
	fmt.Printf("%d %x\n", len(m), h.Sum(nil))
	var wg sync.WaitGroup
	sums := make([]int, 8)
	for g := 0; g < 8; g++ {
		wg.Add(1)
		go func(g int) {
			defer wg.Done()
			for i := g; i < len(keys); i += 8 {
				sums[g] += m[keys[i]].n[1]
				if i%50000 == g {
					time.Sleep(time.Millisecond)
				}
			}
		}(g)
	}
	wg.Wait()
	fmt.Println(sums)
	out, err := exec.Command("/bin/sh", "-c", "echo from a child; exit 3").CombinedOutput()
	fmt.Printf("%s%v\n", out, err)
	f, _ := os.CreateTemp("", "x")
	defer os.Remove(f.Name())
	for _, k := range keys {
		f.WriteString(k)
	}
	f.Sync()
	b, _ := os.ReadFile(f.Name())
	fmt.Println(len(b), fmt.Sprintf("%x", sha256.Sum256(b))[:16])
}
