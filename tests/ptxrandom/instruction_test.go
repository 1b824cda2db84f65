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

// A tableRow is a row of the table of instructions, as testdata/table.txt has it. The programs come
// from there, so that they stay as they are when the table changes, and the recorded results hold.
type tableRow struct {
	name, modifiers string
	operands        []operand
	id              string
	hash            uint64
	weight          float64
	words           []word
	special         bool // it does more than compute
	emit            func(g *generator, v form)
	plain           bool // all it does is compute
	// together says that all threads have to execute the row.
	together bool
}

// operand is an operand: see [isa.Instruction].
type operand struct {
	role     byte
	typ      string
	pair     bool
	optional bool
}

//go:embed testdata/table.txt
var tableText string

// unrecordedText has the rows, by their identifiers, that no recorded program has. Only the programs of the newest
// family have them, so that the recorded programs stay as they are.
//
//go:embed testdata/unrecorded.txt
var unrecordedText string

// unrecorded reports whether no recorded program has the row with an identifier.
func unrecorded(id string) bool { return strings.Contains(unrecordedText, "\n"+id+"\n") }

// tableLine returns the line of testdata/table.txt for a row.
func tableLine(row *isa.Instruction) string {
	kind := "computes"
	if row.Kind != 0 {
		kind = "special"
	}
	return strings.Join([]string{row.Name, row.Modifiers, row.Operands, kind}, "\t")
}

// table returns the rows, with how the generator writes them.
var table = sync.OnceValue(func() []*tableRow {
	var list []*tableRow
	for line := range strings.Lines(tableText) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		r := &tableRow{name: parts[0], modifiers: parts[1], special: parts[3] == "special", weight: 1}
		r.id = strings.TrimSpace(r.name + " " + r.modifiers)
		h := fnv.New64a()
		h.Write([]byte(r.id))
		r.hash, r.words = h.Sum64(), wordsOf(r.modifiers)
		for _, w := range strings.Fields(parts[2]) {
			o := operand{role: w[0], typ: "t"}
			w, o.optional = strings.CutSuffix(w, "?")
			w, o.pair = strings.CutSuffix(w, "|")
			if _, t, typed := strings.Cut(w, ":"); typed {
				o.typ = t
			}
			r.operands = append(r.operands, o)
		}
		for _, special := range specials {
			if matches(r, special.names) {
				r.emit, r.together = special.emit, special.together
				if special.weight != 0 {
					r.weight = special.weight
				}
				break
			}
		}
		if r.emit == nil && ordinary(r) {
			r.emit, r.plain = (*generator).plain, !r.special
		}
		if r.emit == nil || structural(r) {
			r.weight = 0
		}
		list = append(list, r)
	}
	return list
})

// form is an instruction with its modifiers.
type form struct {
	row    *tableRow
	values []string // by the index in words
}

func (v form) get(name string) string {
	for i, w := range v.row.words {
		if w.name == name {
			return v.values[i]
		}
	}
	return ""
}

func (v form) has(name string) bool { return v.get(name) != "" }

func (v form) typ() string { return v.get("t") }

