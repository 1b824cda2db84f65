package cu

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/driver"
)

// Copy enqueues a copy of src to the beginning of dst, and returns before it is
// done. One of the two may be host memory. Between the memory of two devices it
// needs no peer access. The stream must be of the context of the device memory:
// of either one, if there are two. Both stay allocated until the GPU has done the copy, also if
// they are closed (cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemcpyDtoDAsync,
// cuMemcpyPeerAsync). It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Copy(dst, src Memory) error {
	d, r := spanOf(dst), spanOf(src)
	op := "cuMemcpyDtoDAsync"
	switch {
	case d.mem == nil || r.mem == nil:
	case d.mem.onHost() && r.mem.onHost():
		return invalid(op, "both are host memory: copy within View")
	case d.mem.onHost():
		op = "cuMemcpyDtoHAsync"
	case r.mem.onHost():
		op = "cuMemcpyHtoDAsync"
	case d.mem.ctx != r.mem.ctx:
		op = "cuMemcpyPeerAsync"
	}
	return s.onMemory(op, d, r, func(sc *streamCore) (driver.Result, error) {
		if r.size > d.size {
			return 0, invalid(op, fmt.Sprintf("%d bytes do not fit into %d", r.size, d.size))
		}
		if r.size == 0 {
			return driver.ResultSuccess, nil
		}
		t, at, n := sc.ctx.drv.table, driver.At{Context: sc.ctx.raw, Thread: sc.at.Thread}, r.size
		switch {
		case d.mem.onHost():
			return t.MemcpyDtoHAsync(at, d.hostAddr(), r.addr(), n, sc.raw), nil
		case r.mem.onHost():
			return t.MemcpyHtoDAsync(at, d.addr(), r.hostAddr(), n, sc.raw), nil
		case d.mem.ctx != r.mem.ctx:
			return t.MemcpyPeerAsync(at, d.addr(), d.mem.ctx.raw, r.addr(), r.mem.ctx.raw, n, sc.raw), nil
		}
		return t.MemcpyDtoDAsync(at, d.addr(), r.addr(), n, sc.raw), nil
	})
}

// Memset enqueues the setting of each byte of the memory, which must be of the
// stream's context, or on the host (cuMemsetD8Async).
// It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset(dst Memory, value byte) error {
	const op = "cuMemsetD8Async"
	d := spanOf(dst)
	return s.onMemory(op, d, d, func(sc *streamCore) (driver.Result, error) {
		if d.size == 0 {
			return driver.ResultSuccess, nil
		}
		return sc.ctx.drv.table.MemsetD8Async(
			driver.At{Context: sc.ctx.raw, Thread: sc.at.Thread},
			d.addr(),
			value,
			d.size,
			sc.raw,
		), nil
	})
}

// Memset32 enqueues the setting of each 32-bit word of the memory, the address
// and the size of which must be multiples of four bytes. It must be of the
// stream's context, or on the host (cuMemsetD32Async).
// It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset32(dst Memory, value uint32) error {
	const op = "cuMemsetD32Async"
	d := spanOf(dst)
	return s.onMemory(op, d, d, func(sc *streamCore) (driver.Result, error) {
		if d.off%4 != 0 || d.size%4 != 0 {
			return 0, invalid(
				op,
				fmt.Sprintf(
					"%d bytes at %d are not whole words: offset and size must be multiples of 4",
					d.size,
					d.off,
				),
			)
		}
		if d.size == 0 {
			return driver.ResultSuccess, nil
		}
		return sc.ctx.drv.table.MemsetD32Async(
			driver.At{Context: sc.ctx.raw, Thread: sc.at.Thread},
			d.addr(),
			value,
			d.size/4,
			sc.raw,
		), nil
	})
}

// onMemory makes a call that enqueues work on two spans, which may be the same.
func (s *Stream) onMemory(op string, d, r Span, call func(*streamCore) (driver.Result, error)) error {
	if s == nil || s.core == nil {
		return errNil(op, "stream")
	}
	for _, sp := range []Span{d, r} {
		if sp.mem != nil && sp.mem.ctx.drv != s.core.ctx.drv {
			return mixed(op, "memory", sp.mem.ctx, "stream", s.core.ctx)
		}
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	if err := d.enter(op); err != nil {
		return err
	}
	defer d.leave()
	if err := r.enter(op); err != nil {
		return err
	}
	defer r.leave()
	if op == "cuMemcpyPeerAsync" {
		if d.mem.ctx != sc.ctx && r.mem.ctx != sc.ctx {
			return mistake(op, mismatch(d.mem.ctx, sc.ctx), uintptr(sc.raw), fmt.Sprintf(
				"the memory is on devices %d and %d, the stream on device %d: use a stream of either memory's context",
				d.mem.ctx.dev,
				r.mem.ctx.dev,
				sc.ctx.dev,
			))
		}
	} else {
		for _, sp := range []Span{d, r} {
			if !sp.mem.onHost() && sp.mem.ctx != sc.ctx {
				return mixed(op, "memory", sp.mem.ctx, "stream", sc.ctx)
			}
		}
	}
	if d.mem == r.mem && d.mem.onHost() && d.mem.raw == 0 {
		return mistake(op, errUnmapped, d.mem.handle(), "allocate it with HostDeviceMap")
	}
	if c := sc.beginWork(); c != nil {
		c.uses.add(d.mem)
		c.uses.add(r.mem)
	} else {
		d.mem.used(sc)
		r.mem.used(sc)
	}
	defer sc.endWork()
	sc.beginLegacy()
	res, err := call(sc)
	sc.endLegacy()
	if err == nil && res != driver.ResultSuccess {
		err = sc.ctx.fail(op, uintptr(sc.raw), res)
	}
	return err
}

// errUnmapped is behind the error of work on host memory that the device cannot
// reach.
var errUnmapped = errors.New("the device cannot reach the host memory")
