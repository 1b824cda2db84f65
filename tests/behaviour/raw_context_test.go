package behaviour

import (
	"github.com/purecu/purecu/driver"
)

// This file has the cases about contexts: calls that need one, the stack of current contexts, and
// objects of two contexts.

// rawCtx mixes objects of two contexts of one device, and then makes calls without a current
// context.
func rawCtx(c *raw) {
	dev, ctx := c.setup()
	s, e := c.stream(nonBlocking), c.event(timed)
	c.context(dev) // is current from now on
	t, f := c.stream(nonBlocking), c.event(timed)
	c.res("record-E-on-T", c.EventRecord(c.at, e, t))
	c.res("record-E-on-S-ctx2cur", c.EventRecord(c.at, e, s))
	c.res("record-E-null-ctx2cur", c.EventRecord(c.at, e, null))
	c.res("sync-E-ctx2cur", c.EventSynchronize(c.at, e))
	c.res("record-F-on-T", c.EventRecord(c.at, f, t))
	c.res("wait-T-on-E", c.StreamWaitEvent(c.at, t, e, 0))
	c.res("wait-S-on-F", c.StreamWaitEvent(c.at, s, f, 0))
	_, res := c.EventElapsedTimeV2(c.at, e, e)
	c.res("elapsed-EE-ctx2cur", res)

	c.bare()
	c.res("nocur-record-S", c.EventRecord(c.at, e, s))
	c.res("nocur-record-null", c.EventRecord(c.at, e, null))
	c.res("nocur-sync", c.EventSynchronize(c.at, e))
	_, res = c.EventElapsedTimeV2(c.at, e, e)
	c.res("nocur-elapsed", res)
	c.res("nocur-wait", c.StreamWaitEvent(c.at, t, e, 0))
	c.finish(s)
	c.res("nocur-streamquery", c.StreamQuery(c.at, s))
	c.res("nocur-streamsync", c.StreamSynchronize(c.at, s))
	c.res("nocur-streamquery-null", c.StreamQuery(c.at, null))
	of, res := c.StreamGetCtx(c.at, s)
	c.res("nocur-streamgetctx", res)
	c.val("eq", of == ctx)
	_, res = c.StreamGetFlags(c.at, s)
	c.res("nocur-streamgetflags", res)
	_, res = c.StreamGetPriority(c.at, s)
	c.res("nocur-streamgetprio", res)
	_, res = c.StreamGetId(c.at, s)
	c.res("nocur-streamgetid", res)
	_, res = c.StreamCreate(c.at, nonBlocking)
	c.res("nocur-streamcreate", res)
	c.res("nocur-destroyS", c.StreamDestroy(c.at, s))
	c.res("nocur-destroyE", c.EventDestroy(c.at, e))
	c.res("nocur-ctxsync", c.CtxSynchronize(c.at))
	_, res = c.CtxGetDevice(c.at)
	c.res("nocur-ctxgetdev", res)
	_, res = c.CtxPopCurrent(c.at)
	c.res("nocur-pop", res)
}

// bare pops all contexts from the thread's stack.
func (c *raw) bare() {
	for {
		ctx, res := c.CtxGetCurrent(c.at)
		c.must("cuCtxGetCurrent", res)
		if ctx == 0 {
			return
		}
		_, res = c.CtxPopCurrent(c.at)
		c.must("cuCtxPopCurrent", res)
	}
}

// rawPrimary uses a primary context from its creation to its destruction.
func rawPrimary(c *raw) {
	c.init()
	dev, res := c.DeviceGet(c.at, 0)
	c.must("cuDeviceGet", res)

	_, active, res := c.DevicePrimaryCtxGetState(c.at, dev)
	c.res("state0", res)
	c.val("active", active)
	ctx, res := c.DevicePrimaryCtxRetain(c.at, dev)
	c.res("retain", res)
	c.res("setflags", c.DevicePrimaryCtxSetFlags(c.at, dev, driver.CU_CTX_SCHED_BLOCKING_SYNC))
	flags, active, res := c.DevicePrimaryCtxGetState(c.at, dev)
	c.res("state1", res)
	c.val("active1", active)
	c.val("flags1", flags)
	c.res("release", c.DevicePrimaryCtxRelease(c.at, dev))
	_, active, res = c.DevicePrimaryCtxGetState(c.at, dev)
	c.res("state2", res)
	c.val("active2", active)
	again, res := c.DevicePrimaryCtxRetain(c.at, dev)
	c.res("retain-again", res)
	c.val("same-handle", again == ctx)
	c.res("ctxdestroy-primary", c.CtxDestroy(c.at, again))
	v, res := c.CtxGetApiVersion(c.at, again)
	c.res("apiversion", res)
	c.val("v", v)
	_, res = c.CtxGetId(c.at, again)
	c.res("ctxid", res)
}

