package graph

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/subject"
)

// Exec is an executable graph: a [Graph] as it was when it was instantiated. It can be
// launched any number of times. It is safe for concurrent use. Launches of one Exec run one
// after the other.
//
// It keeps the objects that its graph used, even if they and the graph are closed.
type Exec struct {
	_       core.NoCopy
	core    *execCore
	cleanup runtime.Cleanup
}

// Instantiate makes an executable graph (cuGraphInstantiateWithFlags, CUDA 11.4). Later changes of
// the graph do not affect it. During other code's capture in global mode, or this goroutine's in a
// mode other than relaxed, it fails and invalidates that capture. It may wait for the GPU: see
// docs/blocking.md.
func (g *Graph) Instantiate() (*Exec, error) {
	const op = "cuGraphInstantiateWithFlags"
	x, err := g.instantiate(op)
	if err != nil && g != nil && g.core != nil {
		err = g.core.Ctx.FreeAndRetry(op, err, func() (err error) { x, err = g.instantiate(op); return err })
	}
	return x, err
}

func (g *Graph) instantiate(op string) (*Exec, error) {
	gc, err := g.enter(op)
	if err != nil {
		return nil, err
	}
	defer g.leave()
	if err := gc.notBody(op); err != nil {
		return nil, err
	}
	raw, res := gc.Ctx.Drv.Table().GraphInstantiateWithFlags(driver.At{Context: gc.Ctx.Raw}, gc.raw, 0)
	if res != driver.ResultSuccess {
		return nil, gc.onceError(op, res)
	}
	return gc.executable(raw, 0), nil
}

// InstantiateWithFlags is Instantiate with flags. If the driver refuses a node, the error names the
// node and the reason (cuGraphInstantiateWithParams, CUDA 12.0; else cuGraphInstantiateWithFlags, whose
// error does not). It may wait for the GPU: see docs/blocking.md.
func (g *Graph) InstantiateWithFlags(flags InstantiateFlags) (*Exec, error) {
	const op = "cuGraphInstantiateWithParams"
	x, err := g.instantiateWith(op, flags)
	if err != nil && g != nil && g.core != nil {
		made := op
		if e, ok := err.(*cu.Error); ok {
			made = e.Op // an older driver has only cuGraphInstantiateWithFlags
		}
		err = g.core.Ctx.FreeAndRetry(made, err, func() (err error) { x, err = g.instantiateWith(op, flags); return err })
	}
	return x, err
}

func (g *Graph) instantiateWith(op string, flags InstantiateFlags) (*Exec, error) {
	if flags&^instantiateFlags != 0 {
		return nil, drivercall.BadValue(op, g.object(), fmt.Sprintf("unknown flags %v: see graph.InstantiateFlags", flags))
	}
	gc, err := g.enter(op)
	if err != nil {
		return nil, err
	}
	defer g.leave()
	if err := gc.notBody(op); err != nil {
		return nil, err
	}
	t, at := gc.Ctx.Drv.Table(), driver.At{Context: gc.Ctx.Raw}
	raw, p, res := t.GraphInstantiateWithParams(at, gc.raw, driver.GraphInstantiateParams{Flags: uint64(flags)})
	if t.Missing(res) != nil {
		op = "cuGraphInstantiateWithFlags"
		raw, res = t.GraphInstantiateWithFlags(at, gc.raw, uint64(flags))
	}
	if res != driver.ResultSuccess {
		e := gc.onceError(op, res)
		e.Detail = drivercall.JoinText(gc.refusal(p), e.Detail)
		return nil, e
	}
	return gc.executable(raw, flags), nil
}

// executable returns the owner of an executable graph that was instantiated from the graph.
func (gc *graphCore) executable(raw driver.GraphExec, flags InstantiateFlags) *Exec {
	if o := gc.Ctx.Drv.Observer(); o != nil {
		o.Instantiate(uintptr(raw), uintptr(gc.raw))
	}
	xc, objects := &execCore{raw: raw, graph: gc, removed: maps.Clone(gc.removed), edits: gc.edits}, new(graphObjects)
	objects.copyAll(gc.objects)
	xc.objects.Store(objects)
	xc.allocs, xc.autoFree = gc.objects.unfreed(), flags&InstantiateAutoFree != 0
	if len(xc.allocs) > 0 {
		xc.atEnd = xc.freeAllocs
	}
	xc.UsedStreams = new(core.StreamSet) // the objects that the graph uses are released when its launches are done
	x := &Exec{core: xc}
	x.cleanup = core.Owned(x, &xc.Resource, xc, gc.Ctx)
	return x
}

