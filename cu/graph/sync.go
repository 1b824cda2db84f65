package graph

import (
	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/extsem"
	"github.com/purecu/purecu/internal/hostfunc"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/races"
	"github.com/purecu/purecu/internal/subject"
	"github.com/purecu/purecu/internal/wordop"
)

// This file has the nodes of a graph that put work in order with work outside of the graph: by events, by words of
// memory, and by semaphores of other APIs. It has the nodes that call functions, too.

var recordRow = &nodeFuncs[driver.Event]{&nodeRow{
	typ: NodeTypeEventRecord,
	add: "cuGraphAddEventRecordNode", set: "cuGraphEventRecordNodeSetEvent",
	execSet: "cuGraphExecEventRecordNodeSetEvent",
	early:   func(c *nodeCall, w Work) error { return c.enterEvent(w.(*Record).Event, NodeTypeEventRecord) },
}, (*driver.Table).GraphAddEventRecordNode, (*driver.Table).GraphEventRecordNodeSetEvent,
	(*driver.Table).GraphExecEventRecordNodeSetEvent}

func (w *Record) row() *nodeRow { return rowIf(w != nil, recordRow.nodeRow) }

func (w *Record) prepare(c *nodeCall) error {
	sl := c.objects[0].(*core.Slot) // of enterEvent
	c.work = &nodeParams[driver.Event]{recordRow, sl.Raw, races.NodeWork{Event: uintptr(sl.Raw)},
		func(c *nodeCall) { c.objectSet().Records(sl) }}
	return nil
}

var waitRow = &nodeFuncs[driver.Event]{&nodeRow{
	typ: NodeTypeWaitEvent,
	add: "cuGraphAddEventWaitNode", set: "cuGraphEventWaitNodeSetEvent", execSet: "cuGraphExecEventWaitNodeSetEvent",
	early: func(c *nodeCall, w Work) error { return c.enterEvent(w.(*Wait).Event, NodeTypeWaitEvent) },
}, (*driver.Table).GraphAddEventWaitNode, (*driver.Table).GraphEventWaitNodeSetEvent,
	(*driver.Table).GraphExecEventWaitNodeSetEvent}

func (w *Wait) row() *nodeRow { return rowIf(w != nil, waitRow.nodeRow) }

func (w *Wait) prepare(c *nodeCall) error {
	sl := c.objects[0].(*core.Slot) // of enterEvent
	c.work = &nodeParams[driver.Event]{f: waitRow, p: sl.Raw,
		observed: races.NodeWork{Event: uintptr(sl.Raw), Waits: true}}
	return nil
}

// enterEvent begins a call on an event that a node of the type will record or wait for. An event that
// does not exist yet is created in the graph's context. The caller holds no lock, because tracers are
// called.
func (c *nodeCall) enterEvent(e cu.AnyEvent, typ NodeType) error {
	r, err := subject.EventUse(c.op, e)
	if err != nil {
		return err
	}
	if r.Event() == nil {
		if r.Flags()&driver.CU_EVENT_INTERPROCESS != 0 {
			return core.NoNodeError(c.op, 0)
		}
		if r.Owner, err = core.CreateEvent(core.EventRefOf(e.(*cu.Event)), c.gc.Ctx); err != nil {
			return err
		}
	}
	if ec := r.Event(); ec.Ctx.Drv != c.gc.Ctx.Drv {
		r.Leave()
		return core.MixedError(c.op, ec, c.gc)
	}
	if err := r.EnterForGraph(c.op, typ == NodeTypeEventRecord); err != nil {
		return err
	}
	if r.Slot.Interprocess() {
		r.Leave()
		return core.NoNodeError(c.op, uintptr(r.Slot.Raw))
	}
	c.acquired, c.objects = append(c.acquired, r.Slot), append(c.objects, r.Slot)
	return nil
}

// readEvent returns the work of a node that records an event or waits for one.
func (c *nodeCall) readEvent() (Work, error) {
	e, _, err := c.gc.eventOf(c.node, c.use.typ)
	switch {
	case err != nil:
		return nil, err
	case c.use.typ == NodeTypeWaitEvent:
		return &Wait{Handle: uintptr(e)}, nil
	}
	return &Record{Handle: uintptr(e)}, nil
}

