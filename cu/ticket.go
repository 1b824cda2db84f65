package cu

import (
	"context"
	"runtime"
	"time"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/waits"
)

// Ticket stands for one record of an event: the newest record when [Event.Ticket] is called. If the
// event is recorded again, the ticket still stands for the same record. A Ticket is safe for
// concurrent use, and must not be copied.
//
// Until its result is known, a ticket keeps the CUevent of its record, and the context. A ticket
// without waiters keeps them until it is collected. A ticket learns its result only during a call
// of Wait, or after a call of Done or Notify.
type Ticket struct {
	_     core.NoCopy
	owner *core.EventOwner // keeps the event from being collected; nil for a pooled event
	// core is nil if the record was complete at the beginning.
	core    *waits.Ticket
	known   time.Time // when the record was known to be complete, if core is nil
	cleanup runtime.Cleanup
}

// Ticket returns a ticket for the event's present record. It is complete if the event was never
// recorded.
func (e *Event) Ticket() (*Ticket, error) {
	const op = "cuEventQuery"
	if e == nil {
		return nil, drivercall.NilError(op, "event")
	}
	o := e.load()
	if o == nil {
		return &Ticket{known: time.Now()}, nil
	}
	sl, err := o.Event.Enter(op)
	if err != nil {
		return nil, err
	}
	return newTicket(o, sl), nil
}

// newTicket returns a ticket for a slot's record, which takes over the caller's call in flight.
func newTicket(o *core.EventOwner, sl *core.Slot) *Ticket {
	if sl.Complete() || sl.Unrecorded() {
		defer o.EndCall(sl)
		return &Ticket{known: sl.Drv.Table().Clock().Now()}
	}
	sl.AddWait()
	t := &Ticket{owner: o, core: &waits.Ticket{Slot: sl}}
	t.cleanup = runtime.AddCleanup(t, (*waits.Ticket).Collected, t.core)
	return t
}

// Wait waits until the ticket's record has completed, like [Event.Wait]. These results are final:
// completion, a closed event, and a poisoned context. After another error, such as ctx's, the
// program may call Wait again.
func (t *Ticket) Wait(ctx context.Context) error {
	const op = "cuEventQuery"
	if t == nil {
		return drivercall.NilError(op, "ticket")
	}
	if ctx == nil {
		return drivercall.NoGoContextError(op, t.owner.Object())
	}
	tc := t.core
	if tc == nil {
		return nil
	}
	defer runtime.KeepAlive(t)
	if !tc.Acquire(tc) {
		return tc.Result.Load().Err // set before the core is closed
	}
	defer tc.Release(tc)
	final, err := waits.ForRecord(ctx, tc.Slot)
	if !final {
		return err
	}
	t.cleanup.Stop()
	return tc.Settle(err)
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
	if tc.Subscribe(t.owner, func() {
		if tc.Done == nil {
			tc.Done = make(chan struct{})
		}
		done = tc.Done
	}) {
		return done
	}
	tc.Mu.Lock()
	defer tc.Mu.Unlock()
	if tc.Done == nil {
		tc.Done = closedChannel()
	}
	return tc.Done
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
		return drivercall.NilError("cuEventQuery", "ticket")
	}
	if t.core == nil {
		return nil
	}
	if r := t.core.Result.Load(); r != nil {
		return r.Err
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
	if r := t.core.Result.Load(); r != nil && r.Err == nil {
		return r.At, true
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
	if tc.Subscribe(t.owner, func() { tc.Call = append(tc.Call, f) }) {
		return true
	}
	go f(tc.Result.Load().Err)
	return false
}
