package graph

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/races"
	"github.com/purecu/purecu/internal/subject"
)

// This file has the nodes of a graph that copy and set memory.

// keptOfMemory is what an executable graph cannot change of a copy or a memset.
const keptOfMemory = "the contexts and kinds of memory of a copy or memset, the size and pitch of a memset of " +
	"several rows, and all of a copy of several rows"

var copyRow = &nodeFuncs[*driver.Memcpy3D]{&nodeRow{
	typ: NodeTypeMemcpy, kept: keptOfMemory,
	add: "cuGraphAddMemcpyNode", set: "cuGraphMemcpyNodeSetParams", execSet: "cuGraphExecMemcpyNodeSetParams",
},
	func(t *driver.Table, at driver.At, g driver.Graph, deps []driver.GraphNode,
		p *driver.Memcpy3D) (driver.GraphNode, driver.Result) {
		return t.GraphAddMemcpyNode(at, g, deps, p, at.Context)
	},
	(*driver.Table).GraphMemcpyNodeSetParams,
	func(t *driver.Table, at driver.At, x driver.GraphExec, n driver.GraphNode, p *driver.Memcpy3D) driver.Result {
		return t.GraphExecMemcpyNodeSetParams(at, x, n, p, at.Context)
	}}

func (w *Copy) row() *nodeRow { return rowIf(w != nil, copyRow.nodeRow) }

// copyWork copies a box of one memory to another one.
type copyWork struct {
	nodeParams[*driver.Memcpy3D]
	params   driver.Memcpy3D
	to, from memstate.Planes
	box      memstate.Extent
}

func (w *copyWork) seen(c *nodeCall, _ Work) races.NodeWork {
	return races.NodeWork{Call: c.op, Uses: memstate.UsedByPlanes(&w.to, &w.from, w.box)}
}

func (w *Copy) prepare(c *nodeCall) error {
	told := &c.copy
	d, r, b := &told.to, &told.from, w.Box
	d.Region, r.Region = subject.RegionOf(w.Dst).Target(), subject.RegionOf(w.Src)
	if err := c.keepRegions(&d.Region, &r.Region); err != nil {
		return err
	}
	switch {
	case d.Mem.OnHost() && r.Mem.OnHost():
		return memstate.BetweenHost(c.op, &d.Region, &r.Region)
	case b == nil && r.Size > d.Size:
		return memstate.TooSmall(c.op, r.Size, d.Size)
	case b == nil:
		told.box = memstate.ExtentOf(r.Size, 1, 1)
	case d.Mem.Ctx != r.Mem.Ctx && !d.Mem.Everywhere() && !r.Mem.Everywhere():
		return core.MixedError(c.op, core.InRole("destination", d.Mem), core.InRole("source", r.Mem))
	default:
		d.Pitch, d.Height, r.Pitch, r.Height = b.DstPitch, b.DstHeight, b.SrcPitch, b.SrcHeight
		told.box = memstate.ExtentOf(b.Width, b.Height, b.Depth)
	}
	for _, p := range [...]*memstate.Planes{d, r} {
		if err := p.Fit(c.op, told.box); err != nil {
			return err
		}
	}
	c.ctx = d.Mem.Ctx
	if d.Mem.OnHost() || b != nil && d.Mem.Everywhere() && !r.Mem.OnHost() {
		c.ctx = r.Mem.Ctx
	}
	told.params = driver.Memcpy3D{WidthInBytes: told.box.Width, Height: told.box.Height, Depth: told.box.Depth,
		DstPitch: d.Pitch, DstHeight: d.Height, SrcPitch: r.Pitch, SrcHeight: r.Height}
	told.params.DstMemoryType, told.params.DstHost, told.params.DstDevice = d.End()
	told.params.SrcMemoryType, told.params.SrcHost, told.params.SrcDevice = r.End()
	told.f, told.p = copyRow, &told.params
	return c.orEmpty(told, told.box.Empty())
}

func (c *nodeCall) readCopy() (*Copy, error) {
	p, err := askNode(c, "cuGraphMemcpyNodeGetParams", (*driver.Table).GraphMemcpyNodeGetParams)
	if err != nil {
		return nil, err
	}
	addr := func(kind int32, host driver.HostPtr, dev driver.DevicePtr, x, y, z, pitch, height uint64) uint64 {
		a := uint64(dev)
		switch kind {
		case driver.CU_MEMORYTYPE_ARRAY:
			return 0
		case driver.CU_MEMORYTYPE_HOST:
			a = uint64(host)
		}
		return a + x + pitch*(y+height*z)
	}
	w := &Copy{
		DstAddr: addr(p.DstMemoryType, p.DstHost, p.DstDevice, p.DstXInBytes, p.DstY, p.DstZ, p.DstPitch, p.DstHeight),
		SrcAddr: addr(p.SrcMemoryType, p.SrcHost, p.SrcDevice, p.SrcXInBytes, p.SrcY, p.SrcZ, p.SrcPitch, p.SrcHeight),
		Box:     &Box{Width: p.WidthInBytes, Height: p.Height, Depth: p.Depth},
	}
	if p.DstMemoryType != driver.CU_MEMORYTYPE_ARRAY {
		w.Box.DstPitch, w.Box.DstHeight = p.DstPitch, p.DstHeight
	}
	if p.SrcMemoryType != driver.CU_MEMORYTYPE_ARRAY {
		w.Box.SrcPitch, w.Box.SrcHeight = p.SrcPitch, p.SrcHeight
	}
	return w, nil
}

