package ptxrandom

import "fmt"

// policy writes the creation of a policy about the cache, and returns its register.
func (g *generator) policy() string {
	const ranged = "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64"
	text, operands := pick(g, "createpolicy.fractional.L2::evict_last.b64",
		"createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64"), ""
	switch g.IntN(4) {
	case 0:
		operands = ", 0.5"
	case 1:
		text, operands = ranged, ", [%im], 65536, 131072"
	}
	g.line("%s %%xp%s;", text, operands)
	g.uses(text)
	return "%xp"
}

// createPolicy writes the creation of a policy, whose bits depend on the driver, and a load with it.
func (g *generator) createPolicy(v form) {
	g.begin(v.String(), v.row.id)
	operands, from := "", pick(g, "%nA", "%gA")
	switch {
	case v.has("range"): // which the load is in
		size := pick(g, 4096, 65536)
		operands = fmt.Sprintf(", [%s], %d, %d", pick(g, "%im", from), size, size*pick(g, 2, 3, 4))
		if size == 4096 {
			operands = fmt.Sprintf(", [%s], 4096, 4096", from)
		}
	case v.has("cvt"): // these are properties of accesses as the runtime encodes them
		g.line("mov.b64 %%xd, %s;", pick(g, "0x10F0000000000000", "0x12F0000000000000", "0x14F0000000000000"))
		operands = ", %xd"
	default:
		operands = pick(g, "", ", 1.0", ", 0.5", ", 0f3E800000")
	}
	g.cur.shape = operands
	g.mainLine("%s %%xp%s;", v, operands)
	load := "ld.global.L2::cache_hint.b32"
	g.uses(load)
	reg := g.result("b32", 32)
	g.line("%s %s, [%s+%d], %%xp;", load, reg, from, 4*g.IntN(16))
	g.store(reg, 32)
	g.end()
}

// discard writes an instruction about lines of 128 bytes of the cache. What is discarded is the place of a
// result: its content is undefined until the threads store it.
func (g *generator) discard(v form) {
	g.begin(v.String(), v.row.id)
	if v.row.name == "applypriority" {
		g.line("and.b64 %%xd, %%nA, -128;")
		g.mainLine("%s [%%xd], 128;", v)
		g.end()
		return
	}
	g.line("and.b64 %%xd, %%out, -128;")
	g.line("and.b32 %%xr, %%me, 15; setp.eq.u32 %%px, %%xr, 0;") // 16 words of threads are a line
	g.mainLine("@%%px %s [%%xd+%d], 128;", v, len(g.slots)*rowSize)
	g.line("bar.sync 0;")
	g.store(g.register(i64Kind, 64), 64)
	g.end()
}
