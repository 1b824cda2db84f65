package isa

import (
	"strings"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// sparseRows are the products of a matrix of which at least half the elements are zeros. Registers have the others,
// and metadata says where they are: an index of two bits for each.
func sparseRows() []*Instruction {
	row := func(modifiers string) *Instruction {
		r := productRow("mma", "metadata=sp|sp::ordered_metadata sync aligned shape="+modifiers, "b32", sparse,
			func(v Variant) []int {
				list := mmaLengths(v)
				list[1] /= 2
				return list
			})
		r.Operands += " a:b32 i"
		return r
	}
	return []*Instruction{
		row("m16n8k16|m16n8k32 row col dt=f16|f32 t=f16 u=f16 ct=f16|f32"),
		row("m16n8k16|m16n8k32 row col dt=f32 t=bf16 u=bf16 ct=f32"),
		row("m16n8k8|m16n8k16 row col dt=f32 t=tf32 u=tf32 ct=f32"),
		row("m16n8k32|m16n8k64 row col satfinite? dt=s32 t=s8|u8 u=s8|u8 ct=s32"),
		row("m16n8k64|m16n8k128 row col satfinite? dt=s32 t=s4|u4 u=s4|u4 ct=s32"),
		row("m16n8k64 row col dt=f32 t=e4m3|e5m2 u=e4m3|e5m2 ct=f32"),
	}
}

// isSparse reports whether a variant is one of sparseRows.
func isSparse(v Variant) bool { return v.Has("metadata") }

// indices describes the metadata of a row of the first matrix.
type indices struct {
	all    int // how many there are
	each   int // how many one thread has of a row
	halves bool
}

// indicesOf returns how the metadata of a variant lies in the registers. The indices of elements with 16 bits or more
// are in halves: the lower one is for a row from 0 to 7, and the upper one for the row 8 below it. The others are for
// one row, and the thread beside it has those of the other one.
func indicesOf(v Variant) indices {
	_, _, k := shapeOf(v.Get("shape"))
	switch t := v.T(); {
	case t == "tf32":
		return indices{k, 8, true}
	case strings.HasSuffix(t, "f16"):
		return indices{k / 2, 8, true}
	case elements(t) == 8:
		return indices{k / 4, 16, false}
	}
	return indices{k / 2, 16, false}
}

// threads returns how many of four threads have metadata.
func (i indices) threads() int {
	if i.halves {
		return i.all / i.each
	}
	return i.all / i.each * 2
}

// Selectors returns how many values the last operand may have: it says which of four threads have the metadata. It
// returns 0 if the instruction has no metadata.
func Selectors(v Variant) uint64 {
	if !isSparse(v) {
		return 0
	}
	return uint64(4 / indicesOf(v).threads())
}

// index returns an index of a row. What the manual does not define, as two indices that are equal or in a wrong order,
// has no other meaning here.
func (i indices) index(metadata *vm.Column, selector, row, n int) int {
	thread, shift := n/i.each, n%i.each*2
	if i.halves {
		shift += row / 8 * 16
	} else {
		thread = thread*2 + row/8
	}
	return int(metadata[row%8*4+selector*i.threads()+thread] >> shift & 3)
}

// sparse returns the function of a product of which the first matrix is sparse. Only the elements that registers have
// are multiplied: zeros do not make a NaN of what is infinite.
func sparse(v Variant) vm.Func {
	if v.Get("dt") != v.Get("ct") {
		return nil
	}
	m, n, k := shapeOf(v.Get("shape"))
	list := indicesOf(v)
	// place returns the column of the element that is number x of a row.
	place := func(index func(n int) int, x int) int { return x/2*4 + index(x) }
	switch {
	case v.T() == "tf32": // one of two elements, with two indices as if each had two halves
		place = func(index func(n int) int, x int) int { return x*2 + index(2*x)/2 }
	case elements(v.T()) == 8: // an index is for two elements
		place = func(index func(n int) int, x int) int { return x/4*8 + index(x/2)*2 + x%2 }
	}
	return tiled(v, k/2, func(w *vm.Warp, o *vm.Op, d, a, b []float64) {
		var used [64]int // the rows of b for the elements of a row of a
		for row := range m {
			index := func(n int) int { return list.index(&w.R[o.A], int(o.Imm), row, n) }
			for x := range k / 2 {
				used[x] = place(index, x)
			}
			for column := range n {
				s := d[row*n+column]
				for x, y := range used[:k/2] {
					s += a[row*(k/2)+x] * b[y*n+column]
				}
				d[row*n+column] = s
			}
		}
	})
}
