package sim

import (
	"cmp"
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
)

// GraphInstantiateWithFlags is cuGraphInstantiateWithFlags.
func (d *Driver) GraphInstantiateWithFlags(th *driver.Thread, h driver.Graph, flags uint64) (driver.GraphExec,
	driver.Result) {
	defer d.mu.Unlock()
	x, _, r := d.instantiate("cuGraphInstantiateWithFlags", th, h, flags)
	return x, r
}

// GraphInstantiateWithParams is cuGraphInstantiateWithParams.
func (d *Driver) GraphInstantiateWithParams(th *driver.Thread, h driver.Graph,
	p driver.GraphInstantiateParams) (driver.GraphExec, driver.GraphInstantiateParams, driver.Result) {
	const name = "cuGraphInstantiateWithParams"
	defer d.mu.Unlock()
	p.HErrNodeOut, p.ResultOut = 0, driver.CUDA_GRAPH_INSTANTIATE_ERROR
	h2, wrong, r := d.instantiate(name, th, h, p.Flags)
	if r != ok {
		if wrong != nil {
			p.HErrNodeOut, p.ResultOut = wrong.handle, wrong.why
		}
		return 0, p, r
	}
	p.ResultOut = driver.CUDA_GRAPH_INSTANTIATE_SUCCESS
	if p.Flags&driver.CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD != 0 {
		x, _ := d.execOf(name, h2)
		s, r := d.stream(name, d.thread(th), p.HUploadStream)
		if r == ok {
			r = d.uncaptured(s)
		}
		if r != ok {
			d.destroyExec(x)
			return 0, p, r
		}
		d.upload(x, s)
	}
	return h2, p, ok
}

// wrongNode is a node that cannot be instantiated.
type wrongNode struct {
	handle driver.GraphNode
	why    int32 // a CUDA_GRAPH_INSTANTIATE_… constant
}

// instantiate makes an executable graph.
func (d *Driver) instantiate(name string, th *driver.Thread, h driver.Graph,
	flags uint64) (driver.GraphExec, *wrongNode, driver.Result) {
	g, r := d.graphOf(name, h)
	c := d.thread(th).current()
	if r == ok {
		r = d.live(c)
	}
	if r == ok {
		r = d.forbidden(d.thread(th), nil)
	}
	if r != ok {
		return 0, nil, r
	}
	if flags&^15 != 0 {
		return 0, nil, driver.ResultInvalidValue
	}
	x := &exec{ctx: c, source: slices.Clone(g.nodes), graph: g, added: g.added, flags: flags}
	if flags&driver.CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH != 0 {
		for _, n := range g.nodes {
			if n.work.node > memsetNode && n.work.node != childNode {
				return 0, &wrongNode{n.handle, driver.CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED},
					driver.ResultInvalidValue
			}
		}
	}
	values, used := d.values(g)
	if !used {
		return 0, &wrongNode{0, driver.CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED}, driver.ResultInvalidValue
	}
	if g.parent != nil || g.execs > 0 && g.isUnique() {
		return 0, nil, driver.ResultNotSupported
	}
	if wrong := wrongInBodies(g.nodes, false); wrong != nil {
		return 0, &wrongNode{wrong.handle, driver.CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED},
			driver.ResultInvalidValue
	}
	var cycle *node
	if x.nodes, x.copies, cycle = g.sorted(); cycle == nil {
		cycle = copyBodies(x.copies)
	}
	x.values = values
	if cycle != nil {
		return 0, &wrongNode{cycle.handle, driver.CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE}, driver.ResultInvalidValue
	}
	for _, n := range x.nodes {
		if n.work.alloc != nil {
			n.work.alloc.refs++
			n.work.alloc.instantiated = n.work.alloc.instantiated || n.work.node == allocNode && !n.work.alloc.frees()
		}
	}
	g.execs++
	x.handle = driver.GraphExec(d.objects.add(graphExecKind, x))
	return x.handle, nil, ok
}

