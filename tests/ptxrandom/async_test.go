package ptxrandom

import (
	"fmt"
	"strings"
)

// countingBarrier is the barrier in shared memory that counts the bytes of asynchronous operations.
const countingBarrier = "[%sM+3000]"

// counted writes asynchronous operations on the thread's memory, whose bytes the barrier counts: all threads
// begin them, and wait until all of them are complete.
func (g *generator) counted(bytes int, begin func()) {
	g.need["shared"] = true
	g.line("@%%pz mbarrier.init.shared.b64 %s, 64;", countingBarrier)
	g.line("fence.proxy.async;") // what is in memory was written otherwise
	g.line("bar.sync 0;")
	g.line("@%%pz mbarrier.arrive.expect_tx.shared.b64 %%xe7, %s, %d;", countingBarrier, threads*bytes)
	g.line("@!%%pz mbarrier.arrive.shared.b64 %%xe7, %s;", countingBarrier)
	begin()
	g.await()
	g.line("bar.sync 0;")
	g.line("@%%pz mbarrier.inval.shared.b64 %s;", countingBarrier)
	g.line("bar.sync 0;")
	g.uses("mbarrier.arrive.expect_tx.shared.b64")
}

// await waits for the end of the first phase of the barrier, but not for ever: that it ended is a result.
func (g *generator) await() {
	again, end := g.label(), g.label()
	g.line("mov.u32 %%xr2, 0;")
	g.line("%s: mbarrier.try_wait.parity.shared.b64 %%px, %s, 0, 1000;", again, countingBarrier)
	g.line("@%%px bra %s;", end)
	g.line("add.u32 %%xr2, %%xr2, 1; setp.lt.u32 %%py, %%xr2, 100000;")
	g.line("@%%py bra %s;", again)
	g.line("%s:", end)
	g.storePredicate("%px")
}

// oneByOne writes an instruction that the threads of a warp execute one after the other: bulk copies are meant to
// be executed by one thread, and have operands that are the same for a whole warp.
func (g *generator) oneByOne(format string, args ...any) {
	again, next := g.label(), g.label()
	g.line("mov.u32 %%xr2, 0;")
	g.line("%s: mov.u32 %%xr, %%laneid; setp.ne.u32 %%px, %%xr, %%xr2;", again)
	g.line("@%%px bra %s;", next)
	g.mainLine(format, args...)
	g.line("%s: add.u32 %%xr2, %%xr2, 1; setp.lt.u32 %%px, %%xr2, 32;", next)
	g.line("@%%px bra %s;", again)
	g.line("bar.warp.sync -1;")
}

// uses notes that the item uses another row.
func (g *generator) uses(text string) {
	if v, ok := findForm(text); ok {
		g.cur.rows = append(g.cur.rows, v.row.id)
	}
}

// finite writes numbers of a type, if it is one of floats, to memory with an instruction such as "st.shared".
func (g *generator) finite(st, at string, offset, size int, typ string) {
	for i := 0; i < size && strings.Contains(typ, "f"); i += 16 {
		if typ == "f64" {
			g.line("%s.v2.b64 [%s+%d], %s;", st, at, offset+i, braces(g.factors(matrixRow, typ, 2)))
		} else {
			g.line("%s.v4.b32 [%s+%d], %s;", st, at, offset+i, braces(g.factors(matrixRow, strings.TrimSuffix(typ, "x2"), 4)))
		}
	}
}

