package nvml_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// A set that nobody refers to is freed, but not during a wait.
func TestUnusedSetIsFreed(t *testing.T) {
	e, lib, set := stage(t, nil)
	e.happen(1, 1)
	go func() {
		for range 5 {
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
		}
		e.happen(1, 2)
	}()
	if ev, err := set.Wait(t.Context()); ev.Data != 1 || err != nil {
		t.Error(ev, err)
	}
	if ev, err := set.Wait(t.Context()); ev.Data != 2 || err != nil { // the last use of set
		t.Error(ev, err)
	}
	eventually(t, "nvmlEventSetFree", func() bool {
		runtime.GC()
		return e.sets.Load() == 0
	})
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "nvmlShutdown", func() bool { return e.shutdowns.Load() == 1 })
}

// Every event reaches one waiter, whatever waits do meanwhile, and Close ends everything.
func TestEventsRace(t *testing.T) {
	const events = 2000
	e, lib, set := stage(t, nil)
	dev, _ := lib.Device(0)
	var seen [events]atomic.Int32
	var left atomic.Int32
	left.Store(events)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(200))*time.Microsecond)
				ev, err := set.Wait(ctx)
				cancel()
				switch {
				case err == nil:
					if seen[ev.Data].Add(1); left.Add(-1) == 0 {
						lib.Close()
					}
				case errors.Is(err, nvml.ErrClosed):
					return
				case !errors.Is(err, context.DeadlineExceeded):
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for !errors.Is(set.Add(dev.WithTimeout(time.Millisecond), nvml.EventXIDCritical), nvml.ErrClosed) {
			time.Sleep(time.Millisecond)
		}
	})
	wg.Go(func() {
		for x := range uint64(events) {
			e.happen(1, x)
			if x%50 == 0 {
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			}
		}
	})
	wg.Wait()
	for x := range seen {
		if n := seen[x].Load(); n != 1 {
			t.Errorf("event %d was returned %d times", x, n)
		}
	}
	eventually(t, "nvmlShutdown", func() bool { return e.shutdowns.Load() == 1 })
}

// Sets that are made while the library is closed do not outlive it.
func TestNewEventSetRacesWithClose(t *testing.T) {
	for range 300 {
		e := &eventful{t: t, queue: make(chan raw.EventData)}
		lib, err := nvml.Open(nvml.WithSoftware(e))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				set, err := lib.NewEventSet()
				if err == nil {
					set.Close()
				} else if !errors.Is(err, nvml.ErrClosed) {
					t.Error(err)
				}
			})
		}
		wg.Go(func() { lib.Close() })
		wg.Wait()
		eventually(t, "nvmlShutdown", func() bool { return e.sets.Load() == 0 && e.shutdowns.Load() == 1 })
	}
}
