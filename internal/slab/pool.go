package slab

import (
	"runtime"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// Place is a CUDA context in which a slab may be registered.
type Place[K comparable] struct {
	// Key identifies the CUDA context. It is the zero value if the slab is registered nowhere.
	Key K
	// Primary says that this is the primary context of Device.
	Primary bool
	Device  driver.Device
}

// Context says how to register a slab in a context.
type Context[K comparable] struct {
	Place[K]
	Table *driver.TableState
	At    driver.At
}

// Failure is the reason why there is no new slab.
type Failure struct {
	Op     string        // the function that failed
	Result driver.Result // of a function of the driver
	Err    error         // of a function of the operating system
}

// Pool has the slabs of a driver that no context has, and counts all slabs of the driver. It
// identifies CUDA contexts by values of type K. The zero value is an empty pool.
type Pool[K comparable] struct {
	mu     lock.Mutex[lock.Slabs]
	mapped int
	free   []freeSlab[K]
}

// freeSlab is a slab that no context has.
type freeSlab[K comparable] struct {
	memory
	in Place[K]
	// elsewhere says that the memory is registered in an unknown CUDA context.
	elsewhere bool
}

// take returns the newest free slab that is registered in the CUDA context in, or that is
// registered nowhere if in is zero.
func (p *Pool[K]) take(in K) (f freeSlab[K], ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range slices.Backward(p.free) {
		if f.in.Key == in && !f.elsewhere {
			p.free = slices.Delete(p.free, i, i+1)
			return f, true
		}
	}
	return f, false
}

// takeOldest returns the slab that has been free for the longest time.
func (p *Pool[K]) takeOldest() (f freeSlab[K], ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return f, false
	}
	f = p.free[0]
	p.free = slices.Delete(p.free, 0, 1)
	return f, true
}

func (p *Pool[K]) put(f freeSlab[K]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, f)
}

// Put adds slabs that a context has left. They may still be registered at this place.
func (p *Pool[K]) Put(left []*Slab, in Place[K]) {
	for _, s := range left {
		p.put(freeSlab[K]{memory: s.memory, in: in})
	}
}

// New returns a slab that is registered in a context. It takes, in this order, a slab that is
// registered in the CUDA context since an earlier use; one that is not registered; one that was
// left in another CUDA context, if that context has ended; a new slab of this size. A software
// driver gets memory of the Go heap.
func (p *Pool[K]) New(size int, c Context[K]) (*Slab, *Failure) {
	var none K
	for _, take := range []func() (freeSlab[K], bool){
		func() (freeSlab[K], bool) { return p.take(c.Key) },
		func() (freeSlab[K], bool) { return p.take(none) },
		p.takeOldest,
	} {
		if f, ok := take(); ok {
			s, failed := p.register(f, c)
			if failed == nil || failed.Result != driver.ResultHostMemoryAlreadyRegistered {
				return s, failed
			}
		}
	}
	m, err := newMemory(size, (*driver.Table)(c.Table).Software())
	if err != nil {
		return nil, &Failure{Op: "mmap", Err: err}
	}
	p.count(1)
	return p.register(freeSlab[K]{memory: m}, c)
}

// register registers a slab in the context (cuMemHostRegister). If that fails, the slab becomes
// free again.
func (p *Pool[K]) register(f freeSlab[K], c Context[K]) (*Slab, *Failure) {
	var none K
	const flags = driver.CU_MEMHOSTREGISTER_PORTABLE | driver.CU_MEMHOSTREGISTER_DEVICEMAP
	op := "cuMemHostRegister"
	res := (*driver.Table)(c.Table).MemHostRegister(c.At, f.Addr(), uint64(len(f.mem)), flags)
	if res == driver.ResultHostMemoryAlreadyRegistered && !f.elsewhere {
		switch f.in.Key {
		case c.Key:
			res = driver.ResultSuccess
		case none:
			f.elsewhere = true // only takeOldest returns it
		}
	}
	if res == driver.ResultSuccess {
		f.in, f.elsewhere = c.Place, false
		s := &Slab{memory: f.memory}
		s.raw, res = (*driver.Table)(c.Table).MemHostGetDevicePointer(c.At, f.Addr(), 0)
		if res == driver.ResultSuccess {
			return s, nil
		}
		op = "cuMemHostGetDevicePointer"
	}
	p.put(f)
	return nil, &Failure{Op: op, Result: res}
}

// Unmap unmaps the slabs that no context has. For each it calls unregister first, which reports
// whether the slab is registered nowhere now. Otherwise the slab stays in the pool.
func (p *Pool[K]) Unmap(unregister func(s driver.HostPtr, in Place[K]) bool) {
	p.mu.Lock()
	free := p.free
	p.free = nil
	p.mu.Unlock()
	for _, f := range free {
		if f.elsewhere || !unregister(f.Addr(), f.in) { // the next call may succeed
			p.put(f)
			continue
		}
		if f.mapping != nil { // something may still refer to it
			runtime.AddCleanup(f.mapping, unmapMemory, f.mem)
		}
		p.count(-1)
	}
}

// Drop notes that n slabs of Go's memory are not used any more.
func (p *Pool[K]) Drop(n int) { p.count(-n) }

func (p *Pool[K]) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mapped += n
}

// Mapped returns the number of the driver's slabs, with those that contexts have.
func (p *Pool[K]) Mapped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mapped
}
