package sim

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// conditions has a graph with conditional nodes, and memory that the bodies write.
type conditions struct {
	*lab
	g     driver.Graph
	p     driver.DevicePtr
	s     driver.Stream
	sets  driver.Function
	down  driver.Function
	adds  driver.Function
	execs []driver.GraphExec
}

// condPTX has kernels that set values of conditions as nvcc's code does.
const condPTX = `.version 8.3
.target sm_70
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 a, .param .b32 b);
.visible .entry setc(.param .u64 h, .param .u32 v) {
	.reg .b64 %rd<2>; .reg .b32 %r<2>;
	ld.param.u64 %rd1, [h]; ld.param.u32 %r1, [v];
	{ .param .b64 p0; st.param.b64 [p0], %rd1; .param .b32 p1; st.param.b32 [p1], %r1;
	call.uni cudaGraphSetConditional, (p0, p1); }
	ret;
}
.visible .entry down(.param .u64 h, .param .u64 c) {
	.reg .b64 %rd<4>; .reg .b32 %r<3>;
	ld.param.u64 %rd1, [h]; ld.param.u64 %rd2, [c]; cvta.to.global.u64 %rd3, %rd2;
	ld.global.u32 %r1, [%rd3]; add.u32 %r2, %r1, 4294967295; st.global.u32 [%rd3], %r2;
	{ .param .b64 p0; st.param.b64 [p0], %rd1; .param .b32 p1; st.param.b32 [p1], %r2;
	call.uni cudaGraphSetConditional, (p0, p1); }
	ret;
}
.visible .entry inc(.param .u64 c) {
	.reg .b64 %rd<3>; .reg .b32 %r<3>;
	ld.param.u64 %rd1, [c]; cvta.to.global.u64 %rd2, %rd1;
	ld.global.u32 %r1, [%rd2]; add.u32 %r2, %r1, 1; st.global.u32 [%rd2], %r2;
	ret;
}
`

func newConditions(t *testing.T) *conditions {
	r := &conditions{lab: newLab(t)}
	var res driver.Result
	r.g, res = r.GraphCreate(r.th, 0)
	r.must(res)
	m := r.load(condPTX)
	for name, f := range map[string]*driver.Function{"setc": &r.sets, "down": &r.down, "inc": &r.adds} {
		*f, res = r.ModuleGetFunction(r.th, m, name)
		r.must(res)
	}
	t.Cleanup(func() {
		for _, x := range r.execs {
			r.GraphExecDestroy(r.th, x)
		}
		if r.g != 0 {
			r.GraphDestroy(r.th, r.g)
		}
	})
	r.p, r.s = r.alloc("\x00\x00\x00\x00\x00\x00\x00\x00"), r.newStream()
	return r
}

// handle returns a handle for a value.
func (r *conditions) handle(first, flags uint32) driver.GraphConditionalHandle {
	r.t.Helper()
	h, res := r.GraphConditionalHandleCreate(r.th, r.g, r.ctx, first, flags)
	r.must(res)
	return h
}

// add adds a conditional node to a graph.
func (r *conditions) add(g driver.Graph, h driver.GraphConditionalHandle, kind int32, size uint32,
	after ...driver.GraphNode) (driver.GraphNode, []driver.Graph, driver.Result) {
	p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_CONDITIONAL}
	*p.Conditional() = driver.ConditionalNodeParams{Handle: h, Type: kind, Size: size, Ctx: r.ctx}
	n, p, res := r.GraphAddNode(r.th, g, after, nil, p)
	if res != ok {
		return 0, nil, res
	}
	return n, p.Conditional().Graphs(), res
}

func (r *conditions) mustAdd(g driver.Graph, h driver.GraphConditionalHandle, kind int32, size uint32,
	after ...driver.GraphNode) []driver.Graph {
	r.t.Helper()
	_, bodies, res := r.add(g, h, kind, size, after...)
	r.must(res)
	return bodies
}

