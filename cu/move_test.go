package cu

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhileMoving asks for what an event is while it is being moved.
func TestWhileMoving(t *testing.T) {
	r := newSoft(t)
	e := r.event(EventBlockingSync)
	was := e.owner.Load()
	for _, c := range []struct {
		was     *eventOwner
		flags   EventFlags
		created bool
	}{{nil, EventDisableTiming, false}, {&eventOwner{lazy: EventExternal}, EventExternal, false}, {was, EventBlockingSync, true}} {
		e.owner.Store(&eventOwner{moving: true, was: c.was})
		if e.Flags() != c.flags || e.Created() != c.created {
			t.Errorf("flags %v, created %v; want %v, %v", e.Flags(), e.Created(), c.flags, c.created)
		}
	}
	e.owner.Store(was)
}

// TestMoveRace exchanges three events, in a circle: each is somewhere all the time.
func TestMoveRace(t *testing.T) {
	r := newSoft(t)
	events := [3]*Event{r.event(0), r.event(EventDisableTiming), r.event(EventBlockingSync)}
	want := map[EventKey]int{}
	for _, e := range events {
		want[e.Key()] = 1
	}
	n := 1_000_000
	if testing.Short() {
		n = 100_000
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
