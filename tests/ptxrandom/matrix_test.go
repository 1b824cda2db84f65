package ptxrandom

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/internal/ptx/isa"
)

// braces returns a list of registers.
func braces(list []string) string { return "{" + strings.Join(list, ", ") + "}" }

// fill copies 2048 bytes of a row of the inputs to shared memory at %sM.
func (g *generator) fill(row int) {
	g.need["shared"] = true
	g.line("bar.sync 0;")
	g.line("mad.lo.u32 %%xr, %%me, 32, %%sM; mad.wide.u32 %%xd, %%me, 32, %%im;")
	for i := 0; i < 32; i += 16 {
		g.line("ld.global.v4.b32 {%%xm0, %%xm1, %%xm2, %%xm3}, [%%xd+%d];", row*rowSize+i)
		g.line("st.shared.v4.b32 [%%xr+%d], {%%xm0, %%xm1, %%xm2, %%xm3};", i)
	}
	g.line("bar.sync 0;")
}

// moveMatrix writes ldmatrix or stmatrix.
func (g *generator) moveMatrix(v form) {
	n := int(v.get("count")[1] - '0')
	g.begin(v.String(), v.row.id)
	var regs []string
	if v.row.name == "ldmatrix" {
		g.fill(pick(g, 0, 6, 16, matrixRow))
		g.line("and.b32 %%xi, %%me, 31; mad.lo.u32 %%xi, %%xi, 16, %%sM;")
		for i := range n {
			regs = append(regs, fmt.Sprintf("%%xm%d", i))
		}
		at := "%xi"
		if !v.has("space") {
			at = "%xd"
			g.line("and.b32 %%xr, %%me, 31; mad.wide.u32 %%xd, %%xr, 16, %%qM;")
		}
		g.mainLine("%s %s, [%s+%d];", v, braces(regs), at, 16*g.IntN(8))
		for _, r := range regs {
			g.store(r, 32)
		}
		g.line("bar.sync 0;")
	} else {
		g.fill(0)
		g.line("mad.lo.u32 %%xi, %%me, 16, %%sM;") // each warp has its own 512 bytes
		for range n {
			regs = append(regs, g.register(i32Kind, 32))
		}
		at := "%xi"
		if !v.has("space") {
			at = "%xd"
			g.line("mad.wide.u32 %%xd, %%me, 16, %%qM;")
		}
		g.mainLine("%s [%s], %s;", v, at, braces(regs))
		g.line("bar.sync 0;")
		g.line("ld.shared.v2.b64 {%%xe0, %%xe1}, [%%xi];")
		g.store("%xe0", 64)
		g.store("%xe1", 64)
		g.line("bar.sync 0;")
	}
	g.end()
}

// shape returns the sizes in a text such as m16n8k16.
func shape(s string) (m, n, k int) {
	rest, last, _ := strings.Cut(s[1:], "k")
	first, middle, _ := strings.Cut(rest, "n")
	m, _ = strconv.Atoi(first)
	n, _ = strconv.Atoi(middle)
	k, _ = strconv.Atoi(last)
	return m, n, k
}

// productOf sets how exact an element of a product of matrices is: the elements from a row of the inputs on are
// at most 2. If they have few bits, the sum is exact in any order.
func productOf(s *slot, row int, typ, from string, k int) {
	most := float64(4*k + 2)
	s.elem, s.row = typ, "product "+typ+" of "+from
	switch {
	case typ == "s32" || row == coarseRow:
	case typ == "f64":
		s.class, s.abs = approximate, most/(1<<50)
	case from[0] == 'e': // a GPU adds products of small floats with fewer bits
		s.class, s.abs = approximate, most/(1<<9)
	case typ == "f32":
		s.class, s.abs = approximate, most/(1<<21)
	default:
		s.class, s.abs = approximate, most/(1<<10)
	}
}

// factors returns registers with elements of a type, which are from a row of the inputs on.
func (g *generator) factors(row int, typ string, n int) (list []string) {
	pool := "m"
	if row == coarseRow {
		pool = "o"
	}
	g.need[map[string]string{"m": "matrix", "o": "coarse"}[pool]] = true
	for range n {
		r := fmt.Sprintf("%%%st%d", pool, g.IntN(8))
		switch typ {
		case "f16":
			r = fmt.Sprintf("%%%sf%d", pool, g.IntN(8))
		case "bf16":
			r = fmt.Sprintf("%%%sb%d", pool, g.IntN(8))
		case "f64":
			r = fmt.Sprintf("%%%sd%d", pool, g.IntN(4))
		case "e4m3", "e5m2":
			r = fmt.Sprintf("%%oe%d", 2*(typ[1]-'4')+byte(g.IntN(2)))
			if pool == "m" {
				r = g.register(i32Kind, 32) // they become less than 2
			}
		case "s8", "u8", "s4", "u4", "b1", "s32":
			r = g.register(i32Kind, 32)
		}
		list = append(list, r)
	}
	return list
}

