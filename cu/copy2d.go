package cu

import (
	"fmt"
	"math"
	"math/bits"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/races"
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
		s.core().Fail(fmt.Errorf("%w: row %d of memory without a pitch", core.ErrInvalid, y))
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
		return nil, 0, core.BadValue(op, cc, fmt.Sprintf("%d rows of %d bytes are more than any memory", height, width))
	case width == 0 || height == 0:
		return nil, 0, core.BadValue(op, cc, fmt.Sprintf("%d rows of %d bytes are no memory", height, width))
	case element != 4 && element != 8 && element != 16:
		return nil, 0, core.BadValue(op, cc, fmt.Sprintf("elements of %d bytes: choose 4, 8 or 16", element))
	}
	var raw driver.DevicePtr
	res, own := cc.Allocate(func() (res driver.Result) {
		raw, pitch, res = cc.Drv.Table().MemAllocPitch(driver.At{Context: cc.Raw}, width, height, uint32(element))
		return res
	})
	if res != driver.ResultSuccess {
		return nil, 0, cc.OutOfMemory(cc.FailAlloc(op, 0, size, res, own))
	}
	size = pitch * height
	return newDeviceMem(cc, &core.Mem{Is: core.DeviceMemory, Raw: raw, Size: size, Capacity: size}), pitch, nil
}

// Copy2D enqueues a copy of a rectangle: of height rows of width bytes (cuMemcpy2DAsync). Memory
// and stream are as for [Stream.Copy], and both ends are of the stream's context or on the host.
// The ends must not overlap. It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Copy2D(dst, src Rows, width, height uint64) error {
	d, r := targetPlanes(Planes{Rows: dst}), planesOf(Planes{Rows: src})
	defer runtime.KeepAlive(src.Mem)
	defer runtime.KeepAlive(dst.Mem)
	return s.copyPlanes(core.WorkCopy2D, &d, &r, extent{width, height, 1})
}

// Copy3D enqueues a copy of a box: of depth planes of height rows of width bytes (cuMemcpy3DAsync).
// It is like [Stream.Copy2D]. It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Copy3D(dst, src Planes, width, height, depth uint64) error {
	d, r := targetPlanes(dst), planesOf(src)
	defer runtime.KeepAlive(src.Mem)
	defer runtime.KeepAlive(dst.Mem)
	return s.copyPlanes(core.WorkCopy3D, &d, &r, extent{width, height, depth})
}

func (s *Stream) copyPlanes(f core.WorkFunction, d, r *planes, e extent) error {
	op := f.Op()
	if d.Mem != nil && r.Mem != nil && d.Mem.OnHost() && r.Mem.OnHost() {
		return core.BetweenHost(op, &d.Region, &r.Region)
	}
	unfit := d.fit(op, e)
	if err := r.fit(op, e); unfit == nil {
		unfit = err
	}
	if unfit != nil && d.Usable() && r.Usable() { // else BeginMemory says what is wrong
		return unfit
	}
	return s.core().Attempt(op, func() error { return s.enqueuePlanes(f, d, r, e) })
}

