package isa

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"sync"
	"unsafe"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// tensorRows are the instructions about matrices whose elements a warp shares.
func tensorRows() []*Instruction {
	const shared = "space?=shared|shared::cta "
	return []*Instruction{
		{Name: "ldmatrix", Modifiers: "sync aligned m8n8 count=x1|x2|x4 trans? " + shared + "t=b16",
			Operands: "0:b32 m", Kind: vm.Sync, Special: "whole", Make: func(v Variant) vm.Func { return moveMatrix(v, true) },
			Lengths: func(v Variant) []int { return []int{int(v.Get("count")[1] - '0')} }},
		{Name: "stmatrix", Modifiers: "sync aligned m8n8 count=x1|x2|x4 trans? " + shared + "t=b16",
			Operands: "m 1:b32", Kind: vm.Sync, Special: "whole", Make: func(v Variant) vm.Func { return moveMatrix(v, false) },
			Lengths: func(v Variant) []int { return []int{0, int(v.Get("count")[1] - '0')} }},
		{Name: "movmatrix", Modifiers: "sync aligned m8n8 trans t=b16", Operands: "d:b32 a:b32", Kind: vm.Sync,
			Special: "whole", Make: transpose},
		mmaRow("m16n8k16|m16n8k8 row col dt=f16|f32 t=f16 u=f16 ct=f16|f32", "b32", mma),
		mmaRow("m16n8k16|m16n8k8 row col dt=f32 t=bf16 u=bf16 ct=f32", "b32", mma),
		mmaRow("m16n8k8|m16n8k4 row col dt=f32 t=tf32 u=tf32 ct=f32", "b32", mma),
		mmaRow("m8n8k4|m16n8k4 row col dt=f64 t=f64 u=f64 ct=f64", "b64", mma),
		mmaRow("m8n8k16|m16n8k16|m16n8k32 row col satfinite? dt=s32 t=s8|u8 u=s8|u8 ct=s32", "b32", mma),
		mmaRow("m16n8k8|m16n8k16 row col dt=f64 t=f64 u=f64 ct=f64", "b64", mma),
		mmaRow("m16n8k32 row col dt=f16|f32 t=e4m3|e5m2 u=e4m3|e5m2 ct=f16|f32", "b32", mma),
		mmaRow("m8n8k32|m16n8k32|m16n8k64 row col satfinite? dt=s32 t=s4|u4 u=s4|u4 ct=s32", "b32", mma),
		mmaRow("m8n8k128|m16n8k128|m16n8k256 row col dt=s32 t=b1 u=b1 ct=s32 op=xor|and popc", "b32", mmaBits),
		loadRow("a|b", "m16n16k8", "t=tf32", "b32"),
		loadRow("c", "m16n16k8", "t=f32", "b32"),
		loadRow("a|b|c", "m8n8k4", "t=f64", "b64"),
		storeRow("m16n16k8", "t=f32", "b32"),
		storeRow("m8n8k4", "t=f64", "b64"),
		wmmaRow("m16n16k8 dt=f32 t=tf32 u=tf32 ct=f32", "b32"),
		wmmaRow("m8n8k4 dt=f64 t=f64 u=f64 ct=f64", "b64"),
		loadRow("a|b|c", "m16n16k16|m8n32k16|m32n8k16", "t=f16|bf16|s8|u8|f32|s32", "b32"),
		storeRow("m16n16k16|m8n32k16|m32n8k16", "t=f16|f32|s32", "b32"),
		wmmaRow("m16n16k16|m8n32k16|m32n8k16 dt=f16|f32 ct=f16|f32", "b32"),
		wmmaRow("m16n16k16|m8n32k16|m32n8k16 dt=f32 t=bf16 u=bf16 ct=f32", "b32"),
		wmmaRow("m16n16k16|m8n32k16|m32n8k16 dt=s32 t=s8|u8 u=s8|u8 ct=s32 satfinite?", "b32"),
	}
}

// mmaRow is a row of mma with these shapes and types, whose elements are in registers of one size.
func mmaRow(modifiers, register string, make func(Variant) vm.Func) *Instruction {
	return productRow("mma", "sync aligned shape="+modifiers, register, make, mmaLengths)
}

