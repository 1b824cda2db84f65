//go:build !explore

package watch

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// device returns a fake device, and checks at the end of the test that nothing is left.
func device(t *testing.T) *fakeDevice {
	t.Helper()
	d := newFakeDevice(t.Errorf)
	t.Cleanup(func() {
		d.await(t, "the watcher ends", func() bool { d.pass(); return d.w.State() == State{} })
		d.check()
	})
	return d
}

// await waits until a condition holds.
func (d *fakeDevice) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for late := time.Now().Add(20 * time.Second); !holds(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(late) {
			t.Fatalf("this does not become true: %s: %+v", what, d.w.State())
		}
	}
}

// waiting returns when there are waits for n items.
func (d *fakeDevice) waiting(t *testing.T, n int) {
	t.Helper()
	d.await(t, "all wait", func() bool { return d.w.State().Waits == n })
}

// asleep returns when the watcher relies on wake-up streams.
func (d *fakeDevice) asleep(t *testing.T) {
	t.Helper()
	d.await(t, "the watcher sleeps", func() bool { return d.w.State().Rest >= Behind })
}

// over lets time pass until all waits have ended.
func (d *fakeDevice) over(t *testing.T) {
	t.Helper()
	d.await(t, "all waits have ended", func() bool { d.pass(); return d.w.State().Waits == 0 })
}

// start calls wait on another goroutine, and returns the channel that receives its error.
func start(wait func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- wait() }()
	return c
}