// graph.KernelNode adds a node that runs a kernel with two arguments at most.
func (r *conditions) kernelNode(g driver.Graph, f driver.Function, args [][]byte, after ...driver.GraphNode) driver.GraphNode {
	r.t.Helper()
	list := array(addresses(len(args), func(i int) []byte { return args[i] }))
	n, res := r.GraphAddKernelNode(r.th, g, after, &driver.KernelNodeParams{Func: f, GridDimX: 1, GridDimY: 1, GridDimZ: 1,
		BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1, KernelParams: list})
	r.must(res)
	return n
}

// write adds a node that writes a byte.
func (r *conditions) write(g driver.Graph, off int, v uint32) driver.GraphNode {
	r.t.Helper()
	n, res := r.GraphAddMemsetNode(r.th, g, nil, &driver.MemsetNodeParams{Dst: r.p + driver.DevicePtr(off), ElementSize: 1,
		Value: v, Width: 1, Height: 1}, r.ctx)
	r.must(res)
	return n
}

// runs launches an executable graph, and compares the first bytes of the memory.
func (r *conditions) runs(what string, x driver.GraphExec, want string) {
	r.t.Helper()
	r.must(r.GraphLaunch(r.th, x, r.s))
	r.must(r.StreamSynchronize(r.th, r.s))
	if got := r.read(r.p, len(want)); got != want {
		r.t.Errorf("%s: the memory is %q, want %q", what, got, want)
	}
}

func (r *conditions) exec() driver.GraphExec {
	r.t.Helper()
	x, res := r.GraphInstantiateWithFlags(r.th, r.g, 0)
	r.must(res)
	r.execs = append(r.execs, x)
	return x
}

func u64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// TestConditionalNodes adds conditional nodes, and compares the answers with those of an H200.
func TestConditionalNodes(t *testing.T) {
	r := newConditions(t)
	const isIf, isWhile, isSwitch = driver.CU_GRAPH_COND_TYPE_IF, driver.CU_GRAPH_COND_TYPE_WHILE, driver.CU_GRAPH_COND_TYPE_SWITCH
	_, res := r.GraphConditionalHandleCreate(r.th, r.g, r.ctx, 5, 2)
	r.want("handle with unknown flags", invalidValue, res)
	_, res = r.GraphConditionalHandleCreate(r.th, r.g, 0, 5, 1)
	r.want("handle without a context", driver.ResultInvalidContext, res)
	h := r.handle(0, 1)
	_, info, res := r.GraphInstantiateWithParams(r.th, r.g, driver.GraphInstantiateParams{})
	r.want("an unused handle", invalidValue, res)
	if info.ResultOut != driver.CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED {
		t.Errorf("the reason is %d", info.ResultOut)
	}
	for _, tt := range []struct {
		what string
		kind int32
		size uint32
		h    driver.GraphConditionalHandle
	}{{"if 0", isIf, 0, h}, {"if 3", isIf, 3, h}, {"while 2", isWhile, 2, h}, {"switch 0", isSwitch, 0, h}, {"type 3", 3, 1, h},
		{"type -1", -1, 1, h}, {"handle 0", isIf, 1, 0}, {"another handle", isIf, 1, 0xffff}} {
		_, _, res := r.add(r.g, tt.h, tt.kind, tt.size)
		r.want(tt.what, invalidValue, res)
	}
	n, bodies, res := r.add(r.g, h, isIf, 1)
	r.must(res)
	_, _, res = r.add(r.g, h, isIf, 1)
	r.want("a second node with the handle", invalidValue, res)
	_, res = r.GraphClone(r.th, r.g)
	r.want("clone", driver.ResultNotSupported, res)
	_, res = r.GraphInstantiateWithFlags(r.th, bodies[0], 0)
	r.want("instantiate the body", driver.ResultNotSupported, res)
	r.want("destroy the body", invalidValue, r.GraphDestroy(r.th, bodies[0]))
	r.want("set parameters", driver.ResultNotSupported, r.GraphNodeSetParams(r.th, n,
		driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_CONDITIONAL}))
	x := r.exec()
	_, res = r.GraphInstantiateWithFlags(r.th, r.g, 0)
	r.want("instantiate twice", driver.ResultNotSupported, res)
	r.want("disable", invalidValue, r.GraphNodeSetEnabled(r.th, x, n, 0))
	_, _, res = r.GraphExecUpdate(r.th, x, r.g)
	r.want("update with the same graph", ok, res)
	r.write(bodies[0], 0, 1)
	_, why, res := r.GraphExecUpdate(r.th, x, r.g)
	r.want("update with another body", driver.ResultGraphExecUpdateFailure, res)
	if why != driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED {
		t.Errorf("the reason is %d", why)
	}
	r.must(r.GraphExecDestroy(r.th, x))
	r.execs = nil
	_, res = r.GraphAddEmptyNode(r.th, bodies[0], nil)
	r.must(res)
	_, res = r.GraphAddHostNode(r.th, bodies[0], nil, driver.Callback{Go: func() {}})
	r.must(res)
	_, info, res = r.GraphInstantiateWithParams(r.th, r.g, driver.GraphInstantiateParams{})
	r.want("a host node in a body", invalidValue, res)
	if info.ResultOut != driver.CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED || info.HErrNodeOut == 0 {
		t.Errorf("the reason is %d, the node %#x", info.ResultOut, info.HErrNodeOut)
	}
	r.must(r.GraphDestroyNode(r.th, n))
	_, res = r.GraphInstantiateWithFlags(r.th, r.g, 0)
	r.want("the handle of a removed node", invalidValue, res)
	_, res = r.GraphGetNodes(r.th, bodies[0], nil)
	r.want("the body of a removed node", invalidValue, res)
	r.must(r.GraphDestroy(r.th, r.g))
	r.g = 0
	r.takeMisuses()
}

