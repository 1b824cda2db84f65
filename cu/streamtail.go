package cu

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
)

// streamEnds are the tails of destroyed streams whose work must be waited for. A tail stays until
// it is known to be complete, or the context is released, which waits for it.
type streamEnds struct {
	mu    lock.Mutex[lock.StreamEnds]
	tails map[*streamCore]*tail
	// sweep is the number of tails above which complete tails are dropped.
	sweep int
	// unmarked counts the tails that had no event.
	unmarked uint64
	// lost is the reason why the end of work is unknown on a stream that lasts as long as the CUDA
	// context. It is set when this package releases the context, which other code may still keep.
	lost error
}

// tail is an event that marks the end of a destroyed stream's work. If the driver fails to make or record
// one, the tail is the CUstream, which outlasts the Stream. A tail is closed when it is known to be
// complete. The last query in flight then returns the event to the spares, or destroys the CUstream.
type tail struct {
	handle.Refs
	ctx   *contextCore
	err   error // why there is no event
	event driver.Event
	// stream is the stream that is its own tail, or nil. failed says that the driver did not tell when its work ends.
	stream *streamCore
	failed atomic.Bool
	// lost is the context's count of tails without an event when the stream was marked, with this
	// tail if it has no event. The tails counted were left before the mark.
	lost uint64
}

// errNoTail says that the end of a stream's work will never be known.
var errNoTail = errors.New("the end of the work of a closed stream is unknown")

// query queries the driver for the tail's event.
func (t *tail) query() driver.Result {
	if !t.Acquire(t) {
		if t.failed.Load() {
			return driver.ResultUnknown
		}
		return driver.ResultSuccess
	}
	defer t.Release(t) // also if a tracer panics
	var res driver.Result
	if t.stream != nil {
		res, _ = t.stream.query()
	} else {
		res = t.ctx.queryEvent(t.event)
	}
	if res == driver.ResultSuccess {
		t.Close()
	}
	return res
}

// Last returns the event to the spares after the last query, or destroys the CUstream. It does so at
// once whatever the argument is: the caller of query holds no lock, and keeps the context only until
// query returns.
func (t *tail) Last(bool) {
	if t.stream != nil {
		t.stream.freeTail()
		return
	}
	t.ctx.doneWith(driver.CU_EVENT_DISABLE_TIMING, t.event)
}

// freeTail destroys a CUstream that was its own tail. The leak hook gets the error.
func (sc *streamCore) freeTail() {
	if op, res := sc.destroyRaw(background()); res != driver.ResultSuccess {
		sc.ctx.drv.leak(leakReport{Kind: sc.kind(), Handle: sc.handle(), Err: sc.ctx.backgroundError(op, sc.handle(), res)})
	}
}

// endIsKnown reports whether a closed stream's work has an end that is, or was, waited for.
func (sc *streamCore) endIsKnown() bool {
	return sc.permanent() || sc.leavesTail.Load() || sc.ctx.gone.Load()
}

// destroyedAndDone reports whether the stream is destroyed and all its work is known to be done.
func (sc *streamCore) destroyedAndDone() bool {
	if sc.permanent() {
		return sc.ctx.gone.Load() && !sc.ctx.lostWork()
	}
	if !sc.freed.Load() {
		return false
	}
	sc.ctx.ends.mu.Lock()
	defer sc.ctx.ends.mu.Unlock()
	return sc.ctx.ends.tails[sc] == nil
}

// lostWork reports whether work whose end is unknown may still run on a stream that lasts as long
// as the context. This package has released the context.
func (c *contextCore) lostWork() bool {
	// The end of a created context ends its work.
	return c.ends.lost != nil && c.claim != created && c.poison.Load() == nil
}

// leaveTail marks the end of the stream's work before the stream is destroyed, if an object needs
// that. If the mark is not possible now, a permanent stream is marked later, and another stream of this
// package is kept until its work is done: then leaveTail returns true, and the CUstream is destroyed later. A
// borrowed context is an exception: its owner may destroy it as soon as all objects are closed.
func (sc *streamCore) leaveTail() (kept bool) {
	if !sc.leavesTail.Load() {
		return false
	}
	ctx := sc.ctx
	t := &tail{ctx: ctx, err: errNoTail} // until the mark is made: a tracer may panic
	var m untracedMark
	mark := func() error {
		ctx.ends.mu.Lock()
		t.lost = ctx.ends.unmarked
		ctx.ends.mu.Unlock()
		m, t.err = sc.markFirst()
		t.event = m.event
		return ctx.unlessPoisoned(t.err)
	}
	put := func() {
		ctx.putTail(sc, t)
		m.done()
	}
	now := true
	defer func() {
		if now {
			put()
		}
	}()
	err := mark()
	lasts := !ctx.isBorrowed()
	if err != nil && lasts && sc.permanent() {
		now = false
		ctx.hold() // cannot fail: the stream is a user of the context until now
		go func() {
			defer ctx.endHold()
			defer put()
			retryUntilDone(ctx.drv.table().Clock(), mark)
		}()
		return false
	}
	for n := 1; n < 3 && err != nil && !errors.Is(err, errBusy); n++ { // another Stream cannot be marked later
		err = mark()
	}
	if err == nil || errors.Is(err, errBusy) {
		return false
	}
	switch res, asked := sc.query(); {
	case res == driver.ResultSuccess:
		now = false // there is no work left
	case res == driver.ResultNotReady && asked && lasts && !sc.foreign:
		now = false
		t.err, t.stream = nil, sc
		put()      // before the goroutine looks for it
		ctx.hold() // cannot fail, as above
		go ctx.endStreamTail(sc, t)
		return true
	}
	return false
}

