package conformance

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// This file tests the driver API's event management in package cu: rows D1 to D3, D5 to D12, D14
// and D15.

// answers expects that package cu returns the driver's answer: no error for success, and otherwise
// an error that matches the result.
func (n *nouns) answers(what string, r driver.Result, err error) {
	n.t.Helper()
	if r == ok && err != nil || r != ok && !errors.Is(err, cu.Result(r)) {
		n.t.Errorf("%s: the driver answers %d (%v), and package cu returns %v", what, r, r, err)
	}
}

// TestD01Create creates events with all valid flags and some invalid ones. Package cu accepts the
// same flags as the driver. The driver needs a current context. Package cu does not, and does not
// change the thread.
func TestD01Create(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		flags := []cu.EventFlags{1 << 4, 1 << 5, 1 << 29, 1 << 31, 1<<31 | cu.EventDisableTiming, ^cu.EventFlags(0)}
		for f := range cu.EventFlags(16) {
			flags = append(flags, f)
		}
		taken := 0
		for _, f := range flags {
			raw, r := n.EventCreate(n.at, uint32(f))
			valid := f < 8 && (f&cu.EventInterprocess == 0 || f&cu.EventDisableTiming != 0)
			want := driver.ResultInvalidValue
			if valid {
				want = ok
				taken++
			}
			n.want(fmt.Sprintf("cuEventCreate with flags %d", uint32(f)), want, r)
			if r == ok {
				n.must(n.EventDestroy(n.at, raw))
			}
			e, err := n.gpu.NewEvent(f)
			n.answers(f.String(), r, err)
			n.answers("lazily: "+f.String(), r, func() error {
				e := cu.LazyEvent(f)
				return errors.Join(e.Record(s), e.Close())
			}())
			if err != nil {
				continue
			}
			if e.Flags() != f {
				n.t.Errorf("%v: the event says that it has %v", f, e.Flags())
			}
			n.status("not recorded", e, cu.Complete)
			n.ok(e.Record(s))
			n.ok(e.Wait(n.patient()))
			_, _, err = e.Since(e)
			if (f&cu.EventDisableTiming != 0) != errors.Is(err, cu.ErrNotTimed) {
				n.t.Errorf("%v: the time says %v", f, err)
			}
			n.ok(e.Close())
		}
		if taken != 6 {
			n.t.Errorf("%d of the flags are valid, want 6", taken)
		}

		th := n.thread()
		n.want("cuEventCreate without a current context", driver.ResultInvalidContext, th.do(func(at driver.At) driver.Result {
			_, r := n.EventCreate(at, timed)
			return r
		}))
		n.want("cuCtxGetCurrent, where package cu has created an event", ok, th.do(func(at driver.At) driver.Result {
			e, err := n.gpu.NewEvent(cu.EventDefault)
			if err != nil {
				n.t.Errorf("without a current context: %v", err)
				return driver.ResultUnknown
			}
			if err := e.Close(); err != nil {
				n.t.Error(err)
			}
			c, r := n.CtxGetCurrent(at)
			if c != 0 {
				n.t.Errorf("context %#x is current, and none was", c)
			}
			return r
		}))
	})
}

// TestD02Destroy closes events whose records are pending. The close returns at once. Work that
// waits for the events is still done in order.
func TestD02Destroy(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s, waiter := n.newStream(), n.newStream()
		for _, flags := range []cu.EventFlags{cu.EventDefault, cu.EventDisableTiming, cu.EventBlockingSync, cu.EventInterprocess | cu.EventDisableTiming} {
			g := n.holds(s)
			e := get(n.gpu.NewEvent(flags))(n)
			n.ok(e.Record(s))
			n.ok(waiter.WaitEvent(e))
			after := get(waiter.RecordNew(cu.EventDisableTiming))(n)
			n.settle()
			n.status("its record", e, cu.Pending)
			n.beginErr(e.Close).returns("Close, while the record is pending", ok)
			n.alive("behind the wait is one event", 1)
			n.is("closed", e.Record(s), cu.ErrClosed)
			n.ok(e.Close())
			n.settle()
			n.status("what waits for the record of the closed event", after, cu.Pending)
			g.open()
			n.ok(after.Wait(n.patient()))
			n.ok(after.Close())
			n.alive("all are closed", 0)
		}
		// Many events are closed at once. Their resources are freed when their records complete,
		// and not before. A stream has room for only so many records: the next one would wait for
		// the gate.
		g := n.holds(s)
		for range 200 {
			e := get(s.RecordNew(cu.EventDefault))(n)
			n.ok(e.Close())
		}
		n.alive("all are closed, and none is complete", 0)
		if st, err := s.Query(); st != cu.Pending || err != nil {
			n.t.Errorf("the stream of 200 pending records: %v, %v", st, err)
		}
		g.open()
		n.ok(s.Synchronize())
	})
}

