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
	x := &exec{ctx: c, graph: g, flags: flags}
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
	if g.parent != nil || g.isTaken() {
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
	x.shape = g.shape.of(x.copies)
	g.execs++
	x.nodesOf(g)
	x.handle = driver.GraphExec(d.objects.add(graphExecKind, x))
	return x.handle, nil, ok
}

// isTaken reports whether there is already what a graph can have once. As on an H200, that is an executable
// graph with nodes that allocate memory, and, if the graph has conditional nodes, any executable graph or copy.
func (g *graph) isTaken() bool {
	return g.allocates() && g.allocating > 0 || g.execs+g.copies > 0 && g.isConditional()
}

// nodesOf notes that an executable graph has got nodes from a graph, or, if it is nil, that it is destroyed.
// It stays one of the last graph that allocated memory.
func (x *exec) nodesOf(g *graph) {
	if g != nil && !g.allocates() {
		return
	}
	if x.allocates != nil {
		x.allocates.allocating--
	}
	if x.allocates = g; g != nil {
		g.allocating++
	}
}

func (g *graph) isConditional() bool {
	return slices.ContainsFunc(g.nodes, func(n *node) bool { return n.work.cond != nil })
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

// GraphExecUpdate is cuGraphExecUpdate.
func (d *Driver) GraphExecUpdate(_ *driver.Thread, h driver.GraphExec, g driver.Graph) (driver.GraphNode, int32,
	driver.Result) {
	info, r := d.updateExec(h, g, true)
	return info.ErrorNode, info.Result, r
}

// GraphExecUpdateV2 is cuGraphExecUpdate_v2.
func (d *Driver) GraphExecUpdateV2(_ *driver.Thread, h driver.GraphExec, g driver.Graph) (
	driver.GraphExecUpdateResultInfo, driver.Result) {
	return d.updateExec(h, g, false)
}

// updateExec gives an executable graph the work of another graph with the same structure.
func (d *Driver) updateExec(h driver.GraphExec, gh driver.Graph,
	byNumber bool) (info driver.GraphExecUpdateResultInfo, r driver.Result) {
	const name, failed = "cuGraphExecUpdate", driver.ResultGraphExecUpdateFailure
	defer d.mu.Unlock()
	info.Result = driver.CU_GRAPH_EXEC_UPDATE_ERROR
	g, r := d.graphOf(name, gh)
	if r != ok {
		return info, r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return info, r
	}
	if g.allocates() && g.allocating > 0 && x.allocates != g { // as on an H200, which names no reason
		info.Result = driver.CU_GRAPH_EXEC_UPDATE_SUCCESS
		return info, driver.ResultNotSupported
	}
	for _, n := range g.nodes {
		n.work = n.current()
	}
	u := graphUpdate{byNumber: byNumber,
		priorities: x.flags&driver.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY != 0}
	wrong := u.compare(x.shape, g.shape)
	for _, p := range u.pairs {
		if wrong == nil && p.own.work.alloc != p.its.work.alloc {
			wrong = failedUpdate(driver.CU_GRAPH_EXEC_UPDATE_ERROR, p.its, nil)
		}
	}
	if wrong != nil {
		return *wrong, failed
	}
	if d.lost != ok && slices.ContainsFunc(g.nodes, (*node).usesContext) {
		return info, failed
	}
	x.values = maps.Clone(x.values) // kernels may read it
	for _, p := range u.pairs {
		if c := p.its.work.cond; c != nil { // the executable graph keeps its values
			x.values[c.handle] = x.values[p.own.work.cond.handle]
			continue
		}
		p.own.work = p.its.work
	}
	x.nodesOf(g)
	info.Result = driver.CU_GRAPH_EXEC_UPDATE_SUCCESS
	return info, ok
}

// usesContext reports whether the node's parameters cannot be set after a sticky error.
func (n *node) usesContext() bool {
	switch n.work.node {
	case kernelNode, memcpyNode, memsetNode, batchMemOpNode:
		return true
	}
	return false
}

// nodePair is a node of an executable graph, and the one of another graph whose work it gets.
type nodePair struct{ own, its *node }

// failedUpdate says why an update fails, and which nodes are named.
func failedUpdate(why int32, named, from *node) *driver.GraphExecUpdateResultInfo {
	info := &driver.GraphExecUpdateResultInfo{Result: why}
	if named != nil {
		info.ErrorNode = named.handle
	}
	if from != nil {
		info.ErrorFromNode = from.handle
	}
	return info
}

// graphUpdate finds out which node of an executable graph gets the work of which node of another graph.
type graphUpdate struct {
	byNumber   bool // as cuGraphExecUpdate does it, and not cuGraphExecUpdate_v2
	priorities bool // the executable graph has priorities of nodes
	pairs      []nodePair
}

// compare makes pairs of the nodes of graphs, also of bodies. It says what is wrong if it finds none.
func (u *graphUpdate) compare(own, its shape) *driver.GraphExecUpdateResultInfo {
	if u.byNumber {
		return u.pairNumbers(own, its)
	}
	return u.pairSinks(own, its)
}

// pairNumbers makes pairs of the nodes before which as many nodes were added, also nodes that were removed. For each
// pair, it first compares the nodes that come after them. This is what cuGraphExecUpdate does on an H200.
func (u *graphUpdate) pairNumbers(own, its shape) *driver.GraphExecUpdateResultInfo {
	if own.added != its.added {
		return failedUpdate(driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, nil, nil)
	}
	all := make([]nodePair, its.added)
	for _, n := range own.nodes {
		all[n.number].own = n
	}
	for _, n := range its.nodes {
		all[n.number].its = n
	}
	for _, p := range all {
		switch {
		case p == nodePair{}: // both were removed
			continue
		case p.own == nil, p.its == nil, !maps.Equal(numbersAfter(p.own), numbersAfter(p.its)):
			return failedUpdate(driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, p.its, nil)
		}
		if wrong := u.pair(p); wrong != nil {
			return wrong
		}
	}
	return nil
}

// numbersAfter returns the data of the edges from a node, by the numbers of the nodes that they go to.
func numbersAfter(n *node) map[int]driver.GraphEdgeData {
	list := make(map[int]driver.GraphEdgeData, len(n.before))
	for _, o := range n.before {
		list[o.number] = o.data[n]
	}
	return list
}

// pairSinks makes pairs of the sinks in their order, and then of the nodes that the nodes of a pair come after,
// in the order of the edges. This is what cuGraphExecUpdate_v2 does on an H200.
func (u *graphUpdate) pairSinks(own, its shape) *driver.GraphExecUpdateResultInfo {
	const topology = driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
	if len(own.nodes) != len(its.nodes) {
		return failedUpdate(topology, nil, nil)
	}
	var pairs []nodePair
	found, taken := make(map[*node]*node), make(map[*node]bool)
	pair := func(m, n *node) {
		found[n], taken[m] = m, true
		pairs = append(pairs, nodePair{m, n})
	}
	for i := range max(len(own.sinks), len(its.sinks)) { // the last one is the first
		switch {
		case i == len(its.sinks):
			return failedUpdate(topology, nil, nil)
		case i == len(own.sinks):
			return failedUpdate(topology, its.sinks[len(its.sinks)-1-i], nil)
		}
		pair(own.sinks[len(own.sinks)-1-i], its.sinks[len(its.sinks)-1-i])
	}
	for i := 0; i < len(pairs); i++ {
		m, n := pairs[i].own, pairs[i].its
		if len(m.after) != len(n.after) {
			return failedUpdate(topology, n, nil)
		}
		if wrong := u.pair(pairs[i]); wrong != nil {
			return wrong
		}
		for k, b := range n.after {
			a := m.after[k]
			other, is := found[b]
			switch {
			case m.data[a] != n.data[b], is && other != a, !is && taken[a]:
				return failedUpdate(topology, n, b)
			case !is:
				pair(a, b)
			}
		}
	}
	return nil
}

// pair adds a pair, or says why the node of the executable graph cannot get the work of the other one.
func (u *graphUpdate) pair(p nodePair) *driver.GraphExecUpdateResultInfo {
	a, b := &p.own.work, &p.its.work
	if a.node != b.node {
		return failedUpdate(driver.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, p.its, nil)
	}
	child := graphUpdate{byNumber: u.byNumber} // its pairs do not count, as all of the work is replaced
	if wrong := child.compare(a.childShape, b.childShape); wrong != nil {
		return wrong
	}
	const priority = driver.CU_LAUNCH_ATTRIBUTE_PRIORITY
	was, had := a.attributes[priority]
	is, has := b.attributes[priority]
	switch {
	case !a.batch.sameShape(b.batch), !a.sameRows(b), b.node == memcpyNode && a.memoryTypes != b.memoryTypes:
		return failedUpdate(driver.CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, p.its, nil)
	case a.attributes.options().cooperative != b.attributes.options().cooperative,
		u.priorities && (had != has || was != is):
		return failedUpdate(driver.CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED, p.its, nil)
	case b.cond != nil && (a.cond.kind != b.cond.kind || a.cond.number != b.cond.number ||
		len(a.cond.shapes) != len(b.cond.bodies)):
		return failedUpdate(driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, p.its, nil)
	}
	if b.cond != nil {
		for i, body := range b.cond.bodies {
			if wrong := u.compare(a.cond.shapes[i], body.shape); wrong != nil {
				return wrong
			}
		}
	}
	u.pairs = append(u.pairs, p)
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
	x.nodesOf(nil)
	for _, n := range x.nodes {
		if n.work.alloc != nil {
			n.work.alloc.leave(d)
		}
	}
	d.objects.remove(uintptr(x.handle))
}