// TestConditionalRuns launches graphs with conditional nodes, and compares the results with those of an H200.
func TestConditionalRuns(t *testing.T) {
	for first := range uint32(4) {
		for flags := range uint32(2) {
			r := newConditions(t)
			bodies := r.mustAdd(r.g, r.handle(first, flags), driver.CU_GRAPH_COND_TYPE_IF, 2)
			r.write(bodies[0], 0, 'i')
			r.write(bodies[1], 0, 'e')
			bodies = r.mustAdd(r.g, r.handle(first, flags), driver.CU_GRAPH_COND_TYPE_SWITCH, 3)
			for i := range 3 {
				r.write(bodies[i], 1+i, uint32('0'+i))
			}
			want := "e0\x00\x00"
			if flags == 1 && first > 0 {
				want = []string{"", "i\x001\x00", "i\x00\x002", "i\x00\x00\x00"}[first]
			}
			r.runs("if and switch", r.exec(), want)
		}
	}
	one := []byte{1, 0, 0, 0}
	for flags := range uint32(2) {
		r := newConditions(t)
		h := r.handle(0, flags)
		n, bodies, res := r.add(r.g, h, driver.CU_GRAPH_COND_TYPE_IF, 1)
		r.must(res)
		r.kernelNode(bodies[0], r.adds, [][]byte{u64(uint64(r.p))})
		r.kernelNode(r.g, r.sets, [][]byte{u64(uint64(h)), one}, n)
		x := r.exec()
		r.runs("the first launch", x, "\x00")
		want := "\x01" // the value stays
		if flags == 1 {
			want = "\x00"
		}
		r.runs("the second launch", x, want)
	}
	r := newConditions(t)
	h := r.handle(1, 1)
	body := r.mustAdd(r.g, h, driver.CU_GRAPH_COND_TYPE_WHILE, 1)[0]
	inner := r.handle(1, 1)
	then := r.mustAdd(body, inner, driver.CU_GRAPH_COND_TYPE_IF, 1)[0]
	k := r.kernelNode(body, r.adds, [][]byte{u64(uint64(r.p))})
	r.kernelNode(body, r.down, [][]byte{u64(uint64(h)), u64(uint64(r.p + 4))}, k)
	y := r.write(then, 3, 'n')
	r.must(r.MemsetD8(r.th, r.p+4, 5, 1))
	x := r.exec()
	r.runs("while", x, "\x05\x00\x00n\x00")
	r.must(r.MemsetD8(r.th, r.p+4, 2, 1))
	set := driver.MemsetNodeParams{Dst: r.p + 2, ElementSize: 1, Value: 'm', Width: 1, Height: 1}
	r.must(r.GraphExecMemsetNodeSetParams(r.th, x, y, &set, r.ctx))
	r.must(r.GraphNodeSetEnabled(r.th, x, k, 0))
	r.runs("while with changed nodes", x, "\x05\x00mn\x00")
	_, _, res := r.GraphExecUpdate(r.th, x, r.g)
	r.must(res)
	r.must(r.GraphNodeSetEnabled(r.th, x, k, 1))
	r.must(r.MemsetD8(r.th, r.p+4, 1, 1))
	r.runs("while after an update", x, "\x06\x00mn\x00")
}

