package cu_test

import (
	"errors"
	"fmt"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
)

// workOf returns the work of a node, which must be of a type.
func workOf[W Work](n GraphNode) (w W, err error) {
	got, err := n.Work()
	w, ok := got.(W)
	if err == nil && !ok {
		err = core.BadValue("workOf", nil, fmt.Sprintf("the work is a %T", got))
	}
	return w, err
}

func addAlloc(g *Graph, size uint64, after ...GraphNode) (GraphNode, *DeviceMem, error) {
	w := AllocNode{Size: size}
	n, err := g.Add(&w, after...)
	return n, w.Mem, err
}

func addIf(g *Graph, c Condition, after ...GraphNode) (GraphNode, *Graph, error) {
	w := IfNode{Condition: c}
	n, err := g.Add(&w, after...)
	return n, w.Then, err
}

func addSwitch(g *Graph, c Condition, cases int, after ...GraphNode) (GraphNode, []*Graph, error) {
	w := SwitchNode{Condition: c, Cases: cases}
	n, err := g.Add(&w, after...)
	return n, w.Bodies, err
}

func copyRect(dst, src Rows, width, height uint64) *CopyNode {
	return copyBox(Planes{Rows: dst}, Planes{Rows: src}, width, height, 1)
}

func copyBox(dst, src Planes, width, height, depth uint64) *CopyNode {
	return &CopyNode{Dst: dst.Mem, Src: src.Mem,
		Box: &CopyBox{width, height, depth, dst.Pitch, dst.Height, src.Pitch, src.Height}}
}

func setRect(dst Rows, value, size uint32, width, height uint64) *MemsetNode {
	return &MemsetNode{Dst: dst.Mem, Value: value, ElementSize: size, Rect: &MemsetRect{width, height, dst.Pitch}}
}

// eventWork returns the work of a node that records the event, or waits for it, as the node does now.
func eventWork(n GraphNode, e *Event) Work {
	if typ, err := n.Type(); err == nil && typ == GraphNodeTypeWaitEvent {
		return &WaitNode{Event: e}
	}
	return &RecordNode{Event: e}
}

// bodiesOf returns the bodies of a conditional node.
func bodiesOf(n GraphNode) ([]*Graph, error) {
	w, err := n.Work()
	switch w := w.(type) {
	case *IfNode:
		return []*Graph{w.Then}, nil
	case *SwitchNode:
		return w.Bodies, nil
	}
	return nil, errors.Join(err, ResultInvalidValue)
}

func childOf(n GraphNode) (*Graph, error) {
	w, err := workOf[*ChildNode](n)
	if err != nil {
		return nil, err
	}
	return w.Graph, nil
}
