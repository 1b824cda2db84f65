package compile

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// small returns a small integer as the bits of an element, and its value.
func small(kind string, n int) (bits uint64, v float64) {
	v = float64(n%7 - 3)
	switch kind {
	case "u8":
		v = float64(n % 7 * 41)
	case "u4":
		v = float64(n % 16)
	case "b1":
		v = float64(n % 2)
	}
	switch kind {
	case "e4m3":
		return map[float64]uint64{-3: 0xc4, -2: 0xc0, -1: 0xb8, 0: 0, 1: 0x38, 2: 0x40, 3: 0x44}[v], v
	case "e5m2":
		return map[float64]uint64{-3: 0xc2, -2: 0xc0, -1: 0xbc, 0: 0, 1: 0x3c, 2: 0x40, 3: 0x42}[v], v
	case "s4", "u4":
		return uint64(int8(v) & 15), v
	case "b1":
		return uint64(v), v
	case "f16":
		return map[float64]uint64{-3: 0xc200, -2: 0xc000, -1: 0xbc00, 0: 0, 1: 0x3c00, 2: 0x4000, 3: 0x4200}[v], v
	case "bf16":
		return uint64(math.Float32bits(float32(v)) >> 16), v
	case "tf32", "f32":
		return uint64(math.Float32bits(float32(v))), v
	case "f64":
		return math.Float64bits(v), v
	case "s8", "u8":
		return uint64(uint8(int(v))), v
	}
	return uint64(uint32(int32(v))), v
}

func bitsOfElement(kind string) int {
	return map[string]int{"f16": 16, "bf16": 16, "s8": 8, "u8": 8, "f64": 64, "e4m3": 8, "e5m2": 8, "s4": 4, "u4": 4,
		"b1": 1}[kind] + map[bool]int{true: 32}[kind == "tf32" ||
		kind == "f32" || kind == "s32"]
}

// places are where the manual says that element i of a lane is: its row and column. g is the lane
// divided by four, and t the remainder.
var places = map[string]func(i, g, t int) (r, c int){
	"a m16n8k16 16": func(i, g, t int) (int, int) {
		return g + map[bool]int{true: 8}[i%4 >= 2], t*2 + i&1 + map[bool]int{true: 8}[i >= 4]
	},
	"a m16n8k8 16":  func(i, g, t int) (int, int) { return g + i/2*8, t*2 + i&1 },
	"a m16n8k8 32":  func(i, g, t int) (int, int) { return g + i%2*8, t + i/2*4 },
	"a m16n8k4 32":  func(i, g, t int) (int, int) { return g + i*8, t },
	"a m8n8k4 64":   func(_, g, t int) (int, int) { return g, t },
	"a m16n8k4 64":  func(i, g, t int) (int, int) { return g + i*8, t },
	"a m8n8k16 8":   func(i, g, t int) (int, int) { return g, t*4 + i },
	"a m16n8k16 8":  func(i, g, t int) (int, int) { return g + i/4*8, t*4 + i&3 },
	"a m16n8k32 8":  func(i, g, t int) (int, int) { return g + i/4%2*8, t*4 + i&3 + i/8*16 },
	"a m16n8k8 64":  func(i, g, t int) (int, int) { return g + i%2*8, t + i/2*4 },
	"a m16n8k16 64": func(i, g, t int) (int, int) { return g + i%2*8, t + i/2*4 },
	"a m8n8k32 4":   func(i, g, t int) (int, int) { return g, t*8 + i },
	"a m16n8k32 4":  func(i, g, t int) (int, int) { return g + i/8*8, t*8 + i&7 },
	"a m16n8k64 4":  func(i, g, t int) (int, int) { return g + i/8%2*8, t*8 + i&7 + i/16*32 },
	"a m8n8k128 1":  func(i, g, t int) (int, int) { return g, t*32 + i },
	"a m16n8k128 1": func(i, g, t int) (int, int) { return g + i/32*8, t*32 + i&31 },
	"a m16n8k256 1": func(i, g, t int) (int, int) { return g + i/32%2*8, t*32 + i&31 + i/64*128 },
	"b m16n8k8 64":  func(i, g, t int) (int, int) { return t + i*4, g },
	"b m16n8k16 64": func(i, g, t int) (int, int) { return t + i*4, g },
	"b m8n8k32 4":   func(i, g, t int) (int, int) { return t*8 + i, g },
	"b m16n8k32 4":  func(i, g, t int) (int, int) { return t*8 + i, g },
	"b m16n8k64 4":  func(i, g, t int) (int, int) { return t*8 + i&7 + i/8*32, g },
	"b m8n8k128 1":  func(i, g, t int) (int, int) { return t*32 + i, g },
	"b m16n8k128 1": func(i, g, t int) (int, int) { return t*32 + i, g },
	"b m16n8k256 1": func(i, g, t int) (int, int) { return t*32 + i&31 + i/32*128, g },
	"b m16n8k16 16": func(i, g, t int) (int, int) { return t*2 + i&1 + i/2*8, g },
	"b m16n8k8 16":  func(i, g, t int) (int, int) { return t*2 + i, g },
	"b m16n8k8 32":  func(i, g, t int) (int, int) { return t + i*4, g },
	"b m16n8k4 32":  func(_, g, t int) (int, int) { return t, g },
	"b m8n8k4 64":   func(_, g, t int) (int, int) { return t, g },
	"b m16n8k4 64":  func(_, g, t int) (int, int) { return t, g },
	"b m8n8k16 8":   func(i, g, t int) (int, int) { return t*4 + i, g },
	"b m16n8k16 8":  func(i, g, t int) (int, int) { return t*4 + i, g },
	"b m16n8k32 8":  func(i, g, t int) (int, int) { return t*4 + i&3 + i/4*16, g },
	// Of products with a sparse matrix.
	"b m16n8k32 16": func(i, g, t int) (int, int) { return t*2 + i&1 + i/2*8, g },
	"b m16n8k16 32": func(i, g, t int) (int, int) { return t + i*4, g },
	"b m16n8k64 8":  func(i, g, t int) (int, int) { return t*4 + i&3 + i/4*16, g },
	"b m16n8k128 4": func(i, g, t int) (int, int) { return t*8 + i&7 + i/8*32, g },
}