// isUnique reports whether the graph can have one executable graph at a time.
func (g *graph) isUnique() bool {
	return g.allocates() || slices.ContainsFunc(g.nodes, func(n *node) bool { return n.work.cond != nil })
}

// sorted returns copies of the nodes in a topological order, or a node that waits for a cycle. The
// copies are by the graph's nodes, too.
func (g *graph) sorted() (list []*node, copies map[*node]*node, cycle *node) {
	order, cycle := g.order()
	if cycle != nil {
		return nil, nil, cycle
	}
	copies = make(map[*node]*node, len(g.nodes))
	for _, of := range order {
		made := &node{graph: g, work: of.current(), number: of.number}
		made.follow(of, copies)
		copies[of] = made
		list = append(list, made)
	}
	return list, copies, nil
}

// order returns the nodes in a topological order, or the last node that waits for a cycle. It is the
// order in which nodes are found by passes over the list of nodes, each of which takes a node if those
// before it were taken.
func (g *graph) order() (list []*node, cycle *node) {
	type place struct {
		index, pass, before int
		later               []*node
	}
	places := make(map[*node]*place, len(g.nodes))
	for i, n := range g.nodes {
		places[n] = &place{index: i, before: len(n.after)}
	}
	var ready []*node
	for _, n := range g.nodes {
		for _, b := range n.after {
			places[b].later = append(places[b].later, n)
		}
		if len(n.after) == 0 {
			ready = append(ready, n)
		}
	}
	for len(ready) > 0 {
		p := places[ready[len(ready)-1]]
		ready = ready[:len(ready)-1]
		for _, n := range p.later {
			q := places[n]
			if q.pass = max(q.pass, p.pass); p.index > q.index {
				q.pass = max(q.pass, p.pass+1)
			}
			if q.before--; q.before == 0 {
				ready = append(ready, n)
			}
		}
	}
	for _, n := range slices.Backward(g.nodes) {
		if places[n].before > 0 {
			return nil, n
		}
	}
	list = slices.Clone(g.nodes)
	slices.SortStableFunc(list, func(a, b *node) int { return cmp.Compare(places[a].pass, places[b].pass) })
	return list, nil
}

// GraphExecUpdate is cuGraphExecUpdate. On an H200, it looks at the first node first.
func (d *Driver) GraphExecUpdate(_ *driver.Thread, h driver.GraphExec, g driver.Graph) (driver.GraphNode, int32,
	driver.Result) {
	return d.updateExec(h, g, true)
}

// GraphExecUpdateV2 is cuGraphExecUpdate_v2.
func (d *Driver) GraphExecUpdateV2(_ *driver.Thread, h driver.GraphExec, g driver.Graph) (
	info driver.GraphExecUpdateResultInfo, r driver.Result) {
	info.ErrorNode, info.Result, r = d.updateExec(h, g, false)
	return info, r
}

// updateExec gives an executable graph the work of another graph with the same structure.
func (d *Driver) updateExec(h driver.GraphExec, gh driver.Graph,
	forwards bool) (driver.GraphNode, int32, driver.Result) {
	const name = "cuGraphExecUpdate"
	defer d.mu.Unlock()
	g, r := d.graphOf(name, gh)
	if r != ok {
		return 0, driver.CU_GRAPH_EXEC_UPDATE_ERROR, r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return 0, driver.CU_GRAPH_EXEC_UPDATE_ERROR, r
	}
	if !forwards && g != x.graph && g.execs > 0 && g.isUnique() { // as on an H200, which names no reason
		return 0, driver.CU_GRAPH_EXEC_UPDATE_SUCCESS, driver.ResultNotSupported
	}
	for _, n := range g.nodes {
		n.work = n.current()
	}
	counterpart, own := make(map[*node]*node), copiesOf(x.source, x.copies) // by the other graph's nodes
	// cuGraphExecUpdate counts nodes that were removed, too.
	if forwards && g.added != x.added {
		return 0, driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, driver.ResultGraphExecUpdateFailure
	}
	if wrong := counterparts(own, g.nodes, counterpart, forwards); wrong != nil {
		return wrong.handle, wrong.why, driver.ResultGraphExecUpdateFailure
	}
	if d.lost != ok && slices.ContainsFunc(g.nodes, (*node).usesContext) {
		return 0, driver.CU_GRAPH_EXEC_UPDATE_ERROR, driver.ResultGraphExecUpdateFailure
	}
	x.values = maps.Clone(x.values) // kernels may read it
	for n, own := range counterpart {
		if c := n.work.cond; c != nil { // the executable graph keeps its values
			x.values[c.handle] = x.values[own.work.cond.handle]
			continue
		}
		own.work = n.work
	}
	return 0, driver.CU_GRAPH_EXEC_UPDATE_SUCCESS, ok
}

