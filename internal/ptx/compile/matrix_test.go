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
	if kind == "u8" {
		v = float64(n % 7)
	}
	switch kind {
	case "f16":
		return map[float64]uint64{-3: 0xc200, -2: 0xc000, -1: 0xbc00, 0: 0, 1: 0x3c00, 2: 0x4000, 3: 0x4200}[v], v
	case "bf16":
		return uint64(math.Float32bits(float32(v)) >> 16), v
	case "tf32", "f32":
		return uint64(math.Float32bits(float32(v))), v
	case "f64":
		return math.Float64bits(v), v
	case "s8", "u8":
		return uint64(uint8(int8(v))), v
	}
	return uint64(uint32(int32(v))), v
}

func bitsOfElement(kind string) int {
	return map[string]int{"f16": 16, "bf16": 16, "s8": 8, "u8": 8, "f64": 64}[kind] + map[bool]int{true: 32}[kind == "tf32" ||
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
	"b m16n8k16 16": func(i, g, t int) (int, int) { return t*2 + i&1 + i/2*8, g },
	"b m16n8k8 16":  func(i, g, t int) (int, int) { return t*2 + i, g },
	"b m16n8k8 32":  func(i, g, t int) (int, int) { return t + i*4, g },
	"b m16n8k4 32":  func(_, g, t int) (int, int) { return t, g },
	"b m8n8k4 64":   func(_, g, t int) (int, int) { return t, g },
	"b m16n8k4 64":  func(_, g, t int) (int, int) { return t, g },
	"b m8n8k16 8":   func(i, g, t int) (int, int) { return t*4 + i, g },
	"b m16n8k16 8":  func(i, g, t int) (int, int) { return t*4 + i, g },
	"b m16n8k32 8":  func(i, g, t int) (int, int) { return t*4 + i&3 + i/4*16, g },
}

// TestProducts executes all variants of mma.
func TestProducts(t *testing.T) {
	for _, e := range products() {
		e.check(t)
	}
}

// products multiply matrices of small integers with all variants of mma.
func products() (list []*example) {
	for _, row := range isa.All() {
		if row.Name != "mma" {
			continue
		}
		for _, v := range row.Variants() {
			var m, n, k int
			fmt.Sscanf(v.Get("shape"), "m%dn%dk%d", &m, &n, &k)
			kinds := [4]string{v.Get("dt"), v.T(), v.Get("u"), v.Get("ct")}
			var data [3 * 32 * 8]uint64 // eight registers of 64 bits of a, b and c for each lane
			matrices := [3]map[[2]int]float64{{}, {}, {}}
			for lane := range 32 {
				g, q := lane/4, lane%4
				for x, kind := range kinds[1:] {
					size := bitsOfElement(kind)
					each := []int{m * k, n * k, m * n}[x] / 32
					for i := range each {
						bits, value := small(kind, lane*5+i*3+x)
						r, c := g+i/2*8, q*2+i%2
						if x < 2 {
							r, c = places[fmt.Sprintf("%c %s %d", "ab"[x], v.Get("shape"), size)](i, g, q)
						}
						matrices[x][[2]int{r, c}] = value
						per := max(32/size, 1)
						data[(lane*3+x)*8+i/per] |= bits << (i % per * size)
					}
				}
			}
			var b strings.Builder
			lengths := v.Lengths(v)
			wide, reg := "b32", ".reg .b32 "
			if v.T() == "f64" {
				wide, reg = "b64", ".reg .b64 "
			}
			fmt.Fprintf(&b, "%s.entry k(.param .u64 in, .param .u64 out) { %s d<8>, a<8>, b<8>, c<8>; .reg .b64 i, o, x; .reg .b32 t;", textHeader, reg)
			b.WriteString("ld.param.u64 i, [in]; ld.param.u64 o, [out]; mov.u32 t, %tid.x; mul.wide.u32 x, t, 192; add.u64 i, i, x; mul.wide.u32 x, t, 64; add.u64 o, o, x;\n")
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
			fmt.Fprintf(&b, "%s %s;\n", v, strings.Join(lists[:], ", "))
			for j := range lengths[0] {
				fmt.Fprintf(&b, "st.global.%s [o+%d], d%d;\n", wide, 8*j, j)
			}
			b.WriteString("ret; }")
			size := bitsOfElement(kinds[0])
			list = append(list, &example{name: v.String(), text: b.String(), grid: 1, block: 32,
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
								for x := range k {
									want += matrices[0][[2]int{r, x}] * matrices[1][[2]int{x, c}]
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
				}})
		}
	}
	return list
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
			var m, n, k int
			fmt.Sscanf(v.Get("shape"), "m%dn%dk%d", &m, &n, &k)
			kinds := [4]string{v.Get("dt"), v.T(), v.Get("u"), v.Get("ct")}
			if kinds[1] == "" {
				kinds[1], kinds[2] = "f16", "f16"
			}
			rows, columns := [4]int{m, m, k, m}, [4]int{n, k, n, n}
			layouts := [4]string{"col", v.Get("al"), v.Get("bl"), "row"}
			mem := memory{}
			var b strings.Builder
			b.WriteString(textHeader + ".entry k(.param .u64 in) { .reg .b32 d<8>, a<8>, b<8>, c<8>; .reg .b64 p;\n")
			lists, lengths := [4]string{}, v.Lengths(v)
			for x, name := range "dabc" {
				var names []string
				for j := range lengths[x] {
					names = append(names, fmt.Sprintf("%c%d", name, j))
				}
				lists[x] = "{" + strings.Join(names, ",") + "}"
			}
			at := func(x, r, c int) int { // with two elements between rows or columns
				if layouts[x] == "col" {
					return c*(rows[x]+2) + r
				}
				return r*(columns[x]+2) + c
			}
			value := func(x, r, c int) (uint64, float64) { return small(kinds[x], r*5+c*3+x) }
			for x := range 4 {
				size := bitsOfElement(kinds[x]) / 8
				words := vm.BytesOf(make([]uint64, 32*34/8*size+8))
				mem[uint64(x+1)<<32] = words
				stride := columns[x] + 2
				if layouts[x] == "col" {
					stride = rows[x] + 2
				}
				if x > 0 {
					for r := range rows[x] {
						for c := range columns[x] {
							bits, _ := value(x, r, c)
							for i := range size {
								words[at(x, r, c)*size+i] = byte(bits >> (8 * i))
							}
						}
					}
					fmt.Fprintf(&b, "mov.u64 p, %d; wmma.load.%c.sync.aligned.%s.%s.global.%s %s, [p], %d;\n", uint64(x+1)<<32,
						"dabc"[x], layouts[x], v.Get("shape"), kinds[x], lists[x], stride)
				}
			}
			fmt.Fprintf(&b, "%s %s;\nmov.u64 p, %d; wmma.store.d.sync.aligned.col.%s.global.%s [p], %s, %d; ret; }", v,
				strings.Join(lists[:], ", "), uint64(1)<<32, v.Get("shape"), kinds[0], lists[0], m+2)
			size := bitsOfElement(kinds[0]) / 8
			list = append(list, &example{name: v.String(), text: b.String(), grid: 1, block: 32, params: []uint64{0},
				prepare: func() (memory, func(*vm.Fault) string) {
					clear(mem[1<<32])
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
									bits |= uint64(mem[1<<32][at(0, r, c)*size+i]) << (8 * i)
								}
								if got := valueOf(kinds[0], bits); got != want {
									return fmt.Sprintf("element (%d, %d) is %g, want %g", r, c, got, want)
								}
							}
						}
						return ""
					}
				}})
		}
	}
	return list
}
