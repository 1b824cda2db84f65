package ptxrandom

import (
	"fmt"
	"slices"
	"strings"
)

// place returns an address in a state space, with at least size bytes behind it. written says that
// the memory is changed.
func (g *generator) place(space string, size int, written bool) string {
	base := ""
	switch {
	case space == "global" && written:
		base = "%gA"
	case space == "global":
		base = pick(g, "%gA", "%nA")
	case strings.HasPrefix(space, "shared"):
		base, g.need["shared"] = "%sA", true
	case space == "local":
		base, g.need["local"] = "%lA", true
	case space == "const":
		base, g.need["const"] = "%kA", true
	case strings.HasPrefix(space, "param"):
		base = "given"
	default:
		switch base = pick(g, "%gA", "%gA", "%qA", "%zA"); base {
		case "%qA":
			g.need["shared"] = true
		case "%zA":
			g.need["local"] = true
		}
	}
	if n := g.IntN(64/size) * size; n > 0 {
		return fmt.Sprintf("[%s+%d]", base, n)
	}
	return fmt.Sprintf("[%s]", base)
}

// vectorOf returns how many elements an access has.
func vectorOf(v form) int {
	return map[string]int{"": 1, "v2": 2, "v4": 4, "v8": 8}[v.get("vec")]
}

// wider returns the size of a register for values of a type: of an integer it may be larger.
func (g *generator) wider(typ string) int {
	width := max(widthOf(typ), 16)
	if typ[0] != 'f' && typ[0] != 'b' && width < 64 && g.IntN(6) == 0 {
		return 2 * width
	}
	return width
}

// loaded returns the registers of a load: the operand, and what is stored.
func (g *generator) loaded(v form) (text, shape string, list []kept) {
	return g.loadedAs(v.typ(), g.wider(v.typ()), vectorOf(v))
}

// loadedAs returns n registers with values of a type.
func (g *generator) loadedAs(typ string, width, n int) (text, shape string, list []kept) {
	var names []string
	for len(names) < n {
		if r := g.result(typ, width); !slices.Contains(names, r) {
			names, list = append(names, r), append(list, kept{reg: r, size: width})
		}
	}
	shape = fmt.Sprintf("%dx%d", len(names), width)
	if n == 1 {
		return names[0], shape, list
	}
	return braces(names), shape, list
}

// onlyGlobal reports whether an access, if it is generic, has to be to global memory.
func (v form) onlyGlobal() bool { return v.has("hint") || v.has("mmio") || v.has("l2") || v.has("l1") }

// inGlobal returns an address in global memory instead of another one.
func inGlobal(at string) string {
	return strings.NewReplacer("%qA", "%gA", "%zA", "%gA", "%qT", "%gT").Replace(at)
}

// written returns the registers of a store.
func (g *generator) written(v form) (text, shape string) {
	width := g.wider(v.typ())
	var names []string
	for range vectorOf(v) {
		if width > max(widthOf(v.typ()), 16) { // the compiler of driver 580 converts floats then
			names = append(names, g.initial(i32Kind, width))
			continue
		}
		names = append(names, g.register(kindOf(v.typ()), width))
	}
	shape = fmt.Sprintf("%dx%d", len(names), width)
	if v.get("vec") == "" {
		return names[0], shape
	}
	return "{" + strings.Join(names, ", ") + "}", shape
}

func (g *generator) load(v form) {
	if v.typ() == "b128" {
		g.accessWide(v)
		return
	}
	size := widthOf(v.typ()) / 8 * vectorOf(v)
	if size > 16 {
		return
	}
	space := v.get("space")
	if space == "param::func" {
		g.calling(v, form{}, true, false)
		return
	}
	if v.has("l2") && strings.HasPrefix(space, "shared") {
		return
	}
	constant := v.row.name == "ldu" || slices.Contains(strings.Split(v.String(), "."), "nc")
	text, shape, list := g.loaded(v)
	at := g.place(space, size, false)
	if v.has("order") { // there is no order of accesses to local memory
		at = strings.Replace(at, "%zA", "%gA", 1)
	}
	if constant {
		at = strings.NewReplacer("%gA", "%nA", "%qA", "%nA", "%zA", "%nA").Replace(at)
	}
	policy := ""
	if v.onlyGlobal() {
		at = inGlobal(at)
	}
	g.begin(v.String(), v.row.id)
	g.cur.shape = shape
	if v.has("hint") {
		policy = ", " + g.policy()
	}
	g.mainLine("%s%s %s, %s%s;", g.guard(), v, text, at, policy)
	for _, k := range list {
		g.store(k.reg, k.size)
	}
	g.end()
}

