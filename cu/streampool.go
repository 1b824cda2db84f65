package cu

import (
	"errors"
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// poolSize is how many streams of a priority a context shares out.
const poolSize = 32

// streamPool is the streams of one priority that a context shares out. They are no users
// of the context, but what is made of them by PoolStream is: they go with the context.
type streamPool struct {
	mu   lock.Mutex[lock.StreamPool]
	next int
	raw  [poolSize]driver.Stream // 0 where it was not created yet
	part [poolSize]*partOf       // each is one of its users
}

// PoolStream returns one of 32 streams that the context shares out for each priority, in
// turn; each of them is created, non-blocking, when its turn comes first
// (cuStreamCreateWithPriority). So whoever asks for a stream now and then need not create
// one each time, and may get one that is in use elsewhere, whose work comes before his.
// Lower priorities go first; 0 is the default; for numbers outside of
// [Context.PriorityRange] the nearest is taken.
//
// A stream that is shared should not be captured: what others enqueue on it meanwhile
// would become part of the graph, and what they ask about it would invalidate the capture.
//
// Close ends the use of the value, and nothing else: the stream stays, and is destroyed
// with the context. It may wait for the GPU: see docs/blocking.md.
func (c *Context) PoolStream(priority int) (*Stream, error) {
	core, err := c.enter("cuStreamCreateWithPriority")
	if err != nil {
		return nil, err
	}
	defer c.leave()
	at := driver.At{Context: core.raw, Relaxed: true} // creating may be a surprise to the caller
	t := core.drv.table
	least, greatest, res := t.CtxGetStreamPriorityRange(at)
	if res != driver.ResultSuccess {
		return nil, core.failed("cuCtxGetStreamPriorityRange", uintptr(core.raw), res)
	}
	raw, err := core.takeStream(max(greatest, min(clamp32(priority), least)), at)
	if err != nil {
		return nil, err
	}
	s := newStream(core, raw, driver.At{}, true)
	s.core.pooled, s.core.flags = true, StreamNonBlocking
	return s, nil
}

// PoolStream returns one of the streams that the device's primary context shares out: see
// [Context.PoolStream]. The stream keeps the context, and with it the pool; a program that
// wants to find the same streams again keeps a [Context], too. It may wait for the GPU: see docs/blocking.md.
func (dev *Device) PoolStream(priority int) (*Stream, error) {
	gpu, err := dev.PrimaryContext()
	if err != nil {
		return nil, err
	}
	s, err := gpu.PoolStream(priority)
	if err != nil {
		return nil, errors.Join(err, gpu.Close())
	}
	return s, gpu.Close() // which returns nil, as the stream is there
}

// takeStream returns the next stream of a priority, created if need be.
func (c *contextCore) takeStream(priority int32, at driver.At) (driver.Stream, error) {
	c.mu.Lock()
	p := c.pools[priority]
	if p == nil {
		if c.pools == nil {
			c.pools = make(map[int32]*streamPool)
		}
		p = new(streamPool)
		c.pools[priority] = p
	}
	c.mu.Unlock()

	p.mu.Lock()
	i := p.next
	p.next = (i + 1) % poolSize
	raw := p.raw[i]
	p.mu.Unlock()
	if raw != 0 {
		return raw, nil
	}
	// Not under the lock, as tracers are called.
	raw, err := c.createStream("cuStreamCreateWithPriority", func() (driver.Stream, driver.Result) {
		return c.drv.table.StreamCreateWithPriority(at, uint32(StreamNonBlocking), priority)
	})
	if err != nil {
		p.mu.Lock()
		if p.next == (i+1)%poolSize {
			p.next = i // its turn is still to come
		}
		p.mu.Unlock()
		return 0, err
	}
	p.mu.Lock()
	other := p.raw[i]
	if other == 0 {
		p.raw[i], p.part[i] = raw, c.takePart(raw, new(partOf))
	}
	p.mu.Unlock()
	if other != 0 { // it was its turn again, and somebody was faster
		if res := c.destroyStream(raw, at); res != driver.ResultSuccess {
			c.drv.leak(Leak{Kind: "stream", Handle: uintptr(raw), Err: c.failed("cuStreamDestroy", uintptr(raw), res)})
		}
		raw = other
	}
	return raw, nil
}

// endPools destroys the streams of the pools, when the context is released. It waits for the work of
// those that used what belongs to another context: nothing else says when that is used no
// more. What belongs to this one is gone by now.
func (c *contextCore) endPools(at driver.At) {
	pools := slices.Collect(maps.Values(c.pools))
	each(len(pools), func(i int) {
		p := pools[i]
		each(len(p.raw), func(k int) { c.endPooled(p.raw[k], p.part[k], at) })
	})
}

// endPooled is endPools for one stream, 0 for none.
func (c *contextCore) endPooled(raw driver.Stream, part *partOf, at driver.At) {
	if raw == 0 {
		return
	}
	// Where one is lost all are, so that nobody needs patience with the others.
	if part.usesOthers.Load() && c.ends.lost == nil {
		c.ends.lost = patiently(c.drv.table.Clock(), func() error { return c.waitStream(raw) })
	}
	if res := c.destroyStream(raw, at); res != driver.ResultSuccess {
		c.drv.leak(Leak{Kind: "stream", Handle: uintptr(raw), Err: c.failed("cuStreamDestroy", uintptr(raw), res)})
	}
}

// waitStream polls until the work of a pool's stream is done, which holds up nobody. It is for a context without users.
func (c *contextCore) waitStream(raw driver.Stream) error {
	return c.waitFor("cuStreamQuery", func() driver.Result {
		return c.drv.table.StreamQuery(background(), raw)
	})
}