var hostRow = &nodeFuncs[driver.Callback]{&nodeRow{
	typ: NodeTypeHost,
	add: "cuGraphAddHostNode", set: "cuGraphHostNodeSetParams", execSet: "cuGraphExecHostNodeSetParams",
}, (*driver.Table).GraphAddHostNode, (*driver.Table).GraphHostNodeSetParams, (*driver.Table).GraphExecHostNodeSetParams}

func (w *HostFunc) row() *nodeRow { return rowIf(w != nil, hostRow.nodeRow) }

func (w *HostFunc) prepare(c *nodeCall) error {
	if w.Func == nil {
		return hostfunc.NilError(c.op)
	}
	h, number, err := hostfunc.NewNodeFunc(c.gc.Ctx.Drv, w.Func)
	if err != nil {
		return hostfunc.UnnamedError(c.op, uintptr(c.gc.raw), err)
	}
	c.acquired, c.objects = append(c.acquired, h), append(c.objects, h)
	c.work = &nodeParams[driver.Callback]{f: hostRow, p: h.Callback,
		observed: races.NodeWork{Call: c.op, HostFunc: number}}
	return nil
}

func (c *nodeCall) readHost() (*HostFunc, error) {
	p, err := askNode(c, "cuGraphHostNodeGetParams", (*driver.Table).GraphHostNodeGetParams)
	if err != nil {
		return nil, err
	}
	for _, known := range [...]func() []core.Holder{
		func() []core.Holder { return c.use.objects },
		c.gc.objects.List, // of a captured node
	} {
		for _, h := range known() {
			if h, ok := h.(*hostfunc.Func); ok && h.Callback.Addr == p.Fn && h.Callback.Data == uintptr(p.UserData) {
				return &HostFunc{h.Func}, nil
			}
		}
	}
	return new(HostFunc), nil
}

var memOpsRow = &nodeFuncs[driver.BatchMemOpNodeParams]{&nodeRow{
	typ: NodeTypeBatchMemOp,
	add: "cuGraphAddBatchMemOpNode", set: "cuGraphBatchMemOpNodeSetParams",
	execSet: "cuGraphExecBatchMemOpNodeSetParams",
}, (*driver.Table).GraphAddBatchMemOpNode, (*driver.Table).GraphBatchMemOpNodeSetParams,
	(*driver.Table).GraphExecBatchMemOpNodeSetParams}

func (w *MemOps) row() *nodeRow { return rowIf(w != nil, memOpsRow.nodeRow) }

func (w *MemOps) prepare(c *nodeCall) error {
	if len(w.Ops) == 0 {
		return drivercall.BadValue(c.op, c.gc, "there are no operations: a node does at least one")
	}
	if err := wordop.CheckCount(c.op, len(w.Ops), c.gc); err != nil {
		return err
	}
	params, words := make([]driver.StreamBatchMemOpParams, len(w.Ops)), make([]races.WordOp, len(w.Ops))
	for i := range w.Ops {
		o := *subject.MemOp(&w.Ops[i])
		o.Update()
		if err := o.Check(c.op, i, c.gc); err != nil {
			return err
		}
		if m := o.Mem(); !keep(c, &m.Resource, m) {
			return m.Refused(c.op)
		}
		params[i], words[i] = o.Params(), o.Observed()
	}
	c.work = &nodeParams[driver.BatchMemOpNodeParams]{f: memOpsRow,
		p:        driver.BatchMemOpNodeParams{Ctx: c.ctx.Raw, Count: uint32(len(params)), ParamArray: &params[0]},
		observed: races.NodeWork{Call: memOpsRow.add, Words: words}}
	return nil
}

