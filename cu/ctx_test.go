package cu_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestCreatedContext creates contexts beside the primary one, with drivers of
// two ages: no thread's stack of contexts changes, and they are destroyed when all that is in
// them is closed, by the next call that may wait.
func TestCreatedContext(t *testing.T) {
	for version, create := range map[int]string{12080: "cuCtxCreate_v4", 12040: "cuCtxCreate_v2"} {
		t.Run(create, func(t *testing.T) {
			f := newFake(t)
			f.tell("fake_version", version)
			drv := f.open()
			dev := Need(drv.Device(1))(t)
			var gpu *Context
			if n := f.asked(create, func() { gpu = Need(dev.NewContext(ContextSchedYield))(t) }); n != 1 {
				t.Errorf("%d: %s was called %d times", version, create, n)
			}
			if n := int(f.ask("fake_depth")); n != 0 {
				t.Errorf("%d: a context is left current", version)
			}
			primary := f.context(drv, 1)
			if gpu.Handle() == primary.Handle() || gpu.Device() != dev || Need(gpu.ID())(t) == Need(primary.ID())(t) {
				t.Errorf("%d: it is the primary context", version)
			}
			if flags := Need(gpu.Flags())(t); flags != ContextSchedYield {
				t.Errorf("%d: Flags = %v", version, flags)
			}
			s, e := f.stream(gpu), f.event(primary, 0)
			if err := e.Record(s); !errors.Is(err, ErrContextMismatch) {
				t.Errorf("%d: an event of another context of the device: %v", version, err)
			}
			f.ok(gpu.Close())
			f.ok(gpu.Close())
			if f.census(kindContext) != 2 {
				t.Errorf("%d: it was destroyed before its stream", version)
			}
			if _, err := gpu.Flags(); !errors.Is(err, ErrClosed) {
				t.Errorf("%d: Flags of a closed context: %v", version, err)
			}
			f.ok(s.Close())
			if f.census(kindContext) != 2 {
				t.Errorf("%d: it was destroyed by a call that does not wait", version)
			}
			f.ok(e.Close())
			f.ok(primary.Close())
			if f.census(kindContext) != 0 || f.relaxed("cuCtxDestroy_v2") != 1 {
				t.Errorf("%d: it was not destroyed with the device's next Context, or not in relaxed mode", version)
			}
		})
	}
}

func TestCreatedContextFails(t *testing.T) {
	f := newFake(t)
	dev := Need(f.open().Device(0))(t)
	for _, flags := range []ContextFlags{1 << 9, ContextSchedSpin | ContextSchedYield} {
		if _, err := dev.NewContext(flags); !errors.Is(err, ResultInvalidValue) || f.calls("cuCtxCreate_v4") != 0 {
			t.Errorf("flags %v: %v", flags, err)
		}
		if err := dev.SetPrimaryContextFlags(flags); !errors.Is(err, ResultInvalidValue) {
			t.Errorf("primary flags %v: %v", flags, err)
		}
	}
	f.fail("cuCtxCreate_v4", 0, ResultOutOfMemory) // always
	if _, err := dev.NewContext(0); !errors.Is(err, ResultOutOfMemory) {
		t.Errorf("a failing driver: %v", err)
	}
	f.fail("cuCtxCreate_v4", -1, 0)
	// What was created already is destroyed.
	f.fail("cuCtxGetId", 1, ResultUnknown)
	if _, err := dev.NewContext(0); !errors.Is(err, ResultUnknown) || f.census(kindContext) != 0 || f.ask("fake_depth") != 0 {
		t.Errorf("a context without an id: %v, %d left", err, f.census(kindContext))
	}
	// One that nobody closes is found.
	Need(dev.NewContext(0))(t)
	if diff := cmp.Diff([]string{"context abandoned"}, f.leaked(1)); diff != "" {
		t.Errorf("leaks (-want +got):\n%s", diff)
	}
}

