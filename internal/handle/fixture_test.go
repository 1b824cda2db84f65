//go:build explore

package handle

import (
	"errors"

	"github.com/purecu/purecu/internal/explore"
)

// The plain variables in this file change together with the previous step, as only one goroutine
// runs at a time. So checks that use them add no steps to the programs.

// object is the object that a handle stands for in a program. It fails the program if it is used
// after its destruction, or destroyed too early or twice.
type object struct {
	r *explore.Run
	// inUse counts the calls that may use the object.
	inUse     int
	closed    bool
	destroyed int
	// locked is a lock that callers hold, and that the destruction takes. It may be nil.
	locked *explore.Mutex
}

// enter notes that a call has begun.
func (o *object) enter() {
	if o.destroyed != 0 {
		o.r.Fail("a call has begun on a destroyed object")
	}
	o.inUse++
}

// leave notes that a call is about to end.
func (o *object) leave() { o.inUse-- }

func (o *object) Last(later bool) {
	if later {
		explore.Go(o.destroy)
	} else {
		o.destroy()
	}
}

func (o *object) destroy() {
	if o.locked != nil {
		o.locked.Lock()
		defer o.locked.Unlock()
	}
	switch o.destroyed++; {
	case !o.closed:
		o.r.Fail("an open object is destroyed")
	case o.destroyed > 1:
		o.r.Fail("destroyed twice")
	case o.inUse != 0:
		o.r.Fail("destroyed during %d calls", o.inUse)
	}
}

// check checks the object at the end of a program.
func (o *object) check() {
	if o.closed && o.destroyed != 1 {
		o.r.Fail("the object is closed, and was destroyed %d times", o.destroyed)
	}
}

var errRefused = errors.New("refused")

func (o *object) Refused(string) error { return errRefused }

// counted is an object with Refs.
type counted struct {
	object
	Refs
	firsts int
}

func newCounted(r *explore.Run) *counted {
	c := &counted{object: object{r: r}}
	r.Finally(func() {
		c.check()
		if c.closed && c.firsts != 1 {
			r.Fail("%d closes were the first", c.firsts)
		}
		if c.CallsInFlight() != 0 || c.Gated() {
			r.Fail("%d calls are left; gated: %v", c.CallsInFlight(), c.Gated())
		}
	})
	return c
}

// call makes a call, and reports whether it was allowed.
func (c *counted) call() bool {
	late := c.firsts != 0
	if !c.Acquire(c) {
		return false
	}
	if late {
		c.r.Fail("a call has begun after Close")
	}
	c.use()
	return true
}

// callGated makes a gated call, and reports whether it was allowed.
func (c *counted) callGated() bool {
	late := c.firsts != 0
	if !c.AcquireGated(c) {
		return false
	}
	if late {
		c.r.Fail("a call has begun after Close")
	}
	if !c.Gated() {
		c.r.Fail("the call is not gated")
	}
	c.enter()
	c.leave()
	c.ReleaseGated(c)
	return true
}

// use makes the rest of a call that has been acquired.
func (c *counted) use() {
	c.enter()
	c.leave()
	c.Release(c)
}

func (c *counted) close() {
	c.closed = true
	first, last := c.Close()
	if first {
		c.firsts++
	}
	if last {
		c.destroy()
	}
}

// event is an object with Records, and the device's state of the event.
type event struct {
	object
	Records
	// device makes each action of the device a step.
	device explore.Int32
	// newest is the number of the newest record that the device has received, and finished that of
	// the last one that has completed.
	newest, finished int
	// ended is the newest record whose End has returned.
	ended int
	// on is the stream of all records if the event belongs to a holder, last the number of the
	// newest record there, and place the event's position among the holder's events.
	on          *stream
	last, place int
	// watched counts the waits during which no other record may be made, unless the event is
	// exposed.
	watched int
}

func newEvent(r *explore.Run) *event {
	e := &event{object: object{r: r}}
	r.Finally(func() {
		e.check()
		if e.Records.calls.CallsInFlight() != 0 || e.Gen().Busy() || e.WaitCount() != 0 {
			r.Fail("left are %d calls, %v records, %d waits", e.Records.calls.CallsInFlight(), e.Gen()&genBusy, e.WaitCount())
		}
	})
	return e
}

// makeRecord records the event on the device.
func (e *event) makeRecord() int {
	e.device.Add(1)
	if e.newest++; e.watched != 0 && !e.Records.peekExposed() {
		e.r.Fail("recorded during a wait for the present record")
	}
	if e.on != nil {
		e.on.made++
		e.last = e.on.made
	}
	return e.newest
}

// peekExposed is Exposed without a step.
func (r *Records) peekExposed() bool { return explore.Peek(&r.bits)&BitExposed != 0 }

// record records the event, and reports whether Begin allowed it.
func (e *event) record() bool {
	late := e.Records.calls.peekClosed()
	if !e.Begin(e) {
		return false
	}
	if late {
		e.r.Fail("a record has begun after Close")
	}
	e.enter()
	n := e.makeRecord()
	e.leave()
	e.End(e)
	e.ended = max(e.ended, n)
	return true
}

// peekClosed is Closed without a step.
func (r *Refs) peekClosed() bool { return explore.Peek(&r.word)&refClosed != 0 }

// recordByOthers records the event as other code does, without Begin.
func (e *event) recordByOthers() {
	e.device.Add(1)
	e.newest++
	e.ended = e.newest
}

// query reports whether the event is complete, and remembers this.
func (e *event) query() (complete bool) {
	ended := e.ended
	if e.Complete() {
		return e.complete(ended)
	}
	if !e.Acquire(e) {
		return false
	}
	e.enter()
	if e.Unrecorded() {
		complete = e.complete(ended)
	} else if g := e.Gen(); e.ask() {
		complete = e.complete(ended)
		e.Remember(g)
	}
	e.leave()
	e.Release(e)
	return complete
}