// TestConditionalOutside sets a value by kernels that are in no graph, or in another one.
func TestConditionalOutside(t *testing.T) {
	for _, graph := range []bool{false, true} {
		r := newConditions(t)
		h := r.handle(0, 0)
		r.mustAdd(r.g, h, driver.CU_GRAPH_COND_TYPE_IF, 1)
		if graph {
			other, res := r.GraphCreate(r.th, 0)
			r.must(res)
			defer r.GraphDestroy(r.th, other)
			r.kernelNode(other, r.sets, [][]byte{u64(uint64(h)), {1, 0, 0, 0}})
			x, res := r.GraphInstantiateWithFlags(r.th, other, 0)
			r.must(res)
			defer r.GraphExecDestroy(r.th, x)
			r.must(r.GraphLaunch(r.th, x, r.s))
		} else {
			r.must(r.launchOn(r.s, r.sets, 1, params(uint64(h), uint32(1))))
		}
		r.want("outside", driver.ResultIllegalAddress, r.StreamSynchronize(r.th, r.s))
		r.takeMisuses()
	}
}

// TestConditionalInstances has what an H200 looks at first, and when a graph with a conditional node can be
// instantiated: no executable graph of it may exist, not even one that was made before the node was added.
func TestConditionalInstances(t *testing.T) {
	r := newConditions(t)
	instantiate := func(what string, want driver.Result) {
		t.Helper()
		x, res := r.GraphInstantiateWithFlags(r.th, r.g, 0)
		if r.want(what, want, res); res == ok {
			r.execs = append(r.execs, x)
		}
	}
	_, res := r.GraphConditionalHandleCreate(r.th, r.g, 0, 0, 2)
	r.want("no context and wrong flags", invalidValue, res)
	_, res = r.GraphConditionalHandleCreate(r.th, r.g, 0, 0, 1)
	r.want("no context", driver.ResultInvalidContext, res)
	instantiate("a graph without nodes", ok)
	r.mustAdd(r.g, r.handle(0, 1), driver.CU_GRAPH_COND_TYPE_IF, 1)
	instantiate("beside an earlier executable graph", notSupported)
	r.must(r.GraphExecDestroy(r.th, r.execs[0]))
	r.execs = nil
	instantiate("without another executable graph", ok)
	instantiate("a second time", notSupported)
	other, res := r.GraphCreate(r.th, 0)
	r.must(res)
	x := r.instance(other, 0)
	info, res := r.GraphExecUpdateV2(r.th, x, r.g)
	r.want("update of another graph", driver.ResultGraphExecUpdateFailure, res)
	if info != (driver.GraphExecUpdateResultInfo{Result: driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED}) {
		t.Errorf("the reason is %+v", info)
	}
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, other))
	_, res = r.GraphExecUpdateV2(r.th, r.execs[0], r.g)
	r.want("update with the graph itself", ok, res)
	h := r.handle(0, 1)
	instantiate("a second time, with a handle that no node uses", invalidValue)
	r.mustAdd(r.g, h, driver.CU_GRAPH_COND_TYPE_IF, 1)
	instantiate("a second time", notSupported)
}

