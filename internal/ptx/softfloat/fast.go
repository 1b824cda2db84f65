package softfloat

import "math"

// Canonical returns the bits of a float with 32 bits. There is one NaN.
func Canonical(v float32) uint64 {
	if v != v {
		return F32.NaN
	}
	return uint64(math.Float32bits(v))
}

// FMA64 returns a · b + c of 64 bits.
func FMA64(a, b, c uint64) uint64 {
	z := math.FMA(math.Float64frombits(a), math.Float64frombits(b), math.Float64frombits(c))
	if z != z {
		return F64.FMA(a, b, c, RN)
	}
	return math.Float64bits(z)
}

// FMA32 returns a · b + c of 32 bits. The product is exact in 64 bits. The sum is rounded to 64 bits
// and then to 32: that differs from one rounding only if the first has met the middle of two results,
// which ends with 28 zeros.
func FMA32(a, b, c uint64) uint64 {
	p := float64(math.Float32frombits(uint32(a))) * float64(math.Float32frombits(uint32(b)))
	s := float64(p) + float64(math.Float32frombits(uint32(c)))
	if n := math.Float64bits(s); n&(1<<28-1) == 0 && s-s == 0 {
		return F32.FMA(a&(1<<32-1), b&(1<<32-1), c&(1<<32-1), RN)
	}
	return Canonical(float32(s))
}