// typeOf returns the type of an operand.
func (v form) typeOf(o operand) string {
	switch o.typ {
	case "t", "u":
		return v.get(o.typ)
	case "w":
		return map[string]string{"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}[v.typ()]
	}
	return o.typ
}

// String returns the instruction as it is written.
func (v form) String() string {
	s := v.row.name
	for _, value := range v.values {
		if value != "" {
			s += "." + value
		}
	}
	return s
}

// lengths returns the lengths of the lists of registers.
func (v form) lengths() []int {
	text := v.String()
	found, _, is := isa.Find(text)
	if !is {
		found, _, _ = isa.Find(strings.Replace(text, ".sync", ".sync.aligned", 1))
	}
	return found.Lengths(found)
}

// findForm returns the form with a text.
func findForm(text string) (form, bool) {
	name, rest, dotted := strings.Cut(text, ".")
	var list []string
	if dotted {
		list = strings.Split(rest, ".")
	}
	var first form
	for _, row := range table() {
		if row.name != name {
			continue
		}
		values, is := row.match(list)
		if !is {
			continue
		}
		found, _, exists := isa.Find(text)
		if exists && rowID(found.Instruction) == row.id {
			return form{row, values}, true
		}
		if first.row == nil && (exists || rejected()[text]) {
			first = form{row, values}
		}
	}
	return first, first.row != nil
}

// match assigns modifiers to their places.
func (r *tableRow) match(list []string) ([]string, bool) {
	values := make([]string, len(r.words))
	for i, w := range r.words {
		switch {
		case len(list) > 0 && slices.Contains(w.choices, list[0]):
			values[i], list = list[0], list[1:]
		case !w.optional:
			return nil, false
		}
	}
	return values, len(list) == 0
}

//go:embed testdata/rejected.txt
var rejectedText string

// rejected are instructions, perhaps with a tab and the shape of their operands, that NVIDIA's compiler
// rejects: they are left out of the programs that have them.
var rejected = sync.OnceValue(func() map[string]bool {
	m := make(map[string]bool)
	for line := range strings.Lines(rejectedText) {
		if line = strings.TrimRight(line, "\n"); line != "" && line[0] != '#' {
			m[line] = true
		}
	}
	return m
})

// structural reports whether a row is used by branches, and at the end.
func structural(row *tableRow) bool {
	return slices.Contains([]string{"bra", "brx", "ret", "exit"}, row.name)
}

// matches reports whether one of the words is the name of a row, or begins its text.
func matches(row *tableRow, names string) bool {
	for _, n := range strings.Split(names, ",") {
		if n == row.name || strings.Contains(n, " ") && strings.HasPrefix(row.id, n) {
			return true
		}
	}
	return false
}

// ordinary reports whether all operands of a row are registers or constants.
func ordinary(row *tableRow) bool {
	for _, o := range row.operands {
		if strings.IndexByte("dabcexyPABCis", o.role) < 0 {
			return false
		}
	}
	return len(row.operands) > 0
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
	emit     func(g *generator, v form)
	together bool
	weight   float64
}

func special(names string, emit func(g *generator, v form), together bool, weight float64) {
	specials = append(specials, struct {
		names    string
		emit     func(g *generator, v form)
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

func wordsOf(modifiers string) (list []word) {
	for _, w := range strings.Fields(modifiers) {
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

// later reports whether a form needs another target than the one of the programs.
func (v form) later() bool {
	return v.row.name == "cvt" && v.typ() == "tf32" && v.has("satfinite") && v.get("rnd") != "rna" // sm_100
}

// variant returns a variant of a row.
func (g *generator) variant(row *tableRow) (form, bool) {
	for range 200 {
		v := form{row, make([]string, len(row.words))}
		for i, w := range row.words {
			present := 1.0
			switch {
			case !w.optional:
			case w.name == "rnd" && row.name != "cvt":
			case w.name == "cop" || w.name == "l1" || w.name == "l2":
				present = 0.15
			default:
				present = 0.5
			}
			if g.Float64() < present {
				v.values[i] = pick(g, w.choices...)
			}
		}
		if v.later() || !g.has(v) {
			continue
		}
		// The first row that has the text is the one that counts.
		if f, is := findForm(v.String()); is && f.row == row {
			return v, true
		}
	}
	return form{}, false
}

// register returns the name of a register that is read.
func (g *generator) register(k kind, width int) string {
	letter, all, first := 1, 20, 10
	switch width {
	case 16:
		letter, all, first = 0, 12, 6
	case 64:
		letter, all, first = 2, 12, 6
	}
	var fit, results []string
	for i, name := range registerNames[letter][:all] {
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
	case width == 16 && k != anyKind: // the compiler of driver 580 does not clear what floats leave above
		return pick(g, append(fit, results...)...)
	}
	return registerNames[letter][g.IntN(all)]
}

// initial returns a register with an integer that the program begins with.
func (g *generator) initial(k kind, width int) string {
	switch {
	case k == smallKind && g.IntN(4) > 0:
		return "%r8"
	case width == 16:
		return pick(g, "%h4", "%h5")
	case width == 32:
		return pick(g, "%r3", "%r4", "%r5")
	}
	return pick(g, "%d3", "%d4", "%d5")
}

// registerNames are the registers of 16, 32 and 64 bits.
var registerNames = func() (names [3][]string) {
	for i, letter := range "hrd" {
		for n := range 20 {
			names[i] = append(names[i], fmt.Sprintf("%%%c%d", letter, n))
		}
	}
	return names
}()

// source returns an operand that is read.
func (g *generator) source(typ, role string) string {
	width := max(widthOf(typ), 16)
	k := kindOf(typ)
	if role == "small" {
		k = smallKind
	}
	if role != "a" && role != "register" && g.IntN(14) == 0 {
		if c := constantOf(g.Rand, typ, k); c != "" {
			return c
		}
	}
	if role == "small" { // the compiler of driver 580 converts floats to integers if they are distances
		return g.initial(k, width)
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
	switch {
	case g.depth == 0:
		g.kinds[name] = kindOf(typ)
	case width == 16 && g.kinds[name] != kindOf(typ):
		g.kinds[name] = anyKind // it depends on the thread, and nothing reads it
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

// plain writes an instruction whose operands are registers, and stores what it has written.
func (g *generator) plain(v form) {
	b := boundsOf(v)
	// The compiler of driver 580 takes the absolute value of the least integer as positive.
	apart := b != nil || (v.row.name == "abs" || v.row.name == "neg") && v.typ()[0] == 's'
	o := g.operands(v, apart)
	for again := 0; again < 20 && o.same(v); again++ {
		o = g.operands(v, apart)
	}
	guard := g.guard()
	if apart || v.row.special || slices.Contains(unguarded, v.row.name) {
		guard = ""
	}
	note := ""
	if b != nil && b.small && g.IntN(2) == 0 { // an operand of sin or cos for which the manual says a bound
		o.list[1], g.need["matrix"] = fmt.Sprintf("%%mt%d", g.IntN(8)), true
		b, note = b.small2, " of at most 2"
	}
	g.begin(v.String(), v.row.id)
	g.cur.shape = strings.Join(o.shape, " ")
	g.mainLine("%s%s %s;", guard, v, strings.Join(o.list, ", "))
	for _, k := range o.kept {
		if k.size == 0 {
			g.storePredicate(k.reg)
			continue
		}
		if v.row.name == "cvt" && v.typ() == "tf32" { // the manual leaves the lower bits open
			g.line("testp.notanumber.f32 %%px, %s; selp.b32 %s, 0x7fffffff, %s, %%px;", k.reg, k.reg, k.reg)
			g.line("and.b32 %s, %s, 0xffffe000;", k.reg, k.reg)
		}
		if b == nil && v.open(k.typ) {
			g.canonical(k.reg, k.typ)
		}
		s := g.store(k.reg, k.size)
		if b != nil {
			s.class, s.rel, s.abs, s.row = approximate, b.rel, b.abs, v.String()+note
			s.elem = strings.TrimSuffix(v.typ(), "x2")
		}
	}
	g.end()
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
func boundsOf(v form) *bound {
	text := v.String()
	if !strings.Contains(text, ".approx") && !strings.Contains(text, ".full") {
		return nil
	}
	const least = 1.0 / (1 << 60) / (1 << 60) / (1 << 28) // of f32, with what rounding it does
	rel := func(bits int) *bound { return &bound{rel: 1 / float64(uint64(1)<<bits), abs: least} }
	switch v.row.name + strings.TrimSuffix(v.typ(), "x2") {
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
	case "ex2bf16":
		return &bound{rel: 1.0 / (1 << 6), abs: least}
	case "tanhbf16":
		return &bound{abs: 1.0 / (1 << 7)}
	case "tanhf16":
		return &bound{rel: 1.0 / (1 << 9), abs: 1.0 / (1 << 9)}
	}
	return &bound{}
}
