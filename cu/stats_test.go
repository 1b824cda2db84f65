package cu_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
)

// TestStats follows the numbers of a driver through waits, timelines and what is deferred, and back.
func TestStats(t *testing.T) {
	if s := (*Driver)(nil).Stats(); s != (Stats{}) {
		t.Errorf("a nil driver has %+v", s)
	}
	r := newSoft(t) // with two streams, and so two wake-up streams
	if diff := cmp.Diff(Stats{WakeUpStreams: 2}, r.drv.Stats()); diff != "" {
		t.Fatalf("at first (-want +got):\n%s", diff)
	}
	line := need(r.gpu.NewTimeline(0))(t)
	r.ok(line.Block(r.s, 1))
	e := r.event(0)
	r.ok(e.Record(r.s))
	errs := make(chan error, 2)
	go func() { errs <- e.Wait(t.Context()) }()
	go func() { errs <- line.Wait(t.Context(), 1) }()
	if !eventually(func() bool { return r.drv.Stats().Waits == 2 }) {
		t.Errorf("%d waits, want two", r.drv.Stats().Waits)
	}
	forget := func() {
		need(r.gpu.Alloc(1000))(t)
		need(r.gpu.AllocHost(24, 0))(t)
		need(r.gpu.LoadModule([]byte(spinPTX)))(t)
		other := need(r.gpu.Device().NewContext(0))(t)
		e := need(other.NewEvent(0))(t)
		r.ok(errors.Join(other.Close(), e.Close()))
	}
	forget()
	if !eventually(func() bool { runtime.GC(); return r.drv.Stats().DeferredObjects == 3 }) {
		t.Errorf("%d objects are deferred, want 3", r.drv.Stats().DeferredObjects)
	}
	s := r.drv.Stats()
	if s.DeferredBytes != 1024 || s.AbandonedContexts != 1 || s.Timelines != 1 || s.UnfinishedTimelines != 0 {
		t.Errorf("while a stream is held: %+v", s)
	}
	r.ok(line.Set(1))
	r.ok(errors.Join(<-errs, <-errs, r.s.Synchronize(), line.Close(), r.drv.Close()))
	if !eventually(func() bool {
		s = r.drv.Stats()
		return cmp.Equal(s, Stats{WakeUpStreams: 2, Mappings: s.Mappings, WakeUps: s.WakeUps})
	}) {
		t.Errorf("in the end: %+v", s)
	}
}
