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
	"github.com/purecu/purecu/internal/driver"
)

// nouns is a lab whose driver package cu has opened, too.
type nouns struct {
	*lab
	drv *cu.Driver
	gpu *cu.Context
	// devices is how many devices a test uses: two, or one where there are no more.
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
			test(newNouns(t, tg))
		})
	}
}

// newNouns returns a lab with a driver of package cu, and its first device's primary
// context. Nobody may forget anything, unless the test asks for reports.
func newNouns(t *testing.T, tg target) *nouns {
	t.Helper()
	n := &nouns{lab: newLab(t, tg)}
	option := cu.WithLibrary(tg.Library)
	if n.sim != nil {
		option = cu.WithSoftware(n.sim)
	}
	n.drv = get(cu.Open(option, cu.WithLeakHook(func(l cu.Leak) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.leaks = append(n.leaks, l)
	})))(n)
	n.devices = min(2, get(n.drv.DeviceCount())(n))
	n.gpu = get(n.device(0).PrimaryContext())(n)
	t.Cleanup(func() { // before the lab's
		n.openAll()
		n.ok(n.gpu.Close())
		if l := n.reports(0); len(l) > 0 {
			t.Errorf("reports: %v", l)
		}
		n.cleared()
	})
	return n
}

// cleared waits until everything of package cu is gone, some of it in the background.
func (n *nouns) cleared() {
	n.t.Helper()
	if n.sim == nil {
		return
	}
	n.until("everything is gone but what every lab has", func() bool {
		c := n.sim.Census()
		return len(c) == 2 && c["context"] == 1 && c["host memory"] == 1
	})
}

// until waits for what comes by itself.
func (n *nouns) until(what string, f func() bool) {
	n.t.Helper()
	for end := time.Now().Add(patience); !f(); {
		if time.Now().After(end) {
			n.t.Fatalf("not after %v: %s", patience, what)
		}
		n.settle()
		time.Sleep(time.Millisecond)
	}
}

// reports waits for so many leaks, and returns them in words.
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
			if l.Forgotten {
				w += " forgotten"
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

// ok ends the test if err is not nil.
func (n *nouns) ok(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatalf("%v", err)
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

// newStream returns a stream, which is closed at the end.
func (n *nouns) newStream(gpu *cu.Context) *cu.Stream {
	n.t.Helper()
	s := get(gpu.NewStream(cu.StreamNonBlocking))(n)
	n.closes(s)
	return s
}

// closes closes something at the end, before the context.
func (n *nouns) closes(c interface{ Close() error }) {
	n.t.Cleanup(func() {
		n.openAll()
		n.ok(c.Close())
	})
}

// openAll opens the gates, as a test that has failed leaves them.
func (n *nouns) openAll() {
	for _, g := range n.gates {
		g.word.Store(1)
	}
	n.settle()
}

// holdUp makes a stream wait at a gate.
func (n *nouns) holdUp(s *cu.Stream) *gate { n.t.Helper(); return n.hold(driver.Stream(s.Handle())) }

// alive counts the events of a software driver; elsewhere it is as wanted.
func (n *nouns) alive(what string, want int) {
	n.t.Helper()
	if n.sim != nil {
		if got := n.sim.Census()["event"]; got != want {
			n.t.Errorf("%s: %d CUevents are alive, want %d", what, got, want)
		}
	}
}

// patient returns a context that ends when something took too long.
func (n *nouns) patient() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	n.t.Cleanup(cancel)
	return ctx
}

// beginErr makes a call that waits on a thread of its own.
func (n *nouns) beginErr(call func() error) *waiter {
	return n.begin(func(driver.At) driver.Result {
		if err := call(); err != nil {
			n.t.Errorf("a call that waits: %v", err)
			return driver.ResultUnknown
		}
		return ok
	})
}

// errs joins errors.
func errs(list ...error) error { return errors.Join(list...) }
