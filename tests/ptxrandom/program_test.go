// Package ptxrandom makes random programs from the table of PTX instructions, and executes them on two
// drivers: the software driver and, with PURECU_TEST_GPU, NVIDIA's. Program N is always the same, as
// long as the table is. Each instruction stores its result at once, so that a difference names the
// instruction.
//
// An approximate result is stored, and nothing else reads it. It may differ as much as bounds says.
package ptxrandom

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/purecu/purecu/internal/ptx/isa"
)

// The memory of a program, in bytes. Each of the 64 threads has a word of 64 bits in each row of the
// inputs and of the results.
const (
	threads   = 64
	rowSize   = threads * 8
	inputRows = 58                  // 0 to 21 are registers, those from 24 on the elements of matrices
	constant  = inputRows * rowSize // 64 bytes of each thread that are only read
	scratch   = constant + 4096     // 64 bytes of each thread that are changed
	common    = scratch + 4096      // words that all threads change
	results   = common + 512
	slotsMost = 160
	imageSize = results + slotsMost*rowSize

	matrixRow = 24 // 4 rows each of f16, bf16, f32 and f64
	coarseRow = 40 // the same with few bits, so that products are exact, and a row each of e4m3 and e5m2
)

// initial are the registers that a program begins with, in the order of the inputs.
var initial = []struct {
	name string
	kind kind
}{
	{"%h0", f16Kind}, {"%h1", f16Kind}, {"%h2", bf16Kind}, {"%h3", bf16Kind}, {"%h4", i16Kind}, {"%h5", i16Kind},
	{"%r0", f32Kind}, {"%r1", f32Kind}, {"%r2", f32Kind}, {"%r3", i32Kind}, {"%r4", i32Kind}, {"%r5", i32Kind},
	{"%r6", halvesKind}, {"%r7", bhalvesKind}, {"%r8", smallKind}, {"%r9", halvesKind},
	{"%d0", f64Kind}, {"%d1", f64Kind}, {"%d2", f64Kind}, {"%d3", i64Kind}, {"%d4", i64Kind}, {"%d5", i64Kind},
}

// slot is a place for a result of all threads.
type slot struct {
	item  int
	class class
	size  int // in bits
	elem  string
	row   string // of the table
	// A result is close enough if it differs by rel times its value plus abs.
	rel, abs float64
}

type class int

const (
	exact class = iota
	approximate
	either // of this result and that in the slot behind it
	ignored
)

// item is a part of a program that may be left out: an instruction with what it needs.
type item struct {
	form  string // "" for what may not be left out
	shape string // how the operands are written
	rows  []string
	lines []string
	slots []int
	main  int // the line of the instruction
}

// program is a random program.
type program struct {
	seed    uint64
	items   []item
	slots   []slot
	heads   []head // what stands before the kernel
	need    map[string]bool
	words   int // of common memory
	held    int // registers of each thread, if the program changes that
	changes []resize
	*family
}

// head is a function that an item calls.
type head struct {
	item int
	text string
}

// generator makes a program.
type generator struct {
	*program
	*rand.Rand
	depth  int
	labels int
	count  int             // of instructions
	kinds  map[string]kind // of the registers
	cur    *item
}

// rowID names a row of the table.
func rowID(row *isa.Instruction) string { return strings.TrimSpace(row.Name + " " + row.Modifiers) }

// mix mixes the bits of a number.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// choose returns a row. A row that is added to the table changes few of the choices.
func (f *family) choose(key uint64, apart bool) *tableRow {
	var best, plain *tableRow
	most, plainMost := math.Inf(-1), 0.0
	weights := f.weightsOf()
	for i, row := range table() {
		weight := weights[i]
		if apart && row.together || weight == 0 {
			continue
		}
		u := (float64(mix(row.hash^key)>>11) + 0.5) / (1 << 53)
		if weight == 1 { // the logarithm takes long
			if u > plainMost {
				plain, plainMost = row, u
			}
		} else if score := math.Log(u) / weight; score > most {
			best, most = row, score
		}
	}
	if plain != nil && math.Log(plainMost) > most {
		return plain
	}
	return best
}

