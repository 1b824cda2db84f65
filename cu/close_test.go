package cu_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/waits"
)

// permutations calls f with every order of 0 … n-1.
func permutations(n int, f func([]int)) {
	order := make([]int, 0, n)
	var choose func(left int)
	choose = func(left int) {
		if left == 0 {
			f(order)
			return
		}
		for i := range n {
			if used := func() bool {
				for _, j := range order {
					if i == j {
						return true
					}
				}
				return false
			}(); !used {
				order = append(order, i)
				choose(left - 1)
				order = order[:len(order)-1]
			}
		}
	}
	choose(n)
}

// TestCloseOrder closes a context and its children in every order, in short in one of seven. Each object
// is destroyed when it is closed, but the context, which goes last, with the stream that wakes the watcher: by the last
// Close, if that may wait, else by Driver.Close.
func TestCloseOrder(t *testing.T) {
	kinds := []int{kindContext, kindStream, kindEvent, kindModule, kindMemory}
	nth := 0
	permutations(len(kinds), func(order []int) {
		if nth++; testing.Short() && nth%7 != 0 {
			return
		}
		name := fmt.Sprint(order)
		f := newFake(t)
		drv := f.open()
		gpu := f.context(drv, 0)
		s := f.stream(gpu)
		objects := []io.Closer{gpu, s, f.event(gpu, 0), f.module(gpu), f.memory(gpu, 8)}
		f.ok(objects[2].(*Event).Record(s))
		left := f.all()
		if left != [kindCount]int{0, 1, 2, 1, 1, 0, 1, 0} {
			t.Fatalf("%s: census %v", name, left)
		}
		for i, k := range order {
			for range 2 {
				if err := objects[k].Close(); err != nil {
					t.Errorf("%s: Close: %v", name, err)
				}
			}
			if k != 0 {
				left[kinds[k]]--
			}
			last := i == len(order)-1
			if last && k != 1 && k != 2 { // a stream or an event waits for nothing
				left = [kindCount]int{}
			}
			if diff := cmp.Diff(left, f.all()); diff != "" {
				t.Errorf("%s: census after %d closes (-want +got):\n%s", name, i+1, diff)
			}
		}
		f.finish()
		for _, kind := range kinds {
			want := uint64(1)
			if kind == kindStream {
				want = 2
			}
			if n := f.ask("fake_destroyed", kind); n != want {
				t.Errorf("%s: %d objects of kind %d destroyed, want %d", name, n, kind, want)
			}
		}
		if got := f.leaked(0); got != nil {
			t.Errorf("%s: reports %v", name, got)
		}
	})
}

