package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
)

// streamEnds are the tails of destroyed streams whose work must be waited for. A tail stays until
// it is known to be complete, or the context is released, which waits for it.
type streamEnds struct {
	Mu    lock.Mutex[lock.StreamEnds]
	Tails map[*Stream]*Tail
	// sweep is the number of tails above which complete tails are dropped.
	sweep int
	// Unmarked counts the tails that had no event.
	Unmarked uint64
	// lost is the reason why the end of work is unknown on a stream that lasts as long as the CUDA
	// context. It is set when the library releases the context, which other code may still keep.
	lost error
}

// Tail is an event that marks the end of a destroyed stream's work. If the driver fails to make or record
// one, the tail is the CUstream, which outlasts the Stream. A tail is closed when it is known to be
// complete. The last query in flight then returns the event to the spares, or destroys the CUstream.
type Tail struct {
	handle.Refs
	Ctx   *Context
	Err   error // why there is no event
	Event driver.Event
	// stream is the stream that is its own tail, or nil. failed says that the driver did not tell when its work ends.
	stream *Stream
	failed atomic.Bool
	// Lost is the context's count of tails without an event when the stream was marked, with this
	// tail if it has no event. The tails counted were left before the mark.
	Lost uint64
}

// ErrNoTail says that the end of a stream's work will never be known.
var ErrNoTail = errors.New("the end of the work of a closed stream is unknown")

// query queries the driver for the tail's event.
func (t *Tail) query() driver.Result {
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
		res = t.Ctx.QueryEvent(t.Event)
	}
	if res == driver.ResultSuccess {
		t.Close()
	}
	return res
}

// Last returns the event to the spares after the last query, or destroys the CUstream. It does so at
// once whatever the argument is: the caller of query holds no lock, and keeps the context only until
// query returns.
func (t *Tail) Last(bool) {
	if t.stream != nil {
		t.stream.freeTail()
		return
	}
	t.Ctx.DoneWith(driver.CU_EVENT_DISABLE_TIMING, t.Event)
}

// freeTail destroys a CUstream that was its own tail. The leak hook gets the error.
func (sc *Stream) freeTail() {
	if op, res := sc.destroyRaw(BackgroundAt()); res != driver.ResultSuccess {
		err := sc.Ctx.BackgroundError(op, sc.Handle(), res)
		sc.Ctx.Drv.Leak(drivercall.LeakReport{Kind: sc.Kind(), Handle: sc.Handle(), Err: err})
	}
}

// endIsKnown reports whether a closed stream's work has an end that is, or was, waited for.
func (sc *Stream) endIsKnown() bool {
	return sc.Permanent() || sc.leavesTail.Load() || sc.Ctx.Gone.Load()
}

// destroyedAndDone reports whether the stream is destroyed and all its work is known to be done.
func (sc *Stream) destroyedAndDone() bool {
	if sc.Permanent() {
		return sc.Ctx.Gone.Load() && !sc.Ctx.lostWork()
	}
	if !sc.Freed.Load() {
		return false
	}
	sc.Ctx.Ends.Mu.Lock()
	defer sc.Ctx.Ends.Mu.Unlock()
	return sc.Ctx.Ends.Tails[sc] == nil
}

// lostWork reports whether work whose end is unknown may still run on a stream that lasts as long
// as the context. The library has released the context.
func (c *Context) lostWork() bool {
	// The end of a created context ends its work.
	return c.Ends.lost != nil && c.Claim != Created && c.Poison.Load() == nil
}

// LeaveTail marks the end of the stream's work before the stream is destroyed, if an object needs
// that. If the mark is not possible now, a permanent stream is marked later, and another stream of the
// library is kept until its work is done: then LeaveTail returns true, and the CUstream is destroyed later. A
// borrowed context is an exception: its owner may destroy it as soon as all objects are closed.
func (sc *Stream) LeaveTail() (kept bool) {
	if !sc.leavesTail.Load() {
		return false
	}
	ctx := sc.Ctx
	t := &Tail{Ctx: ctx, Err: ErrNoTail} // until the mark is made: a tracer may panic
	var m untracedMark
	mark := func() error {
		ctx.Ends.Mu.Lock()
		t.Lost = ctx.Ends.Unmarked
		ctx.Ends.Mu.Unlock()
		m, t.Err = sc.markFirst()
		t.Event = m.event
		return ctx.unlessPoisoned(t.Err)
	}
	put := func() {
		ctx.PutTail(sc, t)
		m.done()
	}
	now := true
	defer func() {
		if now {
			put()
		}
	}()
	err := mark()
	lasts := !ctx.IsBorrowed()
	if err != nil && lasts && sc.Permanent() {
		now = false
		ctx.Hold() // cannot fail: the stream is a user of the context until now
		go func() {
			defer ctx.EndHold()
			defer put()
			RetryUntilDone(ctx.Drv.Table().Clock(), mark)
		}()
		return false
	}
	for n := 1; n < 3 && err != nil && !errors.Is(err, ErrBusy); n++ { // another Stream cannot be marked later
		err = mark()
	}
	if err == nil || errors.Is(err, ErrBusy) {
		return false
	}
	switch res, asked := sc.query(); {
	case res == driver.ResultSuccess:
		now = false // there is no work left
	case res == driver.ResultNotReady && asked && lasts && !sc.Foreign:
		now = false
		t.Err, t.stream = nil, sc
		put()      // before the goroutine looks for it
		ctx.Hold() // cannot fail, as above
		go ctx.endStreamTail(sc, t)
		return true
	}
	return false
}

