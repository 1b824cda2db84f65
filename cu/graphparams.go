package cu

import (
	"github.com/purecu/purecu/driver"
)

// This file returns what the nodes of a graph do: also those that a capture has made. Addresses are
// numbers, which keep no memory: see [Context.PointerInfo].

// KernelParams is what a node that runs a kernel does.
type KernelParams struct {
	// Name is the kernel's name, "" if the driver is older than CUDA 12.3.
	Name string
	// Function is the CUfunction, as [Function.Handle] returns it. Kernel is the CUkernel, as
	// [Kernel.Handle] returns it, if the kernel is one of a library and the driver says so. One of them
	// may be 0.
	Function, Kernel uintptr
	// Config is the configuration. Of the attributes it has those that [Graph.AddKernel] or SetKernel
	// were given, and none of a captured launch.
	Config LaunchConfig
	// Args has the bytes of each argument. It is nil if they are not known: the driver is older than
	// CUDA 12.4, or other code has passed all arguments in one buffer.
	Args [][]byte
}

// Kernel returns what a node that runs a kernel does. If code outside of this package added the node,
// the kernel's module must still be loaded (cuGraphKernelNodeGetParams). If the kernel is one of a
// library, Kernel may wait for the GPU: see docs/blocking.md.
func (n GraphNode) Kernel() (KernelParams, error) {
	const op = "cuGraphKernelNodeGetParams"
	c, err := n.beginSet(nil, op, GraphNodeTypeKernel)
	if err != nil {
		return KernelParams{}, err
	}
	defer n.finish(nil, c)
	t, at := c.gc.ctx.drv.table(), driver.At{Context: c.gc.ctx.raw}
	p, res := t.GraphKernelNodeGetParams(at, n.raw)
	if t.Missing(res) != nil { // before CUDA 12.0
		var old driver.KernelNodeParamsV1
		old, res = t.GraphKernelNodeGetParamsV1(at, n.raw)
		p = driver.KernelNodeParams{
			Func: old.Func, GridDimX: old.GridDimX, GridDimY: old.GridDimY, GridDimZ: old.GridDimZ,
			BlockDimX: old.BlockDimX, BlockDimY: old.BlockDimY, BlockDimZ: old.BlockDimZ,
			SharedMemBytes: old.SharedMemBytes, KernelParams: old.KernelParams, Extra: old.Extra,
		}
	}
	if res != driver.ResultSuccess {
		return KernelParams{}, c.getError(res)
	}
	k := KernelParams{
		Function: uintptr(p.Func), Kernel: uintptr(p.Kern),
		Config: LaunchConfig{
			Grid:      Dim3{p.GridDimX, p.GridDimY, p.GridDimZ},
			Block:     Dim3{p.BlockDimX, p.BlockDimY, p.BlockDimZ},
			SharedMem: p.SharedMemBytes, Attributes: c.use.attrs,
		},
	}
	if c.use.cooperative {
		k.Config.Flags |= LaunchCooperative
	}
	var sizes []uint64
	var known bool
	if k.Name, sizes, known, err = c.askKernel(at, &p); err != nil {
		return KernelParams{}, err
	}
	if known && (p.KernelParams != nil || len(sizes) == 0) {
		k.Args = argBytes(p.KernelParams, sizes)
	}
	return k, nil
}

// askKernel returns the name of the kernel of a node, and the sizes of its parameters if the driver can say
// them.
func (c *nodeCall) askKernel(at driver.At, p *driver.KernelNodeParams) (name string, sizes []uint64, known bool,
	err error) {
	t := c.gc.ctx.drv.table()
	var res driver.Result
	if c.op = "cuFuncGetName"; p.Func != 0 {
		name, res = t.FuncGetName(at, p.Func)
	} else {
		name, res = t.KernelGetName(at, p.Kern)
	}
	if res != driver.ResultSuccess && t.Missing(res) == nil {
		return "", nil, false, c.getError(res)
	}
	c.op = "cuFuncGetParamInfo"
	for i := range uint64(maxParamBytes) {
		var size uint64
		if p.Func != 0 {
			_, size, res = t.FuncGetParamInfo(at, p.Func, i)
		} else {
			_, size, res = t.KernelGetParamInfo(at, p.Kern, i)
		}
		switch {
		case res == driver.ResultInvalidValue: // i is the number of parameters
			return name, sizes, true, nil
		case t.Missing(res) != nil: // before CUDA 12.4
			return name, nil, false, nil
		case res != driver.ResultSuccess:
			return "", nil, false, c.getError(res)
		}
		sizes = append(sizes, size)
	}
	return name, nil, false, nil
}

// getError returns the error for the driver's result.
func (c *nodeCall) getError(res driver.Result) error {
	return c.failed(c.gc.ctx.callError(c.op, uintptr(c.gc.raw), res))
}

