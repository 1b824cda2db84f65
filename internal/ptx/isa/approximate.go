package isa

import (
	"math"

	"github.com/purecu/purecu/internal/ptx/softfloat"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// approximateRows are the instructions for which the manual bounds the error, and does not say the
// result. They are computed with 64 bits and rounded to nearest, which is closer than the bounds.
func approximateRows() []*Instruction {
	f := func(name, modifiers string, g func(x float64) float64) *Instruction {
		return &Instruction{Name: name, Modifiers: modifiers, Operands: "d a", Make: func(v Variant) vm.Func {
			return finish1(v, func(form softfloat.Format, a uint64, _ softfloat.Mode) uint64 { return approximate(form, g, a) })
		}}
	}
	divide := func(v Variant) vm.Func {
		full := v.Name == "div" && v.Get("how") == "full"
		return finish(v, func(form softfloat.Format, a, b uint64, r softfloat.Mode) uint64 {
			// Of a large divisor the quotient is 0, or a NaN for infinity.
			if x := b &^ form.Sign(); !full && x > 0x7e800000 && x < form.Inf() {
				if form.IsInf(a) {
					return form.NaN
				}
				if !form.IsNaN(a) {
					return form.Signed(form.Negative(a) != form.Negative(b), 0)
				}
			}
			return form.Div(a, b, r)
		})
	}
	return []*Instruction{
		{Name: "div", Modifiers: "how=approx|full ftz? t=f32", Operands: "d a b", Make: divide},
		f("rcp", "approx ftz? t=f32", func(x float64) float64 { return 1 / x }),
		{Name: "rcp", Modifiers: "approx ftz t=f64", Operands: "d a", Make: func(Variant) vm.Func {
			return coarse(func(x float64) float64 { return 1 / x })
		}},
		{Name: "rsqrt", Modifiers: "approx ftz t=f64", Operands: "d a", Make: func(Variant) vm.Func {
			return coarse(rsqrt)
		}},
		{Name: "rsqrt", Modifiers: "approx t=f64", Operands: "d a", Make: func(Variant) vm.Func {
			return one(func(a uint64) uint64 {
				if softfloat.F64.IsNaN(a) {
					return a | 1<<51
				}
				x := math.Float64frombits(a)
				y := rsqrt(x)
				switch {
				case y != y:
					return softfloat.F64.NaN
				case x > 0 && x <= math.MaxFloat64: // a step of Newton's method corrects the rounded square root
					root := x * y
					y += y / 2 * (math.FMA(-root, y, 1) - math.FMA(x, y, -root)*y)
				}
				return math.Float64bits(y)
			})
		}},
		f("sqrt", "approx ftz? t=f32", math.Sqrt),
		f("rsqrt", "approx ftz? t=f32", rsqrt),
		f("sin", "approx ftz? t=f32", math.Sin),
		f("cos", "approx ftz? t=f32", math.Cos),
		f("lg2", "approx ftz? t=f32", math.Log2),
		f("ex2", "approx ftz? t=f32", math.Exp2),
		f("tanh", "approx t=f32", math.Tanh),
		f("ex2", "approx t=f16", math.Exp2),
		f("tanh", "approx t=f16", math.Tanh),
		f("ex2", "approx t=f16x2", math.Exp2),
		f("ex2", "approx ftz t=bf16|bf16x2", math.Exp2),
		f("tanh", "approx t=f16x2|bf16|bf16x2", math.Tanh),
	}
}

// rsqrt returns the inverse of the square root. Of zero it is infinity with the sign of the zero.
func rsqrt(x float64) float64 {
	if x == 0 {
		return 1 / x
	}
	return 1 / math.Sqrt(x)
}

// coarse returns the function of an instruction that reads and writes the upper half of numbers of 64
// bits, and replaces subnormal ones by zero. A NaN is the one that rcp returns on an H200.
func coarse(g func(x float64) float64) vm.Func {
	return one(func(a uint64) uint64 {
		y := g(math.Float64frombits(softfloat.F64.Flush(a &^ (1<<32 - 1))))
		if y != y {
			return 0x7fffffff_00000000
		}
		return softfloat.F64.Flush(math.Float64bits(y) &^ (1<<32 - 1))
	})
}

// approximate returns a function of a number.
func approximate(f softfloat.Format, g func(x float64) float64, a uint64) uint64 {
	if f.IsNaN(a) {
		return f.NaN
	}
	if f == softfloat.F32 {
		return softfloat.Canonical(float32(g(float64(float(a)))))
	}
	y := g(math.Float64frombits(softfloat.F64.Convert(a, f, softfloat.RN)))
	if y != y {
		return f.NaN
	}
	return f.Convert(math.Float64bits(y), softfloat.F64, softfloat.RN)
}
