package graph

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/valuename"
)

type graphCore struct {
	core.Resource
	raw driver.Graph
	// family is locked for each call on the graph, except while Capture runs the program's function.
	family  *graphFamily
	objects *graphObjects
	*graphParts
	// whole is the graph that this one, a body of a conditional node, is part of, or nil. A body has the
	// family, the objects and the lifetime of that graph.
	whole *graphCore
	// destroyed is set if the driver has destroyed the graph, because it ended a capture into the
	// graph with an error, or because the graph was a body of a node that was removed.
	destroyed atomic.Bool
}

// graphParts is what a graph and the bodies of its conditional nodes have in common. The lock of the
// family guards it.
type graphParts struct {
	// building is set while Capture runs the program's function. The lock is not held while the
	// function runs.
	building bool
	// removed counts how often a node with this handle was removed: see Node.
	removed map[driver.GraphNode]uint32
	// edits counts removed nodes and changed edges.
	edits int
	// bodies are those of each conditional node.
	bodies map[driver.GraphNode][]*graphCore
	// frames are those of the Driver.
	frames *graphFrames
}

// graphFrames are the memory that calls on a Driver's graphs need while they run.
type graphFrames struct {
	calls   sync.Pool // of *nodeCall
	batches sync.Pool // of *kernelBatch
}

// Kind names the kind of the object in errors and reports.
func (gc *graphCore) Kind() string { return "graph" }

// Handle returns the driver's handle.
func (gc *graphCore) Handle() uintptr { return uintptr(gc.raw) }

// Destroy destroys the object in the driver, unless other code owns it: see core.Object.
func (gc *graphCore) Destroy(at driver.At) (string, driver.Result) {
	return gc.family.destroy(at, gc)
}

// destroyRaw does nothing if the driver has destroyed the graph.
func (gc *graphCore) destroyRaw(at driver.At) (string, driver.Result) {
	const op = "cuGraphDestroy"
	if o := gc.Ctx.Drv.Observer(); o != nil {
		o.GraphDestroyed(uintptr(gc.raw))
	}
	if gc.destroyed.Load() {
		return op, driver.ResultSuccess
	}
	return op, gc.Ctx.Drv.Table().GraphDestroy(at, gc.raw)
}

func (gc *graphCore) releaseObjects() { gc.objects.release() }

// Refused returns the error of a call that began after the graph was closed, or the driver had
// destroyed it.
func (gc *graphCore) Refused(op string) error {
	if !gc.destroyed.Load() {
		if gc.whole != nil {
			gc = gc.whole
		}
		return gc.Resource.Refused(op)
	}
	detail := "the driver destroyed the graph when a capture into it failed: build a new one"
	if gc.whole != nil {
		detail = "the conditional node was removed, or a capture into a body of the graph has failed"
	}
	return drivercall.Misuse(op, gc, cu.ErrClosed, detail)
}

// callError returns the error for the driver's result.
func (gc *graphCore) callError(op string, res driver.Result) error {
	return gc.Ctx.CallError(op, uintptr(gc.raw), res)
}

// nodes is Nodes within a call.
func (gc *graphCore) nodes() ([]driver.GraphNode, error) {
	const op = "cuGraphGetNodes"
	t := gc.Ctx.Drv.Table()
	n, res := t.GraphGetNodes(driver.At{}, gc.raw, nil)
	if res != driver.ResultSuccess || n == 0 {
		return nil, gc.check(op, res)
	}
	nodes := make([]driver.GraphNode, n)
	if n, res = t.GraphGetNodes(driver.At{}, gc.raw, nodes); res != driver.ResultSuccess {
		return nil, gc.callError(op, res)
	}
	return nodes[:min(n, uint64(len(nodes)))], nil
}

// check returns the error for the driver's result, or nil if the call succeeded.
func (gc *graphCore) check(op string, res driver.Result) error {
	if res == driver.ResultSuccess {
		return nil
	}
	return gc.callError(op, res)
}

// NodeType is the kind of work that a node does.
type NodeType int32

// String returns the type's name in lower case.
func (t NodeType) String() string { return valuename.Of(namesNodeType[:], int32(t)) }

func (gc *graphCore) typeOf(n driver.GraphNode) (NodeType, error) {
	typ, res := gc.Ctx.Drv.Table().GraphNodeGetType(driver.At{}, n)
	if res != driver.ResultSuccess {
		return 0, gc.callError("cuGraphNodeGetType", res)
	}
	return NodeType(typ), nil
}

