package races

import (
	"slices"
)

// exec is an executable graph.
type exec struct {
	nodes    []execNode
	byHandle map[uintptr]*node // the graph's nodes as they are in nodes
	lanes    []*lane
	tail     *step // the end of the last launch: launches run one after the other
	latest   *work // the last launch, unless the driver has refused it
	// unsure says that a node that records an event may record another one now. So a launch does not
	// replace the record of an event.
	unsure bool
	// of is the graph that it was instantiated from, whose nodes name its nodes, and edits its number
	// of changes then.
	of    *graph
	edits int
	// unsureDisabled says that it is not known which nodes are disabled.
	unsureDisabled bool
}

// execNode is a node and the lane of its steps.
type execNode struct {
	*node
	lane *lane
}

// expanded replaces each node that has a child graph by the nodes of that graph, with a node before
// and one behind them.
func expanded(nodes []*node) (list []*node) {
	for _, n := range nodes {
		if n.child != nil {
			inner, _ := copied(n.child)
			inner = expanded(inner)
			first := &node{deps: n.deps, begins: n.begins}
			n.deps, n.begins, n.child = []*node{first}, nil, nil
			list = append(list, first)
			for _, in := range inner {
				if in.handle = 0; len(in.deps) == 0 {
					in.deps = []*node{first}
				}
				n.deps = append(n.deps, in)
				in.inside = n
			}
			list = append(list, inner...)
		}
		list = append(list, n)
	}
	return list
}

// enterBodies gives conditional nodes the work of their bodies. Of several bodies only one does its work,
// and so one comes after the other here: no two race.
func (d *Detector) enterBodies(nodes []*node) {
	for _, n := range nodes {
		for _, raw := range n.bodies {
			list, _ := copied(d.graph(raw).nodes)
			d.enterBodies(list)
			for _, in := range list {
				if len(in.deps) == 0 {
					in.deps = slices.Clone(n.child)
				}
			}
			n.child = append(n.child, list...)
		}
	}
}

// addUnknown is graph.addUnknown for an executable graph.
func (x *exec) addUnknown(n *node) {
	g := graph{unsure: x.unsure}
	lanes := map[*node]*lane{n: x.lanes[0]}
	for _, other := range x.nodes {
		g.nodes = append(g.nodes, other.node)
		lanes[other.node] = other.lane
	}
	g.addUnknown(n)
	x.nodes, x.unsure = nil, g.unsure
	for _, other := range g.nodes {
		x.nodes = append(x.nodes, execNode{other, lanes[other]})
	}
}

// Instantiate implements [Observer].
func (d *Detector) Instantiate(raw, of uintptr) {
	defer d.enter()()
	g := d.graph(of)
	x := &exec{byHandle: map[uintptr]*node{}, unsure: g.unsure, of: g, edits: g.edits}
	// The launches after an update come after those before it, and so may have their lanes.
	var lanes []*lane
	old := d.executable[raw]
	if old != nil {
		x.tail, lanes = old.tail, old.lanes
		x.of, x.edits, x.unsureDisabled = old.of, old.edits, old.unsureDisabled
	}
	take := func() *lane {
		if len(lanes) > 0 {
			x.lanes, lanes = append(x.lanes, lanes[0]), lanes[1:]
		} else {
			x.lanes = append(x.lanes, d.lanes.take(d.host))
		}
		return x.lanes[len(x.lanes)-1]
	}
	take()
	nodes, copies := copied(g.nodes)
	d.enterBodies(nodes)
	nodes = expanded(nodes)
	if x.of == g && x.edits == g.edits {
		for h, n := range g.byHandle {
			x.byHandle[h] = copies[n]
		}
	} else {
		forgetHandles(nodes) // which node does the work of which is not known
	}
	if old != nil {
		x.keepDisabled(old, nodes)
	}
	// A node continues the lane of a node that it comes after, if no other node does. The first lane
	// is for nodes of setEvent.
	free := map[*node]*lane{}
	for _, n := range nodes {
		var l *lane
		for _, dep := range n.deps {
			if l = free[dep]; l != nil {
				delete(free, dep)
				break
			}
		}
		if l == nil {
			l = take()
		}
		free[n] = l
		x.nodes = append(x.nodes, execNode{n, l})
	}
	for _, l := range lanes {
		d.lanes.end(l)
	}
	d.executable[raw] = x
}

