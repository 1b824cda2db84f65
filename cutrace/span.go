package cutrace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
)

// intervals is the GPU's part of a trace: intervals that are under way and that are measured. The
// lock is held for moments, and never while package cu is called.
type intervals struct {
	maxKept, maxPending int

	mu      sync.Mutex
	closed  bool // no span begins any more
	ended   bool // no span is measured any more
	pending []*span
	kept    []*span
	free    []*timer // of spans that are over
	dropped uint64
	err     error // the first reason for dropping an interval
}

// span is an interval of the GPU.
type span struct {
	name       string
	lane       *lane
	begin, end uint64 // sequence numbers; 0 of an interval of the program's own events
	timer      *timer // until it is measured
	anchor     *anchor
	start, dur time.Duration // the start since the origin
}

// timer is the two events of a span.
type timer struct{ start, stop *cu.Event }

// setClosed sets whether the recorder is closed for new spans, and returns the previous value.
func (s *intervals) setClosed(closed bool) (before bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.closed = s.closed, closed
	return before
}

// end prevents spans from being measured.
func (s *intervals) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
}

// room reports whether another interval can be kept. The caller holds the lock.
func (s *intervals) room() bool { return len(s.kept)+len(s.pending) < s.maxKept }

// admit reports whether a span may begin. It returns the events of a span that is over, or nil if
// there are none.
func (s *intervals) admit() (t *timer, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.pending) >= s.maxPending || !s.room() {
		return nil, false
	}
	if n := len(s.free); n > 0 {
		t, s.free = s.free[n-1], s.free[:n-1]
	}
	return t, true
}

// state reports whether the recorder is closed, and whether another interval can be kept.
func (s *intervals) state() (closed, room bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed, s.room()
}

// add adds a span that is to be measured. It returns false if the recorder has ended.
func (s *intervals) add(sp *span) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.pending = append(s.pending, sp)
	}
	return !s.ended
}

// oldest returns the oldest span that is not measured, or nil, and the number of such spans. Only
// the holder of the recorder's token removes the span.
func (s *intervals) oldest() (sp *span, pending int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) > 0 {
		sp = s.pending[0]
	}
	return sp, len(s.pending)
}

// removeOldest removes the oldest span. The span was measured if err is nil, and is dropped
// otherwise.
func (s *intervals) removeOldest(start, dur time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.pending[0]
	s.pending[0] = nil
	s.pending = s.pending[1:]
	sp.start, sp.dur = start, dur
	if err == nil {
		s.kept = append(s.kept, sp)
	}
}

// recycle takes the events of a span. It returns the anchor that the span was measured from, and
// whether the recorder has ended.
func (s *intervals) recycle(sp *span) (a *anchor, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, sp.timer)
	a = sp.anchor
	sp.timer, sp.anchor = nil, nil
	return a, s.ended
}

// takeTimers drops all spans that are under way, and returns all events.
func (s *intervals) takeTimers() []*timer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.pending {
		s.dropped++
		s.free = append(s.free, sp.timer)
	}
	all := s.free
	s.pending, s.free = nil, nil
	return all
}

// drop counts an interval that is not measured. err is the reason, or nil.
func (s *intervals) drop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped++
	if s.err == nil {
		s.err = err
	}
}

// count adds the GPU's part to the statistics.
func (s *intervals) count(st *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Spans, st.Pending, st.DroppedSpans, st.Err = len(s.kept), len(s.pending), s.dropped, s.err
}

// all returns copies of the spans that are measured.
func (s *intervals) all() []span {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]span, len(s.kept))
	for i, sp := range s.kept {
		list[i] = *sp
	}
	return list
}

// Span calls work, which enqueues work on the stream, and shows in the trace when the GPU did that
// work. It records a timed event before and one after. It does not wait for the GPU. It returns the
// error of work; if work fails there is no interval. Spans of one stream may be nested.
//
// If the interval cannot be measured, Span still calls work. [Stats] counts the dropped interval
// and has the reason. Intervals are dropped for streams of other contexts, while the stream is
// being captured, when too many intervals are kept or under way, and when the Recorder is closed.
func (r *Recorder) Span(s *cu.Stream, name string, work func() error) error {
	if work == nil {
		return fmt.Errorf("cutrace.Span: %w: the function is nil: pass one that enqueues the work", cu.ErrNil)
	}
	if r == nil {
		return work()
	}
	sp, err := r.begin(s, name)
	if err != nil || sp == nil {
		r.spans.drop(err)
		return work()
	}
	added := false
	defer func() {
		if !added { // work has failed, or panics, or the recorder has ended
			r.recycle(sp)
		}
	}()
	if err := work(); err != nil {
		return err
	}
	if err := sp.timer.stop.Record(s); err != nil {
		r.spans.drop(err)
		return nil
	}
	sp.end = r.host.next()
	if added = r.spans.add(sp); !added {
		r.spans.drop(nil)
	}
	return nil
}

