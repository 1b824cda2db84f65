package ptxrandom

import (
	"fmt"
	"slices"
	"strings"
)

func init() {
	special("ld,ldu", (*generator).load, false, 1)
	special("st", (*generator).storeTo, false, 1)
	special("atom,red", (*generator).atomic, false, 1)
	special("prefetch,prefetchu", (*generator).prefetch, false, 0.4)
	special("membar,fence,griddepcontrol,pmevent", (*generator).bare, false, 0.4)
	special("nanosleep", (*generator).sleep, false, 0.3)
	special("trap,brkpt", (*generator).never, false, 0.3)
	special("cvta", (*generator).cvta, false, 1)
	special("isspacep", (*generator).isspacep, false, 1)
	special("%clock,%clock64,%clock_hi,%globaltimer,%globaltimer_lo,%globaltimer_hi", (*generator).clock, false, 0.3)
	special("add cc,sub cc,mad part=lo|hi cc,addc,subc,madc", (*generator).carry, false, 1)
	special("mov t=", (*generator).move, false, 1.5)
	special("mov pred,and pred,or pred,xor pred,not pred,selp", (*generator).plain, false, 1)
	special("add,sub", (*generator).sum, false, 1)
	special("call", (*generator).call, false, 0.6)
	special("vote,shfl,match,redux", (*generator).warp, true, 1)
	special("elect", (*generator).warp, true, 1)
	special("activemask", (*generator).activemask, true, 0.5)
	special("bar warp", (*generator).warpBarrier, true, 0.5)
	special("bar,barrier cta?", (*generator).barrier, true, 0.6)
	special("barrier cluster", (*generator).clusterBarrier, true, 0.4)
	special("mapa", (*generator).mapa, false, 0.5)
	special("getctarank", (*generator).getctarank, false, 0.5)
	special("cp", (*generator).copyAsync, true, 0.4)
	special("mbarrier", (*generator).mbarrier, true, 0.4)
	special("ldmatrix,stmatrix", (*generator).moveMatrix, true, 0.6)
	special("mma", (*generator).mma, true, 0.6)
	special("wmma", (*generator).wmma, true, 0.3)
}

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

