package behaviour

import (
	"time"

	"github.com/purecu/purecu/driver"
)

// This file has the cases about stream capture and graphs.

// rawCapture captures in a mode, and makes calls on events and streams that are allowed in a
// capture and calls that are not. The names of its steps begin with the prefix.
func rawCapture(prefix string, mode int32) func(*raw) {
	return func(c *raw) {
		c.setup()
		s, t := c.stream(nonBlocking), c.stream(nonBlocking)
		e, f := c.event(timed), c.event(timed)
		sp := c.spinner()
		other := c.ended(timed, t) // never captured
		step := func(name string, res driver.Result) { c.res(prefix+name, res) }
		begin := func(name string) { step(name, c.StreamBeginCapture(c.at, s, mode)) }
		end := func(name string) { step(name, c.end(s)) }
		query := func(e driver.Event) driver.Result { return c.EventQuery(c.at, e) }
		elapsed := func(start, end driver.Event) driver.Result {
			_, res := c.EventElapsedTimeV2(c.at, start, end)
			return res
		}
		status := func(name, value string, s driver.Stream) {
			st, res := c.StreamIsCapturing(c.at, s)
			step(name, res)
			c.val(prefix+value, st)
		}

		// T joins the capture because it waits for an event of S, and S waits for T.
		begin("begin")
		sp.spin(s, time.Microsecond)
		step("record-E", c.EventRecord(c.at, e, s))
		step("wait-T-E", c.StreamWaitEvent(c.at, t, e, 0))
		status("T-capturing", "T-status", t)
		sp.spin(t, time.Microsecond)
		step("record-F-on-T", c.EventRecord(c.at, f, t))
		step("wait-S-F", c.StreamWaitEvent(c.at, s, f, 0))
		graph, res := c.StreamEndCapture(c.at, s)
		step("end", res)

		// An event that was recorded in the capture stands for no work after the capture.
		step("after-query-E", query(e))
		step("after-sync-E", c.EventSynchronize(c.at, e))
		step("after-elapsed-EF", elapsed(e, f))
		step("after-wait-E", c.StreamWaitEvent(c.at, t, e, 0))
		exec, res := c.GraphInstantiateWithFlags(c.at, graph, 0)
		step("inst", res)
		step("launch", c.GraphLaunch(c.at, exec, s))
		step("sync", c.StreamSynchronize(c.at, s))
		step("after-launch-query-E", query(e))
		step("rerecord-E", c.EventRecord(c.at, e, s))
		step("rerecord-sync", c.EventSynchronize(c.at, e))
		step("elapsed-EF-one-invalid", elapsed(e, f))

		// Querying a captured event invalidates the capture.
		begin("begin2")
		step("rec2", c.EventRecord(c.at, e, s))
		step("query-captured", query(e))
		status("status2", "st2", s)
		end("end2")
		begin("begin3")
		step("rec3", c.EventRecord(c.at, e, s))
		step("sync-captured", c.EventSynchronize(c.at, e))
		end("end3")

		// Whether other events may be queried depends on the mode.
		begin("begin4")
		step("query-other", query(other))
		end("end4")
		begin("begin5")
		step("sync-other", c.EventSynchronize(c.at, other))
		end("end5")

		begin("begin6")
		created, res := c.EventCreate(c.at, timed)
		step("create-in-capture", res)
		step("destroy-in-capture", c.EventDestroy(c.at, created))
		step("rec-other-on-T", c.EventRecord(c.at, other, t))
		end("end6")

		begin("begin7")
		step("streamquery", c.StreamQuery(c.at, s))
		end("end7")
		begin("begin8")
		step("streamsync-other", c.StreamSynchronize(c.at, t))
		end("end8")
		begin("begin9")
		p, res := c.MemAlloc(c.at, 256)
		step("malloc", res)
		end("end9")
		if res == driver.ResultSuccess {
			c.must("cuMemFree", c.MemFree(c.at, p))
		}
		begin("begin10")
		step("legacy-record", c.EventRecord(c.at, other, null))
		end("end10")

		// A stream that joined the capture and was not joined back makes the end of the capture
		// fail.
		begin("begin11")
		c.record(e, s)
		step("fork", c.StreamWaitEvent(c.at, t, e, 0))
		c.end(s)
		status("T-after", "T-after-status", t)
		step("T-sync", c.StreamSynchronize(c.at, t))
		begin("begin12")
		c.StreamSynchronize(c.at, s) // no mode allows this
		end("end12")

		// External records and waits are nodes of the graph, but not edges.
		from, to, g := c.event(timed), c.event(timed), c.ended(timed, t)
		begin("begin13")
		step("ext-rec-E", c.EventRecordWithFlags(c.at, from, s, driver.CU_EVENT_RECORD_EXTERNAL))
		sp.spin(s, 3*time.Millisecond)
		step("ext-rec-F", c.EventRecordWithFlags(c.at, to, s, driver.CU_EVENT_RECORD_EXTERNAL))
		step("ext-wait-G", c.StreamWaitEvent(c.at, s, g, driver.CU_EVENT_WAIT_EXTERNAL))
		graph, res = c.StreamEndCapture(c.at, s)
		step("end13", res)
		c.val(prefix+"ext-nodes", c.nodes(graph))
		exec, res = c.GraphInstantiateWithFlags(c.at, graph, 0)
		step("ext-inst", res)
		began := time.Now()
		step("ext-launch", c.GraphLaunch(c.at, exec, s))
		step("ext-sync", c.StreamSynchronize(c.at, s))
		ms, res := c.EventElapsedTimeV2(c.at, from, to)
		step("ext-elapsed", res)
		c.val(prefix+"ext-ms-of-3ms-kernel", lasted(ms, 3*time.Millisecond, began))

		begin("begin-twice-1")
		begin("begin-twice-2")
		end("end-twice")
		end("end-without")
		step("begin-null", c.StreamBeginCapture(c.at, null, mode))
		begin("begin14")
		step("destroy-capturing-stream", c.StreamDestroy(c.at, s))
	}
}