// bulk writes a copy of many bytes, or a reduction, and waits for it.
func (g *generator) bulk(v form) {
	text, typ := v.String(), v.typ()
	size := pick(g, 16, 32)
	g.begin(text, v.row.id)
	g.cur.shape = fmt.Sprint(size)
	length := fmt.Sprint(size)
	if g.IntN(2) == 0 {
		g.line("mov.u32 %%xi, %d;", size)
		length, g.cur.shape = "%xi", g.cur.shape+" r"
	}
	policy := ""
	if v.has("hint") {
		policy = ", " + g.policy()
	}
	// Both are among the 64 bytes of the thread, and apart from each other.
	to, from := 16*g.IntN(3-size/16), 32+16*g.IntN(3-size/16)
	if g.IntN(2) == 0 {
		to, from = from, to
	}
	source := fmt.Sprintf("[%%sA+%d]", from)
	switch {
	case strings.Contains(text, "prefetch"):
		g.oneByOne("%s [%s+%d], %s%s;", text, pick(g, "%nA", "%gA"), to, length, policy)
	case strings.Contains(text, "mbarrier"):
		if strings.Contains(text, ".global.") {
			source = fmt.Sprintf("[%s+%d]", pick(g, "%nA", "%gA"), from)
		} else {
			g.need["cluster"] = true
		}
		result := "%sA"
		g.need["shared"] = true
		if v.get("space") == "shared::cluster" && g.IntN(2) == 0 {
			result = "%xr1"
			g.line("mapa.shared::cluster.u32 %%xr1, %%sA, 0;")
			g.cur.shape += " mapa"
		}
		g.counted(size, func() {
			g.oneByOne("%s [%s+%d], %s, %s, %s%s;", text, result, to, source, length, countingBarrier, policy)
		})
		g.readBack("ld.shared", "%sA", to, size)
	default:
		g.need["shared"] = true
		main := text
		if !strings.Contains(text, "bulk_group") {
			main = "cp.async.bulk.global.shared::cta.bulk_group"
			g.uses(main)
		}
		g.finite("st.shared", "%sA", from, size, typ)
		g.finite("st.global", "%gA", to, size, typ)
		g.line("%s;", pick(g, "fence.proxy.async", "fence.proxy.async.global; fence.proxy.async.shared::cta"))
		g.oneByOne("%s [%%gA+%d], %s, %s%s;", main, to, source, length, policy)
		g.mainIf(text, "cp.async.bulk.commit_group", ";")
		if g.IntN(2) == 0 || strings.HasSuffix(text, "read") {
			g.mainIf(text, "cp.async.bulk.wait_group.read", fmt.Sprintf(" %d;", g.IntN(2)))
		}
		g.mainIf(text, "cp.async.bulk.wait_group", " 0;")
		g.line("fence.proxy.async.global; fence.acq_rel.gpu;") // older values may be in the cache of the processor
		g.readBack("ld.global", "%gA", to, size)
	}
	g.end()
}

// mainIf adds a line with an instruction, which is that of the item if it is the variant.
func (g *generator) mainIf(variant, text, rest string) {
	if variant == text {
		g.cur.main = len(g.cur.lines)
	}
	g.line("%s%s", text, rest)
	g.uses(text)
}

// readBack stores bytes in memory as results, each 8 of them.
func (g *generator) readBack(ld, at string, offset, size int) {
	for i := 0; i < size; i += 8 {
		g.line("%s.b64 %%xd, [%s+%d];", ld, at, offset+i)
		g.store("%xd", 64)
	}
}

// countedAccess writes a store or a reduction whose bytes a barrier counts.
func (g *generator) countedAccess(v form) {
	typ, op, n := v.typ(), v.get("op"), vectorOf(v)
	width := widthOf(typ)
	size := width / 8 * n
	if size > 16 {
		return
	}
	var values []string
	for range n {
		values = append(values, g.register(kindOf(typ), width))
	}
	operand := values[0]
	if v.has("vec") {
		operand = braces(values)
	}
	bases := map[bool]string{true: "%sA", false: "%qA"}
	at, ld := g.IntN(64/size)*size, "ld.shared"
	contended := v.row.name == "red" && g.words < 64 && g.IntN(2) == 0
	if contended { // the order of the threads does not matter
		bases = map[bool]string{true: "%sT", false: "%qT"}
		at = 8 * g.words
		g.words++
		if op == "inc" || op == "dec" {
			operand = fmt.Sprint(pick(g, 5, 17, 100, 0, 0x7fffffff))
		}
	}
	base, barrier := bases[v.has("space")], countingBarrier
	if !v.has("space") {
		barrier, ld = "[%qM+3000]", "ld"
	}
	g.begin(v.String(), v.row.id)
	g.cur.shape = fmt.Sprint("contended ", contended)
	if operand[0] != '%' && operand[0] != '{' {
		g.cur.shape += " i"
	}
	if v.has("space") && !contended && g.IntN(3) == 0 {
		base = "%xr1"
		g.line("mapa.shared::cluster.u32 %%xr1, %%sA, 0;")
		g.cur.shape += " mapa"
	}
	g.need["cluster"] = true
	g.counted(size, func() { g.mainLine("%s [%s+%d], %s, %s;", v, base, at, operand, barrier) })
	base = bases[v.has("space")]
	switch size {
	case 4:
		g.line("%s.b32 %%xr, [%s+%d];", ld, base, at)
		g.store("%xr", 32)
	default:
		g.readBack(ld, base, at, size)
	}
	g.end()
}