// shortSeed is where the seeds of short programs begin. If one of them ends the context of a GPU, it is known which
// instruction does.
const shortSeed = 1 << 42 // 4398046511104

// generate returns the program of a seed.
func generate(seed uint64) *program {
	if seed >= shortSeed {
		return generateSized(seed, 1, 2)
	}
	return generateSized(seed, 18, 10)
}

// generateSized returns a program with at least so many statements, and some more.
func generateSized(seed uint64, least, more int) *program {
	p := &program{seed: seed, need: make(map[string]bool), family: familyOf(seed)}
	g := &generator{program: p, Rand: rand.New(rand.NewPCG(seed, 1)), kinds: make(map[string]kind)}
	for _, in := range initial {
		g.kinds[in.name] = in.kind
	}
	for n := least + g.IntN(more); n > 0 && len(p.slots) < slotsMost-80; n-- {
		g.statement()
	}
	if row := find("exit"); row != nil && g.IntN(4) == 0 {
		g.begin("exit", row.id)
		g.line("@%s exit;", g.predicate(false))
		g.end()
	}
	g.begin("", "ret uni?")
	g.line("ret;")
	g.end()
	p.settle()
	return p
}

// statement adds an instruction, or a branch with what depends on it.
func (g *generator) statement() {
	switch n := g.IntN(100); {
	case n < 7 && g.depth < 2:
		g.branch()
	case n < 10 && g.depth < 1:
		g.loop()
	default:
		g.instruction()
	}
}

// instruction adds an instruction of a row.
func (g *generator) instruction() {
	g.count++
	key := mix(g.seed*1000 + uint64(g.count))
	outer := g.Rand
	g.Rand = rand.New(rand.NewPCG(key, 2))
	defer func() { g.Rand = outer }()
	row := g.choose(key, g.depth > 0)
	v, ok := g.variant(row)
	if !ok {
		return
	}
	row.emit(g, v)
}

// begin begins an item.
func (g *generator) begin(form string, rows ...string) {
	g.items = append(g.items, item{form: form, rows: rows})
	g.cur = &g.items[len(g.items)-1]
}

// line adds a line to the item.
func (g *generator) line(format string, args ...any) {
	g.cur.lines = append(g.cur.lines, fmt.Sprintf(format, args...))
}

// mainLine adds the line of the instruction that the item is about.
func (g *generator) mainLine(format string, args ...any) {
	g.cur.main = len(g.cur.lines)
	g.line(format, args...)
}

func (g *generator) end() { g.cur = nil }

// store stores a register of a size as a result.
func (g *generator) store(reg string, size int) *slot {
	g.slots = append(g.slots, slot{item: len(g.items) - 1, size: size})
	n := len(g.slots) - 1
	g.cur.slots = append(g.cur.slots, n)
	g.line("st.global.b%d [%%out+%d], %s;", size, n*rowSize, reg)
	return &g.slots[n]
}

// storePredicate stores a predicate as a result.
func (g *generator) storePredicate(p string) {
	g.line("selp.u32 %%xs, 1, 0, %s;", p)
	g.store("%xs", 32)
}

// reserve makes slots whose content is stored otherwise.
func (g *generator) reserve(n int, s slot) (first int) {
	first = len(g.slots)
	for range n {
		s.item = len(g.items) - 1
		g.cur.slots = append(g.cur.slots, len(g.slots))
		g.slots = append(g.slots, s)
	}
	return first
}

func (g *generator) label() string {
	g.labels++
	return fmt.Sprintf("L%d", g.labels)
}

// branch adds statements of which each thread executes a part.
func (g *generator) branch() {
	if g.IntN(5) == 0 {
		g.indexed()
		return
	}
	other, end := g.label(), g.label()
	g.begin("", "bra uni?")
	g.line("@%s bra %s;", g.predicate(true), other)
	g.end()
	g.depth++
	for range 1 + g.IntN(3) {
		g.statement()
	}
	g.begin("", "bra uni?")
	g.line("bra%s %s;", pick(g, "", ".uni"), end)
	g.line("%s:", other)
	g.end()
	for range g.IntN(3) {
		g.statement()
	}
	g.begin("")
	g.line("%s:", end)
	g.end()
	g.depth--
}

