//go:build linux || windows

package ccall

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// fold is the hash of the recorders in testdata/abi.c.
func fold(words []uint64) uint64 {
	h := uint64(1469598103934665603)
	for _, w := range words {
		h = (h ^ w) * 1099511628211
		h ^= h >> 29
	}
	return h
}

// seen returns the arguments of the last call of a recorder.
func seen(t *testing.T, n int) []uint64 {
	t.Helper()
	f := struct {
		fn, r uintptr
		to    unsafe.Pointer
		_     [5]uintptr
		words [16]uint64
	}{fn: cfunc(t, "words_seen")}
	f.to = unsafe.Pointer(&f.words)
	Call6(unsafe.Pointer(&f), Hot, nil)
	return f.words[:n:n]
}

// checkSeen compares the result and the arguments of the recorder with want.
func checkSeen(t *testing.T, hash uintptr, want []uint64) {
	t.Helper()
	if diff := cmp.Diff(want, seen(t, len(want))); diff != "" {
		t.Errorf("C received other words (-want +got):\n%s", diff)
	}
	if uint64(hash) != fold(want) {
		t.Errorf("the result register is %#x, want %#x", hash, fold(want))
	}
}

// TestWords checks the position and the width of every argument, for each number of arguments.
func TestWords(t *testing.T) {
	// All halves of the words are different.
	var words [14]uintptr
	for i := range words {
		words[i] = uintptr(0x8000_0000_8000_0000 | (0xa1b2c3+uint64(i)*0x010203)<<32 | 0x5d6e7f - uint64(i)*0x030107)
	}
	for n := range 15 {
		fn := cfunc(t, fmt.Sprint("words", n))
		want := make([]uint64, n)
		for i := range want {
			want[i] = uint64(words[i])
		}
		if n <= 6 {
			t.Run(fmt.Sprint("Call6/", n), func(t *testing.T) {
				// The words behind the arguments are ignored.
				checkSeen(t, call6(fn, words[:6]...), want)
			})
		}
		t.Run(fmt.Sprint("Call14/", n), func(t *testing.T) {
			checkSeen(t, call14(fn, words[:]...), want)
		})
	}
}

// TestWide checks all of the sixteen arguments of a wide frame, and floating-point numbers, inside of a
// scope and outside. An engine that cannot make the call says so.
func TestWide(t *testing.T) {
	var f FrameWide
	for i := range f.A {
		f.A[i] = 0x8000_0001_8000_0000 + uintptr(i)*0x010203
	}
	many := f
	many.Fn = cfunc(t, "words16")
	numbers := f
	numbers.Fn = cfunc(t, "floats")
	numbers.F = [2]uintptr{uintptr(math.Float32bits(0.1)), uintptr(math.Float32bits(-3e38))}
	numbers.A[2], numbers.A[3] = numbers.F[0], numbers.F[1]
	for name, call := range map[string]func(f *FrameWide) bool{
		"alone": func(f *FrameWide) bool { return CallWide(unsafe.Pointer(f), Blocking, nil) },
		"in a scope": func(f *FrameWide) bool {
			_, failed := Scope{}.CallWide(unsafe.Pointer(f), Hot, nil)
			return failed.Made()
		},
	} {
		for function, test := range map[string]struct {
			f FrameWide
			n int
		}{"words": {many, 16}, "numbers": {numbers, 4}} {
			t.Run(name+"/"+function, func(t *testing.T) {
				got, want := test.f, make([]uint64, test.n)
				for i := range want {
					want[i] = uint64(test.f.A[i])
				}
				made := call(&got)
				if Engine == "purego" {
					if int32(got.R) != 801 {
						t.Errorf("made: %v, result %d, want 801", made, int32(got.R))
					}
					return
				}
				checkSeen(t, got.R, want)
				if got.R = 0; got != test.f {
					t.Errorf("the frame changed: %+v, before %+v", got, test.f)
				}
			})
		}
	}
}

