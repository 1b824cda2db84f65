package ptxrandom

import "math/rand/v2"

// A kind says what the values of a register are about. It chooses the special values.
type kind int

const (
	anyKind kind = iota
	f16Kind
	bf16Kind
	i16Kind
	f32Kind
	i32Kind
	halvesKind  // two numbers of f16
	bhalvesKind // two numbers of bf16
	smallKind   // distances of shifts, positions and lengths
	f64Kind
	i64Kind
)

// floatFormat is a format of floats: the bits of the exponent and of the mantissa.
type floatFormat struct{ exp, man int }

var formats = map[kind]floatFormat{f16Kind: {5, 10}, bf16Kind: {8, 7}, f32Kind: {8, 23}, f64Kind: {11, 52}}

// float returns a number of a format: a special one, one near 1, a small integer, or any bits.
func (f floatFormat) float(r *rand.Rand) uint64 {
	one, top := uint64(1)<<(f.exp-1)-1, uint64(1)<<f.exp-1
	mantissa := r.Uint64() & (1<<f.man - 1)
	sign := r.Uint64N(2) << (f.exp + f.man)
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		specials := []uint64{
			0, 1, 1<<f.man - 1, 1 << f.man, 1<<f.man + 1, // zero, subnormal numbers, and the least normal ones
			one << f.man, one<<f.man + 1, one<<f.man - 1, (one + 1) << f.man,
			top<<f.man - 1, top << f.man, // the greatest number, and infinity
			top<<f.man | 1<<(f.man-1), top<<f.man | 1, 1<<(f.exp+f.man) - 1, // NaNs
			(one - 1) << f.man, (one+uint64(f.man))<<f.man | 1, (one - uint64(f.man)) << f.man,
			mantissa, (top-1)<<f.man | mantissa,
		}
		return specials[r.IntN(len(specials))] | sign
	case 4, 5, 6:
		return (one-4+r.Uint64N(8))<<f.man | mantissa | sign
	case 7, 8:
		return (one+r.Uint64N(4))<<f.man | mantissa>>(f.man-3)<<(f.man-3) | sign
	}
	return r.Uint64() & (1<<(1+f.exp+f.man) - 1)
}

// integer returns a number of a size.
func integer(r *rand.Rand, size int) uint64 {
	mask := uint64(1<<64-1) >> (64 - size)
	switch r.IntN(8) {
	case 0, 1, 2:
		specials := []uint64{0, 1, 2, mask, mask - 1, mask >> 1, mask>>1 + 1, mask>>1 + 2, 1 << (size / 2), 1<<(size/2) - 1,
			0x80, 0x7f, 0xff, 0x8080808080808080 & mask, 0x7f7f7f7f7f7f7f7f & mask, 0x8000800080008000 & mask}
		return specials[r.IntN(len(specials))]
	case 3, 4:
		return (r.Uint64N(41) - 20) & mask
	case 5:
		return uint64(1) << r.IntN(size)
	}
	return r.Uint64() & mask
}

// value returns a value of a kind.
func value(r *rand.Rand, k kind) uint64 {
	switch k {
	case f16Kind, bf16Kind, f32Kind, f64Kind:
		return formats[k].float(r)
	case halvesKind:
		return formats[f16Kind].float(r) | formats[f16Kind].float(r)<<16
	case bhalvesKind:
		return formats[bf16Kind].float(r) | formats[bf16Kind].float(r)<<16
	case i16Kind:
		return integer(r, 16)
	case i32Kind:
		return integer(r, 32)
	case smallKind:
		if r.IntN(10) == 0 {
			return integer(r, 32)
		}
		return r.Uint64N(70)
	}
	return integer(r, 64)
}

// scaled returns a number of a format whose absolute value is at most 2, for products of matrices.
func (f floatFormat) scaled(r *rand.Rand) uint64 {
	one := uint64(1)<<(f.exp-1) - 1
	if r.IntN(16) == 0 {
		return 0
	}
	return (one-r.Uint64N(6))<<f.man | r.Uint64()&(1<<f.man-1) | r.Uint64N(2)<<(f.exp+f.man)
}

// coarse returns 0.5, 0.75, 1 or 1.5 with any sign, as a number of a format.
func (f floatFormat) coarse(r *rand.Rand) uint64 {
	one := uint64(1)<<(f.exp-1) - 1
	return (one-r.Uint64N(2))<<f.man | r.Uint64N(2)<<(f.man-1) | r.Uint64N(2)<<(f.exp+f.man)
}

// kindOf returns the kind of values of a type.
func kindOf(typ string) kind {
	switch typ {
	case "f16":
		return f16Kind
	case "bf16":
		return bf16Kind
	case "f32":
		return f32Kind
	case "f64":
		return f64Kind
	case "f16x2":
		return halvesKind
	case "bf16x2":
		return bhalvesKind
	}
	switch widthOf(typ) {
	case 8, 16:
		return i16Kind
	case 32:
		return i32Kind
	}
	return i64Kind
}

// widthOf returns the size of a type in bits.
func widthOf(typ string) int {
	switch typ {
	case "f16x2", "bf16x2", "u16x2", "s16x2", "tf32":
		return 32
	case "e4m3x2", "e5m2x2":
		return 16
	}
	switch typ[len(typ)-1] {
	case '8':
		return 8
	case '6':
		return 16
	case '2':
		return 32
	}
	return 64
}
