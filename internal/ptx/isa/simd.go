package isa

import (
	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/ptx/vm/simd"
)

// vectorComparison returns the function that finds the lanes in which a comparison is true with vector instructions, or
// nil if there is none. It may also find lanes that are not active.
func vectorComparison(cmp, t string) func(w *vm.Warp, o *vm.Op) uint32 {
	equal, less := simd.ComparisonOf("eq", t), simd.ComparisonOf("lt", t)
	lessEqual, nan := simd.ComparisonOf("le", t), simd.ComparisonOf("nan", t)
	if equal == nil || less == nil && cmp != "eq" && cmp != "ne" {
		return nil
	}
	if lessEqual == nil { // the numbers are integers
		nan = func(_, _ *vm.Column) uint32 { return 0 }
		lessEqual = func(a, b *vm.Column) uint32 { return ^less(b, a) }
	}
	var is simd.Comparison
	switch cmp {
	case "eq":
		is = equal
	case "ne":
		is = func(a, b *vm.Column) uint32 { return ^(equal(a, b) | nan(a, b)) }
	case "lt", "lo":
		is = less
	case "le", "ls":
		is = lessEqual
	case "gt", "hi":
		is = func(a, b *vm.Column) uint32 { return less(b, a) }
	case "ge", "hs":
		is = func(a, b *vm.Column) uint32 { return lessEqual(b, a) }
	case "equ":
		is = func(a, b *vm.Column) uint32 { return equal(a, b) | nan(a, b) }
	case "neu":
		is = func(a, b *vm.Column) uint32 { return ^equal(a, b) }
	case "ltu":
		is = func(a, b *vm.Column) uint32 { return ^lessEqual(b, a) }
	case "leu":
		is = func(a, b *vm.Column) uint32 { return ^less(b, a) }
	case "gtu":
		is = func(a, b *vm.Column) uint32 { return ^lessEqual(a, b) }
	case "geu":
		is = func(a, b *vm.Column) uint32 { return ^less(a, b) }
	case "num":
		is = func(a, b *vm.Column) uint32 { return ^nan(a, b) }
	case "nan":
		is = nan
	}
	return func(w *vm.Warp, o *vm.Op) uint32 { return is(&w.R[o.A], &w.R[o.B]) }
}