// keepDisabled disables the nodes that were disabled before an update, after which these nodes do
// the work. If it is not known which, each of them may be disabled.
func (x *exec) keepDisabled(old *exec, nodes []*node) {
	for h, n := range old.byHandle {
		if !n.disabled {
			continue
		}
		if now := exactly(x.byHandle, h); now != nil {
			now.disabled = true
		} else {
			x.unsureDisabled = true
		}
	}
	if x.unsureDisabled {
		for _, n := range nodes {
			n.work = nil
		}
	}
}

// Launch implements [Observer].
func (d *Detector) Launch(key Stream, raw uintptr) {
	stack := callers()
	defer d.enter()()
	s, x := d.stream(key), d.executable[raw]
	if x == nil {
		return
	}
	x.latest = nil
	if s.capture != nil {
		return // the driver refuses it
	}
	launch := &work{call: "cuGraphLaunch", stack: stack, on: s.name}
	first := d.enqueue(s, nil, x.tail)
	steps, all := map[*node]*step{}, []*step{first}
	before := map[*node][]*step{} // what comes before each node
	for _, n := range x.nodes {
		deps := []*step{first}
		for _, dep := range n.deps {
			deps = append(deps, steps[dep])
		}
		for _, b := range n.begins {
			deps = append(deps, before[b]...)
		}
		before[n.node] = slices.Clone(deps)
		var w *work
		switch {
		case n.disabled:
		case n.work != nil:
			of := *n.work
			of.launch = launch
			w = &of
		case n.event != 0 && !n.records:
			deps = append(deps, d.before(n.event, PlainEvent)...)
		case n.timeline != nil && !n.signals:
			deps = append(deps, d.reaching(n.timeline, n.value))
		case n.words != nil:
			deps = append(deps, d.operate(n.words, func(after *step) *step {
				return d.add(n.lane, nil, append(deps, after)...)
			}))
		case n.hostFunc != 0:
			deps = append(deps, d.call(n.hostFunc, d.add(n.lane, nil, deps...), launch))
		}
		st := d.add(n.lane, w, deps...)
		switch {
		case n.records:
			if e := d.events[n.event]; e != nil && x.unsure {
				st = d.add(n.lane, nil, st, e.step)
			}
			d.setEvent(n.event, &event{step: st})
		case n.signals:
			d.signal(st, n.timeline, n.value)
		}
		steps[n.node] = st
		all = append(all, st)
	}
	x.tail = d.enqueue(s, nil, all...)
	x.latest = launch
}

// LaunchFailed implements [Observer].
func (d *Detector) LaunchFailed(raw uintptr) {
	defer d.enter()()
	x := d.executable[raw]
	if x == nil || x.latest == nil {
		return
	}
	x.latest.failed = true
	d.forgetRaces(x.latest)
	for _, n := range x.nodes {
		if n.records {
			if e := d.events[n.event]; e != nil && e.before != nil {
				d.events[n.event] = e.before
			}
		}
		if h := d.hostFuncs[n.hostFunc]; h != nil {
			for _, c := range h.waiting {
				if c.launch == x.latest {
					d.open(c.after, nil)
				}
			}
			h.waiting = slices.DeleteFunc(h.waiting, func(c hostCall) bool { return c.launch == x.latest })
		}
	}
	x.latest = nil
}

// ExecDone implements [Observer].
func (d *Detector) ExecDone(raw uintptr) {
	defer d.enter()()
	if x := d.executable[raw]; x != nil {
		d.learn(x.tail)
	}
}

// GraphDestroyed implements [Observer].
func (d *Detector) GraphDestroyed(raw uintptr) {
	defer d.enter()()
	if g := d.described[raw]; g != nil {
		for _, n := range g.nodes {
			d.forgetBodies(n)
		}
	}
	delete(d.described, raw)
}

func (d *Detector) forgetBodies(n *node) {
	for _, raw := range n.bodies {
		if b := d.described[raw]; b != nil {
			for _, in := range b.nodes {
				d.forgetBodies(in)
			}
		}
		delete(d.described, raw)
	}
}

// ExecDestroyed implements [Observer].
func (d *Detector) ExecDestroyed(raw uintptr) {
	defer d.enter()()
	d.endExec(raw)
}

func (d *Detector) endExec(raw uintptr) {
	x := d.executable[raw]
	if x == nil {
		return
	}
	delete(d.executable, raw)
	for _, l := range x.lanes {
		d.lanes.end(l)
	}
}
