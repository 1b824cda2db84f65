package cu_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestMoveRace exchanges three events, in a circle: each is somewhere all the time.
func TestMoveRace(t *testing.T) {
	r := NewSoft(t)
	events := [3]*Event{r.Event(0), r.Event(EventDisableTiming), r.Event(EventBlockingSync)}
	want := map[EventKey]int{}
	for _, e := range events {
		want[e.Key()] = 1
	}
	n := 1_000_000
	// with the checks of Go and of the order of locks each move takes far longer
	if testing.Short() || core.RaceEnabled {
		n = 10_000
	}
	var wg sync.WaitGroup
	for i, e := range events {
		for range 2 {
			wg.Go(func() {
				for range n {
					if err := e.MoveTo(events[(i+1)%3]); err != nil {
						t.Error(err)
					}
					if !e.Created() {
						t.Error("an event is gone")
						return
					}
				}
			})
		}
	}
	wg.Wait()
	got := map[EventKey]int{}
	for _, e := range events {
		got[e.Key()]++
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(EventKey{})); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}