// endStreamTail waits for the end of the work of a stream that is its own tail. If the driver does not tell that, the
// CUstream is destroyed as one without a tail: what its work uses is kept, and its green context is not.
func (c *Context) endStreamTail(sc *Stream, t *Tail) {
	defer c.EndHold()
	wait := func() error { return c.waitTail(sc) }
	if err := RetryUntilDone(c.Drv.Table().Clock(), wait); err != nil {
		t.failed.Store(true)
		c.PutTail(sc, &Tail{Ctx: c, Err: err})
	}
	if _, last := t.Close(); last { // the context is poisoned, or the wait has failed
		t.Last(false)
		c.dropTail(sc, t)
	}
}

// PutTail keeps a stream's tail, so that it can be waited for.
func (c *Context) PutTail(sc *Stream, t *Tail) {
	if t.Err != nil && c.unlessPoisoned(t.Err) == nil {
		return
	}
	c.Ends.Mu.Lock()
	if c.Ends.Tails == nil {
		c.Ends.Tails = make(map[*Stream]*Tail)
	}
	if t.Err != nil {
		c.Ends.Unmarked++
		t.Lost = c.Ends.Unmarked
	} else if sc.Permanent() {
		// This mark is behind the work of all Streams of the CUstream that were released before.
		maps.DeleteFunc(c.Ends.Tails, func(other *Stream, its *Tail) bool {
			return its.Err != nil && its.Lost <= t.Lost && other.Permanent() && other.Same(sc)
		})
	}
	c.Ends.Tails[sc] = t
	many := len(c.Ends.Tails) > max(c.Ends.sweep, MaxSpare)
	c.Ends.Mu.Unlock()
	if many {
		c.dropTails()
	}
}

// dropTails drops the complete tails.
func (c *Context) dropTails() {
	c.Ends.Mu.Lock()
	tails := maps.Clone(c.Ends.Tails)
	c.Ends.Mu.Unlock()
	for sc, t := range tails {
		if t.Err == nil && t.query() == driver.ResultSuccess {
			c.dropTail(sc, t)
		}
	}
	// The limit grows with the tails that stay: closing streams must not become slow while the GPU
	// is busy.
	c.Ends.Mu.Lock()
	c.Ends.sweep = 2 * len(c.Ends.Tails)
	c.Ends.Mu.Unlock()
}

// dropTail drops one tail.
func (c *Context) dropTail(sc *Stream, t *Tail) {
	c.Ends.Mu.Lock()
	defer c.Ends.Mu.Unlock()
	if c.Ends.Tails[sc] == t {
		delete(c.Ends.Tails, sc)
	}
}

// waitTail waits for the end of a destroyed stream's work.
func (c *Context) waitTail(sc *Stream) error {
	c.Ends.Mu.Lock()
	t := c.Ends.Tails[sc]
	c.Ends.Mu.Unlock()
	if t == nil {
		return nil // it is complete
	}
	if t.Err != nil {
		return fmt.Errorf("%w: %v", ErrNoTail, t.Err) // %v hides an ErrBusy, because the error is final
	}
	if t.stream != nil && t.query() == driver.ResultNotReady {
		return ErrBusy // a software driver could not refuse the wait in a host function
	}
	err := c.pollEvent(t.Event, t.query)
	if err != nil {
		return err
	}
	if t.Closed() {
		c.dropTail(sc, t)
	}
	return nil
}

// endTails waits for the work of destroyed streams, and destroys the events of their tails.
func (c *Context) endTails(at driver.At) {
	streams := slices.Collect(maps.Keys(c.Ends.Tails))
	drivercall.EachDespitePanic(len(streams), func(i int) {
		sc := streams[i]
		t := c.Ends.Tails[sc]
		if t.Err != nil {
			return
		}
		err := RetryUntilDone(c.Drv.Table().Clock(), func() error { return c.waitTail(sc) })
		if err != nil {
			c.Ends.Mu.Lock()
			t.Err = err
			c.Ends.Mu.Unlock()
		}
		if !t.Closed() { // the context is poisoned, or the wait failed
			err = errors.Join(err, c.DestroyEvent(t.Event, at))
		}
		if err != nil {
			c.Drv.Leak(drivercall.LeakReport{Kind: "context", Handle: uintptr(c.Raw), Err: err})
		}
	})
	for sc, t := range c.Ends.Tails {
		if t.Err != nil && sc.Permanent() { // a later wait may be for this stream
			c.Ends.lost = t.Err
		}
	}
}
