package cu_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestStats follows the numbers of a driver through waits, timelines and what is deferred, and back.
func TestStats(t *testing.T) {
	if s := (*Driver)(nil).Stats(); s != (Stats{}) {
		t.Errorf("a nil driver has %+v", s)
	}
	r := NewSoft(t) // with two streams, and so two wake-up streams
	if diff := cmp.Diff(Stats{WakeUpStreams: 2}, r.Drv.Stats()); diff != "" {
		t.Fatalf("at first (-want +got):\n%s", diff)
	}
	line := Need(r.GPU.NewTimeline(0))(t)
	r.OK(line.Block(r.S, 1))
	e := r.Event(0)
	r.OK(e.Record(r.S))
	errs := make(chan error, 2)
	go func() { errs <- e.Wait(t.Context()) }()
	go func() { errs <- line.Wait(t.Context(), 1) }()
	if !Eventually(func() bool { return r.Drv.Stats().Waits == 2 }) {
		t.Errorf("%d waits, want two", r.Drv.Stats().Waits)
	}
	forget := func() {
		Need(r.GPU.Alloc(1000))(t)
		Need(r.GPU.AllocHost(24, 0))(t)
		Need(r.GPU.LoadModule([]byte(SpinPTX)))(t)
		other := Need(r.GPU.Device().NewContext(0))(t)
		e := Need(other.NewEvent(0))(t)
		r.OK(errors.Join(other.Close(), e.Close()))
	}
	forget()
	if !Eventually(func() bool { runtime.GC(); return r.Drv.Stats().DeferredObjects == 3 }) {
		t.Errorf("%d objects are deferred, want 3", r.Drv.Stats().DeferredObjects)
	}
	s := r.Drv.Stats()
	if s.DeferredBytes != 1024 || s.AbandonedContexts != 1 || s.Timelines != 1 || s.UnfinishedTimelines != 0 {
		t.Errorf("while a stream is held: %+v", s)
	}
	r.OK(line.Set(1))
	r.OK(errors.Join(<-errs, <-errs, r.S.Synchronize(), line.Close(), r.Drv.Close()))
	if !Eventually(func() bool {
		s = r.Drv.Stats()
		return cmp.Equal(s, Stats{WakeUpStreams: 2, Mappings: s.Mappings, WakeUps: s.WakeUps})
	}) {
		t.Errorf("in the end: %+v", s)
	}
}
