// Package softfloat computes with the floats that PTX has: exactly, in each rounding mode, and with the NaNs of a GPU.
// A number is its bits, in the lower ones of 64. What is above the bits of its format must be zero.
package softfloat

import "math/bits"

// Format is a binary floating-point format of IEEE 754.
type Format struct {
	Exponent, Mantissa int    // the bits of the exponent, and of the mantissa
	NaN                uint64 // the result of an invalid operation
	Payload            bool   // a NaN keeps its payload, as of 64 bits
}

// The formats. The NaNs are those of an H200.
var (
	F16  = Format{5, 10, 0x7fff, false}
	BF16 = Format{8, 7, 0x7fff, false}
	F32  = Format{8, 23, 0x7fffffff, false}
	F64  = Format{11, 52, 0xfff8000000000000, true}
)

// Of returns the format of a type.
func Of(t string) Format {
	switch t {
	case "f16", "f16x2":
		return F16
	case "bf16", "bf16x2":
		return BF16
	case "f32":
		return F32
	}
	return F64
}

// Mode is a rounding mode.
type Mode uint8

// The rounding modes.
const (
	RN Mode = iota // to nearest, ties to even
	RZ             // towards zero
	RM             // towards negative infinity
	RP             // towards positive infinity
)

// ModeOf returns the mode of a modifier, with or without the i of the conversions to integers.
func ModeOf(t string) Mode {
	switch t {
	case "rz", "rzi":
		return RZ
	case "rm", "rmi":
		return RM
	case "rp", "rpi":
		return RP
	}
	return RN
}

// Binary is an operation with two operands, in any format.
type Binary func(f Format, a, b uint64, r Mode) uint64

// Ternary is an operation with three operands, in any format.
type Ternary func(f Format, a, b, c uint64, r Mode) uint64

// Bias returns what is added to an exponent in its field.
func (f Format) Bias() int { return 1<<(f.Exponent-1) - 1 }

// Sign returns the bit of the sign.
func (f Format) Sign() uint64 { return 1 << (f.Exponent + f.Mantissa) }

// Inf returns infinity.
func (f Format) Inf() uint64 { return (1<<f.Exponent - 1) << f.Mantissa }

// IsNaN reports whether v is not a number.
func (f Format) IsNaN(v uint64) bool { return v&^f.Sign() > f.Inf() }

// IsInf reports whether v is infinite.
func (f Format) IsInf(v uint64) bool { return v&^f.Sign() == f.Inf() }

// IsZero reports whether v is zero, of any sign.
func (f Format) IsZero(v uint64) bool { return v&^f.Sign() == 0 }

// Negative reports whether v has the sign of negative numbers.
func (f Format) Negative(v uint64) bool { return v&f.Sign() != 0 }

// Less reports whether a is below b. Negative zero is below zero. Neither is a NaN.
func (f Format) Less(a, b uint64) bool {
	if f.Negative(a) != f.Negative(b) {
		return f.Negative(a)
	}
	return a != b && a < b != f.Negative(a)
}

// Flush replaces a subnormal number by zero.
func (f Format) Flush(v uint64) uint64 {
	if v&f.Inf() == 0 {
		return v & f.Sign()
	}
	return v
}

// Saturate limits a number to the range from 0 to 1. NaN becomes 0.
func (f Format) Saturate(v uint64) uint64 {
	one := uint64(f.Bias()) << f.Mantissa
	switch {
	case f.IsNaN(v) || f.Negative(v):
		return 0
	case v > one:
		return one
	}
	return v
}

// Limit returns the largest number with the same sign instead of an infinite one.
func (f Format) Limit(v uint64) uint64 {
	if f.IsInf(v) {
		return v - 1
	}
	return v
}

// Quiet returns the NaN that an operation with NaN operands has as its result: the first of them.
// The order in which an H200 looks at them depends on the operation.
func (f Format) Quiet(operands ...uint64) uint64 {
	for _, v := range operands {
		if f.IsNaN(v) && f.Payload {
			return v | 1<<(f.Mantissa-1)
		}
	}
	return f.NaN
}