// object returns the object for an error, or nil if there is none.
func (x *Exec) object() drivercall.Named {
	if x == nil || x.core == nil {
		return nil
	}
	return x.core
}

// enter begins a call on the executable graph, and waits until no other one is in flight. leave
// ends the call.
func (x *Exec) enter(op string) (*execCore, error) {
	if x == nil || x.core == nil {
		return nil, drivercall.NilError(op, "executable graph")
	}
	if err := x.core.Enter(x.core, op); err != nil {
		return nil, err
	}
	x.core.mu.Lock()
	return x.core, nil
}

func (x *Exec) leave() {
	x.core.mu.Unlock()
	x.core.EndCall()
	runtime.KeepAlive(x)
}

// Close waits until the launches are done, and destroys the executable graph (cuGraphExecDestroy).
// If calls on it are in flight, or calls that enqueue work on a stream on which it was launched, or
// such a stream is being captured, it is destroyed later in the background. If a call on its graph
// or on a clone of it is in flight, it is destroyed when that call ends. Further calls return
// nil. It may wait for the GPU: see docs/blocking.md.
func (x *Exec) Close() error {
	if x == nil || x.core == nil {
		return drivercall.NilError("cuGraphExecDestroy", "executable graph")
	}
	return x.core.CloseOwned("graph.Exec.Close", x.cleanup)
}

// Handle returns the CUgraphExec, for code that calls the driver without this library. It is valid
// until the Exec is closed or collected. That code must not use it concurrently with this
// library, nor with calls on its graph and on clones. For a nil or closed Exec it is 0.
func (x *Exec) Handle() uintptr {
	if x == nil || x.core == nil || x.core.Closed() {
		return 0
	}
	x.core.exposed.Store(true)
	x.core.objects.Load().Exposed()
	return uintptr(x.core.raw)
}

// Launch enqueues the graph on a stream (cuGraphLaunch). It returns when the graph is enqueued, not
// when it has run. Events that the graph records are pending from then on. A launch on a stream
// that is being captured fails, and invalidates the capture.
//
// It waits while the stream's queue is full: see docs/blocking.md. Other launches, uploads and
// updates of the Exec then wait for the call, because CUDA requires one call at a time.
func (x *Exec) Launch(s *cu.Stream) error {
	done, err := x.launchFast(s)
	if !done {
		err = x.launchOrUpload(core.WorkGraphLaunch, s)
	}
	if err != nil {
		err = subject.Stream(s).FreeOnly(core.WorkGraphLaunch.Op(), err)
	}
	return err
}

// launchFast is Launch in the usual case.
func (x *Exec) launchFast(s *cu.Stream) (done bool, err error) {
	if x == nil || x.core == nil || subject.Stream(s) == nil {
		return false, nil
	}
	sc, xc := subject.Stream(s), x.core
	// BeginTurn and not BeginFast: the driver must refuse a launch on a captured stream.
	if xc.leavesMemory() || !sc.BeginTurn(core.WorkGraphLaunch) {
		return false, nil
	}
	if !sc.Keeps(&xc.Resource) {
		sc.Kept.EndTurn(&sc.Refs, sc)
		return false, nil
	}
	xc.mu.Lock()
	res := sc.Ctx.Drv.Table().GraphLaunch(driver.At{}, xc.raw, sc.Raw)
	if res == driver.ResultSuccess {
		xc.objects.Load().Launched()
	}
	xc.mu.Unlock()
	sc.Kept.EndTurn(&sc.Refs, sc)
	runtime.KeepAlive(x)
	runtime.KeepAlive(s)
	if res == driver.ResultSuccess {
		return true, nil
	}
	return sc.AfterFast(core.WorkGraphLaunch, uintptr(xc.raw), res)
}

