package cu

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/races"
)

// externalSemCore is a semaphore of another API. The driver waits for the work in the context before it
// destroys a semaphore. It crashes if a call gets a destroyed semaphore, or none.
type externalSemCore struct {
	core.Resource
	raw driver.ExternalSemaphore
	// binary says that values mean nothing.
	binary bool
	// id is for the race detector: the driver may use raw again.
	id uint64
}

// Kind names the kind of the object in errors and reports.
func (x *externalSemCore) Kind() string { return "external semaphore" }

// Handle returns the driver's handle.
func (x *externalSemCore) Handle() uintptr { return uintptr(x.raw) }

// Destroy destroys the object in the driver, unless other code owns it: see core.Object.
func (x *externalSemCore) Destroy(at driver.At) (string, driver.Result) {
	if o := x.Ctx.Drv.Observer(); o != nil {
		o.SemaphoreDestroyed(x.id)
	}
	at.Context = x.Ctx.Raw
	return "cuDestroyExternalSemaphore", x.Ctx.Drv.Table().DestroyExternalSemaphore(at, x.raw)
}

// ExternalOp is a signal of an [ExternalSemaphore], or a wait for it.
type ExternalOp struct {
	sem   *externalSemCore
	owner any // keeps sem from being collected
	value uint64
}

// checkExternal checks operations for a stream or graph.
func checkExternal(op string, ops []ExternalOp, of core.Member) error {
	for i, o := range ops {
		switch {
		case o.sem == nil:
			return core.Misuse(op, of, mistake.ErrNil, fmt.Sprintf("operation %d has no semaphore: see ExternalSemaphore.At", i))
		case o.sem.Ctx != of.Context(): // a driver refuses streams of other contexts
			return core.MixedError(op, o.sem, of)
		case o.sem.Closed():
			return o.sem.Refused(op)
		}
	}
	return nil
}

// externalParams are operations as the driver takes them: signals, or waits.
type externalParams struct {
	wait    bool
	handles []driver.ExternalSemaphore
	signals []driver.ExternalSemaphoreSignalParams
	waits   []driver.ExternalSemaphoreWaitParams
}

// fill makes them these operations.
func (p *externalParams) fill(ops []ExternalOp, wait bool) {
	p.wait, p.handles, p.signals, p.waits = wait, p.handles[:0], p.signals[:0], p.waits[:0]
	for _, o := range ops {
		p.handles = append(p.handles, o.sem.raw)
		if wait {
			w := driver.ExternalSemaphoreWaitParams{}
			w.Params.Fence.Value = o.value
			p.waits = append(p.waits, w)
		} else {
			s := driver.ExternalSemaphoreSignalParams{}
			s.Params.Fence.Value = o.value
			p.signals = append(p.signals, s)
		}
	}
}

// signalNode returns the operations as those of a node.
func (p *externalParams) signalNode() driver.ExtSemSignalNodeParams {
	return driver.ExtSemSignalNodeParams{ExtSemArray: &p.handles[0], ParamsArray: &p.signals[0],
		NumExtSems: uint32(len(p.handles))}
}

// waitNode returns the operations as those of a node.
func (p *externalParams) waitNode() driver.ExtSemWaitNodeParams {
	return driver.ExtSemWaitNodeParams{ExtSemArray: &p.handles[0], ParamsArray: &p.waits[0],
		NumExtSems: uint32(len(p.handles))}
}

// externalWork enqueues operations on the stream.
func externalWork(sc *core.Stream, op string, ops []ExternalOp, wait bool) error {
	if err := checkExternal(op, ops, sc); err != nil {
		return err
	}
	w, err := sc.BeginEnqueue(op)
	if err != nil {
		return err
	}
	for _, o := range ops {
		if x := o.sem; !w.Kept(&x.Resource) && !w.Use(&x.Resource, x) {
			w.End()
			return x.Refused(op)
		}
	}
	drv := sc.Ctx.Drv
	if o := drv.Observer(); o != nil {
		o.WordOps(sc.Observed(), externalOps(ops, wait))
	}
	scratch := w.Frame.Operations(len(ops))
	p, ok := scratch.Other.(*externalParams)
	if !ok {
		p = new(externalParams)
		scratch.Other = p
	}
	p.fill(ops, wait)
	sc.BeginLegacy()
	var res driver.Result
	if wait {
		res = drv.Table().WaitExternalSemaphoresAsync(sc.InContext(), p.handles, p.waits, sc.Raw)
	} else {
		res = drv.Table().SignalExternalSemaphoresAsync(sc.InContext(), p.handles, p.signals, sc.Raw)
	}
	sc.EndLegacy()
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

func externalOps(ops []ExternalOp, wait bool) []races.WordOp {
	list := make([]races.WordOp, len(ops))
	for i, o := range ops {
		list[i] = races.WordOp{Semaphore: o.sem.id, Binary: o.sem.binary, Value: o.value, Waits: wait}
	}
	return list
}