// wmmaRow is a row of wmma.mma.
func wmmaRow(modifiers, register string) *Instruction {
	return productRow("wmma", "mma sync aligned al=row|col bl=row|col shape="+modifiers, register, wmma, wmmaLengths)
}

// productRow is a row about the product of two matrices, to which a third one is added.
func productRow(name, modifiers, register string, make func(Variant) vm.Func,
	lengths func(Variant) []int) *Instruction {
	return &Instruction{Name: name, Modifiers: modifiers,
		Operands: fmt.Sprintf("0:%s 1:%[1]s 2:%[1]s 3:%[1]s", register), Kind: vm.Sync, Special: "whole", Make: make,
		Lengths: lengths}
}

// inMemory describes where wmma.load and wmma.store find a matrix, and how it lies there.
const inMemory = " sync aligned layout=row|col shape=%s space?=global|shared|shared::cta %s"

// loadRow is a row of wmma.load.
func loadRow(matrices, shapes, types, register string) *Instruction {
	return &Instruction{Name: "wmma", Modifiers: "load which=" + matrices + fmt.Sprintf(inMemory, shapes, types),
		Operands: "0:" + register + " m b:b32", Kind: vm.Sync, Special: "whole", Make: loadFragment,
		Lengths: loadLengths}
}

// storeRow is a row of wmma.store.
func storeRow(shapes, types, register string) *Instruction {
	return &Instruction{Name: "wmma", Modifiers: "store which=d" + fmt.Sprintf(inMemory, shapes, types),
		Operands: "m 1:" + register + " b:b32", Kind: vm.Sync, Special: "whole", Make: storeFragment,
		Lengths: storeLengths}
}

// transpose returns the function of movmatrix. Each lane has two elements of a row.
func transpose(Variant) vm.Func {
	return func(w *vm.Warp, o *vm.Op) {
		if !whole(w) {
			return
		}
		a, d := w.R[o.A], &w.R[o.D]
		element := func(row, column int) uint64 { return a[4*row+column/2] >> (column % 2 * 16) & 0xffff }
		for i := range d {
			row, column := i/4, i%4*2
			d[i] = element(column, row) | element(column+1, row)<<16
		}
	}
}

// whole reports whether all lanes take part. Otherwise there is a fault.
func whole(w *vm.Warp) bool {
	if w.Active != vm.Full {
		w.Fail(vm.LaunchFailed, fmt.Sprintf("only %d of the 32 lanes take part, and the result is undefined",
			bits.OnesCount32(w.Active)))
	}
	return w.Active == vm.Full
}

// moveMatrix returns the function of ldmatrix and stmatrix. A matrix has eight rows of 16 bytes, whose
// addresses eight lanes have. Each lane has two elements of it.
func moveMatrix(v Variant, load bool) vm.Func {
	n, trans, space := int(v.Get("count")[1]-'0'), v.Has("trans"), spaceOf(v)
	return func(w *vm.Warp, o *vm.Op) {
		list := o.X.Lists[0]
		if !load {
			list = o.X.Lists[1]
		}
		a := w.R[o.A]
		if !whole(w) {
			return
		}
		for m := range n {
			var rows [8]unsafe.Pointer
			for r := range rows {
				lane := 8*m + r
				if rows[r] = space(w, o, lane, a[lane]+uint64(o.Imm), 16, !load); rows[r] == nil {
					return
				}
			}
			column := &w.R[list[m]]
			for lane := range column {
				for j := range 2 {
					r, c := lane/4, lane%4*2+j
					if trans {
						r, c = c, r
					}
					p := (*uint16)(unsafe.Add(rows[r], 2*c))
					switch {
					case !load:
						*p = uint16(column[lane] >> (16 * j))
					case j == 0:
						column[lane] = uint64(*p)
					default:
						column[lane] |= uint64(*p) << 16
					}
				}
			}
		}
	}
}

