package cu

import (
	"fmt"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
)

// This file has the pools of memory, and the protocol by which their memory is allocated and freed.
//
// Stream.Alloc and MemPool.Alloc call Stream.alloc, which calls allocOnce in this file, by contextCore.allocate unless
// the stream is being captured.
//
// DeviceMem.Close calls resource.closeOwned, which takes the memory from the streams that keep it. If no call is in
// flight then, it calls memCore.closeInPool, which calls closeOrdered in this file. Else the end of the last call
// (resource.Last) calls resource.destroyLate. closeOrdered calls that, too, if it cannot free the memory now.
// destroyLate waits for the work, and calls memCore.destroyInPool, which calls destroyIdle.
//
// Other memory is freed by calls that wait for the GPU. Memory of a pool is freed by work on a
// stream, which must come after all other work that uses the memory. The stream is the one that the
// program names, or else the one on which the memory was allocated, or one that has used it. It
// waits, on the GPU, for the other streams that have used the memory. If no such stream is open, or
// the end of a stream's work cannot be marked now, the library polls until the work is done. Then
// it frees the memory on a wake-up stream, which has nothing to do. If there is none, the memory is
// deferred, and the next freeing call frees it by cuMemFree.

// ofPool returns what all memory of pools has. It is a function, because a variable would be copied when a program
// starts, and every program would contain the functions.
func ofPool() *pooledKind {
	return &pooledKind{(*memCore).closeOrdered, (*memCore).destroyIdle, (*memCore).poolReaches}
}

// pooledMemory is allocated by cuMemAllocAsync or cuMemAllocFromPoolAsync.
var pooledMemory = memoryKind{memoryTraits{tracked: true}, &memoryFuncs{
	name:     "device memory",
	pooled:   ofPool(),
	free:     (*memCore).freePooled,
	unshared: "the memory is of a pool: use DeviceMem.PoolHandle of memory of a shareable pool, or Context.Alloc",
}}

// freePooled frees memory that was deferred: see destroyIdle.
func (mc *memCore) freePooled(at driver.At) (string, driver.Result) {
	mc.observeFree()
	defer mc.leavePool()
	end, may := mc.beginFree()
	if !may {
		return "cuMemFree", driver.ResultSuccess
	}
	defer end()
	return "cuMemFree", mc.ctx.drv.table().MemFree(at, mc.raw)
}

// memPoolCore is a pool of memory. Each piece of memory that was allocated by MemPool.Alloc or
// AllocHost is a call in flight on it.
type memPoolCore struct {
	raw driver.MemoryPool
	resource
	memory memoryKind // the kind of its memory
	most   uint64     // what MemPoolOptions.MaxSize says, or 0
	// foreign says that the pool belongs to the device, to other code, or to another core, which is
	// of.
	foreign bool
	of      *memPoolCore
	// leaveImports is imports.leave if the pool is imported, else nil. It is a field, so that a program
	// that imports no pools does not contain the function.
	leaveImports func(driver.MemoryPool) (end func())
}

func (p *memPoolCore) kind() string { return "memory pool" }

func (p *memPoolCore) handle() uintptr { return uintptr(p.raw) }

func (p *memPoolCore) free(at driver.At) (string, driver.Result) {
	if p.foreign {
		if p.of != nil {
			p.of.leave()
		}
		return "", driver.ResultSuccess
	}
	if p.leaveImports != nil {
		end := p.leaveImports(p.raw)
		if end == nil {
			return "", driver.ResultSuccess
		}
		defer end()
	}
	defer func() {
		if known, _ := p.ctx.drv.pools.Load(p.raw); known == any(p) {
			p.ctx.drv.pools.Delete(p.raw)
		}
	}()
	p.ctx.drv.poolAccess.Range(func(key, _ any) bool {
		if key.(poolAccess).pool == p.raw {
			p.ctx.drv.poolAccess.Delete(key)
		}
		return true
	})
	return "cuMemPoolDestroy", p.ctx.drv.table().MemPoolDestroy(at, p.raw)
}