// rawCtxStack pushes, pops and sets current contexts.
func rawCtxStack(c *raw) {
	dev, primary := c.setup()
	top := func() driver.Context {
		ctx, res := c.CtxGetCurrent(c.at)
		c.must("cuCtxGetCurrent", res)
		return ctx
	}
	c2, res := c.create(dev)
	c.res("create", res)
	c.val("created-is-current", top() == c2)
	c.res("push-primary", c.CtxPushCurrent(c.at, primary))
	c.res("push-primary-again", c.CtxPushCurrent(c.at, primary))
	popped, res := c.CtxPopCurrent(c.at)
	c.res("pop", res)
	c.val("pop-primary", popped == primary)
	c.val("top-primary", top() == primary)
	c.res("set-c2", c.CtxSetCurrent(c.at, c2)) // replaces the primary context
	popped, res = c.CtxPopCurrent(c.at)
	c.res("pop2", res)
	c.val("pop2-c2", popped == c2)
	c.val("top-c2", top() == c2)
	c.res("set-null", c.CtxSetCurrent(c.at, 0)) // pops
	c.val("after-null-is-primary", top() == primary)
	c.val("after-null-is-null", top() == 0)
	c.res("push-null", c.CtxPushCurrent(c.at, 0))
	c.res("destroy-c2", c.CtxDestroy(c.at, c2))
	_, res = c.CtxPopCurrent(c.at)
	c.res("pop3", res)
	_, res = c.CtxPopCurrent(c.at)
	c.res("pop4", res)
}

// rawDestroyCurrent destroys the current context, on top of another one.
func rawDestroyCurrent(c *raw) {
	dev, primary := c.setup()
	c.res("destroy-current", c.CtxDestroy(c.at, c.context(dev)))
	ctx, res := c.CtxGetCurrent(c.at)
	c.res("getcurrent", res)
	c.val("is-null", ctx == 0)
	c.val("is-primary", ctx == primary)
	_, res = c.EventCreate(c.at, timed)
	c.res("create-event", res)
}

// rawPTDS records on the per-thread default stream.
func rawPTDS(c *raw) {
	c.setup()
	e := c.event(timed)
	c.res("record-pt", c.EventRecord(c.at, e, driver.CU_STREAM_PER_THREAD))
	c.bare()
	c.res("record-pt-noctx", c.EventRecord(c.at, e, driver.CU_STREAM_PER_THREAD))
	c.res("record-legacy-noctx", c.EventRecord(c.at, e, driver.CU_STREAM_LEGACY))
	c.res("query-pt-noctx", c.StreamQuery(c.at, driver.CU_STREAM_PER_THREAD))
	c.res("wait-pt-noctx", c.StreamWaitEvent(c.at, driver.CU_STREAM_PER_THREAD, e, 0))
}

// rawTwo mixes objects of two devices.
func rawTwo(c *raw) {
	c.devices(2)
	_, ctx0 := c.primary(0)
	dev1, ctx1 := c.primary(1)
	c.current(ctx1)
	c0 := c.inside(ctx0)
	s0, e0 := c0.stream(nonBlocking), c0.event(timed)
	s1, f1 := c.stream(nonBlocking), c.event(timed)
	sp := c0.spinner()

	c.res("record-E0-on-S1", c.EventRecord(c.at, e0, s1))
	c.res("record-F1-on-S0", c.EventRecord(c.at, f1, s0))
	c.res("record-E0-on-S0-cur1", c.EventRecord(c.at, e0, s0))
	c.sync(e0)
	c.res("query-E0-cur1", c.EventQuery(c.at, e0))
	c.res("wait-S1-on-E0", c.StreamWaitEvent(c.at, s1, e0, 0))
	c.res("record-F1", c.EventRecord(c.at, f1, s1))
	c.res("sync-F1", c.EventSynchronize(c.at, f1))
	_, res := c.EventElapsedTimeV2(c.at, e0, f1)
	c.res("elapsed-E0-F1", res)
	_, res = c.EventElapsedTimeV2(c.at, f1, e0)
	c.res("elapsed-F1-E0", res)

	sp.spin(s0, hold)
	c.record(e0, s0)
	c.res("wait-S1-on-pending-E0", c.StreamWaitEvent(c.at, s1, e0, 0))
	c.record(f1, s1)
	c.res("F1-pending", c.EventQuery(c.at, f1))
	c.res("sync", c.EventSynchronize(c.at, f1))
	c.res("record-E0-legacy-cur1", c.EventRecord(c.at, e0, null))
	dev, res := c.StreamGetDevice(c.at, s1)
	c.res("streamgetdevice", res)
	c.val("is1", dev == dev1)

	c.res("capture-S0", c.StreamBeginCapture(c.at, s0, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	c.record(e0, s0)
	c.res("cross-device-join", c.StreamWaitEvent(c.at, s1, e0, 0))
	status, res := c.StreamIsCapturing(c.at, s1)
	c.must("cuStreamIsCapturing", res)
	c.val("T-capturing", status)
	c.record(f1, s1)
	c.res("join-back", c.StreamWaitEvent(c.at, s0, f1, 0))
	c.res("end", c.end(s0))
}
