package cu

import (
	"fmt"
	"math"
	"math/bits"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
)

// Rows is memory in rows, such as an image. Mem begins with the first row, and ends with or after
// the last one.
type Rows struct {
	Mem Memory
	// Pitch is the number of bytes from the beginning of a row to the beginning of the next one. 0
	// means that there are no bytes between the rows.
	Pitch uint64
}

// At returns the rows that begin x bytes and y rows after the first byte, up to the end of the
// memory. The Pitch must not be 0. If this is outside of the memory, every use of the result fails.
func (r Rows) At(x, y uint64) Rows {
	if reg := regionOf(r.Mem); reg.Mem == nil {
		return r // every use of it fails
	}
	s := r.Mem.span()
	over, off := bits.Mul64(y, r.Pitch)
	off, carry := bits.Add64(off, x, 0)
	switch {
	case over|carry != 0:
		off = math.MaxUint64 // outside
	case r.Pitch == 0 && y != 0:
		s.core().Fail(fmt.Errorf("%w: row %d of memory without a pitch", drivercall.ErrInvalid, y))
	}
	return Rows{s.Span(off, s.Size()-min(off, s.Size())), r.Pitch}
}

// Planes is memory in planes of rows, such as a volume.
type Planes struct {
	Rows
	// Height is the number of rows from the beginning of a plane to the beginning of the next one.
	// 0 means that there are no rows between the planes.
	Height uint64
}

// AllocPitch allocates device memory for rows of width bytes, as [Context.Alloc] does
// (cuMemAllocPitch). The driver chooses the pitch, such that the GPU accesses each row fast. A
// kernel accesses the rows by elements of 4, 8 or 16 bytes. It may wait for the GPU: see
// docs/blocking.md.
func (c *Context) AllocPitch(width, height uint64, element int) (m *DeviceMem, pitch uint64, err error) {
	const op = "cuMemAllocPitch"
	cc, err := c.enter(op)
	if err != nil {
		return nil, 0, err
	}
	defer c.leave()
	over, size := bits.Mul64(width, height)
	switch {
	case over != 0:
		return nil, 0, drivercall.BadValue(op, cc, fmt.Sprintf("%d rows of %d bytes are more than any memory", height, width))
	case width == 0 || height == 0:
		return nil, 0, drivercall.BadValue(op, cc, fmt.Sprintf("%d rows of %d bytes are no memory", height, width))
	case element != 4 && element != 8 && element != 16:
		return nil, 0, drivercall.BadValue(op, cc, fmt.Sprintf("elements of %d bytes: choose 4, 8 or 16", element))
	}
	var raw driver.DevicePtr
	res, collection := cc.Allocate(func() (res driver.Result) {
		raw, pitch, res = cc.Drv.Table().MemAllocPitch(driver.At{Context: cc.Raw}, width, height, uint32(element))
		return res
	})
	if res != driver.ResultSuccess {
		return nil, 0, memstate.OutOfMemory(cc, memstate.FailAlloc(cc, op, 0, size, res, collection))
	}
	size = pitch * height
	return newDeviceMem(cc, &memstate.Mem{Is: memstate.DeviceMemory, Raw: raw, Size: size, Capacity: size}), pitch, nil
}

// Copy2D enqueues a copy of a rectangle: of height rows of width bytes (cuMemcpy2DAsync). Memory
// and stream are as for [Stream.Copy], and both ends are of the stream's context or on the host.
// The ends must not overlap. It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Copy2D(dst, src Rows, width, height uint64) error {
	d, r := targetPlanes(Planes{Rows: dst}), planesOf(Planes{Rows: src})
	defer runtime.KeepAlive(src.Mem)
	defer runtime.KeepAlive(dst.Mem)
	return s.copyPlanes(core.WorkCopy2D, &d, &r, memstate.ExtentOf(width, height, 1))
}

// Copy3D enqueues a copy of a box: of depth planes of height rows of width bytes (cuMemcpy3DAsync).
// It is like [Stream.Copy2D]. It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Copy3D(dst, src Planes, width, height, depth uint64) error {
	d, r := targetPlanes(dst), planesOf(src)
	defer runtime.KeepAlive(src.Mem)
	defer runtime.KeepAlive(dst.Mem)
	return s.copyPlanes(core.WorkCopy3D, &d, &r, memstate.ExtentOf(width, height, depth))
}

func (s *Stream) copyPlanes(f core.WorkFunction, d, r *memstate.Planes, e memstate.Extent) error {
	op := f.Op()
	if d.Mem != nil && r.Mem != nil && d.Mem.OnHost() && r.Mem.OnHost() {
		return memstate.BetweenHost(op, &d.Region, &r.Region)
	}
	unfit := d.Fit(op, e)
	if err := r.Fit(op, e); unfit == nil {
		unfit = err
	}
	if unfit != nil && d.Usable() && r.Usable() { // else memstate.Begin says what is wrong
		return unfit
	}
	return s.core().CallWithRetry(op, func() error { return s.enqueuePlanes(f, d, r, e) })
}

