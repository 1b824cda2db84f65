package isa

import "math/bits"

// format is a binary floating-point format of IEEE 754.
type format struct {
	exp, man int    // the bits of the exponent, and of the mantissa
	nan      uint64 // the result of an invalid operation
	payload  bool   // a NaN keeps its payload, as of 64 bits
}

// The formats. The NaNs are those of an H200.
var (
	f16  = format{5, 10, 0x7fff, false}
	bf16 = format{8, 7, 0x7fff, false}
	f32  = format{8, 23, 0x7fffffff, false}
	f64  = format{11, 52, 0xfff8000000000000, true}
)

// formatOf returns the format of a type.
func formatOf(t string) format {
	switch t {
	case "f16", "f16x2":
		return f16
	case "bf16", "bf16x2":
		return bf16
	case "f32":
		return f32
	}
	return f64
}

// mode is a rounding mode.
type mode uint8

const (
	rn mode = iota // to nearest, ties to even
	rz             // towards zero
	rm             // towards negative infinity
	rp             // towards positive infinity
)

// modeOf returns the mode of a modifier, with or without the i of the conversions to integers.
func modeOf(t string) mode {
	switch t {
	case "rz", "rzi":
		return rz
	case "rm", "rmi":
		return rm
	case "rp", "rpi":
		return rp
	}
	return rn
}

func (f format) bias() int              { return 1<<(f.exp-1) - 1 }
func (f format) sign() uint64           { return 1 << (f.exp + f.man) }
func (f format) inf() uint64            { return (1<<f.exp - 1) << f.man }
func (f format) isNaN(v uint64) bool    { return v&^f.sign() > f.inf() }
func (f format) isInf(v uint64) bool    { return v&^f.sign() == f.inf() }
func (f format) isZero(v uint64) bool   { return v&^f.sign() == 0 }
func (f format) negative(v uint64) bool { return v&f.sign() != 0 }

// flush replaces a subnormal number by zero.
func (f format) flush(v uint64) uint64 {
	if v&f.inf() == 0 {
		return v & f.sign()
	}
	return v
}

// saturate limits a number to the range from 0 to 1. NaN becomes 0.
func (f format) saturate(v uint64) uint64 {
	one := uint64(f.bias()) << f.man
	switch {
	case f.isNaN(v) || f.negative(v):
		return 0
	case v > one:
		return one
	}
	return v
}

// quiet returns the NaN that an operation with NaN operands has as its result: the first of them.
// The order in which an H200 looks at them depends on the operation.
func (f format) quiet(operands ...uint64) uint64 {
	for _, v := range operands {
		if f.isNaN(v) && f.payload {
			return v | 1<<(f.man-1)
		}
	}
	return f.nan
}

// unpack returns the value of a finite number as m · 2^e.
func (f format) unpack(v uint64) (negative bool, m uint64, e int) {
	m, e = v&(1<<f.man-1), int(v>>f.man&(1<<f.exp-1))
	if e == 0 {
		e = 1
	} else {
		m |= 1 << f.man
	}
	return f.negative(v), m, e - f.bias() - f.man
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
func (f format) round(negative bool, m wide, e int, more bool, r mode) uint64 {
	sign := uint64(0)
	if negative {
		sign = f.sign()
	}
	n := m.length()
	if n == 0 && !more {
		return sign
	}
	top := e + n - 1 // the exponent of the first bit
	low := max(top, 1-f.bias()) - f.man
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
	case r == rn && half && (rest || v&1 != 0), r == rm && negative && inexact, r == rp && !negative && inexact:
		v++
	}
	exp := low + f.man + f.bias() // of a normal number
	if v>>f.man == 0 {
		return sign | v // subnormal
	}
	if v>>f.man > 1 { // the increment has carried
		v >>= 1
		exp++
	}
	if exp >= 1<<f.exp-1 {
		if r == rz || r == rm && !negative || r == rp && negative {
			return sign | f.inf() - 1
		}
		return sign | f.inf()
	}
	return sign | uint64(exp)<<f.man | v&(1<<f.man-1)
}

// fma returns a · b + c.
func (f format) fma(a, b, c uint64, r mode) uint64 {
	if f.isNaN(a) || f.isNaN(b) || f.isNaN(c) {
		return f.quiet(b, c, a)
	}
	negative := f.negative(a) != f.negative(b)
	if f.isInf(a) || f.isInf(b) {
		if f.isZero(a) || f.isZero(b) || f.isInf(c) && f.negative(c) != negative {
			return f.nan
		}
		return f.signed(negative, f.inf())
	}
	if f.isInf(c) {
		return c
	}
	_, ma, ea := f.unpack(a)
	_, mb, eb := f.unpack(b)
	nc, mc, ec := f.unpack(c)
	if ma == 0 || mb == 0 {
		if mc != 0 {
			return c
		}
		return f.signed(f.zeroSign(negative, nc, r), 0)
	}
	hi, lo := bits.Mul64(ma, mb)
	product := wide{hi, lo}
	if mc == 0 {
		return f.round(negative, product, ea+eb, false, r)
	}
	return f.sum(negative, product, ea+eb, nc, wide{0, mc}, ec, r)
}

// zeroSign returns the sign of the sum of two zeros, or of two numbers with the sum zero.
func (f format) zeroSign(a, b bool, r mode) bool {
	if a == b {
		return a
	}
	return r == rm
}

