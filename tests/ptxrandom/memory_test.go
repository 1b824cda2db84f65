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
	return map[string]int{"": 1, "v2": 2, "v4": 4}[v.get("vec")]
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
	width := g.wider(v.typ())
	var names []string
	for len(names) < vectorOf(v) {
		if r := g.result(v.typ(), width); !slices.Contains(names, r) {
			names, list = append(names, r), append(list, kept{reg: r, size: width})
		}
	}
	shape = fmt.Sprintf("%dx%d", len(names), width)
	if v.get("vec") == "" {
		return names[0], shape, list
	}
	return "{" + strings.Join(names, ", ") + "}", shape, list
}

// given returns the registers of a store.
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
	size := widthOf(v.typ()) / 8 * vectorOf(v)
	if size > 16 {
		return
	}
	space := v.get("space")
	if space == "param::func" {
		g.calling(v, form{}, true, false)
		return
	}
	constant := v.row.name == "ldu" || slices.Contains(strings.Split(v.String(), "."), "nc")
	text, shape, list := g.loaded(v)
	at := g.place(space, size, false)
	if constant {
		at = strings.NewReplacer("%gA", "%nA", "%qA", "%nA", "%zA", "%nA").Replace(at)
	}
	g.begin(v.String(), v.row.id)
	g.cur.shape = shape
	g.mainLine("%s%s %s, %s;", g.guard(), v, text, at)
	for _, k := range list {
		g.store(k.reg, k.size)
	}
	g.end()
}

func (g *generator) storeTo(v form) {
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
	g.begin(v.String(), v.row.id)
	g.cur.shape = shape
	g.mainLine("%s%s %s, %s;", g.guard(), v, at, text)
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
	case "shared":
		g.need["shared"] = true
		g.line("cvt.u64.u32 %%xd, %%sA;")
	case "local":
		g.need["local"] = true
		g.line("cvt.u64.u32 %%xd, %%lA;")
	case "const":
		g.need["const"] = true
		g.line("mov.u64 %%xd, %%kA;")
	case "param":
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
	g.mainLine("%s %s, %s;", v, p, at)
	g.storePredicate(p)
	g.end()
}

// copyAsync writes an asynchronous copy to the shared memory of the thread, and waits for it.
func (g *generator) copyAsync(v form) {
	g.need["shared"] = true
	text := v.String()
	g.begin(text, v.row.id, "cp async commit_group", "cp async wait_group", "cp async wait_all")
	copyText, size := "cp.async.ca.shared.global", pick(g, 4, 8, 16)
	switch {
	case strings.HasPrefix(v.row.id, "cp async cop"):
		copyText = text
		if v.get("cop") == "cg" {
			size = 16
		}
	case strings.Contains(text, "mbarrier"):
		g.cur.rows = g.cur.rows[:1]
	}
	at := g.IntN(64/size) * size
	rest := ""
	if g.IntN(3) == 0 {
		rest = fmt.Sprintf(", %d", g.IntN(size+1))
		g.cur.shape = "with a size"
	}
	g.cur.shape += fmt.Sprint(" ", size)
	mb := "mbarrier"
	if strings.Contains(text, mb) {
		g.line("@%%pz mbarrier.init.shared.b64 [%%sM+3000], 64;")
		g.line("bar.sync 0;")
	}
	g.line("%s [%%sA+%d], [%%nA+%d], %d%s;", copyText, at, g.IntN(64/size)*size, size, rest)
	if copyText == text {
		g.cur.main = len(g.cur.lines) - 1
	}
	if strings.Contains(text, mb) {
		l := g.label()
		if strings.Contains(text, "shared") {
			g.mainLine("%s [%%sM+3000];", text)
		} else {
			g.mainLine("%s [%%qM+3000];", text)
		}
		g.line("%s: mbarrier.try_wait.parity.shared.b64 %%px, [%%sM+3000], 0;", l)
		g.line("@!%%px bra %s;", l)
		g.line("bar.sync 0;")
		g.line("@%%pz mbarrier.inval.shared.b64 [%%sM+3000];")
		g.line("bar.sync 0;")
	} else {
		g.line("cp.async.commit_group;")
		g.line("cp.async.wait_group 0;")
		g.line("cp.async.wait_all;")
	}
	g.line("ld.shared.b32 %%xr, [%%sA+%d];", at)
	g.store("%xr", 32)
	g.end()
}

