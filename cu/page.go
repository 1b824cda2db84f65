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

// slab is memory for the counters of many timelines: one mapping, which one CUDA context has registered. It stays
// mapped for as long as anybody refers to it, so that a late read is of an old value and no fault, and registered until
// the CUDA context ends: to unregister it waits for all work in the context, and whoever enqueues something there
// waits for that. Only Driver.Close does so, with slabs that no context here has: see unmapSlabs.
//
// For a software driver it is Go's own memory, so that the race detector sees what the counters order there.
type slab struct {
	mem []byte
	raw driver.DevicePtr // in the context that has registered it
	ctx *contextCore
	// whole is what timelines keep, and nil for memory of Go's.
	whole *mapping
	// elsewhere is that in other contexts, by their cores. Whoever releases one of these takes it away.
	elsewhere sync.Map
}

// cell is the part of a slab that one timeline has: a counter, and words that streams write when they are
// done with it.
type cell struct {
	slab *slab
	at   int
}

const (
	// cellSize keeps the counters of two timelines apart: processors fetch pairs of cache lines.
	cellSize  = 128
	cellWords = cellSize / 8
	// A context's first slab has minSlab bytes, and each further one doubles what it has, up to maxSlab.
	minSlab = 64 << 10
	maxSlab = 1 << 20
)

// mapping is memory of the operating system's.
type mapping struct{ mem []byte }

// freeSlab is a slab that no context has, and the CUDA context where it may be registered, if in any.
type freeSlab struct {
	mem   []byte
	whole *mapping
	in    contextKey
	// dev is the device whose primary context that is, nil for other contexts.
	dev *Device
}

// addr is the address of a slab.
func addr(mem []byte) driver.HostPtr { return driver.HostPtr(unsafe.Pointer(unsafe.SliceData(mem))) }

// slabs are a driver's: how many it has mapped, and those that no context has.
type slabs struct {
	mu     lock.Mutex[lock.Slabs]
	mapped int
	free   []freeSlab
}

// take returns a free slab that may be registered in this CUDA context, or is in none if that is no key; false if
// there is none.
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

// takeOldest returns the slab that has been free for longest.
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

// putAll takes back what a context has left. in is the CUDA context, if it may go on, and dev its device, if it is
// a primary one.
func (ss *slabs) putAll(left []*slab, in contextKey, dev *Device) {
	for _, s := range left {
		ss.put(freeSlab{mem: s.mem, whole: s.whole, in: in, dev: dev})
	}
}

// unmapSlabs gives back the memory of timelines that no context has. Where others keep the primary context in which
// it was registered, it is unregistered first, which waits for all work there.
func (d *Driver) unmapSlabs() {
	ss := &d.slabs
	ss.mu.Lock()
	free := ss.free
	ss.free = nil
	ss.mu.Unlock()
	for _, f := range free {
		if !d.unregister(f) { // perhaps the next time
			ss.put(f)
			continue
		}
		if f.whole != nil { // a Timeline may be left that refers to it
			runtime.AddCleanup(f.whole, unmapMemory, f.mem)
		}
		ss.mu.Lock()
		ss.mapped--
		ss.mu.Unlock()
	}
}

// unregister lets no context have a slab registered, if it can. It waits for the GPU.
func (d *Driver) unregister(f freeSlab) bool {
	switch {
	case f.in == contextKey{}:
		return true
	case f.dev == nil:
		return false // a context that somebody else may destroy at any time
	}
	if _, active, res := d.table.DevicePrimaryCtxGetState(driver.At{Relaxed: true}, f.dev.raw); res != driver.ResultSuccess || active == 0 {
		return res == driver.ResultSuccess
	}
	raw, res := d.table.DevicePrimaryCtxRetain(driver.At{}, f.dev.raw)
	if res != driver.ResultSuccess {
		return false
	}
	defer f.dev.release()
	key, err := d.keyOf(raw)
	if err != nil || key != f.in { // that one has ended, and another one has begun
		return err == nil
	}
	res = d.table.MemHostUnregister(driver.At{Context: raw, Relaxed: true}, addr(f.mem))
	return res == driver.ResultSuccess || res == driver.ResultHostMemoryNotRegistered
}

