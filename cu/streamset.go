package cu

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// streamSet is the set of streams on which work with an object was enqueued, so that the object is
// not destroyed before the work is done. The work itself costs no more: the streams are queried
// when the object is to be destroyed.
type streamSet struct {
	mu      lock.Mutex[lock.StreamSet]
	streams atomic.Pointer[[]*streamCore]
	// lost says that a stream was closed and the end of its work is unknown: see idle.
	lost atomic.Bool
}

// note adds a stream before the work is enqueued. The caller has a call in flight on the stream, or
// the stream was noted in another set before. With tail the stream is always noted, and the end
// of its work stays known after it is destroyed. Without tail it may not be noted: then noted is false.
func (set *streamSet) note(sc *streamCore, tail bool) (noted bool) {
	if l := set.streams.Load(); l != nil {
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
	var list []*streamCore
	if l := set.streams.Load(); l != nil {
		for _, s := range *l {
			if s == sc {
				return true
			}
			// Streams of the legacy stream, or of one stream of a pool, are the same CUstream. An open
			// one may keep the object, so it stays in the list.
			again := s.permanent() && s.same(sc) && s.freed.Load()
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
	set.streams.Store(&list)
	return true
}

// maxNoted limits the streams that are noted without tail.
const maxNoted = 16

// noteAll adds the streams of another set.
func (set *streamSet) noteAll(other *streamSet) {
	if l := other.streams.Load(); l != nil {
		for _, sc := range *l {
			set.note(sc, true)
		}
	}
}

// errBusy says that the end of a stream's work cannot be waited for now.
var errBusy = errors.New("the stream is being captured, belongs to a thread, or is being closed")

// errShut is an errBusy of the legacy stream while a capture begins or ends, which is over soon.
var errShut = fmt.Errorf("%w, or it is the legacy default stream while a capture begins or ends", errBusy)

// wait waits until all work enqueued so far is done on the streams. It returns errBusy if it cannot
// wait for that now, and another error if it never can.
func (set *streamSet) wait() error {
	if set == nil {
		return nil
	}
	l := set.streams.Load()
	if l == nil {
		return nil
	}
	for _, sc := range *l {
		if err := sc.waitIdle(); err != nil {
			return err
		}
	}
	return nil
}

// idle reports whether all work enqueued so far is known to be done on the streams. It does not
// wait, and enqueues nothing.
func (set *streamSet) idle() bool {
	if set.lost.Load() {
		return false
	}
	for _, sc := range set.list() {
		if sc.freed.Load() && !sc.endIsKnown() {
			return false
		}
		if done, _ := sc.done(); !done {
			return false
		}
	}
	return true
}

// waitLong is wait, repeated while streams are busy or the driver fails. It is for a new goroutine.
func (set *streamSet) waitLong(clock driver.Clock) error { return retryUntilDone(clock, set.wait) }

// retryUntilDone repeats f until it returns nil or errNoTail, or fails maxTries times with other
// errors than errBusy.
func retryUntilDone(clock driver.Clock, f func() error) error {
	b := watch.BackOff{Policy: watch.Patient, Clock: clock}
	defer b.End()
	for failed := 0; ; b.Wait() {
		err := f()
		switch {
		case err == nil, errors.Is(err, errNoTail):
			return err
		case !errors.Is(err, errBusy):
			if failed++; failed == maxTries {
				return err
			}
		}
	}
}

// maxTries is how often the driver may fail to report the end of work: for about a second in total.
const maxTries = 20

// waitIdle waits until all work enqueued on the stream so far is done, even if the stream is
// closed. It may return errBusy.
func (sc *streamCore) waitIdle() error {
	ctx := sc.ctx
	// A released context has waited for the tails of its streams, and for the streams of its pools
	// that used objects of other contexts.
	if !ctx.hold() && !ctx.revive() {
		if !ctx.gone.Load() {
			return errBusy
		}
		if sc.permanent() {
			if ctx.lostWork() {
				return fmt.Errorf("%w: %v", errNoTail, ctx.ends.lost)
			}
			return nil
		}
		ctx.ends.mu.Lock()
		defer ctx.ends.mu.Unlock()
		if t := ctx.ends.tails[sc]; t != nil && t.err != nil && ctx.claim != created && ctx.poison.Load() == nil {
			return fmt.Errorf("%w: %v", errNoTail, t.err)
		}
		return nil
	}
	defer ctx.endHold()
	if sc.permanent() {
		e, err := sc.mark()
		if err != nil {
			return ctx.unlessPoisoned(err)
		}
		defer ctx.doneWith(driver.CU_EVENT_DISABLE_TIMING, e)
		return ctx.awaitEvent(e)
	}
	if sc.Acquire(sc) {
		if sc.at.Thread != nil && !sc.at.Thread.Here() {
			sc.leave()
			return errBusy // only its thread can mark it, and does so when the stream is closed
		}
		e, err := sc.markAndLeave()
		if err != nil {
			return ctx.unlessPoisoned(err)
		}
		defer ctx.doneWith(driver.CU_EVENT_DISABLE_TIMING, e)
		return ctx.awaitEvent(e)
	}
	if !sc.freed.Load() {
		return errBusy // a call on the stream is in flight
	}
	return ctx.waitTail(sc)
}

// unlessPoisoned returns err, or nil if err says that the context is poisoned: then it runs no
// work.
func (c *contextCore) unlessPoisoned(err error) error {
	var e *cuerror.Error
	if errors.As(err, &e) && e.Result.Sticky() {
		return nil
	}
	return err
}

// awaitEvent polls until an event of the library is complete.
func (c *contextCore) awaitEvent(e driver.Event) error {
	return c.pollEvent(e, func() driver.Result { return c.queryEvent(e) })
}

// pollEvent is pollUntil for an event. The error wraps errInHostFunc if a software driver refuses the wait, in a host
// function that comes before the event.
func (c *contextCore) pollEvent(e driver.Event, query func() driver.Result) error {
	const op = "cuEventQuery"
	begun, ended, refused := false, func() {}, driver.ResultSuccess
	defer func() { ended() }() // also if a tracer panics
	err := c.pollUntil(op, func() driver.Result {
		res := query()
		if res == driver.ResultNotReady && !begun {
			begun = true
			if ended, refused = c.drv.table().BeginWait(c.raw, e); refused != driver.ResultSuccess {
				return driver.ResultSuccess // ends the polling
			}
		}
		return res
	})
	if refused != driver.ResultSuccess {
		return errEndless(op, uintptr(e), refused)
	}
	return err
}

// pollUntil polls until query returns a result other than ResultNotReady. In a poisoned context it
// returns nil, because no work runs in it any more.
func (c *contextCore) pollUntil(op string, query func() driver.Result) error {
	b := watch.BackOff{Policy: watch.Brief, Clock: c.drv.table().Clock()}
	defer b.End()
	for ; ; b.Wait() {
		switch res := query(); res {
		case driver.ResultSuccess:
			return nil
		case driver.ResultNotReady:
		default:
			return c.unlessPoisoned(c.backgroundError(op, 0, res))
		}
	}
}

// list returns the streams on which work was enqueued that uses the object.
func (set *streamSet) list() []*streamCore {
	if l := set.streams.Load(); l != nil {
		return *l
	}
	return nil
}
