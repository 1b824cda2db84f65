package cu

import (
	"errors"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/deferred"
)

// deferredList has the objects of a context that are not in use any more, and are not freed yet.
// Before the driver frees such an object it may wait for all work in the context, and block calls
// that enqueue work there meanwhile. So no goroutine, cleanup or callback of the library frees the
// object: the program's next freeing call does (docs/blocking.md lists these). An allocation takes
// a piece of memory from here if it fits, its work is done, and its address was not exposed. An
// object stays here until it is freed, so that it is not lost if a tracer panics during the wait
// for its work.
type deferredList = deferred.List[*resource, memoryFit]

// memoryFit identifies the allocations that a piece of memory can serve.
type memoryFit struct {
	is    any // the *memoryFuncs of its kind. Programs without memory do not contain that type
	flags uint32
	class uint64 // of sizes that are about the same
}

// addDeferred adds an object to the deferred ones. No call on the object is in flight or can begin.
func (c *contextCore) addDeferred(r *resource) {
	m, ok := r.self.(memoryObject)
	if !ok {
		c.deferred.Add(r, 0)
		return
	}
	if capacity, fit, reusable := m.reuse(); reusable {
		c.deferred.AddReusable(r, capacity, fit)
	} else {
		c.deferred.Add(r, capacity)
	}
}

// retryLater reports whether the library should later try again to find out when the work of a
// deferred object is done. err is the error of the last attempt.
func (r *resource) retryLater(err error) (again bool) {
	if err == nil || errors.Is(err, errNoTail) {
		return false
	}
	r.ctx.deferred.Locked(func() {
		// These are temporary, and do not count as attempts. A host function meets ResultNotPermitted.
		if !errors.Is(err, errBusy) && !errors.Is(err, driver.ResultNotPermitted) {
			r.tries++
		}
		again = r.tries < maxTries
	})
	return again
}

// freeDeferred frees the deferred objects of the context. It waits for the GPU: only calls that are
// documented to wait may use it. The caller is a user of the context. The leak hook gets the
// errors.
func (c *contextCore) freeDeferred() {
	c.drv.freeLibraries()
	for _, r := range c.deferred.All() {
		err := r.usedStreams.wait()
		if r.retryLater(err) {
			continue
		}
		if done, ok := c.deferred.Claim(r); ok {
			freed := c.freeClaimed(r, err)
			done()
			if m, ok := r.self.(memoryObject); ok && freed {
				m.unmark()
			}
		}
	}
}

// freeClaimed frees a claimed object. If err is set, the end of the object's work cannot be
// observed: then the object is kept. It calls no tracer. It reports false if the driver does not permit
// to free the object now, as in a host function. Then the object is deferred again.
func (c *contextCore) freeClaimed(r *resource, err error) bool {
	if err == nil {
		err = r.free(driver.At{Relaxed: true})
	} else {
		err = r.keepForever(err)
	}
	if errors.Is(err, driver.ResultNotPermitted) { // nothing was freed
		r.freed.Store(false)
		c.addDeferred(r)
		return false
	}
	c.drv.leak(leakReport{Kind: r.self.kind(), Handle: r.self.handle(), Err: err})
	return true
}

// everyDevice is what freeDeferred frees all deferred objects for.
const everyDevice driver.Device = -1

// freeDeferred frees the deferred objects in all contexts of a device, or of everyDevice. It also
// releases the abandoned contexts. It waits for the GPU: only calls that are documented to
// wait may use it. It reports whether there were any.
func (d *driverCore) freeDeferred(dev driver.Device) (any bool) {
	d.watch.Settle(d.table().Clock())
	any = d.freeLibraries()
	d.mu.Lock()
	var held []*contextCore
	for _, c := range d.contexts {
		if (dev == everyDevice || c.dev == dev) && (c.abandoned || c.deferred.Pending()) && c.reviveLocked() {
			held = append(held, c)
		}
	}
	d.mu.Unlock()
	eachDespitePanic(len(held), func(i int) { // also if a tracer panics
		held[i].releaseLate()
		held[i].deferred.WaitFreed()
	})
	d.libraries.WaitFreed()
	return any || len(held) > 0
}

// deferredLibraries are the libraries that the program's next freeing call unloads.
type deferredLibraries = deferred.List[unloadable, struct{}]

// unloadable is a library. It is an interface, so that programs without libraries do not contain them.
type unloadable interface {
	named
	// unload unloads the library. It waits for the GPU.
	unload() error
}

// freeLibraries unloads the deferred libraries. It waits for the GPU: only calls that are documented
// to wait may use it. The leak hook gets the errors.
func (d *driverCore) freeLibraries() (any bool) {
	for _, l := range d.libraries.All() {
		if done, ok := d.libraries.Claim(l); ok {
			any = true
			if err := l.unload(); errors.Is(err, driver.ResultNotPermitted) {
				d.libraries.Add(l, 0)
			} else {
				d.leak(leakReport{Kind: l.kind(), Handle: l.handle(), Err: err})
			}
			done()
		}
	}
	return any
}
