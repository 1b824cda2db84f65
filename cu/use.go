package cu

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// usage remembers the streams on which work was enqueued that uses an object, so
// that the object is not destroyed before the work is done. It costs the work
// nothing: the streams are asked when the object is to be destroyed.
type usage struct {
	mu      lock.Mutex[lock.Usage]
	streams atomic.Pointer[[]*streamCore]
	// lost says that a stream is gone, and nothing tells when its work is done: see idle.
	lost atomic.Bool
}

// note adds a stream, before the work is enqueued, while a call on the stream is
// in flight; or one that was noted elsewhere before. tail says that the end of its work has to be known also when the
// stream is destroyed.
func (u *usage) note(sc *streamCore, tail bool) {
	if l := u.streams.Load(); l != nil {
		switch {
		case slices.Contains(*l, sc):
			return
		case !tail && len(*l) >= maxNoted: // it is only a chance to use memory again
			if !u.lost.Load() {
				u.lost.Store(true)
			}
			return
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	var list []*streamCore
	if l := u.streams.Load(); l != nil {
		for _, s := range *l {
			if s == sc {
				return
			}
			// Values of the legacy stream, or of a pool's, come and go, and are all
			// the same.
			again := s.lasts() && s.same(sc)
			switch {
			case again:
			case !s.over():
				list = append(list, s)
			case !tail && !s.tailed():
				u.lost.Store(true)
			}
		}
	}
	if tail { // before the stream is closed, as a call is in flight
		sc.leavesTail.Store(true)
	}
	list = append(list, sc)
	u.streams.Store(&list)
}

// maxNoted is how many streams are noted whose work need not be waited for.
const maxNoted = 16

// noteAll adds the streams that something else was used on.
func (u *usage) noteAll(other *usage) {
	if l := other.streams.Load(); l != nil {
		for _, sc := range *l {
			u.note(sc, true)
		}
	}
}

// errBusy says that it cannot be known yet when a stream's work will be done.
var errBusy = errors.New("the stream is being captured, belongs to a thread, or is being closed")

// wait waits until all work that was enqueued so far has been done on the
// streams. It returns errBusy if that cannot be waited for now, and another error
// if it cannot be known at all.
func (u *usage) wait() error {
	if u == nil {
		return nil
	}
	l := u.streams.Load()
	if l == nil {
		return nil
	}
	for _, sc := range *l {
		if err := sc.waitIdle(); err != nil {
			return err
		}
	}
	return nil
}

// idle reports whether all work that was enqueued so far is known to be done on the streams. It does not wait, and
// enqueues nothing.
func (u *usage) idle() bool {
	if u.lost.Load() {
		return false
	}
	for _, sc := range u.list() {
		if sc.freed.Load() && !sc.tailed() {
			return false
		}
		if done, _ := sc.finished(); !done {
			return false
		}
	}
	return true
}

// tailed reports whether the end of the work of a stream that is over was looked for.
func (sc *streamCore) tailed() bool {
	return sc.lasts() || sc.leavesTail.Load() || sc.ctx.gone.Load()
}

// waitLong is wait, and has patience with streams that are busy, and some with a
// driver that fails to answer. It is for a goroutine of its own.
func (u *usage) waitLong(clock driver.Clock) error { return patiently(clock, u.wait) }

// patiently calls f again and again, until it does not fail, errNoTail is its error, or it has failed maxTries
// times otherwise than by errBusy.
func patiently(clock driver.Clock, f func() error) error {
	b := watch.BackOff{Policy: watch.Patient, Clock: clock}
	defer b.End()
	for failed := 0; ; b.Wait() {
		err := f()
		switch {
		case err == nil, errors.Is(err, errNoTail):
			return err
		case !errors.Is(err, errBusy):
			if failed++; failed == maxTries {
				return err
			}
		}
	}
}

// maxTries is how often the driver may fail to say when work is done; the tries take
// about a second in all.
const maxTries = 20

// errNoTail says that it can never be known when a stream's work is done.
var errNoTail = errors.New("a stream is gone, and nothing marks the end of its work")

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

// Last gives the event back when nobody asks for it any more.
func (t *tail) Last(later bool) {
	t.ctx.drv.last(later, func() { t.ctx.doneWith(EventDisableTiming, t.event) })
}

// over reports whether the stream is gone and all its work known to be done.
func (sc *streamCore) over() bool {
	if sc.lasts() {
		return sc.ctx.gone.Load() && !sc.ctx.lostWork()
	}
	if !sc.freed.Load() {
		return false
	}
	sc.ctx.mu.Lock()
	defer sc.ctx.mu.Unlock()
	return sc.ctx.tails[sc] == nil
}

// lostWork reports whether work that nobody can ask for may still be under way on a stream
// that lasted. The context is gone.
func (c *contextCore) lostWork() bool {
	return c.lost != nil && c.claim != created && c.poison.Load() == nil // what was created ended with its work
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
		ctx.mu.Lock()
		t.lost = ctx.lostTails
		ctx.mu.Unlock()
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
	c.mu.Lock()
	if c.tails == nil {
		c.tails = make(map[*streamCore]*tail)
	}
	if t.err != nil {
		c.lostTails++
		t.lost = c.lostTails
	} else if sc.lasts() {
		// What values of the stream enqueued that were released before is before this mark.
		maps.DeleteFunc(c.tails, func(other *streamCore, its *tail) bool {
			return its.err != nil && its.lost <= t.lost && other.lasts() && other.same(sc)
		})
	}
	c.tails[sc] = t
	many := len(c.tails) > max(c.sweep, maxSpare)
	c.mu.Unlock()
	if many {
		c.dropTails()
	}
}

// dropTails drops the tails that are complete, for which nobody has waited.
func (c *contextCore) dropTails() {
	c.mu.Lock()
	tails := maps.Clone(c.tails)
	c.mu.Unlock()
	for sc, t := range tails {
		if t.err == nil && t.query() == driver.ResultSuccess {
			c.dropTail(sc, t)
		}
	}
	// Where many stay, the next look is far off: closing must not get slower and
	// slower behind a GPU that is busy.
	c.mu.Lock()
	c.sweep = 2 * len(c.tails)
	c.mu.Unlock()
}

// dropTail drops a tail that is complete.
func (c *contextCore) dropTail(sc *streamCore, t *tail) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tails[sc] == t {
		delete(c.tails, sc)
	}
}

// marking is a mark that no tracer knows of yet. The zero marking is none.
type marking struct {
	event  driver.Event
	stream driver.Stream
	t      tracedCall
	res    driver.Result
}

func (m marking) done() { m.t.done(TraceEventRecord, m.event, m.stream, m.res) }

// mark records an event at the end of the stream's work. The caller holds the
// stream, and gives the event back by doneWith.
func (sc *streamCore) mark() (driver.Event, error) {
	m, err := sc.markFirst()
	if err != nil {
		return 0, err
	}
	m.t.doneOr(func() { sc.ctx.doneWith(EventDisableTiming, m.event) }, TraceEventRecord, m.event, m.stream, m.res)
	return m.event, nil
}

// markFirst is mark, and leaves it to the caller to call tracers, unless it fails.
func (sc *streamCore) markFirst() (m marking, err error) {
	ctx := sc.ctx
	e, err := ctx.takeEvent(EventDisableTiming, driver.At{Relaxed: true})
	if err != nil {
		return m, err
	}
	t := ctx.drv.trace(TraceEventRecord, e, sc.raw)
	recorded, res, err := sc.markBy(e)
	if err != nil {
		defer ctx.doneWith(EventDisableTiming, e)
		if recorded {
			t.done(TraceEventRecord, e, sc.raw, res)
		}
		return m, err
	}
	return marking{e, sc.raw, t, res}, nil
}

// markAndLeave is mark, and ends the call that is in flight on the stream, which the mark
// outlives: also if a tracer panics.
func (sc *streamCore) markAndLeave() (driver.Event, error) {
	defer sc.leave()
	return sc.mark()
}

// markBy is mark with an event. It calls no tracers, as it holds locks, and reports
// whether the driver was asked to record, and what it answered.
func (sc *streamCore) markBy(e driver.Event) (recorded bool, res driver.Result, err error) {
	ctx, t := sc.ctx, sc.ctx.drv.table
	at := sc.at
	at.Relaxed = true
	// Nor does the stream become part of a capture between asking and recording.
	sc.beginWork()
	defer sc.endWork()
	if sc.raw == driver.CU_STREAM_LEGACY {
		if !ctx.marks.mark() {
			return false, 0, errBusy
		}
		defer ctx.marks.marked()
	}
	if err := sc.unlessCaptured(at); err != nil {
		return false, 0, err // the event would become part of the capture
	}
	if res = t.EventRecord(at, e, sc.raw); res != driver.ResultSuccess {
		return true, res, ctx.failed("cuEventRecord", uintptr(sc.raw), res)
	}
	return true, res, sc.unlessCaptured(at)
}

// unlessCaptured returns errBusy if the stream is being captured, or is the legacy one
// while another stream is, so that it cannot be asked.
func (sc *streamCore) unlessCaptured(at driver.At) error {
	t := sc.ctx.drv.table
	switch capturing, res := t.StreamIsCapturing(at, sc.raw); {
	case t.Missing(res) != nil: // before CUDA 10.0
		return nil
	case res == driver.ResultSuccess && capturing == 0:
		return nil
	case res == driver.ResultSuccess, res == driver.ResultStreamCaptureImplicit:
		return errBusy
	default:
		return sc.ctx.failed("cuStreamIsCapturing", uintptr(sc.raw), res)
	}
}

// waitIdle waits until what was enqueued on the stream so far is done, whether
// the stream is still there or not. It may return errBusy.
func (sc *streamCore) waitIdle() error {
	ctx := sc.ctx
	// Who releases a context waits for the tails of its streams, and for those of its pools
	// that have used what belongs to another context.
	if !ctx.hold() && !ctx.revive() {
		if !ctx.gone.Load() {
			return errBusy
		}
		if sc.lasts() {
			if ctx.lostWork() {
				return fmt.Errorf("%w: %v", errNoTail, ctx.lost)
			}
			return nil
		}
		ctx.mu.Lock()
		defer ctx.mu.Unlock()
		if t := ctx.tails[sc]; t != nil && t.err != nil && ctx.claim != created && ctx.poison.Load() == nil {
			return fmt.Errorf("%w: %v", errNoTail, t.err)
		}
		return nil
	}
	defer ctx.childDone()
	if sc.lasts() {
		e, err := sc.mark()
		if err != nil {
			return ctx.unlessPoisoned(err)
		}
		defer ctx.doneWith(EventDisableTiming, e)
		return ctx.waitEvent(e)
	}
	if sc.Acquire(sc) {
		if sc.at.Thread != nil && !sc.at.Thread.Here() {
			sc.leave()
			return errBusy // only its thread can mark it, and does when it is closed
		}
		e, err := sc.markAndLeave()
		if err != nil {
			return ctx.unlessPoisoned(err)
		}
		defer ctx.doneWith(EventDisableTiming, e)
		return ctx.waitEvent(e)
	}
	if !sc.freed.Load() {
		return errBusy // a call on it is in flight
	}
	return ctx.waitTail(sc)
}

// unlessPoisoned returns err, or nil if the context is poisoned, in which nothing
// runs any more.
func (c *contextCore) unlessPoisoned(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Result.Sticky() {
		return nil
	}
	return err
}

// waitTail waits for the end of a destroyed stream's work.
func (c *contextCore) waitTail(sc *streamCore) error {
	c.mu.Lock()
	t := c.tails[sc]
	c.mu.Unlock()
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

// waitEvent waits until a CUevent is complete.
func (c *contextCore) waitEvent(e driver.Event) error {
	return c.waitFor("cuEventQuery", func() driver.Result { return c.queryEvent(e) })
}

// waitFor polls until the answer is success, another error than that it is not
// ready, or that the context is poisoned, in which nothing runs any more.
func (c *contextCore) waitFor(op string, query func() driver.Result) error {
	b := watch.BackOff{Policy: watch.Brief, Clock: c.drv.table.Clock()}
	defer b.End()
	for ; ; b.Wait() {
		switch res := query(); res {
		case driver.ResultSuccess:
			return nil
		case driver.ResultNotReady:
		default:
			return c.unlessPoisoned(c.failed(op, 0, res))
		}
	}
}
