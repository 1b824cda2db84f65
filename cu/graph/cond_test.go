package graph_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	. "github.com/purecu/purecu/internal/testrig"
)

// condPTX has kernels that set conditions as nvcc's code does: setc sets one, down counts a number in memory down
// and sets the condition to it, and inc adds 1 to a number.
const condPTX = `.version 8.3
.target sm_70
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 a, .param .b32 b);
.visible .entry setc(.param .u64 h, .param .u32 v)
{
	.reg .b64 %rd<2>;
	.reg .b32 %r<2>;
	ld.param.u64 %rd1, [h];
	ld.param.u32 %r1, [v];
	{
		.param .b64 p0;
		st.param.b64 [p0], %rd1;
		.param .b32 p1;
		st.param.b32 [p1], %r1;
		call.uni cudaGraphSetConditional, (p0, p1);
	}
	ret;
}
.visible .entry down(.param .u64 h, .param .u64 c)
{
	.reg .b64 %rd<4>;
	.reg .b32 %r<3>;
	ld.param.u64 %rd1, [h];
	ld.param.u64 %rd2, [c];
	cvta.to.global.u64 %rd3, %rd2;
	ld.global.u32 %r1, [%rd3];
	add.u32 %r2, %r1, 4294967295;
	st.global.u32 [%rd3], %r2;
	{
		.param .b64 p0;
		st.param.b64 [p0], %rd1;
		.param .b32 p1;
		st.param.b32 [p1], %r2;
		call.uni cudaGraphSetConditional, (p0, p1);
	}
	ret;
}
.visible .entry inc(.param .u64 c)
{
	.reg .b64 %rd<3>;
	.reg .b32 %r<3>;
	ld.param.u64 %rd1, [c];
	cvta.to.global.u64 %rd2, %rd1;
	ld.global.u32 %r1, [%rd2];
	add.u32 %r2, %r1, 1;
	st.global.u32 [%rd2], %r2;
	ret;
}
`

// condBench has memory of four numbers, which graphs with conditions change.
type condBench struct {
	t               *testing.T
	gpu             *Context
	s               *Stream
	mem             *DeviceMem
	out             *HostMem
	mod             *Module
	setc, down, inc *Function
}

func newCondBench(t *testing.T, gpu *Context) *condBench {
	b := &condBench{t: t, gpu: gpu}
	b.s = Need(gpu.NewStream(StreamNonBlocking))(t)
	b.mem, b.out = Need(gpu.Alloc(16))(t), Need(gpu.AllocHost(16, 0))(t)
	b.mod = Need(gpu.LoadModule([]byte(condPTX)))(t)
	for name, f := range map[string]**Function{"setc": &b.setc, "down": &b.down, "inc": &b.inc} {
		*f = Need(b.mod.Function(name))(t)
	}
	t.Cleanup(func() {
		b.ok(errors.Join(b.s.Synchronize(), b.mod.Close(), b.out.Close(), b.mem.Close(), b.s.Close()))
	})
	return b
}

func (b *condBench) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Error(err)
	}
}

// number is one of the four numbers.
func (b *condBench) number(i uint64) Memory { return b.mem.Span(4*i, 4) }

// sets puts the numbers into memory.
func (b *condBench) sets(n ...uint32) {
	b.t.Helper()
	for i, v := range n {
		b.ok(b.s.Memset32(b.number(uint64(i)), v))
	}
}

// runs launches the executable graph, and compares the numbers.
func (b *condBench) runs(what string, x *graph.Exec, want ...uint32) {
	b.t.Helper()
	b.ok(errors.Join(x.Launch(b.s), b.s.Copy(b.out, b.mem), b.s.Wait(context.Background())))
	b.ok(b.out.View(func(data []byte) error {
		for i, n := range want {
			if got := binary.LittleEndian.Uint32(data[4*i:]); got != n {
				b.t.Errorf("%s: number %d is %d, want %d", what, i, got, n)
			}
		}
		return nil
	}))
}

