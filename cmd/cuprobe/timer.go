package main

import (
	"context"
	"errors"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/clock"
)

// timer times work on a stream that is held until all of it is enqueued.
type timer struct {
	ctx         context.Context
	rig         *rig
	stream      *cu.Stream
	start, stop *cu.Event
	gate        *cu.Event // recorded behind the kernel that holds the stream
	single      holder    // for one interval
	batches     holder    // for a batch of calls
}

// holder says how long the stream is held.
type holder struct {
	hold, most time.Duration
	vain       int // how many times on end it was in vain
}

// The stream is held for minHold at first, and for up to maxHold if that is too
// short too often; for a batch of calls, which take a few microseconds each, for
// longer. What began too early is tried again, held longer each time.
const (
	minHold  = 100 * time.Microsecond
	maxHold  = time.Millisecond
	minBatch = batch * 10 * time.Microsecond
	maxBatch = 10 * minBatch
	attempts = 3
	longer   = 4
	// enoughVain is after how many samples that cannot be held, whatever is tried,
	// no more is tried: CUDA_LAUNCH_BLOCKING does that.
	enoughVain = 3
)

// held calls try with longer and longer times to hold the stream, until try
// reports that the time was enough.
func (h *holder) held(try func(hold time.Duration) (held bool, err error)) error {
	hold := h.hold
	for i := 0; ; i++ {
		held, err := try(hold)
		switch {
		case err != nil:
			return err
		case held:
			if h.vain = 0; i > 0 {
				h.hold = min(2*h.hold, h.most)
			}
			return nil
		case i+1 == attempts || h.vain >= enoughVain:
			h.vain++
			return nil
		}
		hold *= longer
	}
}

// newTimer makes a timer, and loads the kernel, which the first launch does.
func newTimer(ctx context.Context, rig *rig) (*timer, error) {
	t := &timer{ctx: ctx, rig: rig, single: holder{hold: minHold, most: maxHold}, batches: holder{hold: minBatch, most: maxBatch}}
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

// warm keeps the GPU at work for as long, so that it leaves its saving states
// before anything is measured.
func (t *timer) warm(long time.Duration) error {
	const step = 20 * time.Millisecond // displays have watchdogs
	for ; long > 0; long -= step {
		if err := t.rig.launch(t.stream, min(long, step)); err != nil {
			return err
		}
	}
	return t.drain()
}

// sample is one interval.
type sample struct {
	events, host time.Duration
	// held says that the interval began after it was enqueued to its end.
	held bool
}

// time times what work enqueues on the timer's stream.
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
	if err := p.await(t.start, t.ctx.Err); err != nil {
		return s, err
	}
	began := clock.Start()
	if err := p.await(t.stop, t.ctx.Err); err != nil {
		return s, err
	}
	s.host = began.Elapsed()
	s.events, st, err = t.stop.Since(t.start)
	if err == nil && st != cu.Complete {
		err = errors.New("the driver says of an event that it is pending, after it was complete")
	}
	return s, err
}

// batch is how many calls are timed together: a clock reading costs as much as
// a call.
const batch = 32

// calls returns what one of a batch of calls takes the host while the stream is
// held, so that the GPU does nothing meanwhile; before is what is to be enqueued
// first.
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
	// Not the stream, which has what was enqueued to do when it is held no more.
	if err := t.gate.Record(t.stream); err != nil {
		return 0, false, err
	}
	if err := before(); err != nil {
		return 0, false, err
	}
	began := clock.Start()
	for range batch {
		if err := one(); err != nil {
			return 0, false, err
		}
	}
	d = began.Elapsed() / batch
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
	return p.await(t.stop, t.ctx.Err)
}

// since returns what it takes the host to ask for the time between two records.
func (t *timer) since() (d time.Duration, held bool, err error) {
	if _, err := t.once(0, func() error { return nil }); err != nil {
		return 0, false, err
	}
	began := clock.Start()
	for range batch {
		if _, _, err := t.stop.Since(t.start); err != nil {
			return 0, false, err
		}
	}
	return began.Elapsed() / batch, true, nil
}

// roundTrip returns the time from before the launch of a kernel that does
// nothing until the host knows that it is done.
func (t *timer) roundTrip() (time.Duration, error) {
	began := clock.Start()
	if err := t.rig.launch(t.stream, 0); err != nil {
		return 0, err
	}
	err := t.drain()
	return began.Elapsed(), err
}

// callRows returns the rows of what the GPU and the host add to any work.
func (p *plan) callRows(t *timer) []func() (*measurement, error) {
	nothing := func() error { return nil }
	kernel := func() error { return t.rig.launch(t.stream, 0) }
	record := func() error { return t.start.Record(t.stream) }
	gpu := func(name string, work func() error) func() (*measurement, error) {
		return func() (*measurement, error) {
			return p.sample(t, &measurement{Name: name, Kind: kindGPU}, work)
		}
	}
	host := func(name string, take func() (time.Duration, bool, error)) func() (*measurement, error) {
		return func() (*measurement, error) {
			return p.sampleCall(t, &measurement{Name: name, Kind: kindCall}, take)
		}
	}
	held := func(before, one func() error) func() (time.Duration, bool, error) {
		return func() (time.Duration, bool, error) { return t.calls(before, one) }
	}
	return []func() (*measurement, error){
		gpu("two records", nothing),
		gpu("empty kernel", kernel),
		host("launch", held(nothing, kernel)),
		host("record", held(nothing, record)),
		host("query", held(record, func() error {
			_, err := t.start.Query()
			return err
		})),
		host("since", t.since),
		host("round trip", func() (time.Duration, bool, error) {
			d, err := t.roundTrip()
			return d, true, err
		}),
	}
}
