package cu

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// Ticket stands for one record of an event: the newest one at the time of
// [Event.Ticket]. The event may be recorded again; the ticket is still for its
// own record. It is safe for concurrent use, and must not be copied.
//
// Until its outcome is known a ticket keeps the CUevent of its record, and with
// it the context: a ticket that nobody waits for does so until it is collected.
//
// A ticket finds out what has become of its record while somebody is in Wait, or has asked
// for Done or Notify.
type Ticket struct {
	_     noCopy
	owner *eventOwner // keeps the event from being collected; nil for a pooled one
	// core is nil if the outcome was known from the start: that the record is complete.
	core    *ticketCore
	known   time.Time // when that was
	cleanup runtime.Cleanup
}

// ticketCore is what a ticket holds on to until the outcome is known, or the
// ticket is collected. Calls in flight on it keep the slot's CUevent.
type ticketCore struct {
	handle.Refs
	slot *slot
	// result is nil until it is known. It is set once, before Refs is closed,
	// and success is one too.
	result atomic.Pointer[ticketResult]

	mu lock.Mutex[lock.Ticket]
	// done is made by Done, and closed when the result is known.
	done chan struct{}
	// call are the functions that Notify was given.
	call []func(error)
	// sub is the ticket's own interest in the record, as long as somebody wants to be told.
	sub *watch.Sub
}

type ticketResult struct {
	err error
	at  time.Time // when it was known
}

// Ticket returns a ticket for the event's present record. For an event that was
// never recorded it is for work that has completed.
func (e *Event) Ticket() (*Ticket, error) {
	const op = "cuEventQuery"
	if e == nil {
		return nil, errNil(op, "event")
	}
	o := e.load()
	if o == nil {
		return completeTicket(time.Now()), nil
	}
	sl, err := o.core.enter(op)
	if err != nil {
		return nil, err
	}
	if sl.Complete() || sl.Unrecorded() {
		o.leave(sl)
		return completeTicket(sl.drv.calls.Clock().Now()), nil
	}
	return newTicket(o, sl), nil
}

// completeTicket returns a ticket for a record that is complete.
func completeTicket(now time.Time) *Ticket { return &Ticket{known: now} }

// newTicket returns a ticket for a slot's record. The call that is in flight on the slot
// becomes the ticket's.
func newTicket(o *eventOwner, sl *slot) *Ticket {
	sl.Watch()
	t := &Ticket{owner: o, core: &ticketCore{slot: sl}}
	t.cleanup = runtime.AddCleanup(t, (*ticketCore).collected, t.core)
	return t
}

// errCollected is the outcome of a ticket that was collected: nobody asks.
var errCollected = errors.New("the ticket was collected")

// collected lets go of the record, unless somebody wants to be told what becomes of it.
func (tc *ticketCore) collected() {
	tc.mu.Lock()
	wanted := tc.sub != nil
	tc.mu.Unlock()
	if !wanted {
		tc.settle(errCollected)
	}
}

// settle decides on the outcome, unless it is decided already, releases the
// ticket's hold on the slot, and returns the outcome.
func (tc *ticketCore) settle(err error) error {
	now := tc.slot.drv.calls.Clock().Now()
	// Whoever wants to be told looks for the result under the lock: when it is there, those
	// who wanted it before have been seen to.
	tc.mu.Lock()
	if r := tc.result.Load(); r != nil {
		tc.mu.Unlock()
		return r.err
	}
	tc.result.Store(&ticketResult{err, now})
	sub, call := tc.sub, tc.call
	tc.sub, tc.call = nil, nil
	if tc.done != nil {
		close(tc.done)
	}
	tc.mu.Unlock()
	for _, f := range call {
		go f(err)
	}
	if sub != nil {
		tc.slot.drv.watch.Cancel(sub)
	}
	if _, last := tc.Close(); last {
		tc.Last(false)
	}
	return err
}

// Last lets go of the slot when the result is known, and the last call on the ticket has ended.
func (tc *ticketCore) Last(later bool) {
	tc.slot.Unwatch()
	if later {
		tc.slot.ReleaseLater(tc.slot)
	} else {
		tc.slot.leave()
	}
}