// TestClosedAnswersErrClosed calls everything on objects that were closed.
func TestClosedAnswersErrClosed(t *testing.T) {
	r := newRig(t)
	other := r.stream(r.gpu)
	good := r.event(r.gpu, 0)
	r.ok(good.Record(other))
	e, m, mem := r.event(r.gpu, 0), r.module(r.gpu), r.memory(r.gpu, 8)
	fn := Need(m.Function("axpy"))(t)
	noop := Need(r.module(r.gpu).Function("noop"))(t)
	axpy := Need(r.module(r.gpu).Function("axpy"))(t)
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	r.ok(e.Record(r.s))
	gpu2 := r.context(r.drv, 0)
	for _, c := range []io.Closer{e, r.s, m, mem, gpu2} {
		r.ok(c.Close())
	}
	for name, f := range map[string]func() error{
		"Record":              func() error { return e.Record(other) },
		"Record on":           func() error { return good.Record(r.s) },
		"RecordWithFlags":     func() error { return e.RecordWithFlags(other, 0) },
		"Record, zero Event":  func() error { return new(Event).Record(r.s) },
		"Query":               func() error { _, err := e.Query(); return err },
		"Synchronize":         e.Synchronize,
		"Wait":                func() error { return e.Wait(r.patient()) },
		"Ticket":              func() error { _, err := e.Ticket(); return err },
		"Since":               func() error { _, _, err := e.Since(good); return err },
		"Since, start":        func() error { _, _, err := good.Since(e); return err },
		"Elapsed":             func() error { _, err := Elapsed(r.patient(), good, e); return err },
		"WaitEvent":           func() error { return other.WaitEvent(e) },
		"WaitEvent on":        func() error { return r.s.WaitEvent(good) },
		"Stream.Query":        func() error { _, err := r.s.Query(); return err },
		"Stream.Synchronize":  r.s.Synchronize,
		"Launch on":           func() error { return noop.Launch(r.s, one) },
		"Launch":              func() error { return fn.Launch(other, one, Ptr(mem), U32(1), U64(1)) },
		"Launch with":         func() error { return axpy.Launch(other, one, Ptr(mem), U32(1), U64(1)) },
		"Function":            func() error { _, err := m.Function("noop"); return err },
		"CopyFrom":            func() error { return mem.CopyFrom([]byte{1}) },
		"CopyTo":              func() error { return mem.CopyTo([]byte{1}) },
		"NewEvent":            func() error { _, err := gpu2.NewEvent(0); return err },
		"NewStream":           func() error { _, err := gpu2.NewStream(0); return err },
		"Alloc":               func() error { _, err := gpu2.Alloc(1); return err },
		"LoadModule":          func() error { _, err := gpu2.LoadModule([]byte("fake")); return err },
		"Context.Synchronize": gpu2.Synchronize,
	} {
		n := r.ask("fake_all_calls")
		if err := f(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v; want %v", name, err, ErrClosed)
		}
		if r.ask("fake_all_calls") != n {
			t.Errorf("%s: the driver was called", name)
		}
	}
}

