package cu

import (
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// legacyMarks keeps two things apart: the events that this package records on the legacy
// default stream without having been asked, and the beginnings of captures of blocking
// streams. An event is not recorded while a capture begins. A capture begins when the events
// are recorded, or after markPatience: what takes so long waits for room in the stream's
// queue, and found out before that nothing is being captured.
type legacyMarks struct {
	mu         lock.Mutex[lock.LegacyMarks]
	marks      int // records that are under way
	beginnings int // captures that begin
}

// markPatience is how long the beginning of a capture waits for a record.
const markPatience = 20 * time.Millisecond

// mark begins a record, which marked ends. It reports false while a capture begins.
func (m *legacyMarks) mark() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.beginnings != 0 {
		return false
	}
	m.marks++
	return true
}

func (m *legacyMarks) marked() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marks--
}

// beginCapture is called before a capture begins, and captureBegun after it has begun.
func (m *legacyMarks) beginCapture(clock driver.Clock) {
	m.mu.Lock()
	m.beginnings++
	m.mu.Unlock()
	b := watch.BackOff{Policy: watch.Brief, Clock: clock}
	defer b.End()
	for m.marking() && b.Slept < markPatience {
		b.Wait()
	}
}

func (m *legacyMarks) captureBegun() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beginnings--
}

func (m *legacyMarks) marking() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks != 0
}
