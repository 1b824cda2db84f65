package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
)

const hostFuncOp = "cuLaunchHostFunc"

// HostFunc has the stream call f when it gets there (cuLaunchHostFunc, CUDA 10.0). It
// returns when that is enqueued. f runs on a goroutine of its own, after all work that was
// enqueued before, and what is enqueued later waits until f has returned, or has ended its
// goroutine. A panic in f ends the program, as it does in any goroutine.
//
// f may call this package, as its goroutine is not the driver's: queries, records, launches
// and whatever else returns at once. What waits for the stream, or for anything enqueued
// behind f, never ends, as that waits for f: [Stream.Synchronize], [Stream.Wait] and
// [Event.Wait] on such work, [Context.Synchronize], and what waits for all work in the context,
// as Close of memory, of a module and of the last Context does. An H200's driver calls the
// functions of a context one after the other, those of all its streams: one that takes long
// holds the others up, and one that waits for another may do so for ever. It is best to send on
// a channel that has room, and so hand the work on. Package cusim's driver refuses waits of which
// it knows that they would never end, on Linux and Windows: the error matches
// [ResultNotPermitted]. A function in C that somebody else enqueues runs on the driver's
// thread, where calls that make, allocate, free or launch something, or use the current context,
// return [ResultNotPermitted].
//
// Nothing is called after an error that poisons the context: f is dropped when a call
// reports the error, or when the context is released. Closing the stream drops nothing.
//
// If the stream is being captured, f becomes part of the graph, which calls it whenever it
// runs, and keeps it: see [Graph.AddHostFunc]. If somebody else captures the stream,
// which is asked each time, f is kept for as long as the context.
// It waits while the stream's queue is full: see docs/blocking.md.
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

// AddHostFunc adds a node that calls f whenever the graph runs, after others; what holds
// for f is said at [Stream.HostFunc]. Executable graphs that can run at the same time may
// call it at the same time. The graph keeps f, and so do those that are made from it. So a
// graph that f refers to is not collected: it has to be closed
// (cuStreamBeginCaptureToGraph, CUDA 12.3, and cuLaunchHostFunc). It may wait for the GPU: see docs/blocking.md.
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
	return mistake(hostFuncOp, ErrNil, 0, "the function is nil: pass one to be called")
}

// hostFunc enqueues a function, within a call on the stream.
func (sc *streamCore) hostFunc(f func()) error {
	ctx := sc.ctx
	c := sc.beginWork()
	defer sc.endWork()
	h := new(hostFunc)
	call := f
	// What somebody else captures may be called any number of times.
	if once := c == nil && !sc.active(); once {
		call = func() {
			if ctx.calls.take(h) {
				f()
			}
		}
	}
	if err := h.name(ctx.drv.table, call); err != nil {
		return &Error{Op: hostFuncOp, Result: ResultNotSupported, Handle: uintptr(sc.raw), Err: err}
	}
	defer h.leave()
	c.keep(h, sc)
	sc.beginLegacy()
	res := ctx.drv.table.LaunchHostFunc(sc.inContext(), sc.raw, h.callback)
	sc.endLegacy()
	if res == driver.ResultSuccess {
		return nil
	}
	if c != nil {
		c.uses.undo(h)
	} else {
		ctx.calls.take(h)
	}
	return ctx.fail(hostFuncOp, uintptr(sc.raw), res)
}

// hostFunc is a function that the driver has been told of. Graphs hold it, or the context
// does until it is called; then it is dropped, and the driver may still call it, to no
// effect.
type hostFunc struct {
	handle.Refs
	callback driver.Callback
}

// name makes the function known. The caller ends the call that is in flight on it then.
func (h *hostFunc) name(t *driver.Table, f func()) (err error) {
	h.Retain()
	h.Close() // it goes with the last that holds it
	h.callback, err = t.NewCallback(f)
	return err
}

func (h *hostFunc) leave() { h.Release(h) }

// usedOn notes that the stream will call the function.
func (h *hostFunc) usedOn(sc *streamCore) { sc.ctx.calls.add(h) }

// Last drops the function when nobody holds it any more.
func (h *hostFunc) Last(bool) { h.callback.Drop() }

// hostCalls are functions that the streams of a context have yet to call.
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

// take takes a function away, and reports false if it is not there any more.
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

// dropAll drops all of them: they will not be called. No other lock is taken that this
// package's calls hold.
func (c *hostCalls) dropAll() {
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	for h := range pending {
		h.leave()
	}
}

// none reports whether there are none.
func (c *hostCalls) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) == 0
}

// dropHostFuncs drops what will not be called any more, now that the context has been
// released. Where others keep a context, its streams go on.
func (c *contextCore) dropHostFuncs() {
	switch {
	case c.claim == borrowed, c.calls.none():
		return
	case c.claim == retained:
		if _, active, res := c.drv.table.DevicePrimaryCtxGetState(driver.At{Relaxed: true}, c.dev); res == driver.ResultSuccess && active != 0 {
			return
		}
	}
	c.calls.dropAll()
}
