//go:build linux || windows

package ccall

import (
	"testing"
	"unsafe"
)

// TestAllocations checks that the thunks allocate nothing, except for frames that use Heap. Other
// engines allocate: for them only the results are checked.
func TestAllocations(t *testing.T) {
	query, out8, outMany := cfunc(t, "query"), cfunc(t, "out8"), cfunc(t, "out_many")
	create, pop := cfunc(t, "state_create"), cfunc(t, "state_pop")
	scope := Scope{
		Exchange: cfunc(t, "quick_exchange"), Push: cfunc(t, "quick_push"), Pop: cfunc(t, "quick_pop"),
		Context: 5, Mode: 1,
	}
	failed := 0
	check := func(ok bool) {
		if !ok {
			failed++
		}
	}
	for _, test := range []struct {
		name string
		want float64
		call func()
	}{
		{"Call6", 0, func() {
			f := struct {
				fn, r, h uintptr
				_        [5]uintptr
			}{fn: query}
			Call6(unsafe.Pointer(&f), Hot, nil)
			check(int32(f.r) == 1)
		}},
		{"Call6 with out-value", 0, func() {
			out, r := callOut(out8, 7)
			check(out == 7 && r == 0)
		}},
		{"Call14", 0, func() {
			f := Frame14{Head: Head{Fn: query}}
			Call14(unsafe.Pointer(&f), Hot, nil)
			check(int32(f.R) == 1)
		}},
		{"Call14 with out-value", 0, func() {
			f := struct {
				fn, r uintptr
				out   unsafe.Pointer
				v     uintptr
				_     [12]uintptr
				slot  uintptr
			}{fn: out8, v: 7}
			f.out = unsafe.Pointer(&f.slot)
			Call14(unsafe.Pointer(&f), Hot, nil)
			check(f.slot == 7)
		}},
		{"Each", 0, func() {
			var h [4]uintptr
			var results [4]int32
			e := Each{Fn: query, N: 4, Results: unsafe.Pointer(&results)}
			for i := range e.A {
				e.A[i].Base, e.A[i].Stride = unsafe.Pointer(&h), 8
			}
			e.Call(Hot, nil)
			check(results == [4]int32{1, 1, 1, 1})
		}},
		{"Each with out-values", 0, func() { check(eachOut(outMany, 0, 7) == nil) }},
		{"Scope.Call6", 0, func() {
			f := Frame6{Head: Head{Fn: query}}
			r, step := scope.Call6(unsafe.Pointer(&f), Hot, nil)
			made := step.Made()
			check(r == 0 && made && int32(f.R) == 1)
		}},
		{"Scope.Call6 with out-value", 0, func() {
			f := struct {
				fn, r uintptr
				out   unsafe.Pointer
				ctx   uintptr
				_     [4]uintptr
				slot  uintptr
			}{fn: create, ctx: 9}
			f.out = unsafe.Pointer(&f.slot)
			s := Scope{Pop: pop}
			r, step := s.Call6(unsafe.Pointer(&f), Setup, nil)
			made := step.Made()
			check(r == 0 && made && f.slot == 9)
		}},
		{"Scope.Call14", 0, func() {
			f := Frame14{Head: Head{Fn: query}}
			r, step := scope.Call14(unsafe.Pointer(&f), Hot, nil)
			made := step.Made()
			check(r == 0 && made && int32(f.R) == 1)
		}},
		{"Scope.Each", 0, func() {
			var h [2]uintptr
			var results [2]int32
			e := Each{Fn: query, N: 2, Results: unsafe.Pointer(&results)}
			for i := range e.A {
				e.A[i].Base, e.A[i].Stride = unsafe.Pointer(&h), 8
			}
			r, step := scope.Each(&e, Hot, nil)
			made := step.Made()
			check(r == 0 && made && results == [2]int32{1, 1})
		}},
		{"Heap", 1, func() {
			f := Heap(&Frame6{Head: Head{Fn: query}})
			Call6(unsafe.Pointer(f), Setup, nil)
			check(int32(f.R) == 1)
		}},
		{"Heap with out-value", 1, func() {
			f := Heap(&struct {
				fn, r uintptr
				out   unsafe.Pointer
				v     uintptr
				_     [4]uintptr
				slot  uintptr
			}{fn: out8, v: 7})
			f.out = unsafe.Pointer(&f.slot)
			Call6(unsafe.Pointer(f), Setup, nil)
			check(f.slot == 7)
		}},
	} {
		failed = 0
		got := testing.AllocsPerRun(100, test.call)
		if failed != 0 {
			t.Errorf("%s: %d wrong results", test.name, failed)
		}
		if !framesOnStack || raceEnabled {
			continue
		}
		if got != test.want {
			t.Errorf("%s: %v allocations, want %v", test.name, got, test.want)
		}
	}
}
