package core

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
)

// HostFunc is a function with an address that the driver can call. Graphs keep it, or the context
// until it is called. Then it is dropped. A call by the driver after that has no effect.
type HostFunc struct {
	handle.Refs
	Func     func() // as the program gave it
	Callback driver.Callback
	// dropped tells the race detector that graphs do not call the function any more, or is nil.
	dropped func()
}

// EndCall ends a call in flight on the function.
func (h *HostFunc) EndCall() { h.Release(h) }

// Last drops the function when the last reference to it is released.
func (h *HostFunc) Last(bool) {
	h.Callback.Drop()
	if h.dropped != nil {
		h.dropped()
	}
}

// hostCalls has the functions that the streams of a context have yet to call.
type hostCalls struct {
	mu      lock.Mutex[lock.HostCalls]
	pending map[*HostFunc]struct{}
}

// Add adds a function, on which the caller has a call in flight.
func (c *hostCalls) Add(h *HostFunc) {
	h.Retain()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = make(map[*HostFunc]struct{})
	}
	c.pending[h] = struct{}{}
}

// take removes a function, and reports whether it was there.
func (c *hostCalls) take(h *HostFunc) bool {
	c.mu.Lock()
	_, ok := c.pending[h]
	delete(c.pending, h)
	c.mu.Unlock()
	if ok {
		h.EndCall()
	}
	return ok
}

// dropAll drops all functions, which will not be called. It takes no other lock that calls of this
// package hold.
func (c *hostCalls) dropAll() {
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	for h := range pending {
		h.EndCall()
	}
}

// None reports whether no function is pending.
func (c *hostCalls) None() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) == 0
}
