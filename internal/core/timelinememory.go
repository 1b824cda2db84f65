package core

import (
	"errors"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/slab"
)

// cells has the memory of a context's timelines, and its closed timelines whose work may not be
// done.
//
// A slab stays registered until the CUDA context ends: unregistering waits for all work in the
// context, and blocks calls that enqueue work there. Only cu.Driver.Close unregisters slabs, and only
// slabs that no context of the driver has: see UnmapSlabs.
type cells struct {
	slab.Cells

	Mu lock.Mutex[lock.Timelines]
	// Probe is an event that is never recorded. A query of it tells whether the context still
	// works. It is 0 until the first timeline is created.
	Probe driver.Event
	// Open is the number of open timelines. Unfinished is the number of closed timelines that still
	// have a cell, because a graph uses them, or work that is not known to be done.
	Open, Unfinished int
	// Closed has the unfinished timelines on which no call is in flight. They are checked when no
	// cell is free and there are CheckAt of them.
	Closed  []UnfinishedTimeline
	CheckAt int

	// drained says that the context is being released, and that the release has waited for the work
	// on its own streams. From then on, only streamEnds.lost and tails with an error report work
	// that may not be done.
	drained atomic.Bool
}

// UnfinishedTimeline is a closed timeline on which no call is in flight: a *timelines.Timeline.
type UnfinishedTimeline interface {
	// FreeIfDone frees the cell if all work is done, and reports whether it is. An error says that the end of the work
	// can never be known.
	FreeIfDone() (done bool, err error)
	// WaitAndFree waits for the work, and then frees the cell.
	WaitAndFree() error
	// KeepForever reports the timeline as leaked.
	KeepForever(err error)
}

// Place returns the context as a place where slabs are registered.
func (c *Context) Place() slab.Place[ContextKey] {
	c.Drv.Mu.Lock()
	defer c.Drv.Mu.Unlock()
	return slab.Place[ContextKey]{Key: c.Key, Primary: c.Claim == Retained, Device: c.Dev}
}

// MinLook is the number of closed timelines from which they are checked.
const MinLook = 32

// CountTimelines adds to the numbers of open timelines and of closed timelines whose work is not done.
func (k *cells) CountTimelines(open, unfinished int) {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.Open += open
	k.Unfinished += unfinished
}

// AddUnfinished adds a closed timeline whose work may not be done.
func (k *cells) AddUnfinished(t UnfinishedTimeline) {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.Closed = append(k.Closed, t)
}

// CheckDue reports whether to check the closed timelines: when there are twice as many as the
// last check left. So the amortized cost per timeline is constant.
func (k *cells) CheckDue() bool {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	return len(k.Closed) >= max(k.CheckAt, MinLook)
}

// endTimelines waits for the work of closed timelines. The context is being released, and the work
// on its own streams is done. An error, which is set also if a tracer panics, says that work may
// still use the memory, which therefore has to stay registered.
func (c *Context) endTimelines(err *error) {
	k := &c.Cells
	k.drained.Store(true)
	closed := k.Closed // no lock: the context has no users
	k.Closed = nil
	drivercall.EachDespitePanic(len(closed), func(i int) {
		tc := closed[i]
		e := errTracer
		drivercall.EachDespitePanic(3, func(step int) {
			switch {
			case step < 2 && e == errTracer: // try again if a tracer panicked
				e = tc.WaitAndFree()
			case step == 2 && e != nil:
				*err = e
				tc.KeepForever(e)
			}
		})
	})
}

// errTracer says why the end of a timeline's work is not known.
var errTracer = errors.New("a tracer panicked twice while the library waited for the work")

// detachSlabs takes the slabs away from the context and returns them. A software driver's slabs are
// unregistered and dropped instead, unless the caller must not wait for the GPU.
func (c *Context) detachSlabs(at driver.At) []*slab.Slab {
	left := c.Cells.Detach()
	c.forgetAddresses()
	if !c.Drv.Table().Software() || at.NoWait {
		return left
	}
	at.Context, at.Relaxed = c.Raw, true
	for _, s := range left {
		if res := c.Drv.Table().MemHostUnregister(at, s.Addr()); res != driver.ResultSuccess {
			err := c.BackgroundError("cuMemHostUnregister", uintptr(s.Raw()), res)
			c.Drv.Leak(drivercall.LeakReport{Kind: "timeline", Handle: uintptr(s.Raw()), Err: err})
		}
	}
	c.Drv.Slabs.Drop(len(left))
	return nil
}

// forgetAddresses removes the addresses that slabs of other contexts have in this one, which is
// released.
func (c *Context) forgetAddresses() {
	c.Drv.Mu.Lock()
	defer c.Drv.Mu.Unlock()
	for _, other := range c.Drv.Contexts {
		other.Cells.Forget(c)
	}
}

// UnmapSlabs unmaps the slabs that no context has. If other code keeps the primary context in which
// a slab is registered, the slab is unregistered first, which waits for all work in that context.
func (d *Driver) UnmapSlabs() { d.Slabs.Unmap(d.unregister) }

// unregister unregisters a slab, and reports whether it is registered nowhere now. It waits for the
// GPU.
func (d *Driver) unregister(s driver.HostPtr, in slab.Place[ContextKey]) bool {
	switch {
	case in.Key == ContextKey{}:
		return true
	case !in.Primary:
		return false // other code may destroy the context at any time
	}
	_, active, res := d.Table().DevicePrimaryCtxGetState(driver.At{Relaxed: true}, in.Device)
	if res != driver.ResultSuccess || active == 0 {
		return res == driver.ResultSuccess
	}
	raw, res := d.Table().DevicePrimaryCtxRetain(driver.At{}, in.Device)
	if res != driver.ResultSuccess {
		return false
	}
	defer d.ReleasePrimary(in.Device)
	key, err := d.KeyOf(raw)
	if err != nil || key != in.Key { // the primary context is a new one
		return err == nil
	}
	res = d.Table().MemHostUnregister(driver.At{Context: raw, Relaxed: true}, s)
	return res == driver.ResultSuccess || res == driver.ResultHostMemoryNotRegistered
}