// unpack returns the value of a finite number as m · 2^e.
func (f Format) unpack(v uint64) (negative bool, m uint64, e int) {
	m, e = v&(1<<f.Mantissa-1), int(v>>f.Mantissa&(1<<f.Exponent-1))
	if e == 0 {
		e = 1
	} else {
		m |= 1 << f.Mantissa
	}
	return f.Negative(v), m, e - f.Bias() - f.Mantissa
}

// wide is an unsigned number of 128 bits.
type wide struct{ hi, lo uint64 }

func (x wide) length() int {
	if x.hi != 0 {
		return 64 + bits.Len64(x.hi)
	}
	return bits.Len64(x.lo)
}

func (x wide) left(n int) wide {
	switch {
	case n >= 128:
		return wide{}
	case n >= 64:
		return wide{x.lo << (n - 64), 0}
	}
	return wide{x.hi<<n | x.lo>>(64-n), x.lo << n}
}

// right shifts to the right, and reports whether ones were lost.
func (x wide) right(n int) (_ wide, lost bool) {
	switch {
	case n >= 128:
		return wide{}, x != wide{}
	case n >= 64:
		return wide{0, x.hi >> (n - 64)}, x.lo != 0 || x.hi<<(128-n) != 0 && n > 64
	case n == 0:
		return x, false
	}
	return wide{x.hi >> n, x.lo>>n | x.hi<<(64-n)}, x.lo<<(64-n) != 0
}

func (x wide) less(y wide) bool { return x.hi < y.hi || x.hi == y.hi && x.lo < y.lo }

func (x wide) plus(y wide) wide {
	lo, c := bits.Add64(x.lo, y.lo, 0)
	hi, _ := bits.Add64(x.hi, y.hi, c)
	return wide{hi, lo}
}

func (x wide) minus(y wide) wide {
	lo, c := bits.Sub64(x.lo, y.lo, 0)
	hi, _ := bits.Sub64(x.hi, y.hi, c)
	return wide{hi, lo}
}

// round returns the number of the format for m · 2^e. If more is set, the exact value is a little
// further from zero.
func (f Format) round(negative bool, m wide, e int, more bool, r Mode) uint64 {
	sign := uint64(0)
	if negative {
		sign = f.Sign()
	}
	n := m.length()
	if n == 0 && !more {
		return sign
	}
	top := e + n - 1 // the exponent of the first bit
	low := max(top, 1-f.Bias()) - f.Mantissa
	drop := low - e // how many bits are too many
	half, rest := false, more
	if drop > 0 {
		var lost bool
		above, _ := m.right(drop - 1)
		half = above.lo&1 != 0
		if drop > 1 {
			_, lost = m.right(drop - 1)
		}
		rest = rest || lost
		m, _ = m.right(drop)
	} else {
		m = m.left(-drop)
	}
	v, inexact := m.lo, half || rest
	switch {
	case r == RN && half && (rest || v&1 != 0), r == RM && negative && inexact, r == RP && !negative && inexact:
		v++
	}
	exp := low + f.Mantissa + f.Bias() // of a normal number
	if v>>f.Mantissa == 0 {
		return sign | v // subnormal
	}
	if v>>f.Mantissa > 1 { // the increment has carried
		v >>= 1
		exp++
	}
	if exp >= 1<<f.Exponent-1 {
		if r == RZ || r == RM && !negative || r == RP && negative {
			return sign | f.Inf() - 1
		}
		return sign | f.Inf()
	}
	return sign | uint64(exp)<<f.Mantissa | v&(1<<f.Mantissa-1)
}

// FMA returns a · b + c.
func (f Format) FMA(a, b, c uint64, r Mode) uint64 {
	if f.IsNaN(a) || f.IsNaN(b) || f.IsNaN(c) {
		return f.Quiet(b, c, a)
	}
	negative := f.Negative(a) != f.Negative(b)
	if f.IsInf(a) || f.IsInf(b) {
		if f.IsZero(a) || f.IsZero(b) || f.IsInf(c) && f.Negative(c) != negative {
			return f.NaN
		}
		return f.Signed(negative, f.Inf())
	}
	if f.IsInf(c) {
		return c
	}
	_, ma, ea := f.unpack(a)
	_, mb, eb := f.unpack(b)
	nc, mc, ec := f.unpack(c)
	if ma == 0 || mb == 0 {
		if mc != 0 {
			return c
		}
		return f.Signed(f.zeroSign(negative, nc, r), 0)
	}
	hi, lo := bits.Mul64(ma, mb)
	product := wide{hi, lo}
	if mc == 0 {
		return f.round(negative, product, ea+eb, false, r)
	}
	return f.sum(negative, product, ea+eb, nc, wide{0, mc}, ec, r)
}

