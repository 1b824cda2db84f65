package behaviour

import (
	_ "embed"
	"time"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
)

//go:embed testdata/assert.ptx
var assertPTX []byte

// trapPTX is a kernel that ends with a trap.
const trapPTX = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry traps()\n{\n\ttrap;\n}\n"

const misalignedPTX = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry misaligned(.param .u64 p)\n{\n" +
	"\t.reg .u64 %p;\n\t.reg .u32 %v;\n\tld.param.u64 %p, [p];\n\tmov.u32 %v, 1;\n\tst.global.u32 [%p], %v;\n\tret;\n}\n"

// illegal makes a stream write to an illegal address when a gate is opened.
func (c *raw) illegal(s driver.Stream) *gate {
	g := c.gate()
	f := c.kernel(illegalAddressPTX, "illegal_address")
	g.hold(s)
	c.launch(s, f, driver.KernelParams{})
	return g
}

// trap makes a kernel trap. misaligned makes a kernel write to an address that is not a multiple of
// the word.
func (c *raw) trap(s driver.Stream) {
	c.launch(s, c.kernel([]byte(trapPTX), "traps"), driver.KernelParams{})
}

func (c *raw) misaligned(s driver.Stream) {
	p := uint64(c.memory()) + 1
	c.launch(s, c.kernel([]byte(misalignedPTX), "misaligned"),
		driver.KernelParams{Ptrs: []unsafe.Pointer{unsafe.Pointer(ccall.Heap(&p))}, Sizes: []uint32{8}})
}

// poisoned makes a stream fail, and waits until the error is known.
func (c *raw) poisoned(s driver.Stream) {
	c.illegal(s).open()
	c.res("poison", c.StreamSynchronize(c.at, s))
}

// A witness has the objects of a call that may be the first to return an error.
type witness struct {
	start, end, abroad driver.Event  // complete; abroad is in another context
	behind, later      driver.Event  // pending, on the stream that fails and on one that is held
	failing, free      driver.Stream // free has no work
	other              *raw          // another context of the device
}

// threadEnd describes a thread that ends: it has used its own default stream or another stream,
// which may be in a capture in thread-local mode.
type threadEnd struct {
	other       bool
	capturing   bool
	invalidated bool // the capture has failed
	lost        bool // there was a sticky error
}

// noticing is the time that a call may take to return an error. The software driver returns it soon, unless the machine
// is busy.
func (c *raw) noticing() time.Duration {
	if c.Software() {
		return 20 * time.Second
	}
	return 1500 * time.Millisecond
}

// foundSticky are about sticky errors: which objects they affect, and what still works.
func foundSticky() []found {
	// notices makes a case in which a call is the first that can return an error.
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
	// fails makes a case in which a kernel of one device fails, and calls are made on another
	// device.
	fails := func(name, prevents string, fail func(c *raw, s driver.Stream)) found {
		return found{family: famSticky, name: "two-devices-" + name, prevents: prevents, run: func(c *raw) {
			c.devices(2)
			_, ctx0 := c.primary(0)
			_, ctx1 := c.primary(1)
			c.current(ctx0)
			s, other := c.stream(nonBlocking), c.inside(ctx1)
			t, p := other.stream(nonBlocking), other.memory()
			e, f := other.ended(timed, t), other.event(timed)
			fail(c, s)
			c.res("sync", c.StreamSynchronize(c.at, s))
			c.res("query", other.query(e))
			c.res("create-event", other.newEvent())
			c.res("create-stream", bare(other.StreamCreate(other.at, nonBlocking)))
			c.res("memset", other.set(p, t))
			c.res("record", other.EventRecord(other.at, f, t))
			c.res("stream-sync", other.StreamSynchronize(other.at, t))
			c.res("elapsed", other.elapsed(e, f))
			c.res("context-sync", other.CtxSynchronize(other.at))
		}}
	}
	// captures makes a case in which a stream is being captured when its context is lost. Then a
	// call on the stream is made several times.
	captures := func(name string, invalidated bool, call func(c *raw, s driver.Stream, e driver.Event, p driver.DevicePtr) driver.Result) found {
		return found{family: famSticky, name: "captured-" + name + "-after-an-error", prevents: "continuing a capture whose context is lost", run: func(c *raw) {
			_, ctx := c.setup()
			s, t, before, p := c.stream(nonBlocking), c.stream(nonBlocking), c.event(untimed), c.memory()
			c.record(before, t)
			bad := c.illegal(t)
			c.begin(s, capRelaxed)
			c.record(c.event(untimed), s)
			c.must("cuMemsetD8Async", c.set(p, s))
			if invalidated {
				c.res("spoil", c.wait(s, before))
			}
			bad.open()
			c.res("poison", c.StreamSynchronize(c.at, t))
			var most driver.Result
			for range 50 {
				most = max(most, call(c, s, before, p))
				c.StreamEndCapture(c.at, s)
				most = max(most, call(c, s, before, p))
				c.CtxPushCurrent(c.at, ctx)
			}
			c.res("all", most)
		}}
	}
	// ends makes a case in which a thread ends.
	ends := func(name, prevents string, has threadEnd) found {
		family := famThread
		if has.lost {
			family = famSticky
		}
		return found{family: family, name: name, prevents: prevents, run: func(c *raw) {
			_, ctx := c.setup()
			t, s := c.stream(nonBlocking), driver.Stream(perThread)
			if has.other {
				s = c.stream(nonBlocking)
			}
			w := c.worker(ctx)
			w.do(func(c *raw) {
				c.must("cuMemsetD8Async", c.set(c.memory(), s))
				c.finish(s)
				if has.capturing {
					c.begin(s, capThread)
				}
				if has.invalidated {
					c.res("spoil", c.streamQuery(s))
				}
			})
			if has.lost {
				c.must("cuThreadExchangeStreamCaptureMode", bare(c.ThreadExchangeStreamCaptureMode(c.at, capRelaxed)))
				c.poisoned(t)
			}
			end := func() driver.Result {
				w.end()
				time.Sleep(5 * settling) // the thread ends some time after its goroutine
				return bare(c.CtxGetCurrent(c.at))
			}
			if has.invalidated {
				c.dare("thread-ends", end)
			} else {
				c.res("thread-ends", end())
			}
		}}
	}
	return []found{
		notices("an-interval", "using an interval that was read after a GPU error",
			func(c *raw, w witness) driver.Result { return c.elapsed(w.start, w.end) }),
		notices("a-complete-event", "using a completion that was queried after a GPU error",
			func(c *raw, w witness) driver.Result { return c.query(w.start) }),
		notices("its-event", "polling an event after the failed work: the query must return the error", func(c *raw, w witness) driver.Result { return c.query(w.behind) }),
		notices("a-pending-event", "polling an event that never completes, because other work of its context failed",
			func(c *raw, w witness) driver.Result { return c.query(w.later) }),
		notices("its-stream", "polling the stream that has failed", func(c *raw, w witness) driver.Result { return c.streamQuery(w.failing) }),
		notices("a-creation", "assuming that the call that returns an error has caused it", func(c *raw, _ witness) driver.Result { return c.newEvent() }),
		notices("another-stream", "assuming that the stream that returns an error has caused it",
			func(c *raw, w witness) driver.Result { return c.streamQuery(w.free) }),
		notices("synchronizing-another-stream", "assuming that a successful synchronize proves that there is no error",
			func(c *raw, w witness) driver.Result { return c.StreamSynchronize(c.at, w.free) }),
		notices("a-record", "continuing to work after a GPU error", func(c *raw, w witness) driver.Result { return c.EventRecord(c.at, w.end, w.free) }),
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
		notices("another-context", "a watchdog that makes queries in a context of its own", func(_ *raw, w witness) driver.Result { return w.other.query(w.abroad) }),
		notices("synchronizing-another-context", "the same with a synchronize",
			func(_ *raw, w witness) driver.Result { return w.other.CtxSynchronize(w.other.at) }),
		{famSticky, "error-in-the-primary-context", "assuming that another context of the device still works after an error in the primary context", func(c *raw) {
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
		{famSticky, "recovery-without-a-primary", "trying to recover by destroying all contexts and creating one", func(c *raw) {
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
		{famSticky, "recovery-of-the-primary", "trying to recover by releasing the primary context, with or without a reset", func(c *raw) {
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
		{famSticky, "assert", "treating a failed assertion in a kernel as a temporary error", func(c *raw) {
			dev, _ := c.setup()
			s := c.stream(nonBlocking)
			e := c.ended(timed, s)
			c.launch(s, c.kernel(assertPTX, "assert_fails"), driver.KernelParams{})
			c.res("sync", c.StreamSynchronize(c.at, s))
			c.res("query", c.query(e))
			c.res("create", c.newEvent())
			c.res("reset", c.DevicePrimaryCtxReset(c.at, dev))
			_, res := c.DevicePrimaryCtxRetain(c.at, dev)
			c.res("retain", res)
		}},
		{famSticky, "first-error-stays", "reporting the last of several errors instead of the first, which is the cause", func(c *raw) {
			c.setup()
			s, t := c.stream(nonBlocking), c.stream(nonBlocking)
			trap := c.kernel([]byte(trapPTX), "traps")
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
		{famSticky, "error-while-capturing", "a capture that ends without an error after its context was lost, or never ends", func(c *raw) {
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
		captures("work", false, func(c *raw, s driver.Stream, _ driver.Event, p driver.DevicePtr) driver.Result { return c.set(p, s) }),
		captures("spoilt-work", true, func(c *raw, s driver.Stream, _ driver.Event, p driver.DevicePtr) driver.Result { return c.set(p, s) }),
		captures("write", false, func(c *raw, s driver.Stream, _ driver.Event, p driver.DevicePtr) driver.Result {
			return c.StreamWriteValue32(c.at, s, p, 1, 0)
		}),
		captures("spoilt-write", true, func(c *raw, s driver.Stream, _ driver.Event, p driver.DevicePtr) driver.Result {
			return c.StreamWriteValue32(c.at, s, p, 1, 0)
		}),
		captures("record", true, func(c *raw, s driver.Stream, e driver.Event, _ driver.DevicePtr) driver.Result {
			return c.EventRecord(c.at, e, s)
		}),
		captures("external-record", true, func(c *raw, s driver.Stream, e driver.Event, _ driver.DevicePtr) driver.Result {
			return c.external(e, s)
		}),
		captures("wait", true, func(c *raw, s driver.Stream, e driver.Event, _ driver.DevicePtr) driver.Result { return c.wait(s, e) }),
		ends("thread-ends", "a thread that ends while its default stream was used", threadEnd{}),
		ends("thread-ends-capturing", "a thread that ends during a capture of its default stream", threadEnd{capturing: true}),
		ends("thread-ends-spoilt", "the same with an invalidated capture", threadEnd{capturing: true, invalidated: true}),
		ends("thread-ends-after-an-error", "a thread that ends when its context is lost", threadEnd{lost: true}),
		ends("thread-ends-capturing-after-an-error", "the same during a capture of its default stream", threadEnd{capturing: true, lost: true}),
		ends("thread-ends-spoilt-after-an-error", "the same with a capture that was invalidated before", threadEnd{capturing: true, invalidated: true, lost: true}),
		ends("thread-ends-capturing-another-after-an-error", "the same during a capture of another stream than the thread's own",
			threadEnd{other: true, capturing: true, lost: true}),
		{famSticky, "released-capturing-after-an-error", "releasing the primary context during a capture that was lost with the context", func(c *raw) {
			dev, ctx := c.setup()
			w := c.worker(ctx)
			w.do(func(c *raw) { c.begin(perThread, capThread) })
			s := c.stream(nonBlocking)
			c.begin(s, capRelaxed)
			c.must("cuThreadExchangeStreamCaptureMode", bare(c.ThreadExchangeStreamCaptureMode(c.at, capRelaxed)))
			c.poisoned(c.stream(nonBlocking))
			c.res("release", c.DevicePrimaryCtxRelease(c.at, dev))
		}},
		{famSticky, "error-in-a-graph", "assuming that an event of a failed graph is recorded", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			before := c.ended(timed, s)
			f := c.kernel(illegalAddressPTX, "illegal_address")
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
		{famSticky, "cleanup-after-an-error", "a clean-up that stops at the first error: the results of its calls, none of which hangs", func(c *raw) {
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
		fails("trap", "assuming that the error of a trap affects only its device, or all devices", func(c *raw, s driver.Stream) { c.trap(s) }),
		fails("misaligned", "the same with a misaligned address", func(c *raw, s driver.Stream) { c.misaligned(s) }),
		fails("assert", "the same with an assertion", func(c *raw, s driver.Stream) {
			c.launch(s, c.kernel(assertPTX, "assert_fails"), driver.KernelParams{})
		}),
		{famSticky, "cluster-of-one", "writing to the shared memory of a cluster in a launch without clusters", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			plain := c.kernel(clusterStore(""), "remote")
			required := c.kernel(clusterStore(".reqnctapercluster 1, 1, 1 "), "remote")
			attribute := driver.LaunchAttribute{ID: driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION}
			for i := range 3 {
				attribute.Value[4*i] = 1
			}
			config := driver.LaunchConfig{GridX: 1, GridY: 1, GridZ: 1, BlockX: 1, BlockY: 1, BlockZ: 1, Stream: s,
				Attributes: &attribute, Count: 1}
			c.res("attribute", c.LaunchKernelEx(c.at, &config, plain, driver.KernelParams{}))
			c.res("end-attribute", c.StreamSynchronize(c.at, s))
			c.launch(s, required, driver.KernelParams{})
			c.res("end-required", c.StreamSynchronize(c.at, s))
			c.launch(s, plain, driver.KernelParams{})
			c.res("end-plain", c.StreamSynchronize(c.at, s))
		}},
		{famSticky, "error-on-another-device", "abandoning all GPUs of a machine after an error on one of them, or using events across devices", func(c *raw) {
			c.devices(2)
			_, ctx0 := c.primary(0)
			dev1, ctx1 := c.primary(1)
			c.current(ctx0)
			other := c.inside(ctx1)
			s, t, fresh := c.stream(nonBlocking), other.stream(nonBlocking), other.stream(nonBlocking)
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

// clusterStore returns the text of a kernel, with a directive, that writes to shared memory as to that of a cluster.
func clusterStore(directive string) []byte {
	return []byte(`.version 8.1
.target sm_90
.address_size 64
.visible .entry remote() ` + directive + `{
	.shared .align 8 .b64 barrier;
	.shared .align 8 .b64 word;
	.reg .b32 %a, %b, %v; .reg .b64 %x; .reg .pred %p;
	mov.u32 %a, word; mov.u32 %b, barrier; mov.u32 %v, 7;
	mbarrier.init.shared.b64 [%b], 1; fence.proxy.async;
	mbarrier.arrive.expect_tx.shared.b64 %x, [%b], 4;
	st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%a], %v, [%b];
	mov.u32 %v, 0;
again:	mbarrier.try_wait.parity.shared.b64 %p, [%b], 0;
	add.u32 %v, %v, 1;
	@%p ret;
	setp.lt.u32 %p, %v, 100000;
	@%p bra again;
	trap;
}
`)
}
