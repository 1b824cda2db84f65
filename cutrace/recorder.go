package cutrace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/trace"
)

// Options limits what a [Recorder] keeps. It drops and counts what exceeds a limit. The zero
// Options stands for the defaults.
type Options struct {
	// MaxCalls is how many calls of the host are kept; 0 means 65536. A call takes about 64 bytes.
	MaxCalls int
	// MaxSpans is how many intervals of the GPU are kept, and how many arrows; 0 means 65536. An
	// interval takes about 128 bytes.
	MaxSpans int
	// MaxPending is how many intervals may be under way at a time; 0 means 1024. Each of them has
	// two events.
	MaxPending int
}

// check returns an error for negative limits, and otherwise replaces 0 by the defaults.
func (o *Options) check(op string) error {
	for _, limit := range []struct {
		n     *int
		usual int
	}{{&o.MaxCalls, 1 << 16}, {&o.MaxSpans, 1 << 16}, {&o.MaxPending, 1024}} {
		switch {
		case *limit.n < 0:
			return fmt.Errorf("%s: a limit is negative: 0 stands for the default", op)
		case *limit.n == 0:
			*limit.n = limit.usual
		}
	}
	return nil
}

// Stats counts what a [Recorder] has kept and dropped, and says how exact its times are.
type Stats struct {
	// Calls and Spans are what WriteTo would write. Arrows are the waits for a record of another
	// stream; WriteTo writes those that have an interval at both ends. Pending are the intervals
	// whose end the GPU has not reached.
	Calls, Spans, Arrows, Pending int
	// DroppedCalls and DroppedArrows count what could not be kept. DroppedSpans counts the
	// intervals that could not be kept or not be measured.
	DroppedCalls, DroppedSpans, DroppedArrows uint64
	// Uncertainty is by how much all intervals of the GPU may lie too early or too late in
	// comparison with the calls of the host.
	Uncertainty time.Duration
	// Drift is by how much the GPU's clock gained on the host's from Start to Close. Close measures
	// it as exactly as Start measures Uncertainty.
	Drift time.Duration
	// Err is the first error that prevented an interval from being measured, or nil.
	Err error
}

// Recorder collects the calls that package cu makes of a driver, and intervals of work on the GPU,
// and writes both as one trace. All times are on the host's monotonic clock. Start compares it with
// the GPU's clock; [Stats] says how exactly. A Recorder starts no goroutine and is safe for
// concurrent use.
//
// A nil Recorder records nothing and is ready to use. Spans may therefore stay in programs that are
// not traced.
type Recorder struct {
	gpu    *cu.Context
	device string
	origin time.Time // the trace's zero
	remove func()    // removes the tracers

	// working holds a token while a goroutine measures. Measuring calls package cu, which calls the
	// tracers. So the token is taken before any lock, and never while a lock is held.
	working chan struct{}
	stream  *cu.Stream // of the records that measure the clocks

	// Each of these has a lock. No lock is held while another one is taken, or while package cu is
	// called.
	host  hostTrace
	clock gpuClock
	spans intervals
}

// Start returns a Recorder that records until Close. It records all calls of the context's driver
// for events and streams, and intervals on the context's streams.
//
// Start creates a stream and waits until the clocks are compared: it records an event on the idle
// stream and reads the host's clock before and after, several times. The shortest comparison
// counts. It is most exact while the GPU has little to do.
func Start(ctx context.Context, gpu *cu.Context, opts Options) (*Recorder, error) {
	const op = "cutrace.Start"
	dev := gpu.Device()
	switch {
	case ctx == nil:
		return nil, fmt.Errorf("%s: %w: the context.Context is nil: pass context.Background()", op, cu.ErrNil)
	case dev == nil:
		return nil, fmt.Errorf("%s: %w: the context is nil: check the error of PrimaryContext", op, cu.ErrNil)
	}
	if err := opts.check(op); err != nil {
		return nil, err
	}
	stream, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	r := &Recorder{gpu: gpu, device: dev.String(), working: make(chan struct{}, 1), stream: stream}
	r.host.init(opts)
	r.spans.maxKept, r.spans.maxPending = opts.MaxSpans, opts.MaxPending
	removeBefore := trace.Add(dev.Driver(), r.host.before)
	removeCalls := trace.AddCalls(dev.Driver(), r.host.after)
	r.remove = func() { removeCalls(); removeBefore() }
	a, window, err := r.calibrate(ctx)
	if err != nil {
		r.remove()
		return nil, errors.Join(fmt.Errorf("%s: the clocks could not be compared: %w", op, err), r.stream.Close())
	}
	r.origin = a.host // the anchor's time is 0
	r.clock.current, r.clock.anchors, r.clock.uncertainty = a, []*anchor{a}, (window+1)/2
	r.host.start(r.origin)
	return r, nil
}

