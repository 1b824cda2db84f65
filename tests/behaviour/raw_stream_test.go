package behaviour

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
)

// This file has the cases about streams: priorities, the barriers of the legacy default stream, and
// host functions.

// rawPrio queries priorities and flags.
func rawPrio(c *raw) {
	c.setup()
	least, greatest, res := c.CtxGetStreamPriorityRange(c.at)
	c.must("cuCtxGetStreamPriorityRange", res)
	c.val("least", least)
	c.val("greatest", greatest)
	priority := func(s driver.Stream) int32 {
		p, res := c.StreamGetPriority(c.at, s)
		c.must("cuStreamGetPriority", res)
		return p
	}
	low, res := c.StreamCreateWithPriority(c.at, nonBlocking, 100)
	c.res("prio-100", res)
	c.val("got", priority(low))
	high, res := c.StreamCreateWithPriority(c.at, nonBlocking, -100)
	c.res("prio--100", res)
	c.val("got2", priority(high))
	s := c.stream(driver.CU_STREAM_DEFAULT)
	flags, res := c.StreamGetFlags(c.at, s)
	c.res("flags-0", res)
	c.val("flags", flags)
	c.val("null-prio", priority(null))
	id, res := c.StreamGetId(c.at, null)
	c.must("cuStreamGetId", res)
	c.val("null-id", id)
	id, res = c.StreamGetId(c.at, s)
	c.must("cuStreamGetId", res)
	c.val("S-id-nonzero", id != 0)
	dev, res := c.StreamGetDevice(c.at, s)
	if m := c.Missing(res); m != nil {
		c.res("streamgetdevice", res)
		return
	}
	c.val("streamgetdevice", fmt.Sprintf("%d/%d", int(res), dev))
}

// rawLegacySync shows which streams the legacy default stream waits for.
func rawLegacySync(c *raw) {
	c.setup()
	blocking, free := c.stream(driver.CU_STREAM_DEFAULT), c.stream(nonBlocking)
	legacy, e := c.event(timed), c.event(timed)
	sp := c.spinner()

	sp.spin(blocking, hold)
	c.record(legacy, null)
	c.res("legacy-event-behind-blocking", c.EventQuery(c.at, legacy))
	c.record(e, free)
	c.res("nonblocking-free", c.before(e, legacy))
	c.res("sync", c.EventSynchronize(c.at, legacy))

	sp.spin(free, hold)
	c.record(e, free)
	c.record(legacy, null)
	c.res("legacy-not-behind-nonblocking", c.before(legacy, e))
}

// rawStreamDestroy destroys a stream that has pending work.
func rawStreamDestroy(c *raw) {
	c.setup()
	s, e := c.stream(nonBlocking), c.event(timed)
	sp := c.spinner()
	sp.spin(s, hold)
	c.record(e, s)
	c.res("destroy-busy-stream", c.StreamDestroy(c.at, s))
	res := c.EventQuery(c.at, e)
	c.val("fast", res == driver.ResultNotReady)
	c.res("event-pending", res)
	c.res("sync", c.EventSynchronize(c.at, e))
	c.res("query", c.EventQuery(c.at, e))
	c.res("destroy", c.EventDestroy(c.at, e))
}

// rawHostFn makes a stream call functions on the host.
func rawHostFn(c *raw) {
	c.setup()
	s := c.stream(nonBlocking)
	done := newSlot(0)
	c.res("launchhost", c.LaunchHostFunc(c.at, s, c.callback(writeOne(), done, func() { done.Store(1) })))
	c.res("sync", c.StreamSynchronize(c.at, s))
	c.val("done", done.Load())

	// cuDriverGetVersion has the signature of a host function: its argument is an address for the
	// version. The version that it writes shows its result.
	version := newSlot(0)
	inside := driver.Callback{Data: address(version)}
	if c.Software() {
		inside.Go = func() {
			if v, res := c.DriverGetVersion(driver.At{}); res == driver.ResultSuccess {
				version.Store(v)
			}
		}
	} else {
		sym, _ := driver.FindSymbol("cuDriverGetVersion")
		addr, err := c.Resolve(sym)
		if err != nil {
			c.fatal("%v", err)
		}
		inside.Addr = addr
	}
	c.res("launchhost-cu", c.LaunchHostFunc(c.at, s, inside))
	c.finish(s)
	answered := driver.ResultSuccess
	if version.Load() == 0 {
		answered = driver.ResultNotPermitted
	}
	c.val("cuda-call-inside-hostfn", int(answered))
}

// rawHostPoison makes a stream call functions after a kernel that fails.
func rawHostPoison(c *raw) {
	c.setup()
	s := c.stream(nonBlocking)
	ran, e := newSlot(0), c.ended(timed, s)
	slot := ccall.Heap(&callbackSlot{argument: uintptr(e)})
	slot.status.Store(-1)
	inside := driver.Callback{GoStatus: func(r driver.Result) { slot.status.Store(int32(r)) }}
	if !c.Software() {
		inside = driver.Callback{Addr: c.code(askInside()), Data: uintptr(unsafe.Pointer(slot))}
		slot.first, slot.second = c.address("cuCtxGetCurrent"), c.address("cuEventQuery")
	}
	hostFn := c.callback(writeOne(), ran, func() { ran.Store(1) })
	c.spinner().poison(s)
	c.res("hostfn", c.LaunchHostFunc(c.at, s, hostFn))
	c.res("addcb", c.StreamAddCallback(c.at, s, inside, 0))
	c.res("sync", c.StreamSynchronize(c.at, s))
	// A thread of the driver makes the callback, which is not part of the stream's work.
	for i := 0; slot.status.Load() == -1 && i < 2000; i++ {
		time.Sleep(time.Millisecond)
	}
	c.val("hostfn-ran", ran.Load())
	c.val("cb-status", slot.status.Load())
	if c.Software() {
		for _, step := range []string{"cb-getcurrent", "cb-query"} {
			c.leave(step, "a callback in Go is not known by its thread")
		}
		return
	}
	c.res("cb-getcurrent", driver.Result(slot.answer1.Load()))
	c.res("cb-query", driver.Result(slot.answer2.Load()))
}
