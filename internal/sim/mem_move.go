package sim

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// This file moves bytes: what copies and sets do when they run. It never needs the driver's lock.

// Part returns the first of n bytes at an offset: how many are in one piece, and these, or nil if nothing
// was written there, so that they are zero.
func (s span) Part(off, n uint64) (data []byte, length uint64) {
	if s.parts != nil {
		p, at := s.inPart(off)
		return p.Part(at, min(n, p.n-at))
	}
	c, begin := s.memory()
	return c.Part(begin+s.off+off, n)
}

// inPart returns the part with an offset of a span that stands for neighbours, and the offset there.
func (s span) inPart(off uint64) (span, uint64) {
	off += s.off
	for _, p := range s.parts {
		if off < p.n {
			return p, off
		}
		off -= p.n
	}
	return span{}, 0
}

// Provide makes the machine provide memory for n bytes at an offset, or reports false.
func (s span) Provide(off, n uint64) bool {
	if s.parts != nil {
		for n > 0 {
			p, at := s.inPart(off)
			m := min(n, p.n-at)
			if !p.Provide(at, m) {
				return false
			}
			off, n = off+m, n-m
		}
		return true
	}
	c, begin := s.memory()
	return c.Provide(begin+s.off+off, n)
}

// word returns n bytes that are in one piece, such as an aligned word, for reads.
func (s span) word() []byte {
	if data, _ := s.Part(0, s.n); data != nil {
		return data
	}
	return mem.NewBytes(s.n)
}

// copyFrom copies n bytes. It reports false if the machine has too little memory.
func (s span) copyFrom(off uint64, src span, at, n uint64) bool {
	s.defined.Copy(s.off+off, src.defined, src.off+at, n)
	return mem.Copy(s, off, src, at, n)
}

// Clear makes n bytes zero. It needs no memory of the machine: what nothing has written is zero.
func (s span) Clear(off, n uint64) {
	if s.parts == nil {
		c, begin := s.memory()
		c.Clear(begin+s.off+off, n)
		return
	}
	for n > 0 {
		p, at := s.inPart(off)
		length := min(n, p.n-at)
		p.Clear(at, length)
		off, n = off+length, n-length
	}
}

// patternSize is how much of a repeated value a set makes, in bytes, so that it stays in a processor's
// cache.
const patternSize = 32 << 10

// set sets n bytes at an offset to what repeats a value. It reports false if the machine has too little
// memory.
func (s span) set(off, n uint64, pattern []byte) bool {
	for n > 0 {
		length := min(n, uint64(len(pattern)))
		if !mem.Put(s, off, pattern[:length]) {
			return false
		}
		off, n = off+length, n-length
	}
	return true
}

// rows calls f with the place of each row of a box, and the size of the row, in each of two memories. Rows
// without bytes between them are one. It ends when f returns false.
func (e extent) rows(to, from box, f func(off, at, n uint64) bool) bool {
	if e.height == 1 || to.pitch == e.width && from.pitch == e.width {
		e.width, e.height = e.width*e.height, 1
	}
	if e.height == 1 && (e.depth == 1 || to.plane == e.width && from.plane == e.width) {
		e.width, e.depth = e.width*e.depth, 1
	}
	for z := range e.depth {
		for y := range e.height {
			if !f(z*to.plane+y*to.pitch, z*from.plane+y*from.pitch, e.width) {
				return false
			}
		}
	}
	return true
}

// movement is what a copy or a set does with memory.
type movement struct {
	bytes uint64 // how many it moves
	// ready makes the machine provide the memory, as far as it is known what is written, and run moves the
	// bytes. They report false if the machine has too little memory.
	ready, run func() bool
}

// provide makes the machine provide memory for the rows of a box. Rows of which each granule has a part
// are one range.
func (b box) provide(e extent) bool {
	if e.depth == 1 || b.plane <= mem.Granule {
		n, _ := e.reach(b.pitch, b.plane)
		if e.height == 1 || b.pitch <= mem.Granule {
			return b.span.Provide(0, n)
		}
	}
	for z := range e.depth {
		if e.height == 1 || b.pitch <= mem.Granule {
			if !b.span.Provide(z*b.plane, (e.height-1)*b.pitch+e.width) {
				return false
			}
			continue
		}
		for y := range e.height {
			if !b.span.Provide(z*b.plane+y*b.pitch, e.width) {
				return false
			}
		}
	}
	return true
}

// copying returns the copy of a box. What was never written makes nothing be written.
func (e extent) copying(dst, src box) movement {
	return movement{
		bytes: e.width * e.height * e.depth,
		ready: func() bool {
			if e.height > 1 || e.depth > 1 {
				from, n := src.Part(0, src.n)
				return from == nil && n == src.n || dst.provide(e)
			}
			for at := uint64(0); at < e.width; {
				from, n := src.Part(at, e.width-at)
				if from != nil && !dst.span.Provide(at, n) {
					return false
				}
				at += n
			}
			return true
		},
		run: func() bool {
			return e.rows(dst, src, func(off, at, n uint64) bool { return dst.copyFrom(off, src.span, at, n) })
		},
	}
}

// copyOf returns the copy of a range.
func copyOf(dst, src span) movement {
	row := extent{dst.n, 1, 1}
	return row.copying(box{span: dst}, box{span: src})
}