// sparsity is the metadata of a sparse matrix: for each row and chunk two indices.
type sparsity struct {
	kind     string
	k        int
	selector int
	ordered  bool
}

// indices returns the two indices of a chunk of a row.
func (s sparsity) indices(row, chunk int) (first, second int) {
	n := row*3 + chunk*5 + row*chunk
	if s.kind == "tf32" { // both halves of one of two numbers
		return n % 2 * 2, n%2*2 + 1
	}
	first, second = n%4, (n%4+1+n/4%3)%4
	if s.ordered {
		return min(first, second), max(first, second)
	}
	return first, second
}

// column returns the column of the element of a row with a number.
func (s sparsity) column(row, number int) int {
	pick := func(chunk, which int) int {
		first, second := s.indices(row, chunk)
		return []int{first, second}[which]
	}
	switch s.kind {
	case "tf32":
		return number*2 + pick(number, 0)/2
	case "s4", "u4":
		return number/4*8 + pick(number/4, number%4/2)*2 + number%2
	}
	return number/2*4 + pick(number/2, number%2)
}

// metadata returns the registers of the lanes with metadata, as the manual's figures have it. The others have what no
// metadata should be.
func (s sparsity) metadata() (words [32]uint32) {
	for i := range words {
		words[i] = 0xffffffff
	}
	chunks := s.k / 4
	switch s.kind {
	case "tf32":
		chunks = s.k / 2
	case "s4", "u4":
		chunks = s.k / 8
	}
	for row := range 16 {
		for chunk := range chunks {
			lane, bit := row%8*4, chunk%8*4
			switch {
			case bitsOfElement(s.kind) >= 16 && chunks == 4:
				lane, bit = lane+s.selector, chunk*4+row/8*16
			case bitsOfElement(s.kind) >= 16:
				lane, bit = lane+s.selector*2+chunk/4, chunk%4*4+row/8*16
			case chunks == 8:
				lane += s.selector*2 + row/8
			default:
				lane += chunk/8*2 + row/8
			}
			first, second := s.indices(row, chunk)
			words[lane] = words[lane]&^(15<<bit) | uint32(first|second<<2)<<bit
		}
	}
	return words
}

