package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
)

// This file has the nodes of a graph that put work in order with work outside of the graph: by events, by words of memory,
// and by semaphores of other APIs. It has the nodes that call functions, too.

var recordRow = &nodeRow{
	typ: GraphNodeTypeEventRecord, early: true,
	add: "cuGraphAddEventRecordNode", set: "cuGraphEventRecordNodeSetEvent",
	execSet: "cuGraphExecEventRecordNodeSetEvent",
	call: func(c *nodeCall, deps []driver.GraphNode) (res driver.Result) {
		c.node, res = c.gc.ctx.drv.table().GraphAddEventRecordNode(c.at(), c.gc.raw, deps, c.event.raw)
		return res
	},
	change: func(c *nodeCall) driver.Result {
		t := c.gc.ctx.drv.table()
		if c.xc != nil {
			return t.GraphExecEventRecordNodeSetEvent(c.at(), c.xc.raw, c.node, c.event.raw)
		}
		return t.GraphEventRecordNodeSetEvent(driver.At{}, c.node, c.event.raw)
	},
	done: func(c *nodeCall) { c.objectSet().records(c.event) },
	seen: func(c *nodeCall, _ Work) races.NodeWork { return races.NodeWork{Event: uintptr(c.event.raw)} },
}

func (w *RecordNode) row() *nodeRow { return rowIf(w != nil, recordRow) }

func (w *RecordNode) begin(c *nodeCall) error { return c.enterEvent(w.Event, GraphNodeTypeEventRecord) }

func (w *RecordNode) prepare(c *nodeCall) error { return c.keepEvent() }

var waitRow = &nodeRow{
	typ: GraphNodeTypeWaitEvent, early: true,
	add: "cuGraphAddEventWaitNode", set: "cuGraphEventWaitNodeSetEvent", execSet: "cuGraphExecEventWaitNodeSetEvent",
	call: func(c *nodeCall, deps []driver.GraphNode) (res driver.Result) {
		c.node, res = c.gc.ctx.drv.table().GraphAddEventWaitNode(c.at(), c.gc.raw, deps, c.event.raw)
		return res
	},
	change: func(c *nodeCall) driver.Result {
		t := c.gc.ctx.drv.table()
		if c.xc != nil {
			return t.GraphExecEventWaitNodeSetEvent(c.at(), c.xc.raw, c.node, c.event.raw)
		}
		return t.GraphEventWaitNodeSetEvent(driver.At{}, c.node, c.event.raw)
	},
	seen: func(c *nodeCall, _ Work) races.NodeWork {
		return races.NodeWork{Event: uintptr(c.event.raw), Waits: true}
	},
}

func (w *WaitNode) row() *nodeRow { return rowIf(w != nil, waitRow) }

func (w *WaitNode) begin(c *nodeCall) error { return c.enterEvent(w.Event, GraphNodeTypeWaitEvent) }

func (w *WaitNode) prepare(c *nodeCall) error { return c.keepEvent() }

// enterEvent begins a call on an event that a node of the type will record or wait for.
func (c *nodeCall) enterEvent(e *Event, typ GraphNodeType) (err error) {
	if c.event, c.owner, err = e.enterNode(c.op, c.ctx, typ); err == nil {
		c.acquired = append(c.acquired, c.event)
	}
	return err
}

// keepEvent makes the work use the event of enterEvent.
func (c *nodeCall) keepEvent() error {
	c.objects = append(c.objects, c.event)
	return nil
}

