package handle

import "github.com/purecu/purecu/internal/explore"

// Records implements the lifetime of an event. Here an event is one CUevent, which package core
// calls a Slot. Each record changes the event's generation ([Gen]), and the completion of one record says
// nothing about the next. The zero value is open and unrecorded. This is the contract:
//
//   - Begin begins a record, and End ends it. Begin reports false, and the caller has nothing to
//     undo, if the event is closed, if there are waits for the present record, or if the event is
//     worn.
//   - Acquire begins any other call, and Release ends it, as with Refs. The event is destroyed
//     after its last record and its last call.
//   - AddWait counts a wait for the present record. A record that begins later is refused. A record
//     that began earlier is included in a Gen that is loaded after AddWait.
//   - Remember notes that the event was complete. Its Gen was loaded before the query. Complete
//     reports true only if this was noted for the newest record.
//   - After SetBits(BitExposed) other code may record the event without Begin. From then on no
//     completion is remembered, and only Close makes Begin report false.
//
// The protocol has three words. Every operation changes one of them before it reads another. Begin
// changes gen and then reads waits and calls. AddWait changes waits, and its caller then reads
// gen. Close changes calls and then reads gen. So of two concurrent operations at least one
// observes the other.
type Records struct {
	calls Refs
	// gen is the sum of these fields:
	//
	//	bits 0-23    genBusy    the number of records in progress, and of those that are being refused
	//	bits 24-63   genOne     the number of records that were begun, including those that were refused
	gen explore.Uint64
	// done is the value of gen whose record is known to have completed, or 0.
	done explore.Uint64
	// waits counts the waits for the present record.
	waits explore.Int32
	// bits holds BitExposed, and bits that the user of this package defines.
	bits explore.Uint32
}

const (
	genOne  = 1 << 24
	genBusy = genOne - 1
	// genWorn are the highest bits of the two fields of gen. One of them is set when half of the
	// records that can be counted were begun, or are in progress. Then the event is worn: it
	// refuses records, so that no value of gen occurs twice, and done can only mean the record that
	// it was stored for.
	//
	// An exposed event is recorded even if it is worn, and gen may wrap around, as no completion is
	// remembered. The remaining limit are 1<<24 records of one event in progress at once. Each
	// needs a goroutine in the call, and the stacks of so many goroutines have at least 32 GiB.
	genWorn = 1<<63 | 1<<23
)

const (
	// BitExposed says that other code may record the event.
	BitExposed = 1 << iota
	// FirstBit is the lowest bit that the user of this package may define.
	FirstBit
)

// Gen is a generation: the number of records that have begun, and of those in progress, at one
// moment.
type Gen uint64

// Count returns how many records had begun.
func (g Gen) Count() uint64 { return uint64(g) / genOne }

// Busy reports whether a record was in progress.
func (g Gen) Busy() bool { return g&genBusy != 0 }

// Sole reports whether the caller's record was the only one in progress.
func (g Gen) Sole() bool { return g&genBusy == 1 }

// Begin begins a record. If it reports false, the record must be made on another event, and the
// caller has nothing to undo.
//
// One addition counts the record and prevents the destruction of the event.
func (r *Records) Begin(o Owner) bool { return r.TryBegin() || r.BeginSlow(o) }

// TryBegin counts a record, and reports whether it has begun. If not, the caller calls BeginSlow.
// Both together are Begin, for callers into which TryBegin has to be inlined.
func (r *Records) TryBegin() bool {
	return r.gen.Add(genOne+1)&genWorn == 0 && r.waits.Load() == 0 && !r.calls.Closed()
}

// BeginSlow begins a record that TryBegin has counted. If the event is exposed, the record is
// allowed. Otherwise the count is taken back. A goroutine that replaces an event counts a wait on it until
// it is closed, so waits must be read before Closed.
func (r *Records) BeginSlow(o Owner) bool {
	if r.Stays() && !r.calls.Closed() {
		return true
	}
	if r.TryEnd() {
		r.last(o, true)
	}
	return false
}

// End ends a record.
func (r *Records) End(o Owner) {
	if r.TryEnd() {
		r.EndLast(o)
	}
}

// TryEnd ends a record. If it reports true, the caller calls EndLast. Both together are End, for
// callers into which TryEnd has to be inlined.
func (r *Records) TryEnd() (closed bool) {
	r.gen.Add(^uint64(0))
	return r.calls.Closed()
}