// TestD03Record records an event several times. Each record replaces the previous one. Waits for
// the previous record continue to wait for that record. Streams of other contexts fail as in the
// driver.
func TestD03Record(t *testing.T) {
	onNouns(t, func(n *nouns) {
		first, second, waiter, late := n.newStream(), n.newStream(), n.newStream(), n.newStream()
		for _, flags := range []cu.EventFlags{cu.EventDefault, cu.EventDisableTiming} {
			e := n.newEvent(flags)
			slow, fast := n.holds(first), n.holds(second)
			n.ok(e.Record(first))
			n.ok(waiter.WaitEvent(e))
			behind := get(waiter.RecordNew(cu.EventDisableTiming))(n)
			n.ok(e.Record(second))
			n.ok(late.WaitEvent(e))
			after := get(late.RecordNew(cu.EventDisableTiming))(n)
			fast.open()
			n.ok(e.Wait(n.patient()))
			n.ok(after.Wait(n.patient()))
			n.status("who waits for the record of before", behind, cu.Pending)
			slow.open()
			n.ok(behind.Wait(n.patient()))
			n.status("the newest record", e, cu.Complete)
			n.ok(behind.Close())
			n.ok(after.Close())
			for range 1000 {
				n.ok(e.Record(first))
			}
			n.ok(e.Wait(n.patient()))
		}

		e := n.newEvent(cu.EventDefault)
		beside := get(n.device(0).NewContext(cu.ContextDefault))(n)
		n.closes(beside)
		contexts := []*cu.Context{beside}
		if n.devices > 1 {
			far := get(n.device(1).PrimaryContext())(n)
			n.closes(far)
			contexts = append(contexts, far)
		}
		for i, gpu := range contexts {
			s := n.streamOf(gpu)
			err := e.Record(s)
			n.is("a stream of another context", err, []error{cu.ErrContextMismatch, cu.ErrDeviceMismatch}[i])
			r := n.EventRecord(n.at, n.raw(e), n.rawStream(s))
			n.want("cuEventRecord on a stream of another context", driver.ResultInvalidHandle, r)
			n.answers("a stream of another context", r, err)
		}
		n.status("what was refused", e, cu.Complete)
	})
}

// TestD05Query polls an event. When the result is that the record is complete, the host must see
// what the GPU wrote before the record, in memory that both share, without any other call. This is
// what the result guarantees, and why no other signal can replace the query.
func TestD05Query(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		e := n.newEvent(cu.EventDefault)
		n.want("cuEventQuery of an event that was not recorded", ok, n.EventQuery(n.at, n.raw(e)))
		n.status("not recorded", e, cu.Complete)

		const size = 1 << 20
		mem := get(n.gpu.Alloc(size))(n)
		n.closes(mem)
		host := get(n.gpu.AllocHost(size, cu.HostDeviceMap))(n)
		n.closes(host)
		for i := range 20 {
			e := n.newEvent(cu.EventDisableTiming)
			value := byte(i + 1)
			g := n.holds(s)
			n.ok(s.Memset(mem, value))
			n.ok(s.Copy(host, mem))
			n.ok(e.Record(s))
			n.settle()
			n.status("held", e, cu.Pending)
			n.want("cuEventQuery, held", driver.ResultNotReady, n.EventQuery(n.at, n.raw(e)))
			g.open()
			n.completed("a copy to the host", e)
			n.ok(host.View(func(b []byte) error {
				for _, at := range []int{0, size / 2, size - 1} {
					if b[at] != value {
						return fmt.Errorf("byte %d is %d and not %d, and the event was complete", at, b[at], value)
					}
				}
				return nil
			}))
			n.status("asked again", e, cu.Complete)
		}
	})
}

// TestD06Synchronize waits for events with all flags until the current record is complete, by
// spinning or by sleeping. It does not wait for an event that was not recorded.
func TestD06Synchronize(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		for _, flags := range []cu.EventFlags{cu.EventDefault, cu.EventDisableTiming, cu.EventBlockingSync, cu.EventBlockingSync | cu.EventDisableTiming,
			cu.EventBlockingSync | cu.EventInterprocess | cu.EventDisableTiming} {
			e := n.newEvent(flags)
			n.beginErr(e.Synchronize).returns(flags.String()+": not recorded", ok)
			g := n.holds(s)
			n.ok(e.Record(s))
			var early atomic.Int32
			var waiters []*waiter
			for range 4 {
				waiters = append(waiters, n.beginErr(func() error {
					err := e.Synchronize()
					if g.word.Load() == 0 {
						early.Add(1)
					}
					return err
				}))
			}
			n.stillPending(flags.String(), e)
			g.open()
			for _, w := range waiters {
				w.returns(flags.String(), ok)
			}
			if k := early.Load(); k > 0 {
				n.t.Errorf("%v: %d calls have returned before the record was complete", flags, k)
			}
			n.beginErr(e.Synchronize).returns(flags.String()+": complete", ok)
		}
	})
}