// shapeOf returns the sizes in a shape such as m16n8k16.
func shapeOf(s string) (m, n, k int) {
	number := func(s string) (v int) {
		for _, c := range s {
			v = v*10 + int(c-'0')
		}
		return v
	}
	s, last, _ := strings.Cut(s[1:], "k")
	first, middle, _ := strings.Cut(s, "n")
	return number(first), number(middle), number(last)
}

// elements returns how many elements a register of a type of elements has.
func elements(t string) int {
	switch t {
	case "f16", "bf16":
		return 2
	case "s8", "u8", "e4m3", "e5m2":
		return 4
	case "s4", "u4":
		return 8
	case "b1":
		return 32
	}
	return 1
}

// mmaLengths returns the numbers of registers of the operands of mma.
func mmaLengths(v Variant) []int {
	m, n, k := shapeOf(v.Get("shape"))
	return []int{m * n / 32 / elements(v.Get("dt")), m * k / 32 / elements(v.T()), n * k / 32 / elements(v.Get("u")),
		m * n / 32 / elements(v.Get("ct"))}
}

// halfValues are the values of all numbers of 16 bits.
var halfValues = sync.OnceValue(func() *[1 << 16]float32 {
	table := new([1 << 16]float32)
	for i := range table {
		table[i] = float32(math.Float64frombits(f64.convert(uint64(i), f16, rn)))
	}
	return table
})

// element returns an element of a register as a float. Integers of 32 bits are exact in it.
func element(t string) func(register uint64, i int) float64 {
	switch t {
	case "f16":
		table := halfValues()
		return func(r uint64, i int) float64 { return float64(table[uint16(r>>(16*i))]) }
	case "bf16":
		return func(r uint64, i int) float64 { return float64(math.Float32frombits(uint32(r>>(16*i)) << 16)) }
	case "tf32": // the lower 13 bits do not count
		return func(r uint64, _ int) float64 { return float64(math.Float32frombits(uint32(r) &^ 0x1fff)) }
	case "f32":
		return func(r uint64, _ int) float64 { return float64(math.Float32frombits(uint32(r))) }
	case "f64":
		return func(r uint64, _ int) float64 { return math.Float64frombits(r) }
	case "s8":
		return func(r uint64, i int) float64 { return float64(int8(r >> (8 * i))) }
	case "u8":
		return func(r uint64, i int) float64 { return float64(uint8(r >> (8 * i))) }
	case "s4":
		return func(r uint64, i int) float64 { return float64(int8(r>>(4*i)<<4) >> 4) }
	case "u4":
		return func(r uint64, i int) float64 { return float64(r >> (4 * i) & 15) }
	case "e4m3", "e5m2":
		table, f := halfValues(), tinyOf(t+"x2")
		return func(r uint64, i int) float64 { return float64(table[f.decode(r>>(8*i)&0xff)]) }
	}
	return func(r uint64, _ int) float64 { return float64(int32(r)) }
}

// rounded returns the bits of a result of a type. Integers wrap, or are limited.
func rounded(t string, limited bool) func(v float64) uint64 {
	switch t {
	case "f64":
		return math.Float64bits
	case "s32":
		return func(v float64) uint64 {
			if limited {
				v = max(min(v, math.MaxInt32), math.MinInt32)
			}
			return uint64(uint32(int64(v)))
		}
	}
	f := formatOf(t)
	return func(v float64) uint64 {
		if v != v {
			return f.nan
		}
		return f.convert(math.Float64bits(v), f64, rn)
	}
}

// product adds the product of matrices to a matrix. The elements of each sum are added in their order.
func product(d, a, b []float64, m, n, k int, fused bool) {
	for i := range m {
		for j := range n {
			s := d[i*n+j]
			for x := range k {
				if fused {
					s = math.FMA(a[i*k+x], b[x*n+j], s)
				} else {
					s += a[i*k+x] * b[x*n+j]
				}
			}
			d[i*n+j] = s
		}
	}
}

