package core

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// Event is the state of an event that the event's owner, calls in flight and waiters share. It
// fills cache lines of its own, because goroutines that poll other events often write to these.
type Event struct {
	// Slot is nil once the event is closed. A query needs the first cache line, up to First.Drv, and
	// a record the second, up to Ctx.
	Slot  atomic.Pointer[Slot]
	Flags uint32
	// Foreign says that other code owns the CUevent and destroys it.
	Foreign bool
	// Imported says that the CUevent was opened from another process's handle.
	Imported bool
	First    Slot // used until the event needs another slot
	Ctx      *Context

	// ID identifies the event: see EventKey.
	ID uint64
	// Released says that the event returned to its pool during waits: Slot is nil, and the waits
	// continue.
	Released atomic.Bool
	// Waits are the waits for the event's records.
	Waits watch.Group
	// moving is held while the event moves to another slot, and while a call decides that the event
	// stays. The driver is not called meanwhile, except for a record that becomes a node of a
	// graph: see settle.
	moving lock.Mutex[lock.Moving]
	// ranks counts the event's successors. moving guards it.
	ranks uint64
	// once is closed when the RecordOnce in flight has recorded, or nil. moving guards it.
	once chan struct{}

	_ [192 - 176]byte
}

// RecordChecked is Record with a check of the arguments, which become those of a node if the event has EventExternal
// and the stream is captured. The caller has a call in flight on the stream.
func (c *Event) RecordChecked(op string, a RecordArgs) error {
	op, a, err := c.externalArgs(op, a)
	if err != nil {
		return err
	}
	return c.Record(op, a)
}

// externalArgs returns the function and the arguments for a record: RecordExternal is added if the
// event has EventExternal and the stream is being captured.
func (c *Event) externalArgs(op string, a RecordArgs) (string, RecordArgs, error) {
	switch {
	case c.Flags&driver.CU_EVENT_INTERPROCESS != 0:
		return op, a, c.refuseNode(op, a.Stream, a.Flags)
	case c.Flags&EventExternal != 0 && a.Stream.CaptureActive():
		a.Flags, a.By = a.Flags|driver.CU_EVENT_RECORD_EXTERNAL, ByRecordWithFlags
		return "cuEventRecordWithFlags", a, nil
	}
	return op, a, nil
}

// Kind names the kind of the object in errors and reports.
func (c *Event) Kind() string { return "event" }

// Context returns the context that the object belongs to.
func (c *Event) Context() *Context { return c.Ctx }

// Handle returns the CUevent, or the first one that the event had if it is closed.
func (c *Event) Handle() uintptr {
	if sl := c.Slot.Load(); sl != nil {
		return sl.Handle()
	}
	return c.First.Handle()
}

// Mismatch returns the error for a record on a stream of another context. Different drivers come
// first, then a closed object, then different contexts.
func (c *Event) Mismatch(op string, sc *Stream) error {
	if c.Ctx.Drv == sc.Ctx.Drv && c.Slot.Load() != nil && sc.Closed() {
		return drivercall.ClosedError(op, sc)
	}
	return c.OfAnotherContext(op, sc)
}

// OfAnotherContext returns the error for a record on an object of another context.
func (c *Event) OfAnotherContext(op string, other Member) error {
	if c.Ctx.Drv == other.Context().Drv && c.Slot.Load() == nil {
		return drivercall.ClosedError(op, c)
	}
	return MixedError(op, c, other)
}

// ResultError returns the error for a result of the driver, which may be a success.
func (c *Event) ResultError(op string, sl *Slot, res driver.Result) error {
	if res == driver.ResultSuccess {
		return nil
	}
	return c.Ctx.CallError(op, uintptr(sl.Raw), res)
}

// RecordOnce records an event that was not recorded yet. The caller has a call in flight on the
// stream.
func (c *Event) RecordOnce(op string, sc *Stream) error {
	op, a, err := c.externalArgs(op, RecordArgs{Stream: sc})
	if err != nil {
		return err
	}
	for {
		next, err := c.Successor(op, a.Flags)
		if err != nil {
			return err
		}
		turn, first := c.beginOnce()
		if !first {
			next.leave()
			if turn == nil {
				return nil
			}
			<-turn
			continue
		}
		r := c.RecordMoving(next, a)
		c.endOnce(turn) // before Finish, which may call tracers
		if again, err := r.Finish(op); !again {
			return err
		}
	}
}

// beginOnce reports whether the caller must record the event, and then call endOnce. If first is
// false, turn is closed when the turn of another call ends. turn is nil if the event was recorded.
func (c *Event) beginOnce() (turn chan struct{}, first bool) {
	c.moving.Lock()
	defer c.moving.Unlock()
	if sl := c.Slot.Load(); sl != nil && sl.Once() {
		return nil, false
	}
	if c.once != nil {
		return c.once, false
	}
	c.once = make(chan struct{})
	return c.once, true
}

func (c *Event) endOnce(turn chan struct{}) {
	c.moving.Lock()
	c.once = nil
	c.moving.Unlock()
	close(turn)
}

