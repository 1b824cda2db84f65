package cu

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime/debug"
	"testing"
	"time"
)

// mappings counts the process's mappings of memory, or, where the timelines have Go's, or there is no way to know,
// the driver's.
func mappings(gpu *Context) int {
	drv := gpu.own.core.drv
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil || drv.table.Software() {
		return drv.timelineCounts().mappings
	}
	return bytes.Count(maps, []byte("\n"))
}

// TestGPUTimelineMappings opens and closes timelines while the garbage collector does not run, and others stay
// open: the process has a mapping for hundreds of them, and closed ones need none.
func TestGPUTimelineMappings(t *testing.T) {
	gpu := gpuContext(t)
	s := must(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	before := mappings(gpu)
	const many, some = 100_000, 2_000
	for i := range many {
		tl := must(gpu.NewTimeline(uint64(i)))(t)
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
		open = append(open, must(gpu.NewTimeline(uint64(i)))(t))
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
