package poolimport

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// handleUses counts the uses of objects for which the driver returns the same handle again, and may not
// count: the first call that ends the object may end it for all. X is what is known of the uses of one
// object.
//
// The driver is called without a lock. So an object may end after the driver has returned its handle,
// and before the use is counted. Then the handle may name nothing, or another object. So the caller
// asks again when the call that ends the object has returned.
type handleUses[X any] struct {
	mu lock.Mutex[lock.HandleUses]
	// at has the objects that are in use, by their handles.
	at map[uint64]*X
	// asking is the number of calls in progress that may return a handle.
	asking int
	// ended is the number of calls that have ended objects and returned. ends has the newest endCall of
	// each handle. One that has returned stays there until no call is asking.
	ended uint64
	ends  map[uint64]*endCall
}

// endCall is a call that ends an object.
type endCall struct {
	number   uint64 // of handleUses.ended, or 0 if it has not returned
	returned chan struct{}
}

// get calls ask, which returns the handle of an object. Then it calls found, which counts a use, under
// the lock. If the object ends meanwhile, it waits until that has happened, and asks again.
func (u *handleUses[X]) get(ask func() (uint64, driver.Result), found func(*X)) driver.Result {
	for {
		e, res := u.try(ask, found)
		if e == nil {
			return res
		}
		<-e.returned
	}
}

// try is one try of get. If e is not nil, get has to wait for it.
func (u *handleUses[X]) try(ask func() (uint64, driver.Result), found func(*X)) (e *endCall, res driver.Result) {
	u.mu.Lock()
	u.asking++
	since := u.ended
	u.mu.Unlock()
	defer u.asked() // also if a tracer panics
	h, res := ask()
	if res != driver.ResultSuccess {
		return nil, res
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if e := u.ends[h]; e != nil && (e.number == 0 || e.number > since) {
		return e, res // the driver may have returned the handle before that, or after it
	}
	x := u.at[h]
	if x == nil {
		if u.at == nil {
			u.at = make(map[uint64]*X)
		}
		x = new(X)
		u.at[h] = x
	}
	found(x)
	return nil, res
}

// asked ends a call that may return a handle. After the last one the ends that have returned are
// forgotten.
func (u *handleUses[X]) asked() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.asking--; u.asking > 0 {
		return
	}
	for h, e := range u.ends {
		if e.number != 0 {
			delete(u.ends, h)
		}
	}
}

// beginEnd is called under the lock, and before the driver is asked to end an object that is no longer
// in use. The caller calls end afterwards, without the lock.
func (u *handleUses[X]) beginEnd(h uint64) (end func()) {
	delete(u.at, h)
	e := &endCall{returned: make(chan struct{})}
	if u.ends == nil {
		u.ends = make(map[uint64]*endCall)
	}
	u.ends[h] = e
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.ended++
		e.number = u.ended
		close(e.returned)
		if u.asking == 0 && u.ends[h] == e {
			delete(u.ends, h)
		}
	}
}

// Idle reports whether no object is in use, and no call of the driver is in progress. It is for tests.
func (u *handleUses[X]) Idle() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.at) == 0 && u.asking == 0 && len(u.ends) == 0
}
