package behaviour

import (
	"errors"
	"fmt"
	"time"

	"github.com/purecu/purecu/cu"
)

// A viaCu is a case that calls a driver through package cu. It makes the steps that have an answer
// in the table's column cu, including those that crash drivers.
type viaCu struct {
	*reporter
	job job
	drv *cu.Driver
}

// cuCases returns the cases, in the order of the table.
func cuCases() []testCase {
	cases := []struct {
		name string
		run  func(*viaCu)
	}{
		{"noinit", cuNoInit},
		{"flags", cuFlags},
		{"unrecorded", cuUnrecorded},
		{"pending", cuPending},
		{"ctx", cuCtx},
		{"ipc", cuIPC},
		{"ctxdestroyed", cuCtxDestroyed},
		{"doubledestroy", cuDoubleDestroy},
		{"queryfreed", cuQueryFreed},
		{"recordfreedstream", cuRecordFreedStream},
		{"sticky", cuSticky},
		{"prio", cuPrio},
		{"legacysync", cuLegacySync},
		{"primary", cuPrimary},
		{"streamdestroy", cuStreamDestroy},
		{"ptds", cuPTDS},
		{"many", cuMany},
		{"two", cuTwo},
	}
	var list []testCase
	for _, c := range cases {
		list = append(list, testCase{c.name, func(j job, rep *reporter) {
			c.run(&viaCu{reporter: rep, job: j})
		}})
	}
	return list
}

// outcome returns an error in the notation of the table: the mistake, if package cu found it, and
// the result that the error matches.
func outcome(err error) string {
	if err == nil {
		return "0"
	}
	var e *cu.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	if !errors.Is(err, e.Result) {
		return fmt.Sprintf("%v, which does not match its own result %d", err, int(e.Result))
	}
	for _, m := range []struct {
		name string
		err  error
	}{
		{"ErrClosed", cu.ErrClosed},
		{"ErrNil", cu.ErrNil},
		{"ErrDriverMismatch", cu.ErrDriverMismatch},
		{"ErrDeviceMismatch", cu.ErrDeviceMismatch},
		{"ErrContextMismatch", cu.ErrContextMismatch},
		{"ErrNotTimed", cu.ErrNotTimed},
		{"ErrNotRecorded", cu.ErrNotRecorded},
		{"ErrContextPoisoned", cu.ErrContextPoisoned},
	} {
		if errors.Is(err, m.err) {
			return fmt.Sprintf("%s %d", m.name, int(e.Result))
		}
	}
	return fmt.Sprint(int(e.Result))
}

// err reports how a step ended.
func (c *viaCu) err(step string, err error) {
	c.send(report{Kind: answer, Step: step, Answer: outcome(err)})
}

// status reports the status that a step returned.
func (c *viaCu) status(step string, st cu.Status, err error) {
	switch {
	case err != nil && st != cu.StatusUnknown:
		c.send(report{Kind: answer, Step: step, Answer: fmt.Sprintf("%v beside %s", st, outcome(err))})
	case err != nil || st == cu.Complete:
		c.err(step, err)
	case st == cu.Pending:
		c.send(report{Kind: answer, Step: step, Answer: "Pending"})
	default:
		c.send(report{Kind: answer, Step: step, Answer: st.String()})
	}
}

// query reports the result of a query of the event.
func (c *viaCu) query(step string, e *cu.Event) {
	st, err := e.Query()
	c.status(step, st, err)
}

// since reports and returns the time between two records.
func (c *viaCu) since(step string, start, end *cu.Event) time.Duration {
	d, st, err := end.Since(start)
	c.status(step, st, err)
	return d
}

// must ends the case if something failed that is not a step.
func (c *viaCu) must(err error) {
	if err != nil {
		c.fatal("to set the case up: %v", err)
	}
}

// device opens the driver, and returns a device. It skips the case if there is no such device.
func (c *viaCu) device(ordinal int) *cu.Device {
	if c.drv == nil {
		drv, err := cu.Open(c.job.Target.option())
		if errors.Is(err, cu.ErrNoDevice) && c.job.Target.NoDevice {
			c.skip("the driver sees no device")
		}
		c.must(err)
		c.drv = drv
		version, err := drv.Version()
		c.must(err)
		c.send(report{Kind: about, Driver: driverInfo{int(version), c.job.Target.Software != "", c.job.Target.Cusim}})
	}
	n, err := c.drv.DeviceCount()
	c.must(err)
	if n <= ordinal {
		c.skip("the driver sees %d devices, and this case needs %d", n, ordinal+1)
	}
	dev, err := c.drv.Device(ordinal)
	c.must(err)
	return dev
}

