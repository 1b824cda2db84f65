package ccall

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

// callC calls a function through C.
func callC(t *testing.T, n Func) {
	t.Helper()
	addr, err := Trampoline()
	if err != nil {
		t.Fatal(err)
	}
	f := Heap(&Frame6{Head: Head{Fn: addr}, A: [6]uintptr{uintptr(n)}})
	Call6(unsafe.Pointer(f), Blocking, nil)
}

// TestFunc makes C call functions that return, end their goroutine, grow the stack, or were
// dropped.
func TestFunc(t *testing.T) {
	called := 0
	n := NewFunc(func() { called++ })
	for range 3 {
		callC(t, n)
	}
	n.Call()
	if called != 4 || Funcs() != 1 {
		t.Errorf("it was called %d times, and %d functions are named", called, Funcs())
	}
	n.Drop()
	n.Drop()
	callC(t, n)
	callC(t, 0)
	if called != 4 || Funcs() != 0 {
		t.Errorf("it was called %d times, and %d functions are named at the end", called, Funcs())
	}

	var grow func(n int) int
	grow = func(n int) int {
		var b [256]byte
		if n == 0 {
			return int(b[0])
		}
		return grow(n-1) + int(b[n%len(b)])
	}
	for _, f := range []func(){runtime.Goexit, runtime.GC, func() { grow(10_000) }, runtime.LockOSThread} {
		n := NewFunc(func() { called++; f() })
		callC(t, n)
		n.Drop()
	}
	// A function that drops itself.
	n = NewFunc(func() { called++; n.Drop() })
	callC(t, n)
	callC(t, n)
	if called != 9 || Funcs() != 0 {
		t.Errorf("%d functions were called, and %d are named", called, Funcs())
	}
}

// TestFuncsConcurrently calls functions from many threads.
func TestFuncsConcurrently(t *testing.T) {
	var called atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				n := NewFunc(func() { called.Add(1) })
				callC(t, n)
				n.Drop()
			}
		})
	}
	wg.Wait()
	if called.Load() != 1600 || Funcs() != 0 {
		t.Errorf("%d functions were called, and %d are named", called.Load(), Funcs())
	}
}