// TestProducts executes all variants of mma.
func TestProducts(t *testing.T) {
	for _, e := range products() {
		e.check(t)
	}
}

// products multiply matrices of small integers with all variants of mma, and those of wmma.mma that are like it. They
// leave out those whose matrices belong to eight lanes.
func products() (list []*example) {
	for _, row := range isa.All() {
		for _, v := range row.Variants() {
			if !v.Has("dt") || v.Has("al") || v.Name != "mma" && v.Name != "wmma" {
				break
			}
			for selector := range max(int(isa.Selectors(v)), 1) {
				list = append(list, productOf(v, selector))
			}
		}
	}
	return list
}

// productOf multiplies matrices with a variant, of which the first one may be sparse.
func productOf(v isa.Variant, selector int) *example {
	var m, n, k int
	fmt.Sscanf(v.Get("shape"), "m%dn%dk%d", &m, &n, &k)
	kinds := [4]string{v.Get("dt"), v.T(), v.Get("u"), v.Get("ct")}
	var data [4 * 32 * 8]uint64 // eight registers of 64 bits of a, b, c and metadata for each lane
	meta, last, kept := sparsity{kinds[1], k, selector, v.Get("metadata") != "sp"}, "", k
	if v.Has("metadata") {
		last, kept = fmt.Sprintf(", e, %d", selector), k/2
		for lane, word := range meta.metadata() {
			data[(lane*4+3)*8] = uint64(word)
		}
	}
	shapes := []string{fmt.Sprintf("m%dn%dk%d", m, n, kept), v.Get("shape")}
	matrices := [3]map[[2]int]float64{{}, {}, {}}
	for lane := range 32 {
		g, q := lane/4, lane%4
		for x, kind := range kinds[1:] {
			size := bitsOfElement(kind)
			each := []int{m * kept, n * k, m * n}[x] / 32
			for i := range each {
				bits, value := small(kind, lane*5+i*3+x)
				if x == 2 && kind == "s32" && lane%2 == 1 { // the sum may be too large
					bits, value = math.MaxInt32, math.MaxInt32
				}
				r, c := g+i/2*8, q*2+i%2
				if x < 2 {
					r, c = places[fmt.Sprintf("%c %s %d", "ab"[x], shapes[x], size)](i, g, q)
				}
				matrices[x][[2]int{r, c}] = value
				per := max(32/size, 1)
				data[(lane*4+x)*8+i/per] |= bits << (i % per * size)
			}
		}
	}
	var b strings.Builder
	lengths := v.Lengths(v)
	wide, reg := "b32", ".reg .b32 "
	if v.T() == "f64" {
		wide, reg = "b64", ".reg .b64 "
	}
	fmt.Fprintf(&b, `%s.entry k(.param .u64 in, .param .u64 out) { %s d<8>, a<8>, b<8>, c<8>; .reg .b64 i, o, x;
		.reg .b32 t, e; ld.param.u64 i, [in]; ld.param.u64 o, [out]; mov.u32 t, %%tid.x; mul.wide.u32 x, t, 256;
		add.u64 i, i, x; mul.wide.u32 x, t, 64; add.u64 o, o, x; ld.global.b32 e, [i+192];
		`, textHeader, reg)
	lists := [4]string{}
	for x, name := range "dabc" {
		var names []string
		for j := range lengths[x] {
			names = append(names, fmt.Sprintf("%c%d", name, j))
			if x > 0 {
				fmt.Fprintf(&b, "ld.global.%s %c%d, [i+%d];\n", wide, name, j, (x-1)*64+j*8)
			}
		}
		lists[x] = "{" + strings.Join(names, ",") + "}"
	}
	fmt.Fprintf(&b, "%s %s%s;\n", v, strings.Join(lists[:], ", "), last)
	for j := range lengths[0] {
		fmt.Fprintf(&b, "st.global.%s [o+%d], d%d;\n", wide, 8*j, j)
	}
	b.WriteString("ret; }")
	size := bitsOfElement(kinds[0])
	return &example{name: fmt.Sprint(v, last), text: b.String(), grid: 1, block: 32,
		params: []uint64{1 << 32, 1 << 33}, prepare: func() (memory, func(*vm.Fault) string) {
			results := make([]uint64, 32*8)
			mem := memory{1 << 32: vm.BytesOf(data[:]), 1 << 33: vm.BytesOf(results)}
			return mem, func(fault *vm.Fault) string {
				if fault != nil {
					return fmt.Sprintf("%+v", fault)
				}
				for lane := range 32 {
					for i := range m * n / 32 {
						r, c := lane/4+i/2*8, lane%4*2+i%2
						want := matrices[2][[2]int{r, c}]
						for x := range kept {
							y := x
							if v.Has("metadata") {
								y = meta.column(r, x)
							}
							a, b := matrices[0][[2]int{r, x}], matrices[1][[2]int{y, c}]
							if v.Get("op") == "xor" {
								want += a + b - 2*a*b
							} else {
								want += a * b
							}
						}
						if kinds[0] == "s32" && v.Has("satfinite") {
							want = min(want, math.MaxInt32)
						} else if kinds[0] == "s32" {
							want = float64(int32(int64(want)))
						}
						per := max(32/size, 1)
						got := results[lane*8+i/per] >> (i % per * size)
						if g := valueOf(kinds[0], got); g != want {
							return fmt.Sprintf("element (%d, %d) is %g, want %g", r, c, g, want)
						}
					}
				}
				return ""
			}
		}}
}

