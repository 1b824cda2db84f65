package cu

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
)

// streamEnds are the tails of streams that are gone, and whose work somebody has to wait for. A tail stays until it is
// known to be complete, or the context is released, which waits for it.
type streamEnds struct {
	mu    lock.Mutex[lock.StreamEnds]
	tails map[*streamCore]*tail
	// sweep is at how many tails those that are complete are dropped.
	sweep int
	// unmarked is how many tails had no event so far.
	unmarked uint64
	// lost is why nobody can know when work is done on a stream that lasts as long as the CUDA context, if others keep
	// that. It is known when the context is gone.
	lost error
}

// tail is an event that marks the end of a destroyed stream's work. It is closed when it
// is known to be complete, and the event is given back when nobody is asking for it any
// more.
type tail struct {
	handle.Refs
	ctx   *contextCore
	err   error // why there is no event
	event driver.Event
	// lost is how many tails without an event the context had, with this one if it is another, when the stream was
	// marked: those came before the mark.
	lost uint64
}

// errNoTail says that it can never be known when a stream's work is done.
var errNoTail = errors.New("a stream is gone, and nothing marks the end of its work")

// query asks whether the tail is complete.
func (t *tail) query() driver.Result {
	if !t.Acquire(t) {
		return driver.ResultSuccess
	}
	defer t.Release(t) // also if a tracer panics
	res := t.ctx.queryEvent(t.event)
	if res == driver.ResultSuccess {
		t.Close()
	}
	return res
}

// Last gives the event back when nobody asks for it any more. It does so at once: who asks holds no lock, and the
// context stays until the answer is there, but not until another goroutine has run.
func (t *tail) Last(bool) { t.ctx.doneWith(EventDisableTiming, t.event) }

// tailed reports whether the end of the work of a stream that is over was looked for.
func (sc *streamCore) tailed() bool {
	return sc.lasts() || sc.leavesTail.Load() || sc.ctx.gone.Load()
}

// over reports whether the stream is gone and all its work known to be done.
func (sc *streamCore) over() bool {
	if sc.lasts() {
		return sc.ctx.gone.Load() && !sc.ctx.lostWork()
	}
	if !sc.freed.Load() {
		return false
	}
	sc.ctx.ends.mu.Lock()
	defer sc.ctx.ends.mu.Unlock()
	return sc.ctx.ends.tails[sc] == nil
}

// lostWork reports whether work that nobody can ask for may still be under way on a stream
// that lasted. The context is gone.
func (c *contextCore) lostWork() bool {
	return c.ends.lost != nil && c.claim != created && c.poison.Load() == nil // what was created ended with its work
}

// leaveTail marks the end of the stream's work, if anybody needs to know it,
// before the stream is destroyed. One that lasts is marked later where it cannot be now, unless the context is
// somebody else's, who may destroy it as soon as all is closed here.
func (sc *streamCore) leaveTail() {
	if !sc.leavesTail.Load() {
		return
	}
	ctx := sc.ctx
	t := &tail{ctx: ctx, err: errNoTail} // unless it is marked: a tracer may panic
	var m marking
	mark := func() error {
		ctx.ends.mu.Lock()
		t.lost = ctx.ends.unmarked
		ctx.ends.mu.Unlock()
		m, t.err = sc.markFirst()
		t.event = m.event
		return ctx.unlessPoisoned(t.err)
	}
	put := func() {
		ctx.putTail(sc, t)
		m.done()
	}
	now := true
	defer func() {
		if now {
			put()
		}
	}()
	err := mark()
	if err != nil && sc.lasts() && !ctx.isBorrowed() {
		now = false
		ctx.hold() // cannot fail: the stream is still a user
		go func() {
			defer ctx.childDone()
			defer put()
			patiently(ctx.drv.table.Clock(), mark)
		}()
		return
	}
	for n := 1; n < 3 && err != nil && !errors.Is(err, errBusy); n++ { // there is no other chance
		err = mark()
	}
}

// putTail keeps a stream's tail, so that it can be waited for.
func (c *contextCore) putTail(sc *streamCore, t *tail) {
	if t.err != nil && c.unlessPoisoned(t.err) == nil {
		return
	}
	c.ends.mu.Lock()
	if c.ends.tails == nil {
		c.ends.tails = make(map[*streamCore]*tail)
	}
	if t.err != nil {
		c.ends.unmarked++
		t.lost = c.ends.unmarked
	} else if sc.lasts() {
		// What values of the stream enqueued that were released before is before this mark.
		maps.DeleteFunc(c.ends.tails, func(other *streamCore, its *tail) bool {
			return its.err != nil && its.lost <= t.lost && other.lasts() && other.same(sc)
		})
	}
	c.ends.tails[sc] = t
	many := len(c.ends.tails) > max(c.ends.sweep, maxSpare)
	c.ends.mu.Unlock()
	if many {
		c.dropTails()
	}
}

// dropTails drops the tails that are complete, for which nobody has waited.
func (c *contextCore) dropTails() {
	c.ends.mu.Lock()
	tails := maps.Clone(c.ends.tails)
	c.ends.mu.Unlock()
	for sc, t := range tails {
		if t.err == nil && t.query() == driver.ResultSuccess {
			c.dropTail(sc, t)
		}
	}
	// Where many stay, the next look is far off: closing must not get slower and
	// slower behind a GPU that is busy.
	c.ends.mu.Lock()
	c.ends.sweep = 2 * len(c.ends.tails)
	c.ends.mu.Unlock()
}

// dropTail drops a tail that is complete.
func (c *contextCore) dropTail(sc *streamCore, t *tail) {
	c.ends.mu.Lock()
	defer c.ends.mu.Unlock()
	if c.ends.tails[sc] == t {
		delete(c.ends.tails, sc)
	}
}

// waitTail waits for the end of a destroyed stream's work.
func (c *contextCore) waitTail(sc *streamCore) error {
	c.ends.mu.Lock()
	t := c.ends.tails[sc]
	c.ends.mu.Unlock()
	if t == nil {
		return nil // somebody else has waited for it
	}
	if t.err != nil {
		return fmt.Errorf("%w: %v", errNoTail, t.err) // not %w: it is final, also if the stream was busy then
	}
	if err := c.waitFor("cuEventQuery", func() driver.Result { return t.query() }); err != nil {
		return err
	}
	if t.Closed() {
		c.dropTail(sc, t)
	}
	return nil
}

// endTails waits for the work of streams that are gone, and destroys what marks its end.
func (c *contextCore) endTails(at driver.At) {
	streams := slices.Collect(maps.Keys(c.ends.tails))
	each(len(streams), func(i int) {
		sc := streams[i]
		t := c.ends.tails[sc]
		if t.err != nil {
			return
		}
		err := patiently(c.drv.table.Clock(), func() error { return c.waitTail(sc) })
		if err != nil {
			c.ends.mu.Lock()
			t.err = err
			c.ends.mu.Unlock()
		}
		if !t.Closed() { // the context is poisoned, or nobody knows
			err = errors.Join(err, c.destroyEvent(t.event, at))
		}
		if err != nil {
			c.drv.leak(Leak{Kind: "context", Handle: uintptr(c.raw), Err: err})
		}
	})
	for sc, t := range c.ends.tails {
		if t.err != nil && sc.lasts() { // another value of it may be asked for
			c.ends.lost = t.err
		}
	}
}