// TestCloseConcurrently closes things from many goroutines, beside calls.
func TestCloseConcurrently(t *testing.T) {
	r := newRig(t)
	r.tell("fake_spread", 1)
	for range 100 {
		s := Need(r.gpu.NewStream(0))(t)
		e := Need(r.gpu.NewEvent(0))(t)
		m := Need(r.gpu.Alloc(8))(t)
		gpu := Need(Need(r.drv.Device(1))(t).PrimaryContext())(t)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for _, c := range []io.Closer{s, e, m, gpu} {
			for range 3 {
				wg.Go(func() {
					<-start
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				})
			}
		}
		for _, f := range []func() error{
			func() error { return e.Record(s) },
			func() error { _, err := e.Query(); return err },
			func() error { return m.CopyTo(make([]byte, 8)) },
			func() error { _, err := gpu.NewEvent(0); return err },
			func() error { _, err := s.Query(); return err },
		} {
			wg.Go(func() {
				<-start
				if err := f(); err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
	}
}

// TestCloseBesideCalls closes an event while others call, over and over, so that
// the close comes at every point of a call.
func TestCloseBesideCalls(t *testing.T) {
	r := newRig(t)
	other := r.event(r.gpu, 0)
	r.ok(other.Record(r.s))
	for name, call := range map[string]func(*Event) error{
		"Record":      func(e *Event) error { return e.Record(r.s) },
		"Query":       func(e *Event) error { _, err := e.Query(); return err },
		"Synchronize": func(e *Event) error { return e.Synchronize() },
		"WaitEvent":   func(e *Event) error { return r.s.WaitEvent(e) },
		"Since":       func(e *Event) error { _, _, err := other.Since(e); return err },
		"Wait":        func(e *Event) error { return e.Wait(t.Context()) },
		"Ticket, Record": func(e *Event) error {
			ticket, err := e.Ticket()
			if err == nil {
				err = e.Record(r.s)
				TicketState(ticket).Settle(waits.ErrCollected)
			}
			return err
		},
	} {
		asks := name != "Record" && name != "Ticket, Record"
		for range rounds(2000) {
			e := Need(r.gpu.NewEvent(0))(t)
			r.ok(e.Record(r.s))
			if asks {
				// As of an event that others may record, completion is asked for
				// every time.
				EventOf(e).Slot.Load().SetBits(core.SlotExposed)
			}
			var wg sync.WaitGroup
			started := make(chan struct{})
			wg.Go(func() { // no more than one: the close must not have to wait for its turn
				r.ok(call(e))
				close(started)
				for {
					if err := call(e); errors.Is(err, ErrClosed) {
						return
					} else if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
				}
			})
			<-started
			r.ok(e.Close())
			wg.Wait()
		}
	}
}

// rounds returns n, or a tenth of it if tests should be short or are slow, as
// where goroutines that spin have to be preempted.
func rounds(n int) int {
	if testing.Short() || core.RaceEnabled || runtime.GOMAXPROCS(0) == 1 {
		return n/10 + 1
	}
	return n
}

// TestCloseDuringCall closes an object while a call on it is in the driver: the
// close returns, and the call's end destroys, or lets a later call do that if it may wait for the GPU.
func TestCloseDuringCall(t *testing.T) {
	for _, c := range []struct {
		fn   string
		kind int
		set  func(r *rig) (io.Closer, func() error)
	}{
		{"cuEventQuery", kindEvent, func(r *rig) (io.Closer, func() error) {
			e := r.event(r.gpu, 0)
			r.ok(e.Record(r.s))
			return e, func() error { _, err := e.Query(); return err }
		}},
		{"cuEventSynchronize", kindEvent, func(r *rig) (io.Closer, func() error) {
			e := r.event(r.gpu, 0)
			r.ok(e.Record(r.s))
			return e, e.Synchronize
		}},
		{"cuEventRecord", kindStream, func(r *rig) (io.Closer, func() error) {
			e := r.event(r.gpu, 0)
			return r.s, func() error { return e.Record(r.s) }
		}},
		{"cuStreamWaitEvent", kindStream, func(r *rig) (io.Closer, func() error) {
			e := r.event(r.gpu, 0)
			r.ok(e.Record(r.s))
			return r.s, func() error { return r.s.WaitEvent(e) }
		}},
		{"cuLaunchKernel", kindModule, func(r *rig) (io.Closer, func() error) {
			m := r.module(r.gpu)
			fn := Need(m.Function("noop"))(r.t)
			return m, func() error { return fn.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}) }
		}},
		{"cuMemcpyHtoD_v2", kindMemory, func(r *rig) (io.Closer, func() error) {
			m := r.memory(r.gpu, 8)
			return m, func() error { return m.CopyFrom(make([]byte, 8)) }
		}},
	} {
		t.Run(c.fn, func(t *testing.T) {
			r := newRig(t)
			object, call := c.set(r)
			n := r.census(c.kind)
			r.tell("fake_block", c.fn, 1, 1)
			done := make(chan error, 1)
			go func() { done <- call() }()
			r.tell("fake_await_blocked", c.fn, 1)
			r.ok(object.Close())
			if r.census(c.kind) != n {
				t.Error("it was destroyed while a call was in flight")
			}
			r.tell("fake_unblock", c.fn)
			r.ok(<-done)
			if c.kind == kindModule || c.kind == kindMemory {
				if r.census(c.kind) != n {
					t.Error("it was destroyed by a call that must not wait")
				}
				r.ok(r.gpu.Synchronize())
			}
			if r.census(c.kind) != n-1 {
				t.Errorf("%d objects left, want %d", r.census(c.kind), n-1)
			}
			destroys := map[int]string{
				kindEvent: "cuEventDestroy_v2", kindStream: "cuStreamDestroy_v2", kindModule: "cuModuleUnload", kindMemory: "cuMemFree_v2",
			}[c.kind]
			if r.relaxed(destroys) != 1 {
				t.Errorf("%s, which the library calls of its own accord, is not relaxed", destroys)
			}
		})
	}
}

// TestCloseContextDuringCreation closes a context while something is being
// created in it.
func TestCloseContextDuringCreation(t *testing.T) {
	f := newFake(t)
	gpu := f.context(f.open(), 0)
	f.tell("fake_block", "cuEventCreate", 1, 1)
	done := make(chan *Event, 1)
	go func() { done <- Need(gpu.NewEvent(0))(t) }()
	f.tell("fake_await_blocked", "cuEventCreate", 1)
	f.ok(gpu.Close())
	f.tell("fake_unblock", "cuEventCreate")
	e := <-done
	f.status(e, Complete)
	if f.census(kindContext) != 1 {
		t.Error("the context was released before its event")
	}
	f.ok(e.Close())
}

// TestSharedContext opens a device twice: it is one context, and is released
// with the last of what is open.
func TestSharedContext(t *testing.T) {
	f := newFake(t)
	drv := f.open()
	a, b := f.context(drv, 0), f.context(drv, 0)
	s, e := f.stream(a), f.event(b, 0)
	f.ok(e.Record(s))
	f.status(e, Complete)
	f.ok(a.Close())
	c := f.context(drv, 0)
	f.ok(f.event(c, 0).Record(s))
	f.ok(b.Close())
	f.ok(c.Close())
	if n := f.census(kindContext); n != 1 {
		t.Errorf("%d contexts, want 1", n)
	}
}

// TestReopenedContext opens a context again after its release: it has the same
// handle, and is another one.
func TestReopenedContext(t *testing.T) {
	for _, version := range []int{12080, 11080} { // cuCtxGetId came with 12.0
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			f := newFake(t)
			f.tell("fake_version", version)
			drv := f.open()
			a := f.context(drv, 0)
			s, e := f.stream(a), f.event(a, 0)
			f.ok(e.Record(s))
			for _, c := range []io.Closer{e, s, a} {
				f.ok(c.Close())
			}
			if !Eventually(func() bool { return f.census(kindContext) == 0 }) {
				t.Fatal("the context was not released")
			}
			b := f.context(drv, 0)
			if core.Of(a).Context.Raw != core.Of(b).Context.Raw {
				t.Error("the fake driver did not use the handle again")
			}
			if core.Of(a).Context == core.Of(b).Context {
				t.Error("the old context's core came back")
			}
			s2, e2 := f.stream(b), f.event(b, 0)
			f.ok(e2.Record(s2))
			f.status(e2, Complete)
			for name, err := range map[string]error{
				"new event, old stream": e2.Record(s),
				"old event, new stream": e.Record(s2),
				"wait":                  s2.WaitEvent(e),
				"since":                 func() error { _, _, err := e2.Since(e); return err }(),
				"new event, old one":    func() error { _, err := a.NewEvent(0); return err }(),
			} {
				if !errors.Is(err, ErrClosed) {
					t.Errorf("%s: %v; want %v", name, err, ErrClosed)
				}
			}
		})
	}
}