// TestConditionalCopies has which copies of a graph with a conditional node prevent its instantiation, as on an
// H200: clones and child graphs that were made before the node was added.
func TestConditionalCopies(t *testing.T) {
	r := newConditions(t)
	clone, res := r.GraphClone(r.th, r.g)
	r.must(res)
	parent, res := r.GraphCreate(r.th, 0)
	r.must(res)
	child, res := r.GraphAddChildGraphNode(r.th, parent, nil, r.g)
	r.must(res)
	r.mustAdd(r.g, r.handle(0, 1), driver.CU_GRAPH_COND_TYPE_IF, 1)
	_, res = r.GraphInstantiateWithFlags(r.th, r.g, 0)
	r.want("beside a clone and a child graph", notSupported, res)
	r.must(r.GraphDestroy(r.th, clone))
	_, res = r.GraphInstantiateWithFlags(r.th, r.g, 0)
	r.want("beside a child graph", notSupported, res)
	r.must(r.GraphDestroyNode(r.th, child))
	r.execs = append(r.execs, r.instance(r.g, 0))
	r.must(r.GraphDestroy(r.th, parent))
}

// TestCopiesOfReplacedChild gives a node another child graph: only that one has a copy then.
func TestCopiesOfReplacedChild(t *testing.T) {
	r := newConditions(t)
	other, res := r.GraphCreate(r.th, 0)
	r.must(res)
	parent, res := r.GraphCreate(r.th, 0)
	r.must(res)
	n, res := r.GraphAddChildGraphNode(r.th, parent, nil, r.g)
	r.must(res)
	set := func(g driver.Graph) {
		p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_GRAPH}
		p.Graph().Graph = g
		r.must(r.GraphNodeSetParams(r.th, n, p))
	}
	empty := r.g
	set(other)
	r.mustAdd(r.g, r.handle(0, 1), driver.CU_GRAPH_COND_TYPE_IF, 1)
	r.execs = append(r.execs, r.instance(r.g, 0))
	r.g = other
	r.mustAdd(other, r.handle(0, 1), driver.CU_GRAPH_COND_TYPE_IF, 1)
	_, res = r.GraphInstantiateWithFlags(r.th, other, 0)
	r.want("beside a node with a copy", notSupported, res)
	r.must(r.GraphDestroy(r.th, parent))
	r.execs = append(r.execs, r.instance(other, 0))
	r.must(r.GraphDestroy(r.th, empty))
}

// TestConditionalUpdates has which conditional nodes an update takes for the same, as on an H200: those before
// whose handles as many were created, and with bodies that an update takes for the same.
func TestConditionalUpdates(t *testing.T) {
	r := newConditions(t)
	update := func(what string, one, two int32) {
		t.Helper()
		_, why, _ := r.GraphExecUpdate(r.th, r.execs[0], r.g)
		info, _ := r.GraphExecUpdateV2(r.th, r.execs[0], r.g)
		if why != one || info.Result != two {
			t.Errorf("%s: the reasons are %d and %d, not %d and %d", what, why, info.Result, one, two)
		}
	}
	const unsupported = driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED
	h := r.handle(0, 1)
	n, bodies, res := r.add(r.g, h, driver.CU_GRAPH_COND_TYPE_IF, 1)
	r.must(res)
	r.execs = append(r.execs, r.instance(r.g, 0))
	update("the same", 0, 0)
	_, res = r.GraphAddEmptyNode(r.th, bodies[0], nil)
	r.must(res)
	update("a node in a body", unsupported, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED)
	r.must(r.GraphDestroyNode(r.th, n))
	other := r.handle(0, 1)
	n, _, res = r.add(r.g, h, driver.CU_GRAPH_COND_TYPE_IF, 1)
	r.must(res)
	update("the same handle", unsupported, 0)
	r.must(r.GraphDestroyNode(r.th, n))
	r.mustAdd(r.g, other, driver.CU_GRAPH_COND_TYPE_IF, 1)
	update("another handle", unsupported, unsupported)
}

