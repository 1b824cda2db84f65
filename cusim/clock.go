package cusim

import (
	"sync"
	"time"

	"github.com/purecu/purecu/internal/driver"
)

// clock is the driver's time, in nanoseconds since it was made.
type clock struct {
	virtual bool
	begin   time.Time

	mu     sync.Mutex
	at     int64 // the virtual time
	timers map[*virtualTimer]bool
}

func (c *clock) init() {
	c.begin = time.Now()
	c.timers = make(map[*virtualTimer]bool)
}

// now returns the present time.
func (c *clock) now() int64 {
	if c.virtual {
		return c.virtualNow()
	}
	return int64(time.Since(c.begin))
}

func (c *clock) virtualNow() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// set moves the virtual time, and fires timers.
func (c *clock) set(at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
	for t := range c.timers {
		if t.at <= at {
			delete(c.timers, t)
			select {
			case t.c <- c.begin.Add(time.Duration(at)):
			default:
			}
		}
	}
}

// Now returns the present time.
func (c *clock) Now() time.Time { return c.begin.Add(time.Duration(c.now())) }

// NewTimer returns a timer that fires once after d.
func (c *clock) NewTimer(d time.Duration) driver.Timer {
	if !c.virtual {
		return realTimer{time.NewTimer(d)}
	}
	t := &virtualTimer{clock: c, c: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

// realTimer is a timer of the machine's clock.
type realTimer struct{ t *time.Timer }

func (t realTimer) C() <-chan time.Time   { return t.t.C }
func (t realTimer) Reset(d time.Duration) { t.t.Reset(d) }
func (t realTimer) Stop()                 { t.t.Stop() }

// virtualTimer fires when the virtual time gets there.
type virtualTimer struct {
	clock *clock
	c     chan time.Time
	at    int64
}

func (t *virtualTimer) C() <-chan time.Time { return t.c }

func (t *virtualTimer) Reset(d time.Duration) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.at = t.clock.at + int64(max(d, 1))
	t.clock.timers[t] = true
}

func (t *virtualTimer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.timers, t)
}
