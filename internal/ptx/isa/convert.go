package isa

import (
	"math"

	"github.com/purecu/purecu/internal/ptx/softfloat"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// convertRows are the conversions. The first type is that of the result.
func convertRows() []*Instruction {
	const (
		ints      = "u8|s8|u16|s16|u32|s32|u64|s64"
		floats    = "f16|f32|f64"
		rounding  = "rnd?=rn|rz|rm|rp "
		rounding2 = "rnd=rn|rz|rm|rp "
		integral  = "rnd?=rni|rzi|rmi|rpi "
	)
	return []*Instruction{
		{Name: "cvt", Modifiers: "sat? t=" + ints + " u=" + ints, Operands: "x y:u", Make: intToInt},
		{Name: "cvt", Modifiers: "rnd=rni|rzi|rmi|rpi ftz? sat? t=" + ints + " u=" + floats, Operands: "x y:u",
			Make: floatToInt},
		{Name: "cvt", Modifiers: rounding2 + "sat? t=" + floats + " u=" + ints, Operands: "x y:u", Make: intToFloat},
		{Name: "cvt", Modifiers: rounding + "ftz? sat? t=" + floats + " u=" + floats, Operands: "x y:u",
			Make: floatToFloat},
		{Name: "cvt", Modifiers: integral + "ftz? sat? t=" + floats + " u=" + floats, Operands: "x y:u",
			Make: floatToIntegral},
		{Name: "cvt", Modifiers: "rnd=rn|rz relu? t=bf16|f16 u=f32", Operands: "x y:u", Make: floatToFloat},
		{Name: "cvt", Modifiers: "t=f32 u=bf16", Operands: "d a:u", Make: func(Variant) vm.Func {
			return one(func(a uint16) uint32 { return uint32(a) << 16 })
		}},
		{Name: "cvt", Modifiers: "rnd=rna|rn|rz relu? t=tf32 u=f32", Operands: "d a:u", Make: toTF32},
		{Name: "cvt", Modifiers: "rnd=rna|rn|rz relu? satfinite t=tf32 u=f32", Operands: "d a:u", Make: toTF32},
		{Name: "cvt", Modifiers: "rnd=rn|rz relu? t=f16x2|bf16x2 u=f32", Operands: "d a:u b:u", Make: floatsToPair},
		{Name: "cvt", Modifiers: "rnd=rn|rz relu? satfinite t=f16x2|bf16x2 u=f32", Operands: "d a:u b:u",
			Make: floatsToPair},
		{Name: "cvt", Modifiers: "rnd=rn|rz relu? satfinite t=bf16|f16 u=f32", Operands: "x y:u", Make: floatToFloat},
		// NVIDIA's assembler wants registers of the size of the type. There are none of one byte.
		{Name: "cvt", Modifiers: "rnd=rni|rzi|rmi|rpi t=u16|s16|u32|s32|u64|s64 u=bf16", Operands: "d a:u", Make: floatToInt},
		{Name: "cvt", Modifiers: rounding2 + "t=bf16 u=u16|s16|u32|s32|u64|s64", Operands: "d a:u", Make: intToFloat},
		{Name: "cvt", Modifiers: rounding2 + "t=bf16 u=f16|f64", Operands: "x y:u", Make: floatToFloat},
		{Name: "cvt", Modifiers: rounding2 + "t=f16 u=bf16", Operands: "x y:u", Make: floatToFloat},
		{Name: "cvt", Modifiers: "t=f64 u=bf16", Operands: "x y:u", Make: floatToFloat},
		{Name: "cvt", Modifiers: "rnd=rni|rzi|rmi|rpi t=bf16 u=bf16", Operands: "x y:u", Make: floatToIntegral},
		{Name: "cvt", Modifiers: "pack sat t=u16|s16 u=s32", Operands: "d:b32 a:u b:u", Make: func(v Variant) vm.Func {
			signed := v.T() == "s16"
			return two(func(a, b int32) uint32 {
				return uint32(narrow(int64(a), 16, signed))<<16 | uint32(narrow(int64(b), 16, signed))&0xffff
			})
		}},
		{Name: "cvt", Modifiers: "pack sat to=u4|s4|u2|s2 u=s32 v=b32", Operands: "d:b32 a:u b:u c:b32",
			Make: func(v Variant) vm.Func {
				signed, size := v.Get("to")[0] == 's', int(v.Get("to")[1]-'0')
				return three(func(a, b int32, c uint32) uint32 {
					part := func(x int32) uint32 { return uint32(narrow(int64(x), size, signed)) & (1<<size - 1) }
					return c<<(2*size) | part(a)<<size | part(b)
				})
			}},
		{Name: "cvt", Modifiers: "pack sat t=u8|s8 u=s32 v=b32", Operands: "d:b32 a:u b:u c:b32",
			Make: func(v Variant) vm.Func {
				signed := v.T() == "s8"
				return three(func(a, b int32, c uint32) uint32 {
					return c<<16 | uint32(narrow(int64(a), 8, signed))&0xff<<8 | uint32(narrow(int64(b), 8,
						signed))&0xff
				})
			}},
	}
}

// floatsToPair returns the function of a conversion of two floats to a pair.
func floatsToPair(v Variant) vm.Func {
	f, r := softfloat.Of(v.T()), softfloat.ModeOf(v.Get("rnd"))
	half := func(a uint64) uint64 {
		d := f.Convert(a&(1<<32-1), softfloat.F32, r)
		if v.Has("satfinite") {
			d = f.Limit(d)
		}
		if v.Has("relu") && f.Negative(d) && !f.IsNaN(d) {
			d = 0
		}
		return d
	}
	return two(func(a, b uint64) uint64 { return half(a)<<16 | half(b) })
}

// toTF32 returns the function that rounds a float to one with ten bits behind the point. A half is rounded
// away from zero by .rna. As the results of an H200 show, a number is infinite for .rna, and not a NaN, if
// only its lowest 13 bits differ from those of infinity.
func toTF32(v Variant) vm.Func {
	rnd, relu, finite := v.Get("rnd"), v.Has("relu"), v.Has("satfinite")
	if rnd == "rna" && relu {
		return nil
	}
	const low = 1<<13 - 1
	return one(func(a uint32) uint32 {
		switch nan := softfloat.F32.IsNaN(uint64(a)); {
		case nan && rnd == "rna": // only the lowest bits go, as on an H200
		case nan:
			return uint32(softfloat.F32.NaN)
		case relu && a>>31 != 0:
			return 0
		case rnd == "rna" && !softfloat.F32.IsInf(uint64(a)):
			a += 1 << 12
		case rnd == "rn":
			a += 1<<12 - 1 + a>>13&1
		}
		if a &^= low; finite && uint64(a)&softfloat.F32.Inf() == softfloat.F32.Inf() {
			a -= low + 1
		}
		if softfloat.F32.IsNaN(uint64(a)) {
			return uint32(softfloat.F32.NaN)
		}
		return a
	})
}

// narrow limits a number to a size.
func narrow(v int64, size int, signed bool) int64 {
	if signed {
		return min(max(v, -1<<(size-1)), 1<<(size-1)-1)
	}
	return min(max(v, 0), 1<<size-1)
}

// extend returns a number of a type as one of 64 bits.
func extend(a uint64, t string) uint64 {
	shift := 64 - sizeOf(t)
	if t[0] == 's' {
		return uint64(int64(a<<shift) >> shift)
	}
	return a << shift >> shift
}

// intToInt returns the function of a conversion. The result is extended, as its register may be
// wider than its type.
func intToInt(v Variant) vm.Func {
	to, from := v.T(), v.Get("u")
	if !v.Has("sat") {
		if sizeOf(to) == 64 || from == to {
			return widen(from)
		}
		return one(func(a uint64) uint64 { return extend(extend(a, from), to) })
	}
	size, signed := sizeOf(to), to[0] == 's'
	if less := sizeOf(from) - size; less <= 0 && from[0] == to[0] || less < 0 && signed {
		return nil // nothing is out of range, and NVIDIA's compiler rejects it
	}
	return one(func(a uint64) uint64 {
		a = extend(a, from)
		switch negative := from[0] == 's' && int64(a) < 0; {
		case negative && !signed:
			return 0
		case negative:
			return uint64(max(int64(a), -1<<(size-1)))
		case signed:
			return min(a, 1<<(size-1)-1)
		case size < 64:
			return min(a, 1<<size-1)
		}
		return a
	})
}

// widen returns the function that extends a number to 64 bits.
func widen(from string) vm.Func {
	switch from {
	case "u8":
		return one(func(a uint8) uint64 { return uint64(a) })
	case "s8":
		return one(func(a int8) uint64 { return uint64(a) })
	case "u16":
		return one(func(a uint16) uint64 { return uint64(a) })
	case "s16":
		return one(func(a int16) uint64 { return uint64(a) })
	case "u32":
		return one(func(a uint32) uint64 { return uint64(a) })
	case "s32":
		return one(func(a int32) uint64 { return uint64(a) })
	}
	return one(func(a uint64) uint64 { return a })
}

func floatToInt(v Variant) vm.Func {
	to, f, r, ftz := v.T(), softfloat.Of(v.Get("u")), softfloat.ModeOf(v.Get("rnd")), v.Has("ftz")
	if ftz && v.Get("u") != "f32" {
		return nil
	}
	size, signed, mask := sizeOf(to), to[0] == 's', f.Sign()<<1-1
	return one(func(a uint64) uint64 {
		if a &= mask; ftz {
			a = f.Flush(a)
		}
		return extend(f.ToInt(a, size, signed, r), to)
	})
}

func intToFloat(v Variant) vm.Func {
	from, f, r, sat := v.Get("u"), softfloat.Of(v.T()), softfloat.ModeOf(v.Get("rnd")), v.Has("sat")
	if f := hardwareConvert(v); f != nil && r == softfloat.RN && !sat {
		return f
	}
	return one(func(a uint64) uint64 {
		a = extend(a, from)
		negative := from[0] == 's' && int64(a) < 0
		if negative {
			a = -a
		}
		d := f.FromInt(negative, a, r)
		if sat {
			d = f.Saturate(d)
		}
		return d
	})
}

// hardwareConvert returns the function of a frequent conversion of an integer that rounds to nearest,
// or nil.
func hardwareConvert(v Variant) vm.Func {
	switch v.T() + v.Get("u") {
	case "f32s32":
		return one(func(a int32) uint32 { return math.Float32bits(float32(a)) })
	case "f32u32":
		return one(func(a uint32) uint32 { return math.Float32bits(float32(int64(a))) })
	case "f32s64":
		return one(func(a int64) uint32 { return math.Float32bits(float32(a)) })
	case "f64s32":
		return one(func(a int32) uint64 { return math.Float64bits(float64(a)) })
	case "f64u32":
		return one(func(a uint32) uint64 { return math.Float64bits(float64(int64(a))) })
	case "f64s64":
		return one(func(a int64) uint64 { return math.Float64bits(float64(a)) })
	}
	return nil
}

// floatToFloat returns the function of a conversion that rounds if the result has fewer bits.
func floatToFloat(v Variant) vm.Func {
	to, from := softfloat.Of(v.T()), softfloat.Of(v.Get("u"))
	narrower := to.Mantissa < from.Mantissa || to.Exponent < from.Exponent
	if narrower != v.Has("rnd") || v.Has("ftz") && to.Mantissa != 23 && from.Mantissa != 23 {
		return nil
	}
	return convertFloat(v, func(a uint64, r softfloat.Mode) uint64 {
		if to == from && to.IsNaN(a) {
			return to.Quiet(a)
		}
		return to.Convert(a, from, r)
	})
}

// floatToIntegral returns the function of a conversion to an integer that is a float.
func floatToIntegral(v Variant) vm.Func {
	f := softfloat.Of(v.T())
	if v.T() != v.Get("u") || !v.Has("rnd") || v.Has("ftz") && f.Mantissa != 23 {
		return nil
	}
	return convertFloat(v, f.Integral)
}

// convertFloat returns the function of a conversion from a float to a float.
func convertFloat(v Variant, f func(a uint64, r softfloat.Mode) uint64) vm.Func {
	to, from, r := softfloat.Of(v.T()), softfloat.Of(v.Get("u")), softfloat.ModeOf(v.Get("rnd"))
	ftz, sat, relu, finite := v.Has("ftz"), v.Has("sat"), v.Has("relu"), v.Has("satfinite")
	mask := from.Sign()<<1 - 1
	return one(func(a uint64) uint64 {
		// A subnormal number that becomes one of 16 bits is rounded, on a GPU.
		if a &= mask; ftz && from.Mantissa == 23 && to.Mantissa != 10 {
			if a = from.Flush(a); from.IsNaN(a) {
				a = from.NaN
			}
		}
		d := f(a, r)
		if sat {
			d = to.Saturate(d)
		}
		if finite {
			d = to.Limit(d)
		}
		if relu && to.Negative(d) && !to.IsNaN(d) {
			d = 0
		}
		if ftz && to.Mantissa == 23 {
			d = to.Flush(d)
		}
		return d
	})
}

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
