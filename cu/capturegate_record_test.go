package cu_test

import (
	"errors"
	"testing"
	"weak"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/capturegate"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// recordHook calls a function in each record.
type recordHook struct {
	Software driver.Software
	during   func()
}

func (d *recordHook) EventRecord(th *driver.Thread, e driver.Event, s driver.Stream) driver.Result {
	d.during()
	return d.Software.EventRecord(th, e, s)
}

// TestRecordsAtGate records on the legacy default stream: captures see the record while the driver
// checks it, and the record waits while a capture begins or ends.
func TestRecordsAtGate(t *testing.T) {
	soft := cusim.New()
	var gate *capturegate.Gate
	records := 0
	hook := &recordHook{soft.Software(), func() {
		if records++; !gate.Busy() || gate.IsShut() {
			t.Errorf("during a record busy: %v, shut: %v", gate.Busy(), gate.IsShut())
		}
	}}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(hook)))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	gate = &core.Of(gpu).Context.CaptureGate.Legacy
	legacy, second := Need(gpu.LegacyStream())(t), Need(gpu.LegacyStream())(t)
	e := Need(gpu.NewEvent(EventDisableTiming))(t)
	record := func(s *Stream) {
		t.Helper()
		if err := e.Record(s); err != nil {
			t.Error(err)
		}
	}
	record(legacy)
	record(second)
	if gate.Busy() {
		t.Error("records are in flight that have returned")
	}
	open := capturegate.Shut([]*capturegate.Gate{gate}, core.Of(drv).Table().Clock())
	done := make(chan struct{})
	go func() {
		defer close(done)
		record(legacy)
	}()
	waits := Eventually(func() bool {
		select {
		case <-done:
			return true
		default:
			return gate.Waiting()
		}
	})
	if !waits || records != 2 {
		t.Errorf("%d records were made, and one waits at the gate: %v", records, waits)
	}
	open()
	<-done
	closed := weak.Make(core.Of(second))
	if err := errors.Join(second.Close(), e.Close()); err != nil {
		t.Error(err)
	}
	if second = nil; !Eventually(func() bool { return closed.Value() == nil }) {
		t.Error("the gate keeps a stream that is closed")
	}
	if err := errors.Join(legacy.Close(), gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
	if records != 3 {
		t.Errorf("%d records were made", records)
	}
}

// TestTracerAddedDuringRecord adds a tracer, and closes the event, during a record on the legacy default stream. The
// tracer is called when the record has left the gate, so that a capture in it waits for nothing.
func TestTracerAddedDuringRecord(t *testing.T) {
	hook := &recordHook{Software: cusim.New().Software()}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(hook)))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	gate := &core.Of(gpu).Context.CaptureGate.Legacy
	legacy, blocking := Need(gpu.LegacyStream())(t), Need(gpu.NewStream(StreamDefault))(t)
	for _, during := range []func(){func() {}, func() { legacy.Close() }} {
		e := Need(gpu.NewEvent(EventDisableTiming))(t)
		var remove func()
		traced := 0
		hook.during = func() {
			remove = trace.Add(drv, func(tr trace.Operation) {
				if tr.Op != trace.EventDestroy {
					return
				}
				if traced++; gate.Busy() {
					t.Error("the gate is busy while a tracer is called")
				}
				g, err := graph.Capture(blocking, graph.CaptureThreadLocal, func() error { return nil })
				if err = errors.Join(err, g.Close()); err != nil {
					t.Error(err)
				}
			})
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			during()
		}
		if err := e.Record(legacy); err != nil {
			t.Error(err)
		}
		if remove(); traced != 1 {
			t.Errorf("the tracer was called %d times", traced)
		}
	}
	NoErr(t, errors.Join(blocking.Close(), gpu.Close(), drv.Close()))
}

// TestRecordsOfOtherDriver records on the legacy default stream of a context that another Driver
// uses, too: captures of that Driver see the record.
func TestRecordsOfOtherDriver(t *testing.T) {
	r := newRig(t)
	gate := &core.Of(r.gpu).Context.CaptureGate.Legacy
	gpu := r.context(r.open(), 0)
	legacy, e := Need(gpu.LegacyStream())(t), r.event(gpu, EventDisableTiming)
	goOn := r.blocked("cuEventRecord", func() error { return e.Record(legacy) })
	if !gate.Busy() {
		t.Error("the other Driver does not see the record")
	}
	if goOn(); gate.Busy() {
		t.Error("the other Driver sees a record that has returned")
	}
	cc := weak.Make(core.Of(legacy)) // which gate must not keep
	if legacy = nil; !Eventually(func() bool { return cc.Value() == nil }) {
		t.Error("the gate keeps a stream that was abandoned")
	}
}