// want adds something that is to be done with the result. It reports false if that is
// known, and calls nothing then.
func (tc *ticketCore) want(owner *eventOwner, add func()) bool {
	if !tc.Acquire(tc) {
		return false
	}
	defer tc.Release(tc)
	tc.mu.Lock()
	if tc.result.Load() != nil {
		tc.mu.Unlock()
		return false
	}
	add()
	first := tc.sub == nil
	var sub *watch.Sub
	if first {
		sub = &watch.Sub{Call: func(s *watch.Sub) {
			tc.settle(s.Err)
			runtime.KeepAlive(owner) // the event is not collected before
		}}
		tc.sub = sub
	}
	tc.mu.Unlock()
	if first {
		tc.slot.addSub(sub, nil)
		if tc.result.Load() != nil { // a wait was faster
			tc.slot.drv.watch.Cancel(sub)
		}
	}
	return true
}

// Wait waits until the ticket's record has completed, like [Event.Wait].
// Completion is remembered, and so is that the event was closed or its context
// poisoned before. After another error, such as ctx's, another wait may follow.
func (t *Ticket) Wait(ctx context.Context) error {
	const op = "cuEventQuery"
	if t == nil {
		return errNil(op, "ticket")
	}
	if ctx == nil {
		return errNoGoContext(op)
	}
	tc := t.core
	if tc == nil {
		return nil
	}
	defer runtime.KeepAlive(t)
	if !tc.Acquire(tc) {
		return tc.result.Load().err // it is set before the core is closed
	}
	defer tc.Release(tc)
	final, err := tc.slot.wait(ctx)
	if !final {
		return err
	}
	t.cleanup.Stop()
	return tc.settle(err)
}

// Done returns a channel that is closed when it is known what has become of the record:
// it has completed, or the wait for it has ended with an error, which [Ticket.Err] tells.
// From the first call on the record is watched until then, whether or not the ticket is
// collected. Several calls return the same channel. For a nil Ticket it is nil.
func (t *Ticket) Done() <-chan struct{} {
	if t == nil {
		return nil
	}
	tc := t.core
	if tc == nil {
		return closedChannel()
	}
	defer runtime.KeepAlive(t)
	var done chan struct{}
	if tc.want(t.owner, func() {
		if tc.done == nil {
			tc.done = make(chan struct{})
		}
		done = tc.done
	}) {
		return done
	}
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if tc.done == nil {
		tc.done = closedChannel()
	}
	return tc.done
}

func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Err returns nil if the record has completed, and also as long as it is not known what
// has become of it: [Ticket.Done] tells that it is. Else it returns why nobody waits for it any more:
// an error that matches [ErrClosed] if the event was closed, or its last context, or the
// driver's error. It does not ask the driver.
func (t *Ticket) Err() error {
	if t == nil {
		return errNil("cuEventQuery", "ticket")
	}
	if t.core == nil {
		return nil
	}
	if r := t.core.result.Load(); r != nil {
		return r.err
	}
	return nil
}

// CompletedAt returns when the library saw that the record had completed, by the machine's
// monotonic clock, or the software driver's: it did so then or before. It reports false if it is not known to have completed; nobody is asked. A
// record that was known to be complete when the ticket was taken was seen at that time.
func (t *Ticket) CompletedAt() (time.Time, bool) {
	switch {
	case t == nil:
		return time.Time{}, false
	case t.core == nil:
		return t.known, !t.known.IsZero()
	}
	if r := t.core.result.Load(); r != nil && r.err == nil {
		return r.at, true
	}
	return time.Time{}, false
}

// Notify has f called, on a goroutine of its own, when it is known what has become of the
// record: with nil if it has completed, else with the error that [Ticket.Err] returns. f may
// call anything in this package. If that is known already f is called just as well, and
// Notify reports false: nothing was outstanding. A nil f is not called. As with Done, the
// record is watched from then on.
func (t *Ticket) Notify(f func(err error)) (outstanding bool) {
	if t == nil || f == nil {
		return false
	}
	tc := t.core
	if tc == nil {
		go f(nil)
		return false
	}
	defer runtime.KeepAlive(t)
	if tc.want(t.owner, func() { tc.call = append(tc.call, f) }) {
		return true
	}
	go f(tc.result.Load().err)
	return false
}
