package cu

import (
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
)

// This file has the nodes of a graph that allocate and free memory.

const (
	addAllocOp = "cuGraphAddMemAllocNode"
	addFreeOp  = "cuGraphAddMemFreeNode"
	takeOp     = "GraphExec.Take"
)

// AddAlloc adds a node that allocates size bytes of device memory whenever the graph runs, and that
// comes after other nodes (cuGraphAddMemAllocNode, CUDA 11.4). The memory has one address for the life
// of the graph. Only nodes of this graph can use it, and each must come after the new node, and before
// the node that frees the memory: see [Graph.AddFree]. It may have been used before, and is not
// cleared. If there is too little memory, AddAlloc may wait for the GPU, as [Context.Alloc] does: see
// docs/blocking.md.
//
// # Lifetime
//
// Memory that a node frees can be used by nothing outside of the graph. Other memory stays allocated
// after a launch: see [GraphExec.Take]. Close of the DeviceMem frees nothing. It ends the program's use;
// nodes that use the memory keep it.
//
// # Limits
//
// The driver refuses to clone a graph with such nodes, to make it a child graph, to remove its nodes
// and edges, and to instantiate it while an executable graph of it is open, or one that
// [GraphExec.Update] has given its work. The errors match [ResultNotSupported].
func (g *Graph) AddAlloc(size uint64, after ...GraphNode) (n GraphNode, m *DeviceMem, err error) {
	if g == nil || g.core == nil {
		return n, nil, errNil(addAllocOp, "graph")
	}
	ctx := g.core.ctx
	res, own := ctx.allocate(func() (res driver.Result) {
		n, m, res, err = g.addAlloc(size, after)
		return res
	})
	if res == driver.ResultOutOfMemory {
		err = ctx.outOfMemory(ctx.failAlloc(addAllocOp, g.core.handle(), size, res, own))
	}
	return n, m, err
}

// addAlloc is AddAlloc without a second attempt. The result is the driver's, if it was called. For too little memory it
// makes no error: that would take what the driver's log says, which is for the error of the last attempt.
func (g *Graph) addAlloc(size uint64, after []GraphNode) (_ GraphNode, _ *DeviceMem, res driver.Result, err error) {
	gc, err := g.enter(addAllocOp)
	if err != nil {
		return GraphNode{}, nil, 0, err
	}
	defer g.leave()
	if size == 0 {
		return GraphNode{}, nil, 0, invalid(addAllocOp, "the size is 0 bytes: ask for at least one")
	}
	if err := gc.mayHave(addAllocOp, GraphNodeTypeMemAlloc); err != nil {
		return GraphNode{}, nil, 0, err
	}
	deps, err := g.dependencies(addAllocOp, after)
	if err != nil {
		return GraphNode{}, nil, 0, err
	}
	t := gc.ctx.drv.table()
	n, p, res := t.GraphAddMemAllocNode(driver.At{Context: gc.ctx.raw}, gc.raw, deps, driver.MemAllocNodeParams{
		PoolProps: driver.MemPoolProps{AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
			Location: deviceLocation(gc.ctx.dev)},
		Bytesize: size,
	})
	if res == driver.ResultOutOfMemory {
		return GraphNode{}, nil, res, nil
	}
	err = gc.check(addAllocOp, res)
	if !gc.added(n, res) {
		return GraphNode{}, nil, res, err
	}
	m := newDeviceMem(gc.ctx, newGraphMem(p.Dptr, size, gc.objects))
	gc.objects.knowNew(n, GraphNodeTypeMemAlloc, m.core)
	if o := gc.ctx.drv.observer(); o != nil {
		o.AddNode(uintptr(gc.raw), uintptr(n), graphNodes(deps), m.core.observedNode(addAllocOp))
	}
	if err != nil {
		m.Close() // nobody gets it
		return GraphNode{}, nil, res, err
	}
	return g.node(n), m, res, nil
}

// AddFree adds a node that frees memory which [Graph.AddAlloc], or [Stream.Alloc] in a capture, has
// allocated in this graph, and that comes after other nodes: those must be all that use the memory
// (cuGraphAddMemFreeNode, CUDA 11.4). Memory can be freed by one node.
func (g *Graph) AddFree(m *DeviceMem, after ...GraphNode) (GraphNode, error) {
	gc, err := g.enter(addFreeOp)
	if err != nil {
		return GraphNode{}, err
	}
	defer runtime.KeepAlive(m)
	defer g.leave()
	if err := gc.mayHave(addFreeOp, GraphNodeTypeMemFree); err != nil {
		return GraphNode{}, err
	}
	deps, err := g.dependencies(addFreeOp, after)
	if err != nil {
		return GraphNode{}, err
	}
	if m == nil || m.core == nil {
		return GraphNode{}, errNil(addFreeOp, "device memory")
	}
	if err := gc.objects.canFree(addFreeOp, m.core); err != nil {
		return GraphNode{}, err
	}
	n, res := gc.ctx.drv.table().GraphAddMemFreeNode(driver.At{Context: gc.ctx.raw}, gc.raw, deps, m.core.raw)
	err = gc.check(addFreeOp, res)
	if !gc.added(n, res) {
		return GraphNode{}, err
	}
	gc.objects.knowNew(n, GraphNodeTypeMemFree, m.core)
	gc.objects.frees(m.core)
	if o := gc.ctx.drv.observer(); o != nil {
		o.AddNode(uintptr(gc.raw), uintptr(n), graphNodes(deps), m.core.observedNode(addFreeOp))
	}
	if err != nil {
		return GraphNode{}, err
	}
	return g.node(n), nil
}

