package watch

import (
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/explore"
)

// Policy says how a polling loop pauses between two looks. After some looks without a sleep, each
// sleep lasts for a part of the time waited so far, within bounds. So a short wait ends soon, and a
// long wait costs little.
type Policy struct {
	Looks    int           // how many pauses at the beginning only yield
	Part     time.Duration // a sleep lasts for 1/Part of the time waited so far
	Min, Max time.Duration
}

// The policies of the library. Brief is for work that usually ends soon. Patient is for work that
// may last until another thread or the program does something.
var (
	Brief   = Policy{Looks: 200, Part: 1, Min: 20 * time.Microsecond, Max: time.Millisecond}
	Patient = Policy{Part: 1, Min: time.Millisecond, Max: 100 * time.Millisecond}

	// The watcher sleeps for the longer of the times that these two return. A wake-up is late by at
	// most an eighth of a short wait, and by a smaller part of a long wait.
	soon = Policy{Part: 8, Min: 20 * time.Microsecond, Max: 700 * time.Microsecond}
	old  = Policy{Part: 128, Max: 2 * time.Millisecond}
)

// Sleep returns how long to sleep after a loop has waited for the given time.
func (p Policy) Sleep(waited time.Duration) time.Duration {
	return max(p.Min, min(waited/p.Part, p.Max))
}

// BackOff makes the pauses of one polling loop. The caller holds no lock that is needed for what
// the loop waits for. Package lock lists the locks that a goroutine may hold at a gate of
// capturegate.
type BackOff struct {
	Policy Policy
	Clock  driver.Clock
	// Slept is the sum of all sleeps so far.
	Slept time.Duration
	looks int
	timer driver.Timer
}

// Wait makes the next pause.
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

// End stops the timer. It is called after the last pause.
func (b *BackOff) End() {
	if b.timer != nil {
		b.timer.Stop()
	}
}
