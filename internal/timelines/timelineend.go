package timelines

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/slab"
)

// mark is the end of a timeline's work on one stream.
type mark struct {
	sc *core.Stream
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
		return m.sc.Done()
	case m.word.Load() != 0:
		return true, nil
	}
	return m.sc.Gone()
}

// wait waits for the work. It may return core.ErrBusy: see core.RetryUntilDone.
func (m *mark) wait() error {
	switch done, err := m.done(); {
	case done || err != nil:
		return err
	case m.word == nil:
		return m.sc.WaitIdle()
	}
	return core.ErrBusy
}

// UsedOn notes that work which uses the counter is about to be enqueued on a stream. If the
// timeline is closed and its work is not done when its context is released, the release waits for
// the work. For that it has to know the work on streams of other contexts and on the legacy stream.
func (tc *Timeline) UsedOn(sc *core.Stream) (noted bool) {
	if (tc.Ctx != sc.Ctx || sc.Raw == driver.CU_STREAM_LEGACY) && !sc.Shared.UsesOthers.Load() {
		sc.Shared.UsesOthers.Store(true)
	}
	return tc.UsedStreams.Note(sc)
}

// UsedOnAll notes that a graph used the counter on the streams on which the graph was launched.
// Marks that were made earlier do not include that work.
func (tc *Timeline) UsedOnAll(graph *core.StreamSet) {
	tc.UsedStreams.NoteAll(graph)
	if !tc.Closed() {
		return // Close marks the streams
	}
	tc.MarksMu.Lock()
	defer tc.MarksMu.Unlock()
	for _, sc := range graph.List() {
		// A graph that is updated repeatedly adds a stream once.
		if !slices.ContainsFunc(tc.Marks, func(m mark) bool { return m.sc == sc && m.unmarked }) {
			tc.Marks = append(tc.Marks, mark{sc: sc, unmarked: true})
		}
	}
}

// Mark marks the end of the work on a stream, unless the work is done.
func (tc *Timeline) Mark(sc *core.Stream) {
	m := mark{sc: sc}
	if done, _ := sc.Done(); !done {
		m.word, m.err = tc.writeMark(sc)
		m.unmarked = m.word == nil
	}
	tc.MarksMu.Lock()
	defer tc.MarksMu.Unlock()
	tc.Marks = append(tc.Marks, m)
}

// errInCapture says that a mark may have become part of a graph, which would write it at each
// launch.
var errInCapture = errors.New("other code began to capture the stream at the same time")

// writeMark enqueues the write of a word on the stream. It returns nil if the stream cannot be
// marked.
func (tc *Timeline) writeMark(sc *core.Stream) (*atomic.Uint64, error) {
	leave, ok := sc.TryEnter()
	if !ok {
		return nil, nil // the stream is gone
	}
	defer leave()
	if sc.At.Thread != nil && !sc.At.Thread.Here() {
		return nil, nil
	}
	x, i, err := tc.takeWord()
	if err != nil {
		return nil, nil
	}
	p, err := tc.Mapped(x, sc)
	if err != nil {
		return nil, nil
	}
	shared, drop := sc.CurrentShared()
	defer drop()
	shared.CaptureLock.RLock() // no capture begins here until the write is enqueued
	defer shared.CaptureLock.RUnlock()
	if !sc.TryEnterGate() {
		return nil, nil // a capture begins or ends
	}
	defer sc.LeaveGate()
	at := sc.At
	at.Relaxed, at.NoWait = true, true
	if sc.UnlessCaptured(at) != nil {
		return nil, nil
	}
	p += driver.DevicePtr(8 * i)
	res := sc.Ctx.Drv.Table().StreamWriteValue64(at, sc.Raw, p, 1, driver.CU_STREAM_WRITE_VALUE_DEFAULT)
	if res != driver.ResultSuccess {
		sc.Ctx.BackgroundError(SignalOp, uintptr(sc.Raw), res) // the error may have poisoned the context
		return nil, nil
	}
	// Other code can begin a capture of a stream whose handle it has. The legacy stream cannot be
	// captured.
	if (sc.Foreign && sc.Raw != driver.CU_STREAM_LEGACY || sc.Exposed.Load()) &&
		errors.Is(sc.UnlessCaptured(at), core.ErrBusy) {
		return nil, errInCapture
	}
	return x.Word(i), nil
}

