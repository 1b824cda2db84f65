package ptxrandom

import "fmt"

// atomicVector writes an atomic operation on a vector in the memory of the thread. All values are finite.
func (g *generator) atomicVector(v form) {
	typ, n := v.typ(), vectorOf(v)
	width := widthOf(typ)
	size := width / 8 * n
	if size > 16 {
		return
	}
	words := max(size/4, 1)
	suffix := map[int]string{1: "", 2: ".v2", 4: ".v4"}[words]
	element := map[string]string{"f16x2": "f16", "bf16x2": "bf16"}[typ]
	if element == "" {
		element = typ
	}
	list := func(names []string) string {
		if len(names) == 1 {
			return names[0]
		}
		return braces(names)
	}
	at := fmt.Sprintf("[%%gA+%d]", g.IntN(64/size)*size)
	g.begin(v.String(), v.row.id)
	g.line("st.global%s.b32 %s, %s;", suffix, at, list(g.factors(matrixRow, element, words)))
	operands := g.factors(matrixRow, element, words)
	if width == 16 {
		for i, r := range operands {
			g.line("mov.b32 {%%xhv%d, %%xhv%d}, %s;", 2*i, 2*i+1, r)
		}
		operands = nil
		for i := range n {
			operands = append(operands, fmt.Sprintf("%%xhv%d", i))
		}
	}
	if v.row.name == "atom" {
		var old []string
		for i := range n {
			if width == 16 {
				old = append(old, fmt.Sprintf("%%xhv%d", 8+i))
			} else {
				old = append(old, fmt.Sprintf("%%xm%d", i))
			}
		}
		g.mainLine("%s %s, %s, %s;", v, braces(old), at, braces(operands))
		for _, r := range old {
			g.store(r, width)
		}
	} else {
		g.mainLine("%s%s %s, %s;", g.guard(), v, at, braces(operands))
	}
	var after []string
	for i := range words {
		after = append(after, fmt.Sprintf("%%xm%d", 8+i))
	}
	g.line("ld.global%s.b32 %s, %s;", suffix, list(after), at)
	for _, r := range after {
		g.store(r, 32)
	}
	g.end()
}