// indexed adds a branch to one of several labels.
func (g *generator) indexed() {
	n := 2 + g.IntN(3)
	list, end := g.label(), g.label()
	var labels []string
	for range n {
		labels = append(labels, g.label())
	}
	g.begin("", "brx idx uni?")
	g.line("rem.u32 %%xi, %s, %d;", g.source("u32", "a"), n)
	g.line("%s: .branchtargets %s;", list, strings.Join(labels, ", "))
	g.line("brx.idx %%xi, %s;", list)
	g.end()
	g.depth++
	for i, l := range labels {
		g.begin("")
		g.line("%s:", l)
		g.end()
		g.statement()
		if i < n-1 {
			g.begin("", "bra uni?")
			g.line("bra.uni %s;", end)
			g.end()
		}
	}
	g.begin("")
	g.line("%s:", end)
	g.end()
	g.depth--
}

// loop adds a loop, of which each thread does one to four rounds.
func (g *generator) loop() {
	begin := g.label()
	g.begin("", "bra uni?")
	g.line("and.b32 %%xc, %%me, %d;", pick(g, 0, 1, 3))
	g.line("%s:", begin)
	g.end()
	g.depth += 2
	for range 1 + g.IntN(3) {
		g.statement()
	}
	g.depth -= 2
	g.begin("")
	g.line("sub.u32 %%xc, %%xc, 1;")
	g.line("setp.ge.s32 %%pc, %%xc, 0;")
	g.line("@%%pc bra %s;", begin)
	g.end()
}

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

