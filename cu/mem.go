package cu

import (
	"io"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/memstate"
)

// memRef is an alias, so that the fields of DeviceMem and HostMem are not exported.
type memRef = core.Ref[memstate.Mem]

// Memory is memory that the GPU can use: a [*DeviceMem], a [*HostMem], or a [Span] of one. No other type
// works: pass memory.Virtual.Mem for a memory.Virtual, and the embedded value of a type that embeds one.
type Memory interface {
	span() Span
}

// Span is a part of an allocation. It keeps the allocation from being collected, but not from being
// closed.
type Span struct{ spanRef }

// spanRef is an alias, so that the field of a Span is not exported.
type spanRef = memstate.SpanValue

// newSpan returns the Span with these parts.
func newSpan(parts memstate.Span) (s Span) {
	*s.core() = parts
	return s
}

// core returns the parts of the span.
func (s *Span) core() *memstate.Span { return memstate.SpanIn(&s.spanRef) }

func (s Span) span() Span { return s }

// Size returns the size in bytes.
func (s Span) Size() uint64 { return s.core().Size }

// Span returns size bytes of the span, from offset off. If they exceed the span, every use of the
// result fails.
func (s Span) Span(off, size uint64) Span {
	s.core().Cut(off, size)
	return s
}

// regionOf returns the region of a Memory, which may be nil. It is a type switch because a call of
// an interface method would make the argument escape. Package subject has another for the packages in this folder.
func regionOf(m Memory) memstate.Region {
	switch m := m.(type) {
	case nil:
		return memstate.Region{}
	case Span:
		return m.core().Region()
	case *Span:
		if m != nil {
			return m.core().Region()
		}
		return memstate.Region{}
	case *DeviceMem:
		return m.core().Whole()
	case *HostMem:
		return m.core().Whole()
	}
	return memstate.Embedded()
}

// targetOf is regionOf for memory that work writes.
func targetOf(m Memory) memstate.Region { return regionOf(m).Target() }

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
	var s Span
	s.core().Fail(memstate.ErrEmbedded)
	return s
}

// readable cuts dst to the bytes that can be read at off, of size bytes in all.
func readable(dst []byte, off int64, size uint64) ([]byte, error) {
	if off >= 0 && uint64(off) <= size && uint64(len(dst)) > size-uint64(off) {
		return dst[:size-uint64(off)], io.EOF
	}
	return dst, nil
}
