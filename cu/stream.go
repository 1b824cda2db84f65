package cu

import (
	"runtime"

	"github.com/purecu/purecu/internal/driver"
)

// Stream is a queue of work for the GPU, which executes it in order.
type Stream struct {
	_       noCopy
	core    *streamCore
	cleanup runtime.Cleanup
}

// streamCore fills cache lines of its own: goroutines on other streams write to
// their counters all the time.
type streamCore struct {
	resource[driver.Stream]
	_ [128 - 24]byte
}

// NewStream creates a stream (cuStreamCreate).
func (c *Context) NewStream(flags StreamFlags) (*Stream, error) {
	const op = "cuStreamCreate"
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if flags&^StreamNonBlocking != 0 {
		return nil, invalid(op, "unknown stream flags "+flags.String())
	}
	raw, res := core.drv.table.StreamCreate(driver.At{Context: core.raw}, uint32(flags))
	if res != driver.ResultSuccess {
		return nil, core.fail(op, 0, res)
	}
	s := &Stream{core: new(streamCore)}
	s.cleanup = owned(s, &s.core.resource, core, raw)
	core.drv.trace(traceStreamCreated, 0, raw)
	return s, nil
}

// enter begins a call on the stream, and leave ends it.
func (s *Stream) enter(op string) (*streamCore, error) {
	if s == nil || s.core == nil {
		return nil, errNil(op, "stream")
	}
	return s.core, s.core.enter(op)
}

func (s *Stream) leave() {
	s.core.leave()
	// The owner must not be collected, and thereby closed, before the call that
	// it was used for.
	runtime.KeepAlive(s)
}

// Close destroys the stream (cuStreamDestroy). It does not wait for the GPU:
// what was enqueued is still done. If calls on the stream are in flight, Close
// returns nil at once and the last of them destroys the stream. Further calls
// return nil.
func (s *Stream) Close() error {
	if s == nil || s.core == nil {
		return errNil("cuStreamDestroy", "stream")
	}
	return s.core.closeOwned(s.cleanup)
}

// Query reports whether all work that was enqueued on the stream has completed
// (cuStreamQuery). It may report an error of any of it.
func (s *Stream) Query() (Status, error) {
	const op = "cuStreamQuery"
	sc, err := s.enter(op)
	if err != nil {
		return StatusUnknown, err
	}
	sc.ctx.drv.trace(traceStreamQueried, 0, sc.raw)
	res := sc.ctx.drv.table.StreamQuery(driver.At{}, sc.raw)
	s.leave()
	switch res {
	case driver.ResultSuccess:
		return Complete, nil
	case driver.ResultNotReady:
		return Pending, nil
	}
	return StatusUnknown, sc.ctx.fail(op, uintptr(sc.raw), res)
}

// Synchronize waits until all work that was enqueued on the stream has
// completed, and holds an operating system thread meanwhile
// (cuStreamSynchronize). It may report an error of any of it.
func (s *Stream) Synchronize() error {
	const op = "cuStreamSynchronize"
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	sc.ctx.drv.trace(traceStreamSynchronized, 0, sc.raw)
	res := sc.ctx.drv.table.StreamSynchronize(driver.At{}, sc.raw)
	s.leave()
	if res != driver.ResultSuccess {
		return sc.ctx.fail(op, uintptr(sc.raw), res)
	}
	return nil
}

// WaitEvent makes the GPU hold back what is enqueued on the stream from now on
// until the event's present record has completed (cuStreamWaitEvent). The host
// does not wait. An event that was never recorded holds back nothing. The event
// may be of another context or device; later records of it change nothing.
func (s *Stream) WaitEvent(e *Event) error {
	const op = "cuStreamWaitEvent"
	if s == nil || s.core == nil {
		return errNil(op, "stream")
	}
	if e == nil {
		return errNil(op, "event")
	}
	o := e.owner.Load()
	if o != nil && o.core.ctx.drv != s.core.ctx.drv {
		return mixed(op, "event", o.core.ctx, "stream", s.core.ctx)
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	if o == nil {
		return nil // a zero Event that was never recorded
	}
	sl, err := o.core.enter(op)
	if err != nil {
		return err
	}
	defer o.leave(sl)
	if sl.unrecorded() {
		return nil
	}
	if res := sc.ctx.drv.table.StreamWaitEvent(driver.At{}, sc.raw, sl.raw, 0); res != driver.ResultSuccess {
		return sc.ctx.fail(op, uintptr(sc.raw), res)
	}
	sc.ctx.drv.trace(traceStreamWaited, sl.raw, sc.raw)
	return nil
}