// takeWord returns a word for a mark: its cell, and its index there.
func (tc *Timeline) takeWord() (slab.Cell, int, error) {
	tc.MarksMu.Lock()
	defer tc.MarksMu.Unlock()
	for {
		i := tc.words + 1 // word 0 is the counter
		n := i / slab.CellWords
		switch {
		case n == 0:
			tc.words++
			return tc.Cell, i, nil
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

// takeMore takes another cell for marks. The caller holds MarksMu, which takeMore unlocks
// meanwhile, because tracers are called.
func (tc *Timeline) takeMore() (slab.Cell, error) {
	tc.MarksMu.Unlock()
	defer tc.MarksMu.Lock()
	return TakeCell(tc.Ctx, driver.At{Context: tc.Ctx.Raw, Relaxed: true})
}

// CloseAbandoned closes an abandoned timeline. A graph may still use it.
func (tc *Timeline) CloseAbandoned() {
	first, last := tc.Close()
	if first {
		tc.Ctx.Cells.CountTimelines(-1, 1)
		tc.Ctx.Drv.NoteAbandoned(0)
		tc.Ctx.Drv.Leak(drivercall.LeakReport{Kind: tc.Kind(), Handle: tc.Handle(), Abandoned: true})
	}
	if last {
		tc.retire()
	}
}

// retire releases the cell after the last call on the timeline: at once, or when the work that uses
// it is done. It does not keep the context, because the release of the context waits for that work.
func (tc *Timeline) retire() {
	c := tc.Ctx
	known := make(map[*core.Stream]bool) // whether the marks of a stream cover all work on it
	for _, m := range tc.Marks {
		before, marked := known[m.sc]
		known[m.sc] = !m.unmarked && (before || !marked)
	}
	left := tc.Marks[:0]
	for _, m := range tc.Marks {
		if m.word != nil || m.err != nil {
			left = append(left, m)
		}
	}
	for _, sc := range tc.UsedStreams.List() {
		if !known[sc] {
			left = append(left, mark{sc: sc})
		}
	}
	tc.Marks = left
	done, err := tc.FreeIfDone()
	if err != nil {
		tc.KeepForever(err)
		return // the timeline stays a user of the context
	}
	if !done {
		for _, m := range tc.Marks {
			if m.sc.Ctx == c {
				m.sc.Shared.UsesOthers.Store(true) // so the release of the context waits for a stream of a pool, too
			}
		}
		c.Cells.AddUnfinished(tc)
	}
	c.EndHold()
}

// FreeIfDone frees the cell if all work is done, and reports whether it is. An error says that the
// end of the work can never be known.
func (tc *Timeline) FreeIfDone() (done bool, err error) {
	for n := len(tc.Marks); n > 0; n = len(tc.Marks) {
		if done, err := tc.Marks[n-1].done(); !done || err != nil {
			return false, err
		}
		tc.Marks = tc.Marks[:n-1]
	}
	tc.Final = tc.Word.Load()
	tc.Freed.Store(true)
	tc.Ctx.Cells.Put(append(tc.more, tc.Cell)...)
	tc.Ctx.Cells.CountTimelines(0, -1)
	return true, nil
}

// WaitAndFree waits for the work, and then frees the cell.
func (tc *Timeline) WaitAndFree() error {
	for i := range tc.Marks {
		if err := core.RetryUntilDone(tc.Ctx.Drv.Table().Clock(), tc.Marks[i].wait); err != nil {
			return err
		}
	}
	tc.Marks = nil
	_, err := tc.FreeIfDone()
	return err
}

// KeepForever reports the timeline as leaked. Its cell is never used again, as the GPU may still write to
// it.
func (tc *Timeline) KeepForever(err error) {
	tc.Ctx.Drv.Leak(drivercall.LeakReport{Kind: tc.Kind(), Handle: tc.Handle(),
		Err: core.KeptError(tc.Kind(), tc.Handle(), err)})
}

// Mapped returns a cell's address for work on a stream.
func (tc *Timeline) Mapped(x slab.Cell, sc *core.Stream) (driver.DevicePtr, error) {
	c := sc.Ctx
	if c == tc.Ctx {
		return x.Raw(), nil
	}
	if p, known := x.Address(c); known {
		return p, nil
	}
	if c.Dev != tc.Ctx.Dev {
		if err := supported(c); err != nil {
			return 0, err
		}
	}
	p, res := x.Map(c, c.Drv.Table(), driver.At{Context: c.Raw, Thread: sc.At.Thread, Relaxed: true})
	if res != driver.ResultSuccess {
		return 0, c.CallError("cuMemHostGetDevicePointer", uintptr(x.Raw()), res)
	}
	return p, nil
}