// amount returns two attributes of a pool. It fails before CUDA 11.3.
func (c *contextCore) amount(raw driver.MemoryPool) (reserved, used uint64, ok bool) {
	t, at := c.drv.table(), driver.At{Context: c.raw, Relaxed: true} // the question invalidates no capture
	reserved, res := t.MemPoolGetAttribute(at, raw, driver.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
	if res == driver.ResultSuccess {
		used, res = t.MemPoolGetAttribute(at, raw, driver.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
	}
	return reserved, used, res == driver.ResultSuccess
}

// keptByPools returns how much memory pools of the context's device keep that nobody uses, except for
// one of the pools.
func (c *contextCore) keptByPools(except driver.MemoryPool) (kept uint64) {
	add := func(raw driver.MemoryPool) {
		if raw != except {
			if reserved, used, ok := c.amount(raw); ok && reserved > used {
				kept += reserved - used
			}
		}
	}
	c.drv.pools.Range(func(_, known any) bool {
		p := known.(*memPoolCore)
		if p.memory == pooledMemory && p.ctx.dev == c.dev && p.Acquire(p) {
			add(p.raw)
			p.leave()
		}
		return true
	})
	at := driver.At{Context: c.raw, Relaxed: true}
	if raw, res := c.drv.table().DeviceGetDefaultMemPool(at, c.dev); res == driver.ResultSuccess {
		add(raw)
	}
	return kept
}

// outOfMemory adds to the error of an allocation of device memory what pools keep, if it failed for lack
// of memory.
func (c *contextCore) outOfMemory(e *cuerror.Error) error { return c.outOfMemoryBeside(e, 0) }

func (c *contextCore) outOfMemoryBeside(e *cuerror.Error, except driver.MemoryPool) error {
	if e.Result == driver.ResultOutOfMemory && e.Err == nil {
		if kept := c.keptByPools(except); kept != 0 {
			e.Detail = join(fmt.Sprintf("memory pools keep %d bytes that nobody uses: MemPool.Trim frees them", kept), e.Detail)
		}
	}
	return e
}

// failPoolAlloc returns the error for an allocation from a pool, or from the device's current pool if p
// is nil. It says whether the pool's own limit is the reason.
func (sc *streamCore) failPoolAlloc(op string, size uint64, res driver.Result, p *memPoolCore,
	own *collection) error {
	c := sc.ctx
	e := c.failAlloc(op, uintptr(sc.raw), size, res, own)
	if res != driver.ResultOutOfMemory || e.Err != nil {
		return e
	}
	if p == nil {
		var current driver.MemoryPool
		at := driver.At{Context: c.raw, Relaxed: true}
		if raw, res := c.drv.table().DeviceGetMemPool(at, c.dev); res == driver.ResultSuccess {
			known, _ := c.drv.pools.Load(raw)
			p, _ = known.(*memPoolCore)
			current = raw
		}
		if p == nil || !p.Acquire(p) {
			return c.outOfMemoryBeside(e, current)
		}
		defer p.leave()
	}
	if _, used, ok := c.amount(p.raw); ok && p.most != 0 && (size > p.most || used > p.most-size) {
		e.Detail = fmt.Sprintf("%d bytes were requested, and %d of at most %d are used (MemPoolOptions.MaxSize): free "+
			"memory of the pool, or create a larger one", size, used, p.most)
		return e
	}
	if p.memory != pooledMemory {
		return e
	}
	return c.outOfMemoryBeside(e, p.raw)
}

// poolAccess is a key of driverCore.poolAccess, which has the devices that the program has allowed
// to access the memory of a pool.
type poolAccess struct {
	pool driver.MemoryPool
	dev  driver.Device
}

// poolReaches reports whether kernels on a device can access the memory because its pool allows it.
func (mc *memCore) poolReaches(dev driver.Device) bool {
	key := poolAccess{dev: dev}
	if p, ok := mc.pool.(*memPoolCore); ok {
		key.pool = p.raw
	} else { // it was the device's current pool
		v, res := mc.ctx.drv.table().PointerGetAttribute(driver.At{Context: mc.ctx.raw},
			driver.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, mc.raw)
		if res != driver.ResultSuccess {
			return false
		}
		key.pool = driver.MemoryPool(v[0])
	}
	_, ok := mc.ctx.drv.poolAccess.Load(key)
	return ok
}

// allocOnce allocates from a pool, or from the device's current one if p is nil. In a capture it calls
// captured with memory that the graph keeps afterwards. If captured is nil, it allocates nothing in a capture, and
// refused is true. It is also true in a capture of other code. The caller has a call in flight on the stream.
func (sc *streamCore) allocOnce(size uint64, p *memPoolCore, captured func(*memCore)) (raw driver.DevicePtr,
	res driver.Result, refused bool) {
	at := sc.inContext()
	c := sc.beginWork()
	defer sc.endWork()
	if c != nil && captured == nil ||
		c == nil && (sc.foreign || sc.exposed.Load()) && sc.captureActive() {
		return 0, driver.ResultSuccess, true
	}
	sc.beginLegacy()
	defer sc.endLegacy()
	if p == nil {
		raw, res = sc.ctx.drv.table().MemAllocAsync(at, size, sc.raw)
	} else {
		raw, res = sc.ctx.drv.table().MemAllocFromPoolAsync(at, size, p.raw, sc.raw)
	}
	if c != nil && res == driver.ResultSuccess {
		mc := newGraphMem(raw, size, c.objects)
		captured(mc)
		c.objects.add(mc)
	}
	return raw, res, false
}

// freeCaptured makes a node of the capture that the stream is part of free memory. foreign says that
// other code captures the stream, and captured that somebody does.
func (sc *streamCore) freeCaptured(op string, mc *memCore) (captured, foreign bool, err error) {
	c := sc.beginWork()
	defer sc.endWork()
	if c == nil {
		foreign = sc.raw != driver.CU_STREAM_LEGACY && sc.captureActive()
		return foreign, foreign, nil
	}
	if err := c.objects.canFree(op, mc); err != nil {
		return true, false, err
	}
	res := sc.ctx.drv.table().MemFreeAsync(sc.inContext(), mc.raw, sc.raw)
	if tookEffect(res) {
		c.objects.frees(mc)
	}
	if res != driver.ResultSuccess {
		err = sc.ctx.callError(op, uintptr(sc.raw), res)
	}
	return true, false, err
}

// orderedFree is a free of memory that is about to be enqueued.
type orderedFree struct {
	mc *memCore
	// on is the stream, on which a call is in flight.
	on *streamCore
	// marks are the ends of the work on other streams.
	marks  []driver.Event
	of     []*contextCore // the contexts of marks
	traces []func()       // the calls of tracers that are due
}

// closeOrdered frees closed memory of a pool in the order of a stream, and returns at once. No call
// on the memory is in flight. If this is not possible now, the memory is freed later.
func (mc *memCore) closeOrdered() error {
	if mc.leftToOther() {
		return nil
	}
	f := orderedFree{mc: mc}
	late := true
	defer func() {
		if late { // also if a tracer panics
			mc.destroyLate(false)
		}
	}()
	if !f.chooseStream() {
		return nil
	}
	defer f.end()
	if !f.markOthers() {
		return nil
	}
	res, enqueued := f.enqueue()
	if !enqueued {
		return nil
	}
	late = false
	defer mc.ctx.endHold()
	mc.freed.Store(true)
	mc.leavePool()
	eachDespitePanic(len(f.traces), func(i int) { f.traces[i]() })
	if res != driver.ResultSuccess {
		return mc.ctx.backgroundError("cuMemFreeAsync", mc.handle(), res)
	}
	return nil
}

// chooseStream begins a call on the stream that is to free the memory: the one that the program has named, or else the
// first open one that has used it. That is the stream that allocated the memory, if it is open. It reports false if
// none is open.
func (f *orderedFree) chooseStream() bool {
	streams := f.mc.usedStreams.list()
	if sc := f.mc.freeOn.Load(); sc != nil {
		streams = append([]*streamCore{sc}, streams...)
	}
	for _, sc := range streams {
		if sc.ctx != f.mc.ctx || sc.at.Thread != nil && !sc.at.Thread.Here() || sc == f.mc.ctx.legacy.Load() {
			continue
		}
		if sc.Acquire(sc) {
			f.on = sc
			return true
		}
	}
	return false
}

// end ends the call on the stream, and the use of the marks.
func (f *orderedFree) end() {
	defer f.on.leave()
	eachDespitePanic(len(f.marks), func(i int) {
		defer f.of[i].endHold()
		f.of[i].doneWith(driver.CU_EVENT_DISABLE_TIMING, f.marks[i])
	})
}

// markOthers marks the end of the work on the other streams that have used the memory. It reports
// false if a mark is not possible now.
func (f *orderedFree) markOthers() bool {
	for _, sc := range f.mc.usedStreams.list() {
		if sc == f.on || sc.same(f.on) && !sc.Closed() {
			continue
		}
		if done, err := sc.done(); err != nil {
			return false
		} else if done {
			continue
		}
		e, err := sc.markHeld()
		if err != nil {
			return false
		}
		f.marks, f.of = append(f.marks, e), append(f.of, sc.ctx)
	}
	return true
}

// markHeld is mark for a caller that has no call in flight on the stream, which may be closed. The
// caller ends its use of the context after the use of the mark.
func (sc *streamCore) markHeld() (e driver.Event, err error) {
	if !sc.ctx.hold() {
		return 0, errBusy
	}
	defer func() {
		if e == 0 { // also if a tracer panics
			sc.ctx.endHold()
		}
	}()
	switch {
	case sc.permanent():
		return sc.mark()
	case sc.at.Thread != nil && !sc.at.Thread.Here() || !sc.Acquire(sc):
		return 0, errBusy
	}
	return sc.markAndLeave()
}

// enqueue makes the stream wait for the marks, and then free the memory. It reports false if the
// stream is being captured.
func (f *orderedFree) enqueue() (res driver.Result, enqueued bool) {
	sc := f.on
	t, at := sc.ctx.drv.table(), sc.inContext()
	at.Relaxed = true
	captured := sc.beginWork() != nil
	defer sc.endWork()
	if captured || !sc.tryBeginLegacy() {
		return 0, false
	}
	defer sc.endLegacy()
	if sc.unlessCaptured(at) != nil {
		return 0, false
	}
	o := sc.ctx.drv.observer()
	for _, e := range f.marks {
		trace := sc.ctx.drv.trace(traceStreamWait, e, sc.raw)
		if o != nil {
			o.Wait(sc.observed(), uintptr(e), races.PlainEvent)
		}
		res := t.StreamWaitEvent(at, sc.raw, e, driver.CU_EVENT_WAIT_DEFAULT)
		f.traces = append(f.traces, func() { trace.done(traceStreamWait, e, sc.raw, res) })
		if res != driver.ResultSuccess {
			return 0, false
		}
	}
	f.mc.observeFreeOn(sc)
	end, may := f.mc.beginFree()
	if !may {
		return driver.ResultSuccess, true
	}
	defer end()
	return t.MemFreeAsync(at, f.mc.raw, sc.raw), true
}

// destroyIdle frees memory of a pool in the background, when all work that uses it is done. l is
// the report for the leak hook.
func (mc *memCore) destroyIdle(l leakReport) {
	ctx := mc.ctx
	up, ok := ctx.takeWakeUp()
	if !ok {
		ctx.drv.leak(l)
		ctx.addDeferred(&mc.resource)
		ctx.endHold()
		return
	}
	defer ctx.endHold()
	mc.observeFree()
	res := driver.ResultSuccess
	end, may := mc.beginFree()
	if may {
		res = ctx.drv.table().MemFreeAsync(background(), mc.raw, up.raw)
	}
	end()
	up.Return()
	mc.freed.Store(true)
	mc.leavePool()
	if res != driver.ResultSuccess {
		l.Err = ctx.backgroundError("cuMemFreeAsync", mc.handle(), res)
	}
	ctx.drv.leak(l)
}