// TestConditionalUpdateOfChild changes the child graph of a node in a body, and updates an executable graph.
func TestConditionalUpdateOfChild(t *testing.T) {
	r := newConditions(t)
	body := r.mustAdd(r.g, r.handle(1, 1), driver.CU_GRAPH_COND_TYPE_IF, 1)[0]
	inner, res := r.GraphCreate(r.th, 0)
	r.must(res)
	r.write(inner, 0, 'a')
	n, res := r.GraphAddChildGraphNode(r.th, body, nil, inner)
	r.must(res)
	r.must(r.GraphDestroy(r.th, inner))
	child, res := r.GraphChildGraphNodeGetGraph(r.th, n)
	r.must(res)
	nodes := make([]driver.GraphNode, 1)
	_, res = r.GraphGetNodes(r.th, child, nodes)
	r.must(res)
	x := r.exec()
	r.runs("as it was", x, "a")
	change := func(to byte) {
		r.must(r.GraphMemsetNodeSetParams(r.th, nodes[0], &driver.MemsetNodeParams{Dst: r.p, ElementSize: 1,
			Value: uint32(to), Width: 1, Height: 1}))
	}
	change('b')
	r.runs("before the update", x, "a")
	_, res = r.GraphExecUpdateV2(r.th, x, r.g)
	r.must(res)
	r.runs("after cuGraphExecUpdate_v2", x, "b")
	change('c')
	_, _, res = r.GraphExecUpdate(r.th, x, r.g)
	r.must(res)
	r.runs("after cuGraphExecUpdate", x, "c")

	r.must(r.GraphExecDestroy(r.th, r.execs[0]))
	r.execs = nil
	e, res := r.EventCreate(r.th, 0)
	r.must(res)
	_, res = r.GraphAddEventRecordNode(r.th, child, nil, e)
	r.must(res)
	_, res = r.GraphInstantiateWithFlags(r.th, r.g, 0)
	r.want("a record in the child graph of a body", driver.ResultInvalidValue, res)
	r.must(r.EventDestroy(r.th, e))
}

// TestEffectsWithoutCalls launches graphs that write memory of the host after a kernel, in a batch of
// operations and in the body of a conditional node. The program sees it without another call of the driver.
func TestEffectsWithoutCalls(t *testing.T) {
	for name, conditional := range map[string]bool{"batch": false, "body": true} {
		if conditional && raceEnabled {
			continue // the write is no atomic one, as it is none on a GPU
		}
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			data, at := r.pinned("\x00\x00\x00\x00")
			g, res := r.GraphCreate(r.th, 0)
			r.must(res)
			k, res := r.GraphAddKernelNode(r.th, g, nil, &driver.KernelNodeParams{Func: r.kernel("k", ""),
				GridDimX: 1, GridDimY: 1, GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1})
			r.must(res)
			after := []driver.GraphNode{k}
			if conditional {
				h, res := r.GraphConditionalHandleCreate(r.th, g, r.ctx, 1, driver.CU_GRAPH_COND_ASSIGN_DEFAULT)
				r.must(res)
				var p driver.GraphNodeParams
				p.Type = int32(graph.ConditionalNode)
				*p.Conditional() = driver.ConditionalNodeParams{Handle: h, Type: driver.CU_GRAPH_COND_TYPE_IF,
					Size: 1, Ctx: r.ctx}
				_, p, res = r.GraphAddNode(r.th, g, after, nil, p)
				r.must(res)
				_, res = r.GraphAddMemsetNode(r.th, *p.Conditional().PhGraphOut, nil, &driver.MemsetNodeParams{
					Dst: driver.DevicePtr(at), Value: 7, ElementSize: 4, Width: 1, Height: 1}, r.ctx)
				r.must(res)
			} else {
				op := memOp(driver.CU_STREAM_MEM_OP_WRITE_VALUE_32, driver.DevicePtr(at), 7, 0)
				_, res = r.GraphAddBatchMemOpNode(r.th, g, after,
					driver.BatchMemOpNodeParams{Ctx: r.ctx, Count: 1, ParamArray: &op})
				r.must(res)
			}
			x := r.instance(g, 0)
			r.must(r.GraphLaunch(r.th, x, 0))
			for end := time.Now().Add(10 * time.Second); load32(data) != 7; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the memory is not written")
				}
			}
			r.must(r.CtxSynchronize(r.th))
			r.must(r.GraphExecDestroy(r.th, x))
			r.must(r.GraphDestroy(r.th, g))
		})
	}
}

