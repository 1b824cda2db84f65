package cu

import (
	"errors"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// slab is memory for the counters of many timelines: one mapping, registered in one CUDA context.
//
// It stays mapped while a Timeline refers to it, so that a late read does not fault. It
// stays registered until the CUDA context ends: unregistering waits for all work in the context,
// and blocks calls that enqueue work there. Only Driver.Close unregisters slabs, and only slabs
// that no context of the driver has: see unmapSlabs.
//
// A software driver's slabs are memory of the Go heap, so that the race detector sees the order
// that the counters establish.
type slab struct {
	mem []byte
	raw driver.DevicePtr // the address in ctx
	ctx *contextCore     // the context in which it is registered
	// mapping keeps the memory mapped. It is nil for memory of the Go heap.
	mapping *mapping
	// addresses has the addresses in other contexts (a driver.DevicePtr by *contextCore). The
	// release of a context removes its entry.
	addresses sync.Map
}

// cell is the part of a slab that one timeline uses: the counter, and words that streams write at
// the end of their work with it.
type cell struct {
	slab *slab
	at   int // in bytes
}

const (
	// cellSize is two cache lines, because processors fetch pairs of them.
	cellSize  = 128
	cellWords = cellSize / 8
	// A context's first slab has minSlab bytes. Each further slab is as large as all slabs before,
	// at most maxSlab.
	minSlab = 64 << 10
	maxSlab = 1 << 20
)

// mapping is memory that the operating system has mapped for a slab.
type mapping struct{ mem []byte }

// freeSlab is a slab that no context has.
type freeSlab struct {
	mem     []byte
	mapping *mapping
	// in is the CUDA context in which it may be registered, zero for none.
	in contextKey
	// dev is the device of the primary context in; nil for other contexts.
	dev *Device
}

// addr returns the address of a slab.
func addr(mem []byte) driver.HostPtr { return driver.HostPtr(unsafe.Pointer(unsafe.SliceData(mem))) }

// slabs has the free slabs of a driver, and the number of all its slabs.
type slabs struct {
	mu     lock.Mutex[lock.Slabs]
	mapped int
	free   []freeSlab
}

// take returns a free slab whose field in has this value.
func (ss *slabs) take(in contextKey) (f freeSlab, ok bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for i, f := range slices.Backward(ss.free) {
		if f.in == in {
			ss.free = slices.Delete(ss.free, i, i+1)
			return f, true
		}
	}
	return f, false
}

// takeOldest returns the slab that has been free for the longest time.
func (ss *slabs) takeOldest() (f freeSlab, ok bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(ss.free) == 0 {
		return f, false
	}
	f = ss.free[0]
	ss.free = slices.Delete(ss.free, 0, 1)
	return f, true
}

func (ss *slabs) put(f freeSlab) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.free = append(ss.free, f)
}

// putAll adds the slabs that a context has left. They may still be registered in the CUDA context
// in, the primary context of dev.
func (ss *slabs) putAll(left []*slab, in contextKey, dev *Device) {
	for _, s := range left {
		ss.put(freeSlab{mem: s.mem, mapping: s.mapping, in: in, dev: dev})
	}
}

// unmapSlabs unmaps the slabs that no context has. If other code keeps the primary context in which
// a slab is registered, the slab is unregistered first, which waits for all work in that context.
func (d *Driver) unmapSlabs() {
	ss := &d.slabs
	ss.mu.Lock()
	free := ss.free
	ss.free = nil
	ss.mu.Unlock()
	for _, f := range free {
		if !d.unregister(f) { // the next Close may succeed
			ss.put(f)
			continue
		}
		if f.mapping != nil { // a Timeline may still refer to it
			runtime.AddCleanup(f.mapping, unmapMemory, f.mem)
		}
		ss.mu.Lock()
		ss.mapped--
		ss.mu.Unlock()
	}
}

