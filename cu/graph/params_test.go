package graph_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cusim"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGraphParamsOfNothing asks nodes of no graph and of a closed graph, and removed nodes.
func TestGraphParamsOfNothing(t *testing.T) {
	r := NewSoft(t)
	closed, g := Need(graph.New(r.GPU))(t), Need(graph.New(r.GPU))(t)
	dead, gone := Need(closed.Add(&graph.Empty{}))(t), Need(g.Add(&graph.Empty{}))(t)
	r.OK(errors.Join(closed.Close(), gone.Remove()))
	for _, c := range []struct {
		n    graph.Node
		want error
	}{{graph.Node{}, ErrNil}, {dead, ErrClosed}, {gone, ErrClosed}} {
		for name, ask := range map[string]func() error{
			"Work":       func() error { _, err := c.n.Work(); return err },
			"Set":        func() error { return c.n.Set(&graph.HostFunc{Func: func() {}}) },
			"Dependents": func() error { _, err := c.n.Dependents(); return err },
		} {
			if err := ask(); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
	r.OK(g.Close())
}

// TestGraphParamsOfOldDriver asks for a kernel whose name and parameters the driver cannot say.
func TestGraphParamsOfOldDriver(t *testing.T) {
	r := NewSoft(t, cusim.Version(11080))
	g := Need(graph.New(r.GPU))(t)
	n := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}))(t)
	k := Need(WorkOf[*graph.Kernel](n))(t)
	if k.Params.Name != "" || k.Params.Args != nil || k.Params.Function != r.Spin.Handle() || k.Config.Grid != (Dim3{X: 1, Y: 1, Z: 1}) {
		t.Errorf("the kernel is %+v", k)
	}
	r.OK(g.Close())
}

// TestGraphParamsOfCopies asks captured copies of rows, and a memset of rows.
func TestGraphParamsOfCopies(t *testing.T) {
	r := NewSoft(t)
	a, b := Need(r.GPU.Alloc(1000))(t), Need(r.GPU.Alloc(1000))(t)
	g := Need(graph.Capture(r.S, graph.CaptureRelaxed, func() error {
		return errors.Join(
			r.S.Copy2D(Rows{Mem: b, Pitch: 32}.At(4, 1), Rows{Mem: a, Pitch: 16}.At(0, 2), 8, 3),
			r.S.Memset2D(Rows{Mem: a.Span(100, 500), Pitch: 20}, 7, 5, 6))
	}))(t)
	nodes := Need(g.Nodes())(t)
	copied, set := Need(WorkOf[*graph.Copy](nodes[0]))(t), Need(WorkOf[*graph.Memset](nodes[1]))(t)
	box := *copied.Box
	box.DstHeight, box.SrcHeight = 0, 0 // mean nothing, as there is one plane
	if copied.DstAddr != b.Handle()+36 || copied.SrcAddr != a.Handle()+32 || box != (graph.Box{Width: 8, Height: 3, Depth: 1, DstPitch: 32, DstHeight: 0, SrcPitch: 16, SrcHeight: 0}) {
		t.Errorf("the copy is %+v", copied)
	}
	if want := (&graph.Memset{Addr: a.Handle() + 100, Value: 7, ElementSize: 1, Rect: &graph.Rect{Width: 5, Height: 6, Pitch: 20}}); !cmp.Equal(set, want) {
		t.Errorf("the memset is %+v, want %+v", set, want)
	}
	r.OK(errors.Join(g.Close(), a.Close(), b.Close()))
}

// TestGraphBodies finds the bodies of a conditional node again.
func TestGraphBodies(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	c := Need(g.NewCondition())(t)
	n, bodies, err := AddSwitch(g, c, 3)
	r.OK(err)
	if got := Need(BodiesOf(Need(g.Nodes())(t)[0]))(t); !slices.Equal(got, bodies) {
		t.Errorf("the bodies are %v, want %v", got, bodies)
	}
	_, err = BodiesOf(Need(bodies[0].Add(&graph.Empty{}))(t))
	r.Is(err, ResultInvalidValue)
	r.OK(n.Remove())
	_, err = BodiesOf(n)
	r.Is(err, ErrClosed)
	r.OK(g.Close())
}

// TestGraphParamsOfLibrary asks for a kernel of a library.
func TestGraphParamsOfLibrary(t *testing.T) {
	r := NewSoft(t)
	l := Need(library.Load(r.Drv, []byte(CountPTX)))(t)
	k := Need(l.Kernel("tick"))(t)
	f := Need(k.Function(r.GPU))(t)
	mem := Need(r.GPU.Alloc(4))(t)
	g := Need(graph.New(r.GPU))(t)
	n := Need(g.Add(&graph.Kernel{Function: f, Config: OneThread, Args: []Arg{Ptr(mem)}}))(t)
	p := Need(WorkOf[*graph.Kernel](n))(t)
	if p.Params.Name != "tick" || p.Params.Kernel != k.Handle() || len(p.Params.Args) != 1 || len(p.Params.Args[0]) != 8 {
		t.Errorf("the kernel is %+v", p)
	}
	r.OK(errors.Join(g.Close(), mem.Close(), l.Close()))
}