// get returns what a getter of the driver returns for a node of one of the types.
func get[P any](n GraphNode, op string, typ GraphNodeType,
	ask func(*driver.Table, driver.At) (P, driver.Result)) (p P, err error) {
	c, err := n.beginSet(nil, op, typ)
	if err != nil {
		return p, err
	}
	defer n.finish(nil, c)
	p, res := ask(c.gc.ctx.drv.table(), driver.At{Context: c.gc.ctx.raw})
	if res != driver.ResultSuccess {
		var none P
		return none, c.getError(res)
	}
	return p, nil
}

// CopyParams is what a node that copies does: Depth planes of Height rows of Width bytes.
type CopyParams struct {
	Dst, Src             CopyEnd
	Width, Height, Depth uint64
}

// CopyEnd is the memory at one end of a copy.
type CopyEnd struct {
	// Addr is the address of the first byte, 0 for an array.
	Addr uint64
	// Pitch is the number of bytes from the beginning of a row to the beginning of the next one, and
	// Height the number of rows from the beginning of a plane to the beginning of the next one. They
	// mean nothing if there is only one row, or one plane.
	Pitch, Height uint64
}

// Copy returns what a node that copies does (cuGraphMemcpyNodeGetParams).
func (n GraphNode) Copy() (CopyParams, error) {
	p, err := get(n, "cuGraphMemcpyNodeGetParams", GraphNodeTypeMemcpy,
		func(t *driver.Table, at driver.At) (driver.Memcpy3D, driver.Result) {
			return t.GraphMemcpyNodeGetParams(at, n.raw)
		})
	end := func(kind int32, host driver.HostPtr, dev driver.DevicePtr, x, y, z, pitch, height uint64) CopyEnd {
		e := CopyEnd{uint64(dev), pitch, height}
		switch kind {
		case driver.CU_MEMORYTYPE_ARRAY:
			return CopyEnd{}
		case driver.CU_MEMORYTYPE_HOST:
			e.Addr = uint64(host)
		}
		e.Addr += x + pitch*(y+height*z)
		return e
	}
	return CopyParams{
		Dst: end(p.DstMemoryType, p.DstHost, p.DstDevice, p.DstXInBytes, p.DstY, p.DstZ, p.DstPitch, p.DstHeight),
		Src: end(p.SrcMemoryType, p.SrcHost, p.SrcDevice, p.SrcXInBytes, p.SrcY, p.SrcZ, p.SrcPitch, p.SrcHeight),

		Width: p.WidthInBytes, Height: p.Height, Depth: p.Depth,
	}, err
}

// MemsetParams is what a node that sets memory does: Height rows of Width elements.
type MemsetParams struct {
	// Addr is the address of the first element.
	Addr uint64
	// Value is the value of each element, and ElementSize the size of an element in bytes: 1, 2 or 4.
	Value, ElementSize uint32
	Width, Height      uint64
	// Pitch is the number of bytes from the beginning of a row to the beginning of the next one. It
	// means nothing if there is only one row.
	Pitch uint64
}

// Memset returns what a node that sets memory does (cuGraphMemsetNodeGetParams).
func (n GraphNode) Memset() (MemsetParams, error) {
	p, err := get(n, "cuGraphMemsetNodeGetParams", GraphNodeTypeMemset,
		func(t *driver.Table, at driver.At) (driver.MemsetNodeParams, driver.Result) {
			return t.GraphMemsetNodeGetParams(at, n.raw)
		})
	return MemsetParams{uint64(p.Dst), p.Value, p.ElementSize, p.Width, p.Height, p.Pitch}, err
}

// HostFunc returns the function that a node calls. It is nil for a function that code outside of this
// package has given to the driver (cuGraphHostNodeGetParams).
func (n GraphNode) HostFunc() (func(), error) {
	return get(n, "cuGraphHostNodeGetParams", GraphNodeTypeHost,
		func(t *driver.Table, at driver.At) (func(), driver.Result) {
			p, res := t.GraphHostNodeGetParams(at, n.raw)
			objects := n.graph.core.objects
			for _, known := range [...]func() []holder{
				func() []holder { return objects.nodes[n.raw].objects }, // beginSet has found the node
				objects.list, // of a captured node
			} {
				for _, h := range known() {
					h, ok := h.(*hostFunc)
					if ok && h.callback.Addr == p.Fn && h.callback.Data == uintptr(p.UserData) {
						return h.f, res
					}
				}
			}
			return nil, res
		})
}

// EventHandle returns the CUevent of a node that records an event or waits for one, as [Event.Handle]
// returns it (cuGraphEventRecordNodeGetEvent, cuGraphEventWaitNodeGetEvent).
func (n GraphNode) EventHandle() (uintptr, error) {
	const op = "cuGraphEventRecordNodeGetEvent"
	gc, err := n.enter(op)
	if err != nil {
		return 0, err
	}
	defer n.graph.leave()
	typ, err := gc.typeOf(n.raw)
	if err != nil {
		return 0, err
	}
	e, ok, err := gc.eventOf(n.raw, typ)
	if err == nil && !ok {
		err = noEvent(op, typ)
	}
	return uintptr(e), err
}

