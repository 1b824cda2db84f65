package ptxrandom

import "fmt"

// allocate writes an allocation on the stack, uses the memory, and frees it.
func (g *generator) allocate(v form) {
	typ := v.typ()
	at, saved, length := "%xr1", "%xr2", "%xi"
	if typ == "u64" {
		at, saved, length = "%xe7", "%xe6", "%xe5"
	}
	size, align := pick(g, 8, 16, 48, 64), pick(g, 8, 16, 32, 64)
	g.begin(v.String(), v.row.id)
	line := func(name, operands string) { g.mainIf(v.String(), name+"."+typ, " "+operands+";") }
	line("stacksave", saved)
	operand := fmt.Sprint(size)
	if g.IntN(2) == 0 {
		g.line("mov.%s %s, %d;", typ, length, size)
		operand = length
	}
	if g.IntN(2) == 0 {
		align = 8
	} else {
		operand += fmt.Sprint(", ", align)
	}
	g.cur.shape = fmt.Sprint(operand[0] == '%', align > 8)
	line("alloca", at+", "+operand)
	last, reg := size-4, g.result("b32", 32)
	g.line("st.local.b32 [%s], %s; st.local.b32 [%s+%d], %s;", at, g.register(i32Kind, 32), at, last,
		g.register(f32Kind, 32))
	g.line("ld.local.b32 %s, [%s+%d];", reg, at, pick(g, 0, last))
	g.store(reg, 32)
	g.line("and.b%d %s, %s, %d;", widthOf(typ), at, at, align-1)
	g.store(at, widthOf(typ))
	line("stackrestore", saved)
	g.line("stacksave.%s %s; setp.eq.%s %%px, %s, %s;", typ, at, typ, at, saved)
	g.storePredicate("%px")
	g.end()
}
