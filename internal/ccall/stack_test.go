//go:build linux || windows

package ccall

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"
)

// These tests call a function with an out-value, with the frame on the goroutine's stack, while the
// stack is moved in all possible ways. If a call uses an old address, the out-value stays unset.

// checkOut returns an error if a call of out8 with v went wrong.
func checkOut(v, out uintptr, result int32) error {
	if out != v || result != 0 {
		return fmt.Errorf("out-value %#x, result %d; want %#x, 0", out, result, v)
	}
	return nil
}

// outAtDepth calls fn after n small frames. For some n the stack becomes full at each of the steps
// after the pointers into the frame were taken.
//
//go:noinline
func outAtDepth(n int, fn, v uintptr) (out uintptr, result int32) {
	if n > 0 {
		return outAtDepth(n-1, fn, v)
	}
	return callOut(fn, v)
}

// outAfter takes pointers into the frame, calls between, and then calls fn. It reports whether the
// frame has moved.
//
//go:noinline
func outAfter(between func(), fn, v uintptr) (out uintptr, result int32, moved bool) {
	f := struct {
		fn, r uintptr
		out   unsafe.Pointer
		v     uintptr
		_     [4]uintptr
		slot  uintptr
	}{fn: fn, v: v}
	f.out = unsafe.Pointer(&f.slot)
	before := uintptr(unsafe.Pointer(&f))
	between()
	moved = uintptr(unsafe.Pointer(&f)) != before
	Call6(unsafe.Pointer(&f), Hot, nil)
	return f.slot, int32(f.r), moved
}

// framesOnStack says that this engine does not move frames to the heap.
const framesOnStack = Engine == "thunk" || Engine == "static"

// checkMoved fails the test if no stack has moved with a frame on it.
func checkMoved(t *testing.T, n int64) {
	t.Helper()
	if n == 0 && framesOnStack {
		t.Error("no frame has moved, so the test is void")
	}
	t.Logf("%d frames moved before the call", n)
}

func TestStackMoves(t *testing.T) {
	fn, slow := cfunc(t, "out8"), cfunc(t, "out_slow")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	stop := collect()
	defer stop()
	const goroutines = 64

	t.Run("calls in a row", func(t *testing.T) {
		n := rounds(4000)
		together(t, goroutines, func(g int) error {
			for i := range n {
				v := uintptr(g)<<32 | uintptr(i)
				out, r := callOut(fn, v)
				if err := checkOut(v, out, r); err != nil {
					return err
				}
			}
			return nil
		})
	})

	// A new goroutine has the smallest stack, so only its first call is useful.
	t.Run("first call of a goroutine", func(t *testing.T) {
		for i := range rounds(2000) {
			together(t, goroutines, func(g int) error {
				v := uintptr(g)<<32 | uintptr(i)
				out, r := outAtDepth((g+i)%200, fn, v)
				return checkOut(v, out, r)
			})
			if t.Failed() {
				return
			}
		}
	})

	t.Run("grown between pointer and call", func(t *testing.T) {
		var moves atomic.Int64
		for i := range rounds(200) {
			together(t, goroutines, func(g int) error {
				for depth := 8; depth <= 512; depth *= 4 {
					v := uintptr(g)<<32 | uintptr(i)<<8 | uintptr(depth)
					out, r, moved := outAfter(func() { grow(depth) }, fn, v)
					if moved {
						moves.Add(1)
					}
					if err := checkOut(v, out, r); err != nil {
						return err
					}
				}
				return nil
			})
			if t.Failed() {
				return
			}
		}
		checkMoved(t, moves.Load())
	})

	t.Run("shrunk between pointer and call", func(t *testing.T) {
		var moves atomic.Int64
		together(t, 8, func(g int) error {
			for i := range rounds(50) {
				grow(512)
				v := uintptr(g)<<32 | uintptr(i)
				out, r, moved := outAfter(runtime.GC, fn, v)
				if moved {
					moves.Add(1)
				}
				if err := checkOut(v, out, r); err != nil {
					return err
				}
			}
			return nil
		})
		checkMoved(t, moves.Load())
	})

	// The collector scans, and tries to shrink, the stack of a goroutine into whose frame C is
	// about to write.
	t.Run("collected during the call", func(t *testing.T) {
		n := rounds(200)
		together(t, goroutines, func(g int) error {
			rng := rand.New(rand.NewPCG(2, uint64(g)))
			for i := range n {
				grow(rng.IntN(128))
				v := uintptr(g)<<32 | uintptr(i)
				f := struct {
					fn, r uintptr
					out   unsafe.Pointer
					v, us uintptr
					_     [3]uintptr
					slot  uintptr
				}{fn: slow, v: v, us: uintptr(rng.IntN(300))}
				f.out = unsafe.Pointer(&f.slot)
				Call6(unsafe.Pointer(&f), Blocking, nil)
				if err := checkOut(v, f.slot, int32(f.r)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// backFrame is a frame for call_back of testdata/abi.c.
type backFrame struct {
	fn, r, back, v uintptr
	out            unsafe.Pointer
	_              [11]uintptr
	slot           uintptr
}

// TestCallback calls a function that calls back into Go, where the stack
// grows, with the frame on the heap. The calls in a scope find a step after it that fails.
func TestCallback(t *testing.T) {
	fn := cfunc(t, "call_back")
	scope := Scope{Push: cfunc(t, "query"), Context: 1, Pop: cfunc(t, "dirty")}
	back := callback(t, func(v uintptr) uintptr {
		grow(1000)
		return v + 1
	})
	stop := collect()
	defer stop()
	for name, call := range map[string]func(f unsafe.Pointer) error{
		"alone": func(f unsafe.Pointer) error {
			Call6(f, Setup, nil)
			return nil
		},
		"in a scope": func(f unsafe.Pointer) error {
			if r, failed := scope.Back14(f, Setup, nil); r == 0 || failed != Popping {
				return fmt.Errorf("the step after the call: result %#x, failed %v", r, failed)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var moves atomic.Int64
			for i := range rounds(100) {
				together(t, 16, func(g int) error {
					v := uintptr(g)<<32 | uintptr(i)
					f := Heap(&backFrame{fn: fn, back: back, v: v})
					f.out = unsafe.Pointer(&f.slot)
					var onStack byte
					before := uintptr(unsafe.Pointer(&onStack))
					err := call(unsafe.Pointer(f))
					if uintptr(unsafe.Pointer(&onStack)) != before {
						moves.Add(1)
					}
					if f.r != v+1 || f.slot != 2*v+1 {
						return fmt.Errorf("result %#x, out-value %#x; want %#x, %#x", f.r, f.slot, v+1, 2*v+1)
					}
					return err
				})
				if t.Failed() {
					return
				}
			}
			if moves.Load() == 0 {
				t.Error("no stack has moved during a callback, so the test is void")
			}
		})
	}
}
