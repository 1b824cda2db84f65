package cutrace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/purecu/purecu/cu"
)

// Options are limits of a [Recorder]: what is beyond them is dropped, and counted. The
// zero Options is good.
type Options struct {
	// MaxCalls is how many calls of the host are kept; 0 is 65536. One takes about 64
	// bytes.
	MaxCalls int
	// MaxSpans is how many intervals of the GPU, and how many arrows, are kept; 0 is
	// 65536. One takes about 128 bytes.
	MaxSpans int
	// MaxPending is how many intervals may be under way at a time; 0 is 1024. Each has two
	// events.
	MaxPending int
}

// Stats is what a [Recorder] has.
type Stats struct {
	// Calls and Spans are what WriteTo would write. Arrows are the waits for a record of
	// another stream: WriteTo writes those that have an interval at both ends. Pending are
	// the intervals of which the GPU has not come to the end.
	Calls, Spans, Arrows, Pending int
	// DroppedCalls, DroppedSpans and DroppedArrows count what could not be kept, or, of
	// intervals, measured.
	DroppedCalls, DroppedSpans, DroppedArrows uint64
	// Uncertainty is by how much the intervals of the GPU may all lie too early or too
	// late in comparison with the calls of the host.
	Uncertainty time.Duration
	// Drift is by how much the GPU's clock was ahead of the host's in the end, in
	// comparison with the beginning. It is measured by Close, as well as Uncertainty is.
	Drift time.Duration
	// Err is the first error that kept an interval from being measured, nil if there was
	// none.
	Err error
}

// Recorder collects the calls that package cu makes of a driver, and intervals of work on
// the GPU, and writes them as one trace. Both are on the host's monotonic clock: where the
// GPU's is in comparison was found out in the beginning, see [Stats]. It starts no
// goroutine, and is safe for concurrent use.
//
// A nil Recorder records nothing and is ready to use, so that spans may stay in programs
// that are not traced.
type Recorder struct {
	drv    *cu.Driver
	gpu    *cu.Context
	opts   Options
	device string
	remove func()

	// working holds a token while somebody measures, which calls package cu; it is
	// taken before mu, and never with it held.
	working chan struct{}
	stream  *cu.Stream // for what measures the clocks

	objects objects

	// mu is held for moments, and never while package cu is called, which calls back.
	mu      sync.Mutex
	closed  bool      // no span begins any more
	ended   bool      // nor is one measured
	origin  time.Time // the trace's zero
	latest  time.Time // when the newest call began
	own     map[uintptr]ownCall
	dying   map[uintptr]bool // own events from before the destruction until it is told of
	calls   []call
	streams map[uintptr]*lane
	records map[uintptr]mark // of events, their newest record
	seq     uint64           // counts records, waits, and ends of spans, in their order
	anchor  *anchor
	anchors []*anchor // that are in use, the oldest first
	free    []*timer
	pending []*span
	spans   []*span
	arrows  []arrow
	stats   Stats
}

// ownCall is the newest record of one of the recorder's own events, and its first query that
// has found it complete.
type ownCall struct{ begun, done time.Time }

// call is a call of the host.
type call struct {
	op            cu.TraceOp
	event, stream uint64 // numbers
	eventH, strmH uintptr
	start, took   time.Duration // the start since the origin
	result        cu.Result
}

// lane is a stream.
type lane struct {
	id   uint64
	name string
}

// mark is a place in a stream's work.
type mark struct {
	lane *lane
	seq  uint64
}

// arrow leads from a record to a wait for it on another stream.
type arrow struct{ from, to mark }

// span is an interval of the GPU.
type span struct {
	name       string
	lane       *lane
	begin, end uint64 // by seq; 0 of intervals that were measured elsewhere
	timer      *timer // nil when it is measured
	anchor     *anchor
	start, dur time.Duration // the start since the origin
}

// timer is two events.
type timer struct{ start, stop *cu.Event }

// anchor is a record whose time is known on both clocks. There is a new one every now and
// then, as the driver tells short times more exactly than long ones.
type anchor struct {
	event *cu.Event
	host  time.Time
	known bool
	at    time.Duration // since the origin, when it is known
	after *anchor       // that it is measured by
	users int           // spans that are measured by it
}

