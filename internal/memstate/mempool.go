package memstate

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/races"
)

// This file has the pools of memory, and the protocol by which their memory is allocated and freed.
//
// cu.Stream.Alloc and memory.Pool.Alloc call AllocPooled, which calls AllocOnce, by core.Context.Allocate unless the
// stream is being captured: then AllocOnce makes a node of the graph. memory.Pool.AllocHost calls AllocOnce itself.
//
// cu.DeviceMem.Close calls core.Resource.CloseOwned, which takes the memory from the streams that keep it. If no call
// is in flight then, it calls Mem.CloseInPool, which calls CloseOrdered. Else the end of the last call (Resource.Last)
// calls Resource.DestroyLate. CloseOrdered calls that, too, if it cannot free the memory now. DestroyLate waits for the
// work, and calls Mem.DestroyInPool, which calls destroyIdle.
//
// Other memory is freed by calls that wait for the GPU. Memory of a pool is freed by work on a
// stream, which must come after all other work that uses the memory. The stream is the one that the
// program names, or else the one on which the memory was allocated, or one that has used it. It
// waits, on the GPU, for the other streams that have used the memory. If no such stream is open, or
// the end of a stream's work cannot be marked now, the library polls until the work is done. Then
// it frees the memory on a wake-up stream, which has nothing to do. If there is none, the memory is
// deferred, and the next freeing call frees it by cuMemFree.

// NewPoolFuncs returns what all memory of pools has. It is a function, because a variable would be copied when a
// program starts, and every program would contain the functions.
func NewPoolFuncs() *PoolFuncs {
	return &PoolFuncs{(*Mem).CloseOrdered, (*Mem).destroyIdle, (*Mem).poolReaches}
}

// DevicePoolMemory is memory of a pool of device memory, allocated by cuMemAllocAsync or cuMemAllocFromPoolAsync.
var DevicePoolMemory = Kind{Traits{Tracked: true}, &Funcs{
	Name:     "device memory",
	Pooled:   NewPoolFuncs(),
	Free:     (*Mem).FreePooled,
	Unshared: "the memory is of a pool: use memory.PoolHandleOf for memory of a shareable pool, or Context.Alloc",
}}

// FreePooled frees memory that was deferred: see destroyIdle.
func (mc *Mem) FreePooled(at driver.At) (string, driver.Result) {
	mc.ObserveFree()
	defer mc.leavePool()
	end, may := mc.beginFree()
	if !may {
		return "cuMemFree", driver.ResultSuccess
	}
	defer end()
	return "cuMemFree", mc.Ctx.Drv.Table().MemFree(at, mc.Raw)
}

// Pool is a pool of memory. Each piece of memory that was allocated by memory.Pool.Alloc or
// AllocHost is a call in flight on it.
type Pool struct {
	Raw driver.MemoryPool
	core.Resource
	Memory Kind   // the kind of its memory
	Most   uint64 // what memory.PoolOptions.MaxSize says, or 0
	// Foreign says that the pool belongs to the device, to other code, or to another Pool, which is Of.
	Foreign bool
	Of      *Pool
	// LeaveImports is poolimport.Pools.Leave if the pool is imported, else nil. It is a field, so that a program
	// that imports no pools does not contain the function.
	LeaveImports func(driver.MemoryPool) (end func())
}

// Kind names the kind of the object in errors and reports.
func (p *Pool) Kind() string { return "memory pool" }

// Handle returns the driver's handle.
func (p *Pool) Handle() uintptr { return uintptr(p.Raw) }

// Destroy destroys the object in the driver, unless other code owns it: see core.Object.
func (p *Pool) Destroy(at driver.At) (string, driver.Result) {
	if p.Foreign {
		if p.Of != nil {
			p.Of.EndCall()
		}
		return "", driver.ResultSuccess
	}
	if p.LeaveImports != nil {
		end := p.LeaveImports(p.Raw)
		if end == nil {
			return "", driver.ResultSuccess
		}
		defer end()
	}
	defer func() {
		if known, _ := p.Ctx.Drv.MemPools.Load(p.Raw); known == any(p) {
			p.Ctx.Drv.MemPools.Delete(p.Raw)
		}
	}()
	p.Ctx.Drv.MemPoolAccess.Range(func(key, _ any) bool {
		if key.(PoolAccess).Pool == p.Raw {
			p.Ctx.Drv.MemPoolAccess.Delete(key)
		}
		return true
	})
	return "cuMemPoolDestroy", p.Ctx.Drv.Table().MemPoolDestroy(at, p.Raw)
}

