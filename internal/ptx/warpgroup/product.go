package warpgroup

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/purecu/purecu/internal/ptx/vm"
)

const (
	warps    = 4   // of a warpgroup
	own      = 16  // the rows of a warp
	mostN    = 256 // the columns
	rowBytes = 32  // the size of a row of the first factor, and of a column of the second one
)

// Product is a kind of products of matrices. Its operation has these operands: the lists 0 and 1 are the registers of
// the sums and of the first factor, or A is its descriptor; B is the descriptor of the second factor; C is a predicate:
// whether the sums before are added. Imm has constants of two bits, the last one lowest: how each factor is scaled if
// they are floats, and if they have 16 bits whether the columns of the first one, or the rows of the second one, lie
// one after the other.
type Product struct {
	N      int
	Size   int                                  // of the elements of the factors in bytes, or 0 for bits
	Scaled bool                                 // there are constants
	Packed int                                  // how many sums a register has
	A, B   func(register uint64, i int) float64 // an element of a register of 32 bits
	D      func(register uint64, i int) float64 // a sum
	Round  func(sum float64) uint64             // the bits of a sum
}

// minus is the constant -1.
const minus = 3

// options returns what the constants say.
func (p *Product) options(o *vm.Op) (negated, columnsOfA, rowsOfB bool) {
	scales := o.Imm
	if p.Size == 2 {
		columnsOfA, rowsOfB = o.Imm>>2&1 != 0, o.Imm&1 != 0
		scales >>= 4
	}
	return p.Scaled && (scales>>2&3 == minus) != (scales&3 == minus), columnsOfA, rowsOfB
}

// Func returns the function of the operation.
func (p *Product) Func() vm.Func {
	return func(w *vm.Warp, o *vm.Op) {
		switch {
		case w.Active != vm.Full:
			w.Fail(vm.LaunchFailed, fmt.Sprintf("only %d of the 32 lanes take part, and the result is undefined",
				bits.OnesCount32(w.Active)))
		case p.Size == 0:
			p.bits(w, o)
		default:
			p.numbers(w, o)
		}
	}
}

// descriptor returns the descriptor in a register, of which all lanes have the same.
func descriptor(w *vm.Warp, c int32) Descriptor { return Descriptor(w.R[c][0]) }

// placeOfSum returns the row and the column of a lane's sum.
func placeOfSum(lane, i int) (row, column int) { return lane/4 + i/2%2*8, i/4*8 + lane%4*2 + i%2 }

// placeOfFactor returns the row of a lane's register of the first factor, and the number of its first element, for
// registers with so many elements.
func placeOfFactor(lane, register, elements int) (row, k int) {
	return lane/4 + register%2*8, (register/2*4 + lane%4) * elements
}

// numbers multiplies numbers. The products are added in their order, and the sums are rounded once.
func (p *Product) numbers(w *vm.Warp, o *vm.Op) {
	var a [own * rowBytes]float64
	var b [mostN * rowBytes]float64 // by columns
	negated, columnsOfA, rowsOfB := p.options(o)
	k, first := rowBytes/p.Size, uint64(w.Index()%warps*own)
	if o.X.Lists[1] != nil {
		p.fromRegisters(w, o.X.Lists[1], a[:])
	} else if !p.fromMemory(w, descriptor(w, o.A), first, own, columnsOfA, p.A, a[:]) {
		return
	}
	if !p.fromMemory(w, descriptor(w, o.B), 0, uint64(p.N), rowsOfB, p.B, b[:]) {
		return
	}
	if negated {
		for i := range a {
			a[i] = -a[i]
		}
	}
	added := w.Truth(o.C)
	for lane := range vm.Lanes {
		for i := range p.N / 2 {
			row, column := placeOfSum(lane, i)
			place, shift := &w.R[o.X.Lists[0][i/p.Packed]][lane], i%p.Packed*16
			sum := 0.0
			if added>>lane&1 != 0 {
				sum = p.D(*place, i%p.Packed)
			}
			of := b[column*k:][:k]
			for x, v := range a[row*k:][:k] {
				sum += v * of[x]
			}
			if p.Packed == 1 {
				*place = p.Round(sum)
			} else {
				*place = *place&^(0xffff<<shift) | p.Round(sum)<<shift
			}
		}
	}
}

// fromRegisters reads the rows of the warp.
func (p *Product) fromRegisters(w *vm.Warp, list []int32, to []float64) {
	each, k := 4/p.Size, rowBytes/p.Size
	for lane := range vm.Lanes {
		for r, c := range list {
			row, at := placeOfFactor(lane, r, each)
			for j := range each {
				to[row*k+at+j] = p.A(w.R[c][lane], j)
			}
		}
	}
}

// fromMemory reads n rows of the first factor, or n columns of the second one, from the one with a number on. Across
// says that what lies together in memory belongs to different ones. It reports false after a fault.
func (p *Product) fromMemory(w *vm.Warp, d Descriptor, first, n uint64, across bool,
	element func(register uint64, i int) float64, to []float64) bool {
	k, each, inWord := uint64(rowBytes/p.Size), uint64(chunk/p.Size), 4/p.Size
	parts := uint64(rowBytes / chunk)
	if across {
		n, parts = n/each, k
	}
	for i := range n {
		for part := range parts {
			address := uint64(0)
			if across {
				address = d.columns(first/each+i, part)
			} else {
				address = d.rows(first+i, part)
			}
			data, there := w.ReadShared(uint32(address))
			if !there {
				return false
			}
			for j := range int(each) {
				v := element(uint64(binary.LittleEndian.Uint32(data[j/inWord*4:])), j%inWord)
				if across {
					to[(i*each+uint64(j))*k+part] = v
				} else {
					to[i*k+part*each+uint64(j)] = v
				}
			}
		}
	}
	return true
}

// words are what a row of bits consists of.
const words = rowBytes / 4

// bits multiplies bits: a sum counts those that both have.
func (p *Product) bits(w *vm.Warp, o *vm.Op) {
	var a [own * words]uint32
	var b [mostN * words]uint32
	if list := o.X.Lists[1]; list != nil {
		for lane := range vm.Lanes {
			for r, c := range list {
				row, at := placeOfFactor(lane, r, 1)
				a[row*words+at] = uint32(w.R[c][lane])
			}
		}
	} else if !bitsFromMemory(w, descriptor(w, o.A), uint64(w.Index()%warps*own), a[:]) {
		return
	}
	if !bitsFromMemory(w, descriptor(w, o.B), 0, b[:p.N*words]) {
		return
	}
	added := w.Truth(o.C)
	for lane := range vm.Lanes {
		for i, c := range o.X.Lists[0] {
			row, column := placeOfSum(lane, i)
			sum := uint32(0)
			if added>>lane&1 != 0 {
				sum = uint32(w.R[c][lane])
			}
			for x := range words {
				sum += uint32(bits.OnesCount32(a[row*words+x] & b[column*words+x]))
			}
			w.R[c][lane] = uint64(sum)
		}
	}
}

// bitsFromMemory reads rows or columns from the one with a number on. It reports false after a fault.
func bitsFromMemory(w *vm.Warp, d Descriptor, first uint64, to []uint32) bool {
	for at := 0; at < len(to); at += chunk / 4 {
		data, there := w.ReadShared(uint32(d.rows(first+uint64(at/words), uint64(at%words*4/chunk))))
		if !there {
			return false
		}
		for j := range chunk / 4 {
			to[at+j] = binary.LittleEndian.Uint32(data[4*j:])
		}
	}
	return true
}