// make returns zeroed memory that begins at a page. It is Go's if heap says so, else a mapping of its own.
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
				Detail: "the operating system gives no memory for the counters of timelines"}
		}
		mem = unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), size) // written this way because it comes as a number
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.mapped++
	return mem, nil
}

// newSlab returns a slab that the context has registered: one that is registered in the CUDA context since an earlier
// claim to it; one that is not registered; one that was left in another CUDA context, if that has ended; or
// a new one, if there is need of that size.
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
		f.whole = &mapping{mem}
	}
	return c.register(f, at)
}

// register has the driver pin a slab (cuMemHostRegister). If it fails, another context may get it.
func (c *contextCore) register(f freeSlab, at driver.At) (*slab, error) {
	t, p := c.drv.table, addr(f.mem)
	const flags = driver.CU_MEMHOSTREGISTER_PORTABLE | driver.CU_MEMHOSTREGISTER_DEVICEMAP
	op := "cuMemHostRegister"
	res := t.MemHostRegister(at, p, uint64(len(f.mem)), flags)
	switch {
	case res == driver.ResultHostMemoryAlreadyRegistered && f.in == c.key:
		res = driver.ResultSuccess
	case res == driver.ResultHostMemoryAlreadyRegistered && f.in == contextKey{}:
		f.in, f.dev = contextKey{id: math.MaxUint64}, nil // of no context: it is the last to be tried
	}
	if res == driver.ResultSuccess {
		s := &slab{mem: f.mem, whole: f.whole, ctx: c}
		f.in, f.dev = c.key, c.primaryOf() // from here on
		if s.raw, res = t.MemHostGetDevicePointer(at, p, 0); res == driver.ResultSuccess {
			return s, nil
		}
		op = "cuMemHostGetDevicePointer"
	}
	c.drv.slabs.put(f)
	return nil, c.fail(op, 0, res)
}

// primaryOf returns the device whose primary context this is, nil if it is not known to be one.
func (c *contextCore) primaryOf() *Device {
	c.drv.mu.Lock()
	defer c.drv.mu.Unlock()
	if c.claim != retained {
		return nil
	}
	return c.device
}

// word returns a word of the cell: the first one is the counter.
func (x cell) word(i int) *atomic.Uint64 {
	// A mapping neither moves nor goes, and memory of Go's that is on the heap does not move either. It is aligned as
	// pages are.
	return (*atomic.Uint64)(unsafe.Pointer(&x.slab.mem[x.at+8*i]))
}

// raw returns where the cell is in its own context.
func (x cell) raw() driver.DevicePtr { return x.slab.raw + driver.DevicePtr(x.at) }

// mapped returns where the cell is for work on a stream.
func (x cell) mapped(sc *streamCore) (driver.DevicePtr, error) {
	s, c := x.slab, sc.ctx
	if c == s.ctx {
		return x.raw(), nil
	}
	if p, known := s.elsewhere.Load(c); known {
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
		return 0, c.fail("cuMemHostGetDevicePointer", uintptr(x.raw()), res)
	}
	s.elsewhere.Store(c, p)
	return p + driver.DevicePtr(x.at), nil
}

// cells are the memory for timelines that a context has, and those of its timelines that are closed.
type cells struct {
	// growing is held while a slab is registered, so that not everybody who finds no free cell registers one. Only
	// those wait for it who need the slab, and none of the calls made meanwhile waits for the GPU, or calls tracers.
	growing lock.Mutex[lock.Growing]

	mu    lock.Mutex[lock.Cells]
	slabs []*slab
	size  int // of all slabs, in bytes
	free  []cell
	// probe is an event that is never recorded: to ask for it is to ask whether the context still works. It is 0
	// until there is a timeline.
	probe driver.Event
	// open is how many timelines are open. unfinished is how many others have a cell, as they are in
	// use still: in a graph, or by work that is not known to be done.
	open, unfinished int
	// closed are those of the latter that nobody calls any more. When there are lookAt of them, and no cell is free, all
	// are looked at.
	closed []*timelineCore
	lookAt int

	// drained says that the context is being released, and that what was known of the work on its own streams is
	// done: from here on only streamEnds.lost, and tails that have an error, say that some may be left.
	drained atomic.Bool
}

// minLook is how many closed timelines are not worth a look.
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

