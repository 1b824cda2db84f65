//go:build explore

package handle

import "github.com/purecu/purecu/internal/explore"

var recordsPrograms = []program{
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
	{"completion is remembered until the next record", func(r *explore.Run) {
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
			r.Fail("an unrecorded event counts as pending")
		}
		r.Go(func() { e.record() })
		r.Go(func() {
			ended := e.ended
			if e.Unrecorded() && ended != 0 {
				r.Fail("record %d was not observed", ended)
			}
			if g := e.Gen(); g.Count() < uint64(ended) || e.Complete() && e.finished < ended {
				r.Fail("record %d was not observed", ended)
			}
		})
	}},
	{"a sole record, and another one", func(r *explore.Run) {
		e := newEvent(r)
		alone := func() {
			if e.Begin(e) {
				e.enter()
				if e.Gen().Sole() && e.inUse != 1 {
					r.Fail("a record counts as the sole one, and there are %d", e.inUse)
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
		exposed.SetBits(BitExposed)
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
	{"a call that outlasts its record, and a close", func(r *explore.Run) {
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
	{"a refused record under a lock that the destruction takes", func(r *explore.Run) {
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
	{"a refused call under a lock that the destruction takes", func(r *explore.Run) {
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
	{"a ReleaseLater that destroys on another goroutine", func(r *explore.Run) {
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

	// Waits.

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
	{"two waits and a record", func(r *explore.Run) {
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
	{"a record after the wait for the previous one has ended", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() {
			e.watch()
			if e.HasWaits() {
				r.Fail("HasWaits reports true after the wait")
			}
			if !e.record() {
				r.Fail("an event without waits refuses a record")
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
	{"a generation that occurs twice is not complete", func(r *explore.Run) {
		e := newEvent(r)
		e.SetBits(BitExposed)
		e.Skip(1<<40 - 2)
		e.done.Store(uint64(e.gen.Load()) + genOne) // the value before all of these records
		r.Go(func() {
			for range 3 {
				if !e.record() {
					r.Fail("an exposed event refuses a record")
				}
				if e.Complete() || e.Unrecorded() {
					r.Fail("the completion of an old record is remembered")
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
			e.SetBits(BitExposed)
			e.recordByOthers()
			e.query()
		})
	}},
	{"an unrecorded event that is exposed", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() {
			e.SetBits(BitExposed)
			e.recordByOthers()
			e.query()
		})
		r.Go(func() { e.query(); e.query() })
	}},
	{"an exposed event is recorded during a wait", func(r *explore.Run) {
		e := newEvent(r)
		e.SetBits(BitExposed)
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
		e.SetBits(BitExposed)
		e.AddWait()
		r.Go(func() { e.record() })
		r.Go(func() { e.record(); e.EndWait() })
		r.Go(e.close)
	}},
	{"bits are kept", func(r *explore.Run) {
		e := newEvent(r)
		r.Go(func() { e.SetBits(FirstBit) })
		r.Go(func() { e.SetBits(BitExposed | FirstBit<<1) })
		r.Finally(func() {
			if m := e.Bits(); m != BitExposed|FirstBit|FirstBit<<1 || !e.Exposed() {
				r.Fail("bits are %b", m)
			}
			if e.ClearBits(FirstBit); e.Bits() != BitExposed|FirstBit<<1 {
				r.Fail("bits are %b after one was cleared", e.Bits())
			}
			if e := newEvent(r); e.Exposed() {
				r.Fail("a new event is exposed")
			} else if e.SetBits(FirstBit); e.Exposed() {
				r.Fail("another bit exposes an event")
			}
		})
	}},

	// Events that are replaced.

	{"a record elsewhere during a wait", func(r *explore.Run) {
		h := newHolder(r)
		h.record()
		r.Go(h.watch)
		r.Go(h.record)
	}},
	{"two records elsewhere during a wait", func(r *explore.Run) {
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
	{"two records elsewhere during a wait, and queries", func(r *explore.Run) {
		h := newHolder(r)
		h.slot.Load().AddWait()
		r.Finally(func() { h.all[0].EndWait() })
		r.Go(func() { h.record(); h.query() })
		r.Go(func() { h.record(); h.query() })
	}},
	{"three records elsewhere during a wait", func(r *explore.Run) {
		h := newHolder(r)
		h.slot.Load().AddWait()
		r.Finally(func() { h.all[0].EndWait() })
		r.Go(func() { h.record(); h.query() })
		r.Go(h.record)
		r.Go(h.record)
	}},
	{"a record elsewhere, and two after it", func(r *explore.Run) {
		h := newHolder(r)
		h.slot.Load().AddWait()
		r.Finally(func() { h.all[0].EndWait() })
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
}
