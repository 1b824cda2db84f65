//go:build !explore

package watch

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestStorm waits for items while they complete and are recorded, exposed, closed and cancelled in
// random order.
func TestStorm(t *testing.T) {
	d := device(t)
	rounds := 300
	if testing.Short() || raceEnabled {
		rounds /= 5
	}
	var ended [3]atomic.Int64
	is := func(err error) {
		switch err {
		case nil:
			ended[0].Add(1)
		case errClosed:
			ended[1].Add(1)
		case errCancelled:
			ended[2].Add(1)
		default:
			t.Errorf("a wait ends with %v", err)
		}
	}
	stop := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				d.pass()
				runtime.Gosched()
			}
		}
	})
	var numbers [4]atomic.Uint64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range rounds {
				sequence := rand.IntN(len(numbers))
				e, l := d.event(uint64(sequence), 0), d.line()
				it, done := e.item.Load(), make(chan struct{})
				var inner sync.WaitGroup
				for range 1 + rand.IntN(3) {
					inner.Go(func() { is(e.wait(done)) })
				}
				inner.Go(func() { is(l.wait(2, done)) })
				inner.Go(func() {
					c := make(chan error, 1)
					e.notifyMe(func(err error) { c <- err })
					is(<-c)
				})
				items := []*fakeItem{it}
				for range rand.IntN(4) {
					switch rand.IntN(5) {
					case 0:
						items = append(items, e.record(0))
					case 1:
						e.expose()
					case 2:
						l.set(max(l.value.Load(), uint64(rand.IntN(3)))) // a counter only rises
					case 3:
						runtime.Gosched()
					}
				}
				if rand.IntN(3) == 0 {
					close(done)
				}
				if rand.IntN(3) == 0 {
					e.close()
				}
				d.complete(items...)
				l.set(2)
				inner.Wait()
				e.close()
			}
		})
	}
	wg.Wait()
	close(stop)
	passing.Wait()
	for i := range ended {
		if ended[i].Load() == 0 {
			t.Errorf("no wait has ended in way %d", i)
		}
	}
}
