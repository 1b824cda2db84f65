package cu

import "github.com/purecu/purecu/internal/lock"

// streamCalls keeps two kinds of calls in a context apart: those about all of its streams
// (cuCtxRecordEvent, cuCtxWaitEvent and their kin for green contexts), and those that make or
// destroy a stream, or a green context. On an H100 (driver 580) cuCtxWaitEvent crashed once, while
// other goroutines were in cuStreamDestroy, cuGreenCtxCreate and cuGraphInstantiate. Which of them
// it was is not known, and that this avoids the crash was not seen on a GPU. Calls of one kind go
// on side by side. What destroys a stream does not wait: it is left to the last of the calls that
// it must not meet.
type streamCalls struct {
	mu lock.Mutex[lock.StreamCalls]
	// whole and changing count the calls of each kind that are under way.
	whole, changing int
	// changed is closed, and another made, when a count gets to 0; nil if nobody waits for that.
	changed chan struct{}
	// later are destructions that wait for whole.
	later []func()
}

// await waits until a count is 0. The mutex is held, but not meanwhile.
func (c *streamCalls) await(count *int) {
	for *count > 0 {
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		<-changed
		c.mu.Lock()
	}
}

// wake wakes those in await. The mutex is held.
func (c *streamCalls) wake() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// forAll makes a call about all streams.
func (c *streamCalls) forAll(call func()) {
	c.mu.Lock()
	c.await(&c.changing)
	c.whole++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		if c.whole--; c.whole > 0 {
			c.mu.Unlock()
			return
		}
		later := c.later
		c.later = nil
		c.changing += len(later)
		c.wake()
		c.mu.Unlock()
		for _, destroy := range later {
			destroy()
			c.changeDone()
		}
	}()
	call()
}

// change makes a call that makes a stream.
func (c *streamCalls) change(call func()) {
	c.mu.Lock()
	c.await(&c.whole)
	c.changing++
	c.mu.Unlock()
	defer c.changeDone()
	call()
}

func (c *streamCalls) changeDone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changing--; c.changing == 0 {
		c.wake()
	}
}

// destroy makes a call that destroys a stream, and reports true; or it reports false, and calls later, when no call
// about all streams is under way any more.
func (c *streamCalls) destroy(call, later func()) (done bool) {
	c.mu.Lock()
	if c.whole > 0 {
		c.later = append(c.later, later)
		c.mu.Unlock()
		return false
	}
	c.changing++
	c.mu.Unlock()
	defer c.changeDone()
	call()
	return true
}
