package cu

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
)

// What is here asks whether work is done without waiting for it, so that no goroutine has to.

// list returns the streams where work was enqueued.
func (u *usage) list() []*streamCore {
	if l := u.streams.Load(); l != nil {
		return *l
	}
	return nil
}

// finished reports whether all work that was enqueued on the stream so far is known to be done. It enqueues
// nothing, waits for nothing and disturbs no capture. An error says that nobody will ever know.
func (sc *streamCore) finished() (bool, error) {
	if over, err := sc.ended(); over || err != nil {
		return over, err
	}
	return sc.idle(), nil
}

// ended reports whether no work is left on the stream as it is gone, or its context is. It matches errNoTail if
// nobody can know.
func (sc *streamCore) ended() (bool, error) {
	ctx := sc.ctx
	if ctx.poison.Load() != nil {
		return true, nil // nothing runs there any more
	}
	held := ctx.hold() || ctx.revive()
	if held {
		defer ctx.childDone()
	}
	switch {
	case !held && !ctx.cells.drained.Load():
		return false, nil // whoever releases the context waits for the work
	case !held && sc.lasts():
		if ctx.lostWork() {
			return false, fmt.Errorf("%w: %v", errNoTail, ctx.ends.lost)
		}
		return true, nil
	case held && (sc.lasts() || !sc.freed.Load()):
		return false, nil
	}
	ctx.ends.mu.Lock()
	t := ctx.ends.tails[sc]
	ctx.ends.mu.Unlock()
	switch {
	case t == nil:
		return true, nil
	case t.err != nil && !held && ctx.claim == created: // its work ends with it
		return true, nil
	case t.err != nil:
		return false, fmt.Errorf("%w: %v", errNoTail, t.err)
	case t.query() != driver.ResultSuccess:
		return false, nil
	}
	ctx.dropTail(sc, t)
	return true, nil
}

// idle reports whether the driver says that the stream has nothing to do. It asks only of streams that nobody else
// can capture, as the question would invalidate a capture.
func (sc *streamCore) idle() bool {
	if sc.foreign && !sc.pooled || sc.exposed.Load() || sc.at.Thread != nil {
		return false
	}
	if sc.Calls() != 0 {
		return false // a call may wait, as the stream's queue is full, and the question would wait for the call
	}
	leave, ok := sc.visit()
	if !ok {
		return false
	}
	defer leave()
	t := sc.ctx.drv.trace(TraceStreamQuery, 0, sc.raw)
	res, asked := sc.query()
	if asked {
		t.done(TraceStreamQuery, 0, sc.raw, res)
	}
	if res != driver.ResultSuccess && res != driver.ResultNotReady {
		sc.ctx.failed("cuStreamQuery", uintptr(sc.raw), res) // which may have poisoned the context
	}
	return res == driver.ResultSuccess || res.Sticky()
}

// query asks the driver, unless the stream may be captured.
func (sc *streamCore) query() (res driver.Result, asked bool) {
	part, drop := sc.current()
	defer drop()
	if !part.work.TryRLock() {
		return driver.ResultNotReady, false // perhaps a capture begins
	}
	defer part.work.RUnlock()
	at := sc.at
	at.Relaxed, at.NoWait = true, true
	if sc.unlessCaptured(at) != nil {
		return driver.ResultNotReady, false
	}
	return sc.ctx.drv.table.StreamQuery(at, sc.raw), true
}

// current returns the part of the CUstream as it is now, when this Stream of it may have been closed. The
// caller holds the context.
func (sc *streamCore) current() (part *partOf, drop func()) {
	if !sc.pooled {
		return sc.part, func() {}
	}
	part = sc.ctx.takePart(sc.raw, new(partOf))
	return part, func() { sc.ctx.dropPart(sc.raw, part) }
}

// visit keeps the CUstream there until leave is called, unless it is being destroyed.
func (sc *streamCore) visit() (leave func(), ok bool) {
	ctx := sc.ctx
	if !ctx.hold() && !ctx.revive() {
		return nil, false
	}
	if sc.lasts() {
		return ctx.childDone, true
	}
	if !sc.Acquire(sc) {
		ctx.childDone()
		return nil, false
	}
	return func() {
		sc.leave()
		ctx.childDone()
	}, true
}

