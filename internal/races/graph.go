package races

import "slices"

// graphs are the graphs of the program.
type graphs struct {
	described  map[uintptr]*graph
	executable map[uintptr]*exec
}

// graph is a description of work.
type graph struct {
	// nodes are in an order in which each node comes after those that it depends on.
	nodes    []*node
	byHandle map[uintptr]*node
	last     []*node // of the latest capture into the graph
	// unsure says that a node whose handle is not known has another event: see exec.unsure.
	unsure bool
	// edits counts removed nodes and changed edges.
	edits int
}

// node is a node of a graph.
type node struct {
	deps []*node
	work *work
	// The node records an event, or waits for one; both may be later than the capture or AddNode.
	event   uintptr
	records bool
	// The node raises a timeline, or waits for one.
	timeline *timeline
	value    uint64
	signals  bool
	hostFunc uint64
	// handle is the node's handle, or 0 if it is not known.
	handle uintptr
	// child has the nodes of a child graph. Instantiation puts them before the node, as nodes inside it.
	child  []*node
	inside *node
	// disabled says that the node of an executable graph does no work.
	disabled bool
}

// capture is a capture that has not ended.
type capture struct {
	graph   *graph
	streams []*stream
}

// node adds a node to the capture that the stream is part of.
func (s *stream) node(n *node) {
	n.deps = slices.Clone(s.deps)
	s.capture.graph.nodes = append(s.capture.graph.nodes, n)
	s.deps = []*node{n}
}

// join makes a stream part of a capture, because it waits for a captured record, or makes its next
// node come after these nodes.
func (s *stream) join(c *capture, deps []*node) {
	if s.capture == nil && len(c.streams) > 0 {
		s.capture = c
		c.streams = append(c.streams, s)
	}
	if s.capture != c {
		return // the capture has ended, or the driver refuses the wait
	}
	for _, n := range deps {
		if !slices.Contains(s.deps, n) {
			s.deps = append(s.deps, n)
		}
	}
}