const (
	// calibrations is how often the clocks are compared.
	calibrations = 16
	// anchorEvery is how old an anchor gets. The driver's float32 resolves half a
	// microsecond for four seconds.
	anchorEvery = 2 * time.Second
)

// Start begins to record, until Close: all calls of the context's driver for events and streams, and
// intervals on the context's streams. It creates a stream, and waits until the clocks were
// compared: an event is recorded on the idle stream, and the host looks at its clock before
// and after, several times; the shortest one counts. The GPU should have little to do
// meanwhile.
func Start(ctx context.Context, gpu *cu.Context, opts Options) (*Recorder, error) {
	const op = "cutrace.Start"
	dev := gpu.Device()
	switch {
	case ctx == nil:
		return nil, fmt.Errorf("%s: %w: the context.Context is nil: pass context.Background()", op, cu.ErrNil)
	case dev == nil:
		return nil, fmt.Errorf("%s: %w: the context is nil: check the error of PrimaryContext", op, cu.ErrNil)
	case opts.MaxCalls < 0 || opts.MaxSpans < 0 || opts.MaxPending < 0:
		return nil, fmt.Errorf("%s: a limit is negative: 0 stands for the default", op)
	}
	limit := func(n *int, usual int) {
		if *n == 0 {
			*n = usual
		}
	}
	limit(&opts.MaxCalls, 1<<16)
	limit(&opts.MaxSpans, 1<<16)
	limit(&opts.MaxPending, 1024)
	r := &Recorder{drv: dev.Driver(), gpu: gpu, opts: opts, device: dev.String(), working: make(chan struct{}, 1),
		own: make(map[uintptr]ownCall), dying: make(map[uintptr]bool),
		streams: make(map[uintptr]*lane), records: make(map[uintptr]mark)}
	stream, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	r.stream = stream
	removeBefore := r.drv.AddTracer(r.before)
	removeCalls := r.drv.AddCallTracer(r.after)
	r.remove = func() { removeCalls(); removeBefore() }
	a, window, err := r.calibrate(ctx)
	if err != nil {
		r.remove()
		return nil, errors.Join(fmt.Errorf("%s: the clocks could not be compared: %w", op, err), r.stream.Close())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.origin = a.host // the anchor's time is 0
	r.anchor, r.anchors = a, []*anchor{a}
	r.stats.Uncertainty = (window + 1) / 2
	// What others called meanwhile comes before the trace.
	r.calls, r.stats.DroppedCalls = nil, 0
	r.arrows, r.stats.DroppedArrows = nil, 0
	return r, nil
}

// event returns an event of the recorder's own, whose calls are not part of the trace.
func (r *Recorder) event() (*cu.Event, error) {
	e, err := r.gpu.NewEvent(cu.EventDefault)
	if err != nil {
		return nil, err
	}
	h := e.Handle()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own[h] = ownCall{}
	for i := len(r.calls) - 1; i >= 0; i-- { // its creation was taken for somebody else's
		if c := r.calls[i]; c.op == cu.TraceEventCreate && c.eventH == h {
			r.calls = append(r.calls[:i], r.calls[i+1:]...)
			return e, nil
		}
	}
	if r.stats.DroppedCalls > 0 {
		r.stats.DroppedCalls--
	}
	return e, nil
}

// drop closes an event of event's.
func (r *Recorder) drop(e *cu.Event) error {
	return e.Close() // which before is told of while the handle is still ours
}

// calibrate returns an anchor whose time on the host's clock is known, and the window that
// it is the middle of.
func (r *Recorder) calibrate(ctx context.Context) (best *anchor, window time.Duration, err error) {
	for range calibrations {
		a, w, err := r.compare(ctx)
		if err != nil {
			if best != nil {
				err = errors.Join(err, r.drop(best.event))
			}
			return nil, 0, err
		}
		if best == nil || w < window {
			a, best, window = best, a, w
		}
		if a != nil {
			if err := r.drop(a.event); err != nil {
				return nil, 0, errors.Join(err, r.drop(best.event))
			}
		}
	}
	return best, window, nil
}

// compare is calibrate with one record.
func (r *Recorder) compare(ctx context.Context) (*anchor, time.Duration, error) {
	e, err := r.event()
	if err != nil {
		return nil, 0, err
	}
	h := e.Handle()
	if err = e.Record(r.stream); err == nil {
		err = e.Wait(ctx)
	}
	if err != nil {
		return nil, 0, errors.Join(err, r.drop(e))
	}
	r.mu.Lock()
	c := r.own[h]
	r.mu.Unlock()
	w := c.done.Sub(c.begun)
	return &anchor{event: e, host: c.begun.Add(w / 2), known: true}, w, nil
}

// before is told of destructions before they are made.
func (r *Recorder) before(t cu.Trace) {
	r.objects.before(t)
	switch t.Op {
	case cu.TraceEventDestroy:
		r.mu.Lock()
		delete(r.records, t.Event)
		if _, ok := r.own[t.Event]; ok { // another one may get the handle
			delete(r.own, t.Event)
			r.dying[t.Event] = true
		}
		r.mu.Unlock()
	case cu.TraceStreamDestroy:
		r.mu.Lock()
		delete(r.streams, t.Stream) // another one may get the handle
		r.mu.Unlock()
	}
}

// after is told of calls that have returned.
func (r *Recorder) after(c cu.TraceCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Start.After(r.latest) {
		r.latest = c.Start
	}
	if c.Op == cu.TraceEventDestroy && r.dying[c.Event] {
		delete(r.dying, c.Event)
		r.objects.of(c.Trace)
		return
	}
	if own, ok := r.own[c.Event]; ok {
		switch {
		case c.Op == cu.TraceEventRecord:
			own = ownCall{begun: c.Start}
		case c.Op == cu.TraceEventQuery && c.Result == cu.ResultSuccess && own.done.IsZero():
			own.done = c.Start.Add(c.Duration)
		}
		r.own[c.Event] = own
		return
	}
	event, stream := r.objects.of(c.Trace)
	if c.Result == cu.ResultSuccess {
		r.follow(c.Trace, stream)
	}
	if len(r.calls) >= r.opts.MaxCalls {
		r.stats.DroppedCalls++
		return
	}
	r.calls = append(r.calls, call{c.Op, event, stream, c.Event, c.Stream, c.Start.Sub(r.origin), c.Duration, c.Result})
}

// follow keeps account of what waits for what.
func (r *Recorder) follow(t cu.Trace, stream uint64) {
	switch t.Op {
	case cu.TraceEventCreate: // whoever had the handle before is gone, and was somebody else's
		delete(r.records, t.Event)
	case cu.TraceStreamCreate:
		delete(r.streams, t.Stream)
	case cu.TraceEventRecord:
		if _, known := r.records[t.Event]; known || len(r.records) < maxObjects {
			r.seq++
			r.records[t.Event] = mark{r.lane(t.Stream, stream), r.seq}
		}
	case cu.TraceStreamWait:
		from, ok := r.records[t.Event]
		to := r.lane(t.Stream, stream)
		if !ok || from.lane == to {
			return
		}
		if len(r.arrows) >= r.opts.MaxSpans {
			r.stats.DroppedArrows++
			return
		}
		r.seq++
		r.arrows = append(r.arrows, arrow{from, mark{to, r.seq}})
	}
}

// lane returns the lane of a stream, nil if there are too many.
func (r *Recorder) lane(h uintptr, id uint64) *lane {
	l := r.streams[h]
	if l == nil && len(r.streams) < maxObjects {
		l = &lane{id: id, name: fmt.Sprintf("stream %d", id)}
		switch h { // CUDA's own numbers
		case 1:
			l.name = "legacy default stream"
		case 2:
			l.name = "per-thread default streams"
		}
		r.streams[h] = l
	}
	return l
}

// Name gives a stream's lane a name, instead of its number. Streams of one name are told
// apart by their order.
func (r *Recorder) Name(s *cu.Stream, name string) {
	if r == nil {
		return
	}
	if h := s.Handle(); h != 0 {
		_, id := r.objects.of(cu.Trace{Stream: h})
		r.mu.Lock()
		defer r.mu.Unlock()
		if l := r.lane(h, id); l != nil {
			l.name = name
		}
	}
}

// Span calls work, which enqueues work on the stream, and shows in the trace when the GPU
// did it: from a timed event that is recorded before to one that is recorded after. It does
// not wait for the GPU. It returns what work returns; where the interval cannot be
// measured, the work is done all the same, and [Stats] says that an interval was dropped,
// and why. That is so of streams of other contexts, while the stream is being captured,
// when too many intervals are kept or under way, and of a Recorder that is closed. If
// work fails there is no interval.
//
// Spans of one stream may be nested.
func (r *Recorder) Span(s *cu.Stream, name string, work func() error) error {
	if work == nil {
		return fmt.Errorf("cutrace.Span: %w: the function is nil: pass one that enqueues the work", cu.ErrNil)
	}
	if r == nil {
		return work()
	}
	sp, err := r.begin(s, name)
	if err != nil || sp == nil {
		r.dropped(err)
		return work()
	}
	finished := false
	defer func() {
		if !finished { // work has failed, or panics, or the recorder has ended
			r.recycle(sp)
		}
	}()
	if err := work(); err != nil {
		return err
	}
	if err := sp.timer.stop.Record(s); err != nil {
		r.dropped(err)
		return nil
	}
	r.mu.Lock()
	r.seq++
	sp.end = r.seq
	if !r.ended { // else nobody would measure it: Close was faster
		r.pending = append(r.pending, sp)
		finished = true
	}
	r.mu.Unlock()
	if !finished {
		r.dropped(nil)
	}
	return nil
}

// dropped counts an interval that is not measured.
func (r *Recorder) dropped(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.DroppedSpans++
	if r.stats.Err == nil {
		r.stats.Err = err
	}
}

// errCaptured is why a span in a capture is dropped.
var errCaptured = errors.New("the stream is being captured, and the GPU does nothing yet: put the span around the launch of the graph")

// begin begins a span. It returns nil if none can be kept.
func (r *Recorder) begin(s *cu.Stream, name string) (*span, error) {
	switch info, err := s.CaptureInfo(); {
	case errors.Is(err, errors.ErrUnsupported): // before CUDA 11.3
	case err != nil:
		return nil, err
	case info.Status != cu.CaptureNone:
		return nil, errCaptured
	}
	r.tidy()
	h := s.Handle()
	_, id := r.objects.of(cu.Trace{Stream: h})
	r.mu.Lock()
	l := r.lane(h, id)
	if r.closed || l == nil || len(r.pending) >= r.opts.MaxPending || len(r.spans)+len(r.pending) >= r.opts.MaxSpans {
		r.mu.Unlock()
		return nil, nil
	}
	sp := &span{name: name, lane: l, anchor: r.anchor}
	sp.anchor.users++
	if n := len(r.free); n > 0 {
		sp.timer, r.free = r.free[n-1], r.free[:n-1]
	}
	r.mu.Unlock()
	if sp.timer == nil {
		var err error
		if sp.timer, err = r.newTimer(); err != nil {
			r.mu.Lock()
			sp.anchor.users--
			r.mu.Unlock()
			return nil, err
		}
	}
	if err := sp.timer.start.Record(s); err != nil {
		r.recycle(sp)
		return nil, err
	}
	r.mu.Lock()
	r.seq++
	sp.begin = r.seq
	r.mu.Unlock()
	return sp, nil
}

func (r *Recorder) newTimer() (*timer, error) {
	start, err := r.event()
	if err != nil {
		return nil, err
	}
	stop, err := r.event()
	if err != nil {
		return nil, errors.Join(err, r.drop(start))
	}
	return &timer{start, stop}, nil
}

// recycle takes the events of a span back that is measured, or is not going to be.
func (r *Recorder) recycle(sp *span) {
	r.mu.Lock()
	r.free = append(r.free, sp.timer)
	sp.anchor.users--
	sp.timer, sp.anchor = nil, nil
	ended := r.ended
	r.mu.Unlock()
	if ended {
		_ = r.abandon()
	}
}

// tidy measures the oldest spans that are over, unless somebody is measuring, and sets an
// anchor if it is time. It does not wait for the GPU.
func (r *Recorder) tidy() {
	select {
	case r.working <- struct{}{}:
	default:
		return
	}
	defer func() { <-r.working }()
	for range 4 {
		sp := r.oldest()
		if sp == nil {
			break
		}
		if !r.measure(sp) {
			break
		}
	}
	r.mu.Lock()
	last, old := r.anchor, !r.closed && r.latest.Sub(r.anchor.host) > anchorEvery
	r.mu.Unlock()
	if !old {
		return
	}
	e, err := r.event()
	if err != nil {
		return // the last one is as good, only less exact
	}
	if err := e.Record(r.stream); err != nil {
		_ = r.drop(e)
		return
	}
	h := e.Handle()
	r.mu.Lock()
	r.anchor = &anchor{event: e, host: r.own[h].begun, after: last}
	r.anchors = append(r.anchors, r.anchor)
	r.mu.Unlock()
}

// oldest returns the oldest span that is not measured.
func (r *Recorder) oldest() *span {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) == 0 {
		return nil
	}
	return r.pending[0]
}

