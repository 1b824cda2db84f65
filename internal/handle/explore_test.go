//go:build explore

package handle

import (
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/explore"
)

// programs are run under all schedules with up to two preemptions, and then at random.
var programs = []struct {
	name string
	run  func(r *explore.Run)
}{
	// Calls and closes.

	{"two calls", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.call() })
		r.Go(func() { c.call() })
	}},
	{"a call and a close", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.call() })
		r.Go(c.close)
	}},
	{"two calls and a close", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.call() })
		r.Go(func() { c.call() })
		r.Go(c.close)
	}},
	{"a call after a call, and a close", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.call(); c.call() })
		r.Go(c.close)
	}},
	{"a call and two closes", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.call() })
		r.Go(c.close)
		r.Go(c.close)
	}},
	{"three closes", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(c.close)
		r.Go(c.close)
		r.Go(c.close)
	}},
	{"a close after a close, and a call", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.close(); c.close() })
		r.Go(func() { c.call() })
	}},
	{"the last release, a close, and a call that is refused", func(r *explore.Run) {
		c := newCounted(r)
		c.Retain()
		r.Go(c.use)
		r.Go(func() { c.close(); c.call() })
		r.Go(func() { c.call() })
	}},
	{"the last release of a closed handle, and two calls", func(r *explore.Run) {
		c := newCounted(r)
		c.Retain()
		c.close()
		r.Go(c.use)
		for range 2 {
			r.Go(func() {
				if c.call() {
					r.Fail("a closed handle let a call in")
				}
			})
		}
	}},
	{"two last releases, and a call", func(r *explore.Run) {
		c := newCounted(r)
		c.Retain()
		c.Retain()
		c.close()
		r.Go(c.use)
		r.Go(c.use)
		r.Go(func() { c.call() })
	}},
	{"a call that retains the handle for another goroutine, and a close", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() {
			if c.Acquire(c) {
				c.Retain()
				explore.Go(c.use)
				c.use()
			}
		})
		r.Go(c.close)
	}},
	{"a call during which the handle is closed", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() {
			if c.Acquire(c) {
				c.enter()
				c.close()
				if c.destroyed != 0 {
					r.Fail("destroyed during a call")
				}
				c.leave()
				c.Release(c)
			}
		})
		r.Go(func() { c.call() })
	}},
	{"a call that begins under a lock, which the destruction takes", func(r *explore.Run) {
		c := newCounted(r)
		c.locked = new(explore.Mutex)
		c.Retain()
		r.Go(c.use)
		r.Go(c.close)
		r.Go(func() {
			c.locked.Lock()
			entered := c.Acquire(c)
			c.locked.Unlock()
			if entered {
				c.use()
			}
		})
	}},
	{"an error instead of a call, a release, and a close", func(r *explore.Run) {
		c := newCounted(r)
		c.locked = new(explore.Mutex)
		c.Retain()
		r.Go(c.use)
		r.Go(c.close)
		r.Go(func() {
			late := c.firsts != 0
			c.locked.Lock()
			err := c.Enter(c, "test")
			c.locked.Unlock()
			switch {
			case err == nil && late:
				r.Fail("a call has begun after Close")
			case err == nil:
				c.use()
			case err != errRefused || !c.closed:
				r.Fail("an open handle refused a call: %v", err)
			}
		})
	}},
	{"a call that is alone, and another one", func(r *explore.Run) {
		c := newCounted(r)
		alone := func() {
			if c.Acquire(c) {
				c.enter()
				if c.Sole() && c.inUse != 1 {
					r.Fail("a call is alone, and there are %d", c.inUse)
				}
				c.leave()
				c.Release(c)
			}
		}
		r.Go(alone)
		r.Go(alone)
		r.Go(c.close)
	}},
	{"a call that looks whether the handle is closed", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(c.close)
		r.Go(func() {
			late := c.firsts != 0
			if shut := c.Closed(); shut != c.closed && (late || shut) {
				r.Fail("closed: %v", shut)
			}
		})
		r.Go(func() {
			if n := c.Calls(); n != 0 {
				r.Fail("%d calls are in flight", n)
			}
		})
	}},

	// Records, queries and closes.

	{"two records", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() { e.record() })
		r.Go(func() { e.record() })
	}},
	{"a record and a close", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() { e.record() })
		r.Go(e.close)
	}},
	{"two records and a close", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() { e.record() })
		r.Go(func() { e.record() })
		r.Go(e.close)
	}},
	{"a record, a call and a close", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() { e.record() })
		r.Go(func() { e.query() })
		r.Go(e.close)
	}},
	{"a query and a close", func(r *explore.Run) {
		e := newEvent(r)
		e.record()
		r.Go(func() { e.query() })
		r.Go(e.close)
	}},
	{"two queries and a close", func(r *explore.Run) {
		e := newEvent(r)
		e.record()
		r.Go(func() { e.query() })
		r.Go(func() { e.query() })
		r.Go(e.close)
	}},
	{"a record and a query", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() { e.record() })
		r.Go(func() { e.query() })
	}},
	{"a record and two queries", func(r *explore.Run) {
		e := newEvent(r)
		e.record()
		r.Go(func() { e.record() })
		r.Go(func() { e.query(); e.query() })
	}},
	{"a record after a record, and two queries", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() { e.record(); e.record() })
		r.Go(func() { e.query(); e.query() })
	}},
	{"two records and a query", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() { e.record() })
		r.Go(func() { e.record() })
		r.Go(func() { e.query(); e.query() })
	}},
	{"a record and two goroutines that query", func(r *explore.Run) {
		e := newEvent(r)
		e.record()
		r.Go(func() { e.record(); e.query() })
		r.Go(func() { e.query() })
		r.Go(func() { e.query() })
	}},
	{"an event that is complete is known to be, as long as it is not recorded", func(r *explore.Run) {
		e := newEvent(r)
		e.record()
		query := func() {
			if e.query() && !e.Complete() {
				r.Fail("completion was forgotten")
			}
		}
		r.Go(query)
		r.Go(query)
	}},
	{"an event that was never recorded", func(r *explore.Run) {
		e := newEvent(r)
		if e.Complete() || !e.Unrecorded() {
			r.Fail("it has no record that is complete")
		}
		r.Go(func() { e.record() })
		r.Go(func() {
			ended := e.ended
			if e.Unrecorded() && ended != 0 {
				r.Fail("record %d was not seen", ended)
			}
			if g := e.Gen(); g.Count() < uint64(ended) || e.Complete() && e.finished < ended {
				r.Fail("record %d was not seen", ended)
			}
		})
	}},
	{"a record that is alone, and another one", func(r *explore.Run) {
		e := newEvent(r)
		alone := func() {
			if e.Begin(e) {
				e.enter()
				if e.Gen().Sole() && e.inUse != 1 {
					r.Fail("a record is alone, and there are %d", e.inUse)
				}
				e.leave()
				e.End(e)
			}
		}
		r.Go(alone)
		r.Go(alone)
	}},
	{"an unused event is not in use", func(r *explore.Run) {
		e := newEvent(r)
		e.Retain()
		e.Begin(e)
		exposed := newEvent(r)
		exposed.Mark(MarkExposed)
		r.Go(func() {
			if e.Unused() || exposed.Unused() {
				r.Fail("an event in use counts as unused")
			}
			e.End(e)
			if e.Unused() {
				r.Fail("an event with a call in flight counts as unused")
			}
			e.Begin(e)
			e.Release(e)
			if e.Unused() {
				r.Fail("an event with a record under way counts as unused")
			}
			e.End(e)
			if !e.Unused() {
				r.Fail("an event counts as used")
			}
		})
	}},
	{"a call that keeps a record's event, and a close", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() {
			if e.Begin(e) {
				e.enter()
				e.Retain()
				e.End(e)
				e.leave()
				e.Release(e)
			}
		})
		r.Go(e.close)
	}},
	{"a record that is refused under a lock, which the destruction takes", func(r *explore.Run) {
		e := newEvent(r)
		e.locked = new(explore.Mutex)
		r.Go(e.close)
		r.Go(func() {
			e.locked.Lock()
			begun := e.Begin(e)
			e.locked.Unlock()
			if begun {
				e.End(e)
			}
		})
		r.Go(func() { e.query() })
	}},
	{"a call that is refused under a lock, which the destruction takes", func(r *explore.Run) {
		e := newEvent(r)
		e.locked = new(explore.Mutex)
		e.Retain()
		r.Go(e.close)
		r.Go(func() {
			e.locked.Lock()
			entered := e.Acquire(e)
			e.locked.Unlock()
			if entered {
				e.Release(e)
			}
		})
		r.Go(func() { e.Release(e) })
	}},
	{"a release that destroys nothing on its own goroutine", func(r *explore.Run) {
		e := newEvent(r)
		e.locked = new(explore.Mutex)
		e.Retain()
		r.Go(func() {
			e.locked.Lock()
			e.ReleaseLater(e)
			e.locked.Unlock()
		})
		r.Go(e.close)
		r.Go(func() { e.record() })
	}},

	// Those who wait.

	{"a watcher and a record", func(r *explore.Run) {
		e := newEvent(r)
		e.record()
		r.Go(e.watch)
		r.Go(func() { e.record() })
	}},
	{"a watcher and two records", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(e.watch)
		r.Go(func() { e.record() })
		r.Go(func() { e.record() })
	}},
	{"two watchers and a record", func(r *explore.Run) {
		e := newEvent(r)
		e.record()
		r.Go(e.watch)
		r.Go(e.watch)
		r.Go(func() { e.record() })
	}},
	{"a watcher, a record and a close", func(r *explore.Run) {
		e := newEvent(r)
		e.record()
		r.Go(e.watch)
		r.Go(func() { e.record() })
		r.Go(e.close)
	}},
	{"a watcher, a record and a query", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(e.watch)
		r.Go(func() { e.record(); e.query() })
		r.Go(func() { e.query() })
	}},
	{"a record that nobody waits for any more is followed by another", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() {
			e.watch()
			if e.Watched() {
				r.Fail("nobody waits")
			}
			if !e.record() {
				r.Fail("an event refuses a record, and nobody waits")
			}
		})
		r.Go(func() { e.query() })
	}},

	// Many records.

	{"the last record of a worn event", func(r *explore.Run) {
		e := newEvent(r)
		e.Skip(1<<39 - 2)
		r.Go(func() {
			if !e.record() || e.record() || !e.Worn() || e.Stays() {
				r.Fail("a worn event is recorded")
			}
			e.query()
		})
		r.Go(func() { e.query() })
	}},
	{"two records of a worn event, and a close", func(r *explore.Run) {
		e := newEvent(r)
		e.Skip(1<<39 - 2)
		r.Go(func() { e.record() })
		r.Go(func() { e.record() })
		r.Go(e.close)
	}},
	{"a generation that comes back is not complete", func(r *explore.Run) {
		e := newEvent(r)
		e.Mark(MarkExposed)
		e.Skip(1<<40 - 2)
		e.done.Store(uint64(e.gen.Load()) + genOne) // as it was all the records ago
		r.Go(func() {
			for range 3 {
				if !e.record() {
					r.Fail("an exposed event refuses a record")
				}
				if e.Complete() || e.Unrecorded() {
					r.Fail("completion is remembered from long ago")
				}
			}
		})
		r.Go(func() { e.query() })
	}},

	// Exposed events.

	{"an event that is exposed, and a query", func(r *explore.Run) {
		e := newEvent(r)
		e.record()
		r.Go(func() { e.query() })
		r.Go(func() {
			e.Mark(MarkExposed)
			e.recordElsewhere()
			e.query()
		})
	}},
	{"an unrecorded event that is exposed", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() {
			e.Mark(MarkExposed)
			e.recordElsewhere()
			e.query()
		})
		r.Go(func() { e.query(); e.query() })
	}},
	{"an exposed event is recorded though somebody waits", func(r *explore.Run) {
		e := newEvent(r)
		e.Mark(MarkExposed)
		r.Go(e.watch)
		r.Go(func() {
			if !e.Stays() || !e.record() {
				r.Fail("an exposed event refuses a record")
			}
		})
		r.Go(func() { e.query() })
	}},
	{"an exposed event, two records and a close", func(r *explore.Run) {
		e := newEvent(r)
		e.Mark(MarkExposed)
		e.Watch()
		r.Go(func() { e.record() })
		r.Go(func() { e.record(); e.Unwatch() })
		r.Go(e.close)
	}},
	{"marks are kept", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() { e.Mark(FirstMark) })
		r.Go(func() { e.Mark(MarkExposed | FirstMark<<1) })
		r.Finally(func() {
			if m := e.Marks(); m != MarkExposed|FirstMark|FirstMark<<1 || !e.Exposed() {
				r.Fail("marks are %b", m)
			}
			if e := newEvent(r); e.Exposed() {
				r.Fail("a new event is exposed")
			} else if e.Mark(FirstMark); e.Exposed() {
				r.Fail("another mark exposes an event")
			}
		})
	}},

	// An event that has another one take its place.

	{"a record elsewhere while somebody waits", func(r *explore.Run) {
		h := newHolder(r)
		h.record()
		r.Go(h.watch)
		r.Go(h.record)
	}},
	{"two records elsewhere while somebody waits", func(r *explore.Run) {
		h := newHolder(r)
		h.record()
		r.Go(h.watch)
		r.Go(h.record)
		r.Go(h.record)
	}},
	{"a record elsewhere, a watcher and a close", func(r *explore.Run) {
		h := newHolder(r)
		r.Go(h.watch)
		r.Go(h.record)
		r.Go(h.close)
	}},
	{"a record elsewhere, a watcher and a query", func(r *explore.Run) {
		h := newHolder(r)
		r.Go(h.watch)
		r.Go(h.record)
		r.Go(h.query)
	}},
	{"two records elsewhere while somebody waits, and queries", func(r *explore.Run) {
		h := newHolder(r)
		h.slot.Load().Watch()
		r.Finally(func() { h.all[0].Unwatch() })
		r.Go(func() { h.record(); h.query() })
		r.Go(func() { h.record(); h.query() })
	}},
	{"three records elsewhere while somebody waits", func(r *explore.Run) {
		h := newHolder(r)
		h.slot.Load().Watch()
		r.Finally(func() { h.all[0].Unwatch() })
		r.Go(func() { h.record(); h.query() })
		r.Go(h.record)
		r.Go(h.record)
	}},
	{"a record elsewhere, and two after it", func(r *explore.Run) {
		h := newHolder(r)
		h.slot.Load().Watch()
		r.Finally(func() { h.all[0].Unwatch() })
		r.Go(func() { h.record(); h.record(); h.query() })
		r.Go(h.record)
	}},
	{"two closes and a record", func(r *explore.Run) {
		h := newHolder(r)
		r.Go(h.close)
		r.Go(h.close)
		r.Go(h.record)
	}},
	{"a move between holders, a record and a close", func(r *explore.Run) {
		from, to := newHolder(r), &holder{r: r}
		r.Finally(func() {
			if from.slot.Load() != nil && to.slot.Load() != nil {
				r.Fail("both hold an event")
			}
		})
		r.Go(func() {
			if e := from.slot.Swap(nil); e != nil {
				to.slot.Store(e)
				to.close()
			}
		})
		r.Go(from.record)
		r.Go(from.close)
	}},

	// Users.

	{"two users", func(r *explore.Run) {
		s := newShared(r)
		r.Go(func() { s.call() })
		r.Go(s.drop)
	}},
	{"three users", func(r *explore.Run) {
		s := newShared(r)
		r.Go(func() { s.call() })
		r.Go(func() { s.call() })
		r.Go(s.drop)
	}},
	{"two users that come and go", func(r *explore.Run) {
		s := newShared(r)
		r.Go(func() { s.drop(); s.call() })
		r.Go(func() { s.call(); s.call() })
	}},
	{"two users that stay", func(r *explore.Run) {
		s := newShared(r)
		hold := func() {
			if !s.Hold() {
				r.Fail("no user is left")
			}
		}
		r.Go(hold)
		r.Go(hold)
		r.Finally(func() {
			for range 3 {
				s.drop()
			}
		})
	}},
}

func TestPrograms(t *testing.T) {
	for _, p := range programs {
		t.Run(strings.ReplaceAll(p.name, " ", "-"), func(t *testing.T) { explore.Check(t, p.run) })
	}
}