// TestD07Elapsed reads times in every state of an event, with package cu and with the driver. The
// driver's times are milliseconds of 32 bits. In long intervals they are coarser than the clock.
func TestD07Elapsed(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		start, stop, plain, untimed := n.newEvent(cu.EventDefault), n.newEvent(cu.EventDefault), n.newEvent(cu.EventDefault), n.newEvent(cu.EventDisableTiming)
		n.ok(start.Record(s))
		n.ok(untimed.Record(s))
		g := n.holds(s)
		n.ok(stop.Record(s))
		n.settle()
		for _, c := range []struct {
			name        string
			start, stop *cu.Event
			raw         driver.Result
			want        error // nil for Pending
		}{
			{"from one that was not recorded", plain, start, driver.ResultInvalidHandle, cu.ErrNotRecorded},
			{"to one that was not recorded", start, plain, driver.ResultInvalidHandle, cu.ErrNotRecorded},
			{"of one that was not recorded", plain, plain, driver.ResultInvalidHandle, cu.ErrNotRecorded},
			{"from one that is not timed", untimed, start, driver.ResultInvalidHandle, cu.ErrNotTimed},
			{"to one that is not timed", start, untimed, driver.ResultInvalidHandle, cu.ErrNotTimed},
			{"from one that is not timed to a pending one", untimed, stop, driver.ResultInvalidHandle, cu.ErrNotTimed},
			{"from a pending one to one that was not recorded", stop, plain, driver.ResultInvalidHandle, cu.ErrNotRecorded},
			{"to a pending one", start, stop, driver.ResultNotReady, nil},
			{"from a pending one", stop, start, driver.ResultNotReady, nil},
			{"of a pending one", stop, stop, driver.ResultNotReady, nil},
		} {
			for _, f := range []string{"cuEventElapsedTime", "cuEventElapsedTime_v2"} {
				n.want(c.name+": "+f, c.raw, n.call(f, args{Event: n.raw(c.start), End: n.raw(c.stop)}).Result)
			}
			d, st, err := c.stop.Since(c.start)
			switch {
			case c.want == nil && (st != cu.Pending || err != nil):
				n.t.Errorf("%s: %v, %v, want Pending", c.name, st, err)
			case c.want != nil:
				n.is(c.name, err, c.want, cu.Result(c.raw))
			}
			if d != 0 {
				n.t.Errorf("%s: %v", c.name, d)
			}
		}
		g.open()
		n.ok(stop.Wait(n.patient()))

		// The result must be exactly the driver's number.
		exact := func(what string, start, stop *cu.Event) time.Duration {
			n.t.Helper()
			ms, r := n.elapsed(n.raw(start), n.raw(stop))
			n.must(r)
			d, st, err := stop.Since(start)
			if want := time.Duration(math.Round(float64(ms) * 1e6)); d != want || st != cu.Complete || err != nil {
				n.t.Errorf("%s: %v, %v, %v, want %v", what, d, st, err, want)
			}
			back, _, err := start.Since(stop)
			if back != -d || err != nil {
				n.t.Errorf("%s: %v there, and %v back, %v", what, d, back, err)
			}
			return d
		}
		exact("a short time", start, stop)
		if d := exact("no time", stop, stop); d != 0 {
			n.t.Errorf("%v between a record and itself", d)
		}
		if !n.tg.Virtual {
			return // the call would wait
		}
		for _, c := range []struct{ is, reads time.Duration }{
			{500, 500},
			{time.Second + 500, time.Second + 488},                   // steps of 61 ns
			{4*time.Second + 500, 4*time.Second + 488},               // of 244 ns
			{8*time.Second + 600, 8*time.Second + 488},               // of 488 ns
			{9*time.Second + 600, 9*time.Second + 977},               // of 977 ns
			{9*time.Second + 400, 9 * time.Second},                   //
			{time.Minute + 3*time.Microsecond, time.Minute + 3906},   // of 3.9 µs
			{time.Hour + 200*time.Microsecond, time.Hour + 250*1000}, // of 250 µs
		} {
			n.ok(start.Record(s))
			n.sim.Advance(c.is)
			n.ok(stop.Record(s))
			n.settle()
			if d := exact(c.is.String(), start, stop); d != c.reads {
				n.t.Errorf("%v reads %v (%d ns), want %v", c.is, d, d, c.reads)
			}
		}
	})
}

// elapsed reads a time, with the newest function of the driver.
func (l *lab) elapsed(start, stop driver.Event) (float32, driver.Result) {
	ms, r := l.EventElapsedTimeV2(l.at, start, stop)
	if l.Missing(r) != nil {
		ms, r = l.EventElapsedTime(l.at, start, stop)
	}
	return ms, r
}

// TestD08ElapsedV2 reads times with the newest function of the driver. Package cu falls back to the
// older one, with the same results. Query returns errors of pending work, whatever Since returns.
func TestD08ElapsedV2(t *testing.T) {
	measure := func(n *nouns) {
		s := n.newStream()
		start, stop := n.newEvent(cu.EventDefault), n.newEvent(cu.EventDefault)
		n.ok(start.Record(s))
		g := n.holds(s)
		n.ok(stop.Record(s))
		n.settle()
		if _, st, err := stop.Since(start); st != cu.Pending || err != nil {
			n.t.Errorf("pending: %v, %v", st, err)
		}
		g.open()
		d := get(cu.Elapsed(n.patient(), start, stop))(n)
		ms, r := n.EventElapsedTime(n.at, n.raw(start), n.raw(stop))
		n.must(r)
		if want := time.Duration(math.Round(float64(ms) * 1e6)); d != want {
			n.t.Errorf("%v, and %v by the older function", d, want)
		}
		f := get(n.drv.Features())(n)
		_, r = n.EventElapsedTimeV2(n.at, n.raw(start), n.raw(stop))
		if f.ElapsedTimeV2 != (n.Missing(r) == nil) || f.ElapsedTimeV2 != (f.Version >= 12080) {
			n.t.Errorf("CUDA %d, cuEventElapsedTime_v2 answers %v, and Features says %v", f.Version, r, f.ElapsedTimeV2)
		}
	}
	onNouns(t, measure)
	t.Run("older", func(t *testing.T) {
		n, l := new(nouns), newLab(t, target{Name: "virtual", Virtual: true, Version: 12070})
		l.later(n.cleared)
		n.cuLab = newCuLab(l)
		n.devices = 1
		measure(n)
	})
}

