package cu

import (
	"fmt"
	"io"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// memRef is an alias, so that the fields of DeviceMem and HostMem are not exported.
type memRef = core.Ref[core.Mem]

// Memory is memory that the GPU can use: a [*DeviceMem], a [*HostMem], or a [Span] of one. No other type
// works: pass [VirtualMem.Mem] for a VirtualMem, and the embedded value of a type that embeds one.
type Memory interface {
	span() Span
}

// Span is a part of an allocation. It keeps the allocation from being collected, but not from being
// closed.
type Span struct {
	mem *core.Mem
	// owner keeps mem from being collected. It is a spanError if the span exceeds the memory.
	owner     any
	off, size uint64
}

// spanError is the error of a span that exceeds its memory.
type spanError struct{ error }

func (s Span) span() Span { return s }

// err returns the error of a span that exceeds its memory, or nil.
func (s *Span) err() error {
	e, _ := s.owner.(spanError)
	return e.error
}

// Size returns the size in bytes.
func (s Span) Size() uint64 { return s.size }

// Span returns size bytes of the span, from offset off. If they exceed the span, every use of the
// result fails.
func (s Span) Span(off, size uint64) Span {
	if (off > s.size || size > s.size-off) && s.err() == nil {
		s.owner = spanError{fmt.Errorf("%w: %d bytes at %d, of %d", core.ErrInvalid, size, off, s.size)}
	}
	s.off, s.size = s.off+off, size
	return s
}

func (s *Span) region() core.Region {
	r := core.Region{Mem: s.mem, Off: s.off, Size: s.size, Err: s.err()}
	if r.Mem != nil && r.Mem.Virt != nil {
		r.Mem = r.Mem.Virt.Current() // before the question what is mapped, which changes before
		if r.Err == nil {
			r.Err = r.Mem.Mapped(r.Off, r.Size)
		}
	}
	return r
}

// regionOf returns the region of a Memory, which may be nil. It is a type switch because a call of
// an interface method would make the argument escape.
func regionOf(m Memory) core.Region {
	switch m := m.(type) {
	case nil:
		return core.Region{}
	case Span:
		return m.region()
	case *Span:
		if m != nil {
			return m.region()
		}
		return core.Region{}
	case *DeviceMem:
		return m.region()
	case *HostMem:
		return m.region()
	}
	return core.Region{Err: core.ErrEmbedded}
}

// targetOf is regionOf for memory that work writes.
func targetOf(m Memory) core.Region {
	r := regionOf(m)
	if r.Valid() && r.Mem.Flags&driver.CU_MEMHOSTREGISTER_READ_ONLY != 0 {
		r.Err = core.ErrReadOnly
	}
	return r
}

// spanOf returns the span of a Memory, which may be nil. It asks for the type as regionOf does, because
// the method of a nil *Span, and of a type that embeds nothing, would panic.
func spanOf(m Memory) Span {
	switch m := m.(type) {
	case nil:
		return Span{}
	case Span:
		return m
	case *Span:
		if m != nil {
			return *m
		}
		return Span{}
	case *DeviceMem:
		return m.span()
	case *HostMem:
		return m.span()
	}
	return Span{owner: spanError{core.ErrEmbedded}}
}

// readable cuts dst to the bytes that can be read at off, of size bytes in all.
func readable(dst []byte, off int64, size uint64) ([]byte, error) {
	if off >= 0 && uint64(off) <= size && uint64(len(dst)) > size-uint64(off) {
		return dst[:size-uint64(off)], io.EOF
	}
	return dst, nil
}