// TestOldContext looks at objects of a context whose handle has another
// context behind it by now, as after a reset behind this package's back.
func TestOldContext(t *testing.T) {
	r := newRig(t)
	e := r.event(r.gpu, 0)
	now := r.context(r.drv, 0)
	// As if cuCtxGetId had said something else.
	cc := &core.Context{ContextIdentity: core.Of(now).Context.ContextIdentity}
	cc.Users.Revive()
	sc := &core.Stream{Raw: core.Of(r.s).Raw}
	sc.Ctx = cc
	s := new(Stream)
	core.SetState(core.RefOf(s), sc, runtime.Cleanup{})
	err := e.Record(s)
	if !errors.Is(err, ErrContextMismatch) || !errors.Is(err, ResultInvalidHandle) {
		t.Errorf("Record: %v", err)
	}
	other := new(Event)
	core.InitEvent(core.EventRefOf(other), &core.Event{Ctx: cc})
	core.CreatedOwner(core.EventRefOf(other)).NoteClosed()
	EventOf(other).Slot.Store(&core.Slot{Event: EventOf(other)})
	cc.Users.Revive()
	if _, _, err := e.Since(other); !errors.Is(err, ErrContextMismatch) {
		t.Errorf("Since: %v", err)
	}
}

// TestAbandoned drops objects without closing them: they are destroyed and
// reported, once each.
func TestAbandoned(t *testing.T) {
	f := newFake(t)
	func() {
		gpu := Need(Need(f.open().Device(0))(t).PrimaryContext())(t)
		s := Need(gpu.NewStream(0))(t)
		e := Need(gpu.NewEvent(0))(t)
		f.ok(e.Record(s))
		f.ok(new(Event).Record(s))
		f.ok(Need(gpu.NewEvent(0))(t).Move().Record(s))
		m := Need(gpu.LoadModule([]byte("fake")))(t)
		Need(m.Function("noop"))(t)
		Need(gpu.Alloc(8))(t)
		closed := Need(gpu.NewEvent(0))(t)
		f.ok(closed.Close())
	}()
	if !f.freed(func() bool { return f.all() == [kindCount]int{} }) {
		t.Fatalf("left: %v", f.all())
	}
	if diff := cmp.Diff([]string{
		"context abandoned", "device memory abandoned", "event abandoned", "event abandoned", "event abandoned",
		"module abandoned", "stream abandoned",
	}, f.leaked(7)); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// TestFunctionKeepsModule drops a module, but not its kernel.
func TestFunctionKeepsModule(t *testing.T) {
	r := newRig(t)
	fn := Need(Need(r.gpu.LoadModule([]byte("fake")))(t).Function("noop"))(t)
	for range 5 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	r.ok(fn.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}))
	runtime.KeepAlive(fn)
}