// usesContext reports whether the node's parameters cannot be set after a sticky error.
func (n *node) usesContext() bool {
	switch n.work.node {
	case kernelNode, memcpyNode, memsetNode, batchMemOpNode:
		return true
	}
	return false
}

// dependents returns the nodes that come after each node, with the kinds of their edges.
func dependents(nodes []*node) map[*node]map[*node]driver.GraphEdgeData {
	after := make(map[*node]map[*node]driver.GraphEdgeData)
	for _, n := range nodes {
		for _, b := range n.after {
			if after[b] == nil {
				after[b] = make(map[*node]driver.GraphEdgeData)
			}
			after[b][n] = n.data[b]
		}
	}
	return after
}

// counterparts finds the node of an executable graph for each node of another graph, also in bodies. It
// returns a node that has none. As an H200 does, it looks at all edges before it looks at any type, and
// then, unless forwards, at the last node first.
func counterparts(own, nodes []*node, of map[*node]*node, forwards bool) *wrongNode {
	find := samePlaces
	if forwards {
		find = sameNumbers
	}
	if wrong := find(own, nodes, of); wrong != nil {
		return wrong
	}
	order := slices.Backward(nodes)
	if forwards {
		order = slices.All(nodes)
	}
	for _, n := range order {
		m := of[n]
		switch {
		case m.work.alloc != n.work.alloc:
			return &wrongNode{n.handle, driver.CU_GRAPH_EXEC_UPDATE_ERROR}
		case m.work.node != n.work.node:
			return &wrongNode{n.handle, driver.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED}
		case !alike(m.work.child, n.work.child), !m.work.batch.sameShape(n.work.batch), !m.work.sameRows(&n.work),
			n.work.node == memcpyNode && m.work.memoryTypes != n.work.memoryTypes:
			return &wrongNode{n.handle, driver.CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED}
		case m.work.attributes.options().cooperative != n.work.attributes.options().cooperative:
			return &wrongNode{n.handle, driver.CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED}
		case n.work.cond == nil:
			continue
		case m.work.cond.kind != n.work.cond.kind || len(m.work.cond.created) != len(n.work.cond.bodies):
			return &wrongNode{n.handle, driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED}
		}
		for k, b := range n.work.cond.bodies {
			if wrong := counterparts(m.work.cond.created[k], b.nodes, of, forwards); wrong != nil {
				return wrong
			}
		}
	}
	return nil
}

// samePlaces makes nodes counterparts that were created in the same order, or that pair finds.
func samePlaces(own, nodes []*node, of map[*node]*node) *wrongNode {
	if len(own) != len(nodes) {
		return &wrongNode{0, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED}
	}
	for i, n := range nodes {
		of[n] = own[i]
	}
	wrong := changedEdges(own, nodes, of)
	if had, has := sinks(own), sinks(nodes); wrong != nil && len(had) == len(has) {
		wrong = pair(had, has, of)
	}
	if wrong != nil {
		return &wrongNode{wrong.handle, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED}
	}
	return nil
}

// sameNumbers makes nodes counterparts before which as many nodes were added, also nodes that were removed.
func sameNumbers(own, nodes []*node, of map[*node]*node) *wrongNode {
	numbered := make(map[int]*node, len(own))
	for _, n := range own {
		numbered[n.number] = n
	}
	for _, n := range nodes {
		of[n] = numbered[n.number]
	}
	wrong := changedEdges(own, nodes, of)
	switch {
	case wrong != nil && of[wrong] != nil:
		return &wrongNode{wrong.handle, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED}
	case wrong != nil, len(own) != len(nodes):
		return &wrongNode{0, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED}
	}
	return nil
}