// unregister unregisters a slab, and reports whether it is registered nowhere now. It waits for the
// GPU.
func (d *Driver) unregister(f freeSlab) bool {
	switch {
	case f.in == contextKey{}:
		return true
	case f.dev == nil:
		return false // other code may destroy the context at any time
	}
	_, active, res := d.table.DevicePrimaryCtxGetState(driver.At{Relaxed: true}, f.dev.raw)
	if res != driver.ResultSuccess || active == 0 {
		return res == driver.ResultSuccess
	}
	raw, res := d.table.DevicePrimaryCtxRetain(driver.At{}, f.dev.raw)
	if res != driver.ResultSuccess {
		return false
	}
	defer f.dev.release()
	key, err := d.keyOf(raw)
	if err != nil || key != f.in { // the primary context is a new one
		return err == nil
	}
	res = d.table.MemHostUnregister(driver.At{Context: raw, Relaxed: true}, addr(f.mem))
	return res == driver.ResultSuccess || res == driver.ResultHostMemoryNotRegistered
}

// make returns zeroed, page-aligned memory: of the Go heap if heap is set, else a new mapping.
func (ss *slabs) make(size int, heap bool) (mem []byte, err error) {
	page := os.Getpagesize()
	size = (size + page - 1) &^ (page - 1)
	if heap {
		mem = make([]byte, size+page)
		off := int(-uintptr(addr(mem)) & uintptr(page-1))
		mem = mem[off : off+size]
	} else {
		p, err := mapMemory(size)
		if err != nil {
			return nil, &Error{Op: "mmap", Result: ResultOutOfMemory, Err: err,
				Detail: "the operating system has no memory for the counters of timelines"}
		}
		mem = unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), size) // go vet refuses a conversion of p, which is a uintptr
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.mapped++
	return mem, nil
}

// newSlab returns a slab that is registered in the context. It takes, in this order, a slab that is
// registered in the CUDA context since an earlier claim; one that is not registered; one that was
// left in another CUDA context, if that context has ended; a new slab of this size.
func (c *contextCore) newSlab(size int, at driver.At) (*slab, error) {
	ss := &c.drv.slabs
	for _, take := range []func() (freeSlab, bool){
		func() (freeSlab, bool) { return ss.take(c.key) },
		func() (freeSlab, bool) { return ss.take(contextKey{}) },
		ss.takeOldest,
	} {
		if f, ok := take(); ok {
			if s, err := c.register(f, at); !errors.Is(err, ResultHostMemoryAlreadyRegistered) {
				return s, err
			}
		}
	}
	mem, err := ss.make(size, c.drv.table.Software())
	if err != nil {
		return nil, err
	}
	f := freeSlab{mem: mem}
	if !c.drv.table.Software() {
		f.mapping = &mapping{mem}
	}
	return c.register(f, at)
}

// register registers a slab in the context (cuMemHostRegister). If that fails, the slab becomes
// free again.
func (c *contextCore) register(f freeSlab, at driver.At) (*slab, error) {
	t, p := c.drv.table, addr(f.mem)
	const flags = driver.CU_MEMHOSTREGISTER_PORTABLE | driver.CU_MEMHOSTREGISTER_DEVICEMAP
	op := "cuMemHostRegister"
	res := t.MemHostRegister(at, p, uint64(len(f.mem)), flags)
	switch {
	case res == driver.ResultHostMemoryAlreadyRegistered && f.in == c.key:
		res = driver.ResultSuccess
	case res == driver.ResultHostMemoryAlreadyRegistered && f.in == contextKey{}:
		f.in, f.dev = contextKey{id: math.MaxUint64}, nil // no context has this id: only takeOldest returns it
	}
	if res == driver.ResultSuccess {
		s := &slab{mem: f.mem, mapping: f.mapping, ctx: c}
		f.in, f.dev = c.key, c.primaryOf()
		if s.raw, res = t.MemHostGetDevicePointer(at, p, 0); res == driver.ResultSuccess {
			return s, nil
		}
		op = "cuMemHostGetDevicePointer"
	}
	c.drv.slabs.put(f)
	return nil, c.callError(op, 0, res)
}

// primaryOf returns the device whose primary context this is, nil for other contexts.
func (c *contextCore) primaryOf() *Device {
	c.drv.mu.Lock()
	defer c.drv.mu.Unlock()
	if c.claim != retained {
		return nil
	}
	return c.device
}