func (s *Stream) enqueuePlanes(f core.WorkFunction, d, r *planes, e extent) error {
	w, err := s.core().BeginMemory(f, &d.Region, &r.Region)
	if err != nil {
		return err
	}
	sc, res := w.Stream, driver.ResultSuccess
	if t := sc.Ctx.Drv.Table(); !e.empty() {
		c := driver.Memcpy3D{WidthInBytes: e.width, Height: e.height, Depth: e.depth,
			DstPitch: d.pitch, DstHeight: d.height, SrcPitch: r.pitch, SrcHeight: r.height}
		c.DstMemoryType, c.DstHost, c.DstDevice = d.end()
		c.SrcMemoryType, c.SrcHost, c.SrcDevice = r.end()
		if f == core.WorkCopy3D {
			res = t.Memcpy3DAsync(sc.InContext(), c, sc.Raw)
		} else {
			res = t.Memcpy2DAsync(sc.InContext(), driver.Memcpy2D{WidthInBytes: e.width, Height: e.height,
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
	return s.setRows(core.WorkSet2D8, dst, extent{width, height, 1}, func(sc *core.Stream, d *planes) driver.Result {
		return sc.Ctx.Drv.Table().MemsetD2D8Async(sc.InContext(), d.Addr(), d.pitch, value, width, height, sc.Raw)
	})
}

// Memset2D32 enqueues the setting of each 32-bit word of a rectangle: of height rows of width words
// (cuMemsetD2D32Async). Address and pitch must be multiples of four bytes. It waits while the
// stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset2D32(dst Rows, value uint32, width, height uint64) error {
	if err := dst.whole(core.WorkSet2D32.Op(), 4, width); err != nil {
		return err
	}
	return s.setRows(core.WorkSet2D32, dst, extent{4 * width, height, 1},
		func(sc *core.Stream, d *planes) driver.Result {
			return sc.Ctx.Drv.Table().MemsetD2D32Async(sc.InContext(), d.Addr(), d.pitch, value, width, height, sc.Raw)
		})
}

// Memset2D16 is [Stream.Memset2D32] for words of 16 bits (cuMemsetD2D16Async). Address and pitch must
// be even. It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset2D16(dst Rows, value uint16, width, height uint64) error {
	if err := dst.whole(core.WorkSet2D16.Op(), 2, width); err != nil {
		return err
	}
	return s.setRows(core.WorkSet2D16, dst, extent{2 * width, height, 1},
		func(sc *core.Stream, d *planes) driver.Result {
			return sc.Ctx.Drv.Table().MemsetD2D16Async(sc.InContext(), d.Addr(), d.pitch, value, width, height, sc.Raw)
		})
}

// whole returns an error unless the rows can have width words of size bytes each.
func (r Rows) whole(op string, size, width uint64) error {
	d := planesOf(Planes{Rows: r})
	return d.whole(op, size, width)
}

func (p *planes) whole(op string, size, width uint64) error {
	switch {
	case p.Usable() && (uint64(p.Addr())%size != 0 || p.pitch%size != 0):
		return core.BadValue(op, p.Mem, fmt.Sprintf("rows at the address %#x, with a pitch of %d bytes: "+
			"address and pitch must be multiples of %d", uint64(p.Addr()), p.pitch, size))
	case width > math.MaxUint32:
		return core.BadValue(op, nil, fmt.Sprintf("rows of %d words are too long", width))
	}
	return nil
}

// setRows enqueues the setting of a rectangle.
func (s *Stream) setRows(f core.WorkFunction, dst Rows, e extent, set func(*core.Stream, *planes) driver.Result) error {
	d := targetPlanes(Planes{Rows: dst})
	defer runtime.KeepAlive(dst.Mem)
	if err := d.fit(f.Op(), e); err != nil {
		return err
	}
	return s.core().Attempt(f.Op(), func() error {
		w, err := s.core().BeginMemory(f, &d.Region, &d.Region)
		if err != nil {
			return err
		}
		res := driver.ResultSuccess
		if !e.empty() {
			res = set(w.Stream, &d)
		}
		return s.endPlanes(f, &w, &d, &d, e, res)
	})
}

// endPlanes ends the call that BeginMemory began. res is the driver's result.
func (s *Stream) endPlanes(f core.WorkFunction, w *core.Work, d, r *planes, e extent, res driver.Result) error {
	w.Stream.EndLegacy()
	w.End()
	runtime.KeepAlive(s)
	switch {
	case res != driver.ResultSuccess:
		return w.Stream.Ctx.CallError(f.Op(), uintptr(w.Stream.Raw), res)
	case e.empty() || w.Stream.Ctx.Drv.Observer() == nil:
		return nil
	}
	w.ObserveUses(f.Op(), usedByPlanes(d, r, e))
	return nil
}

// usedByPlanes returns the uses of memory by the copy of a box, or by a memset, whose ends are the same.
func usedByPlanes(d, r *planes, e extent) []races.Use {
	uses := d.uses(e, true, "destination")
	if d != r {
		uses = append(uses, r.uses(e, false, "source")...)
	}
	return uses
}

// extent is the size of a box: the bytes of a row, the rows of a plane, and the planes.
type extent struct{ width, height, depth uint64 }

func (e extent) empty() bool { return e.width == 0 || e.height == 0 || e.depth == 0 }

// planes is a region in planes of rows.
type planes struct {
	core.Region
	pitch, height uint64
}

func planesOf(p Planes) planes { return planes{regionOf(p.Mem), p.Pitch, p.Height} }

// targetPlanes is planesOf for planes that work writes.
func targetPlanes(p Planes) planes { return planes{targetOf(p.Mem), p.Pitch, p.Height} }

// fit replaces a pitch and a height of 0, and returns an error unless a box lies within the region.
func (p *planes) fit(op string, e extent) error {
	if p.pitch == 0 {
		p.pitch = e.width
	}
	if p.height == 0 {
		p.height = e.height
	}
	if !p.Usable() || e.empty() {
		return nil // BeginMemory finds the mistake
	}
	if p.pitch < e.width || p.height < e.height {
		return core.BadValue(op, p.Mem, fmt.Sprintf("%d rows of %d bytes do not fit into %d rows of %d: "+
			"the pitch or the height is too small", e.height, e.width, p.height, p.pitch))
	}
	over, rows := bits.Mul64(e.depth-1, p.height)
	rows, carry := bits.Add64(rows, e.height-1, 0)
	over2, n := bits.Mul64(rows, p.pitch)
	n, carry2 := bits.Add64(n, e.width, 0)
	if over|over2|carry|carry2 != 0 || n > p.Size {
		return core.BadValue(op, p.Mem, fmt.Sprintf("%d planes of %d rows of %d bytes, with a pitch of %d, "+
			"do not fit into %d bytes", e.depth, e.height, e.width, p.pitch, p.Size))
	}
	return nil
}

// end returns the region as one end of a copy.
func (p *planes) end() (kind int32, host driver.HostPtr, dev driver.DevicePtr) {
	if p.Mem.OnHost() {
		return driver.CU_MEMORYTYPE_HOST, p.HostAddr(), 0
	}
	return driver.CU_MEMORYTYPE_DEVICE, 0, p.Addr()
}

// uses returns the uses of the rows of a box, for the race detector.
func (p *planes) uses(e extent, write bool, as string) (uses []races.Use) {
	for z := range e.depth {
		for y := range e.height {
			u := p.Mem.Used(p.Off+(z*p.height+y)*p.pitch, e.width, write, as)
			if n := len(uses); n > 0 && uses[n-1].Addr+uses[n-1].Size == u.Addr {
				uses[n-1].Size += u.Size
			} else {
				uses = append(uses, u)
			}
		}
	}
	return uses
}
