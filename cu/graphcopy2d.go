package cu

import (
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
)

// This file has the nodes of a graph that copy and set rectangles and boxes.

// AddCopy2D adds a node that copies a rectangle, of height rows of width bytes, and that comes after
// other nodes; see [Stream.Copy2D]. Both ends are of one context, or one of them is on the host
// (cuGraphAddMemcpyNode). An empty copy is an empty node.
func (g *Graph) AddCopy2D(dst, src Rows, width, height uint64, after ...GraphNode) (GraphNode, error) {
	return g.addPlanes(Planes{Rows: dst}, Planes{Rows: src}, extent{width, height, 1}, after)
}

// AddCopy3D adds a node that copies a box, of depth planes of height rows of width bytes, and that
// comes after other nodes; see [Stream.Copy3D] and [Graph.AddCopy2D] (cuGraphAddMemcpyNode).
func (g *Graph) AddCopy3D(dst, src Planes, width, height, depth uint64, after ...GraphNode) (GraphNode, error) {
	return g.addPlanes(dst, src, extent{width, height, depth}, after)
}

func (g *Graph) addPlanes(dst, src Planes, e extent, after []GraphNode) (GraphNode, error) {
	d, r := targetPlanes(dst), planesOf(src)
	defer runtime.KeepAlive(src.Mem)
	defer runtime.KeepAlive(dst.Mem)
	return g.addWork(copyNodes.add, GraphNodeTypeMemcpy, after,
		func(c *nodeCall) error { return c.copyPlanes(&d, &r, e) },
		func() races.NodeWork { return races.NodeWork{Uses: usedByPlanes(&d, &r, e)} })
}

// AddMemset2D adds a node that sets each byte of a rectangle, of height rows of width bytes, and that
// comes after other nodes; see [Stream.Memset2D] (cuGraphAddMemsetNode). An empty rectangle makes it
// an empty node.
func (g *Graph) AddMemset2D(dst Rows, value byte, width, height uint64, after ...GraphNode) (GraphNode, error) {
	return g.addRows(dst, &rowsFill{uint32(value), 1, width, height}, after)
}

// AddMemset2D32 is AddMemset2D for rows of width 32-bit words: see [Stream.Memset2D32]
// (cuGraphAddMemsetNode).
func (g *Graph) AddMemset2D32(dst Rows, value uint32, width, height uint64, after ...GraphNode) (GraphNode, error) {
	return g.addRows(dst, &rowsFill{value, 4, width, height}, after)
}

// AddMemset2D16 is AddMemset2D for rows of width words of 16 bits: see [Stream.Memset2D16]
// (cuGraphAddMemsetNode).
func (g *Graph) AddMemset2D16(dst Rows, value uint16, width, height uint64, after ...GraphNode) (GraphNode, error) {
	return g.addRows(dst, &rowsFill{uint32(value), 2, width, height}, after)
}

func (g *Graph) addRows(dst Rows, f *rowsFill, after []GraphNode) (GraphNode, error) {
	d := targetPlanes(Planes{Rows: dst})
	defer runtime.KeepAlive(dst.Mem)
	return g.addWork(fillNodes.add, GraphNodeTypeMemset, after,
		func(c *nodeCall) error { return c.fillRows(&d, f) },
		func() races.NodeWork { return races.NodeWork{Uses: usedByPlanes(&d, &d, f.extent())} })
}

// SetCopy2D replaces the memory of a node that copies. The node copies a rectangle from now on: see
// [Graph.AddCopy2D]. Executable graphs that were made before do not change. They cannot be changed
// either: the driver replaces no copy of several rows in an executable graph, so instantiate the graph
// again (cuGraphMemcpyNodeSetParams).
func (n GraphNode) SetCopy2D(dst, src Rows, width, height uint64) error {
	return n.setPlanes(Planes{Rows: dst}, Planes{Rows: src}, extent{width, height, 1})
}

// SetCopy3D is SetCopy2D for a box: see [Graph.AddCopy3D] (cuGraphMemcpyNodeSetParams).
func (n GraphNode) SetCopy3D(dst, src Planes, width, height, depth uint64) error {
	return n.setPlanes(dst, src, extent{width, height, depth})
}

// SetMemset2D replaces the memory and the value of a node that sets bytes or words. The node sets the
// bytes of a rectangle from now on: see [Graph.AddMemset2D]. Executable graphs that were made before
// do not change: see [GraphExec.SetMemset2D] (cuGraphMemsetNodeSetParams).
func (n GraphNode) SetMemset2D(dst Rows, value byte, width, height uint64) error {
	return n.setRows(nil, fillNodes.set, dst, rowsFill{uint32(value), 1, width, height})
}

// SetMemset2D32 is SetMemset2D for rows of 32-bit words: see [Graph.AddMemset2D32]
// (cuGraphMemsetNodeSetParams).
func (n GraphNode) SetMemset2D32(dst Rows, value uint32, width, height uint64) error {
	return n.setRows(nil, fillNodes.set, dst, rowsFill{value, 4, width, height})
}

// SetMemset2D16 is SetMemset2D for rows of words of 16 bits: see [Graph.AddMemset2D16]
// (cuGraphMemsetNodeSetParams).
func (n GraphNode) SetMemset2D16(dst Rows, value uint16, width, height uint64) error {
	return n.setRows(nil, fillNodes.set, dst, rowsFill{uint32(value), 2, width, height})
}