// measure measures the oldest span, unless it is pending. The caller holds the token. It
// asks for times only: queries of events would spoil captures.
func (r *Recorder) measure(sp *span) bool {
	start, dur, err := times(sp.anchor, sp.timer.start, sp.timer.stop)
	if errors.Is(err, errPending) {
		return false
	}
	r.settle(sp, start, dur, err)
	return true
}

// settle ends the oldest span, which was measured, or cannot be for a reason.
func (r *Recorder) settle(sp *span, start, dur time.Duration, err error) {
	r.mu.Lock()
	r.pending[0] = nil
	r.pending = r.pending[1:]
	sp.start, sp.dur = start, dur
	if err == nil {
		r.spans = append(r.spans, sp)
	}
	r.mu.Unlock()
	r.recycle(sp)
	r.mu.Lock()
	var idle []*anchor
	for len(r.anchors) > 1 && r.anchors[0].users == 0 && r.anchors[1].known {
		idle = append(idle, r.anchors[0])
		r.anchors = r.anchors[1:]
	}
	r.mu.Unlock()
	if err != nil {
		r.dropped(err)
	}
	for _, a := range idle {
		_ = r.drop(a.event) // an error is the context's, and comes again
	}
}

// errPending says that an event is not complete.
var errPending = errors.New("an event of the interval is still pending")

