package cu

import (
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/races"
)

// MemCopy is one copy of [Stream.CopyAll]: of Src to the beginning of Dst.
type MemCopy struct{ Dst, Src Memory }

// BoxCopy is one copy of [Stream.Copy3DAll]: of a box of Depth planes of Height rows of Width bytes.
type BoxCopy struct {
	Dst, Src             Planes
	Width, Height, Depth uint64
}

// CopyAll enqueues copies, with the result of [Stream.Copy] for each in order (cuMemcpyBatchAsync,
// CUDA 12.8). If some fail, the error is a [*BatchError], and the others are enqueued. It waits while
// the stream's queue is full: see docs/blocking.md.
//
// It makes one call of the driver, which may make the copies at the same time. Copies are enqueued
// one by one if some of them overlap, are between devices, or fail; on default streams, while the
// stream is captured, and if the driver is older.
func (s *Stream) CopyAll(copies []MemCopy) error {
	b := copyBatch{f: core.WorkCopyAll, one: func(i int) error { return s.Copy(copies[i].Dst, copies[i].Src) }}
	b.reserve(len(copies))
	for i := range copies {
		d, r := targetOf(copies[i].Dst), regionOf(copies[i].Src)
		b.add(memstate.Planes{Region: d, Height: 1}, memstate.Planes{Region: r, Height: 1}, memstate.ExtentOf(r.Size, 1, 1))
	}
	defer runtime.KeepAlive(copies)
	return b.enqueue(s, func(sc *core.Stream) driver.Result {
		n := len(b.extents)
		dsts, srcs, sizes := make([]driver.DevicePtr, n), make([]driver.DevicePtr, n), make([]uint64, n)
		for i, e := range b.extents {
			dsts[i], srcs[i] = driver.DevicePtr(b.regions[2*i].Unified()), driver.DevicePtr(b.regions[2*i+1].Unified())
			sizes[i] = e.Width
		}
		// The newer version does not return the index of a copy that the driver refuses, which nobody needs.
		_, res := sc.Ctx.Drv.Table().MemcpyBatchAsyncV1(sc.InContext(), dsts, srcs, sizes,
			[]driver.MemcpyAttributes{{SrcAccessOrder: driver.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}}, []uint64{0}, sc.Raw)
		return res
	})
}

// Copy3DAll enqueues copies of boxes, with the result of [Stream.Copy3D] for each in order
// (cuMemcpy3DBatchAsync, CUDA 12.8). It is like [Stream.CopyAll]. It waits while the stream's queue is
// full: see docs/blocking.md.
func (s *Stream) Copy3DAll(copies []BoxCopy) error {
	b := copyBatch{f: core.WorkCopy3DAll, one: func(i int) error {
		c := &copies[i]
		return s.Copy3D(c.Dst, c.Src, c.Width, c.Height, c.Depth)
	}}
	b.reserve(len(copies))
	for i := range copies {
		c := &copies[i]
		b.add(targetPlanes(c.Dst), planesOf(c.Src), memstate.ExtentOf(c.Width, c.Height, c.Depth))
	}
	defer runtime.KeepAlive(copies)
	return b.enqueue(s, func(sc *core.Stream) driver.Result {
		ops := make([]driver.Memcpy3DBatchOp, len(b.extents))
		for i, e := range b.extents {
			ops[i] = driver.Memcpy3DBatchOp{Dst: b.planes[2*i].Operand(), Src: b.planes[2*i+1].Operand(),
				Extent:         driver.Extent3D{Width: e.Width, Height: e.Height, Depth: e.Depth},
				SrcAccessOrder: driver.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}
		}
		_, res := sc.Ctx.Drv.Table().Memcpy3DBatchAsyncV1(sc.InContext(), ops, 0, sc.Raw)
		return res
	})
}

// copyBatch is copies that may be made by one call.
type copyBatch struct {
	f   core.WorkFunction
	one func(i int) error // makes one copy alone
	// extents has the size of each copy; planes and regions have its destination, and then its source.
	extents []memstate.Extent
	planes  []memstate.Planes
	regions []memstate.Region
	apart   bool // no copy has to be made alone
}

func (b *copyBatch) reserve(n int) {
	b.extents, b.planes = make([]memstate.Extent, 0, n), make([]memstate.Planes, 0, 2*n)
	b.regions = make([]memstate.Region, 0, 2*n)
	b.apart = n > 1
}

func (b *copyBatch) add(d, r memstate.Planes, e memstate.Extent) {
	op := b.f.Op()
	b.extents, b.planes, b.regions = append(b.extents, e), append(b.planes, d, r), append(b.regions, d.Region, r.Region)
	if !b.apart {
		return
	}
	i := len(b.planes) - 2
	f := copyFunction(&d.Region, &r.Region)
	b.apart = d.Valid() && r.Valid() && !e.Empty() && f != 0 && f != core.WorkCopyPeer &&
		b.planes[i].Fit(op, e) == nil && b.planes[i+1].Fit(op, e) == nil
}

// enqueue enqueues the copies, if possible by the call.
func (b *copyBatch) enqueue(s *Stream, call func(*core.Stream) driver.Result) error {
	defer runtime.KeepAlive(s)
	if b.apart {
		list := make([]memstate.RowRange, len(b.planes))
		for i := range b.planes {
			list[i] = b.planes[i].Range(b.extents[i/2], i%2 == 0)
		}
		b.apart = !memstate.Overlap(list)
	}
	if b.apart && memstate.EnqueueBatch(s.core(), b.f, b.regions, call) {
		b.observe(s)
		return nil
	}
	return drivercall.OneByOne(b.f.Op(), len(b.extents), b.one)
}

// observe tells the race detector of the copies.
func (b *copyBatch) observe(s *Stream) {
	sc := s.core()
	o := sc.Ctx.Drv.Observer()
	if o == nil {
		return
	}
	for i, e := range b.extents {
		var uses []races.Use
		uses = append(uses, b.planes[2*i].Uses(e, true, "destination")...)
		o.Enqueue(sc.Observed(), b.f.Op(), "", append(uses, b.planes[2*i+1].Uses(e, false, "source")...))
	}
	o.Report()
}
