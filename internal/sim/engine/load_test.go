package engine

import (
	"math"
	"testing"
	"time"
)

// TestLoad checks the share of the last second for work of several lengths and pauses.
func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		work, pause time.Duration
		want        float64
	}{
		{5 * time.Microsecond, 245 * time.Microsecond, 0.02},
		{100 * time.Millisecond, 100 * time.Millisecond, 0.5},
		{3 * time.Second, time.Millisecond, 1},
		{time.Millisecond, 0, 1},
		{time.Millisecond, 9 * time.Second, 0},
	} {
		var l Load
		at, busy := int64(0), time.Duration(0)
		for at < int64(20*time.Second) {
			l.begin(at)
			at += int64(tt.work)
			l.end(at)
			at += int64(tt.pause)
			busy += tt.work
		}
		if got := l.Share(at); math.Abs(got-tt.want) > 0.011 {
			t.Errorf("%v of %v: %v, want %v", tt.work, tt.work+tt.pause, got, tt.want)
		}
		if got := l.Busy(at); got != busy {
			t.Errorf("%v of %v: worked %v, want %v", tt.work, tt.work+tt.pause, got, busy)
		}
	}
}

// TestLoadOverlap checks that two operations at a time count once, and one that still runs counts.
func TestLoadOverlap(t *testing.T) {
	var l Load
	ms := int64(time.Millisecond)
	l.begin(2000 * ms)
	l.begin(2100 * ms)
	l.end(2200 * ms)
	l.end(2300 * ms)
	l.begin(2250 * ms) // noted late
	if got := l.Share(2500 * ms); math.Abs(got-0.5) > 0.011 || !l.Working() {
		t.Errorf("the share is %v", got)
	}
	if got := l.Busy(2500 * ms); got != 500*time.Millisecond {
		t.Errorf("it has worked %v", got)
	}
}