// TestD09Intervals measures on a stream that has no work between two records, while the legacy
// default stream has work. That work makes the interval longer.
func TestD09Intervals(t *testing.T) {
	onNouns(t, func(n *nouns) {
		const busy = 5 * time.Millisecond
		spin := n.spinner()
		block := get(n.gpu.NewStream(cu.StreamDefault))(n)
		n.closes(block)
		start, stop := n.newEvent(cu.EventDefault), n.newEvent(cu.EventDefault)
		measure := func(between func()) time.Duration {
			n.ok(start.Record(block))
			between()
			n.ok(stop.Record(block))
			n.completed("the interval", stop)
			return get(cu.Elapsed(n.patient(), start, stop))(n)
		}
		least := measure(func() {})
		for range 10 {
			least = min(least, measure(func() {}))
		}
		d := measure(func() { spin(legacy, busy) })
		if d < busy*9/10 {
			n.t.Errorf("%v, where the default stream had %v to do", d, busy)
		}
		n.t.Logf("%v, and %v with nothing in between", d, least)
	})
}

// TestD10EarlierErrors makes calls return errors of work that was enqueued earlier. The error's
// Detail says so. If the error is sticky, Detail names the first call that returned it. Only the
// software driver is tested: no test can cause the first kind in a driver in C, and the second kind
// makes that driver unusable.
func TestD10EarlierErrors(t *testing.T) {
	detail := func(t *testing.T, err error, codes ...error) string {
		t.Helper()
		for _, code := range codes {
			if !errors.Is(err, code) {
				t.Errorf("the error is %v, want %v", err, code)
			}
		}
		var e *cu.Error
		if !errors.As(err, &e) {
			t.Fatalf("%v is no *cu.Error", err)
		}
		return e.Detail
	}
	const earlier = "work that was enqueued earlier"
	for _, op := range cuOps() {
		if op.name == "Close" {
			continue // a failed destruction still destroys: row E15
		}
		t.Run(op.name, func(t *testing.T) {
			sim, w := newWorld(t)
			for _, code := range []cu.Result{cu.ResultLaunchOutOfResources, cu.ResultUnknown, cu.ResultECCUncorrectable} {
				if err := w.e.Record(w.s); err != nil { // removes what is known about its completion
					t.Fatal(err)
				}
				sim.Inject(fault(op.function, driver.Result(code)))
				err := op.call(w)
				if d := detail(t, err, code); !strings.Contains(d, earlier) {
					t.Errorf("%v: %q does not say where it may come from", code, d)
				}
				if err := w.gpu.Err(); (err != nil) != cu.NeedsRestart(code) {
					t.Errorf("%v: the context's error is %v", code, err)
				}
			}
			// An error without such a cause has no such Detail.
			sim.Inject(fault(op.function, driver.ResultOutOfMemory))
			if d := detail(t, op.call(w), cu.ResultOutOfMemory); strings.Contains(d, earlier) {
				t.Errorf("out of memory: %q", d)
			}
			if err := w.close(); err != nil {
				t.Error(err)
			}

			sim, w = newWorld(t)
			sim.Poison(int(cu.ResultIllegalAddress))
			err := op.call(w)
			first := ""
			if e := new(cu.Error); errors.As(err, &e) {
				first = e.Op // of Elapsed, the query
			}
			for what, err := range map[string]error{"the first to report it": err, "after that": w.s.Synchronize()} {
				if d := detail(t, err, cu.ErrContextPoisoned, cu.ResultIllegalAddress); !strings.HasPrefix(d, first+" was the first") || !strings.Contains(d, earlier) {
					t.Errorf("%s: %q does not name %s", what, d, first)
				}
			}
			detail(t, w.gpu.Err(), cu.ErrContextPoisoned, cu.ResultIllegalAddress)
			if err := w.close(); err == nil {
				t.Error("everything is closed, in a context that is poisoned")
			}
		})
	}
}

// TestD11DefaultStreams uses the default streams and others. The legacy default stream and blocking
// streams, including per-thread default streams, wait for each other. Non-blocking streams wait for
// no other stream.
func TestD11DefaultStreams(t *testing.T) {
	onNouns(t, func(n *nouns) {
		null := get(n.gpu.LegacyStream())(n)
		n.closes(null)
		block, block2 := get(n.gpu.NewStream(cu.StreamDefault))(n), get(n.gpu.NewStream(cu.StreamDefault))(n)
		n.closes(block)
		n.closes(block2)
		free := n.newStream()
		n.ok(n.gpu.Do(func(th *cu.Thread) error {
			own := get(th.DefaultStream())(n)
			if null.Handle() != 1 || own.Handle() != 2 {
				n.t.Errorf("the handles are %d and %d", null.Handle(), own.Handle())
			}
			streams := []struct {
				name string
				s    *cu.Stream
			}{{"legacy", null}, {"own", own}, {"blocking", block}, {"blocking, another one", block2}, {"non-blocking", free}}
			// waits reports whether new work on a stream waits for a held one.
			waits := func(held, later string) bool {
				if held == later {
					return true
				}
				if held == "non-blocking" || later == "non-blocking" {
					return false
				}
				return held == "legacy" || later == "legacy"
			}
			for _, held := range streams {
				gate := n.newStream() // gates use raw calls, in which handle 2 is the test's thread
				g := n.holds(gate)
				n.ok(held.s.WaitStream(gate))
				marks := make([]*cu.Event, len(streams))
				for i := range slices.Backward(streams) { // the legacy stream last, because others wait for it
					marks[i] = get(streams[i].s.RecordNew(cu.EventDisableTiming))(n)
				}
				n.settle()
				for i, later := range streams {
					what := fmt.Sprintf("%s, behind %s", later.name, held.name)
					if waits(held.name, later.name) {
						n.status(what, marks[i], cu.Pending)
					} else {
						n.completed(what, marks[i])
					}
				}
				g.open()
				for _, m := range marks {
					n.ok(m.Wait(n.patient()))
					n.ok(m.Close())
				}
			}
			return nil
		}))
	})
}