// enterNode begins a call on an event that a node of this type will record or wait for. An event
// that does not exist yet is created in the context, of which the caller is a user. The caller
// holds no lock, because tracers are called.
func (e *Event) enterNode(op string, ctx *contextCore, typ GraphNodeType) (*slot, *eventOwner, error) {
	if e == nil {
		return nil, nil, errNil(op, "event")
	}
	o := e.load()
	if o == nil {
		if e.Flags()&EventInterprocess != 0 {
			return nil, nil, errNoNode(op, 0)
		}
		var err error
		if o, err = e.create(ctx); err != nil {
			return nil, nil, err
		}
	}
	if o.core.ctx.drv != ctx.drv {
		return nil, nil, mixed(op, o.core.handle(), "event", o.core.ctx, "graph", ctx)
	}
	enter := o.core.enterForeign
	if typ == GraphNodeTypeEventRecord {
		enter = o.core.enterNode
	}
	sl, err := enter(op)
	if err == nil && sl.shared() {
		o.leave(sl)
		return nil, nil, errNoNode(op, uintptr(sl.raw))
	}
	return sl, o, err
}

// readEvent returns the work of a node that records an event or waits for one.
func (c *nodeCall) readEvent() (Work, error) {
	e, _, err := c.gc.eventOf(c.node, c.use.typ)
	switch {
	case err != nil:
		return nil, err
	case c.use.typ == GraphNodeTypeWaitEvent:
		return &WaitNode{Handle: uintptr(e)}, nil
	}
	return &RecordNode{Handle: uintptr(e)}, nil
}

var hostRow = &nodeRow{
	typ: GraphNodeTypeHost,
	add: "cuGraphAddHostNode", set: "cuGraphHostNodeSetParams", execSet: "cuGraphExecHostNodeSetParams",
	call: func(c *nodeCall, deps []driver.GraphNode) (res driver.Result) {
		c.node, res = c.gc.ctx.drv.table().GraphAddHostNode(c.at(), c.gc.raw, deps, c.host.callback)
		return res
	},
	change: func(c *nodeCall) driver.Result {
		t := c.gc.ctx.drv.table()
		if c.xc != nil {
			return t.GraphExecHostNodeSetParams(c.at(), c.xc.raw, c.node, c.host.callback)
		}
		return t.GraphHostNodeSetParams(c.at(), c.node, c.host.callback)
	},
	seen: func(c *nodeCall, _ Work) races.NodeWork {
		return races.NodeWork{Call: c.op, HostFunc: c.hostNumber}
	},
}

func (w *HostNode) row() *nodeRow { return rowIf(w != nil, hostRow) }

func (w *HostNode) prepare(c *nodeCall) (err error) {
	if w.Func == nil {
		return errNoHostFunc(c.op)
	}
	if c.host, c.hostNumber, err = c.gc.ctx.drv.nodeFunc(w.Func); err != nil {
		return errUnnamed(c.op, uintptr(c.gc.raw), err)
	}
	c.acquired, c.objects = append(c.acquired, c.host), append(c.objects, c.host)
	return nil
}

func (c *nodeCall) readHost() (*HostNode, error) {
	p, res := c.gc.ctx.drv.table().GraphHostNodeGetParams(c.at(), c.node)
	if err := c.got("cuGraphHostNodeGetParams", res); err != nil {
		return nil, err
	}
	for _, known := range [...]func() []holder{
		func() []holder { return c.use.objects },
		c.gc.objects.list, // of a captured node
	} {
		for _, h := range known() {
			if h, ok := h.(*hostFunc); ok && h.callback.Addr == p.Fn && h.callback.Data == uintptr(p.UserData) {
				return &HostNode{h.f}, nil
			}
		}
	}
	return new(HostNode), nil
}

var memOpsRow = &nodeRow{
	typ: GraphNodeTypeBatchMemOp,
	add: "cuGraphAddBatchMemOpNode", set: "cuGraphBatchMemOpNodeSetParams",
	execSet: "cuGraphExecBatchMemOpNodeSetParams",
	call: func(c *nodeCall, deps []driver.GraphNode) (res driver.Result) {
		c.node, res = c.gc.ctx.drv.table().GraphAddBatchMemOpNode(c.at(), c.gc.raw, deps, c.batchParams())
		return res
	},
	change: func(c *nodeCall) driver.Result {
		t := c.gc.ctx.drv.table()
		if c.xc != nil {
			return t.GraphExecBatchMemOpNodeSetParams(c.at(), c.xc.raw, c.node, c.batchParams())
		}
		return t.GraphBatchMemOpNodeSetParams(c.at(), c.node, c.batchParams())
	},
	seen: func(c *nodeCall, w Work) races.NodeWork {
		return races.NodeWork{Call: "cuGraphAddBatchMemOpNode", Words: wordOps(w.(*MemOpsNode).Ops)}
	},
}

