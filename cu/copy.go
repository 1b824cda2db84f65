package cu

import (
	"fmt"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
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
			err = s.core().FreeAndRetry(f.Op(), err, func() error { return s.copyRegions(&d, &r) })
		}
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	return err
}

// copyFast is copyRegions in the usual case.
func (s *Stream) copyFast(d, r *memstate.Region) (done bool, err error) {
	sc := s.core()
	if sc == nil || !d.Valid() || !r.Valid() || r.Size > d.Size || r.Size == 0 {
		return false, nil
	}
	f := copyFunction(d, r)
	if f == 0 || f == core.WorkCopyPeer || !sc.BeginFast(f) {
		return false, nil
	}
	if !sc.Keeps(&d.Mem.Resource) || !sc.Keeps(&r.Mem.Resource) {
		sc.EndFast()
		return false, nil
	}
	var res driver.Result
	switch t := sc.Ctx.Drv.Table(); f {
	case core.WorkCopyToHost:
		res = t.MemcpyDtoHAsync(driver.At{}, d.HostAddr(), r.Addr(), r.Size, sc.Raw)
	case core.WorkCopyToDevice:
		res = t.MemcpyHtoDAsync(driver.At{}, d.Addr(), r.HostAddr(), r.Size, sc.Raw)
	default:
		res = t.MemcpyDtoDAsync(driver.At{}, d.Addr(), r.Addr(), r.Size, sc.Raw)
	}
	sc.EndFast()
	if res == driver.ResultSuccess {
		return true, nil
	}
	return sc.AfterFast(f, uintptr(sc.Raw), res)
}

// copyRegions is Copy of regions.
func (s *Stream) copyRegions(d, r *memstate.Region) error {
	f := copyFunction(d, r)
	switch {
	case f == 0:
		return memstate.BetweenHost("Stream.Copy", d, r)
	case d.Usable() && r.Usable() && r.Size > d.Size:
		return drivercall.About(core.InRole("destination", d.Mem), memstate.TooSmall(f.Op(), r.Size, d.Size))
	}
	w, err := memstate.Begin(s.core(), f, d, r)
	if err != nil {
		return err
	}
	sc, res := w.Stream, driver.ResultSuccess
	for in, again := sc.ContextFor(f), true; again && r.Size != 0; in, again = sc.NeedsContext(f, in, res) {
		switch t := sc.Ctx.Drv.Table(); f {
		case core.WorkCopyToHost:
			res = t.MemcpyDtoHAsync(sc.Within(in), d.HostAddr(), r.Addr(), r.Size, sc.Raw)
		case core.WorkCopyToDevice:
			res = t.MemcpyHtoDAsync(sc.Within(in), d.Addr(), r.HostAddr(), r.Size, sc.Raw)
		case core.WorkCopyPeer:
			res = t.MemcpyPeerAsync(sc.Within(in), d.Addr(), d.Mem.Ctx.Raw, r.Addr(), r.Mem.Ctx.Raw, r.Size, sc.Raw)
		default:
			res = t.MemcpyDtoDAsync(sc.Within(in), d.Addr(), r.Addr(), r.Size, sc.Raw)
		}
	}
	return s.endMemory(f, &w, d, r, res)
}

// copyFunction returns the function for the copy, or 0 if there is none.
func copyFunction(d, r *memstate.Region) core.WorkFunction {
	switch {
	case d.Mem == nil || r.Mem == nil:
	case d.Mem.OnHost() && r.Mem.OnHost():
		return 0
	case d.Mem.OnHost():
		return core.WorkCopyToHost
	case r.Mem.OnHost():
		return core.WorkCopyToDevice
	case d.Mem.Ctx != r.Mem.Ctx && !d.Mem.Everywhere() && !r.Mem.Everywhere():
		return core.WorkCopyPeer
	}
	return core.WorkCopyOnDevice
}

// Memset enqueues the setting of each byte of the memory (cuMemsetD8Async). The memory must be of
// the stream's context, or host or managed memory. Pinned memory of a pool may need
// memory.Pool.SetAccess. It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset(dst Memory, value byte) error {
	d := targetOf(dst)
	done, err := s.memsetFast(core.WorkSet8, &d, uint32(value))
	if !done {
		err = s.memset(core.WorkSet8, &d, uint32(value))
	}
	if err != nil {
		err = s.core().FreeAndRetry(core.WorkSet8.Op(), err,
			func() error { return s.memset(core.WorkSet8, &d, uint32(value)) })
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(dst)
	return err
}

