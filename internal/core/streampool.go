package core

import (
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
)

// StreamPoolSize is the number of streams in a pool.
const StreamPoolSize = 32

// streamPool is a context's pool of streams of one priority. The pool's streams are not users of
// the context, but the Streams that PoolStream returns are. The pool ends with the context.
type streamPool struct {
	mu     lock.Mutex[lock.StreamPool]
	next   int
	raw    [StreamPoolSize]driver.Stream // 0 for a stream that was not created yet
	shared [StreamPoolSize]*sharedState  // the pool is one of the users of each sharedState
}

// TakeStream returns the next stream of a priority, and creates it if necessary.
func (c *Context) TakeStream(priority int32, at driver.At) (driver.Stream, error) {
	c.Mu.Lock()
	p := c.streamPools[priority]
	if p == nil {
		if c.streamPools == nil {
			c.streamPools = make(map[int32]*streamPool)
		}
		p = new(streamPool)
		c.streamPools[priority] = p
	}
	c.Mu.Unlock()

	p.mu.Lock()
	i := p.next
	p.next = (i + 1) % StreamPoolSize
	raw := p.raw[i]
	p.mu.Unlock()
	if raw != 0 {
		return raw, nil
	}
	// Not under the lock, because tracers are called.
	raw, err := c.createStream("cuStreamCreateWithPriority", func() (driver.Stream, driver.Result) {
		return c.Drv.Table().StreamCreateWithPriority(at, driver.CU_STREAM_NON_BLOCKING, priority)
	})
	if err != nil {
		p.mu.Lock()
		if p.next == (i+1)%StreamPoolSize {
			p.next = i // the next caller tries again
		}
		p.mu.Unlock()
		return 0, err
	}
	p.mu.Lock()
	other := p.raw[i]
	if other == 0 {
		p.raw[i], p.shared[i] = raw, c.TakeShared(raw, new(sharedState))
	}
	p.mu.Unlock()
	if other != 0 { // another call has created the stream meanwhile
		if res := c.destroyStream(raw, at); res != driver.ResultSuccess {
			h := uintptr(raw)
			c.Drv.Leak(drivercall.LeakReport{Kind: "stream", Handle: h, Err: c.BackgroundError("cuStreamDestroy", h, res)})
		}
		raw = other
	}
	return raw, nil
}

// endStreamPools destroys the pools' streams when the context is released. It waits for the work of
// streams that used objects of other contexts, because nothing else tells when that use ends. This
// context's own objects no longer exist.
func (c *Context) endStreamPools(at driver.At) {
	pools := slices.Collect(maps.Values(c.streamPools))
	drivercall.EachDespitePanic(len(pools), func(i int) {
		p := pools[i]
		drivercall.EachDespitePanic(len(p.raw), func(k int) { c.destroyPooled(p.raw[k], p.shared[k], at) })
	})
}

// destroyPooled destroys one stream of a pool, or does nothing if raw is 0.
func (c *Context) destroyPooled(raw driver.Stream, shared *sharedState, at driver.At) {
	if raw == 0 {
		return
	}
	// If one wait has failed, the driver answers no other wait either.
	if shared.UsesOthers.Load() && c.Ends.lost == nil {
		c.Ends.lost = RetryUntilDone(c.Drv.Table().Clock(), func() error { return c.waitStream(raw) })
	}
	if res := c.destroyStream(raw, at); res != driver.ResultSuccess {
		h := uintptr(raw)
		c.Drv.Leak(drivercall.LeakReport{Kind: "stream", Handle: h, Err: c.BackgroundError("cuStreamDestroy", h, res)})
	}
}

// waitStream polls until the work of a pool's stream is done. It is for a context without users.
// The polls do not block other calls.
func (c *Context) waitStream(raw driver.Stream) error {
	return c.pollUntil("cuStreamQuery", func() driver.Result {
		return c.Drv.Table().StreamQuery(BackgroundAt(), raw)
	})
}