// transactions writes a phase of a barrier that counts bytes, which the threads say to be there.
func (g *generator) transactions(v form) {
	g.need["shared"] = true
	text := v.String()
	own := countingBarrier
	if !v.has("space") {
		own = "[%qM+3000]"
	}
	expect, expectAt := "mbarrier.expect_tx.relaxed.cta.shared::cta.b64", countingBarrier
	complete, completeAt := "mbarrier.complete_tx.relaxed.cta.shared::cta.b64", countingBarrier
	arrive := ""
	switch {
	case strings.HasPrefix(text, "mbarrier.expect_tx"):
		expect, expectAt = text, own
	case strings.HasPrefix(text, "mbarrier.complete_tx"):
		complete, completeAt = text, own
	default:
		arrive = text
	}
	bytes := pick(g, 1, 4, 16, 100, 1024)
	test := "mbarrier.test_wait.parity.shared.b64 %px, " + countingBarrier + ", 0;"
	if v.get("space") != "shared::cluster" && g.IntN(2) == 0 {
		test = "mbarrier.test_wait.shared.b64 %px, " + countingBarrier + ", %xe7;"
	}
	early := func() {
		g.line("%s", test)
		g.storePredicate("%px")
		g.line("bar.sync 0;")
	}
	g.begin(text, v.row.id)
	g.line("@%%pz mbarrier.init.shared.b64 %s, 65;", countingBarrier)
	g.line("bar.sync 0;")
	if arrive != "" {
		state := "%xe7"
		if v.get("space") == "shared::cluster" {
			state = "_"
		}
		g.mainLine("%s %s, %s, %d;", arrive, state, own, bytes)
	} else {
		g.mainIf(text, expect, fmt.Sprintf(" %s, %d;", expectAt, bytes))
		g.line("mbarrier.arrive.shared.b64 %%xe7, %s;", countingBarrier)
	}
	g.line("bar.sync 0;")
	early()
	steps := []func(){
		func() { g.line("@%%pz mbarrier.arrive.shared.b64 %%xe6, %s;", countingBarrier) },
		func() { g.mainIf(text, complete, fmt.Sprintf(" %s, %d;", completeAt, bytes)) },
	}
	first := g.IntN(2)
	steps[first]()
	g.line("bar.sync 0;")
	early()
	steps[1-first]()
	g.line("bar.sync 0;")
	early()
	g.line("@%%pz mbarrier.inval.shared.b64 %s;", countingBarrier)
	g.line("bar.sync 0;")
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
	if v.has("hint") {
		rest += ", " + g.policy()
	}
	g.line("%s [%%sA+%d], [%%nA+%d], %d%s;", copyText, at, g.IntN(64/size)*size, size, rest)
	if copyText == text {
		g.cur.main = len(g.cur.lines) - 1
	}
	if strings.Contains(text, mb) {
		if strings.Contains(text, "shared") {
			g.mainLine("%s [%%sM+3000];", text)
		} else {
			g.mainLine("%s [%%qM+3000];", text)
		}
		if !strings.Contains(text, "noinc") { // the barrier waits for one arrival more
			g.line("mbarrier.arrive.shared.b64 %%xe7, [%%sM+3000];")
		}
		g.await()
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
	if strings.Contains(text, "_tx") {
		g.transactions(v)
		return
	}
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
