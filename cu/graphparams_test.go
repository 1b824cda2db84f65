package cu

import (
	"errors"
	"slices"
	"testing"

	"github.com/purecu/purecu/cusim"
)

// TestGraphParamsOfNothing asks nodes of no graph and of a closed graph, and removed nodes.
func TestGraphParamsOfNothing(t *testing.T) {
	r := newSoft(t)
	closed, g := must(r.gpu.NewGraph())(t), must(r.gpu.NewGraph())(t)
	dead, gone := must(closed.AddEmpty())(t), must(g.AddEmpty())(t)
	r.ok(errors.Join(closed.Close(), gone.Remove()))
	for _, c := range []struct {
		n    GraphNode
		want error
	}{{GraphNode{}, ErrNil}, {dead, ErrClosed}, {gone, ErrClosed}} {
		for name, ask := range map[string]func() error{
			"Kernel":      func() error { _, err := c.n.Kernel(); return err },
			"Copy":        func() error { _, err := c.n.Copy(); return err },
			"Memset":      func() error { _, err := c.n.Memset(); return err },
			"HostFunc":    func() error { _, err := c.n.HostFunc(); return err },
			"EventHandle": func() error { _, err := c.n.EventHandle(); return err },
			"MemOps":      func() error { _, err := c.n.MemOps(); return err },
			"Allocated":   func() error { _, _, err := c.n.Allocated(); return err },
			"Freed":       func() error { _, err := c.n.Freed(); return err },
			"ChildGraph":  func() error { _, err := c.n.ChildGraph(); return err },
			"Bodies":      func() error { _, err := c.n.Bodies(); return err },
			"Dependents":  func() error { _, err := c.n.Dependents(); return err },
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
	g := must(r.gpu.NewGraph())(t)
	n := must(g.AddKernel(r.spin, oneThread, []Arg{U64(1)}))(t)
	k := must(n.Kernel())(t)
	if k.Name != "" || k.Args != nil || k.Function != r.spin.Handle() || k.Config.Grid != (Dim3{1, 1, 1}) {
		t.Errorf("the kernel is %+v", k)
	}
	r.ok(g.Close())
}

// TestGraphParamsOfCopies asks captured copies of rows, and a memset of rows.
func TestGraphParamsOfCopies(t *testing.T) {
	r := newSoft(t)
	a, b := must(r.gpu.Alloc(1000))(t), must(r.gpu.Alloc(1000))(t)
	g := must(r.s.Capture(CaptureRelaxed, func() error {
		return errors.Join(
			r.s.Copy2D(Rows{b, 32}.At(4, 1), Rows{a, 16}.At(0, 2), 8, 3),
			r.s.Memset2D(Rows{a.Span(100, 500), 20}, 7, 5, 6))
	}))(t)
	nodes := must(g.Nodes())(t)
	copied, set := must(nodes[0].Copy())(t), must(nodes[1].Memset())(t)
	if copied.Dst.Addr != b.Handle()+36 || copied.Dst.Pitch != 32 || copied.Src.Addr != a.Handle()+32 ||
		copied.Src.Pitch != 16 ||
		copied.Width != 8 || copied.Height != 3 || copied.Depth != 1 {
		t.Errorf("the copy is %+v", copied)
	}
	if want := (MemsetParams{a.Handle() + 100, 7, 1, 5, 6, 20}); set != want {
		t.Errorf("the memset is %+v, want %+v", set, want)
	}
	r.ok(errors.Join(g.Close(), a.Close(), b.Close()))
}

// TestGraphBodies finds the bodies of a conditional node again.
func TestGraphBodies(t *testing.T) {
	r := newSoft(t)
	g := must(r.gpu.NewGraph())(t)
	c := must(g.NewCondition())(t)
	n, bodies, err := g.AddSwitch(c, 3)
	r.ok(err)
	if got := must(must(g.Nodes())(t)[0].Bodies())(t); !slices.Equal(got, bodies) {
		t.Errorf("the bodies are %v, want %v", got, bodies)
	}
	_, err = must(bodies[0].AddEmpty())(t).Bodies()
	r.is(err, ResultInvalidValue)
	r.ok(n.Remove())
	_, err = n.Bodies()
	r.is(err, ErrClosed)
	r.ok(g.Close())
}

// TestGraphParamsOfLibrary asks for a kernel of a library.
func TestGraphParamsOfLibrary(t *testing.T) {
	r := newSoft(t)
	l := must(r.drv.LoadLibrary([]byte(countPTX)))(t)
	k := must(l.Kernel("tick"))(t)
	f := must(k.Function(r.gpu))(t)
	mem := must(r.gpu.Alloc(4))(t)
	g := must(r.gpu.NewGraph())(t)
	n := must(g.AddKernel(f, oneThread, []Arg{Ptr(mem)}))(t)
	p := must(n.Kernel())(t)
	if p.Name != "tick" || p.Kernel != k.Handle() || len(p.Args) != 1 || len(p.Args[0]) != 8 {
		t.Errorf("the kernel is %+v", p)
	}
	r.ok(errors.Join(g.Close(), mem.Close(), l.Close()))
}