// word returns word i of the cell. Word 0 is the counter.
func (x cell) word(i int) *atomic.Uint64 {
	// The conversion is valid: neither a mapping nor memory of the Go heap moves, and both are
	// page-aligned.
	return (*atomic.Uint64)(unsafe.Pointer(&x.slab.mem[x.at+8*i]))
}

// raw returns the cell's address in the slab's own context.
func (x cell) raw() driver.DevicePtr { return x.slab.raw + driver.DevicePtr(x.at) }

// mapped returns the cell's address for work on a stream.
func (x cell) mapped(sc *streamCore) (driver.DevicePtr, error) {
	s, c := x.slab, sc.ctx
	if c == s.ctx {
		return x.raw(), nil
	}
	if p, known := s.addresses.Load(c); known {
		return p.(driver.DevicePtr) + driver.DevicePtr(x.at), nil
	}
	if c.dev != s.ctx.dev {
		if err := c.device.supportsTimelines(); err != nil {
			return 0, err
		}
	}
	at := driver.At{Context: c.raw, Thread: sc.at.Thread, Relaxed: true}
	p, res := c.drv.table.MemHostGetDevicePointer(at, addr(s.mem), 0)
	if res != driver.ResultSuccess {
		return 0, c.callError("cuMemHostGetDevicePointer", uintptr(x.raw()), res)
	}
	s.addresses.Store(c, p)
	return p + driver.DevicePtr(x.at), nil
}

// cells has the slabs of a context, its free cells, and its closed timelines whose work may not be
// done.
type cells struct {
	// growing is held while a slab is registered, so that concurrent callers register one slab. No
	// call that is made meanwhile waits for the GPU or calls a tracer.
	growing lock.Mutex[lock.Growing]

	mu    lock.Mutex[lock.Cells]
	slabs []*slab
	size  int // the size of all slabs, in bytes
	free  []cell
	// probe is an event that is never recorded. A query of it tells whether the context still
	// works. It is 0 until the first timeline is created.
	probe driver.Event
	// open is the number of open timelines. unfinished is the number of closed timelines that still
	// have a cell, because a graph uses them, or work that is not known to be done.
	open, unfinished int
	// closed has the unfinished timelines on which no call is in flight. They are checked when no
	// cell is free and there are checkAt of them.
	closed  []*timelineCore
	checkAt int

	// drained says that the context is being released, and that the release has waited for the work
	// on its own streams. From then on, only streamEnds.lost and tails with an error report work
	// that may not be done.
	drained atomic.Bool
}

// minLook is the number of closed timelines from which they are checked.
const minLook = 32

// take returns a free cell, if there is one.
func (k *cells) take() (x cell, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.free) - 1
	if n < 0 {
		return x, false
	}
	x = k.free[n]
	k.free = k.free[:n]
	return x, true
}

// put adds free cells, which no work uses.
func (k *cells) put(xs ...cell) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = append(k.free, xs...)
}

// takeCell returns a cell whose words are all 0.
func (c *contextCore) takeCell(at driver.At) (x cell, err error) {
	k := &c.cells
	x, ok := k.take()
	if !ok {
		if k.checkDue() {
			c.lookAtClosed()
		}
		if x, err = c.takeNewCell(at); err != nil {
			return x, err
		}
	}
	for i := range cellWords {
		x.word(i).Store(0)
	}
	return x, nil
}

// takeNewCell returns a free cell, from a new slab if necessary.
func (c *contextCore) takeNewCell(at driver.At) (x cell, err error) {
	k := &c.cells
	k.growing.Lock()
	defer k.growing.Unlock()
	if x, ok := k.take(); ok {
		return x, nil
	}
	if k.size == 0 {
		if err := c.device.supportsTimelines(); err != nil {
			return x, err
		}
	}
	s, err := c.newSlab(min(max(k.size, minSlab), maxSlab), at)
	if err != nil {
		return x, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.slabs = append(k.slabs, s)
	k.size += len(s.mem)
	for at := len(s.mem) - cellSize; at > 0; at -= cellSize {
		k.free = append(k.free, cell{s, at})
	}
	return cell{s, 0}, nil
}

// checkDue reports whether to check the closed timelines: when there are twice as many as the
// last check left. So the amortized cost per timeline is constant.
func (k *cells) checkDue() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.closed) >= max(k.checkAt, minLook)
}

