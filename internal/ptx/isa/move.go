package isa

import (
	"math/bits"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// moveRows are the instructions that move values between registers.
func moveRows() []*Instruction {
	return []*Instruction{
		{Name: "mov", Modifiers: "t=b16|b32|b64|u16|s16|u32|s32|u64|s64|f32|f64", Operands: "d a",
			Make:    func(Variant) vm.Func { return Move },
			Special: "mov"},
		{Name: "mov", Modifiers: "vec=v2|v4 t=b16|b32|b64|u16|s16|u32|s32|u64|s64|f32|f64", Operands: "d a",
			Make: func(Variant) vm.Func { return Move }, Special: "mov"},
		{Name: "mov", Modifiers: "t=b128", Operands: "d a", Make: func(Variant) vm.Func { return Move },
			Special: "mov"},
		{Name: "mov", Modifiers: "pred", Operands: "P A", Make: func(Variant) vm.Func {
			return func(w *vm.Warp, o *vm.Op) { w.SetPredicate(o.D, w.Truth(o.A)) }
		}},
		{Name: "cvta", Modifiers: "space=global|const|shared|local|param t=u64", Operands: "d a",
			Make: func(v Variant) vm.Func {
				return toGeneric(v.Get("space"), true)
			}},
		{Name: "cvta", Modifiers: "to space=global|const|shared|local|param t=u64", Operands: "d a",
			Make: func(v Variant) vm.Func {
				return toGeneric(v.Get("space"), false)
			}},
		{Name: "cvta", Modifiers: "space=shared::cta|shared::cluster|param::entry t=u64", Operands: "d a",
			Make: func(v Variant) vm.Func {
				return toGeneric(v.Get("space"), true)
			}},
		{Name: "cvta", Modifiers: "to space=shared::cta|shared::cluster|param::entry t=u64", Operands: "d a",
			Make: func(v Variant) vm.Func {
				return toGeneric(v.Get("space"), false)
			}},
		{Name: "isspacep", Modifiers: "space=param::entry", Operands: "P a:u64", Make: func(Variant) vm.Func {
			is := test(func(a, _ uint64) bool { return a&^(vm.WindowSize-1) == vm.ParamWindow })
			return func(w *vm.Warp, o *vm.Op) { with := *o; with.B = o.A; is(w, &with) }
		}},
		{Name: "isspacep", Modifiers: "space=global|const|shared|shared::cta|shared::cluster|local|param",
			Operands: "P a:u64",
			Make: func(v Variant) vm.Func {
				space, window := v.Get("space"), windowOf(v.Get("space"))
				is := test(func(a, _ uint64) bool {
					in, constant := a&^(vm.WindowSize-1), a-vm.ConstWindow < vm.ConstSize
					switch space {
					case "global": // parameters are there, too
						return in != vm.SharedWindow && in != vm.LocalWindow && !constant
					case "const":
						return constant
					}
					return in == window
				})
				return func(w *vm.Warp, o *vm.Op) { with := *o; with.B = o.A; is(w, &with) }
			}},
		// The translation uses these for special registers whose values change.
		{Name: "%clock", Modifiers: "", Operands: "d:u32",
			Make: func(Variant) vm.Func { return uniform(func(w *vm.Warp) uint64 { return w.Cycles() }) }},
		{Name: "%clock64", Modifiers: "", Operands: "d:u64",
			Make: func(Variant) vm.Func { return uniform(func(w *vm.Warp) uint64 { return w.Cycles() }) }},
		{Name: "%clock_hi", Modifiers: "", Operands: "d:u32",
			Make: func(Variant) vm.Func { return uniform(func(w *vm.Warp) uint64 { return w.Cycles() >> 32 }) }},
		{Name: "%globaltimer", Modifiers: "", Operands: "d:u64",
			Make: func(Variant) vm.Func { return uniform(func(w *vm.Warp) uint64 { return uint64(w.Time()) }) }},
		{Name: "%globaltimer_lo", Modifiers: "", Operands: "d:u32",
			Make: func(Variant) vm.Func { return uniform(func(w *vm.Warp) uint64 { return uint64(w.Time()) }) }},
		{Name: "%globaltimer_hi", Modifiers: "", Operands: "d:u32",
			Make: func(Variant) vm.Func { return uniform(func(w *vm.Warp) uint64 { return uint64(w.Time()) >> 32 }) }},
	}
}

// Move copies a register.
func Move(w *vm.Warp, o *vm.Op) {
	d, a := &w.R[o.D], &w.R[o.A]
	if w.Active == vm.Full {
		*d = *a
		return
	}
	for m := w.Active; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		d[i] = a[i]
	}
}

// Set sets a register to Imm.
func Set(w *vm.Warp, o *vm.Op) {
	d := &w.R[o.D]
	for i := range w.Each {
		d[i] = uint64(o.Imm)
	}
}

// Pack joins the registers of a vector to one register. Imm is the number of bits of an element.
func Pack(w *vm.Warp, o *vm.Op) {
	var v vm.Column
	mask := uint64(1)<<o.Imm - 1
	for j, c := range o.X.D[:o.X.N] {
		a := &w.R[c]
		for i := range w.Each {
			v[i] |= a[i] & mask << (int64(j) * o.Imm)
		}
	}
	d := &w.R[o.D]
	for i := range w.Each {
		d[i] = v[i]
	}
}

// Unpack splits a register into the registers of a vector.
func Unpack(w *vm.Warp, o *vm.Op) {
	a := w.R[o.A]
	for j, c := range o.X.D[:o.X.N] {
		if c < 0 {
			continue
		}
		d := &w.R[c]
		for i := range w.Each {
			d[i] = a[i] >> (int64(j) * o.Imm)
		}
	}
}

// windowOf returns the window of a state space, or 0 if the space is a part of the generic one.
func windowOf(space string) uint64 {
	switch space {
	case "shared", "shared::cta", "shared::cluster":
		return vm.SharedWindow
	case "local":
		return vm.LocalWindow
	case "param", "param::entry":
		return vm.ParamWindow
	case "const":
		return vm.ConstWindow
	}
	return 0
}

// toGeneric returns the function that makes an address generic, or one of a state space.
func toGeneric(space string, generic bool) vm.Func {
	window := windowOf(space)
	switch {
	case window == 0:
		return Move
	case space == "local":
		return func(w *vm.Warp, o *vm.Op) {
			d, a, n := &w.R[o.D], &w.R[o.A], uint64(w.LocalSize())
			for i := range w.Each {
				if generic {
					d[i] = a[i] + window + uint64(i)*n
				} else {
					d[i] = a[i] - window - uint64(i)*n
				}
			}
		}
	case generic:
		return one(func(a uint64) uint64 { return a + window })
	}
	return one(func(a uint64) uint64 { return a - window })
}

// uniform returns the function that writes one value in all lanes.
func uniform(f func(w *vm.Warp) uint64) vm.Func {
	return func(w *vm.Warp, o *vm.Op) {
		v, d := f(w), &w.R[o.D]
		for i := range w.Each {
			d[i] = v
		}
	}
}