// TestLateErrors lets deferred destructions fail: the hook hears of it, and
// nothing is tried again.
func TestLateErrors(t *testing.T) {
	r := newRig(t)
	e := Need(r.gpu.NewEvent(0))(t)
	raw := rawEvent(e)
	r.ok(e.Record(r.s))
	r.tell("fake_block", "cuEventQuery", 1, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Query()
	}()
	r.tell("fake_await_blocked", "cuEventQuery", 1)
	r.ok(e.Close())
	r.fail("cuEventDestroy_v2", 1, ResultUnknown)
	r.tell("fake_unblock", "cuEventQuery")
	<-done
	if n := r.calls("cuEventDestroy_v2"); n != 1 {
		t.Errorf("%d attempts to destroy", n)
	}
	if l := r.reports(1); len(l) != 1 || l[0].Kind != "event" || l[0].Abandoned || l[0].Handle != raw ||
		!errors.Is(l[0].Err, ResultUnknown) {
		t.Errorf("reports %+v", l)
	}
	r.ok(e.Close())

	e = Need(r.gpu.NewEvent(0))(t)
	raw2 := rawEvent(e)
	r.fail("cuEventDestroy_v2", 1, ResultUnknown)
	if err := e.Close(); !errors.Is(err, ResultUnknown) {
		t.Errorf("Close: %v", err)
	}
	r.ok(e.Close())
	if n := r.calls("cuEventDestroy_v2"); n != 2 {
		t.Errorf("%d attempts to destroy", n)
	}
	r.tell("fake_forgive", raw) // what the fault kept alive
	r.tell("fake_forgive", raw2)
}

// TestMove transfers an event.
func TestMove(t *testing.T) {
	r := newRig(t)
	r.hold(r.s)
	e := r.event(r.gpu, 0)
	r.ok(e.Record(r.s))
	raw := rawEvent(e)
	m := e.Move()
	r.status(e, Complete)
	r.status(m, Pending)
	if rawEvent(m) != raw {
		t.Error("another CUevent")
	}
	r.ok(e.Close()) // does nothing
	r.status(m, Pending)
	r.ok(e.Record(r.s)) // creates it anew
	if rawEvent(e) == raw {
		t.Error("the moved CUevent came back")
	}
	r.ok(e.Close())
	r.ok(m.Close())
	if _, err := m.Query(); !errors.Is(err, ErrClosed) {
		t.Errorf("Query: %v", err)
	}
	if st, err := (*Event)(nil).Move().Query(); st != Complete || err != nil {
		t.Errorf("nil moved: %v, %v", st, err)
	}
}

