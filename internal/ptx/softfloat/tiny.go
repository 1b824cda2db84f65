package softfloat

import "math"

// Tiny is a format of floats of eight bits.
type Tiny struct {
	man  int     // bits of the mantissa
	low  int     // the exponent of the smallest normal number
	most float64 // the largest number
}

// TinyOf returns the format of a type, of one number or two.
func TinyOf(t string) Tiny {
	if t == "e4m3" || t == "e4m3x2" {
		return Tiny{3, -6, 448}
	}
	return Tiny{2, -14, 57344}
}

// Encode rounds a number to nearest. What is too large becomes the largest number.
func (f Tiny) Encode(v float64) uint64 {
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

// Decode returns a number as one of 16 bits.
func (f Tiny) Decode(a uint64) uint64 {
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
	return sign | F16.Convert(math.Float64bits(v), F64, RN)
}
