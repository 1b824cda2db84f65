package engine

import (
	"math"
	"sync"
	"time"

	"github.com/purecu/purecu/driver"
)

// Clock is the driver's clock. Times are in nanoseconds since the clock was created.
type Clock struct {
	Virtual bool // the time advances only by Set; it does not change after the first use
	begin   time.Time

	mu     sync.Mutex
	at     int64 // the virtual time
	timers map[*virtualTimer]bool
}

// Init starts the clock.
func (c *Clock) Init() {
	c.begin = time.Now()
	c.timers = make(map[*virtualTimer]bool)
}

// At returns the present time.
func (c *Clock) At() int64 {
	if c.Virtual {
		return c.VirtualAt()
	}
	return int64(time.Since(c.begin))
}

// VirtualAt returns the virtual time.
func (c *Clock) VirtualAt() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Set sets the virtual time, and fires timers.
func (c *Clock) Set(at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
	for t := range c.timers {
		if t.at <= at {
			delete(c.timers, t)
			t.fire(at)
		}
	}
}

// Waiting returns how many timers wait for the virtual time.
func (c *Clock) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// Now returns the present time.
func (c *Clock) Now() time.Time { return c.begin.Add(time.Duration(c.At())) }

// NewTimer returns a timer that fires once after d.
func (c *Clock) NewTimer(d time.Duration) driver.Timer {
	if !c.Virtual {
		return realTimer{time.NewTimer(d)}
	}
	t := &virtualTimer{clock: c, c: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

// realTimer is a timer of the machine's clock.
type realTimer struct{ t *time.Timer }

// C returns the channel on which the time is delivered.
func (t realTimer) C() <-chan time.Time { return t.t.C }

// Reset makes the timer fire once, after d.
func (t realTimer) Reset(d time.Duration) { t.t.Reset(d) }

// Stop keeps the timer from firing.
func (t realTimer) Stop() { t.t.Stop() }

// virtualTimer fires when the virtual time has reached its time. It also fires from time to time
// before: a waiter may have polled before an Advance and set the timer after it, so it has to poll
// again.
type virtualTimer struct {
	clock *Clock
	c     chan time.Time
	at    int64
	exact bool // it does not fire before its time
	real  *time.Timer
}

// lookAgain is the interval, by the machine's clock, in which a virtual timer fires.
const lookAgain = time.Millisecond

// C returns the channel on which the time is delivered.
func (t *virtualTimer) C() <-chan time.Time { return t.c }

// Reset makes the timer fire after d of virtual time, and from time to time before.
func (t *virtualTimer) Reset(d time.Duration) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.at = t.clock.at + min(int64(max(d, 1)), math.MaxInt64-t.clock.at)
	t.clock.timers[t] = true
	switch {
	case t.exact:
	case t.real == nil:
		t.real = time.AfterFunc(lookAgain, t.tick)
	default:
		t.real.Reset(lookAgain)
	}
}

// Sleep waits until d has passed.
func (c *Clock) Sleep(d time.Duration) {
	if !c.Virtual {
		time.Sleep(d)
		return
	}
	t := &virtualTimer{clock: c, c: make(chan time.Time, 1), exact: true}
	t.Reset(d)
	<-t.c
}

// tick fires the timer by the machine's clock.
func (t *virtualTimer) tick() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if t.clock.timers[t] {
		delete(t.clock.timers, t)
		t.fire(t.clock.at)
	}
}

// fire sends a time to the timer's channel, unless the channel has one.
func (t *virtualTimer) fire(at int64) {
	select {
	case t.c <- t.clock.begin.Add(time.Duration(at)):
	default:
	}
}

// Stop keeps the timer from firing.
func (t *virtualTimer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.timers, t)
	if t.real != nil {
		t.real.Stop()
	}
}
