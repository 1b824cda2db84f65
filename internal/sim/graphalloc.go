package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
	"github.com/purecu/purecu/internal/sim/mem"
)

// frees reports whether the graph that allocates the memory also frees it.
func (a *graphAlloc) frees() bool { return slices.Contains(a.freers, a.owner) }

// allocWork returns the work of a node that allocates memory. The memory has an address from now on,
// and exists while it is allocated.
func (d *Driver) allocWork(g *graph.Graph, c *context, p driver.MemAllocNodeParams) (*allocWork, driver.Result) {
	props := &p.PoolProps
	managed := props.AllocType == driver.CU_MEM_ALLOCATION_TYPE_MANAGED // at a device it is the device's memory
	switch {
	case p.Bytesize == 0, props.AllocType != driver.CU_MEM_ALLOCATION_TYPE_PINNED && !managed,
		props.Location.Type == driver.CU_MEM_LOCATION_TYPE_INVALID && !managed,
		p.AccessDescCount > 0 && p.AccessDescs == nil, p.AccessDescCount > uint64(len(d.devices)):
		return nil, driver.ResultInvalidValue
	case props.Location.Type != driver.CU_MEM_LOCATION_TYPE_DEVICE, props.HandleTypes != 0, g.Owner != nil:
		return nil, driver.ResultNotSupported
	}
	v, r := d.device(driver.Device(props.Location.ID))
	switch {
	case r != ok:
		return nil, driver.ResultInvalidValue
	case c == nil && v.active(): // as for an H200, no context need be current
		c = v.primary
	case c == nil:
		return nil, driver.ResultInvalidContext
	}
	access := slices.Clone(elements(p.AccessDescs, p.AccessDescCount))
	for _, a := range access {
		if _, r := d.located(a.Location); r != ok {
			return nil, driver.ResultInvalidValue
		}
		if a.Flags != driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE {
			return nil, driver.ResultNotSupported
		}
	}
	if p.Bytesize > mostGraphMemory {
		g.TooLarge = true
		return nil, driver.ResultOutOfMemory
	}
	addr, there := d.space.place(p.Bytesize)
	if !there {
		return nil, driver.ResultOutOfMemory
	}
	b := &block{addr: addr, size: p.Bytesize, kind: graphBlock, ctx: c, asleep: true,
		mem: mem.New(&d.space.budget, p.Bytesize)}
	a := &graphAlloc{block: b, owner: g, access: access, refs: 1}
	b.alloc = a
	p.Dptr, p.AccessDescs = driver.DevicePtr(b.addr), nil
	if len(access) > 0 {
		p.AccessDescs = &access[0]
	}
	a.params = p
	d.space.add(b)
	return &allocWork{d: d, graphAlloc: a}, ok
}

// allocWork makes memory of a graph exist, or, as a freeWork, not exist.
type allocWork struct {
	commonWork
	d *Driver
	*graphAlloc
}

// Type implements graph.Work.
func (*allocWork) Type() graph.Type { return graph.AllocNode }

func (w *allocWork) context() *context { return w.block.ctx }

func (w *allocWork) op(graph.Values) *op {
	return &op{Calls: opCalls{Effect: func() { w.d.space.sleep(w.block, false) }}}
}

// freeWork frees what a node of a graph allocates.
type freeWork struct {
	commonWork
	d *Driver
	*graphAlloc
}

// Type implements graph.Work.
func (*freeWork) Type() graph.Type { return graph.FreeNode }

func (w *freeWork) op(graph.Values) *op {
	return &op{Calls: opCalls{Effect: func() { w.d.space.sleep(w.block, true) }}}
}

// allocOf returns the memory that a node allocates or frees, or nil.
func allocOf(n *graph.Node) *graphAlloc {
	switch w := n.Work.(type) {
	case *allocWork:
		return w.graphAlloc
	case *freeWork:
		return w.graphAlloc
	}
	return nil
}

// allocatedBy returns the memory that a node allocates, or nil.
func allocatedBy(n *graph.Node) *graphAlloc {
	if w, is := n.Work.(*allocWork); is {
		return w.graphAlloc
	}
	return nil
}

// freeWork returns the work of a node that frees the memory of a node that allocates.
func (d *Driver) freeWork(g *graph.Graph, p driver.DevicePtr) (*freeWork, driver.Result) {
	b := d.space.of(uint64(p), graphBlock)
	if b == nil {
		return nil, driver.ResultInvalidValue
	}
	if a := b.alloc; a.frees() || (len(a.freers) > 0 || a.instantiated) && g == a.owner || slices.Contains(a.freers,
		g) {
		return nil, driver.ResultInvalidValue
	}
	b.alloc.freers = append(b.alloc.freers, g)
	return &freeWork{d: d, graphAlloc: b.alloc}, ok
}

// sleep says whether the memory of a node is there.
func (a *addressSpace) sleep(b *block, is bool) {
	b.asleep = is
	a.Changed()
}