// valueOf returns the value of an element.
func valueOf(kind string, bits uint64) float64 {
	switch kind {
	case "f16":
		return decode("f16", []byte{byte(bits), byte(bits >> 8)})
	case "f32":
		return float64(math.Float32frombits(uint32(bits)))
	case "f64":
		return math.Float64frombits(bits)
	}
	return float64(int32(bits))
}

// TestFragments executes all variants of wmma.mma.
func TestFragments(t *testing.T) {
	for _, e := range fragments() {
		e.check(t)
	}
}

// fragments multiply matrices of small integers with all variants of wmma.mma, with their loads and stores.
func fragments() (list []*example) {
	for _, row := range isa.All() {
		if row.Name != "wmma" {
			continue
		}
		for _, v := range row.Variants() {
			if v.Get("al") == "" {
				continue
			}
			spaces := []string{".global", "", ".shared", ".shared::cta"}
			if strings.HasSuffix(v.Get("shape"), "k16") { // programs that were recorded have the others
				spaces = spaces[:1]
			}
			for i, space := range spaces {
				list = append(list, fragment(v, space, []string{"row", "col"}[i%2]))
			}
		}
	}
	return list
}

// fragment multiplies matrices, which are in a state space. The one that is added has a layout, and the result
// has the other one.
func fragment(v isa.Variant, space, layout string) *example {
	const room = 8 << 10 // for a matrix in shared memory
	var m, n, k int
	fmt.Sscanf(v.Get("shape"), "m%dn%dk%d", &m, &n, &k)
	kinds := [4]string{v.Get("dt"), v.T(), v.Get("u"), v.Get("ct")}
	if kinds[1] == "" {
		kinds[1], kinds[2] = "f16", "f16"
	}
	rows, columns := [4]int{m, m, k, m}, [4]int{n, k, n, n}
	layouts := [4]string{"row", v.Get("al"), v.Get("bl"), layout}
	if layout == "row" {
		layouts[0] = "col"
	}
	stride := func(x int) int { // with two elements between rows or columns
		if layouts[x] == "col" {
			return rows[x] + 2
		}
		return columns[x] + 2
	}
	at := func(x, r, c int) int {
		if layouts[x] == "col" {
			return c*stride(x) + r
		}
		return r*stride(x) + c
	}
	value := func(x, r, c int) (uint64, float64) { return small(kinds[x], r*5+c*3+x) }
	mem := memory{} // a wrong address should be in none of the matrices
	var b strings.Builder
	wide := "b32"
	if kinds[0] == "f64" {
		wide = "b64"
	}
	header := textHeader
	if v.Has("satfinite") && kinds[3][0] == 'f' { // newer texts do not have it
		header = ".version 6.4 .target sm_70 .address_size 64\n"
	}
	b.WriteString(header + ".entry k(.param .u64 in) { .reg ." + wide +
		" d<8>, a<8>, b<8>, c<8>; .reg .b64 p, q, o; " +
		".reg .b32 w, t; .reg .pred P; mov.u32 t, %tid.x;\n")
	shared := strings.HasPrefix(space, ".shared")
	if shared {
		fmt.Fprintf(&b, ".shared .align 16 .b8 s[%d];\n", 4*room)
	}
	// move copies a matrix between the two memories, and leaves its address in p.
	move := func(x, size int, in bool) {
		fmt.Fprintf(&b, "mov.u64 p, %d;\n", uint64(x+1)<<40)
		if !shared {
			return
		}
		from, to := "global.b32 w, [p]", "shared.b32 [q], w"
		if !in {
			from, to = "shared.b32 w, [q]", "global.b32 [p], w"
		}
		fmt.Fprintf(&b, `mov.u64 q, s; add.u64 q, q, %d; mul.wide.u32 o, t, 4; add.u64 p, p, o; add.u64 q, q, o;
			l%d%t: ld.%s; st.%s; add.u64 p, p, 128; add.u64 q, q, 128; add.u64 o, o, 128; setp.lt.u64 P, o, %d;
			@P bra l%[2]d%[3]t; bar.warp.sync -1; mov.u64 p, s; add.u64 p, p, %[1]d;`+"\n", x*room, x, in, from, to, 32*34*size)
	}
	lists, lengths := [4]string{}, v.Lengths(v)
	for x, name := range "dabc" {
		var names []string
		for j := range lengths[x] {
			names = append(names, fmt.Sprintf("%c%d", name, j))
		}
		lists[x] = "{" + strings.Join(names, ",") + "}"
		size := max(bitsOfElement(kinds[x])/8, 1)
		if kinds[x] == "f64" { // the matrices are small
			size = 4
		}
		words := vm.BytesOf(make([]uint64, 32*34/8*size+32))
		mem[uint64(x+1)<<40] = words
		if x == 0 {
			continue
		}
		for r := range rows[x] {
			for c := range columns[x] {
				bits, _ := value(x, r, c)
				for i := range bitsOfElement(kinds[x]) / 8 {
					words[at(x, r, c)*bitsOfElement(kinds[x])/8+i] = byte(bits >> (8 * i))
				}
			}
		}
		move(x, size, true)
		fmt.Fprintf(&b, "wmma.load.%c.sync.aligned.%s.%s%s.%s %s, [p], %d;\n", name, layouts[x], v.Get("shape"), space,
			kinds[x], lists[x], stride(x))
	}
	size := bitsOfElement(kinds[0]) / 8
	move(0, min(size, 4), true)
	fmt.Fprintf(&b, "%s %s;\nwmma.store.d.sync.aligned.%s.%s%s.%s [p], %s, %d;\n", v, strings.Join(lists[:], ", "),
		layouts[0],
		v.Get("shape"), space, kinds[0], lists[0], stride(0))
	if shared {
		b.WriteString("bar.warp.sync -1;\n")
	}
	move(0, min(size, 4), false)
	b.WriteString("ret; }")
	return &example{name: v.String(), text: b.String(), grid: 1, block: 32, params: []uint64{0},
		prepare: func() (memory, func(*vm.Fault) string) {
			clear(mem[1<<40])
			return mem, func(fault *vm.Fault) string {
				if fault != nil {
					return fmt.Sprintf("%+v", fault)
				}
				for r := range m {
					for c := range n {
						_, want := value(3, r, c)
						for x := range k {
							_, p := value(1, r, x)
							_, q := value(2, x, c)
							want += p * q
						}
						bits := uint64(0)
						for i := range size {
							bits |= uint64(mem[1<<40][at(0, r, c)*size+i]) << (8 * i)
						}
						if got := valueOf(kinds[0], bits); got != want {
							return fmt.Sprintf("element (%d, %d) is %g, want %g", r, c, got, want)
						}
					}
				}
				return ""
			}
		}}
}
