package watch

import (
	"slices"
	"time"

	"github.com/purecu/purecu/internal/explore"
)

// maxArming is how many items are armed after one round.
const maxArming = 16

// armed are the waits for which a wake-up stream notifies the watcher. The watcher's lock guards
// them.
type armed struct {
	list  []*Wait
	loose int // how many of them are loose
	// unsupported says that no stream can notify. scarce says that there is no stream left just now.
	unsupported, scarce bool
	// gap says that an armed wait has ended, and another of its counter's is not armed yet. missed
	// says that a stream may have notified before its wait counted as armed.
	gap, missed bool
}

// arming is a wait that is about to be armed.
type arming struct {
	wait   *Wait
	handle uintptr
	domain *Domain
}

// loosen and unlink are the set's, and count what is armed.
func (w *Watcher) loosen(of *Wait) {
	w.set.loosen(of)
	if of.wakeUp != nil {
		w.armed.loose++
	}
}

func (w *Watcher) unlink(of *Wait) {
	w.set.unlink(of)
	if of.wakeUp != nil {
		w.armed.loose--
	}
}

// arm has streams wake the watcher for what has been waited for for long.
func (w *Watcher) arm(r *round, now time.Time) {
	if !w.source.MayArm() || !w.choose(r, now) {
		return
	}
	var none []*Domain // have no wake-up stream left
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

// start has a wake-up stream notify. While other calls wait for a device, that call may wait for
// them: the watcher must not.
func (w *Watcher) start(of *Wait, up WakeUp) {
	w.mu.Lock()
	of.starting = true
	w.mu.Unlock()
	of.item.Retain() // also if it was closed: the wait is in use
	w.late.Add(1)
	notified := w.notifier.Notified()
	explore.Go(func() {
		w.noteArmed(of, up, up.Start(), notified)
		of.item.Drop()
		w.late.Add(-1)
	})
}

// choose collects the waits that streams should wake the watcher for, the first of each counter
// before others. It reports false if there are none.
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
		of, heads := r.plain[i], k < len(r.plain)
		if of.head != heads || of.counter == nil || of.wakeUp != nil || of.unarmable || of.starting ||
			age-of.since < Long ||
			!w.source.CanArm(of.item) {
			continue
		}
		if r.arming = append(r.arming, arming{of, r.handles[i], of.counter.domain}); len(r.arming) == maxArming {
			break
		}
	}
	return len(r.arming) > 0
}

// noteArmed notes whether a stream will wake the watcher for a wait. notified is how often streams
// had notified before it could: it may do so before its wait counts as armed.
func (w *Watcher) noteArmed(of *Wait, up WakeUp, res ArmResult, notified uint64) {
	w.mu.Lock()
	of.starting = false
	notifies := res == Armed && of.counter != nil && !of.item.Exposed()
	switch {
	case notifies:
		of.wakeUp = up
		w.armed.list = append(w.armed.list, of)
		if of.where == inList {
			w.armed.loose++
		}
		w.set.version++
		if w.notifier.Notified() != notified {
			w.armed.missed = true
			w.wake()
		}
	default:
		of.unarmable = true // an exposed item stays so
		w.armed.unsupported = w.armed.unsupported || res == Unsupported
	}
	w.mu.Unlock()
	if !notifies && up != nil {
		up.Return()
	}
}

// disarm gives a wait's stream back.
func (w *Watcher) disarm(of *Wait) {
	of.wakeUp.Return()
	of.wakeUp = nil
	a := &w.armed
	if of.where == inList {
		a.loose--
	}
	last := len(a.list) - 1
	a.list[slices.Index(a.list, of)] = a.list[last]
	a.list[last] = nil
	a.list = a.list[:last]
	a.scarce = false
}

// loosenExposed takes exposed items from the heaps, and from those that are armed: a new
// generation may be part of another sequence, and the stream waits for the old one.
func (w *Watcher) loosenExposed() {
	for i := len(w.armed.list) - 1; i >= 0; i-- {
		if of := w.armed.list[i]; of.item.Exposed() {
			w.disarm(of)
		}
	}
	for _, c := range w.set.counters {
		for i := len(c.heap.entries) - 1; i >= 0; i-- {
			x := &c.heap.entries[i]
			if of := x.wait; of.counter != nil && of.item.Exposed() {
				x.wait = &Wait{flags: flags{where: inHeap}} // that has ended, in its place
				c.heap.stale++
				w.loosen(of)
			}
		}
	}
}