func (d *fakeDevice) ends(t *testing.T, what string, c <-chan error, want error) {
	t.Helper()
	select {
	case err := <-c:
		if !errors.Is(err, want) {
			t.Errorf("%s: a wait ends with %v, want %v", what, err, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: a wait does not end: %+v", what, d.w.State())
	}
}

// TestWaits waits for items of all kinds, for shorter and for longer than the time after which the
// watcher relies on wake-up streams.
func TestWaits(t *testing.T) {
	for _, long := range []bool{false, true} {
		for _, n := range []int{1, 2, 16, 1000} {
			for _, sequences := range []int{1, 7, 300} {
				d := device(t)
				var events []*fakeEvent
				var waits []<-chan error
				for i := range n {
					number := uint64(1 + i/sequences)
					if i%5 == 4 {
						number = 0 // unnumbered
					}
					e := d.event(uint64(1+i%sequences), number)
					events = append(events, e)
					waits = append(waits, start(func() error { return e.wait(nil) }))
				}
				d.waiting(t, n)
				if long && n <= maxArming {
					d.asleep(t)
				}
				for _, e := range events {
					d.complete(e.item.Load())
				}
				d.over(t) // there may be more waits than wake-up streams
				for _, c := range waits {
					d.ends(t, "complete", c, nil)
				}
			}
		}
	}
}

// TestFewQueries completes a thousand items of a sequence at the same moment, and checks that far
// fewer queries find that out.
func TestFewQueries(t *testing.T) {
	const n = 1000
	d := device(t)
	var items []*fakeItem
	var waits []<-chan error
	for _, i := range rand.Perm(n) {
		e := d.event(1, uint64(1+i))
		items = append(items, e.item.Load())
		waits = append(waits, start(func() error { return e.wait(nil) }))
	}
	d.waiting(t, n)
	if !d.crowded.Load() {
		t.Error("Crowded was not called")
	}
	slices.SortFunc(items, func(a, b *fakeItem) int { return int(a.number) - int(b.number) })
	for _, it := range items {
		it.done.Store(1)
	}
	d.fire()
	d.over(t)
	for _, c := range waits {
		d.ends(t, "complete", c, nil)
	}
	if q := d.queries.Load(); q > n/10 {
		t.Errorf("%d completed items were queried, of %d", q, n)
	}
	for _, it := range items {
		if it.known.Load() != 2 {
			t.Fatalf("item %d counts as pending", it.handle)
		}
	}
}

// TestOrder completes items of several sequences one by one, with waits that began in random order.
// Each wait ends when its item has completed, and not before.
func TestOrder(t *testing.T) {
	const sequences, each = 4, 60
	d := device(t)
	var done [sequences]atomic.Int64
	var wg sync.WaitGroup
	var events [sequences][each]*fakeEvent
	for _, n := range rand.Perm(sequences * each) {
		i, k := n%sequences, n/sequences
		number := uint64(k + 1)
		if i == 3 && k%3 == 0 {
			number = 0
		}
		e := d.event(uint64(i+1), number)
		events[i][k] = e
		wg.Go(func() {
			if err := e.wait(nil); err != nil || done[i].Load() <= int64(k) {
				t.Errorf("the wait for item %d ends after %d: %v", k, done[i].Load(), err)
			}
		})
	}
	d.waiting(t, sequences*each)
	for _, n := range rand.Perm(sequences * each) {
		i := n % sequences
		k := done[i].Add(1) - 1
		d.complete(events[i][k].item.Load())
		if n%8 == 0 {
			d.pass()
			d.await(t, "it was noticed", func() bool { d.pass(); return events[i][k].item.Load().watched.Load() == 0 })
		}
	}
	d.over(t)
	wg.Wait()
}

// TestCancel cancels waits of one item, of one group, and of one sequence, in random order. The
// lists of the remaining waits stay correct.
func TestCancel(t *testing.T) {
	const n = 100
	d := device(t)
	e := d.event(1, 1)
	items := []*fakeItem{e.item.Load()}
	var cancels [n]chan struct{}
	var waits []<-chan error
	for i := range n {
		if i > 0 {
			items = append(items, e.record(uint64(i+1)))
		}
		cancels[i] = make(chan struct{})
		for range 2 { // Subs for one item share a wait
			waits = append(waits, start(func() error { return e.wait(cancels[i]) }))
		}
		d.await(t, "both wait", func() bool { return items[i].watched.Load() == 3 })
	}
	left := n
	state := func() (inGroup, shared int) {
		d.w.mu.Lock()
		defer d.w.mu.Unlock()
		var before *Wait
		for of := e.group.first.Load(); of != nil; before, of = of, of.members.next {
			if of.members.prev != before || of.item.CurrentWait().wait != of || of.counter == nil {
				t.Errorf("wait %d of the group is not linked as it should be", inGroup)
			}
			inGroup++
		}
		for _, it := range items {
			if it.wait.wait != nil {
				shared++
			}
		}
		return inGroup, shared
	}
	for _, i := range append([]int{-1}, rand.Perm(n)...) {
		if i >= 0 {
			close(cancels[i])
			left--
		}
		d.await(t, "the others are left", func() bool { a, b := state(); return a == left && b == left })
	}
	for _, c := range waits {
		d.ends(t, "cancelled", c, errCancelled)
	}
	e.close()
}

// TestManyOfOneGroup waits for many items of one event. To add a wait, to find a shared wait, and
// to end a wait must not take longer than with few. The limit fails only for a time that grows with
// the square of the number.
func TestManyOfOneGroup(t *testing.T) {
	const limit = 30 * time.Second
	n := 100_000
	if raceEnabled {
		n /= 10
	}
	d := newFakeDevice(t.Errorf)
	for _, ends := range []string{"complete", "closed", "cancelled"} {
		begin := time.Now()
		e := d.event(1, 1)
		var called atomic.Int64
		var subs []*Sub
		var items []*fakeItem
		for i := range n {
			if i > 0 {
				e.record(uint64(i + 1))
			}
			items = append(items, e.item.Load())
			subs = append(subs, e.notifyMe(func(error) { called.Add(1) }))
			if i%1000 == 0 && time.Since(begin) > limit {
				t.Fatalf("%d of %d waits were added in %v", i, n, time.Since(begin))
			}
		}
		subs = append(subs, e.notifyMe(func(error) { called.Add(1) }))
		if s := d.w.State(); s.Waits != n || s.Others != n+1 {
			t.Errorf("%s: %+v", ends, s)
		}
		switch ends {
		case "complete":
			for _, it := range items {
				it.done.Store(1)
			}
			d.pass()
		case "closed":
			e.close()
		case "cancelled":
			for i, s := range subs {
				if !d.w.Cancel(s) {
					t.Fatalf("wait %d has ended", i)
				}
				s.Call(s)
			}
		}
		d.await(t, "all waits have ended", func() bool { d.pass(); return called.Load() == int64(n)+1 })
		if took := time.Since(begin); took > limit {
			t.Errorf("%s: it took %v", ends, took)
		}
		e.close()
	}
	d.await(t, "the watcher ends", func() bool { d.pass(); return d.w.State() == State{} })
}

// TestLateItem completes an unnumbered item first whose wait began after many others. The watcher
// queries it although the others are pending.
func TestLateItem(t *testing.T) {
	d := device(t)
	var waits []<-chan error
	var events []*fakeEvent
	for range 2 * maxAsked {
		e := d.event(1, 0)
		events = append(events, e)
		waits = append(waits, start(func() error { return e.wait(nil) }))
	}
	d.waiting(t, 2*maxAsked)
	first := d.event(1, 0)
	c := start(func() error { return first.wait(nil) })
	d.waiting(t, 2*maxAsked+1)
	first.item.Load().done.Store(1)
	d.await(t, "it was noticed", func() bool { d.pass(); return len(c) == 1 })
	for _, e := range events {
		d.complete(e.item.Load())
	}
	d.await(t, "all have ended", func() bool { d.pass(); return d.w.State().Waits == 0 })
	for _, c := range append(waits, c) {
		d.ends(t, "complete", c, nil)
	}
}

// TestUnnumberedWithManySequences completes an unnumbered item before the items of many sequences.
// The watcher queries it although the others are pending, also while nothing can be armed.
func TestUnnumberedWithManySequences(t *testing.T) {
	for _, n := range []int{15, 16, 17, 48} {
		for _, noArming := range []bool{false, true} {
			d := device(t)
			d.noArming.Store(noArming)
			var heads []*fakeEvent
			var waits []<-chan error
			for i := range n {
				e := d.event(uint64(i+1), 2)
				heads = append(heads, e)
				waits = append(waits, start(func() error { return e.wait(nil) }))
			}
			d.waiting(t, n)
			unnumbered := d.event(uint64(n), 0)
			c := start(func() error { return unnumbered.wait(nil) })
			d.waiting(t, n+1)
			time.Sleep(time.Millisecond)
			d.complete(unnumbered.item.Load())
			d.await(t, "it was noticed", func() bool { d.pass(); return len(c) == 1 })
			for _, e := range heads {
				d.complete(e.item.Load())
			}
			d.over(t)
			for _, c := range append(waits, c) {
				d.ends(t, "complete", c, nil)
			}
		}
	}
}

// TestSleeps checks that the watcher makes no queries while it relies on wake-up streams. A new
// wait, an exposed item, and the end of the last wait wake it.
func TestSleeps(t *testing.T) {
	d := device(t)
	a, b := d.event(1, 1), d.event(2, 1)
	ofA, ofB := start(func() error { return a.wait(nil) }), start(func() error { return b.wait(nil) })
	d.waiting(t, 2)
	d.asleep(t)
	if s := d.w.State(); s.Armed != 2 {
		t.Errorf("%+v", s)
	}
	before := d.rounds.Load()
	time.Sleep(2 * time.Millisecond)
	if n := d.rounds.Load() - before; n > 1 {
		t.Errorf("the source was asked %d times", n)
	}
	c := d.event(3, 1)
	ofC := start(func() error { return c.wait(nil) })
	d.await(t, "the new wait is armed", func() bool { return d.w.State().Armed == 3 })
	d.asleep(t)
	b.expose()
	d.await(t, "the exposed item is asked for",
		func() bool { s := d.w.State(); return s.Armed == 2 && s.Rest < Behind })
	d.complete(a.item.Load(), b.item.Load(), c.item.Load())
	for _, of := range []<-chan error{ofA, ofB, ofC} {
		d.ends(t, "complete", of, nil)
	}
}

// TestNotifiedIsQueried checks that the next round queries an armed item after a stream has
// notified, with and without a known number.
func TestNotifiedIsQueried(t *testing.T) {
	for _, number := range []uint64{1, 0} {
		d := device(t)
		e := d.event(1, number)
		of := start(func() error { return e.wait(nil) })
		d.asleep(t)
		d.w.mu.Lock()
		for _, notified := range []bool{false, true} {
			r := round{n: 1 << 40}
			d.w.gather(&r, notified, false)
			if asked := len(r.plain) == 1; asked != notified || !r.asleep {
				t.Errorf("number %d, notified %v: asked %v, asleep %v", number, notified, asked, r.asleep)
			}
		}
		d.w.mu.Unlock()
		d.complete(e.item.Load())
		d.ends(t, "complete", of, nil)
	}
}

// TestWakeUpsFail makes wake-ups fail or come late, for all possible reasons. The waits still end
// as time passes.
func TestWakeUpsFail(t *testing.T) {
	for name, prepare := range map[string]func(d *fakeDevice){
		"no stream":          func(d *fakeDevice) { d.streams.Store(0) },
		"one stream":         func(d *fakeDevice) { d.streams.Store(1) },
		"failed":             func(d *fakeDevice) { d.result.Store(int32(Failed)) },
		"unsupported":        func(d *fakeDevice) { d.result.Store(int32(Unsupported)) },
		"not now":            func(d *fakeDevice) { d.result.Store(int32(NotNow)) },
		"captures":           func(d *fakeDevice) { d.noArming.Store(true) },
		"no stream notifies": func(*fakeDevice) {},
	} {
		d := device(t)
		prepare(d)
		var events []*fakeEvent
		var waits []<-chan error
		for i := range 4 {
			e := d.event(uint64(i+1), 1)
			events = append(events, e)
			waits = append(waits, start(func() error { return e.wait(nil) }))
		}
		d.waiting(t, 4)
		time.Sleep(2 * time.Millisecond)
		for _, e := range events {
			e.item.Load().done.Store(1) // and no stream continues
		}
		for i, c := range waits {
			d.await(t, name+": a wait ends", func() bool { d.pass(); return len(c) == 1 })
			d.ends(t, name, c, nil)
			d.complete(events[i].item.Load())
		}
	}
}

// TestStickyError ends all waits by an error, after which no stream notifies.
func TestStickyError(t *testing.T) {
	d := device(t)
	var waits []<-chan error
	for i := range 200 {
		e := d.event(uint64(1+i%5), uint64(1+i/5))
		waits = append(waits, start(func() error { return e.wait(nil) }))
	}
	d.waiting(t, 200)
	d.failing.Store(int32(sticky))
	for _, c := range waits {
		d.await(t, "a wait ends", func() bool { d.pass(); return len(c) == 1 })
		d.ends(t, "sticky", c, errSticky)
	}
}

// TestClosing ends the waits of a group and of a domain. Other waits continue.
func TestClosing(t *testing.T) {
	d := device(t)
	l := d.line()
	a, b := d.event(1, 1), d.event(1, 2)
	itemB := b.item.Load()
	ofA, ofB := start(func() error { return a.wait(nil) }), start(func() error { return b.wait(nil) })
	ofL := start(func() error { return l.wait(3, nil) })
	d.waiting(t, 2)
	a.close()
	d.ends(t, "a closed group", ofA, errClosed)
	if err := a.wait(nil); err != errClosed {
		t.Errorf("a wait for a closed event: %v", err)
	}
	d.await(t, "the counter is waited for", func() bool { return d.w.Number(&l.c) == 1 })
	d.closeDomain()
	d.ends(t, "a closed domain", ofB, errDomain)
	d.ends(t, "a closed domain", ofL, errDomain)
	ofB = start(func() error { return b.wait(nil) }) // it can be waited for again
	d.waiting(t, 1)
	d.complete(itemB)
	d.ends(t, "another wait", ofB, nil)
	ofL = start(func() error { return l.wait(3, nil) })
	d.await(t, "the counter is waited for", func() bool { return d.w.Number(&l.c) == 1 })
	l.close()
	d.ends(t, "a closed counter", ofL, errClosed)
	d.ends(t, "a closed counter", start(func() error { return l.wait(3, nil) }), errClosed)
}

// TestTidy begins a wait while Tidy closes the notifier, which Tidy does without the lock. The watcher's goroutine then
// begins after that.
func TestTidy(t *testing.T) {
	d := device(t)
	d.w.Tidy() // there is no notifier yet
	first, e := d.event(1, 1), d.event(1, 2)
	wait := start(func() error { return first.wait(nil) })
	d.waiting(t, 1)
	d.w.Tidy() // the notifier is in use
	d.complete(first.item.Load())
	d.ends(t, "before", wait, nil)
	d.await(t, "the watcher ends", func() bool { d.pass(); return d.w.State() == State{} })
	d.closing = func() {
		wait = start(func() error { return e.wait(nil) })
		d.waiting(t, 1)
	}
	d.w.Tidy()
	d.complete(e.item.Load())
	d.over(t)
	d.ends(t, "meanwhile", wait, nil)
}

// TestCounters waits for numbers of counters in memory, some of them around the highest number.
func TestCounters(t *testing.T) {
	for _, from := range []uint64{0, 1<<63 - 5, ^uint64(0) - 5} {
		d := device(t)
		l := d.line()
		l.value.Store(from)
		var waits [20]<-chan error
		done := make(chan struct{})
		for _, i := range rand.Perm(len(waits)) {
			cancelled := done
			if i%4 != 0 {
				cancelled = nil
			}
			waits[i] = start(func() error { return l.wait(from+uint64(i), cancelled) })
		}
		d.await(t, "all wait", func() bool { return d.w.Number(&l.c) == len(waits)-1 })
		close(done)
		d.await(t, "some are cancelled", func() bool { return d.w.Number(&l.c) == len(waits)-len(waits)/4 })
		for v := range uint64(len(waits)) {
			if v%2 == 0 {
				l.set(from + v) // the host calls Raise
			} else {
				l.value.Store(from + v) // the device does not call Raise
			}
			for i, c := range waits {
				want := error(nil)
				if i%4 == 0 && i != 0 {
					want = errCancelled
				}
				if uint64(i) == v {
					d.ends(t, "raised", c, want)
				}
				if uint64(i) > v && want == nil && len(c) != 0 {
					t.Errorf("the wait for %d ends at %d", i, v)
				}
			}
		}
	}
}

// TestBrokenCounter ends the waits for a counter whose Works returns an error.
func TestBrokenCounter(t *testing.T) {
	d := device(t)
	l := d.line()
	of := start(func() error { return l.wait(1, nil) })
	d.await(t, "it is waited for", func() bool { return d.w.Number(&l.c) == 1 })
	l.broken.Store(true)
	d.ends(t, "broken", of, errSticky)
	d.await(t, "the counter is released", func() bool { return l.refs.Load() == 0 })
}

// TestTracers calls a tracer that waits for another item. It must not run on a goroutine that this
// wait needs.
func TestTracers(t *testing.T) {
	d := device(t)
	d.traced.Store(true)
	other := d.event(9, 1)
	it := other.item.Load()
	d.trace = func(traced *fakeItem) {
		if traced != it {
			of := start(func() error { return other.wait(nil) })
			d.await(t, "the tracer waits", func() bool { return it.watched.Load() == 2 })
			d.complete(it)
			d.ends(t, "the tracer's wait", of, nil)
		}
	}
	e := d.event(1, 1)
	of := start(func() error { return e.wait(nil) })
	d.waiting(t, 1)
	d.complete(e.item.Load())
	d.ends(t, "complete", of, nil)
}

// TestRecordedAgain records an event during a wait for its previous record. The wait is for the
// previous record.
func TestRecordedAgain(t *testing.T) {
	d := device(t)
	e := d.event(1, 1)
	it := e.item.Load()
	of := start(func() error { return e.wait(nil) })
	d.waiting(t, 1)
	next := e.record(2)
	if next == it {
		t.Fatal("the new record uses the item of the record that has a wait")
	}
	ofNext := start(func() error { return e.wait(nil) })
	d.waiting(t, 2)
	d.complete(it)
	d.ends(t, "the first record", of, nil)
	if len(ofNext) != 0 {
		t.Error("the wait for the second record has ended")
	}
	d.complete(next)
	d.ends(t, "the second record", ofNext, nil)
	if e.record(3) != next {
		t.Error("a wait that has ended keeps its item in use")
	}
}
