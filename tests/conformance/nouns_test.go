package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
)

// nouns is a cuLab that uses two devices, if there are two. No object may be abandoned in it,
// unless the test asks for leak reports.
type nouns struct {
	*cuLab
	// devices is the number of devices that a test uses: two, or one if there are no more.
	devices int

	mu    sync.Mutex
	leaks []cu.Leak
}

// onNouns runs a test of package cu on every driver.
func onNouns(t *testing.T, test func(*nouns)) {
	t.Helper()
	for _, tg := range targets() {
		t.Run(tg.Name, func(t *testing.T) {
			tg.Devices = 2
			n, l := new(nouns), newLab(t, tg)
			l.later(n.cleared) // after everything else was closed
			n.cuLab = newCuLab(l, cu.WithLeakHook(func(l cu.Leak) {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.leaks = append(n.leaks, l)
			}))
			n.devices = min(2, get(n.drv.DeviceCount())(n))
			test(n)
		})
	}
}

// cleared waits until package cu has freed everything, which it partly does in the background.
func (n *nouns) cleared() {
	if n.cuLab == nil {
		return // the driver was not opened
	}
	n.t.Helper()
	if n.sim != nil {
		n.until("everything is gone but what every lab has", func() bool {
			n.free()
			c := n.sim.Census()
			return len(c) == 2 && c["context"] == 1 && c["host memory"] == 1
		})
	}
	if l := n.reports(0); len(l) > 0 {
		n.t.Errorf("reports: %v", l)
	}
}

// until waits until f returns true.
func (n *nouns) until(what string, f func() bool) {
	n.t.Helper()
	for end := time.Now().Add(patience); !f(); {
		if time.Now().After(end) {
			n.t.Errorf("not after %v: %s", patience, what)
			return
		}
		n.settle()
		time.Sleep(time.Millisecond)
	}
}

// reports waits for a number of leak reports, and returns them as text.
func (n *nouns) reports(want int) []string {
	n.t.Helper()
	var words []string
	n.until(fmt.Sprintf("%d leaks are reported", want), func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.leaks) < want {
			return false
		}
		for _, l := range n.leaks {
			w := l.Kind
			if l.Abandoned {
				w += " abandoned"
			}
			if l.Err != nil {
				w += ": " + l.Err.Error()
			}
			words = append(words, w)
		}
		n.leaks = nil
		return true
	})
	slices.Sort(words)
	return words
}

// get returns v, or ends the test.
func get[T any](v T, err error) func(*nouns) T {
	return func(n *nouns) T {
		n.t.Helper()
		n.ok(err)
		return v
	}
}

// is expects an error.
func (n *nouns) is(what string, err error, want ...error) {
	n.t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			n.t.Errorf("%s: %v, want %v", what, err, w)
		}
	}
}

// status expects a status.
func (n *nouns) status(what string, e interface{ Query() (cu.Status, error) }, want cu.Status) {
	n.t.Helper()
	if st, err := e.Query(); st != want || err != nil {
		n.t.Errorf("%s: Query = %v, %v, want %v", what, st, err, want)
	}
}

func (n *nouns) device(i int) *cu.Device { n.t.Helper(); return get(n.drv.Device(i))(n) }

// streamOf returns a stream of a context. The stream is closed at the end.
func (n *nouns) streamOf(gpu *cu.Context) *cu.Stream {
	n.t.Helper()
	s := get(gpu.NewStream(cu.StreamNonBlocking))(n)
	n.closes(s)
	return s
}

// alive checks the number of events of a software driver. A waiter may be woken before the watcher
// releases its event, so alive waits while there are too many.
func (n *nouns) alive(what string, want int) {
	n.t.Helper()
	if n.sim == nil {
		return
	}
	got := n.sim.Census()["event"]
	for late := time.Now().Add(patience); got > want && time.Now().Before(late); got = n.sim.Census()["event"] {
		time.Sleep(100 * time.Microsecond)
	}
	if got != want {
		n.t.Errorf("%s: %d CUevents are alive, want %d", what, got, want)
	}
}

// patient returns a context that ends if a test takes too long.
func (n *nouns) patient() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	n.t.Cleanup(cancel)
	return ctx
}

// beginErr makes a call that waits, on a thread of its own.
func (n *nouns) beginErr(call func() error) *waiter {
	return n.begin(func(driver.At) driver.Result {
		if err := call(); err != nil {
			n.t.Errorf("a call that waits: %v", err)
			return driver.ResultUnknown
		}
		return ok
	})
}
