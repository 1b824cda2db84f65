package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/clock"
)

// timer measures work on a stream. A kernel holds the stream until all work is enqueued.
type timer struct {
	ctx         context.Context
	rig         *rig
	stream      *cu.Stream
	start, stop *cu.Event
	gate        *cu.Event // recorded after the kernel that holds the stream
	single      holder    // for one interval
	batches     holder    // for a batch of calls

	watch func() (elapsed func() time.Duration) // reads the host's clock
	wait  func() error                          // is called while work is pending
}

// watch returns a function that says how much time has passed since the call, by the host's clock.
func watch() func() time.Duration {
	began := clock.Start()
	return began.Elapsed
}

// holder determines how long the stream is held.
type holder struct {
	hold, most time.Duration
	failures   int // how many samples in a row could not be held
}

// The stream is held for minHold at first. If a sample begins too early, it is repeated with a
// longer time, up to maxHold. A batch of calls, which take a few microseconds each, is held longer.
const (
	minHold  = 100 * time.Microsecond
	maxHold  = time.Millisecond
	minBatch = batch * 10 * time.Microsecond
	maxBatch = 10 * minBatch
	attempts = 3
	longer   = 4
	// maxFailures is after how many samples that cannot be held no longer times are tried.
	// CUDA_LAUNCH_BLOCKING can cause this.
	maxFailures = 3
)

// held calls try with rising times to hold the stream, until try reports that the time was
// sufficient.
func (h *holder) held(try func(hold time.Duration) (held bool, err error)) error {
	hold := h.hold
	for i := 0; ; i++ {
		held, err := try(hold)
		switch {
		case err != nil:
			return err
		case held:
			if h.failures = 0; i > 0 {
				h.hold = min(2*h.hold, h.most)
			}
			return nil
		case i+1 == attempts || h.failures >= maxFailures:
			h.failures++
			return nil
		}
		hold *= longer
	}
}

// newTimer creates a timer, and makes a first launch, which loads the kernel.
func newTimer(ctx context.Context, rig *rig) (*timer, error) {
	t := &timer{
		ctx: ctx, rig: rig, watch: watch, wait: ctx.Err,
		single: holder{hold: minHold, most: maxHold}, batches: holder{hold: minBatch, most: maxBatch},
	}
	var err error
	if t.stream, err = rig.stream(); err != nil {
		return nil, err
	}
	for _, e := range []**cu.Event{&t.start, &t.stop, &t.gate} {
		if *e, err = rig.event(); err != nil {
			return nil, err
		}
	}
	if err := rig.launch(t.stream, 0); err != nil {
		return nil, err
	}
	return t, t.stream.Synchronize()
}

