package cutest

import (
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/cusim"
)

// watch detects calls that wait for something that only the test can do, such as a deferred Close
// that waits for a stream that the test holds. It reports them, and ends such waits after a time.
type watch struct {
	t   testing.TB
	sim *cusim.Driver
	// If a call waits and nothing else happens, the wait is reported after reportAfter, and ended
	// after endAfter, by the machine's clock. endAfter is long, because another goroutine may
	// release the stream.
	reportAfter, endAfter time.Duration

	mu       sync.Mutex
	timer    *time.Timer // needs no goroutine
	stopped  bool
	quiet    time.Duration
	reported bool
}

// lookEvery is the time between two checks.
const lookEvery = 100 * time.Millisecond

// watchSoft begins a watch, which lasts until stop.
func watchSoft(t testing.TB, sim *cusim.Driver, reportAfter, endAfter time.Duration) *watch {
	w := &watch{t: t, sim: sim, reportAfter: reportAfter, endAfter: endAfter}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(lookEvery, w.look)
	return w
}

// stop ends the watch. Nothing is reported after that.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}

// look checks for calls that wait, and schedules the next check.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	defer w.timer.Reset(lookEvery)
	var longest *cusim.Blocked
	for _, b := range w.sim.Blocked() {
		if longest == nil || b.For > longest.For {
			longest = &b
		}
	}
	if longest == nil || longest.For < lookEvery {
		w.quiet, w.reported = 0, false
		return
	}
	// The time is counted in checks, so that a pause of the whole machine does not count.
	switch w.quiet += lookEvery; {
	case w.quiet >= w.endAfter:
		w.t.Errorf("cutest: a call waited for something that only the test can do, and was ended: cutest released "+
			"held streams and advanced virtual time. Do this in the test, before the call that waits: deferred "+
			"calls, such as Close, run before t.Cleanup.\n%v", longest)
		w.quiet, w.reported = 0, false
		w.sim.Finish()
	case w.quiet >= w.reportAfter && !w.reported:
		w.reported = true
		w.t.Logf("cutest: a call waits, and nothing else happens; it is ended after %v.\n%v", w.endAfter, longest)
	}
}
