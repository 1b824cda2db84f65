package simnvml

import (
	"runtime"
	"testing"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

const anyEvent = raw.EventTypeXidCriticalError | raw.EventTypeDoubleBitEccError | raw.EventTypeSingleBitEccError

// newSet returns a set of events of GPUs.
func (b *bench) newSet(t *testing.T, kinds uint64, gpus ...raw.Device) (set raw.EventSet) {
	t.Helper()
	succeeds(t, b.EventSetCreate(&set))
	for _, d := range gpus {
		succeeds(t, b.DeviceRegisterEvents(d, kinds, set))
	}
	return set
}

// start waits for an event on another goroutine, and returns when the wait has begun.
func (b *bench) start(t *testing.T, set raw.EventSet, milliseconds uint32) (done chan raw.Return) {
	t.Helper()
	done = make(chan raw.Return, 1)
	go func() { done <- b.EventSetWaitV2(set, new(raw.EventData), milliseconds) }()
	eventually(t, "the wait", b.machine.waits)
	return done
}

// TestEventTimeout checks that a wait ends by the machine's time.
func TestEventTimeout(t *testing.T) {
	b := newBench(t, 1)
	set := b.newSet(t, anyEvent, b.gpus[0])
	returns(t, b.EventSetWait(set, new(raw.EventData), 0), raw.NVML_ERROR_TIMEOUT)
	done := b.start(t, set, 1000)
	b.machine.advance(999 * time.Millisecond)
	select {
	case r := <-done:
		t.Errorf("the wait ends early: %v", r)
	default:
	}
	b.machine.advance(time.Millisecond)
	returns(t, <-done, raw.NVML_ERROR_TIMEOUT)
}

// TestEventQueue checks that each set gets its events in their order.
func TestEventQueue(t *testing.T) {
	b := newBench(t, 2)
	all := b.newSet(t, anyEvent, b.gpus...)
	one := b.newSet(t, raw.EventTypeXidCriticalError, b.gpus[1])
	b.XID(0, 31)
	b.ECCErrors(1, 0, 2)
	b.XID(1, 48)
	want := func(set raw.EventSet, gpu int, kind, data uint64) {
		t.Helper()
		var e raw.EventData
		succeeds(t, b.EventSetWaitV2(set, &e, 0))
		if e != (raw.EventData{Device: b.gpus[gpu], EventType: kind, EventData: data, GpuInstanceId: none,
			ComputeInstanceId: none}) {
			t.Errorf("the event is %+v", e)
		}
	}
	want(one, 1, raw.EventTypeXidCriticalError, 48)
	want(all, 0, raw.EventTypeXidCriticalError, 31)
	want(all, 1, raw.EventTypeDoubleBitEccError, 0)
	want(all, 1, raw.EventTypeXidCriticalError, 48)
	for _, set := range []raw.EventSet{all, one} {
		returns(t, b.EventSetWaitV2(set, new(raw.EventData), 0), raw.NVML_ERROR_TIMEOUT)
	}
	for range mostEvents + 10 {
		b.XID(0, 1)
	}
	for range mostEvents {
		succeeds(t, b.EventSetWaitV2(all, new(raw.EventData), 0))
	}
	returns(t, b.EventSetWaitV2(all, new(raw.EventData), 0), raw.NVML_ERROR_TIMEOUT)
	returns(t, b.DeviceRegisterEvents(b.gpus[0], 1<<40, all), raw.NVML_ERROR_NOT_SUPPORTED)
}

// TestEventWait checks what ends a wait.
func TestEventWait(t *testing.T) {
	b := newBench(t, 1)
	set := b.newSet(t, anyEvent, b.gpus[0])
	for _, c := range []struct {
		what string
		act  func()
		want raw.Return
	}{
		{"event", func() { b.XID(0, 31) }, raw.NVML_SUCCESS},
		{"free", func() { b.EventSetFree(set) }, raw.NVML_ERROR_INVALID_ARGUMENT},
		{"shutdown", func() { b.Shutdown() }, raw.NVML_ERROR_INVALID_ARGUMENT},
	} {
		done := b.start(t, set, 1000)
		other := b.newSet(t, anyEvent, b.gpus[0])
		succeeds(t, b.EventSetFree(other)) // another set: the wait goes on
		c.act()
		if r := <-done; r != c.want {
			t.Errorf("%s: %v, want %v", c.what, r, c.want)
		}
		if c.what == "free" {
			returns(t, b.EventSetFree(set), raw.NVML_ERROR_INVALID_ARGUMENT)
			set = b.newSet(t, anyEvent, b.gpus[0])
		}
	}
	returns(t, b.EventSetWaitV2(set, new(raw.EventData), 0), raw.NVML_ERROR_UNINITIALIZED)
	returns(t, b.Shutdown(), raw.NVML_ERROR_UNINITIALIZED)
}

// TestStepDoesNotReturn checks that calls go on after a step of a script that panics, or ends its goroutine.
func TestStepDoesNotReturn(t *testing.T) {
	n := newBench(t, 1)
	for _, step := range []func(*NVML){func(*NVML) { panic("a step") }, func(*NVML) { runtime.Goexit() }} {
		n.After(time.Second, step)
		n.machine.advance(time.Second)
		ended := make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			n.catchUp()
		}()
		if got := <-ended; got != nil && got != "a step" {
			t.Errorf("a call panics with %v", got)
		}
		if next := n.catchUp(); !next.IsZero() {
			t.Errorf("a step is left, at %v", next)
		}
	}
}