func (g *generator) storeTo(v form) {
	if v.typ() == "b128" {
		g.accessWide(v)
		return
	}
	size := widthOf(v.typ()) / 8 * vectorOf(v)
	if size > 16 {
		return
	}
	space := v.get("space")
	if strings.HasPrefix(space, "param") {
		g.calling(form{}, v, false, true)
		return
	}
	text, shape := g.written(v)
	at := g.place(space, size, true)
	if v.has("order") {
		at = strings.Replace(at, "%zA", "%gA", 1)
	}
	policy := ""
	if v.onlyGlobal() {
		at = inGlobal(at)
	}
	g.begin(v.String(), v.row.id)
	g.cur.shape = shape
	if v.has("hint") {
		policy = ", " + g.policy()
	}
	g.mainLine("%s%s %s, %s%s;", g.guard(), v, at, text, policy)
	g.end()
}

// call writes a call with variants of ld and st for the parameters.
func (g *generator) call(form) { g.calling(form{}, form{}, false, false) }

// calling writes a call of a function that returns its parameter. ld and st are how the parameter is
// read and written.
func (g *generator) calling(ld, st form, withLoad, withStore bool) {
	typ, vec := "b32", ""
	switch {
	case withLoad:
		typ, vec = ld.typ(), ld.get("vec")
	case withStore:
		typ, vec = st.typ(), st.get("vec")
	}
	plainForm := func(name string) (form, bool) {
		text := name + ".param"
		if vec != "" {
			text += "." + vec
		}
		v, ok := findForm(text + "." + typ)
		return v, ok
	}
	form := "call"
	var ok bool
	if !withLoad {
		if ld, ok = plainForm("ld"); !ok {
			return
		}
	} else {
		form = ld.String()
	}
	if !withStore {
		if st, ok = plainForm("st"); !ok {
			return
		}
	} else {
		form = st.String()
	}
	g.depth += 10 // no kinds change
	text, shape, list := g.loaded(ld)
	g.depth -= 10
	from, _ := g.written(st)
	name := fmt.Sprintf("f%d_%d", g.seed, len(g.items))
	// In the function.
	width := max(widthOf(typ), 16)
	var regs, declared []string
	for i := range vectorOf(ld) {
		regs, declared = append(regs, fmt.Sprintf("%%v%d", i)), append(declared, fmt.Sprintf(".reg .b%d %%v%d;", width, i))
	}
	inner := regs[0]
	if vec != "" {
		inner = "{" + strings.Join(regs, ", ") + "}"
	}
	suffix := typ
	if vec != "" {
		suffix = vec + "." + typ
	}
	g.heads = append(g.heads, head{len(g.items), fmt.Sprintf(".func (.param .align 16 .b8 out[16]) "+
		"%s(.param .align 16 .b8 in[16]) { %s "+
		"ld.param.%s %s, [in]; not.b%d %s, %s; st.param.%s [out], %s; ret; }", name, strings.Join(declared, " "),
		suffix, inner, width, regs[0], regs[0], suffix, inner)})
	g.begin(form, "call uni?", ld.row.id, st.row.id, "ret uni?")
	g.cur.shape = "in a call " + shape
	g.line("{ .param .align 16 .b8 pa[16]; .param .align 16 .b8 pr[16];")
	g.line("%s [pa], %s;", st, from)
	uniform := ""
	if g.depth == 0 {
		uniform = pick(g, "", ".uni")
	}
	g.line("call%s (pr), %s, (pa);", uniform, name)
	g.line("%s %s, [pr]; }", ld, text)
	g.cur.main = 1
	if withLoad {
		g.cur.main = 3
	}
	for _, k := range list {
		g.store(k.reg, k.size)
	}
	g.end()
}

