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
	// begins are nodes after whose beginning the node begins.
	begins []*node
	work   *work
	// The node records an event, or waits for one; both may be later than the capture or AddNode.
	event   uintptr
	records bool
	// The node raises a timeline, or waits for one.
	timeline *timeline
	value    uint64
	signals  bool
	words    []WordOp
	hostFunc uint64
	// handle is the node's handle, or 0 if it is not known.
	handle uintptr
	// child has the nodes of a child graph. Instantiation puts them before the node, as nodes inside it.
	child  []*node
	inside *node
	// bodies are graphs whose work becomes that of child.
	bodies []uintptr
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
	defer d.enter()()
	s, g := d.stream(key), new(graph)
	if into != 0 {
		g = d.graph(into)
	}
	s.capture, s.deps = &capture{graph: g, streams: []*stream{s}}, g.find(after)
}

// EndCapture implements [Observer].
func (d *Detector) EndCapture(key Stream, raw uintptr) {
	defer d.enter()()
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
	defer d.enter()()
	g := new(graph)
	if of := d.described[from]; from != 0 && of != nil {
		g.nodes, _ = copied(of.nodes)
		forgetHandles(g.nodes) // a clone's nodes have handles of their own
		g.unsure = of.unsure
	}
	d.described[raw] = g
}

// ChildGraph implements [Observer]. If it is not known which node it is, the graph gets what orders other
// work of all nodes, and none of the work: so the detector finds fewer races, but none that does not exist.
func (d *Detector) ChildGraph(raw, of, handle uintptr) {
	defer d.enter()()
	parent, g := d.graph(of), new(graph)
	if n := exactly(parent.byHandle, handle); n != nil {
		g.nodes, _ = copied(n.child)
	} else {
		nodes, _ := copied(parent.nodes)
		g.nodes = expanded(nodes)
		for _, n := range g.nodes {
			n.work = nil
		}
	}
	forgetHandles(g.nodes)
	g.unsure = parent.unsure
	d.described[raw] = g
}

// copied returns copies of nodes, and the copy of each node.
func copied(nodes []*node) (list []*node, of map[*node]*node) {
	of = make(map[*node]*node, len(nodes))
	for _, n := range nodes {
		c := *n
		c.deps, c.begins = copiesOf(n.deps, of), copiesOf(n.begins, of)
		of[n] = &c
		list = append(list, &c)
	}
	return list, of
}

func copiesOf(nodes []*node, of map[*node]*node) []*node {
	list := make([]*node, len(nodes))
	for i, n := range nodes {
		list[i] = of[n]
	}
	return list
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
	defer d.enter()()
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
	n.timeline, n.words, n.child, n.bodies = nil, w.Words, nil, w.Bodies
	if w.Timeline != 0 {
		n.timeline, n.value, n.signals = d.timeline(w.Timeline), w.Value, !w.Waits
	}
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
	missing := func(n *node) bool { return !done[n] }
	for len(sorted) < len(g.nodes) {
		before := len(sorted)
		for _, n := range g.nodes {
			if !done[n] && !slices.ContainsFunc(n.deps, missing) && !slices.ContainsFunc(n.begins, missing) {
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
	defer d.enter()()
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
	defer d.enter()()
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
		other.deps, other.begins = slices.DeleteFunc(other.deps, is), slices.DeleteFunc(other.begins, is)
	}
}

// AddEdge implements [Observer].
func (d *Detector) AddEdge(raw, from, to uintptr, begins bool) {
	defer d.enter()()
	g := d.graph(raw)
	g.edits++
	a, b := exactly(g.byHandle, from), exactly(g.byHandle, to)
	if a == nil || b == nil {
		for _, n := range g.nodes {
			n.work = nil // each of them may be ordered by the edge
		}
		return
	}
	list := &b.deps
	if begins {
		list = &b.begins
	}
	if !slices.Contains(*list, a) {
		*list = append(*list, a)
	}
	g.sort()
}

// RemoveEdge implements [Observer].
func (d *Detector) RemoveEdge(raw, from, to uintptr) {
	defer d.enter()()
	g := d.graph(raw)
	g.edits++
	a, b := exactly(g.byHandle, from), exactly(g.byHandle, to)
	if a == nil || b == nil {
		return // an order that does not exist hides races, but reports none
	}
	is := func(n *node) bool { return n == a }
	b.deps, b.begins = slices.DeleteFunc(b.deps, is), slices.DeleteFunc(b.begins, is)
}

// LastNodes implements [Observer].
func (d *Detector) LastNodes(raw uintptr, handles []uintptr) {
	defer d.enter()()
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
	defer d.enter()()
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
	d.does(n, NodeWork{Event: w.Event, Waits: w.Waits, HostFunc: w.HostFunc, Words: w.Words}, nil)
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
			words: c.words, hostFunc: c.hostFunc, inside: n})
	}
}

// orders reports whether the node records, raises, calls or waits for the same as another one,
// which may be nothing.
func (n *node) orders(other *node) bool {
	return n.event == other.event && n.records == other.records && n.hostFunc == other.hostFunc &&
		n.timeline == other.timeline && n.value == other.value && n.signals == other.signals &&
		slices.Equal(n.words, other.words)
}

// addUnknown adds what a node does that is not known.
func (g *graph) addUnknown(n *node) {
	for _, other := range g.nodes {
		other.blind()
	}
	switch {
	case n.event == 0 && n.hostFunc == 0 && n.timeline == nil && n.words == nil:
		return
	case n.event != 0 && !n.records, n.timeline != nil && !n.signals, slices.ContainsFunc(n.words, WordOp.waits):
		n.words = slices.DeleteFunc(slices.Clone(n.words), func(op WordOp) bool { return !op.Waits })
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