// lookAtClosed frees the cells of closed timelines whose work is done. It does not wait. The caller
// is a user of the context.
func (c *contextCore) lookAtClosed() {
	k := &c.cells
	k.mu.Lock()
	list := k.closed
	k.closed = nil // concurrent checks find nothing
	k.mu.Unlock()
	list = slices.DeleteFunc(list, func(tc *timelineCore) bool {
		over, err := tc.finish()
		if err != nil {
			c.hold() // never released
			tc.keep(err)
		}
		return over || err != nil
	})
	k.mu.Lock()
	k.checkAt = 2 * len(list)
	k.closed = append(list, k.closed...)
	k.mu.Unlock()
}

// endTimelines waits for the work of closed timelines. The context is being released, and the work
// on its own streams is done. An error, which is set also if a tracer panics, says that work may
// still use the memory, which therefore has to stay registered.
func (c *contextCore) endTimelines(err *error) {
	k := &c.cells
	k.drained.Store(true)
	closed := k.closed // no lock: the context has no users
	k.closed = nil
	each(len(closed), func(i int) {
		tc := closed[i]
		e := errTracer
		each(3, func(step int) {
			switch {
			case step < 2 && e == errTracer: // try again if a tracer panicked
				e = tc.waitAndFinish()
			case step == 2 && e != nil:
				*err = e
				tc.keep(e)
			}
		})
	})
}

// errTracer says why the end of a timeline's work is not known.
var errTracer = errors.New("a tracer panicked twice while the library waited for the work")

// detachSlabs takes the slabs away from the context and returns them. A software driver's slabs are
// unregistered and dropped instead, unless the caller must not wait for the GPU.
func (c *contextCore) detachSlabs(at driver.At) []*slab {
	k := &c.cells
	k.mu.Lock()
	left := k.slabs
	k.slabs, k.free, k.size = nil, nil, 0
	k.mu.Unlock()
	c.forgetAddresses()
	if !c.drv.table.Software() || at.NoWait {
		return left
	}
	at.Context, at.Relaxed = c.raw, true
	for _, s := range left {
		if res := c.drv.table.MemHostUnregister(at, addr(s.mem)); res != driver.ResultSuccess {
			err := c.backgroundError("cuMemHostUnregister", uintptr(s.raw), res)
			c.drv.leak(Leak{Kind: "timeline", Handle: uintptr(s.raw), Err: err})
		}
	}
	c.drv.slabs.mu.Lock()
	defer c.drv.slabs.mu.Unlock()
	c.drv.slabs.mapped -= len(left)
	return nil
}

// forgetAddresses removes the addresses that slabs of other contexts have in this one, which is
// released.
func (c *contextCore) forgetAddresses() {
	c.drv.mu.Lock()
	defer c.drv.mu.Unlock()
	for _, other := range c.drv.contexts {
		other.cells.mu.Lock()
		for _, s := range other.cells.slabs {
			s.addresses.Delete(c)
		}
		other.cells.mu.Unlock()
	}
}

// timelineProbe returns the context's probe, and creates it for the first timeline.
func (c *contextCore) timelineProbe() (driver.Event, error) {
	k := &c.cells
	k.mu.Lock()
	probe := k.probe
	k.mu.Unlock()
	if probe != 0 {
		return probe, nil
	}
	e, err := c.createEvent(EventDisableTiming, background()) // without the lock, because tracers are called
	if err != nil {
		return 0, err
	}
	k.mu.Lock()
	if probe = k.probe; probe == 0 {
		k.probe = e
	}
	k.mu.Unlock()
	if probe == 0 {
		return e, nil
	}
	c.doneWith(EventDisableTiming, e)
	return probe, nil
}

// timelineCounts has the number of slabs, and how many timelines are open, or closed and still in
// use.
type timelineCounts struct{ mappings, open, unfinished int }

// timelineCounts returns the numbers of the driver.
func (d *Driver) timelineCounts() (n timelineCounts) {
	d.slabs.mu.Lock()
	n.mappings = d.slabs.mapped
	d.slabs.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.contexts {
		c.cells.mu.Lock()
		n.open += c.cells.open
		n.unfinished += c.cells.unfinished
		c.cells.mu.Unlock()
	}
	return n
}
