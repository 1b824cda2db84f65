package isa

import (
	"math"

	"github.com/purecu/purecu/internal/ptx/softfloat"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// Floats are computed by the processor where it rounds to nearest, and otherwise by package softfloat. An
// expression is never fused, as each step is converted: Go may fuse x*y + z on some processors.

// floatRows are the instructions that compute with floats exactly as IEEE 754 and the manual say.
func floatRows() []*Instruction {
	const rounding = "rnd?=rn|rz|rm|rp "
	list := []*Instruction{}
	for _, op := range []struct {
		name string
		f    softfloat.Binary
	}{
		{"add", softfloat.Format.Add}, {"sub", softfloat.Format.Sub}, {"mul", softfloat.Format.Mul},
	} {
		list = append(list,
			&Instruction{Name: op.name, Modifiers: rounding + "ftz? sat? t=f32", Operands: "d a b",
				Make: func(v Variant) vm.Func {
					return finish(v, op.f)
				}},
			&Instruction{Name: op.name, Modifiers: rounding + "t=f64", Operands: "d a b",
				Make: func(v Variant) vm.Func {
					return finish(v, op.f)
				}},
			&Instruction{Name: op.name, Modifiers: "rnd?=rn ftz? sat? t=f16|f16x2", Operands: "d a b",
				Make: func(v Variant) vm.Func {
					return finish(v, op.f)
				}},
			&Instruction{Name: op.name, Modifiers: "rnd?=rn t=bf16|bf16x2", Operands: "d a b",
				Make: func(v Variant) vm.Func {
					return finish(v, op.f)
				}})
	}
	div := func(v Variant) vm.Func { return finish(v, softfloat.Format.Div) }
	fma := func(v Variant) vm.Func { return fmaOf(v) }
	root := func(v Variant) vm.Func { return finish1(v, softfloat.Format.Sqrt) }
	inverse := func(v Variant) vm.Func {
		return finish1(v, func(f softfloat.Format, a uint64, r softfloat.Mode) uint64 {
			return f.Div(uint64(f.Bias())<<f.Mantissa, a, r)
		})
	}
	return append(list, []*Instruction{
		{Name: "div", Modifiers: "rnd=rn|rz|rm|rp ftz? t=f32", Operands: "d a b", Make: div},
		{Name: "div", Modifiers: "rnd=rn|rz|rm|rp t=f64", Operands: "d a b", Make: div},
		{Name: "fma", Modifiers: "rnd=rn|rz|rm|rp ftz? sat? t=f32", Operands: "d a b c", Make: fma},
		{Name: "fma", Modifiers: "rnd=rn|rz|rm|rp t=f64", Operands: "d a b c", Make: fma},
		{Name: "fma", Modifiers: "rnd=rn ftz? sat? t=f16|f16x2", Operands: "d a b c", Make: fma},
		{Name: "fma", Modifiers: "rnd=rn ftz? relu t=f16|f16x2", Operands: "d a b c", Make: fma},
		{Name: "fma", Modifiers: "rnd=rn relu? t=bf16|bf16x2", Operands: "d a b c", Make: fma},
		{Name: "mad", Modifiers: "rnd=rn|rz|rm|rp ftz? sat? t=f32", Operands: "d a b c", Make: fma},
		{Name: "mad", Modifiers: "rnd=rn|rz|rm|rp t=f64", Operands: "d a b c", Make: fma},
		{Name: "sqrt", Modifiers: "rnd=rn|rz|rm|rp ftz? t=f32", Operands: "d a", Make: root},
		{Name: "sqrt", Modifiers: "rnd=rn|rz|rm|rp t=f64", Operands: "d a", Make: root},
		{Name: "rcp", Modifiers: "rnd=rn|rz|rm|rp ftz? t=f32", Operands: "d a", Make: inverse},
		{Name: "rcp", Modifiers: "rnd=rn|rz|rm|rp t=f64", Operands: "d a", Make: inverse},
		{Name: "neg", Modifiers: "ftz? t=f32|f16|f16x2", Operands: "d a", Make: negative},
		{Name: "neg", Modifiers: "t=f64|bf16|bf16x2", Operands: "d a", Make: negative},
		{Name: "abs", Modifiers: "ftz? t=f32|f16|f16x2", Operands: "d a", Make: magnitude},
		{Name: "abs", Modifiers: "t=f64|bf16|bf16x2", Operands: "d a", Make: magnitude},
		{Name: "min", Modifiers: "ftz? NaN? xorsign? abs? t=f32|f16|f16x2", Operands: "d a b", Make: extreme},
		{Name: "max", Modifiers: "ftz? NaN? xorsign? abs? t=f32|f16|f16x2", Operands: "d a b", Make: extreme},
		{Name: "min", Modifiers: "NaN? xorsign? abs? t=bf16|bf16x2", Operands: "d a b", Make: extreme},
		{Name: "max", Modifiers: "NaN? xorsign? abs? t=bf16|bf16x2", Operands: "d a b", Make: extreme},
		{Name: "min", Modifiers: "t=f64", Operands: "d a b", Make: extreme},
		{Name: "max", Modifiers: "t=f64", Operands: "d a b", Make: extreme},
	}...)
}

// paired reports whether a type has two numbers in a word.
func paired(t string) bool { return t == "f16x2" || t == "bf16x2" }

// twice returns the double of a normal number, and 0 for 0.
func twice(f softfloat.Format, a uint64) uint64 {
	if a&^f.Sign() == 0 {
		return a
	}
	return a + 1<<f.Mantissa
}

// adjusted returns f with the modifiers for subnormal numbers, ranges and signs.
func adjusted(v Variant, f softfloat.Ternary) func(a, b, c uint64) uint64 {
	form, r := softfloat.Of(v.T()), softfloat.ModeOf(v.Get("rnd"))
	ftz, sat, relu := v.Has("ftz"), v.Has("sat"), v.Has("relu")
	return func(a, b, c uint64) uint64 {
		if ftz {
			a, b, c = form.Flush(a), form.Flush(b), form.Flush(c)
		}
		d := f(form, a, b, c, r)
		// A number counts as subnormal if it would be below the least normal number with as many digits
		// as a normal number. Twice the number has as many. A reciprocal is halved instead: it has no
		// digits between the two. Sums are exact here.
		if least := uint64(1) << form.Mantissa; ftz && d&^form.Sign() == least &&
			f(form, a, b, c, softfloat.RZ)&^form.Sign() < least &&
			f(form, twice(form, a), b, twice(form, c), r)&^form.Sign() < 2*least {
			d &= form.Sign()
		}
		if sat {
			d = form.Saturate(d)
		}
		if relu && form.Negative(d) && !form.IsNaN(d) {
			d = 0
		}
		if ftz {
			d = form.Flush(d)
		}
		return d
	}
}

// number returns the function of an instruction with three operands, of which not all need be used.
func number(v Variant, f softfloat.Ternary) func(a, b, c uint64) uint64 {
	g, form := adjusted(v, f), softfloat.Of(v.T())
	switch {
	case paired(v.T()):
		return func(a, b, c uint64) uint64 {
			return g(a&0xffff, b&0xffff, c&0xffff) | g(a>>16&0xffff, b>>16&0xffff, c>>16&0xffff)<<16
		}
	case form.Mantissa == 52:
		return g
	}
	mask := form.Sign()<<1 - 1
	return func(a, b, c uint64) uint64 { return g(a&mask, b&mask, c&mask) }
}

// ofTwo returns f with a third operand, which does not count.
func ofTwo(f softfloat.Binary) softfloat.Ternary {
	return func(form softfloat.Format, a, b, _ uint64, r softfloat.Mode) uint64 { return f(form, a, b, r) }
}

// finish returns the function of an instruction with two operands.
func finish(v Variant, f softfloat.Binary) vm.Func {
	g := number(v, ofTwo(f))
	slow := two(func(a, b uint64) uint64 { return g(a, b, 0) })
	if full := hardware2(v); full != nil {
		// Lanes that are not active are computed, too, and dropped.
		return func(w *vm.Warp, o *vm.Op) {
			if w.Active == vm.Full {
				full(&w.R[o.D], &w.R[o.A], &w.R[o.B])
				return
			}
			var result vm.Column
			full(&result, &w.R[o.A], &w.R[o.B])
			d := &w.R[o.D]
			for i := range w.Each {
				d[i] = result[i]
			}
		}
	}
	return slow
}

// finish1 is finish for one operand.
func finish1(v Variant, f func(f softfloat.Format, a uint64, r softfloat.Mode) uint64) vm.Func {
	g := number(v, func(form softfloat.Format, a, _, _ uint64, r softfloat.Mode) uint64 { return f(form, a, r) })
	return one(func(a uint64) uint64 { return g(a, 0, 0) })
}

// float returns the float in a register of 32 bits.
func float(a uint64) float32 { return math.Float32frombits(uint32(a)) }

// hardware2 returns the loop for all lanes of a frequent variant, or nil.
func hardware2(v Variant) func(d, a, b *vm.Column) {
	if v.Has("how") || v.Has("ftz") || v.Has("sat") || softfloat.ModeOf(v.Get("rnd")) != softfloat.RN {
		return nil
	}
	switch v.Name + v.T() {
	case "addf32":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = softfloat.Canonical(float(a[i]) + float(b[i]))
			}
		}
	case "subf32":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = softfloat.Canonical(float(a[i]) - float(b[i]))
			}
		}
	case "mulf32":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = softfloat.Canonical(float(a[i]) * float(b[i]))
			}
		}
	case "divf32":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = softfloat.Canonical(float(a[i]) / float(b[i]))
			}
		}
	case "addf64":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = double(math.Float64frombits(a[i])+math.Float64frombits(b[i]), softfloat.Format.Add, a[i], b[i])
			}
		}
	case "subf64":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = double(math.Float64frombits(a[i])-math.Float64frombits(b[i]), softfloat.Format.Sub, a[i], b[i])
			}
		}
	case "mulf64":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = double(math.Float64frombits(a[i])*math.Float64frombits(b[i]), softfloat.Format.Mul, a[i], b[i])
			}
		}
	case "divf64":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = double(math.Float64frombits(a[i])/math.Float64frombits(b[i]), softfloat.Format.Div, a[i], b[i])
			}
		}
	}
	return nil
}