// TestChildGraphs uses child graphs as graphs: as an H200, the driver clones them unless the whole graph has handles of
// values, and makes neither executable graphs nor child graphs of new nodes of them.
func TestChildGraphs(t *testing.T) {
	r := newConditions(t)
	graph := func() driver.Graph {
		g, res := r.GraphCreate(r.th, 0)
		r.must(res)
		t.Cleanup(func() { r.GraphDestroy(r.th, g) })
		return g
	}
	handle := func(g driver.Graph) driver.GraphConditionalHandle {
		h, res := r.GraphConditionalHandleCreate(r.th, g, r.ctx, 1, 0)
		r.must(res)
		return h
	}
	body := func(whole, g driver.Graph) (driver.GraphNode, driver.Graph) {
		n, bodies, res := r.add(g, handle(whole), driver.CU_GRAPH_COND_TYPE_IF, 1)
		r.must(res)
		return n, bodies[0]
	}
	child := func(g, c driver.Graph) driver.Graph {
		n, res := r.GraphAddChildGraphNode(r.th, g, nil, c)
		r.must(res)
		own, res := r.GraphChildGraphNodeGetGraph(r.th, n)
		r.must(res)
		return own
	}
	ofChild := func(own driver.Graph) driver.Graph {
		nodes := make([]driver.GraphNode, 1)
		_, res := r.GraphGetNodes(r.th, own, nodes)
		r.must(res)
		own, res = r.GraphChildGraphNodeGetGraph(r.th, nodes[0])
		r.must(res)
		return own
	}
	for _, tt := range []struct {
		what  string
		clone driver.Result
		make  func(whole, inner driver.Graph) driver.Graph
	}{
		{"a child graph", ok, child},
		{"of a child graph", ok, func(whole, inner driver.Graph) driver.Graph {
			outer := graph()
			child(outer, inner)
			return ofChild(child(whole, outer))
		}},
		{"with a handle", notSupported, func(whole, inner driver.Graph) driver.Graph {
			own := child(whole, inner)
			handle(whole)
			return own
		}},
		{"with a handle of the child graph", notSupported, func(whole, inner driver.Graph) driver.Graph {
			own := child(whole, inner)
			handle(own)
			_, res := r.GraphClone(r.th, whole)
			r.want("clone of the whole", notSupported, res)
			_, res = r.GraphInstantiateWithFlags(r.th, whole, 0)
			r.want("executable graph of the whole", invalidValue, res)
			return own
		}},
		{"beside a body", notSupported, func(whole, inner driver.Graph) driver.Graph {
			body(whole, whole)
			return child(whole, inner)
		}},
		{"beside a body that is gone", notSupported, func(whole, inner driver.Graph) driver.Graph {
			n, _ := body(whole, whole)
			r.must(r.GraphDestroyNode(r.th, n))
			return child(whole, inner)
		}},
		{"in a body of a body", notSupported, func(whole, inner driver.Graph) driver.Graph {
			_, b := body(whole, whole)
			_, b = body(whole, b)
			return child(b, inner)
		}},
		{"of a child graph beside a body", notSupported, func(whole, inner driver.Graph) driver.Graph {
			outer := graph()
			child(outer, inner)
			own := child(whole, outer)
			body(whole, whole)
			return ofChild(own)
		}},
	} {
		inner := graph()
		own := tt.make(graph(), inner)
		clone, res := r.GraphClone(r.th, own)
		r.want(tt.what+": clone", tt.clone, res)
		if res == ok {
			r.must(r.GraphDestroy(r.th, clone))
		}
		_, res = r.GraphInstantiateWithFlags(r.th, own, 0)
		r.want(tt.what+": executable graph", notSupported, res)
		_, res = r.GraphAddChildGraphNode(r.th, graph(), nil, own)
		r.want(tt.what+": child graph", notSupported, res)
		p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_GRAPH}
		p.Graph().Graph = own
		_, _, res = r.GraphAddNode(r.th, graph(), nil, nil, p)
		r.want(tt.what+": child graph of any node", notSupported, res)
		_, _, res = r.GraphAddMemAllocNode(r.th, own, nil, allocParams(64))
		r.want(tt.what+": memory", notSupported, res)
		clone, res = r.GraphClone(r.th, inner)
		r.want("the program's own graph", ok, res)
		r.must(r.GraphDestroy(r.th, clone))
	}
}
