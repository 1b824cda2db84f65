package behaviour

import (
	"fmt"

	"github.com/purecu/purecu/driver"
)

// foundGraphs are about graphs that were built or captured, and about their launches.
func foundGraphs() []found {
	graph := func(c *raw) driver.Graph {
		g, res := c.GraphCreate(c.at, 0)
		c.must("cuGraphCreate", res)
		return g
	}
	recordNode := func(c *raw, g driver.Graph, e driver.Event, after ...driver.GraphNode) driver.GraphNode {
		n, res := c.GraphAddEventRecordNode(c.at, g, after, e)
		c.must("cuGraphAddEventRecordNode", res)
		return n
	}
	waitNode := func(c *raw, g driver.Graph, e driver.Event, after ...driver.GraphNode) driver.GraphNode {
		n, res := c.GraphAddEventWaitNode(c.at, g, after, e)
		c.must("cuGraphAddEventWaitNode", res)
		return n
	}
	return []found{
		{famGraph, "empty-graph-on-default", "using an empty graph on the default stream as a barrier between blocking streams, as other work is", func(c *raw) {
			c.setup()
			s, held, other, g := c.stream(nonBlocking), c.stream(blocking), c.stream(blocking), c.gate()
			empty, full := c.exec(c.captured(s, func() {})), c.exec(c.captured(s, func() { c.mark(s, c.gate()) }))
			g.hold(held)
			c.res("launch-empty", c.GraphLaunch(c.at, empty, null))
			c.res("beside-it", c.reached(other))
			c.res("launch", c.GraphLaunch(c.at, full, null))
			c.res("behind-it", c.reached(other))
			g.open()
			c.res("when-open", c.drained(other))
		}},
		{famGraph, "event-set-while-running", "setting another event in a running graph, which still uses the event of its launch", func(c *raw) {
			c.setup()
			s, e, f, g := c.stream(nonBlocking), c.event(timed), c.event(timed), c.gate()
			gr := graph(c)
			n := recordNode(c, gr, e)
			x := c.exec(gr)
			g.hold(s)
			c.run(x, s)
			c.res("set", c.GraphExecEventRecordNodeSetEvent(c.at, x, n, f))
			c.res("new", c.query(f))
			g.open()
			c.finish(s)
			c.res("recorded-old", c.elapsed(e, e))
			c.res("recorded-new", c.elapsed(f, f))
		}},
		{famGraph, "wrong-node-or-event", "setting an invalid event of a node, or reading an event that a node does not have", func(c *raw) {
			dev, _ := c.setup()
			e, foreign := c.event(timed), c.inside(c.aside(dev)).event(timed)
			gr, other := graph(c), graph(c)
			n, w := recordNode(c, gr, e), waitNode(c, gr, e)
			o := recordNode(c, other, e)
			x := c.exec(gr)
			_, res := c.GraphEventRecordNodeGetEvent(c.at, w)
			c.res("record-of-a-wait", res)
			_, res = c.GraphEventWaitNodeGetEvent(c.at, n)
			c.res("wait-of-a-record", res)
			c.res("node-of-another-graph", c.GraphExecEventRecordNodeSetEvent(c.at, x, o, e))
			c.res("event-of-another-context", c.GraphExecEventRecordNodeSetEvent(c.at, x, n, foreign))
			c.res("event-of-another-context-in-the-graph", c.GraphEventRecordNodeSetEvent(c.at, n, foreign))
			c.res("wait-for-another-context", c.GraphEventWaitNodeSetEvent(c.at, w, foreign))
		}},
		{famGraph, "kinds-of-nodes", "assuming that a captured graph has one node for each call", func(c *raw) {
			c.setup()
			s, t, e, g := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed), c.gate()
			waited := c.ended(timed, t)
			sp := c.spinner()
			p, res := c.MemAlloc(c.at, 64)
			c.must("cuMemAlloc", res)
			slot := newSlot(0)
			fn := c.callback(writeOne(), slot, func() { slot.Store(1) })
			gr := c.captured(s, func() {
				sp.spin(s, 1000)
				c.res("memset", c.MemsetD8Async(c.at, p, 1, 64, s))
				c.res("copy", c.MemcpyDtoDAsync(c.at, p, p+32, 32, s))
				c.res("host", c.LaunchHostFunc(c.at, s, fn))
				c.res("write", c.StreamWriteValue32(c.at, s, g.dev, 1, 0))
				c.res("wait-value", c.StreamWaitValue32(c.at, s, g.dev, 1, driver.CU_STREAM_WAIT_VALUE_GEQ))
				c.record(e, s)
				c.external(e, s)
				c.externalWait(s, waited)
			})
			list := make([]driver.GraphNode, 32)
			n, res := c.GraphGetNodes(c.at, gr, list)
			c.res("nodes", res)
			var kinds []int32
			for _, node := range list[:n] {
				kind, res := c.GraphNodeGetType(c.at, node)
				c.must("cuGraphNodeGetType", res)
				kinds = append(kinds, kind)
			}
			c.val("kinds", fmt.Sprint(kinds))
			c.run(c.exec(gr), s)
			c.finish(s)
			c.val("host-ran", slot.Load())
		}},
		{famGraph, "without-a-context", "creating graphs on a thread without a current context: the first call that fails", func(c *raw) {
			_, ctx := c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			c.bare()
			gr, res := c.GraphCreate(c.at, 0)
			c.res("create", res)
			n, res := c.GraphAddEventRecordNode(c.at, gr, nil, e)
			c.res("add", res)
			_, res = c.GraphEventRecordNodeGetEvent(c.at, n)
			c.res("get", res)
			clone, res := c.GraphClone(c.at, gr)
			c.res("clone", res)
			c.res("destroy-clone", c.GraphDestroy(c.at, clone))
			_, res = c.GraphInstantiateWithFlags(c.at, gr, 0)
			c.res("instantiate", res)
			c.current(ctx)
			x := c.exec(graph(c))
			c.bare()
			c.res("launch", c.GraphLaunch(c.at, x, s))
			c.res("launch-on-null", c.GraphLaunch(c.at, x, null))
			c.res("upload", c.GraphUpload(c.at, x, s))
			c.res("sync", c.StreamSynchronize(c.at, s))
			c.res("destroy-executable", c.GraphExecDestroy(c.at, x))
		}},
		{famGraph, "record-and-wait-in-one-graph", "a wait node that waits for a record of the previous launch, and not for the node beside it", func(c *raw) {
			c.setup()
			s, e, g := c.stream(nonBlocking), c.event(untimed), c.gate()
			gr := graph(c)
			recordNode(c, gr, e)
			waitNode(c, gr, e)
			x, res := c.GraphInstantiateWithFlags(c.at, gr, 0)
			c.res("instantiate", res)
			c.run(x, s)
			c.res("first", c.drained(s))
			g.hold(s)
			c.run(x, s)
			c.run(x, s)
			g.open()
			c.res("twice", c.drained(s))
		}},
		{famGraph, "upload", "assuming that an upload runs the graph, or needs no order", func(c *raw) {
			c.setup()
			s, t, e, g := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed), c.gate()
			gr := graph(c)
			recordNode(c, gr, e)
			x := c.exec(gr)
			g.hold(s)
			c.res("upload", c.GraphUpload(c.at, x, s))
			c.res("recorded", c.elapsed(e, e))
			c.run(x, t)
			c.res("launched-elsewhere", c.drained(t))
			g.open()
			c.res("when-open", c.drained(t))
			c.res("stream", c.drained(s))
		}},
	}
}