// double returns the bits of a float with 64 bits. A NaN is computed anew by f, as processors choose
// its payload in different ways.
func double(z float64, f softfloat.Binary, a, b uint64) uint64 {
	if z != z {
		return f(softfloat.F64, a, b, softfloat.RN)
	}
	return math.Float64bits(z)
}

// fmaOf returns the function of a multiplication and addition that rounds once.
func fmaOf(v Variant) vm.Func {
	if softfloat.ModeOf(v.Get("rnd")) != softfloat.RN {
		return three(number(v, softfloat.Format.FMA))
	}
	var exact func(a, b, c uint64) uint64
	switch v.T() {
	case "f32":
		exact = softfloat.FMA32
	case "f64":
		exact = softfloat.FMA64
	default:
		return three(number(v, softfloat.Format.FMA))
	}
	slow := three(number(v, func(f softfloat.Format, a, b, c uint64, r softfloat.Mode) uint64 {
		if r != softfloat.RN { // see adjusted
			return f.FMA(a, b, c, r)
		}
		return exact(a, b, c)
	}))
	switch {
	case v.Has("ftz") || v.Has("sat"):
		return slow
	case v.T() == "f64":
		return fast3(func(d, a, b, c *vm.Column) {
			for i := range d {
				d[i] = softfloat.FMA64(a[i], b[i], c[i])
			}
		}, slow)
	}
	return fast3(func(d, a, b, c *vm.Column) {
		for i := range d {
			d[i] = softfloat.FMA32(a[i], b[i], c[i])
		}
	}, slow)
}