// mma writes a product of matrices.
func (g *generator) mma(v form) {
	n := v.lengths()
	_, _, k := shape(v.get("shape"))
	if v.has("metadata") {
		k /= 2
	}
	dt, width := v.get("dt"), 32
	var d []string
	for i := range n[0] {
		if dt == "f64" {
			d, width = append(d, fmt.Sprintf("%%xe%d", i)), 64
		} else {
			d = append(d, fmt.Sprintf("%%xm%d", i))
		}
	}
	row := pick(g, matrixRow, coarseRow)
	a, b, c := g.factors(row, v.typ(), n[1]), g.factors(row, v.get("u"), n[2]), g.factors(row, v.get("ct"), n[3])
	g.begin(v.String(), v.row.id)
	g.cur.shape = map[bool]string{true: "coarse"}[row == coarseRow]
	if v.typ()[0] == 'e' && row == matrixRow { // without the upper bit of the exponents
		for i, list := range [][]string{a, b} {
			for j, r := range list {
				list[j] = fmt.Sprintf("%%xm%d", 8+4*i+j)
				g.line("and.b32 %s, %s, 0xbfbfbfbf;", list[j], r)
			}
		}
	}
	last := ""
	if v.has("metadata") {
		last = g.metadata(v)
	}
	g.line("bar.warp.sync -1;")
	g.mainLine("%s %s, %s, %s, %s%s;", v, braces(d), braces(a), braces(b), braces(c), last)
	for _, r := range d {
		productOf(g.store(r, width), row, dt, v.typ(), k)
	}
	g.end()
}

// metadata writes what makes metadata of a register, and returns the last operands of a product with it.
func (g *generator) metadata(v form) string {
	// Four bits are the indices of two elements, the first one in the lower bits. These are 0 and 1, or 2 and 3, which
	// are also the halves of a number of 32 bits.
	g.line("and.b32 %%xm4, %s, 0x88888888; shr.u32 %%xm5, %%xm4, 2;", g.register(i32Kind, 32))
	g.line("or.b32 %%xm4, %%xm4, %%xm5; or.b32 %%xm4, %%xm4, 0x44444444;")
	if v.typ() != "tf32" {
		mixed := "and.b32 %%xm5, %%xm5, 0x55555555; or.b32 %%xm5, %%xm5, 0x88888888;" // 0 or 1, and 2 or 3
		if v.get("metadata") == "sp" && g.IntN(3) == 0 {
			g.cur.shape += " not ordered"
			mixed = "and.b32 %%xm5, %%xm5, 0x55555555; or.b32 %%xm5, %%xm5, 0x22222222;" // 2 or 3, and 0 or 1
		}
		which := uint32(0)
		for range 8 {
			which = which<<4 | uint32(15*g.IntN(2))
		}
		g.line("mov.b32 %%xm5, %s; "+mixed, g.register(i32Kind, 32))
		g.line("lop3.b32 %%xm4, %%xm4, %%xm5, %#x, 0xe4;", which) // of the second if the bit of the third is 0
	}
	found, _, _ := isa.Find(v.String())
	return fmt.Sprintf(", %%xm4, %d", g.IntN(int(isa.Selectors(found))))
}

// factorsOf returns the type of the factors of a product of a shape with elements of a type.
func (g *generator) factorsOf(shape, product string) string {
	switch {
	case product == "s32":
		return pick(g, "s8", "u8")
	case product == "f64":
		return "f64"
	case strings.HasSuffix(shape, "k8"):
		return "tf32"
	}
	return "f16"
}

// transpose writes movmatrix.
func (g *generator) transpose(v form) {
	reg := g.result("b32", 32)
	g.begin(v.String(), v.row.id)
	g.line("bar.warp.sync -1;")
	g.mainLine("%s %s, %s;", v, reg, g.register(halvesKind, 32))
	g.store(reg, 32)
	g.end()
}