// context opens the driver, and returns the first device's primary context.
func (c *viaCu) context() *cu.Context { return c.contextOf(c.device(0)) }

func (c *viaCu) contextOf(dev *cu.Device) *cu.Context {
	gpu, err := dev.PrimaryContext()
	c.must(err)
	return gpu
}

func (c *viaCu) event(gpu *cu.Context, flags cu.EventFlags) *cu.Event {
	e, err := gpu.NewEvent(flags)
	c.must(err)
	return e
}

func (c *viaCu) stream(gpu *cu.Context) *cu.Stream {
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	c.must(err)
	return s
}

func (c *viaCu) legacy(gpu *cu.Context) *cu.Stream {
	s, err := gpu.LegacyStream()
	c.must(err)
	return s
}

func (c *viaCu) newContext(dev *cu.Device) *cu.Context {
	gpu, err := dev.NewContext(cu.ContextDefault)
	c.must(err)
	return gpu
}

// kernel returns a function that enqueues one thread of a kernel.
func (c *viaCu) kernel(gpu *cu.Context, ptx []byte, name string) func(*cu.Stream, ...cu.Arg) {
	m, err := gpu.LoadModule(ptx)
	c.must(err)
	f, err := m.Function(name)
	c.must(err)
	return func(s *cu.Stream, args ...cu.Arg) {
		c.must(f.Launch(s, cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}, args...))
	}
}

// spinner returns a function that keeps a stream busy. It has already run the kernel once.
func (c *viaCu) spinner(gpu *cu.Context) func(*cu.Stream, time.Duration) {
	launch := c.kernel(gpu, spinPTX, "spin")
	spin := func(s *cu.Stream, d time.Duration) { launch(s, cu.U64(uint64(d))) }
	s := c.stream(gpu)
	spin(s, time.Microsecond)
	c.must(s.Synchronize())
	c.must(s.Close())
	return spin
}

// recorded returns a timed event whose record on the stream has completed. Package cu has not
// queried it.
func (c *viaCu) recorded(gpu *cu.Context, s *cu.Stream) *cu.Event {
	e := c.event(gpu, cu.EventDefault)
	c.must(e.Record(s))
	c.must(s.Synchronize())
	return e
}

// cuNoInit has no driver. Open is the only way to get one, and initialises it.
func cuNoInit(c *viaCu) {
	var drv *cu.Driver
	var gpu *cu.Context
	var e *cu.Event
	c.query("query-null", e)
	_, err := gpu.NewEvent(cu.EventDefault)
	c.err("create", err)
	_, err = drv.DeviceCount()
	c.err("devcount", err)
	_, err = drv.Version()
	c.err("version", err)
}

// cuFlags creates events with all valid flags and with invalid ones.
func cuFlags(c *viaCu) {
	gpu := c.context()
	create := func(step string, flags cu.EventFlags) {
		e, err := gpu.NewEvent(flags)
		c.err(step, err)
		if err == nil {
			c.must(e.Close())
		}
	}
	for flags := range cu.EventFlags(18) {
		create(fmt.Sprintf("create-%d", flags), flags)
	}
	create("create-0x80000000", 1<<31)
}

// cuUnrecorded uses an event that was never recorded, and nil.
func cuUnrecorded(c *viaCu) {
	gpu := c.context()
	s, u := c.stream(gpu), c.event(gpu, cu.EventDefault)
	c.query("query", u)
	c.err("sync", u.Synchronize())
	c.err("wait", s.WaitEvent(u))
	r := c.recorded(gpu, s)
	c.since("elapsed-uu", u, u)
	c.since("elapsed-ru", r, u)
	c.since("elapsed-ur", u, r)
	c.val("same", c.since("elapsed-rr-same", r, r) != 0)
	c.since("null-start", nil, r)
	var none *cu.Event
	c.query("query-null", none)
	c.err("sync-null", none.Synchronize())
	c.err("destroy-null", none.Close())
	c.err("record-null", none.Record(s))
	c.err("wait-null", s.WaitEvent(none))
}

