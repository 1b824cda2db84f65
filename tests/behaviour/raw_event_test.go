package behaviour

import (
	"fmt"
	"time"

	"github.com/purecu/purecu/driver"
)

// This file has the cases about events: creation, states, times, and sticky errors.

// rawNoInit makes calls before cuInit.
func rawNoInit(c *raw) {
	c.res("query-null", c.EventQuery(c.at, 0))
	_, res := c.EventCreate(c.at, timed)
	c.res("create", res)
	_, res = c.DeviceGetCount(c.at)
	c.res("devcount", res)
	v, res := c.DriverGetVersion(c.at)
	c.res("version", res)
	c.val("v", v)
}

// rawFlags creates events with all valid flags and with invalid ones.
func rawFlags(c *raw) {
	c.setup()
	create := func(step string, flags uint32) {
		e, res := c.EventCreate(c.at, flags)
		c.res(step, res)
		if e != 0 && res == driver.ResultSuccess {
			c.must("cuEventDestroy", c.EventDestroy(c.at, e))
		}
	}
	for flags := range uint32(18) {
		create(fmt.Sprintf("create-%d", flags), flags)
	}
	create("create-0x80000000", 1<<31)
	c.words("create-nil", "cuEventCreate", 0, timed)
}

// rawUnrecorded uses an event that was never recorded, and NULL.
func rawUnrecorded(c *raw) {
	c.setup()
	s, u := c.stream(nonBlocking), c.event(timed)
	c.res("query", c.EventQuery(c.at, u))
	c.res("sync", c.EventSynchronize(c.at, u))
	c.res("wait", c.StreamWaitEvent(c.at, s, u, 0))
	r := c.ended(timed, s)

	elapsed := func(step string, start, end driver.Event) float32 {
		ms, res := c.EventElapsedTimeV2(c.at, start, end)
		c.res(step, res)
		return ms
	}
	elapsed("elapsed-uu", u, u)
	_, res := c.EventElapsedTime(c.at, u, u)
	c.res("elapsed_v1-uu", res)
	elapsed("elapsed-ru", r, u)
	elapsed("elapsed-ur", u, r)
	c.val("same", elapsed("elapsed-rr-same", r, r) != 0)
	c.words("elapsed-nilout", "cuEventElapsedTime", 0, uintptr(u), uintptr(u))
	elapsed("null-start", 0, r)

	c.res("query-null", c.EventQuery(c.at, 0))
	c.res("sync-null", c.EventSynchronize(c.at, 0))
	c.res("destroy-null", c.EventDestroy(c.at, 0))
	c.res("record-null", c.EventRecord(c.at, 0, s))
	c.res("wait-null", c.StreamWaitEvent(c.at, s, 0, 0))
}

// rawPending uses events of a busy stream, and measures a kernel.
func rawPending(c *raw) {
	c.setup()
	s, f, g := c.stream(nonBlocking), c.event(timed), c.event(timed)
	sp := c.spinner()
	e := c.ended(timed, s)

	sp.spin(s, hold)
	c.record(f, s)
	c.record(g, s)
	c.res("query-E", c.EventQuery(c.at, e))
	c.res("query-F", c.EventQuery(c.at, f))
	_, res := c.EventElapsedTimeV2(c.at, e, f)
	c.res("elapsed-EF", res)
	_, res = c.EventElapsedTime(c.at, e, f)
	c.res("elapsed_v1-EF", res)
	c.res("streamquery", c.StreamQuery(c.at, s))
	c.res("destroy-pending", c.EventDestroy(c.at, g))
	c.finish(s)

	// Other work precedes this work, so that the GPU already has the records and the kernel when it
	// reaches them.
	began := time.Now().Add(hold / 11) // the earliest beginning of the kernel
	sp.spin(s, hold/10)
	c.record(e, s)
	sp.spin(s, 5*time.Millisecond)
	c.record(f, s)
	c.sync(f)
	ms, res := c.EventElapsedTimeV2(c.at, e, f)
	c.res("elapsed-5ms", res)
	c.val("ms-of-5ms-kernel", lasted(ms, 5*time.Millisecond, began))
	ms, res = c.EventElapsedTimeV2(c.at, f, e)
	c.res("elapsed-rev", res)
	c.val("rev-negative", ms < 0)

	sp.spin(s, hold)
	c.record(f, s)
	c.res("rerecord-query", c.EventQuery(c.at, f))
	_, res = c.EventElapsedTimeV2(c.at, e, f)
	c.res("elapsed-rerec", res)
	c.res("sync", c.EventSynchronize(c.at, f))
	c.res("query", c.EventQuery(c.at, f))
}