func (s *Stream) enqueuePlanes(f core.WorkFunction, d, r *memstate.Planes, e memstate.Extent) error {
	w, err := memstate.Begin(s.core(), f, &d.Region, &r.Region)
	if err != nil {
		return err
	}
	sc, res := w.Stream, driver.ResultSuccess
	if t := sc.Ctx.Drv.Table(); !e.Empty() {
		c := driver.Memcpy3D{WidthInBytes: e.Width, Height: e.Height, Depth: e.Depth,
			DstPitch: d.Pitch, DstHeight: d.Height, SrcPitch: r.Pitch, SrcHeight: r.Height}
		c.DstMemoryType, c.DstHost, c.DstDevice = d.End()
		c.SrcMemoryType, c.SrcHost, c.SrcDevice = r.End()
		if f == core.WorkCopy3D {
			res = t.Memcpy3DAsync(sc.InContext(), c, sc.Raw)
		} else {
			res = t.Memcpy2DAsync(sc.InContext(), driver.Memcpy2D{WidthInBytes: e.Width, Height: e.Height,
				DstMemoryType: c.DstMemoryType, DstHost: c.DstHost, DstDevice: c.DstDevice, DstPitch: c.DstPitch,
				SrcMemoryType: c.SrcMemoryType, SrcHost: c.SrcHost, SrcDevice: c.SrcDevice, SrcPitch: c.SrcPitch},
				sc.Raw)
		}
	}
	return s.endPlanes(f, &w, d, r, e, res)
}

// Memset2D enqueues the setting of each byte of a rectangle: of height rows of width bytes
// (cuMemsetD2D8Async). The memory is as for [Stream.Memset]. It waits while the stream's queue is
// full: see docs/blocking.md.
func (s *Stream) Memset2D(dst Rows, value byte, width, height uint64) error {
	return s.setRows(core.WorkSet2D8, dst, memstate.ExtentOf(width, height, 1),
		func(sc *core.Stream, d *memstate.Planes) driver.Result {
			return sc.Ctx.Drv.Table().MemsetD2D8Async(sc.InContext(), d.Addr(), d.Pitch, value, width, height, sc.Raw)
		})
}

// Memset2D32 enqueues the setting of each 32-bit word of a rectangle: of height rows of width words
// (cuMemsetD2D32Async). Address and pitch must be multiples of four bytes. It waits while the
// stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset2D32(dst Rows, value uint32, width, height uint64) error {
	if err := dst.whole(core.WorkSet2D32.Op(), 4, width); err != nil {
		return err
	}
	return s.setRows(core.WorkSet2D32, dst, memstate.ExtentOf(4*width, height, 1),
		func(sc *core.Stream, d *memstate.Planes) driver.Result {
			return sc.Ctx.Drv.Table().MemsetD2D32Async(sc.InContext(), d.Addr(), d.Pitch, value, width, height, sc.Raw)
		})
}

// Memset2D16 is [Stream.Memset2D32] for words of 16 bits (cuMemsetD2D16Async). Address and pitch must
// be even. It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset2D16(dst Rows, value uint16, width, height uint64) error {
	if err := dst.whole(core.WorkSet2D16.Op(), 2, width); err != nil {
		return err
	}
	return s.setRows(core.WorkSet2D16, dst, memstate.ExtentOf(2*width, height, 1),
		func(sc *core.Stream, d *memstate.Planes) driver.Result {
			return sc.Ctx.Drv.Table().MemsetD2D16Async(sc.InContext(), d.Addr(), d.Pitch, value, width, height, sc.Raw)
		})
}

// whole returns an error unless the rows can have width words of size bytes each.
func (r Rows) whole(op string, size, width uint64) error {
	d := planesOf(Planes{Rows: r})
	return d.CheckWords(op, size, width)
}

// setRows enqueues the setting of a rectangle.
func (s *Stream) setRows(f core.WorkFunction, dst Rows, e memstate.Extent,
	set func(*core.Stream, *memstate.Planes) driver.Result) error {
	d := targetPlanes(Planes{Rows: dst})
	defer runtime.KeepAlive(dst.Mem)
	if err := d.Fit(f.Op(), e); err != nil {
		return err
	}
	return s.core().CallWithRetry(f.Op(), func() error {
		w, err := memstate.Begin(s.core(), f, &d.Region, &d.Region)
		if err != nil {
			return err
		}
		res := driver.ResultSuccess
		if !e.Empty() {
			res = set(w.Stream, &d)
		}
		return s.endPlanes(f, &w, &d, &d, e, res)
	})
}

// endPlanes ends the call that memstate.Begin began. res is the driver's result.
func (s *Stream) endPlanes(f core.WorkFunction, w *core.Work, d, r *memstate.Planes, e memstate.Extent,
	res driver.Result) error {
	w.Stream.LeaveGate()
	w.End()
	runtime.KeepAlive(s)
	switch {
	case res != driver.ResultSuccess:
		return w.Stream.Ctx.CallError(f.Op(), uintptr(w.Stream.Raw), res)
	case e.Empty() || w.Stream.Ctx.Drv.Observer() == nil:
		return nil
	}
	w.ObserveUses(f.Op(), memstate.UsedByPlanes(d, r, e))
	return nil
}

func planesOf(p Planes) memstate.Planes {
	return memstate.Planes{Region: regionOf(p.Mem), Pitch: p.Pitch, Height: p.Height}
}

// targetPlanes is planesOf for planes that work writes.
func targetPlanes(p Planes) memstate.Planes {
	return memstate.Planes{Region: targetOf(p.Mem), Pitch: p.Pitch, Height: p.Height}
}
