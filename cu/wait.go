package cu

import (
	"context"
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
// its newest record.
func (e *Event) Wait(ctx context.Context) error {
	const op = "cuEventQuery"
	if e == nil {
		return errNil(op, "event")
	}
	o := e.owner.Load()
	if o == nil {
		return nil
	}
	sl, err := o.core.enter(op)
	if err != nil {
		return err
	}
	if !sl.complete() {
		sl.watchers.Add(1)
		_, err = sl.wait(ctx)
		sl.watchers.Add(-1)
	}
	o.leave(sl)
	return err
}

// wait waits for the slot's record. The caller is one of its watchers. final is
// false if another wait may have another outcome: if ctx ended this one, or the
// driver failed to answer.
func (sl *slot) wait(ctx context.Context) (final bool, err error) {
	const op = "cuEventQuery"
	if ctx == nil { // a mistake that should not bring the process down
		ctx = context.Background()
	}
	c := sl.core
	var timer driver.Timer
	sleep := minSleep
	for i := 0; ; i++ {
		switch st, err := c.status(op, sl, sl.query(driver.At{Relaxed: true})); {
		case err != nil:
			return c.ctx.poison.Load() != nil, err
		case st == Complete:
			return true, nil
		}
		if c.slot.Load() == nil {
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

func waitEnded(op string, sl *slot, ctx context.Context) error {
	return &Error{Op: op, Handle: uintptr(sl.raw), Err: fmt.Errorf("wait ended: %w", context.Cause(ctx)),
		Detail: "the event's record was still pending"}
}

// Ticket stands for one record of an event: the newest one at the time of
// [Event.Ticket]. The event may be recorded again; the ticket is still for its
// own record. It is safe for concurrent use, and need not be used up.
type Ticket struct {
	owner   *eventOwner // keeps the event from being collected
	core    *ticketCore
	cleanup runtime.Cleanup
}

// ticketCore is what a ticket holds on to until the outcome is known, or the
// ticket is collected. Calls in flight on it keep the slot's CUevent.
type ticketCore struct {
	refs
	slot *slot
	// failure is the outcome if it is an error. It is set before the core is
	// closed.
	failure atomic.Pointer[error]
}

// Ticket returns a ticket for the event's present record. For an event that was
// never recorded it is for work that has completed.
func (e *Event) Ticket() (*Ticket, error) {
	const op = "cuEventQuery"
	if e == nil {
		return nil, errNil(op, "event")
	}
	o := e.owner.Load()
	if o == nil {
		return new(Ticket), nil
	}
	sl, err := o.core.enter(op)
	if err != nil {
		return nil, err
	}
	sl.watchers.Add(1)
	t := &Ticket{owner: o, core: &ticketCore{slot: sl}}
	t.cleanup = runtime.AddCleanup(t, func(tc *ticketCore) { tc.use() }, t.core)
	return t, nil
}

// use gives up the ticket's hold on the slot.
func (tc *ticketCore) use() {
	if _, last := tc.close(); last {
		tc.letGo()
	}
}

func (tc *ticketCore) letGo() {
	tc.slot.watchers.Add(-1)
	tc.slot.leave()
}

// Wait waits until the ticket's record has completed, like [Event.Wait].
// Completion is remembered, and so is that the event was closed or its context
// poisoned before. After another error, such as ctx's, another wait may follow.
func (t *Ticket) Wait(ctx context.Context) error {
	if t == nil {
		return errNil("cuEventQuery", "ticket")
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
	if !tc.acquire() { // the outcome is known
		if err := tc.failure.Load(); err != nil {
			return *err
		}
		return nil
	}
	final, err := tc.slot.wait(ctx)
	if final {
		if err != nil {
			tc.failure.CompareAndSwap(nil, &err)
		}
		t.cleanup.Stop()
		tc.use()
	}
	return err
}

// Elapsed waits for both events and returns the time between their records, as
// the GPU measured it; see [Event.Since] and [Event.Wait].
func Elapsed(ctx context.Context, start, stop *Event) (time.Duration, error) {
	for {
		// Since finds mistakes before anything is waited for.
		d, st, err := stop.Since(start)
		if err != nil || st == Complete {
			return d, err
		}
		if err := stop.Wait(ctx); err != nil {
			return 0, err
		}
		if err := start.Wait(ctx); err != nil {
			return 0, err
		}
	}
}
