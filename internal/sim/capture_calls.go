package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// CheckFirst returns the result of what a call checks before its arguments, or ok. With inContext it needs a current
// context; with uncaptured it is forbidden while somebody captures. It meets no faults: see MeetFault.
func (d *Driver) CheckFirst(th *driver.Thread, inContext, uncaptured bool) driver.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine.CatchUp()
	return d.checkFirst(th, inContext, uncaptured)
}

// abandon takes a stream that is destroyed out of its capture. It ends with its origin;
// what others did has to have been joined nevertheless.
func (d *Driver) abandon(s *stream) {
	c := s.capture
	if c.origin == s {
		c.invalidated = true
		d.finish(c)
		return
	}
	c.lost = append(c.lost, s.deps...)
	c.streams = slices.DeleteFunc(c.streams, func(other *stream) bool { return other == s })
	s.capture, s.deps = nil, nil
}

// finish ends a capture. If the program does not get the graph, it is destroyed, even if the program
// had created it.
func (d *Driver) finish(c *capture) {
	for _, s := range c.streams {
		s.capture, s.deps = nil, nil
	}
	if !c.taken {
		if whole := c.graph.Outermost(); whole != c.graph {
			d.objects.lose(uintptr(whole.Handle)) // NVIDIA's driver crashes when it destroys the graph
		}
		if n := c.graph.Owner; n != nil { // the node keeps what the child graph has
			n.Work, n.Child = n.Current(), nil
			d.retainForNode(n)
		}
		d.destroyGraph(c.graph)
	}
	c.forgetEvents()
	d.captures = slices.DeleteFunc(d.captures, func(other *capture) bool { return other == c })
}

// inCapture reports whether a capture adds nodes to a graph, or to a graph within it. Meanwhile CUDA does not
// permit to destroy the graph, or nodes of it.
func (d *Driver) inCapture(name string, g *graph.Graph, h uintptr) bool {
	is := slices.ContainsFunc(d.captures, func(c *capture) bool { return c.graph.Within(g) })
	if is {
		d.misuse(name, h, "a stream is captured into the graph", nil)
	}
	return is
}

// StreamBeginCapture is cuStreamBeginCapture_v2.
func (d *Driver) StreamBeginCapture(th *driver.Thread, h driver.Stream, mode int32) driver.Result {
	defer d.mu.Unlock()
	return d.beginCapture("cuStreamBeginCapture", th, h, mode, func() (*graph.Graph, []graph.Edge, driver.Result) {
		return &graph.Graph{}, nil, ok
	})
}

// StreamBeginCaptureToGraph is cuStreamBeginCaptureToGraph: what is captured becomes
// part of a graph that there is already, after some of its nodes.
func (d *Driver) StreamBeginCaptureToGraph(th *driver.Thread, h driver.Stream, gh driver.Graph, deps []driver.GraphNode,
	edges []driver.GraphEdgeData, mode int32) driver.Result {
	const name = "cuStreamBeginCaptureToGraph"
	defer d.mu.Unlock()
	return d.beginCapture(name, th, h, mode, func() (*graph.Graph, []graph.Edge, driver.Result) {
		if gh == 0 {
			return nil, nil, driver.ResultInvalidValue
		}
		g, r := find[graph.Graph](d, name, graphKind, uintptr(gh))
		if r != ok {
			return nil, nil, driver.ResultInvalidValue
		}
		nodes, r := d.nodesOf(name, g, deps)
		if r != ok {
			return nil, nil, r
		}
		to, r := toCaptured(nodes, edges)
		return g, to, r
	})
}

// toCaptured returns edges from nodes to the next one of a capture. As on an H200, data that edges from such nodes
// cannot have is invalid, and the next node need not be one to which such an edge can go elsewhere.
func toCaptured(from []*graph.Node, data []driver.GraphEdgeData) ([]graph.Edge, driver.Result) {
	if data != nil && len(data) != len(from) {
		return nil, driver.ResultInvalidValue
	}
	edges := graph.Dependencies(from, data)
	if slices.ContainsFunc(edges, func(e graph.Edge) bool { return !e.From.Begins(e.Data) }) {
		return nil, driver.ResultInvalidValue
	}
	return edges, ok
}