func (c *nodeCall) readMemOps() (*MemOps, error) {
	p, err := askNode(c, "cuGraphBatchMemOpNodeGetParams", (*driver.Table).GraphBatchMemOpNodeGetParams)
	if err != nil {
		return nil, err
	}
	w := new(MemOps)
	for _, raw := range p.Operations() {
		v := raw.WaitValue() // a write has the same members
		o := wordop.New(*raw.Operation(), memstate.Span{}, 0, 0)
		m := MemOpParams{Addr: uint64(v.Address), Size: int(o.Size()), Waits: o.Waits(), Value: *v.Value64()}
		switch o.Kind() {
		case driver.CU_STREAM_MEM_OP_WAIT_VALUE_32, driver.CU_STREAM_MEM_OP_WAIT_VALUE_64:
			m.Until = cu.WaitFor(v.Flags)
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

var signalRow = &nodeFuncs[driver.ExtSemSignalNodeParams]{&nodeRow{
	typ: NodeTypeExtSemasSignal, kept: keptOfSemaphores,
	add: "cuGraphAddExternalSemaphoresSignalNode", set: "cuGraphExternalSemaphoresSignalNodeSetParams",
	execSet: "cuGraphExecExternalSemaphoresSignalNodeSetParams",
}, (*driver.Table).GraphAddExternalSemaphoresSignalNode, (*driver.Table).GraphExternalSemaphoresSignalNodeSetParams,
	(*driver.Table).GraphExecExternalSemaphoresSignalNodeSetParams}

func (w *ExternalSignal) row() *nodeRow { return rowIf(w != nil, signalRow.nodeRow) }

func (w *ExternalSignal) prepare(c *nodeCall) error {
	return prepareExternal(c, signalRow, w.Ops, false, (*extsem.Params).SignalNode)
}

var externalWaitRow = &nodeFuncs[driver.ExtSemWaitNodeParams]{&nodeRow{
	typ: NodeTypeExtSemasWait, kept: keptOfSemaphores,
	add: "cuGraphAddExternalSemaphoresWaitNode", set: "cuGraphExternalSemaphoresWaitNodeSetParams",
	execSet: "cuGraphExecExternalSemaphoresWaitNodeSetParams",
}, (*driver.Table).GraphAddExternalSemaphoresWaitNode, (*driver.Table).GraphExternalSemaphoresWaitNodeSetParams,
	(*driver.Table).GraphExecExternalSemaphoresWaitNodeSetParams}

func (w *ExternalWait) row() *nodeRow { return rowIf(w != nil, externalWaitRow.nodeRow) }

func (w *ExternalWait) prepare(c *nodeCall) error {
	return prepareExternal(c, externalWaitRow, w.Ops, true, (*extsem.Params).WaitNode)
}

// prepareExternal prepares signals of semaphores, or waits for them. told converts them to what the driver is told.
func prepareExternal[P any](c *nodeCall, f *nodeFuncs[P], ops []cu.ExternalOp, wait bool,
	told func(*extsem.Params) P) error {
	if len(ops) == 0 {
		return drivercall.BadValue(c.op, c.gc, "there are no operations: a node does at least one")
	}
	if err := extsem.Check(c.op, ops, c.gc); err != nil {
		return err
	}
	for i := range ops {
		if sem := extsem.OpOf(ops[i]).Sem; !keep(c, &sem.Resource, sem) {
			return sem.Refused(c.op)
		}
	}
	p := new(extsem.Params)
	extsem.Fill(p, ops, wait)
	c.work = &nodeParams[P]{f: f, p: told(p),
		observed: races.NodeWork{Call: c.op, Words: extsem.Words(ops, wait)}}
	return nil
}

func (c *nodeCall) readSignal() (*ExternalSignal, error) {
	p, err := askNode(c, "cuGraphExternalSemaphoresSignalNodeGetParams",
		(*driver.Table).GraphExternalSemaphoresSignalNodeGetParams)
	if err != nil {
		return nil, err
	}
	w := new(ExternalSignal)
	for i, h := range p.Semaphores() {
		w.Params = append(w.Params, ExternalOpParams{uintptr(h), p.Params()[i].Params.Fence.Value})
	}
	return w, nil
}

func (c *nodeCall) readExternalWait() (*ExternalWait, error) {
	p, err := askNode(c, "cuGraphExternalSemaphoresWaitNodeGetParams",
		(*driver.Table).GraphExternalSemaphoresWaitNodeGetParams)
	if err != nil {
		return nil, err
	}
	w := new(ExternalWait)
	for i, h := range p.Semaphores() {
		w.Params = append(w.Params, ExternalOpParams{uintptr(h), p.Params()[i].Params.Fence.Value})
	}
	return w, nil
}
