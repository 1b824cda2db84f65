package graph

import (
	"runtime"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/races"
	"github.com/purecu/purecu/internal/subject"
)

// This file has the nodes of a graph that allocate and free memory.

const takeOp = "graph.Exec.Take"

var allocRow = &nodeRow{
	typ: NodeTypeMemAlloc, add: "cuGraphAddMemAllocNode",
	attempts: func(g *Graph, r *nodeRow, w Work, after []Node) (n Node, err error) {
		ctx := g.core.Ctx
		res, collection := ctx.Allocate(func() driver.Result {
			if n, err = g.add(r, w, after); err == errLacksMemory {
				return driver.ResultOutOfMemory
			}
			return driver.ResultSuccess
		})
		if err == errLacksMemory {
			e := memstate.FailAlloc(ctx, r.add, g.core.Handle(), w.(*Alloc).Size, res, collection)
			err = memstate.OutOfMemory(ctx, e)
		}
		return n, err
	},
}

func (w *Alloc) row() *nodeRow { return rowIf(w != nil, allocRow) }

func (w *Alloc) prepare(c *nodeCall) error {
	if w.Size == 0 {
		return drivercall.BadValue(c.op, c.gc, "the size is 0 bytes: ask for at least one")
	}
	c.work = &allocWork{of: w, size: w.Size}
	return nil
}

// allocWork allocates memory.
type allocWork struct {
	nodeParams[struct{}]
	of   *Alloc
	size uint64
	addr driver.DevicePtr
	made *cu.DeviceMem
}

func (w *allocWork) add(c *nodeCall, deps []driver.GraphNode) (driver.GraphNode, driver.Result) {
	n, p, res := c.table().GraphAddMemAllocNode(c.at(), c.gc.raw, deps, driver.MemAllocNodeParams{
		PoolProps: driver.MemPoolProps{AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
			Location: memstate.DeviceLocation(c.gc.Ctx.Dev)},
		Bytesize: w.size,
	})
	w.addr = p.Dptr
	return n, res
}

func (w *allocWork) done(c *nodeCall) {
	w.made = subject.NewDeviceMem(c.gc.Ctx, memstate.NewGraphMem(w.addr, w.size, &c.gc.objects.ObjectSet))
	c.objects = append(c.objects, subject.DeviceMem(w.made))
}

func (w *allocWork) seen(c *nodeCall, _ Work) races.NodeWork {
	return seenMem(c, subject.DeviceMem(w.made))
}

func (w *allocWork) result(err error) {
	if err == nil {
		w.of.Mem = w.made
	} else if w.made != nil {
		w.made.Close() // nobody gets it
	}
}

var freeRow = &nodeFuncs[driver.DevicePtr]{nodeRow: &nodeRow{typ: NodeTypeMemFree, add: "cuGraphAddMemFreeNode"},
	addNode: (*driver.Table).GraphAddMemFreeNode}

func (w *Free) row() *nodeRow { return rowIf(w != nil, freeRow.nodeRow) }

func (w *Free) prepare(c *nodeCall) error {
	if subject.DeviceMem(w.Mem) == nil {
		return drivercall.NilError(c.op, "device memory")
	}
	m := subject.DeviceMem(w.Mem)
	c.objects = append(c.objects, m)
	c.work = &nodeParams[driver.DevicePtr]{freeRow, m.Raw, seenMem(c, m),
		func(c *nodeCall) { memstate.Frees(&c.gc.objects.ObjectSet, m) }}
	return memstate.CanFree(&c.gc.objects.ObjectSet, c.op, m)
}

// seenMem describes a node that allocates or frees memory: nodes that use the memory must be in order
// with both.
func seenMem(c *nodeCall, m *memstate.Mem) races.NodeWork {
	return races.NodeWork{Call: c.op, Uses: []races.Use{m.Used(0, m.Size, true, "memory")}}
}

func (c *nodeCall) readAlloc() (*Alloc, error) {
	p, err := askNode(c, "cuGraphMemAllocNodeGetParams", (*driver.Table).GraphMemAllocNodeGetParams)
	return &Alloc{Addr: uint64(p.Dptr), Size: p.Bytesize}, err
}

func (c *nodeCall) readFree() (*Free, error) {
	p, err := askNode(c, "cuGraphMemFreeNodeGetParams", (*driver.Table).GraphMemFreeNodeGetParams)
	return &Free{Addr: uint64(p)}, err
}

