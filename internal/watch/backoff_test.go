package watch

import (
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// stepClock is a clock whose timers note their durations, and fire at once.
type stepClock struct {
	driver.Clock
	slept []time.Duration
}

type stepTimer struct{ c *stepClock }

func (c *stepClock) NewTimer(d time.Duration) driver.Timer {
	t := stepTimer{c}
	t.Reset(d)
	return t
}

func (t stepTimer) C() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}
func (t stepTimer) Reset(d time.Duration) { t.c.slept = append(t.c.slept, d) }
func (t stepTimer) Stop()                 {}

// TestBackOff makes ten pauses, which become longer, with a clock of its own.
func TestBackOff(t *testing.T) {
	for _, p := range []Policy{Brief, Patient} {
		c := &stepClock{}
		b := BackOff{Policy: p, Clock: c}
		for range p.Looks + 12 {
			b.Wait()
		}
		b.End()
		if len(c.slept) != 12 || c.slept[0] != p.Min || c.slept[2] != 2*p.Min || c.slept[11] != p.Max ||
			b.Slept < p.Max {
			t.Errorf("it slept for %v, %v in all", c.slept, b.Slept)
		}
	}
}

// TestPolicies checks the bounds of the watcher's sleeps.
func TestPolicies(t *testing.T) {
	s := share{saved: 0}
	for _, tt := range []struct{ sinceNews, rest time.Duration }{
		{0, 20 * time.Microsecond},
		{800 * time.Microsecond, 100 * time.Microsecond},
		{5600 * time.Microsecond, 700 * time.Microsecond},
		{64 * time.Millisecond, 700 * time.Microsecond},
		{128 * time.Millisecond, time.Millisecond},
		{time.Hour, 2 * time.Millisecond},
	} {
		if got := s.rest(0, tt.sinceNews, 0); got != tt.rest {
			t.Errorf("%v after the last news the watcher sleeps for %v, want %v", tt.sinceNews, got, tt.rest)
		}
	}
	if got := s.rest(time.Millisecond, 0, 0); got != 4*time.Millisecond {
		t.Errorf("after a round of a millisecond it sleeps for %v", got)
	}
	s.begin(time.Unix(0, 0))
	if got := s.rest(time.Millisecond, time.Millisecond, spin); got != 0 || s.saved != maxSaved {
		t.Errorf("with %v saved it sleeps for %v", s.saved, got)
	}
	for range 10 {
		s.use(time.Millisecond, time.Millisecond)
	}
	if s.saved != -maxSaved {
		t.Errorf("when it has taken much more than its share, %v is saved", s.saved)
	}
}
