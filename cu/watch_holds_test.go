package cu_test

import (
	"context"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// soon waits for a condition. Unlike Eventually it collects no garbage.
func soon(condition func() bool) bool {
	for late := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			return false
		}
	}
	return true
}

// TestWaitCounts counts who waits, in all ways.
func TestWaitCounts(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	streams, release := heldStreams(t, sim, gpu, 2)
	events := recordHeld(t, gpu, streams, 2)
	line := Need(gpu.NewTimeline(0))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make(chan error, 8)
	ways := []struct {
		name  string
		waits int
		begin func() (ended func())
	}{
		{"Event.Wait", 1, func() func() { go func() { errs <- events[0].Wait(ctx) }(); return func() { <-errs } }},
		{"Stream.Wait", 1, func() func() { go func() { errs <- streams[0].Wait(ctx) }(); return func() { <-errs } }},
		{"Timeline.Wait", 1, func() func() { go func() { errs <- line.Wait(ctx, 1) }(); return func() { <-errs } }},
		{"WaitAll", 2, func() func() { go func() { errs <- WaitAll(ctx, events...) }(); return func() { <-errs } }},
		{"WaitAny", 2, func() func() {
			go func() { _, err := WaitAny(ctx, events...); errs <- err }()
			return func() { <-errs }
		}},
		{"Ticket.Done", 1, func() func() { done := Need(events[1].Ticket())(t).Done(); return func() { <-done } }},
	}
	waits := func(want int, what string) {
		t.Helper()
		if !soon(func() bool { return core.Of(drv).WaitCounts().Waits == want }) {
			t.Errorf("%s: %d waits are counted, want %d", what, core.Of(drv).WaitCounts().Waits, want)
		}
	}
	waits(0, "nobody waits")
	n := 0
	var ends []func()
	for _, w := range ways {
		ends = append(ends, w.begin())
		n += w.waits
		waits(n, w.name)
	}
	cancel()
	for _, ended := range ends[:len(ends)-1] {
		ended()
	}
	waits(1, "all but the ticket have ended")
	release()
	ends[len(ends)-1]()
	waits(0, "all have ended")
	closeAll(t, events)
	closeAll(t, streams)
	closeAll(t, []*Timeline{line})
}
