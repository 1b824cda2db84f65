package cu

import (
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// eventCore is the state of an event that the event's owner, calls in flight and waiters share. It
// fills cache lines of its own, because goroutines that poll other events often write to these.
type eventCore struct {
	// slot is nil once the event is closed. A query needs the first cache line, up to first.drv, and
	// a record the second, up to ctx.
	slot  atomic.Pointer[slot]
	flags uint32
	// foreign says that other code owns the CUevent and destroys it.
	foreign bool
	// imported says that the CUevent was opened from another process's handle.
	imported bool
	first    slot // used until the event needs another slot
	ctx      *contextCore

	// id identifies the event: see EventKey.
	id uint64
	// released says that the event returned to its pool during waits: slot is nil, and the waits
	// continue.
	released atomic.Bool
	// waits are the waits for the event's records.
	waits watch.Group
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

// eventOwner is what an Event points to. It is a separate object, so that Move can transfer it
// while waits and cleanups are attached to it.
type eventOwner struct {
	// core is nil in the owner of a lazy event. The flags of a lazy event are here too, so that
	// Move transfers all in one step.
	core *eventCore
	lazy uint32
}

// object returns the event for an error. It is nil if there is no event yet.
func (o *eventOwner) object() named {
	if o == nil {
		return nil
	}
	return o.core
}

// flags returns the flags of an event. o is nil for a zero Event.
func (o *eventOwner) flags() uint32 {
	switch {
	case o == nil:
		return driver.CU_EVENT_DISABLE_TIMING
	case o.core == nil:
		return o.lazy
	}
	return o.core.flags
}

func (o *eventOwner) closeAbandoned() { o.core.closeAbandoned() }

// closed notes that the event was closed.
func (o *eventOwner) closed() { runtime.SetFinalizer(o, nil) }

// leave ends a call on the event. The owner must stay reachable until then: its finalizer would close
// the event. The Event may have been moved meanwhile, so that nothing else refers to the owner.
func (o *eventOwner) leave(sl *slot) {
	sl.leave()
	runtime.KeepAlive(o)
}

// recordChecked is record with a check of the arguments, which become those of a node if the event has EventExternal
// and the stream is captured. The caller has a call in flight on the stream.
func (c *eventCore) recordChecked(op string, a recordArgs) error {
	op, a, err := c.externalArgs(op, a)
	if err != nil {
		return err
	}
	return c.record(op, a)
}

// externalArgs returns the function and the arguments for a record: RecordExternal is added if the
// event has EventExternal and the stream is being captured.
func (c *eventCore) externalArgs(op string, a recordArgs) (string, recordArgs, error) {
	switch {
	case c.flags&driver.CU_EVENT_INTERPROCESS != 0:
		return op, a, c.refuseNode(op, a.stream, a.flags)
	case c.flags&eventExternal != 0 && a.stream.captureActive():
		a.flags, a.by = a.flags|driver.CU_EVENT_RECORD_EXTERNAL, byRecordWithFlags
		return "cuEventRecordWithFlags", a, nil
	}
	return op, a, nil
}

func (c *eventCore) kind() string          { return "event" }
func (c *eventCore) context() *contextCore { return c.ctx }

// handle returns the CUevent, or the first one that the event had if it is closed.
func (c *eventCore) handle() uintptr {
	if sl := c.slot.Load(); sl != nil {
		return sl.handle()
	}
	return c.first.handle()
}

// mismatch returns the error for a record on a stream of another context. Different drivers come
// first, then a closed object, then different contexts.
func (c *eventCore) mismatch(op string, sc *streamCore) error {
	if c.ctx.drv == sc.ctx.drv && c.slot.Load() != nil && sc.Closed() {
		return errClosed(op, sc)
	}
	return c.ofAnotherContext(op, sc)
}

// ofAnotherContext returns the error for a record on an object of another context.
func (c *eventCore) ofAnotherContext(op string, other member) error {
	if c.ctx.drv == other.context().drv && c.slot.Load() == nil {
		return errClosed(op, c)
	}
	return errMixed(op, c, other)
}

// resultError returns the error for a result of the driver, which may be a success.
func (c *eventCore) resultError(op string, sl *slot, res driver.Result) error {
	if res == driver.ResultSuccess {
		return nil
	}
	return c.ctx.callError(op, uintptr(sl.raw), res)
}

// recordOnce records an event that was not recorded yet. The caller has a call in flight on the
// stream.
func (c *eventCore) recordOnce(op string, sc *streamCore) error {
	op, a, err := c.externalArgs(op, recordArgs{stream: sc})
	if err != nil {
		return err
	}
	for {
		next, err := c.successor(op, a.flags)
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
		r := c.recordMoving(next, a)
		c.endOnce(turn) // before finish, which may call tracers
		if again, err := r.finish(op); !again {
			return err
		}
	}
}

// beginOnce reports whether the caller must record the event, and then call endOnce. If first is
// false, turn is closed when the turn of another call ends. turn is nil if the event was recorded.
func (c *eventCore) beginOnce() (turn chan struct{}, first bool) {
	c.moving.Lock()
	defer c.moving.Unlock()
	if sl := c.slot.Load(); sl != nil && sl.once() {
		return nil, false
	}
	if c.once != nil {
		return c.once, false
	}
	c.once = make(chan struct{})
	return c.once, true
}

func (c *eventCore) endOnce(turn chan struct{}) {
	c.moving.Lock()
	c.once = nil
	c.moving.Unlock()
	close(turn)
}

// newEventCore creates a CUevent in the context. The caller is a user of the context.
func newEventCore(ctx *contextCore, flags uint32) (*eventCore, error) {
	raw, err := ctx.createEvent(flags, driver.At{})
	if err != nil {
		return nil, err
	}
	return ownEvent(ctx, flags, raw), nil
}

// ownEvent returns a new core for a CUevent of the context. The caller is a user of the context.
func ownEvent(ctx *contextCore, flags uint32, raw driver.Event) *eventCore {
	c := ctx.drv.newCore()
	c.ctx, c.flags, c.id = ctx, flags, ctx.drv.events.Add(1)
	c.put(&c.first, raw)
	if flags&driver.CU_EVENT_INTERPROCESS != 0 {
		c.first.SetBits(slotExposed)
	}
	c.slot.Store(&c.first)
	return c
}

// coreSlab has several cores, because allocating them one by one takes longer. The collector frees
// them together.
type coreSlab struct {
	cores [4]eventCore
	used  int
}

// newCore returns a zero core.
func (d *driverCore) newCore() *eventCore {
	s, _ := d.cores.Get().(*coreSlab)
	if s == nil {
		s = new(coreSlab)
	}
	c := &s.cores[s.used]
	if s.used++; s.used < len(s.cores) {
		d.cores.Put(s)
	}
	return c
}

// newSlot returns a new slot with a CUevent.
func (c *eventCore) newSlot(raw driver.Event) *slot {
	padded := new(struct {
		slot
		_ [128 - 104]byte
	})
	c.put(&padded.slot, raw)
	return &padded.slot
}

// put sets the fields of a slot, and makes the slot a user of the context.
func (c *eventCore) put(sl *slot, raw driver.Event) {
	c.ctx.hold() // cannot fail: the caller is a user of the context, or acts for a user
	sl.raw, sl.drv, sl.core = raw, c.ctx.drv, c
}

// enter begins a call on the event's present slot.
func (c *eventCore) enter(op string) (*slot, error) {
	for {
		sl := c.slot.Load()
		if sl == nil {
			return nil, errClosed(op, c)
		}
		if sl.Acquire(sl) {
			return sl, nil
		}
		// The slot was retired, or the event was closed, after the load.
	}
}

// enterForeign is enter for a caller that exposes the CUevent. It returns a new slot if the CUevent may
// have the record of an earlier user.
func (c *eventCore) enterForeign(op string) (*slot, error) {
	for {
		c.moving.Lock()
		sl := c.slot.Load()
		if sl != nil && sl.stale() {
			c.moving.Unlock()
			return c.enterNode(op)
		}
		if sl != nil && sl.Acquire(sl) {
			sl.expose()
			c.moving.Unlock()
			return sl, nil
		}
		c.moving.Unlock()
		if sl == nil {
			return nil, errClosed(op, c)
		}
	}
}

// enterNode is enterForeign for a graph that will record the CUevent. It also returns a new slot if a
// waiter needs the present record.
func (c *eventCore) enterNode(op string) (*slot, error) {
	for {
		next, err := c.successor(op, driver.CU_EVENT_RECORD_EXTERNAL)
		if err != nil {
			return nil, err
		}
		acquired := false
		sl, open := c.settle(&next, func(sl *slot) bool {
			acquired = sl.Acquire(sl)
			return acquired
		})
		next.leave()
		switch {
		case acquired:
			return sl, nil
		case !open:
			return nil, errClosed(op, c)
		}
	}
}

// close closes the event. first is true for one caller only.
func (c *eventCore) close(at driver.At) (first bool, err error) {
	sl := c.slot.Swap(nil)
	if sl == nil {
		return false, nil
	}
	last := sl.Close()
	// A new wait is added before it checks for a closed event, so one of the two sees the other.
	if !c.waits.Empty() && !c.released.Load() {
		c.ctx.drv.watch.EndGroup(&c.waits, func(item watch.Item) error { return errClosedMeanwhile(item.(*slot)) })
	}
	if last {
		err = sl.destroy(at)
	}
	return true, err
}

// closeAbandoned closes an abandoned event.
func (c *eventCore) closeAbandoned() {
	sl := c.slot.Load()
	first, err := c.close(background())
	if first {
		c.ctx.drv.leak(leakReport{Kind: "event", Handle: uintptr(sl.raw), Abandoned: true, Err: err})
	}
}

// newUnnumberedCore returns a core for a CUevent. The CUevent may have the record of an earlier user.
func newUnnumberedCore(ctx *contextCore, flags uint32, raw driver.Event) *eventCore {
	c := &eventCore{ctx: ctx, flags: flags}
	c.put(&c.first, raw)
	c.slot.Store(&c.first)
	return c
}

// unused reports whether the event has its first slot, which neither a call nor a graph uses.
func (c *eventCore) unused() bool { return c.slot.Load() == &c.first && c.first.Unused() }

// release takes a core out of service. Waits continue, and the CUevent is reused after the last of
// them.
func (c *eventCore) release() {
	c.released.Store(true)
	if sl := c.slot.Swap(nil); sl != nil {
		sl.retire()
	}
}