// cuPending uses events of a busy stream, and measures a kernel.
func cuPending(c *viaCu) {
	gpu := c.context()
	s, f, g := c.stream(gpu), c.event(gpu, cu.EventDefault), c.event(gpu, cu.EventDefault)
	spin := c.spinner(gpu)
	e := c.recorded(gpu, s)

	spin(s, hold)
	c.must(f.Record(s))
	c.must(g.Record(s))
	c.query("query-E", e)
	c.query("query-F", f)
	c.since("elapsed-EF", e, f)
	st, err := s.Query()
	c.status("streamquery", st, err)
	c.err("destroy-pending", g.Close())
	c.must(s.Synchronize())

	began := time.Now().Add(hold / 11) // the earliest beginning of the kernel
	spin(s, hold/10)
	c.must(e.Record(s))
	spin(s, 5*time.Millisecond)
	c.must(f.Record(s))
	c.must(f.Synchronize())
	d := c.since("elapsed-5ms", e, f)
	c.val("ms-of-5ms-kernel", lasted(float32(d.Seconds()*1e3), 5*time.Millisecond, began))
	c.val("rev-negative", c.since("elapsed-rev", f, e) < 0)

	spin(s, hold)
	c.must(f.Record(s))
	c.query("rerecord-query", f)
	c.since("elapsed-rerec", e, f)
	c.err("sync", f.Synchronize())
	c.query("query", f)
}

// cuCtx mixes objects of two contexts of one device. Users of package cu do not care which context
// is current: no call here has one on its thread.
func cuCtx(c *viaCu) {
	dev := c.device(0)
	gpu, other := c.contextOf(dev), c.newContext(dev)
	s, e := c.stream(gpu), c.event(gpu, cu.EventDefault)
	t, f := c.stream(other), c.event(other, cu.EventDefault)
	c.err("record-E-on-T", e.Record(t))
	c.err("record-E-on-S-ctx2cur", e.Record(s))
	c.err("record-E-null-ctx2cur", e.Record(c.legacy(other)))
	c.err("sync-E-ctx2cur", e.Synchronize())
	c.err("record-F-on-T", f.Record(t))
	c.err("wait-T-on-E", t.WaitEvent(e))
	c.err("wait-S-on-F", s.WaitEvent(f))
	c.since("elapsed-EE-ctx2cur", e, e)

	legacy := c.legacy(gpu)
	c.err("nocur-record-S", e.Record(s))
	c.err("nocur-record-null", e.Record(legacy))
	c.err("nocur-sync", e.Synchronize())
	c.since("nocur-elapsed", e, e)
	c.err("nocur-wait", t.WaitEvent(e))
	c.must(s.Synchronize())
	st, err := s.Query()
	c.status("nocur-streamquery", st, err)
	c.err("nocur-streamsync", s.Synchronize())
	c.must(legacy.Synchronize())
	st, err = legacy.Query()
	c.status("nocur-streamquery-null", st, err)
	_, err = s.Flags()
	c.err("nocur-streamgetflags", err)
	_, err = s.Priority()
	c.err("nocur-streamgetprio", err)
	_, err = s.ID()
	c.err("nocur-streamgetid", err)
	_, err = gpu.NewStream(cu.StreamNonBlocking)
	c.err("nocur-streamcreate", err)
	c.err("nocur-destroyS", s.Close())
	c.err("nocur-destroyE", e.Close())
	c.err("nocur-ctxsync", gpu.Synchronize())
}

// cuIPC uses an event that other processes could open.
func cuIPC(c *viaCu) {
	gpu := c.context()
	s := c.stream(gpu)
	_, err := gpu.NewEvent(cu.EventInterprocess)
	c.err("create-ipc-timing", err)
	e, err := gpu.NewEvent(cu.EventInterprocess | cu.EventDisableTiming)
	c.err("create-ipc", err)
	c.query("query-ipc", e)
	c.err("record-ipc", e.Record(s))
	c.err("sync-ipc", e.Synchronize())
	c.since("elapsed-ipc", e, e)
	c.err("destroy", e.Close())
}

