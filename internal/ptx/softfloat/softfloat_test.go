package softfloat

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exact returns a finite number as a big.Float without rounding.
func (f Format) exact(v uint64) *big.Float {
	negative, m, e := f.unpack(v)
	x := new(big.Float).SetPrec(64).SetUint64(m)
	x.SetMantExp(x, e)
	if negative {
		x.Neg(x)
	}
	return x
}

// reference rounds a number that is not zero. It does so by other means than the code that it checks.
func (f Format) reference(x *big.Float, r Mode) uint64 {
	modes := map[Mode]big.RoundingMode{RN: big.ToNearestEven, RZ: big.ToZero, RM: big.ToNegativeInf,
		RP: big.ToPositiveInf}
	least := 1 - f.Bias() - f.Mantissa // the exponent of the smallest number
	// Scale so that the unit of the result is one, and round to an integer.
	exp := max(x.MantExp(nil)-1-f.Mantissa, least)
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
		sign = f.Sign()
	}
	v := m
	if m >= 1<<f.Mantissa { // the exponent's field counts from the least normal number
		v = m + uint64(exp-least)<<f.Mantissa
	}
	if v >= f.Inf() {
		if r == RZ || r == RM && sign == 0 || r == RP && sign != 0 {
			return sign | f.Inf() - 1
		}
		return sign | f.Inf()
	}
	return sign | v
}

// random returns a finite number that is likely to be special, or near another one.
func (f Format) random(rng *rand.Rand, near uint64) uint64 {
	for {
		v := rng.Uint64() & (f.Sign()<<1 - 1)
		switch rng.IntN(6) {
		case 0: // a subnormal number, or one of few bits
			v &= f.Sign() | 1<<f.Mantissa - 1
		case 1:
			v &= f.Sign() | f.Inf() | 7<<(f.Mantissa-3)
		case 2, 3: // an exponent that is near
			v = v&^f.Inf() | near&f.Inf() + uint64(rng.IntN(60)-30)<<f.Mantissa&f.Inf()
		case 4:
			v = near ^ uint64(rng.IntN(8)) ^ uint64(rng.IntN(2))<<(f.Exponent+f.Mantissa)
		}
		if v &= f.Sign()<<1 - 1; v&f.Inf() != f.Inf() {
			return v
		}
	}
}

// TestSoftFloat compares operations with math/big.
func TestSoftFloat(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	wide := func() *big.Float { return new(big.Float).SetPrec(4000) }
	for name, f := range map[string]Format{"f16": F16, "bf16": BF16, "f32": F32, "f64": F64} {
		for range 1200 {
			a := f.random(rng, uint64(f.Bias())<<f.Mantissa)
			b := f.random(rng, a)
			product := f.Mul(a, b, RZ)
			c := f.random(rng, product)
			x, y, z := f.exact(a), f.exact(b), f.exact(c)
			for r := RN; r <= RP; r++ {
				sum := wide().Add(wide().Mul(x, y), z)
				if want := f.reference(sum, r); sum.Sign() != 0 && f.FMA(a, b, c, r) != want {
					t.Fatalf("%s: fma(%x, %x, %x) in mode %d is %x, want %x", name, a, b, c, r, f.FMA(a, b, c, r), want)
				}
				if sum := wide().Add(x, y); sum.Sign() != 0 && f.Add(a, b, r) != f.reference(sum, r) {
					t.Fatalf("%s: %x + %x in mode %d is %x, want %x", name, a, b, r, f.Add(a, b, r),
						f.reference(sum, r))
				}
				if p := wide().Mul(x, y); p.Sign() != 0 && f.Mul(a, b, r) != f.reference(p, r) {
					t.Fatalf("%s: %x · %x in mode %d is %x, want %x", name, a, b, r, f.Mul(a, b, r), f.reference(p, r))
				}
				if x.Sign() != 0 && y.Sign() != 0 {
					// 400 bits tell a quotient from the middle of two numbers.
					if q := new(big.Float).SetPrec(400).Quo(x, y); f.Div(a, b, r) != f.reference(q, r) {
						t.Fatalf("%s: %x / %x in mode %d is %x, want %x", name, a, b, r, f.Div(a, b, r),
							f.reference(q, r))
					}
				}
				if x.Sign() > 0 {
					if s := new(big.Float).SetPrec(400).Sqrt(x); f.Sqrt(a, r) != f.reference(s, r) {
						t.Fatalf("%s: the root of %x in mode %d is %x, want %x", name, a, r, f.Sqrt(a, r),
							f.reference(s, r))
					}
				}
				for _, g := range []Format{F16, BF16, F32, F64} {
					if want := g.reference(x, r); x.Sign() != 0 && g.Convert(a, f, r) != want {
						t.Fatalf("%s: %x in mode %d becomes %x, want %x", name, a, r, g.Convert(a, f, r), want)
					}
				}
				n := rng.Uint64() >> rng.IntN(64)
				if want := f.reference(wide().SetUint64(n), r); n != 0 && f.FromInt(false, n, r) != want {
					t.Fatalf("%s: the integer %d in mode %d is %x, want %x", name, n, r, f.FromInt(false, n, r), want)
				}
			}
		}
	}
}

// TestFMA32 compares the fast multiplication and addition of 32 bits with the exact one.
func TestFMA32(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50_000 {
		a := F32.random(rng, 0x3f800000)
		b := F32.random(rng, a)
		c := F32.random(rng, F32.Mul(a, b, RZ))
		if got, want := FMA32(a, b, c), F32.FMA(a, b, c, RN); got != want {
			t.Fatalf("fma(%x, %x, %x) is %x, want %x", a, b, c, got, want)
		}
	}
	// The middle of two subnormal results, and a little more.
	a, b := uint64(math.Float32bits(0x1p-75)), uint64(math.Float32bits(0x1.000002p-75))
	if got, want := FMA32(a, b, 1), F32.FMA(a, b, 1, RN); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
}