// zeroSign returns the sign of the sum of two zeros, or of two numbers with the sum zero.
func (f Format) zeroSign(a, b bool, r Mode) bool {
	if a == b {
		return a
	}
	return r == RM
}

// Signed returns v, which is not negative, with a sign.
func (f Format) Signed(negative bool, v uint64) uint64 {
	if negative {
		return v | f.Sign()
	}
	return v
}

// sum returns the sum of two numbers that are not zero.
func (f Format) sum(nx bool, x wide, ex int, ny bool, y wide, ey int, r Mode) uint64 {
	if x.length()+ex < y.length()+ey {
		nx, x, ex, ny, y, ey = ny, y, ey, nx, x, ex
	}
	shift := 125 - x.length()
	x, ex = x.left(shift), ex-shift
	lost := false
	if d := ey - ex; d >= 0 {
		y = y.left(d)
	} else {
		y, lost = y.right(-d)
	}
	if nx == ny {
		return f.round(nx, x.plus(y), ex, lost, r)
	}
	if x.less(y) {
		return f.round(ny, y.minus(x), ex, false, r)
	}
	z := x.minus(y)
	if lost {
		z = z.minus(wide{0, 1})
	}
	if z == (wide{}) {
		return f.Signed(r == RM, 0)
	}
	return f.round(nx, z, ex, lost, r)
}

// Add returns a + b.
func (f Format) Add(a, b uint64, r Mode) uint64 {
	switch {
	case f.IsNaN(a) || f.IsNaN(b):
		return f.Quiet(b, a)
	case f.IsInf(a) && f.IsInf(b) && a != b:
		return f.NaN
	case f.IsInf(a):
		return a
	case f.IsInf(b):
		return b
	}
	na, ma, ea := f.unpack(a)
	nb, mb, eb := f.unpack(b)
	switch {
	case ma == 0 && mb == 0:
		return f.Signed(f.zeroSign(na, nb, r), 0)
	case ma == 0:
		return b
	case mb == 0:
		return a
	}
	return f.sum(na, wide{0, ma}, ea, nb, wide{0, mb}, eb, r)
}

// Sub returns a - b.
func (f Format) Sub(a, b uint64, r Mode) uint64 {
	if f.IsNaN(b) {
		return f.Quiet(b, a)
	}
	return f.Add(a, b^f.Sign(), r)
}

// Mul returns a · b.
func (f Format) Mul(a, b uint64, r Mode) uint64 {
	negative := f.Negative(a) != f.Negative(b)
	switch {
	case f.IsNaN(a) || f.IsNaN(b):
		return f.Quiet(b, a)
	case f.IsInf(a) && f.IsZero(b), f.IsZero(a) && f.IsInf(b):
		return f.NaN
	case f.IsInf(a) || f.IsInf(b):
		return f.Signed(negative, f.Inf())
	}
	_, ma, ea := f.unpack(a)
	_, mb, eb := f.unpack(b)
	hi, lo := bits.Mul64(ma, mb)
	return f.round(negative, wide{hi, lo}, ea+eb, false, r)
}

// Div returns a / b.
func (f Format) Div(a, b uint64, r Mode) uint64 {
	negative := f.Negative(a) != f.Negative(b)
	switch {
	case f.IsNaN(a) || f.IsNaN(b):
		return f.Quiet(a, b)
	case f.IsInf(a) && f.IsInf(b), f.IsZero(a) && f.IsZero(b):
		return f.NaN
	case f.IsInf(a) || f.IsZero(b):
		return f.Signed(negative, f.Inf())
	case f.IsZero(a) || f.IsInf(b):
		return f.Signed(negative, 0)
	}
	_, ma, ea := f.unpack(a)
	_, mb, eb := f.unpack(b)
	sa, sb := bits.LeadingZeros64(ma), bits.LeadingZeros64(mb)
	ma, mb, ea, eb = ma<<sa, mb<<sb, ea-sa, eb-sb
	q, rest := bits.Div64(ma>>1, ma<<63, mb)
	return f.round(negative, wide{0, q}, ea-eb-63, rest != 0, r)
}