// TestZeroEventConcurrently records zero Events from many goroutines, and moves
// them away: one CUevent for each is left.
func TestZeroEventConcurrently(t *testing.T) {
	r := newRig(t)
	r.tell("fake_spread", 1)
	for range 200 {
		var e Event
		var moved sync.Map
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if i%2 == 0 {
					moved.Store(i, e.Move())
				} else if err := e.Record(r.s); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.ok(e.Close())
		moved.Range(func(_, m any) bool {
			r.ok(m.(*Event).Close())
			return true
		})
		if n := r.census(kindEvent); n != 0 {
			t.Fatalf("%d CUevents left", n)
		}
	}
	if got := r.leaked(0); got != nil {
		t.Errorf("reports %v", got)
	}
}

// TestZeroEvent creates an event with its first record.
func TestZeroEvent(t *testing.T) {
	r := newRig(t)
	var e Event
	if n := r.asked("cuEventCreate", func() {
		r.status(&e, Complete)
		r.ok(e.Synchronize())
		r.ok(e.Wait(r.patient()))
		r.ok(Need(e.Ticket())(t).Wait(r.patient()))
		r.ok(r.s.WaitEvent(&e))
		r.ok(e.Close())
	}); n != 0 {
		t.Error("created before the first record")
	}
	timed := r.event(r.gpu, 0)
	r.ok(timed.Record(r.s))
	since := func() {
		t.Helper()
		if _, _, err := timed.Since(&e); !errors.Is(err, ErrNotTimed) {
			t.Errorf("Since: %v", err)
		}
		if _, _, err := e.Since(timed); !errors.Is(err, ErrNotTimed) {
			t.Errorf("Since: %v", err)
		}
	}
	since()
	r.ok(e.Record(r.s))
	if f := e.Flags(); f != EventDisableTiming {
		t.Errorf("flags %v", f)
	}
	r.status(&e, Complete)
	since()
	other := r.stream(r.context(r.drv, 1))
	err := e.Record(other)
	if !errors.Is(err, ErrDeviceMismatch) || !errors.Is(err, ResultInvalidHandle) {
		t.Errorf("Record on another device: %v", err)
	}
	r.ok(other.WaitEvent(&e)) // GPU waits may cross
	r.ok(e.Close())
	if _, err := e.Query(); !errors.Is(err, ErrClosed) {
		t.Errorf("Query: %v", err)
	}
}

// TestLateGiveUp releases a context after another one, of the same device, has
// taken its place: that one stays.
func TestLateGiveUp(t *testing.T) {
	r := newRig(t)
	now := core.Of(r.gpu).Context
	if _, res := core.Of(r.drv).Table().DevicePrimaryCtxRetain(driver.At{}, now.Dev); res != 0 {
		t.Fatal(res)
	}
	old := &core.Context{ContextIdentity: now.ContextIdentity, Ownership: core.Ownership{Claim: core.Retained}}
	old.Users.Revive()
	r.ok(old.Release())
	if core.Of(r.drv).Contexts[now.Key] != now {
		t.Error("the context lost its place to one that went before it")
	}
	if core.Of(r.context(r.drv, 0)).Context != now {
		t.Error("another Context of the device does not share the context")
	}

	far := r.context(r.drv, 1)
	r.ok(far.Close())
	if core.Of(r.drv).Contexts[core.Of(far).Context.Key] != nil {
		t.Error("a context that was released keeps its place")
	}
}