// cuCtxDestroyed closes the context first. The context is destroyed with the last of its objects.
func cuCtxDestroyed(c *viaCu) {
	gpu := c.newContext(c.device(0))
	s := c.stream(gpu)
	e, f := c.recorded(gpu, s), c.recorded(gpu, s)
	c.must(gpu.Close())
	c.query("query", e)
	c.since("elapsed", e, f)
	c.err(crash, e.Close())
}

// cuDoubleDestroy closes an event twice.
func cuDoubleDestroy(c *viaCu) {
	e := c.event(c.context(), cu.EventDefault)
	c.err("destroy1", e.Close())
	c.err(crash, e.Close())
}

// cuQueryFreed queries a closed event.
func cuQueryFreed(c *viaCu) {
	e := c.event(c.context(), cu.EventDefault)
	c.err("destroy1", e.Close())
	c.query(crash, e)
}

// cuRecordFreedStream records an event on a closed stream.
func cuRecordFreedStream(c *viaCu) {
	gpu := c.context()
	s, e := c.stream(gpu), c.event(gpu, cu.EventDefault)
	c.must(s.Close())
	c.err(crash, e.Record(s))
}

// cuSticky makes all calls after a kernel wrote to an illegal address.
func cuSticky(c *viaCu) {
	gpu := c.context()
	s := c.stream(gpu)
	e, f := c.recorded(gpu, s), c.event(gpu, cu.EventDefault)
	bad := c.kernel(gpu, illegalAddressPTX, "illegal_address")
	c.spinner(gpu)(s, hold)
	bad(s)
	c.err("record-after-bad", f.Record(s))
	c.must(gpu.Err())
	c.err("sync", f.Synchronize())
	c.query("query-E", e)
	c.query("query-F", f)
	c.since("elapsed_v2-EF", e, f)
	_, err := gpu.NewEvent(cu.EventDefault)
	c.err("create", err)
	c.err("record", e.Record(s))
	c.err("wait", s.WaitEvent(e))
	c.err("destroy", e.Close())
	c.err("streamdestroy", s.Close())
	c.err("ctxsync", gpu.Synchronize())
}

// cuPrio queries priorities and flags.
func cuPrio(c *viaCu) {
	gpu := c.context()
	least, greatest, err := gpu.PriorityRange()
	c.must(err)
	c.val("least", least)
	c.val("greatest", greatest)
	create := func(step, value string, priority int) {
		s, err := gpu.NewStreamPriority(cu.StreamNonBlocking, priority)
		c.err(step, err)
		got, err := s.Priority()
		c.must(err)
		c.val(value, got)
	}
	create("prio-100", "got", 100)
	create("prio--100", "got2", -100)
	s, err := gpu.NewStream(cu.StreamDefault)
	c.must(err)
	flags, err := s.Flags()
	c.err("flags-0", err)
	c.val("flags", uint32(flags))
	legacy := c.legacy(gpu)
	priority, err := legacy.Priority()
	c.must(err)
	c.val("null-prio", priority)
	id, err := legacy.ID()
	c.must(err)
	c.val("null-id", id)
	id, err = s.ID()
	c.must(err)
	c.val("S-id-nonzero", id != 0)
}

// cuLegacySync shows which streams the legacy default stream waits for.
func cuLegacySync(c *viaCu) {
	gpu := c.context()
	blocking, err := gpu.NewStream(cu.StreamDefault)
	c.must(err)
	free, null := c.stream(gpu), c.legacy(gpu)
	legacy, e := c.event(gpu, cu.EventDefault), c.event(gpu, cu.EventDefault)
	spin := c.spinner(gpu)

	spin(blocking, hold)
	c.must(legacy.Record(null))
	c.query("legacy-event-behind-blocking", legacy)
	c.must(e.Record(free))
	c.before("nonblocking-free", e, legacy)
	c.err("sync", legacy.Synchronize())

	spin(free, hold)
	c.must(e.Record(free))
	c.must(legacy.Record(null))
	c.before("legacy-not-behind-nonblocking", legacy, e)
}