// mbarrier writes a phase of a barrier in shared memory: its beginning, arrivals, tests before and
// after its end, and its end.
func (g *generator) mbarrier(v form) {
	g.need["shared"] = true
	text := v.String()
	const at = "[%sM+3000]"
	own := at // of the variant: without a state space it is generic
	if !v.has("space") {
		own = "[%qM+3000]"
	}
	init, inval := "mbarrier.init.shared.b64", "mbarrier.inval.shared.b64"
	arrive, test := "mbarrier.arrive.shared.b64", "mbarrier.test_wait.shared.b64"
	count, each := 65, ""
	cluster := v.get("space") == "shared::cluster"
	if g.IntN(2) == 0 && !strings.Contains(text, "pending_count") {
		count, each = 195, ", 3"
	}
	switch {
	case strings.HasPrefix(text, "mbarrier.init"):
		init = text
	case strings.HasPrefix(text, "mbarrier.inval"):
		inval = text
	case strings.HasPrefix(text, "mbarrier.arrive"):
		arrive = text
		if strings.Contains(text, "noComplete") && each == "" {
			each = ", 1"
		}
	case strings.HasPrefix(text, "mbarrier.t"):
		test = text
	}
	state := "%xe7"
	if cluster {
		state = "_"
		if !strings.Contains(test, "parity") {
			test = "mbarrier.test_wait.parity.shared.b64"
		}
	}
	phase := state
	if strings.Contains(test, "parity") {
		phase = "0"
	}
	g.begin(text, v.row.id)
	g.cur.shape = each
	note := func(line string) {
		if strings.Contains(line, text+" ") {
			g.cur.main = len(g.cur.lines)
			line = strings.Replace(line, at, own, 1)
		}
		g.line("%s", line)
	}
	note(fmt.Sprintf("@%%pz %s %s, %d;", init, at, count))
	note("bar.sync 0;")
	if strings.Contains(text, "pending_count") {
		note("mov.b32 %xr, 0; mov.b64 %xe7, 0;")
		l := g.label()
		note(fmt.Sprintf("@!%%pz bra %s;", l))
		note(fmt.Sprintf("mbarrier.arrive.shared.b64 %%xe7, %s;", at))
		note(fmt.Sprintf("%s %%xr, %%xe7;", text))
		note(l + ":")
		g.store("%xr", 32)
		note("bar.sync 0;")
		note(fmt.Sprintf("@%%pz %s %s;", inval, at))
		note("bar.sync 0;")
		g.end()
		return
	}
	note(fmt.Sprintf("%s %s, %s%s;", arrive, state, at, each))
	note("bar.sync 0;")
	if g.IntN(2) == 0 || !strings.Contains(test, "try_wait") {
		early := test
		if strings.Contains(test, "try_wait") {
			early = "mbarrier.test_wait.shared.b64"
			if phase == "0" {
				early = "mbarrier.test_wait.parity.shared.b64"
			}
		}
		note(fmt.Sprintf("%s %%px, %s, %s;", early, at, phase))
		g.storePredicate("%px")
	}
	note("bar.sync 0;")
	last := "mbarrier.arrive.shared.b64"
	note(fmt.Sprintf("@%%pz %s %%xe6, %s%s;", last, at, each))
	l := g.label()
	note("bar.sync 0;")
	note(l + ":")
	note(fmt.Sprintf("%s %%px, %s, %s;", test, at, phase))
	if strings.Contains(test, "try_wait") {
		note(fmt.Sprintf("@!%%px bra %s;", l))
	} else {
		g.storePredicate("%px")
	}
	note("bar.sync 0;")
	note(fmt.Sprintf("@%%pz %s %s;", inval, at))
	note("bar.sync 0;")
	g.end()
}
