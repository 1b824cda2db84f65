package cu

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/driver"
)

// usage remembers the streams on which work was enqueued that uses an object, so
// that the object is not destroyed before the work is done. It costs the work
// nothing: the streams are asked when the object is to be destroyed.
type usage struct {
	mu      sync.Mutex
	streams atomic.Pointer[[]*streamCore]
}

// note adds a stream, before the work is enqueued, while a call on the stream is
// in flight; or one that was noted elsewhere before.
func (u *usage) note(sc *streamCore) {
	if l := u.streams.Load(); l != nil && slices.Contains(*l, sc) {
		return
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
			if again := s.lasts() && s.same(sc); !again && !s.over() {
				list = append(list, s)
			}
		}
	}
	// Before the stream is closed, as a call is in flight: it will leave a tail.
	sc.leavesTail.Store(true)
	list = append(list, sc)
	u.streams.Store(&list)
}

// noteAll adds the streams that something else was used on.
func (u *usage) noteAll(other *usage) {
	if l := other.streams.Load(); l != nil {
		for _, sc := range *l {
			u.note(sc)
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

// waitLong is wait, and has patience with streams that are busy, and some with a
// driver that fails to answer. It is for a goroutine of its own.
func (u *usage) waitLong(clock driver.Clock) error {
	var timer driver.Timer
	failed := 0
	for sleep := time.Millisecond; ; sleep = min(2*sleep, 100*time.Millisecond) {
		err := u.wait()
		switch {
		case err == nil, errors.Is(err, errNoTail):
			return err
		case !errors.Is(err, errBusy):
			if failed++; failed == maxTries {
				return err
			}
		}
		if timer == nil {
			timer = clock.NewTimer(sleep)
			defer timer.Stop()
		} else {
			timer.Reset(sleep)
		}
		<-timer.C()
	}
}

// maxTries is how often the driver may fail to say when work is done; the tries take
// more than a second in all.
const maxTries = 20

// errNoTail says that it can never be known when a stream's work is done.
var errNoTail = errors.New("a stream was destroyed, and nothing marks the end of its work")

// tail is an event that marks the end of a destroyed stream's work. It is closed when it
// is known to be complete, and the event is given back when nobody is asking for it any
// more.
type tail struct {
	refs
	err   error // why there is no event
	event driver.Event
}

// query asks whether the tail is complete.
func (t *tail) query(c *contextCore) driver.Result {
	res := driver.ResultSuccess
	if t.acquire() {
		if res = c.queryEvent(t.event); res == driver.ResultSuccess {
			t.markClosed()
		}
	}
	if t.release() {
		c.doneWith(EventDisableTiming, t.event)
	}
	return res
}

// over reports whether the stream is gone and all its work known to be done.
func (sc *streamCore) over() bool {
	if sc.lasts() {
		return sc.ctx.gone.Load() && !sc.lost()
	}
	if !sc.freed.Load() {
		return false
	}
	sc.ctx.mu.Lock()
	defer sc.ctx.mu.Unlock()
	return sc.ctx.tails[sc] == nil
}

// lost reports whether it cannot be known when the work is done on a stream that lasted. Its context is gone.
func (sc *streamCore) lost() bool {
	return sc.raw == driver.CU_STREAM_LEGACY && sc.ctx.legacyErr != nil
}

// leaveTail marks the end of the stream's work, if anybody needs to know it,
// before the stream is destroyed.
func (sc *streamCore) leaveTail() {
	if !sc.leavesTail.Load() {
		return
	}
	ctx := sc.ctx
	t := new(tail)
	for range 3 { // there is no other chance
		if t.event, t.err = sc.mark(); t.err == nil || errors.Is(t.err, errBusy) {
			break
		}
	}
	if t.err != nil && ctx.unlessPoisoned(t.err) == nil {
		return
	}
	ctx.mu.Lock()
	if ctx.tails == nil {
		ctx.tails = make(map[*streamCore]*tail)
	}
	ctx.tails[sc] = t
	many := len(ctx.tails) > max(ctx.sweep, maxSpare)
	ctx.mu.Unlock()
	if many {
		ctx.dropTails()
	}
}

// dropTails drops the tails that are complete, for which nobody has waited.
func (c *contextCore) dropTails() {
	c.mu.Lock()
	tails := maps.Clone(c.tails)
	c.mu.Unlock()
	for sc, t := range tails {
		if t.err == nil && t.query(c) == driver.ResultSuccess {
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

// mark records an event at the end of the stream's work. The caller holds the
// stream, and gives the event back by doneWith.
func (sc *streamCore) mark() (driver.Event, error) {
	ctx := sc.ctx
	e, err := ctx.takeEvent(EventDisableTiming, driver.At{Relaxed: true})
	if err != nil {
		return 0, err
	}
	t := ctx.drv.tell(TraceEventRecord, e, sc.raw)
	recorded, res, err := sc.markBy(e)
	if recorded {
		t.done(TraceEventRecord, e, sc.raw, res)
	}
	if err != nil {
		ctx.doneWith(EventDisableTiming, e)
		return 0, err
	}
	return e, nil
}

// markBy is mark with an event. It tells no tracers, as it holds locks, and reports
// whether the driver was asked to record, and what it answered.
func (sc *streamCore) markBy(e driver.Event) (recorded bool, res driver.Result, err error) {
	ctx, t := sc.ctx, sc.ctx.drv.table
	at := sc.at
	at.Relaxed = true
	// Nor does the stream become part of a capture between asking and recording.
	sc.beginWork()
	defer sc.endWork()
	if sc.raw == driver.CU_STREAM_LEGACY {
		ctx.marking.Lock()
		defer ctx.marking.Unlock()
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
	// Who gives a context up waits for the tails of its streams.
	if !ctx.hold() {
		if !ctx.gone.Load() {
			return errBusy
		}
		if sc.lost() {
			return fmt.Errorf("%w: %v", errNoTail, ctx.legacyErr)
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
		return sc.waitMarked()
	}
	if sc.acquire() {
		if sc.at.Thread != nil && !sc.at.Thread.Here() {
			sc.leave()
			return errBusy // only its thread can mark it, and does when it is closed
		}
		e, err := sc.mark()
		sc.leave() // the mark outlives the stream
		if err != nil {
			return ctx.unlessPoisoned(err)
		}
		defer ctx.doneWith(EventDisableTiming, e)
		return ctx.waitEvent(e)
	}
	sc.leave()
	if !sc.freed.Load() {
		return errBusy // a call on it is in flight
	}
	return ctx.waitTail(sc)
}

// waitMarked waits until what was enqueued so far is done on a stream that lasts.
func (sc *streamCore) waitMarked() error {
	e, err := sc.mark()
	if err != nil {
		return sc.ctx.unlessPoisoned(err)
	}
	defer sc.ctx.doneWith(EventDisableTiming, e)
	return sc.ctx.waitEvent(e)
}

// endLegacy waits for the work on the legacy default stream, when the context is given up, if some of it used what
// belongs to another context: nothing else says when that is used no more, as others may keep the CUDA context.
func (c *contextCore) endLegacy() {
	if !c.legacy.strange.Load() || c.claim == created { // one that was created ends with its work
		return
	}
	sc := &streamCore{raw: driver.CU_STREAM_LEGACY, at: driver.At{Context: c.raw}, part: &c.legacy}
	sc.ctx = c
	c.legacyErr = tryHard(sc.waitMarked)
}

// tryHard calls f until it does not fail, as often as maxTries says.
func tryHard(f func() error) error {
	err := f()
	for i := 0; i < maxTries && err != nil; i++ {
		time.Sleep(time.Millisecond << min(i, 6))
		err = f()
	}
	return err
}

// unlessPoisoned returns err, or nil if the context is poisoned, in which nothing
// runs any more.
func (c *contextCore) unlessPoisoned(err error) error {
	var e *Error
	if errors.As(err, &e) && driver.Result(e.Result).Sticky() {
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
	if err := c.waitFor(func() driver.Result { return t.query(c) }); err != nil {
		return err
	}
	if t.closed() {
		c.dropTail(sc, t)
	}
	return nil
}

// waitEvent waits until a CUevent is complete.
func (c *contextCore) waitEvent(e driver.Event) error {
	return c.waitFor(func() driver.Result { return c.queryEvent(e) })
}

// waitFor polls until the answer is success, another error than that it is not
// ready, or that the context is poisoned, in which nothing runs any more.
func (c *contextCore) waitFor(query func() driver.Result) error {
	var timer driver.Timer
	sleep := minSleep
	for i := 0; ; i++ {
		switch res := query(); res {
		case driver.ResultSuccess:
			return nil
		case driver.ResultNotReady:
		default:
			return c.unlessPoisoned(c.failed("cuEventQuery", 0, res))
		}
		if i < spinPolls {
			runtime.Gosched()
			continue
		}
		if timer == nil {
			timer = c.drv.table.Clock().NewTimer(sleep)
			defer timer.Stop()
		} else {
			timer.Reset(sleep)
		}
		<-timer.C()
		sleep = min(2*sleep, maxSleep)
	}
}