// before reports the result of querying e when e completes while busy is pending. It reports
// Pending if e did not complete before busy.
func (c *viaCu) before(step string, e, busy *cu.Event) {
	for {
		st, err := e.Query()
		// Query busy after e, so that the order of the two results is known.
		other, otherErr := busy.Query()
		c.must(otherErr)
		switch {
		case err != nil:
			c.err(step, err)
			return
		case other != cu.Pending:
			c.status(step, cu.Pending, nil)
			return
		case st == cu.Complete:
			c.status(step, st, nil)
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// cuPrimary uses a primary context from its creation to its destruction.
func cuPrimary(c *viaCu) {
	dev := c.device(0)
	_, active, err := dev.PrimaryContextState()
	c.err("state0", err)
	c.val("active", active)
	gpu, err := dev.PrimaryContext()
	c.err("retain", err)
	c.err("setflags", dev.SetPrimaryContextFlags(cu.ContextSchedBlockingSync))
	flags, active, err := dev.PrimaryContextState()
	c.err("state1", err)
	c.val("active1", active)
	c.val("flags1", uint32(flags))
	handle := gpu.Handle()
	c.err("release", gpu.Close())
	_, active, err = dev.PrimaryContextState()
	c.err("state2", err)
	c.val("active2", active)
	gpu, err = dev.PrimaryContext()
	c.err("retain-again", err)
	c.val("same-handle", gpu.Handle() == handle)
	v, err := gpu.APIVersion()
	c.err("apiversion", err)
	c.val("v", v)
	_, err = gpu.ID()
	c.err("ctxid", err)
}

// cuPTDS records on the per-thread default stream, which exists only inside of Do.
func cuPTDS(c *viaCu) {
	gpu := c.context()
	e := c.event(gpu, cu.EventDefault)
	var s *cu.Stream
	c.must(gpu.Do(func(t *cu.Thread) (err error) {
		if s, err = t.DefaultStream(); err == nil {
			c.err("record-pt", e.Record(s))
		}
		return err
	}))
	c.err("record-pt-noctx", e.Record(s))
	c.err("record-legacy-noctx", e.Record(c.legacy(gpu)))
	st, err := s.Query()
	c.status("query-pt-noctx", st, err)
	c.err("wait-pt-noctx", s.WaitEvent(e))
}

// cuStreamDestroy closes a stream that has pending work.
func cuStreamDestroy(c *viaCu) {
	gpu := c.context()
	s, e := c.stream(gpu), c.event(gpu, cu.EventDefault)
	c.spinner(gpu)(s, hold)
	c.must(e.Record(s))
	c.err("destroy-busy-stream", s.Close())
	st, err := e.Query()
	c.val("fast", st == cu.Pending)
	c.status("event-pending", st, err)
	c.err("sync", e.Synchronize())
	c.query("query", e)
	c.err("destroy", e.Close())
}

// cuMany creates very many events.
func cuMany(c *viaCu) {
	gpu := c.context()
	const n = 200_000
	events := make([]*cu.Event, 0, n)
	var err error
	for range n {
		var e *cu.Event
		if e, err = gpu.NewEvent(cu.EventDefault); err == nil {
			events = append(events, e)
		}
	}
	c.val("created-200k-timing", len(events))
	c.val("last", outcome(err))
	c.err("ctxsync", gpu.Synchronize())
}

// cuTwo mixes objects of two devices.
func cuTwo(c *viaCu) {
	dev1 := c.device(1)
	gpu0, gpu1 := c.contextOf(c.device(0)), c.contextOf(dev1)
	s0, e0 := c.stream(gpu0), c.event(gpu0, cu.EventDefault)
	s1, f1 := c.stream(gpu1), c.event(gpu1, cu.EventDefault)
	spin := c.spinner(gpu0)

	c.err("record-E0-on-S1", e0.Record(s1))
	c.err("record-F1-on-S0", f1.Record(s0))
	c.err("record-E0-on-S0-cur1", e0.Record(s0))
	c.must(s0.Synchronize())
	c.query("query-E0-cur1", e0)
	c.err("wait-S1-on-E0", s1.WaitEvent(e0))
	c.err("record-F1", f1.Record(s1))
	c.err("sync-F1", f1.Synchronize())
	c.since("elapsed-E0-F1", e0, f1)
	c.since("elapsed-F1-E0", f1, e0)

	spin(s0, hold)
	c.must(e0.Record(s0))
	c.err("wait-S1-on-pending-E0", s1.WaitEvent(e0))
	c.must(f1.Record(s1))
	c.query("F1-pending", f1)
	c.err("sync", f1.Synchronize())
	c.err("record-E0-legacy-cur1", e0.Record(c.legacy(gpu1)))
	c.val("is1", s1.Device() == dev1)
}
