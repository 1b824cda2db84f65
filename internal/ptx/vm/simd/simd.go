// Package simd executes operations for the 32 lanes of a warp at once, with AVX-512 or AVX2, where the processor has
// it. The results have the same bits as those of package isa, which executes them otherwise.
package simd

import "unsafe"

// Column has the values of a register in the lanes of a warp.
type Column [32]uint64

// Func executes an operation for some lanes. It returns the lanes for which it has done nothing, as they need the rules
// of package isa. It ignores the operands that the operation does not have. d may be one of the operands.
type Func func(d, a, b, c *Column, lanes uint32) (left uint32)

// Comparison returns the lanes in which a comparison is true.
type Comparison func(a, b *Column) (yes uint32)

// level is the vector instructions that are used.
type level int

const (
	none level = iota
	avx2
	avx512
)

var (
	best        = detect()
	functions   = best.functions()
	comparisons = best.comparisons()
)

// Available reports whether the processor and the operating system have what this package needs.
func Available() bool { return best > none }

// Of returns the function of an instruction of PTX, such as "add.s32", or nil if there is none.
func Of(instruction string) Func { return functions[instruction] }

// ComparisonOf returns the function of a comparison of numbers of a type, such as "lt" and "s32": eq, lt, and
// for floats le and nan. It returns nil if there is none.
func ComparisonOf(comparison, t string) Comparison { return comparisons[comparison+"."+t] }

// Memory is memory that loads and stores access, at the addresses in a column.
type Memory struct {
	Offset uint64         // what is added to each address
	Base   uint64         // the address of the first byte
	Size   uint64         // in bytes
	Bits   uint64         // the bits that an address has; the others are ignored
	Access uint64         // the size of an access: a power of two, of which each address must be a multiple
	Data   unsafe.Pointer // the first byte, or where a later part of an access to it begins
}

// Choose sets d to a in the lanes of yes, and to b in the other lanes. It reports whether it has done so.
func Choose(d, a, b *Column, yes, lanes uint32) bool { return best.choose(d, a, b, yes, lanes) }

// Load32 loads a number of 32 bits for each lane from the address in a. It reports whether it has done so: not if an
// address is outside the memory, or is not aligned. With AVX2 it only loads numbers that follow each other, or the same
// number, for all lanes.
func Load32(d, a *Column, m *Memory, lanes uint32) bool { return best.load32(d, a, m, lanes) }

// Load64 is Load32 for 64 bits.
func Load64(d, a *Column, m *Memory, lanes uint32) bool { return best.load64(d, a, m, lanes) }

// Store32 stores the lower 32 bits of b at the addresses in a, as Load32 loads them. Of several lanes with one address
// the highest counts.
func Store32(b, a *Column, m *Memory, lanes uint32) bool { return best.store32(b, a, m, lanes) }

// Store64 is Store32 for 64 bits.
func Store64(b, a *Column, m *Memory, lanes uint32) bool { return best.store64(b, a, m, lanes) }
