package cu

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// sharedState is the state that all Streams of one CUstream share: above all, which capture the
// CUstream is part of.
type sharedState struct {
	// work is held for reading by calls that enqueue work whose objects a graph may have to keep:
	// see beginWork. It is held for writing while the stream joins or leaves a capture: see change.
	work lock.RWMutex[lock.Work]
	// capture is this package's capture that the CUstream is part of, or nil.
	capture atomic.Pointer[capture]
	// users is the number of Streams of the CUstream. The context's mutex guards it, so that an
	// entry of the context's map always has users.
	users int
	// usesOthers says that work on the stream has used objects of another context.
	usesOthers atomic.Bool
	// changing says that work is held for writing, for a driver call that returns soon.
	changing atomic.Bool
}

// takeShared returns the state of a CUstream: that of another Stream with it, or own. dropShared
// ends the use.
func (c *contextCore) takeShared(raw driver.Stream, own *sharedState) *sharedState {
	if raw == driver.CU_STREAM_LEGACY || raw == driver.CU_STREAM_PER_THREAD {
		return own // the legacy stream is never captured; the per-thread handle is a different stream on each thread
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	shared := c.sharedStates[raw]
	if shared == nil {
		if c.sharedStates == nil {
			c.sharedStates = make(map[driver.Stream]*sharedState)
		}
		shared = own
		c.sharedStates[raw] = shared
	}
	shared.users++
	return shared
}

func (c *contextCore) dropShared(raw driver.Stream, shared *sharedState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sharedStates[raw] != shared {
		return // a default stream has no entry
	}
	if shared.users--; shared.users == 0 {
		delete(c.sharedStates, raw)
	}
}

// change makes calls that enqueue work on the stream wait while the stream joins or leaves a
// capture, until done is called. The caller must not make the driver enqueue work for the GPU
// meanwhile. It may wait for capturegate.Patience, and, before the stream joins a capture, for the
// end of that capture.
func (shared *sharedState) change() (done func()) {
	shared.work.Lock()
	shared.changing.Store(true)
	return func() {
		shared.changing.Store(false)
		shared.work.Unlock()
	}
}