// amount returns two attributes of a pool. It fails before CUDA 11.3.
func amount(c *core.Context, raw driver.MemoryPool) (reserved, used uint64, ok bool) {
	t, at := c.Drv.Table(), driver.At{Context: c.Raw, Relaxed: true} // the question invalidates no capture
	reserved, res := t.MemPoolGetAttribute(at, raw, driver.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
	if res == driver.ResultSuccess {
		used, res = t.MemPoolGetAttribute(at, raw, driver.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
	}
	return reserved, used, res == driver.ResultSuccess
}

// keptByPools returns how much memory pools of the context's device keep that nobody uses, except for
// one of the pools.
func keptByPools(c *core.Context, except driver.MemoryPool) (kept uint64) {
	add := func(raw driver.MemoryPool) {
		if raw != except {
			if reserved, used, ok := amount(c, raw); ok && reserved > used {
				kept += reserved - used
			}
		}
	}
	c.Drv.MemPools.Range(func(_, known any) bool {
		p := known.(*Pool)
		if p.Memory == DevicePoolMemory && p.Ctx.Dev == c.Dev && p.Acquire(p) {
			add(p.Raw)
			p.EndCall()
		}
		return true
	})
	at := driver.At{Context: c.Raw, Relaxed: true}
	if raw, res := c.Drv.Table().DeviceGetDefaultMemPool(at, c.Dev); res == driver.ResultSuccess {
		add(raw)
	}
	return kept
}

// OutOfMemory adds to the error of an allocation of device memory what pools keep, if it failed for lack
// of memory.
func OutOfMemory(c *core.Context, e *cuerror.Error) error { return outOfMemoryBeside(c, e, 0) }

func outOfMemoryBeside(c *core.Context, e *cuerror.Error, except driver.MemoryPool) error {
	if e.Result == driver.ResultOutOfMemory && e.Err == nil {
		if kept := keptByPools(c, except); kept != 0 {
			e.Detail = drivercall.JoinText(
				fmt.Sprintf("memory pools keep %d bytes that nobody uses: memory.Pool.Trim frees them", kept), e.Detail)
		}
	}
	return e
}

// FailPoolAlloc returns the error for an allocation from a pool, or from the device's current pool if p
// is nil. It says whether the pool's own limit is the reason.
func FailPoolAlloc(
	sc *core.Stream, op string, size uint64, res driver.Result, p *Pool, collection *core.Collection,
) error {
	c := sc.Ctx
	e := FailAlloc(c, op, uintptr(sc.Raw), size, res, collection)
	if res != driver.ResultOutOfMemory || e.Err != nil {
		return e
	}
	if p == nil {
		var current driver.MemoryPool
		at := driver.At{Context: c.Raw, Relaxed: true}
		if raw, res := c.Drv.Table().DeviceGetMemPool(at, c.Dev); res == driver.ResultSuccess {
			known, _ := c.Drv.MemPools.Load(raw)
			p, _ = known.(*Pool)
			current = raw
		}
		if p == nil || !p.Acquire(p) {
			return outOfMemoryBeside(c, e, current)
		}
		defer p.EndCall()
	}
	if _, used, ok := amount(c, p.Raw); ok && p.Most != 0 && (size > p.Most || used > p.Most-size) {
		e.Detail = fmt.Sprintf("%d bytes were requested, and %d of at most %d are used (memory.PoolOptions.MaxSize): free "+
			"memory of the pool, or create a larger one", size, used, p.Most)
		return e
	}
	if p.Memory != DevicePoolMemory {
		return e
	}
	return outOfMemoryBeside(c, e, p.Raw)
}

// PoolAccess is a key of core.Driver.MemPoolAccess, which has the devices that the program has allowed
// to access the memory of a pool.
type PoolAccess struct {
	Pool driver.MemoryPool
	Dev  driver.Device
}

// poolReaches reports whether kernels on a device can access the memory because its pool allows it.
func (mc *Mem) poolReaches(dev driver.Device) bool {
	key := PoolAccess{Dev: dev}
	if p, ok := mc.Pool.(*Pool); ok {
		key.Pool = p.Raw
	} else { // it was the device's current pool
		v, res := mc.Ctx.Drv.Table().PointerGetAttribute(driver.At{Context: mc.Ctx.Raw},
			driver.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, mc.Raw)
		if res != driver.ResultSuccess {
			return false
		}
		key.Pool = driver.MemoryPool(v[0])
	}
	_, ok := mc.Ctx.Drv.MemPoolAccess.Load(key)
	return ok
}

// AllocOnce allocates from a pool, or from the device's current one if p is nil. In a capture it calls
// captured with memory that the graph keeps afterwards. If captured is nil, it allocates nothing in a capture, and
// refused is true. It is also true in a capture of other code. The caller has a call in flight on the stream.
func AllocOnce(sc *core.Stream, size uint64, p *Pool, captured func(*Mem)) (raw driver.DevicePtr,
	res driver.Result, refused bool) {
	at := sc.InContext()
	c := sc.HoldCapture()
	defer sc.ReleaseCapture()
	if c != nil && captured == nil ||
		c == nil && (sc.Foreign || sc.Exposed.Load()) && sc.CaptureActive() {
		return 0, driver.ResultSuccess, true
	}
	sc.EnterGate()
	defer sc.LeaveGate()
	if p == nil {
		raw, res = sc.Ctx.Drv.Table().MemAllocAsync(at, size, sc.Raw)
	} else {
		raw, res = sc.Ctx.Drv.Table().MemAllocFromPoolAsync(at, size, p.Raw, sc.Raw)
	}
	if c != nil && res == driver.ResultSuccess {
		mc := NewGraphMem(raw, size, c.Objects)
		captured(mc)
		c.Objects.Add(mc)
	}
	return raw, res, false
}

// FreeCaptured makes a node of the capture that the stream is part of free memory. foreign says that
// other code captures the stream, and captured that somebody does.
func FreeCaptured(sc *core.Stream, op string, mc *Mem) (captured, foreign bool, err error) {
	c := sc.HoldCapture()
	defer sc.ReleaseCapture()
	if c == nil {
		foreign = sc.Raw != driver.CU_STREAM_LEGACY && sc.CaptureActive()
		return foreign, foreign, nil
	}
	if err := CanFree(c.Objects, op, mc); err != nil {
		return true, false, err
	}
	res := sc.Ctx.Drv.Table().MemFreeAsync(sc.InContext(), mc.Raw, sc.Raw)
	if drivercall.TookEffect(res) {
		Frees(c.Objects, mc)
	}
	if res != driver.ResultSuccess {
		err = sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	return true, false, err
}

// orderedFree is a free of memory that is about to be enqueued.
type orderedFree struct {
	mc *Mem
	// on is the stream, on which a call is in flight.
	on *core.Stream
	// marks are the ends of the work on other streams.
	marks  []driver.Event
	of     []*core.Context // the contexts of marks
	traces []func()        // the calls of tracers that are due
}

// CloseOrdered frees closed memory of a pool in the order of a stream, and returns at once. No call
// on the memory is in flight. If this is not possible now, the memory is freed later.
func (mc *Mem) CloseOrdered() error {
	if mc.LeftToOther() {
		return nil
	}
	f := orderedFree{mc: mc}
	late := true
	defer func() {
		if late { // also if a tracer panics
			mc.DestroyLate(false)
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
	defer mc.Ctx.EndHold()
	mc.Freed.Store(true)
	mc.leavePool()
	drivercall.EachDespitePanic(len(f.traces), func(i int) { f.traces[i]() })
	if res != driver.ResultSuccess {
		return mc.Ctx.BackgroundError("cuMemFreeAsync", mc.Handle(), res)
	}
	return nil
}

// chooseStream begins a call on the stream that is to free the memory: the one that the program has named, or else the
// first open one that has used it. That is the stream that allocated the memory, if it is open. It reports false if
// none is open.
func (f *orderedFree) chooseStream() bool {
	streams := f.mc.UsedStreams.List()
	if sc := f.mc.FreeOn.Load(); sc != nil {
		streams = append([]*core.Stream{sc}, streams...)
	}
	for _, sc := range streams {
		if sc.Ctx != f.mc.Ctx || sc.At.Thread != nil && !sc.At.Thread.Here() || sc == f.mc.Ctx.Legacy.Load() {
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
	defer f.on.EndCall()
	drivercall.EachDespitePanic(len(f.marks), func(i int) {
		defer f.of[i].EndHold()
		f.of[i].DoneWith(driver.CU_EVENT_DISABLE_TIMING, f.marks[i])
	})
}

// markOthers marks the end of the work on the other streams that have used the memory. It reports
// false if a mark is not possible now.
func (f *orderedFree) markOthers() bool {
	for _, sc := range f.mc.UsedStreams.List() {
		if sc == f.on || sc.Same(f.on) && !sc.Closed() {
			continue
		}
		if done, err := sc.Done(); err != nil {
			return false
		} else if done {
			continue
		}
		e, err := markHeld(sc)
		if err != nil {
			return false
		}
		f.marks, f.of = append(f.marks, e), append(f.of, sc.Ctx)
	}
	return true
}

// markHeld is core.Stream.Mark for a caller that has no call in flight on the stream, which may be closed. The
// caller ends its use of the context after the use of the mark.
func markHeld(sc *core.Stream) (e driver.Event, err error) {
	if !sc.Ctx.Hold() {
		return 0, core.ErrBusy
	}
	defer func() {
		if e == 0 { // also if a tracer panics
			sc.Ctx.EndHold()
		}
	}()
	switch {
	case sc.Permanent():
		return sc.Mark()
	case sc.At.Thread != nil && !sc.At.Thread.Here() || !sc.Acquire(sc):
		return 0, core.ErrBusy
	}
	return sc.MarkAndLeave()
}

// enqueue makes the stream wait for the marks, and then free the memory. It reports false if the
// stream is being captured.
func (f *orderedFree) enqueue() (res driver.Result, enqueued bool) {
	sc := f.on
	t, at := sc.Ctx.Drv.Table(), sc.InContext()
	at.Relaxed = true
	captured := sc.HoldCapture() != nil
	defer sc.ReleaseCapture()
	if captured || !sc.TryEnterGate() {
		return 0, false
	}
	defer sc.LeaveGate()
	if sc.UnlessCaptured(at) != nil {
		return 0, false
	}
	o := sc.Ctx.Drv.Observer()
	for _, e := range f.marks {
		trace := sc.Ctx.Drv.Trace(drivercall.TraceStreamWait, e, sc.Raw)
		if o != nil {
			o.Wait(sc.Observed(), uintptr(e), races.PlainEvent)
		}
		res := t.StreamWaitEvent(at, sc.Raw, e, driver.CU_EVENT_WAIT_DEFAULT)
		f.traces = append(f.traces, func() { trace.Done(drivercall.TraceStreamWait, e, sc.Raw, res) })
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
	return t.MemFreeAsync(at, f.mc.Raw, sc.Raw), true
}

// destroyIdle frees memory of a pool in the background, when all work that uses it is done. l is
// the report for the leak hook.
func (mc *Mem) destroyIdle(l drivercall.LeakReport) {
	ctx := mc.Ctx
	up, ok := ctx.TakeWakeUp()
	if !ok {
		ctx.Drv.Leak(l)
		ctx.AddDeferred(&mc.Resource)
		ctx.EndHold()
		return
	}
	defer ctx.EndHold()
	mc.ObserveFree()
	res := driver.ResultSuccess
	end, may := mc.beginFree()
	if may {
		res = ctx.Drv.Table().MemFreeAsync(core.BackgroundAt(), mc.Raw, up.Raw)
	}
	end()
	up.Return()
	mc.Freed.Store(true)
	mc.leavePool()
	if res != driver.ResultSuccess {
		l.Err = ctx.BackgroundError("cuMemFreeAsync", mc.Handle(), res)
	}
	ctx.Drv.Leak(l)
}

// AllocPooled allocates from a pool, or from the current pool of the device if p is nil. If it succeeds, it has
// called own once with the memory, which gets an owner there. The caller keeps the cu.Stream reachable.
func AllocPooled(sc *core.Stream, op string, size uint64, p *Pool, own func(*Mem)) error {
	if err := sc.Begin(op); err != nil {
		return err
	}
	defer sc.EndCall()
	if size == 0 {
		return drivercall.BadValue(op, sc, "the size is 0 bytes: ask for at least one")
	}
	var raw driver.DevicePtr
	var ofNode *Mem // memory of a node, in a capture
	refused := false
	attempt := func() (res driver.Result) {
		raw, res, refused = AllocOnce(sc, size, p, func(mc *Mem) {
			ofNode = mc
			own(mc)
		})
		return res
	}
	var res driver.Result
	var collection *core.Collection
	if c := sc.Shared.Capture.Load(); c != nil && c.Active() {
		res = attempt() // a failure may have invalidated the capture, and a second result would hide the first one
	} else {
		res, collection = sc.Ctx.Allocate(attempt)
	}
	switch {
	case refused:
		return CapturedPoolError(op, sc)
	case res != driver.ResultSuccess:
		return FailPoolAlloc(sc, op, size, res, p, collection)
	case ofNode != nil:
		ofNode.ObserveOrder(op, sc)
		return nil
	}
	mc := &Mem{Is: DevicePoolMemory, Raw: raw, Size: size, Capacity: size}
	if p != nil {
		p.Retain()
		mc.Pool = p
	}
	own(mc)
	mc.Resource.UsedOn(sc) // it becomes the first in the list: see chooseStream
	mc.ObserveOrder(op, sc)
	return nil
}

// CapturedPoolError returns the error for an allocation or a free on a stream that other code captures.
func CapturedPoolError(op string, s *core.Stream) error {
	return drivercall.NewError(op, s, driver.ResultStreamCaptureUnsupported, errCapturedMemory,
		"allocate before the capture, and free after the last launch of the graph")
}

// errCapturedMemory is wrapped by the error of CapturedPoolError.
var errCapturedMemory = fmt.Errorf("other code captures the stream: %w", errors.ErrUnsupported)
