package behaviour

import (
	_ "embed"
	"time"

	"github.com/purecu/purecu/internal/driver"
)

//go:embed testdata/assert.ptx
var assertPTX []byte

// trapPTX ends itself by an interrupt. Software drivers know these kernels by their names.
const trapPTX = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry cusim_trap()\n{\n\ttrap;\n}\n"

// illegal lets a stream write to an illegal address when a gate is opened.
func (c *raw) illegal(s driver.Stream) *gate {
	g := c.gate()
	f := c.kernel(illegalAddressPTX, "cusim_illegal_address")
	g.hold(s)
	c.launch(s, f, driver.KernelParams{})
	return g
}

// poisoned lets a stream fail, and waits until that is known.
func (c *raw) poisoned(s driver.Stream) {
	c.illegal(s).open()
	c.res("poison", c.StreamSynchronize(c.at, s))
}

// A witness is what a call can be about that may be the first to notice an error.
type witness struct {
	start, end, abroad driver.Event  // complete; abroad is in another context
	behind, later      driver.Event  // pending, on the stream that fails and on one that is held
	failing, free      driver.Stream // free has nothing to do
	other              *raw          // another context of the device
}

// noticing is how long a call may take to notice an error.
func (c *raw) noticing() time.Duration {
	if c.Software() {
		return 20 * time.Millisecond
	}
	return 1500 * time.Millisecond
}

