package isa

import (
	"math"
	"math/bits"

	"github.com/purecu/purecu/internal/ptx/softfloat"
	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/ptx/vm/simd"
)

const (
	comparisons      = "cmp=eq|ne|lt|le|gt|ge|lo|ls|hi|hs"
	floatComparisons = "cmp=eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"
	compared         = "t=b16|b32|b64|u16|s16|u32|s32|u64|s64"
)

// compareRows are the instructions that compare and select.
func compareRows() []*Instruction {
	setp := func(v Variant) vm.Func { return setPredicate(v) }
	set := func(v Variant) vm.Func { return setRegister(v) }
	return []*Instruction{
		{Name: "setp", Modifiers: comparisons + " " + compared, Operands: "P| a b", Make: setp},
		{Name: "setp", Modifiers: floatComparisons + " ftz? t=f32|f64|f16|bf16", Operands: "P| a b", Make: setp},
		{Name: "setp", Modifiers: comparisons + " bool=and|or|xor " + compared, Operands: "P| a b C", Make: setp},
		{Name: "setp", Modifiers: floatComparisons + " bool=and|or|xor ftz? t=f32|f64|f16|bf16", Operands: "P| a b C",
			Make: setp},
		{Name: "setp", Modifiers: floatComparisons + " ftz? t=f16x2|bf16x2", Operands: "P| a b", Make: setPredicates},
		{Name: "setp", Modifiers: floatComparisons + " bool=and|or|xor ftz? t=f16x2|bf16x2", Operands: "P| a b C",
			Make: setPredicates},
		{Name: "set", Modifiers: comparisons + " to=u32|s32|f32 " + compared, Operands: "d:b32 a b", Make: set},
		{Name: "set", Modifiers: floatComparisons + " ftz? to=u32|s32|f32 t=f32|f64|f16", Operands: "d:b32 a b",
			Make: set},
		{Name: "set", Modifiers: comparisons + " bool=and|or|xor to=u32|s32|f32 " + compared, Operands: "d:b32 a b C",
			Make: set},
		{Name: "set", Modifiers: floatComparisons + " bool=and|or|xor ftz? to=u32|s32|f32 t=f32|f64|f16",
			Operands: "d:b32 a b C", Make: set},
		{Name: "set", Modifiers: floatComparisons + " ftz? to=f16|bf16|u16|s16 t=f16|bf16", Operands: "d:b16 a b",
			Make: set},
		{Name: "set", Modifiers: floatComparisons + " ftz? to=f16x2|bf16x2|u32|s32 t=f16x2|bf16x2", Operands: "d:b32 a b",
			Make: setPair},
		{Name: "selp", Modifiers: "t=b16|b32|b64|u16|s16|u32|s32|u64|s64|f32|f64", Operands: "d a b C",
			Make: func(Variant) vm.Func { return selp }},
		{Name: "slct", Modifiers: "t=b16|b32|b64|u16|s16|u32|s32|u64|s64|f32|f64 u=s32", Operands: "d a b c:u",
			Make: func(Variant) vm.Func {
				return three(func(a, b uint64, c int32) uint64 { return choice(c >= 0, a, b) })
			}},
		{Name: "slct", Modifiers: "ftz? t=b16|b32|b64|u16|s16|u32|s32|u64|s64|f32|f64 u=f32", Operands: "d a b c:u",
			Make: func(v Variant) vm.Func {
				ftz := v.Has("ftz")
				return three(func(a, b uint64, c uint32) uint64 {
					if ftz {
						c = uint32(softfloat.F32.Flush(uint64(c)))
					}
					return choice(c <= uint32(softfloat.F32.Inf()) || c == 1<<31, a, b)
				})
			}},
		{Name: "testp", Modifiers: "class=finite|infinite|number|notanumber|normal|subnormal t=f32|f64",
			Operands: "P a", Make: func(v Variant) vm.Func {
				f, class := softfloat.Of(v.T()), v.Get("class")
				mask := f.Sign() - 1
				is := test(func(a, _ uint64) bool { return classed(f, class, a&mask) })
				return func(w *vm.Warp, o *vm.Op) { with := *o; with.B = o.A; is(w, &with) }
			}},
	}
}

func choice(yes bool, a, b uint64) uint64 {
	if yes {
		return a
	}
	return b
}

// classed reports whether a number without its sign belongs to a class.
func classed(f softfloat.Format, class string, a uint64) bool {
	switch class {
	case "finite":
		return a < f.Inf()
	case "infinite":
		return a == f.Inf()
	case "number":
		return a <= f.Inf()
	case "notanumber":
		return a > f.Inf()
	case "normal":
		return (a == 0 || a>>f.Mantissa != 0) && a < f.Inf() // zero counts as normal, as on an H200
	}
	return a != 0 && a>>f.Mantissa == 0
}

