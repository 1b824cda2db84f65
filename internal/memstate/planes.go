package memstate

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/races"
)

// Extent is the size of a box: the bytes of a row, the rows of a plane, and the planes.
type Extent struct{ Width, Height, Depth uint64 }

// ExtentOf returns the size of a box: width bytes, height rows, and depth planes.
func ExtentOf(width, height, depth uint64) Extent { return Extent{width, height, depth} }

// Empty reports whether there is nothing in the box.
func (e Extent) Empty() bool { return e.Width == 0 || e.Height == 0 || e.Depth == 0 }

// Planes is a region in planes of rows.
type Planes struct {
	Region
	Pitch, Height uint64
}

// CheckWords returns an error unless the rows can have width words of size bytes each.
func (p *Planes) CheckWords(op string, size, width uint64) error {
	switch {
	case p.Usable() && (uint64(p.Addr())%size != 0 || p.Pitch%size != 0):
		return drivercall.BadValue(op, p.Mem, fmt.Sprintf("rows at the address %#x, with a pitch of %d bytes: "+
			"address and pitch must be multiples of %d", uint64(p.Addr()), p.Pitch, size))
	case width > math.MaxUint32:
		return drivercall.BadValue(op, nil, fmt.Sprintf("rows of %d words are too long", width))
	}
	return nil
}

// UsedByPlanes returns the uses of memory by the copy of a box, or by a memset, whose ends are the same.
func UsedByPlanes(d, r *Planes, e Extent) []races.Use {
	uses := d.Uses(e, true, "destination")
	if d != r {
		uses = append(uses, r.Uses(e, false, "source")...)
	}
	return uses
}

// Fit replaces a pitch and a height of 0, and returns an error unless a box lies within the region.
func (p *Planes) Fit(op string, e Extent) error {
	if p.Pitch == 0 {
		p.Pitch = e.Width
	}
	if p.Height == 0 {
		p.Height = e.Height
	}
	if !p.Usable() || e.Empty() {
		return nil // Begin finds the mistake
	}
	if p.Pitch < e.Width || p.Height < e.Height {
		return drivercall.BadValue(op, p.Mem, fmt.Sprintf("%d rows of %d bytes do not fit into %d rows of %d: "+
			"the pitch or the height is too small", e.Height, e.Width, p.Height, p.Pitch))
	}
	over, rows := bits.Mul64(e.Depth-1, p.Height)
	rows, carry := bits.Add64(rows, e.Height-1, 0)
	over2, n := bits.Mul64(rows, p.Pitch)
	n, carry2 := bits.Add64(n, e.Width, 0)
	if over|over2|carry|carry2 != 0 || n > p.Size {
		return drivercall.BadValue(op, p.Mem, fmt.Sprintf("%d planes of %d rows of %d bytes, with a pitch of %d, "+
			"do not fit into %d bytes", e.Depth, e.Height, e.Width, p.Pitch, p.Size))
	}
	return nil
}

// End returns the region as one end of a copy.
func (p *Planes) End() (kind int32, host driver.HostPtr, dev driver.DevicePtr) {
	if p.Mem.OnHost() {
		return driver.CU_MEMORYTYPE_HOST, p.HostAddr(), 0
	}
	return driver.CU_MEMORYTYPE_DEVICE, 0, p.Addr()
}

// Uses returns the uses of the rows of a box, for the race detector.
func (p *Planes) Uses(e Extent, write bool, as string) (uses []races.Use) {
	for z := range e.Depth {
		for y := range e.Height {
			u := p.Mem.Used(p.Off+(z*p.Height+y)*p.Pitch, e.Width, write, as)
			if n := len(uses); n > 0 && uses[n-1].Addr+uses[n-1].Size == u.Addr {
				uses[n-1].Size += u.Size
			} else {
				uses = append(uses, u)
			}
		}
	}
	return uses
}

// Operand returns the planes as an end of a copy of a batch.
func (p *Planes) Operand() (o driver.Memcpy3DOperand) {
	o.Type = driver.CU_MEMCPY_OPERAND_TYPE_POINTER
	*o.Op.Ptr() = driver.Memcpy3DOperandOpPtr{Ptr: driver.DevicePtr(p.Unified()), RowLength: p.Pitch,
		LayerHeight: p.Height}
	return o
}

// Range returns the memory of a box that fits.
func (p *Planes) Range(e Extent, write bool) RowRange {
	at := p.Unified()
	rows := (e.Depth-1)*p.Height + e.Height
	return RowRange{From: at, To: at + (rows-1)*p.Pitch + e.Width, Width: e.Width, Pitch: p.Pitch, Write: write}
}
