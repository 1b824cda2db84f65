package ptxrandom

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/purecu/purecu/internal/ptx/isa"
)

// rejected are the instructions that the generator leaves out, as NVIDIA's compiler rejects them. The
// programs in which it has chosen one stay as they are otherwise.
//
//go:embed testdata/rejected.txt
var rejectedText string

var rejected = sync.OnceValue(func() map[string]bool {
	m := make(map[string]bool)
	for line := range strings.Lines(rejectedText) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			m[line] = true
		}
	}
	return m
})

// table returns the rows of the table, with how the generator writes them.
var table = sync.OnceValue(func() []*tableRow {
	var list []*tableRow
	for _, row := range isa.All() {
		r := &tableRow{Instruction: row, id: rowID(row), weight: 1}
		h := fnv.New64a()
		h.Write([]byte(r.id))
		r.hash = h.Sum64()
		for _, special := range specials {
			if matches(row, special.names) {
				r.emit, r.together = special.emit, special.together
				if special.weight != 0 {
					r.weight = special.weight
				}
				break
			}
		}
		if r.emit == nil && ordinary(row) {
			r.emit = (*generator).plain
		}
		if r.emit == nil || structural(row) {
			r.weight = 0
		}
		list = append(list, r)
	}
	return list
})

// structural reports whether a row is used by branches, and at the end.
func structural(row *isa.Instruction) bool {
	return slices.Contains([]string{"bra", "brx", "ret", "exit"}, row.Name)
}

// matches reports whether one of the words is the name of a row, or begins its text.
func matches(row *isa.Instruction, names string) bool {
	id := rowID(row)
	for _, n := range strings.Split(names, ",") {
		if n == row.Name || strings.Contains(n, " ") && strings.HasPrefix(id, n) {
			return true
		}
	}
	return false
}

// ordinary reports whether all operands of a row are registers or constants.
func ordinary(row *isa.Instruction) bool {
	for _, w := range strings.Fields(row.Operands) {
		if strings.IndexByte("dabcexyPABCis", w[0]) < 0 {
			return false
		}
	}
	return row.Operands != ""
}

// find returns the row with an identifier, or that begins with it.
func find(id string) *tableRow {
	for _, row := range table() {
		if row.id == id {
			return row
		}
	}
	return nil
}

// specials are the rows that are not written like others, and how they are.
var specials []struct {
	names    string // separated by commas
	emit     func(g *generator, v isa.Variant)
	together bool
	weight   float64
}

func special(names string, emit func(g *generator, v isa.Variant), together bool, weight float64) {
	specials = append(specials, struct {
		names    string
		emit     func(g *generator, v isa.Variant)
		together bool
		weight   float64
	}{names, emit, together, weight})
}

// word is a place for a modifier.
type word struct {
	name     string
	choices  []string
	optional bool
}

func words(row *isa.Instruction) (list []word) {
	for _, w := range strings.Fields(row.Modifiers) {
		name, choices, named := strings.Cut(w, "=")
		s := word{}
		s.name, s.optional = strings.CutSuffix(name, "?")
		if s.choices = []string{s.name}; named {
			s.choices = strings.Split(choices, "|")
		}
		list = append(list, s)
	}
	return list
}

// variant returns a variant of a row.
func (g *generator) variant(row *tableRow) (isa.Variant, bool) {
	list := words(row.Instruction)
	for range 200 {
		text := row.Name
		for _, w := range list {
			present := 1.0
			switch {
			case !w.optional:
			case w.name == "rnd" && row.Name != "cvt":
			case w.name == "cop" || w.name == "l1" || w.name == "l2":
				present = 0.15
			default:
				present = 0.5
			}
			if g.Float64() < present {
				text += "." + pick(g, w.choices...)
			}
		}
		if rejected()[text] {
			return isa.Variant{}, false
		}
		if v, _, ok := isa.Find(text); ok && v.Instruction == row.Instruction {
			return v, true
		}
	}
	return isa.Variant{}, false
}

// variantOf returns a variant of the row with an identifier.
func (g *generator) variantOf(id string) (isa.Variant, bool) {
	row := find(id)
	if row == nil {
		return isa.Variant{}, false
	}
	return g.variant(row)
}