// EndLast destroys a closed event after its last record.
func (r *Records) EndLast(o Owner) { r.last(o, false) }

// Acquire begins a call that is not a record, unless the event is closed.
func (r *Records) Acquire(o Owner) bool {
	return r.calls.word.Add(refOne)&refClosed == 0 || r.undo(o)
}

func (r *Records) undo(o Owner) bool {
	r.release(o, true)
	return false
}

// Retain begins a call even if the event is closed: see [Refs.Retain].
func (r *Records) Retain() { r.calls.Retain() }

// Release ends a call that is not a record.
func (r *Records) Release(o Owner) {
	if r.calls.drop() {
		r.last(o, false)
	}
}

// ReleaseLater is Release for callers on whose goroutine the object must not be destroyed.
func (r *Records) ReleaseLater(o Owner) { r.release(o, true) }

func (r *Records) release(o Owner, later bool) {
	if r.calls.drop() {
		r.last(o, later)
	}
}

// Close closes the event: no further record or call begins. If last is true, the caller has to
// destroy the object.
func (r *Records) Close() (last bool) {
	_, idle := r.calls.shut()
	return idle && r.take()
}

// Closed reports whether the event is closed.
func (r *Records) Closed() bool { return r.calls.Closed() }

// last calls Owner.Last, unless a record or a call is in progress, which will call last itself, or
// another goroutine calls Owner.Last.
func (r *Records) last(o Owner, later bool) {
	if r.take() {
		o.Last(later)
	}
}

// take is Refs.take for an event, which must have no record in progress.
func (r *Records) take() bool { return r.gen.Load()&genBusy == 0 && r.calls.take() }

// Unused reports whether the event is open and not exposed, and no record or call is in progress.
func (r *Records) Unused() bool {
	return r.calls.word.Load() == 0 && r.gen.Load()&genBusy == 0 && !r.Exposed()
}

// AddWait counts a wait for the present record, until EndWait. The caller has a call in flight.
func (r *Records) AddWait() { r.waits.Add(1) }

// EndWait ends a wait that AddWait has counted.
func (r *Records) EndWait() { r.waits.Add(-1) }

// HasWaits reports whether there are waits for the present record.
func (r *Records) HasWaits() bool { return r.waits.Load() != 0 }

// WaitCount returns the number of waits for the present record.
func (r *Records) WaitCount() int { return int(r.waits.Load()) }

// Stays reports whether Begin would allow another record: the event is exposed, or it has no waits
// and is not worn. Another goroutine may change that before Begin.
func (r *Records) Stays() bool { return r.Exposed() || !r.HasWaits() && !r.Worn() }

// Worn reports whether too many records were begun, or are in progress.
func (r *Records) Worn() bool { return r.gen.Load()&genWorn != 0 }

// Gen returns the present generation.
func (r *Records) Gen() Gen { return Gen(r.gen.Load()) }

// Unrecorded reports whether no record was ever begun. CUDA defines such an event as complete.
func (r *Records) Unrecorded() bool { return r.gen.Load() == 0 && !r.Exposed() }

// Skip counts n records that were not made. It is for tests of worn events.
func (r *Records) Skip(n uint64) { r.gen.Add(n * genOne) }

// Complete reports whether the newest record is known to have completed.
func (r *Records) Complete() bool {
	g := r.gen.Load()
	return g != 0 && r.done.Load() == g && !r.Exposed()
}

// Remember notes that the event was complete in a query that was made after the generation g was
// loaded. Complete relies on this note while the generation is g: gen has each value during one
// period only, and in this period no record begins or ends. If a record was in progress, nothing is
// noted, as the query may have been answered before or after it.
func (r *Records) Remember(g Gen) {
	if !g.Busy() {
		r.done.Store(uint64(g))
	}
}

// Exposed reports whether other code may record the event.
func (r *Records) Exposed() bool { return r.bits.Load()&BitExposed != 0 }

// SetBits sets bits.
func (r *Records) SetBits(bits uint32) { r.bits.Or(bits) }

// ClearBits clears bits of an event that is Unused, on behalf of its next user.
func (r *Records) ClearBits(bits uint32) { r.bits.And(^bits) }

// Bits returns the bits that are set.
func (r *Records) Bits() uint32 { return r.bits.Load() }