// beginCapture begins a capture into a graph, after some of its nodes.
func (d *Driver) beginCapture(name string, th *driver.Thread, h driver.Stream, mode int32,
	into func() (*graph.Graph, []graph.Edge, driver.Result)) driver.Result {
	s, t, r := d.askStream(name, th, h)
	switch {
	case r != ok && r != driver.ResultInvalidContext && !r.Sticky():
		return r
	case mode < driver.CU_STREAM_CAPTURE_MODE_GLOBAL || mode > driver.CU_STREAM_CAPTURE_MODE_RELAXED:
		return driver.ResultInvalidValue
	case r != ok:
		return r
	case s.kind == legacyStream:
		if r := d.legacyFree(s.ctx); r != ok {
			return r
		}
		return driver.ResultStreamCaptureUnsupported
	case s.capture != nil:
		return driver.ResultIllegalState
	}
	g, deps, r := into()
	if r != ok {
		return r
	}
	d.ids.capture++
	c := &capture{
		id: d.ids.capture, mode: mode, thread: t.id, osThread: th.Number(), origin: s, streams: []*stream{s},
		graph: g,
	}
	s.capture, s.deps = c, deps
	d.captures = append(d.captures, c)
	return ok
}

// StreamEndCapture is cuStreamEndCapture.
func (d *Driver) StreamEndCapture(th *driver.Thread, h driver.Stream) (driver.Graph, driver.Result) {
	defer d.mu.Unlock()
	s, t, r := d.onStream("cuStreamEndCapture", th, h)
	if r != ok {
		return 0, r
	}
	c := s.capture
	switch {
	case c == nil:
		return 0, driver.ResultIllegalState
	case c.origin != s:
		return 0, d.invalidate(c, driver.ResultStreamCaptureUnmatched)
	}
	joined, here := c.joined(), c.mode == driver.CU_STREAM_CAPTURE_MODE_RELAXED || c.thread == t.id
	c.taken = joined && here && !c.invalidated
	d.finish(c)
	switch {
	case c.invalidated:
		return 0, driver.ResultStreamCaptureInvalidated
	case !joined:
		return 0, driver.ResultStreamCaptureUnjoined
	case !here:
		return 0, driver.ResultStreamCaptureWrongThread
	}
	return d.handleOf(c.graph), ok
}

// joined reports whether the origin comes after everything that other streams did.
func (c *capture) joined() bool {
	reached := graph.Reached(c.origin.deps)
	ends := slices.Clone(c.lost)
	for _, s := range c.streams {
		ends = append(ends, s.deps...)
	}
	return !slices.ContainsFunc(ends, func(e graph.Edge) bool { return !reached[e.From] })
}

// captureStatus returns what a stream's capture is like.
func (s *stream) captureStatus() int32 {
	switch {
	case s.capture == nil:
		return driver.CU_STREAM_CAPTURE_STATUS_NONE
	case s.capture.invalidated:
		return driver.CU_STREAM_CAPTURE_STATUS_INVALIDATED
	}
	return driver.CU_STREAM_CAPTURE_STATUS_ACTIVE
}

// StreamIsCapturing is cuStreamIsCapturing.
func (d *Driver) StreamIsCapturing(th *driver.Thread, h driver.Stream) (int32, driver.Result) {
	defer d.mu.Unlock()
	s, _, r := d.askStream("cuStreamIsCapturing", th, h)
	if r == ok {
		r = s.implicit()
	}
	if r != ok {
		return 0, r
	}
	return s.captureStatus(), ok
}

// implicit is for calls that ask about a capture: the legacy default stream cannot
// say, while a blocking stream is being captured.
func (s *stream) implicit() driver.Result {
	if s.kind == legacyStream {
		for _, other := range s.ctx.streams {
			if other.blocking() && other.capture != nil {
				return driver.ResultStreamCaptureImplicit
			}
		}
	}
	return ok
}

