package behaviour

import "github.com/purecu/purecu/internal/driver"

// The capture modes.
const (
	capGlobal  = driver.CU_STREAM_CAPTURE_MODE_GLOBAL
	capThread  = driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
	capRelaxed = driver.CU_STREAM_CAPTURE_MODE_RELAXED
)

// memory returns memory to work on. It is allocated before anything is captured.
func (c *raw) memory() driver.DevicePtr {
	p, res := c.MemAlloc(c.at, 64)
	c.must("cuMemAlloc", res)
	return p
}

// set enqueues a node's worth of work.
func (c *raw) set(p driver.DevicePtr, s driver.Stream) driver.Result {
	return c.MemsetD8Async(c.at, p, 1, 16, s)
}

// graphOf ends a capture, and returns how many nodes its graph has.
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

// foundCaptures are about captures and external events.
func foundCaptures() []found {
	return []found{
		{famThread, "logger-asks-for-id", "a log line with the stream's id: from any thread it ruins the capture", func(c *raw) {
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
		{famThread, "end-elsewhere", "ending a capture from a goroutine that moved: the graph is lost, and the capture over", func(c *raw) {
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
		{famThread, "exchange-elsewhere", "giving a helper thread leave to allocate while others capture", func(c *raw) {
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
		{famThread, "exchange-thread-local-elsewhere", "believing that only relaxed helps a thread that does not capture", func(c *raw) {
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
		{famThread, "exchange-nonsense", "a mode that does not exist: it is taken, and given back", func(c *raw) {
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
		{famThread, "no-current-context", "a capture needs no current context: its stream knows its own", func(c *raw) {
			_, ctx := c.setup()
			s, p := c.stream(nonBlocking), c.memory()
			c.current(0)
			c.res("begin", c.StreamBeginCapture(c.at, s, capGlobal))
			c.res("work", c.set(p, s))
			c.res("end", c.end(s))
			c.current(ctx)
		}},
		{famThread, "captured-elsewhere-worked-here", "work from several threads: a capture takes it from all", func(c *raw) {
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

		{famJoin, "joined-stream-destroyed", "a fork that is destroyed before it has joined", func(c *raw) {
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
		{famJoin, "end-on-joined", "ending a capture on the stream that was at hand", func(c *raw) {
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
		{famJoin, "event-moves", "one event for two captures: it belongs to the one that recorded it last", func(c *raw) {
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
		{famJoin, "record-outside", "a captured event that is recorded outside: the capture does not mind", func(c *raw) {
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
		{famJoin, "empty-capture", "a capture of nothing: a graph without nodes, which runs", func(c *raw) {
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
		{famJoin, "record-when-invalidated", "what an event stands for after a record that an invalidated capture refused: what it stood for", func(c *raw) {
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
		{famJoin, "origin-destroyed", "destroying the stream that is being captured: the others are free", func(c *raw) {
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
		{famExternal, "external-wait-at-launch", "a graph that waits for an event takes its record when it is launched, not when it was captured", func(c *raw) {
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
		{famExternal, "external-pending-launch", "asking for an event of a graph that was launched and has not begun", func(c *raw) {
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
		{famExternal, "external-then-by-hand", "an event of a graph that is recorded by hand, too: the newest counts, whoever made it", func(c *raw) {
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
		{famExternal, "external-wait-then-destroy", "destroying an event that an executable graph waits for, after the launch", func(c *raw) {
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
	}
}
