// Package tensormap has the maps by which kernels copy boxes of tensors: what is in the 128 bytes of a map, and where
// the elements of a box are in the tensor and in shared memory.
package tensormap

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Most is the largest number of dimensions.
const Most = 5

// The types of elements with which something else is done than copying bits, by the numbers of CUtensorMapDataType.
const (
	Float16      = 6
	BFloat16     = 9
	Float32FTZ   = 10
	TFloat32     = 11
	TFloat32FTZ  = 12
	lastType     = 12
	firstFloat   = Float16
	mostBox      = 256
	mostStep     = 8
	mostPromoted = 3
	mostBytes    = 227 << 10 // the shared memory that a block can have
)

// sizes are the sizes of the elements of the types, in bytes.
var sizes = [lastType + 1]uint64{1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4}

// Aligned is what the address of a tensor, its strides and the inner sizes of boxes are multiples of, in bytes.
const Aligned = 16

// Map describes a tensor in global memory, and boxes of it. The first dimension is the one whose elements follow each
// other in memory.
type Map struct {
	Type    int
	Rank    int
	Address uint64
	Sizes   [Most]uint64 // of the tensor
	Strides [Most]uint64 // in bytes; the first one is the size of an element
	Box     [Most]uint64
	Steps   [Most]uint64 // each how many elements of a box are copied
	Swizzle int          // 0 for none, or 1, 2 and 3 for rows of 32, 64 and 128 bytes
	NaN     bool         // what is outside the tensor is read as a NaN, and not as 0
}

// Size returns the size of an element in bytes.
func (m *Map) Size() uint64 { return sizes[m.Type] }

// ErrUnknown says that cusim does not have this kind of map, which CUDA has.
var ErrUnknown = errors.New("tensormap: the software driver has no such maps")

// Check returns an error that says why an H200 has no such map, or ErrUnknown.
func (m *Map) Check(interleave, promotion, fill int) error {
	switch {
	case m.Type < 0 || m.Type > lastType:
		return fmt.Errorf("the type %d", m.Type)
	case interleave < 0 || interleave > 2 || m.Swizzle < 0 || m.Swizzle > 3 || promotion < 0 ||
		promotion > mostPromoted || fill < 0 || fill > 1:
		return errors.New("an option has a value that does not exist")
	case m.Rank < 1 || m.Rank > Most || interleave != 0 && m.Rank < 3:
		return fmt.Errorf("%d dimensions", m.Rank)
	case !m.Reachable() || interleave == 2 && m.Address%(2*Aligned) != 0:
		return fmt.Errorf("the address %#x: it has to be a multiple of %d, or of twice as much if it is interleaved", m.Address,
			Aligned)
	case fill == 1 && m.Type < firstFloat:
		return errors.New("integers have no NaN")
	}
	for i := range m.Rank {
		switch {
		case m.Sizes[i] == 0 || m.Sizes[i] > 1<<32:
			return fmt.Errorf("the size %d of dimension %d", m.Sizes[i], i)
		case i > 0 && (m.Strides[i]%Aligned != 0 || interleave == 2 && m.Strides[i]%(2*Aligned) != 0 ||
			m.Strides[i] >= 1<<40):
			return fmt.Errorf("the stride %d of dimension %d", m.Strides[i], i)
		case m.Box[i] == 0 || m.Box[i] > mostBox:
			return fmt.Errorf("the size %d of a box in dimension %d", m.Box[i], i)
		case m.Steps[i] == 0 || m.Steps[i] > mostStep:
			return fmt.Errorf("the step %d in dimension %d", m.Steps[i], i)
		}
	}
	inner := m.Box[0] * m.Size()
	if inner%Aligned != 0 || m.Swizzle > 0 && inner > Aligned<<m.Swizzle {
		return fmt.Errorf("%d bytes of a box in the first dimension", inner)
	}
	switch n := m.Bytes(); {
	case n > mostBytes:
		return fmt.Errorf("a box of %d bytes", n)
	case interleave != 0:
		return ErrUnknown
	}
	return nil
}

// Words are the 128 bytes of a map.
type Words = [16]uint64

// Reachable reports whether a tensor can be at the address of the map.
func (m *Map) Reachable() bool { return m.Address%Aligned == 0 && m.Address < 1<<57 }

// mark is in the first word of each map, above the type, the number of dimensions, the swizzle and whether NaNs are
// read.
const mark = 0x7465_6e73 << 32

// Encode returns the bytes of a map. The words after the first one are the address, the sizes of the tensor, its
// strides but the first one, and the boxes and the steps with 12 bits for each dimension. The others are 0.
func (m *Map) Encode() (w Words) {
	w[0] = mark | uint64(m.Type) | uint64(m.Rank)<<8 | uint64(m.Swizzle)<<16
	if m.NaN {
		w[0] |= 1 << 24
	}
	w[1] = m.Address
	for i := range m.Rank {
		w[2+i] = m.Sizes[i]
		if i > 0 {
			w[6+i] = m.Strides[i]
		}
		w[11] |= m.Box[i] << (12 * i)
		w[12] |= m.Steps[i] << (12 * i)
	}
	return w
}

