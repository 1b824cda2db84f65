package ptxrandom

import (
	"fmt"
	"slices"
	"strings"
)

// halves returns two registers, or four of 32 bits, for a register of 128 bits.
func (g *generator) halves() string {
	if g.IntN(2) == 0 {
		return braces([]string{g.register(i64Kind, 64), g.register(f64Kind, 64)})
	}
	return braces([]string{g.register(i32Kind, 32), g.register(f32Kind, 32), g.register(i32Kind, 32),
		g.register(halvesKind, 32)})
}

// storeWide stores a register of 128 bits.
func (g *generator) storeWide(reg string) {
	if g.IntN(2) == 0 {
		g.line("mov.b128 {%%xd, %%xd1}, %s;", reg)
		g.store("%xd", 64)
		g.store("%xd1", 64)
		return
	}
	g.line("mov.b128 {%%xm0, %%xm1, %%xm2, %%xm3}, %s;", reg)
	for i := range 4 {
		g.store(fmt.Sprintf("%%xm%d", i), 32)
	}
}

// moveWide writes moves of 128 bits.
func (g *generator) moveWide(v form) {
	g.begin(v.String(), v.row.id)
	g.line("{ .reg .b128 %%xq<2>;")
	g.line("mov.b128 %%xq0, %s; mov.b128 %%xq1, %s;", g.halves(), g.halves())
	g.mainLine("%s%s %%xq0, %%xq1;", g.guard(), v)
	g.storeWide("%xq0")
	g.line("}")
	g.end()
}

// accessWide writes a load, a store or an atomic operation of 128 bits.
func (g *generator) accessWide(v form) {
	space, writes := v.get("space"), v.row.name != "ld" && v.row.name != "ldu"
	if space == "param::func" || writes && strings.HasPrefix(space, "param") ||
		strings.HasPrefix(space, "shared") && (v.has("hint") || v.has("l2")) {
		return // a call, or what a variant of fewer bits has
	}
	at := g.place(space, 16, writes)
	switch {
	case v.row.name == "ldu" || slices.Contains(strings.Split(v.String(), "."), "nc"):
		at = strings.NewReplacer("%gA", "%nA", "%qA", "%nA", "%zA", "%nA").Replace(at)
	case v.onlyGlobal():
		at = inGlobal(at)
	case v.has("order"), v.row.name == "atom":
		at = strings.Replace(at, "%zA", "%gA", 1)
	}
	g.begin(v.String(), v.row.id)
	g.line("{ .reg .b128 %%xq<3>;")
	for i := range 3 {
		g.line("mov.b128 %%xq%d, %s;", i, g.halves())
	}
	list := []string{"%xq0", at}
	switch {
	case v.row.name == "st":
		list = []string{at, "%xq0"}
	case v.get("op") == "exch":
		list = append(list, "%xq1")
	case v.get("op") == "cas":
		if list = append(list, "%xq1", "%xq2"); g.IntN(2) == 0 {
			g.cur.shape = "equal"
			from := "ld"
			if space != "" {
				from = "ld." + space
			}
			g.line("%s.b128 %%xq1, %s;", from, at)
		}
	}
	if v.has("hint") {
		list = append(list, g.policy())
	}
	g.mainLine("%s%s %s;", g.guard(), v, strings.Join(list, ", "))
	if v.row.name != "st" {
		g.storeWide("%xq0")
	}
	g.line("}")
	g.end()
}