// newEvent returns an event of the recorder's own, whose calls are not part of the trace.
func (r *Recorder) newEvent() (*cu.Event, error) {
	e, err := r.gpu.NewEvent(cu.EventDefault)
	if err != nil {
		return nil, err
	}
	r.host.disown(e.Handle())
	return e, nil
}

// Name gives a stream's lane a name, instead of its number. The lanes of streams with the same name
// differ by their order.
func (r *Recorder) Name(s *cu.Stream, name string) {
	if r == nil {
		return
	}
	if h := s.Handle(); h != 0 {
		r.host.name(h, name)
	}
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

// Flush waits until the GPU has reached the end of all intervals that are under way, or ctx ends.
//
// Tracers must not call Flush, Interval or Close. These call the tracers while they hold what the
// tracer's own call would wait for, until ctx ends.
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

// flush is Flush for callers that hold the token.
func (r *Recorder) flush(ctx context.Context, op string) error {
	_, n := r.spans.oldest()
	for ; n > 0; n-- {
		sp, _ := r.spans.oldest()
		err := sp.anchor.wait(ctx)
		if err == nil {
			err = sp.timer.stop.Wait(ctx)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("%s: %d intervals are still under way: %w", op, n, err)
		case !r.measure(sp):
			r.settle(sp, 0, 0, errors.Join(err, errPending)) // the span can never be measured
		}
	}
	return nil
}

// Close ends the recording. It waits until the GPU has reached the end of all intervals that are
// under way, compares the clocks again, and destroys the recorder's events and stream. If ctx ends
// before, Close drops what is under way, and the error says how much. WriteTo and Stats still work.
// Further calls return nil.
func (r *Recorder) Close(ctx context.Context) error {
	const op = "cutrace.Close"
	if r == nil {
		return nil
	}
	if ctx == nil {
		return fmt.Errorf("%s: %w: the context.Context is nil: pass context.Background()", op, cu.ErrNil)
	}
	if r.spans.setClosed(true) {
		return nil
	}
	if err := r.take(ctx); err != nil {
		r.spans.setClosed(false)
		return fmt.Errorf("%s: another goroutine is waiting for intervals; call Close again: %w", op, err)
	}
	err := r.flush(ctx, op)
	if err == nil {
		err = r.measureDrift(ctx)
	}
	r.remove()
	r.spans.end()
	for _, a := range r.clock.anchors {
		err = errors.Join(err, a.event.Close())
	}
	err = errors.Join(err, r.abandon(), r.stream.Close())
	<-r.working
	return err
}

// Stats returns what the recorder has kept and dropped. For a nil Recorder it is zero.
func (r *Recorder) Stats() Stats {
	var st Stats
	if r != nil {
		r.host.count(&st)
		r.clock.mu.Lock()
		st.Uncertainty, st.Drift = r.clock.uncertainty, r.clock.drift
		r.clock.mu.Unlock()
		r.spans.count(&st)
	}
	return st
}

// Origin returns the time of the trace's zero, by the driver's clock.
func (r *Recorder) Origin() time.Time {
	if r == nil {
		return time.Time{}
	}
	return r.origin
}