// TestGPUGraphConditions runs graphs with conditional nodes of all kinds.
func TestGPUGraphConditions(t *testing.T) {
	b := newCondBench(t, GPUContext(t))
	// A kernel sets the condition of an if, and that of a switch has a value at each launch.
	g := Need(graph.New(b.gpu))(t)
	c := Need(g.NewCondition())(t)
	set := Need(g.Add(&graph.Kernel{Function: b.setc, Config: OneThread, Args: []Arg{c.Arg(), U32(1)}}))(t)
	either := graph.If{Condition: c, HasElse: true}
	branch := Need(g.Add(&either, set))(t)
	then, otherwise := either.Then, either.Else
	Need(then.Add(&graph.Memset{Dst: b.number(0), Value: 10, ElementSize: 4}))(t)
	Need(otherwise.Add(&graph.Memset{Dst: b.number(0), Value: 20, ElementSize: 4}))(t)
	_, cases, err := AddSwitch(g, Need(g.NewConditionAt(2))(t), 3, branch)
	b.ok(err)
	for i, body := range cases {
		Need(body.Add(&graph.Memset{Dst: b.number(1), Value: uint32(i), ElementSize: 4}))(t)
	}
	if _, err := cases[0].Capture(b.s, graph.CaptureRelaxed, func() error { return b.s.Memset32(b.number(2), 9) }); err != nil {
		t.Error(err)
	}
	x := Need(g.Instantiate())(t)
	b.sets(0, 7, 7, 7)
	b.runs("if", x, 10, 2, 7, 7)
	b.ok(x.Set(set, &graph.Kernel{Function: b.setc, Config: OneThread, Args: []Arg{c.Arg(), U32(0)}}))
	b.runs("else", x, 20, 2, 7, 7)
	if _, err := g.Instantiate(); !errors.Is(err, ResultNotSupported) {
		t.Errorf("a second executable graph: %v", err)
	}
	if typ := Need(branch.Type())(t); typ != graph.NodeTypeConditional {
		t.Errorf("the node is of type %v", typ)
	}
	b.ok(errors.Join(g.Close(), x.Close()))

	// The value stays between launches, or begins anew.
	for _, anew := range []bool{false, true} {
		g := Need(graph.New(b.gpu))(t)
		condition := g.NewCondition
		if anew {
			condition = func() (graph.Condition, error) { return g.NewConditionAt(0) }
		}
		c := Need(condition())(t)
		n, body, err := AddIf(g, c)
		b.ok(err)
		Need(body.Add(&graph.Kernel{Function: b.inc, Config: OneThread, Args: []Arg{Ptr(b.number(0))}}))(t)
		Need(g.Add(&graph.Kernel{Function: b.setc, Config: OneThread, Args: []Arg{c.Arg(), U32(1)}}, n))(t)
		x := Need(g.Instantiate())(t)
		if anew {
			b.sets(0)
			b.runs("the first launch", x, 0)
			b.runs("the second launch", x, 0)
		} else {
			b.runs("the first launch", x) // the value is anything before a kernel sets it
			b.sets(0)
			b.runs("the second launch", x, 1)
		}
		b.ok(errors.Join(x.Close(), g.Close()))
	}

	// A loop with a condition in its body.
	g = Need(graph.New(b.gpu))(t)
	loop, inner := Need(g.NewConditionAt(1))(t), Need(g.NewConditionAt(1))(t)
	repeat := graph.While{Condition: loop}
	Need(g.Add(&repeat))(t)
	body := repeat.Body
	count := Need(body.Add(&graph.Kernel{Function: b.inc, Config: OneThread, Args: []Arg{Ptr(b.number(0))}}))(t)
	Need(body.Add(&graph.Kernel{Function: b.down, Config: OneThread, Args: []Arg{loop.Arg(), Ptr(b.number(1))}}, count))(t)
	_, nested, err := AddIf(body, inner)
	b.ok(err)
	last := Need(nested.Add(&graph.Memset{Dst: b.number(2), Value: 5, ElementSize: 4}))(t)
	x = Need(g.Instantiate())(t)
	b.sets(0, 5, 0, 0)
	b.runs("while", x, 5, 0, 5, 0)
	b.ok(errors.Join(x.Set(last, &graph.Memset{Dst: b.number(3), Value: 6, ElementSize: 4}), x.SetEnabled(count, false)))
	b.sets(0, 3, 0, 0)
	b.runs("while with changed nodes", x, 0, 0, 0, 6)
	b.ok(x.Update(g))
	b.ok(x.SetEnabled(count, true))
	b.sets(0, 3, 0, 0)
	b.runs("while after an update", x, 3, 0, 5, 0)
	b.ok(errors.Join(x.Close(), g.Close()))
}