// Take returns the memory that the last launch has allocated for m, which [Graph.AddAlloc] or
// [Stream.Alloc] in a capture has returned, and which no node frees. It belongs to the program, like
// memory of [Stream.Alloc]: streams that use it must come after the launch, and Close frees it in the
// order of the streams.
//
// It must be closed before the next launch, which fails otherwise. A launch on another stream than
// those that used the memory must come after its free: see [Stream.WaitStream]. Memory that was not taken is freed
// by the next launch if the graph was instantiated with [InstantiateAutoFree], and makes the launch
// fail otherwise. What is left is freed when the GraphExec is closed.
func (x *GraphExec) Take(m *DeviceMem) (*DeviceMem, error) {
	xc, err := x.enter(takeOp)
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(m)
	defer x.leave()
	if m == nil || m.core == nil {
		return nil, errNil(takeOp, "device memory")
	}
	a := xc.alloc(m.core)
	switch {
	case a == nil:
		return nil, invalid(takeOp, "the memory is not of a node of this graph that no other node frees")
	case !a.allocated && a.mem.held.Load() != nil:
		return nil, invalid(takeOp, "the memory was taken after the last launch: take it once")
	case !a.allocated:
		return nil, invalid(takeOp, "the memory is not allocated: launch the graph first")
	}
	mc := a.core()
	taken := &DeviceMem{core: mc}
	taken.cleanup = newMemory(taken, a.mem.ctx, mc)
	mc.usedOnAll(xc.usedStreams)
	return taken, nil
}

// GraphMemStats are amounts of device memory that graphs use, in bytes.
type GraphMemStats struct {
	// Used is what belongs to graphs, and Reserved what the driver has of the device for them. Memory
	// that a graph has freed may count until [Device.TrimGraphMem].
	Used, Reserved uint64
	// UsedHigh and ReservedHigh are the highest values since [Device.ResetGraphMemHigh].
	UsedHigh, ReservedHigh uint64
}

// GraphMemStats returns how much memory the graphs of this process use on the device
// (cuDeviceGetGraphMemAttribute, CUDA 11.4).
func (dev *Device) GraphMemStats() (GraphMemStats, error) {
	const op = "cuDeviceGetGraphMemAttribute"
	if !dev.valid() {
		return GraphMemStats{}, errNil(op, "device")
	}
	var v [4]uint64
	for i := range v {
		var res driver.Result
		if v[i], res = dev.drv.table().DeviceGetGraphMemAttribute(driver.At{}, dev.raw,
			int32(i)); res != driver.ResultSuccess {
			return GraphMemStats{}, dev.drv.resultError(op, 0, res)
		}
	}
	return GraphMemStats{
		Used:         v[driver.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT],
		UsedHigh:     v[driver.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH],
		Reserved:     v[driver.CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT],
		ReservedHigh: v[driver.CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH],
	}, nil
}

// ResetGraphMemHigh sets UsedHigh and ReservedHigh of [Device.GraphMemStats] to the current values
// (cuDeviceSetGraphMemAttribute, CUDA 11.4).
func (dev *Device) ResetGraphMemHigh() error {
	const op = "cuDeviceSetGraphMemAttribute"
	if !dev.valid() {
		return errNil(op, "device")
	}
	for _, a := range [...]int32{driver.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, driver.CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH} {
		if res := dev.drv.table().DeviceSetGraphMemAttribute(driver.At{}, dev.raw, a, 0); res != driver.ResultSuccess {
			return dev.drv.resultError(op, 0, res)
		}
	}
	return nil
}

// TrimGraphMem gives memory back to the device that the driver has for graphs, and that no graph uses
// (cuDeviceGraphMemTrim, CUDA 11.4).
func (dev *Device) TrimGraphMem() error {
	const op = "cuDeviceGraphMemTrim"
	if !dev.valid() {
		return errNil(op, "device")
	}
	if res := dev.drv.table().DeviceGraphMemTrim(driver.At{}, dev.raw); res != driver.ResultSuccess {
		return dev.drv.resultError(op, 0, res)
	}
	return nil
}

// observedNode describes a node that allocates or frees the memory: nodes that use it must be in order
// with both.
func (mc *memCore) observedNode(op string) races.NodeWork {
	return races.NodeWork{Call: op, Uses: []races.Use{mc.used(0, mc.size, true, "memory")}}
}
