package cu

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/slab"
)

// mark is the end of a timeline's work on one stream.
type mark struct {
	sc *streamCore
	// word is written by the stream at the mark. It is nil if the stream was done already, or if
	// unmarked is set.
	word *atomic.Uint64
	// unmarked says that the stream could not be marked, so that all of its work has to be done.
	unmarked bool
	// err says why the end of the work can never be known.
	err error
}

// done reports, without waiting, whether the work is done.
func (m *mark) done() (bool, error) {
	switch {
	case m.err != nil:
		return false, m.err
	case m.word == nil:
		return m.sc.done()
	case m.word.Load() != 0:
		return true, nil
	}
	return m.sc.gone()
}

// wait waits for the work. It may return errBusy: see retryUntilDone.
func (m *mark) wait() error {
	switch done, err := m.done(); {
	case done || err != nil:
		return err
	case m.word == nil:
		return m.sc.waitIdle()
	}
	return errBusy
}

// usedOn notes that work which uses the counter is about to be enqueued on a stream. If the
// timeline is closed and its work is not done when its context is released, the release waits for
// the work. For that it has to know the work on streams of other contexts and on the legacy stream.
func (tc *timelineCore) usedOn(sc *streamCore) (noted bool) {
	if (tc.ctx != sc.ctx || sc.raw == driver.CU_STREAM_LEGACY) && !sc.shared.usesOthers.Load() {
		sc.shared.usesOthers.Store(true)
	}
	return tc.usedStreams.note(sc, true)
}

// usedOnAll notes that a graph used the counter on the streams on which the graph was launched.
// Marks that were made earlier do not include that work.
func (tc *timelineCore) usedOnAll(graph *streamSet) {
	tc.usedStreams.noteAll(graph)
	if !tc.Closed() {
		return // Close marks the streams
	}
	tc.marksMu.Lock()
	defer tc.marksMu.Unlock()
	for _, sc := range graph.list() {
		// A graph that is updated repeatedly adds a stream once.
		if !slices.ContainsFunc(tc.marks, func(m mark) bool { return m.sc == sc && m.unmarked }) {
			tc.marks = append(tc.marks, mark{sc: sc, unmarked: true})
		}
	}
}

// mark marks the end of the work on a stream, unless the work is done.
func (tc *timelineCore) mark(sc *streamCore) {
	m := mark{sc: sc}
	if done, _ := sc.done(); !done {
		m.word, m.err = tc.writeMark(sc)
		m.unmarked = m.word == nil
	}
	tc.marksMu.Lock()
	defer tc.marksMu.Unlock()
	tc.marks = append(tc.marks, m)
}

// errInCapture says that a mark may have become part of a graph, which would write it at each
// launch.
var errInCapture = errors.New("other code began to capture the stream at the same time")

// writeMark enqueues the write of a word on the stream. It returns nil if the stream cannot be
// marked.
func (tc *timelineCore) writeMark(sc *streamCore) (*atomic.Uint64, error) {
	leave, ok := sc.tryEnter()
	if !ok {
		return nil, nil // the stream is gone
	}
	defer leave()
	if sc.at.Thread != nil && !sc.at.Thread.Here() {
		return nil, nil
	}
	x, i, err := tc.takeWord()
	if err != nil {
		return nil, nil
	}
	p, err := tc.mapped(x, sc)
	if err != nil {
		return nil, nil
	}
	shared, drop := sc.currentShared()
	defer drop()
	shared.captureLock.RLock() // no capture begins here until the write is enqueued
	defer shared.captureLock.RUnlock()
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
	res := sc.ctx.drv.table().StreamWriteValue64(at, sc.raw, p, 1, driver.CU_STREAM_WRITE_VALUE_DEFAULT)
	if res != driver.ResultSuccess {
		sc.ctx.backgroundError(signalOp, uintptr(sc.raw), res) // the error may have poisoned the context
		return nil, nil
	}
	// Other code can begin a capture of a stream whose handle it has. The legacy stream cannot be
	// captured.
	if (sc.foreign && sc.raw != driver.CU_STREAM_LEGACY || sc.exposed.Load()) &&
		errors.Is(sc.unlessCaptured(at), errBusy) {
		return nil, errInCapture
	}
	return x.Word(i), nil
}

// takeWord returns a word for a mark: its cell, and its index there.
func (tc *timelineCore) takeWord() (slab.Cell, int, error) {
	tc.marksMu.Lock()
	defer tc.marksMu.Unlock()
	for {
		i := tc.words + 1 // word 0 is the counter
		n := i / slab.CellWords
		switch {
		case n == 0:
			tc.words++
			return tc.cell, i, nil
		case n <= len(tc.more):
			tc.words++
			return tc.more[n-1], i % slab.CellWords, nil
		}
		x, err := tc.takeMore()
		if err != nil {
			return x, 0, err
		}
		tc.more = append(tc.more, x)
	}
}