// TestGPUGraphBodies asks the driver for what it refuses, and uses bodies that are gone.
func TestGPUGraphBodies(t *testing.T) {
	b := newCondBench(t, GPUContext(t))
	g := Need(graph.New(b.gpu))(t)
	c := Need(g.NewConditionAt(1))(t)
	is := func(what string, err error, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err := g.Instantiate()
	is("a condition that no node uses", err, ResultInvalidValue)
	n, body, err := AddIf(g, c)
	b.ok(err)
	_, _, err = AddIf(g, c)
	is("a second node", err, ResultInvalidValue)
	_, _, err = AddIf(g, graph.Condition{})
	is("no condition", err, ErrNil)
	other := Need(graph.New(b.gpu))(t)
	_, _, err = AddIf(other, c)
	is("another graph", err, ResultInvalidValue)
	_, _, err = AddSwitch(g, c, 0)
	is("a switch without bodies", err, ResultInvalidValue)
	_, err = g.Clone()
	is("clone", err, ResultNotSupported)
	_, err = other.Add(&graph.Child{Graph: g})
	is("a child graph", err, ResultNotSupported)
	for what, f := range map[string]func() error{
		"clone a body": func() error { _, err := body.Clone(); return err },
		"instantiate":  func() error { _, err := body.Instantiate(); return err },
		"with flags":   func() error { _, err := body.InstantiateWithFlags(0); return err },
		"child graph":  func() error { _, err := other.Add(&graph.Child{Graph: body}); return err },
		"host":         func() error { _, err := body.Add(&graph.HostFunc{Func: func() {}}); return err },
		"record":       func() error { _, err := body.Add(&graph.Record{Event: new(Event)}); return err },
		"alloc":        func() error { _, _, err := AddAlloc(body, 8); return err },
	} {
		is(what, f(), ResultNotSupported)
	}
	k := Need(body.Add(&graph.Kernel{Function: b.inc, Config: OneThread, Args: []Arg{Ptr(b.number(0))}}))(t)
	b.ok(body.Close()) // does nothing
	if nodes := Need(body.Nodes())(t); len(nodes) != 1 || nodes[0] != k {
		t.Errorf("the body has the nodes %v", nodes)
	}
	x := Need(g.Instantiate())(t)
	b.sets(1)
	b.runs("as it was made", x, 2)
	b.ok(k.Remove())
	is("an update with another body", x.Update(g), ResultGraphExecUpdateFailure)
	b.ok(n.Remove())
	_, err = body.Nodes()
	is("a body of a removed node", err, ErrClosed)
	is("a node of such a body", k.Set(&graph.Kernel{Function: b.inc, Config: OneThread, Args: []Arg{Ptr(b.number(0))}}), ErrClosed)
	b.runs("after that", x, 3)
	b.ok(errors.Join(x.Close(), other.Close(), g.Close()))
	_, err = body.Add(&graph.Empty{})
	is("a body of a closed graph", err, ErrClosed)
	if body.Handle() != 0 {
		t.Error("the body has a handle")
	}
}

// TestGPUGraphBodyCapture lets a capture into a body fail, after which the driver would crash when it destroys the
// graph.
func TestGPUGraphBodyCapture(t *testing.T) {
	b := newCondBench(t, GPUContext(t))
	g := Need(graph.New(b.gpu))(t)
	_, body, err := AddIf(g, Need(g.NewConditionAt(1))(t))
	b.ok(err)
	other := Need(b.gpu.NewStream(StreamNonBlocking))(t)
	_, err = body.Capture(b.s, graph.CaptureRelaxed, func() error {
		if _, err := g.Add(&graph.Empty{}); !errors.Is(err, ResultIllegalState) {
			t.Errorf("a call on the whole graph during the capture: %v", err)
		}
		return errors.Join(b.s.Memset(b.mem, 1), other.WaitStream(b.s), other.Memset(b.mem, 2))
	})
	if !errors.Is(err, ResultStreamCaptureUnjoined) {
		t.Errorf("the capture: %v", err)
	}
	for _, g := range []*graph.Graph{g, body} {
		if _, err := g.Nodes(); !errors.Is(err, ErrClosed) {
			t.Errorf("a call after the capture has failed: %v", err)
		}
	}
	b.ok(errors.Join(g.Close(), other.Close()))
}

// TestGraphBodyObjects removes a conditional node, whose bodies use memory, and closes a graph with one.
func TestGraphBodyObjects(t *testing.T) {
	r := NewSoft(t)
	memory := func() int { return r.Sim.Census()["device memory"] }
	for _, remove := range []bool{true, false} {
		g := Need(graph.New(r.GPU))(t)
		n, body, err := AddIf(g, Need(g.NewConditionAt(1))(t))
		r.OK(err)
		_, inner, err := AddIf(body, Need(body.NewConditionAt(1))(t))
		r.OK(err)
		mem := Need(r.GPU.Alloc(64))(t)
		Need(inner.Add(&graph.Memset{Dst: mem, Value: 1}))(t)
		r.OK(mem.Close())
		r.OK(r.GPU.Synchronize())
		if got := memory(); got != 1 {
			t.Errorf("%d pieces of memory", got)
		}
		if remove {
			r.OK(n.Remove())
		} else {
			r.OK(g.Close())
		}
		r.OK(r.GPU.Synchronize())
		if got := memory(); got != 0 {
			t.Errorf("%d pieces of memory in the end", got)
		}
		_, err = inner.Nodes()
		r.Is(err, ErrClosed)
		r.OK(g.Close())
	}
}

// TestGraphConditionReused adds one value twice: the second node, which has one body, has nothing of the first one.
func TestGraphConditionReused(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	w := graph.If{Condition: Need(g.NewCondition())(t), HasElse: true}
	Need(g.Add(&w))(t)
	first := w
	w.Condition, w.HasElse = Need(g.NewCondition())(t), false
	n := Need(g.Add(&w))(t)
	got := Need(n.Work())(t).(*graph.If)
	if w.Else != nil || got.Else != nil || w.Then == first.Then || got.Then != w.Then || got.HasElse {
		t.Errorf("Add has set %+v, and the node's work is %+v", w, *got)
	}
}

// TestGraphConditionKernel sets a condition by a kernel in Go.
func TestGraphConditionKernel(t *testing.T) {
	var ran atomic.Int32
	r := NewSoft(t, cusim.WithKernel("decide", cusim.Kernel{Run: func(l *cusim.Launch) { l.SetConditional(l.U64(0), 1) }}),
		cusim.WithKernel("work", cusim.Kernel{Run: func(*cusim.Launch) { ran.Add(1) }}))
	mod := Need(r.GPU.LoadModule([]byte(".version 6.0\n.target sm_50\n.visible .entry decide(.param .u64 h) { ret; }\n" +
		".visible .entry work() { ret; }")))(t)
	defer mod.Close()
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	c := Need(g.NewCondition())(t)
	decide := Need(g.Add(&graph.Kernel{Function: Need(mod.Function("decide"))(t), Config: OneThread, Args: []Arg{c.Arg()}}))(t)
	_, body, err := AddIf(g, c, decide)
	r.OK(err)
	Need(body.Add(&graph.Kernel{Function: Need(mod.Function("work"))(t), Config: OneThread}))(t)
	x := r.Exec(g)
	r.OK(errors.Join(x.Launch(r.S), x.Launch(r.S), r.S.Synchronize()))
	if ran.Load() != 2 {
		t.Errorf("the body ran %d times", ran.Load())
	}
}