// TestD12ContextEvents makes records and waits of a whole context, with all its streams and future
// streams. If the driver is too old, the error says so.
func TestD12ContextEvents(t *testing.T) {
	onNouns(t, func(n *nouns) {
		if !get(n.drv.Features())(n).ContextEvents {
			e := n.newEvent(cu.EventDisableTiming)
			n.is("RecordEvent", n.gpu.RecordEvent(e), errors.ErrUnsupported, cu.ResultNotSupported)
			n.ok(e.Record(n.newStream()))
			n.is("WaitEvent", n.gpu.WaitEvent(e), errors.ErrUnsupported, cu.ResultNotSupported)
			return
		}
		null := get(n.gpu.LegacyStream())(n)
		n.closes(null)
		block := get(n.gpu.NewStream(cu.StreamDefault))(n)
		n.closes(block)
		free := n.newStream()
		for _, held := range []*cu.Stream{free, block, null} {
			var e cu.Event
			gate := n.newStream()
			g := n.holds(gate)
			n.ok(held.WaitStream(gate))
			n.ok(n.gpu.RecordEvent(&e))
			ticket := get(e.Ticket())(n)
			n.stillPending("the record of a context, behind one of its streams", &e)
			g.open()
			n.ok(ticket.Wait(n.patient()))
			n.ok(e.Wait(n.patient()))
			n.status("the record of a context", &e, cu.Complete)

			// Later work is not part of the record.
			n.ok(n.gpu.RecordEvent(&e))
			g = n.holds(gate)
			n.ok(held.WaitStream(gate))
			n.completed("a record from before", &e)
			g.open()
			n.ok(held.Synchronize())
			n.ok(e.Close())
		}

		// The event is recorded while a goroutine waits for its previous record.
		gate, other := n.newStream(), n.newStream()
		g := n.holds(gate)
		e := n.newEvent(cu.EventDisableTiming)
		n.ok(n.gpu.RecordEvent(e))
		asked := make(chan struct{})
		once := sync.OnceFunc(func() { close(asked) })
		remove := trace.Add(n.drv, func(tr trace.Operation) {
			if tr.Op == trace.EventQuery {
				once()
			}
		})
		wait := n.beginErr(func() error { return e.Wait(n.patient()) })
		<-asked // the wait is for this record, and not for the next
		remove()
		g2 := n.holds(other)
		n.ok(n.gpu.RecordEvent(e))
		g.open()
		wait.returns("the wait for the first record", ok)
		n.status("the second record", e, cu.Pending)
		g2.open()
		n.ok(e.Wait(n.patient()))

		// It is not known whether such a record has a time.
		start, stop := n.newEvent(cu.EventDefault), n.newEvent(cu.EventDefault)
		n.ok(n.gpu.RecordEvent(start))
		n.ok(n.gpu.RecordEvent(stop))
		n.ok(stop.Wait(n.patient()))
		ms, r := n.elapsed(n.raw(start), n.raw(stop))
		n.seen("the time between two records of a context", ok, r)
		n.t.Logf("the time between two records of a context: %v ms", ms)
		_, _, err := stop.Since(start)
		n.answers("the time between two records of a context", r, err)

		// A wait affects existing streams and future ones.
		g = n.holds(gate)
		n.ok(e.Record(gate))
		n.ok(n.gpu.WaitEvent(e))
		late := n.newStream()
		for _, s := range []*cu.Stream{free, block, null, late} {
			m := get(s.RecordNew(cu.EventDisableTiming))(n)
			n.stillPending("behind the context's wait", m)
			n.closes(m)
		}
		n.ok(e.Record(other)) // must not change the wait
		m := get(late.RecordNew(cu.EventDisableTiming))(n)
		n.stillPending("behind the context's wait, its event recorded elsewhere", m)
		g.open()
		n.ok(m.Wait(n.patient()))
		n.ok(m.Close())
		for _, s := range []*cu.Stream{free, block, null, late} {
			n.ok(s.Synchronize())
		}
		n.ok(n.gpu.WaitEvent(new(cu.Event)))
		n.ok(n.gpu.WaitEvent(n.newEvent(cu.EventDefault)))

		// Events and streams of another context fail.
		beside := get(n.device(0).NewContext(cu.ContextDefault))(n)
		n.closes(beside)
		theirs := n.streamOf(beside)
		foreign := get(beside.NewEvent(cu.EventDisableTiming))(n)
		n.closes(foreign)
		err = n.gpu.RecordEvent(foreign)
		n.is("an event of another context", err, cu.ErrContextMismatch)
		n.answers("an event of another context", n.CtxRecordEvent(n.at, n.ctx, n.raw(foreign)), err)
		g = n.holds(theirs)
		n.ok(foreign.Record(theirs))
		n.ok(n.gpu.WaitEvent(foreign))
		m = get(late.RecordNew(cu.EventDisableTiming))(n)
		n.stillPending("behind another context's event", m)
		g.open()
		n.ok(m.Wait(n.patient()))
		n.ok(m.Close())

		// While a stream of the context is captured, both calls fail and invalidate the capture.
		ended := n.newEvent(cu.EventDisableTiming)
		n.ok(ended.Record(free))
		n.ok(ended.Wait(n.patient()))
		for name, call := range map[string]func(*cu.Event) error{"RecordEvent": n.gpu.RecordEvent, "WaitEvent": n.gpu.WaitEvent} {
			var refused error
			_, err := graph.Capture(late, graph.CaptureRelaxed, func() error {
				refused = call(ended)
				return nil
			})
			n.is(name+", in a capture", refused, cu.ResultStreamCaptureUnsupported)
			n.is(name+": the capture", err, cu.ResultStreamCaptureInvalidated)
			n.status("what was refused", ended, cu.Complete)
		}
	})
}

