package core

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// StreamSet is the set of streams on which work with an object was enqueued, so that the object is
// not destroyed before the work is done. The work itself costs no more: the streams are queried
// when the object is to be destroyed.
type StreamSet struct {
	mu      lock.Mutex[lock.StreamSet]
	Streams atomic.Pointer[[]*Stream]
	// lost says that a stream was closed and the end of its work is unknown: see idle.
	lost atomic.Bool
}

// Note adds a stream before the work is enqueued. The caller has a call in flight on the stream, or
// the stream was noted in another set before. The end of the stream's work stays known after it is destroyed.
func (set *StreamSet) Note(sc *Stream) (noted bool) { return set.note(sc, true) }

// NoteIfRoom is Note, but if there are many streams, it adds none, and reports false. The end of the stream's work need
// not stay known after it is destroyed.
func (set *StreamSet) NoteIfRoom(sc *Stream) (noted bool) { return set.note(sc, false) }

// note is Note with a tail, and NoteIfRoom without one.
func (set *StreamSet) note(sc *Stream, tail bool) (noted bool) {
	if l := set.Streams.Load(); l != nil {
		switch {
		case slices.Contains(*l, sc):
			return true
		case !tail && len(*l) >= maxNoted: // without tail, a missing stream only delays the reuse of memory
			if !set.lost.Load() {
				set.lost.Store(true)
			}
			return false
		}
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	var list []*Stream
	if l := set.Streams.Load(); l != nil {
		for _, s := range *l {
			if s == sc {
				return true
			}
			// Streams of the legacy stream, or of one stream of a pool, are the same CUstream. An open
			// one may keep the object, so it stays in the list.
			again := s.Permanent() && s.Same(sc) && s.Freed.Load()
			switch {
			case again:
			case !s.destroyedAndDone():
				list = append(list, s)
			case !tail && !s.endIsKnown():
				set.lost.Store(true)
			}
		}
	}
	if tail { // before the stream can be closed, because a call is in flight
		sc.leavesTail.Store(true)
	}
	list = append(list, sc)
	set.Streams.Store(&list)
	return true
}

// maxNoted limits the streams that NoteIfRoom adds.
const maxNoted = 16

// NoteAll adds the streams of another set.
func (set *StreamSet) NoteAll(other *StreamSet) {
	if l := other.Streams.Load(); l != nil {
		for _, sc := range *l {
			set.Note(sc)
		}
	}
}

// ErrBusy says that the end of a stream's work cannot be waited for now.
var ErrBusy = errors.New("the stream is being captured, belongs to a thread, or is being closed")

// ErrShut is an ErrBusy of the legacy stream while a capture begins or ends, which is over soon.
var ErrShut = fmt.Errorf("%w, or it is the legacy default stream while a capture begins or ends", ErrBusy)

// wait waits until all work enqueued so far is done on the streams. It returns ErrBusy if it cannot
// wait for that now, and another error if it never can.
func (set *StreamSet) wait() error {
	if set == nil {
		return nil
	}
	l := set.Streams.Load()
	if l == nil {
		return nil
	}
	for _, sc := range *l {
		if err := sc.WaitIdle(); err != nil {
			return err
		}
	}
	return nil
}

// Idle reports whether all work enqueued so far is known to be done on the streams. It does not
// wait, and enqueues nothing.
func (set *StreamSet) Idle() bool {
	if set.lost.Load() {
		return false
	}
	for _, sc := range set.List() {
		if sc.Freed.Load() && !sc.endIsKnown() {
			return false
		}
		if done, _ := sc.Done(); !done {
			return false
		}
	}
	return true
}

// WaitLong is wait, repeated while streams are busy or the driver fails. It is for a new goroutine.
func (set *StreamSet) WaitLong(clock driver.Clock) error { return RetryUntilDone(clock, set.wait) }

// RetryUntilDone repeats f until it returns nil or ErrNoTail, or fails MaxTries times with other
// errors than ErrBusy.
func RetryUntilDone(clock driver.Clock, f func() error) error {
	b := watch.BackOff{Policy: watch.Patient, Clock: clock}
	defer b.End()
	for failed := 0; ; b.Wait() {
		err := f()
		switch {
		case err == nil, errors.Is(err, ErrNoTail):
			return err
		case !errors.Is(err, ErrBusy):
			if failed++; failed == MaxTries {
				return err
			}
		}
	}
}

// MaxTries is how often the driver may fail to report the end of work: for about a second in total.
const MaxTries = 20

// WaitIdle waits, on the host, until all work enqueued on the stream so far is done, even if the stream is
// closed. It may return ErrBusy.
func (sc *Stream) WaitIdle() error {
	ctx := sc.Ctx
	// A released context has waited for the tails of its streams, and for the streams of its pools
	// that used objects of other contexts.
	if !ctx.Hold() && !ctx.revive() {
		if !ctx.Gone.Load() {
			return ErrBusy
		}
		if sc.Permanent() {
			if ctx.lostWork() {
				return fmt.Errorf("%w: %v", ErrNoTail, ctx.Ends.lost)
			}
			return nil
		}
		ctx.Ends.Mu.Lock()
		defer ctx.Ends.Mu.Unlock()
		if t := ctx.Ends.Tails[sc]; t != nil && t.Err != nil && ctx.Claim != Created && ctx.Poison.Load() == nil {
			return fmt.Errorf("%w: %v", ErrNoTail, t.Err)
		}
		return nil
	}
	defer ctx.EndHold()
	if sc.Permanent() {
		e, err := sc.Mark()
		if err != nil {
			return ctx.unlessPoisoned(err)
		}
		defer ctx.DoneWith(driver.CU_EVENT_DISABLE_TIMING, e)
		return ctx.awaitEvent(e)
	}
	if sc.Acquire(sc) {
		if sc.At.Thread != nil && !sc.At.Thread.Here() {
			sc.EndCall()
			return ErrBusy // only its thread can mark it, and does so when the stream is closed
		}
		e, err := sc.MarkAndLeave()
		if err != nil {
			return ctx.unlessPoisoned(err)
		}
		defer ctx.DoneWith(driver.CU_EVENT_DISABLE_TIMING, e)
		return ctx.awaitEvent(e)
	}
	if !sc.Freed.Load() {
		return ErrBusy // a call on the stream is in flight
	}
	return ctx.waitTail(sc)
}

// unlessPoisoned returns err, or nil if err says that the context is poisoned: then it runs no
// work.
func (c *Context) unlessPoisoned(err error) error {
	var e *cuerror.Error
	if errors.As(err, &e) && e.Result.Sticky() {
		return nil
	}
	return err
}

// awaitEvent polls until an event of the library is complete.
func (c *Context) awaitEvent(e driver.Event) error {
	return c.pollEvent(e, func() driver.Result { return c.QueryEvent(e) })
}

// pollEvent is pollUntil for an event. The error wraps ErrInHostFunc if a software driver refuses the wait, in a host
// function that comes before the event.
func (c *Context) pollEvent(e driver.Event, query func() driver.Result) error {
	const op = "cuEventQuery"
	begun, endWait, refused := false, func() {}, driver.ResultSuccess
	defer func() { endWait() }() // also if a tracer panics
	err := c.pollUntil(op, func() driver.Result {
		res := query()
		if res == driver.ResultNotReady && !begun {
			begun = true
			if endWait, refused = c.Drv.Table().BeginWait(c.Raw, e); refused != driver.ResultSuccess {
				return driver.ResultSuccess // ends the polling
			}
		}
		return res
	})
	if refused != driver.ResultSuccess {
		return drivercall.EndlessError(op, uintptr(e), refused)
	}
	return err
}

// pollUntil polls until query returns a result other than ResultNotReady. In a poisoned context it
// returns nil, because no work runs in it any more.
func (c *Context) pollUntil(op string, query func() driver.Result) error {
	b := watch.BackOff{Policy: watch.Brief, Clock: c.Drv.Table().Clock()}
	defer b.End()
	for ; ; b.Wait() {
		switch res := query(); res {
		case driver.ResultSuccess:
			return nil
		case driver.ResultNotReady:
		default:
			return c.unlessPoisoned(c.BackgroundError(op, 0, res))
		}
	}
}

// List returns the streams on which work was enqueued that uses the object.
func (set *StreamSet) List() []*Stream {
	if l := set.Streams.Load(); l != nil {
		return *l
	}
	return nil
}