// errCaptured is why a span in a capture is dropped.
var errCaptured = errors.New("the stream is being captured, and the GPU does nothing yet: put the span around the " +
	"launch of the graph")

// begin begins a span. It returns nil if the recorder keeps no more spans.
func (r *Recorder) begin(s *cu.Stream, name string) (*span, error) {
	switch info, err := graph.CaptureInfoOf(s); {
	case errors.Is(err, errors.ErrUnsupported): // before CUDA 11.3
	case err != nil:
		return nil, err
	case info.Status != graph.CaptureNone:
		return nil, errCaptured
	}
	r.tidy()
	l := r.host.lane(s.Handle())
	if l == nil {
		return nil, nil
	}
	t, ok := r.spans.admit()
	if !ok {
		return nil, nil
	}
	if t == nil {
		var err error
		if t, err = r.newTimer(); err != nil {
			return nil, err
		}
	}
	sp := &span{name: name, lane: l, timer: t, anchor: r.clock.use()}
	if err := t.start.Record(s); err != nil {
		r.recycle(sp)
		return nil, err
	}
	sp.begin = r.host.next()
	return sp, nil
}

func (r *Recorder) newTimer() (*timer, error) {
	start, err := r.newEvent()
	if err != nil {
		return nil, err
	}
	stop, err := r.newEvent()
	if err != nil {
		return nil, errors.Join(err, start.Close())
	}
	return &timer{start, stop}, nil
}

// recycle takes the events of a span that was measured or dropped.
func (r *Recorder) recycle(sp *span) {
	a, ended := r.spans.recycle(sp)
	r.clock.release(a)
	if ended {
		_ = r.abandon()
	}
}

// abandon closes the events of a recorder that has ended, and drops the spans that are still under
// way.
func (r *Recorder) abandon() (err error) {
	for _, t := range r.spans.takeTimers() {
		err = errors.Join(err, t.start.Close(), t.stop.Close())
	}
	return err
}

// tidy measures the oldest spans that are over, and records a new anchor if the current one is old.
// It does nothing while another goroutine measures. It does not wait for the GPU.
func (r *Recorder) tidy() {
	select {
	case r.working <- struct{}{}:
	default:
		return
	}
	defer func() { <-r.working }()
	for range 4 {
		if sp, _ := r.spans.oldest(); sp == nil || !r.measure(sp) {
			break
		}
	}
	r.refresh()
}

// measure measures the oldest span, and returns false if the GPU has not reached its end. The
// caller holds the token. It asks for times only, because queries of events would invalidate
// captures.
func (r *Recorder) measure(sp *span) bool {
	start, dur, err := times(sp.anchor, sp.timer.start, sp.timer.stop)
	if errors.Is(err, errPending) {
		return false
	}
	r.settle(sp, start, dur, err)
	return true
}

// settle ends the oldest span. The span was measured if err is nil, and is dropped otherwise.
func (r *Recorder) settle(sp *span, start, dur time.Duration, err error) {
	r.spans.removeOldest(start, dur, err)
	r.recycle(sp)
	if err != nil {
		r.spans.drop(err)
	}
	for _, a := range r.clock.takeUnused() {
		_ = a.event.Close() // the next call returns an error of the context, too
	}
}

// Interval shows in the trace what the GPU did on the stream between two timed events of the
// program. Both events have been recorded on that stream. Interval waits until they are complete,
// or ctx ends. The program must not record the events again meanwhile. The length of the interval
// is exactly the result of [cu.Event.Since].
func (r *Recorder) Interval(ctx context.Context, s *cu.Stream, name string, start, stop *cu.Event) error {
	const op = "cutrace.Interval"
	if r == nil {
		return nil
	}
	if _, err := cu.Elapsed(ctx, start, stop); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	h := s.Handle()
	if h == 0 {
		return fmt.Errorf("%s: %w: the stream is nil or closed: pass the one that the events were recorded on", op,
			cu.ErrNil)
	}
	if err := r.take(ctx); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	defer func() { <-r.working }()
	sp := &span{name: name, lane: r.host.lane(h)}
	switch closed, room := r.spans.state(); {
	case closed:
		return fmt.Errorf("%s: %w: the recorder is closed: start another one", op, cu.ErrClosed)
	case !room || sp.lane == nil:
		r.spans.drop(nil)
		return nil
	}
	a := r.clock.current
	if err := a.wait(ctx); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	var err error
	if sp.start, sp.dur, err = times(a, start, stop); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	r.spans.mu.Lock()
	defer r.spans.mu.Unlock()
	r.spans.kept = append(r.spans.kept, sp)
	return nil
}
