package behaviour

import (
	"github.com/purecu/purecu/internal/driver"
)

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

		{famContext, "release-of-nothing", "an unbalanced release that goes unnoticed, or takes the next owner's", func(c *raw) {
			c.init()
			dev, res := c.DeviceGet(c.at, 0)
			c.must("cuDeviceGet", res)
			c.res("release", c.DevicePrimaryCtxRelease(c.at, dev))
			c.res("reset", c.DevicePrimaryCtxReset(c.at, dev))
			_, ctx := c.primary(0)
			c.res("release-own", c.DevicePrimaryCtxRelease(c.at, dev))
			c.res("release-once-more", c.DevicePrimaryCtxRelease(c.at, dev))
			_, res = c.DevicePrimaryCtxRetain(c.at, dev)
			c.res("retain", res)
			c.res("set", c.CtxSetCurrent(c.at, ctx))
			c.res("create", c.newEvent())
		}},
		{famContext, "ids-of-contexts", "telling contexts apart by their handles, which come again", func(c *raw) {
			dev, ctx := c.setup()
			id := func(ctx driver.Context) uint64 {
				id, res := c.CtxGetId(c.at, ctx)
				c.must("cuCtxGetId", res)
				return id
			}
			p, a := id(ctx), c.aside(dev)
			first := id(a)
			c.must("cuCtxDestroy", c.CtxDestroy(c.at, a))
			b := c.aside(dev)
			c.val("differs-from-primary", first != p)
			c.val("grows", id(b) > first)
			current, res := c.CtxGetId(c.at, 0)
			c.res("of-current", res)
			c.val("is-that-of-primary", current == p)
			c.must("cuDevicePrimaryCtxReset", c.DevicePrimaryCtxReset(c.at, dev))
			_, again := c.primary(0)
			c.val("same-handle-after-reset", again == ctx)
			c.val("same-id-after-reset", id(again) == p)
		}},
		{famContext, "flags-of-the-primary", "setting a primary context's flags too late, or losing them with its reset", func(c *raw) {
			dev, _ := c.setup()
			state := func(step string) {
				flags, _, res := c.DevicePrimaryCtxGetState(c.at, dev)
				c.must("cuDevicePrimaryCtxGetState", res)
				c.val(step, flags)
			}
			current := func(step string) {
				flags, res := c.CtxGetFlags(c.at)
				c.must("cuCtxGetFlags", res)
				c.val(step, flags)
			}
			c.res("two-schedules", c.DevicePrimaryCtxSetFlags(c.at, dev, driver.CU_CTX_SCHED_SPIN|driver.CU_CTX_SCHED_YIELD))
			c.res("set", c.DevicePrimaryCtxSetFlags(c.at, dev, driver.CU_CTX_SCHED_YIELD))
			state("state")
			current("current")
			c.res("set-current", c.CtxSetFlags(c.at, driver.CU_CTX_SCHED_SPIN))
			state("state-of-current")
			current("current-set")
			c.must("cuDevicePrimaryCtxReset", c.DevicePrimaryCtxReset(c.at, dev))
			state("after-reset")
			c.primary(0)
			state("retained-again")
		}},
		{famContext, "destroy-waits-for-work", "destroying a context to get rid of work that hangs, or freeing what its work still writes to", func(c *raw) {
			dev, primary := c.setup()
			g := c.gate()
			ctx := c.context(dev)
			s := c.stream(nonBlocking)
			c.spinner().spin(s, hold/2)
			c.mark(s, g)
			c.current(primary)
			c.res("destroy", c.CtxDestroy(c.at, ctx))
			c.val("work-is-done", g.word().Load())
			c.res("primary", c.newEvent())
		}},
		{famContext, "synchronize-is-of-one-context", "a cuCtxSynchronize that is believed to wait for all of the device's work", func(c *raw) {
			dev, ctx := c.setup()
			other := c.inside(c.aside(dev))
			t, g := other.stream(nonBlocking), c.gate()
			g.hold(t)
			waited, res := c.waits(ctx, g, func(c *raw) driver.Result { return c.CtxSynchronize(c.at) })
			c.val("waits", waited)
			c.res("synchronize", res)
			c.res("other", c.drained(t))
		}},
		{famContext, "set-a-destroyed-context", "making a context current that somebody has destroyed", func(c *raw) {
			dev, _ := c.setup()
			ctx := c.aside(dev)
			c.res("destroy", c.CtxDestroy(c.at, ctx))
			c.dare("set", func() driver.Result { return c.CtxSetCurrent(c.at, ctx) })
		}},
		{famContext, "destroy-a-context-twice", "destroying a context twice", func(c *raw) {
			dev, _ := c.setup()
			ctx := c.aside(dev)
			c.res("destroy", c.CtxDestroy(c.at, ctx))
			c.dare("destroy-again", func() driver.Result { return c.CtxDestroy(c.at, ctx) })
		}},
		{famContext, "stream-of-a-destroyed-context", "destroying streams after their context", func(c *raw) {
			dev, _ := c.setup()
			ctx := c.aside(dev)
			s := c.inside(ctx).stream(nonBlocking)
			c.res("destroy", c.CtxDestroy(c.at, ctx))
			c.dare("destroy-stream", func() driver.Result { return c.StreamDestroy(c.at, s) })
		}},
		{famContext, "memory-of-a-destroyed-context", "freeing memory after its context", func(c *raw) {
			dev, _ := c.setup()
			ctx := c.aside(dev)
			p, res := c.MemAlloc(c.inside(ctx).at, 256)
			c.must("cuMemAlloc", res)
			c.res("destroy", c.CtxDestroy(c.at, ctx))
			c.dare("free", func() driver.Result { return c.MemFree(c.at, p) })
		}},
		{famContext, "event-of-a-released-primary", "keeping events over the end of the primary context, which comes back with the same handle", func(c *raw) {
			dev, _ := c.setup()
			e := c.ended(timed, c.stream(nonBlocking))
			c.res("release", c.DevicePrimaryCtxRelease(c.at, dev))
			_, ctx := c.primary(0)
			c.res("set", c.CtxSetCurrent(c.at, ctx))
			c.dare("query", func() driver.Result { return c.query(e) })
		}},
		{famContext, "kernel-on-a-foreign-stream", "launching a kernel, or using memory, in a stream of another context of the same device", func(c *raw) {
			dev, _ := c.setup()
			other := c.inside(c.aside(dev))
			s := other.stream(nonBlocking)
			f := c.kernel(illegalAddressPTX, "cusim_illegal_address")
			c.res("launch", c.LaunchKernel(c.at, f, 1, 1, 1, 1, 1, 1, 0, s, driver.KernelParams{}))
			p, res := c.MemAlloc(c.at, 256)
			c.must("cuMemAlloc", res)
			c.res("memset", c.MemsetD8Async(c.at, p, 1, 256, s))
			c.res("sync", c.StreamSynchronize(c.at, s))
			back := make([]byte, 1)
			c.res("copy", c.MemcpyDtoH(c.at, back, p))
			c.val("set", back[0])
		}},
		{famContext, "flags-of-a-created-context", "comparing the flags of a context with those that it was created with", func(c *raw) {
			dev, _ := c.setup()
			ctx, res := c.CtxCreate(c.at, driver.CU_CTX_SCHED_BLOCKING_SYNC, dev)
			c.res("create", res)
			flags, res := c.CtxGetFlags(c.at)
			c.res("get", res)
			c.val("flags", flags)
			c.res("destroy", c.CtxDestroy(c.at, ctx))
		}},
		{famContext, "peer-access-on-one-device", "enabling access between two contexts of the same device", func(c *raw) {
			dev, ctx := c.setup()
			other := c.aside(dev)
			c.res("to-itself", c.CtxEnablePeerAccess(c.at, ctx, 0))
			c.res("same-device", c.CtxEnablePeerAccess(c.at, other, 0))
			c.res("disable", c.CtxDisablePeerAccess(c.at, other))
			c.res("to-null", c.CtxEnablePeerAccess(c.at, 0, 0))
		}},
		{famContext, "wrong-device-current", "working on the GPU that happens to be current, where the stream's was meant", func(c *raw) {
			c.devices(2)
			_, ctx0 := c.primary(0)
			dev1, ctx1 := c.primary(1)
			c.current(ctx0)
			c0 := c.inside(ctx0)
			f := c0.kernel(illegalAddressPTX, "cusim_illegal_address")
			s1 := c.inside(ctx1).stream(nonBlocking)
			e0 := c.event(timed)
			c.res("launch", c.LaunchKernel(c.at, f, 1, 1, 1, 1, 1, 1, 0, s1, driver.KernelParams{}))
			c.res("record", c.EventRecord(c.at, e0, s1))
			c.res("wait", c.wait(s1, e0))
			dev, res := c.StreamGetDevice(c.at, s1)
			c.res("device-of-stream", res)
			c.val("is-its-own", dev == dev1)
			p, res := c.MemAlloc(c.at, 256)
			c.must("cuMemAlloc", res)
			c.res("memset", c.MemsetD8Async(c.at, p, 1, 256, s1))
			c.res("sync", c.StreamSynchronize(c.at, s1))
			c.res("alive", c.newEvent())
		}},
		{famContext, "release-waits-for-work", "a release of the primary context that is believed to come back at once", func(c *raw) {
			dev, _ := c.setup()
			ctx := c.aside(dev)
			other := c.inside(ctx)
			g := other.gate() // which outlives the primary context
			s := c.stream(nonBlocking)
			c.spinner().spin(s, hold/2)
			c.mark(s, g)
			c.res("release", c.DevicePrimaryCtxRelease(c.at, dev))
			c.val("work-is-done", g.word().Load())
		}},

		{famDefault, "synchronize-of-legacy", "synchronising the NULL stream in place of the context, or the other way round", func(c *raw) {
			_, ctx := c.setup()
			block, free := c.stream(blocking), c.stream(nonBlocking)
			sync := func(c *raw) driver.Result { return c.StreamSynchronize(c.at, null) }
			g := c.gate()
			g.hold(block)
			waited, res := c.waits(ctx, g, sync)
			c.val("waits-for-blocking", waited)
			c.res("blocking", res)
			g = c.gate()
			g.hold(free)
			waited, res = c.waits(ctx, g, sync)
			c.val("waits-for-non-blocking", waited)
			c.res("non-blocking", res)
			g = c.gate()
			g.hold(free)
			waited, res = c.waits(ctx, g, func(c *raw) driver.Result { return c.CtxSynchronize(c.at) })
			c.val("context-waits-for-non-blocking", waited)
			c.res("context", res)
		}},
		{famDefault, "legacy-waits-for-an-event", "a wait on the NULL stream that stops every blocking stream, too", func(c *raw) {
			c.setup()
			free, block, other, g := c.stream(nonBlocking), c.stream(blocking), c.stream(nonBlocking), c.gate()
			e, f, h := c.event(untimed), c.event(untimed), c.event(untimed)
			g.hold(free)
			c.record(e, free)
			c.res("wait", c.wait(null, e))
			c.record(f, block)
			c.record(h, other)
			c.res("blocking", c.query(f))
			c.res("non-blocking", c.settled(h))
			g.open()
			c.res("when-open", c.settled(f))
		}},
		{famDefault, "copies-are-of-the-legacy-stream", "a plain copy that waits for every blocking stream", func(c *raw) {
			_, ctx := c.setup()
			block, free := c.stream(blocking), c.stream(nonBlocking)
			p, res := c.MemAlloc(c.at, 256)
			c.must("cuMemAlloc", res)
			try := func(name string, s driver.Stream, call func(*raw) driver.Result) {
				g := c.gate()
				g.hold(s)
				waited, res := c.waits(ctx, g, call)
				c.val(name+"-waits", waited)
				c.res(name, res)
				c.finish(s)
			}
			buf := make([]byte, 256)
			read := func(c *raw) driver.Result { return c.MemcpyDtoH(c.at, buf, p) }
			try("read-blocking", block, read)
			try("read-non-blocking", free, read)
			try("write-blocking", block, func(c *raw) driver.Result { return c.MemcpyHtoD(c.at, p, buf) })
			try("set-blocking", block, func(c *raw) driver.Result { return c.MemsetD8(c.at, p, 1, 256) })
			try("copy-blocking", block, func(c *raw) driver.Result { return c.MemcpyDtoD(c.at, p, p+128, 128) })
		}},
		{famDefault, "free-waits", "a cuMemFree in the middle of the work that stops the host until all of it is done", func(c *raw) {
			_, ctx := c.setup()
			free := c.stream(nonBlocking)
			p, res := c.MemAlloc(c.at, 256)
			c.must("cuMemAlloc", res)
			g := c.gate()
			g.hold(free)
			waited, res := c.waits(ctx, g, func(c *raw) driver.Result { return c.MemFree(c.at, p) })
			c.val("waits-for-non-blocking", waited)
			c.res("free", res)
		}},
		{famDefault, "per-thread-captured", "capturing a default stream: which one can be, and what the legacy one does meanwhile", func(c *raw) {
			_, ctx := c.setup()
			w, e := c.worker(ctx), c.event(timed)
			g := c.gate()
			c.res("begin", c.StreamBeginCapture(c.at, perThread, capRelaxed))
			c.mark(perThread, g)
			w.do(func(c *raw) { c.status("status-of-the-other", perThread) })
			c.status("status", perThread)
			c.res("end", c.end(perThread))
			c.begin(perThread, capRelaxed)
			c.res("record-on-legacy", c.EventRecord(c.at, e, null))
			c.status("status-after", perThread)
			c.res("end-after", c.end(perThread))
			c.res("event", c.query(e))
			w.end()
		}},
		{famDefault, "legacy-joins-a-capture", "work on the NULL stream that waits for a captured event", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			c.begin(s, capRelaxed)
			c.record(e, s)
			c.res("wait", c.wait(null, e))
			c.status("status", s)
			c.res("legacy", c.streamQuery(null))
			c.res("end", c.end(s))
			c.begin(s, capRelaxed)
			c.record(e, s)
			c.res("wait-per-thread", c.wait(perThread, e))
			c.status("joined", perThread)
			c.res("end-per-thread", c.end(s))
		}},
	}
}