// NewEvent creates a CUevent in the context. The caller is a user of the context.
func NewEvent(ctx *Context, flags uint32) (*Event, error) {
	raw, err := ctx.CreateEvent(flags, driver.At{})
	if err != nil {
		return nil, err
	}
	return NewEventOf(ctx, flags, raw), nil
}

// NewEventOf returns a new Event for a CUevent of the context, which other code may own. The caller is a user of the
// context.
func NewEventOf(ctx *Context, flags uint32, raw driver.Event) *Event {
	c := ctx.Drv.newEvent()
	c.Ctx, c.Flags, c.ID = ctx, flags, ctx.Drv.Events.Add(1)
	c.put(&c.First, raw)
	if flags&driver.CU_EVENT_INTERPROCESS != 0 {
		c.First.SetBits(SlotExposed)
	}
	c.Slot.Store(&c.First)
	return c
}

// eventSlab has several events, because allocating them one by one takes longer. The collector frees
// them together.
type eventSlab struct {
	events [4]Event
	used   int
}

// newEvent returns a zero Event.
func (d *Driver) newEvent() *Event {
	s, _ := d.eventSlabs.Get().(*eventSlab)
	if s == nil {
		s = new(eventSlab)
	}
	c := &s.events[s.used]
	if s.used++; s.used < len(s.events) {
		d.eventSlabs.Put(s)
	}
	return c
}

// newSlot returns a new slot with a CUevent.
func (c *Event) newSlot(raw driver.Event) *Slot {
	padded := new(struct {
		Slot
		_ [128 - 104]byte
	})
	c.put(&padded.Slot, raw)
	return &padded.Slot
}

// put sets the fields of a slot, and makes the slot a user of the context.
func (c *Event) put(sl *Slot, raw driver.Event) {
	c.Ctx.Hold() // cannot fail: the caller is a user of the context, or acts for a user
	sl.Raw, sl.Drv, sl.Event = raw, c.Ctx.Drv, c
}

// Enter begins a call on the event's present slot.
func (c *Event) Enter(op string) (*Slot, error) {
	for {
		sl := c.Slot.Load()
		if sl == nil {
			return nil, drivercall.ClosedError(op, c)
		}
		if sl.Acquire(sl) {
			return sl, nil
		}
		// The slot was retired, or the event was closed, after the load.
	}
}

// EnterExposed is Enter for a caller that exposes the CUevent. It returns a new slot if the CUevent may
// have the record of an earlier user.
func (c *Event) EnterExposed(op string) (*Slot, error) {
	for {
		c.moving.Lock()
		sl := c.Slot.Load()
		if sl != nil && sl.stale() {
			c.moving.Unlock()
			return c.EnterNode(op)
		}
		if sl != nil && sl.Acquire(sl) {
			sl.expose()
			c.moving.Unlock()
			return sl, nil
		}
		c.moving.Unlock()
		if sl == nil {
			return nil, drivercall.ClosedError(op, c)
		}
	}
}

// EnterNode is EnterExposed for a graph that will record the CUevent. It also returns a new slot if a
// waiter needs the present record.
func (c *Event) EnterNode(op string) (*Slot, error) {
	for {
		next, err := c.Successor(op, driver.CU_EVENT_RECORD_EXTERNAL)
		if err != nil {
			return nil, err
		}
		acquired := false
		sl, open := c.settle(&next, func(sl *Slot) bool {
			acquired = sl.Acquire(sl)
			return acquired
		})
		next.leave()
		switch {
		case acquired:
			return sl, nil
		case !open:
			return nil, drivercall.ClosedError(op, c)
		}
	}
}

// Close closes the event. first is true for one caller only.
func (c *Event) Close(at driver.At) (first bool, err error) {
	sl := c.Slot.Swap(nil)
	if sl == nil {
		return false, nil
	}
	last := sl.Close()
	// A new wait is added before it checks for a closed event, so one of the two sees the other.
	if !c.Waits.Empty() && !c.Released.Load() {
		c.Ctx.Drv.Watch.EndGroup(&c.Waits, func(item watch.Item) error { return EventClosedError(item.(*Slot)) })
	}
	if last {
		err = sl.destroy(at)
	}
	return true, err
}

// closeAbandoned closes an abandoned event.
func (c *Event) closeAbandoned() {
	sl := c.Slot.Load()
	first, err := c.Close(BackgroundAt())
	if first {
		c.Ctx.Drv.Leak(drivercall.LeakReport{Kind: "event", Handle: uintptr(sl.Raw), Abandoned: true, Err: err})
	}
}

// NewUnnumberedEvent returns an Event for a CUevent. The CUevent may have the record of an earlier user.
func NewUnnumberedEvent(ctx *Context, flags uint32, raw driver.Event) *Event {
	c := &Event{Ctx: ctx, Flags: flags}
	c.put(&c.First, raw)
	c.Slot.Store(&c.First)
	return c
}

// Unused reports whether the event has its first slot, which neither a call nor a graph uses.
func (c *Event) Unused() bool { return c.Slot.Load() == &c.First && c.First.Unused() }

// Release takes an Event out of service. Waits continue, and the CUevent is reused after the last of
// them.
func (c *Event) Release() {
	c.Released.Store(true)
	if sl := c.Slot.Swap(nil); sl != nil {
		sl.Retire()
	}
}