// rawIPC shares an event with other processes, and with this one.
func rawIPC(c *raw) {
	c.setup()
	s, plain := c.stream(nonBlocking), c.event(timed)
	_, res := c.IpcGetEventHandle(c.at, plain)
	c.res("gethandle-plain", res)
	_, res = c.EventCreate(c.at, driver.CU_EVENT_INTERPROCESS)
	c.res("create-ipc-timing", res)
	e, res := c.EventCreate(c.at, driver.CU_EVENT_INTERPROCESS|untimed)
	c.res("create-ipc", res)
	h, res := c.IpcGetEventHandle(c.at, e)
	c.res("gethandle", res)
	_, res = c.IpcOpenEventHandle(c.at, h)
	c.res("open-same-process", res)
	c.res("query-ipc", c.EventQuery(c.at, e))
	c.res("record-ipc", c.EventRecord(c.at, e, s))
	c.res("sync-ipc", c.EventSynchronize(c.at, e))
	_, res = c.EventElapsedTimeV2(c.at, e, e)
	c.res("elapsed-ipc", res)
	var garbage driver.IPCEventHandle
	for i := range garbage {
		garbage[i] = 0xa5
	}
	_, res = c.IpcOpenEventHandle(c.at, garbage)
	c.res("open-garbage", res)
	c.res("cap-begin", c.StreamBeginCapture(c.at, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	c.res("cap-end", c.end(s))
	c.res("destroy", c.EventDestroy(c.at, e))
}

// rawIPC2 makes another process wait for an event of this one, and record it.
func rawIPC2(c *raw) {
	c.setup()
	s := c.stream(nonBlocking)
	if c.job.Part == peer {
		h := c.listen()
		e, res := c.IpcOpenEventHandle(c.at, h)
		c.res("child-open", res)
		c.res("child-query-pending", c.EventQuery(c.at, e))
		c.res("child-wait", c.StreamWaitEvent(c.at, s, e, 0))
		c.res("child-streamquery", c.StreamQuery(c.at, s))
		again, _ := c.IpcOpenEventHandle(c.at, h)
		c.val("same-handle", again == e)
		c.res("child-sync", c.EventSynchronize(c.at, e))
		c.res("child-query-done", c.EventQuery(c.at, e))
		c.res("child-streamsync", c.StreamSynchronize(c.at, s))
		c.res("child-record", c.EventRecord(c.at, e, s))
		_, res = c.EventElapsedTimeV2(c.at, e, e)
		c.res("child-elapsed", res)
		c.res("child-destroy", c.EventDestroy(c.at, e))
		return
	}
	sp := c.spinner()
	e := c.event(driver.CU_EVENT_INTERPROCESS | untimed)
	h, res := c.IpcGetEventHandle(c.at, e)
	c.must("cuIpcGetEventHandle", res)
	other := startPeer(c.job, c.reporter)
	sp.spin(s, long)
	c.record(e, s)
	other.sendHandle(h)
	other.finish()
	c.res("parent-sync", c.EventSynchronize(c.at, e))
}

// rawIPCDev makes another process, which uses another device, open an event of this process.
func rawIPCDev(c *raw) {
	c.devices(2)
	if c.job.Part == peer {
		_, ctx := c.primary(1)
		c.current(ctx)
		h := c.listen()
		dev, res := c.CtxGetDevice(c.at)
		c.must("cuCtxGetDevice", res)
		c.val("child-device", dev)
		_, res = c.IpcOpenEventHandle(c.at, h)
		c.res("child-open-other-device", res)
		return
	}
	_, ctx := c.primary(0)
	c.current(ctx)
	e := c.event(driver.CU_EVENT_INTERPROCESS | untimed)
	h, res := c.IpcGetEventHandle(c.at, e)
	c.must("cuIpcGetEventHandle", res)
	other := startPeer(c.job, c.reporter)
	other.sendHandle(h)
	other.finish()
}

// rawCtxDestroyed uses events of a destroyed context.
func rawCtxDestroyed(c *raw) {
	dev, _ := c.setup()
	ctx := c.context(dev)
	s := c.stream(nonBlocking)
	e, f := c.ended(timed, s), c.ended(timed, s)
	c.must("cuCtxDestroy", c.CtxDestroy(c.at, ctx))
	c.crashing("query", func() driver.Result { return c.EventQuery(c.at, e) })
	c.crashing("elapsed", func() driver.Result {
		_, res := c.EventElapsedTimeV2(c.at, e, f)
		return res
	})
	c.crashing(crash, func() driver.Result { return c.EventDestroy(c.at, e) })
}

// rawDoubleDestroy destroys an event twice.
func rawDoubleDestroy(c *raw) {
	c.setup()
	e := c.event(timed)
	c.res("destroy1", c.EventDestroy(c.at, e))
	c.crashing(crash, func() driver.Result { return c.EventDestroy(c.at, e) })
}

// rawQueryFreed queries a destroyed event.
func rawQueryFreed(c *raw) {
	c.setup()
	e := c.event(timed)
	c.res("destroy1", c.EventDestroy(c.at, e))
	c.crashing(crash, func() driver.Result { return c.EventQuery(c.at, e) })
}

// rawRecordFreedStream records an event on a destroyed stream.
func rawRecordFreedStream(c *raw) {
	c.setup()
	s, e := c.stream(nonBlocking), c.event(timed)
	c.must("cuStreamDestroy", c.StreamDestroy(c.at, s))
	c.crashing(crash, func() driver.Result { return c.EventRecord(c.at, e, s) })
}

// rawGarbage queries a handle that was never an event.
func rawGarbage(c *raw) {
	c.setup()
	c.crashing(crash, func() driver.Result { return c.EventQuery(c.at, 0xdeadbeef) })
}

// rawSticky makes all calls after a kernel wrote to an illegal address.
func rawSticky(c *raw) {
	dev, ctx := c.setup()
	s := c.stream(nonBlocking)
	e, f := c.ended(timed, s), c.event(timed)
	c.spinner().poison(s)
	c.res("record-after-bad", c.EventRecord(c.at, f, s))
	c.res("sync", c.EventSynchronize(c.at, f))
	c.res("query-E", c.EventQuery(c.at, e))
	c.res("query-F", c.EventQuery(c.at, f))
	_, res := c.EventElapsedTimeV2(c.at, e, f)
	c.res("elapsed_v2-EF", res)
	_, res = c.EventElapsedTime(c.at, e, f)
	c.res("elapsed_v1-EF", res)
	_, res = c.EventCreate(c.at, timed)
	c.res("create", res)
	c.res("record", c.EventRecord(c.at, e, s))
	c.res("wait", c.StreamWaitEvent(c.at, s, e, 0))
	c.res("destroy", c.EventDestroy(c.at, e))
	c.res("streamdestroy", c.StreamDestroy(c.at, s))
	c.res("ctxsync", c.CtxSynchronize(c.at))
	c.res("setcurrent", c.CtxSetCurrent(c.at, ctx))
	c.res("reset", c.DevicePrimaryCtxReset(c.at, dev))
	_, res = c.DevicePrimaryCtxRetain(c.at, dev)
	c.res("retain-again", res)
	c.res("set-again", c.CtxSetCurrent(c.at, 0))
	_, res = c.EventCreate(c.at, timed)
	c.res("create-again", res)
}

// rawMany creates very many events.
func rawMany(c *raw) {
	c.setup()
	const n = 200_000
	created := 0
	var res driver.Result
	for range n {
		if _, res = c.EventCreate(c.at, timed); res == driver.ResultSuccess {
			created++
		}
	}
	c.val("created-200k-timing", created)
	c.val("last", int(res))
	c.res("ctxsync", c.CtxSynchronize(c.at))
}
