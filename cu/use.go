package cu

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// usage remembers the streams on which work was enqueued that uses an object, so
// that the object is not destroyed before the work is done. It costs the work
// nothing: the streams are asked when the object is to be destroyed.
type usage struct {
	mu      lock.Mutex[lock.Usage]
	streams atomic.Pointer[[]*streamCore]
	// lost says that a stream is gone, and nothing tells when its work is done: see idle.
	lost atomic.Bool
}

// note adds a stream, before the work is enqueued, while a call on the stream is
// in flight; or one that was noted elsewhere before. tail says that the end of its work has to be known also when the
// stream is destroyed.
func (u *usage) note(sc *streamCore, tail bool) {
	if l := u.streams.Load(); l != nil {
		switch {
		case slices.Contains(*l, sc):
			return
		case !tail && len(*l) >= maxNoted: // it is only a chance to use memory again
			if !u.lost.Load() {
				u.lost.Store(true)
			}
			return
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	var list []*streamCore
	if l := u.streams.Load(); l != nil {
		for _, s := range *l {
			if s == sc {
				return
			}
			// Values of the legacy stream, or of a pool's, come and go, and are all
			// the same.
			again := s.lasts() && s.same(sc)
			switch {
			case again:
			case !s.over():
				list = append(list, s)
			case !tail && !s.tailed():
				u.lost.Store(true)
			}
		}
	}
	if tail { // before the stream is closed, as a call is in flight
		sc.leavesTail.Store(true)
	}
	list = append(list, sc)
	u.streams.Store(&list)
}

// maxNoted is how many streams are noted whose work need not be waited for.
const maxNoted = 16

// noteAll adds the streams that something else was used on.
func (u *usage) noteAll(other *usage) {
	if l := other.streams.Load(); l != nil {
		for _, sc := range *l {
			u.note(sc, true)
		}
	}
}

// errBusy says that it cannot be known yet when a stream's work will be done.
var errBusy = errors.New("the stream is being captured, belongs to a thread, or is being closed")

// wait waits until all work that was enqueued so far has been done on the
// streams. It returns errBusy if that cannot be waited for now, and another error
// if it cannot be known at all.
func (u *usage) wait() error {
	if u == nil {
		return nil
	}
	l := u.streams.Load()
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

// idle reports whether all work that was enqueued so far is known to be done on the streams. It does not wait, and
// enqueues nothing.
func (u *usage) idle() bool {
	if u.lost.Load() {
		return false
	}
	for _, sc := range u.list() {
		if sc.freed.Load() && !sc.tailed() {
			return false
		}
		if done, _ := sc.finished(); !done {
			return false
		}
	}
	return true
}

// waitLong is wait, and has patience with streams that are busy, and some with a
// driver that fails to answer. It is for a goroutine of its own.
func (u *usage) waitLong(clock driver.Clock) error { return patiently(clock, u.wait) }

// patiently calls f again and again, until it does not fail, errNoTail is its error, or it has failed maxTries
// times otherwise than by errBusy.
func patiently(clock driver.Clock, f func() error) error {
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

// maxTries is how often the driver may fail to say when work is done; the tries take
// about a second in all.
const maxTries = 20

// waitIdle waits until what was enqueued on the stream so far is done, whether
// the stream is still there or not. It may return errBusy.
func (sc *streamCore) waitIdle() error {
	ctx := sc.ctx
	// Who releases a context waits for the tails of its streams, and for those of its pools
	// that have used what belongs to another context.
	if !ctx.hold() && !ctx.revive() {
		if !ctx.gone.Load() {
			return errBusy
		}
		if sc.lasts() {
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
	defer ctx.childDone()
	if sc.lasts() {
		e, err := sc.mark()
		if err != nil {
			return ctx.unlessPoisoned(err)
		}
		defer ctx.doneWith(EventDisableTiming, e)
		return ctx.waitEvent(e)
	}
	if sc.Acquire(sc) {
		if sc.at.Thread != nil && !sc.at.Thread.Here() {
			sc.leave()
			return errBusy // only its thread can mark it, and does when it is closed
		}
		e, err := sc.markAndLeave()
		if err != nil {
			return ctx.unlessPoisoned(err)
		}
		defer ctx.doneWith(EventDisableTiming, e)
		return ctx.waitEvent(e)
	}
	if !sc.freed.Load() {
		return errBusy // a call on it is in flight
	}
	return ctx.waitTail(sc)
}

// unlessPoisoned returns err, or nil if the context is poisoned, in which nothing
// runs any more.
func (c *contextCore) unlessPoisoned(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Result.Sticky() {
		return nil
	}
	return err
}

// waitEvent waits until a CUevent is complete.
func (c *contextCore) waitEvent(e driver.Event) error {
	return c.waitFor("cuEventQuery", func() driver.Result { return c.queryEvent(e) })
}

// waitFor polls until the answer is success, another error than that it is not
// ready, or that the context is poisoned, in which nothing runs any more.
func (c *contextCore) waitFor(op string, query func() driver.Result) error {
	b := watch.BackOff{Policy: watch.Brief, Clock: c.drv.table.Clock()}
	defer b.End()
	for ; ; b.Wait() {
		switch res := query(); res {
		case driver.ResultSuccess:
			return nil
		case driver.ResultNotReady:
		default:
			return c.unlessPoisoned(c.failed(op, 0, res))
		}
	}
}