var memsetRow = &nodeFuncs[*driver.MemsetNodeParams]{&nodeRow{
	typ: NodeTypeMemset, kept: keptOfMemory,
	add: "cuGraphAddMemsetNode", set: "cuGraphMemsetNodeSetParams", execSet: "cuGraphExecMemsetNodeSetParams",
},
	func(t *driver.Table, at driver.At, g driver.Graph, deps []driver.GraphNode,
		p *driver.MemsetNodeParams) (driver.GraphNode, driver.Result) {
		return t.GraphAddMemsetNode(at, g, deps, p, at.Context)
	},
	(*driver.Table).GraphMemsetNodeSetParams,
	func(t *driver.Table, at driver.At, x driver.GraphExec, n driver.GraphNode,
		p *driver.MemsetNodeParams) driver.Result {
		return t.GraphExecMemsetNodeSetParams(at, x, n, p, at.Context)
	}}

func (w *Memset) row() *nodeRow { return rowIf(w != nil, memsetRow.nodeRow) }

// memsetWork sets a rectangle of memory.
type memsetWork struct {
	nodeParams[*driver.MemsetNodeParams]
	params driver.MemsetNodeParams
	to     memstate.Planes
	box    memstate.Extent
}

func (w *memsetWork) seen(c *nodeCall, _ Work) races.NodeWork {
	return races.NodeWork{Call: c.op, Uses: memstate.UsedByPlanes(&w.to, &w.to, w.box)}
}

func (w *Memset) prepare(c *nodeCall) error {
	told := &c.memset
	d, size := &told.to, uint64(max(w.ElementSize, 1))
	d.Region = subject.RegionOf(w.Dst).Target()
	if err := c.keepRegions(&d.Region, &d.Region); err != nil {
		return err
	}
	switch {
	case size != 1 && size != 2 && size != 4:
		return drivercall.BadValue(c.op, c.gc,
			fmt.Sprintf("elements of %d bytes cannot be set: ElementSize is 1, 2 or 4", size))
	case uint64(w.Value)>>(8*size) != 0:
		return drivercall.BadValue(c.op, c.gc,
			fmt.Sprintf("the value %#x does not fit into an element of %d bytes: set ElementSize", w.Value, size))
	case d.Mem.Raw == 0:
		return drivercall.Misuse(c.op, d.Mem, memstate.ErrUnmapped, "allocate it with HostDeviceMap")
	}
	told.params = driver.MemsetNodeParams{Dst: d.Addr(), Value: w.Value, ElementSize: uint32(size)}
	if r := w.Rect; r == nil {
		if d.Off%size != 0 || d.Size%size != 0 {
			return notWhole(c.op, &d.Region, size)
		}
		if c.xc != nil && told.mixesBytes() {
			return drivercall.BadValue(c.op, c.gc, "NVIDIA's driver may mix up the bytes of fewer than 8 words of managed "+
				"memory: set bytes, 32-bit words or more words, or instantiate the changed graph again")
		}
		told.box = memstate.ExtentOf(d.Size, 1, 1)
		told.params.Width, told.params.Height = d.Size/size, 1
	} else {
		d.Pitch = r.Pitch
		if size > 1 { // then the size of a row must not overflow
			if err := d.CheckWords(c.op, size, r.Width); err != nil {
				return err
			}
		}
		told.box = memstate.ExtentOf(size*r.Width, r.Height, 1)
		if err := d.Fit(c.op, told.box); err != nil {
			return err
		}
		told.params.Width, told.params.Height, told.params.Pitch = r.Width, r.Height, d.Pitch
	}
	c.ctx = d.Mem.Ctx
	told.f, told.p = memsetRow, &told.params
	return c.orEmpty(told, told.box.Empty())
}

// mixesBytes reports whether an executable graph may set other words of managed memory than it
// should. An H100 and an H200 (driver 580) mix the bits of both bytes from the second launch on, if
// there are fewer than 16 bytes, and the node was instantiated with memory that is not managed.
func (w *memsetWork) mixesBytes() bool {
	p := &w.params
	return p.ElementSize == 2 && w.to.Mem.Is.Managed && w.to.Size < 16 && p.Value>>8 != p.Value&0xff
}

// notWhole returns the error for memory that is not a number of elements.
func notWhole(op string, d *memstate.Region, size uint64) error {
	return drivercall.BadValue(op, d.Mem,
		fmt.Sprintf("%d bytes at %d are not whole words: offset and size must be multiples of %d", d.Size, d.Off, size))
}

func (c *nodeCall) readMemset() (*Memset, error) {
	p, err := askNode(c, "cuGraphMemsetNodeGetParams", (*driver.Table).GraphMemsetNodeGetParams)
	if err != nil {
		return nil, err
	}
	return &Memset{Addr: uint64(p.Dst), Value: p.Value, ElementSize: p.ElementSize,
		Rect: &Rect{p.Width, p.Height, p.Pitch}}, nil
}

// keepRegions checks the regions of a copy or memset, which may be the same, and keeps their memory.
func (c *nodeCall) keepRegions(d, r *memstate.Region) error {
	for _, sp := range [...]*memstate.Region{d, r} {
		if err := sp.Missing(c.op); err != nil {
			return err
		}
		if sp.Mem.Ctx.Drv != c.gc.Ctx.Drv {
			return core.MixedError(c.op, sp.Mem, c.gc)
		}
		if err := sp.Check(c.op); err != nil {
			return err
		}
		if m := sp.Mem; !keep(c, &m.Resource, m) {
			return m.Refused(c.op)
		}
		if d == r {
			break
		}
	}
	return nil
}
