// Package simd executes operations for the 32 lanes of a warp at once, with AVX-512, where the processor has it. The
// results have the same bits as those of package isa, which executes them otherwise.
package simd

import "unsafe"

// Column has the values of a register in the lanes of a warp.
type Column [32]uint64

// Func executes an operation for some lanes. It returns the lanes for which it has done nothing, as they need the rules
// of package isa. It ignores the operands that the operation does not have. d may be one of the operands.
type Func func(d, a, b, c *Column, lanes uint32) (left uint32)

// Comparison returns the lanes in which a comparison is true.
type Comparison func(a, b *Column) (yes uint32)

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
