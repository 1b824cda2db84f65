package extsem

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/races"
)

// Semaphore is a semaphore of another API. The driver waits for the work in the context before it
// destroys a semaphore. It crashes if a call gets a destroyed semaphore, or none.
type Semaphore struct {
	core.Resource
	Raw driver.ExternalSemaphore
	// Binary says that values mean nothing.
	Binary bool
	// ID is for the race detector: the driver may use Raw again.
	ID uint64
}

// Kind names the kind of the object in errors and reports.
func (x *Semaphore) Kind() string { return "external semaphore" }

// Handle returns the driver's handle.
func (x *Semaphore) Handle() uintptr { return uintptr(x.Raw) }

// Destroy destroys the object in the driver, unless other code owns it: see core.Object.
func (x *Semaphore) Destroy(at driver.At) (string, driver.Result) {
	if o := x.Ctx.Drv.Observer(); o != nil {
		o.SemaphoreDestroyed(x.ID)
	}
	at.Context = x.Ctx.Raw
	return "cuDestroyExternalSemaphore", x.Ctx.Drv.Table().DestroyExternalSemaphore(at, x.Raw)
}

// Op is a signal of an external semaphore, or a wait for it.
type Op struct {
	Sem   *Semaphore
	Owner any // keeps Sem from being collected
	Value uint64
}

// OpRef is what a cu.ExternalOp embeds, by an alias that is not exported: see core.Ref.
type OpRef struct{ op Op }

// externalOp returns the operation. The receiver is a value because a pointer would escape in generic functions.
func (r OpRef) externalOp() Op { return r.op }

func (r *OpRef) setExternalOp(op Op) { r.op = op }

// HasOp is a cu.ExternalOp. The interface is sealed, as core.Has is.
type HasOp interface{ externalOp() Op }

// OpOf returns the state of a cu.ExternalOp.
func OpOf[O HasOp](h O) Op { return h.externalOp() }

// SetOp sets the state of a new *cu.ExternalOp.
func SetOp(h interface{ setExternalOp(Op) }, op Op) { h.setExternalOp(op) }

// Check checks operations for a stream or graph.
func Check[O HasOp](op string, ops []O, of core.Member) error {
	for i := range ops {
		o := ops[i].externalOp()
		switch {
		case o.Sem == nil:
			return drivercall.Misuse(op, of, mistake.ErrNil,
				fmt.Sprintf("operation %d has no semaphore: see interop.Semaphore.At", i))
		case o.Sem.Ctx != of.Context(): // a driver refuses streams of other contexts
			return core.MixedError(op, o.Sem, of)
		case o.Sem.Closed():
			return o.Sem.Refused(op)
		}
	}
	return nil
}

// Params are operations as the driver takes them: signals, or waits.
type Params struct {
	wait    bool
	handles []driver.ExternalSemaphore
	signals []driver.ExternalSemaphoreSignalParams
	waits   []driver.ExternalSemaphoreWaitParams
}

// Fill makes p these operations, which Check has accepted.
func Fill[O HasOp](p *Params, ops []O, wait bool) {
	p.wait, p.handles, p.signals, p.waits = wait, p.handles[:0], p.signals[:0], p.waits[:0]
	for i := range ops {
		o := ops[i].externalOp()
		p.handles = append(p.handles, o.Sem.Raw)
		if wait {
			w := driver.ExternalSemaphoreWaitParams{}
			w.Params.Fence.Value = o.Value
			p.waits = append(p.waits, w)
		} else {
			s := driver.ExternalSemaphoreSignalParams{}
			s.Params.Fence.Value = o.Value
			p.signals = append(p.signals, s)
		}
	}
}

// SignalNode returns the operations as those of a node.
func (p *Params) SignalNode() driver.ExtSemSignalNodeParams {
	return driver.ExtSemSignalNodeParams{ExtSemArray: &p.handles[0], ParamsArray: &p.signals[0],
		NumExtSems: uint32(len(p.handles))}
}

// WaitNode returns the operations as those of a node.
func (p *Params) WaitNode() driver.ExtSemWaitNodeParams {
	return driver.ExtSemWaitNodeParams{ExtSemArray: &p.handles[0], ParamsArray: &p.waits[0],
		NumExtSems: uint32(len(p.handles))}
}

// Enqueue enqueues operations on the stream.
func Enqueue[O HasOp](sc *core.Stream, op string, ops []O, wait bool) error {
	if err := Check(op, ops, sc); err != nil {
		return err
	}
	w, err := sc.BeginEnqueue(op)
	if err != nil {
		return err
	}
	for i := range ops {
		if x := ops[i].externalOp().Sem; !w.Kept(&x.Resource) && !w.Use(&x.Resource, x) {
			w.End()
			return x.Refused(op)
		}
	}
	drv := sc.Ctx.Drv
	if o := drv.Observer(); o != nil {
		o.WordOps(sc.Observed(), Words(ops, wait))
	}
	scratch := w.Frame.Operations(len(ops))
	p, ok := scratch.Other.(*Params)
	if !ok {
		p = new(Params)
		scratch.Other = p
	}
	Fill(p, ops, wait)
	sc.EnterGate()
	var res driver.Result
	if wait {
		res = drv.Table().WaitExternalSemaphoresAsync(sc.InContext(), p.handles, p.waits, sc.Raw)
	} else {
		res = drv.Table().SignalExternalSemaphoresAsync(sc.InContext(), p.handles, p.signals, sc.Raw)
	}
	sc.LeaveGate()
	w.End()
	if res != driver.ResultSuccess {
		if o := drv.Observer(); o != nil {
			o.BlockFailed(sc.Observed())
		}
		return sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	drv.ReportRaces()
	return nil
}

// Words returns operations that Check has accepted, for the race detector.
func Words[O HasOp](ops []O, wait bool) []races.WordOp {
	list := make([]races.WordOp, len(ops))
	for i := range ops {
		o := ops[i].externalOp()
		list[i] = races.WordOp{Semaphore: o.Sem.ID, Binary: o.Sem.Binary, Value: o.Value, Waits: wait}
	}
	return list
}