func (f format) signed(negative bool, v uint64) uint64 {
	if negative {
		return v | f.sign()
	}
	return v
}

// sum returns the sum of two numbers that are not zero.
func (f format) sum(nx bool, x wide, ex int, ny bool, y wide, ey int, r mode) uint64 {
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
		return f.signed(r == rm, 0)
	}
	return f.round(nx, z, ex, lost, r)
}

// add returns a + b.
func (f format) add(a, b uint64, r mode) uint64 {
	switch {
	case f.isNaN(a) || f.isNaN(b):
		return f.quiet(b, a)
	case f.isInf(a) && f.isInf(b) && a != b:
		return f.nan
	case f.isInf(a):
		return a
	case f.isInf(b):
		return b
	}
	na, ma, ea := f.unpack(a)
	nb, mb, eb := f.unpack(b)
	switch {
	case ma == 0 && mb == 0:
		return f.signed(f.zeroSign(na, nb, r), 0)
	case ma == 0:
		return b
	case mb == 0:
		return a
	}
	return f.sum(na, wide{0, ma}, ea, nb, wide{0, mb}, eb, r)
}

// mul returns a · b.
func (f format) mul(a, b uint64, r mode) uint64 {
	negative := f.negative(a) != f.negative(b)
	switch {
	case f.isNaN(a) || f.isNaN(b):
		return f.quiet(b, a)
	case f.isInf(a) && f.isZero(b), f.isZero(a) && f.isInf(b):
		return f.nan
	case f.isInf(a) || f.isInf(b):
		return f.signed(negative, f.inf())
	}
	_, ma, ea := f.unpack(a)
	_, mb, eb := f.unpack(b)
	hi, lo := bits.Mul64(ma, mb)
	return f.round(negative, wide{hi, lo}, ea+eb, false, r)
}

// div returns a / b.
func (f format) div(a, b uint64, r mode) uint64 {
	negative := f.negative(a) != f.negative(b)
	switch {
	case f.isNaN(a) || f.isNaN(b):
		return f.quiet(a, b)
	case f.isInf(a) && f.isInf(b), f.isZero(a) && f.isZero(b):
		return f.nan
	case f.isInf(a) || f.isZero(b):
		return f.signed(negative, f.inf())
	case f.isZero(a) || f.isInf(b):
		return f.signed(negative, 0)
	}
	_, ma, ea := f.unpack(a)
	_, mb, eb := f.unpack(b)
	sa, sb := bits.LeadingZeros64(ma), bits.LeadingZeros64(mb)
	ma, mb, ea, eb = ma<<sa, mb<<sb, ea-sa, eb-sb
	q, rest := bits.Div64(ma>>1, ma<<63, mb)
	return f.round(negative, wide{0, q}, ea-eb-63, rest != 0, r)
}

// sqrt returns the square root.
func (f format) sqrt(a uint64, r mode) uint64 {
	switch {
	case f.isNaN(a):
		return f.quiet(a)
	case f.isZero(a):
		return a
	case f.negative(a):
		return f.nan
	case f.isInf(a):
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

// fromInt returns an integer as a float.
func (f format) fromInt(negative bool, m uint64, r mode) uint64 {
	return f.round(negative, wide{0, m}, 0, false, r)
}

// convert returns a number of another format. A NaN keeps the first bits of its payload if one of the
// formats has 64 bits.
func (f format) convert(v uint64, from format, r mode) uint64 {
	switch {
	case from.isNaN(v) && (from.payload || f.payload):
		m := v & (1<<from.man - 1)
		if from.man < f.man {
			m <<= f.man - from.man
		} else {
			m >>= from.man - f.man
		}
		return f.signed(from.negative(v), f.inf()|m|1<<(f.man-1))
	case from.isNaN(v):
		return f.nan
	case from.isInf(v):
		return f.signed(from.negative(v), f.inf())
	}
	negative, m, e := from.unpack(v)
	return f.round(negative, wide{0, m}, e, false, r)
}

// integral returns a number rounded to an integer.
func (f format) integral(v uint64, r mode) uint64 {
	switch {
	case f.isNaN(v):
		return f.quiet(v)
	case f.isInf(v) || f.isZero(v):
		return v
	}
	negative, m, e := f.unpack(v)
	if e >= 0 {
		return v
	}
	i := roundInt(negative, m, e, r)
	return f.round(negative, wide{0, i}, 0, false, rn)
}

// roundInt returns m · 2^e, with e below 0, rounded to an integer.
func roundInt(negative bool, m uint64, e int, r mode) uint64 {
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
	case r == rn && half && (rest || i&1 != 0), r == rm && negative && (half || rest), r == rp && !negative &&
		(half || rest):
		i++
	}
	return i
}

// toInt returns a number as an integer with a number of bits, limited to its range.
func (f format) toInt(v uint64, size int, signed bool, r mode) uint64 {
	most, least := uint64(1)<<size-1, uint64(0)
	if signed {
		most, least = most>>1, 1<<(size-1)
	}
	if f.isNaN(v) {
		if f.payload || size == 64 {
			return 1 << (size - 1) // as on an H200; the manual does not say it
		}
		return 0
	}
	negative, m, e := f.unpack(v)
	var i uint64
	switch {
	case f.isInf(v) || m != 0 && e+bits.Len64(m) > 64:
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
