package testrig

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
)

// WorkOf returns the work of a node, which must be of a type.
func WorkOf[W cu.Work](n cu.GraphNode) (w W, err error) {
	got, err := n.Work()
	w, ok := got.(W)
	if err == nil && !ok {
		err = core.BadValue("WorkOf", nil, fmt.Sprintf("the work is a %T", got))
	}
	return w, err
}

// AddAlloc adds a node that allocates memory, and returns the memory, too.
func AddAlloc(g *cu.Graph, size uint64, after ...cu.GraphNode) (cu.GraphNode, *cu.DeviceMem, error) {
	w := cu.AllocNode{Size: size}
	n, err := g.Add(&w, after...)
	return n, w.Mem, err
}

// AddIf adds a conditional node, and returns its body, too.
func AddIf(g *cu.Graph, c cu.Condition, after ...cu.GraphNode) (cu.GraphNode, *cu.Graph, error) {
	w := cu.IfNode{Condition: c}
	n, err := g.Add(&w, after...)
	return n, w.Then, err
}

// AddSwitch adds a conditional node with several bodies, and returns these, too.
func AddSwitch(g *cu.Graph, c cu.Condition, cases int, after ...cu.GraphNode) (cu.GraphNode, []*cu.Graph, error) {
	w := cu.SwitchNode{Condition: c, Cases: cases}
	n, err := g.Add(&w, after...)
	return n, w.Bodies, err
}

// CopyRect returns the node that copies a rectangle.
func CopyRect(dst, src cu.Rows, width, height uint64) *cu.CopyNode {
	return CopyBoxOf(cu.Planes{Rows: dst}, cu.Planes{Rows: src}, width, height, 1)
}

// CopyBoxOf returns the node that copies a box.
func CopyBoxOf(dst, src cu.Planes, width, height, depth uint64) *cu.CopyNode {
	return &cu.CopyNode{Dst: dst.Mem, Src: src.Mem,
		Box: &cu.CopyBox{Width: width, Height: height, Depth: depth,
			DstPitch: dst.Pitch, DstHeight: dst.Height, SrcPitch: src.Pitch, SrcHeight: src.Height}}
}

// SetRect returns the node that sets the elements of a rectangle.
func SetRect(dst cu.Rows, value, size uint32, width, height uint64) *cu.MemsetNode {
	return &cu.MemsetNode{Dst: dst.Mem, Value: value, ElementSize: size,
		Rect: &cu.MemsetRect{Width: width, Height: height, Pitch: dst.Pitch}}
}

// EventWork returns the work of a node that records the event, or waits for it, as the node does now.
func EventWork(n cu.GraphNode, e *cu.Event) cu.Work {
	if typ, err := n.Type(); err == nil && typ == cu.GraphNodeTypeWaitEvent {
		return &cu.WaitNode{Event: e}
	}
	return &cu.RecordNode{Event: e}
}

// BodiesOf returns the bodies of a conditional node.
func BodiesOf(n cu.GraphNode) ([]*cu.Graph, error) {
	w, err := n.Work()
	switch w := w.(type) {
	case *cu.IfNode:
		return []*cu.Graph{w.Then}, nil
	case *cu.SwitchNode:
		return w.Bodies, nil
	}
	return nil, errors.Join(err, cu.ResultInvalidValue)
}