// changedEdges returns the first node that has no counterpart, or after which other nodes come than after its
// counterpart, or nil.
func changedEdges(own, nodes []*node, of map[*node]*node) *node {
	had, has := dependents(own), dependents(nodes)
	for _, n := range nodes {
		same := of[n] != nil && len(had[of[n]]) == len(has[n])
		for b, data := range has[n] {
			before, was := had[of[n]][of[b]]
			same = same && was && before == data
		}
		if !same {
			return n
		}
	}
	return nil
}

// sinks returns the nodes that no other node comes after.
func sinks(nodes []*node) []*node {
	after := dependents(nodes)
	return slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return len(after[n]) > 0 })
}

// pair finds the counterparts of nodes with the same edges that were not created in the same order. As with
// an H200, sinks correspond in their order, and so do the nodes that two counterparts come after. The last
// sink is the first that it looks at. It returns a node that has no counterpart, or nil.
func pair(had, has []*node, of map[*node]*node) *node {
	found, taken := make(map[*node]*node), make(map[*node]bool)
	var both func(n, m *node) *node
	both = func(n, m *node) *node {
		switch other, is := found[n]; {
		case is && other == m:
			return nil
		case is || taken[m] || len(n.after) != len(m.after):
			return n
		}
		found[n], taken[m] = m, true
		for i, b := range n.after {
			if n.data[b] != m.data[m.after[i]] {
				return n
			}
			if wrong := both(b, m.after[i]); wrong != nil {
				return wrong
			}
		}
		return nil
	}
	for i, n := range slices.Backward(has) {
		if wrong := both(n, had[i]); wrong != nil {
			return wrong
		}
	}
	maps.Copy(of, found)
	return nil
}

// execOf finds an executable graph.
func (d *Driver) execOf(name string, h driver.GraphExec) (*exec, driver.Result) {
	if h == 0 {
		return nil, driver.ResultInvalidValue
	}
	x, r := find[exec](d, name, graphExecKind, uintptr(h))
	if r != ok {
		return nil, driver.ResultInvalidValue
	}
	return x, ok
}

func (d *Driver) execSetEvent(name string, h driver.GraphExec, nh driver.GraphNode, k nodeKindOf,
	e driver.Event) driver.Result {
	n, r := d.nodeOf(name, nh, k)
	if r != ok {
		return r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return r
	}
	made := x.copies[n]
	if made == nil {
		return driver.ResultInvalidValue
	}
	w, r := d.eventWork(name, k, e)
	switch {
	case r != ok:
		return r
	case k == eventRecordNode && w.event.ctx != made.work.event.ctx:
		return driver.ResultInvalidValue
	}
	made.work = *w
	return ok
}

// GraphExecEventRecordNodeSetEvent is cuGraphExecEventRecordNodeSetEvent.
func (d *Driver) GraphExecEventRecordNodeSetEvent(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	e driver.Event) driver.Result {
	defer d.mu.Unlock()
	return d.execSetEvent("cuGraphExecEventRecordNodeSetEvent", x, n, eventRecordNode, e)
}

// GraphExecEventWaitNodeSetEvent is cuGraphExecEventWaitNodeSetEvent.
func (d *Driver) GraphExecEventWaitNodeSetEvent(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	e driver.Event) driver.Result {
	defer d.mu.Unlock()
	return d.execSetEvent("cuGraphExecEventWaitNodeSetEvent", x, n, eventWaitNode, e)
}