// Decode returns the map of 128 bytes. It reports whether they are one.
func Decode(w Words) (m Map, is bool) {
	m = Map{Type: int(w[0] & 0xff), Rank: int(w[0] >> 8 & 0xff), Swizzle: int(w[0] >> 16 & 0xff), NaN: w[0]>>24&1 != 0,
		Address: w[1]}
	if w[0]>>32<<32 != mark || m.Type > lastType || m.Rank < 1 || m.Rank > Most {
		return m, false
	}
	for i := range m.Rank {
		m.Sizes[i], m.Box[i], m.Steps[i] = w[2+i], w[11]>>(12*i)&0xfff, w[12]>>(12*i)&0xfff
		if m.Strides[i] = m.Size(); i > 0 {
			m.Strides[i] = w[6+i]
		}
	}
	fill := 0
	if m.NaN {
		fill = 1
	}
	return m, m.Check(0, 0, fill) == nil
}

// Copied returns how many elements of a box are copied in a dimension. There are no steps in the first one.
func (m *Map) Copied(dimension int) uint64 {
	if dimension == 0 {
		return m.Box[0]
	}
	return (m.Box[dimension] + m.Steps[dimension] - 1) / m.Steps[dimension]
}

// Bytes returns the size of what is copied.
func (m *Map) Bytes() uint64 {
	n := m.Size()
	for i := range m.Rank {
		n *= m.Copied(i)
	}
	return n
}

// Part is a part of a box, of at most 16 bytes, whose addresses are multiples of its size.
type Part struct {
	Offset  uint64 // in the box in shared memory, without a swizzle
	Address uint64 // in the tensor
	Size    uint64
	Inside  bool // the part is in the tensor
}

// Begins reports whether a box can begin at a coordinate in the first dimension: its bytes are a multiple of 16.
func (m *Map) Begins(at int32) bool { return int64(at)*int64(m.Size())%Aligned == 0 }

// Parts yields the parts of the box that begins at some coordinates.
func (m *Map) Parts(at [Most]int32) func(yield func(Part) bool) {
	return func(yield func(Part) bool) {
		var index [Most]uint64 // in the box
		offset, pitch := uint64(0), uint64(Aligned)<<m.Swizzle
		for {
			address, inside := m.Address, true
			for i := 1; i < m.Rank; i++ {
				x := int64(at[i]) + int64(index[i]*m.Steps[i])
				inside = inside && x >= 0 && uint64(x) < m.Sizes[i]
				address += uint64(x) * m.Strides[i]
			}
			if !m.row(int64(at[0]), address, inside, offset, yield) {
				return
			}
			if offset += m.Box[0] * m.Size(); m.Swizzle > 0 { // each row has the size of the swizzle
				offset = (offset + pitch - 1) / pitch * pitch
			}
			i := 1
			for ; i < m.Rank; i++ {
				if index[i]++; index[i] < m.Copied(i) {
					break
				}
				index[i] = 0
			}
			if i >= m.Rank {
				return
			}
		}
	}
}

// row yields the parts of the elements of a box that follow each other. The address is that of the element 0 of the
// tensor's row.
func (m *Map) row(first int64, address uint64, inside bool, offset uint64, yield func(Part) bool) bool {
	size := m.Size()
	whole := inside && first >= 0 && uint64(first)+m.Box[0] <= m.Sizes[0]
	unit, start := size, address+uint64(first)*size
	for whole && unit < Aligned && start%(2*unit) == 0 {
		unit *= 2
	}
	for n := uint64(0); n < m.Box[0]*size; n += unit {
		x := first + int64(n/size)
		if !yield(Part{offset + n, start + n, unit, inside && x >= 0 && uint64(x) < m.Sizes[0]}) {
			return false
		}
	}
	return true
}

// Swizzled returns where the byte at an address in shared memory is, if its box is swizzled.
func Swizzled(address uint64, swizzle int) uint64 {
	return address ^ address>>7&(1<<swizzle-1)<<4
}

// Outside returns what is read outside the tensor. The NaN is that of an H200, for elements of all sizes.
func (m *Map) Outside() (data [Aligned]byte) {
	if m.NaN {
		for i := 0; i < len(data); i += 2 {
			data[i], data[i+1] = 0xf7, 0x7f
		}
	}
	return data
}

// Loaded changes elements that were read as their type says: some have zeros instead of subnormal numbers, and those of
// tf32 have 10 bits of the fraction. An H200 rounds them to the nearest number; of two, the one that is farther from 0
// is taken here.
func (m *Map) Loaded(data []byte) {
	flushed := m.Type == Float32FTZ || m.Type == TFloat32FTZ
	short := m.Type == TFloat32 || m.Type == TFloat32FTZ
	if !flushed && !short {
		return
	}
	const exponent, cut = 0xff << 23, 13 // the bits of the exponent, and how many are cut off
	for ; len(data) > 0; data = data[4:] {
		x := binary.LittleEndian.Uint32(data)
		if flushed && x&exponent == 0 {
			x &= 1 << 31
		}
		if short && x&exponent != exponent {
			x = (x + 1<<(cut-1)) &^ (1<<cut - 1)
		}
		binary.LittleEndian.PutUint32(data, x)
	}
}
