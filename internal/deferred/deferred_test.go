package deferred

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

type object struct {
	id   int
	mine sync.Mutex // held by the goroutine that has the object
}

// TestTake uses objects again, in the order in which they were added.
func TestTake(t *testing.T) {
	var l List[*object]
	a, b, c, d := &object{id: 1}, &object{id: 2}, &object{id: 3}, &object{id: 4}
	if o, ok := l.Take(Fit{Kind: "small"}); ok {
		t.Errorf("an empty list has object %d", o.id)
	}
	l.AddReusable(a, 10, Fit{Kind: "small"})
	l.AddReusable(b, 20, Fit{Kind: "small"})
	l.AddReusable(c, 1000, Fit{Kind: "large"})
	l.Add(d, 7)
	if n, bytes := l.Size(); n != 4 || bytes != 1037 {
		t.Errorf("%d objects of %d bytes", n, bytes)
	}
	take := func(fit string, want *object) {
		t.Helper()
		if o, ok := l.Take(Fit{Kind: fit}); o != want || ok != (want != nil) {
			t.Errorf("the list has %v that fits %q, want %v", o, fit, want)
		}
	}
	take("small", a)
	l.AddReusable(a, 10, Fit{Kind: "small"}) // goes to the end
	take("small", b)
	if done, ok := l.Claim(c); !ok {
		t.Error("an object cannot be claimed that may be used again")
	} else {
		done()
	}
	take("large", nil)
	take("small", a)
	take("small", nil)
	take("", nil) // d fits nothing
	if _, ok := l.Claim(a); ok {
		t.Error("an object was claimed that was taken")
	}
	if all := l.All(); !slices.Equal(all, []*object{d}) || !l.Pending() {
		t.Errorf("%d objects are left; pending: %v", len(all), l.Pending())
	}
	if n, bytes := l.Size(); n != 1 || bytes != 7 {
		t.Errorf("%d objects of %d bytes", n, bytes)
	}
	if len(l.fitting) != 0 {
		t.Errorf("%d lists are left", len(l.fitting))
	}
}

// TestWaitFreed waits for all objects that are claimed when the wait begins.
func TestWaitFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l List[int]
		l.WaitFreed() // returns at once
		l.Add(1, 0)
		l.Add(2, 0)
		l.WaitFreed() // as nobody frees them
		first, _ := l.Claim(1)
		second, _ := l.Claim(2)
		if n, _ := l.Size(); n != 0 || !l.Pending() {
			t.Errorf("%d objects are left; pending: %v", n, l.Pending())
		}
		waited := false
		go func() {
			l.WaitFreed()
			waited = true
		}()
		first()
		synctest.Wait()
		if waited || !l.Pending() {
			t.Error("a wait has ended before the object was freed")
		}
		second()
		synctest.Wait()
		if !waited || l.Pending() {
			t.Errorf("all objects are freed; a wait has ended: %v, pending: %v", waited, l.Pending())
		}
	})
}

// TestOneOwner has goroutines claim, take and add the same objects: each has one owner at a time.
func TestOneOwner(t *testing.T) {
	var l List[*object]
	const many, kinds = 30, 3
	var claimed sync.Map
	for id := range many {
		l.AddReusable(&object{id: id}, 1, Fit{Kind: id % kinds})
	}
	have := func(o *object) {
		if !o.mine.TryLock() {
			t.Errorf("object %d has two owners", o.id)
		}
	}
	var wg sync.WaitGroup
	for seed := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(seed)))
			for l.Pending() {
				if r.IntN(2) == 0 {
					if o, ok := l.Take(Fit{Kind: r.IntN(kinds)}); ok {
						have(o)
						o.mine.Unlock()
						l.AddReusable(o, 1, Fit{Kind: o.id % kinds})
					}
					continue
				}
				all := l.All()
				if len(all) == 0 {
					continue
				}
				o := all[r.IntN(len(all))]
				if done, ok := l.Claim(o); ok {
					have(o) // for ever
					if _, twice := claimed.Swap(o.id, true); twice {
						t.Errorf("object %d was claimed twice", o.id)
					}
					done()
				}
			}
		})
	}
	wg.Wait()
	l.WaitFreed()
	n := 0
	claimed.Range(func(any, any) bool { n++; return true })
	if left, bytes := l.Size(); left != 0 || bytes != 0 || n != many {
		t.Errorf("%d objects of %d bytes are left; %d of %d were claimed", left, bytes, n, many)
	}
}
