package behaviour

import (
	"unsafe"

	"github.com/purecu/purecu/driver"
)

const interprocess = driver.CU_EVENT_INTERPROCESS | driver.CU_EVENT_DISABLE_TIMING

// exported is what the first process of a case sends the second.
type exported struct{ Handle []byte }

// export returns an event for other processes.
func (c *raw) export() (driver.Event, exported) {
	e := c.event(interprocess)
	h, res := c.IpcGetEventHandle(c.at, e)
	c.must("cuIpcGetEventHandle", res)
	return e, exported{h[:]}
}

// imported waits, in a second process, for an event of the first process.
func (c *raw) imported(step string) driver.Event {
	c.setup()
	var x exported
	c.receive(&x)
	var h driver.IPCEventHandle
	copy(h[:], x.Handle)
	e, res := c.IpcOpenEventHandle(c.at, h)
	c.res(step, res)
	return e
}

// waitForFirst waits, in a second process, until the first process lets it continue.
func (c *raw) waitForFirst() {
	var v any
	c.receive(&v)
}

// foundOthers are about other processes, graphs, sticky errors and second devices.
func foundOthers() []found {
	return []found{
		{famIPC, "exporter-destroys", "an importer that loses an event because the exporter destroyed the original", func(c *raw) {
			if c.job.Part == peer {
				e := c.imported("open")
				c.res("child-pending", c.settled(e))
				c.waitForFirst() // the event is destroyed
				c.res("child-after-destroy", c.settled(e))
				c.waitForFirst() // the gate is open
				c.res("child-sync", c.EventSynchronize(c.at, e))
				c.res("child-destroy", c.EventDestroy(c.at, e))
				return
			}
			c.setup()
			s, g := c.held(nonBlocking)
			e, x := c.export()
			c.record(e, s)
			other := startPeer(c.job, c.reporter)
			other.send(x)
			c.res("destroy", c.EventDestroy(c.at, e))
			other.send(1)
			g.open()
			c.finish(s)
			other.send(1)
			other.end()
		}},
		{famIPC, "importer-dies", "an exporter that is affected by the end of an importer", func(c *raw) {
			if c.job.Part == peer {
				e := c.imported("open")
				s, _ := c.held(nonBlocking)
				c.must("cuStreamWaitEvent", c.StreamWaitEvent(c.at, s, e, 0))
				return // the process ends with pending work
			}
			c.setup()
			s, g := c.held(nonBlocking)
			e, x := c.export()
			c.record(e, s)
			other := startPeer(c.job, c.reporter)
			other.send(x)
			other.end()
			c.res("pending", c.settled(e))
			g.open()
			c.res("sync", c.EventSynchronize(c.at, e))
			c.record(e, s)
			c.res("sync-again", c.EventSynchronize(c.at, e))
		}},
		{famIPC, "importer-records", "assuming that the exporter does not see records of the importer", func(c *raw) {
			if c.job.Part == peer {
				e := c.imported("open")
				s, g := c.held(nonBlocking)
				c.res("child-record", c.EventRecord(c.at, e, s))
				c.waitForFirst()
				g.open()
				c.finish(s)
				c.waitForFirst()
				return
			}
			c.setup()
			e, x := c.export()
			c.res("query-unrecorded", c.EventQuery(c.at, e))
			other := startPeer(c.job, c.reporter)
			other.send(x)
			c.res("query-pending", c.settled(e))
			s := c.stream(nonBlocking)
			c.res("wait", c.StreamWaitEvent(c.at, s, e, 0))
			c.res("waiter", c.reached(s))
			other.send(1)
			c.res("sync", c.EventSynchronize(c.at, e))
			c.res("sync-waiter", c.StreamSynchronize(c.at, s))
			other.send(1)
			other.end()
		}},
		{famIPC, "exporter-records-again", "assuming that an importer waits for the record at its call: it waits for the newest record", func(c *raw) {
			if c.job.Part == peer {
				e := c.imported("open")
				c.res("child-complete", c.settled(e))
				c.waitForFirst()
				c.res("child-pending", c.settled(e))
				c.waitForFirst()
				c.res("child-sync", c.EventSynchronize(c.at, e))
				return
			}
			c.setup()
			e, x := c.export()
			s := c.stream(nonBlocking)
			g := c.gate()
			c.record(e, s)
			c.sync(e)
			other := startPeer(c.job, c.reporter)
			other.send(x)
			g.hold(s)
			c.record(e, s)
			other.send(1)
			g.open()
			c.finish(s)
			other.send(1)
			other.end()
		}},
		{famIPC, "open-here", "opening one's own event", func(c *raw) {
			c.setup()
			e := c.event(interprocess)
			h, res := c.IpcGetEventHandle(c.at, e)
			c.res("export", res)
			again, res := c.IpcGetEventHandle(c.at, e)
			c.res("export-again", res)
			c.val("same-bytes", h == again)
			c.res("open", bare(c.IpcOpenEventHandle(c.at, h)))
		}},
		{famIPC, "interprocess-limits", "timing or capturing an event for other processes", func(c *raw) {
			c.setup()
			s, e, timedToo := c.stream(nonBlocking), c.event(interprocess), c.ended(timed, c.stream(nonBlocking))
			c.res("elapsed", bare(c.EventElapsedTime(c.at, e, e)))
			c.res("elapsed-mixed", bare(c.EventElapsedTime(c.at, timedToo, e)))
			c.begin(s, capRelaxed)
			c.res("record-captured", c.EventRecord(c.at, e, s))
			c.status("after-record", s)
			c.res("record-external", c.EventRecordWithFlags(c.at, e, s, driver.CU_EVENT_RECORD_EXTERNAL))
			c.status("after-external", s)
			c.res("wait-captured", c.StreamWaitEvent(c.at, s, e, 0))
			c.status("after-wait", s)
			c.res("end", c.end(s))
			c.res("query", c.EventQuery(c.at, e))
		}},
		{famIPC, "open-twice", "opening an event twice in an importer: this makes two events, which are destroyed separately", func(c *raw) {
			if c.job.Part == peer {
				c.setup()
				var x exported
				c.receive(&x)
				var h driver.IPCEventHandle
				copy(h[:], x.Handle)
				e, res := c.IpcOpenEventHandle(c.at, h)
				c.res("open", res)
				f, res := c.IpcOpenEventHandle(c.at, h)
				c.res("open-again", res)
				c.val("same", e == f)
				c.res("destroy", c.EventDestroy(c.at, e))
				c.res("query-other", c.EventQuery(c.at, f))
				c.res("export-imported", bare(c.IpcGetEventHandle(c.at, f)))
				return
			}
			c.setup()
			_, x := c.export()
			other := startPeer(c.job, c.reporter)
			other.send(x)
			other.end()
		}},
		{famIPC, "exporter-dies", "an importer that hangs or fails because the exporter ended before its record", func(c *raw) {
			if c.job.Part == peer {
				c.setup()
				s, _ := c.held(nonBlocking)
				e, x := c.export()
				c.record(e, s)
				c.sendToFirst(x)
				return // the process ends with a pending record
			}
			c.setup()
			other := startPeer(c.job, c.reporter)
			e := c.opened(other)
			c.res("pending", c.settled(e))
			other.send(1)
			other.end()
			c.val("pending-for-ever", c.settled(e) == driver.ResultNotReady)
			c.res("destroy", c.EventDestroy(c.at, e))
			c.res("create", bare(c.EventCreate(c.at, timed)))
		}},

		{famGraph, "launches-in-turn", "launching an executable graph on two streams at a time: the launches wait for each other", func(c *raw) {
			c.setup()
			s1, s2, p, g := c.stream(nonBlocking), c.stream(nonBlocking), c.memory(), c.gate()
			c.begin(s1, capGlobal)
			c.must("cuMemsetD8Async", c.set(p, s1))
			_, graph, _ := c.graphOf(s1)
			x := c.exec(graph)
			g.hold(s1)
			c.res("launch", c.GraphLaunch(c.at, x, s1))
			c.res("launch-second", c.GraphLaunch(c.at, x, s2))
			c.res("second", c.reached(s2))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, s2))
		}},
		{famGraph, "graph-destroyed-first", "keeping a graph for its executable graph, which does not need it", func(c *raw) {
			c.setup()
			s, p := c.stream(nonBlocking), c.memory()
			c.begin(s, capGlobal)
			c.must("cuMemsetD8Async", c.set(p, s))
			_, graph, _ := c.graphOf(s)
			x := c.exec(graph)
			c.res("destroy", c.GraphDestroy(c.at, graph))
			c.res("launch", c.GraphLaunch(c.at, x, s))
			c.res("sync", c.StreamSynchronize(c.at, s))
		}},
		{famGraph, "exec-destroyed-while-pending", "waiting for an executable graph before destroying it: it is destroyed after its work", func(c *raw) {
			c.setup()
			s, p, g := c.stream(nonBlocking), c.memory(), c.gate()
			c.begin(s, capGlobal)
			c.must("cuMemsetD8Async", c.set(p, s))
			_, graph, _ := c.graphOf(s)
			x := c.exec(graph)
			g.hold(s)
			c.must("cuGraphLaunch", c.GraphLaunch(c.at, x, s))
			c.res("destroy", c.GraphExecDestroy(c.at, x))
			c.res("busy", c.StreamQuery(c.at, s))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, s))
		}},
		{famGraph, "exec-event-exchanged", "timing each launch with an event of its own, without a new graph", func(c *raw) {
			c.setup()
			s, a, b := c.stream(nonBlocking), c.event(timed), c.event(timed)
			graph, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			n, res := c.GraphAddEventRecordNode(c.at, graph, nil, a)
			c.must("cuGraphAddEventRecordNode", res)
			x := c.exec(graph)
			c.res("exchange", c.GraphExecEventRecordNodeSetEvent(c.at, x, n, b))
			c.must("cuGraphLaunch", c.GraphLaunch(c.at, x, s))
			c.finish(s)
			c.res("old-is-unrecorded", bare(c.EventElapsedTime(c.at, a, a)))
			c.res("new-is-recorded", bare(c.EventElapsedTime(c.at, b, b)))
			of, res := c.GraphEventRecordNodeGetEvent(c.at, n)
			c.res("event-of-node", res)
			c.val("is-old", of == a)
		}},
		{famGraph, "exec-has-its-own-events", "changing a node after the instantiation: the executable graph does not change", func(c *raw) {
			c.setup()
			s, a, b := c.stream(nonBlocking), c.event(timed), c.event(timed)
			graph, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			n, res := c.GraphAddEventRecordNode(c.at, graph, nil, a)
			c.must("cuGraphAddEventRecordNode", res)
			x := c.exec(graph)
			c.res("set", c.GraphEventRecordNodeSetEvent(c.at, n, b))
			c.must("cuGraphLaunch", c.GraphLaunch(c.at, x, s))
			c.finish(s)
			c.res("old-is-recorded", bare(c.EventElapsedTime(c.at, a, a)))
			c.res("new-is-unrecorded", bare(c.EventElapsedTime(c.at, b, b)))
		}},
		{famGraph, "foreign-dependency", "mixing nodes of two graphs", func(c *raw) {
			c.setup()
			g1, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			g2, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			n, res := c.GraphAddEmptyNode(c.at, g1, nil)
			c.must("cuGraphAddEmptyNode", res)
			c.res("foreign", bare(c.GraphAddEmptyNode(c.at, g2, []driver.GraphNode{n})))
			c.res("twice", bare(c.GraphAddEmptyNode(c.at, g1, []driver.GraphNode{n, n})))
			count, res := c.GraphGetNodes(c.at, g1, nil)
			c.res("count", res)
			c.val("nodes", count)
		}},
		{famGraph, "node-kinds", "reading a property of a node that only another kind has", func(c *raw) {
			c.setup()
			e := c.event(timed)
			graph, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			record, res := c.GraphAddEventRecordNode(c.at, graph, nil, e)
			c.must("cuGraphAddEventRecordNode", res)
			wait, res := c.GraphAddEventWaitNode(c.at, graph, []driver.GraphNode{record}, e)
			c.must("cuGraphAddEventWaitNode", res)
			c.res("record-of-wait", bare(c.GraphEventRecordNodeGetEvent(c.at, wait)))
			c.res("wait-of-record", bare(c.GraphEventWaitNodeGetEvent(c.at, record)))
			kind, res := c.GraphNodeGetType(c.at, wait)
			c.res("type", res)
			c.val("type-is", kind)
		}},
		{famGraph, "launch-on-default", "launching on the default stream: the whole graph waits for blocking streams", func(c *raw) {
			c.setup()
			e := c.event(timed)
			graph, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			_, res = c.GraphAddEventRecordNode(c.at, graph, nil, e)
			c.must("cuGraphAddEventRecordNode", res)
			x := c.exec(graph)
			_, g := c.held(0)
			c.res("launch", c.GraphLaunch(c.at, x, null))
			c.res("event", c.settled(e))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, null))
			c.res("event-afterwards", c.EventQuery(c.at, e))
		}},
		{famGraph, "launch-elsewhere", "launching a graph on a stream of another context", func(c *raw) {
			dev, _ := c.setup()
			e := c.event(timed)
			graph, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			_, res = c.GraphAddEventRecordNode(c.at, graph, nil, e)
			c.must("cuGraphAddEventRecordNode", res)
			x := c.exec(graph)
			c.context(dev)
			s := c.stream(nonBlocking)
			c.res("launch", c.GraphLaunch(c.at, x, s))
			c.res("sync", c.StreamSynchronize(c.at, s))
		}},
		{famGraph, "clone-is-apart", "changing a copy of a graph", func(c *raw) {
			c.setup()
			graph, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			_, res = c.GraphAddEmptyNode(c.at, graph, nil)
			c.must("cuGraphAddEmptyNode", res)
			clone, res := c.GraphClone(c.at, graph)
			c.res("clone", res)
			c.res("add", bare(c.GraphAddEmptyNode(c.at, clone, nil)))
			n, _ := c.GraphGetNodes(c.at, graph, nil)
			m, _ := c.GraphGetNodes(c.at, clone, nil)
			c.val("nodes", n)
			c.val("nodes-of-clone", m)
			c.res("destroy-original", c.GraphDestroy(c.at, graph))
			c.res("instantiate-clone", bare(c.GraphInstantiateWithFlags(c.at, clone, 0)))
		}},

		{famSticky, "created-context-poisoned", "running a faulty kernel in a context of its own: whether the primary context survives", func(c *raw) {
			dev, primary := c.setup()
			e := c.ended(timed, c.stream(nonBlocking))
			ctx := c.context(dev)
			s := c.stream(nonBlocking)
			c.spinner().poison(s)
			c.res("sync", c.StreamSynchronize(c.at, s))
			c.current(primary)
			c.res("query-of-primary", c.EventQuery(c.at, e))
			c.res("create-in-primary", bare(c.EventCreate(c.at, timed)))
			c.res("new-context", bare(c.create(dev)))
			c.res("destroy", c.CtxDestroy(c.at, ctx))
			c.current(primary)
			c.res("create-afterwards", bare(c.EventCreate(c.at, timed)))
		}},
		{famSticky, "primary-poisoned", "creating a new context after an error: whether that helps", func(c *raw) {
			dev, _ := c.setup()
			s := c.stream(nonBlocking)
			c.spinner().poison(s)
			c.res("sync", c.StreamSynchronize(c.at, s))
			c.res("new-context", bare(c.create(dev)))
			c.res("create", bare(c.EventCreate(c.at, timed)))
			c.res("device-name", c.DeviceGetName(c.at, make([]byte, 100), dev))
			c.res("total-memory", bare(c.DeviceTotalMem(c.at, dev)))
			c.res("count", bare(c.DeviceGetCount(c.at)))
		}},
		{famSticky, "harmless-errors", "assuming that an error is fatal: these errors change nothing", func(c *raw) {
			c.setup()
			s, p := c.stream(nonBlocking), c.memory()
			f := c.kernel(spinPTX, "spin")
			ns := uint64(1000)
			args := driver.KernelParams{Ptrs: []unsafe.Pointer{unsafe.Pointer(&ns)}, Sizes: []uint32{8}}
			c.res("block-too-large", c.LaunchKernel(c.at, f, 1, 1, 1, 2048, 1, 1, 0, s, args))
			c.res("no-blocks", c.LaunchKernel(c.at, f, 0, 1, 1, 1, 1, 1, 0, s, args))
			c.res("shared-memory", c.LaunchKernel(c.at, f, 1, 1, 1, 1, 1, 1, 1<<20, s, args))
			c.res("copy-nowhere", c.MemcpyDtoD(c.at, 64, p, 4))
			c.res("free-nothing", c.MemFree(c.at, 64))
			c.res("too-much-memory", bare(c.MemAlloc(c.at, 1<<50)))
			c.res("bad-image", bare(c.ModuleLoadData(c.at, []byte("nonsense\x00"))))
			c.res("launch", c.LaunchKernel(c.at, f, 1, 1, 1, 1, 1, 1, 0, s, args))
			c.res("sync", c.StreamSynchronize(c.at, s))
		}},
		{famSticky, "innocent-call", "assuming that a call that returns an error has caused it: the first call returns the error", func(c *raw) {
			c.setup()
			bad, innocent := c.stream(nonBlocking), c.stream(nonBlocking)
			e := c.ended(timed, innocent)
			g := c.gate()
			sp := c.spinner()
			k := sp.c.kernel(illegalAddressPTX, "illegal_address")
			g.hold(bad)
			c.launch(bad, k, driver.KernelParams{})
			c.res("query-before", c.EventQuery(c.at, e))
			c.res("create-before", bare(c.EventCreate(c.at, timed)))
			g.open()
			c.StreamSynchronize(c.at, bad)
			c.res("query-afterwards", c.EventQuery(c.at, e))
			c.res("elapsed-afterwards", bare(c.EventElapsedTime(c.at, e, e)))
			c.res("wait-afterwards", c.StreamWaitEvent(c.at, innocent, e, 0))
			c.res("host-memory-afterwards", bare(c.MemHostAlloc(c.at, 16, 0)))
		}},
		{famSticky, "pending-when-poisoned", "waiting for work that is never done: after an error, waits return", func(c *raw) {
			c.setup()
			bad := c.stream(nonBlocking)
			sp := c.spinner()
			k := sp.c.kernel(illegalAddressPTX, "illegal_address")
			held, _ := c.held(nonBlocking)
			e := c.recorded(held)
			c.launch(bad, k, driver.KernelParams{})
			c.res("sync-bad", c.StreamSynchronize(c.at, bad))
			c.res("query-held", c.EventQuery(c.at, e))
			c.res("sync-held", c.EventSynchronize(c.at, e))
			c.res("sync-context", c.CtxSynchronize(c.at))
			c.res("destroy", c.EventDestroy(c.at, e))
		}},
		{famSticky, "trap", "a kernel that ends itself: the error's code, and whether it is sticky", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			c.trap(s)
			c.res("sync", c.StreamSynchronize(c.at, s))
			c.res("create", bare(c.EventCreate(c.at, timed)))
		}},
		{famSticky, "misaligned", "an address that is not a multiple of the word", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			c.misaligned(s)
			c.res("sync", c.StreamSynchronize(c.at, s))
			c.res("create", bare(c.EventCreate(c.at, timed)))
		}},

		{famSticky, "two-devices-poison", "losing all devices because of an error on one", func(c *raw) {
			c.devices(2)
			_, one := c.primary(1)
			c.current(one)
			t, p := c.stream(nonBlocking), c.memory()
			e, f := c.ended(timed, t), c.event(timed)
			dev, zero := c.primary(0)
			c.current(zero)
			s := c.stream(nonBlocking)
			c.spinner().poison(s)
			c.res("sync", c.StreamSynchronize(c.at, s))
			c.res("query", c.EventQuery(c.at, e))
			c.current(one)
			c.res("stream-query", c.streamQuery(t))
			c.res("create-event", c.newEvent())
			c.res("create-stream", bare(c.StreamCreate(c.at, nonBlocking)))
			c.res("allocate", bare(c.MemAlloc(c.at, 256)))
			c.res("memset", c.set(p, t))
			c.res("record", c.EventRecord(c.at, f, t))
			c.res("stream-sync", c.StreamSynchronize(c.at, t))
			c.res("event-sync", c.EventSynchronize(c.at, f))
			c.res("elapsed", c.elapsed(e, f))
			c.res("context-sync", c.CtxSynchronize(c.at))
			c.res("capture", c.StreamBeginCapture(c.at, t, capRelaxed))
			c.res("end", bare(c.StreamEndCapture(c.at, t)))
			c.res("retain", bare(c.DevicePrimaryCtxRetain(c.at, 1)))
			ctx, res := c.create(1)
			c.res("create-context", res)
			if res == driver.ResultSuccess {
				c.res("create-there", c.newEvent())
				c.res("destroy-context", c.CtxDestroy(c.at, ctx))
			}
			c.res("reset-the-lost", c.DevicePrimaryCtxReset(c.at, dev))
			c.current(one)
			c.res("create-afterwards", c.newEvent())
			c.res("create-stream-afterwards", bare(c.StreamCreate(c.at, nonBlocking)))
			c.res("sync-afterwards", c.CtxSynchronize(c.at))
		}},
		{famContext, "two-devices-mixed", "mixing events, streams and memory of two devices", func(c *raw) {
			c.devices(2)
			_, one := c.primary(1)
			c.current(one)
			s1, e1 := c.stream(nonBlocking), c.event(timed)
			c.record(e1, s1)
			c.sync(e1)
			_, zero := c.primary(0)
			c.current(zero)
			s0, e0 := c.stream(nonBlocking), c.ended(timed, c.stream(nonBlocking))
			c.res("record", c.EventRecord(c.at, e0, s1))
			c.res("wait", c.StreamWaitEvent(c.at, s0, e1, 0))
			c.res("elapsed", bare(c.EventElapsedTime(c.at, e0, e1)))
			c.res("query", c.EventQuery(c.at, e1))
			c.res("record-with-other-current", c.EventRecord(c.at, e1, s1))
			c.res("context-record", c.CtxRecordEvent(c.at, one, e0))
		}},
		{famContext, "two-devices-peers", "enabling peer access twice, or disabling it before enabling it", func(c *raw) {
			c.devices(2)
			_, one := c.primary(1)
			_, zero := c.primary(0)
			c.current(zero)
			c.res("enable-itself", c.CtxEnablePeerAccess(c.at, zero, 0))
			c.res("disable-none", c.CtxDisablePeerAccess(c.at, one))
			c.res("enable", c.CtxEnablePeerAccess(c.at, one, 0))
			c.res("enable-again", c.CtxEnablePeerAccess(c.at, one, 0))
			c.res("enable-flags", c.CtxEnablePeerAccess(c.at, one, 1))
			c.res("disable", c.CtxDisablePeerAccess(c.at, one))
		}},
		{famWait, "two-devices-wait", "waiting on the host for another device: the GPU can wait", func(c *raw) {
			c.devices(2)
			_, one := c.primary(1)
			c.current(one)
			s1, g := c.held(nonBlocking)
			e := c.recorded(s1)
			_, zero := c.primary(0)
			c.current(zero)
			s0 := c.stream(nonBlocking)
			c.res("wait", c.StreamWaitEvent(c.at, s0, e, 0))
			c.res("waiter", c.reached(s0))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, s0))
		}},
	}
}