// Take returns the memory that the last launch has allocated for m, which an [Alloc] or
// [cu.Stream.Alloc] in a capture has returned, and which no node frees. It belongs to the program, like
// memory of [cu.Stream.Alloc]: streams that use it must come after the launch, and Close frees it in the
// order of the streams.
//
// It must be closed before the next launch, which fails otherwise. A launch on another stream than
// those that used the memory must come after its free: see [cu.Stream.WaitStream]. Memory that was not taken is freed
// by the next launch if the graph was instantiated with [InstantiateAutoFree], and makes the launch
// fail otherwise. What is left is freed when the [Exec] is closed.
func (x *Exec) Take(m *cu.DeviceMem) (*cu.DeviceMem, error) {
	xc, err := x.enter(takeOp)
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(m)
	defer x.leave()
	if subject.DeviceMem(m) == nil {
		return nil, drivercall.NilArgError(takeOp, xc, "device memory")
	}
	a := xc.alloc(subject.DeviceMem(m))
	switch {
	case a == nil:
		return nil, drivercall.BadValue(takeOp, subject.DeviceMem(m),
			"the memory is not of a node of this graph that no other node frees")
	case !a.allocated && a.mem.Held.Load() != nil:
		return nil, drivercall.BadValue(takeOp, subject.DeviceMem(m),
			"the memory was taken after the last launch: take it once")
	case !a.allocated:
		return nil, drivercall.BadValue(takeOp, subject.DeviceMem(m), "the memory is not allocated: launch the graph first")
	}
	mc := a.core()
	taken := subject.NewDeviceMem(a.mem.Ctx, mc)
	mc.UsedOnAll(xc.UsedStreams)
	return taken, nil
}

// MemStats are amounts of device memory that graphs use, in bytes.
type MemStats struct {
	// Used is what belongs to graphs, and Reserved what the driver has of the device for them. Memory
	// that a graph has freed may count until [TrimMem].
	Used, Reserved uint64
	// UsedHigh and ReservedHigh are the highest values since [ResetMemHigh].
	UsedHigh, ReservedHigh uint64
}

// MemStatsOf returns how much memory the graphs of this process use on the device
// (cuDeviceGetGraphMemAttribute, CUDA 11.4).
func MemStatsOf(dev *cu.Device) (MemStats, error) {
	const op = "cuDeviceGetGraphMemAttribute"
	if subject.Device(dev) == nil {
		return MemStats{}, drivercall.NilError(op, "device")
	}
	var v [4]uint64
	for i := range v {
		var res driver.Result
		if v[i], res = subject.Device(dev).Drv.Table().DeviceGetGraphMemAttribute(driver.At{}, subject.Device(dev).Raw,
			int32(i)); res != driver.ResultSuccess {
			return MemStats{}, subject.Device(dev).CallError(op, res)
		}
	}
	return MemStats{
		Used:         v[driver.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT],
		UsedHigh:     v[driver.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH],
		Reserved:     v[driver.CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT],
		ReservedHigh: v[driver.CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH],
	}, nil
}

// ResetMemHigh sets UsedHigh and ReservedHigh of [MemStatsOf] to the current values
// (cuDeviceSetGraphMemAttribute, CUDA 11.4).
func ResetMemHigh(dev *cu.Device) error {
	const op = "cuDeviceSetGraphMemAttribute"
	if subject.Device(dev) == nil {
		return drivercall.NilError(op, "device")
	}
	for _, a := range [...]int32{driver.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, driver.CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH} {
		of := subject.Device(dev)
		if res := of.Drv.Table().DeviceSetGraphMemAttribute(driver.At{}, of.Raw, a, 0); res != driver.ResultSuccess {
			return subject.Device(dev).CallError(op, res)
		}
	}
	return nil
}

// TrimMem gives memory back to the device that the driver has for graphs, and that no graph uses
// (cuDeviceGraphMemTrim, CUDA 11.4).
func TrimMem(dev *cu.Device) error {
	const op = "cuDeviceGraphMemTrim"
	of := subject.Device(dev)
	if of == nil {
		return drivercall.NilError(op, "device")
	}
	if res := of.Drv.Table().DeviceGraphMemTrim(driver.At{}, of.Raw); res != driver.ResultSuccess {
		return of.CallError(op, res)
	}
	return nil
}
