package cu_test

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
	"weak"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// heldDriver is a Driver of its own, whose one stream is held, with a pending record.
type heldDriver struct {
	*Driver
	f   *fake
	gpu *Context
	s   *Stream
	e   *Event
}

func (f *fake) openHeld() *heldDriver {
	f.t.Helper()
	h := &heldDriver{Driver: Need(OpenNeverWait(WithLibrary(f.path), WithLeakHook(f.leak)))(f.t), f: f}
	f.loose = append(f.loose, weak.Make(h.Driver))
	h.gpu = Need(Need(h.Device(0))(f.t).PrimaryContext())(f.t)
	h.s = Need(h.gpu.NewStream(StreamNonBlocking))(f.t)
	h.e = Need(h.gpu.NewEvent(EventDisableTiming))(f.t)
	f.hold(h.s)
	f.ok(h.e.Record(h.s))
	return h
}

// waitUntil waits for the record, in vain, until a condition holds.
func (h *heldDriver) waitUntil(condition func(core.WaitCounts) bool) {
	h.f.t.Helper()
	ctx, cancel := context.WithCancel(h.f.t.Context())
	defer cancel()
	done := make(chan error)
	go func() { done <- h.e.Wait(ctx) }()
	if !soon(func() bool { return condition(core.Of(h.Driver).WaitCounts()) }) {
		h.f.t.Errorf("while somebody waits there are %+v", core.Of(h.Driver).WaitCounts())
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		h.f.t.Errorf("Wait: %v", err)
	}
}

func (h *heldDriver) close() {
	h.f.t.Helper()
	h.f.release(h.s)
	if err := errors.Join(h.e.Close(), h.s.Close(), h.gpu.Close()); err != nil {
		h.f.t.Error(err)
	}
	h.end(core.Of(h.Driver).WaitCounts().Wakeups)
}

// end frees what waits to be freed, so that no context is left, unless streams have yet to wake: the watcher may
// let go of a record later than all is closed.
func (h *heldDriver) end(wakeups int) {
	h.f.t.Helper()
	if !soon(func() bool {
		h.Driver.Close()
		core.Of(h.Driver).Mu.Lock()
		defer core.Of(h.Driver).Mu.Unlock()
		return len(core.Of(h.Driver).Contexts) == 0 || wakeups > 0
	}) {
		h.f.t.Errorf("a driver of which all is closed has %+v", h.Stats())
	}
}

// TestFilesOfDrivers opens drivers, waits once, and closes them, while nothing is collected: a driver for which
// nobody waits has no files open, also if streams have yet to wake those who waited.
func TestFilesOfDrivers(t *testing.T) {
	r := newRig(t) // it keeps the device's context, whose end waits for its work
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	use := func(drivers int, condition func(core.WaitCounts) bool) []*heldDriver {
		all := make([]*heldDriver, drivers)
		for i := range all {
			all[i] = r.openHeld()
			all[i].waitUntil(condition)
			all[i].close()
		}
		return all
	}
	waits := func(n core.WaitCounts) bool { return n.Waits == 1 && n.Descriptors > 0 }
	wakes := func(n core.WaitCounts) bool { return waits(n) && n.Wakeups > 0 }
	idle := func(what string, all []*heldDriver, files, wakeups, pages int) {
		t.Helper()
		var n core.WaitCounts
		if !soon(func() bool {
			n = core.WaitCounts{}
			for _, h := range all {
				c := core.Of(h.Driver).WaitCounts()
				n.Waits += c.Waits
				n.Wakeups += c.Wakeups
				n.Descriptors += c.Descriptors
				n.Pages += c.Pages
			}
			return n == core.WaitCounts{Wakeups: wakeups, Pages: pages} && OpenFiles() <= files
		}) {
			t.Errorf("%s: %d drivers have %+v, want %d wake-ups and %d pages; %d files are open, and %d were",
				what, len(all), n, wakeups, pages, OpenFiles(), files)
		}
	}
	idle("what is opened once and stays", use(1, waits), OpenFiles()+20, 0, 0)
	files := OpenFiles()
	idle("nobody waits", use(100, waits), files, 0, 0)

	// Streams wake them only now, long after they were closed.
	const outstanding = 10
	r.tell("fake_hold_calls", 1)
	all := use(outstanding, wakes)
	idle("streams have yet to wake", all, files, outstanding, outstanding)
	if n := r.ask("fake_hold_calls", 0); n != outstanding {
		t.Errorf("%d streams had yet to wake, want %d", n, outstanding)
	}
	idle("streams have woken nobody", all, files, 0, 0)

	// They can be used again.
	for _, h := range all {
		again := Need(Need(h.Device(0))(t).PrimaryContext())(t)
		s := Need(again.NewStream(StreamNonBlocking))(t)
		e := Need(again.NewEvent(EventDisableTiming))(t)
		r.hold(s)
		r.ok(e.Record(s))
		done := make(chan error)
		go func() { done <- e.Wait(t.Context()) }()
		if !soon(func() bool { return waits(core.Of(h.Driver).WaitCounts()) }) {
			t.Errorf("after Close somebody waits with %+v", core.Of(h.Driver).WaitCounts())
		}
		r.release(s)
		r.ok(<-done)
		r.ok(errors.Join(e.Close(), s.Close(), again.Close()))
		h.end(0)
	}
	idle("nobody waits again", all, files, 0, 0)
}

// TestLateWakeUps lets drivers be collected which streams have yet to wake.
func TestLateWakeUps(t *testing.T) {
	r := newRig(t)
	const outstanding = 5
	r.tell("fake_hold_calls", 1)
	var collected [outstanding]chan struct{}
	for i := range collected {
		done := make(chan struct{})
		collected[i] = done
		h := r.openHeld()
		h.waitUntil(func(n core.WaitCounts) bool { return n.Wakeups > 0 })
		h.close()
		runtime.AddCleanup(h.Driver, func(done chan struct{}) { close(done) }, done)
	}
	for i, done := range collected {
		if !Eventually(func() bool {
			select {
			case <-done:
				return true
			default:
				return false
			}
		}) {
			t.Errorf("driver %d is not collected", i)
		}
	}
	r.collect()
	if n := r.ask("fake_hold_calls", 0); n != outstanding { // it would crash in memory that is gone
		t.Errorf("%d streams had yet to wake, want %d", n, outstanding)
	}
	r.collect()
}
