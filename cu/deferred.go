package cu

import (
	"container/list"
	"errors"
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// deferred are objects of a context that nobody uses any more, and that are yet to be freed: the driver may wait for
// all work in the context before it frees them, and lets others enqueue none meanwhile. So no goroutine, cleanup or
// callback of the library frees them. The next call that is documented to wait for the GPU does; an allocation
// that fits takes memory from here before. An object stays here until the moment when it is freed: so it is not lost if
// a tracer panics while somebody waits for its work.
type deferred struct {
	mu      lock.Mutex[lock.Deferred]
	objects map[*resource]struct{}
	// memory is that part of objects which allocations can take, by what it fits: lists of *memCore.
	memory map[memoryFit]*list.List
	// bytes is the size of the memory among the objects.
	bytes uint64
	// freeing counts the objects that the driver frees now, and freed is closed when there are none. No tracer is
	// called meanwhile, so that a tracer may wait for them.
	freeing int
	freed   chan struct{}
}

// memoryFit says which allocations a piece of memory is good for.
type memoryFit struct {
	is    memoryKind
	flags HostFlags
	class uint64
}

// fit returns what memory of this size is good for: allocations of about this size.
func fit(is memoryKind, flags HostFlags, size uint64) memoryFit {
	const small, large = 512, 2 << 20
	unit := uint64(small)
	if size > large/2 {
		unit = large
	}
	return memoryFit{is, flags, (size + unit - 1) / unit * unit}
}

// add adds an object, on which no call is in flight, and none can begin.
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

// remove takes an object away, if it is still there. The lock is held.
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

// take takes the first piece of memory that is good for allocations like f, or returns nil.
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

// all returns all objects, which stay.
func (d *deferred) all() []*resource {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.objects))
}

// claim takes an object, which the caller frees, and calls done then. It reports false if an allocation has taken
// it, or somebody else frees it.
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

// tryAgain reports whether it is worth another try, later, to find out when the work of an object is done: the last one
// has failed with err.
func (d *deferred) tryAgain(r *resource, err error) bool {
	if err == nil || errors.Is(err, errNoTail) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !errors.Is(err, errBusy) { // else a stream is being captured
		r.tries++
	}
	return r.tries < maxTries
}

// waitFreed waits for the objects that the driver frees now.
func (d *deferred) waitFreed() {
	d.mu.Lock()
	freed := d.freed
	d.mu.Unlock()
	if freed != nil {
		<-freed
	}
}

// maxTaken is how many pieces of memory an allocation looks at.
const maxTaken = 4

// takeMemory returns memory that fits, and that no work uses any more, or nil. It does not wait for the GPU.
func (c *contextCore) takeMemory(is memoryKind, flags HostFlags, size uint64) *memCore {
	if c.poison.Load() != nil {
		return nil // an allocation fails there, and says why
	}
	f := fit(is, flags, size)
	for range maxTaken {
		mc := c.deferred.take(f)
		if mc == nil {
			break
		}
		if c.idleOrBack(mc, size) {
			mc.unmark()
			return mc
		}
	}
	return nil
}

// idleOrBack reports whether memory that was taken fits, and no work uses it. Else it is put back, behind the others.
func (c *contextCore) idleOrBack(mc *memCore, size uint64) (idle bool) {
	defer func() {
		if !idle { // also if a tracer panics
			c.deferred.add(&mc.resource)
		}
	}()
	return mc.capacity >= size && mc.idle()
}

// size returns how many objects there are, and how many bytes of memory.
func (d *deferred) size() (objects int, bytes uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.objects), d.bytes
}

// freeDeferred frees what is deferred, and waits for the GPU: only calls that are documented to do so call it. The
// caller is a user of the context. Errors go to the leak hook.
func (c *contextCore) freeDeferred() {
	for _, r := range c.deferred.all() {
		err := r.usage.wait()
		if c.deferred.tryAgain(r, err) {
			continue
		}
		if done, ok := c.deferred.claim(r); ok {
			c.freeClaimed(r, err)
			done()
			r.unmark()
		}
	}
}

// freeClaimed frees a deferred object, unless err says that nobody can know when its work is done. It calls no tracer.
func (c *contextCore) freeClaimed(r *resource, err error) {
	if err == nil {
		err = r.free(driver.At{Relaxed: true})
	} else {
		err = r.keep(err)
	}
	c.drv.leak(Leak{Kind: r.self.kind(), Handle: r.self.handle(), Err: err})
}

// freeDeferred frees what is deferred in all contexts of a device, or of all devices for nil, and releases contexts
// without users. It waits for the GPU: only calls that are documented to do so call it.
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

// pending reports whether there is anything to free, or being freed.
func (d *deferred) pending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.objects) > 0 || d.freeing > 0
}

// allocate makes a call that allocates, and makes it again if there was too little memory, when what is deferred on the
// device is freed: for that it waits.
func (c *contextCore) allocate(call func() driver.Result) driver.Result {
	return c.drv.allocate(c.device, call)
}

// allocate is that for whoever has no context yet.
func (d *Driver) allocate(dev *Device, call func() driver.Result) driver.Result {
	res := call()
	if res == driver.ResultOutOfMemory {
		d.freeDeferred(dev)
		res = call()
	}
	return res
}