// nodes counts the nodes of a graph.
func (c *raw) nodes(g driver.Graph) uint64 {
	n, res := c.GraphGetNodes(c.at, g, nil)
	c.must("cuGraphGetNodes", res)
	return n
}

// rawExtQuery queries an event that was recorded externally in a capture.
func rawExtQuery(c *raw) {
	c.setup()
	s, e := c.stream(nonBlocking), c.event(timed)
	c.begin(s, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
	c.res("ext-rec", c.EventRecordWithFlags(c.at, e, s, driver.CU_EVENT_RECORD_EXTERNAL))
	c.res("ext-query", c.EventQuery(c.at, e))
	status, res := c.StreamIsCapturing(c.at, s)
	c.res("iscap", res)
	c.val("st", status)
	c.res("end", c.end(s))
}

// rawOtherCap makes calls from another thread than the one that captures.
func rawOtherCap(c *raw) {
	_, ctx := c.setup()
	s, t := c.stream(nonBlocking), c.stream(nonBlocking)
	e := c.ended(timed, t)
	c.finish(t)
	for _, mode := range []struct {
		name string
		mode int32
	}{
		{"global", driver.CU_STREAM_CAPTURE_MODE_GLOBAL},
		{"thread", driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
		{"relaxed", driver.CU_STREAM_CAPTURE_MODE_RELAXED},
	} {
		for _, relaxed := range []bool{false, true} {
			prefix := mode.name + "-plainthread-"
			if relaxed {
				prefix = mode.name + "-relaxedthread-"
			}
			var p driver.DevicePtr
			w := c.worker(ctx)
			c.begin(s, mode.mode)
			w.do(func(c *raw) {
				if relaxed {
					old, res := c.ThreadExchangeStreamCaptureMode(c.at, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
					c.res(prefix+"exchange", res)
					c.val(prefix+"old-mode", old)
				}
				c.res(prefix+"query", c.EventQuery(c.at, e))
				var res driver.Result
				if p, res = c.MemAlloc(c.at, 256); res != driver.ResultSuccess {
					p = 0
				}
				c.res(prefix+"malloc", res)
				c.res(prefix+"sync", c.EventSynchronize(c.at, e))
				c.res(prefix+"streamquery-other", c.StreamQuery(c.at, t))
			})
			status, res := c.StreamIsCapturing(c.at, s)
			c.must("cuStreamIsCapturing", res)
			c.val(prefix+"status", status)
			c.res(prefix+"end", c.end(s))
			if p != 0 {
				c.must("cuMemFree", c.MemFree(c.at, p))
			}
			w.end()
		}
	}
}

// rawSelfExch exchanges the capture mode on the thread that captures.
func rawSelfExch(c *raw) {
	c.setup()
	s := c.stream(nonBlocking)
	e := c.ended(timed, s)
	c.begin(s, driver.CU_STREAM_CAPTURE_MODE_GLOBAL)
	old, res := c.ThreadExchangeStreamCaptureMode(c.at, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
	c.res("exch", res)
	c.val("old", old)
	c.res("query", c.EventQuery(c.at, e))
	_, res = c.ThreadExchangeStreamCaptureMode(c.at, old)
	c.res("exch-back", res)
	c.res("end", c.end(s))
}

// rawGraph builds a graph that records an event, and then replaces the event.
func rawGraph(c *raw) {
	c.setup()
	s := c.stream(nonBlocking)
	e, f := c.event(timed), c.event(timed)
	waited := c.ended(timed, s)
	g, res := c.GraphCreate(c.at, 0)
	c.res("create", res)
	record, res := c.GraphAddEventRecordNode(c.at, g, nil, e)
	c.res("add-record", res)
	_, res = c.GraphAddEventWaitNode(c.at, g, []driver.GraphNode{record}, waited)
	c.res("add-wait", res)
	of, res := c.GraphEventRecordNodeGetEvent(c.at, record)
	c.res("get-event", res)
	c.val("same", of == e)
	exec, res := c.GraphInstantiateWithFlags(c.at, g, 0)
	c.res("inst", res)
	c.res("query-before-launch", c.EventQuery(c.at, e))
	c.res("launch", c.GraphLaunch(c.at, exec, s))
	c.res("sync", c.StreamSynchronize(c.at, s))
	c.res("query", c.EventQuery(c.at, e))
	_, res = c.EventElapsedTimeV2(c.at, e, e)
	c.res("elapsed-self", res)
	c.res("set-event", c.GraphExecEventRecordNodeSetEvent(c.at, exec, record, f))
	c.res("launch2", c.GraphLaunch(c.at, exec, s))
	c.res("sync2", c.StreamSynchronize(c.at, s))
	_, res = c.EventElapsedTimeV2(c.at, e, f)
	c.res("elapsed-EF", res)
	_, res = c.GraphAddEventRecordNode(c.at, g, nil, 0)
	c.res("add-null", res)
	c.res("destroy-graph", c.GraphDestroy(c.at, g))
	c.res("launch-after-graph-destroy", c.GraphLaunch(c.at, exec, s))
	c.res("exec-destroy", c.GraphExecDestroy(c.at, exec))
	c.res("sync3", c.StreamSynchronize(c.at, s))
}

// captureInfo has the results of cuStreamGetCaptureInfo.
type captureInfo struct {
	status int32
	id     uint64
	deps   uint64
}

// info queries the capture of a stream. Drivers before CUDA 12.3 have only an older function.
func (c *raw) info(step string, s driver.Stream) (i captureInfo) {
	var res driver.Result
	i.status, i.id, _, _, _, i.deps, res = c.StreamGetCaptureInfoV3(c.at, s)
	if c.Missing(res) != nil {
		i.status, i.id, _, _, i.deps, res = c.StreamGetCaptureInfoV2(c.at, s)
	}
	c.res(step, res)
	return i
}

// rawCapInfo queries a capture after each addition.
func rawCapInfo(c *raw) {
	c.setup()
	s, e := c.stream(nonBlocking), c.event(timed)
	sp := c.spinner()
	c.begin(s, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
	empty := c.info("info", s)
	c.val("deps0", empty.deps)
	sp.spin(s, time.Microsecond)
	kernel := c.info("info2", s)
	c.val("deps1", kernel.deps)
	c.val("same-id", kernel.id == empty.id)
	c.record(e, s)
	c.val("deps-after-record", c.info("info3", s).deps)
	g, res := c.StreamEndCapture(c.at, s)
	c.res("end", res)
	c.val("nodes", c.nodes(g))
	c.val("idle-status", c.info("info-idle", s).status)
}
