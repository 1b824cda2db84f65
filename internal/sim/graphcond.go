package sim

import (
	"cmp"
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
)

// This file has conditional nodes: nodes that run one of their graphs, the bodies, or none, as a value
// says that kernels set.

// conditional is the work of a conditional node.
type conditional struct {
	commonWork
	ctx    *context
	handle driver.GraphConditionalHandle
	kind   int32
	number int // of the handle
	bodies []*graph
	// handles are those of the bodies, for whoever adds the node.
	handles []driver.Graph
	// nodes are the copies of the bodies' nodes of an executable graph, in a topological order, and shapes the
	// same as the bodies had them.
	nodes  [][]*node
	shapes []shape
	// refs are the references to user objects of the bodies, in an executable graph.
	refs references
}

func (*conditional) nodeType() nodeType  { return conditionalNode }
func (c *conditional) context() *context { return c.ctx }

func (c *conditional) references() (all references) {
	all.add(c.refs)
	for _, nodes := range c.nodes {
		all.addOf(nodes)
	}
	return all
}

// assign gives the values those that they have at the beginning of a launch.
func (v conditionValues) assign() {
	for _, c := range v {
		if c.assigned {
			c.Store(c.first)
		}
	}
}

// in returns the node that the graph is a body or the child graph of, or nil.
func (g *graph) in() *node { return cmp.Or(g.parent, g.owner) }

// outermost returns the graph that the graph is part of.
func (g *graph) outermost() *graph {
	for n := g.in(); n != nil; n = g.in() {
		g = n.graph
	}
	return g
}

// isConditional reports whether there are handles of values of the whole graph that a graph is part of.
func (d *Driver) isConditional(g *graph) bool {
	whole := g.outermost()
	for _, c := range d.conditions {
		if c.graph == whole {
			return true
		}
	}
	return false
}

// GraphConditionalHandleCreate is cuGraphConditionalHandleCreate.
func (d *Driver) GraphConditionalHandleCreate(_ *driver.Thread, h driver.Graph, ch driver.Context, first,
	flags uint32) (driver.GraphConditionalHandle, driver.Result) {
	const name = "cuGraphConditionalHandleCreate"
	defer d.mu.Unlock()
	g, r := d.graphOf(name, h)
	if r != ok {
		return 0, r
	}
	if flags&^uint32(driver.CU_GRAPH_COND_ASSIGN_DEFAULT) != 0 {
		return 0, driver.ResultInvalidValue
	}
	if ch == 0 {
		return 0, driver.ResultInvalidContext
	}
	c, r := d.nodeContext(name, ch)
	switch {
	case r != ok:
		return 0, r
	case c == nil:
		return 0, driver.ResultInvalidValue
	}
	d.ids.condition++
	if d.conditions == nil {
		d.conditions = make(map[driver.GraphConditionalHandle]*condition)
	}
	d.conditions[driver.GraphConditionalHandle(d.ids.condition)] = &condition{graph: g.outermost(), first: first,
		assigned: flags != 0, number: g.outermost().handles}
	g.outermost().handles++
	return driver.GraphConditionalHandle(d.ids.condition), ok
}

// condWork returns the work of a conditional node, whose bodies exist from now on.
func (d *Driver) condWork(name string, th *driver.Thread, g *graph,
	p *driver.ConditionalNodeParams) (work, driver.Result) {
	if p.Ctx == 0 {
		return nil, driver.ResultInvalidContext
	}
	c, r := d.nodeContext(name, p.Ctx)
	if r != ok {
		return nil, r
	}
	of := d.conditions[p.Handle]
	most := map[int32]uint32{driver.CU_GRAPH_COND_TYPE_IF: 2, driver.CU_GRAPH_COND_TYPE_WHILE: 1,
		driver.CU_GRAPH_COND_TYPE_SWITCH: 1 << 16}[p.Type]
	if of == nil || of.graph != g.outermost() || of.node != nil || p.Size == 0 || p.Size > most ||
		c != d.thread(th).current() {
		return nil, driver.ResultInvalidValue
	}
	cond := &conditional{ctx: c, handle: p.Handle, kind: p.Type, number: of.number}
	for range p.Size {
		b := d.newGraph()
		b.handle = driver.Graph(d.objects.add(partKind, b))
		cond.bodies, cond.handles = append(cond.bodies, b), append(cond.handles, b.handle)
	}
	p.PhGraphOut = &cond.handles[0]
	return cond, ok
}

