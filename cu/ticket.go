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

// Ticket stands for one record of an event: the newest record when [Event.Ticket] is called. If the
// event is recorded again, the ticket still stands for the same record. A Ticket is safe for
// concurrent use, and must not be copied.
//
// Until its result is known, a ticket keeps the CUevent of its record, and the context. A ticket
// without waiters keeps them until it is collected. A ticket learns its result only during a call
// of Wait, or after a call of Done or Notify.
type Ticket struct {
	_     noCopy
	owner *eventOwner // keeps the event from being collected; nil for a pooled event
	// core is nil if the record was complete at the beginning.
	core    *ticketCore
	known   time.Time // when the record was known to be complete, if core is nil
	cleanup runtime.Cleanup
}

// ticketCore is the state that a ticket keeps until its result is known or it is collected. Calls
// in flight on it keep the slot's CUevent.
type ticketCore struct {
	handle.Refs
	slot *slot
	// result is nil until it is known. It is set once, before Refs is closed, also for a success.
	result atomic.Pointer[ticketResult]

	mu lock.Mutex[lock.Ticket]
	// done is made by Done, and closed when the result is known.
	done chan struct{}
	// call are the functions passed to Notify.
	call []func(error)
	// sub is the ticket's own wait for the record, from the first Done or Notify to the result.
	sub *watch.Sub
}

type ticketResult struct {
	err error
	at  time.Time // when the result was known
}

// Ticket returns a ticket for the event's present record. It is complete if the event was never
// recorded.
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

func completeTicket(now time.Time) *Ticket { return &Ticket{known: now} }

// newTicket returns a ticket for a slot's record, which takes over the caller's call in flight.
func newTicket(o *eventOwner, sl *slot) *Ticket {
	sl.Watch()
	t := &Ticket{owner: o, core: &ticketCore{slot: sl}}
	t.cleanup = runtime.AddCleanup(t, (*ticketCore).collected, t.core)
	return t
}

// errCollected is the result of a collected ticket. No call can see it.
var errCollected = errors.New("the ticket was collected")

// collected releases the record of a collected ticket, unless a Done or Notify needs the result.
func (tc *ticketCore) collected() {
	tc.mu.Lock()
	wanted := tc.sub != nil
	tc.mu.Unlock()
	if !wanted {
		tc.settle(errCollected)
	}
}

// settle stores the result if there is none yet, releases the slot, and returns the stored result.
func (tc *ticketCore) settle(err error) error {
	now := tc.slot.drv.calls.Clock().Now()
	// subscribe looks for the result under the lock. If it finds none, its channel or function is
	// in the lists that this function notifies.
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

// Last releases the slot when the result is known and the last call on the ticket has ended.
func (tc *ticketCore) Last(later bool) {
	tc.slot.Unwatch()
	if later {
		tc.slot.ReleaseLater(tc.slot)
	} else {
		tc.slot.leave()
	}
}

// subscribe calls add, which registers a channel or function to notify of the result. If the result
// is known, it reports false, and does not call add.
func (tc *ticketCore) subscribe(owner *eventOwner, add func()) bool {
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
			runtime.KeepAlive(owner) // keeps the event from being collected until now
		}}
		tc.sub = sub
	}
	tc.mu.Unlock()
	if first {
		tc.slot.addSub(sub, nil)
		if tc.result.Load() != nil { // Wait was faster
			tc.slot.drv.watch.Cancel(sub)
		}
	}
	return true
}

// Wait waits until the ticket's record has completed, like [Event.Wait]. These results are final:
// completion, a closed event, and a poisoned context. After another error, such as ctx's, the
// program may call Wait again.
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
		return tc.result.Load().err // set before the core is closed
	}
	defer tc.Release(tc)
	final, err := tc.slot.wait(ctx)
	if !final {
		return err
	}
	t.cleanup.Stop()
	return tc.settle(err)
}

// Done returns a channel that is closed when the record's result is known: the record has
// completed, or the wait for it has ended with an error, which [Ticket.Err] returns. After the
// first call the library waits for the record, even if the ticket is collected. All calls return
// the same channel. For a nil Ticket it is nil.
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
	if tc.subscribe(t.owner, func() {
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

// Err returns the record's error without a driver call. It is nil if the record has completed, and
// as long as the result is unknown: see [Ticket.Done]. The error matches [ErrClosed] if the event,
// or the last Context of its CUDA context, was closed; otherwise it is the driver's error.
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

// CompletedAt returns when the library saw that the record had completed. The record completed at
// that time or before. The time is of the machine's monotonic clock, or of the software driver's
// clock. If the record was complete when the ticket was made, it is the time of [Event.Ticket].
// CompletedAt makes no driver call, and reports false if the record is not known to have completed.
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

// Notify registers f to be called on a new goroutine with the record's result: nil if the record
// has completed, otherwise the error of [Ticket.Err]. f may call any function of this package. If
// the result is known already, f is also called, and Notify reports false. A nil f is not called.
// After the call the library waits for the record, as after [Ticket.Done].
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
	if tc.subscribe(t.owner, func() { tc.call = append(tc.call, f) }) {
		return true
	}
	go f(tc.result.Load().err)
	return false
}