// mark is the end of a timeline's work on a stream. word is what the stream writes when it gets there. It is nil if the
// stream was done already, or, if open is set, could not be marked, so that all of its work has to be done. err says
// why nobody will know about it.
type mark struct {
	sc   *streamCore
	word *atomic.Uint64
	open bool
	err  error
}

// done reports whether the work is done. It does not wait.
func (m *mark) done() (bool, error) {
	switch {
	case m.err != nil:
		return false, m.err
	case m.word == nil:
		return m.sc.finished()
	case m.word.Load() != 0:
		return true, nil
	}
	return m.sc.ended()
}

// wait waits for the work. It may return errBusy: see patiently.
func (m *mark) wait() error {
	switch done, err := m.done(); {
	case done || err != nil:
		return err
	case m.word == nil:
		return m.sc.waitIdle()
	}
	return errBusy
}

// usedOn notes that work which uses the counter is about to be enqueued on a stream. Where the context of the timeline
// is released, it is closed, and its work may not be done: whoever does that has to know of work on the legacy stream.
func (tc *timelineCore) usedOn(sc *streamCore) {
	if (tc.ctx != sc.ctx || sc.raw == driver.CU_STREAM_LEGACY) && !sc.part.usesOthers.Load() {
		sc.part.usesOthers.Store(true)
	}
	tc.usage.note(sc, true)
}

// usedLike notes that it was used by a graph, on the streams where that was launched. Marks that were made before do
// not count there.
func (tc *timelineCore) usedLike(graph *usage) {
	tc.usage.noteAll(graph)
	if !tc.Closed() {
		return // Close marks the streams
	}
	tc.marksMu.Lock()
	defer tc.marksMu.Unlock()
	for _, sc := range graph.list() {
		// Once is enough, however often a graph is updated.
		if !slices.ContainsFunc(tc.marks, func(m mark) bool { return m.sc == sc && m.open }) {
			tc.marks = append(tc.marks, mark{sc: sc, open: true})
		}
	}
}

// mark marks the end of the work on a stream, unless that is done.
func (tc *timelineCore) mark(sc *streamCore) {
	m := mark{sc: sc}
	if done, _ := sc.finished(); !done {
		m.word, m.err = tc.writeMark(sc)
		m.open = m.word == nil
	}
	tc.marksMu.Lock()
	defer tc.marksMu.Unlock()
	tc.marks = append(tc.marks, m)
}

// errInCapture says that a mark may have become part of a graph, which would write it again.
var errInCapture = errors.New("other code has begun to capture the stream meanwhile")

// writeMark makes the stream write a word when it gets there. It returns nil if the stream cannot be marked.
func (tc *timelineCore) writeMark(sc *streamCore) (*atomic.Uint64, error) {
	leave, ok := sc.visit()
	if !ok {
		return nil, nil // it is gone
	}
	defer leave()
	if sc.at.Thread != nil && !sc.at.Thread.Here() {
		return nil, nil
	}
	x, i, err := tc.takeWord()
	if err != nil {
		return nil, nil
	}
	p, err := x.mapped(sc)
	if err != nil {
		return nil, nil
	}
	part, drop := sc.current()
	defer drop()
	part.work.RLock() // as who enqueues work does: no capture begins here meanwhile
	defer part.work.RUnlock()
	if !sc.tryBeginLegacy() {
		return nil, nil // a capture begins or ends
	}
	defer sc.endLegacy()
	at := sc.at
	at.Relaxed, at.NoWait = true, true
	if sc.unlessCaptured(at) != nil {
		return nil, nil
	}
	p += driver.DevicePtr(8 * i)
	res := sc.ctx.drv.table.StreamWriteValue64(at, sc.raw, p, 1, driver.CU_STREAM_WRITE_VALUE_DEFAULT)
	if res != driver.ResultSuccess {
		sc.ctx.failed(signalOp, uintptr(sc.raw), res) // which may have poisoned the context
		return nil, nil
	}
	// Others can begin a capture of a stream that they know. The legacy one cannot be captured.
	if (sc.foreign && sc.raw != driver.CU_STREAM_LEGACY || sc.exposed.Load()) &&
		errors.Is(sc.unlessCaptured(at), errBusy) {
		return nil, errInCapture
	}
	return x.word(i), nil
}

