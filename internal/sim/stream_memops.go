package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// mostMemOps is the largest number of operations of a call.
const mostMemOps = 255

// StreamBatchMemOp is cuStreamBatchMemOp_v2. If one operation is refused, none is enqueued.
func (d *Driver) StreamBatchMemOp(th *driver.Thread, h driver.Stream, ops []driver.StreamBatchMemOpParams,
	flags uint32) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuStreamBatchMemOp", th, h)
	switch {
	case r != ok:
		return r
	case len(ops) > mostMemOps, flags != 0:
		return driver.ResultInvalidValue
	case len(ops) == 0:
		return ok
	}
	for i := range ops { // as an H200, before the memory of any
		if r := checkMemOp(&ops[i]); r != ok {
			return r
		}
	}
	var list []work
	for i := range ops {
		w, r := d.memOp(&ops[i])
		if r == ok && w != nil {
			r = d.reachesWord(s.ctx, ops[i].WaitValue().Address)
		}
		if r != ok {
			return r
		}
		if w != nil {
			list = append(list, w)
		}
	}
	if s.capture == nil {
		for _, w := range list {
			d.enqueue(s, w.op(nil))
		}
		return ok
	}
	return d.submit(s, d.batchWork(s.ctx, ops))
}

// sequence returns an operation that does one after the other. Only the last may have to wait.
func sequence(ops []*op) *op {
	all := &op{Visible: slices.ContainsFunc(ops, func(o *op) bool { return o.Visible })}
	all.Ready = func() bool {
		for len(ops) > 0 {
			o := ops[0]
			if o.Ready != nil && !o.Ready() {
				return false
			}
			if o.Effect != nil {
				o.Effect()
			}
			ops = ops[1:]
		}
		return true
	}
	return all
}

// checkMemOp checks an operation, but not whether there is memory at its address.
func checkMemOp(p *driver.StreamBatchMemOpParams) driver.Result {
	op, size := *p.Operation(), uint64(4)
	switch op {
	case driver.CU_STREAM_MEM_OP_WAIT_VALUE_64, driver.CU_STREAM_MEM_OP_WRITE_VALUE_64:
		size = 8
	}
	var wrong bool
	switch w := p.WaitValue(); op {
	case driver.CU_STREAM_MEM_OP_WAIT_VALUE_32, driver.CU_STREAM_MEM_OP_WAIT_VALUE_64:
		switch {
		case w.Flags&driver.CU_STREAM_WAIT_VALUE_FLUSH != 0: // not supported, according to the device's attribute
			return driver.ResultNotSupported
		case w.Flags > driver.CU_STREAM_WAIT_VALUE_NOR:
			return driver.ResultInvalidValue
		}
		wrong = uint64(w.Address)%size != 0
	case driver.CU_STREAM_MEM_OP_WRITE_VALUE_32, driver.CU_STREAM_MEM_OP_WRITE_VALUE_64:
		wrong = p.WriteValue().Flags != 0 || uint64(p.WriteValue().Address)%size != 0
	case driver.CU_STREAM_MEM_OP_BARRIER:
		wrong = p.MemoryBarrier().Flags > driver.CU_STREAM_MEMORY_BARRIER_TYPE_GPU
	case driver.CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return driver.ResultNotSupported
	default:
		wrong = true
	}
	if wrong {
		return driver.ResultInvalidValue
	}
	return ok
}

// memOp returns the work of an operation that was checked, nil for one that has no effect here.
func (d *Driver) memOp(p *driver.StreamBatchMemOpParams) (work, driver.Result) {
	switch w := p.WaitValue(); *p.Operation() {
	case driver.CU_STREAM_MEM_OP_WAIT_VALUE_32:
		v, flags := *w.Value(), w.Flags
		return d.waitWork(w.Address, 4, flags, func(b []byte) bool { return passes32(load32(b), v, flags) })
	case driver.CU_STREAM_MEM_OP_WAIT_VALUE_64:
		v, flags := *w.Value64(), w.Flags
		return d.waitWork(w.Address, 8, flags, func(b []byte) bool { return passes64(load64(b), v, flags) })
	case driver.CU_STREAM_MEM_OP_WRITE_VALUE_32, driver.CU_STREAM_MEM_OP_WRITE_VALUE_64:
		w := p.WriteValue()
		if v := *w.Value(); *p.Operation() == driver.CU_STREAM_MEM_OP_WRITE_VALUE_32 {
			return d.writeWork(w.Address, 4, func(b []byte) { store32(b, v) })
		}
		v := *w.Value64()
		return d.writeWork(w.Address, 8, func(b []byte) { store64(b, v) })
	}
	return nil, ok // a barrier
}

// memOps is the work of a batch of operations.
type memOps struct {
	commonWork
	d    *Driver
	ctx  *context
	list []driver.StreamBatchMemOpParams
}

// Type implements graph.Work.
func (*memOps) Type() graph.Type    { return graph.BatchMemOpNode }
func (m *memOps) context() *context { return m.ctx }

// Updatable implements graph.Work: there must be as many operations of the same kinds in the same context. As on an
// H200, barriers keep their flags.
func (m *memOps) Updatable(other graph.Work) bool {
	o, batch := other.(*memOps)
	return batch && m.ctx == o.ctx && slices.EqualFunc(m.list, o.list,
		func(a, b driver.StreamBatchMemOpParams) bool {
			return *a.Operation() == *b.Operation() && (*a.Operation() != driver.CU_STREAM_MEM_OP_BARRIER ||
				a.MemoryBarrier().Flags == b.MemoryBarrier().Flags)
		})
}

func (m *memOps) Replaceable(other graph.Work) bool { return m.Updatable(other) }

// batchWork returns the work of a batch of operations.
func (d *Driver) batchWork(c *context, ops []driver.StreamBatchMemOpParams) *memOps {
	return &memOps{d: d, ctx: c, list: slices.Clone(ops)}
}

func (m *memOps) op(graph.Values) *op {
	var ops []*op
	for i := range m.list {
		w, r := m.d.memOp(&m.list[i])
		if r != ok { // the memory does not exist, which no call has checked
			return &op{Calls: opCalls{Effect: func() { m.d.poison(driver.ResultIllegalAddress) }}}
		}
		if w != nil {
			ops = append(ops, w.op(nil))
		}
	}
	return sequence(ops)
}
