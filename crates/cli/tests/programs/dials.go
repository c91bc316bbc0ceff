// Goroutines that talk to each other by sockets, linked with C, or a library for C: Go's own calls are made on small stacks.
package main

// #include <stdlib.h>
import "C"

import (
	"fmt"
	"net"
	"sync"
)

func answer(c net.Conn) {
	b := make([]byte, 64)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		c.Write(b[:n])
	}
}

//export dial_all
func dial_all() {
	C.free(nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	var w sync.WaitGroup
	for i := 0; i < 200; i++ {
		w.Add(1)
		go func() {
			defer w.Done()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				panic(err)
			}
			b := make([]byte, 64)
			for k := 0; k < 50; k++ {
				c.Write([]byte("hello"))
				c.Read(b)
			}
			c.Close()
		}()
	}
	w.Wait()
	fmt.Println("all have dialled")
}

func main() {
	dial_all()
}