// memsetFast is memset in the usual case.
func (s *Stream) memsetFast(f core.WorkFunction, d *memstate.Region, value uint32) (done bool, err error) {
	sc := s.core()
	if sc == nil || !d.Valid() || d.Size == 0 || d.Mem.Raw == 0 {
		return false, nil
	}
	if !sc.BeginFast(f) {
		return false, nil
	}
	if !sc.Keeps(&d.Mem.Resource) {
		sc.EndFast()
		return false, nil
	}
	res := setMemory(sc.Ctx.Drv, f, driver.At{}, d, value, sc.Raw)
	sc.EndFast()
	if res == driver.ResultSuccess {
		return true, nil
	}
	return sc.AfterFast(f, uintptr(sc.Raw), res)
}

// memset is Memset or Memset32 of a region.
func (s *Stream) memset(f core.WorkFunction, d *memstate.Region, value uint32) error {
	w, err := memstate.Begin(s.core(), f, d, d)
	if err != nil {
		return err
	}
	sc, res := w.Stream, driver.ResultSuccess
	for in, again := sc.ContextFor(f), true; again && d.Size != 0; in, again = sc.NeedsContext(f, in, res) {
		res = setMemory(sc.Ctx.Drv, f, sc.Within(in), d, value, sc.Raw)
	}
	return s.endMemory(f, &w, d, d, res)
}

// setMemory calls the driver for a memset.
func setMemory(drv *core.Driver, f core.WorkFunction, at driver.At, d *memstate.Region, value uint32,
	s driver.Stream) driver.Result {
	if f == core.WorkSet8 {
		return drv.Table().MemsetD8Async(at, d.Addr(), uint8(value), d.Size, s)
	}
	return drv.Table().MemsetD32Async(at, d.Addr(), value, d.Size/4, s)
}

// Memset32 enqueues the setting of each 32-bit word of the memory (cuMemsetD32Async). The address
// and the size must be multiples of four bytes. Otherwise it is like [Stream.Memset]. It waits while
// the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset32(dst Memory, value uint32) error {
	d := targetOf(dst)
	if err := wholeWords(&d, core.WorkSet32, 4); err != nil {
		return err
	}
	done, err := s.memsetFast(core.WorkSet32, &d, value)
	if !done {
		err = s.memset(core.WorkSet32, &d, value)
	}
	if err != nil {
		err = s.core().FreeAndRetry(core.WorkSet32.Op(), err, func() error { return s.memset(core.WorkSet32, &d, value) })
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
	if err := wholeWords(&d, core.WorkSet16, 2); err != nil {
		return err
	}
	return s.core().CallWithRetry(core.WorkSet16.Op(), func() error {
		w, err := memstate.Begin(s.core(), core.WorkSet16, &d, &d)
		if err != nil {
			return err
		}
		sc, res := w.Stream, driver.ResultSuccess
		if d.Size != 0 {
			res = sc.Ctx.Drv.Table().MemsetD16Async(sc.InContext(), d.Addr(), value, d.Size/2, sc.Raw)
		}
		return s.endMemory(core.WorkSet16, &w, &d, &d, res)
	})
}

// wholeWords returns an error unless the region consists of words of size bytes.
func wholeWords(r *memstate.Region, f core.WorkFunction, size uint64) error {
	if r.Usable() && (uint64(r.Addr())%size != 0 || r.Size%size != 0) {
		return drivercall.BadValue(f.Op(), r.Mem, fmt.Sprintf("%d bytes at the address %#x are not whole words: "+
			"address and size must be multiples of %d", r.Size, uint64(r.Addr()), size))
	}
	return nil
}

// endMemory ends the call that memstate.Begin began. res is the driver's result.
func (s *Stream) endMemory(f core.WorkFunction, w *core.Work, d, r *memstate.Region, res driver.Result) error {
	w.Stream.LeaveGate()
	w.End()
	runtime.KeepAlive(s)
	if res != driver.ResultSuccess {
		return w.Stream.Ctx.CallError(f.Op(), uintptr(w.Stream.Raw), res)
	}
	memstate.ObserveWork(w, f.Op(), d, r)
	return nil
}