// loaded returns the registers of a load: the operand, and what is stored.
func (g *generator) loaded(v form) (text, shape string, list []kept) {
	width := max(widthOf(v.typ()), 16)
	if width < 64 && g.IntN(6) == 0 {
		width *= 2
	}
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
	width := max(widthOf(v.typ()), 16)
	if width < 64 && g.IntN(6) == 0 {
		width *= 2
	}
	var names []string
	for range vectorOf(v) {
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
	g.heads = append(g.heads, head{len(g.items), fmt.Sprintf(".func (.param .align 16 .b8 out[16]) %s(.param .align 16 .b8 in[16]) { %s "+
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
	contended := !slices.Contains([]string{"exch", "cas"}, op) && typ[0] != 'f' && !strings.HasPrefix(typ, "bf") && g.IntN(2) == 0
	operand := g.source(typ, "b")
	if typ[0] == 'f' || strings.HasPrefix(typ, "bf") {
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
		at = g.place(space, size, true)
		if strings.Contains(at, "%zA") { // no atomic operations on local memory
			at = strings.Replace(at, "%zA", "%gA", 1)
		}
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

// bare writes an instruction without operands, or with a constant.
func (g *generator) bare(v form) {
	g.begin(v.String(), v.row.id)
	if v.row.name == "pmevent" {
		g.mainLine("pmevent %d;", g.IntN(16))
	} else {
		g.mainLine("%s;", v)
	}
	g.end()
}

func (g *generator) sleep(v form) {
	g.begin(v.String(), v.row.id)
	g.mainLine("%s%s %d;", g.guard(), v, g.IntN(50))
	g.end()
}

// never writes an instruction that ends the kernel, with a predicate that is false.
func (g *generator) never(v form) {
	g.begin(v.String(), v.row.id)
	g.mainLine("@%%pn %s;", v)
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

func (g *generator) clock(v form) {
	g.begin(v.row.name, v.row.id)
	if v.row.name == "%clock64" || v.row.name == "%globaltimer" {
		g.mainLine("mov.u64 %%xd, %s;", v.row.name)
	} else {
		g.mainLine("mov.u32 %%xr, %s;", v.row.name)
	}
	g.end()
}

// carry writes an instruction with the condition code, those that set it, and one that reads it.
func (g *generator) carry(v form) {
	subtracts := strings.HasPrefix(v.row.name, "sub")
	g.begin(v.String(), v.row.id)
	typ := v.typ()
	setter := "add.cc."
	if subtracts {
		setter = "sub.cc."
	}
	emit := func(v form, main bool) {
		o := g.operands(v, false)
		if main {
			g.cur.shape, g.cur.main = strings.Join(o.shape, " "), len(g.cur.lines)
		}
		g.line("%s %s;", v, strings.Join(o.list, ", "))
	}
	var list []kept
	with := func(v form, main bool) {
		o := g.operands(v, false)
		for i, k := range list { // each has a register of its own
			if k.reg == o.kept[0].reg {
				list = slices.Delete(list, i, i+1)
				break
			}
		}
		if main {
			g.cur.shape, g.cur.main = strings.Join(o.shape, " "), len(g.cur.lines)
		}
		g.line("%s %s;", v, strings.Join(o.list, ", "))
		list = append(list, o.kept...)
	}
	_ = emit
	if v.row.name[len(v.row.name)-1] == 'c' { // addc, subc, madc
		if s, ok := findForm(setter + typ); ok {
			with(s, false)
			g.cur.rows = append(g.cur.rows, s.row.id)
		}
	}
	with(v, true)
	if strings.Contains(v.String(), ".cc") {
		reader := "addc."
		if subtracts {
			reader = "subc."
		}
		if s, ok := findForm(reader + typ); ok {
			with(s, false)
			g.cur.rows = append(g.cur.rows, s.row.id)
		}
	}
	for _, k := range list {
		g.store(k.reg, k.size)
	}
	g.end()
}

// specialRegisters are those whose values do not depend on the driver.
var specialRegisters = []string{"%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z",
	"%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge",
	"%lanemask_gt", "%dynamic_smem_size", "%clusterid.x", "%nclusterid.x", "%cluster_ctaid.x", "%cluster_nctaid.x",
	"%cluster_ctarank", "%cluster_nctarank"}

// move writes mov, of a register, a special register, or a vector.
func (g *generator) move(v form) {
	typ := v.typ()
	width := widthOf(typ)
	bits := typ[0] == 'b' && typ != "bf16"
	reg := ""
	g.begin(v.String(), v.row.id)
	guard := g.guard()
	switch n := g.IntN(8); {
	case typ == "u32" && n < 4:
		reg = g.result(typ, width)
		g.cur.shape = "special"
		g.mainLine("%smov.u32 %s, %s;", guard, reg, pick(g, specialRegisters...))
	case bits && width == 32 && n < 2:
		reg = g.result(typ, width)
		g.cur.shape = "pack"
		g.mainLine("%smov.b32 %s, {%s, %s};", guard, reg, g.register(i16Kind, 16), g.register(f16Kind, 16))
	case bits && width == 64 && n < 2:
		reg = g.result(typ, width)
		g.cur.shape = "pack"
		g.mainLine("%smov.b64 %s, {%s, %s};", guard, reg, g.register(i32Kind, 32), g.register(f32Kind, 32))
	case bits && width == 64 && n == 2:
		reg = g.result(typ, width)
		g.cur.shape = "pack 4"
		g.mainLine("%smov.b64 %s, {%s, %s, %s, %s};", guard, reg, g.register(i16Kind, 16), g.register(f16Kind, 16),
			g.register(i16Kind, 16), g.register(bf16Kind, 16))
	case bits && width > 16 && n < 4:
		a, b := g.result("b16", width/2), g.result("b16", width/2)
		for a == b {
			b = g.result("b16", width/2)
		}
		g.cur.shape = "unpack"
		g.mainLine("%smov.b%d {%s, %s}, %s;", guard, width, a, b, g.register(kindOf(typ), width))
		g.store(a, width/2)
		g.store(b, width/2)
	default:
		reg = g.result(typ, width)
		from := g.source(typ, "b")
		g.cur.shape = fmt.Sprint("register ", from[0] == '%')
		g.mainLine("%s%s %s, %s;", guard, v, reg, from)
	}
	if reg != "" {
		g.store(reg, width)
	}
	g.end()
}

// sum writes a sum or difference, perhaps of a product, neither of which has a rounding mode, so that
// a compiler may fuse them.
func (g *generator) sum(v form) {
	typ := v.typ()
	float := typ != "" && (typ[0] == 'f' || strings.HasPrefix(typ, "bf"))
	if !float || g.IntN(5) > 0 || v.has("sat") {
		g.plain(v)
		return
	}
	ftz := ""
	if v.has("ftz") {
		ftz = ".ftz"
	}
	width := widthOf(typ)
	product, other := map[int]string{16: "%xh", 32: "%xr", 64: "%xd"}[width], map[int]string{16: "%xh1", 32: "%xr1", 64: "%xd1"}[width]
	k := kindOf(typ)
	a, b, c := g.register(k, width), g.register(k, width), g.register(k, width)
	form := v.row.name + ftz + "." + typ
	g.begin("mul, "+form, v.row.id)
	g.line("mul%s.%s %s, %s, %s;", ftz, typ, product, a, b)
	g.mainLine("%s %s, %s, %s;", form, other, product, c)
	s := g.store(other, width)
	s.class = either
	if v.row.name == "sub" {
		negated := ftz
		if typ == "f64" || k == bf16Kind || k == bhalvesKind {
			negated = ""
		}
		g.line("neg%s.%s %s, %s;", negated, typ, product, c)
		c = product
	}
	g.line("fma.rn%s.%s %s, %s, %s, %s;", ftz, typ, other, a, b, c)
	g.store(other, width)
	g.end()
}

// warp writes an instruction that all threads of a warp execute, or those that a mask says.
func (g *generator) warp(v form) {
	o := g.operands(v, false)
	if v.row.name == "shfl" {
		o.list[3] = pick(g, "0x1f", "0", "0x1c1f", "0x181f", "0x1c03", "0x1800", "0x0f0f", o.list[3])
	}
	last := len(o.list) - 1
	masked := v.row.name != "shfl" && g.IntN(3) == 0
	g.begin(v.String(), v.row.id)
	g.cur.shape = strings.Join(o.shape, " ")
	label := ""
	if masked {
		p := g.predicate(false)
		label = g.label()
		g.line("mov.pred %%pm, %s;", p)
		g.line("vote.sync.ballot.b32 %%xr, %%pm, -1;")
		g.line("@!%%pm bra %s;", label)
		o.list[last] = "%xr"
		g.cur.shape += " masked"
	}
	g.mainLine("%s %s;", v, strings.Join(o.list, ", "))
	if masked {
		g.line("%s:", label)
	}
	for _, k := range o.kept {
		if k.size == 0 {
			g.storePredicate(k.reg)
		} else {
			g.store(k.reg, k.size)
		}
	}
	g.end()
}

func (g *generator) activemask(v form) {
	reg := g.result("b32", 32)
	g.begin(v.String(), v.row.id)
	g.line("bar.warp.sync -1;")
	g.mainLine("%s %s;", v, reg)
	g.store(reg, 32)
	g.end()
}

func (g *generator) warpBarrier(v form) {
	g.begin(v.String(), v.row.id)
	g.mainLine("%s -1;", v)
	g.end()
}

// exchange is shared memory with a word of each thread, at the register %sM.
func (g *generator) publish() {
	g.need["shared"] = true
	g.line("mad.lo.u32 %%xr, %%me, 4, %%sM;")
	g.line("st.shared.b32 [%%xr], %s;", g.register(i32Kind, 32))
}

// readOther loads the word of another thread.
func (g *generator) readOther() {
	reg := g.result("b32", 32)
	g.line("add.u32 %%xr, %%me, %d; and.b32 %%xr, %%xr, 63; mad.lo.u32 %%xr, %%xr, 4, %%sM;", 1+g.IntN(63))
	g.line("ld.shared.b32 %s, [%%xr];", reg)
	g.store(reg, 32)
	g.line("bar.sync 0;")
}

func (g *generator) barrier(v form) {
	text := v.String()
	g.begin(text, v.row.id)
	number := fmt.Sprint(1 + g.IntN(15))
	g.line("bar.warp.sync -1;")
	switch {
	case strings.Contains(text, ".arrive"):
		sync := strings.Replace(text, ".arrive", ".sync", 1)
		g.publish()
		g.mainLine("@%%pw %s %s, 64;", text, number)
		g.line("@!%%pw %s %s, 64;", sync, number)
		g.line("bar.warp.sync -1;")
		g.line("bar.sync 0;")
		g.readOther()
	case strings.Contains(text, ".red"):
		threads := pick(g, "", "64, ")
		g.cur.shape = threads
		if v.get("op") == "popc" {
			reg := g.result("u32", 32)
			g.mainLine("%s %s, %s, %s%s;", text, reg, number, threads, g.predicate(true))
			g.store(reg, 32)
		} else {
			p := g.predicate(false)
			g.mainLine("%s %s, %s, %s%s;", text, p, number, threads, g.predicate(true))
			g.storePredicate(p)
		}
	default:
		g.publish()
		g.mainLine("%s %s%s;", text, number, pick(g, "", ", 64"))
		g.readOther()
	}
	g.end()
}

func (g *generator) clusterBarrier(v form) {
	g.begin(v.String(), v.row.id)
	g.line("bar.warp.sync -1;")
	aligned := ""
	if v.has("aligned") {
		aligned = ".aligned"
	}
	g.publish()
	if strings.Contains(v.String(), ".arrive") {
		order := ""
		if v.get("sem") == "relaxed" {
			order = "fence.acq_rel.cluster; "
		}
		g.mainLine("%s%s;", order, v)
		g.line("barrier.cluster.wait%s;", aligned)
	} else {
		g.line("barrier.cluster.arrive%s;", aligned)
		g.mainLine("%s;", v)
	}
	g.readOther()
	g.end()
}

func (g *generator) mapa(v form) {
	if v.typ() == "u32" && !v.has("space") { // there are no generic addresses of 32 bits
		return
	}
	g.need["shared"] = true
	reg := g.result("b32", 32)
	g.begin(v.String(), v.row.id)
	switch {
	case v.typ() == "u32":
		g.mainLine("%s %%xr, %%sA, 0;", v)
		g.line("ld.shared::cluster.b32 %s, [%%xr+8];", reg)
	case v.has("space"):
		g.line("cvt.u64.u32 %%xd, %%sA;")
		g.mainLine("%s %%xd, %%xd, 0;", v)
		g.line("ld.shared::cluster.b32 %s, [%%xd+8];", reg)
	default:
		g.mainLine("%s %%xd, %%qA, 0;", v)
		g.line("ld.b32 %s, [%%xd+8];", reg)
	}
	g.store(reg, 32)
	g.end()
}

func (g *generator) getctarank(v form) {
	if v.typ() == "u32" && !v.has("space") {
		return
	}
	g.need["shared"] = true
	reg := g.result("u32", 32)
	g.begin(v.String(), v.row.id)
	switch {
	case v.typ() == "u32":
		g.mainLine("%s %s, %%sA;", v, reg)
	case v.has("space"):
		g.line("cvt.u64.u32 %%xd, %%sA;")
		g.mainLine("%s %s, %%xd;", v, reg)
	default:
		g.mainLine("%s %s, %%qA;", v, reg)
	}
	g.store(reg, 32)
	g.end()
}

// copyAsync writes an asynchronous copy to the shared memory of the thread, and waits for it.
func (g *generator) copyAsync(v form) {
	g.need["shared"] = true
	text := v.String()
	form := text
	g.begin(form, v.row.id, "cp async commit_group", "cp async wait_group", "cp async wait_all")
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
	main := ""
	switch {
	case strings.HasPrefix(text, "mbarrier.init"):
		init, main = text, init
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
	_ = main
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
		note(fmt.Sprintf("mov.b32 %%xr, 0; mov.b64 %%xe7, 0;"))
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
	note(fmt.Sprintf("bar.sync 0;"))
	note(l + ":")
	note(fmt.Sprintf("%s %%px, %s, %s;", test, at, phase))
	if strings.Contains(test, "try_wait") {
		note(fmt.Sprintf("@!%%px bra %s;", l))
	}
	g.storePredicate("%px")
	note("bar.sync 0;")
	note(fmt.Sprintf("@%%pz %s %s;", inval, at))
	note("bar.sync 0;")
	g.end()
}