// dependencies returns the dependencies of the next node of the stream's capture, and the data of the edges.
func (s *stream) dependencies() (deps, data driver.HostPtr) {
	t := &s.depArrays
	t.nodes, t.data = t.nodes[:0], t.data[:0]
	for _, e := range s.deps {
		t.nodes, t.data = append(t.nodes, e.From.Handle), append(t.data, e.Data)
	}
	return arrayOf(t.nodes), arrayOf(t.data)
}

// StreamGetCaptureInfoV2 is cuStreamGetCaptureInfo_v2.
func (d *Driver) StreamGetCaptureInfoV2(th *driver.Thread, h driver.Stream) (status int32, id uint64, g driver.Graph,
	deps driver.HostPtr, n uint64, r driver.Result) {
	status, id, g, deps, _, n, r = d.StreamGetCaptureInfoV3(th, h)
	return status, id, g, deps, n, r
}

// StreamGetCaptureInfoV3 is cuStreamGetCaptureInfo_v3.
func (d *Driver) StreamGetCaptureInfoV3(th *driver.Thread, h driver.Stream) (status int32, id uint64, g driver.Graph,
	deps, edges driver.HostPtr, n uint64, r driver.Result) {
	defer d.mu.Unlock()
	s, _, r := d.askStream("cuStreamGetCaptureInfo", th, h)
	if r == ok {
		r = s.implicit()
	}
	if r != ok || s.capture == nil {
		return 0, 0, 0, 0, 0, 0, r
	}
	c := s.capture
	if c.invalidated {
		return s.captureStatus(), 0, 0, 0, 0, 0, ok // the status, and nothing else
	}
	deps, edges = s.dependencies()
	return s.captureStatus(), c.id, d.handleOf(c.graph), deps, edges, uint64(len(s.deps)), ok
}

// handleOf returns the handle of a graph, which a graph of a capture gets late.
func (d *Driver) handleOf(g *graph.Graph) driver.Graph {
	if g.Handle == 0 {
		g.Handle = driver.Graph(d.objects.add(graphKind, g))
	}
	return g.Handle
}

// StreamUpdateCaptureDependencies is cuStreamUpdateCaptureDependencies.
func (d *Driver) StreamUpdateCaptureDependencies(th *driver.Thread, h driver.Stream, deps []driver.GraphNode,
	flags uint32) driver.Result {
	return d.StreamUpdateCaptureDependenciesV2(th, h, deps, nil, flags)
}

// StreamUpdateCaptureDependenciesV2 is cuStreamUpdateCaptureDependencies_v2. As on an H200, the same node
// may be given twice.
func (d *Driver) StreamUpdateCaptureDependenciesV2(th *driver.Thread, h driver.Stream, deps []driver.GraphNode,
	data []driver.GraphEdgeData, flags uint32) driver.Result {
	const name = "cuStreamUpdateCaptureDependencies"
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, h)
	if r != ok {
		return r
	}
	c := s.capture
	switch {
	case c == nil:
		return driver.ResultIllegalState
	case c.invalidated:
		return driver.ResultStreamCaptureInvalidated
	case flags > driver.CU_STREAM_SET_CAPTURE_DEPENDENCIES:
		return driver.ResultInvalidValue
	}
	var nodes []*graph.Node
	for i := range deps {
		n, r := d.nodesOf(name, c.graph, deps[i:i+1])
		if r != ok {
			return r
		}
		nodes = append(nodes, n...)
	}
	edges, r := toCaptured(nodes, data)
	if r != ok {
		return r
	}
	if flags == driver.CU_STREAM_SET_CAPTURE_DEPENDENCIES {
		s.deps = nil
	}
	s.dependOn(edges)
	return ok
}

// ThreadExchangeStreamCaptureMode is cuThreadExchangeStreamCaptureMode. Like NVIDIA's
// driver it takes modes that do not exist; here they are neither global nor relaxed.
func (d *Driver) ThreadExchangeStreamCaptureMode(th *driver.Thread, mode int32) (int32, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuThreadExchangeStreamCaptureMode"); r != ok {
		return 0, r
	}
	t := d.thread(th)
	old := t.mode
	if th != nil {
		t.mode = mode
	}
	return old, ok
}
