package memstate

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
)

// Span is a part of an allocation.
type Span struct {
	Mem *Mem
	// Owner keeps Mem from being collected. It is a spanError if the span cannot be used.
	Owner     any
	Off, Size uint64
}

// spanError is the reason why a span cannot be used.
type spanError struct{ error }

// Fail makes every use of the span fail.
func (s *Span) Fail(err error) { s.Owner = spanError{err} }

// Err returns the reason why the span cannot be used, or nil.
func (s *Span) Err() error {
	e, _ := s.Owner.(spanError)
	return e.error
}

// Cut limits the span to size bytes from offset off. If it has fewer, every use of it fails.
func (s *Span) Cut(off, size uint64) {
	if (off > s.Size || size > s.Size-off) && s.Err() == nil {
		s.Fail(fmt.Errorf("%w: %d bytes at %d, of %d", drivercall.ErrInvalid, size, off, s.Size))
	}
	s.Off, s.Size = s.Off+off, size
}

// Region returns the memory of the span.
func (s *Span) Region() Region {
	r := Region{Mem: s.Mem, Off: s.Off, Size: s.Size}
	if err := s.Err(); err != nil {
		r.Fault = &Fault{err}
	}
	if r.Mem != nil && r.Mem.Virt != nil {
		r.Mem = r.Mem.Virt.Current() // before the question what is mapped, which changes before
		if r.Fault == nil {
			if err := r.Mem.Mapped(r.Off, r.Size); err != nil {
				r.Fault = &Fault{err}
			}
		}
	}
	return r
}

// Fault is a reason why the memory of a Region cannot be used.
type Fault struct{ Err error }

// is reports whether the reason is err. f may be nil.
func (f *Fault) is(err error) bool { return f != nil && f.Err == err }

var (
	readOnly = &Fault{ErrReadOnly}
	embedded = &Fault{ErrEmbedded}
)

// Embedded returns the region of a type that embeds memory.
func Embedded() Region { return Region{Fault: embedded} }

// Whole returns all of the memory. mc is nil if there is none.
func (mc *Mem) Whole() Region {
	if mc == nil {
		return Region{}
	}
	return Region{Mem: mc.Current(), Size: mc.Length()}
}

// Target returns the region for work that writes it.
func (r Region) Target() Region {
	if r.Valid() && r.Mem.Flags&driver.CU_MEMHOSTREGISTER_READ_ONLY != 0 {
		r.Fault = readOnly
	}
	return r
}

// SpanValue is what a cu.Span embeds, by an alias that is not exported: see core.Value.
type SpanValue struct{ v Span }

// SpanIn returns the state for package cu, which has the SpanValue itself.
func SpanIn(r *SpanValue) *Span { return &r.v }

func (r *SpanValue) span() *Span { return &r.v }

// SpanOf returns the state of a *cu.Span. The compiler knows which method it calls, so that the value does not escape.
func SpanOf(h interface{ span() *Span }) *Span { return h.span() }
