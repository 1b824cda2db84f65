//go:build !explore

package watch

import (
	"slices"
	"sync"
	"testing"
)

// TestRoundsKeepMemory checks that the lists that are kept for the next goroutine's rounds refer to
// nothing, and do not have too much memory.
func TestRoundsKeepMemory(t *testing.T) {
	for _, n := range []int{64, 4 * maxKept} {
		d := device(t)
		var items []*fakeItem
		var wg sync.WaitGroup
		for i := range n {
			e := d.event(uint64(1+i%3), uint64(1+i/3))
			items = append(items, e.item.Load())
			wg.Go(func() {
				if err := e.wait(nil); err != nil {
					t.Error(err)
				}
			})
		}
		d.waiting(t, n)
		for _, it := range items {
			it.done.Store(1)
		}
		for _, it := range items {
			d.complete(it)
			break
		}
		d.await(t, "the watcher ends", func() bool { d.pass(); return !d.w.State().Running })
		wg.Wait()
		r := &d.w.round
		most := max(cap(r.plain), cap(r.handles), cap(r.outs), cap(r.dead), cap(r.notices.ready), cap(d.w.loop.dead))
		if most == 0 || most > maxKept {
			t.Errorf("after %d waits there is room for %d elements", n, most)
		}
		if i := slices.IndexFunc(r.plain[:cap(r.plain)], func(of *Wait) bool { return of != nil }); i >= 0 {
			t.Errorf("after %d waits one of them is kept", n)
		}
		for _, list := range [][]Item{r.dead[:cap(r.dead)], d.w.loop.dead[:cap(d.w.loop.dead)]} {
			if slices.ContainsFunc(list, func(it Item) bool { return it != nil }) {
				t.Errorf("after %d waits an item is kept", n)
			}
		}
		if slices.ContainsFunc(r.outs[:cap(r.outs)], func(o outcome) bool { return o.wait != nil }) {
			t.Errorf("after %d waits an outcome is kept", n)
		}
	}
	big := round{
		n:       7,
		careful: make([]*Wait, maxKept),
		outs:    make([]outcome, 1, maxKept),
		dead:    make([]Item, maxKept+1),
	}
	big.careful[1] = new(Wait)
	careful := big.careful
	big.reset()
	if cap(big.careful) != maxKept || careful[1] != nil || cap(big.outs) != maxKept || len(big.outs) != 0 ||
		big.dead != nil ||
		big.n != 7 {
		t.Errorf("%d, %d with %d, for at most %d, and %d are kept of round %d; %v", cap(big.careful), cap(big.outs),
			len(big.outs), maxKept, cap(big.dead), big.n, careful[1])
	}
}