// enter begins the use of the memory, if any, by a node of an executable graph.
func (a *graphAlloc) enter(typ graph.Type) {
	if a != nil {
		a.refs++
		a.instantiated = a.instantiated || typ == graph.AllocNode && !a.frees()
	}
}

// leave ends the use of the memory, if any, by a node of a graph or an executable graph.
func (a *graphAlloc) leave(d *Driver) {
	if a == nil {
		return
	}
	if a.refs--; a.refs == 0 && !a.allocated {
		d.space.remove(a.block)
	}
}

const (
	// graphMemoryUnit is the unit of the memory for a graph, in bytes.
	graphMemoryUnit = 32 << 20
	// mostGraphMemory is the largest size of memory that a node can allocate, in bytes.
	mostGraphMemory = 1 << 44
)

// take makes the device have memory for the nodes of a graph. If there is too little, other graphs give
// back what they do not use. It reports false if that is not enough.
func (a *addressSpace) take(v *device, g *graph.Graph) bool {
	size := uint64(0)
	for _, n := range g.Nodes {
		if m := allocatedBy(n); m != nil {
			size += rounded(m.params.Bytesize)
		}
	}
	size = (size + graphMemoryUnit - 1) / graphMemoryUnit * graphMemoryUnit
	part := func() int { return slices.IndexFunc(v.graphs.parts, func(p graphPart) bool { return p.of == g }) }
	i := part()
	if size > v.free() && (i < 0 || size-v.graphs.parts[i].size > v.free()) {
		a.trimGraphs(v)
		i = part()
	}
	if i < 0 {
		v.graphs.parts, i = append(v.graphs.parts, graphPart{of: g}), len(v.graphs.parts)
	}
	p := &v.graphs.parts[i]
	if size <= p.size {
		return true
	}
	more := size - p.size
	if more > v.free() {
		return false
	}
	p.size = size
	v.take(more)
	v.graphs.used.add(more)
	v.graphs.reservedHigh = max(v.graphs.reservedHigh, v.graphs.used.now)
	return true
}

// trimGraphs gives the memory back that no allocation is in, also to the machine. The caller calls reclaim.
func (a *addressSpace) trimGraphs(v *device) {
	v.graphs.parts = slices.DeleteFunc(v.graphs.parts, func(p graphPart) bool {
		if slices.ContainsFunc(p.of.Nodes, func(n *graph.Node) bool {
			m := allocatedBy(n)
			return m != nil && (m.allocated || !m.block.asleep)
		}) {
			return false
		}
		for _, n := range p.of.Nodes {
			if m := allocatedBy(n); m != nil {
				a.retire(m.block.mem)
				m.block.mem = mem.New(&a.budget, m.block.size)
			}
		}
		v.give(p.size)
		v.graphs.used.now -= p.size
		return true
	})
}

// begins checks the memory of the nodes before a launch, and notes what the launch does.
func (x *exec) begins(d *Driver) driver.Result {
	var devices []*device
	for _, n := range x.Nodes {
		switch a := n.Work.(type) {
		case *allocWork:
			if !a.frees() && a.allocated && x.flags&driver.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH == 0 {
				return driver.ResultInvalidValue
			}
			if !slices.Contains(devices, a.block.ctx.dev) {
				devices = append(devices, a.block.ctx.dev)
			}
		case *freeWork:
			if !a.allocated && !x.allocatesNow(a.graphAlloc) {
				return driver.ResultInvalidValue
			}
		}
	}
	for _, v := range devices {
		if !d.space.take(v, x.Allocates) {
			return driver.ResultOutOfMemory
		}
	}
	for _, n := range x.Nodes {
		if a := allocOf(n); a != nil {
			a.allocated = n.Work.Type() == graph.AllocNode && !a.frees()
		}
	}
	return ok
}

// allocatesNow reports whether a launch allocates the memory.
func (x *exec) allocatesNow(a *graphAlloc) bool {
	return slices.ContainsFunc(x.Nodes, func(n *graph.Node) bool { return allocatedBy(n) == a })
}

// freedByGraph returns the memory at an address if a graph allocates and frees it.
func (a *addressSpace) freedByGraph(p driver.DevicePtr) *graphAlloc {
	if b := a.of(uint64(p), graphBlock); b != nil && b.alloc.frees() {
		return b.alloc
	}
	return nil
}

// freeGraphMemory frees memory of a node in the order of a stream, or at once if s is nil.
func (d *Driver) freeGraphMemory(b *block, s *stream) driver.Result {
	if !b.alloc.allocated {
		return driver.ResultInvalidValue
	}
	b.alloc.allocated = false
	done := func() {
		if d.space.sleep(b, true); b.alloc.refs == 0 {
			d.space.remove(b)
		}
	}
	if s == nil {
		done()
		return ok
	}
	d.enqueue(s, &op{Calls: opCalls{Effect: done}})
	return ok
}

