package isa

import (
	"math/bits"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// integer is a type of integers.
type integer interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int8 | ~int16 | ~int32 | ~int64
}

// one returns the function of an instruction with one operand.
func one[R, T integer](f func(a T) R) vm.Func {
	return func(w *vm.Warp, o *vm.Op) {
		d, a := &w.R[o.D], &w.R[o.A]
		if w.Active == vm.Full {
			for i := range d {
				d[i] = uint64(f(T(a[i])))
			}
			return
		}
		for m := w.Active; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			d[i] = uint64(f(T(a[i])))
		}
	}
}

// two returns the function of an instruction with two operands.
func two[R, T, U integer](f func(a T, b U) R) vm.Func {
	return func(w *vm.Warp, o *vm.Op) {
		d, a, b := &w.R[o.D], &w.R[o.A], &w.R[o.B]
		if w.Active == vm.Full {
			for i := range d {
				d[i] = uint64(f(T(a[i]), U(b[i])))
			}
			return
		}
		for m := w.Active; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			d[i] = uint64(f(T(a[i]), U(b[i])))
		}
	}
}

// three returns the function of an instruction with three operands.
func three[R, T, U, V integer](f func(a T, b U, c V) R) vm.Func {
	return func(w *vm.Warp, o *vm.Op) {
		d, a, b, c := &w.R[o.D], &w.R[o.A], &w.R[o.B], &w.R[o.C]
		if w.Active == vm.Full {
			for i := range d {
				d[i] = uint64(f(T(a[i]), U(b[i]), V(c[i])))
			}
			return
		}
		for m := w.Active; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			d[i] = uint64(f(T(a[i]), U(b[i]), V(c[i])))
		}
	}
}

// four returns the function of an instruction with four operands.
func four[T integer](f func(a, b T, c, e uint32) T) vm.Func {
	return func(w *vm.Warp, o *vm.Op) {
		d, a, b, c, e := &w.R[o.D], &w.R[o.A], &w.R[o.B], &w.R[o.C], &w.R[o.E]
		for m := w.Active; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			d[i] = uint64(f(T(a[i]), T(b[i]), uint32(c[i]), uint32(e[i])))
		}
	}
}

// fast returns a function that executes full for all lanes, and f for some of them.
func fast(full func(d, a, b *vm.Column), f vm.Func) vm.Func {
	return func(w *vm.Warp, o *vm.Op) {
		if w.Active == vm.Full {
			full(&w.R[o.D], &w.R[o.A], &w.R[o.B])
			return
		}
		f(w, o)
	}
}

// fast3 is fast for three operands.
func fast3(full func(d, a, b, c *vm.Column), f vm.Func) vm.Func {
	return func(w *vm.Warp, o *vm.Op) {
		if w.Active == vm.Full {
			full(&w.R[o.D], &w.R[o.A], &w.R[o.B], &w.R[o.C])
			return
		}
		f(w, o)
	}
}

// test returns the function of an instruction that writes a predicate.
func test[T, U integer](f func(a T, b U) bool) vm.Func {
	return func(w *vm.Warp, o *vm.Op) { w.SetPredicate(o.D, truths(w, o, f)) }
}

// truths returns the lanes in which f is true.
func truths[T, U integer](w *vm.Warp, o *vm.Op, f func(a T, b U) bool) (yes uint32) {
	a, b := &w.R[o.A], &w.R[o.B]
	for m := w.Active; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		if f(T(a[i]), U(b[i])) {
			yes |= 1 << i
		}
	}
	return yes
}

// sizeOf returns the number of bits of a type.
func sizeOf(t string) int {
	switch t[len(t)-1] {
	case '8':
		return 8
	case '6':
		return 16
	case '2':
		return 32
	}
	return 64
}

// byType returns the function for the type of a variant, of those for types of integers.
func byType(v Variant, u16, s16, u32, s32, u64, s64 vm.Func) vm.Func {
	switch v.T() {
	case "u16", "b16":
		return u16
	case "s16":
		return s16
	case "u32", "b32":
		return u32
	case "s32":
		return s32
	case "u64", "b64":
		return u64
	}
	return s64
}

// bySize returns the function for the size of a variant's type.
func bySize(v Variant, b16, b32, b64 vm.Func) vm.Func {
	return byType(v, b16, b16, b32, b32, b64, b64)
}
