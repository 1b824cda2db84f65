package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
)

const hostFuncOp = "cuLaunchHostFunc"

// HostFunc makes the stream call f (cuLaunchHostFunc, CUDA 10.0). It returns when the call is
// enqueued. f runs on its own goroutine, after all work that was enqueued before. Work that is
// enqueued later waits until f returns, or ends its goroutine. A panic in f ends the program, as in
// any goroutine. It waits while the stream's queue is full: see docs/blocking.md.
//
// # Calls from f
//
// f may call this package: queries, records, launches, and everything else that returns at once. A
// call that waits for the stream, or for work enqueued after f, waits for f, and therefore never
// returns: [Stream.Synchronize], [Stream.Wait] and [Event.Wait] on such work,
// [Context.Synchronize], and calls that wait for all work in the context, as Close of memory, of a
// module and of the last Context does. It is best if f sends on a channel that has room, and
// another goroutine does the work.
//
// An H200's driver calls the functions of all streams of a context one after the other. A function
// that takes long delays the others, and a function that waits for another may never return. On
// Linux and Windows, package cusim's driver refuses waits that it recognizes as endless, with an
// error that matches [ResultNotPermitted]. A C function that other code enqueues runs on the
// driver's thread. There, calls that create, allocate, free or launch something, or use the current
// context, return [ResultNotPermitted].
//
// # When f is not called
//
// After an error that poisons the context, no function is called: f is dropped when a call reports
// the error, or when the context is released. Closing the stream drops no function.
//
// # Captures
//
// If the stream is being captured, f becomes part of the graph, which keeps f and calls it whenever
// the graph runs: see [Graph.AddHostFunc]. If other code captures the stream, for which each call
// queries the driver, f is kept as long as the context.
func (s *Stream) HostFunc(f func()) error {
	if s == nil || s.core == nil {
		return errNil(hostFuncOp, "stream")
	}
	if f == nil {
		return errNoHostFunc()
	}
	sc, err := s.enter(hostFuncOp)
	if err != nil {
		return err
	}
	defer s.leave()
	return sc.hostFunc(f)
}

// AddHostFunc adds a node that calls f whenever the graph runs, and that comes after other nodes.
// See [Stream.HostFunc] for what f may do. Executable graphs that run at the same time may call f
// at the same time. The graph, and executable graphs made from it, keep f. So a graph that f refers
// to is never collected: close it (cuStreamBeginCaptureToGraph, CUDA 12.3, and cuLaunchHostFunc).
// It may wait for the GPU: see docs/blocking.md.
func (g *Graph) AddHostFunc(f func(), after ...GraphNode) (GraphNode, error) {
	if g == nil || g.core == nil {
		return GraphNode{}, errNil(hostFuncOp, "graph")
	}
	if f == nil {
		return GraphNode{}, errNoHostFunc()
	}
	return g.addWork(g.core.ctx, func(s *Stream) error { return s.HostFunc(f) }, func(*Stream) {}, after)
}

func errNoHostFunc() error {
	return mistake(hostFuncOp, ErrNil, 0, "the function is nil: pass the function that the stream has to call")
}

// hostFunc enqueues a function, within a call on the stream.
func (sc *streamCore) hostFunc(f func()) error {
	ctx := sc.ctx
	c := sc.beginWork()
	h := new(hostFunc)
	call := f
	// A graph of other code may call the function any number of times.
	if once := c == nil && !sc.captureActive(); once {
		call = func() {
			if ctx.calls.take(h) {
				f()
			}
		}
	}
	if err := h.name(ctx.drv.table, call); err != nil {
		sc.endWork()
		return &Error{Op: hostFuncOp, Result: ResultNotSupported, Handle: uintptr(sc.raw), Err: err}
	}
	defer h.leave()
	c.keep(h, sc)
	sc.beginLegacy()
	res := ctx.drv.table.LaunchHostFunc(sc.inContext(), sc.raw, h.callback)
	sc.endLegacy()
	switch {
	case res == driver.ResultSuccess:
	case c != nil:
		c.objects.undo(h)
	default:
		ctx.calls.take(h)
	}
	sc.endWork()
	if res == driver.ResultSuccess {
		return nil
	}
	return ctx.callError(hostFuncOp, uintptr(sc.raw), res)
}

// hostFunc is a function with an address that the driver can call. Graphs keep it, or the context
// until it is called. Then it is dropped. A call by the driver after that has no effect.
type hostFunc struct {
	handle.Refs
	callback driver.Callback
}

// name gives the function an address. The caller then has a call in flight on h, which it ends.
func (h *hostFunc) name(t *driver.Table, f func()) (err error) {
	h.Retain()
	h.Close() // the release of the last reference drops the function
	h.callback, err = t.NewCallback(f)
	return err
}

func (h *hostFunc) leave() { h.Release(h) }

// usedOn notes that the stream will call the function.
func (h *hostFunc) usedOn(sc *streamCore) (noted bool) {
	sc.ctx.calls.add(h)
	return false
}

// Last drops the function when the last reference to it is released.
func (h *hostFunc) Last(bool) { h.callback.Drop() }

// hostCalls has the functions that the streams of a context have yet to call.
type hostCalls struct {
	mu      lock.Mutex[lock.HostCalls]
	pending map[*hostFunc]struct{}
}

// add adds a function, on which the caller has a call in flight.
func (c *hostCalls) add(h *hostFunc) {
	h.Retain()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = make(map[*hostFunc]struct{})
	}
	c.pending[h] = struct{}{}
}

// take removes a function, and reports whether it was there.
func (c *hostCalls) take(h *hostFunc) bool {
	c.mu.Lock()
	_, ok := c.pending[h]
	delete(c.pending, h)
	c.mu.Unlock()
	if ok {
		h.leave()
	}
	return ok
}

// dropAll drops all functions, which will not be called. It takes no other lock that calls of this
// package hold.
func (c *hostCalls) dropAll() {
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	for h := range pending {
		h.leave()
	}
}

// none reports whether no function is pending.
func (c *hostCalls) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) == 0
}

// dropHostFuncs drops the functions that will not be called because the context has been released.
// If other code keeps the context, its streams still call them.
func (c *contextCore) dropHostFuncs() {
	switch {
	case c.claim == borrowed, c.calls.none():
		return
	case c.claim == retained:
		_, active, res := c.drv.table.DevicePrimaryCtxGetState(driver.At{Relaxed: true}, c.dev)
		if res == driver.ResultSuccess && active != 0 {
			return
		}
	}
	c.calls.dropAll()
}