// endStreamTail waits for the end of the work of a stream that is its own tail. If the driver does not tell that, the
// CUstream is destroyed as one without a tail: what its work uses is kept, and its green context is not.
func (c *contextCore) endStreamTail(sc *streamCore, t *tail) {
	defer c.endHold()
	wait := func() error { return c.waitTail(sc) }
	if err := retryUntilDone(c.drv.table().Clock(), wait); err != nil {
		t.failed.Store(true)
		c.putTail(sc, &tail{ctx: c, err: err})
	}
	if _, last := t.Close(); last { // the context is poisoned, or the wait has failed
		t.Last(false)
		c.dropTail(sc, t)
	}
}

// putTail keeps a stream's tail, so that it can be waited for.
func (c *contextCore) putTail(sc *streamCore, t *tail) {
	if t.err != nil && c.unlessPoisoned(t.err) == nil {
		return
	}
	c.ends.mu.Lock()
	if c.ends.tails == nil {
		c.ends.tails = make(map[*streamCore]*tail)
	}
	if t.err != nil {
		c.ends.unmarked++
		t.lost = c.ends.unmarked
	} else if sc.permanent() {
		// This mark is behind the work of all Streams of the CUstream that were released before.
		maps.DeleteFunc(c.ends.tails, func(other *streamCore, its *tail) bool {
			return its.err != nil && its.lost <= t.lost && other.permanent() && other.same(sc)
		})
	}
	c.ends.tails[sc] = t
	many := len(c.ends.tails) > max(c.ends.sweep, maxSpare)
	c.ends.mu.Unlock()
	if many {
		c.dropTails()
	}
}

// dropTails drops the complete tails.
func (c *contextCore) dropTails() {
	c.ends.mu.Lock()
	tails := maps.Clone(c.ends.tails)
	c.ends.mu.Unlock()
	for sc, t := range tails {
		if t.err == nil && t.query() == driver.ResultSuccess {
			c.dropTail(sc, t)
		}
	}
	// The limit grows with the tails that stay: closing streams must not become slow while the GPU
	// is busy.
	c.ends.mu.Lock()
	c.ends.sweep = 2 * len(c.ends.tails)
	c.ends.mu.Unlock()
}

// dropTail drops one tail.
func (c *contextCore) dropTail(sc *streamCore, t *tail) {
	c.ends.mu.Lock()
	defer c.ends.mu.Unlock()
	if c.ends.tails[sc] == t {
		delete(c.ends.tails, sc)
	}
}

// waitTail waits for the end of a destroyed stream's work.
func (c *contextCore) waitTail(sc *streamCore) error {
	c.ends.mu.Lock()
	t := c.ends.tails[sc]
	c.ends.mu.Unlock()
	if t == nil {
		return nil // it is complete
	}
	if t.err != nil {
		return fmt.Errorf("%w: %v", errNoTail, t.err) // %v hides an errBusy, because the error is final
	}
	if t.stream != nil && t.query() == driver.ResultNotReady {
		return errBusy // a software driver could not refuse the wait in a host function
	}
	err := c.pollEvent(t.event, t.query)
	if err != nil {
		return err
	}
	if t.Closed() {
		c.dropTail(sc, t)
	}
	return nil
}

// endTails waits for the work of destroyed streams, and destroys the events of their tails.
func (c *contextCore) endTails(at driver.At) {
	streams := slices.Collect(maps.Keys(c.ends.tails))
	eachDespitePanic(len(streams), func(i int) {
		sc := streams[i]
		t := c.ends.tails[sc]
		if t.err != nil {
			return
		}
		err := retryUntilDone(c.drv.table().Clock(), func() error { return c.waitTail(sc) })
		if err != nil {
			c.ends.mu.Lock()
			t.err = err
			c.ends.mu.Unlock()
		}
		if !t.Closed() { // the context is poisoned, or the wait failed
			err = errors.Join(err, c.destroyEvent(t.event, at))
		}
		if err != nil {
			c.drv.leak(leakReport{Kind: "context", Handle: uintptr(c.raw), Err: err})
		}
	})
	for sc, t := range c.ends.tails {
		if t.err != nil && sc.permanent() { // a later wait may be for this stream
			c.ends.lost = t.err
		}
	}
}
