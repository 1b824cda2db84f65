package handle

import "github.com/purecu/purecu/internal/explore"

// Records is the lifetime of an event, which is recorded again and again. Each record is a generation: what is known
// about one says nothing about the next. The zero value is open, and was never recorded.
//
//   - Begin begins a record, and End ends it. If Begin reports false no record was begun: the event is closed, or this
//     is not the place for another record, as somebody waits for the present one, or too many were made here.
//   - Acquire begins any other call, and Release ends it, as with Refs. Records and calls both keep the event.
//   - Watch counts somebody who waits for the present record. A record that begins later is refused; one that began
//     earlier shows in a Gen that is loaded after Watch.
//   - Remember takes a Gen that was loaded before the question whether the event is complete. Complete reports true
//     only if that was answered with yes for the newest record.
//   - After Mark(MarkExposed) others may record the event without Begin. No completion is remembered then, and no record refused
//     but by Close.
//
// The protocol has three words, each of which is changed before another is looked at: Begin changes gen and looks at
// watchers and calls; Watch changes watchers, and its caller looks at gen; Close changes calls and looks at gen. Of two
// that meet, at least one sees the other.
type Records struct {
	calls Refs
	// gen is the sum of these:
	//
	//	bits 0-23    genBusy    the records under way, and those that are being refused
	//	bits 24-63   genOne     the records that were begun, also those that were refused
	gen explore.Uint64
	// done is the value of gen whose record is known to have completed; 0 if none is.
	done explore.Uint64
	// watchers counts those who wait for the present record.
	watchers explore.Int32
	// marks holds MarkExposed, and the caller's own.
	marks explore.Uint32
}

const (
	genOne  = 1 << 24
	genBusy = genOne - 1
	// genWorn are the bits that say that half of the records that can be counted were begun, or
	// half of those that can be under way at once are. Records are refused then, so that no value
	// of gen comes back, and done is about no other record than the one that it was stored for.
	//
	// The records of an exposed event go on, and may come back to the beginning, as no completion
	// is remembered. What is left as a limit are 1<<24 records of it that are under way at once:
	// each is a goroutine in the call, and their stacks have 32 GiB at least.
	genWorn = 1<<63 | 1<<23
)

const (
	// MarkExposed says that others may record the event.
	MarkExposed = 1 << iota
	// FirstMark is the lowest of the marks that callers define.
	FirstMark
)

// Gen is the state of an event's records at one time.
type Gen uint64

// Count returns how many records had been begun.
func (g Gen) Count() uint64 { return uint64(g) / genOne }

// Busy reports whether a record was under way.
func (g Gen) Busy() bool { return g&genBusy != 0 }

// Sole reports whether one record was under way, which is the caller's.
func (g Gen) Sole() bool { return g&genBusy == 1 }

// Begin begins a record. It reports false if the event cannot be recorded here: then nothing is to be undone.
//
// One addition counts the record and keeps the event.
func (r *Records) Begin(o Owner) bool {
	return r.gen.Add(genOne+1)&genWorn == 0 && r.watchers.Load() == 0 && !r.calls.Closed() || r.doubt(o)
}

// doubt decides on a record that Begin has counted. It belongs on the event if that is exposed. Else it is taken back.
// Who has an event replaced watches it until it is closed, so that the watchers have to be looked at before Closed.
func (r *Records) doubt(o Owner) bool {
	if r.Stays() && !r.calls.Closed() {
		return true
	}
	r.end(o, true)
	return false
}

// End ends a record.
func (r *Records) End(o Owner) { r.end(o, false) }

func (r *Records) end(o Owner, later bool) {
	r.gen.Add(^uint64(0))
	if r.calls.Closed() {
		r.last(o, later)
	}
}

// Acquire begins a call that is no record, unless the event is closed.
func (r *Records) Acquire(o Owner) bool {
	return r.calls.word.Add(refOne)&refClosed == 0 || r.undo(o)
}

func (r *Records) undo(o Owner) bool {
	r.release(o, true)
	return false
}

// Retain begins a call also if the event is closed: see [Refs.Retain].
func (r *Records) Retain() { r.calls.Retain() }

// Release ends a call that is no record.
func (r *Records) Release(o Owner) {
	if r.calls.drop() {
		r.last(o, false)
	}
}

// ReleaseLater is Release where the object may not be destroyed on the caller's goroutine.
func (r *Records) ReleaseLater(o Owner) { r.release(o, true) }

func (r *Records) release(o Owner, later bool) {
	if r.calls.drop() {
		r.last(o, later)
	}
}

// Close lets no further record or call begin. If last is true the caller has to destroy the object.
func (r *Records) Close() (last bool) {
	_, idle := r.calls.shut()
	return idle && r.take()
}

// Closed reports whether the event is closed.
func (r *Records) Closed() bool { return r.calls.Closed() }

// last calls Owner.Last, unless a record or a call is under way, which will get here too, or somebody else was faster.
func (r *Records) last(o Owner, later bool) {
	if r.take() {
		o.Last(later)
	}
}

// take is that of Refs, and looks at the records, too.
func (r *Records) take() bool { return r.gen.Load()&genBusy == 0 && r.calls.take() }

// Unused reports whether the event is open, no record or call is under way, and it is not exposed.
func (r *Records) Unused() bool {
	return r.calls.word.Load() == 0 && r.gen.Load()&genBusy == 0 && !r.Exposed()
}

// Watch counts somebody who waits for the present record, and has a call in flight, until Unwatch.
func (r *Records) Watch() { r.watchers.Add(1) }

// Unwatch ends what Watch has begun.
func (r *Records) Unwatch() { r.watchers.Add(-1) }

// Watched reports whether somebody waits for the present record.
func (r *Records) Watched() bool { return r.watchers.Load() != 0 }

// Watchers returns how many wait for the present record.
func (r *Records) Watchers() int { return int(r.watchers.Load()) }

// Stays reports whether another record belongs on the event, as far as that is known before Begin:
// the event is exposed, or nobody waits for it and it is not worn.
func (r *Records) Stays() bool { return r.Exposed() || !r.Watched() && !r.Worn() }

// Worn reports whether too many records were begun, or are under way.
func (r *Records) Worn() bool { return r.gen.Load()&genWorn != 0 }

// Gen returns the present generation.
func (r *Records) Gen() Gen { return Gen(r.gen.Load()) }

// Unrecorded reports whether no record was ever begun. Such an event is complete.
func (r *Records) Unrecorded() bool { return r.gen.Load() == 0 && !r.Exposed() }

// Skip counts n records that were never made. It is for tests of what happens after many.
func (r *Records) Skip(n uint64) { r.gen.Add(n * genOne) }

// Complete reports whether the newest record is known to have completed.
func (r *Records) Complete() bool {
	g := r.gen.Load()
	return g != 0 && r.done.Load() == g && !r.Exposed()
}

// Remember notes that the event was complete, when asked after the generation was g. Complete believes that as long as
// the generation is g: each value of gen is there for one period of time, in which no record begins or ends. While a
// record is under way nothing is remembered, although that might be answered as if the record came later.
func (r *Records) Remember(g Gen) {
	if !g.Busy() {
		r.done.Store(uint64(g))
	}
}

// Exposed reports whether others may record the event.
func (r *Records) Exposed() bool { return r.marks.Load()&MarkExposed != 0 }

// Mark sets marks, which are never taken back.
func (r *Records) Mark(marks uint32) { r.marks.Or(marks) }

// Marks returns the marks that are set.
func (r *Records) Marks() uint32 { return r.marks.Load() }