// TestFramesUntouched checks that a call writes only the result word of its frame. The C function
// overwrites all that it may.
func TestFramesUntouched(t *testing.T) {
	var want Frame14
	for i := range want.A {
		want.A[i] = uintptr(i+1) << 40
	}
	want.A[0] = 41
	for _, test := range []struct {
		name, fn string
		call     func(f *Frame14)
	}{
		{"Call6", "clobber", func(f *Frame14) { Call6(unsafe.Pointer(f), Hot, nil) }},
		{"Call14", "clobber14", func(f *Frame14) { Call14(unsafe.Pointer(f), Hot, nil) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := want
			want.Fn = cfunc(t, test.fn)
			got := want
			test.call(&got)
			if r := int32(got.R); r != 42 {
				t.Errorf("result %d, want 42", r)
			}
			got.R = 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the frame changed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNarrow checks that C reads parameters of less than 64 bits from the low end of their words.
func TestNarrow(t *testing.T) {
	const garbage = uintptr(0x7b7b7b7b_00000000)
	// word is how callers pass v: extended to 32 bits.
	word := func(v int64) uintptr { return garbage | uintptr(uint32(v)) }
	for _, test := range []struct {
		name, fn string
		values   []int64
	}{
		{"6 negative", "narrow6", []int64{-1, 0xfe, -30000, 0xfedc, math.MinInt32, 0xfedcba98}},
		{"6 positive", "narrow6", []int64{127, 0, 32767, 1, math.MaxInt32, 7}},
		{"14 negative", "narrow14", []int64{-1, 0xfffffffe, -3, 0x80000000, -5, 6, -7, 0xfffffff8,
			-9, math.MinInt32, -32768, 65535, -128, 255}},
		{"14 positive", "narrow14", []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}},
	} {
		t.Run(test.name, func(t *testing.T) {
			fn := cfunc(t, test.fn)
			var words []uintptr
			var want []uint64
			for _, v := range test.values {
				words = append(words, word(v))
				want = append(want, uint64(v))
			}
			if len(words) <= 6 {
				checkSeen(t, call6(fn, words...), want)
			}
			checkSeen(t, call14(fn, words...), want)
		})
	}
}

// TestPair passes a struct of 8 bytes by value: one word.
func TestPair(t *testing.T) {
	fn := cfunc(t, "pair_between")
	a, b := uintptr(0x1111111122222222), uintptr(0x3333333344444444)
	pair := uintptr(0xfffffff6_80000005) // x is the low half
	want := []uint64{uint64(a), 0x80000005, 0xfffffff6, uint64(b)}
	t.Run("Call6", func(t *testing.T) { checkSeen(t, call6(fn, a, pair, b), want) })
	t.Run("Call14", func(t *testing.T) { checkSeen(t, call14(fn, a, pair, b), want) })
}

// TestHandle passes a struct of 64 bytes by value, like an IPC handle, after and between other
// arguments.
func TestHandle(t *testing.T) {
	var h [8]uint64
	for i := range h {
		h[i] = 0xf0e1d2c300000000 + uint64(i)<<40 + uint64(i)
	}
	t.Run("after", func(t *testing.T) {
		r, out := handleBetween(cfunc(t, "handle_after"), h, 0)
		checkSeen(t, r, h[:])
		if out != h[7] {
			t.Errorf("out-value %#x, want %#x", out, h[7])
		}
	})
	t.Run("between", func(t *testing.T) {
		r, out := handleBetween(cfunc(t, "handle_between"), h, 0x7b7b7b7b_80000001)
		checkSeen(t, r, append(h[:8:8], 0x80000001))
		if out != h[0] {
			t.Errorf("out-value %#x, want %#x", out, h[0])
		}
	})
	t.Run("among", func(t *testing.T) {
		r := handleAmong(cfunc(t, "handle_among"), 1<<60, 2<<60, h, 3<<60, 4<<60)
		checkSeen(t, r, append(append([]uint64{1 << 60, 2 << 60}, h[:]...), 3<<60, 4<<60))
	})
}

// handleBetween calls fn(&out, h, flags).
func handleBetween(fn uintptr, h [8]uint64, flags uintptr) (r uintptr, out uint64) {
	if StructsOnStack {
		f := struct {
			fn, r  uintptr
			out    unsafe.Pointer
			flags  uintptr
			_      [4]uintptr
			handle [8]uint64
			slot   uint64
		}{fn: fn, flags: flags, handle: h}
		f.out = unsafe.Pointer(&f.slot)
		Call14(unsafe.Pointer(&f), Setup, nil)
		return f.r, f.slot
	}
	f := struct {
		fn, r  uintptr
		out    unsafe.Pointer
		handle unsafe.Pointer
		flags  uintptr
		_      [3]uintptr
		copied [8]uint64
		slot   uint64
	}{fn: fn, flags: flags, copied: h}
	f.out, f.handle = unsafe.Pointer(&f.slot), unsafe.Pointer(&f.copied)
	Call6(unsafe.Pointer(&f), Setup, nil)
	return f.r, f.slot
}

// handleAmong calls fn(a, b, h, c, d).
func handleAmong(fn, a, b uintptr, h [8]uint64, c, d uintptr) (r uintptr) {
	if StructsOnStack {
		f := struct {
			fn, r      uintptr
			a, b, c, d uintptr
			_          [2]uintptr
			handle     [8]uint64
		}{fn: fn, a: a, b: b, c: c, d: d, handle: h}
		Call14(unsafe.Pointer(&f), Setup, nil)
		return f.r
	}
	f := struct {
		fn, r  uintptr
		a, b   uintptr
		handle unsafe.Pointer
		c, d   uintptr
		_      uintptr
		copied [8]uint64
	}{fn: fn, a: a, b: b, c: c, d: d, copied: h}
	f.handle = unsafe.Pointer(&f.copied)
	Call6(unsafe.Pointer(&f), Setup, nil)
	return f.r
}

// TestDirtyResult checks that a result register can have garbage in its upper half, which is why
// results are converted to int32.
func TestDirtyResult(t *testing.T) {
	fn := cfunc(t, "dirty")
	for _, v := range []int32{0, 1, -1, 600, math.MinInt32, math.MaxInt32} {
		for _, call := range []func(uintptr, ...uintptr) uintptr{call6, call14} {
			r := call(fn, uintptr(v))
			if r>>32 != 0xdeadbeef {
				t.Errorf("result register %#x: its upper half is not what C left there", r)
			}
			if int32(r) != v {
				t.Errorf("result %d, want %d", int32(r), v)
			}
		}
	}
}

// TestOutValues lets C write to the frame on the goroutine's stack.
func TestOutValues(t *testing.T) {
	const guard = 0x55555555
	t.Run("4 bytes", func(t *testing.T) {
		f := struct {
			fn, r         uintptr
			out           unsafe.Pointer
			v             uintptr
			_             [4]uintptr
			below         uint32
			slot          uint32
			above, spread uint32
		}{fn: cfunc(t, "out4"), v: 0xfedcba98, below: guard, above: guard}
		f.out = unsafe.Pointer(&f.slot)
		Call6(unsafe.Pointer(&f), Hot, nil)
		if got, want := [3]uint32{f.below, f.slot, f.above}, [3]uint32{guard, 0xfedcba98, guard}; got != want {
			t.Errorf("out-value and its neighbours are %#x, want %#x", got, want)
		}
	})
	t.Run("8 bytes", func(t *testing.T) {
		for _, want := range []uintptr{0, 1, 0x8000000000000001, math.MaxUint} {
			got, r := callOut(cfunc(t, "out8"), want)
			if got != want || r != 0 {
				t.Errorf("got %#x and result %d, want %#x and 0", got, r, want)
			}
		}
	})
	t.Run("float", func(t *testing.T) {
		f := struct {
			fn, r uintptr
			out   unsafe.Pointer
			v     uintptr
			_     [4]uintptr
			slot  float32
		}{fn: cfunc(t, "out_float"), v: 1<<32 - 1500}
		f.out = unsafe.Pointer(&f.slot)
		Call6(unsafe.Pointer(&f), Hot, nil)
		if f.slot != -1.5 {
			t.Errorf("got %v, want -1.5", f.slot)
		}
	})
	t.Run("14 words", func(t *testing.T) {
		f := struct {
			fn, r uintptr
			out   unsafe.Pointer
			v     uintptr
			_     [12]uintptr
			slot  uintptr
		}{fn: cfunc(t, "out8"), v: 1 << 50}
		f.out = unsafe.Pointer(&f.slot)
		Call14(unsafe.Pointer(&f), Hot, nil)
		if f.slot != 1<<50 {
			t.Errorf("got %#x, want %#x", f.slot, 1<<50)
		}
	})
}

// TestDeepC calls a function that needs more stack than a goroutine has, from goroutines with a
// nearly full stack.
func TestDeepC(t *testing.T) {
	fn := cfunc(t, "out_deep")
	together(t, 64, func(g int) error {
		if got, r := callOut(fn, uintptr(g)<<33|7); got != uintptr(g)<<33|7 || r != 0 {
			return fmt.Errorf("got %#x and result %d", got, r)
		}
		return nil
	})
}

// TestStackPointer checks the alignment of the stack pointer when a C function is called, in each
// kind of call.
func TestStackPointer(t *testing.T) {
	look, look14, item := cfunc(t, "look"), cfunc(t, "look14"), cfunc(t, "each_item")
	scope := Scope{Exchange: cfunc(t, "state_exchange"), Push: cfunc(t, "state_push"), Pop: cfunc(t, "state_pop"), Context: 5}
	create := Scope{Pop: cfunc(t, "state_pop")}

	var word uintptr
	var results [2]int32
	each := func() *Each {
		e := &Each{Fn: item, N: 2, Results: unsafe.Pointer(&results)}
		for i := range e.A {
			e.A[i].Base = unsafe.Pointer(&word)
		}
		return e
	}
	frame := func(fn uintptr) unsafe.Pointer { return unsafe.Pointer(&Frame14{Head: Head{Fn: fn}}) }
	for _, test := range []struct {
		name string
		call func()
	}{
		{"Call6", func() { Call6(frame(look), Hot, nil) }},
		{"Call14", func() { Call14(frame(look14), Hot, nil) }},
		{"Each", func() { each().Call(Hot, nil) }},
		{"Scope.Call6", func() { scope.Call6(frame(look), Hot, nil) }},
		{"Scope.Call14", func() { scope.Call14(frame(look14), Hot, nil) }},
		{"Scope.Each", func() { scope.Each(each(), Hot, nil) }},
		{"Scope.Call6 that creates", func() { create.Call6(frame(look), Hot, nil) }},
	} {
		before := int32(call6(cfunc(t, "misaligned_calls")))
		test.call()
		if n := int32(call6(cfunc(t, "misaligned_calls"))) - before; n != 0 {
			t.Errorf("%s: %d C functions were entered with a stack pointer that is not aligned", test.name, n)
		}
	}
}
