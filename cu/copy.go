package cu

import (
	"errors"
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
	op := copyOp(&d, &r)
	switch {
	case op == "":
		return invalid("cuMemcpyDtoDAsync", "both are host memory: use Go's copy on the slices of View")
	case d.valid() && r.valid() && r.size > d.size:
		return invalid(op, fmt.Sprintf("%d bytes do not fit into %d", r.size, d.size))
	}
	sc, err := s.beginMemory(op, &d, &r)
	if err != nil || r.size == 0 {
		return s.endMemory(op, sc, &d, &r, driver.ResultSuccess, err)
	}
	t, at, n := sc.ctx.drv.table, sc.inContext(), r.size
	var res driver.Result
	sc.beginLegacy()
	switch {
	case d.mem.onHost():
		res = t.MemcpyDtoHAsync(at, d.hostAddr(), r.addr(), n, sc.raw)
	case r.mem.onHost():
		res = t.MemcpyHtoDAsync(at, d.addr(), r.hostAddr(), n, sc.raw)
	case d.mem.ctx != r.mem.ctx:
		res = t.MemcpyPeerAsync(at, d.addr(), d.mem.ctx.raw, r.addr(), r.mem.ctx.raw, n, sc.raw)
	default:
		res = t.MemcpyDtoDAsync(at, d.addr(), r.addr(), n, sc.raw)
	}
	sc.endLegacy()
	return s.endMemory(op, sc, &d, &r, res, nil)
}

// copyOp returns the C function for the copy, or "" if there is none.
func copyOp(d, r *region) string {
	switch {
	case d.mem == nil || r.mem == nil:
	case d.mem.onHost() && r.mem.onHost():
		return ""
	case d.mem.onHost():
		return "cuMemcpyDtoHAsync"
	case r.mem.onHost():
		return "cuMemcpyHtoDAsync"
	case d.mem.ctx != r.mem.ctx:
		return "cuMemcpyPeerAsync"
	}
	return "cuMemcpyDtoDAsync"
}

// Memset enqueues the setting of each byte of the memory (cuMemsetD8Async). The memory must be of
// the stream's context, or host memory. It waits while the stream's queue is full: see
// docs/blocking.md.
func (s *Stream) Memset(dst Memory, value byte) error {
	const op = "cuMemsetD8Async"
	d := regionOf(dst)
	defer runtime.KeepAlive(dst)
	sc, err := s.beginMemory(op, &d, &d)
	if err != nil || d.size == 0 {
		return s.endMemory(op, sc, &d, &d, driver.ResultSuccess, err)
	}
	sc.beginLegacy()
	res := sc.ctx.drv.table.MemsetD8Async(sc.inContext(), d.addr(), value, d.size, sc.raw)
	sc.endLegacy()
	return s.endMemory(op, sc, &d, &d, res, nil)
}

// Memset32 enqueues the setting of each 32-bit word of the memory (cuMemsetD32Async). The address
// and the size must be multiples of four bytes. The memory must be of the stream's context, or host
// memory. It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset32(dst Memory, value uint32) error {
	const op = "cuMemsetD32Async"
	d := regionOf(dst)
	defer runtime.KeepAlive(dst)
	if d.valid() && (d.off%4 != 0 || d.size%4 != 0) {
		return invalid(op, fmt.Sprintf("%d bytes at %d are not whole words: offset and size must be multiples of 4",
			d.size, d.off))
	}
	sc, err := s.beginMemory(op, &d, &d)
	if err != nil || d.size == 0 {
		return s.endMemory(op, sc, &d, &d, driver.ResultSuccess, err)
	}
	sc.beginLegacy()
	res := sc.ctx.drv.table.MemsetD32Async(sc.inContext(), d.addr(), value, d.size/4, sc.raw)
	sc.endLegacy()
	return s.endMemory(op, sc, &d, &d, res, nil)
}

// beginMemory begins to enqueue work on two regions, which may be the same. If it returns an error,
// nothing has begun, and the stream is nil.
func (s *Stream) beginMemory(op string, d, r *region) (*streamCore, error) {
	if s == nil || s.core == nil {
		return nil, errNil(op, "stream")
	}
	for _, sp := range []*region{d, r} {
		if sp.mem != nil && sp.mem.ctx.drv != s.core.ctx.drv {
			return nil, mixed(op, "memory", sp.mem.ctx, "stream", s.core.ctx)
		}
	}
	sc, err := s.enter(op)
	if err != nil {
		return nil, err
	}
	if err := d.enter(op); err != nil {
		s.leave()
		return nil, err
	}
	if err := r.enter(op); err != nil {
		d.leave()
		s.leave()
		return nil, err
	}
	if err := sc.checkMemory(op, d, r); err != nil {
		r.leave()
		d.leave()
		s.leave()
		return nil, err
	}
	c := sc.beginWork()
	c.keep(d.mem, sc)
	c.keep(r.mem, sc)
	return sc, nil
}

// checkMemory returns an error if the stream cannot use the regions.
func (sc *streamCore) checkMemory(op string, d, r *region) error {
	if op == "cuMemcpyPeerAsync" {
		if d.mem.ctx != sc.ctx && r.mem.ctx != sc.ctx {
			return mistake(op, mismatch(d.mem.ctx, sc.ctx), uintptr(sc.raw), fmt.Sprintf(
				"the memory is on devices %d and %d, the stream on device %d: use a stream of either memory's context",
				d.mem.ctx.dev, r.mem.ctx.dev, sc.ctx.dev))
		}
	} else {
		for _, sp := range []*region{d, r} {
			if !sp.mem.onHost() && sp.mem.ctx != sc.ctx {
				return mixed(op, "memory", sp.mem.ctx, "stream", sc.ctx)
			}
		}
	}
	if d.mem == r.mem && d.mem.onHost() && d.mem.raw == 0 {
		return mistake(op, errUnmapped, d.mem.handle(), "allocate it with HostDeviceMap")
	}
	return nil
}

// endMemory ends the call that beginMemory began. res is the driver's result, and err the error of
// beginMemory.
func (s *Stream) endMemory(op string, sc *streamCore, d, r *region, res driver.Result, err error) error {
	if err != nil {
		return err
	}
	sc.endWork()
	if res != driver.ResultSuccess {
		err = sc.ctx.callError(op, uintptr(sc.raw), res)
	}
	r.leave()
	d.leave()
	s.leave()
	return err
}

// errUnmapped is wrapped by the error of work on host memory that the device cannot access.
var errUnmapped = errors.New("the device cannot access the host memory")