// mmaBits returns the function of a product of matrices of bits. A sum counts the bits in which the elements
// differ, or that both have.
func mmaBits(v Variant) vm.Func {
	m, _, k := shapeOf(v.Get("shape"))
	both, tall, words := v.Get("op") == "and", m/8, k/32
	return func(w *vm.Warp, o *vm.Op) {
		var a [16][8]uint32
		var b [8][8]uint32 // by columns
		for lane := range vm.Lanes {
			g, t := lane/4, lane%4
			for r, c := range o.X.Lists[1] {
				a[g+r%tall*8][r/tall*4+t] = uint32(w.R[c][lane])
			}
			for r, c := range o.X.Lists[2] {
				b[g][r*4+t] = uint32(w.R[c][lane])
			}
		}
		var d [4]vm.Column
		for lane := range vm.Lanes {
			for i, c := range o.X.Lists[3] {
				row, column := &a[lane/4+i/2*8], &b[lane%4*2+i%2]
				sum := uint32(w.R[c][lane])
				for x := range words {
					bit := row[x] ^ column[x]
					if both {
						bit = row[x] & column[x]
					}
					sum += uint32(bits.OnesCount32(bit))
				}
				d[i][lane] = uint64(sum)
			}
		}
		for i, c := range o.X.Lists[0] {
			w.R[c] = d[i]
		}
	}
}

// mma returns the function of a product of matrices. The elements of 32 bits or less are multiplied
// exactly, added with 64 bits, and rounded once.
func mma(v Variant) vm.Func {
	if v.Get("dt") != v.Get("ct") {
		return nil
	}
	m, n, k := shapeOf(v.Get("shape"))
	ea, ec, ed := elements(v.T()), elements(v.Get("ct")), elements(v.Get("dt"))
	at, bt, ct := element(v.T()), element(v.Get("u")), element(v.Get("ct"))
	result, fused := rounded(v.Get("dt"), v.Has("satfinite")), v.T() == "f64"
	tall := m / 8
	return func(w *vm.Warp, o *vm.Op) {
		var a [16 * 64]float64
		var b [64 * 8]float64
		var d [16 * 8]float64
		for lane := range vm.Lanes {
			g, t := lane/4, lane%4
			for r, c := range o.X.Lists[1] {
				for j := range ea {
					a[(g+r%tall*8)*k+r/tall*4*ea+t*ea+j] = at(w.R[c][lane], j)
				}
			}
			for r, c := range o.X.Lists[2] {
				for j := range ea {
					b[(r*4*ea+t*ea+j)*n+g] = bt(w.R[c][lane], j)
				}
			}
			for i := range m * n / 32 {
				d[(g+i/2*8)*n+t*2+i%2] = ct(w.R[o.X.Lists[3][i/ec]][lane], i%ec)
			}
		}
		product(d[:], a[:], b[:], m, n, k, fused)
		for lane := range vm.Lanes {
			for i := range m * n / 32 {
				v := result(d[(lane/4+i/2*8)*n+lane%4*2+i%2])
				place := &w.R[o.X.Lists[0][i/ed]][lane]
				if i%ed == 0 {
					*place = v
				} else {
					*place |= v << 16
				}
			}
		}
	}
}

// fragment describes how the lanes share a matrix of wmma, which the manual leaves open. Here each lane
// has elements that follow each other in a row, and then the same again if there are more registers.
type fragment struct {
	rows, columns int
	registers     int
	each          int // the different elements of a lane
	packed        int // the elements of a register
}

// fragmentOf returns the fragment of the operand a, b, c or d.
func fragmentOf(v Variant, which string) fragment {
	m, n, k := shapeOf(v.Get("shape"))
	t := v.T()
	switch {
	case which == "c" && v.Get("ct") != "":
		t = v.Get("ct")
	case which == "d" && v.Get("dt") != "":
		t = v.Get("dt")
	case t == "":
		t = "f16"
	}
	f := fragment{rows: m, columns: n, packed: elements(t)}
	switch which {
	case "a":
		f.columns = k
	case "b":
		f.rows = k
	}
	f.each = f.rows * f.columns / vm.Lanes
	f.registers = f.each / f.packed
	if (which == "a" || which == "b") && t == "f16" {
		f.registers = 8
	}
	return f
}

