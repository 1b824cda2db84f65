package behaviour

import (
	"encoding/base64"

	"github.com/purecu/purecu/driver"
)

// sendToFirst sends the first process a handle, and waits until that process lets this one
// continue.
func (c *raw) sendToFirst(x exported) {
	c.send(report{Kind: ready, Text: base64.StdEncoding.EncodeToString(x.Handle)})
	c.receiveNext(new(any))
}

// opened opens the event whose handle the second process sent.
func (c *raw) opened(other *second) driver.Event {
	e, res := c.IpcOpenEventHandle(c.at, other.handle())
	c.res("open", res)
	return e
}

// handle returns the handle that the second process sent.
func (s *second) handle() (h driver.IPCEventHandle) {
	data, err := base64.StdEncoding.DecodeString(s.text)
	if err != nil || copy(h[:], data) != len(h) {
		s.rep.fatal("the second process told no handle: %v", err)
	}
	return h
}

// kill kills the second process.
func (s *second) kill() {
	if err := s.cmd.Process.Kill(); err != nil {
		s.rep.fatal("the second process: %v", err)
	}
	_ = s.cmd.Wait() // the error is that the process was killed
}

// foundIPC are about processes that export events and then end.
func foundIPC() []found {
	// exporting makes a case whose second process creates and prepares the event. Then the first
	// process opens the event, and lets the second process continue.
	exporting := func(prepare, then func(c *raw, e driver.Event, s driver.Stream), first func(c *raw, other *second)) func(*raw) {
		return func(c *raw) {
			c.setup()
			if c.job.Part != peer {
				first(c, startPeer(c.job, c.reporter))
				return
			}
			s := c.stream(nonBlocking)
			e, x := c.export()
			if prepare != nil {
				prepare(c, e, s)
			}
			c.sendToFirst(x)
			if then != nil {
				then(c, e, s)
			}
		}
	}
	// held records the event behind a gate that stays closed.
	held := func(c *raw, e driver.Event, s driver.Stream) {
		c.gate().hold(s)
		c.record(e, s)
	}
	return []found{
		{famIPC, "ipc-before-the-first-record", "an importer that assumes that data is complete because the event is complete", exporting(nil, nil, func(c *raw, other *second) {
			e, s := c.opened(other), c.stream(nonBlocking)
			c.res("query", c.query(e))
			c.res("sync", c.EventSynchronize(c.at, e))
			c.res("wait", c.wait(s, e))
			c.res("stream", c.drained(s))
			other.send(1)
			other.end()
		})},
		{famIPC, "ipc-recorded-again-while-waited", "assuming that a waiter in another process does not wait for newer records, as one in this process", exporting(nil, func(c *raw, e driver.Event, s driver.Stream) {
			first, second := c.gate(), c.gate()
			t := c.stream(nonBlocking)
			first.hold(s)
			second.hold(t)
			c.res("record", c.EventRecord(c.at, e, s))
			c.waitForFirst()
			c.res("record-again", c.EventRecord(c.at, e, t))
			first.open()
			c.res("first-stream", c.drained(s))
			c.waitForFirst()
			second.open()
			c.res("second-stream", c.drained(t))
			c.waitForFirst()
		}, func(c *raw, other *second) {
			e, s := c.opened(other), c.stream(nonBlocking)
			other.send(1)
			c.res("wait", c.wait(s, e))
			other.send(1)
			c.res("stream-when-older-is-done", c.drained(s))
			c.res("query", c.query(e))
			other.send(1)
			c.res("stream-when-newer-is-done", c.drained(s))
			c.res("query-done", c.settled(e))
			other.send(1)
			other.end()
		})},
		{famIPC, "ipc-open-after-destroy", "sending a handle, and destroying the event before it was opened", exporting(func(c *raw, e driver.Event, s driver.Stream) {
			c.res("destroy", c.EventDestroy(c.at, e))
			c.event(interprocess) // may get the same address
		}, nil, func(c *raw, other *second) {
			if e := c.opened(other); e != 0 {
				c.val("query", int(c.query(e)))
			} else {
				c.val("query", "none")
			}
			other.send(1)
			other.end()
		})},
		{famIPC, "ipc-exporter-ends", "an importer that fails when the exporter has ended without an error", exporting(func(c *raw, e driver.Event, s driver.Stream) {
			c.record(e, s)
			c.finish(s)
		}, nil, func(c *raw, other *second) {
			e, s := c.opened(other), c.stream(nonBlocking)
			other.send(1)
			other.end()
			c.res("query", c.query(e))
			c.res("sync", c.EventSynchronize(c.at, e))
			c.res("wait", c.wait(s, e))
			c.res("record", c.EventRecord(c.at, e, s))
			c.res("query-own", c.settled(e))
			c.res("destroy", c.EventDestroy(c.at, e))
		})},
		{famIPC, "ipc-open-after-the-end", "opening the event of a process that has ended", exporting(nil, nil, func(c *raw, other *second) {
			other.send(1)
			other.end()
			c.opened(other)
			c.res("alive", c.newEvent())
		})},
		{famIPC, "ipc-exporter-killed", "an importer that polls forever, for an event of a process that was killed", exporting(held, nil, func(c *raw, other *second) {
			e, s := c.opened(other), c.stream(nonBlocking)
			c.res("query", c.query(e))
			other.kill()
			c.res("query-killed", c.settled(e))
			c.res("record", c.EventRecord(c.at, e, s))
			c.res("query-own", c.settled(e))
			c.res("create", c.newEvent())
			c.res("destroy", c.EventDestroy(c.at, e))
		})},
		{famIPC, "ipc-synchronize-with-the-killed", "an importer that hangs in cuEventSynchronize, for an event of a process that was killed", exporting(held, nil, func(c *raw, other *second) {
			e := c.opened(other)
			other.kill()
			c.res("alive", c.newEvent())
			c.dare("sync", func() driver.Result { return c.EventSynchronize(c.at, e) })
		})},
		{famIPC, "ipc-stream-behind-the-killed", "a stream that waits forever, for an event of a process that was killed", exporting(held, nil, func(c *raw, other *second) {
			e, s, free := c.opened(other), c.stream(nonBlocking), c.stream(nonBlocking)
			c.res("wait", c.wait(s, e))
			other.kill()
			c.res("stream", c.drained(s))
			c.res("other-stream", c.drained(free))
			c.res("destroy-event", c.EventDestroy(c.at, e))
			c.res("destroy-stream", c.StreamDestroy(c.at, s))
		})},
		{famIPC, "ipc-importer-killed", "an exporter that waits forever, because an importer recorded the event and was killed", func(c *raw) {
			if c.job.Part == peer {
				e := c.imported("open")
				s, _ := c.held(nonBlocking)
				c.res("record", c.EventRecord(c.at, e, s))
				c.waitForFirst() // the process is killed here
				return
			}
			c.setup()
			s := c.stream(nonBlocking)
			e, x := c.export()
			other := startPeer(c.job, c.reporter)
			other.send(x)
			c.res("query", c.query(e))
			other.kill()
			c.res("query-killed", c.settled(e))
			c.res("record-here", c.EventRecord(c.at, e, s))
			c.res("query-here", c.settled(e))
			c.res("destroy", c.EventDestroy(c.at, e))
		}},
		{famIPC, "ipc-in-a-capture", "recording or awaiting an event of another process while a stream is captured", exporting(nil, nil, func(c *raw, other *second) {
			e, s := c.opened(other), c.stream(nonBlocking)
			try := func(name string, call func() driver.Result) {
				c.begin(s, capRelaxed)
				c.res(name, call())
				c.status(name+"-status", s)
				c.res(name+"-end", c.end(s))
			}
			try("wait", func() driver.Result { return c.wait(s, e) })
			try("record", func() driver.Result { return c.EventRecord(c.at, e, s) })
			c.res("query", c.query(e))
			try("external-record", func() driver.Result { return c.external(e, s) })
			try("external-wait", func() driver.Result { return c.externalWait(s, e) })
			other.send(1)
			other.end()
		})},
		{famIPC, "ipc-without-a-context", "opening an event without a current context, or in another context than that of its streams", exporting(nil, nil, func(c *raw, other *second) {
			dev, res := c.CtxGetDevice(c.at)
			c.must("cuCtxGetDevice", res)
			ctx, made := c.top(), c.aside(dev)
			c.bare()
			_, res = c.IpcOpenEventHandle(c.at, other.handle())
			c.res("without", res)
			c.current(made)
			e, res := c.IpcOpenEventHandle(c.at, other.handle())
			c.res("in-a-created-one", res)
			c.res("record", c.EventRecord(c.at, e, c.stream(nonBlocking)))
			c.current(ctx)
			c.res("record-in-the-primary", c.EventRecord(c.at, e, c.stream(nonBlocking)))
			other.send(1)
			other.end()
		})},
		{famIPC, "ipc-wait-elsewhere", "waiting for an opened event on a stream of another context", exporting(nil, nil, func(c *raw, other *second) {
			dev, res := c.CtxGetDevice(c.at)
			c.must("cuCtxGetDevice", res)
			e := c.opened(other)
			s := c.inside(c.aside(dev)).stream(nonBlocking)
			other.send(1)
			other.end()
			c.dare("wait", func() driver.Result { return c.wait(s, e) })
		})},
		{famIPC, "ipc-recorded-wait-elsewhere", "the same when it was recorded here", exporting(nil, nil, func(c *raw, other *second) {
			dev, res := c.CtxGetDevice(c.at)
			c.must("cuCtxGetDevice", res)
			e := c.opened(other)
			c.record(e, c.stream(nonBlocking))
			s := c.inside(c.aside(dev)).stream(nonBlocking)
			other.send(1)
			other.end()
			c.dare("wait", func() driver.Result { return c.wait(s, e) })
		})},
		{famIPC, "ipc-context-waits-elsewhere", "the same for a whole context", exporting(nil, nil, func(c *raw, other *second) {
			dev, res := c.CtxGetDevice(c.at)
			c.must("cuCtxGetDevice", res)
			e, ctx := c.opened(other), c.aside(dev)
			other.send(1)
			other.end()
			c.dare("wait", func() driver.Result { return c.CtxWaitEvent(c.at, ctx, e) })
		})},
		{famIPC, "interprocess-wait-elsewhere", "the same in the process that created the event, before the event has a handle", func(c *raw) {
			dev, _ := c.setup()
			e := c.event(interprocess)
			c.res("record", c.EventRecord(c.at, e, c.stream(nonBlocking)))
			s := c.inside(c.aside(dev)).stream(nonBlocking)
			c.dare("wait", func() driver.Result { return c.wait(s, e) })
		}},
		{famIPC, "exported-wait-elsewhere", "the same after the event has a handle", func(c *raw) {
			dev, _ := c.setup()
			e := c.event(interprocess)
			c.res("export", bare(c.IpcGetEventHandle(c.at, e)))
			c.record(e, c.stream(nonBlocking))
			s := c.inside(c.aside(dev)).stream(nonBlocking)
			c.dare("wait", func() driver.Result { return c.wait(s, e) })
		}},
		{famIPC, "ipc-calls-without-a-context", "making a context current for calls that need none, or not for calls that crash without one: all calls on an opened event", exporting(nil, nil, func(c *raw, other *second) {
			e, s := c.opened(other), c.stream(nonBlocking)
			other.send(1)
			other.end()
			c.bare()
			c.res("query", c.query(e))
			c.res("record", c.EventRecord(c.at, e, s))
			c.res("sync", c.EventSynchronize(c.at, e))
			c.dare("wait", func() driver.Result { return c.wait(s, e) })
		})},
		{famIPC, "ipc-destroy-without-a-context", "the same for its destruction", exporting(nil, nil, func(c *raw, other *second) {
			e := c.opened(other)
			other.send(1)
			other.end()
			c.bare()
			c.dare("destroy", func() driver.Result { return c.EventDestroy(c.at, e) })
		})},
		{famIPC, "ipc-graph-runs", "a graph that records an event of another process, and waits for it, which can be made, but not launched", exporting(nil, nil, func(c *raw, other *second) {
			e, s := c.opened(other), c.stream(nonBlocking)
			x := c.exec(c.captured(s, func() {
				c.must("external record", c.external(e, s))
				c.must("external wait", c.externalWait(s, e))
			}))
			other.send(1)
			other.end()
			c.dare("launch", func() driver.Result {
				if res := c.GraphLaunch(c.at, x, s); res != driver.ResultSuccess {
					return res
				}
				return c.drained(s)
			})
		})},
		{famIPC, "ipc-graph-waits-elsewhere", "the same on a stream of another context", exporting(nil, nil, func(c *raw, other *second) {
			dev, res := c.CtxGetDevice(c.at)
			c.must("cuCtxGetDevice", res)
			e, s := c.opened(other), c.stream(nonBlocking)
			x := c.exec(c.captured(s, func() { c.must("external wait", c.externalWait(s, e)) }))
			elsewhere := c.inside(c.aside(dev)).stream(nonBlocking)
			other.send(1)
			other.end()
			c.dare("launch", func() driver.Result { return c.GraphLaunch(c.at, x, elsewhere) })
		})},
		{famIPC, "ipc-exporter-fails", "an importer that waits for a process whose context is lost, without an error", exporting(nil, func(c *raw, e driver.Event, s driver.Stream) {
			f := c.kernel(illegalAddressPTX, "illegal_address")
			g := c.gate()
			g.hold(s)
			c.launch(s, f, driver.KernelParams{})
			c.res("record", c.EventRecord(c.at, e, s))
			c.waitForFirst()
			g.open()
			c.res("sync-there", c.StreamSynchronize(c.at, s))
			c.waitForFirst()
		}, func(c *raw, other *second) {
			e, s := c.opened(other), c.stream(nonBlocking)
			other.send(1)
			c.res("query", c.query(e))
			c.res("wait", c.wait(s, e))
			other.send(1)
			c.res("query-failed", c.settled(e))
			c.res("stream", c.drained(s))
			c.res("create", c.newEvent())
			other.send(1)
			other.end()
		})},
	}
}