// comparison returns the function that finds the lanes in which a comparison is true. It may also find lanes
// that are not active.
func comparison(v Variant) func(w *vm.Warp, o *vm.Op) uint32 {
	if f := vectorComparison(v.Get("cmp"), v.T()); f != nil && !v.Has("ftz") {
		return f
	}
	return scalarComparison(v)
}

// scalarComparison is comparison lane by lane.
func scalarComparison(v Variant) func(w *vm.Warp, o *vm.Op) uint32 {
	cmp := v.Get("cmp")
	compare := floatComparison(cmp)
	switch t := v.T(); t {
	case "f32":
		flush := v.Has("ftz")
		return lanesWhere(func(a, b uint32) bool {
			if flush {
				a, b = uint32(softfloat.F32.Flush(uint64(a))), uint32(softfloat.F32.Flush(uint64(b)))
			}
			return compare(float64(math.Float32frombits(a)), float64(math.Float32frombits(b)))
		})
	case "f64":
		return lanesWhere(func(a, b uint64) bool { return compare(math.Float64frombits(a), math.Float64frombits(b)) })
	case "f16", "bf16":
		f, flush := softfloat.Of(t), v.Has("ftz")
		wide := func(a uint16) float64 {
			n := uint64(a)
			if flush {
				n = f.Flush(n)
			}
			return math.Float64frombits(softfloat.F64.Convert(n, f, softfloat.RN))
		}
		return lanesWhere(func(a, b uint16) bool { return compare(wide(a), wide(b)) })
	case "b16", "u16":
		return compareIntegers[uint16](cmp)
	case "s16":
		return compareIntegers[int16](cmp)
	case "b32", "u32":
		return compareIntegers[uint32](cmp)
	case "s32":
		return compareIntegers[int32](cmp)
	case "b64", "u64":
		return compareIntegers[uint64](cmp)
	}
	return compareIntegers[int64](cmp)
}

// lanesWhere returns the function that finds the lanes in which f is true.
func lanesWhere[T integer](f func(a, b T) bool) func(w *vm.Warp, o *vm.Op) uint32 {
	return func(w *vm.Warp, o *vm.Op) uint32 { return truths(w, o, f) }
}

// compareIntegers returns the function for a comparison. The loops cover all lanes, as a comparison
// of an inactive lane does no harm.
func compareIntegers[T integer](cmp string) func(w *vm.Warp, o *vm.Op) uint32 {
	negate := uint32(0)
	swap := false
	switch cmp {
	case "eq", "ne":
		if cmp == "ne" {
			negate = vm.Full
		}
		return func(w *vm.Warp, o *vm.Op) (yes uint32) {
			a, b := &w.R[o.A], &w.R[o.B]
			for i := range a {
				if T(a[i]) == T(b[i]) {
					yes |= 1 << i
				}
			}
			return yes ^ negate
		}
	case "ge", "hs":
		negate = vm.Full
	case "gt", "hi":
		swap = true
	case "le", "ls":
		swap, negate = true, vm.Full
	}
	return func(w *vm.Warp, o *vm.Op) (yes uint32) {
		a, b := &w.R[o.A], &w.R[o.B]
		if swap {
			a, b = b, a
		}
		for i := range a {
			if T(a[i]) < T(b[i]) {
				yes |= 1 << i
			}
		}
		return yes ^ negate
	}
}

// floatComparison returns a comparison of floats.
func floatComparison(cmp string) func(a, b float64) bool {
	switch cmp {
	case "eq":
		return func(a, b float64) bool { return a == b }
	case "ne":
		return func(a, b float64) bool { return a < b || a > b }
	case "lt":
		return func(a, b float64) bool { return a < b }
	case "le":
		return func(a, b float64) bool { return a <= b }
	case "gt":
		return func(a, b float64) bool { return a > b }
	case "ge":
		return func(a, b float64) bool { return a >= b }
	case "equ":
		return func(a, b float64) bool { return !(a < b || a > b) }
	case "neu":
		return func(a, b float64) bool { return a != b }
	case "ltu":
		return func(a, b float64) bool { return !(a >= b) }
	case "leu":
		return func(a, b float64) bool { return !(a > b) }
	case "gtu":
		return func(a, b float64) bool { return !(a <= b) }
	case "geu":
		return func(a, b float64) bool { return !(a < b) }
	case "num":
		return func(a, b float64) bool { return a == a && b == b }
	}
	return func(a, b float64) bool { return a != a || b != b }
}