// since returns the time between two records.
func since(start, stop *cu.Event) (time.Duration, error) {
	d, st, err := stop.Since(start)
	if err == nil && st != cu.Complete {
		err = errPending
	}
	return d, err
}

// times returns when two records were, since the origin, and the time between them. The
// error matches errPending if the GPU has not come to one of them, or to the anchor.
func times(a *anchor, start, stop *cu.Event) (at, dur time.Duration, err error) {
	if err := a.find(); err != nil {
		return 0, 0, err
	}
	first, err := since(a.event, start)
	if err == nil {
		dur, err = since(start, stop)
	}
	switch {
	case err != nil:
		return 0, 0, err
	case dur < 0:
		return 0, 0, fmt.Errorf("the interval is of %v: record the start before the stop", dur)
	}
	return max(a.at+first, 0), dur, nil
}

// find finds out when an anchor was, by the one before.
func (a *anchor) find() error {
	if a.known {
		return nil
	}
	if err := a.after.find(); err != nil {
		return err
	}
	d, err := since(a.after.event, a.event)
	if err != nil {
		return err
	}
	a.at, a.known, a.after = a.after.at+d, true, nil
	return nil
}

// wait waits until the GPU has come to an anchor and those before.
func (a *anchor) wait(ctx context.Context) error {
	if a.known {
		return nil
	}
	if err := a.after.wait(ctx); err != nil {
		return err
	}
	return a.event.Wait(ctx)
}