// MemOpParams is one operation of a node with memory operations.
type MemOpParams struct {
	// Addr is the address of the word, and Size its size: 4 or 8 bytes.
	Addr uint64
	Size int
	// Waits says that the operation waits for Value, in the sense of Until. Otherwise it writes Value.
	Waits bool
	Value uint64
	Until WaitFor
}

// MemOps returns the operations of a node with memory operations. Operations that are neither waits nor
// writes, which only code outside of this package adds, are left out
// (cuGraphBatchMemOpNodeGetParams, CUDA 11.7).
func (n GraphNode) MemOps() ([]MemOpParams, error) {
	const op = "cuGraphBatchMemOpNodeGetParams"
	c, err := n.beginSet(nil, op, GraphNodeTypeBatchMemOp)
	if err != nil {
		return nil, err
	}
	defer n.finish(nil, c)
	p, res := c.gc.ctx.drv.table().GraphBatchMemOpNodeGetParams(driver.At{Context: c.gc.ctx.raw}, n.raw)
	if res != driver.ResultSuccess {
		return nil, c.getError(res)
	}
	var list []MemOpParams
	for _, raw := range p.Operations() {
		w := raw.WaitValue() // a write has the same members
		o := MemOp{op: *raw.Operation()}
		m := MemOpParams{Addr: uint64(w.Address), Size: int(o.size()), Waits: o.waits(), Value: *w.Value64()}
		switch o.op {
		case driver.CU_STREAM_MEM_OP_WAIT_VALUE_32, driver.CU_STREAM_MEM_OP_WAIT_VALUE_64:
			m.Until = WaitFor(w.Flags)
		case driver.CU_STREAM_MEM_OP_WRITE_VALUE_32, driver.CU_STREAM_MEM_OP_WRITE_VALUE_64:
		default:
			continue
		}
		if m.Size == 4 {
			m.Value = uint64(uint32(m.Value))
		}
		list = append(list, m)
	}
	return list, nil
}

// Allocated returns the address and the size of the memory that a node allocates
// (cuGraphMemAllocNodeGetParams, CUDA 11.4).
func (n GraphNode) Allocated() (addr, size uint64, err error) {
	p, err := get(n, "cuGraphMemAllocNodeGetParams", GraphNodeTypeMemAlloc,
		func(t *driver.Table, at driver.At) (driver.MemAllocNodeParams, driver.Result) {
			return t.GraphMemAllocNodeGetParams(at, n.raw)
		})
	return uint64(p.Dptr), p.Bytesize, err
}

// Freed returns the address of the memory that a node frees (cuGraphMemFreeNodeGetParams, CUDA 11.4).
func (n GraphNode) Freed() (addr uint64, err error) {
	p, err := get(n, "cuGraphMemFreeNodeGetParams", GraphNodeTypeMemFree,
		func(t *driver.Table, at driver.At) (driver.DevicePtr, driver.Result) {
			return t.GraphMemFreeNodeGetParams(at, n.raw)
		})
	return uint64(p), err
}

// ChildGraph returns a copy of the graph whose work a node does. Close it like other graphs
// (cuGraphChildGraphNodeGetGraph, cuGraphClone). If a graph has conditions, the driver copies no child graph in it or
// in one of its bodies, and the error matches [ResultNotSupported].
func (n GraphNode) ChildGraph() (*Graph, error) {
	const op = "cuGraphChildGraphNodeGetGraph"
	c, err := n.beginSet(nil, op, GraphNodeTypeGraph)
	if err != nil {
		return nil, err
	}
	defer n.finish(nil, c)
	gc, t, at := c.gc, c.gc.ctx.drv.table(), driver.At{Context: c.gc.ctx.raw}
	child, res := t.GraphChildGraphNodeGetGraph(at, n.raw)
	if res != driver.ResultSuccess {
		return nil, c.getError(res)
	}
	raw, res := t.GraphClone(at, child)
	if res != driver.ResultSuccess {
		c.op = "cuGraphClone"
		return nil, c.getError(res)
	}
	if o := gc.ctx.drv.observer(); o != nil {
		o.ChildGraph(uintptr(raw), uintptr(gc.raw), uintptr(n.raw))
	}
	objects := new(objectSet)
	objects.addAll(gc.objects)
	return newGraph(gc.ctx, raw, objects, gc.family), nil
}

// Bodies returns the graphs of which a conditional node does the work of one: those that [Graph.AddIf]
// and the like have returned. Conditional nodes that code outside of this package has added are not
// known.
func (n GraphNode) Bodies() ([]*Graph, error) {
	gc, err := n.enter(addNodeOp)
	if err != nil {
		return nil, err
	}
	defer n.graph.leave()
	if gc.bodies[n.raw] == nil {
		return nil, invalid(addNodeOp, "the node is no conditional node that this package has added")
	}
	return append([]*Graph(nil), n.graph.bodies[n.raw]...), nil
}
