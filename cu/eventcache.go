package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// eventCache keeps the unused CUevents of a context, because the driver takes longer to create an
// event than to record it. A CUevent is in the cache, or has one user.
type eventCache struct {
	mu     lock.Mutex[lock.EventCache]
	events map[uint32][]driver.Event
}

// maxSpare is the number of unused events that a context keeps for each combination of flags.
const maxSpare = 64

// take removes and returns an event with the flags, if there is one.
func (ec *eventCache) take(flags uint32) (e driver.Event, ok bool) {
	ec.mu.Lock()
	defer ec.mu.Unlock()
	s := ec.events[flags]
	if len(s) == 0 {
		return 0, false
	}
	ec.events[flags] = s[:len(s)-1]
	return s[len(s)-1], true
}

// put adds an event. It reports false if there are maxSpare events with the flags.
func (ec *eventCache) put(flags uint32, e driver.Event) bool {
	ec.mu.Lock()
	defer ec.mu.Unlock()
	if len(ec.events[flags]) >= maxSpare {
		return false
	}
	if ec.events == nil {
		ec.events = make(map[uint32][]driver.Event)
	}
	ec.events[flags] = append(ec.events[flags], e)
	return true
}

// all returns all events, and removes none.
func (ec *eventCache) all() (all []driver.Event) {
	ec.mu.Lock()
	defer ec.mu.Unlock()
	for _, events := range ec.events {
		all = append(all, events...)
	}
	return all
}

// eventExternal is the flag EventExternal. It is this package's own: the driver does not know it.
const eventExternal = 1 << 30

func (c *contextCore) createEvent(flags uint32, at driver.At) (driver.Event, error) {
	at.Context = c.raw
	t := c.drv.trace(traceEventCreate, 0, 0)
	e, res := c.drv.table().EventCreate(at, flags&^eventExternal)
	t.doneOr(func() { c.destroyEvent(e, background()) }, traceEventCreate, e, 0, res)
	if res != driver.ResultSuccess {
		return 0, c.backgroundError("cuEventCreate", 0, res)
	}
	return e, nil
}

// queryEvent queries a CUevent that this package recorded for its own use.
func (c *contextCore) queryEvent(e driver.Event) driver.Result {
	t := c.drv.trace(traceEventQuery, e, 0)
	res := c.drv.table().EventQuery(background(), e)
	t.done(traceEventQuery, e, 0, res)
	return res
}

// observeEnd is called before a CUevent is destroyed, or has another user.
func (c *contextCore) observeEnd(e driver.Event) {
	if o := c.drv.observer(); o != nil {
		o.EventDestroyed(uintptr(e))
	}
}

func (c *contextCore) destroyEvent(e driver.Event, at driver.At) error {
	c.observeEnd(e)
	res := c.drv.destroying(traceEventDestroy, e, 0, func() driver.Result { return c.drv.table().EventDestroy(at, e) })
	if res != driver.ResultSuccess {
		return c.backgroundError("cuEventDestroy", uintptr(e), res)
	}
	return nil
}

// takeEvent returns an unused CUevent, or creates one. It may have a record of an earlier user,
// which may be pending, until it is recorded again.
func (c *contextCore) takeEvent(flags uint32, at driver.At) (driver.Event, error) {
	if e, ok := c.spare.take(flags); ok {
		return e, nil
	}
	return c.createEvent(flags, at)
}

// doneWith puts a CUevent of takeEvent into the cache, or destroys it.
func (c *contextCore) doneWith(flags uint32, e driver.Event) {
	c.observeEnd(e)
	if c.poison.Load() == nil && c.spare.put(flags, e) {
		return
	}
	if err := c.destroyEvent(e, background()); err != nil {
		c.drv.leak(leakReport{Kind: "event", Handle: uintptr(e), Err: err})
	}
}

// endEvents destroys the events that the context keeps.
func (c *contextCore) endEvents(at driver.At) {
	all := c.spare.all()
	if c.cells.probe != 0 {
		all = append(all, c.cells.probe)
	}
	eachDespitePanic(len(all), func(i int) {
		if err := c.destroyEvent(all[i], at); err != nil {
			c.drv.leak(leakReport{Kind: "event", Handle: uintptr(all[i]), Err: err})
		}
	})
}