// warm runs kernels for 0.4 s, so that the GPU leaves its power-saving states before a measurement.
func (t *timer) warm() error {
	for range 20 { // short kernels, because displays have watchdogs
		if err := t.rig.launch(t.stream, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return t.drain()
}

// sample is one interval.
type sample struct {
	events, host time.Duration
	// held says that the interval began after all its work was enqueued.
	held bool
}

// time measures the work that the function work enqueues on the timer's stream.
func (t *timer) time(work func() error) (s sample, err error) {
	err = t.single.held(func(hold time.Duration) (bool, error) {
		s, err = t.once(hold, work)
		return s.held, err
	})
	return s, err
}

func (t *timer) once(hold time.Duration, work func() error) (s sample, err error) {
	if err := t.rig.launch(t.stream, hold); err != nil {
		return s, err
	}
	if err := t.start.Record(t.stream); err != nil {
		return s, err
	}
	if err := work(); err != nil {
		return s, err
	}
	if err := t.stop.Record(t.stream); err != nil {
		return s, err
	}
	st, err := t.start.Query()
	if err != nil {
		return s, err
	}
	s.held = st == cu.Pending
	var p polls
	if err := p.await(t.start, t.wait); err != nil {
		return s, err
	}
	elapsed := t.watch()
	if err := p.await(t.stop, t.wait); err != nil {
		return s, err
	}
	s.host = elapsed()
	s.events, err = between(t.start, t.stop)
	return s, err
}

// batch is how many calls are measured together, as reading the clock takes as long as a call.
const batch = 32

// calls returns the host's time for one call, as a part of a batch. The stream is held, so that the
// GPU is idle during the calls. before enqueues work before the batch.
func (t *timer) calls(before, one func() error) (d time.Duration, held bool, err error) {
	err = t.batches.held(func(hold time.Duration) (bool, error) {
		d, held, err = t.batch(hold, before, one)
		return held, err
	})
	return d, held, err
}

func (t *timer) batch(hold time.Duration, before, one func() error) (d time.Duration, held bool, err error) {
	if err := t.rig.launch(t.stream, hold); err != nil {
		return 0, false, err
	}
	// Query an event for the end of the hold, as the stream still has the work of the batch.
	if err := t.gate.Record(t.stream); err != nil {
		return 0, false, err
	}
	if err := before(); err != nil {
		return 0, false, err
	}
	elapsed := t.watch()
	for range batch {
		if err := one(); err != nil {
			return 0, false, err
		}
	}
	d = elapsed() / batch
	st, err := t.gate.Query()
	if err != nil {
		return 0, false, err
	}
	return d, st == cu.Pending, t.drain()
}

// drain waits until the stream's work is done.
func (t *timer) drain() error {
	if err := t.stop.Record(t.stream); err != nil {
		return err
	}
	var p polls
	return p.await(t.stop, t.wait)
}

// launchCalls, recordCalls, queryCalls and sinceCalls return the host's time for one call, as calls does.

func (t *timer) launchCalls() (d time.Duration, held bool, err error) {
	return t.calls(nothing, t.empty)
}

func (t *timer) recordCalls() (d time.Duration, held bool, err error) {
	return t.calls(nothing, t.record)
}

func (t *timer) queryCalls() (d time.Duration, held bool, err error) {
	return t.calls(t.record, func() error { _, err := t.start.Query(); return err })
}

func (t *timer) sinceCalls() (d time.Duration, held bool, err error) {
	if _, err := t.once(0, nothing); err != nil {
		return 0, false, err
	}
	elapsed := t.watch()
	for range batch {
		if _, _, err := t.stop.Since(t.start); err != nil {
			return 0, false, err
		}
	}
	return elapsed() / batch, true, nil
}

// roundTrip returns the time from before the launch of an empty kernel until the host knows that it
// has completed.
func (t *timer) roundTrip() (d time.Duration, held bool, err error) {
	elapsed := t.watch()
	if err := t.empty(); err != nil {
		return 0, false, err
	}
	err = t.drain()
	return elapsed(), true, err
}

// nothing, empty and record are work that is measured.

func nothing() error { return nil }

func (t *timer) empty() error { return t.rig.launch(t.stream, 0) }

func (t *timer) record() error { return t.start.Record(t.stream) }

// transfer is a copy.
type transfer struct{ dst, src buffer }

// buffers contains the memory of copies. After its first error it allocates nothing.
type buffers struct {
	wait   func() error // waits for the work that uses the memory
	opened []buffer
	err    error
}

// alloc allocates n bytes, pinned memory of the host or memory of the timer's device.
func (s *buffers) alloc(t *timer, n uint64, host bool) buffer {
	if s.err != nil {
		return nil
	}
	m, err := t.rig.alloc(t.stream, n, host)
	if s.err = err; err != nil {
		return nil
	}
	s.opened = append(s.opened, m)
	if s.err = t.drain(); s.err != nil { // another stream may use it
		return nil
	}
	return m
}

// pair allocates the memory of a copy of n bytes. The memory of each end is in pinned memory of the
// host, or in the memory of the timer's device.
func (s *buffers) pair(dst *timer, dstHost bool, src *timer, srcHost bool, n uint64) transfer {
	return transfer{s.alloc(dst, n, dstHost), s.alloc(src, n, srcHost)}
}

// close frees the memory. It sets *err to its own errors unless there is an error.
func (s *buffers) close(err *error) {
	errs := []error{s.wait()}
	for _, m := range slices.Backward(s.opened) {
		errs = append(errs, m.Close())
	}
	if *err == nil {
		*err = errors.Join(errs...)
	}
}

// sampling says how many samples are taken for a row of a table.
type sampling struct {
	warmUp, atLeast, atMost int
	budget                  time.Duration               // for one row; 0 if there is none
	watch                   func() func() time.Duration // reads the clock of the budget; nil for the host's
}

// take takes the samples of a row, after a warm-up whose samples are discarded. one returns the time of a sample, and
// whether the stream was held while its work was enqueued. take counts the samples for which it was not held.
func (s *sampling) take(ctx context.Context, one func() (d time.Duration, held bool, err error)) (
	took []time.Duration, notHeld int, err error) {
	for range s.warmUp {
		if _, _, err := one(); err != nil {
			return nil, 0, err
		}
	}
	begin := s.watch
	if begin == nil {
		begin = watch
	}
	elapsed := begin()
	for i := range s.atMost {
		if i >= s.atLeast && elapsed() > s.budget {
			break
		}
		if err := ctx.Err(); err != nil {
			return took, notHeld, err
		}
		d, held, err := one()
		if err != nil {
			return took, notHeld, err
		}
		if took = append(took, d); !held {
			notHeld++
		}
	}
	return took, notHeld, nil
}