// negative returns the function of neg.
func negative(v Variant) vm.Func {
	return finish1(v, func(f softfloat.Format, a uint64, _ softfloat.Mode) uint64 {
		if f.IsNaN(a) {
			return f.Quiet(a)
		}
		return a ^ f.Sign()
	})
}

// magnitude returns the function of abs.
func magnitude(v Variant) vm.Func {
	return finish1(v, func(f softfloat.Format, a uint64, _ softfloat.Mode) uint64 {
		if f.IsNaN(a) {
			return f.Quiet(a)
		}
		return a &^ f.Sign()
	})
}

// extreme returns the function of min or max.
func extreme(v Variant) vm.Func {
	if v.Has("xorsign") != v.Has("abs") {
		return nil
	}
	return finish(v, extremeOf(v, v.Name == "min"))
}

// extremeOf returns what computes the smaller or the larger one of two numbers.
func extremeOf(v Variant, least bool) softfloat.Binary {
	nan, xor, abs := v.Has("NaN"), v.Has("xorsign"), v.Has("abs")
	return func(f softfloat.Format, a, b uint64, _ softfloat.Mode) uint64 {
		sign := (a ^ b) & f.Sign()
		if abs {
			a, b = a&^f.Sign(), b&^f.Sign()
		}
		var d uint64
		switch {
		case f.IsNaN(a) && f.IsNaN(b), nan && (f.IsNaN(a) || f.IsNaN(b)):
			return f.Quiet(b, a)
		case f.IsNaN(a):
			d = b
		case f.IsNaN(b):
			d = a
		case f.Less(a, b) == least:
			d = a
		default:
			d = b
		}
		if xor {
			d ^= sign
		}
		return d
	}
}

// approximateRows are the instructions for which the manual bounds the error, and does not say the
// result. They are computed with 64 bits and rounded to nearest, which is closer than the bounds.
func approximateRows() []*Instruction {
	f := func(name, modifiers string, g func(x float64) float64) *Instruction {
		return &Instruction{Name: name, Modifiers: modifiers, Operands: "d a", Make: func(v Variant) vm.Func {
			return finish1(v, func(form softfloat.Format, a uint64, _ softfloat.Mode) uint64 {
				return approximate(form, g, a)
			})
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
