package isa

import (
	"math"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// Floats are computed by the processor where it rounds to nearest, and otherwise by softfloat.go. An
// expression is never fused, as each step is converted: Go may fuse x*y + z on some processors.

// floatRows are the instructions that compute with floats exactly as IEEE 754 and the manual say.
func floatRows() []*Instruction {
	const rounding = "rnd?=rn|rz|rm|rp "
	list := []*Instruction{}
	for _, op := range []struct {
		name string
		f    func(f format, a, b uint64, r mode) uint64
	}{
		{"add", format.add}, {"sub", subtract}, {"mul", format.mul},
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
	div := func(v Variant) vm.Func { return finish(v, format.div) }
	fma := func(v Variant) vm.Func { return fmaOf(v) }
	root := func(v Variant) vm.Func {
		return finish1(v, func(f format, a uint64, r mode) uint64 { return f.sqrt(a, r) })
	}
	inverse := func(v Variant) vm.Func {
		return finish1(v, func(f format, a uint64, r mode) uint64 { return f.div(uint64(f.bias())<<f.man, a, r) })
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

func subtract(f format, a, b uint64, r mode) uint64 {
	if f.isNaN(b) {
		return f.quiet(b, a)
	}
	return f.add(a, b^f.sign(), r)
}

// paired reports whether a type has two numbers in a word.
func paired(t string) bool { return t == "f16x2" || t == "bf16x2" }

// twice returns the double of a normal number, and 0 for 0.
func (f format) twice(a uint64) uint64 {
	if a&^f.sign() == 0 {
		return a
	}
	return a + 1<<f.man
}

// adjusted returns f with the modifiers for subnormal numbers, ranges and signs.
func adjusted(v Variant, f func(f format, a, b, c uint64, r mode) uint64) func(a, b, c uint64) uint64 {
	form, r := formatOf(v.T()), modeOf(v.Get("rnd"))
	ftz, sat, relu := v.Has("ftz"), v.Has("sat"), v.Has("relu")
	return func(a, b, c uint64) uint64 {
		if ftz {
			a, b, c = form.flush(a), form.flush(b), form.flush(c)
		}
		d := f(form, a, b, c, r)
		// A number counts as subnormal if it would be below the least normal number with as many digits
		// as a normal number. Twice the number has as many. A reciprocal is halved instead: it has no
		// digits between the two. Sums are exact here.
		if least := uint64(1) << form.man; ftz && d&^form.sign() == least &&
			f(form, a, b, c, rz)&^form.sign() < least &&
			f(form, form.twice(a), b, form.twice(c), r)&^form.sign() < 2*least {
			d &= form.sign()
		}
		if sat {
			d = form.saturate(d)
		}
		if relu && form.negative(d) && !form.isNaN(d) {
			d = 0
		}
		if ftz {
			d = form.flush(d)
		}
		return d
	}
}

// number returns the function of an instruction with three operands, of which not all need be used.
func number(v Variant, f func(f format, a, b, c uint64, r mode) uint64) func(a, b, c uint64) uint64 {
	g, form := adjusted(v, f), formatOf(v.T())
	switch {
	case paired(v.T()):
		return func(a, b, c uint64) uint64 {
			return g(a&0xffff, b&0xffff, c&0xffff) | g(a>>16&0xffff, b>>16&0xffff, c>>16&0xffff)<<16
		}
	case form.man == 52:
		return g
	}
	mask := form.sign()<<1 - 1
	return func(a, b, c uint64) uint64 { return g(a&mask, b&mask, c&mask) }
}

// finish returns the function of an instruction with two operands.
func finish(v Variant, f func(f format, a, b uint64, r mode) uint64) vm.Func {
	g := number(v, func(form format, a, b, _ uint64, r mode) uint64 { return f(form, a, b, r) })
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
func finish1(v Variant, f func(f format, a uint64, r mode) uint64) vm.Func {
	g := number(v, func(form format, a, _, _ uint64, r mode) uint64 { return f(form, a, r) })
	return one(func(a uint64) uint64 { return g(a, 0, 0) })
}

// float returns the float in a register of 32 bits.
func float(a uint64) float32 { return math.Float32frombits(uint32(a)) }

// canonical returns the bits of a float with 32 bits. There is one NaN.
func canonical(v float32) uint64 {
	if v != v {
		return f32.nan
	}
	return uint64(math.Float32bits(v))
}

// hardware2 returns the loop for all lanes of a frequent variant, or nil.
func hardware2(v Variant) func(d, a, b *vm.Column) {
	if v.Has("how") || v.Has("ftz") || v.Has("sat") || modeOf(v.Get("rnd")) != rn {
		return nil
	}
	switch v.Name + v.T() {
	case "addf32":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = canonical(float(a[i]) + float(b[i]))
			}
		}
	case "subf32":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = canonical(float(a[i]) - float(b[i]))
			}
		}
	case "mulf32":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = canonical(float(a[i]) * float(b[i]))
			}
		}
	case "divf32":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = canonical(float(a[i]) / float(b[i]))
			}
		}
	case "addf64":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = double(math.Float64frombits(a[i])+math.Float64frombits(b[i]), format.add, a[i], b[i])
			}
		}
	case "subf64":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = double(math.Float64frombits(a[i])-math.Float64frombits(b[i]), subtract, a[i], b[i])
			}
		}
	case "mulf64":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = double(math.Float64frombits(a[i])*math.Float64frombits(b[i]), format.mul, a[i], b[i])
			}
		}
	case "divf64":
		return func(d, a, b *vm.Column) {
			for i := range d {
				d[i] = double(math.Float64frombits(a[i])/math.Float64frombits(b[i]), format.div, a[i], b[i])
			}
		}
	}
	return nil
}

