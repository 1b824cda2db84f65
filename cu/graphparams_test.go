package cu_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// TestGraphParamsOfNothing asks nodes of no graph and of a closed graph, and removed nodes.
func TestGraphParamsOfNothing(t *testing.T) {
	r := newSoft(t)
	closed, g := need(r.gpu.NewGraph())(t), need(r.gpu.NewGraph())(t)
	dead, gone := need(closed.Add(&EmptyNode{}))(t), need(g.Add(&EmptyNode{}))(t)
	r.ok(errors.Join(closed.Close(), gone.Remove()))
	for _, c := range []struct {
		n    GraphNode
		want error
	}{{GraphNode{}, ErrNil}, {dead, ErrClosed}, {gone, ErrClosed}} {
		for name, ask := range map[string]func() error{
			"Work":       func() error { _, err := c.n.Work(); return err },
			"Set":        func() error { return c.n.Set(&HostNode{func() {}}) },
			"Dependents": func() error { _, err := c.n.Dependents(); return err },
		} {
			if err := ask(); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
	r.ok(g.Close())
}

// TestGraphParamsOfOldDriver asks for a kernel whose name and parameters the driver cannot say.
func TestGraphParamsOfOldDriver(t *testing.T) {
	r := newSoft(t, cusim.Version(11080))
	g := need(r.gpu.NewGraph())(t)
	n := need(g.Add(&KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(1)}}))(t)
	k := need(workOf[*KernelNode](n))(t)
	if k.Params.Name != "" || k.Params.Args != nil || k.Params.Function != r.spin.Handle() || k.Config.Grid != (Dim3{1, 1, 1}) {
		t.Errorf("the kernel is %+v", k)
	}
	r.ok(g.Close())
}

// TestGraphParamsOfCopies asks captured copies of rows, and a memset of rows.
func TestGraphParamsOfCopies(t *testing.T) {
	r := newSoft(t)
	a, b := need(r.gpu.Alloc(1000))(t), need(r.gpu.Alloc(1000))(t)
	g := need(r.s.Capture(CaptureRelaxed, func() error {
		return errors.Join(
			r.s.Copy2D(Rows{b, 32}.At(4, 1), Rows{a, 16}.At(0, 2), 8, 3),
			r.s.Memset2D(Rows{a.Span(100, 500), 20}, 7, 5, 6))
	}))(t)
	nodes := need(g.Nodes())(t)
	copied, set := need(workOf[*CopyNode](nodes[0]))(t), need(workOf[*MemsetNode](nodes[1]))(t)
	box := *copied.Box
	box.DstHeight, box.SrcHeight = 0, 0 // mean nothing, as there is one plane
	if copied.DstAddr != b.Handle()+36 || copied.SrcAddr != a.Handle()+32 || box != (CopyBox{8, 3, 1, 32, 0, 16, 0}) {
		t.Errorf("the copy is %+v", copied)
	}
	if want := (&MemsetNode{Addr: a.Handle() + 100, Value: 7, ElementSize: 1, Rect: &MemsetRect{5, 6, 20}}); !cmp.Equal(set, want) {
		t.Errorf("the memset is %+v, want %+v", set, want)
	}
	r.ok(errors.Join(g.Close(), a.Close(), b.Close()))
}

// TestGraphBodies finds the bodies of a conditional node again.
func TestGraphBodies(t *testing.T) {
	r := newSoft(t)
	g := need(r.gpu.NewGraph())(t)
	c := need(g.NewCondition())(t)
	n, bodies, err := addSwitch(g, c, 3)
	r.ok(err)
	if got := need(bodiesOf(need(g.Nodes())(t)[0]))(t); !slices.Equal(got, bodies) {
		t.Errorf("the bodies are %v, want %v", got, bodies)
	}
	_, err = bodiesOf(need(bodies[0].Add(&EmptyNode{}))(t))
	r.is(err, ResultInvalidValue)
	r.ok(n.Remove())
	_, err = bodiesOf(n)
	r.is(err, ErrClosed)
	r.ok(g.Close())
}

// TestGraphParamsOfLibrary asks for a kernel of a library.
func TestGraphParamsOfLibrary(t *testing.T) {
	r := newSoft(t)
	l := need(r.drv.LoadLibrary([]byte(countPTX)))(t)
	k := need(l.Kernel("tick"))(t)
	f := need(k.Function(r.gpu))(t)
	mem := need(r.gpu.Alloc(4))(t)
	g := need(r.gpu.NewGraph())(t)
	n := need(g.Add(&KernelNode{Kernel: f, Config: oneThread, Args: []Arg{Ptr(mem)}}))(t)
	p := need(workOf[*KernelNode](n))(t)
	if p.Params.Name != "tick" || p.Params.Kernel != k.Handle() || len(p.Params.Args) != 1 || len(p.Params.Args[0]) != 8 {
		t.Errorf("the kernel is %+v", p)
	}
	r.ok(errors.Join(g.Close(), mem.Close(), l.Close()))
}
