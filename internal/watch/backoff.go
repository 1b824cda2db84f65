package watch

import (
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/explore"
)

// Policy says how a loop waits that looks again and again at what others change. After some
// looks at once it sleeps for a part of the time that it has waited, within bounds. So a short
// wait ends soon, and a long one costs little.
type Policy struct {
	Looks    int           // in the beginning, between which other goroutines run
	Part     time.Duration // a sleep is one part of so many of the wait
	Min, Max time.Duration
}

// The policies of the library. Brief is for work that usually ends soon, and Patient for what
// somebody else has to end.
var (
	Brief   = Policy{Looks: 200, Part: 1, Min: 20 * time.Microsecond, Max: time.Millisecond}
	Patient = Policy{Part: 1, Min: time.Millisecond, Max: 100 * time.Millisecond}

	// The watcher sleeps as the longer of these says: a wake-up comes late by a small part of a
	// short wait, and by a smaller one of a long wait.
	soon = Policy{Part: 8, Min: 20 * time.Microsecond, Max: 700 * time.Microsecond}
	old  = Policy{Part: 128, Max: 2 * time.Millisecond}
)

// Sleep returns how long to sleep after so long a wait.
func (p Policy) Sleep(waited time.Duration) time.Duration {
	return max(p.Min, min(waited/p.Part, p.Max))
}

// BackOff waits between two looks, as a policy says. No lock is held meanwhile.
type BackOff struct {
	Policy Policy
	Clock  driver.Clock
	// Slept is how long it has slept so far.
	Slept time.Duration
	looks int
	timer driver.Timer
}

// Wait waits.
func (b *BackOff) Wait() {
	if b.looks++; b.looks <= b.Policy.Looks {
		explore.Gosched()
		return
	}
	d := b.Policy.Sleep(b.Slept)
	if b.timer == nil {
		b.timer = b.Clock.NewTimer(d)
	} else {
		b.timer.Reset(d)
	}
	<-b.timer.C()
	b.Slept += d
}

// End is called after the last wait.
func (b *BackOff) End() {
	if b.timer != nil {
		b.timer.Stop()
	}
}