// GraphLaunch is cuGraphLaunch. The nodes run after the stream's work, in the order of their
// dependencies. Launches of one executable graph run one after the other.
func (d *Driver) GraphLaunch(th *driver.Thread, h driver.GraphExec, sh driver.Stream) driver.Result {
	const name = "cuGraphLaunch"
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, sh)
	if r == ok {
		r = d.uncaptured(s) // child graphs are not supported
	}
	if r != ok {
		return r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return r
	}
	if len(x.nodes) == 0 {
		return ok // an empty graph is not even a barrier
	}
	if r := x.begins(); r != ok {
		return r
	}
	begin := &op{effect: x.values.assign}
	d.engine.enqueue(s, begin, x.newest)
	x.newest = &op{}
	d.engine.enqueue(s, x.newest, d.runNodes(s.ctx, x.nodes, begin, x.values)...)
	return ok
}

// runNodes enqueues the operations of nodes after another one, and returns them. Each node is on its
// own stream, so that only the edges of the graph order the nodes.
func (d *Driver) runNodes(c *context, nodes []*node, begin *op, v conditionValues) []*op {
	ops := make(map[*node]*op, len(nodes))
	starts := startsOf(nodes)
	list := make([]*op, 0, len(nodes))
	for _, n := range nodes {
		lane := &stream{ctx: cmp.Or(n.work.ctx, c), flags: driver.CU_STREAM_NON_BLOCKING}
		after := []*op{begin}
		for _, b := range n.after {
			if n.data[b] == launchOrder {
				after = append(after, starts[b])
				continue
			}
			after = append(after, ops[b])
		}
		if o := starts[n]; o != nil {
			d.engine.enqueue(lane, o, after...)
			after = []*op{o}
		}
		o := d.runNode(lane, n, after, v)
		ops[n] = o
		list = append(list, o)
	}
	return list
}

// runNode enqueues the operation of a node.
func (d *Driver) runNode(lane *stream, n *node, after []*op, v conditionValues) *op {
	o := &op{}
	if n.disabled {
		if n.work.attributes.options().cooperative { // as on an H200, driver 580
			o.effect = func() { d.poison(driver.ResultLaunchFailed) }
		}
		d.engine.enqueue(lane, o, after...)
		return o
	}
	w := n.work
	w.values = v
	o = w.op()
	switch e := w.event; w.node {
	case conditionalNode:
		return d.runConditional(lane, n, v, after)
	case childNode:
		begin := &op{}
		d.engine.enqueue(lane, begin, after...)
		after = append(d.runNodes(lane.ctx, w.child, begin, v), begin)
	case eventRecordNode:
		if e.ctx.destroyed {
			break
		}
		d.forgetCaptured(e)
		after = append(after, e.recordBy(o))
	case eventWaitNode:
		if e.ipc != nil {
			e.ipc.sync()
		}
		if p := e.point.op; p != nil && !p.done {
			after = append(after, p)
		}
	}
	d.engine.enqueue(lane, o, after...)
	return o
}

// GraphUpload is cuGraphUpload. It uploads nothing, but later launches come after the stream's
// work.
func (d *Driver) GraphUpload(th *driver.Thread, h driver.GraphExec, sh driver.Stream) driver.Result {
	const name = "cuGraphUpload"
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, sh)
	if r == ok {
		r = d.uncaptured(s)
	}
	if r != ok {
		return r
	}
	x, r := d.execOf(name, h)
	if r == ok {
		d.upload(x, s)
	}
	return r
}

func (d *Driver) upload(x *exec, s *stream) {
	o := &op{}
	d.engine.enqueue(s, o, x.newest)
	x.newest = o
}

// GraphExecDestroy is cuGraphExecDestroy.
func (d *Driver) GraphExecDestroy(th *driver.Thread, h driver.GraphExec) driver.Result {
	const name = "cuGraphExecDestroy"
	defer d.mu.Unlock()
	if r := d.begin(name); r != ok {
		return r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return r
	}
	if r := d.forbidden(d.thread(th), nil); r != ok {
		return r
	}
	d.destroyExec(x)
	return ok
}

func (d *Driver) destroyExec(x *exec) {
	x.graph.execs--
	for _, n := range x.nodes {
		if n.work.alloc != nil {
			n.work.alloc.leave(d)
		}
	}
	d.objects.remove(uintptr(x.handle))
}
