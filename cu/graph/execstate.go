package graph

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/hostfunc"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/timelines"
)

type execCore struct {
	core.Resource
	raw driver.GraphExec
	// mu is held for each call, because CUDA does not synchronize calls on an executable graph. So
	// a launch waits for another launch, which may wait until its stream's queue has room.
	mu      lock.Mutex[lock.Exec]
	objects atomic.Pointer[graphObjects]
	// exposed says that other code has the handle.
	exposed atomic.Bool
	// graph is the graph that it was instantiated from. Its nodes name the nodes of the executable
	// graph.
	graph *graphCore
	// removed is graphCore.removed as it was then, or nil. It never changes.
	removed map[driver.GraphNode]uint32
	// edits is graphCore.edits as it was then. While the graph's is the same, an update with the graph
	// gives each node the work of the node that names it.
	edits int
	// allocs is the memory that the graph allocates and does not free. autoFree says that a launch
	// frees what the launch before has allocated. mu guards allocs.
	allocs   []graphAlloc
	autoFree bool
	// atEnd is freeAllocs if there are allocs. It never changes, as an update is only with a graph that has
	// as many. Launches read it without a lock. Programs that instantiate no graph do not link freeAllocs.
	atEnd func()
	// delayed has the objects that only earlier launches use. delayedMu guards it.
	delayedMu lock.Mutex[lock.Delayed]
	delayed   []delayedRelease
}

// delayedRelease is an object that is released after earlier launches. kind and handle are for the
// leak report.
type delayedRelease struct {
	core.Holder
	kind   string
	handle uintptr
}

// Kind names the kind of the object in errors and reports.
func (xc *execCore) Kind() string { return "executable graph" }

// leavesMemory reports whether the graph leaves memory allocated.
func (xc *execCore) leavesMemory() bool { return xc.atEnd != nil }

// Handle returns the driver's handle.
func (xc *execCore) Handle() uintptr { return uintptr(xc.raw) }

// Destroy destroys the object in the driver, unless other code owns it: see core.Object.
func (xc *execCore) Destroy(at driver.At) (string, driver.Result) {
	if xc.leavesMemory() {
		xc.atEnd()
	}
	return xc.graph.family.destroy(at, xc)
}

func (xc *execCore) destroyRaw(at driver.At) (string, driver.Result) {
	if o := xc.Ctx.Drv.Observer(); o != nil {
		o.ExecDestroyed(uintptr(xc.raw))
	}
	return "cuGraphExecDestroy", xc.Ctx.Drv.Table().GraphExecDestroy(at, xc.raw)
}

// ObserveLaunchesDone is called when the program learns that the launches are done.
func (xc *execCore) ObserveLaunchesDone() {
	if o := xc.Ctx.Drv.Observer(); o != nil {
		o.ExecDone(uintptr(xc.raw))
	}
}

func (xc *execCore) releaseObjects() { xc.objects.Load().release() }

// enqueue calls the driver, unless there is an error before.
func (xc *execCore) enqueue(f core.WorkFunction, sc *core.Stream) (res driver.Result, err error) {
	xc.mu.Lock()
	defer xc.mu.Unlock()
	launch := f == core.WorkGraphLaunch
	if launch && len(xc.allocs) > 0 {
		if err := xc.mayAllocate(f.Op()); err != nil {
			return driver.ResultInvalidValue, err
		}
	}
	sc.EnterGate()
	defer sc.LeaveGate()
	for in, again := sc.ContextFor(f), true; again; in, again = sc.NeedsContext(f, in, res) {
		at := sc.Within(in)
		if f == core.WorkGraphUpload {
			res = sc.Ctx.Drv.Table().GraphUpload(at, xc.raw, sc.Raw)
		} else {
			res = sc.Ctx.Drv.Table().GraphLaunch(at, xc.raw, sc.Raw)
		}
	}
	if launch && drivercall.TookEffect(res) {
		xc.objects.Load().Launched()
		xc.launchedAllocs()
	}
	return res, nil
}

// keepForLaunches prepares the release of an old set: objects that earlier launches use stay until
// these are done.
func (xc *execCore) keepForLaunches(old *graphObjects) {
	launched, objects := xc.UsedStreams.Streams.Load() != nil, xc.objects.Load()
	old.Mu.Lock()
	defer old.Mu.Unlock()
	for h := range old.Held {
		if l := xc.noteLaunches(h); l.Holder != nil && launched && !objects.Has(h) {
			h.Retain() // works also if the object was closed
			xc.leaveAfterLaunches(l)
		}
	}
}

// noteLaunches makes an object wait for the earlier launches when it is destroyed. For one that waits
// for no streams, it returns how to release it after the launches.
func (xc *execCore) noteLaunches(h core.Holder) delayedRelease {
	switch h := h.(type) {
	case *core.Slot:
		return delayedRelease{h, "event", uintptr(h.Raw)}
	case *hostfunc.Func:
		return delayedRelease{h, "host function", 0}
	case *timelines.Timeline:
		h.UsedOnAll(xc.UsedStreams)
	case core.UsedObject:
		for _, sc := range xc.UsedStreams.List() {
			h.UsedOn(sc)
		}
	}
	return delayedRelease{}
}

// leaveLaunched ends the call in flight on an object that earlier launches may use. The caller holds
// no lock.
func (xc *execCore) leaveLaunched(h core.Holder) {
	if l := xc.noteLaunches(h); l.Holder != nil {
		xc.leaveAfterLaunches(l)
	} else {
		h.EndCall()
	}
}

// leaveAfterLaunches ends the call in flight on an object that earlier launches may use, when these
// are done. If there were none, it does so at once, for which the caller must hold no lock; else in
// the background.
func (xc *execCore) leaveAfterLaunches(l delayedRelease) {
	if xc.UsedStreams.Streams.Load() == nil {
		l.EndCall()
		return
	}
	xc.delayedMu.Lock()
	defer xc.delayedMu.Unlock()
	xc.delayed = append(xc.delayed, l)
	if len(xc.delayed) == 1 {
		go xc.leaveDelayed()
	}
}

// leaveDelayed is the goroutine that leaveAfterLaunches starts.
func (xc *execCore) leaveDelayed() {
	done := 0
	for {
		xc.delayedMu.Lock()
		xc.delayed = xc.delayed[done:]
		batch := xc.delayed
		if len(batch) == 0 {
			xc.delayed = nil
		}
		xc.delayedMu.Unlock()
		if len(batch) == 0 {
			return
		}
		if err := xc.UsedStreams.WaitLong(xc.Ctx.Drv.Table().Clock()); err != nil {
			for _, l := range batch {
				xc.Ctx.Drv.Leak(drivercall.LeakReport{Kind: l.kind, Handle: l.handle,
					Err: core.KeptError(l.kind, l.handle, err)})
			}
		} else {
			drivercall.EachDespitePanic(len(batch), func(i int) { batch[i].EndCall() })
		}
		done = len(batch)
	}
}