// TestCallsKeepObjects makes calls on objects that nothing else refers to.
// Collecting one would close it.
func TestCallsKeepObjects(t *testing.T) {
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	recorded := func(r *rig) *Event {
		e := Need(r.gpu.NewEvent(0))(r.t)
		r.ok(e.Record(r.s))
		return e
	}
	for _, c := range []struct {
		name string
		fn   string // where the call blocks
		kind string
		set  func(r *rig) (call func() error)
	}{
		{"Event.Record", "cuEventRecord", "event", func(r *rig) func() error {
			e := Need(r.gpu.NewEvent(0))(r.t)
			return func() error { return e.Record(r.s) }
		}},
		{"Event.Record on", "cuEventRecord", "stream", func(r *rig) func() error {
			e, s := r.event(r.gpu, 0), Need(r.gpu.NewStream(0))(r.t)
			return func() error { return e.Record(s) }
		}},
		{"Event.Query", "cuEventQuery", "event", func(r *rig) func() error {
			e := recorded(r)
			return func() error { _, err := e.Query(); return err }
		}},
		{"Event.Since", "cuEventElapsedTime_v2", "event", func(r *rig) func() error {
			start, stop := r.event(r.gpu, 0), recorded(r)
			r.ok(start.Record(r.s))
			return func() error { _, _, err := stop.Since(start); return err }
		}},
		{"Event.Since start", "cuEventElapsedTime_v2", "event", func(r *rig) func() error {
			start, stop := recorded(r), r.event(r.gpu, 0)
			r.ok(stop.Record(r.s))
			return func() error { _, _, err := stop.Since(start); return err }
		}},
		{"Elapsed", "cuEventElapsedTime_v2", "event", func(r *rig) func() error {
			start, stop := recorded(r), r.event(r.gpu, 0)
			r.ok(stop.Record(r.s))
			return func() error { _, err := Elapsed(r.patient(), start, stop); return err }
		}},
		{"Stream.WaitEvent", "cuStreamWaitEvent", "stream", func(r *rig) func() error {
			e, s := r.event(r.gpu, 0), Need(r.gpu.NewStream(0))(r.t)
			r.ok(e.Record(r.s))
			return func() error { return s.WaitEvent(e) }
		}},
		{"Stream.WaitEvent for", "cuStreamWaitEvent", "event", func(r *rig) func() error {
			e := recorded(r)
			return func() error { return r.s.WaitEvent(e) }
		}},
		{"Stream.Query", "cuStreamQuery", "stream", func(r *rig) func() error {
			s := Need(r.gpu.NewStream(0))(r.t)
			return func() error { _, err := s.Query(); return err }
		}},
		{"Stream.Synchronize", "cuStreamSynchronize", "stream", func(r *rig) func() error {
			return Need(r.gpu.NewStream(0))(r.t).Synchronize
		}},
		{"Context.Synchronize", "cuCtxSynchronize", "context", func(r *rig) func() error {
			return Need(r.gpu.Device().PrimaryContext())(r.t).Synchronize
		}},
		{"Context.NewEvent", "cuEventCreate", "context", func(r *rig) func() error {
			c := Need(r.gpu.Device().PrimaryContext())(r.t)
			return func() error { return Need(c.NewEvent(0))(r.t).Close() }
		}},
		{"DeviceMem.CopyTo", "cuMemcpyDtoH_v2", "device memory", func(r *rig) func() error {
			m := Need(r.gpu.Alloc(8))(r.t)
			return func() error { return m.CopyTo(make([]byte, 8)) }
		}},
		{"DeviceMem.CopyFrom", "cuMemcpyHtoD_v2", "device memory", func(r *rig) func() error {
			m := Need(r.gpu.Alloc(8))(r.t)
			return func() error { return m.CopyFrom(make([]byte, 8)) }
		}},
		{"Module.Function", "cuModuleGetFunction", "module", func(r *rig) func() error {
			m := Need(r.gpu.LoadModule([]byte("fake")))(r.t)
			return func() error { _, err := m.Function("noop"); return err }
		}},
		{"Function.Launch", "cuLaunchKernel", "module", func(r *rig) func() error {
			noop := Need(Need(r.gpu.LoadModule([]byte("fake")))(r.t).Function("noop"))(r.t)
			return func() error { return noop.Launch(r.s, one) }
		}},
		{"Function.Launch on", "cuLaunchKernel", "stream", func(r *rig) func() error {
			noop, s := Need(r.module(r.gpu).Function("noop"))(r.t), Need(r.gpu.NewStream(0))(r.t)
			return func() error { return noop.Launch(s, one) }
		}},
		{"Function.Launch with", "cuLaunchKernel", "device memory", func(r *rig) func() error {
			axpy, m := Need(r.module(r.gpu).Function("axpy"))(r.t), Need(r.gpu.Alloc(8))(r.t)
			return func() error { return axpy.Launch(r.s, one, Ptr(m), U32(1), U64(1)) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			done := make(chan error, 1)
			r.tell("fake_block", c.fn, 1, 1)
			func() {
				call := c.set(r)
				go func() { done <- call() }()
			}()
			r.tell("fake_await_blocked", c.fn, 1)
			left := r.all()
			r.collect()
			if got := r.leaked(0); got != nil || r.all() != left {
				t.Errorf("reported during the call: %v; objects %v, were %v", got, r.all(), left)
			}
			r.tell("fake_unblock", c.fn)
			r.ok(<-done)
			// If it was collected during the call, the call closed it without a word.
			if diff := cmp.Diff([]string{c.kind + " abandoned"}, r.leaked(1)); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLeakHookTakesLocks lets the leak hook need a lock that is held by whoever
// takes the last step, whose destruction fails: at once, or when what waits to be freed is.
func TestLeakHookTakesLocks(t *testing.T) {
	for _, c := range []struct {
		kind, fn, destroys string
		set                func(r *rig) (io.Closer, func() error)
	}{
		{"event", "cuEventQuery", "cuEventDestroy_v2", func(r *rig) (io.Closer, func() error) {
			e := Need(r.gpu.NewEvent(0))(r.t)
			r.ok(e.Record(r.s))
			return e, func() error { _, err := e.Query(); return err }
		}},
		{"stream", "cuStreamQuery", "cuStreamDestroy_v2", func(r *rig) (io.Closer, func() error) {
			s := Need(r.gpu.NewStream(0))(r.t)
			return s, func() error { _, err := s.Query(); return err }
		}},
		{"device memory", "cuMemcpyDtoH_v2", "cuMemFree_v2", func(r *rig) (io.Closer, func() error) {
			m := Need(r.gpu.Alloc(8))(r.t)
			return m, func() error { return m.CopyTo(make([]byte, 8)) }
		}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			f := newFake(t)
			var mu sync.Mutex
			reported := make(chan Leak, 1)
			drv := f.open(WithLeakHook(func(l Leak) {
				mu.Lock()
				defer mu.Unlock()
				reported <- l
			}))
			gpu := f.context(drv, 0)
			object, call := c.set(&rig{f, drv, gpu, f.stream(gpu)})
			done := make(chan error, 1)
			f.tell("fake_block", c.fn, 1, 1)
			go func() {
				mu.Lock()
				defer mu.Unlock()
				done <- errors.Join(call(), drv.Close())
			}()
			f.tell("fake_await_blocked", c.fn, 1)
			f.ok(object.Close())
			f.fail(c.destroys, 1, ResultUnknown)
			f.tell("fake_unblock", c.fn)
			select {
			case err := <-done:
				f.ok(err)
			case <-f.patient().Done():
				t.Fatal("the hook was called on the caller's goroutine, which holds a lock that it takes")
			}
			l := <-reported
			if l.Kind != c.kind || l.Abandoned || !errors.Is(l.Err, ResultUnknown) {
				t.Errorf("report %+v", l)
			}
			f.tell("fake_forgive", l.Handle) // what the fault kept alive
		})
	}
}
