package behaviour

import (
	"time"

	"github.com/purecu/purecu/driver"
)

// These are the capture modes.
const (
	capGlobal  = driver.CU_STREAM_CAPTURE_MODE_GLOBAL
	capThread  = driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
	capRelaxed = driver.CU_STREAM_CAPTURE_MODE_RELAXED
)

// memory returns memory for work on the GPU. It must be allocated before a capture begins.
func (c *raw) memory() driver.DevicePtr {
	p, res := c.MemAlloc(c.at, 64)
	c.must("cuMemAlloc", res)
	return p
}

// set enqueues work that is one node of a graph.
func (c *raw) set(p driver.DevicePtr, s driver.Stream) driver.Result {
	return c.MemsetD8Async(c.at, p, 1, 16, s)
}

// graphOf ends a capture, and returns the graph and the number of its nodes.
func (c *raw) graphOf(s driver.Stream) (int, driver.Graph, driver.Result) {
	g, res := c.StreamEndCapture(c.at, s)
	if res != driver.ResultSuccess {
		return 0, 0, res
	}
	n, nres := c.GraphGetNodes(c.at, g, nil)
	c.must("cuGraphGetNodes", nres)
	return int(n), g, res
}

// status reports whether a stream is being captured.
func (c *raw) status(step string, s driver.Stream) {
	status, res := c.StreamIsCapturing(c.at, s)
	c.must("cuStreamIsCapturing", res)
	c.val(step, status)
}

// exec instantiates a graph.
func (c *raw) exec(g driver.Graph) driver.GraphExec {
	x, res := c.GraphInstantiateWithFlags(c.at, g, 0)
	c.must("cuGraphInstantiateWithFlags", res)
	return x
}

// intoGraph is a case about a capture into a graph that fails, after which the graph is gone. fail makes it fail.
func intoGraph(name, doc string, mode int32,
	fail func(c *raw, ctx driver.Context, s driver.Stream, p driver.DevicePtr)) found {
	return found{famGraph, name, doc, func(c *raw) {
		_, ctx := c.setup()
		s, p := c.stream(nonBlocking), c.memory()
		g, res := c.GraphCreate(c.at, 0)
		c.must("cuGraphCreate", res)
		c.must("cuStreamBeginCaptureToGraph", c.StreamBeginCaptureToGraph(c.at, s, g, nil, nil, mode))
		c.must("cuMemsetD8Async", c.set(p, s))
		fail(c, ctx, s, p)
		c.dare("nodes", func() driver.Result { return bare(c.GraphGetNodes(c.at, g, nil)) })
	}}
}

