package clock

import (
	"testing"
	"time"
)

func TestLength(t *testing.T) {
	const day = 24 * 3600
	for _, tt := range []struct {
		n, frequency int64
		want         time.Duration
	}{
		{0, 10_000_000, 0},
		{1, 10_000_000, 100},
		{3, 3_000_000_000, 1},
		{10_000_001, 10_000_000, time.Second + 100},
		{1000 * day * 10_000_000, 10_000_000, 1000 * 24 * time.Hour},
		{1000*day*3_579_545 + 3_579_544, 3_579_545, 1000*24*time.Hour + 999_999_720},
	} {
		if got := length(tt.n, tt.frequency); got != tt.want {
			t.Errorf("%d steps of %d a second take %v, want %v", tt.n, tt.frequency, got, tt.want)
		}
	}
}

// TestElapsed compares with time.Now, and looks for steps: none may be longer than a
// call of a driver.
func TestElapsed(t *testing.T) {
	began, w := time.Now(), Start()
	time.Sleep(20 * time.Millisecond)
	got, want := w.Elapsed(), time.Since(began)
	// time.Now may lag by a step at either end.
	if lag := 16 * time.Millisecond; got < 20*time.Millisecond-lag || got > want+lag {
		t.Errorf("it measured %v, and time.Now %v", got, want)
	}
	w = Start()
	last, step := time.Duration(0), time.Hour
	for range 100_000 {
		now := w.Elapsed()
		if now < last {
			t.Fatalf("%v came after %v", now, last)
		}
		if now > last {
			step = min(step, now-last)
		}
		last = now
	}
	if step > 20*time.Microsecond {
		t.Errorf("the smallest step was %v", step)
	}
}
