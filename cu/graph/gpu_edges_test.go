package graph_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	. "github.com/purecu/purecu/internal/testrig"
)

// overlapPTX has a kernel that lets later ones begin at once, and then adds x, and one that waits for the
// memory of the one before.
const overlapPTX = `.version 7.8
.target sm_90
.address_size 64
.visible .entry first(.param .u64 ptr, .param .f32 x)
{
	.reg .u64 %p, %begin, %now;
	.reg .f32 %x, %v;
	.reg .pred %more;
	griddepcontrol.launch_dependents;
	mov.u64 %begin, %globaltimer;
again:
	mov.u64 %now, %globaltimer;
	sub.u64 %now, %now, %begin;
	setp.lt.u64 %more, %now, 1000000;
	@%more bra again;
	ld.param.u64 %p, [ptr];
	ld.param.f32 %x, [x];
	ld.global.f32 %v, [%p];
	add.f32 %v, %v, %x;
	st.global.f32 [%p], %v;
	ret;
}
.visible .entry second(.param .u64 ptr)
{
	.reg .u64 %p;
	.reg .f32 %v;
	ld.param.u64 %p, [ptr];
	griddepcontrol.wait;
	ld.global.f32 %v, [%p];
	st.global.f32 [%p+4], %v;
	st.global.f32 [%p+8], %v;
	st.global.f32 [%p+12], %v;
	ret;
}
`

// TestGPUGraphEdges runs two kernels with an edge of each kind, by which the second sees what the first has written.
// With EdgeLaunchOrder it need not.
func TestGPUGraphEdges(t *testing.T) {
	b := newNodeBench(t)
	if Need(b.gpu.Device().Attribute(DeviceAttributeComputeCapabilityMajor))(t) < 9 {
		t.Skip("the GPU has no griddepcontrol")
	}
	m := Need(b.gpu.LoadModule([]byte(overlapPTX)))(t)
	first, second := Need(m.Function("first"))(t), Need(m.Function("second"))(t)
	for _, kind := range []graph.EdgeKind{graph.EdgeFull, graph.EdgeProgrammatic, graph.EdgeLaunchOrderProgrammatic, graph.EdgeLaunchOrder} {
		g := Need(graph.New(b.gpu))(t)
		set := Need(g.Add(&graph.Memset{Dst: b.mem, Value: 0}))(t)
		k1 := Need(g.Add(&graph.Kernel{Function: first, Config: OneThread, Args: []Arg{Ptr(b.mem), F32(3)}}, set))(t)
		k2 := Need(g.Add(&graph.Kernel{Function: second, Config: OneThread, Args: []Arg{Ptr(b.mem)}}))(t)
		b.ok(g.AddEdgeOfKind(graph.Edge{From: k1, To: k2, Kind: kind}))
		Need(g.Add(&graph.Copy{Dst: b.out, Src: b.mem}, k1, k2))(t)
		if edges := Need(g.Edges())(t); len(edges) != 4 || edges[1].Kind != kind && edges[2].Kind != kind && edges[0].Kind != kind {
			t.Errorf("%v: edges %v", kind, edges)
		}
		x := Need(g.Instantiate())(t)
		if kind == graph.EdgeLaunchOrder {
			b.ok(errors.Join(x.Launch(b.s), b.s.Synchronize()))
		} else {
			b.runs(kind.String(), x, 3)
		}
		b.ok(errors.Join(g.RemoveEdge(k1, k2), x.Close(), g.Close()))
	}
	cfg := OneThread
	cfg.Attributes = LaunchWith(LaunchProgrammatic())
	g := Need(graph.Capture(b.s, graph.CaptureRelaxed, func() error {
		return errors.Join(b.s.Memset(b.mem, 0), first.Launch(b.s, OneThread, Ptr(b.mem), F32(5)),
			second.Launch(b.s, cfg, Ptr(b.mem)), b.s.Copy(b.out, b.mem))
	}))(t)
	count := 0
	for _, e := range Need(g.Edges())(t) {
		if e.Kind == graph.EdgeProgrammatic {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d programmatic edges of a capture", count)
	}
	x := Need(g.Instantiate())(t)
	b.runs("captured", x, 5)
	b.ok(errors.Join(x.Close(), g.Close(), m.Close()))
}