// Upload prepares the next launch on the stream, which then begins sooner (cuGraphUpload, CUDA
// 11.1).
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func (x *Exec) Upload(s *cu.Stream) error {
	return subject.Stream(s).CallWithRetry(core.WorkGraphUpload.Op(),
		func() error { return x.launchOrUpload(core.WorkGraphUpload, s) })
}

// launchOrUpload calls a function of the driver that enqueues a launch or an upload on a stream. No capture
// accepts these, so the work has no capture.
func (x *Exec) launchOrUpload(f core.WorkFunction, s *cu.Stream) error {
	op := f.Op()
	if x == nil || x.core == nil {
		return drivercall.NilError(op, "executable graph")
	}
	if subject.Stream(s) == nil {
		return drivercall.NilArgError(op, x.core, "stream")
	}
	if x.core.Ctx.Drv != subject.Stream(s).Ctx.Drv {
		return core.MixedError(op, x.core, subject.Stream(s))
	}
	sc, xc := subject.Stream(s), x.core
	w, err := sc.BeginEnqueueUnlocked(op)
	if err != nil {
		return err
	}
	if !w.Kept(&xc.Resource) && !w.Use(&xc.Resource, xc) {
		w.End()
		return xc.Refused(op)
	}
	var t drivercall.TracedCall
	if f == core.WorkGraphLaunch {
		t = sc.Ctx.Drv.Trace(drivercall.TraceGraphLaunch, 0, sc.Raw)
	}
	if t.To != nil { // tracers are called during a call on the stream
		sc.Retain()
		defer sc.EndCall()
	}
	if o := sc.Ctx.Drv.Observer(); o != nil && f == core.WorkGraphLaunch {
		o.Launch(sc.Observed(), uintptr(xc.raw))
	}
	res, err := xc.enqueue(f, sc)
	if o := sc.Ctx.Drv.Observer(); o != nil && f == core.WorkGraphLaunch && res != driver.ResultSuccess {
		o.LaunchFailed(uintptr(xc.raw))
	}
	w.End()
	runtime.KeepAlive(x)
	runtime.KeepAlive(s)
	t.Done(drivercall.TraceGraphLaunch, 0, sc.Raw, res)
	if err != nil {
		return err
	}
	if res != driver.ResultSuccess {
		return sc.Ctx.CallError(op, uintptr(xc.raw), res)
	}
	sc.Ctx.Drv.ReportRaces()
	return nil
}

// Update makes the executable graph do the work of another graph, which must have the same nodes in
// the same order; their parameters may differ. It is much cheaper than to instantiate the other
// graph. Launches that are already enqueued do not change (cuGraphExecUpdate_v2, CUDA 12.0; else
// cuGraphExecUpdate).
//
// If nodes allocate memory, later launches allocate that of the other graph, and [Exec.Take]
// returns it. Memory that the last launch has left must be taken before such an update.
//
// If the graphs differ in more than that, the error matches [cu.ResultGraphExecUpdateFailure] and wraps
// a [*UpdateError], which names the difference. Nothing changes then.
func (x *Exec) Update(g *Graph) error {
	const op = "cuGraphExecUpdate"
	if x != nil && x.core != nil && g != nil && g.core != nil && x.core.Ctx.Drv != g.core.Ctx.Drv {
		return core.MixedError(op, x.core, g.core)
	}
	old, err := x.update(op, g)
	if old != nil {
		old.release() // without a lock: this may destroy events, and calls tracers
	}
	return err
}

