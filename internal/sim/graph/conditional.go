package graph

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
)

// Condition is what a handle of a value stands for.
type Condition struct {
	Graph    *Graph // the outermost one
	First    uint32 // the value at the beginning of each launch if Assigned is set
	Assigned bool
	Node     *Node // that reads the value, or nil
	Number   int   // of handles that the graph had before
}

// Values are the values of an executable graph.
type Values map[driver.GraphConditionalHandle]*Value

// Value is the value of a condition in an executable graph.
type Value struct {
	Condition
	atomic.Uint32
}

// Set sets a value, if the executable graph has it.
func (v Values) Set(h uint64, value uint32) bool {
	if c := v[driver.GraphConditionalHandle(h)]; c != nil {
		c.Store(value)
		return true
	}
	return false
}

// Conditional is the work of a conditional node.
type Conditional struct {
	Common
	Context any // as the driver sets it
	Handle  driver.GraphConditionalHandle
	Kind    int32
	Number  int // of the handle
	Bodies  []*Graph
	// Handles are those of the bodies, for whoever adds the node.
	Handles []driver.Graph
	// Nodes are the copies of the bodies' nodes of an executable graph, in a topological order, and Shapes the
	// same as the bodies had them.
	Nodes  [][]*Node
	Shapes []Shape
	// Refs are the references to user objects of the bodies, in an executable graph.
	Refs References
}

// Type implements [Work].
func (*Conditional) Type() Type { return ConditionalNode }

// References implements [Work].
func (c *Conditional) References() (all References) {
	all.Add(c.Refs)
	for _, nodes := range c.Nodes {
		all.addOf(nodes)
	}
	return all
}

// Assign gives the values those that they have at the beginning of a launch.
func (v Values) Assign() {
	for _, c := range v {
		if c.Assigned {
			c.Store(c.First)
		}
	}
}

// Chosen returns the number of the body that a value chooses, or -1.
func (c *Conditional) Chosen(value uint32) int {
	switch {
	case c.Kind == driver.CU_GRAPH_COND_TYPE_SWITCH && value < uint32(len(c.Nodes)):
		return int(value)
	case c.Kind == driver.CU_GRAPH_COND_TYPE_SWITCH:
		return -1
	case value != 0:
		return 0
	case len(c.Nodes) > 1:
		return 1
	}
	return -1
}

// Conditions are what handles of values stand for.
type Conditions map[driver.GraphConditionalHandle]*Condition

// Concerns reports whether there are handles of values of the whole graph that a graph is part of.
func (all Conditions) Concerns(g *Graph) bool {
	whole := g.Outermost()
	for _, c := range all {
		if c.Graph == whole {
			return true
		}
	}
	return false
}

// Forget removes the conditions of a graph that is destroyed.
func (all Conditions) Forget(g *Graph) {
	for h, c := range all {
		if c.Graph == g {
			delete(all, h)
		}
	}
}

// Values returns new values for an executable graph of a graph, or false if no node reads one of them.
func (all Conditions) Values(g *Graph) (v Values, used bool) {
	for h, c := range all {
		if c.Graph != g {
			continue
		}
		if c.Node == nil {
			return nil, false
		}
		if v == nil {
			v = make(Values)
		}
		v[h] = &Value{Condition: *c}
	}
	return v, true
}

// Misplaced returns a node of a body that a body cannot have, or one of the graph with such a child graph, or nil.
func (g *Graph) Misplaced() *Node { return wrongInBodies(g.Nodes, false) }

// wrongInBodies returns a node that a body of one of the nodes cannot have, or nil.
func wrongInBodies(nodes []*Node, inside bool) *Node {
	for _, n := range nodes {
		if inside && !slices.Contains(inBody, n.Work.Type()) {
			return n
		}
		lists := [][]*Node{ChildNodes(n.Current())}
		c, is := n.Work.(*Conditional)
		if is {
			lists = nil
			for _, b := range c.Bodies {
				lists = append(lists, b.Nodes)
			}
		}
		for _, list := range lists {
			if wrong := wrongInBodies(list, inside || is); wrong != nil {
				if wrong.Handle == 0 { // it is in a child graph
					return n
				}
				return wrong
			}
		}
	}
	return nil
}

// copyBodies gives the copies of conditional nodes copies of their bodies' nodes, which are added to
// copies. It returns a node of a cycle, or nil.
func copyBodies(copies map[*Node]*Node) (cycle *Node) {
	for of, made := range maps.Clone(copies) {
		original, is := of.Work.(*Conditional)
		if !is {
			continue
		}
		c := *original
		c.Nodes, c.Shapes, c.Refs = nil, nil, c.ofBodies()
		for _, b := range c.Bodies {
			list, inner, cycle := b.sorted()
			if cycle == nil {
				cycle = copyBodies(inner)
			}
			if cycle != nil {
				return cycle
			}
			c.Nodes, c.Shapes = append(c.Nodes, list), append(c.Shapes, b.Shape.of(inner))
			maps.Copy(copies, inner)
		}
		made.Work = &c
	}
	return nil
}

// ofBodies returns the references to user objects of the bodies.
func (c *Conditional) ofBodies() (all References) {
	for _, b := range c.Bodies {
		all.Add(b.References)
	}
	return all
}

// inBody are the types of nodes that the body of a conditional node can have.
var inBody = []Type{KernelNode, MemcpyNode, MemsetNode, ChildNode, EmptyNode, ConditionalNode}
