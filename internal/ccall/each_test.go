//go:build linux || windows

package ccall

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// item computes the result of each_item in testdata/abi.c.
func item(a, b, c uintptr) int32 { return int32((a^a>>32)*3 + (b^b>>32)*5 - (c^c>>32)*7) }

// TestEach calls a function for each of several numbers of items, with each
// combination of words that change and words that stay.
func TestEach(t *testing.T) {
	fn := cfunc(t, "each_item")
	const guard = 0x55555555
	for _, n := range []int{0, 1, 2, 64, 1000} {
		for mask := range 8 { // bit j: word j changes from item to item
			t.Run(fmt.Sprintf("%d/%03b", n, mask), func(t *testing.T) {
				words := make([][3]uintptr, n+1)
				for i := range words {
					words[i] = [3]uintptr{uintptr(i) << 33, uintptr(i)*7 + 1<<63, 1<<40 - uintptr(i)}
				}
				e := Each{Fn: fn, N: uintptr(n)}
				for j := range e.A {
					e.A[j].Base = unsafe.Pointer(&words[0][j])
					if mask>>j&1 != 0 {
						e.A[j].Stride = unsafe.Sizeof(words[0])
					}
				}
				// One more element on each side, which the calls must not change.
				got := slices.Repeat([]int32{guard}, n+2)
				e.Results = unsafe.Pointer(&got[1])
				before := e
				e.Call(Hot, nil)

				want := slices.Clone(got)
				for i := range n {
					var a [3]uintptr
					for j := range a {
						a[j] = words[mask>>j&1*i][j]
					}
					want[i+1] = item(a[0], a[1], a[2])
				}
				want[0], want[n+1] = guard, guard
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("results (-want +got):\n%s", diff)
				}
				if e != before {
					t.Errorf("the frame changed from %+v to %+v", before, e)
				}
			})
		}
	}
	t.Run("no items, nil pointers", func(t *testing.T) {
		e := Each{Fn: fn}
		e.Call(Hot, nil)
	})
}

// TestEachStride8 passes adjacent handles, such as the elements of a slice.
func TestEachStride8(t *testing.T) {
	fn := cfunc(t, "each_item")
	handles := []uintptr{5, 0, 1 << 63, 77}
	var zero uintptr
	var got [4]int32
	e := Each{Fn: fn, N: 4, Results: unsafe.Pointer(&got)}
	e.A[0].Base, e.A[0].Stride = unsafe.Pointer(&handles[0]), 8
	e.A[1].Base, e.A[2].Base = unsafe.Pointer(&zero), unsafe.Pointer(&zero)
	e.Call(Hot, nil)
	var want [4]int32
	for i, h := range handles {
		want[i] = item(h, 0, 0)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// TestEachOutValues calls a function with an out-value. The values are on the stack of the
// goroutine, if the engine allows it.
func TestEachOutValues(t *testing.T) {
	fn := cfunc(t, "out_many")
	stop := collect()
	defer stop()
	for range rounds(50) {
		together(t, 64, func(g int) error { return eachOut(fn, g%40, uintptr(g)<<40) })
	}
}

// eachOut makes 8 calls after the stack has grown by about depth frames.
//
//go:noinline
func eachOut(fn uintptr, depth int, v uintptr) error {
	if depth > 0 {
		return eachOut(fn, depth-1, v)
	}
	var out [8]uint64
	var to [8]unsafe.Pointer
	var b [8]uintptr
	var results [8]int32
	for i := range to {
		to[i], b[i] = unsafe.Pointer(&out[i]), uintptr(i)
	}
	e := Each{Fn: fn, N: 8, Results: unsafe.Pointer(&results)}
	e.A[0].Base, e.A[0].Stride = unsafe.Pointer(&to), 8
	e.A[1].Base = unsafe.Pointer(&v)
	e.A[2].Base, e.A[2].Stride = unsafe.Pointer(&b), 8
	e.Call(Hot, nil)
	for i, got := range out {
		if want := uint64(v) + uint64(i); got != want || results[i] != 0 {
			return fmt.Errorf("item %d: out-value %#x, result %d; want %#x, 0", i, got, results[i], want)
		}
	}
	return nil
}

// collect runs the garbage collector repeatedly until stop is called.
func collect() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			default:
				runtime.GC()
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