// Sqrt returns the square root.
func (f Format) Sqrt(a uint64, r Mode) uint64 {
	switch {
	case f.IsNaN(a):
		return f.Quiet(a)
	case f.IsZero(a):
		return a
	case f.Negative(a):
		return f.NaN
	case f.IsInf(a):
		return a
	}
	_, m, e := f.unpack(a)
	shift := bits.LeadingZeros64(m) + 62 // the first bit becomes the 126th, or the one after it
	if (e-shift)%2 != 0 {
		shift++
	}
	x := wide{0, m}.left(shift)
	root := uint64(0)
	rest := x
	for bit := 63; bit >= 0; bit-- { // subtract (2·root + 2^bit) · 2^bit while possible
		try := wide{0, root}.left(bit + 1).plus(wide{0, 1}.left(2 * bit))
		if !rest.less(try) {
			rest = rest.minus(try)
			root |= 1 << bit
		}
	}
	return f.round(false, wide{0, root}, (e-shift)/2, rest != (wide{}), r)
}

// FromInt returns an integer as a float.
func (f Format) FromInt(negative bool, m uint64, r Mode) uint64 {
	return f.round(negative, wide{0, m}, 0, false, r)
}

// Convert returns a number of another format. A NaN keeps the first bits of its payload if one of the
// formats has 64 bits.
func (f Format) Convert(v uint64, from Format, r Mode) uint64 {
	switch {
	case from.IsNaN(v) && (from.Payload || f.Payload):
		m := v & (1<<from.Mantissa - 1)
		if from.Mantissa < f.Mantissa {
			m <<= f.Mantissa - from.Mantissa
		} else {
			m >>= from.Mantissa - f.Mantissa
		}
		return f.Signed(from.Negative(v), f.Inf()|m|1<<(f.Mantissa-1))
	case from.IsNaN(v):
		return f.NaN
	case from.IsInf(v):
		return f.Signed(from.Negative(v), f.Inf())
	}
	negative, m, e := from.unpack(v)
	return f.round(negative, wide{0, m}, e, false, r)
}

// Integral returns a number rounded to an integer.
func (f Format) Integral(v uint64, r Mode) uint64 {
	switch {
	case f.IsNaN(v):
		return f.Quiet(v)
	case f.IsInf(v) || f.IsZero(v):
		return v
	}
	negative, m, e := f.unpack(v)
	if e >= 0 {
		return v
	}
	i := roundInt(negative, m, e, r)
	return f.round(negative, wide{0, i}, 0, false, RN)
}

// roundInt returns m · 2^e, with e below 0, rounded to an integer.
func roundInt(negative bool, m uint64, e int, r Mode) uint64 {
	n := min(-e, 64)
	i, half, rest := uint64(0), false, m != 0
	if n < 64 {
		i = m >> n
	}
	if n == -e {
		half = m>>(n-1)&1 != 0
		rest = m&(1<<(n-1)-1) != 0
	}
	switch {
	case r == RN && half && (rest || i&1 != 0), r == RM && negative && (half || rest), r == RP && !negative &&
		(half || rest):
		i++
	}
	return i
}

// ToInt returns a number as an integer with a number of bits, limited to its range.
func (f Format) ToInt(v uint64, size int, signed bool, r Mode) uint64 {
	most, least := uint64(1)<<size-1, uint64(0)
	if signed {
		most, least = most>>1, 1<<(size-1)
	}
	if f.IsNaN(v) {
		if f.Payload || size == 64 {
			return 1 << (size - 1) // as on an H200; the manual does not say it
		}
		return 0
	}
	negative, m, e := f.unpack(v)
	var i uint64
	switch {
	case f.IsInf(v) || m != 0 && e+bits.Len64(m) > 64:
		i = 1<<64 - 1
	case e >= 0:
		i = m << e
	default:
		i = roundInt(negative, m, e, r)
	}
	if negative {
		return -min(i, least)
	}
	return min(i, most)
}