// captureAlloc adds a node that allocates to the capture of a stream.
func (d *Driver) captureAlloc(s *stream, pool *memPool, size uint64) (driver.DevicePtr, driver.Result) {
	switch {
	case s.capture.invalidated:
		return 0, driver.ResultStreamCaptureInvalidated
	case pool.kind == managedPoolBlock && pool.location.Type == driver.CU_MEM_LOCATION_TYPE_INVALID: // as on an H200
		return 0, driver.ResultInvalidValue
	case pool.dev == nil:
		return 0, driver.ResultNotSupported
	case size == 0:
		return 0, ok
	}
	p := driver.MemAllocNodeParams{Bytesize: size, PoolProps: driver.MemPoolProps{
		AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
		Location:  driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: int32(s.ctx.dev.ordinal)}}}
	w, r := d.allocWork(s.capture.graph, s.ctx, p)
	if r != ok {
		return 0, r
	}
	return driver.DevicePtr(w.block.addr), d.submit(s, w)
}

// captureFree adds a node that frees memory to the capture of a stream. It does not invalidate the
// capture if there is no such memory.
func (d *Driver) captureFree(s *stream, p driver.DevicePtr) driver.Result {
	if s.capture.invalidated {
		return driver.ResultStreamCaptureInvalidated
	}
	w, r := d.freeWork(s.capture.graph, p)
	if r != ok {
		return r
	}
	return d.submit(s, w)
}

// GraphAddMemAllocNode is cuGraphAddMemAllocNode.
func (d *Driver) GraphAddMemAllocNode(th *driver.Thread, h driver.Graph, deps []driver.GraphNode,
	p driver.MemAllocNodeParams) (driver.GraphNode, driver.MemAllocNodeParams, driver.Result) {
	const name = "cuGraphAddMemAllocNode"
	defer d.mu.Unlock()
	n, r := d.addNodeTo(name, h, deps, graph.AllocNode, nil, func(g *graph.Graph) (graph.Work, driver.Result) {
		w, r := d.allocWork(g, d.thread(th).current(), p)
		if r == ok {
			p.Dptr = w.params.Dptr
		}
		return w, r
	})
	return n, p, r
}

// GraphMemAllocNodeGetParams is cuGraphMemAllocNodeGetParams.
func (d *Driver) GraphMemAllocNodeGetParams(_ *driver.Thread,
	h driver.GraphNode) (p driver.MemAllocNodeParams, r driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphMemAllocNodeGetParams", h, graph.AllocNode)
	if r != ok {
		return p, r
	}
	return allocOf(n).params, ok
}

// GraphAddMemFreeNode is cuGraphAddMemFreeNode.
func (d *Driver) GraphAddMemFreeNode(_ *driver.Thread, h driver.Graph, deps []driver.GraphNode,
	p driver.DevicePtr) (driver.GraphNode, driver.Result) {
	defer d.mu.Unlock()
	const name = "cuGraphAddMemFreeNode"
	return d.addNodeTo(name, h, deps, graph.FreeNode, nil, func(g *graph.Graph) (graph.Work, driver.Result) {
		return d.freeWork(g, p)
	})
}

// GraphMemFreeNodeGetParams is cuGraphMemFreeNodeGetParams.
func (d *Driver) GraphMemFreeNodeGetParams(_ *driver.Thread, h driver.GraphNode) (driver.DevicePtr, driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphMemFreeNodeGetParams", h, graph.FreeNode)
	if r != ok {
		return 0, r
	}
	return allocOf(n).params.Dptr, ok
}

// DeviceGetGraphMemAttribute is cuDeviceGetGraphMemAttribute.
func (d *Driver) DeviceGetGraphMemAttribute(_ *driver.Thread, dev driver.Device, attr int32) (uint64, driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceGetGraphMemAttribute", dev)
	if r != ok {
		return 0, r
	}
	switch attr {
	case driver.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, driver.CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		return v.graphs.used.now, ok
	case driver.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		return v.graphs.used.high, ok
	case driver.CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		return v.graphs.reservedHigh, ok
	}
	return 0, driver.ResultInvalidValue
}

// DeviceSetGraphMemAttribute is cuDeviceSetGraphMemAttribute: the highest amounts can be set to 0,
// which sets them to the amounts now.
func (d *Driver) DeviceSetGraphMemAttribute(_ *driver.Thread, dev driver.Device, attr int32,
	value uint64) driver.Result {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceSetGraphMemAttribute", dev)
	if r != ok {
		return r
	}
	switch {
	case value == 0 && attr == driver.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		v.graphs.used.high = v.graphs.used.now
	case value == 0 && attr == driver.CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		v.graphs.reservedHigh = v.graphs.used.now
	default:
		return driver.ResultInvalidValue
	}
	return ok
}

// DeviceGraphMemTrim is cuDeviceGraphMemTrim.
func (d *Driver) DeviceGraphMemTrim(_ *driver.Thread, dev driver.Device) driver.Result {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceGraphMemTrim", dev)
	if r != ok {
		return r
	}
	d.space.trimGraphs(v)
	d.reclaim()
	return ok
}