// kernel returns the text of the program's kernel without the items in skip, and for each line the
// index of its item, or -1. Before the item with the index at, it stores the registers in probe.
func (p *program) kernel(skip map[int]bool, at int, probe []string) (lines []string, items []int) {
	add := func(n int, format string, args ...any) {
		lines, items = append(lines, fmt.Sprintf(format, args...)), append(items, n)
	}
	for _, h := range p.heads {
		if !p.dropped(h.item, skip) {
			add(h.item, "%s", h.text)
		}
	}
	if p.need["const"] {
		r := rand.New(rand.NewPCG(p.seed, 7))
		var words []string
		for range 16 {
			words = append(words, fmt.Sprint(uint32(integer(r, 32))))
		}
		add(-1, ".const .align 16 .b32 c%d[16] = {%s};", p.seed, strings.Join(words, ", "))
	}
	directives := p.directives
	if p.need["cluster"] { // without one, an H200 fails at asynchronous writes to its shared memory (715)
		directives += ".reqnctapercluster 1, 1, 1 "
	}
	add(-1, ".visible .entry k%d(.param .u64 image, .param .align 16 .b8 given[64]) %s{", p.seed, directives)
	add(-1, ".reg .b16 %%h<12>; .reg .b32 %%r<20>; .reg .b64 %%d<12>; .reg .pred %%p<8>;")
	add(-1, ".reg .b16 %%xh, %%xh1; .reg .b32 %%xr, %%xr1, %%xr2, %%xs, %%xi, %%xc, %%xm<16>; "+
		".reg .b64 %%xd, %%xd1, %%xe<8>, %%xp; .reg .b16 %%xhv<16>;")
	add(-1, ".reg .b64 %%im, %%in, %%out, %%gA, %%gT, %%nA, %%qA, %%qT, %%qM, %%zA, %%kA, %%yA; "+
		".reg .b32 %%me, %%sA, %%sT, %%sM, %%lA;")
	add(-1, ".reg .pred %%pc, %%pn, %%pz, %%pw, %%pm, %%px, %%py; .reg .b32 %%mf<8>, %%mb<8>, %%mt<8>; .reg .b64 %%md<4>;")
	add(-1, ".reg .b32 %%of<8>, %%ob<8>, %%ot<8>, %%oe<4>; .reg .b64 %%od<4>;")
	add(-1, "ld.param.u64 %%im, [image]; mov.u32 %%me, %%tid.x;")
	if p.family.threads > threads {
		add(-1, "and.b32 %%me, %%me, %d;", threads-1)
	}
	add(-1, "mad.wide.u32 %%in, %%me, 8, %%im; add.u64 %%out, %%in, %d;", results)
	add(-1, "mad.wide.u32 %%gA, %%me, 64, %%im; add.u64 %%nA, %%gA, %d; add.u64 %%gA, %%gA, %d;", constant, scratch)
	add(-1, "add.u64 %%gT, %%im, %d; setp.eq.u64 %%pn, %%im, 0; setp.eq.u32 %%pz, %%me, 0; "+
		"setp.ge.u32 %%pw, %%me, 32;", common)
	for i, in := range initial {
		add(-1, "ld.global.b%d %s, [%%in+%d];", widthOfRegister(in.name), in.name, i*rowSize)
	}
	for i := 6; i < 12; i++ {
		add(-1, "mov.b16 %%h%d, %%h%d; mov.b64 %%d%d, %%d%d;", i, i-6, i, i-6)
	}
	for i := 10; i < 20; i++ {
		add(-1, "mov.b32 %%r%d, %%r%d;", i, i-10)
	}
	for i := range 8 {
		add(-1, "and.b32 %%xr, %%r%d, %d; setp.ne.u32 %%p%d, %%xr, 0;", i, 1<<(i/2), i)
	}
	if p.need["shared"] {
		add(-1, ".shared .align 16 .b8 s[8192];")
		add(-1, "mov.u32 %%sA, s; add.u32 %%sT, %%sA, 4096; add.u32 %%sM, %%sA, 4608; mad.lo.u32 %%sA, %%me, 64, %%sA;")
		add(-1, "cvt.u64.u32 %%qA, %%sA; cvta.shared.u64 %%qA, %%qA; cvt.u64.u32 %%qT, %%sT; "+
			"cvta.shared.u64 %%qT, %%qT; add.u64 %%qM, %%qT, 512;")
		for i := 0; i < 64; i += 16 {
			add(-1, "ld.global.v2.b64 {%%xd, %%xd1}, [%%nA+%d]; st.shared.v2.b64 [%%sA+%d], {%%xd, %%xd1};", i, i)
		}
		add(-1, "mad.lo.u32 %%xr, %%me, 8, %%sT; st.shared.b64 [%%xr], %%d3; bar.sync 0;")
	}
	if p.need["local"] {
		add(-1, ".local .align 16 .b8 l[64];")
		add(-1, "mov.u32 %%lA, l; cvt.u64.u32 %%zA, %%lA; cvta.local.u64 %%zA, %%zA;")
		for i := 0; i < 64; i += 16 {
			add(-1, "ld.global.v2.b64 {%%xd, %%xd1}, [%%nA+%d]; st.local.v2.b64 [%%lA+%d], {%%xd, %%xd1};", i, i)
		}
	}
	if p.need["const"] {
		add(-1, "mov.u64 %%kA, c%d;", p.seed)
	}
	elements := func(pool string, row int) {
		for i, letter := range "fbt" {
			for j := range 4 {
				m := fmt.Sprintf("%%%s%c", pool, letter)
				add(-1, "ld.global.v2.b32 {%s%d, %s%d}, [%%in+%d];", m, 2*j, m, 2*j+1, (row+4*i+j)*rowSize)
			}
		}
		for j := range 4 {
			add(-1, "ld.global.b64 %%%sd%d, [%%in+%d];", pool, j, (row+12+j)*rowSize)
		}
	}
	if p.need["matrix"] {
		elements("m", matrixRow)
	}
	if p.need["coarse"] {
		elements("o", coarseRow)
		for j := range 2 {
			add(-1, "ld.global.v2.b32 {%%oe%d, %%oe%d}, [%%in+%d];", 2*j, 2*j+1, (coarseRow+16+j)*rowSize)
		}
	}
	for i, it := range p.items {
		if i == len(p.items)-1 && p.need["shared"] { // the last one returns
			n := len(p.slots) * rowSize
			add(-1, "bar.sync 0; mad.lo.u32 %%xr, %%me, 8, %%sT; ld.shared.b64 %%xd, [%%xr]; st.global.b64 [%%out+%d], %%xd;", n)
			for j := range 8 {
				add(-1, "ld.shared.b64 %%xd, [%%sA+%d]; st.global.b64 [%%out+%d], %%xd;", 8*j, n+(j+1)*rowSize)
			}
		}
		if i == at {
			for j, reg := range probe {
				if strings.HasPrefix(reg, "%p") {
					add(-1, "selp.u32 %%xs, 1, 0, %s;", reg)
					reg = "%xs"
				}
				add(-1, "st.global.b%d [%%out+%d], %s;", widthOfRegister(reg), (len(p.slots)+9+j)*rowSize, reg)
			}
		}
		if p.dropped(i, skip) {
			continue
		}
		for _, l := range it.lines {
			add(i, "%s", l)
		}
	}
	add(-1, "}")
	return lines, items
}