// register returns the name of a register that is read.
func (g *generator) register(k kind, width int) string {
	letter, all, first := "r", 20, 10
	switch width {
	case 16:
		letter, all, first = "h", 12, 6
	case 64:
		letter, all, first = "d", 12, 6
	}
	var fit, results []string
	for i := range all {
		name := fmt.Sprintf("%%%s%d", letter, i)
		if g.kinds[name] == k {
			if i < first {
				fit = append(fit, name)
			} else {
				results = append(results, name)
			}
		}
	}
	switch n := g.IntN(20); {
	case n < 11 && len(fit) > 0:
		return pick(g, fit...)
	case n < 18 && len(results) > 0:
		return pick(g, results...)
	}
	return fmt.Sprintf("%%%s%d", letter, g.IntN(all))
}

// source returns an operand that is read.
func (g *generator) source(typ, role string) string {
	width := max(widthOf(typ), 16)
	k := kindOf(typ)
	if role == "small" {
		k = smallKind
	}
	if role != "a" && g.IntN(14) == 0 {
		if c := constantOf(g.Rand, typ, k); c != "" {
			return c
		}
	}
	return g.register(k, width)
}

// constantOf returns a constant of a type, or "".
func constantOf(r *rand.Rand, typ string, k kind) string {
	v := value(r, k)
	switch typ {
	case "f32":
		return fmt.Sprintf("0f%08X", v)
	case "f64":
		return fmt.Sprintf("0d%016X", v)
	case "s16":
		return fmt.Sprint(int16(v))
	case "s32":
		return fmt.Sprint(int32(v))
	case "s64":
		return fmt.Sprint(int64(v))
	case "b16", "u16", "b32", "u32", "b64", "u64":
		return fmt.Sprintf("0x%x", v)
	}
	return ""
}

// result returns a register that is written, for values of a type.
func (g *generator) result(typ string, width int) string {
	name := ""
	switch width {
	case 16:
		name = fmt.Sprintf("%%h%d", 6+g.IntN(6))
	case 32:
		name = fmt.Sprintf("%%r%d", 10+g.IntN(10))
	default:
		name = fmt.Sprintf("%%d%d", 6+g.IntN(6))
	}
	if g.depth == 0 {
		g.kinds[name] = kindOf(typ)
	}
	return name
}

// predicate returns a predicate that is read.
func (g *generator) predicate(negated bool) string {
	p := fmt.Sprintf("%%p%d", g.IntN(8))
	if negated && g.IntN(3) == 0 {
		return "!" + p
	}
	return p
}

// small are the rows whose operands of type b32 are distances, positions or lengths.
var small = []string{"shl", "shr", "shf", "bfe", "bfi", "bmsk", "szext", "fns", "shfl"}

// operandList is the operands of an instruction, and what it writes.
type operandList struct {
	list  []string
	shape []string
	kept  []kept
	guard string
}

// kept is a register or predicate that is stored.
type kept struct {
	reg  string
	size int // 0 for a predicate
	typ  string
}