// foundCaptures are about captures and external events.
func foundCaptures() []found {
	return []found{
		{famThread, "logger-asks-for-id", "logging a stream's id: this invalidates the capture, from any thread", func(c *raw) {
			_, ctx := c.setup()
			s := c.stream(nonBlocking)
			w := c.worker(ctx)
			c.begin(s, capRelaxed)
			w.do(func(c *raw) { c.res("id-elsewhere", bare(c.StreamGetId(c.at, s))) })
			c.status("status", s)
			c.res("end", c.end(s))
			c.begin(s, capRelaxed)
			w.do(func(c *raw) {
				c.res("priority-elsewhere", bare(c.StreamGetPriority(c.at, s)))
				c.res("ctx-elsewhere", bare(c.StreamGetCtx(c.at, s)))
			})
			c.res("end-again", c.end(s))
			w.end()
		}},
		intoGraph("into-graph-unjoined",
			"a capture into a graph that leaves a stream behind: this destroys the graph", capRelaxed,
			func(c *raw, _ driver.Context, s driver.Stream, p driver.DevicePtr) {
				other, e := c.stream(nonBlocking), c.event(untimed)
				c.record(e, s)
				c.wait(other, e)
				c.must("cuMemsetD8Async", c.set(p, other))
				c.res("end", c.end(s))
			}),
		intoGraph("into-graph-invalidated",
			"a capture into a graph that a call invalidates: this destroys the graph", capRelaxed,
			func(c *raw, _ driver.Context, s driver.Stream, _ driver.DevicePtr) {
				c.res("sync", c.CtxSynchronize(c.at))
				c.res("end", c.end(s))
			}),
		intoGraph("into-graph-end-elsewhere", "ending a capture into a graph on another thread", capThread,
			func(c *raw, ctx driver.Context, s driver.Stream, _ driver.DevicePtr) {
				w := c.worker(ctx)
				w.do(func(c *raw) { c.res("end-elsewhere", c.end(s)) })
				w.end()
			}),
		intoGraph("into-graph-stream-destroyed",
			"destroying a stream during its capture into a graph: this destroys the graph", capRelaxed,
			func(c *raw, _ driver.Context, s driver.Stream, _ driver.DevicePtr) {
				c.res("destroy", c.StreamDestroy(c.at, s))
			}),
		{famThread, "info-of-invalidated", "of an invalidated capture the driver tells only the status", func(c *raw) {
			c.setup()
			s, other, e, p := c.stream(nonBlocking), c.stream(nonBlocking), c.event(untimed), c.memory()
			c.begin(s, capRelaxed)
			c.must("cuMemsetD8Async", c.set(p, s))
			c.record(e, s)
			c.wait(other, e)
			of, joined := c.info("info", s), c.info("info2", other)
			c.val("an-id", of.id != 0)
			c.val("same-id", joined.id == of.id)
			c.res("sync", c.CtxSynchronize(c.at))
			for i, s := range []driver.Stream{s, other} {
				of := "-" + []string{"captured", "joined"}[i]
				info := c.info("info"+of, s)
				c.val("status"+of, info.status)
				c.val("an-id"+of, info.id != 0)
				c.val("deps"+of, info.deps)
			}
			c.res("end", c.end(s))
			c.val("status-at-the-end", c.info("info-at-the-end", other).status)
		}},
		{famThread, "end-elsewhere", "ending a capture on another thread: this loses the graph and ends the capture", func(c *raw) {
			_, ctx := c.setup()
			s := c.stream(nonBlocking)
			w := c.worker(ctx)
			c.begin(s, capThread)
			w.do(func(c *raw) { c.res("end-elsewhere", c.end(s)) })
			c.status("status", s)
			c.res("end", c.end(s))
			c.begin(s, capRelaxed)
			w.do(func(c *raw) { c.res("end-relaxed-elsewhere", c.end(s)) })
			w.end()
		}},
		{famThread, "exchange-elsewhere", "allowing a helper thread to allocate while others capture", func(c *raw) {
			_, ctx := c.setup()
			s := c.stream(nonBlocking)
			w := c.worker(ctx)
			c.begin(s, capGlobal)
			w.do(func(c *raw) {
				c.res("exchange", bare(c.ThreadExchangeStreamCaptureMode(c.at, capRelaxed)))
				c.res("alloc", bare(c.MemAlloc(c.at, 16)))
			})
			c.res("end", c.end(s))
			w.end()
		}},
		{famThread, "exchange-thread-local-elsewhere", "assuming that only relaxed mode helps a thread that does not capture", func(c *raw) {
			_, ctx := c.setup()
			s := c.stream(nonBlocking)
			w := c.worker(ctx)
			c.begin(s, capGlobal)
			w.do(func(c *raw) {
				c.res("exchange", bare(c.ThreadExchangeStreamCaptureMode(c.at, capThread)))
				c.res("alloc", bare(c.MemAlloc(c.at, 16)))
			})
			c.res("end", c.end(s))
			w.end()
		}},
		{famThread, "exchange-nonsense", "an invalid mode: the driver accepts and returns it", func(c *raw) {
			c.setup()
			old, res := c.ThreadExchangeStreamCaptureMode(c.at, 3)
			c.res("exchange", res)
			c.val("old", old)
			old, res = c.ThreadExchangeStreamCaptureMode(c.at, capGlobal)
			c.res("back", res)
			c.val("nonsense", old)
		}},
		{famThread, "two-captures", "one capture at a time: a thread may have several", func(c *raw) {
			c.setup()
			s1, s2 := c.stream(nonBlocking), c.stream(nonBlocking)
			c.begin(s1, capGlobal)
			c.res("begin-second", c.StreamBeginCapture(c.at, s2, capGlobal))
			c.res("end-first", c.end(s1))
			c.res("end-second", c.end(s2))
		}},
		{famThread, "modules", "loading modules before a capture begins: loading is allowed, unloading is not", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			c.begin(s, capGlobal)
			m, res := c.ModuleLoadData(c.at, append(spinPTX[:len(spinPTX):len(spinPTX)], 0))
			c.res("load", res)
			c.status("after-load", s)
			c.res("unload", c.ModuleUnload(c.at, m))
			c.status("after-unload", s)
			c.res("end", c.end(s))
		}},
		{famThread, "no-current-context", "making a context current for a capture: the capture uses the stream's context", func(c *raw) {
			_, ctx := c.setup()
			s, p := c.stream(nonBlocking), c.memory()
			c.current(0)
			c.res("begin", c.StreamBeginCapture(c.at, s, capGlobal))
			c.res("work", c.set(p, s))
			c.res("end", c.end(s))
			c.current(ctx)
		}},
		{famThread, "captured-elsewhere-worked-here", "capturing on one thread only: a capture records work of all threads", func(c *raw) {
			_, ctx := c.setup()
			s, p := c.stream(nonBlocking), c.memory()
			w := c.worker(ctx)
			c.begin(s, capThread)
			c.res("work", c.set(p, s))
			w.do(func(c *raw) { c.res("work-elsewhere", c.set(p, s)) })
			n, _, res := c.graphOf(s)
			c.res("end", res)
			c.val("nodes", n)
			w.end()
		}},

		{famJoin, "joined-stream-destroyed", "destroying a forked stream before it is joined", func(c *raw) {
			c.setup()
			s1, s2, e, p := c.stream(nonBlocking), c.stream(nonBlocking), c.event(untimed), c.memory()
			c.begin(s1, capRelaxed)
			c.record(e, s1)
			c.must("cuStreamWaitEvent", c.StreamWaitEvent(c.at, s2, e, 0))
			c.res("work", c.set(p, s2))
			c.res("destroy", c.StreamDestroy(c.at, s2))
			c.status("status", s1)
			n, _, res := c.graphOf(s1)
			c.res("end", res)
			c.val("nodes", n)
		}},
		{famJoin, "end-on-joined", "ending a capture on another stream than the one on which it began", func(c *raw) {
			c.setup()
			s1, s2, e := c.stream(nonBlocking), c.stream(nonBlocking), c.event(untimed)
			c.begin(s1, capRelaxed)
			c.record(e, s1)
			c.must("cuStreamWaitEvent", c.StreamWaitEvent(c.at, s2, e, 0))
			c.res("end-joined", c.end(s2))
			c.status("joined", s2)
			c.status("origin", s1)
			c.res("end", c.end(s1))
			c.status("joined-afterwards", s2)
		}},
		{famJoin, "joined-again", "a proper fork and join", func(c *raw) {
			c.setup()
			s1, s2, e, f, p := c.stream(nonBlocking), c.stream(nonBlocking), c.event(untimed), c.event(untimed), c.memory()
			c.begin(s1, capGlobal)
			c.record(e, s1)
			c.must("cuStreamWaitEvent", c.StreamWaitEvent(c.at, s2, e, 0))
			c.must("cuMemsetD8Async", c.set(p, s2))
			c.record(f, s2)
			c.res("join", c.StreamWaitEvent(c.at, s1, f, 0))
			n, _, res := c.graphOf(s1)
			c.res("end", res)
			c.val("nodes", n)
			c.status("joined-afterwards", s2)
			c.res("event-afterwards", c.EventQuery(c.at, f))
			c.res("wait-afterwards", c.StreamWaitEvent(c.at, s2, f, 0))
			c.record(f, s2)
			c.res("recorded-again", c.settled(f))
		}},
		{famJoin, "event-moves", "using one event in two captures: it belongs to the capture that recorded it last", func(c *raw) {
			c.setup()
			s1, s2, s3, e := c.stream(nonBlocking), c.stream(nonBlocking), c.stream(nonBlocking), c.event(untimed)
			c.begin(s1, capRelaxed)
			c.begin(s2, capRelaxed)
			c.record(e, s1)
			c.record(e, s2)
			c.must("cuStreamWaitEvent", c.StreamWaitEvent(c.at, s3, e, 0))
			c.res("end-first", c.end(s1))
			c.status("joined", s3)
			c.res("end-second", c.end(s2))
			c.status("joined-afterwards", s3)
		}},
		{famJoin, "record-outside", "recording a captured event outside of the capture: the capture stays valid", func(c *raw) {
			c.setup()
			s1, s2, e, p := c.stream(nonBlocking), c.stream(nonBlocking), c.event(untimed), c.memory()
			c.begin(s1, capRelaxed)
			c.must("cuMemsetD8Async", c.set(p, s1))
			c.record(e, s1)
			c.res("record", c.EventRecord(c.at, e, s2))
			c.res("query", c.settled(e))
			c.res("wait-inside", c.StreamWaitEvent(c.at, s1, e, 0))
			c.res("end", c.end(s1))
		}},
		{famJoin, "merge", "two captures that wait for each other: both are lost", func(c *raw) {
			c.setup()
			s1, s2, e := c.stream(nonBlocking), c.stream(nonBlocking), c.event(untimed)
			c.begin(s1, capRelaxed)
			c.begin(s2, capRelaxed)
			c.record(e, s1)
			c.res("wait", c.StreamWaitEvent(c.at, s2, e, 0))
			c.res("end-first", c.end(s1))
			c.res("end-second", c.end(s2))
		}},
		{famJoin, "empty-capture", "rejecting an empty capture: its graph has no nodes, and can be launched", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			c.begin(s, capGlobal)
			n, g, res := c.graphOf(s)
			c.res("end", res)
			c.val("nodes", n)
			x, res := c.GraphInstantiateWithFlags(c.at, g, 0)
			c.res("instantiate", res)
			c.res("launch", c.GraphLaunch(c.at, x, s))
			c.res("sync", c.StreamSynchronize(c.at, s))
		}},
		{famJoin, "record-when-invalidated", "using an event after a record failed in an invalidated capture: the event is unchanged", func(c *raw) {
			c.setup()
			s1, s2 := c.stream(nonBlocking), c.stream(nonBlocking)
			done, inside := c.ended(untimed, s2), c.event(untimed)
			c.begin(s1, capRelaxed)
			c.record(inside, s1)
			c.res("spoil", c.EventQuery(c.at, inside))
			c.res("inside-again", c.EventQuery(c.at, inside))
			c.res("record", c.EventRecord(c.at, done, s1))
			c.res("query", c.EventQuery(c.at, done))
			c.res("end", c.end(s1))
		}},
		{famJoin, "origin-destroyed", "destroying the stream on which a capture began: the other streams are no longer captured", func(c *raw) {
			c.setup()
			s1, s2, e := c.stream(nonBlocking), c.stream(nonBlocking), c.event(untimed)
			c.begin(s1, capGlobal)
			c.record(e, s1)
			c.must("cuStreamWaitEvent", c.StreamWaitEvent(c.at, s2, e, 0))
			c.res("destroy", c.StreamDestroy(c.at, s1))
			c.status("joined", s2)
			c.res("event", c.EventQuery(c.at, e))
			c.res("alloc", bare(c.MemAlloc(c.at, 16)))
		}},
		{famJoin, "unjoined-work", "work on a fork after it has joined", func(c *raw) {
			c.setup()
			s1, s2, e, f, p := c.stream(nonBlocking), c.stream(nonBlocking), c.event(untimed), c.event(untimed), c.memory()
			c.begin(s1, capGlobal)
			c.record(e, s1)
			c.must("cuStreamWaitEvent", c.StreamWaitEvent(c.at, s2, e, 0))
			c.record(f, s2)
			c.must("cuStreamWaitEvent", c.StreamWaitEvent(c.at, s1, f, 0))
			c.must("cuMemsetD8Async", c.set(p, s2))
			c.res("end", c.end(s1))
			c.status("joined-afterwards", s2)
		}},

		{famExternal, "external-twice", "one event in two nodes of a graph", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			c.begin(s, capGlobal)
			c.res("first", c.EventRecordWithFlags(c.at, e, s, driver.CU_EVENT_RECORD_EXTERNAL))
			c.res("second", c.EventRecordWithFlags(c.at, e, s, driver.CU_EVENT_RECORD_EXTERNAL))
			n, g, res := c.graphOf(s)
			c.res("end", res)
			c.val("nodes", n)
			c.res("query-before-launch", c.EventQuery(c.at, e))
			c.res("launch", c.GraphLaunch(c.at, c.exec(g), s))
			c.res("sync", c.EventSynchronize(c.at, e))
		}},
		{famExternal, "external-wait-at-launch", "assuming that a graph waits for an event's record at the capture: it waits for the record at the launch", func(c *raw) {
			c.setup()
			s1, g := c.held(nonBlocking)
			s2, e := c.stream(nonBlocking), c.event(untimed)
			c.begin(s2, capRelaxed)
			c.res("wait", c.StreamWaitEvent(c.at, s2, e, driver.CU_EVENT_WAIT_EXTERNAL))
			_, graph, res := c.graphOf(s2)
			c.res("end", res)
			x := c.exec(graph)
			c.res("launch-unrecorded", c.GraphLaunch(c.at, x, s2))
			c.res("done", c.reached(s2))
			c.record(e, s1)
			c.res("launch-pending", c.GraphLaunch(c.at, x, s2))
			c.res("waits", c.reached(s2))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, s2))
		}},
		{famExternal, "external-elapsed", "times within a graph", func(c *raw) {
			c.setup()
			s, a, b, p := c.stream(nonBlocking), c.event(timed), c.event(timed), c.memory()
			c.begin(s, capGlobal)
			c.must("cuEventRecordWithFlags", c.EventRecordWithFlags(c.at, a, s, driver.CU_EVENT_RECORD_EXTERNAL))
			c.must("cuMemsetD8Async", c.set(p, s))
			c.must("cuEventRecordWithFlags", c.EventRecordWithFlags(c.at, b, s, driver.CU_EVENT_RECORD_EXTERNAL))
			_, g, _ := c.graphOf(s)
			x := c.exec(g)
			c.res("elapsed-before", bare(c.EventElapsedTime(c.at, a, b)))
			c.must("cuGraphLaunch", c.GraphLaunch(c.at, x, s))
			c.finish(s)
			ms, res := c.EventElapsedTime(c.at, a, b)
			c.res("elapsed", res)
			c.val("positive", ms >= 0)
			c.must("cuGraphLaunch", c.GraphLaunch(c.at, x, s))
			c.finish(s)
			c.res("elapsed-again", bare(c.EventElapsedTime(c.at, a, b)))
		}},
		{famExternal, "external-pending-launch", "querying an event of a graph that was launched and has not begun", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			c.begin(s, capGlobal)
			c.must("cuEventRecordWithFlags", c.EventRecordWithFlags(c.at, e, s, driver.CU_EVENT_RECORD_EXTERNAL))
			_, graph, _ := c.graphOf(s)
			x, g := c.exec(graph), c.gate()
			g.hold(s)
			c.must("cuGraphLaunch", c.GraphLaunch(c.at, x, s))
			c.res("query", c.settled(e))
			c.res("elapsed", bare(c.EventElapsedTime(c.at, e, e)))
			g.open()
			c.res("sync", c.EventSynchronize(c.at, e))
			c.res("elapsed-afterwards", bare(c.EventElapsedTime(c.at, e, e)))
		}},
		{famExternal, "external-then-by-hand", "recording an event of a graph on a stream, too: the newest record counts", func(c *raw) {
			c.setup()
			s1, s2, e := c.stream(nonBlocking), c.stream(nonBlocking), c.event(untimed)
			c.begin(s1, capGlobal)
			c.must("cuEventRecordWithFlags", c.EventRecordWithFlags(c.at, e, s1, driver.CU_EVENT_RECORD_EXTERNAL))
			_, graph, _ := c.graphOf(s1)
			x, g := c.exec(graph), c.gate()
			g.hold(s1)
			c.must("cuGraphLaunch", c.GraphLaunch(c.at, x, s1))
			c.record(e, s2)
			c.res("query", c.settled(e))
			g.open()
			c.finish(s1)
			c.res("query-afterwards", c.EventQuery(c.at, e))
		}},
		{famExternal, "external-other-context", "an event of another context in a capture", func(c *raw) {
			dev, _ := c.setup()
			e := c.event(timed)
			c.context(dev)
			s := c.stream(nonBlocking)
			c.begin(s, capGlobal)
			c.res("record", c.EventRecordWithFlags(c.at, e, s, driver.CU_EVENT_RECORD_EXTERNAL))
			c.status("after-record", s)
			c.res("wait", c.StreamWaitEvent(c.at, s, e, driver.CU_EVENT_WAIT_EXTERNAL))
			c.res("end", c.end(s))
		}},
		{famExternal, "external-of-captured", "recording a captured event externally: it stays captured", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			c.begin(s, capRelaxed)
			c.record(e, s)
			c.res("external", c.EventRecordWithFlags(c.at, e, s, driver.CU_EVENT_RECORD_EXTERNAL))
			c.res("wait", c.StreamWaitEvent(c.at, s, e, 0))
			c.res("wait-external", c.StreamWaitEvent(c.at, s, e, driver.CU_EVENT_WAIT_EXTERNAL))
			n, _, res := c.graphOf(s)
			c.res("end", res)
			c.val("nodes", n)
			c.res("query", c.EventQuery(c.at, e))
		}},
		{famExternal, "external-wait-then-destroy", "destroying an event after the launch of a graph that waits for it", func(c *raw) {
			c.setup()
			s1, g := c.held(nonBlocking)
			s2, e := c.stream(nonBlocking), c.event(untimed)
			c.begin(s2, capRelaxed)
			c.must("cuStreamWaitEvent", c.StreamWaitEvent(c.at, s2, e, driver.CU_EVENT_WAIT_EXTERNAL))
			_, graph, _ := c.graphOf(s2)
			x := c.exec(graph)
			c.record(e, s1)
			c.must("cuGraphLaunch", c.GraphLaunch(c.at, x, s2))
			c.res("destroy", c.EventDestroy(c.at, e))
			c.res("waits", c.reached(s2))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, s2))
		}},

		{famThread, "thread-gone-relaxed", "a relaxed capture that is never ended, because its thread has ended", func(c *raw) {
			_, ctx := c.setup()
			s := c.stream(nonBlocking)
			w := c.worker(ctx)
			w.do(func(c *raw) { c.res("begin", c.StreamBeginCapture(c.at, s, capRelaxed)) })
			w.end()
			c.status("status", s)
			c.res("end", c.end(s))
			c.res("begin-again", c.StreamBeginCapture(c.at, s, capGlobal))
			c.res("end-again", c.end(s))
		}},
		{famThread, "thread-gone-global", "a process that can no longer allocate, because a thread ended during its capture", func(c *raw) {
			_, ctx := c.setup()
			s := c.stream(nonBlocking)
			e := c.ended(timed, s)
			w := c.worker(ctx)
			w.do(func(c *raw) { c.res("begin", c.StreamBeginCapture(c.at, s, capGlobal)) })
			w.end()
			c.res("query", c.query(e))
			c.status("status", s)
			c.res("end", c.end(s))
			c.status("status-after", s)
			c.res("query-after", c.query(e))
			c.res("begin-again", c.StreamBeginCapture(c.at, s, capGlobal))
			c.res("end-again", c.end(s))
		}},
		{famThread, "two-threads-capture", "serialising captures of several threads without need, or threads that end each other's captures", func(c *raw) {
			_, ctx := c.setup()
			s, t := c.stream(nonBlocking), c.stream(nonBlocking)
			w := c.worker(ctx)
			c.begin(s, capGlobal)
			w.do(func(c *raw) {
				c.res("begin-other", c.StreamBeginCapture(c.at, t, capGlobal))
				c.res("record-other", c.EventRecord(c.at, c.event(timed), t))
			})
			c.res("end", c.end(s))
			w.do(func(c *raw) { c.res("end-other", c.end(t)) })
			w.end()
		}},
		{famThread, "one-mistake-ends-all", "a query on a monitoring thread, which invalidates all captures of the process", func(c *raw) {
			_, ctx := c.setup()
			s, t, u, free := c.stream(nonBlocking), c.stream(nonBlocking), c.stream(nonBlocking), c.stream(nonBlocking)
			e := c.ended(timed, free)
			a, b := c.worker(ctx), c.worker(ctx)
			c.begin(s, capGlobal)
			a.do(func(c *raw) { c.begin(t, capGlobal) })
			c.begin(u, capThread)
			b.do(func(c *raw) { c.res("query", c.query(e)) })
			c.status("first", s)
			c.status("second", t)
			c.status("thread-local", u)
			c.res("end-first", c.end(s))
			a.do(func(c *raw) { c.res("end-second", c.end(t)) })
			c.res("end-thread-local", c.end(u))
			a.end()
			b.end()
		}},
		{famThread, "mode-is-the-threads", "setting relaxed mode on one thread, and expecting an effect on others", func(c *raw) {
			_, ctx := c.setup()
			s, u := c.stream(nonBlocking), c.stream(nonBlocking)
			e := c.ended(timed, u)
			w := c.worker(ctx)
			_, res := c.ThreadExchangeStreamCaptureMode(c.at, capRelaxed)
			c.res("exchange", res)
			c.begin(s, capGlobal)
			c.res("query", c.query(e))
			w.do(func(c *raw) {
				old, _ := c.ThreadExchangeStreamCaptureMode(c.at, capGlobal)
				c.val("mode-of-the-other", old)
				c.res("query-of-the-other", c.query(e))
			})
			c.res("end", c.end(s))
			old, _ := c.ThreadExchangeStreamCaptureMode(c.at, capThread)
			c.val("mode-after-the-end", old)
			w.end()
		}},
		{famThread, "capture-and-other-context", "allocating in one context while a stream of another context is captured", func(c *raw) {
			dev, _ := c.setup()
			ctx := c.aside(dev)
			s := c.stream(nonBlocking)
			other := c.inside(ctx)
			e := other.ended(timed, other.stream(nonBlocking))
			w := c.worker(ctx)
			try := func(name string, mode int32, call func(*raw) driver.Result) {
				c.begin(s, mode)
				w.do(func(c *raw) { c.res(name, call(c)) })
				c.status(name+"-status", s)
				c.end(s)
			}
			query := func(c *raw) driver.Result { return c.query(e) }
			try("query-global", capGlobal, query)
			try("query-thread-local", capThread, query)
			for _, mode := range []struct {
				name string
				mode int32
			}{{"global", capGlobal}, {"relaxed", capRelaxed}} {
				try("sync-context-"+mode.name, mode.mode, func(c *raw) driver.Result { return c.CtxSynchronize(c.at) })
			}
			try("copy-relaxed", capRelaxed, func(c *raw) driver.Result {
				p, res := c.MemAlloc(c.at, 64)
				c.must("cuMemAlloc", res)
				return c.MemcpyHtoD(c.at, p, make([]byte, 64))
			})
			w.end()
		}},
		{famThread, "capture-and-other-device", "invalidating a capture on one GPU by work for another GPU", func(c *raw) {
			c.devices(2)
			_, ctx0 := c.primary(0)
			_, ctx1 := c.primary(1)
			c.current(ctx0)
			s := c.stream(nonBlocking)
			other := c.inside(ctx1)
			t := other.stream(nonBlocking)
			e := other.ended(timed, t)
			w := c.worker(ctx1)
			c.begin(s, capGlobal)
			w.do(func(c *raw) {
				c.res("record", c.EventRecord(c.at, e, t))
				c.res("wait", c.wait(t, e))
				_, res := c.StreamCreate(c.at, blocking)
				c.res("stream", res)
			})
			c.status("status", s)
			w.do(func(c *raw) { c.res("query", c.query(e)) })
			c.status("status-after-query", s)
			c.res("end", c.end(s))
			c.begin(s, capRelaxed)
			w.do(func(c *raw) { c.res("sync-context", c.CtxSynchronize(c.at)) })
			c.status("status-after-sync", s)
			c.res("end-relaxed", c.end(s))
			w.end()
		}},
		{famThread, "synchronize-under-way", "a capture that fails because another thread was waiting for an event when it began", func(c *raw) {
			_, ctx := c.setup()
			s, t, e, g := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed), c.gate()
			g.hold(t)
			c.record(e, t)
			waited, res := c.waits(ctx, g, func(c *raw) driver.Result { return c.EventSynchronize(c.at, e) }, func() {
				c.res("begin", c.StreamBeginCapture(c.at, s, capGlobal))
			})
			c.val("waited", waited)
			c.res("sync", res)
			c.status("status", s)
			c.res("end", c.end(s))
		}},
		{famThread, "context-made-while-capturing", "opening a library with a context of its own while another thread captures", func(c *raw) {
			dev, ctx := c.setup()
			s := c.stream(nonBlocking)
			w := c.worker(ctx)
			c.begin(s, capGlobal)
			w.do(func(c *raw) {
				made, res := c.create(dev)
				c.res("create", res)
				c.val("made", made != 0)
				if made != 0 {
					c.res("destroy", c.CtxDestroy(c.at, made))
				} else {
					c.res("destroy", driver.ResultInvalidContext)
				}
			})
			c.status("status", s)
			c.res("end", c.end(s))
			w.end()
		}},
		{famThread, "refused-calls-do-nothing", "leaking memory, or using an object that was not created, after a call failed in a capture", func(c *raw) {
			c.setup()
			s, t, g := c.stream(nonBlocking), c.stream(nonBlocking), c.gate()
			p, res := c.MemAlloc(c.at, 256)
			c.must("cuMemAlloc", res)
			e := c.event(timed)
			g.hold(t)
			c.record(e, t)
			c.begin(s, capGlobal)
			c.res("free", c.MemFree(c.at, p))
			q, res := c.MemAlloc(c.at, 256)
			c.res("alloc", res)
			c.val("allocated", q != 0)
			c.res("sync", c.EventSynchronize(c.at, e))
			c.res("end", c.end(s))
			g.open()
			c.finish(t)
			c.res("use", c.MemsetD8(c.at, p, 1, 256))
			c.res("free-after", c.MemFree(c.at, p))
		}},
		{famThread, "spoilt-while-waiting", "not noticing that a capture is invalid before its end: the calls that return this error, and whether they do their work", func(c *raw) {
			_, ctx := c.setup()
			s, t := c.stream(nonBlocking), c.stream(nonBlocking)
			g, e, f := c.gate(), c.ended(timed, t), c.ended(timed, t)
			w := c.worker(ctx)
			c.begin(s, capGlobal)
			w.do(func(c *raw) { c.query(e) })
			c.res("work", c.StreamWriteValue32(c.at, s, g.dev, 1, 0))
			c.res("record", c.EventRecord(c.at, f, s))
			c.res("event", c.EventRecord(c.at, e, t))
			c.res("query-elsewhere", c.query(f))
			c.res("end", c.end(s))
			c.finish(s)
			c.val("work-done", g.word().Load())
			c.res("event-after", c.query(f))
			w.end()
		}},

		{famJoin, "fork-never-joined", "a capture whose end fails because a branch was not joined, and what is left of the capture", func(c *raw) {
			c.setup()
			s, t, e, f, g := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed), c.event(timed), c.gate()
			c.begin(s, capRelaxed)
			c.record(e, s)
			c.res("fork", c.wait(t, e))
			c.mark(t, g)
			c.record(f, t)
			graph, res := c.StreamEndCapture(c.at, s)
			c.res("end", res)
			c.val("graph", graph != 0)
			c.status("status-of-fork", t)
			c.res("event-of-fork", c.query(f))
			c.res("begin-on-fork", c.StreamBeginCapture(c.at, t, capRelaxed))
			c.res("end-of-that", c.end(t))
		}},
		{famJoin, "fork-without-work", "searching for the unjoined branch among branches without work", func(c *raw) {
			c.setup()
			s, t, e, g := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed), c.gate()
			c.begin(s, capRelaxed)
			c.record(e, s)
			c.must("cuStreamWaitEvent", c.wait(t, e))
			c.res("from-nothing", c.end(s))
			c.begin(s, capRelaxed)
			c.mark(s, g)
			c.record(e, s)
			c.must("cuStreamWaitEvent", c.wait(t, e))
			c.status("status", t)
			c.res("from-work", c.end(s))
			c.status("status-after", t)
		}},
		{famJoin, "captured-event-destroyed", "keeping the events of a capture for the graph", func(c *raw) {
			c.setup()
			s, t, e, f, g := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed), c.event(timed), c.gate()
			c.begin(s, capRelaxed)
			c.mark(s, g)
			c.record(e, s)
			c.res("fork", c.wait(t, e))
			c.res("destroy", c.EventDestroy(c.at, e))
			c.mark(t, g)
			c.record(f, t)
			c.res("join", c.wait(s, f))
			c.res("destroy-second", c.EventDestroy(c.at, f))
			graph, res := c.StreamEndCapture(c.at, s)
			c.res("end", res)
			c.val("nodes", c.nodes(graph))
			c.run(c.exec(graph), s)
			c.finish(s)
			c.val("done", g.word().Load())
		}},
		{famJoin, "invalid-event-recorded", "destroying an event because its capture failed", func(c *raw) {
			c.setup()
			s, u, e, before := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed), c.event(timed)
			c.record(before, u)
			c.finish(u)
			c.begin(s, capRelaxed)
			c.record(e, s)
			c.res("spoil", c.streamQuery(s))
			c.res("query", c.query(e))
			c.res("wait", c.wait(u, e))
			c.res("elapsed", c.elapsed(before, e))
			c.res("record", c.EventRecord(c.at, e, u))
			c.res("sync", c.EventSynchronize(c.at, e))
			c.res("elapsed-again", c.elapsed(before, e))
			c.res("end", c.end(s))
		}},
		{famJoin, "event-of-an-old-capture", "waiting in a capture for an event of the previous capture", func(c *raw) {
			c.setup()
			s, t, e := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed)
			c.begin(s, capRelaxed)
			c.record(e, s)
			c.res("end-old", c.end(s))
			c.begin(s, capRelaxed)
			c.res("wait", c.wait(s, e))
			c.status("status", s)
			c.res("wait-on-another", c.wait(t, e))
			c.status("status-after", s)
			c.end(s)
			c.begin(s, capRelaxed)
			c.record(e, s)
			c.res("wait-new", c.wait(t, e))
			c.status("joined", t)
			c.res("end-new", c.end(s))
		}},
		{famJoin, "dependencies", "a graph whose edges differ from the order of the streams", func(c *raw) {
			c.setup()
			s, t, u := c.stream(nonBlocking), c.stream(nonBlocking), c.stream(nonBlocking)
			e, f, h, g := c.event(timed), c.event(timed), c.event(timed), c.gate()
			c.begin(s, capRelaxed)
			c.mark(s, g)
			c.record(e, s)
			c.must("cuStreamWaitEvent", c.wait(t, e))
			c.must("cuStreamWaitEvent", c.wait(u, e))
			c.val("of-the-fork", c.info("fork", t).deps)
			c.mark(t, g)
			c.mark(u, g)
			c.record(f, t)
			c.record(h, u)
			c.must("cuStreamWaitEvent", c.wait(s, f))
			c.val("joined-once", c.info("once", s).deps)
			c.must("cuStreamWaitEvent", c.wait(s, f))
			c.val("joined-again", c.info("again", s).deps)
			c.must("cuStreamWaitEvent", c.wait(s, h))
			c.val("joined-twice", c.info("twice", s).deps)
			c.record(e, s)
			c.must("cuStreamWaitEvent", c.wait(u, e))
			c.val("joined-by-the-fork", c.info("by-fork", u).deps)
			c.mark(u, g)
			c.val("after-work", c.info("work", u).deps)
			c.record(h, u)
			c.must("cuStreamWaitEvent", c.wait(s, h))
			graph, res := c.StreamEndCapture(c.at, s)
			c.res("end", res)
			c.val("nodes", c.nodes(graph))
		}},
		{famJoin, "recorded-twice-in-a-capture", "a branch that begins at the first record of an event instead of the second", func(c *raw) {
			c.setup()
			s, t, e, g := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed), c.gate()
			c.begin(s, capRelaxed)
			c.record(e, s)
			c.must("cuStreamWaitEvent", c.wait(t, e))
			c.val("of-the-first", c.info("first", t).deps)
			c.mark(s, g)
			c.res("record-again", c.EventRecord(c.at, e, s))
			c.val("of-the-first-still", c.info("first-still", t).deps)
			c.res("wait-again", c.wait(t, e))
			c.val("of-the-second", c.info("second", t).deps)
			c.res("end", c.end(s))
		}},
		{famJoin, "capture-across-contexts", "assuming that a stream of another context cannot join a capture, or that its work would run in the wrong context", func(c *raw) {
			dev, _ := c.setup()
			ctx := c.aside(dev)
			other := c.inside(ctx)
			s, t, u, g := c.stream(nonBlocking), other.stream(nonBlocking), c.stream(nonBlocking), c.gate()
			e, f := c.event(timed), other.event(timed)
			c.begin(s, capRelaxed)
			c.record(e, s)
			c.res("record-of-the-other", c.EventRecord(c.at, f, s))
			c.status("status", s)
			c.res("fork", c.wait(t, e))
			c.status("status-of-fork", t)
			c.mark(t, g)
			c.res("record-on-fork", c.EventRecord(c.at, f, t))
			c.res("join", c.wait(s, f))
			graph, res := c.StreamEndCapture(c.at, s)
			c.res("end", res)
			x, res := c.GraphInstantiateWithFlags(c.at, graph, 0)
			c.res("instantiate", res)
			c.res("launch", c.GraphLaunch(c.at, x, u))
			c.res("sync", c.StreamSynchronize(c.at, u))
			c.val("done", g.word().Load())
		}},
		{famJoin, "unrecorded-in-a-capture", "waiting for an event without a record, which a capture ignores", func(c *raw) {
			c.setup()
			s, t, e := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed)
			c.begin(s, capRelaxed)
			c.res("wait", c.wait(s, e))
			c.status("status", s)
			c.val("deps", c.info("info", s).deps)
			c.res("wait-outside", c.wait(t, e))
			c.status("joined", t)
			graph, res := c.StreamEndCapture(c.at, s)
			c.res("end", res)
			c.val("graph", graph != 0)
		}},
		{famJoin, "pending-work-before-a-capture", "assuming that earlier work of the stream is part of the graph", func(c *raw) {
			c.setup()
			s, t, e, g, w := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed), c.gate(), c.gate()
			g.hold(s)
			c.record(e, s)
			c.res("begin", c.StreamBeginCapture(c.at, s, capRelaxed))
			c.mark(s, w)
			graph, res := c.StreamEndCapture(c.at, s)
			c.res("end", res)
			c.res("still-pending", c.streamQuery(s))
			c.run(c.exec(graph), t)
			c.res("launched-elsewhere", c.drained(t))
			c.val("done", w.word().Load())
			c.res("event", c.query(e))
			time.Sleep(settling)
			g.open()
			c.res("event-when-open", c.settled(e))
		}},

		{famExternal, "pending-from-the-launch", "polling an event of a graph right after the launch, and seeing the completion of the previous launch", func(c *raw) {
			_, ctx := c.setup()
			s, t, e, g := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed), c.gate()
			graph := c.captured(s, func() { c.res("record", c.external(e, s)) })
			x := c.exec(graph)
			g.hold(s)
			c.run(x, s)
			c.res("first-launch", c.query(e))
			c.res("wait", c.wait(t, e))
			c.res("waiter", c.streamQuery(t))
			g.open()
			c.finish(s)
			c.res("first-end", c.query(e))
			c.res("waiter-end", c.drained(t))
			g = c.gate()
			g.hold(s)
			c.run(x, s)
			c.res("second-launch", c.query(e))
			waited, res := c.waits(ctx, g, func(c *raw) driver.Result { return c.EventSynchronize(c.at, e) })
			c.val("synchronize-waits", waited)
			c.res("synchronize", res)
		}},
		{famExternal, "graph-held-then-recorded", "recording an event after the launch of a graph and before its start", func(c *raw) {
			c.setup()
			s, a := c.stream(nonBlocking), c.stream(nonBlocking)
			e, turn, g := c.event(untimed), c.gate(), c.gate()
			graph := c.captured(s, func() { c.res("wait", c.externalWait(s, e)) })
			x := c.exec(graph)
			turn.hold(s)
			c.run(x, s)
			g.hold(a)
			c.record(e, a)
			turn.open()
			c.res("its-turn", c.drained(s))
			g.open()
			c.res("record-is-done", c.drained(s))
		}},
		{famExternal, "second-launch-records-again", "an interval between events of two launches of the same graph", func(c *raw) {
			c.setup()
			s, e, f := c.stream(nonBlocking), c.event(timed), c.event(timed)
			x := c.exec(c.captured(s, func() { c.external(e, s) }))
			c.run(x, s)
			c.record(f, s)
			c.finish(s)
			c.res("elapsed", c.elapsed(e, f))
			c.val("launch-is-before", c.after(e, f))
			time.Sleep(settling)
			c.run(x, s)
			c.finish(s)
			c.res("elapsed-again", c.elapsed(e, f))
			c.val("launch-is-still-before", c.after(e, f))
		}},
		{famExternal, "event-of-a-graph-destroyed", "destroying an event that a graph still records", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			graph := c.captured(s, func() { c.external(e, s) })
			x := c.exec(graph)
			c.res("destroy", c.EventDestroy(c.at, e))
			c.dare("launch", func() driver.Result {
				if res := c.GraphLaunch(c.at, x, s); res != driver.ResultSuccess {
					return res
				}
				return c.StreamSynchronize(c.at, s)
			})
		}},
		{famExternal, "event-destroyed-before-instantiation", "instantiating a graph whose event was destroyed", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			graph := c.captured(s, func() { c.external(e, s) })
			c.res("destroy", c.EventDestroy(c.at, e))
			c.dare("instantiate", func() driver.Result {
				_, res := c.GraphInstantiateWithFlags(c.at, graph, 0)
				return res
			})
		}},
		{famExternal, "never-launched", "assuming that an event is recorded when its graph is instantiated", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			before := c.ended(timed, s)
			graph := c.captured(s, func() { c.external(e, s) })
			c.res("query", c.query(e))
			c.res("elapsed", c.elapsed(before, e))
			c.exec(graph)
			c.res("elapsed-executable", c.elapsed(before, e))
			c.res("destroy-graph", c.GraphDestroy(c.at, graph))
			c.res("record", c.EventRecord(c.at, e, s))
			c.res("sync", c.EventSynchronize(c.at, e))
			c.res("elapsed-recorded", c.elapsed(before, e))
		}},
		{famExternal, "external-in-a-spoilt-capture", "assuming that an external record in an invalidated capture is done", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			before := c.ended(timed, s)
			c.begin(s, capRelaxed)
			c.external(e, s)
			c.res("spoil", c.streamQuery(s))
			c.res("record", c.external(e, s))
			c.res("wait", c.externalWait(s, before))
			c.res("query", c.query(e))
			c.res("end", c.end(s))
			c.res("elapsed", c.elapsed(before, e))
		}},
	}
}
