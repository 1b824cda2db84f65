package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// This file has conditional nodes: nodes that run one of their graphs, the bodies, or none, as a value
// says that kernels set.

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
		d.conditions = make(graph.Conditions)
	}
	d.conditions[driver.GraphConditionalHandle(d.ids.condition)] = &graph.Condition{Graph: g.Outermost(), First: first,
		Assigned: flags != 0, Number: g.Outermost().Handles}
	g.Outermost().Handles++
	return driver.GraphConditionalHandle(d.ids.condition), ok
}

// condWork returns the work of a conditional node, whose bodies exist from now on.
func (d *Driver) condWork(name string, th *driver.Thread, g *graph.Graph,
	p *driver.ConditionalNodeParams) (graph.Work, driver.Result) {
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
	if of == nil || of.Graph != g.Outermost() || of.Node != nil || p.Size == 0 || p.Size > most ||
		c != d.thread(th).current() {
		return nil, driver.ResultInvalidValue
	}
	cond := &graph.Conditional{Context: c, Handle: p.Handle, Kind: p.Type, Number: of.Number}
	for range p.Size {
		b := &graph.Graph{}
		b.Handle = driver.Graph(d.objects.add(partKind, b))
		cond.Bodies, cond.Handles = append(cond.Bodies, b), append(cond.Handles, b.Handle)
	}
	p.PhGraphOut = &cond.Handles[0]
	return cond, ok
}

// adopt makes a node that was added the one of its condition and its bodies, and counts the copy of a child graph.
func (d *Driver) adopt(n *graph.Node) {
	n.CountCopy(1)
	d.retainForNode(n)
	if c, is := n.Work.(*graph.Conditional); is {
		d.conditions[c.Handle].Node = n
		for _, b := range c.Bodies {
			b.Parent = n
		}
	}
}

// disown destroys the bodies and the child graph of a node.
func (d *Driver) disown(n *graph.Node) {
	d.dropChild(n)
	n.CountCopy(-1)
	d.releaseAll(n.References)
	n.References = nil
	c, is := n.Work.(*graph.Conditional)
	if !is {
		return
	}
	if of := d.conditions[c.Handle]; of != nil {
		of.Node = nil
	}
	for _, b := range c.Bodies {
		if object, _ := d.objects.find(uintptr(b.Handle)); object != b {
			d.misuse("cuGraphDestroy", uintptr(b.Handle),
				"a capture into a body has failed, after which NVIDIA's driver "+
					"crashes when it destroys the graph", nil)
			continue
		}
		d.destroyGraph(b)
	}
}