// TestD12GreenContexts makes records and waits of a green context, which has some of a context's
// streams.
func TestD12GreenContexts(t *testing.T) {
	onNouns(t, func(n *nouns) {
		dev := n.device(0)
		all, err := green.DeviceSMs(dev)
		if !get(n.drv.Features())(n).GreenContexts || errors.Is(err, cu.ResultNotSupported) {
			n.is("SMResource", err, errors.ErrUnsupported, cu.ResultNotSupported)
			return
		}
		n.ok(err)
		count := get(dev.Attribute(cu.DeviceAttributeMultiprocessorCount))(n)
		if all.Count() != count {
			n.t.Errorf("the device has %d multiprocessors, and says %d", count, all.Count())
		}
		parts, rest, err := all.Split(count / 4)
		n.ok(err)
		sum := rest.Count()
		for _, p := range parts {
			sum += p.Count()
			if p.Count() < count/4 {
				n.t.Errorf("a part of at least %d has %d", count/4, p.Count())
			}
		}
		n.t.Logf("%d multiprocessors are %d parts, the first of %d, and %d", count, len(parts), parts[0].Count(), rest.Count())
		if sum != count || len(parts) < 2 {
			n.t.Errorf("%d parts have %d multiprocessors of %d", len(parts), sum, count)
		}
		_, r := n.DevResourceGenerateDesc(n.at, nil)
		n.seen("a descriptor of nothing", driver.ResultInvalidValue, r)

		first, second := get(green.New(n.gpu, parts[0]))(n), get(green.New(n.gpu, parts[1]))(n)
		n.closes(first)
		n.closes(second)
		if got := get(first.SMs())(n).Count(); got != parts[0].Count() {
			n.t.Errorf("a green context of %d multiprocessors has %d", parts[0].Count(), got)
		}
		s, other, plain := get(first.NewStream(0))(n), get(second.NewStream(0))(n), n.newStream()
		for _, s := range []*cu.Stream{s, other} {
			n.closes(s)
		}
		if of, r := n.StreamGetCtx(n.at, n.rawStream(s)); r != ok || uintptr(of) != first.Handle() {
			n.t.Errorf("a green context's stream is of context %#x (%v), not of %#x", of, r, first.Handle())
		}

		// Streams of both kinds accept events of the primary context.
		spin := n.spinner()
		var e cu.Event
		n.closes(&e)
		spin(n.rawStream(s), time.Millisecond)
		n.ok(e.Record(s))
		n.ok(plain.WaitEvent(&e))
		n.completed("a kernel on a green context's stream", &e)
		n.ok(plain.Synchronize())

		// A record covers the streams of the green context, and no others.
		g := n.holds(s)
		var its, others, whole cu.Event
		for _, e := range []*cu.Event{&its, &others, &whole} {
			n.closes(e)
		}
		n.ok(first.RecordEvent(&its))
		n.ok(second.RecordEvent(&others))
		n.ok(n.gpu.RecordEvent(&whole))
		n.completed("another green context", &others)
		n.stillPending("the green context", &its)
		n.stillPending("the whole context", &whole)
		g.open()
		n.ok(its.Wait(n.patient()))
		n.ok(whole.Wait(n.patient()))

		// A wait affects the green context's existing streams and future ones.
		g = n.holds(plain)
		n.ok(e.Record(plain))
		n.ok(first.WaitEvent(&e))
		late := get(first.NewStream(0))(n)
		n.closes(late)
		for _, s := range []*cu.Stream{s, late} {
			m := get(s.RecordNew(cu.EventDisableTiming))(n)
			n.stillPending("behind the green context's wait", m)
			n.closes(m)
		}
		m := get(other.RecordNew(cu.EventDisableTiming))(n)
		n.closes(m)
		n.completed("another green context's stream", m)
		g.open()
		n.ok(s.Synchronize())
		n.ok(late.Synchronize())

		// Events of another context fail.
		beside := get(dev.NewContext(cu.ContextDefault))(n)
		n.closes(beside)
		foreign := get(beside.NewEvent(cu.EventDisableTiming))(n)
		n.closes(foreign)
		err = first.RecordEvent(foreign)
		n.is("an event of another context", err, cu.ErrContextMismatch)
		n.answers("an event of another context", n.GreenCtxRecordEvent(n.at, driver.GreenCtx(first.Handle()), n.raw(foreign)), err)
		n.ok(first.WaitEvent(foreign))

		// The calls invalidate captures of the context's streams, as the documentation says.
		for name, call := range map[string]func(*cu.Event) error{"RecordEvent": first.RecordEvent, "WaitEvent": first.WaitEvent} {
			var refused error
			_, err := graph.Capture(late, graph.CaptureRelaxed, func() error {
				refused = call(&e)
				return nil
			})
			n.is(name+", in a capture", refused, cu.ResultStreamCaptureUnsupported)
			n.is(name+": the capture", err, cu.ResultStreamCaptureInvalidated)
		}

		// The context that is closed first is destroyed last.
		third := get(green.New(n.gpu, parts[0]))(n)
		last := get(third.NewStream(0))(n)
		n.ok(third.Close())
		m = get(last.RecordNew(cu.EventDisableTiming))(n)
		n.ok(m.Wait(n.patient()))
		n.ok(m.Close())
		n.ok(last.Close())
	})
}