func (w *MemOpsNode) row() *nodeRow { return rowIf(w != nil, memOpsRow) }

func (w *MemOpsNode) prepare(c *nodeCall) error {
	if len(w.Ops) == 0 {
		return badValue(c.op, c.gc, "there are no operations: a node does at least one")
	}
	ops := currentOps(w.Ops)
	if err := checkMemOps(c.op, ops, c.gc); err != nil {
		return err
	}
	for i := range ops {
		if m := ops[i].r.mem; !keep(c, &m.resource, m) {
			return m.Refused(c.op)
		}
	}
	c.batch = memOpParams(c.batch[:0], ops)
	return nil
}

// batchParams returns the parameters of a node with memory operations.
func (c *nodeCall) batchParams() driver.BatchMemOpNodeParams {
	return driver.BatchMemOpNodeParams{Ctx: c.ctx.raw, Count: uint32(len(c.batch)), ParamArray: &c.batch[0]}
}

func (c *nodeCall) readMemOps() (*MemOpsNode, error) {
	p, res := c.gc.ctx.drv.table().GraphBatchMemOpNodeGetParams(c.at(), c.node)
	if err := c.got("cuGraphBatchMemOpNodeGetParams", res); err != nil {
		return nil, err
	}
	w := new(MemOpsNode)
	for _, raw := range p.Operations() {
		v := raw.WaitValue() // a write has the same members
		o := MemOp{op: *raw.Operation()}
		m := MemOpParams{Addr: uint64(v.Address), Size: int(o.size()), Waits: o.waits(), Value: *v.Value64()}
		switch o.op {
		case driver.CU_STREAM_MEM_OP_WAIT_VALUE_32, driver.CU_STREAM_MEM_OP_WAIT_VALUE_64:
			m.Until = WaitFor(v.Flags)
		case driver.CU_STREAM_MEM_OP_WRITE_VALUE_32, driver.CU_STREAM_MEM_OP_WRITE_VALUE_64:
		default:
			continue
		}
		if m.Size == 4 {
			m.Value = uint64(uint32(m.Value))
		}
		w.Params = append(w.Params, m)
	}
	return w, nil
}

// keptOfSemaphores is what an executable graph cannot change of a node with semaphores.
const keptOfSemaphores = "the number of semaphores of a node"

var signalRow = &nodeRow{
	typ: GraphNodeTypeExtSemasSignal, kept: keptOfSemaphores,
	add: "cuGraphAddExternalSemaphoresSignalNode", set: "cuGraphExternalSemaphoresSignalNodeSetParams",
	execSet: "cuGraphExecExternalSemaphoresSignalNodeSetParams",
	call: func(c *nodeCall, deps []driver.GraphNode) (res driver.Result) {
		t := c.gc.ctx.drv.table()
		c.node, res = t.GraphAddExternalSemaphoresSignalNode(c.at(), c.gc.raw, deps, c.external.signalNode())
		return res
	},
	change: func(c *nodeCall) driver.Result {
		t, p := c.gc.ctx.drv.table(), c.external.signalNode()
		if c.xc != nil {
			return t.GraphExecExternalSemaphoresSignalNodeSetParams(c.at(), c.xc.raw, c.node, p)
		}
		return t.GraphExternalSemaphoresSignalNodeSetParams(c.at(), c.node, p)
	},
	seen: func(c *nodeCall, w Work) races.NodeWork { return c.seenExternal(w.(*SignalNode).Ops, false) },
}

