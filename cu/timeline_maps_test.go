package cu_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/timelines"
)

// mappings counts the process's mappings of memory, or, where the timelines have Go's, or there is no way to know,
// the driver's.
func mappings(gpu *Context) int {
	drv := core.Of(gpu).Context.Drv
	n, known := mappingsOfProcess()
	if !known || drv.Table().Software() {
		return timelines.CountsOf(drv).Mappings
	}
	return n
}

// mappingsOfProcess counts the process's mappings of memory, where the operating system tells.
func mappingsOfProcess() (n int, known bool) {
	maps, err := os.ReadFile("/proc/self/maps")
	return bytes.Count(maps, []byte("\n")), err == nil
}

// TestGPUTimelineMappings opens and closes timelines while the garbage collector does not run, and others stay
// open: the process has a mapping for hundreds of them, and closed ones need none.
func TestGPUTimelineMappings(t *testing.T) {
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	before := mappings(gpu)
	const some = 2_000
	many := Fewer(100_000)
	for i := range many {
		tl := Need(gpu.NewTimeline(uint64(i)))(t)
		if v := tl.Value(); v != uint64(i) {
			t.Fatalf("timeline %d begins at %d", i, v)
		}
		err := tl.Set(uint64(i) + 1)
		switch i % 100 {
		case 0:
			err = errors.Join(err, tl.Signal(s, uint64(i)+2)) // and closes it at once
		case 50:
			err = errors.Join(err, tl.Signal(s, uint64(i)+2), tl.Wait(ctx, uint64(i)+2))
		}
		if err := errors.Join(err, tl.Close()); err != nil {
			t.Fatalf("timeline %d: %v", i, err)
		}
	}
	var open []*Timeline
	for i := range some {
		open = append(open, Need(gpu.NewTimeline(uint64(i)))(t))
	}
	if n := mappings(gpu) - before; n > 200 { // some are of Go's, and of the driver's threads
		t.Errorf("%d timelines that were closed, and %d that are open, have left %d mappings", many, some, n)
	}
	for i, tl := range open {
		if v := tl.Value(); v != uint64(i) {
			t.Errorf("timeline %d is at %d", i, v)
		}
		if err := tl.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Synchronize(); err != nil {
		t.Error(err)
	}
}

// TestDriverCloseUnmaps opens drivers that use a timeline in a context which another driver keeps, and closes them:
// nothing stays registered there, nor counted as mapped. What is read of a closed timeline afterwards is its last
// value.
func TestDriverCloseUnmaps(t *testing.T) {
	sim := cusim.New()
	open := func() (*Driver, *Context) {
		d := Need(Open(WithSoftware(sim)))(t)
		return d, Need(Need(d.Device(0))(t).PrimaryContext())(t)
	}
	others, kept := open()
	line := Need(kept.NewTimeline(0))(t)
	before := sim.Census()
	for i := range 3 {
		d, gpu := open()
		mine := Need(gpu.NewTimeline(7))(t)
		if err := errors.Join(mine.Close(), gpu.Close(), d.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, sim.Census()); diff != "" {
			t.Errorf("driver %d has left something (-want +got):\n%s", i, diff)
		}
		if n := d.Stats().Mappings; n != 0 || mine.Value() != 7 {
			t.Errorf("%d mappings are left, and the timeline is at %d", n, mine.Value())
		}
	}
	// The context is open, and so is the timeline.
	if err := others.Close(); err != nil || others.Stats().Mappings != 1 {
		t.Errorf("%v, %d mappings", err, others.Stats().Mappings)
	}
	if err := errors.Join(line.Close(), kept.Close(), others.Close()); err != nil {
		t.Error(err)
	}
	sim.Check(t)
}

// TestAbandonedTimelineOfSharedStream uses a timeline on a stream of a pool whose value is closed, before the timeline
// is collected: the stream can be asked whether the work is done as long as it is there.
func TestAbandonedTimelineOfSharedStream(t *testing.T) {
	r := NewSoft(t)
	s := Need(r.GPU.PoolStream(0))(t)
	line := Need(r.GPU.NewTimeline(0))(t)
	r.OK(errors.Join(line.Signal(s, 1), s.Close(), r.GPU.Synchronize()))
	TimelineCleanup(line).Stop()
	TimelineState(line).CloseAbandoned()
	if n := r.Drv.Stats().UnfinishedTimelines; n != 0 {
		t.Errorf("the work of %d timelines is not known to be done", n)
	}
}
