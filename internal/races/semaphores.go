package races

import (
	"cmp"
	"slices"
)

// semaphore is a semaphore of another API. That API may signal it, too. The detector knows neither when,
// nor which work comes before.
type semaphore struct {
	// signals are those of the program that its value has reached, in the order of the values. The clock
	// of each also has those before it. A binary semaphore has none.
	signals []reached
	// signalled says that a binary semaphore was signalled after the last wait for it.
	signalled bool
	waits     []wordWait // that no known signal has ended
	// pending is how many operations have a step that is pending. A destroyed semaphore is
	// forgotten when there are none.
	pending   int
	destroyed bool
}

// mostSignals is how many signals of a semaphore are kept. A wait for a value that is no longer kept counts
// as a wait for the lowest one that is. mostGates is how many waits are pending, of all semaphores. If there
// are more, the oldest counts as one that the other API has ended.
const mostSignals, mostGates = 64, 256

// semaphores are those of other APIs, by number.
type semaphores struct {
	list map[uint64]*semaphore
	// external is what comes before some signal. The other API may have waited for that before it signals
	// anything.
	external clock
	gates    []*step // behind waits, in the order in which they were made
}

// outside returns a clock of what the other API may have waited for.
func (d *Detector) outside() clock { return join(d.host, d.semaphores.external) }

// keepGate keeps the gate behind a wait that the other API may end.
func (d *Detector) keepGate(g *step) {
	g.outside = true
	l := &d.semaphores
	if l.gates = append(l.gates, g); len(l.gates) <= mostGates {
		return
	}
	l.gates = slices.DeleteFunc(l.gates, func(g *step) bool { return g.pending == 0 })
	if len(l.gates) > mostGates {
		oldest := l.gates[0]
		l.gates = slices.Delete(l.gates, 0, 1)
		d.open(oldest, d.outside())
	}
}

func (d *Detector) semaphore(op WordOp) *semaphore {
	s := d.semaphores.list[op.Semaphore]
	if s == nil {
		if d.semaphores.list == nil {
			d.semaphores.list = map[uint64]*semaphore{}
		}
		s = new(semaphore)
		d.semaphores.list[op.Semaphore] = s
	}
	return s
}

// whenOrdered calls f when the step of an operation on a semaphore is no longer pending.
func (d *Detector) whenOrdered(op WordOp, s *step, f func()) {
	x := d.semaphore(op)
	x.pending++
	s.whenKnown(func() {
		f()
		x.pending--
		d.forgetSemaphore(op.Semaphore, x)
	})
}

// SemaphoreDestroyed implements [Observer].
func (d *Detector) SemaphoreDestroyed(semaphore uint64) {
	defer d.enter()()
	if x := d.semaphores.list[semaphore]; x != nil {
		x.destroyed = true
		d.forgetSemaphore(semaphore, x)
	}
}

// forgetSemaphore forgets a semaphore that is destroyed, unless a signal or wait is still to come.
// Pending waits that no signal ends any more do not need it.
func (d *Detector) forgetSemaphore(semaphore uint64, x *semaphore) {
	if x.destroyed && x.pending == 0 {
		delete(d.semaphores.list, semaphore)
	}
}

// awaitSignal opens the gate behind a wait after the signals that are known to end it. If there are none,
// a later signal may end the wait, or the other API.
func (d *Detector) awaitSignal(op WordOp, g *step) {
	s := d.semaphore(op)
	switch {
	case op.Binary && s.signalled:
		s.signalled = false
		d.open(g, d.outside())
		return
	case !op.Binary && op.Value == 0: // each value ends it
		d.open(g, nil)
		return
	case !op.Binary:
		for _, r := range s.signals {
			if r.value >= op.Value {
				d.open(g, r.clock)
				return
			}
		}
	}
	s.waits = slices.DeleteFunc(s.waits, func(w wordWait) bool { return w.gate.pending == 0 })
	s.waits = append(s.waits, wordWait{op, g})
}

// signalled notes a signal that comes after what has a clock. It may end waits: one for a binary
// semaphore.
func (d *Detector) signalled(op WordOp, c clock) {
	s := d.semaphore(op)
	d.semaphores.external = join(d.semaphores.external, c)
	if op.Binary {
		s.signalled = true
	} else {
		s.raise(op.Value, c)
	}
	var open []*step
	s.waits = slices.DeleteFunc(s.waits, func(w wordWait) bool {
		switch {
		case w.gate.pending == 0:
			return true
		case op.Binary && !s.signalled, !op.Binary && op.Value < w.op.Value:
			return false
		}
		s.signalled = false
		open = append(open, w.gate)
		return true
	})
	for _, g := range open {
		d.open(g, d.outside())
	}
}

// raise notes a value. A lower one lowers the semaphore.
func (s *semaphore) raise(value uint64, c clock) {
	byValue := func(r reached, v uint64) int { return cmp.Compare(r.value, v) }
	at, found := slices.BinarySearchFunc(s.signals, value, byValue)
	switch {
	case found:
		c = join(s.signals[at].clock, c)
	case at > 0:
		c = join(s.signals[at-1].clock, c)
	}
	s.signals = append(s.signals[:at], reached{value, c})
	if n := len(s.signals) - mostSignals; n > 0 {
		s.signals = slices.Delete(s.signals, 0, n)
	}
}
