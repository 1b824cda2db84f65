package vm

import (
	"math/bits"
	"sync/atomic"
)

// Defined says which bytes of memory were written. It is safe for concurrent use.
type Defined struct {
	size  uint64
	pages []atomic.Pointer[definedPage]
}

// definedPage is about pageBytes bytes, with a bit for each.
type definedPage [pageBytes / 64]atomic.Uint64

const pageBytes = 1 << 16

// wholePage is a page of which all bytes were written. It does not change.
var wholePage = func() *definedPage {
	p := new(definedPage)
	for i := range p {
		p[i].Store(1<<64 - 1)
	}
	return p
}()

// NewDefined returns a Defined for memory that nobody has written.
func NewDefined(size uint64) *Defined {
	return &Defined{size: size, pages: make([]atomic.Pointer[definedPage], (size+pageBytes-1)/pageBytes)}
}

// Set notes that n bytes at an offset were written. A nil Defined is about nothing.
func (d *Defined) Set(off, n uint64) {
	if d == nil || off >= d.size {
		return
	}
	n = min(n, d.size-off)
	for n > 0 {
		page, at := &d.pages[off/pageBytes], off%pageBytes
		part := min(n, pageBytes-at)
		p := page.Load()
		if part == pageBytes {
			page.Store(wholePage)
		} else {
			if p == nil {
				page.CompareAndSwap(nil, new(definedPage))
				p = page.Load()
			}
			if p != wholePage {
				p.set(at, part)
			}
		}
		off, n = off+part, n-part
	}
}

// set notes that n bytes were written.
func (p *definedPage) set(at, n uint64) {
	for n > 0 {
		part := min(n, 64-at%64)
		mask := (uint64(1)<<part - 1) << (at % 64)
		if part == 64 {
			mask = 1<<64 - 1
		}
		if word := &p[at/64]; word.Load()&mask != mask {
			word.Or(mask)
		}
		at, n = at+part, n-part
	}
}

// Missing returns the first of n bytes at an offset that was not written, or false.
func (d *Defined) Missing(off, n uint64) (at uint64, is bool) {
	if d == nil || off >= d.size {
		return 0, false
	}
	for end := off + min(n, d.size-off); off < end; {
		p := d.pages[off/pageBytes].Load()
		part := min(end-off, 64-off%64)
		mask := uint64(1<<64-1) >> (64 - part) << (off % 64)
		switch {
		case p == wholePage:
			part = min(end-off, pageBytes-off%pageBytes)
		case p == nil:
			return off, true
		default:
			if left := mask &^ p[off%pageBytes/64].Load(); left != 0 {
				return off&^63 + uint64(bits.TrailingZeros64(left)), true
			}
		}
		off += part
	}
	return 0, false
}

// Copy notes that n bytes at an offset were copied from other memory. Bytes that were not written there
// stay what they are.
func (d *Defined) Copy(off uint64, from *Defined, at, n uint64) {
	if from == nil {
		d.Set(off, n)
		return
	}
	if d == nil {
		return
	}
	for n > 0 {
		hole, is := from.Missing(at, n)
		if !is {
			d.Set(off, n)
			return
		}
		d.Set(off, hole-at)
		off, n, at = off+hole-at, n-(hole-at), hole
		// The length of the hole.
		skip := uint64(1)
		for skip < n {
			if p := from.pages[(at+skip)/pageBytes].Load(); p == nil && (at+skip)%pageBytes == 0 &&
				n-skip >= pageBytes {
				skip += pageBytes
			} else if _, still := from.Missing(at+skip, 1); still {
				skip++
			} else {
				break
			}
		}
		off, n, at = off+skip, n-min(skip, n), at+skip
	}
}
