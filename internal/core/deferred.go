package core

import (
	"errors"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/deferred"
	"github.com/purecu/purecu/internal/drivercall"
)

// deferredList has the objects of a context that are not in use any more, and are not freed yet.
// Before the driver frees such an object it may wait for all work in the context, and block calls
// that enqueue work there meanwhile. So no goroutine, cleanup or callback of the library frees the
// object: the program's next freeing call does (docs/blocking.md lists these). An allocation takes
// a piece of memory from here if it fits, its work is done, and its address was not exposed. An
// object stays here until it is freed, so that it is not lost if a tracer panics during the wait
// for its work.
type deferredList = deferred.List[*Resource]

// AddDeferred adds an object to the deferred ones. No call on the object is in flight or can begin.
func (c *Context) AddDeferred(r *Resource) {
	m, ok := r.Self.(MemoryObject)
	if !ok {
		c.Deferred.Add(r, 0)
		return
	}
	if capacity, fit, reusable := m.Reuse(); reusable {
		c.Deferred.AddReusable(r, capacity, fit)
	} else {
		c.Deferred.Add(r, capacity)
	}
}

// retryLater reports whether the library should later try again to find out when the work of a
// deferred object is done. err is the error of the last attempt.
func (r *Resource) retryLater(err error) (again bool) {
	if err == nil || errors.Is(err, ErrNoTail) {
		return false
	}
	r.Ctx.Deferred.Locked(func() {
		// These are temporary, and do not count as attempts. A host function meets ResultNotPermitted.
		if !errors.Is(err, ErrBusy) && !errors.Is(err, driver.ResultNotPermitted) {
			r.tries++
		}
		again = r.tries < MaxTries
	})
	return again
}

// FreeDeferred frees the deferred objects of the context. It waits for the GPU: only calls that are
// documented to wait may use it. The caller is a user of the context. The leak hook gets the
// errors.
func (c *Context) FreeDeferred() {
	defer c.Drv.FreeLibraries() // at the end, because a library is deferred when the last of its modules is freed
	for _, r := range c.Deferred.All() {
		err := r.UsedStreams.wait()
		if r.retryLater(err) {
			continue
		}
		if done, ok := c.Deferred.Claim(r); ok {
			freed := c.freeClaimed(r, err)
			done()
			if m, ok := r.Self.(MemoryObject); ok && freed {
				m.Unmark()
			}
		}
	}
}

// freeClaimed frees a claimed object. If err is set, the end of the object's work cannot be
// observed: then the object is kept. It calls no tracer. It reports false if the driver does not permit
// to free the object now, as in a host function. Then the object is deferred again.
func (c *Context) freeClaimed(r *Resource, err error) bool {
	if err == nil {
		err = r.DestroyNow(driver.At{Relaxed: true})
	} else {
		err = r.keepForever(err)
	}
	if errors.Is(err, driver.ResultNotPermitted) { // nothing was freed
		r.Freed.Store(false)
		c.AddDeferred(r)
		return false
	}
	c.Drv.Leak(drivercall.LeakReport{Kind: r.Self.Kind(), Handle: r.Self.Handle(), Err: err})
	return true
}

// EveryDevice is what FreeDeferred frees all deferred objects for.
const EveryDevice driver.Device = -1

// FreeDeferred frees the deferred objects in all contexts of a device, or of EveryDevice. It also
// releases the abandoned contexts. It waits for the GPU: only calls that are documented to
// wait may use it. It reports whether there were any.
func (d *Driver) FreeDeferred(dev driver.Device) (any bool) {
	d.Watch.Settle(d.Table().Clock())
	any = d.FreeLibraries()
	d.Mu.Lock()
	var held []*Context
	for _, c := range d.Contexts {
		if (dev == EveryDevice || c.Dev == dev) && (c.Abandoned || c.Deferred.Pending()) && c.ReviveLocked() {
			held = append(held, c)
		}
	}
	d.Mu.Unlock()
	drivercall.EachDespitePanic(len(held), func(i int) { // also if a tracer panics
		held[i].ReleaseLate()
		held[i].Deferred.WaitFreed()
	})
	d.Libraries.WaitFreed()
	return any || len(held) > 0
}

// deferredLibraries are the libraries that the program's next freeing call unloads.
type deferredLibraries = deferred.List[Unloadable]

// Unloadable is a library. It is an interface, so that programs without libraries do not contain them.
type Unloadable interface {
	drivercall.Named
	// Unload unloads the library. It waits for the GPU.
	Unload() error
}

// FreeLibraries unloads the deferred libraries. It waits for the GPU: only calls that are documented
// to wait may use it. The leak hook gets the errors.
func (d *Driver) FreeLibraries() (any bool) {
	for _, l := range d.Libraries.All() {
		if done, ok := d.Libraries.Claim(l); ok {
			any = true
			if err := l.Unload(); errors.Is(err, driver.ResultNotPermitted) {
				d.Libraries.Add(l, 0)
			} else {
				d.Leak(drivercall.LeakReport{Kind: l.Kind(), Handle: l.Handle(), Err: err})
			}
			done()
		}
	}
	return any
}