func TestContextState(t *testing.T) {
	f := newFake(t)
	drv := f.open()
	dev := Need(drv.Device(0))(t)
	state := func(wantFlags ContextFlags, wantActive bool) {
		t.Helper()
		if flags, active, err := dev.PrimaryContextState(); flags != wantFlags || active != wantActive || err != nil {
			t.Errorf("state %v, %v, %v; want %v, %v", flags, active, err, wantFlags, wantActive)
		}
	}
	state(0, false)
	f.ok(dev.SetPrimaryContextFlags(ContextSchedBlockingSync))
	gpu := f.context(drv, 0)
	state(ContextSchedBlockingSync, true)
	if flags := Need(gpu.Flags())(t); flags != ContextSchedBlockingSync {
		t.Errorf("Flags = %v", flags)
	}
	if least, greatest, err := gpu.PriorityRange(); least != 0 || greatest != -5 || err != nil {
		t.Errorf("PriorityRange = %d, %d, %v", least, greatest, err)
	}
	if free, total, err := gpu.MemInfo(); free != 1<<33 || total != 1<<34 || err != nil {
		t.Errorf("MemInfo = %d, %d, %v", free, total, err)
	}
	if v := Need(gpu.APIVersion())(t); v != 3020 {
		t.Errorf("APIVersion = %d", v)
	}
	f.ok(gpu.SetLimit(LimitStackSize, 4096))
	if n := Need(gpu.Limit(LimitStackSize))(t); n != 4096 {
		t.Errorf("Limit = %d", n)
	}
	if _, err := gpu.Limit(99); !errors.Is(err, ResultUnsupportedLimit) || !strings.Contains(err.Error(), "no such limit") {
		t.Errorf("an unknown limit: %v", err)
	}
	f.ok(gpu.Close())
	state(ContextSchedBlockingSync, false)
	if n := f.ask("fake_depth"); n != 0 {
		t.Errorf("%d contexts are left current", n)
	}
}