// combine combines the lanes of a comparison with those of a predicate.
func combine(how string, a, b uint32) uint32 {
	switch how {
	case "and":
		return a & b
	case "or":
		return a | b
	case "xor":
		return a ^ b
	}
	return a
}

// setPredicate returns the function of setp.
func setPredicate(v Variant) vm.Func {
	if !signless(v) {
		return nil
	}
	compare, how := comparison(v), v.Get("bool")
	return func(w *vm.Warp, o *vm.Op) {
		yes, c := compare(w, o), w.Truth(o.C)
		if o.D >= 0 {
			w.SetPredicate(o.D, combine(how, yes, c))
		}
		if o.E != 0 {
			w.SetPredicate(o.E-1, combine(how, ^yes, c))
		}
	}
}

// signless reports whether the type of a variant has its comparison.
func signless(v Variant) bool {
	if v.Has("ftz") && v.T() != "f32" && v.T() != "f16" {
		return false
	}
	switch t := v.T(); v.Get("cmp") {
	case "lo", "ls", "hi", "hs":
		return t[0] == 'u'
	case "lt", "le", "gt", "ge":
		return t[0] != 'b' || t == "bf16"
	}
	return true
}

// setRegister returns the function of set.
func setRegister(v Variant) vm.Func {
	to, t := v.Get("to"), v.T()
	if !signless(v) || to == "f32" && t == "f16" || to == "f16" && t == "bf16" || to == "bf16" && v.Has("ftz") {
		return nil
	}
	compare, how, yes := comparison(v), v.Get("bool"), uint64(1<<32-1)
	switch v.Get("to") {
	case "f32":
		yes = 0x3f800000
	case "f16":
		yes = 0x3c00
	case "bf16":
		yes = 0x3f80
	}
	return func(w *vm.Warp, o *vm.Op) {
		m, d := combine(how, compare(w, o), w.Truth(o.C)), &w.R[o.D]
		for i := range w.Each {
			if d[i] = 0; m>>i&1 != 0 {
				d[i] = yes
			}
		}
	}
}

// comparePairs returns the function that finds the lanes in which a comparison of the lower numbers of pairs is
// true, and that of the upper ones, or nil if the comparison does not exist.
func comparePairs(v Variant) func(w *vm.Warp, o *vm.Op) (low, high uint32) {
	single := v.with("t", v.T()[:len(v.T())-2])
	if !signless(single) {
		return nil
	}
	compare := comparison(single)
	return func(w *vm.Warp, o *vm.Op) (low, high uint32) {
		// The upper numbers are compared in registers of their own.
		upper := [2]vm.Column{w.R[o.A], w.R[o.B]}
		for i := range upper {
			for j := range upper[i] {
				upper[i][j] = upper[i][j] >> 16 & 0xffff
			}
		}
		other := *w
		other.R = upper[:]
		return compare(w, o), compare(&other, &vm.Op{A: 0, B: 1})
	}
}

// setPair returns the function of set for a pair of numbers.
func setPair(v Variant) vm.Func {
	to := v.Get("to")
	if to[0] == 'f' || to[0] == 'b' {
		if to != v.T() {
			return nil
		}
	}
	compare, yes := comparePairs(v), map[string]uint64{"f16x2": 0x3c00, "bf16x2": 0x3f80}[to]
	if compare == nil {
		return nil
	}
	if yes == 0 {
		yes = 0xffff
	}
	return func(w *vm.Warp, o *vm.Op) {
		low, high := compare(w, o)
		d := &w.R[o.D]
		for i := range w.Each {
			d[i] = uint64(low>>i&1)*yes | uint64(high>>i&1)*yes<<16
		}
	}
}

// setPredicates returns the function of setp for a pair of numbers. The second predicate is about the upper ones.
func setPredicates(v Variant) vm.Func {
	compare, how := comparePairs(v), v.Get("bool")
	if compare == nil {
		return nil
	}
	return func(w *vm.Warp, o *vm.Op) {
		low, high := compare(w, o)
		c := w.Truth(o.C)
		if o.D >= 0 {
			w.SetPredicate(o.D, combine(how, low, c))
		}
		if o.E != 0 {
			w.SetPredicate(o.E-1, combine(how, high, c))
		}
	}
}

// selp selects by a predicate.
func selp(w *vm.Warp, o *vm.Op) {
	d, a, b, c := &w.R[o.D], &w.R[o.A], &w.R[o.B], w.Truth(o.C)
	if simd.Choose(d, a, b, c, w.Active) {
		return
	}
	for m := w.Active; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		if c>>i&1 != 0 {
			d[i] = a[i]
		} else {
			d[i] = b[i]
		}
	}
}