// forms returns the instructions of the items that are not left out.
func (p *program) forms(skip map[int]bool) string {
	var list []string
	for i, it := range p.items {
		if it.form != "" && !p.dropped(i, skip) {
			list = append(list, it.form)
		}
	}
	return strings.Join(list, ", ")
}

// dropped reports whether an item is left out.
func (p *program) dropped(item int, skip map[int]bool) bool {
	it := &p.items[item]
	return skip[item] || rejected()[it.form] || rejected()[it.form+"\t"+it.shape]
}

// widthOfRegister returns the size of a register in bits.
func widthOfRegister(name string) int {
	switch name[1] {
	case 'h':
		return 16
	case 'd', 'g', 'q', 'z', 'k', 'n', 'y':
		return 64
	case 'm', 'o':
		if name[2] == 'd' {
			return 64
		}
	case 'x':
		switch name[2] {
		case 'h':
			return 16
		case 'd', 'e':
			return 64
		}
	}
	return 32
}

// image returns the memory that the program begins with, up to the results.
func (p *program) image() []byte {
	r := rand.New(rand.NewPCG(p.seed, 3))
	b := make([]byte, results)
	put := func(at int, v uint64) {
		for i := range 8 {
			b[at+i] = byte(v >> (8 * i))
		}
	}
	for i, in := range initial {
		for t := range threads {
			put(i*rowSize+t*8, value(r, in.kind))
		}
	}
	for i := range 16 {
		for t := range threads {
			var v uint64
			switch i / 4 {
			case 0:
				for j := range 4 {
					v |= formats[f16Kind].scaled(r) << (16 * j)
				}
			case 1:
				for j := range 4 {
					v |= formats[bf16Kind].scaled(r) << (16 * j)
				}
			case 2:
				v = formats[f32Kind].scaled(r) | formats[f32Kind].scaled(r)<<32
			default:
				v = formats[f64Kind].scaled(r)
			}
			put((matrixRow+i)*rowSize+t*8, v)
		}
	}
	for at := constant; at < results; at += 8 {
		put(at, r.Uint64())
	}
	for i, f := range []floatFormat{formats[f16Kind], formats[bf16Kind], formats[f32Kind], formats[f64Kind],
		{4, 3}, {5, 2}} { // e4m3, e5m2
		size, first, rows := 1+f.exp+f.man, coarseRow+4*i, 4
		if size == 8 {
			first, rows = coarseRow+12+i, 1
		}
		for j := range rows {
			for t := range threads {
				var v uint64
				for bit := 0; bit < 64; bit += size {
					v |= f.coarse(r) << bit
				}
				put((first+j)*rowSize+t*8, v)
			}
		}
	}
	return b
}

// given returns the bytes of the program's second parameter.
func (p *program) given() []byte {
	r := rand.New(rand.NewPCG(p.seed, 4))
	b := make([]byte, 64)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// textHash returns a number for the text of a program.
func textHash(lines []string) uint32 {
	h := fnv.New32a()
	for _, l := range lines {
		h.Write([]byte(l))
	}
	return h.Sum32()
}
