package isa

import (
	"math"

	"github.com/purecu/purecu/internal/ptx/softfloat"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// narrowRows are the conversions between floats of eight bits and others.
func narrowRows() []*Instruction {
	pack := func(v Variant, from softfloat.Format) func(hi, lo uint64) uint64 {
		f, relu := softfloat.TinyOf(v.T()), v.Has("relu")
		one := func(a uint64) uint64 {
			x := math.Float64frombits(softfloat.F64.Convert(a, from, softfloat.RN))
			if relu && (x < 0 || x == 0) {
				x = 0
			}
			return f.Encode(x)
		}
		return func(hi, lo uint64) uint64 { return one(hi)<<8 | one(lo) }
	}
	return []*Instruction{
		{Name: "cvt", Modifiers: "rn satfinite relu? t=e4m3x2|e5m2x2 u=f32", Operands: "d:b16 a:u b:u",
			Make: func(v Variant) vm.Func {
				f := pack(v, softfloat.F32)
				return two(func(a, b uint32) uint64 { return f(uint64(a), uint64(b)) })
			}},
		{Name: "cvt", Modifiers: "rn satfinite relu? t=e4m3x2|e5m2x2 u=f16x2", Operands: "d:b16 a:b32",
			Make: func(v Variant) vm.Func {
				f := pack(v, softfloat.F16)
				return one(func(a uint32) uint64 { return f(uint64(a>>16), uint64(a&0xffff)) })
			}},
		{Name: "cvt", Modifiers: "rn relu? t=f16x2 u=e4m3x2|e5m2x2", Operands: "d:b32 a:b16",
			Make: func(v Variant) vm.Func {
				f, relu := softfloat.TinyOf(v.Get("u")), v.Has("relu")
				half := func(a uint64) uint64 {
					d := f.Decode(a)
					if relu && d&0x8000 != 0 {
						d = 0
					}
					return d
				}
				return one(func(a uint16) uint64 { return half(uint64(a>>8))<<16 | half(uint64(a&0xff)) })
			}},
	}
}