// Interval shows in the trace what the GPU did on the stream between two timed events of
// the program's own, both of which have been recorded there. It waits until they are complete, or ctx ends.
// The events must not be recorded again meanwhile. The interval is exactly what
// [cu.Event.Since] says.
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
		return fmt.Errorf("%s: %w: the stream is nil or closed: pass the one that the events were recorded on", op, cu.ErrNil)
	}
	if err := r.take(ctx); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	defer func() { <-r.working }()
	_, id := r.objects.of(cu.Trace{Stream: h})
	r.mu.Lock()
	sp, a, closed := &span{name: name, lane: r.lane(h, id)}, r.anchor, r.closed
	full := len(r.spans)+len(r.pending) >= r.opts.MaxSpans || sp.lane == nil
	r.mu.Unlock()
	switch {
	case closed:
		return errClosed(op)
	case full:
		r.dropped(nil)
		return nil
	}
	if err := a.wait(ctx); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	var err error
	if sp.start, sp.dur, err = times(a, start, stop); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = append(r.spans, sp)
	return nil
}

func errClosed(op string) error {
	return fmt.Errorf("%s: %w: the recorder is closed: start another one", op, cu.ErrClosed)
}

// take takes the token.
func (r *Recorder) take(ctx context.Context) error {
	select {
	case r.working <- struct{}{}:
		return nil
	default: // also if ctx has ended
	}
	select {
	case r.working <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Flush waits until the GPU has come to the end of all intervals that are under way, or ctx
// ends. It must not be called by tracers, as it may be telling them, nor may Interval and
// Close: they would wait for themselves until ctx ends.
func (r *Recorder) Flush(ctx context.Context) error {
	const op = "cutrace.Flush"
	if r == nil {
		return nil
	}
	if ctx == nil {
		return fmt.Errorf("%s: %w: the context.Context is nil: pass context.Background()", op, cu.ErrNil)
	}
	if err := r.take(ctx); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	defer func() { <-r.working }()
	return r.flush(ctx, op)
}

// flush is Flush with the token.
func (r *Recorder) flush(ctx context.Context, op string) error {
	r.mu.Lock()
	n := len(r.pending)
	r.mu.Unlock()
	for ; n > 0; n-- {
		sp := r.oldest()
		err := sp.anchor.wait(ctx)
		if err == nil {
			err = sp.timer.stop.Wait(ctx)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("%s: %d intervals are still under way: %w", op, n, err)
		case !r.measure(sp):
			r.settle(sp, 0, 0, errors.Join(err, errPending)) // nobody can wait for it
		}
	}
	return nil
}

// Close ends the recording: it waits until the GPU has come to the end of all intervals
// that are under way, compares the clocks again, and gives back what the recorder has of the
// driver. If ctx ends before, what is under way is dropped, and the error says how much.
// WriteTo and Stats go on working. Further calls return nil.
func (r *Recorder) Close(ctx context.Context) error {
	const op = "cutrace.Close"
	if r == nil {
		return nil
	}
	if ctx == nil {
		return fmt.Errorf("%s: %w: the context.Context is nil: pass context.Background()", op, cu.ErrNil)
	}
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.mu.Unlock()
	if !first {
		return nil
	}
	if err := r.take(ctx); err != nil {
		r.mu.Lock()
		r.closed = false
		r.mu.Unlock()
		return fmt.Errorf("%s: somebody else is waiting for intervals; call Close again: %w", op, err)
	}
	err := r.flush(ctx, op)
	if err == nil {
		r.drift(ctx)
	}
	r.remove()
	r.mu.Lock()
	r.ended = true
	anchors := r.anchors
	r.anchors = nil
	r.mu.Unlock()
	for _, a := range anchors {
		err = errors.Join(err, r.drop(a.event))
	}
	err = errors.Join(err, r.abandon(), r.stream.Close())
	<-r.working
	return err
}

// drift finds out how far the clocks have moved apart. Where it cannot it leaves it at 0.
func (r *Recorder) drift(ctx context.Context) {
	a, _, err := r.calibrate(ctx)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.anchors = append(r.anchors, a) // it is closed with them
	last := r.anchor
	r.mu.Unlock()
	if last.wait(ctx) != nil || last.find() != nil {
		return
	}
	if d, err := since(last.event, a.event); err == nil {
		r.mu.Lock()
		r.stats.Drift = last.at + d - a.host.Sub(r.origin)
		r.mu.Unlock()
	}
}

// abandon gives back the events of a recorder that has ended, and drops what is still under
// way.
func (r *Recorder) abandon() (err error) {
	r.mu.Lock()
	for _, sp := range r.pending {
		r.stats.DroppedSpans++
		r.free = append(r.free, sp.timer)
	}
	free := r.free
	r.pending, r.free = nil, nil
	r.mu.Unlock()
	for _, t := range free {
		err = errors.Join(err, r.drop(t.start), r.drop(t.stop))
	}
	return err
}

// Stats returns what the recorder has. That of a nil Recorder is zero.
func (r *Recorder) Stats() Stats {
	if r == nil {
		return Stats{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.stats
	st.Calls, st.Spans, st.Pending, st.Arrows = len(r.calls), len(r.spans), len(r.pending), len(r.arrows)
	return st
}

// Origin returns the time of the trace's zero, by the driver's clock.
func (r *Recorder) Origin() time.Time {
	if r == nil {
		return time.Time{}
	}
	return r.origin
}
