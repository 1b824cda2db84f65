package cu

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

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
	now := tc.slot.drv.table().Clock().Now()
	// subscribe looks for the result under the lock. If it finds none, its channel or function is
	// in the lists that this function notifies.
	tc.mu.Lock()
	if r := tc.result.Load(); r != nil {
		tc.mu.Unlock()
		return r.err
	}
	tc.result.Store(&ticketResult{err, now})
	sub, done, call := tc.sub, tc.done, tc.call
	tc.sub, tc.call = nil, nil
	tc.mu.Unlock()
	if sub != nil {
		tc.slot.drv.watch.Cancel(sub)
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
func (tc *ticketCore) completed(owner *eventOwner) {
	o := tc.slot.drv.observer()
	if o == nil {
		tc.settle(nil)
		return
	}
	if !tc.Acquire(tc) { // the slot's CUevent is not recorded again meanwhile
		return // Wait was faster
	}
	go func() {
		defer tc.Release(tc)
		o.Hold()
		tc.slot.observeDone()
		tc.settle(nil)
		runtime.KeepAlive(owner)
	}()
}

// Last releases the slot when the result is known and the last call on the ticket has ended.
func (tc *ticketCore) Last(later bool) {
	tc.slot.EndWait()
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
			if s.Err != nil {
				tc.settle(s.Err)
			} else {
				tc.completed(owner)
			}
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