// takeWord returns a word for a mark, and where it is.
func (tc *timelineCore) takeWord() (cell, int, error) {
	tc.marksMu.Lock()
	defer tc.marksMu.Unlock()
	for {
		i := tc.words + 1 // the first is the counter
		n := i / cellWords
		switch {
		case n == 0:
			tc.words++
			return tc.cell, i, nil
		case n <= len(tc.more):
			tc.words++
			return tc.more[n-1], i % cellWords, nil
		}
		x, err := tc.takeMore()
		if err != nil {
			return x, 0, err
		}
		tc.more = append(tc.more, x)
	}
}

// takeMore takes one more cell for marks. It is called with the lock of these, which it unlocks meanwhile, as tracers
// are told.
func (tc *timelineCore) takeMore() (cell, error) {
	tc.marksMu.Unlock()
	defer tc.marksMu.Lock()
	return tc.ctx.takeCell(driver.At{Context: tc.ctx.raw, Relaxed: true})
}

// forgotten closes a timeline that the garbage collector found. A graph may still use it.
func (tc *timelineCore) forgotten() {
	first, last := tc.Close()
	if first {
		tc.ctx.cells.count(-1, 1)
		tc.ctx.drv.leak(Leak{Kind: tc.kind(), Handle: tc.handle(), Forgotten: true})
	}
	if last {
		tc.retire()
	}
}

// retire lets another timeline have the cell, at once or when the work is done, after the last call. It does not keep
// the context: whoever releases that waits for the work.
func (tc *timelineCore) retire() {
	c := tc.ctx
	known := make(map[*streamCore]bool) // whose marks are complete
	for _, m := range tc.marks {
		before, marked := known[m.sc]
		known[m.sc] = !m.open && (before || !marked)
	}
	left := tc.marks[:0]
	for _, m := range tc.marks {
		if m.word != nil || m.err != nil {
			left = append(left, m)
		}
	}
	for _, sc := range tc.usage.list() {
		if !known[sc] {
			left = append(left, mark{sc: sc})
		}
	}
	tc.marks = left
	over, err := tc.finish()
	if err != nil {
		tc.keep(err)
		return // and keeps the context
	}
	if !over {
		for _, m := range tc.marks {
			if m.sc.ctx == c {
				m.sc.part.usesOthers.Store(true) // a stream of a pool is waited for when the context is released
			}
		}
		c.cells.mu.Lock()
		c.cells.closed = append(c.cells.closed, tc)
		c.cells.mu.Unlock()
	}
	c.childDone()
}

// finish gives the cell back if all work is done, and reports whether it is. An error says that nobody will ever
// know.
func (tc *timelineCore) finish() (bool, error) {
	for n := len(tc.marks); n > 0; n = len(tc.marks) {
		if done, err := tc.marks[n-1].done(); !done || err != nil {
			return false, err
		}
		tc.marks = tc.marks[:n-1]
	}
	tc.last = tc.word.Load()
	tc.freed.Store(true)
	tc.ctx.cells.put(append(tc.more, tc.cell)...)
	tc.ctx.cells.count(0, -1)
	return true, nil
}

// finishLate is finish, and waits.
func (tc *timelineCore) finishLate() error {
	for i := range tc.marks {
		if err := patiently(tc.ctx.drv.table.Clock(), tc.marks[i].wait); err != nil {
			return err
		}
	}
	tc.marks = nil
	_, err := tc.finish()
	return err
}

// keep leaves the cell as it is, for as long as the process lives, as the GPU may use it.
func (tc *timelineCore) keep(err error) {
	tc.ctx.drv.leak(Leak{Kind: tc.kind(), Handle: tc.handle(), Err: errKept(tc.kind(), tc.handle(), err)})
}

// count notes that timelines were opened, or closed, or that their work is done.
func (k *cells) count(open, unfinished int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open += open
	k.unfinished += unfinished
}