// TestD14EGL calls the method for EGL events, which CUDA has on Tegra boards only. Package cu
// returns an error on every driver.
func TestD14EGL(t *testing.T) {
	onNouns(t, func(n *nouns) {
		e, err := interop.NewEventFromEGLSync(n.gpu, 0x1000, cu.EventDefault)
		n.is("an event of EGL", err, errors.ErrUnsupported, cu.ResultNotSupported)
		var its *cu.Error
		if e != nil || !errors.As(err, &its) || its.Op != "cuEventCreateFromEGLSync" || its.Handle != 0x1000 || its.Detail == "" {
			n.t.Errorf("an event of EGL: %v, %#v", e, its)
		}
		_, err = interop.NewEventFromEGLSync(n.gpu, 0, cu.EventDefault)
		n.is("of nothing", err, cu.ErrNil)
		_, err = interop.NewEventFromEGLSync(n.gpu, 0x1000, cu.EventInterprocess)
		n.is("with flags that do not go together", err, cu.ResultInvalidValue)
		var none *cu.Context
		_, err = interop.NewEventFromEGLSync(none, 0x1000, cu.EventDefault)
		n.is("in no context", err, cu.ErrNil)
		_, err = n.drv.Proc("cuEventCreateFromEGLSync")
		n.is("by name", err, errors.ErrUnsupported)
	})
}

