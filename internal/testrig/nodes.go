package testrig

import (
	"errors"
	"fmt"
	"slices"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
)

// WorkOf returns the work of a node, which must be of a type.
func WorkOf[W graph.Work](n graph.Node) (w W, err error) {
	got, err := n.Work()
	w, ok := got.(W)
	if err == nil && !ok {
		err = drivercall.BadValue("WorkOf", nil, fmt.Sprintf("the work is a %T", got))
	}
	return w, err
}

// RawNode returns the handle of a node. The graph's own handle is exposed then.
func RawNode(drv *cu.Driver, n graph.Node) driver.GraphNode {
	nodes, err := n.Graph().Nodes() // in the order in which the driver lists them
	if err != nil {
		return 0
	}
	raw := make([]driver.GraphNode, len(nodes))
	core.Of(drv).Table().GraphGetNodes(driver.At{}, driver.Graph(n.Graph().Handle()), raw)
	return raw[slices.Index(nodes, n)]
}

// AddAlloc adds a node that allocates memory, and returns the memory, too.
func AddAlloc(g *graph.Graph, size uint64, after ...graph.Node) (graph.Node, *cu.DeviceMem, error) {
	w := graph.Alloc{Size: size}
	n, err := g.Add(&w, after...)
	return n, w.Mem, err
}

// AddIf adds a conditional node, and returns its body, too.
func AddIf(g *graph.Graph, c graph.Condition, after ...graph.Node) (graph.Node, *graph.Graph, error) {
	w := graph.If{Condition: c}
	n, err := g.Add(&w, after...)
	return n, w.Then, err
}

// AddSwitch adds a conditional node with several bodies, and returns these, too.
func AddSwitch(g *graph.Graph, c graph.Condition, cases int, after ...graph.Node) (graph.Node, []*graph.Graph, error) {
	w := graph.Switch{Condition: c, Cases: cases}
	n, err := g.Add(&w, after...)
	return n, w.Bodies, err
}

// CopyRect returns the node that copies a rectangle.
func CopyRect(dst, src cu.Rows, width, height uint64) *graph.Copy {
	return CopyBoxOf(cu.Planes{Rows: dst}, cu.Planes{Rows: src}, width, height, 1)
}

// CopyBoxOf returns the node that copies a box.
func CopyBoxOf(dst, src cu.Planes, width, height, depth uint64) *graph.Copy {
	return &graph.Copy{Dst: dst.Mem, Src: src.Mem,
		Box: &graph.Box{Width: width, Height: height, Depth: depth,
			DstPitch: dst.Pitch, DstHeight: dst.Height, SrcPitch: src.Pitch, SrcHeight: src.Height}}
}

// SetRect returns the node that sets the elements of a rectangle.
func SetRect(dst cu.Rows, value, size uint32, width, height uint64) *graph.Memset {
	return &graph.Memset{Dst: dst.Mem, Value: value, ElementSize: size,
		Rect: &graph.Rect{Width: width, Height: height, Pitch: dst.Pitch}}
}

// EventWork returns the work of a node that records the event, or waits for it, as the node does now.
func EventWork(n graph.Node, e *cu.Event) graph.Work {
	if typ, err := n.Type(); err == nil && typ == graph.NodeTypeWaitEvent {
		return &graph.Wait{Event: e}
	}
	return &graph.Record{Event: e}
}

// BodiesOf returns the bodies of a conditional node.
func BodiesOf(n graph.Node) ([]*graph.Graph, error) {
	w, err := n.Work()
	switch w := w.(type) {
	case *graph.If:
		return []*graph.Graph{w.Then}, nil
	case *graph.Switch:
		return w.Bodies, nil
	}
	return nil, errors.Join(err, cu.ResultInvalidValue)
}
