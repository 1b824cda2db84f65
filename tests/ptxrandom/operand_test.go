package ptxrandom

import (
	"fmt"
	"slices"
	"strings"
)

// small are the rows whose operands of type b32 are distances, positions or lengths.
var small = []string{"shl", "shr", "shf", "bfe", "bfi", "bmsk", "szext", "fns", "shfl"}

// operandList is the operands of an instruction, and what it writes.
type operandList struct {
	list  []string
	shape []string
	kept  []kept
}

// kept is a register or predicate that is stored.
type kept struct {
	reg  string
	size int // 0 for a predicate
	typ  string
}

// operands chooses the operands of an ordinary row.
func (g *generator) operands(v form, apart bool) (o operandList) {
	add := func(text, shape string) { o.list, o.shape = append(o.list, text), append(o.shape, shape) }
	negatable := slices.Contains([]string{"setp", "set", "vote", "bar", "barrier"}, v.row.name)
	for _, w := range v.row.operands {
		if w.optional && g.IntN(2) == 0 {
			continue
		}
		typ := v.typeOf(w)
		switch w.role {
		case 'd', 'x', 's':
			width := max(widthOf(typ), 16)
			if w.role == 'x' && typ[0] != 'f' && typ[0] != 'b' && width < 64 && g.IntN(6) == 0 {
				width *= 2
			}
			reg := g.result(typ, width)
			if apart { // nothing reads it
				reg = map[int]string{16: "%xh", 32: "%xr2", 64: "%xd1"}[width]
			}
			text, shape := reg, fmt.Sprint("d", width)
			o.kept = append(o.kept, kept{reg, width, typ})
			if w.role == 's' && (w.pair || g.IntN(2) == 0) {
				p := g.predicate(false)
				text, shape = text+"|"+p, shape+"|p"
				o.kept = append(o.kept, kept{reg: p})
			}
			add(text, shape)
		case 'a', 'b', 'c', 'e', 'y':
			role := string(w.role)
			if w.role == 'e' && v.row.special {
				add(pick(g, "-1", "0xffffffff"), "i")
				break
			}
			if slices.Contains(small, v.row.name) && w.role != 'a' && w.typ != "t" {
				role = "small"
			}
			var text string
			if w.role == 'y' {
				width := max(widthOf(typ), 16)
				if typ[0] != 'f' && typ[0] != 'b' && width < 64 && g.IntN(6) == 0 {
					width *= 2
				}
				text = g.register(kindOf(typ), width)
			} else {
				if v.row.name[0] == 'v' || v.typ() == "" || strings.HasSuffix(v.typ(), "x2") { // constants are not allowed
					role = "register"
				}
				if v.has("sat") && strings.HasSuffix(v.typ(), "s32") || strings.HasPrefix(v.row.id, "add sat") ||
					strings.HasPrefix(v.row.id, "sub sat") || strings.HasPrefix(v.row.id, "mad hi sat") {
					// The compiler of driver 580 takes y - (x + y) for -x although the difference saturates.
					text = pick(g, "%r3", "%r4", "%r5")
				} else {
					text = g.source(typ, role)
				}
				if strings.HasPrefix(v.row.name, "bf") && text[0] != '%' && w.typ == "b32" { // only up to 255
					text = fmt.Sprint(g.IntN(16)) // the compiler of driver 580 gets it wrong beyond the operand
				}
			}
			if text[0] != '%' {
				add(text, "i")
			} else {
				add(text, fmt.Sprint("r", widthOfRegister(text)))
			}
		case 'P':
			p := g.predicate(false)
			text, shape := p, "p"
			o.kept = append(o.kept, kept{reg: p})
			if w.pair && (g.IntN(3) == 0 && !strings.HasSuffix(v.typ(), "f16") || strings.HasSuffix(v.typ(), "f16x2")) {
				q := g.predicate(false)
				for q == p {
					q = g.predicate(false)
				}
				text, shape = p+"|"+q, "p|p"
				o.kept = append(o.kept, kept{reg: q})
			}
			add(text, shape)
		case 'A', 'B', 'C':
			p := g.predicate(negatable)
			add(p, strings.TrimRight(p, "%p01234567")+"p")
		case 'i':
			add(fmt.Sprint(g.IntN(256)), "i")
		}
	}
	return o
}

// same reports whether two operands are the same register where the compiler of driver 580 gets it
// wrong: it returns x for min(x, x), also of a NaN, and mixes up the tables of lop3.
func (o *operandList) same(v form) bool {
	switch v.row.name {
	case "min", "max":
		return o.list[1] == o.list[2]
	case "lop3":
		return o.list[1] == o.list[2] || o.list[1] == o.list[3] || o.list[2] == o.list[3]
	}
	if strings.HasSuffix(v.typ(), "f16x2") && v.row.name == "abs" { // wrong if the upper one is known to be positive
		return o.list[1] != "%r6" && o.list[1] != "%r7"
	}
	return false
}

// guard returns a predicate in front of an instruction, or "".
func (g *generator) guard() string {
	if g.IntN(8) > 0 {
		return ""
	}
	return "@" + g.predicate(true) + " "
}

// unguarded are rows that the compiler of driver 580 executes although their guard is false, or whose old
// result it changes then. It makes several instructions of each.
var unguarded = []string{"set", "testp", "vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset", "vmad",
	"vadd2", "vadd4", "vsub2", "vsub4", "vabsdiff2", "vabsdiff4", "vmin2", "vmin4", "vmax2", "vmax4", "vset2", "vset4",
	"vavrg2", "vavrg4"}

// canonical replaces a NaN in a register by one that does not depend on the driver, where the manual
// does not say which it is.
func (g *generator) canonical(reg, typ string) {
	switch typ {
	case "f64":
		g.line("testp.notanumber.f64 %%px, %s; selp.b64 %s, 0x7ff8000000000000, %s, %%px;", reg, reg, reg)
	case "f32":
		g.line("testp.notanumber.f32 %%px, %s; selp.b32 %s, 0x7fffffff, %s, %%px;", reg, reg, reg)
	case "f16":
		g.line("and.b16 %%xh, %s, 0x7fff; setp.gt.u16 %%px, %%xh, 0x7c00; selp.b16 %s, 0x7fff, %s, %%px;", reg, reg,
			reg)
	case "bf16":
		g.line("and.b16 %%xh, %s, 0x7fff; setp.gt.u16 %%px, %%xh, 0x7f80; selp.b16 %s, 0x7fff, %s, %%px;", reg, reg,
			reg)
	}
}

// open reports whether the manual leaves open which NaN a result is.
func (v form) open(typ string) bool {
	switch v.row.name {
	case "add", "sub", "mul", "fma", "mad", "div", "sqrt", "rcp":
		return typ == "f64"
	case "min", "max": // of x and x it is x
		return strings.HasPrefix(typ, "f") || typ == "bf16"
	case "cvt":
		return typ == "f64" || v.typ() == v.get("u")
	case "neg", "abs":
		return true
	}
	return false
}