// TestD15Refusals makes, on the driver, every call that package cu rejects without a driver call.
// The error matches the driver's result, too. Calls that crash a driver in C are left out: they
// count as result 400.
func TestD15Refusals(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		beside := get(n.device(0).NewContext(cu.ContextDefault))(n)
		n.closes(beside)
		theirs := n.streamOf(beside)
		foreign := get(beside.NewEvent(cu.EventDefault))(n)
		n.closes(foreign)
		e, plain, untimed := n.newEvent(cu.EventDefault), n.newEvent(cu.EventDefault), n.newEvent(cu.EventDisableTiming)
		n.ok(e.Record(s))
		n.ok(untimed.Record(s))
		n.ok(foreign.Record(theirs))
		for _, ev := range []*cu.Event{e, untimed, foreign} {
			n.ok(ev.Wait(n.patient()))
		}
		since := func(start, stop *cu.Event) func() error {
			return func() error { _, _, err := stop.Since(start); return err }
		}
		elapsed := func(start, stop *cu.Event) func() error {
			return func() error { _, err := cu.Elapsed(n.patient(), start, stop); return err }
		}
		raw := func(name string, a args) func() driver.Result {
			return func() driver.Result { return n.call(name, a).Result }
		}
		rawSince := func(start, stop *cu.Event) func() driver.Result {
			return raw("cuEventElapsedTime_v2", args{Event: n.raw(start), End: n.raw(stop)})
		}
		rawStream := n.rawStream(s)
		// Raw calls get this event instead of plain, which package cu would query if its handle
		// were exposed. Both are in the same state.
		unrecorded := n.event(timed)
		dev, null := n.device(0), get(n.gpu.LegacyStream())(n)
		n.closes(null)
		type refusal struct {
			name string
			is   error // nil for errors without a name
			cu   func() error
			raw  func() driver.Result
		}
		list := []refusal{
			{"Since, not recorded", cu.ErrNotRecorded, since(plain, e), raw("cuEventElapsedTime_v2", args{Event: unrecorded, End: n.raw(e)})},
			{"Since, to one that is not recorded", cu.ErrNotRecorded, since(e, plain), raw("cuEventElapsedTime_v2", args{Event: n.raw(e), End: unrecorded})},
			{"Elapsed, not recorded", cu.ErrNotRecorded, elapsed(plain, e), raw("cuEventElapsedTime", args{Event: unrecorded, End: n.raw(e)})},
			{"Since, not timed", cu.ErrNotTimed, since(untimed, e), rawSince(untimed, e)},
			{"Since, to one that is not timed", cu.ErrNotTimed, since(e, untimed), rawSince(e, untimed)},
			{"Elapsed, not timed", cu.ErrNotTimed, elapsed(e, untimed), rawSince(e, untimed)},
			{"Since, another context", cu.ErrContextMismatch, since(e, foreign), rawSince(e, foreign)},
			{"Elapsed, another context", cu.ErrContextMismatch, elapsed(foreign, e), rawSince(foreign, e)},
			{"Record, another context", cu.ErrContextMismatch, func() error { return e.Record(theirs) },
				raw("cuEventRecord", args{Event: n.raw(e), Stream: n.rawStream(theirs)})},
			{"RecordWithFlags, another context", cu.ErrContextMismatch, func() error { return e.RecordWithFlags(theirs, cu.RecordDefault) },
				raw("cuEventRecordWithFlags", args{Event: n.raw(e), Stream: n.rawStream(theirs)})},
			{"RecordOnce, another context", cu.ErrContextMismatch, func() error { return plain.RecordOnce(theirs) },
				raw("cuEventRecord", args{Event: unrecorded, Stream: n.rawStream(theirs)})},
			{"RecordWithFlags, unknown", nil, func() error { return e.RecordWithFlags(s, 4) },
				raw("cuEventRecordWithFlags", args{Event: n.raw(e), Stream: rawStream, Flags: 4})},
			{"WaitEventWithFlags, unknown", nil, func() error { return s.WaitEventWithFlags(e, 2) },
				raw("cuStreamWaitEvent", args{Event: n.raw(e), Stream: rawStream, Flags: 2})},
			{"NewEvent, unknown flags", nil, func() error { _, err := n.gpu.NewEvent(8); return err }, raw("cuEventCreate", args{Flags: 8})},
			{"NewEvent, timed for several processes", nil, func() error { _, err := n.gpu.NewEvent(cu.EventInterprocess); return err },
				raw("cuEventCreate", args{Flags: driver.CU_EVENT_INTERPROCESS})},
			{"NewStream, unknown flags", nil, func() error { _, err := n.gpu.NewStream(2); return err }, raw("cuStreamCreate", args{Flags: 2})},
			{"NewStreamPriority, unknown flags", nil, func() error { _, err := n.gpu.NewStreamPriority(4, 0); return err }, func() driver.Result {
				_, r := n.StreamCreateWithPriority(n.at, 4, 0)
				return r
			}},
			{"NewContext, unknown flags", nil, func() error { _, err := dev.NewContext(1 << 20); return err }, func() driver.Result {
				at := n.at
				at.Pop = true
				c, r := n.CtxCreateV2(at, 1<<20, 0)
				if r == ok {
					n.must(n.CtxDestroy(n.at, c))
				}
				return r
			}},
			{"Capture, of the legacy default stream", nil, func() error {
				_, err := graph.Capture(null, graph.CaptureRelaxed, func() error { return nil })
				return err
			}, func() driver.Result { return n.StreamBeginCapture(n.at, legacy, relaxed) }},
			{"Capture, unknown mode", nil, func() error { _, err := graph.Capture(s, 3, func() error { return nil }); return err },
				func() driver.Result { return n.StreamBeginCapture(n.at, rawStream, 3) }},
			// A nil pointer is NULL. A nil stream is an exception, because NULL is a default
			// stream.
			{"Record, nil event", cu.ErrNil, func() error { var none *cu.Event; return none.Record(s) }, raw("cuEventRecord", args{Stream: rawStream})},
			{"Query, nil event", cu.ErrNil, func() error { var none *cu.Event; _, err := none.Query(); return err }, raw("cuEventQuery", args{})},
			{"Synchronize, nil event", cu.ErrNil, func() error { var none *cu.Event; return none.Synchronize() }, raw("cuEventSynchronize", args{})},
			{"Close, nil event", cu.ErrNil, func() error { var none *cu.Event; return none.Close() }, raw("cuEventDestroy", args{})},
			{"Since, nil event", cu.ErrNil, func() error { _, _, err := e.Since(nil); return err }, raw("cuEventElapsedTime_v2", args{End: n.raw(e)})},
			{"WaitEvent, nil event", cu.ErrNil, func() error { return s.WaitEvent(nil) }, raw("cuStreamWaitEvent", args{Stream: rawStream})},
		}
		if get(n.drv.Features())(n).ContextEvents {
			list = append(list,
				refusal{"RecordEvent, another context", cu.ErrContextMismatch, func() error { return beside.RecordEvent(e) },
					raw("cuCtxRecordEvent", args{Context: driver.Context(beside.Handle()), Event: n.raw(e)})},
				refusal{"RecordEvent, nil event", cu.ErrNil, func() error { return n.gpu.RecordEvent(nil) }, raw("cuCtxRecordEvent", args{Context: n.ctx})},
				refusal{"WaitEvent, nil event, a context", cu.ErrNil, func() error { return n.gpu.WaitEvent(nil) }, raw("cuCtxWaitEvent", args{Context: n.ctx})})
		}
		if n.devices > 1 {
			far := get(n.device(1).PrimaryContext())(n)
			n.closes(far)
			its := n.streamOf(far)
			other := get(its.RecordNew(cu.EventDefault))(n)
			n.closes(other)
			n.ok(other.Wait(n.patient()))
			list = append(list,
				refusal{"Record, another device", cu.ErrDeviceMismatch, func() error { return e.Record(its) },
					raw("cuEventRecord", args{Event: n.raw(e), Stream: n.rawStream(its)})},
				refusal{"Since, another device", cu.ErrDeviceMismatch, since(other, e), rawSince(other, e)})
		}
		for _, c := range list {
			if n.sim != nil { // a call of the driver would return this error
				n.sim.Inject(cusim.Fault{Every: true, Code: int(cu.ResultUnknown)})
			}
			err := c.cu()
			if n.sim != nil {
				n.sim.ClearFaults()
			}
			if err == nil || errors.Is(err, cu.ResultUnknown) {
				n.t.Errorf("%s: package cu does not refuse it by itself: %v", c.name, err)
				continue
			}
			if c.is != nil {
				n.is(c.name, err, c.is)
			}
			r := c.raw()
			if r == ok {
				n.t.Errorf("%s: the driver takes it, and package cu says: %v", c.name, err)
			}
			n.answers(c.name, r, err)
		}
		n.status("after all that", e, cu.Complete)
	})
}