// put takes cells back that no work uses any more.
func (k *cells) put(xs ...cell) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = append(k.free, xs...)
}

// takeCell returns a cell, with all its words 0.
func (c *contextCore) takeCell(at driver.At) (x cell, err error) {
	k := &c.cells
	x, ok := k.take()
	if !ok {
		if k.manyClosed() {
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

// takeNewCell returns a free cell, of a new slab if need be.
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

// manyClosed reports whether it is time to look at the closed timelines: when there are twice as many as were left
// the last time, so that what a timeline pays for that does not grow.
func (k *cells) manyClosed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.closed) >= max(k.lookAt, minLook)
}

// lookAtClosed frees the cells of closed timelines whose work is done. It does not wait. The caller is a user of the
// context.
func (c *contextCore) lookAtClosed() {
	k := &c.cells
	k.mu.Lock()
	list := k.closed
	k.closed = nil // another look meanwhile finds nothing
	k.mu.Unlock()
	list = slices.DeleteFunc(list, func(tc *timelineCore) bool {
		over, err := tc.finish()
		if err != nil {
			c.hold() // for as long as the process lives
			tc.keep(err)
		}
		return over || err != nil
	})
	k.mu.Lock()
	k.lookAt = 2 * len(list)
	k.closed = append(list, k.closed...)
	k.mu.Unlock()
}

// endTimelines waits for the work of the timelines that are closed, when the context is released and the work on its
// own streams is done. An error, which is there also if a tracer panics, says that some work may go on, so that the
// memory has to stay registered.
func (c *contextCore) endTimelines(err *error) {
	k := &c.cells
	k.drained.Store(true)
	closed := k.closed // nobody else is left to touch it
	k.closed = nil
	each(len(closed), func(i int) {
		tc := closed[i]
		e := errTracer
		each(3, func(step int) {
			switch {
			case step < 2 && e == errTracer: // again, if a tracer has panicked
				e = tc.finishLate()
			case step == 2 && e != nil:
				*err = e
				tc.keep(e)
			}
		})
	})
}

// errTracer says why nobody knows about a timeline's work.
var errTracer = errors.New("a tracer has panicked twice while the work was waited for")

// leaveSlabs returns the slabs that the context has had, which it has no more. Those of a software driver are Go's
// memory, and are unregistered, unless the caller may not wait for the GPU.
func (c *contextCore) leaveSlabs(at driver.At) []*slab {
	k := &c.cells
	k.mu.Lock()
	left := k.slabs
	k.slabs, k.free, k.size = nil, nil, 0
	k.mu.Unlock()
	c.forgetElsewhere()
	if !c.drv.table.Software() || at.NoWait {
		return left
	}
	at.Context, at.Relaxed = c.raw, true
	for _, s := range left {
		if res := c.drv.table.MemHostUnregister(at, addr(s.mem)); res != driver.ResultSuccess {
			c.drv.leak(Leak{Kind: "timeline", Handle: uintptr(s.raw), Err: c.failed("cuMemHostUnregister", uintptr(s.raw), res)})
		}
	}
	c.drv.slabs.mu.Lock()
	defer c.drv.slabs.mu.Unlock()
	c.drv.slabs.mapped -= len(left)
	return nil
}

// forgetElsewhere forgets where the slabs of other contexts are in this one, which is released.
func (c *contextCore) forgetElsewhere() {
	c.drv.mu.Lock()
	defer c.drv.mu.Unlock()
	for _, other := range c.drv.contexts {
		other.cells.mu.Lock()
		for _, s := range other.cells.slabs {
			s.elsewhere.Delete(c)
		}
		other.cells.mu.Unlock()
	}
}

// timelineProbe returns the context's probe, which it creates for the first timeline.
func (c *contextCore) timelineProbe() (driver.Event, error) {
	k := &c.cells
	k.mu.Lock()
	probe := k.probe
	k.mu.Unlock()
	if probe != 0 {
		return probe, nil
	}
	e, err := c.createEvent(EventDisableTiming, background()) // not under the lock, as tracers are called
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

// timelineCounts says what timelines have: mappings of memory, and how many are open, or closed and still in use.
type timelineCounts struct{ mappings, open, unfinished int }

// timelineCounts returns the driver's.
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