func (w *SignalNode) row() *nodeRow { return rowIf(w != nil, signalRow) }

func (w *SignalNode) prepare(c *nodeCall) error { return c.prepareExternal(w.Ops, false) }

var externalWaitRow = &nodeRow{
	typ: GraphNodeTypeExtSemasWait, kept: keptOfSemaphores,
	add: "cuGraphAddExternalSemaphoresWaitNode", set: "cuGraphExternalSemaphoresWaitNodeSetParams",
	execSet: "cuGraphExecExternalSemaphoresWaitNodeSetParams",
	call: func(c *nodeCall, deps []driver.GraphNode) (res driver.Result) {
		t := c.gc.ctx.drv.table()
		c.node, res = t.GraphAddExternalSemaphoresWaitNode(c.at(), c.gc.raw, deps, c.external.waitNode())
		return res
	},
	change: func(c *nodeCall) driver.Result {
		t, p := c.gc.ctx.drv.table(), c.external.waitNode()
		if c.xc != nil {
			return t.GraphExecExternalSemaphoresWaitNodeSetParams(c.at(), c.xc.raw, c.node, p)
		}
		return t.GraphExternalSemaphoresWaitNodeSetParams(c.at(), c.node, p)
	},
	seen: func(c *nodeCall, w Work) races.NodeWork { return c.seenExternal(w.(*ExternalWaitNode).Ops, true) },
}

func (w *ExternalWaitNode) row() *nodeRow { return rowIf(w != nil, externalWaitRow) }

func (w *ExternalWaitNode) prepare(c *nodeCall) error { return c.prepareExternal(w.Ops, true) }

// prepareExternal prepares signals of semaphores, or waits for them.
func (c *nodeCall) prepareExternal(ops []ExternalOp, wait bool) error {
	if len(ops) == 0 {
		return badValue(c.op, c.gc, "there are no operations: a node does at least one")
	}
	if err := checkExternal(c.op, ops, c.gc); err != nil {
		return err
	}
	for _, o := range ops {
		if !keep(c, &o.sem.resource, o.sem) {
			return o.sem.Refused(c.op)
		}
	}
	c.external = new(externalParams)
	c.external.fill(ops, wait)
	return nil
}

func (c *nodeCall) seenExternal(ops []ExternalOp, wait bool) races.NodeWork {
	return races.NodeWork{Call: c.op, Words: externalOps(ops, wait)}
}

// readExternal returns the work of a node with semaphores.
func (c *nodeCall) readExternal() (Work, error) {
	t := c.gc.ctx.drv.table()
	var list []ExternalOpParams
	if c.use.typ == GraphNodeTypeExtSemasWait {
		p, res := t.GraphExternalSemaphoresWaitNodeGetParams(c.at(), c.node)
		if err := c.got("cuGraphExternalSemaphoresWaitNodeGetParams", res); err != nil {
			return nil, err
		}
		for i, h := range p.Semaphores() {
			list = append(list, ExternalOpParams{uintptr(h), p.Params()[i].Params.Fence.Value})
		}
		return &ExternalWaitNode{Params: list}, nil
	}
	p, res := t.GraphExternalSemaphoresSignalNodeGetParams(c.at(), c.node)
	if err := c.got("cuGraphExternalSemaphoresSignalNodeGetParams", res); err != nil {
		return nil, err
	}
	for i, h := range p.Semaphores() {
		list = append(list, ExternalOpParams{uintptr(h), p.Params()[i].Params.Fence.Value})
	}
	return &SignalNode{Params: list}, nil
}

var emptyRow = &nodeRow{typ: GraphNodeTypeEmpty, add: "cuGraphAddEmptyNode"}

func (w *EmptyNode) row() *nodeRow { return rowIf(w != nil, emptyRow) }

func (w *EmptyNode) prepare(c *nodeCall) error { return c.notEmpty(true) }