// TestDo looks at the thread that Do holds.
func TestDo(t *testing.T) {
	f := newFake(t)
	drv := f.open()
	a, b := f.context(drv, 0), f.context(drv, 1)
	current := func() uintptr { t.Helper(); return Need(drv.CurrentContext())(t) }
	e := f.event(a, 0)

	runtime.LockOSThread() // to see what is left
	defer runtime.UnlockOSThread()
	var kept *Thread
	var ptds *Stream
	f.ok(a.Do(func(th *Thread) error {
		if current() != a.Handle() || Need(th.CurrentContext())(t) != a.Handle() {
			t.Error("the context is not current")
		}
		f.ok(b.Do(func(*Thread) error {
			if current() != b.Handle() {
				t.Error("the inner context is not current")
			}
			return nil
		}))
		if current() != a.Handle() {
			t.Error("the context is not current again")
		}
		kept, ptds = th, Need(th.DefaultStream())(t)
		if again := Need(th.DefaultStream())(t); again != ptds {
			t.Error("the thread has two default streams")
		}
		f.ok(e.Record(ptds))
		if on := f.ask("fake_recorded_on", rawEvent(e)); on != 2 {
			t.Errorf("the event was recorded on a stream of kind %d", on)
		}
		st, err := ptds.Query()
		if st != Complete || err != nil {
			t.Errorf("Query = %v, %v", st, err)
		}
		f.ok(ptds.Synchronize())
		return a.Close() // it stays until Do ends
	}))
	if current() != 0 {
		t.Error("a context is left current")
	}
	if _, err := kept.DefaultStream(); !errors.Is(err, ErrClosed) {
		t.Errorf("DefaultStream after Do: %v", err)
	}
	if err := e.Record(ptds); !errors.Is(err, ErrClosed) {
		t.Errorf("the thread's stream after Do: %v", err)
	}
	f.ok(ptds.Close())

	// Its own errors.
	sentinel := errors.New("f's own")
	if err := b.Do(func(*Thread) error { return sentinel }); err != sentinel {
		t.Errorf("f's error came back as %v", err)
	}
	if err := b.Do(nil); !errors.Is(err, ErrNil) {
		t.Errorf("a nil function: %v", err)
	}
	if err := a.Do(func(*Thread) error { t.Error("f was called"); return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed context: %v", err)
	}
	f.fail("cuCtxPushCurrent_v2", 1, ResultUnknown)
	if err := b.Do(func(*Thread) error { t.Error("f was called"); return nil }); !errors.Is(err, ResultUnknown) {
		t.Errorf("a failing driver: %v", err)
	}
	func() {
		defer func() {
			if p := recover(); p != "f's own" || current() != 0 {
				t.Errorf("after a panic: %v, context %#x", p, current())
			}
		}()
		b.Do(func(*Thread) error { panic("f's own") })
	}()
}

// TestDoEndsCaptures leaves a failed capture of the thread's default stream in Do.
func TestDoEndsCaptures(t *testing.T) { threadEnds(t, NewSoft(t).GPU) }

// TestDoUnbalanced lets the function leave another context current: the thread
// dies with its goroutine.
func TestDoUnbalanced(t *testing.T) {
	f := newFake(t)
	drv := f.open()
	a, b := f.context(drv, 0), f.context(drv, 1)
	set := Need(drv.Proc("cuCtxSetCurrent"))(t)
	for name, other := range map[string]uintptr{"another": b.Handle(), "none": 0} {
		done := make(chan error)
		go func() {
			// The depth is the sum of all threads'; this one takes its own along.
			done <- a.Do(func(*Thread) error {
				_, err := set.Call(other)
				return err
			})
		}()
		err := <-done
		if !errors.Is(err, ResultInvalidContext) || (other != 0 && !errors.Is(err, ErrUnbalanced)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := f.ask("fake_depth"); n != 0 {
		t.Errorf("%d contexts are left current", n)
	}
}

// TestWrapContext wraps contexts that others own.
func TestWrapContext(t *testing.T) {
	f := newFake(t)
	drv := f.open()
	own := Need(Need(drv.Device(1))(t).NewContext(0))(t)
	id := Need(own.ID())(t)

	wrapped := Need(drv.WrapContext(own.Handle()))(t)
	if wrapped.Device() != own.Device() || Need(wrapped.ID())(t) != id {
		t.Error("it is another context")
	}
	s, e := f.stream(wrapped), f.event(own, 0)
	f.ok(e.Record(s)) // one context, whoever it came from
	f.ok(s.Close())
	f.ok(wrapped.Close())
	if f.census(kindContext) != 1 {
		t.Error("closing the wrapper destroyed the context")
	}
	if _, err := drv.WrapContext(0); !errors.Is(err, ErrNil) {
		t.Errorf("handle 0: %v", err)
	}

	// A claim takes over from a wrapper.
	f.ok(e.Close())
	f.ok(own.Close())
	table := core.Of(drv).Table()
	raw, _ := table.DevicePrimaryCtxRetain(driver.At{}, 2)
	wrapped = Need(drv.WrapContext(uintptr(raw)))(t)
	primary := f.context(drv, 2)
	if core.Of(wrapped).Context != core.Of(primary).Context {
		t.Fatal("there are two cores for one context")
	}
	table.DevicePrimaryCtxRelease(driver.At{}, 2) // the foreign claim
	f.ok(primary.Close())
	f.ok(wrapped.Close())
	if f.census(kindContext) != 0 {
		t.Error("the primary context is still retained")
	}
}

func TestPeerAccess(t *testing.T) {
	f := newFake(t)
	drv := f.open()
	a, b := f.context(drv, 0), f.context(drv, 1)
	s := f.stream(a)
	far := f.memory(b, 16)
	axpy := Need(f.module(a).Function("axpy"))(t)
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	launch := func() error { return axpy.Launch(s, one, Ptr(far), F32(1), U64(1)) }
	if err := launch(); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("without access: %v", err)
	}
	f.ok(a.EnablePeerAccess(b))
	f.ok(a.EnablePeerAccess(b)) // it is enabled already
	f.ok(launch())
	f.ok(a.DisablePeerAccess(b))
	f.ok(a.DisablePeerAccess(b))
	if err := launch(); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("after access: %v", err)
	}
	if err := a.EnablePeerAccess(a); !errors.Is(err, ResultInvalidDevice) {
		t.Errorf("a context's access to itself: %v", err)
	}
	if err := a.EnablePeerAccess(f.context(f.open(), 1)); !errors.Is(err, ErrDriverMismatch) {
		t.Errorf("another driver's: %v", err)
	}
	f.ok(b.Close())
	if err := a.EnablePeerAccess(b); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed peer: %v", err)
	}
	f.ok(far.Close())
}