func (g *generator) atomic(v form) {
	space, op, typ := v.get("space"), v.get("op"), v.typ()
	if typ == "b128" {
		g.accessWide(v)
		return
	}
	if v.has("vec") {
		g.atomicVector(v)
		return
	}
	if v.has("hint") && strings.HasPrefix(space, "shared") {
		return
	}
	size := max(widthOf(typ)/8, 2)
	shared := strings.HasPrefix(space, "shared")
	float := typ[0] == 'f' || strings.HasPrefix(typ, "bf")
	contended := op != "exch" && op != "cas" && !float && g.IntN(2) == 0
	operand := g.source(typ, "b")
	if float {
		operand = g.register(kindOf(typ), widthOf(typ))
	}
	at := ""
	if contended {
		if g.words >= 64 {
			return
		}
		base := "%gT"
		switch {
		case shared:
			base = "%sT"
		case space == "":
			base = pick(g, "%gT", "%qT")
		}
		if base != "%gT" {
			g.need["shared"] = true
		}
		at = fmt.Sprintf("[%s+%d]", base, 8*g.words)
		g.words++
		if op == "inc" || op == "dec" {
			operand = fmt.Sprint(pick(g, 5, 17, 100, 0, 0x7fffffff))
		}
	} else {
		at = strings.Replace(g.place(space, size, true), "%zA", "%gA", 1) // there are none on local memory
	}
	if v.has("hint") {
		at = inGlobal(at)
	}
	list := []string{at, operand}
	if op == "cas" {
		list = append(list, g.source(typ, "c"))
	}
	guard := g.guard()
	width := widthOf(typ)
	shape := fmt.Sprint("contended ", contended)
	reg := ""
	if v.row.name == "atom" {
		switch {
		case contended:
			reg = map[int]string{16: "%xh", 32: "%xr", 64: "%xd"}[width]
			if g.IntN(4) == 0 {
				reg = "_"
			}
		default:
			reg = g.result(typ, width)
		}
		list = append([]string{reg}, list...)
		if reg == "_" {
			shape += " _"
		}
	}
	if operand[0] != '%' {
		shape += " i"
	}
	g.begin(v.String(), v.row.id)
	g.cur.shape = shape
	if v.has("hint") {
		list = append(list, g.policy())
	}
	g.mainLine("%s%s %s;", guard, v, strings.Join(list, ", "))
	if reg != "" && !contended {
		g.store(reg, width)
	}
	if typ == "f64" {
		g.line("ld.b64 %%xd, %s;", strings.NewReplacer("%sA", "%qA").Replace(at))
		g.canonical("%xd", "f64")
		g.line("st.b64 %s, %%xd;", strings.NewReplacer("%sA", "%qA").Replace(at))
	}
	g.end()
}

func (g *generator) prefetch(v form) {
	at := g.place(v.get("space"), 4, false)
	if v.row.name == "prefetchu" || v.get("space") == "" {
		at = "[%gA]"
	}
	g.begin(v.String(), v.row.id)
	g.mainLine("%s%s %s;", g.guard(), v, at)
	g.end()
}

// cvta writes conversions between a generic address and one of a state space, and loads from it.
func (g *generator) cvta(v form) {
	space := v.get("space")
	to := strings.HasPrefix(v.String(), "cvta.to")
	g.begin(v.String(), v.row.id)
	switch space {
	case "global":
		g.line("mov.u64 %%xd, %%gA;")
	case "shared", "shared::cta", "shared::cluster":
		g.need["shared"] = true
		g.line("cvt.u64.u32 %%xd, %%sA;")
	case "local":
		g.need["local"] = true
		g.line("cvt.u64.u32 %%xd, %%lA;")
	case "const":
		g.need["const"] = true
		g.line("mov.u64 %%xd, %%kA;")
	case "param", "param::entry":
		g.line("mov.b64 %%xd, given;")
	}
	load := "ld"
	if to {
		g.line("cvta.%s.u64 %%xd, %%xd;", space)
		load = "ld." + space
	}
	g.mainLine("%s %%xd, %%xd;", v)
	reg := g.result("b32", 32)
	g.line("%s.b32 %s, [%%xd+4];", load, reg)
	g.store(reg, 32)
	g.end()
}

func (g *generator) isspacep(v form) {
	at := pick(g, "%gA", "%nA", "%qA", "%zA")
	g.need["shared"], g.need["local"] = true, true
	p := g.predicate(false)
	g.begin(v.String(), v.row.id)
	if v.get("space") == "param::entry" && g.IntN(2) == 0 {
		at = "%xd"
		g.line("mov.b64 %%xd, given; cvta.param::entry.u64 %%xd, %%xd;")
		g.uses("cvta.param::entry.u64")
	}
	g.mainLine("%s %s, %s;", v, p, at)
	g.storePredicate(p)
	g.end()
}