// SetMemset2D replaces the memory and the value of a node that sets a rectangle, for later launches:
// see [GraphExec.SetKernel]. The memory must be of the same context as before. If there are several
// rows, now or before, only the address and the value can change: the sizes of elements and rows, their
// number and the pitch must be the same (cuGraphExecMemsetNodeSetParams).
func (x *GraphExec) SetMemset2D(n GraphNode, dst Rows, value byte, width, height uint64) error {
	return x.setRows(n, dst, rowsFill{uint32(value), 1, width, height})
}

// SetMemset2D32 is SetMemset2D for rows of 32-bit words: see [Graph.AddMemset2D32]
// (cuGraphExecMemsetNodeSetParams).
func (x *GraphExec) SetMemset2D32(n GraphNode, dst Rows, value uint32, width, height uint64) error {
	return x.setRows(n, dst, rowsFill{value, 4, width, height})
}

// SetMemset2D16 is SetMemset2D for rows of words of 16 bits: see [Graph.AddMemset2D16]
// (cuGraphExecMemsetNodeSetParams).
func (x *GraphExec) SetMemset2D16(n GraphNode, dst Rows, value uint16, width, height uint64) error {
	return x.setRows(n, dst, rowsFill{uint32(value), 2, width, height})
}

func (x *GraphExec) setRows(n GraphNode, dst Rows, f rowsFill) error {
	if err := x.owns(n, fillNodes.execSet); err != nil {
		return err
	}
	return n.setRows(x, fillNodes.execSet, dst, f)
}

func (n GraphNode) setPlanes(dst, src Planes, e extent) error {
	d, r := targetPlanes(dst), planesOf(src)
	c, err := n.beginSet(nil, copyNodes.set, GraphNodeTypeMemcpy)
	if err != nil {
		return err
	}
	if err = c.copyPlanes(&d, &r, e); err == nil {
		err = c.set()
	}
	if err == nil && c.gc.ctx.drv.observer() != nil {
		c.observeSet(races.NodeWork{Uses: usedByPlanes(&d, &r, e)})
	}
	n.finish(nil, c)
	runtime.KeepAlive(dst.Mem)
	runtime.KeepAlive(src.Mem)
	return err
}

func (n GraphNode) setRows(x *GraphExec, op string, dst Rows, f rowsFill) error {
	d := targetPlanes(Planes{Rows: dst})
	c, err := n.beginSet(x, op, GraphNodeTypeMemset)
	if err != nil {
		return err
	}
	if err = c.fillRows(&d, &f); err == nil {
		err = c.set()
	}
	if err == nil && c.gc.ctx.drv.observer() != nil {
		c.observeSet(races.NodeWork{Uses: usedByPlanes(&d, &d, f.extent())})
	}
	n.finish(x, c)
	runtime.KeepAlive(dst.Mem)
	return err
}

// copyPlanes makes the node copy a box. An empty copy makes it an empty node.
func (c *nodeCall) copyPlanes(d, r *planes, e extent) error {
	if err := c.keepRegions(&d.region, &r.region); err != nil {
		return err
	}
	switch {
	case d.mem.onHost() && r.mem.onHost():
		return betweenHost(c.op, &d.region, &r.region)
	case d.mem.ctx != r.mem.ctx && !d.mem.everywhere() && !r.mem.everywhere():
		return mixed(c.op, d.mem.handle(), "destination", d.mem.ctx, "source", r.mem.ctx)
	}
	if err := d.fit(c.op, e); err != nil {
		return err
	}
	if err := r.fit(c.op, e); err != nil {
		return err
	}
	c.ctx = d.mem.ctx
	if d.mem.everywhere() && !r.mem.onHost() {
		c.ctx = r.mem.ctx
	}
	c.copy = driver.Memcpy3D{WidthInBytes: e.width, Height: e.height, Depth: e.depth,
		DstPitch: d.pitch, DstHeight: d.height, SrcPitch: r.pitch, SrcHeight: r.height}
	c.copy.DstMemoryType, c.copy.DstHost, c.copy.DstDevice = d.end()
	c.copy.SrcMemoryType, c.copy.SrcHost, c.copy.SrcDevice = r.end()
	return c.notEmpty(e.empty())
}

// rowsFill is what a node sets: height rows of width elements of size bytes each.
type rowsFill struct {
	value, size   uint32
	width, height uint64
}

func (f *rowsFill) extent() extent { return extent{uint64(f.size) * f.width, f.height, 1} }

// fillRows makes the node set a rectangle. An empty one makes it an empty node.
func (c *nodeCall) fillRows(d *planes, f *rowsFill) error {
	if err := c.keepRegions(&d.region, &d.region); err != nil {
		return err
	}
	if d.mem.raw == 0 {
		return mistake(c.op, errUnmapped, d.mem.handle(), "allocate it with HostDeviceMap")
	}
	if f.size > 1 { // then the size of a row must not overflow
		if err := d.whole(c.op, uint64(f.size), f.width); err != nil {
			return err
		}
	}
	e := f.extent()
	if err := d.fit(c.op, e); err != nil {
		return err
	}
	c.ctx = d.mem.ctx
	c.fill = driver.MemsetNodeParams{Dst: d.addr(), Pitch: d.pitch, Value: f.value, ElementSize: f.size,
		Width: f.width, Height: f.height}
	return c.notEmpty(e.empty())
}
