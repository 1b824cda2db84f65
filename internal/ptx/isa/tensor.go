package isa

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/purecu/purecu/internal/ptx/softfloat"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// tensorRows are the instructions about matrices whose elements a warp shares.
func tensorRows() []*Instruction {
	const shared = "space?=shared|shared::cta "
	return slices.Concat([]*Instruction{
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
		mmaRow("m16n8k16 row col dt=f16|f32 t=e4m3|e5m2 u=e4m3|e5m2 ct=f16|f32", "b32", mma),
		mmaRow("m8n8k4|m16n8k4|m16n8k8|m16n8k16 row col rnd=rn|rz|rm|rp dt=f64 t=f64 u=f64 ct=f64", "b64", mma),
		mmaRow("m8n8k32|m16n8k32|m16n8k64 row col satfinite? dt=s32 t=s4|u4 u=s4|u4 ct=s32", "b32", mma),
		mmaRow("m8n8k128|m16n8k128|m16n8k256 row col dt=s32 t=b1 u=b1 ct=s32 op=xor|and popc", "b32", mmaBits),
		productRow("mma", "sync aligned shape=m8n8k4 al=row|col bl=row|col dt=f16|f32 t=f16 u=f16 ct=f16|f32", "b32",
			mmaOfQuads, quadLengths),
	}, sparseRows(), fragmentRows())
}

// mmaRow is a row of mma with these shapes and types, whose elements are in registers of one size.
func mmaRow(modifiers, register string, make func(Variant) vm.Func) *Instruction {
	return productRow("mma", "sync aligned shape="+modifiers, register, make, mmaLengths)
}

// productRow is a row about the product of two matrices, to which a third one is added.
func productRow(name, modifiers, register string, make func(Variant) vm.Func,
	lengths func(Variant) []int) *Instruction {
	return &Instruction{Name: name, Modifiers: modifiers,
		Operands: fmt.Sprintf("0:%s 1:%[1]s 2:%[1]s 3:%[1]s", register), Kind: vm.Sync, Special: "whole", Make: make,
		Lengths: lengths}
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
		table[i] = float32(math.Float64frombits(softfloat.F64.Convert(uint64(i), softfloat.F16, softfloat.RN)))
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
		table, f := halfValues(), softfloat.TinyOf(t)
		return func(r uint64, i int) float64 { return float64(table[f.Decode(r>>(8*i)&0xff)]) }
	}
	return func(r uint64, _ int) float64 { return float64(int32(r)) }
}

// rounded returns the bits of a result of a type. Integers wrap, or are limited. Floats that are limited are rounded to
// zero, so that the largest finite ones do not become infinite.
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
	f, mode := softfloat.Of(t), softfloat.RN
	if limited {
		mode = softfloat.RZ
	}
	return func(v float64) uint64 {
		if v == v {
			return f.Convert(math.Float64bits(v), softfloat.F64, mode)
		}
		return f.NaN
	}
}

// product adds the product of matrices to a matrix. The elements of each sum are added in their order: by add, or if
// it is nil, exactly where 64 bits are enough.
func product(d, a, b []float64, m, n, k int, add func(s, a, b float64) float64) {
	for i := range m {
		for j := range n {
			s := d[i*n+j]
			for x := range k {
				if add != nil {
					s = add(s, a[i*k+x], b[x*n+j])
				} else {
					s += a[i*k+x] * b[x*n+j]
				}
			}
			d[i*n+j] = s
		}
	}
}

// adder returns how the products of a variant are added: those of 64 bits are rounded at each step.
func adder(v Variant) func(s, a, b float64) float64 {
	mode := softfloat.ModeOf(v.Get("rnd"))
	switch {
	case v.T() != "f64":
		return nil
	case mode == softfloat.RN:
		return func(s, a, b float64) float64 { return math.FMA(a, b, s) }
	}
	return func(s, a, b float64) float64 {
		return math.Float64frombits(softfloat.F64.FMA(math.Float64bits(a), math.Float64bits(b), math.Float64bits(s),
			mode))
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
	add := adder(v)
	return tiled(v, k, func(_ *vm.Warp, _ *vm.Op, d, a, b []float64) { product(d, a, b, m, n, k, add) })
}

// tiled returns a function that takes matrices out of registers, and puts what multiply has added to d into others. k
// is how many elements of each row of a there are.
func tiled(v Variant, k int, multiply func(w *vm.Warp, o *vm.Op, d, a, b []float64)) vm.Func {
	m, n, _ := shapeOf(v.Get("shape"))
	ea, ec, ed := elements(v.T()), elements(v.Get("ct")), elements(v.Get("dt"))
	at, bt, ct := element(v.T()), element(v.Get("u")), element(v.Get("ct"))
	result, tall := rounded(v.Get("dt"), v.Has("satfinite")), m/8
	return func(w *vm.Warp, o *vm.Op) {
		var a [16 * 64]float64
		var b [128 * 8]float64
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
		multiply(w, o, d[:], a[:], b[:])
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

// mmaOfQuads returns the function of the product of the first matrices of halves: two groups of four lanes that
// are 16 lanes apart multiply matrices of their own.
func mmaOfQuads(v Variant) vm.Func {
	if v.Get("ct") == "f32" && v.Get("dt") == "f16" {
		return nil
	}
	byColumns, bByColumns := v.Get("al") == "col", v.Get("bl") == "col"
	half, ct, result := element("f16"), element(v.Get("ct")), rounded(v.Get("dt"), false)
	ec, ed := elements(v.Get("ct")), elements(v.Get("dt"))
	return func(w *vm.Warp, o *vm.Op) {
		for quad := range 4 {
			var a, b [8 * 4]float64
			var d [8 * 8]float64
			lanes := func(f func(lane, i, own int)) { // own is the number of the lane among the eight
				for own := range 8 {
					for i := range 8 {
						f(4*quad+own%4+own/4*16, i, own)
					}
				}
			}
			lanes(func(lane, i, own int) {
				if i < 4 {
					va := half(w.R[o.X.Lists[1][i/2]][lane], i%2)
					vb := half(w.R[o.X.Lists[2][i/2]][lane], i%2)
					if byColumns {
						a[(own/4*4+i)*4+own%4] = va
					} else {
						a[own*4+i] = va
					}
					if bByColumns {
						b[i*8+own] = vb
					} else {
						b[own%4*8+own/4*4+i] = vb
					}
				}
				d[inQuad(ec, own, i)] = ct(w.R[o.X.Lists[3][i/ec]][lane], i%ec)
			})
			product(d[:], a[:], b[:], 8, 8, 4, nil)
			lanes(func(lane, i, own int) {
				place, bits := &w.R[o.X.Lists[0][i/ed]][lane], result(d[inQuad(ed, own, i)])
				if i%ed == 0 {
					*place = bits
				} else {
					*place |= bits << 16
				}
			})
		}
	}
}

func quadLengths(v Variant) []int {
	return []int{8 / elements(v.Get("dt")), 2, 2, 8 / elements(v.Get("ct"))}
}

// inQuad returns the place of an element of the sums of eight lanes, of which a register has one or two.
func inQuad(packed, own, i int) int {
	if packed == 2 {
		return own*8 + i
	}
	return (own/4*4+own&1+i&2)*8 + i&4 + own&2 + i&1
}
