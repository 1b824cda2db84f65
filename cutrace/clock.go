package cutrace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/purecu/purecu/cu"
)

const (
	// calibrations is how often the clocks are compared.
	calibrations = 16
	// anchorEvery is how old an anchor gets. The driver's float32 resolves half a microsecond up to
	// four seconds.
	anchorEvery = 2 * time.Second
)

// gpuClock converts times of the GPU to times of the host. The driver returns only the time between
// two records. The host's time of one record is known from the comparison of the clocks; all other
// times are measured from that record. The driver resolves short times better than long ones, so a
// new anchor is recorded from time to time.
//
// The lock protects the users of all anchors. The holder of the recorder's token may read the other
// fields. To change them, it takes the lock, too.
type gpuClock struct {
	mu      sync.Mutex
	current *anchor
	anchors []*anchor // the oldest first, the current one last
	// uncertainty and drift are those of [Stats].
	uncertainty, drift time.Duration
}

// anchor is a record from which other times are measured. The holder of the recorder's token may
// use the fields, except for users.
type anchor struct {
	event *cu.Event
	host  time.Time     // when it was recorded, by the host's clock
	known bool          // that at is known
	at    time.Duration // when the GPU reached it, since the origin
	after *anchor       // the anchor that it is measured from, until at is known
	users int           // spans that are measured from it
}

// use returns the current anchor for a span, which passes it to release.
func (c *gpuClock) use() *anchor {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current.users++
	return c.current
}

// release ends a span's use of an anchor.
func (c *gpuClock) release(a *anchor) {
	c.mu.Lock()
	a.users--
	c.mu.Unlock()
}

// takeUnused removes and returns the oldest anchors without users. The oldest one stays until the
// time of the next one is known. The caller holds the token.
func (c *gpuClock) takeUnused() (unused []*anchor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.anchors) > 1 && c.anchors[0].users == 0 && c.anchors[1].known {
		unused = append(unused, c.anchors[0])
		c.anchors = c.anchors[1:]
	}
	return unused
}

// calibrate returns an anchor whose time on the host's clock is known, and the window that this
// time is the middle of.
func (r *Recorder) calibrate(ctx context.Context) (best *anchor, window time.Duration, err error) {
	for range calibrations {
		a, w, err := r.compare(ctx)
		if err != nil {
			if best != nil {
				err = errors.Join(err, best.event.Close())
			}
			return nil, 0, err
		}
		if best == nil || w < window {
			a, best, window = best, a, w
		}
		if a != nil {
			if err := a.event.Close(); err != nil {
				return nil, 0, errors.Join(err, best.event.Close())
			}
		}
	}
	return best, window, nil
}

// compare is calibrate with one record. The window begins before the record and ends after the
// query that finds it complete.
func (r *Recorder) compare(ctx context.Context) (*anchor, time.Duration, error) {
	e, err := r.newEvent()
	if err != nil {
		return nil, 0, err
	}
	h := e.Handle()
	if err = e.Record(r.stream); err == nil {
		err = e.Wait(ctx)
	}
	if err != nil {
		return nil, 0, errors.Join(err, e.Close())
	}
	own := r.host.times(h)
	w := own.done.Sub(own.begun)
	return &anchor{event: e, host: own.begun.Add(w / 2), known: true}, w, nil
}

// refresh records a new anchor if the current one is old. The caller holds the token. An error is
// no reason to stop: with the current anchor, times are only less exact.
func (r *Recorder) refresh() {
	c := &r.clock
	if r.host.newest().Sub(c.current.host) <= anchorEvery {
		return
	}
	if closed, _ := r.spans.state(); closed {
		return
	}
	e, err := r.newEvent()
	if err != nil {
		return
	}
	if err := e.Record(r.stream); err != nil {
		_ = e.Close()
		return
	}
	a := &anchor{event: e, host: r.host.times(e.Handle()).begun, after: c.current}
	c.mu.Lock()
	c.current, c.anchors = a, append(c.anchors, a)
	c.mu.Unlock()
}

// measureDrift finds out how far the clocks have moved apart. If it cannot, the drift stays 0. The
// caller holds the token. The error is only that of closing the event.
func (r *Recorder) measureDrift(ctx context.Context) error {
	a, _, err := r.calibrate(ctx)
	if err != nil {
		return nil
	}
	c := &r.clock
	if last := c.current; last.wait(ctx) == nil && last.find() == nil {
		if d, err := since(last.event, a.event); err == nil {
			c.mu.Lock()
			c.drift = last.at + d - a.host.Sub(r.origin)
			c.mu.Unlock()
		}
	}
	return a.event.Close()
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

// times returns when two records were, since the origin, and the time between them. The error
// matches errPending if the GPU has not reached one of them, or the anchor.
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

// find measures an anchor's time from the anchor before.
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

// wait waits until the GPU has reached an anchor and those before.
func (a *anchor) wait(ctx context.Context) error {
	if a.known {
		return nil
	}
	if err := a.after.wait(ctx); err != nil {
		return err
	}
	return a.event.Wait(ctx)
}