// eventOf returns the event of a node that records one or waits for one.
func (gc *graphCore) eventOf(n driver.GraphNode, typ NodeType) (e driver.Event, ok bool, err error) {
	t, op := gc.Ctx.Drv.Table(), ""
	var res driver.Result
	switch typ {
	case NodeTypeEventRecord:
		op = "cuGraphEventRecordNodeGetEvent"
		e, res = t.GraphEventRecordNodeGetEvent(driver.At{}, n)
	case NodeTypeWaitEvent:
		op = "cuGraphEventWaitNodeGetEvent"
		e, res = t.GraphEventWaitNodeGetEvent(driver.At{}, n)
	default:
		return 0, false, nil
	}
	return e, true, gc.check(op, res)
}

const beginToGraphOp = "cuStreamBeginCaptureToGraph"

// captureTo captures the work that f enqueues on a stream into the graph.
func (gc *graphCore) captureTo(sc *core.Stream, mode CaptureMode, deps []driver.GraphNode, f func() error) error {
	call := core.CaptureCall{
		Op: beginToGraphOp, Lock: gc.family, Objects: &gc.objects.ObjectSet, Into: gc.raw, After: deps,
		Lost:    gc.lost,
		Discard: func(driver.Graph) {},
	}
	call.Begin = func(at driver.At) driver.Result {
		return sc.Ctx.Drv.Table().StreamBeginCaptureToGraph(at, sc.Raw, gc.raw, deps, nil, mode.driverMode())
	}
	_, err := sc.Capture(call, f)
	return err
}

// capture calls captureTo, which calls the method of that name, and returns the last nodes.
func (gc *graphCore) capture(deps []driver.GraphNode, captureTo func() error) ([]driver.GraphNode, error) {
	before, err := gc.nodes()
	if err != nil {
		return nil, err
	}
	if err := captureTo(); err != nil {
		return nil, err
	}
	after, err := gc.nodes()
	if err != nil {
		return nil, err
	}
	edges, err := gc.edges()
	if err != nil {
		return nil, err
	}
	// All added nodes come before the end of the stream, or the capture would have failed. So the
	// last nodes are those that no node comes after.
	fresh := make(map[driver.GraphNode]bool)
	for _, n := range after {
		fresh[n] = true
	}
	for _, n := range before {
		delete(fresh, n)
	}
	inner := make(map[driver.GraphNode]bool)
	for _, e := range edges {
		inner[e.from] = true
	}
	var last []driver.GraphNode
	for _, n := range after {
		if fresh[n] && !inner[n] {
			last = append(last, n)
		}
	}
	if last == nil {
		return deps, nil
	}
	if o := gc.Ctx.Drv.Observer(); o != nil {
		o.LastNodes(uintptr(gc.raw), core.GraphNodes(last))
	}
	return last, nil
}

// destroyGraph destroys a graph that was never returned to the program.
func destroyGraph(c *core.Context, g driver.Graph) {
	if g == 0 {
		return
	}
	if o := c.Drv.Observer(); o != nil {
		o.GraphDestroyed(uintptr(g))
	}
	if res := c.Drv.Table().GraphDestroy(driver.At{Relaxed: true}, g); res != driver.ResultSuccess {
		c.Drv.Leak(drivercall.LeakReport{Kind: "graph", Handle: uintptr(g),
			Err: c.BackgroundError("cuGraphDestroy", uintptr(g), res)})
	}
}

// refusal returns why the driver did not instantiate the graph, or "" if it does not say.
func (gc *graphCore) refusal(p driver.GraphInstantiateParams) string {
	reason := map[int32]string{
		driver.CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE:            "the graph has a cycle, or another invalid structure",
		driver.CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED: "a graph that kernels launch cannot have this node",
		driver.CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED:  "a graph that kernels launch has nodes of several contexts",
		driver.CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED:    "a conditional handle belongs to no conditional node",
	}[p.ResultOut]
	if p.HErrNodeOut == 0 {
		return reason
	}
	name := gc.describe(p.HErrNodeOut, "the graph")
	if name == "" {
		name = fmt.Sprintf("node %#x, of a graph within the graph", p.HErrNodeOut)
	}
	if reason == "" {
		return "the driver refuses " + name
	}
	return reason + ": " + name
}

// describe names a node of the graph in an error: by its place in Nodes and its type. It returns "" if
// the driver does not answer.
func (gc *graphCore) describe(n driver.GraphNode, graph string) string {
	nodes, err := gc.nodes()
	if err != nil {
		return ""
	}
	i := slices.Index(nodes, n)
	if i < 0 {
		return ""
	}
	typ, err := gc.typeOf(n)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("node %d of %s, of type %v", i, graph, typ)
}
