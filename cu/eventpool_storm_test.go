package cu_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	. "github.com/purecu/purecu/internal/testrig"
)

var (
	poolStormRounds = flag.Int("poolstorm", 20, "rounds of TestPoolStorm")
	poolStormOps    = flag.Int("poolstormops", 150, "events that each goroutine of TestPoolStorm acquires in a round")
)

// TestPoolStorm acquires, uses and releases events on many goroutines, with copies that are
// released by several at once, waits and tickets that outlive the release, ids, trims,
// creations that fail, and closes of the pool's shares: the last one at rest, or in the
// middle. No CUevent is in use twice at a time, a wait is for its own record, the statistics
// add up, and nothing is left.
func TestPoolStorm(t *testing.T) {
	for round := range *poolStormRounds {
		r := NewSoft(t)
		stuck := r.Stream()
		r.Hold(stuck) // a wait that got another's record on it never ends
		poolStorm(t, r, stuck, uint64(round), round%3 == 2)
		if t.Failed() {
			return
		}
	}
}

func poolStorm(t *testing.T, r *Soft, stuck *Stream, seed uint64, closing bool) {
	const workers = 6
	const length = 100 * time.Microsecond
	pool := Need(r.GPU.EventPool())(t)
	share := Need(r.GPU.EventPool())(t)
	var acquired, refused atomic.Int64
	var holders sync.Map // from CUevents
	var copies [2 * workers]atomic.Pointer[Pooled]
	var closed atomic.Bool
	patient, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// may reports whether a call succeeded. It may fail with these errors, and with ErrClosed
	// once the pool is being closed.
	may := func(what string, err error, allowed ...error) bool {
		if err == nil {
			return true
		}
		for _, a := range allowed {
			if errors.Is(err, a) {
				return false
			}
		}
		if !(closing && closed.Load() && errors.Is(err, ErrClosed)) {
			t.Errorf("%s: %v", what, err)
		}
		return false
	}
	live := make([]*Stream, workers)
	for i := range live {
		live[i] = r.Stream()
	}
	var waits, users, aside sync.WaitGroup
	stop := make(chan struct{})
	aside.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			pool.Trim()
			if i%2 == 0 {
				may("Trim's share", Need(r.GPU.EventPool())(t).Close())
			}
			if i%3 == 0 {
				r.Sim.Inject(cusim.Fault{Function: "cuEventCreate", Code: int(ResultOutOfMemory)})
			}
			pool.Stats()
			time.Sleep(50 * time.Microsecond)
		}
	})
	for w := range workers {
		users.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(w)))
			for range *poolStormOps {
				p, kind := []*EventPool{pool, share}[rnd.IntN(2)], []EventFlags{EventDisableTiming, EventDefault}[rnd.IntN(2)]
				e, err := p.Acquire(kind)
				if !may("Acquire", err, ResultOutOfMemory) {
					refused.Add(1)
					continue
				}
				acquired.Add(1)
				sl := PooledEntry(e).Core.Load().Slot.Load()
				if sl == nil {
					continue // the pool was closed
				}
				raw := sl.Raw
				if other, twice := holders.LoadOrStore(raw, e.ID()); twice && !(closing && closed.Load()) {
					t.Errorf("CUevent %#x is in use as %#x and as %#x", raw, other, e.ID())
				}
				if st, err := e.Query(); may("Query", err) && st != Complete {
					t.Error("an acquired event is not complete")
				}
				shared := rnd.IntN(3) == 0 // others have copies
				var own []error
				if shared {
					holders.Delete(raw) // it may move on to another CUevent
					copies[rnd.IntN(len(copies))].Store(&e)
					own = []error{ErrReleased, ResultOutOfMemory}
				}
				s := live[w]
				if rnd.IntN(3) == 0 {
					s = stuck
				}
				began := time.Now()
				may("Launch", r.Spin.Launch(s, OneThread, U64(uint64(length.Nanoseconds()))))
				recorded := may("Record", e.Record(s), own...)
				if s != stuck && recorded && !shared { // if copies record it, the record may be another one
					switch rnd.IntN(4) {
					case 0:
						started := make(chan struct{})
						waits.Go(func() {
							close(started)
							if err := e.Wait(patient); may("Wait", err, ErrReleased) && time.Since(began) < length {
								// ErrReleased: it began too late
								t.Error("a wait ended before its record")
							}
						})
						if rnd.IntN(2) == 0 {
							<-started
						}
					case 1:
						ticket, err := e.Ticket()
						if may("Ticket", err) {
							waits.Go(func() {
								if may("the ticket", ticket.Wait(patient)) && time.Since(began) < length {
									t.Error("a ticket was good before its record")
								}
							})
						}
					case 2:
						may("Block", live[rnd.IntN(workers)].WaitEvent(e))
					}
				}
				if old := copies[rnd.IntN(len(copies))].Load(); old != nil { // its own, another's, or nobody's
					switch rnd.IntN(6) {
					case 0:
						may("a copy's Record", old.Record(live[w]), ErrReleased, ResultOutOfMemory)
					case 1:
						_, err := old.Query()
						may("a copy's Query", err, ErrReleased)
					case 2:
						may("a copy's Block", stuck.WaitEvent(*old), ErrReleased)
					case 3:
						by, err := pool.ByID(old.ID())
						if may("ByID", err, ErrReleased) {
							_, err = by.Query()
							may("Query by id", err, ErrReleased)
						}
					case 4:
						waits.Go(func() {
							soon, cancel := context.WithTimeout(patient, 2*length)
							defer cancel()
							may("a copy's Wait", old.Wait(soon), ErrReleased, context.DeadlineExceeded)
						})
					}
				}
				if !shared {
					holders.Delete(raw)
					may("Release", e.Release())
					continue
				}
				// Copies are released at once; one of them comes first.
				var firsts, ready atomic.Int32
				var at sync.WaitGroup
				if s != stuck && rnd.IntN(2) == 0 {
					if ticket, err := e.Ticket(); may("Ticket", err, ErrReleased) {
						waits.Go(func() { may("the ticket of a copy", ticket.Wait(patient)) })
					}
				}
				for range 2 {
					at.Go(func() {
						for ready.Add(1); ready.Load() < 2; runtime.Gosched() {
						}
						if may("a copy's Release", e.Release(), ErrReleased) {
							firsts.Add(1)
						}
					})
				}
				at.Wait()
				if firsts.Load() != 1 {
					t.Errorf("released %d times", firsts.Load())
				}
			}
		})
	}
	if closing {
		time.Sleep(time.Duration(seed%5) * 2 * time.Millisecond)
		close(stop)
		aside.Wait()
		closed.Store(true)
		may("Close", share.Close())
		may("Close", pool.Close())
		users.Wait()
		waits.Wait()
		return
	}
	users.Wait()
	close(stop)
	aside.Wait()
	waits.Wait()
	r.Sim.ClearFaults()
	if st := pool.Stats(); st.InUse != 0 || st.Acquired != uint64(acquired.Load()) {
		t.Errorf("%+v after %d of which %d were refused", st, acquired.Load(), refused.Load())
	}
	if st, n := pool.Stats(), pool.Trim(); n != st.Free {
		t.Errorf("%d trimmed of %+v", n, st)
	}
	if st := pool.Stats(); st.Free != 0 {
		t.Errorf("%+v after Trim", st)
	}
	may("Close", share.Close())
	may("Close", pool.Close())
	if leaks := r.Leaks(); len(leaks) > 0 {
		t.Errorf("leaks: %+v", leaks)
	}
}