// update is Update, and returns the set that the caller has to release.
func (x *Exec) update(op string, g *Graph) (unused *graphObjects, err error) {
	xc, err := x.enter(op)
	if err != nil {
		return nil, err
	}
	defer x.leave()
	gc, err := g.enter(op)
	if err != nil {
		return nil, drivercall.About(xc, err)
	}
	defer g.leave()
	if err := gc.notBody(op); err != nil {
		return nil, err
	}
	allocs := gc.objects.unfreed()
	if err := xc.mayReplace(op, allocs); err != nil {
		return nil, err
	}
	// The new objects are added before the old ones are released, because most are in both sets.
	fresh := new(graphObjects)
	if gc == xc.graph && gc.edits == xc.edits {
		fresh.copyAll(gc.objects)
	} else {
		fresh.AddAll(&gc.objects.ObjectSet)
	}
	t, at := xc.Ctx.Drv.Table(), driver.At{Context: xc.Ctx.Raw}
	info, res := t.GraphExecUpdateV2(at, xc.raw, gc.raw)
	if t.Missing(res) != nil { // before CUDA 12.0
		info.ErrorNode, info.Result, res = t.GraphExecUpdate(at, xc.raw, gc.raw)
	}
	if res != driver.ResultSuccess {
		e := xc.Ctx.CallError(op, uintptr(xc.raw), res)
		if res == driver.ResultGraphExecUpdateFailure && e.Err == nil {
			e.Err = g.updateError(info)
		}
		if err = e; !drivercall.TookEffect(res) {
			return fresh, err
		}
	}
	if o := xc.Ctx.Drv.Observer(); o != nil {
		o.Instantiate(uintptr(xc.raw), uintptr(gc.raw))
	}
	old := xc.objects.Swap(fresh)
	xc.setAllocs(allocs)
	if xc.exposed.Load() { // Handle sets exposed before it loads objects
		fresh.Exposed()
	}
	xc.keepForLaunches(old)
	return old, err
}

// owns returns an error unless the node names one of the executable graph.
func (x *Exec) owns(n Node, op string) error {
	switch {
	case x == nil || x.core == nil:
		return drivercall.NilError(op, "executable graph")
	case n.graph != nil && n.graph.core.graphParts != x.core.graph.graphParts:
		return drivercall.BadValue(op, x.core,
			"the node belongs to another graph: pass a node of the graph that was instantiated")
	case n.removed != x.core.removed[n.raw]: // the driver could take it for an older node with its handle
		return drivercall.BadValue(op, x.core, "the node was added after the graph was instantiated, or removed before")
	}
	return nil
}

// Set replaces the work of a node for later launches, by other work of the same type; launches that are enqueued do
// not change. The node must be one of the graph that this one was instantiated from, which must still be open. The
// type of the work says what else must stay the same. For a kernel, a copy or a memset Set allocates nothing unless
// the node uses other objects than before.
//
// What only earlier launches use, such as memory and events, is released when they are done.
func (x *Exec) Set(n Node, w Work) error {
	r, err := rowOf(w, execSetNodeOp)
	if err != nil {
		return drivercall.About(x.object(), err)
	}
	if err := x.owns(n, cmp.Or(r.execSet, execSetNodeOp)); err != nil {
		return err
	}
	return n.set(x, r, w)
}

// NodeUpdate is the new work of a node, for [Exec.SetAll].
type NodeUpdate struct {
	Node Node
	Work Work
}

// SetAll replaces the work of nodes for later launches, in order: see [Exec.Set]. For kernels it takes less time
// than a call for each node, because one transition into C replaces the work of up to 64 nodes. If some updates fail,
// the error is a [*cu.BatchError], and the others are made. For kernels SetAll allocates nothing unless a node uses
// other objects than before, or an update fails (cuGraphExecKernelNodeSetParams and the like).
func (x *Exec) SetAll(updates ...NodeUpdate) error {
	if x == nil || x.core == nil {
		return drivercall.NilError(execSetNodeOp, "executable graph")
	}
	batches := &x.core.graph.frames.batches
	b, _ := batches.Get().(*kernelBatch)
	if b == nil {
		b = newKernelBatch()
	}
	errs := drivercall.BatchErrors{Op: execSetNodeOp, Items: len(updates)}
	for done := 0; done < len(updates); {
		if u := &updates[done]; u.kernel() == nil {
			errs.Add(done, x.Set(u.Node, u.Work))
			done++
			continue
		}
		done += b.replace(x, updates[done:], &errs, done)
	}
	batches.Put(b)
	runtime.KeepAlive(updates) // these have the kernels and the owners of memory
	return errs.Err()
}