// takeMore takes another cell for marks. The caller holds marksMu, which takeMore unlocks
// meanwhile, because tracers are called.
func (tc *timelineCore) takeMore() (slab.Cell, error) {
	tc.marksMu.Unlock()
	defer tc.marksMu.Lock()
	return tc.ctx.takeCell(driver.At{Context: tc.ctx.raw, Relaxed: true})
}

// closeAbandoned closes an abandoned timeline. A graph may still use it.
func (tc *timelineCore) closeAbandoned() {
	first, last := tc.Close()
	if first {
		tc.ctx.cells.countTimelines(-1, 1)
		tc.ctx.drv.collector.abandoned(0)
		tc.ctx.drv.leak(leakReport{Kind: tc.kind(), Handle: tc.handle(), Abandoned: true})
	}
	if last {
		tc.retire()
	}
}

// retire releases the cell after the last call on the timeline: at once, or when the work that uses
// it is done. It does not keep the context, because the release of the context waits for that work.
func (tc *timelineCore) retire() {
	c := tc.ctx
	known := make(map[*streamCore]bool) // whether the marks of a stream cover all work on it
	for _, m := range tc.marks {
		before, marked := known[m.sc]
		known[m.sc] = !m.unmarked && (before || !marked)
	}
	left := tc.marks[:0]
	for _, m := range tc.marks {
		if m.word != nil || m.err != nil {
			left = append(left, m)
		}
	}
	for _, sc := range tc.usedStreams.list() {
		if !known[sc] {
			left = append(left, mark{sc: sc})
		}
	}
	tc.marks = left
	done, err := tc.freeIfDone()
	if err != nil {
		tc.keepForever(err)
		return // the timeline stays a user of the context
	}
	if !done {
		for _, m := range tc.marks {
			if m.sc.ctx == c {
				m.sc.shared.usesOthers.Store(true) // so the release of the context waits for a stream of a pool, too
			}
		}
		c.cells.mu.Lock()
		c.cells.closed = append(c.cells.closed, tc)
		c.cells.mu.Unlock()
	}
	c.endHold()
}

// freeIfDone frees the cell if all work is done, and reports whether it is. An error says that the
// end of the work can never be known.
func (tc *timelineCore) freeIfDone() (done bool, err error) {
	for n := len(tc.marks); n > 0; n = len(tc.marks) {
		if done, err := tc.marks[n-1].done(); !done || err != nil {
			return false, err
		}
		tc.marks = tc.marks[:n-1]
	}
	tc.final = tc.word.Load()
	tc.freed.Store(true)
	tc.ctx.cells.Put(append(tc.more, tc.cell)...)
	tc.ctx.cells.countTimelines(0, -1)
	return true, nil
}

// waitAndFree waits for the work, and then frees the cell.
func (tc *timelineCore) waitAndFree() error {
	for i := range tc.marks {
		if err := retryUntilDone(tc.ctx.drv.table().Clock(), tc.marks[i].wait); err != nil {
			return err
		}
	}
	tc.marks = nil
	_, err := tc.freeIfDone()
	return err
}

// keepForever reports the timeline as leaked. Its cell is never used again, as the GPU may still write to
// it.
func (tc *timelineCore) keepForever(err error) {
	tc.ctx.drv.leak(leakReport{Kind: tc.kind(), Handle: tc.handle(), Err: errKept(tc.kind(), tc.handle(), err)})
}

// countTimelines adds to the numbers of open timelines and of closed timelines whose work is not done.
func (k *cells) countTimelines(open, unfinished int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open += open
	k.unfinished += unfinished
}

// mapped returns a cell's address for work on a stream.
func (tc *timelineCore) mapped(x slab.Cell, sc *streamCore) (driver.DevicePtr, error) {
	c := sc.ctx
	if c == tc.ctx {
		return x.Raw(), nil
	}
	if p, known := x.Address(c); known {
		return p, nil
	}
	if c.dev != tc.ctx.dev {
		if err := c.supportsTimelines(); err != nil {
			return 0, err
		}
	}
	p, res := x.Map(c, c.drv.table(), driver.At{Context: c.raw, Thread: sc.at.Thread, Relaxed: true})
	if res != driver.ResultSuccess {
		return 0, c.callError("cuMemHostGetDevicePointer", uintptr(x.Raw()), res)
	}
	return p, nil
}