// double returns the bits of a float with 64 bits. A NaN is computed anew by f, as processors choose
// its payload in different ways.
func double(z float64, f func(f format, a, b uint64, r mode) uint64, a, b uint64) uint64 {
	if z != z {
		return f(f64, a, b, rn)
	}
	return math.Float64bits(z)
}

// fma64 returns a · b + c of 64 bits.
func fma64(a, b, c uint64) uint64 {
	z := math.FMA(math.Float64frombits(a), math.Float64frombits(b), math.Float64frombits(c))
	if z != z {
		return f64.fma(a, b, c, rn)
	}
	return math.Float64bits(z)
}

// fmaOf returns the function of a multiplication and addition that rounds once.
func fmaOf(v Variant) vm.Func {
	if modeOf(v.Get("rnd")) != rn {
		return three(number(v, format.fma))
	}
	var exact func(a, b, c uint64) uint64
	switch v.T() {
	case "f32":
		exact = fma32
	case "f64":
		exact = fma64
	default:
		return three(number(v, format.fma))
	}
	slow := three(number(v, func(f format, a, b, c uint64, r mode) uint64 {
		if r != rn { // see adjusted
			return f.fma(a, b, c, r)
		}
		return exact(a, b, c)
	}))
	switch {
	case v.Has("ftz") || v.Has("sat"):
		return slow
	case v.T() == "f64":
		return fast3(func(d, a, b, c *vm.Column) {
			for i := range d {
				d[i] = fma64(a[i], b[i], c[i])
			}
		}, slow)
	}
	return fast3(func(d, a, b, c *vm.Column) {
		for i := range d {
			d[i] = fma32(a[i], b[i], c[i])
		}
	}, slow)
}

// fma32 returns a · b + c of 32 bits. The product is exact in 64 bits. The sum is rounded to 64 bits
// and then to 32: that differs from one rounding only if the first has met the middle of two results,
// which ends with 28 zeros.
func fma32(a, b, c uint64) uint64 {
	p := float64(float(a)) * float64(float(b))
	s := float64(p) + float64(float(c))
	if n := math.Float64bits(s); n&(1<<28-1) == 0 && s-s == 0 {
		return f32.fma(a&(1<<32-1), b&(1<<32-1), c&(1<<32-1), rn)
	}
	return canonical(float32(s))
}

// negative returns the function of neg.
func negative(v Variant) vm.Func {
	return finish1(v, func(f format, a uint64, _ mode) uint64 {
		if f.isNaN(a) {
			return f.quiet(a)
		}
		return a ^ f.sign()
	})
}

// magnitude returns the function of abs.
func magnitude(v Variant) vm.Func {
	return finish1(v, func(f format, a uint64, _ mode) uint64 {
		if f.isNaN(a) {
			return f.quiet(a)
		}
		return a &^ f.sign()
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
func extremeOf(v Variant, least bool) func(f format, a, b uint64, _ mode) uint64 {
	nan, xor, abs := v.Has("NaN"), v.Has("xorsign"), v.Has("abs")
	return func(f format, a, b uint64, _ mode) uint64 {
		sign := (a ^ b) & f.sign()
		if abs {
			a, b = a&^f.sign(), b&^f.sign()
		}
		var d uint64
		switch {
		case f.isNaN(a) && f.isNaN(b), nan && (f.isNaN(a) || f.isNaN(b)):
			return f.quiet(b, a)
		case f.isNaN(a):
			d = b
		case f.isNaN(b):
			d = a
		case f.less(a, b) == least:
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

// less reports whether a is below b. Negative zero is below zero. Neither is a NaN.
func (f format) less(a, b uint64) bool {
	if f.negative(a) != f.negative(b) {
		return f.negative(a)
	}
	return a != b && a < b != f.negative(a)
}
