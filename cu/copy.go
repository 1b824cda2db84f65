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
	d, r := targetOf(dst), regionOf(src)
	done, err := s.copyFast(&d, &r)
	if !done {
		err = s.copyRegions(&d, &r)
	}
	if err != nil {
		if f := copyFunction(&d, &r); f != 0 {
			err = s.retry(f.op(), err, func() error { return s.copyRegions(&d, &r) })
		}
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	return err
}

// copyFast is copyRegions in the usual case.
func (s *Stream) copyFast(d, r *region) (done bool, err error) {
	if s == nil || s.core == nil || !d.valid() || !r.valid() || r.size > d.size || r.size == 0 {
		return false, nil
	}
	sc, f := s.core, copyFunction(d, r)
	if f == 0 || f == workCopyPeer || !sc.beginFast(f) {
		return false, nil
	}
	if !sc.keeps(&d.mem.resource) || !sc.keeps(&r.mem.resource) {
		sc.endFast()
		return false, nil
	}
	var res driver.Result
	switch t := sc.ctx.drv.table(); f {
	case workCopyToHost:
		res = t.MemcpyDtoHAsync(driver.At{}, d.hostAddr(), r.addr(), r.size, sc.raw)
	case workCopyToDevice:
		res = t.MemcpyHtoDAsync(driver.At{}, d.addr(), r.hostAddr(), r.size, sc.raw)
	default:
		res = t.MemcpyDtoDAsync(driver.At{}, d.addr(), r.addr(), r.size, sc.raw)
	}
	sc.endFast()
	if res == driver.ResultSuccess {
		return true, nil
	}
	return sc.afterFast(f, uintptr(sc.raw), res)
}

// copyRegions is Copy of regions.
func (s *Stream) copyRegions(d, r *region) error {
	f := copyFunction(d, r)
	switch {
	case f == 0:
		return betweenHost("Stream.Copy", d, r)
	case d.usable() && r.usable() && r.size > d.size:
		return about(as("destination", d.mem), tooSmall(f.op(), r.size, d.size))
	}
	w, err := s.beginMemory(f, d, r)
	if err != nil {
		return err
	}
	sc, res := w.sc, driver.ResultSuccess
	for in, again := sc.contextFor(f), true; again && r.size != 0; in, again = sc.needsContext(f, in, res) {
		switch t := sc.ctx.drv.table(); f {
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
	return s.endMemory(f, &w, d, r, res)
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
// the stream's context, or host or managed memory. Pinned memory of a pool may need
// [MemPool.SetAccess]. It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset(dst Memory, value byte) error {
	d := targetOf(dst)
	done, err := s.memsetFast(workSet8, &d, uint32(value))
	if !done {
		err = s.memset(workSet8, &d, uint32(value))
	}
	if err != nil {
		err = s.retry(workSet8.op(), err, func() error { return s.memset(workSet8, &d, uint32(value)) })
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(dst)
	return err
}

// memsetFast is memset in the usual case.
func (s *Stream) memsetFast(f workFunction, d *region, value uint32) (done bool, err error) {
	if s == nil || s.core == nil || !d.valid() || d.size == 0 || d.mem.raw == 0 {
		return false, nil
	}
	sc := s.core
	if !sc.beginFast(f) {
		return false, nil
	}
	if !sc.keeps(&d.mem.resource) {
		sc.endFast()
		return false, nil
	}
	res := setMemory(sc.ctx.drv, f, driver.At{}, d, value, sc.raw)
	sc.endFast()
	if res == driver.ResultSuccess {
		return true, nil
	}
	return sc.afterFast(f, uintptr(sc.raw), res)
}

// memset is Memset or Memset32 of a region.
func (s *Stream) memset(f workFunction, d *region, value uint32) error {
	w, err := s.beginMemory(f, d, d)
	if err != nil {
		return err
	}
	sc, res := w.sc, driver.ResultSuccess
	for in, again := sc.contextFor(f), true; again && d.size != 0; in, again = sc.needsContext(f, in, res) {
		res = setMemory(sc.ctx.drv, f, sc.within(in), d, value, sc.raw)
	}
	return s.endMemory(f, &w, d, d, res)
}

// setMemory calls the driver for a memset.
func setMemory(drv *driverCore, f workFunction, at driver.At, d *region, value uint32, s driver.Stream) driver.Result {
	if f == workSet8 {
		return drv.table().MemsetD8Async(at, d.addr(), uint8(value), d.size, s)
	}
	return drv.table().MemsetD32Async(at, d.addr(), value, d.size/4, s)
}

// Memset32 enqueues the setting of each 32-bit word of the memory (cuMemsetD32Async). The address
// and the size must be multiples of four bytes. Otherwise it is like [Stream.Memset]. It waits while
// the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset32(dst Memory, value uint32) error {
	d := targetOf(dst)
	if err := wholeWords(&d, workSet32, 4); err != nil {
		return err
	}
	done, err := s.memsetFast(workSet32, &d, value)
	if !done {
		err = s.memset(workSet32, &d, value)
	}
	if err != nil {
		err = s.retry(workSet32.op(), err, func() error { return s.memset(workSet32, &d, value) })
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(dst)
	return err
}

// Memset16 is [Stream.Memset32] for words of 16 bits (cuMemsetD16Async). The address and the size must
// be even. It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset16(dst Memory, value uint16) error {
	d := targetOf(dst)
	defer runtime.KeepAlive(dst)
	if err := wholeWords(&d, workSet16, 2); err != nil {
		return err
	}
	return s.attempt(workSet16.op(), func() error {
		w, err := s.beginMemory(workSet16, &d, &d)
		if err != nil {
			return err
		}
		sc, res := w.sc, driver.ResultSuccess
		if d.size != 0 {
			res = sc.ctx.drv.table().MemsetD16Async(sc.inContext(), d.addr(), value, d.size/2, sc.raw)
		}
		return s.endMemory(workSet16, &w, &d, &d, res)
	})
}

// wholeWords returns an error unless the region consists of words of size bytes.
func wholeWords(r *region, f workFunction, size uint64) error {
	if r.usable() && (uint64(r.addr())%size != 0 || r.size%size != 0) {
		return badValue(f.op(), r.mem, fmt.Sprintf("%d bytes at the address %#x are not whole words: "+
			"address and size must be multiples of %d", r.size, uint64(r.addr()), size))
	}
	return nil
}

// beginMemory begins to enqueue work on two regions, which may be the same. If it returns an error,
// nothing has begun.
func (s *Stream) beginMemory(f workFunction, d, r *region) (w work, err error) {
	op := f.op()
	if s == nil || s.core == nil {
		return w, errNil(op, "stream")
	}
	for i, sp := range [...]*region{d, r} {
		if sp.mem != nil && sp.mem.ctx.drv != s.core.ctx.drv {
			return w, errMixed(op, as(roleOf(i, d, r), sp.mem), s.core)
		}
	}
	sc := s.core
	if w, err = sc.beginEnqueue(op); err != nil {
		return w, err
	}
	if err = checkEnds(op, d, r); err == nil {
		err = sc.checkMemory(f, d, r)
	}
	if err != nil {
		w.end()
		return w, about(sc, err)
	}
	for i, sp := range [...]*region{d, r} {
		if m := sp.mem; !w.kept(&m.resource) && !w.use(&m.resource, m) {
			w.end()
			return w, m.refusedAs(roleOf(i, d, r), op)
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
