package cu

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

type execCore struct {
	resource
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
	holder
	kind   string
	handle uintptr
}

func (xc *execCore) kind() string { return "executable graph" }

// leavesMemory reports whether the graph leaves memory allocated.
func (xc *execCore) leavesMemory() bool { return xc.atEnd != nil }

func (xc *execCore) handle() uintptr { return uintptr(xc.raw) }

func (xc *execCore) free(at driver.At) (string, driver.Result) {
	if xc.leavesMemory() {
		xc.atEnd()
	}
	return xc.graph.family.destroy(at, xc)
}

func (xc *execCore) destroyRaw(at driver.At) (string, driver.Result) {
	if o := xc.ctx.drv.observer(); o != nil {
		o.ExecDestroyed(uintptr(xc.raw))
	}
	return "cuGraphExecDestroy", xc.ctx.drv.table().GraphExecDestroy(at, xc.raw)
}

// observeLaunchesDone is called when the program learns that the launches are done.
func (xc *execCore) observeLaunchesDone() {
	if o := xc.ctx.drv.observer(); o != nil {
		o.ExecDone(uintptr(xc.raw))
	}
}

func (xc *execCore) releaseObjects() { xc.objects.Load().release() }

// enqueue calls the driver, unless there is an error before.
func (xc *execCore) enqueue(f workFunction, sc *streamCore) (res driver.Result, err error) {
	xc.mu.Lock()
	defer xc.mu.Unlock()
	launch := f == workGraphLaunch
	if launch && len(xc.allocs) > 0 {
		if err := xc.mayAllocate(f.op()); err != nil {
			return driver.ResultInvalidValue, err
		}
	}
	sc.beginLegacy()
	defer sc.endLegacy()
	for in, again := sc.contextFor(f), true; again; in, again = sc.needsContext(f, in, res) {
		at := sc.within(in)
		if f == workGraphUpload {
			res = sc.ctx.drv.table().GraphUpload(at, xc.raw, sc.raw)
		} else {
			res = sc.ctx.drv.table().GraphLaunch(at, xc.raw, sc.raw)
		}
	}
	if launch && tookEffect(res) {
		xc.objects.Load().launched()
		xc.launchedAllocs()
	}
	return res, nil
}

// keepForLaunches prepares the release of an old set: objects that earlier launches use stay until
// these are done.
func (xc *execCore) keepForLaunches(old *graphObjects) {
	launched, objects := xc.usedStreams.streams.Load() != nil, xc.objects.Load()
	old.mu.Lock()
	defer old.mu.Unlock()
	for h := range old.held {
		if l := xc.noteLaunches(h); l.holder != nil && launched && !objects.has(h) {
			h.Retain() // works also if the object was closed
			xc.leaveAfterLaunches(l)
		}
	}
}

// noteLaunches makes an object wait for the earlier launches when it is destroyed. For one that waits
// for no streams, it returns how to release it after the launches.
func (xc *execCore) noteLaunches(h holder) delayedRelease {
	switch h := h.(type) {
	case *slot:
		return delayedRelease{h, "event", uintptr(h.raw)}
	case *hostFunc:
		return delayedRelease{h, "host function", 0}
	case *timelineCore:
		h.usedOnAll(xc.usedStreams)
	case usedObject:
		for _, sc := range xc.usedStreams.list() {
			h.usedOn(sc)
		}
	}
	return delayedRelease{}
}

// leaveLaunched ends the call in flight on an object that earlier launches may use. The caller holds
// no lock.
func (xc *execCore) leaveLaunched(h holder) {
	if l := xc.noteLaunches(h); l.holder != nil {
		xc.leaveAfterLaunches(l)
	} else {
		h.leave()
	}
}

// leaveAfterLaunches ends the call in flight on an object that earlier launches may use, when these
// are done. If there were none, it does so at once, for which the caller must hold no lock; else in
// the background.
func (xc *execCore) leaveAfterLaunches(l delayedRelease) {
	if xc.usedStreams.streams.Load() == nil {
		l.leave()
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
		if err := xc.usedStreams.waitLong(xc.ctx.drv.table().Clock()); err != nil {
			for _, l := range batch {
				xc.ctx.drv.leak(leakReport{Kind: l.kind, Handle: l.handle, Err: errKept(l.kind, l.handle, err)})
			}
		} else {
			eachDespitePanic(len(batch), func(i int) { batch[i].leave() })
		}
		done = len(batch)
	}
}