func wmmaLengths(v Variant) []int {
	return []int{fragmentOf(v, "d").registers, fragmentOf(v, "a").registers, fragmentOf(v, "b").registers,
		fragmentOf(v, "c").registers}
}

func loadFragment(v Variant) vm.Func { return moveFragment(v, true) }

func loadLengths(v Variant) []int { return []int{fragmentOf(v, v.Get("which")).registers} }

func storeFragment(v Variant) vm.Func { return moveFragment(v, false) }

func storeLengths(v Variant) []int { return []int{0, fragmentOf(v, "d").registers} }

// moveFragment returns the function of wmma.load and wmma.store.
func moveFragment(v Variant, load bool) vm.Func {
	which, t := v.Get("which"), v.T()
	accumulates := which == "c" || which == "d"
	if accumulates != (t == "f16" || t == "f32" || t == "s32") && t != "f16" && t != "f64" {
		return nil
	}
	f, space, byColumns := fragmentOf(v, which), spaceOf(v), v.Get("layout") == "col"
	size := uint64(4 / f.packed)
	if t == "f64" {
		size = 8
	}
	return func(w *vm.Warp, o *vm.Op) {
		list := o.X.Lists[0]
		if !load {
			list = o.X.Lists[1]
		}
		a, stride := w.R[o.A], w.R[o.B]
		for lane := range vm.Lanes {
			for i := range len(list) * f.packed {
				at := lane*f.each + i%f.each
				r, c := at/f.columns, at%f.columns
				if byColumns {
					r, c = c, r
				}
				off := (uint64(r)*uint64(uint32(stride[lane])) + uint64(c)) * size
				p := space(w, o, lane, a[lane]+uint64(o.Imm)+off, size, !load)
				if p == nil {
					return
				}
				place, shift := &w.R[list[i/f.packed]][lane], uint64(i%f.packed)*8*size
				if load && shift == 0 {
					*place = 0
				}
				moveElement(p, place, size, shift, load)
			}
		}
	}
}

// moveElement moves an element between memory and a part of a register.
func moveElement(p unsafe.Pointer, place *uint64, size, shift uint64, load bool) {
	switch {
	case load && size == 1:
		*place |= uint64(*(*uint8)(p)) << shift
	case load && size == 2:
		*place |= uint64(*(*uint16)(p)) << shift
	case load && size == 8:
		*place = *(*uint64)(p)
	case load:
		*place = uint64(*(*uint32)(p))
	case size == 8:
		*(*uint64)(p) = *place
	case size == 2:
		*(*uint16)(p) = uint16(*place >> shift)
	default:
		*(*uint32)(p) = uint32(*place)
	}
}

// wmma returns the function of wmma.mma.
func wmma(v Variant) vm.Func {
	if v.T() != v.Get("u") {
		return nil
	}
	m, n, k := shapeOf(v.Get("shape"))
	types := [4]string{v.Get("dt"), v.T(), v.Get("u"), v.Get("ct")}
	for i := range types {
		if types[i] == "" {
			types[i] = "f16"
		}
	}
	var fragments [4]fragment
	var parts [4]func(register uint64, i int) float64
	for i, which := range []string{"d", "a", "b", "c"} {
		fragments[i], parts[i] = fragmentOf(v, which), element(types[i])
	}
	result := rounded(types[0], v.Has("satfinite"))
	return func(w *vm.Warp, o *vm.Op) {
		var all [4][512]float64
		for x := 1; x < 4; x++ {
			f := fragments[x]
			for lane := range vm.Lanes {
				for i := range f.each {
					all[x][lane*f.each+i] = parts[x](w.R[o.X.Lists[x][i/f.packed]][lane], i%f.packed)
				}
			}
		}
		product(all[3][:], all[1][:], all[2][:], m, n, k, types[1] == "f64")
		f := fragments[0]
		for lane := range vm.Lanes {
			for i := range f.each {
				v, place := result(all[3][lane*f.each+i]), &w.R[o.X.Lists[0][i/f.packed]][lane]
				if i%f.packed == 0 {
					*place = v
				} else {
					*place |= v << (16 * (i % f.packed))
				}
			}
		}
	}
}
