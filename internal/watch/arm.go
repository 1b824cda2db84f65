package watch

import (
	"slices"
	"time"

	"github.com/purecu/purecu/internal/explore"
)

// maxArming is how many items are armed after one round at most.
const maxArming = 16

// armed is the set of waits for which a wake-up stream notifies the watcher. The watcher's lock
// guards it.
type armed struct {
	list       []*Wait
	unnumbered int // how many of them are unnumbered
	// unsupported says that no stream can ever notify. scarce says that all streams are in use.
	unsupported, scarce bool
	// gap says that an armed wait has ended and its counter has other waits, which may not be
	// armed. missed says that a stream may have notified before its wait counted as armed.
	gap, missed bool
}

// arming is a wait that is about to be armed.
type arming struct {
	wait   *Wait
	handle uintptr
	domain *Domain
}

// addUnnumbered is the set's method of this name, and keeps the count of armed unnumbered waits.
func (w *Watcher) addUnnumbered(wait *Wait) {
	w.set.addUnnumbered(wait)
	if wait.wakeUp != nil {
		w.armed.unnumbered++
	}
}

// removeUnnumbered is the set's method of this name, and keeps the same count.
func (w *Watcher) removeUnnumbered(wait *Wait) {
	w.set.removeUnnumbered(wait)
	if wait.wakeUp != nil {
		w.armed.unnumbered--
	}
}

// arm arms wake-up streams for waits that have lasted for Long.
func (w *Watcher) arm(r *round, now time.Time) {
	if !w.source.MayArm() || !w.choose(r, now) {
		return
	}
	var none []*Domain // domains without a free wake-up stream
	for _, a := range r.arming {
		if slices.Contains(none, a.domain) {
			continue
		}
		up, res := w.source.Arm(a.wait.item, a.handle, &r.query)
		switch res {
		case Armed:
			w.start(a.wait, up)
		case NotNow:
			return
		case NoStream:
			none = append(none, a.domain)
			w.mu.Lock()
			w.armed.scarce = true
			w.set.version++
			w.mu.Unlock()
		default:
			w.noteArmed(a.wait, nil, res, 0)
		}
	}
}

// start calls the wake-up stream's Start on another goroutine. Start may block while other calls of
// the context block, and the watcher must not block.
func (w *Watcher) start(wait *Wait, up WakeUp) {
	w.mu.Lock()
	wait.starting = true
	w.mu.Unlock()
	wait.item.Retain() // allowed even after a close, as the wait still retains the item
	w.late.Add(1)
	notified := w.notifier.Notified()
	explore.Go(func() {
		w.noteArmed(wait, up, up.Start(), notified)
		wait.item.Drop()
		w.late.Add(-1)
	})
}

// choose collects the waits to arm, those that are first of their counter before others. It reports
// false if there are none.
func (w *Watcher) choose(r *round, now time.Time) bool {
	clear(r.arming)
	r.arming = r.arming[:0]
	age := now.Sub(w.made)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed.unsupported {
		return false
	}
	for k := range 2 * len(r.plain) {
		i := k % len(r.plain)
		wait, heads := r.plain[i], k < len(r.plain)
		if wait.head != heads || wait.counter == nil || wait.wakeUp != nil || wait.unarmable || wait.starting ||
			age-wait.since < Long ||
			!w.source.CanArm(wait.item) {
			continue
		}
		if r.arming = append(r.arming, arming{wait, r.handles[i], wait.counter.domain}); len(r.arming) == maxArming {
			break
		}
	}
	return len(r.arming) > 0
}

// noteArmed notes whether a stream will notify the watcher for a wait. notified is the notifier's
// count before Start: a higher count means that the stream may have notified before its wait
// counted as armed.
func (w *Watcher) noteArmed(wait *Wait, up WakeUp, res ArmResult, notified uint64) {
	w.mu.Lock()
	wait.starting = false
	notifies := res == Armed && wait.counter != nil && !wait.item.Exposed()
	switch {
	case notifies:
		wait.wakeUp = up
		w.armed.list = append(w.armed.list, wait)
		if wait.where == inList {
			w.armed.unnumbered++
		}
		w.set.version++
		if w.notifier.Notified() != notified {
			w.armed.missed = true
			w.wake()
		}
	default:
		wait.unarmable = true // also for an exposed item, as it stays exposed
		w.armed.unsupported = w.armed.unsupported || res == Unsupported
	}
	w.mu.Unlock()
	if !notifies && up != nil {
		up.Return()
	}
}

// disarm returns the stream of a wait.
func (w *Watcher) disarm(wait *Wait) {
	wait.wakeUp.Return()
	wait.wakeUp = nil
	a := &w.armed
	if wait.where == inList {
		a.unnumbered--
	}
	last := len(a.list) - 1
	a.list[slices.Index(a.list, wait)] = a.list[last]
	a.list[last] = nil
	a.list = a.list[:last]
	a.scarce = false
}

// unnumberExposed makes the waits for exposed items unnumbered, and disarms them. A new generation
// may be part of another sequence, and the stream waits for the old generation.
func (w *Watcher) unnumberExposed() {
	for i := len(w.armed.list) - 1; i >= 0; i-- {
		if wait := w.armed.list[i]; wait.item.Exposed() {
			w.disarm(wait)
		}
	}
	for _, c := range w.set.counters {
		for i := len(c.heap.entries) - 1; i >= 0; i-- {
			x := &c.heap.entries[i]
			if wait := x.wait; wait.counter != nil && wait.item.Exposed() {
				x.wait = &Wait{flags: flags{where: inHeap}} // an ended wait, which takes the place in the heap
				c.heap.stale++
				w.addUnnumbered(wait)
			}
		}
	}
}
