package behaviour

import "github.com/purecu/purecu/internal/driver"

// foundContexts are about contexts and default streams.
func foundContexts() []found {
	return []found{
		{famContext, "release-and-retain", "a thread that goes on with a primary context that was released and retained meanwhile", func(c *raw) {
			dev, ctx := c.setup()
			id, res := c.CtxGetId(c.at, ctx)
			c.must("cuCtxGetId", res)
			c.res("release", c.DevicePrimaryCtxRelease(c.at, dev))
			current, res := c.CtxGetCurrent(c.at)
			c.res("current", res)
			c.val("still-there", current == ctx)
			c.res("create-released", bare(c.EventCreate(c.at, untimed)))
			again, res := c.DevicePrimaryCtxRetain(c.at, dev)
			c.res("retain", res)
			c.val("same-handle", again == ctx)
			newer, res := c.CtxGetId(c.at, again)
			c.res("id", res)
			c.val("same-id", newer == id)
			c.res("create-unset", bare(c.EventCreate(c.at, untimed)))
			c.current(again)
			c.res("create-set", bare(c.EventCreate(c.at, untimed)))
		}},
		{famContext, "release-twice", "releasing a primary context more often than it was retained", func(c *raw) {
			dev, _ := c.setup()
			c.res("retain", bare(c.DevicePrimaryCtxRetain(c.at, dev)))
			c.res("release", c.DevicePrimaryCtxRelease(c.at, dev))
			c.res("still-usable", bare(c.EventCreate(c.at, untimed)))
			c.res("release-last", c.DevicePrimaryCtxRelease(c.at, dev))
			c.res("release-again", c.DevicePrimaryCtxRelease(c.at, dev))
			_, active, _ := c.DevicePrimaryCtxGetState(c.at, dev)
			c.val("active", active)
		}},
		{famContext, "reset-retained", "resetting a primary context that others hold: it is gone for them, and their releases fail", func(c *raw) {
			dev, ctx := c.setup()
			c.must("cuDevicePrimaryCtxRetain", bare(c.DevicePrimaryCtxRetain(c.at, dev)))
			c.res("reset", c.DevicePrimaryCtxReset(c.at, dev))
			_, active, _ := c.DevicePrimaryCtxGetState(c.at, dev)
			c.val("active", active)
			c.res("create", bare(c.EventCreate(c.at, untimed)))
			c.res("release", c.DevicePrimaryCtxRelease(c.at, dev))
			c.res("release-again", c.DevicePrimaryCtxRelease(c.at, dev))
			c.res("release-third", c.DevicePrimaryCtxRelease(c.at, dev))
			again, res := c.DevicePrimaryCtxRetain(c.at, dev)
			c.res("retain", res)
			c.val("same-handle", again == ctx)
		}},
		{famContext, "destroyed-elsewhere", "a thread whose current context another thread destroys", func(c *raw) {
			dev, primary := c.setup()
			ctx := c.context(dev)
			w := c.worker(ctx)
			c.res("destroy", c.CtxDestroy(c.at, ctx))
			w.do(func(c *raw) {
				current, res := c.CtxGetCurrent(c.at)
				c.res("current", res)
				c.val("still-there", current == ctx)
				c.res("create", bare(c.EventCreate(c.at, untimed)))
				c.res("device", bare(c.CtxGetDevice(c.at)))
				c.res("sync", c.CtxSynchronize(c.at))
				c.res("set", c.CtxSetCurrent(c.at, primary))
				c.res("create-afterwards", bare(c.EventCreate(c.at, untimed)))
			})
			w.end()
		}},
		{famContext, "destroyed-below", "popping to a context that was destroyed further down the stack", func(c *raw) {
			dev, primary := c.setup()
			low := c.context(dev)
			c.must("cuCtxPushCurrent", c.CtxPushCurrent(c.at, primary))
			c.res("destroy", c.CtxDestroy(c.at, low))
			popped, res := c.CtxPopCurrent(c.at)
			c.res("pop", res)
			c.val("popped-primary", popped == primary)
			current, res := c.CtxGetCurrent(c.at)
			c.res("current", res)
			c.val("is-destroyed-one", current == low)
			c.res("create", bare(c.EventCreate(c.at, untimed)))
		}},
		{famContext, "nothing-current", "which calls need a current context, and which know their own", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			e := c.event(timed)
			p := c.memory()
			c.current(0)
			c.res("record", c.EventRecord(c.at, e, s))
			c.res("sync", c.EventSynchronize(c.at, e))
			c.res("elapsed", bare(c.EventElapsedTime(c.at, e, e)))
			c.res("query-stream", c.StreamQuery(c.at, s))
			c.res("wait", c.StreamWaitEvent(c.at, s, e, 0))
			c.res("set", c.set(p, s))
			c.res("create", bare(c.EventCreate(c.at, timed)))
			c.res("create-bad-flags", bare(c.EventCreate(c.at, 8)))
			c.res("create-stream", bare(c.StreamCreate(c.at, 0)))
			c.res("create-stream-bad-flags", bare(c.StreamCreate(c.at, 2)))
			c.res("record-default", c.EventRecord(c.at, e, null))
			c.res("query-default", c.StreamQuery(c.at, null))
			c.res("query-per-thread", c.StreamQuery(c.at, driver.CU_STREAM_PER_THREAD))
			c.res("alloc", bare(c.MemAlloc(c.at, 16)))
			c.res("free", c.MemFree(c.at, p))
			c.res("device", bare(c.CtxGetDevice(c.at)))
			c.res("sync-context", c.CtxSynchronize(c.at))
			c.res("pop", bare(c.CtxPopCurrent(c.at)))
		}},
		{famContext, "wrong-current-context", "using objects while another context is current: only what has no handle goes there", func(c *raw) {
			dev, _ := c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			p := c.memory()
			c.context(dev)
			c.res("record", c.EventRecord(c.at, e, s))
			c.res("record-default", c.EventRecord(c.at, e, null))
			c.res("wait-default", c.StreamWaitEvent(c.at, null, e, 0))
			c.res("set", c.set(p, s))
			mine := c.stream(nonBlocking)
			c.res("set-on-its-stream", c.set(p, mine))
			c.finish(mine) // which freeing would not wait for
			c.res("free", c.MemFree(c.at, p))
			c.res("destroy-stream", c.StreamDestroy(c.at, s))
			c.res("destroy-event", c.EventDestroy(c.at, e))
		}},
		{famContext, "stack-depth", "counting pushes: the same context may be pushed twice, and set replaces the top only", func(c *raw) {
			dev, primary := c.setup()
			ctx := c.context(dev) // on top of the primary one
			c.res("push", c.CtxPushCurrent(c.at, ctx))
			c.res("set", c.CtxSetCurrent(c.at, primary))
			popped, res := c.CtxPopCurrent(c.at)
			c.res("pop", res)
			c.val("primary", popped == primary)
			popped, res = c.CtxPopCurrent(c.at)
			c.res("pop-second", res)
			c.val("created", popped == ctx)
			popped, res = c.CtxPopCurrent(c.at)
			c.res("pop-third", res)
			c.val("primary-again", popped == primary)
			c.res("pop-fourth", bare(c.CtxPopCurrent(c.at)))
		}},
		{famContext, "flags-when-active", "setting the primary context's flags too late, and what its state says then", func(c *raw) {
			dev, _ := c.setup()
			c.res("set", c.DevicePrimaryCtxSetFlags(c.at, dev, driver.CU_CTX_SCHED_YIELD))
			flags, _, res := c.DevicePrimaryCtxGetState(c.at, dev)
			c.res("state", res)
			c.val("flags", flags)
			flags, res = c.CtxGetFlags(c.at)
			c.res("flags-of-context", res)
			c.val("flags-of-context-are", flags)
			c.res("set-unknown", c.DevicePrimaryCtxSetFlags(c.at, dev, 0x100))
		}},
		{famContext, "destroy-idle-with-children", "closing children before their context: they go with it", func(c *raw) {
			dev, primary := c.setup()
			ctx := c.context(dev)
			c.event(timed)
			c.stream(nonBlocking)
			c.memory()
			c.res("destroy", c.CtxDestroy(c.at, ctx))
			current, _ := c.CtxGetCurrent(c.at)
			c.val("primary-is-current", current == primary)
			c.res("create", bare(c.EventCreate(c.at, timed)))
		}},

		{famDefault, "query-covers-blocking", "polling the default stream for one's own work alone: it counts all blocking streams", func(c *raw) {
			c.setup()
			_, g1 := c.held(nonBlocking)
			c.res("non-blocking-held", c.StreamQuery(c.at, null))
			_, g2 := c.held(0)
			c.res("blocking-held", c.StreamQuery(c.at, null))
			c.res("per-thread", c.StreamQuery(c.at, driver.CU_STREAM_PER_THREAD))
			g1.open()
			g2.open()
			c.res("sync", c.StreamSynchronize(c.at, null))
		}},
		{famDefault, "query-of-blocking", "polling a blocking stream: it does not count the default one", func(c *raw) {
			c.setup()
			s, g := c.stream(0), c.gate()
			g.hold(null)
			c.res("idle", c.StreamQuery(c.at, s))
			c.res("with-work", c.reached(s))
			c.res("busy", c.StreamQuery(c.at, s))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, s))
		}},
		{famDefault, "barriers", "who waits for whom", func(c *raw) {
			c.setup()
			g := c.gate()
			blocking, free := c.stream(0), c.stream(nonBlocking)
			g.hold(null)
			c.res("blocking", c.reached(blocking))
			c.res("non-blocking", c.reached(free))
			c.res("per-thread", c.reached(driver.CU_STREAM_PER_THREAD))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famDefault, "barrier-through-default", "two blocking streams that are coupled by a record on the default stream", func(c *raw) {
			c.setup()
			_, g := c.held(0)
			other := c.stream(0)
			c.res("other-before", c.reached(other))
			e := c.recorded(null)
			c.res("default", c.settled(e))
			c.res("other-afterwards", c.reached(other))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famDefault, "two-threads", "one per-thread stream: each thread has its own", func(c *raw) {
			_, ctx := c.setup()
			w := c.worker(ctx)
			g := c.gate()
			g.hold(driver.CU_STREAM_PER_THREAD)
			mine, res := c.StreamGetId(c.at, driver.CU_STREAM_PER_THREAD)
			c.res("id", res)
			w.do(func(c *raw) {
				other, res := c.StreamGetId(c.at, driver.CU_STREAM_PER_THREAD)
				c.res("other-id", res)
				c.val("same", other == mine)
				c.res("other-query", c.StreamQuery(c.at, driver.CU_STREAM_PER_THREAD))
				c.res("other-reached", c.reached(driver.CU_STREAM_PER_THREAD))
			})
			c.res("query", c.StreamQuery(c.at, driver.CU_STREAM_PER_THREAD))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, driver.CU_STREAM_PER_THREAD))
			w.end()
		}},
		{famDefault, "names-of-default", "0 and 1 are one stream, 2 is another; none of them can be destroyed", func(c *raw) {
			c.setup()
			zero, res := c.StreamGetId(c.at, 0)
			c.res("id-0", res)
			one, res := c.StreamGetId(c.at, driver.CU_STREAM_LEGACY)
			c.res("id-1", res)
			two, res := c.StreamGetId(c.at, driver.CU_STREAM_PER_THREAD)
			c.res("id-2", res)
			c.val("0-is-1", zero == one)
			c.val("1-is-2", one == two)
			c.res("destroy-0", c.StreamDestroy(c.at, 0))
			c.res("destroy-1", c.StreamDestroy(c.at, driver.CU_STREAM_LEGACY))
			c.res("destroy-2", c.StreamDestroy(c.at, driver.CU_STREAM_PER_THREAD))
		}},
		{famDefault, "facts-of-default", "flags and priorities of default streams", func(c *raw) {
			c.setup()
			for _, s := range []struct {
				name string
				s    driver.Stream
			}{{"legacy", driver.CU_STREAM_LEGACY}, {"per-thread", driver.CU_STREAM_PER_THREAD}} {
				flags, res := c.StreamGetFlags(c.at, s.s)
				c.res(s.name+"-flags", res)
				c.val(s.name+"-flags-are", flags)
				prio, res := c.StreamGetPriority(c.at, s.s)
				c.res(s.name+"-priority", res)
				c.val(s.name+"-priority-is", prio)
			}
		}},
		{famDefault, "destroyed-blocking-stream", "a blocking stream that was destroyed while it was busy: the default stream still waits for it", func(c *raw) {
			c.setup()
			s, g := c.held(0)
			c.must("cuStreamDestroy", c.StreamDestroy(c.at, s))
			c.res("query", c.StreamQuery(c.at, null))
			c.res("reached", c.reached(null))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, null))
		}},
		{famDefault, "default-of-two-contexts", "default streams of two contexts: they do not wait for each other", func(c *raw) {
			dev, _ := c.setup()
			g := c.gate()
			g.hold(null)
			c.context(dev)
			c.res("query", c.StreamQuery(c.at, null))
			c.res("reached", c.reached(null))
			g.open()
		}},
		{famDefault, "synchronous-copy", "a copy that returns at once seems to wait for nothing: it waits for blocking streams", func(c *raw) {
			c.setup()
			p := c.memory()
			_, free := c.held(nonBlocking)
			c.res("copy-beside-non-blocking", c.MemcpyDtoH(c.at, make([]byte, 4), p))
			c.res("set-beside-non-blocking", c.MemsetD8(c.at, p, 1, 4))
			s, g := c.held(0)
			c.res("set-beside-blocking", c.MemsetD8(c.at, p, 1, 4))
			c.res("default-is-behind", c.StreamQuery(c.at, null))
			g.open()
			free.open()
			c.res("sync", c.StreamSynchronize(c.at, s))
		}},
	}
}
