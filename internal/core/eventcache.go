package core

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
)

// eventCache keeps the unused CUevents of a context, because the driver takes longer to create an
// event than to record it. A CUevent is in the cache, or has one user.
type eventCache struct {
	Mu     lock.Mutex[lock.EventCache]
	Events map[uint32][]driver.Event
}

// MaxSpare is the number of unused events that a context keeps for each combination of flags.
const MaxSpare = 64

// take removes and returns an event with the flags, if there is one.
func (ec *eventCache) take(flags uint32) (e driver.Event, ok bool) {
	ec.Mu.Lock()
	defer ec.Mu.Unlock()
	s := ec.Events[flags]
	if len(s) == 0 {
		return 0, false
	}
	ec.Events[flags] = s[:len(s)-1]
	return s[len(s)-1], true
}

// put adds an event. It reports false if there are MaxSpare events with the flags.
func (ec *eventCache) put(flags uint32, e driver.Event) bool {
	ec.Mu.Lock()
	defer ec.Mu.Unlock()
	if len(ec.Events[flags]) >= MaxSpare {
		return false
	}
	if ec.Events == nil {
		ec.Events = make(map[uint32][]driver.Event)
	}
	ec.Events[flags] = append(ec.Events[flags], e)
	return true
}

// All returns all events, and removes none.
func (ec *eventCache) All() (all []driver.Event) {
	ec.Mu.Lock()
	defer ec.Mu.Unlock()
	for _, events := range ec.Events {
		all = append(all, events...)
	}
	return all
}

// EventExternal is the flag cu.EventExternal. It is the library's own: the driver does not know it.
const EventExternal = 1 << 30

// CreateEvent creates a CUevent.
func (c *Context) CreateEvent(flags uint32, at driver.At) (driver.Event, error) {
	at.Context = c.Raw
	t := c.Drv.Trace(drivercall.TraceEventCreate, 0, 0)
	e, res := c.Drv.Table().EventCreate(at, flags&^EventExternal)
	t.DoneOr(func() { c.DestroyEvent(e, BackgroundAt()) }, drivercall.TraceEventCreate, e, 0, res)
	if res != driver.ResultSuccess {
		return 0, c.BackgroundError("cuEventCreate", 0, res)
	}
	return e, nil
}

// QueryEvent queries a CUevent that the library recorded for its own use.
func (c *Context) QueryEvent(e driver.Event) driver.Result {
	t := c.Drv.Trace(drivercall.TraceEventQuery, e, 0)
	res := c.Drv.Table().EventQuery(BackgroundAt(), e)
	t.Done(drivercall.TraceEventQuery, e, 0, res)
	return res
}

// observeEnd is called before a CUevent is destroyed, or has another user.
func (c *Context) observeEnd(e driver.Event) {
	if o := c.Drv.Observer(); o != nil {
		o.EventDestroyed(uintptr(e))
	}
}

// DestroyEvent destroys a CUevent.
func (c *Context) DestroyEvent(e driver.Event, at driver.At) error {
	c.observeEnd(e)
	res := c.Drv.Destroying(drivercall.TraceEventDestroy, e, 0, func() driver.Result {
		return c.Drv.Table().EventDestroy(at, e)
	})
	if res != driver.ResultSuccess {
		return c.BackgroundError("cuEventDestroy", uintptr(e), res)
	}
	return nil
}

// TakeEvent returns an unused CUevent, or creates one. It may have a record of an earlier user,
// which may be pending, until it is recorded again.
func (c *Context) TakeEvent(flags uint32, at driver.At) (driver.Event, error) {
	if e, ok := c.Spare.take(flags); ok {
		return e, nil
	}
	return c.CreateEvent(flags, at)
}

// DoneWith puts a CUevent of TakeEvent into the cache, or destroys it.
func (c *Context) DoneWith(flags uint32, e driver.Event) {
	c.observeEnd(e)
	if c.Poison.Load() == nil && c.Spare.put(flags, e) {
		return
	}
	if err := c.DestroyEvent(e, BackgroundAt()); err != nil {
		c.Drv.Leak(drivercall.LeakReport{Kind: "event", Handle: uintptr(e), Err: err})
	}
}

// endEvents destroys the events that the context keeps.
func (c *Context) endEvents(at driver.At) {
	all := c.Spare.All()
	if c.Cells.Probe != 0 {
		all = append(all, c.Cells.Probe)
	}
	drivercall.EachDespitePanic(len(all), func(i int) {
		if err := c.DestroyEvent(all[i], at); err != nil {
			c.Drv.Leak(drivercall.LeakReport{Kind: "event", Handle: uintptr(all[i]), Err: err})
		}
	})
}
