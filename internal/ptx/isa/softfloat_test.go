package isa

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exact returns a finite number as a big.Float without rounding.
func (f format) exact(v uint64) *big.Float {
	negative, m, e := f.unpack(v)
	x := new(big.Float).SetPrec(64).SetUint64(m)
	x.SetMantExp(x, e)
	if negative {
		x.Neg(x)
	}
	return x
}

// reference rounds a number that is not zero. It does so by other means than the code that it checks.
func (f format) reference(x *big.Float, r mode) uint64 {
	modes := map[mode]big.RoundingMode{rn: big.ToNearestEven, rz: big.ToZero, rm: big.ToNegativeInf,
		rp: big.ToPositiveInf}
	least := 1 - f.bias() - f.man // the exponent of the smallest number
	// Scale so that the unit of the result is one, and round to an integer.
	exp := max(x.MantExp(nil)-1-f.man, least)
	y := new(big.Float).SetPrec(x.Prec()).SetMantExp(x, -exp)
	up, _ := y.Int(nil) // towards zero
	whole := new(big.Float).SetInt(up)
	rest := new(big.Float).SetPrec(4000).Sub(y, whole)
	away := big.NewInt(int64(y.Sign()))
	switch half := new(big.Float).Abs(rest).Cmp(big.NewFloat(0.5)); {
	case rest.Sign() == 0:
	case modes[r] == big.ToNearestEven && (half > 0 || half == 0 && up.Bit(0) == 1),
		modes[r] == big.ToNegativeInf && y.Sign() < 0, modes[r] == big.ToPositiveInf && y.Sign() > 0:
		up.Add(up, away)
	}
	m := new(big.Int).Abs(up).Uint64()
	sign := uint64(0)
	if x.Sign() < 0 {
		sign = f.sign()
	}
	v := m
	if m >= 1<<f.man { // the exponent's field counts from the least normal number
		v = m + uint64(exp-least)<<f.man
	}
	if v >= f.inf() {
		if r == rz || r == rm && sign == 0 || r == rp && sign != 0 {
			return sign | f.inf() - 1
		}
		return sign | f.inf()
	}
	return sign | v
}

// random returns a finite number that is likely to be special, or near another one.
func (f format) random(rng *rand.Rand, near uint64) uint64 {
	for {
		v := rng.Uint64() & (f.sign()<<1 - 1)
		switch rng.IntN(6) {
		case 0: // a subnormal number, or one of few bits
			v &= f.sign() | 1<<f.man - 1
		case 1:
			v &= f.sign() | f.inf() | 7<<(f.man-3)
		case 2, 3: // an exponent that is near
			v = v&^f.inf() | near&f.inf() + uint64(rng.IntN(60)-30)<<f.man&f.inf()
		case 4:
			v = near ^ uint64(rng.IntN(8)) ^ uint64(rng.IntN(2))<<(f.exp+f.man)
		}
		if v &= f.sign()<<1 - 1; v&f.inf() != f.inf() {
			return v
		}
	}
}

// TestSoftFloat compares operations with math/big.
func TestSoftFloat(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	wide := func() *big.Float { return new(big.Float).SetPrec(4000) }
	for name, f := range map[string]format{"f16": f16, "bf16": bf16, "f32": f32, "f64": f64} {
		for range 1200 {
			a := f.random(rng, uint64(f.bias())<<f.man)
			b := f.random(rng, a)
			product := f.mul(a, b, rz)
			c := f.random(rng, product)
			x, y, z := f.exact(a), f.exact(b), f.exact(c)
			for r := rn; r <= rp; r++ {
				sum := wide().Add(wide().Mul(x, y), z)
				if want := f.reference(sum, r); sum.Sign() != 0 && f.fma(a, b, c, r) != want {
					t.Fatalf("%s: fma(%x, %x, %x) in mode %d is %x, want %x", name, a, b, c, r, f.fma(a, b, c, r), want)
				}
				if sum := wide().Add(x, y); sum.Sign() != 0 && f.add(a, b, r) != f.reference(sum, r) {
					t.Fatalf("%s: %x + %x in mode %d is %x, want %x", name, a, b, r, f.add(a, b, r),
						f.reference(sum, r))
				}
				if p := wide().Mul(x, y); p.Sign() != 0 && f.mul(a, b, r) != f.reference(p, r) {
					t.Fatalf("%s: %x · %x in mode %d is %x, want %x", name, a, b, r, f.mul(a, b, r), f.reference(p, r))
				}
				if x.Sign() != 0 && y.Sign() != 0 {
					// 400 bits tell a quotient from the middle of two numbers.
					if q := new(big.Float).SetPrec(400).Quo(x, y); f.div(a, b, r) != f.reference(q, r) {
						t.Fatalf("%s: %x / %x in mode %d is %x, want %x", name, a, b, r, f.div(a, b, r),
							f.reference(q, r))
					}
				}
				if x.Sign() > 0 {
					if s := new(big.Float).SetPrec(400).Sqrt(x); f.sqrt(a, r) != f.reference(s, r) {
						t.Fatalf("%s: the root of %x in mode %d is %x, want %x", name, a, r, f.sqrt(a, r),
							f.reference(s, r))
					}
				}
				for _, g := range []format{f16, bf16, f32, f64} {
					if want := g.reference(x, r); x.Sign() != 0 && g.convert(a, f, r) != want {
						t.Fatalf("%s: %x in mode %d becomes %x, want %x", name, a, r, g.convert(a, f, r), want)
					}
				}
				n := rng.Uint64() >> rng.IntN(64)
				if want := f.reference(wide().SetUint64(n), r); n != 0 && f.fromInt(false, n, r) != want {
					t.Fatalf("%s: the integer %d in mode %d is %x, want %x", name, n, r, f.fromInt(false, n, r), want)
				}
			}
		}
	}
}

// TestFMA32 compares the fast multiplication and addition of 32 bits with the exact one.
func TestFMA32(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50_000 {
		a := f32.random(rng, 0x3f800000)
		b := f32.random(rng, a)
		c := f32.random(rng, f32.mul(a, b, rz))
		if got, want := fma32(a, b, c), f32.fma(a, b, c, rn); got != want {
			t.Fatalf("fma(%x, %x, %x) is %x, want %x", a, b, c, got, want)
		}
	}
	// The middle of two subnormal results, and a little more.
	a, b := uint64(math.Float32bits(0x1p-75)), uint64(math.Float32bits(0x1.000002p-75))
	if got, want := fma32(a, b, 1), f32.fma(a, b, 1, rn); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
}