// setting returns the setting of a box.
func (e extent) setting(dst box, value []byte) movement {
	n := e.width * e.height * e.depth
	if !slices.ContainsFunc(value, func(b byte) bool { return b != 0 }) {
		return movement{bytes: n, run: func() bool {
			return e.rows(dst, dst, func(off, _, n uint64) bool {
				dst.written(off, n)
				dst.Clear(off, n)
				return true
			})
		}}
	}
	return movement{
		bytes: n,
		ready: func() bool { return dst.provide(e) },
		run: func() bool {
			size := uint64(len(value))
			pattern := slices.Repeat(value, int((min(n, patternSize)+size-1)/size))
			return e.rows(dst, dst, func(off, _, n uint64) bool {
				dst.written(off, n)
				return dst.set(off, n, pattern)
			})
		},
	}
}

// together returns all of some movements.
func together(list []movement) movement {
	all := movement{ready: func() bool {
		return !slices.ContainsFunc(list, func(m movement) bool { return m.ready != nil && !m.ready() })
	}, run: func() bool {
		return !slices.ContainsFunc(list, func(m movement) bool { return !m.run() })
	}}
	for _, m := range list {
		all.bytes += m.bytes
	}
	return all
}

// small returns what accesses a few bytes.
func small(f func() bool) movement { return movement{run: f} }

// mostLocked is how many bytes are moved while the driver is locked, at most. Otherwise a goroutine moves
// them, and the driver is not locked.
const mostLocked = 8 << 10

// access makes an operation access memory. It moves bytes when it completes, if all of the memory still
// exists. Otherwise the device has a fault, for example if a graph uses memory that was freed.
func (d *Driver) access(o *op, m movement, spans ...span) *op {
	return d.accessFor(nil, o, m, spans...)
}

// accessFor is access for a call that waits, if short is not nil. It gets the result if the machine has too little
// memory, which is no fault then.
func (d *Driver) accessFor(short *driver.Result, o *op, m movement, spans ...span) *op {
	for _, s := range spans {
		spans = append(spans, s.parts...)
	}
	foreign := false
	for _, s := range spans {
		o.Visible = o.Visible || s.kind.visible() || s.shared != nil
		foreign = foreign || s.kind.foreign()
	}
	exist := func() bool {
		return !slices.ContainsFunc(spans, func(s span) bool {
			return s.gone || s.asleep || !s.allowed(driver.CU_MEM_ACCESS_FLAGS_PROT_READ)
		})
	}
	run := func() driver.Result {
		there := false
		switch mapped := !foreign || touch(func() { there = m.run() }); {
		case !mapped:
			return driver.ResultIllegalAddress
		case foreign && there, !foreign && m.run():
			return ok
		}
		return driver.ResultOutOfMemory
	}
	ended := func(r driver.Result) {
		switch {
		case r == ok:
		case r == driver.ResultOutOfMemory && short != nil:
			*short = r
		case r == driver.ResultOutOfMemory:
			d.noMemory(m.bytes)
		default:
			d.poison(r)
		}
	}
	o.Provide = func() bool {
		gone := slices.ContainsFunc(spans, func(s span) bool { return s.gone })
		return m.ready == nil || gone || m.ready()
	}
	o.Effect = func() {
		r := driver.ResultIllegalAddress
		if exist() {
			r = run()
		}
		ended(r)
	}
	if m.bytes > mostLocked {
		o.Apart = func() bool {
			if !exist() {
				return false
			}
			d.engine.MoveApart(o, func() func() {
				r := run()
				return func() { ended(r) }
			})
			return true
		}
	}
	return o
}

// canProvideFor makes the machine provide the memory that an operation is known to write, or reports false.
// Then no such operation is enqueued.
func canProvideFor(o *op) bool { return o.Provide == nil || o.Provide() }

// noMemory reports that the machine has too little memory for an operation that was enqueued. As no call
// can return it, it becomes a sticky error.
func (d *Driver) noMemory(n uint64) {
	d.explain("", fmt.Sprintf("a copy or a set of %d bytes ends with %s, as the machine has no memory left for what "+
		"it writes", n, driver.ResultLaunchFailed.Name()), driver.ResultLaunchFailed)
	d.poison(driver.ResultLaunchFailed)
}

// written notes that bytes were written, for the checks of kernels.
func (s span) written(off, n uint64) { s.defined.Set(s.off+off, n) }

// extent is the size of a box: the bytes of a row, the rows of a plane, and the planes.
type extent struct{ width, height, depth uint64 }

// box is a part of memory in rows and planes. Its span has all of its bytes, and those between
// them.
type box struct {
	span
	pitch, plane uint64 // bytes from one row to the next, and from one plane to the next
	height       uint64 // rows of a plane as the program gives them: 0 for a rectangle
	// array is the array that the box is a part of, or nil, and at where it begins there.
	array *cudaArray
	at    [3]uint64
}

// row returns a span as a box of one row.
func (s span) row() box { return box{span: s, pitch: s.n, plane: s.n, height: 1} }

// reach returns the number of bytes from the first to the last byte of a box, and reports false if
// there is no such number.
func (e extent) reach(pitch, plane uint64) (uint64, bool) {
	over, a := bits.Mul64(e.depth-1, plane)
	over2, b := bits.Mul64(e.height-1, pitch)
	n, carry := bits.Add64(a, b, 0)
	n, carry2 := bits.Add64(n, e.width, 0)
	return n, over|over2|carry|carry2 == 0
}
