package syntax

import (
	"math"
	"strconv"
	"strings"
)

// mostNesting is how deep parentheses, braces and scopes may be nested, so that no text can exhaust
// the stack.
const mostNesting = 100

// Int returns an integer.
func Int(v int64) Number { return Number{Signed, uint64(v)} }

// isFloat reports whether it is a float.
func (n Number) isFloat() bool { return n.Kind >= Float32 }

// Float returns the value of a float as a 64-bit float.
func (n Number) Float() float64 {
	switch n.Kind {
	case Float32:
		return float64(math.Float32frombits(uint32(n.Bits)))
	case Float64:
		return math.Float64frombits(n.Bits)
	case Unsigned:
		return float64(n.Bits)
	}
	return float64(int64(n.Bits))
}

// parseNumber reads a number.
func parseNumber(t string) (Number, bool) {
	if len(t) > 2 && t[0] == '0' {
		switch hex := t[2:]; t[1] {
		case 'f', 'F':
			n, err := strconv.ParseUint(hex, 16, 32)
			return Number{Float32, n}, err == nil && len(hex) == 8
		case 'd', 'D':
			n, err := strconv.ParseUint(hex, 16, 64)
			return Number{Float64, n}, err == nil && len(hex) == 16
		}
	}
	digits := strings.TrimSuffix(t, "U")
	hex := strings.HasPrefix(t, "0x") || strings.HasPrefix(t, "0X")
	if !hex && strings.ContainsAny(digits, ".eE") {
		v, err := strconv.ParseFloat(digits, 64)
		return Number{Float64, math.Float64bits(v)}, err == nil && !strings.ContainsAny(digits, "_xXpP")
	}
	n, err := strconv.ParseUint(digits, 0, 64)
	if err != nil || strings.ContainsAny(digits, "_oO") {
		return Number{}, false
	}
	if digits != t || n > math.MaxInt64 {
		return Number{Unsigned, n}, true
	}
	return Number{Signed, n}, true
}

// precedences are the binary operators, from those that bind least.
func precedence(op string) int {
	switch op {
	case "||":
		return 1
	case "&&":
		return 2
	case "|":
		return 3
	case "^":
		return 4
	case "&":
		return 5
	case "==", "!=":
		return 6
	case "<", "<=", ">", ">=":
		return 7
	case "<<", ">>":
		return 8
	case "+", "-":
		return 9
	case "*", "/", "%":
		return 10
	}
	return 0
}

// constant reads a constant expression.
func (p *parser) constant() (Number, *Error) {
	if err := p.deeper(); err != nil {
		return Number{}, err
	}
	defer p.higher()
	n, err := p.binary(1)
	if err != nil || !p.take("?") {
		return n, err
	}
	yes, err := p.constant()
	if err != nil {
		return n, err
	}
	if err := p.expect(":"); err != nil {
		return n, err
	}
	no, err := p.constant()
	if n.Bits != 0 {
		return yes, err
	}
	return no, err
}

// binary reads operations whose operators have at least a precedence.
func (p *parser) binary(least int) (Number, *Error) {
	x, err := p.unary()
	for err == nil {
		op := p.tok
		level := precedence(op.text)
		if level == 0 || level < least {
			break
		}
		p.advance()
		var y Number
		if y, err = p.binary(level + 1); err == nil {
			x, err = p.apply(op, x, y)
		}
	}
	return x, err
}

