package cu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/driver"
)

// A waiter polls, and yields to other goroutines in between, for spinPolls
// polls; then it sleeps, for a little longer each time.
const (
	spinPolls = 200
	minSleep  = 20 * time.Microsecond
	maxSleep  = time.Millisecond
)

// Wait waits until the record that the event has now has completed: recording
// the event again meanwhile does not prolong the wait. It holds no operating
// system thread. It returns nil if the record completed; an error that matches
// ctx's if ctx ended first; one that matches [ErrClosed] if the event was closed
// meanwhile; or the driver's error. An event that was never recorded is
// complete.
//
// If others may record the event (another process, or a graph), the wait is for
// its newest record. If a process was killed before its record of the event completed,
// only ctx ends the wait.
func (e *Event) Wait(ctx context.Context) error {
	const op = "cuEventQuery"
	if e == nil {
		return errNil(op, "event")
	}
	if ctx == nil {
		return errNoGoContext(op)
	}
	o := e.load()
	if o == nil {
		return nil
	}
	sl, err := o.core.enter(op)
	if err != nil {
		return err
	}
	defer o.leave(sl)
	if sl.complete() {
		return nil
	}
	sl.watchers.Add(1)
	defer sl.watchers.Add(-1)
	_, err = sl.wait(ctx)
	return err
}

// wait waits for the slot's record. The caller is one of its watchers. final is
// false if another wait may have another outcome: if ctx ended this one, or the
// driver failed to answer.
func (sl *slot) wait(ctx context.Context) (final bool, err error) {
	const op = "cuEventQuery"
	c := sl.core
	var timer driver.Timer
	sleep := minSleep
	for i := 0; ; i++ {
		switch res := sl.poll(); res {
		case driver.ResultSuccess:
			return true, nil
		case driver.ResultNotReady:
		default:
			err := c.ctx.failed(op, uintptr(sl.raw), res)
			return c.ctx.poison.Load() != nil, err
		}
		if c.slot.Load() == nil && !c.released.Load() {
			return true, mistake(op, ErrClosed, uintptr(sl.raw), "the event was closed while this call waited for it")
		}
		if ctx.Err() != nil {
			return false, waitEnded(op, sl, ctx)
		}
		if i < spinPolls {
			runtime.Gosched()
			continue
		}
		if timer == nil {
			timer = sl.table.Clock().NewTimer(sleep)
			defer timer.Stop()
		} else {
			timer.Reset(sleep)
		}
		select {
		case <-timer.C():
			sleep = min(2*sleep, maxSleep)
		case <-ctx.Done():
			return false, waitEnded(op, sl, ctx)
		}
	}
}

// errNoGoContext returns the error for a nil context.Context.
func errNoGoContext(op string) error {
	return mistake(op, ErrNil, 0, "the context.Context is nil: pass context.Background() to wait without an end")
}

func waitEnded(op string, sl *slot, ctx context.Context) error {
	err := fmt.Errorf("wait ended: %w", ctx.Err())
	if cause := context.Cause(ctx); cause != ctx.Err() {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &Error{Op: op, Handle: uintptr(sl.raw), Err: err, Detail: "the event's record was still pending"}
}

// Ticket stands for one record of an event: the newest one at the time of
// [Event.Ticket]. The event may be recorded again; the ticket is still for its
// own record. It is safe for concurrent use, and must not be copied.
//
// Until its outcome is known a ticket keeps the CUevent of its record, and with
// it the context: a ticket that nobody waits for does so until it is collected.
type Ticket struct {
	_       noCopy
	owner   *eventOwner // keeps the event from being collected; nil for a pooled one
	core    *ticketCore // nil if the outcome was known from the start
	cleanup runtime.Cleanup
}

// ticketCore is what a ticket holds on to until the outcome is known, or the
// ticket is collected. Calls in flight on it keep the slot's CUevent.
type ticketCore struct {
	refs
	slot *slot
	// outcome is nil until it is known. It is set once, before refs is closed,
	// and success is an outcome too.
	outcome atomic.Pointer[error]
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
		return new(Ticket), nil
	}
	sl, err := o.core.enter(op)
	if err != nil {
		return nil, err
	}
	if sl.complete() || sl.unrecorded() {
		o.leave(sl)
		return new(Ticket), nil
	}
	return newTicket(o, sl), nil
}

// newTicket returns a ticket for a slot's record. The call that is in flight on the slot
// becomes the ticket's.
func newTicket(o *eventOwner, sl *slot) *Ticket {
	sl.watchers.Add(1)
	t := &Ticket{owner: o, core: &ticketCore{slot: sl}}
	t.cleanup = runtime.AddCleanup(t, func(tc *ticketCore) { tc.settle(errCollected) }, t.core)
	return t
}

// errCollected is the outcome of a ticket that was collected: nobody asks.
var errCollected = errors.New("the ticket was collected")

// settle decides on the outcome, unless it is decided already, gives up the
// ticket's hold on the slot, and returns the outcome.
func (tc *ticketCore) settle(outcome error) error {
	if tc.outcome.CompareAndSwap(nil, &outcome) {
		if _, last := tc.close(); last {
			tc.letGo()
		}
	}
	return *tc.outcome.Load()
}

func (tc *ticketCore) letGo() {
	tc.slot.watchers.Add(-1)
	tc.slot.leave()
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
	defer func() {
		if tc.release() {
			tc.letGo()
		}
	}()
	if !tc.acquire() {
		return *tc.outcome.Load() // it is set before the core is closed
	}
	final, err := tc.slot.wait(ctx)
	if !final {
		return err
	}
	t.cleanup.Stop()
	return tc.settle(err)
}

// Elapsed waits for the records that both events have now, and returns the time
// between them, as the GPU measured it; see [Event.Since], also for how exact that is,
// and [Event.Wait].
// Recording one of the events again meanwhile changes nothing.
func Elapsed(ctx context.Context, start, stop *Event) (time.Duration, error) {
	const op = "cuEventElapsedTime"
	if ctx == nil {
		return 0, errNoGoContext(op)
	}
	iv, err := enterInterval(op, start, stop)
	if err != nil {
		return 0, err
	}
	defer iv.leave()
	// A watcher of both, from start to end: neither is recorded over.
	slots := [...]*slot{iv.stopSlot, iv.startSlot}
	for _, sl := range slots {
		sl.watchers.Add(1)
		defer sl.watchers.Add(-1)
	}
	for {
		for _, sl := range slots {
			if sl.complete() {
				continue
			}
			if _, err := sl.wait(ctx); err != nil {
				return 0, err
			}
		}
		d, st, err := iv.measure(op)
		if err != nil || st == Complete {
			return d, err
		}
		// A record that had begun when this call did, or one by somebody else.
		if ctx.Err() != nil {
			return 0, waitEnded(op, iv.stopSlot, ctx)
		}
	}
}