// wmma writes a product of matrices with its loads and its store. The variant is one of them.
func (g *generator) wmma(v form) {
	form := v.get("shape")
	m, n, k := shape(form)
	var t, u string
	ct, dt := pick(g, "f16", "f32"), pick(g, "f16", "f32")
	la, lb, lc, ld := pick(g, "row", "col"), pick(g, "row", "col"), pick(g, "row", "col"), pick(g, "row", "col")
	spaces := map[string]string{"a": ".global", "b": ".global", "c": ".global", "d": ".global"}
	which := v.get("which")
	if which != "" {
		spaces[which] = v.get("space")
		if spaces[which] != "" {
			spaces[which] = "." + spaces[which]
		}
	}
	switch which {
	case "a":
		t, la = v.typ(), v.get("layout")
	case "b":
		t, lb = v.typ(), v.get("layout")
	case "c":
		lc = v.get("layout")
		ct = v.typ()
		t = g.factorsOf(form, ct)
	case "d":
		ld, dt = v.get("layout"), v.typ()
		t = g.factorsOf(form, dt)
	default:
		la, lb, dt, ct = v.get("al"), v.get("bl"), v.get("dt"), v.get("ct")
		if t = v.typ(); t == "" {
			t = "f16"
		}
		u = v.get("u")
	}
	switch t {
	case "bf16", "tf32":
		ct, dt = "f32", "f32"
	case "f64":
		ct, dt = "f64", "f64"
	case "s8", "u8":
		ct, dt = "s32", "s32"
		if u == "" {
			u = t
		}
	}
	if u == "" {
		u = t
	}
	multiply := fmt.Sprintf("wmma.mma.sync.aligned.%s.%s.%s.%s.%s", la, lb, form, dt, ct)
	if t != "f16" {
		multiply = fmt.Sprintf("wmma.mma.sync.aligned.%s.%s.%s.%s.%s.%s.%s", la, lb, form, dt, t, u, ct)
	}
	if which == "" {
		multiply = v.String()
	}
	loads := map[string]string{
		"a": fmt.Sprintf("wmma.load.a.sync.aligned.%s.%s%s.%s", la, form, spaces["a"], t),
		"b": fmt.Sprintf("wmma.load.b.sync.aligned.%s.%s%s.%s", lb, form, spaces["b"], u),
		"c": fmt.Sprintf("wmma.load.c.sync.aligned.%s.%s%s.%s", lc, form, spaces["c"], ct),
		"d": fmt.Sprintf("wmma.store.d.sync.aligned.%s.%s%s.%s", ld, form, spaces["d"], dt),
	}
	if which != "" {
		loads[which] = v.String()
	}
	mv, ok := findForm(multiply)
	if !ok {
		return
	}
	lengths := mv.lengths()
	stride := func(layout string, rows, columns int, typ string) int {
		s := columns
		if layout == "col" {
			s = rows
		}
		if typ[1:] == "8" {
			s = max(s, 16)
		}
		return s
	}
	elements := pick(g, matrixRow, coarseRow)
	row := func(typ string) int {
		if at := slices.Index([]string{"f16", "bf16", "f32", "f64"}, strings.TrimPrefix(typ, "t")); at >= 0 {
			return elements + 4*at
		}
		return constant / rowSize
	}
	g.begin(v.String(), v.row.id)
	for _, w := range []string{"a", "b", "c", "d", "m"} {
		text := loads[w]
		if w == "m" {
			text = multiply
		}
		if x, ok := findForm(text); !ok {
			g.items = g.items[:len(g.items)-1]
			return
		} else if id := x.row.id; id != g.cur.rows[0] {
			g.cur.rows = append(g.cur.rows, id)
		}
	}
	number := len(g.items)
	width := 32
	if t == "f64" {
		width = 64
	}
	g.line(".reg .b%d %%wa%d_<8>, %%wb%d_<8>, %%wc%d_<8>, %%wd%d_<8>;", width, number, number, number, number)
	names := func(letter string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("%%w%s%d_%d", letter, len(g.items), i))
		}
		return list
	}
	load := func(which, layout, typ string, rows, columns, n int) {
		at := "%xd"
		if strings.HasPrefix(spaces[which], ".shared") {
			g.fill(row(typ))
			at = "%sM"
		} else {
			g.line("add.u64 %%xd, %%im, %d;", row(typ)*rowSize)
		}
		if which == v.get("which") {
			g.cur.main = len(g.cur.lines)
		}
		g.line("%s %s, [%s], %d;", loads[which], braces(names(which, n)), at, stride(layout, rows, columns, typ))
	}
	load("a", la, t, m, k, lengths[1])
	load("b", lb, u, k, n, lengths[2])
	load("c", lc, ct, m, n, lengths[3])
	if which == "" {
		g.cur.main = len(g.cur.lines)
	}
	g.line("%s %s, %s, %s, %s;", multiply, braces(names("d", lengths[0])), braces(names("a", lengths[1])),
		braces(names("b", lengths[2])), braces(names("c", lengths[3])))
	bytes := m * n * widthOf(dt) / 8
	var s slot
	s.size = 64
	productOf(&s, elements, dt, t, k)
	first := g.reserve(bytes/rowSize, s)
	if which == "d" {
		g.cur.main = len(g.cur.lines)
	}
	if strings.HasPrefix(spaces["d"], ".shared") {
		g.need["shared"] = true
		g.line("bar.sync 0;")
		g.line("%s [%%sM], %s, %d;", loads["d"], braces(names("d", lengths[0])), stride(ld, m, n, dt))
		g.line("bar.sync 0;")
		g.line("mad.lo.u32 %%xr, %%me, 8, %%sM;")
		for i := range bytes / rowSize {
			g.line("ld.shared.b64 %%xd, [%%xr+%d];", i*rowSize)
			g.line("st.global.b64 [%%out+%d], %%xd;", (first+i)*rowSize)
		}
		g.line("bar.sync 0;")
	} else {
		g.line("add.u64 %%xd, %%im, %d;", results+first*rowSize)
		g.line("%s [%%xd], %s, %d;", loads["d"], braces(names("d", lengths[0])), stride(ld, m, n, dt))
		g.line("bar.sync 0;")
	}
	g.end()
}
