package cu

import "runtime"

// LazyEvent returns an Event that its first Record creates, with these flags, in the
// context of that stream; or [Event.IPCHandle] does, if that comes first. Without flags
// it is what the zero Event is: untimed.
// Several flags count together. Flags that do not go together are refused by the
// Record that would create the event.
func LazyEvent(flags ...EventFlags) *Event {
	e := new(Event)
	if f := lazyFlags(flags); f != EventDisableTiming {
		e.owner.Store(&eventOwner{lazy: f})
	}
	return e
}

// lazyFlags returns all the flags in one, EventDisableTiming if there are none.
func lazyFlags(flags []EventFlags) EventFlags {
	if len(flags) == 0 {
		return EventDisableTiming
	}
	var all EventFlags
	for _, f := range flags {
		all |= f
	}
	return all
}

// create gives an event that was not created yet its CUevent.
func (e *Event) create(ctx *contextCore) (*eventOwner, error) {
	for {
		was, flags := e.owner.Load(), EventDisableTiming
		if was != nil {
			if was.core != nil {
				return was, nil // another record was faster
			}
			flags = was.lazy
		}
		if err := flags.check(); err != nil {
			return nil, err
		}
		ec, err := newEventCore(ctx, flags)
		if err != nil {
			return nil, err
		}
		o := newEventOwner(ec)
		if e.replace(was, o) {
			return o, nil
		}
		// Another record was faster, or the event moved.
		o.cleanup.Stop()
		if _, err := ec.close(background()); err != nil {
			ctx.drv.leak(Leak{Kind: "event", Handle: uintptr(ec.first.raw), Err: err})
		}
	}
}

// replace gives the event another owner, unless it has another one than was.
func (e *Event) replace(was, o *eventOwner) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.owner.Load() != was {
		return false
	}
	e.owner.Store(o)
	return true
}

// createOn gives an event that was not created yet its CUevent, in the context of a stream.
func (e *Event) createOn(op string, s *Stream) (*eventOwner, error) {
	if err := s.core.begin(op); err != nil {
		return nil, err
	}
	defer s.leave()
	return e.create(s.core.ctx)
}

// Move returns a new Event that has taken over what this one held: its CUevent
// with the context, the device, the flags and the record, or, if it was not created
// yet, its flags. It leaves this one as the zero Event. Waits that are under way go
// on. What is taken over by an Event that nobody refers to is closed.
func (e *Event) Move() *Event {
	m := new(Event)
	if e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		m.owner.Store(e.owner.Swap(nil))
	}
	return m
}

// MoveTo lets dst take over what this Event held, as Move does, and leaves here
// what dst held: the two are exchanged. Other calls on either of them find the one
// or the other, and, for a moment, dst's new content in both; other moves, and records
// that create one of them, come before or after. Moving an Event to itself does nothing.
func (e *Event) MoveTo(dst *Event) error {
	if e == nil || dst == nil {
		return errNil("MoveTo", "event")
	}
	if e == dst {
		return nil
	}
	for e.mu.Lock(); !dst.mu.TryLock(); e.mu.Lock() { // two moves may lock the same two events
		e.mu.Unlock()
		runtime.Gosched()
	}
	defer e.mu.Unlock()
	defer dst.mu.Unlock()
	e.owner.Store(dst.owner.Swap(e.owner.Load()))
	return nil
}

// RecordOnce records the event on the stream, unless it has been recorded before, by
// this package. Of several that are called at once, one records, and the others return
// when it has. A record in a capture counts from then on, also one that only the graph
// does, and whether or not the graph ever runs: an event that was made with
// [EventExternal] becomes one node, not one for each call.
// It waits while the stream's queue is full: see docs/blocking.md.
func (e *Event) RecordOnce(s *Stream) error {
	const op = "cuEventRecord"
	if e == nil {
		return errNil(op, "event")
	}
	if s == nil || s.core == nil {
		return errNil(op, "stream")
	}
	o, sc := e.load(), s.core
	if o == nil {
		var err error
		if o, err = e.createOn(op, s); err != nil {
			return err
		}
	}
	defer runtime.KeepAlive(o)
	c := o.core
	if sl := c.slot.Load(); sl != nil && sl.once() {
		return nil
	}
	if c.ctx != sc.ctx {
		return c.mismatch(op, sc)
	}
	if err := sc.begin(op); err != nil {
		return err
	}
	defer s.leave()
	return c.recordOnce(op, sc)
}

// recordOnce records an event that was not recorded yet on a stream, of which the caller
// holds a reference.
func (c *eventCore) recordOnce(op string, sc *streamCore) error {
	op, a, err := c.externally(op, recordArgs{stream: sc})
	if err != nil {
		return err
	}
	for {
		next, err := c.successor(op, a.flags)
		if err != nil {
			return err
		}
		turn, first := c.takeTurn()
		if !first {
			next.leave()
			if turn == nil {
				return nil
			}
			<-turn
			continue
		}
		r := c.recordMoving(next, a)
		c.endTurn(turn) // no tracer is called before
		if again, err := r.finish(op); !again {
			return err
		}
	}
}

// takeTurn reports whether the caller is the first to record the event; then it has to end
// the turn. Otherwise turn is closed when somebody else's has ended, and nil if the event
// was recorded.
func (c *eventCore) takeTurn() (turn chan struct{}, first bool) {
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

func (c *eventCore) endTurn(turn chan struct{}) {
	c.moving.Lock()
	c.once = nil
	c.moving.Unlock()
	close(turn)
}
