package waits

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// Ticket is the state that a cu.Ticket keeps until its result is known or it is collected. Calls in
// flight on it keep the slot's CUevent.
type Ticket struct {
	handle.Refs
	Slot *core.Slot
	// Result is nil until it is known. It is set once, before Refs is closed, also for a success.
	Result atomic.Pointer[ticketResult]

	Mu lock.Mutex[lock.Ticket]
	// Done is made by cu.Ticket.Done, and closed when the result is known.
	Done chan struct{}
	// Call are the functions passed to Notify.
	Call []func(error)
	// sub is the ticket's own wait for the record, from the first Done or Notify to the result.
	sub *watch.Sub
}

type ticketResult struct {
	Err error
	At  time.Time // when the result was known
}

// ErrCollected is the result of a collected ticket. No call can see it.
var ErrCollected = errors.New("the ticket was collected")

// Collected releases the record of a collected ticket, unless a Done or Notify needs the result.
func (tc *Ticket) Collected() {
	tc.Mu.Lock()
	wanted := tc.sub != nil
	tc.Mu.Unlock()
	if !wanted {
		tc.Settle(ErrCollected)
	}
}

// Settle stores the result if there is none yet, releases the slot, and returns the stored result.
func (tc *Ticket) Settle(err error) error {
	now := tc.Slot.Drv.Table().Clock().Now()
	// Subscribe looks for the result under the lock. If it finds none, its channel or function is
	// in the lists that this function notifies.
	tc.Mu.Lock()
	if r := tc.Result.Load(); r != nil {
		tc.Mu.Unlock()
		return r.Err
	}
	tc.Result.Store(&ticketResult{err, now})
	sub, done, call := tc.sub, tc.Done, tc.Call
	tc.sub, tc.Call = nil, nil
	tc.Mu.Unlock()
	if sub != nil {
		tc.Slot.Drv.Watch.Cancel(sub)
	}
	if done != nil {
		close(done)
	}
	for _, f := range call {
		go f(err)
	}
	if _, last := tc.Close(); last {
		tc.Last(false)
	}
	return err
}

// completed is called when the watcher has seen that the record is complete. The race detector does not see when the
// program asks for the result, or receives from the channel. So the program gets the result after the detector.
func (tc *Ticket) completed(owner *core.EventOwner) {
	o := tc.Slot.Drv.Observer()
	if o == nil {
		tc.Settle(nil)
		return
	}
	if !tc.Acquire(tc) { // the slot's CUevent is not recorded again meanwhile
		return // Wait was faster
	}
	go func() {
		defer tc.Release(tc)
		o.Hold()
		tc.Slot.ObserveDone()
		tc.Settle(nil)
		runtime.KeepAlive(owner)
	}()
}

// Last releases the slot when the result is known and the last call on the ticket has ended.
func (tc *Ticket) Last(later bool) {
	tc.Slot.EndWait()
	if later {
		tc.Slot.ReleaseLater(tc.Slot)
	} else {
		tc.Slot.EndCall()
	}
}

// Subscribe calls add, which registers a channel or function to notify of the result. If the result
// is known, it reports false, and does not call add.
func (tc *Ticket) Subscribe(owner *core.EventOwner, add func()) bool {
	if !tc.Acquire(tc) {
		return false
	}
	defer tc.Release(tc)
	tc.Mu.Lock()
	if tc.Result.Load() != nil {
		tc.Mu.Unlock()
		return false
	}
	add()
	first := tc.sub == nil
	var sub *watch.Sub
	if first {
		sub = &watch.Sub{Call: func(s *watch.Sub) {
			if s.Err != nil {
				tc.Settle(s.Err)
			} else {
				tc.completed(owner)
			}
			runtime.KeepAlive(owner) // keeps the event from being collected until now
		}}
		tc.sub = sub
	}
	tc.Mu.Unlock()
	if first {
		AddSub(tc.Slot, sub, nil)
		if tc.Result.Load() != nil { // Wait was faster
			tc.Slot.Drv.Watch.Cancel(sub)
		}
	}
	return true
}
