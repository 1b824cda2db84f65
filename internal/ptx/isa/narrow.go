package isa

import (
	"math"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// tiny is a format of floats of eight bits.
type tiny struct {
	man  int     // bits of the mantissa
	low  int     // the exponent of the smallest normal number
	most float64 // the largest number
}

func tinyOf(t string) tiny {
	if t == "e4m3x2" {
		return tiny{3, -6, 448}
	}
	return tiny{2, -14, 57344}
}

// encode rounds a number to nearest. What is too large becomes the largest number.
func (f tiny) encode(v float64) uint64 {
	sign := uint64(0)
	if math.Signbit(v) {
		sign, v = 0x80, -v
	}
	switch {
	case v != v:
		return 0x7f
	case v == 0:
		return sign
	}
	v = min(v, f.most)
	e := max(math.Ilogb(v), f.low)
	m := math.RoundToEven(math.Ldexp(v, f.man-e))
	// A mantissa that is rounded up to the next power of two makes the exponent larger.
	return sign | uint64(int64(e-f.low)<<f.man+int64(m))
}

// decode returns a number as one of 16 bits.
func (f tiny) decode(a uint64) uint64 {
	sign, a := a&0x80<<8, a&0x7f
	if f.man == 2 {
		if a > 0x7c {
			return 0x7fff
		}
		return sign | a<<8
	}
	if a == 0x7f {
		return 0x7fff
	}
	v := math.Ldexp(float64(a&7), f.low-f.man)
	if a>>3 > 0 {
		v = math.Ldexp(float64(a&7|8), int(a>>3)-1+f.low-f.man)
	}
	return sign | f16.convert(math.Float64bits(v), f64, rn)
}

// narrowRows are the conversions between floats of eight bits and others.
func narrowRows() []*Instruction {
	pack := func(v Variant, from format) func(hi, lo uint64) uint64 {
		f, relu := tinyOf(v.T()), v.Has("relu")
		one := func(a uint64) uint64 {
			x := math.Float64frombits(f64.convert(a, from, rn))
			if relu && (x < 0 || x == 0) {
				x = 0
			}
			return f.encode(x)
		}
		return func(hi, lo uint64) uint64 { return one(hi)<<8 | one(lo) }
	}
	return []*Instruction{
		{Name: "cvt", Modifiers: "rn satfinite relu? t=e4m3x2|e5m2x2 u=f32", Operands: "d:b16 a:u b:u",
			Make: func(v Variant) vm.Func {
				f := pack(v, f32)
				return two(func(a, b uint32) uint64 { return f(uint64(a), uint64(b)) })
			}},
		{Name: "cvt", Modifiers: "rn satfinite relu? t=e4m3x2|e5m2x2 u=f16x2", Operands: "d:b16 a:b32",
			Make: func(v Variant) vm.Func {
				f := pack(v, f16)
				return one(func(a uint32) uint64 { return f(uint64(a>>16), uint64(a&0xffff)) })
			}},
		{Name: "cvt", Modifiers: "rn relu? t=f16x2 u=e4m3x2|e5m2x2", Operands: "d:b32 a:b16",
			Make: func(v Variant) vm.Func {
				f, relu := tinyOf(v.Get("u")), v.Has("relu")
				half := func(a uint64) uint64 {
					d := f.decode(a)
					if relu && d&0x8000 != 0 {
						d = 0
					}
					return d
				}
				return one(func(a uint16) uint64 { return half(uint64(a>>8))<<16 | half(uint64(a&0xff)) })
			}},
	}
}
