package cu

import (
	"fmt"
	"runtime"

	"github.com/purecu/purecu/driver"
)

// Copy enqueues a copy of src to the beginning of dst, and returns before the copy is done
// (cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemcpyDtoDAsync, cuMemcpyPeerAsync). One of the two may
// be host memory. The stream must be of the context of the device memory, or of either context if
// the memory is of two. A copy between two devices needs no peer access. Memory that is closed
// before the copy is done stays allocated until then. It waits while the stream's queue is full:
// see docs/blocking.md.
func (s *Stream) Copy(dst, src Memory) error {
	d, r := regionOf(dst), regionOf(src)
	defer runtime.KeepAlive(src)
	defer runtime.KeepAlive(dst)
	f := copyFunction(&d, &r)
	switch {
	case f == 0:
		return invalid(workCopyOnDevice.op(), "both are host memory: use Go's copy on the slices of View")
	case d.valid() && r.valid() && r.size > d.size:
		return invalid(f.op(), fmt.Sprintf("%d bytes do not fit into %d", r.size, d.size))
	}
	w, err := s.beginMemory(f, &d, &r)
	if err != nil {
		return err
	}
	sc, res := w.sc, driver.ResultSuccess
	for in, again := sc.contextFor(f), true; again && r.size != 0; in, again = sc.needsContext(f, in, res) {
		switch t := sc.ctx.drv.table; f {
		case workCopyToHost:
			res = t.MemcpyDtoHAsync(sc.within(in), d.hostAddr(), r.addr(), r.size, sc.raw)
		case workCopyToDevice:
			res = t.MemcpyHtoDAsync(sc.within(in), d.addr(), r.hostAddr(), r.size, sc.raw)
		case workCopyPeer:
			res = t.MemcpyPeerAsync(sc.within(in), d.addr(), d.mem.ctx.raw, r.addr(), r.mem.ctx.raw, r.size, sc.raw)
		default:
			res = t.MemcpyDtoDAsync(sc.within(in), d.addr(), r.addr(), r.size, sc.raw)
		}
	}
	return s.endMemory(f, &w, &d, &r, res)
}

// copyFunction returns the function for the copy, or 0 if there is none.
func copyFunction(d, r *region) workFunction {
	switch {
	case d.mem == nil || r.mem == nil:
	case d.mem.onHost() && r.mem.onHost():
		return 0
	case d.mem.onHost():
		return workCopyToHost
	case r.mem.onHost():
		return workCopyToDevice
	case d.mem.ctx != r.mem.ctx && !d.mem.everywhere() && !r.mem.everywhere():
		return workCopyPeer
	}
	return workCopyOnDevice
}

// Memset enqueues the setting of each byte of the memory (cuMemsetD8Async). The memory must be of
// the stream's context, or host memory. It waits while the stream's queue is full: see
// docs/blocking.md.
func (s *Stream) Memset(dst Memory, value byte) error {
	d := regionOf(dst)
	defer runtime.KeepAlive(dst)
	w, err := s.beginMemory(workSet8, &d, &d)
	if err != nil {
		return err
	}
	sc, res := w.sc, driver.ResultSuccess
	for in, again := sc.contextFor(workSet8), true; again && d.size != 0; in, again = sc.needsContext(workSet8, in, res) {
		res = sc.ctx.drv.table.MemsetD8Async(sc.within(in), d.addr(), value, d.size, sc.raw)
	}
	return s.endMemory(workSet8, &w, &d, &d, res)
}

// Memset32 enqueues the setting of each 32-bit word of the memory (cuMemsetD32Async). The address
// and the size must be multiples of four bytes. The memory must be of the stream's context, or host
// memory. It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset32(dst Memory, value uint32) error {
	d := regionOf(dst)
	defer runtime.KeepAlive(dst)
	if d.valid() && (d.off%4 != 0 || d.size%4 != 0) {
		return invalid(workSet32.op(), fmt.Sprintf(
			"%d bytes at %d are not whole words: offset and size must be multiples of 4", d.size, d.off))
	}
	w, err := s.beginMemory(workSet32, &d, &d)
	if err != nil {
		return err
	}
	sc, res := w.sc, driver.ResultSuccess
	for in, again := sc.contextFor(workSet32), true; again && d.size != 0; in, again = sc.needsContext(workSet32, in, res) {
		res = sc.ctx.drv.table.MemsetD32Async(sc.within(in), d.addr(), value, d.size/4, sc.raw)
	}
	return s.endMemory(workSet32, &w, &d, &d, res)
}

// beginMemory begins to enqueue work on two regions, which may be the same. If it returns an error,
// nothing has begun.
func (s *Stream) beginMemory(f workFunction, d, r *region) (w work, err error) {
	op := f.op()
	if s == nil || s.core == nil {
		return w, errNil(op, "stream")
	}
	for _, sp := range [...]*region{d, r} {
		if sp.mem != nil && sp.mem.ctx.drv != s.core.ctx.drv {
			return w, mixed(op, "memory", sp.mem.ctx, "stream", s.core.ctx)
		}
	}
	sc := s.core
	if w, err = sc.enqueue(op); err != nil {
		return w, err
	}
	if err = d.check(op); err == nil {
		if err = r.check(op); err == nil {
			err = sc.checkMemory(f, d, r)
		}
	}
	if err != nil {
		w.end()
		return w, err
	}
	for _, sp := range [...]*region{d, r} {
		if m := sp.mem; !w.kept(&m.resource) && !w.use(&m.resource, m) {
			w.end()
			return w, m.Refused(op)
		}
	}
	sc.beginLegacy()
	return w, nil
}

// endMemory ends the call that beginMemory began. res is the driver's result.
func (s *Stream) endMemory(f workFunction, w *work, d, r *region, res driver.Result) error {
	w.sc.endLegacy()
	w.end()
	runtime.KeepAlive(s)
	if res != driver.ResultSuccess {
		return w.sc.ctx.callError(f.op(), uintptr(w.sc.raw), res)
	}
	w.observeMemory(f.op(), d, r)
	return nil
}
