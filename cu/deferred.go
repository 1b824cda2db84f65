package cu

import (
	"container/list"
	"errors"
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// deferred are the objects of a context that are not in use any more, and are not freed yet. Before
// the driver frees such an object it may wait for all work in the context, and block calls that
// enqueue work there meanwhile. So no goroutine, cleanup or callback of the library frees the
// object: the program's next call that may wait does. An allocation takes a piece of memory from
// here if it fits. An object stays here until it is freed, so that it is not lost if a tracer
// panics during the wait for its work.
type deferred struct {
	mu      lock.Mutex[lock.Deferred]
	objects map[*resource]struct{}
	// memory has the objects that allocations can take: lists of *memCore, by the allocations that
	// they fit.
	memory map[memoryFit]*list.List
	// bytes is the size of all memory in objects.
	bytes uint64
	// freeing counts the objects that the driver frees now. freed is closed when freeing becomes 0.
	// No tracer is called while an object is counted, so that a tracer may wait for freed.
	freeing int
	freed   chan struct{}
}

// memoryFit identifies the allocations that a piece of memory can serve.
type memoryFit struct {
	is    memoryKind
	flags HostFlags
	class uint64
}

// fit returns the allocations that memory of this size can serve. Their sizes are about the same.
func fit(is memoryKind, flags HostFlags, size uint64) memoryFit {
	const small, large = 512, 2 << 20
	unit := uint64(small)
	if size > large/2 {
		unit = large
	}
	return memoryFit{is, flags, (size + unit - 1) / unit * unit}
}

// add adds an object. No call on the object is in flight or can begin.
func (d *deferred) add(r *resource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.objects == nil {
		d.objects = make(map[*resource]struct{})
		d.memory = make(map[memoryFit]*list.List)
	}
	d.objects[r] = struct{}{}
	mc, ok := r.self.(*memCore)
	if !ok {
		return
	}
	d.bytes += mc.capacity
	if mc.exposed.Load() {
		return
	}
	f := mc.fit()
	if d.memory[f] == nil {
		d.memory[f] = list.New()
	}
	mc.listed = d.memory[f].PushBack(mc)
}

// remove removes an object, and reports false if it is not there. The caller holds d.mu.
func (d *deferred) remove(r *resource) bool {
	if _, there := d.objects[r]; !there {
		return false
	}
	delete(d.objects, r)
	mc, ok := r.self.(*memCore)
	if !ok {
		return true
	}
	d.bytes -= mc.capacity
	if mc.listed == nil {
		return true
	}
	f := mc.fit()
	d.memory[f].Remove(mc.listed)
	mc.listed = nil
	if d.memory[f].Len() == 0 {
		delete(d.memory, f)
	}
	return true
}

// take removes and returns the first piece of memory that serves the allocations f, or returns nil.
func (d *deferred) take(f memoryFit) *memCore {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.memory[f]
	if l == nil {
		return nil
	}
	mc := l.Front().Value.(*memCore)
	d.remove(&mc.resource)
	return mc
}

// all returns all objects, and removes none.
func (d *deferred) all() []*resource {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.objects))
}

// claim removes an object for the caller, which must free it, and then call done. ok is false if an
// allocation has taken the object, or another goroutine frees it.
func (d *deferred) claim(r *resource) (done func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.remove(r) {
		return nil, false
	}
	if d.freeing++; d.freeing == 1 {
		d.freed = make(chan struct{})
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.freeing--; d.freeing == 0 {
			close(d.freed)
			d.freed = nil
		}
	}, true
}

// retryLater reports whether the library should later try again to find out when the work of an
// object is done. err is the error of the last attempt.
func (d *deferred) retryLater(r *resource, err error) bool {
	if err == nil || errors.Is(err, errNoTail) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !errors.Is(err, errBusy) { // errBusy is temporary, so it does not count as an attempt
		r.tries++
	}
	return r.tries < maxTries
}

// waitFreed waits until the driver has freed the objects that it frees now.
func (d *deferred) waitFreed() {
	d.mu.Lock()
	freed := d.freed
	d.mu.Unlock()
	if freed != nil {
		<-freed
	}
}

// maxTaken is the number of pieces of memory that an allocation tries.
const maxTaken = 4

// takeMemory returns deferred memory that fits and is not used by any work, or nil. It does not
// wait for the GPU.
func (c *contextCore) takeMemory(is memoryKind, flags HostFlags, size uint64) *memCore {
	if c.poison.Load() != nil {
		return nil // the driver's error for the allocation tells the program why
	}
	f := fit(is, flags, size)
	for range maxTaken {
		mc := c.deferred.take(f)
		if mc == nil {
			break
		}
		if c.idleOrPutBack(mc, size) {
			mc.unmark()
			return mc
		}
	}
	return nil
}

// idleOrPutBack reports whether memory that was taken fits, and is not used by any work. If not, it
// adds the memory again, at the end of its list.
func (c *contextCore) idleOrPutBack(mc *memCore, size uint64) (idle bool) {
	defer func() {
		if !idle { // also if a tracer panics
			c.deferred.add(&mc.resource)
		}
	}()
	return mc.capacity >= size && mc.idle()
}

// size returns the number of objects, and the bytes of memory among them.
func (d *deferred) size() (objects int, bytes uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.objects), d.bytes
}

// freeDeferred frees the deferred objects of the context. It waits for the GPU: only calls that are
// documented to wait may use it. The caller is a user of the context. The leak hook gets the
// errors.
func (c *contextCore) freeDeferred() {
	for _, r := range c.deferred.all() {
		err := r.usedStreams.wait()
		if c.deferred.retryLater(r, err) {
			continue
		}
		if done, ok := c.deferred.claim(r); ok {
			c.freeClaimed(r, err)
			done()
			r.unmark()
		}
	}
}

// freeClaimed frees a claimed object. If err is set, the end of the object's work cannot be
// observed: then the object is kept. It calls no tracer.
func (c *contextCore) freeClaimed(r *resource, err error) {
	if err == nil {
		err = r.free(driver.At{Relaxed: true})
	} else {
		err = r.keep(err)
	}
	c.drv.leak(Leak{Kind: r.self.kind(), Handle: r.self.handle(), Err: err})
}

// freeDeferred frees the deferred objects in all contexts of a device, or of all devices for nil.
// It also releases the abandoned contexts. It waits for the GPU: only calls that are documented to
// wait may use it.
func (d *Driver) freeDeferred(dev *Device) {
	d.watch.Settle(d.table.Clock())
	d.mu.Lock()
	var held []*contextCore
	for _, c := range d.contexts {
		if (dev == nil || c.device == dev) && (c.abandoned || c.deferred.pending()) && c.reviveLocked() {
			held = append(held, c)
		}
	}
	d.mu.Unlock()
	each(len(held), func(i int) { // also if a tracer panics
		held[i].releaseLate()
		held[i].deferred.waitFreed()
	})
}

// pending reports whether there are objects to free, or objects that the driver frees now.
func (d *deferred) pending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.objects) > 0 || d.freeing > 0
}

// allocate makes a call that allocates. If there is too little memory, it frees the deferred
// objects of the device, for which it waits, and makes the call again.
func (c *contextCore) allocate(call func() driver.Result) driver.Result {
	return c.drv.allocate(c.device, call)
}

// allocate is contextCore.allocate for callers without a context.
func (d *Driver) allocate(dev *Device, call func() driver.Result) driver.Result {
	res := call()
	if res == driver.ResultOutOfMemory {
		d.freeDeferred(dev)
		res = call()
	}
	return res
}