// adopt makes a node that was added the one of its condition and its bodies, and counts the copy of a child graph.
func (d *Driver) adopt(n *node) {
	countCopy(n.work, 1)
	d.retainForNode(n)
	if c, is := n.work.(*conditional); is {
		d.conditions[c.handle].node = n
		for _, b := range c.bodies {
			b.parent = n
		}
	}
}

// disown destroys the bodies and the child graph of a node.
func (d *Driver) disown(n *node) {
	d.dropChild(n)
	countCopy(n.work, -1)
	d.releaseAll(n.references)
	n.references = nil
	c, is := n.work.(*conditional)
	if !is {
		return
	}
	if of := d.conditions[c.handle]; of != nil {
		of.node = nil
	}
	for _, b := range c.bodies {
		if object, _ := d.objects.find(uintptr(b.handle)); object != b {
			d.misuse("cuGraphDestroy", uintptr(b.handle),
				"a capture into a body has failed, after which NVIDIA's driver "+
					"crashes when it destroys the graph", nil)
			continue
		}
		d.destroyGraph(b)
	}
}

// forgetConditions removes the conditions of a graph that is destroyed.
func (d *Driver) forgetConditions(g *graph) {
	for h, c := range d.conditions {
		if c.graph == g {
			delete(d.conditions, h)
		}
	}
}

// values returns new values for an executable graph of the graph, or false if no node reads one of them.
func (d *Driver) values(g *graph) (v conditionValues, used bool) {
	for h, c := range d.conditions {
		if c.graph != g {
			continue
		}
		if c.node == nil {
			return nil, false
		}
		if v == nil {
			v = make(conditionValues)
		}
		v[h] = &conditionValue{condition: *c}
	}
	return v, true
}

// inBody are the types of nodes that the body of a conditional node can have.
var inBody = []nodeType{kernelNode, memcpyNode, memsetNode, childNode, emptyNode, conditionalNode}

// wrongInBodies returns a node that a body of one of the nodes cannot have, or nil.
func wrongInBodies(nodes []*node, inside bool) *node {
	for _, n := range nodes {
		if inside && !slices.Contains(inBody, n.work.nodeType()) {
			return n
		}
		lists := [][]*node{childNodes(n.current())}
		c, is := n.work.(*conditional)
		if is {
			lists = nil
			for _, b := range c.bodies {
				lists = append(lists, b.nodes)
			}
		}
		for _, list := range lists {
			if wrong := wrongInBodies(list, inside || is); wrong != nil {
				if wrong.handle == 0 { // it is in a child graph
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
func copyBodies(copies map[*node]*node) (cycle *node) {
	for of, made := range maps.Clone(copies) {
		original, is := of.work.(*conditional)
		if !is {
			continue
		}
		c := *original
		c.nodes, c.shapes, c.refs = nil, nil, c.ofBodies()
		for _, b := range c.bodies {
			list, inner, cycle := b.sorted()
			if cycle == nil {
				cycle = copyBodies(inner)
			}
			if cycle != nil {
				return cycle
			}
			c.nodes, c.shapes = append(c.nodes, list), append(c.shapes, b.shape.of(inner))
			maps.Copy(copies, inner)
		}
		made.work = &c
	}
	return nil
}

// ofBodies returns the references to user objects of the bodies.
func (c *conditional) ofBodies() (all references) {
	for _, b := range c.bodies {
		all.add(b.references)
	}
	return all
}

// copiesOf returns the copies of nodes.
func copiesOf(nodes []*node, copies map[*node]*node) []*node {
	list := make([]*node, len(nodes))
	for i, n := range nodes {
		list[i] = copies[n]
	}
	return list
}