// foundSticky are about errors that stay: whom they reach, and what is left.
func foundSticky() []found {
	// notices makes a case in which a call is the first that could notice an error.
	notices := func(name, prevents string, call func(c *raw, w witness) driver.Result) found {
		return found{family: famSticky, name: "noticed-by-" + name, prevents: prevents, run: func(c *raw) {
			dev, _ := c.setup()
			free, failing, other := c.stream(nonBlocking), c.stream(nonBlocking), c.inside(c.aside(dev))
			w := witness{start: c.ended(timed, free), end: c.ended(timed, free), failing: failing, free: free, other: other,
				abroad: other.ended(timed, other.stream(nonBlocking)), behind: c.event(timed), later: c.event(timed)}
			held, holds := c.stream(nonBlocking), c.gate()
			g := c.illegal(failing)
			c.record(w.behind, failing)
			holds.hold(held)
			c.record(w.later, held)
			g.open()
			end := time.Now().Add(c.noticing())
			res := call(c, w)
			for first := res; res == first && !res.Sticky() && time.Now().Before(end); time.Sleep(time.Millisecond) {
				res = call(c, w)
			}
			c.res("notices", res)
			c.res("complete-event", c.query(w.start))
			c.res("creation", c.newEvent())
			c.res("failing-stream", c.drained(failing))
			c.res("complete-event-then", c.query(w.start))
			holds.open()
		}}
	}
	return []found{
		notices("an-interval", "trusting an interval that was read after the GPU had failed",
			func(c *raw, w witness) driver.Result { return c.elapsed(w.start, w.end) }),
		notices("a-complete-event", "trusting a completion that was asked for after the GPU had failed",
			func(c *raw, w witness) driver.Result { return c.query(w.start) }),
		notices("its-event", "polling the event behind the failure, which has to tell", func(c *raw, w witness) driver.Result { return c.query(w.behind) }),
		notices("a-pending-event", "polling an event that will never be complete, as its context has failed elsewhere",
			func(c *raw, w witness) driver.Result { return c.query(w.later) }),
		notices("its-stream", "polling the stream that has failed", func(c *raw, w witness) driver.Result { return c.streamQuery(w.failing) }),
		notices("a-creation", "blaming the call that reports an error for it", func(c *raw, _ witness) driver.Result { return c.newEvent() }),
		notices("another-stream", "blaming the stream that reports an error for it",
			func(c *raw, w witness) driver.Result { return c.streamQuery(w.free) }),
		notices("synchronizing-another-stream", "taking a synchronize for the proof that all is well",
			func(c *raw, w witness) driver.Result { return c.StreamSynchronize(c.at, w.free) }),
		notices("a-record", "going on with work after the GPU has failed", func(c *raw, w witness) driver.Result { return c.EventRecord(c.at, w.end, w.free) }),
		notices("a-wait", "the same with a wait", func(c *raw, w witness) driver.Result { return c.wait(w.free, w.behind) }),
		notices("an-allocation", "a health check that allocates memory", func(c *raw, _ witness) driver.Result {
			p, res := c.MemAlloc(c.at, 16)
			if res == driver.ResultSuccess {
				res = c.MemFree(c.at, p)
			}
			return res
		}),
		notices("a-copy", "a health check that copies a few bytes", func(c *raw, _ witness) driver.Result {
			p, res := c.MemAlloc(c.at, 16)
			if res == driver.ResultSuccess {
				res = c.MemcpyHtoD(c.at, p, make([]byte, 16))
			}
			return res
		}),
		notices("another-context", "a watchdog that asks in a context of its own", func(_ *raw, w witness) driver.Result { return w.other.query(w.abroad) }),
		notices("synchronizing-another-context", "the same with a synchronize",
			func(_ *raw, w witness) driver.Result { return w.other.CtxSynchronize(w.other.at) }),
		{famSticky, "error-in-the-primary-context", "believing that another context of the device goes on after an error in the primary one", func(c *raw) {
			dev, _ := c.setup()
			ctx := c.aside(dev)
			other := c.inside(ctx)
			t := other.stream(nonBlocking)
			e := other.ended(timed, t)
			c.poisoned(c.stream(nonBlocking))
			c.res("query", c.query(e))
			c.res("record", c.EventRecord(c.at, e, t))
			c.res("sync", c.StreamSynchronize(c.at, t))
			c.res("create", other.newEvent())
			c.res("destroy", c.CtxDestroy(c.at, ctx))
		}},
		{famSticky, "recovery-without-a-primary", "looking for a way back by destroying all contexts and creating one", func(c *raw) {
			c.init()
			dev, res := c.DeviceGet(c.at, 0)
			c.must("cuDeviceGet", res)
			ctx := c.context(dev)
			c.poisoned(c.stream(nonBlocking))
			c.res("destroy", c.CtxDestroy(c.at, ctx))
			made, res := c.create(dev)
			c.res("create-context", res)
			c.res("create", c.newEvent())
			_, res = c.DevicePrimaryCtxRetain(c.at, dev)
			c.res("retain", res)
			c.res("init", c.Init(c.at, 0))
			if made == 0 {
				c.res("destroy-second", driver.ResultInvalidContext)
			} else {
				c.res("destroy-second", c.CtxDestroy(c.at, made))
			}
		}},
		{famSticky, "recovery-of-the-primary", "looking for a way back by releasing the primary context, with or without a reset", func(c *raw) {
			dev, _ := c.setup()
			_, again := c.primary(0)
			c.poisoned(c.stream(nonBlocking))
			c.res("release-first", c.DevicePrimaryCtxRelease(c.at, dev))
			_, active, res := c.DevicePrimaryCtxGetState(c.at, dev)
			c.res("state", res)
			c.val("active", active)
			c.res("release-last", c.DevicePrimaryCtxRelease(c.at, dev))
			_, res = c.DevicePrimaryCtxRetain(c.at, dev)
			c.res("retain", res)
			c.res("reset", c.DevicePrimaryCtxReset(c.at, dev))
			_, res = c.DevicePrimaryCtxRetain(c.at, dev)
			c.res("retain-after-reset", res)
			c.res("set", c.CtxSetCurrent(c.at, again))
			c.res("create", c.newEvent())
		}},
		{famSticky, "assert", "treating a failed assertion in a kernel as an error that passes", func(c *raw) {
			dev, _ := c.setup()
			s := c.stream(nonBlocking)
			e := c.ended(timed, s)
			c.launch(s, c.kernel(assertPTX, "cusim_assert"), driver.KernelParams{})
			c.res("sync", c.StreamSynchronize(c.at, s))
			c.res("query", c.query(e))
			c.res("create", c.newEvent())
			c.res("reset", c.DevicePrimaryCtxReset(c.at, dev))
			_, res := c.DevicePrimaryCtxRetain(c.at, dev)
			c.res("retain", res)
		}},
		{famSticky, "first-error-stays", "reporting the last of several errors, where the first one is the cause", func(c *raw) {
			c.setup()
			s, t := c.stream(nonBlocking), c.stream(nonBlocking)
			trap := c.kernel([]byte(trapPTX), "cusim_trap")
			bad, g := c.illegal(s), c.gate()
			g.hold(t)
			c.launch(t, trap, driver.KernelParams{})
			bad.open()
			c.res("first", c.StreamSynchronize(c.at, s))
			g.open()
			time.Sleep(settling)
			c.res("second", c.StreamSynchronize(c.at, t))
			c.res("create", c.newEvent())
		}},
		{famSticky, "error-while-capturing", "a capture that ends well after the context was lost, or never ends", func(c *raw) {
			c.setup()
			s, t, e := c.stream(nonBlocking), c.stream(nonBlocking), c.event(timed)
			bad := c.illegal(t)
			c.begin(s, capRelaxed)
			c.record(e, s)
			bad.open()
			c.res("poison", c.StreamSynchronize(c.at, t))
			status, res := c.StreamIsCapturing(c.at, s)
			c.res("status", res)
			c.val("is", status)
			c.res("record", c.EventRecord(c.at, e, s))
			g, res := c.StreamEndCapture(c.at, s)
			c.res("end", res)
			c.val("graph", g != 0)
		}},
		{famSticky, "error-in-a-graph", "taking the event of a graph that failed for recorded", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			before := c.ended(timed, s)
			f := c.kernel(illegalAddressPTX, "cusim_illegal_address")
			gr := c.captured(s, func() {
				c.launch(s, f, driver.KernelParams{})
				c.external(e, s)
			})
			x := c.exec(gr)
			c.res("launch", c.GraphLaunch(c.at, x, s))
			c.res("sync", c.StreamSynchronize(c.at, s))
			c.res("query", c.query(e))
			c.res("elapsed", c.elapsed(before, e))
			c.res("launch-again", c.GraphLaunch(c.at, x, s))
			c.res("destroy-executable", c.GraphExecDestroy(c.at, x))
			c.res("destroy-graph", c.GraphDestroy(c.at, gr))
		}},
		{famSticky, "cleanup-after-an-error", "a clean-up that stops at the first error: what each of its calls answers, and that none of them hangs", func(c *raw) {
			dev, primary := c.setup()
			ctx := c.context(dev)
			s := c.stream(nonBlocking)
			e := c.ended(timed, s)
			p, res := c.MemAlloc(c.at, 256)
			c.must("cuMemAlloc", res)
			h, res := c.MemHostAlloc(c.at, 256, 0)
			c.must("cuMemHostAlloc", res)
			c.poisoned(s)
			c.res("destroy-event", c.EventDestroy(c.at, e))
			c.res("destroy-stream", c.StreamDestroy(c.at, s))
			c.res("free", c.MemFree(c.at, p))
			c.res("free-host", c.MemFreeHost(c.at, h))
			c.res("pop", func() driver.Result { _, res := c.CtxPopCurrent(c.at); return res }())
			c.res("push", c.CtxPushCurrent(c.at, ctx))
			c.res("destroy-context", c.CtxDestroy(c.at, ctx))
			c.res("set-primary", c.CtxSetCurrent(c.at, primary))
			c.res("release", c.DevicePrimaryCtxRelease(c.at, dev))
		}},
		{famSticky, "error-on-another-device", "giving all GPUs of a machine up for an error on one of them, or trusting an event across", func(c *raw) {
			c.devices(2)
			_, ctx0 := c.primary(0)
			dev1, ctx1 := c.primary(1)
			c.current(ctx0)
			other := c.inside(ctx1)
			s, t := c.stream(nonBlocking), other.stream(nonBlocking)
			e, f := c.event(untimed), other.event(timed)
			bad := c.illegal(s)
			c.record(e, s)
			c.res("wait", c.wait(t, e))
			c.record(f, t)
			bad.open()
			c.res("poison", c.StreamSynchronize(c.at, s))
			c.res("waiter", c.drained(t))
			c.res("behind", c.settled(f))
			c.res("create", other.newEvent())
			fresh := other.stream(nonBlocking)
			c.res("record", c.EventRecord(c.at, f, fresh))
			c.res("query", c.settled(f))
			c.res("wait-for-the-lost", c.wait(fresh, e))
			c.res("stream", c.drained(fresh))
			c.res("reset", c.DevicePrimaryCtxReset(c.at, dev1))
			_, res := c.DevicePrimaryCtxRetain(c.at, dev1)
			c.res("retain", res)
		}},
	}
}
