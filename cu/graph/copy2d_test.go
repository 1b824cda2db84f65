package graph_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/memstate"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGraphCopy2DMistakes adds and changes nodes with boxes that are wrong. Each is refused before the driver sees it,
// and changes nothing.
func TestGraphCopy2DMistakes(t *testing.T) {
	r := NewSoft(t)
	m := r.Image()
	host := Need(r.GPU.AllocHost(64, 0))(t)
	unmapped := Need(r.GPU.AllocHost(64, 0))(t)
	core.Of(unmapped).Raw = 0 // as on an old device
	far := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	theirs := Need(far.Alloc(64))(t)
	closed := Need(r.GPU.Alloc(64))(t)
	r.OK(closed.Close())
	g := Need(graph.New(r.GPU))(t)
	full, onHost := Rows{Mem: m, Pitch: 16}, Planes{Rows: Rows{Mem: host}}
	copied := Need(g.Add(CopyRect(Rows{Mem: host}, full, 8, 2)))(t)
	set := Need(g.Add(SetRect(full, 1, 1, 8, 2)))(t)
	x := Need(g.Instantiate())(t)
	state := func() string {
		c, m := Need(WorkOf[*graph.Copy](copied))(t), Need(WorkOf[*graph.Memset](set))(t)
		return fmt.Sprint(*c.Box, c.DstAddr, c.SrcAddr, *m.Rect, m.Addr, m.Value, m.ElementSize)
	}
	before := state()
	for name, c := range map[string]struct {
		want error
		// The arguments of a method that adds a node, and of two that change one.
		dst, src             Planes
		width, height, depth uint64
		value                int // the size of an element, or 0 for a copy
	}{
		"two hosts":            {ResultInvalidValue, onHost, onHost, 1, 1, 1, 0},
		"planes overlap":       {ResultInvalidValue, Planes{Rows: full, Height: 1}, Planes{Rows: full, Height: 2}, 1, 2, 2, 0},
		"too many planes":      {ResultInvalidValue, Planes{Rows: full, Height: 2}, Planes{Rows: full, Height: 2}, 16, 2, 5, 0},
		"the source too small": {ResultInvalidValue, Planes{Rows: full}, Planes{Rows: Rows{Mem: m.Span(0, 8), Pitch: 8}}, 8, 2, 1, 0},
		"two contexts":         {ErrDeviceMismatch, Planes{Rows: full}, Planes{Rows: Rows{Mem: theirs}}, 8, 2, 1, 0},
		"closed":               {ErrClosed, Planes{Rows: full}, Planes{Rows: Rows{Mem: closed}}, 8, 2, 1, 0},
		"no memory":            {ErrNil, Planes{Rows: full}, Planes{}, 8, 2, 1, 0},
		"one row too many":     {ResultInvalidValue, Planes{Rows: full}, Planes{}, 16, 9, 1, 1},
		"a row too long":       {ResultInvalidValue, Planes{Rows: full}, Planes{}, 17, 2, 1, 1},
		"outside":              {ResultInvalidValue, Planes{Rows: full.At(0, 9)}, Planes{}, 1, 1, 1, 1},
		"overflow":             {ResultInvalidValue, Planes{Rows: Rows{Mem: m, Pitch: 1 << 62}}, Planes{}, 1, 9, 1, 1},
		"no whole words":       {ResultInvalidValue, Planes{Rows: full.At(2, 0)}, Planes{}, 1, 1, 1, 4},
		"an odd pitch":         {ResultInvalidValue, Planes{Rows: Rows{Mem: m, Pitch: 17}}, Planes{}, 1, 2, 1, 2},
		"words overflow":       {ResultInvalidValue, Planes{Rows: full}, Planes{}, math.MaxUint64/4 + 2, 1, 1, 4},
		"not of the device":    {memstate.ErrUnmapped, Planes{Rows: Rows{Mem: unmapped, Pitch: 16}}, Planes{}, 1, 1, 1, 1},
		"closed memory":        {ErrClosed, Planes{Rows: Rows{Mem: closed, Pitch: 16}}, Planes{}, 1, 1, 1, 1},
		"nothing":              {ErrNil, Planes{}, Planes{}, 1, 1, 1, 2},
	} {
		var errs [3]error
		switch d, w, h := c.dst.Rows, c.width, c.height; c.value {
		case 0:
			_, errs[0] = g.Add(CopyBoxOf(c.dst, c.src, w, h, c.depth))
			errs[1], errs[2] = copied.Set(CopyBoxOf(c.dst, c.src, w, h, c.depth)), c.want // an executable graph cannot
		case 1:
			_, errs[0] = g.Add(SetRect(d, 5, 1, w, h))
			errs[1], errs[2] = set.Set(SetRect(d, 5, 1, w, h)), x.Set(set, SetRect(d, 5, 1, w, h))
		case 2:
			_, errs[0] = g.Add(SetRect(d, 5, 2, w, h))
			errs[1], errs[2] = set.Set(SetRect(d, 5, 2, w, h)), x.Set(set, SetRect(d, 5, 2, w, h))
		default:
			_, errs[0] = g.Add(SetRect(d, 5, 4, w, h))
			errs[1], errs[2] = set.Set(SetRect(d, 5, 4, w, h)), x.Set(set, SetRect(d, 5, 4, w, h))
		}
		for i, err := range errs {
			if !errors.Is(err, c.want) {
				t.Errorf("%s, call %d: %v", name, i, err)
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("the nodes do %s, and did %s", after, before)
	}
	if n := len(Need(g.Nodes())(t)); n != 2 {
		t.Errorf("%d nodes", n)
	}

	// Nodes of another type, and objects that are nil.
	var none *graph.Graph
	var noExec *graph.Exec
	add := func(_ graph.Node, err error) error { return err }
	other := Need(graph.New(r.GPU))(t)
	for name, c := range map[string]struct{ err, want error }{
		"a memset's copy":     {set.Set(CopyRect(full, full, 1, 1)), ResultInvalidValue},
		"a copy's memset":     {x.Set(copied, SetRect(full, 1, 1, 1, 1)), ResultInvalidValue},
		"no graph":            {add(none.Add(CopyRect(full, full, 1, 1))), ErrNil},
		"no graph, a memset":  {add(none.Add(SetRect(full, 1, 1, 1, 1))), ErrNil},
		"no executable, set":  {noExec.Set(set, SetRect(full, 1, 2, 1, 1)), ErrNil},
		"no node":             {graph.Node{}.Set(CopyBoxOf(Planes{}, Planes{}, 1, 1, 1)), ErrNil},
		"no node, a memset":   {x.Set(graph.Node{}, SetRect(full, 1, 4, 1, 1)), ErrNil},
		"an empty copy":       {copied.Set(CopyRect(full, Rows{Mem: host}, 0, 1)), ResultInvalidValue},
		"an empty memset":     {x.Set(set, SetRect(full, 1, 1, 8, 0)), ResultInvalidValue},
		"after another graph": {add(other.Add(CopyRect(full, onHost.Rows, 1, 1), set)), ResultInvalidValue},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	err := x.Set(set, SetRect(full, 1, 1, 8, 3))
	if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "pitch of a memset of several rows") {
		t.Errorf("more rows in an executable graph: %v", err)
	}
	r.OK(errors.Join(x.Close(), g.Close(), other.Close(), theirs.Close(), far.Close(), host.Close(), unmapped.Close()))
}

// TestGraphCopy2DEmpty adds nodes without bytes.
func TestGraphCopy2DEmpty(t *testing.T) {
	r := NewSoft(t)
	m := r.Image()
	g := Need(graph.New(r.GPU))(t)
	a := Need(g.Add(CopyRect(Rows{Mem: m, Pitch: 16}, Rows{Mem: m.Span(64, 64), Pitch: 16}, 0, 4)))(t)
	b := Need(g.Add(CopyBoxOf(Planes{Rows: Rows{Mem: m, Pitch: 16}}, Planes{Rows: Rows{Mem: m.Span(64, 64), Pitch: 16}}, 4, 4, 0), a))(t)
	Need(g.Add(SetRect(Rows{Mem: m, Pitch: 16}, 1, 4, 4, 0), b))(t)
	if got := r.Types(g); !slices.Equal(got, []string{"empty", "empty", "empty"}) {
		t.Errorf("the nodes are %v", got)
	}
	x := Need(g.Instantiate())(t)
	r.OK(errors.Join(x.Launch(r.S), x.Close(), g.Close()))
	if got := r.Bytes(m); got[0] != 0 || got[127] != 127 {
		t.Errorf("got %v", got)
	}
}

// TestGraphCopy2DObjects closes memory that nodes with rectangles use, and replaces it: the graph keeps what
// it uses, and lets go of the rest.
func TestGraphCopy2DObjects(t *testing.T) {
	r := NewSoft(t)
	memory := func(want int) {
		t.Helper()
		r.OK(r.GPU.Synchronize())
		if got := r.Sim.Census()["device memory"]; got != want {
			t.Errorf("%d pieces of memory, want %d", got, want)
		}
	}
	mem := func() *DeviceMem { return Need(r.GPU.Alloc(64))(t) }
	a, b, c := mem(), mem(), mem()
	g := Need(graph.New(r.GPU))(t)
	set := Need(g.Add(SetRect(Rows{Mem: a, Pitch: 16}, 1, 1, 8, 2)))(t)
	copied := Need(g.Add(CopyRect(Rows{Mem: b, Pitch: 16}, Rows{Mem: a, Pitch: 16}, 8, 2), set))(t)
	r.OK(errors.Join(a.Close(), b.Close()))
	memory(3)
	r.OK(errors.Join(set.Set(SetRect(Rows{Mem: c, Pitch: 32}, 0x0102, 2, 2, 2)),
		copied.Set(CopyBoxOf(Planes{Rows: Rows{Mem: c.Span(8, 56), Pitch: 32}, Height: 1}, Planes{Rows: Rows{Mem: c, Pitch: 32}, Height: 1}, 4, 1, 2))))
	memory(1)
	x := Need(g.Instantiate())(t)
	r.OK(errors.Join(g.Close(), x.Launch(r.S)))
	got := r.Bytes(c)
	for _, at := range []int{0, 2, 8, 10, 32, 34, 40, 42} {
		if got[at] != 2 || got[at+1] != 1 {
			t.Errorf("got %v at %d", got, at)
		}
	}
	r.OK(errors.Join(c.Close(), x.Close()))
	memory(0)
}

// TestGraphCopy2DManaged copies between managed memory of one context and memory of another in a node.
func TestGraphCopy2DManaged(t *testing.T) {
	r := NewSoft(t)
	far := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	managed := Need(memory.AllocManaged(far, 64, memory.AttachGlobal))(t)
	m := r.Image()
	g := Need(graph.New(r.GPU))(t)
	down := Need(g.Add(CopyRect(Rows{Mem: managed, Pitch: 16}, Rows{Mem: m, Pitch: 16}.At(1, 1), 3, 2)))(t)
	Need(g.Add(CopyRect(Rows{Mem: m, Pitch: 16}, Rows{Mem: managed, Pitch: 16}, 3, 2), down))(t)
	x := Need(g.Instantiate())(t)
	r.OK(x.Launch(r.S))
	if got := r.Bytes(m); got[0] != 17 || got[2] != 19 || got[18] != 35 || got[3] != 3 {
		t.Errorf("got %v", got)
	}
	r.OK(errors.Join(x.Close(), g.Close(), managed.Close(), far.Close()))
}
