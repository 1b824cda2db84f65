package ptxrandom

import (
	"fmt"
	"slices"
	"strings"
)

func init() {
	special("mov t=b128", (*generator).moveWide, false, 1)
	special("ld,ldu", (*generator).load, false, 1)
	special("st async,red async", (*generator).countedAccess, true, 0.5)
	special("atom,red", (*generator).atomic, false, 1)
	special("st", (*generator).storeTo, false, 1)
	special("createpolicy", (*generator).createPolicy, false, 0.5)
	special("discard,applypriority", (*generator).discard, true, 0.4)
	special("alloca,stacksave,stackrestore", (*generator).allocate, false, 0.5)
	special("prefetch,prefetchu", (*generator).prefetch, false, 0.4)
	special("membar,fence,griddepcontrol,pmevent", (*generator).bare, false, 0.4)
	special("nanosleep", (*generator).sleep, false, 0.3)
	special("trap,brkpt", (*generator).never, false, 0.3)
	special("cvta", (*generator).cvta, false, 1)
	special("isspacep", (*generator).isspacep, false, 1)
	special("%clock,%clock64,%clock_hi,%globaltimer,%globaltimer_lo,%globaltimer_hi", (*generator).clock, false, 0.3)
	special("add cc,sub cc,mad part=lo|hi cc,addc,subc,madc", (*generator).carry, false, 1)
	special("mov t=", (*generator).move, false, 1.5)
	special("mov vec", (*generator).moveVector, false, 1)
	special("mov pred,and pred,or pred,xor pred,not pred,selp", (*generator).plain, false, 1)
	special("add,sub", (*generator).sum, false, 1)
	special("call", (*generator).call, false, 0.6)
	special("setmaxnreg", (*generator).registers, true, 1)
	special("vote op=,shfl mode=", (*generator).alone, true, 1)
	special("vote,shfl,match,redux", (*generator).warp, true, 1)
	special("elect", (*generator).warp, true, 1)
	special("activemask", (*generator).activemask, true, 0.5)
	special("bar warp", (*generator).warpBarrier, true, 0.5)
	special("bar,barrier cta?", (*generator).barrier, true, 0.6)
	special("barrier cluster", (*generator).clusterBarrier, true, 0.4)
	special("mapa", (*generator).mapa, false, 0.5)
	special("getctarank", (*generator).getctarank, false, 0.5)
	special("cp async bulk,cp reduce", (*generator).bulk, true, 0.4)
	special("cp", (*generator).copyAsync, true, 0.4)
	special("mbarrier", (*generator).mbarrier, true, 0.4)
	special("ldmatrix,stmatrix", (*generator).moveMatrix, true, 0.6)
	special("movmatrix", (*generator).transpose, true, 0.6)
	special("mma", (*generator).mma, true, 0.6)
	special("wmma", (*generator).wmma, true, 0.3)
}

// bare writes an instruction without operands, or with a constant.
func (g *generator) bare(v form) {
	g.begin(v.String(), v.row.id)
	if v.row.name == "pmevent" {
		g.mainLine("%s %d;", v, g.IntN(16))
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
	var list []kept
	with := func(v form, main bool) {
		o := g.operands(v, false)
		// The compiler of driver 580 gets x - x wrong.
		for o.list[1] == o.list[2] {
			o = g.operands(v, false)
		}
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
var specialRegisters = []string{"%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y",
	"%ctaid.z",
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

// moveVector writes moves of a vector.
func (g *generator) moveVector(v form) {
	typ, n := v.typ(), vectorOf(v)
	width := widthOf(typ)
	if width*n > 128 { // there are none
		return
	}
	var from []string
	for range n {
		from = append(from, g.register(kindOf(typ), width))
	}
	text, _, list := g.loadedAs(typ, width, n)
	g.begin(v.String(), v.row.id)
	g.cur.shape = fmt.Sprint(g.IntN(2) == 0)
	guard := g.guard()
	g.line("{ .reg .%s .%s xv;", v.get("vec"), typ)
	g.mainLine("%s xv, %s;", v, braces(from))
	g.line("%s%s %s, xv; }", guard, v, text)
	for _, k := range list {
		g.store(k.reg, k.size)
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
	product := map[int]string{16: "%xh", 32: "%xr", 64: "%xd"}[width]
	other := product + "1"
	k := kindOf(typ)
	a, b, c := g.register(k, width), g.register(k, width), g.register(k, width)
	form := v.row.name + ftz + "." + typ
	g.begin("mul, "+form, v.row.id)
	g.line("mul%s.%s %s, %s, %s;", ftz, typ, product, a, b)
	g.mainLine("%s %s, %s, %s;", form, other, product, c)
	g.canonical(other, typ)
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
	g.canonical(other, typ)
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
	masked := v.row.name != "shfl" && g.IntN(3) == 0 && v.has("sync")
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

// alone writes an instruction of a warp without a mask.
func (g *generator) alone(v form) {
	g.begin("", "bar warp sync")
	g.line("bar.warp.sync -1;")
	g.end()
	g.warp(v)
}

func (g *generator) activemask(v form) {
	reg := "%xr"
	g.begin(v.String(), v.row.id)
	g.line("bar.warp.sync -1;")
	g.mainLine("%s %s;", v, reg)
	g.end() // which lanes are together is up to the GPU
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
