// Package warpgroup multiplies matrices as four warps do together, of which each one computes 16 rows. The matrices may
// be in shared memory, where descriptors say how they lie.
package warpgroup

import "github.com/purecu/purecu/internal/ptx/tensormap"

// Descriptor says where a matrix is in shared memory: it has the address, two distances and the number of a swizzle.
type Descriptor uint64

// part returns a field of 14 bits, which has no lower four bits.
func (d Descriptor) part(at int) uint64 { return uint64(d) >> at & 0x3fff << 4 }

// start returns the address of the first element.
func (d Descriptor) start() uint64 { return d.part(0) }

// leading and stride return the distances of parts of the matrix.
func (d Descriptor) leading() uint64 { return d.part(16) }

func (d Descriptor) stride() uint64 { return d.part(32) }

// base returns by how many rows of 128 bytes the swizzle is moved.
func (d Descriptor) base() uint64 { return uint64(d) >> 49 & 7 }

// swizzle returns the number of the swizzle as tensor maps have it. In a descriptor, 1 is the largest one.
func (d Descriptor) swizzle() int { return int(4-uint64(d)>>62) & 3 }

// chunk is the number of bytes that lie together in any layout.
const chunk = 16

// rows returns the address of 16 bytes of a row of a matrix whose rows lie in shared memory one after the other (for a
// product, these are the elements with successive k). There are two such parts in each row.
func (d Descriptor) rows(row, part uint64) uint64 {
	at := d.start() + row/8*d.stride()
	if d.swizzle() == 0 {
		return at + row%8*chunk + part*d.leading()
	}
	return d.swizzled(at + row%8*(chunk<<d.swizzle()) + part*chunk)
}

// columns returns the address of 16 bytes of a column of a matrix whose columns lie in shared memory one after the
// other: with the eighth part of the index of the row.
func (d Descriptor) columns(eighth, k uint64) uint64 {
	if d.swizzle() == 0 {
		return d.start() + eighth*d.stride() + k%8*chunk + k/8*d.leading()
	}
	width := uint64(1) << d.swizzle() // in parts of 16 bytes
	return d.swizzled(d.start() + eighth%width*chunk + eighth/width*d.leading() + k%8*width*chunk + k/8*d.stride())
}

// swizzled returns where the byte at an address is.
func (d Descriptor) swizzled(address uint64) uint64 {
	moved := d.base() << 7
	return tensormap.Swizzled(address-moved, d.swizzle()) + moved
}