// operands chooses the operands of an ordinary row.
func (g *generator) operands(v isa.Variant, apart bool) (o operandList) {
	add := func(text, shape string) { o.list, o.shape = append(o.list, text), append(o.shape, shape) }
	negatable := slices.Contains([]string{"setp", "set", "vote", "bar", "barrier"}, v.Name)
	for _, w := range v.Operands() {
		if w.Optional && g.IntN(2) == 0 {
			continue
		}
		typ := v.Type(w)
		switch w.Role {
		case 'd', 'x', 's':
			width := max(widthOf(typ), 16)
			if w.Role == 'x' && typ[0] != 'f' && typ[0] != 'b' && width < 64 && g.IntN(6) == 0 {
				width *= 2
			}
			reg := g.result(typ, width)
			if apart { // nothing reads it
				reg = map[int]string{16: "%xh", 32: "%xr2", 64: "%xd1"}[width]
			}
			text, shape := reg, fmt.Sprint("d", width)
			o.kept = append(o.kept, kept{reg, width, typ})
			if w.Role == 's' && g.IntN(2) == 0 {
				p := g.predicate(false)
				text, shape = text+"|"+p, shape+"|p"
				o.kept = append(o.kept, kept{reg: p})
			}
			add(text, shape)
		case 'a', 'b', 'c', 'e', 'y':
			role := string(w.Role)
			if w.Role == 'e' && v.Kind != 0 {
				add(pick(g, "-1", "0xffffffff"), "i")
				break
			}
			if slices.Contains(small, v.Name) && w.Role != 'a' && w.Type != "t" {
				role = "small"
			}
			var text string
			if w.Role == 'y' {
				width := max(widthOf(typ), 16)
				if typ[0] != 'f' && typ[0] != 'b' && width < 64 && g.IntN(6) == 0 {
					width *= 2
				}
				text = g.register(kindOf(typ), width)
			} else {
				text = g.source(typ, role)
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
			if w.Pair && g.IntN(3) == 0 {
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

// guard returns a predicate in front of an instruction, or "".
func (g *generator) guard() string {
	if g.IntN(8) > 0 {
		return ""
	}
	return "@" + g.predicate(true) + " "
}

// plain writes an instruction whose operands are registers, and stores what it has written.
func (g *generator) plain(v isa.Variant) {
	b := boundsOf(v)
	o := g.operands(v, b != nil)
	guard := g.guard()
	if v.Kind != 0 {
		guard = ""
	}
	if b != nil && b.small && g.IntN(2) == 0 { // an operand of sin or cos for which the manual says a bound
		o.list[1], g.need["matrix"] = fmt.Sprintf("%%mt%d", g.IntN(8)), true
		b = b.small2
	}
	if b != nil && guard != "" { // the register has a value of its own then
		guard = ""
	}
	g.begin(v.String(), rowID(v.Instruction))
	g.cur.shape = strings.Join(o.shape, " ")
	g.mainLine("%s%s %s;", guard, v, strings.Join(o.list, ", "))
	for _, k := range o.kept {
		if k.size == 0 {
			g.storePredicate(k.reg)
			continue
		}
		s := g.store(k.reg, k.size)
		if b != nil {
			s.class, s.rel, s.abs, s.elem, s.row = approximate, b.rel, b.abs, v.T(), v.Name+" "+strings.Join(words2(v), " ")
		}
	}
	g.end()
}

// words2 returns the modifiers of a variant that say how exact it is.
func words2(v isa.Variant) (list []string) {
	for _, w := range strings.Split(v.String(), ".")[1:] {
		list = append(list, "."+w)
	}
	return list
}

// bound says how far an approximate result may be from that of another driver, relative to it and
// absolutely.
type bound struct {
	rel, abs float64
	small    bool // the operand has to be small
	small2   *bound
}

// boundsOf returns the bound of an approximate instruction, or nil. Each of the two results may be as
// far from the true one as the manual says, so that it is twice that.
func boundsOf(v isa.Variant) *bound {
	text := v.String()
	if !strings.Contains(text, ".approx") && !strings.Contains(text, ".full") {
		return nil
	}
	const least = 1.0 / (1 << 60) / (1 << 60) / (1 << 28) // of f32, with what rounding it does
	rel := func(bits int) *bound { return &bound{rel: 1 / float64(uint64(1)<<bits), abs: least} }
	switch v.Name + v.T() {
	case "divf32":
		return rel(21)
	case "rcpf32", "sqrtf32", "rsqrtf32":
		return rel(21)
	case "ex2f32":
		return rel(21)
	case "lg2f32":
		return &bound{rel: 1.0 / (1 << 21), abs: 1.0 / (1 << 20)}
	case "sinf32", "cosf32":
		return &bound{abs: 2, small: true, small2: &bound{abs: 1.0 / (1 << 19)}}
	case "tanhf32":
		return rel(10)
	case "rcpf64", "rsqrtf64":
		return &bound{rel: 1.0 / (1 << 19)}
	case "ex2f16":
		return &bound{rel: 1.0 / (1 << 8), abs: 1.0 / (1 << 23)}
	case "tanhf16":
		return &bound{rel: 1.0 / (1 << 9), abs: 1.0 / (1 << 9)}
	}
	return &bound{}
}