// apply computes an operation.
func (p *parser) apply(op token, x, y Number) (Number, *Error) {
	if x.isFloat() || y.isFloat() {
		return p.applyFloat(op, x, y)
	}
	a, b := x.Bits, y.Bits
	kind := Signed
	if x.Kind == Unsigned || y.Kind == Unsigned {
		kind = Unsigned
	}
	truth := func(b bool) (Number, *Error) {
		if b {
			return Number{Signed, 1}, nil
		}
		return Number{Signed, 0}, nil
	}
	less := func(a, b uint64) bool {
		if kind == Signed {
			return int64(a) < int64(b)
		}
		return a < b
	}
	switch op.text {
	case "||":
		return truth(a != 0 || b != 0)
	case "&&":
		return truth(a != 0 && b != 0)
	case "==":
		return truth(a == b)
	case "!=":
		return truth(a != b)
	case "<":
		return truth(less(a, b))
	case "<=":
		return truth(!less(b, a))
	case ">":
		return truth(less(b, a))
	case ">=":
		return truth(!less(a, b))
	case "|":
		return Number{kind, a | b}, nil
	case "^":
		return Number{kind, a ^ b}, nil
	case "&":
		return Number{kind, a & b}, nil
	case "+":
		return Number{kind, a + b}, nil
	case "-":
		return Number{kind, a - b}, nil
	case "*":
		return Number{kind, a * b}, nil
	case "<<":
		return Number{x.Kind, a << min(b, 64)}, nil
	case ">>":
		if x.Kind == Signed {
			return Number{x.Kind, uint64(int64(a) >> min(b, 63))}, nil
		}
		return Number{x.Kind, a >> min(b, 64)}, nil
	}
	switch {
	case b == 0:
		return Number{}, &Error{op.pos, "a division by zero"}
	case kind == Signed && b == math.MaxUint64: // the least number has no negative
		if op.text == "/" {
			return Number{kind, -a}, nil
		}
		return Number{kind, 0}, nil
	case kind == Signed && op.text == "/":
		return Int(int64(a) / int64(b)), nil
	case kind == Signed:
		return Int(int64(a) % int64(b)), nil
	case op.text == "/":
		return Number{kind, a / b}, nil
	}
	return Number{kind, a % b}, nil
}

// applyFloat computes an operation with floats.
func (p *parser) applyFloat(op token, x, y Number) (Number, *Error) {
	a, b := x.Float(), y.Float()
	switch op.text {
	case "+":
		a += b
	case "-":
		a -= b
	case "*":
		a *= b
	case "/":
		a /= b
	default:
		return Number{}, &Error{op.pos, "floats have no operator " + op.text}
	}
	return Number{Float64, math.Float64bits(a)}, nil
}

// unary reads a number, an expression in parentheses, or an operation with one operand.
func (p *parser) unary() (Number, *Error) {
	if err := p.deeper(); err != nil {
		return Number{}, err
	}
	defer p.higher()
	t := p.tok
	switch t.text {
	case "+", "-", "~", "!":
		p.advance()
		n, err := p.unary()
		return negate(t.text, n), err
	case "(":
		p.advance()
		if kind := p.tok.text; kind == ".s64" || kind == ".u64" { // a cast
			p.advance()
			if err := p.expect(")"); err != nil {
				return Number{}, err
			}
			n, err := p.unary()
			if n.isFloat() {
				return n, &Error{t.pos, "a float is converted to an integer"}
			}
			if n.Kind = Signed; kind == ".u64" {
				n.Kind = Unsigned
			}
			return n, err
		}
		n, err := p.constant()
		if err != nil {
			return n, err
		}
		return n, p.expect(")")
	case "WARP_SZ":
		p.advance()
		return Int(32), nil
	}
	n, is := parseNumber(t.text)
	if !is {
		return n, p.unexpected("a number")
	}
	p.advance()
	return n, nil
}

// negate computes an operation with one operand.
func negate(op string, n Number) Number {
	switch {
	case op == "+":
	case op == "-" && n.Kind == Float32:
		n.Bits ^= 1 << 31
	case op == "-" && n.Kind == Float64:
		n.Bits ^= 1 << 63
	case op == "-":
		n.Bits = -n.Bits
	case op == "~":
		n.Bits = ^n.Bits
	case n.Bits == 0:
		n = Int(1)
	default:
		n = Int(0)
	}
	return n
}