// find returns the nodes with these handles. For a node whose handle is not known it returns all.
func (g *graph) find(handles []uintptr) []*node {
	var nodes []*node
	for _, h := range handles {
		n := g.byHandle[h]
		if n == nil {
			return slices.Clone(g.nodes)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// name gives a node its handle.
func (g *graph) name(h uintptr, n *node) {
	if g.byHandle == nil {
		g.byHandle = map[uintptr]*node{}
	}
	g.byHandle[h] = n
}

func (d *Detector) graph(raw uintptr) *graph {
	g := d.described[raw]
	if g == nil {
		g = new(graph)
		d.described[raw] = g
	}
	return g
}

// BeginCapture implements [Observer].
func (d *Detector) BeginCapture(key Stream, into uintptr, after []uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, g := d.stream(key), new(graph)
	if into != 0 {
		g = d.graph(into)
	}
	s.capture, s.deps = &capture{graph: g, streams: []*stream{s}}, g.find(after)
}

// EndCapture implements [Observer].
func (d *Detector) EndCapture(key Stream, raw uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stream(key)
	c := s.capture
	if c == nil {
		return
	}
	c.graph.last = s.deps
	if raw != 0 {
		d.described[raw] = c.graph
	}
	for _, s := range c.streams {
		s.capture, s.deps = nil, nil
	}
	c.streams = nil
}

// NewGraph implements [Observer].
func (d *Detector) NewGraph(raw, from uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := new(graph)
	if of := d.described[from]; from != 0 && of != nil {
		g.nodes, _ = copied(of.nodes)
		forgetHandles(g.nodes) // a clone's nodes have handles of their own
		g.unsure = of.unsure
	}
	d.described[raw] = g
}

// copied returns copies of nodes, and the copy of each node.
func copied(nodes []*node) (list []*node, of map[*node]*node) {
	of = make(map[*node]*node, len(nodes))
	for _, n := range nodes {
		c := *n
		c.deps = make([]*node, len(n.deps))
		for i, dep := range n.deps {
			c.deps[i] = of[dep]
		}
		of[n] = &c
		list = append(list, &c)
	}
	return list, of
}

// forgetHandles makes the handles of nodes unknown.
func forgetHandles(nodes []*node) {
	for _, n := range nodes {
		n.handle = 0
	}
}

// AddNode implements [Observer].
func (d *Detector) AddNode(raw, handle uintptr, after []uintptr, w NodeWork) {
	stack := callers()
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.graph(raw)
	n := &node{deps: g.find(after)}
	d.does(n, w, stack)
	g.nodes = append(g.nodes, n)
	g.name(handle, n)
	n.handle = handle
}

// does says what a node does from now on.
func (d *Detector) does(n *node, w NodeWork, stack []uintptr) {
	n.work, n.event, n.records, n.hostFunc = nil, w.Event, w.Event != 0 && !w.Waits, w.HostFunc
	n.timeline, n.child = nil, nil
	if of := d.described[w.Graph]; w.Graph != 0 && of != nil {
		n.child, _ = copied(of.nodes)
	}
	if w.Uses != nil {
		n.work = &work{call: w.Call, detail: w.Detail, uses: w.Uses, stack: stack}
	}
	if h := d.hostFuncs[w.HostFunc]; h != nil {
		h.inGraph = true
	}
}

// exactly returns the node with a handle, or nil if it is not known which of the captured nodes has it.
func exactly(byHandle map[uintptr]*node, handle uintptr) *node {
	if n := byHandle[handle]; n != nil && n.handle == handle {
		return n
	}
	return nil
}

// blind makes the detector forget what a captured node does whose handle is not known, because one of
// these nodes does something else now.
func (n *node) blind() {
	if n.handle == 0 {
		n.work = nil
	}
}

// sort restores the order of the nodes, unless there is a cycle.
func (g *graph) sort() {
	sorted, done := make([]*node, 0, len(g.nodes)), map[*node]bool{}
	for len(sorted) < len(g.nodes) {
		before := len(sorted)
		for _, n := range g.nodes {
			if !done[n] && !slices.ContainsFunc(n.deps, func(dep *node) bool { return !done[dep] }) {
				done[n] = true
				sorted = append(sorted, n)
			}
		}
		if len(sorted) == before {
			return // the driver will not instantiate the graph
		}
	}
	g.nodes = sorted
}

// EnableNode implements [Observer].
func (d *Detector) EnableNode(raw, handle uintptr, enabled bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.executable[raw]
	if x == nil {
		return
	}
	if n := exactly(x.byHandle, handle); n != nil {
		n.disabled = !enabled
		return
	}
	x.unsureDisabled = true
	for _, n := range x.nodes {
		n.blind()
	}
}

// RemoveNode implements [Observer].
func (d *Detector) RemoveNode(raw, handle uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.graph(raw)
	g.edits++
	n := exactly(g.byHandle, handle)
	delete(g.byHandle, handle)
	if n == nil {
		for _, n := range g.nodes {
			n.blind()
		}
		return
	}
	is := func(other *node) bool { return other == n }
	g.nodes = slices.DeleteFunc(g.nodes, is)
	for _, other := range g.nodes {
		other.deps = slices.DeleteFunc(other.deps, is)
	}
}

// AddEdge implements [Observer].
func (d *Detector) AddEdge(raw, from, to uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.graph(raw)
	g.edits++
	a, b := exactly(g.byHandle, from), exactly(g.byHandle, to)
	if a == nil || b == nil {
		for _, n := range g.nodes {
			n.work = nil // each of them may be ordered by the edge
		}
		return
	}
	if !slices.Contains(b.deps, a) {
		b.deps = append(b.deps, a)
	}
	g.sort()
}

// RemoveEdge implements [Observer].
func (d *Detector) RemoveEdge(raw, from, to uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.graph(raw)
	g.edits++
	a, b := exactly(g.byHandle, from), exactly(g.byHandle, to)
	if a == nil || b == nil {
		return // an order that does not exist hides races, but reports none
	}
	b.deps = slices.DeleteFunc(b.deps, func(n *node) bool { return n == a })
}

// LastNodes implements [Observer].
func (d *Detector) LastNodes(raw uintptr, handles []uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.graph(raw)
	last := g.last
	if len(handles) == 0 || len(last) == 0 {
		return
	}
	if len(handles) == 1 && len(last) == 1 {
		g.name(handles[0], last[0])
		last[0].handle = handles[0]
		return
	}
	// Which node has which handle is not known. A node behind all of them stands for each.
	all := &node{deps: slices.Clone(last)}
	g.nodes = append(g.nodes, all)
	for _, h := range handles {
		if g.byHandle[h] == nil {
			g.name(h, all)
		}
	}
}

// SetNode implements [Observer].
func (d *Detector) SetNode(raw, handle uintptr, w NodeWork) {
	stack := callers()
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.executable[raw]
	if x != nil {
		switch n := exactly(x.byHandle, handle); {
		case n != nil && w.Graph != 0:
			x.replaceInside(n, d.described[w.Graph])
			return
		case n != nil:
			d.does(n, w, stack)
			return
		}
	} else if n := exactly(d.graph(raw).byHandle, handle); n != nil {
		d.does(n, w, stack)
		return
	}
	// It is not known which node has other work. What it does comes after everything else, or, if it is
	// a wait, before: so the detector finds fewer races, but none that does not exist.
	n := new(node)
	d.does(n, NodeWork{Event: w.Event, Waits: w.Waits, HostFunc: w.HostFunc}, nil)
	switch {
	case x != nil && w.Graph != 0:
		x.replaceInside(nil, d.described[w.Graph])
	case x != nil:
		x.addUnknown(n)
	default:
		d.graph(raw).addUnknown(n)
	}
}

// replaceInside replaces the child graph of a node, or of one that is not known if n is nil. Which
// node of the new child graph takes the place of which old one is not known.
func (x *exec) replaceInside(n *node, child *graph) {
	inside := func(in execNode) bool { return n != nil && in.inside == n }
	for _, in := range x.nodes {
		if inside(in) {
			in.work, in.hostFunc = nil, 0
		}
	}
	x.addUnknown(new(node))
	if child == nil {
		return
	}
	nodes, _ := copied(child.nodes)
	for _, c := range expanded(nodes) {
		if slices.ContainsFunc(x.nodes, func(in execNode) bool { return inside(in) && in.orders(c) }) {
			continue
		}
		x.addUnknown(&node{event: c.event, records: c.records, timeline: c.timeline, value: c.value, signals: c.signals,
			hostFunc: c.hostFunc, inside: n})
	}
}

// orders reports whether the node records, raises, calls or waits for the same as another one,
// which may be nothing.
func (n *node) orders(other *node) bool {
	return n.event == other.event && n.records == other.records && n.hostFunc == other.hostFunc &&
		n.timeline == other.timeline && n.value == other.value && n.signals == other.signals
}

// addUnknown adds what a node does that is not known.
func (g *graph) addUnknown(n *node) {
	for _, other := range g.nodes {
		other.blind()
	}
	switch {
	case n.event == 0 && n.hostFunc == 0 && n.timeline == nil:
		return
	case n.event != 0 && !n.records, n.timeline != nil && !n.signals:
		for _, other := range g.nodes {
			if len(other.deps) == 0 {
				other.deps = []*node{n}
			}
		}
		g.nodes = slices.Insert(g.nodes, 0, n)
	default:
		n.deps = slices.Clone(g.nodes)
		g.nodes = append(g.nodes, n)
	}
	g.unsure = g.unsure || n.event != 0
}

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
			first := &node{deps: n.deps}
			n.deps, n.child = []*node{first}, nil
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
	d.mu.Lock()
	defer d.mu.Unlock()
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
	d.mu.Lock()
	defer d.mu.Unlock()
	s, x := d.stream(key), d.executable[raw]
	if x == nil {
		return
	}
	x.latest = nil
	if s.capture != nil {
		return // the driver refuses it
	}
	launch := &work{call: "cuGraphLaunch", stack: stack, stream: s}
	first := d.enqueue(s, nil, x.tail)
	steps, all := map[*node]*step{}, []*step{first}
	for _, n := range x.nodes {
		deps := []*step{first}
		for _, dep := range n.deps {
			deps = append(deps, steps[dep])
		}
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
	d.mu.Lock()
	defer d.mu.Unlock()
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
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.executable[raw]; x != nil {
		d.learn(x.tail)
	}
}

// GraphDestroyed implements [Observer].
func (d *Detector) GraphDestroyed(raw uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.described, raw)
}

// ExecDestroyed implements [Observer].
func (d *Detector) ExecDestroyed(raw uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
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
