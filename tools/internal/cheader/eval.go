package cheader

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Evaluate computes an integer constant expression as C does, in 64 bits. lookup returns the value
// of a name. A parenthesis around a type name is a cast. Casts have no effect, because the values
// that the headers cast are small.
func Evaluate(toks []Token, lookup func(name string) (int64, bool)) (int64, error) {
	e := evaluator{toks: toks, lookup: lookup}
	v := e.binary(1)
	if e.err == nil && e.pos < len(toks) {
		e.fail("unexpected %q in expression", toks[e.pos].Text)
	}
	return v, e.err
}

type evaluator struct {
	toks   []Token
	pos    int
	depth  int
	lookup func(string) (int64, bool)
	err    error
}

var errNotConstant = errors.New("not an integer constant expression")

func (e *evaluator) fail(format string, args ...any) int64 {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
	return 0
}

func (e *evaluator) peek() Token {
	if e.pos < len(e.toks) {
		return e.toks[e.pos]
	}
	return Token{}
}

// precedence lists the binary operators, weakest first.
var precedence = map[string]int{
	"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
	"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}

// binary reads operators with at least the precedence level.
func (e *evaluator) binary(level int) int64 {
	v := e.unary()
	for e.err == nil {
		op := e.peek()
		prec := precedence[op.Text]
		if op.kind != tPunct || prec == 0 || prec < level {
			break
		}
		e.pos++
		v = e.apply(op.Text, v, e.binary(prec+1))
	}
	return v
}

func (e *evaluator) apply(op string, a, b int64) int64 {
	truth := func(ok bool) int64 {
		if ok {
			return 1
		}
		return 0
	}
	switch op {
	case "||":
		return truth(a != 0 || b != 0)
	case "&&":
		return truth(a != 0 && b != 0)
	case "|":
		return a | b
	case "^":
		return a ^ b
	case "&":
		return a & b
	case "==":
		return truth(a == b)
	case "!=":
		return truth(a != b)
	case "<":
		return truth(a < b)
	case ">":
		return truth(a > b)
	case "<=":
		return truth(a <= b)
	case ">=":
		return truth(a >= b)
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "<<", ">>":
		if b < 0 || b > 63 {
			return e.fail("shift by %d", b)
		}
		if op == "<<" {
			return a << uint(b)
		}
		return a >> uint(b)
	default: // division and remainder
		if b == 0 {
			return e.fail("division by zero")
		}
		if op == "/" {
			return a / b
		}
		return a % b
	}
}

// MaxDepth limits nesting, so that a malformed header cannot exhaust the stack.
const MaxDepth = 200

func (e *evaluator) unary() int64 {
	if e.depth++; e.depth > MaxDepth {
		return e.fail("expression is nested too deeply")
	}
	defer func() { e.depth-- }()
	t := e.peek()
	e.pos++
	switch {
	case t.kind == tNumber:
		return e.number(t.Text)
	case t.is("-"):
		return -e.unary()
	case t.is("+"):
		return e.unary()
	case t.is("~"):
		return ^e.unary()
	case t.is("!"):
		if e.unary() == 0 {
			return 1
		}
		return 0
	case t.is("("):
		if e.skipCast() {
			return e.unary()
		}
		v := e.binary(1)
		if e.err == nil && !e.peek().is(")") {
			return e.fail("missing ) in expression")
		}
		e.pos++
		return v
	case t.kind == tIdent:
		if v, ok := e.lookup(t.Text); ok {
			return v
		}
		return e.fail("%s: %w", t.Text, errNotConstant)
	}
	return e.fail("%w", errNotConstant)
}

// skipCast skips "type)" or "type *)" before an operand.
func (e *evaluator) skipCast() bool {
	i := e.pos
	if i >= len(e.toks) || e.toks[i].kind != tIdent {
		return false
	}
	if _, known := e.lookup(e.toks[i].Text); known {
		return false
	}
	for i++; i < len(e.toks) && (e.toks[i].kind == tIdent || e.toks[i].is("*")); i++ {
	}
	if i+1 >= len(e.toks) || !e.toks[i].is(")") {
		return false
	}
	if next := e.toks[i+1]; next.kind != tNumber && next.kind != tIdent && !next.is("(") && !next.is("-") {
		return false
	}
	e.pos = i + 1
	return true
}

func (e *evaluator) number(text string) int64 {
	digits := strings.TrimRight(text, "uUlL")
	v, err := strconv.ParseUint(digits, 0, 64)
	if err != nil {
		return e.fail("malformed number %s", text)
	}
	return int64(v)
}