// complete fails the program if the event was not complete. ended is the newest record that had
// ended before the query.
func (e *event) complete(ended int) bool {
	if e.finished < ended {
		e.r.Fail("record %d counts as complete, and %d was made", e.finished, ended)
	}
	return true
}

// ask queries the event on the device, which may have completed all records that were made.
func (e *event) ask() bool {
	e.device.Add(1)
	if e.finished < e.newest && explore.Choose(2) == 1 {
		e.finished = e.newest
		if e.on != nil {
			e.on.done = max(e.on.done, e.last)
		}
	}
	return e.finished == e.newest
}

// watch waits for the present record for a moment. No other record may be made meanwhile.
func (e *event) watch() {
	if !e.Acquire(e) {
		return
	}
	e.enter()
	e.AddWait()
	if g := e.Gen(); !g.Busy() {
		e.watched++
		if e.ask() && e.Gen() == g {
			e.Remember(g)
		}
		e.watched--
	}
	e.EndWait()
	e.leave()
	e.Release(e)
}

func (e *event) close() {
	e.closed = true
	if e.Close() {
		e.destroy()
	}
}

// holder has an event, as an Event of package cu has a slot. When the event is recorded during a
// wait for it, another event takes its place. All records are on one stream. A query after a record
// must report work that was enqueued before the record: it is about this record, or about another
// one that was made since the call began.
type holder struct {
	r      *explore.Run
	slot   explore.Pointer[event]
	moving explore.Mutex
	places int // how many events have been made as replacements; moving guards it
	all    []*event
	stream stream
}

// stream counts the records that were made, and the records that have completed. ended is the
// lowest record that the event may stand for after the calls that have returned.
type stream struct{ made, done, ended int }

func newHolder(r *explore.Run) *holder {
	h := &holder{r: r}
	h.slot.Store(h.event())
	r.Finally(func() {
		for _, e := range h.all {
			if last := h.slot.Load(); (e == last) == e.closed {
				r.Fail("an event is closed: %v, and held: %v", e.closed, e == last)
			}
		}
	})
	return h
}

func (h *holder) event() *event {
	e := newEvent(h.r)
	h.all = append(h.all, e)
	e.on = &h.stream
	return e
}

func (h *holder) record() {
	before := h.stream.made
	for {
		e := h.slot.Load()
		if e == nil {
			return
		}
		if e.record() || h.recordElsewhere() {
			break
		}
	}
	h.stream.ended = max(h.stream.ended, before+1)
}

// recordElsewhere makes a record on another event, because the present event has refused it. It
// reports false if the caller has to record again.
func (h *holder) recordElsewhere() (done bool) {
	h.moving.Lock()
	of := h.slot.Load()
	if of == nil {
		h.moving.Unlock()
		return true
	}
	if of.Stays() || !of.Acquire(of) {
		h.moving.Unlock()
		return false
	}
	of.AddWait() // from here on other goroutines use other events
	h.places++
	next := h.event()
	next.place = h.places
	h.moving.Unlock()
	if !next.record() {
		h.r.Fail("a new event refuses a record")
	}
	left, done := h.move(of, next)
	if left.close(); left != next && left != of {
		left.EndWait() // after the close, as no record may begin there
	}
	of.EndWait()
	of.Release(of)
	return done
}

// move puts next into the place of the present event. It returns the event that the caller has to
// close.
func (h *holder) move(of, next *event) (left *event, done bool) {
	h.moving.Lock()
	defer h.moving.Unlock()
	old := h.slot.Load()
	switch {
	case old == nil, old != of && old.place > next.place: // a later record has replaced next, too
		return next, true
	case old != of:
		old.AddWait() // a record that begins now observes this, or is observed in Gen
		if old.Gen().Count() != 1 {
			old.EndWait()
			return next, false
		}
	}
	if h.slot.CompareAndSwap(old, next) {
		return old, true
	}
	if old != of {
		old.EndWait()
	}
	return next, true // it was closed
}

func (h *holder) query() {
	for {
		ended := h.stream.ended
		e := h.slot.Load()
		if e == nil {
			return
		}
		if e.query() {
			if h.stream.done < ended {
				h.r.Fail("record %d of the stream counts as complete, and %d is", ended, h.stream.done)
			}
			return
		}
		if !e.Closed() {
			return
		}
	}
}

func (h *holder) watch() {
	if e := h.slot.Load(); e != nil {
		e.watch()
	}
}

func (h *holder) close() {
	if e := h.slot.Swap(nil); e != nil {
		e.close()
	}
}

// shared is an object with Users. When the last user is gone, its lock decides whether it is
// destroyed.
type shared struct {
	object
	Users
	mu explore.Mutex
	// destroying says that the object is being destroyed. mu guards it.
	destroying bool
}

func newShared(r *explore.Run) *shared {
	s := &shared{object: object{r: r, closed: true}}
	s.Revive()
	r.Finally(s.check)
	return s
}

// call makes a call, and reports whether it was allowed.
func (s *shared) call() bool {
	if !s.Hold() && !s.revive() {
		return false
	}
	s.enter()
	s.leave()
	s.drop()
	return true
}

func (s *shared) revive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.Hold():
	case s.destroying:
		return false
	default:
		s.Revive()
	}
	return true
}

func (s *shared) drop() {
	if !s.Drop() {
		return
	}
	s.mu.Lock()
	last := s.None() && !s.destroying
	s.destroying = s.destroying || last
	s.mu.Unlock()
	if last {
		s.destroy()
	}
}
