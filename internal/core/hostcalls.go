package core

import "github.com/purecu/purecu/internal/lock"

// hostCalls has the functions that the streams of a context have yet to call.
type hostCalls struct {
	mu      lock.Mutex[lock.HostCalls]
	pending map[Holder]struct{}
}

// Add adds a function, on which the caller has a call in flight.
func (c *hostCalls) Add(h Holder) {
	h.Retain()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = make(map[Holder]struct{})
	}
	c.pending[h] = struct{}{}
}

// Take removes a function, and reports whether it was there.
func (c *hostCalls) Take(h Holder) bool {
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
