package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
	"github.com/purecu/purecu/driver"
)

// This file tests creation, checks and failures: rows E12 to E15.

// fault makes the next call of a function fail.
func fault(function string, code driver.Result) cusim.Fault {
	return cusim.Fault{Function: function, Code: int(code)}
}

// TestE12Identities creates and destroys streams, contexts, captures and events. The driver has no
// function that returns an event's number, so the test uses the properties that the driver returns.
// The software driver must also know which objects were destroyed, which exist, and who owns them.
func TestE12Identities(t *testing.T) {
	onEach(t, func(l *lab) {
		var streams []uint64
		for i := range 200 {
			s, r := l.StreamCreate(l.at, nonBlocking)
			l.must(r)
			id, r := l.StreamGetId(l.at, s)
			l.must(r)
			if again, r := l.StreamGetId(l.at, s); r != ok || again != id {
				l.t.Errorf("a stream's number was %d, and is %d, %v", id, again, r)
			}
			if slices.Contains(streams, id) {
				l.t.Errorf("stream %d has the number %d, which another one had", i, id)
			}
			streams = append(streams, id)
			l.must(l.StreamDestroy(l.at, s))
		}
		var contexts []uint64
		for range 3 {
			at := l.at
			at.Pop = true
			c, r := l.CtxCreate(at, nil, 0, 0)
			if l.Missing(r) != nil {
				c, r = l.CtxCreateV2(at, 0, 0)
			}
			l.must(r)
			id, r := l.CtxGetId(l.at, c)
			l.must(r)
			contexts = append(contexts, id)
			l.must(l.CtxDestroy(l.at, c))
		}
		if n := len(slices.Compact(slices.Sorted(slices.Values(contexts)))); n != len(contexts) {
			l.t.Errorf("contexts have the numbers %v", contexts)
		}
		switch growing := slices.IsSorted(streams) && slices.IsSorted(contexts); {
		case growing:
		case l.sim != nil:
			l.t.Errorf("the numbers do not grow: streams %v, contexts %v", streams, contexts)
		default:
			l.t.Logf("the numbers do not grow: streams %v, contexts %v", streams, contexts)
		}

		// Existing events have different handles.
		alive := make(map[driver.Event]bool)
		for range 100 {
			e, r := l.EventCreate(l.at, untimed)
			l.must(r)
			if e == 0 || alive[e] {
				l.t.Errorf("an event has the handle %#x, alive are %d others", e, len(alive))
			}
			alive[e] = true
		}
		l.census("a hundred events", map[string]int{"event": 100})
		var gone driver.Event
		for e := range alive {
			l.must(l.EventDestroy(l.at, e))
			gone = e
		}
		l.census("none", nil)
		if l.sim == nil {
			return
		}

		// A driver in C crashes here.
		for range 50 {
			l.event(untimed)
		}
		l.want("an event that was destroyed", driver.ResultContextIsDestroyed, l.EventQuery(l.at, gone))
		l.misused++
		if m := l.sim.Misuses(); len(m) != 1 || m[0].Op != "cuEventQuery" || m[0].Handle != uintptr(gone) || m[0].Destroyed == "" {
			l.t.Errorf("what is known of it is %v", m)
		}
	})
}

// TestE13FailedCreation makes creations fail. Nothing is left of a failed creation, and the next
// one succeeds.
func TestE13FailedCreation(t *testing.T) {
	onEach(t, func(l *lab) {
		nowhere := l.thread()
		refused := func(what string, want driver.Result, create func() (driver.Event, driver.Result)) {
			l.t.Helper()
			e, r := create()
			l.want(what, want, r)
			if e != 0 {
				l.t.Errorf("%s: it failed, and gave %#x", what, e)
			}
			l.census(what, nil)
		}
		for _, flags := range []uint32{4, 5, 8, 1 << 31} {
			refused("flags", driver.ResultInvalidValue, func() (driver.Event, driver.Result) { return l.EventCreate(l.at, flags) })
		}
		refused("no context", driver.ResultInvalidContext, func() (e driver.Event, r driver.Result) {
			r = nowhere.do(func(at driver.At) (r driver.Result) { e, r = l.EventCreate(at, timed); return r })
			return e, r
		})
		var garbage driver.IPCEventHandle
		for i := range garbage {
			garbage[i] = 0xa5
		}
		refused("a handle that is none", driver.ResultMapFailed, func() (driver.Event, driver.Result) {
			return l.IpcOpenEventHandle(l.at, garbage)
		})
		if l.sim != nil {
			for _, name := range []string{"cuEventCreate", "cuIpcOpenEventHandle"} {
				l.sim.Inject(fault(name, driver.ResultOutOfMemory))
				refused("no memory: "+name, driver.ResultOutOfMemory, func() (driver.Event, driver.Result) {
					a := l.call(name, args{Handle: garbage})
					return a.Event, a.Result
				})
			}
		}
		e := l.event(timed)
		l.want("an event after all that", ok, l.EventQuery(l.at, e))
	})

	// In package cu, every function on the way to the creation fails once. The restore of the
	// thread's context fails only after a sticky error.
	for _, c := range []struct {
		name      string
		functions []string
		create    func(gpu *cu.Context, s *cu.Stream) (io.Closer, error)
	}{
		{"event", []string{"cuCtxPushCurrent", "cuEventCreate"}, func(gpu *cu.Context, _ *cu.Stream) (io.Closer, error) {
			return gpu.NewEvent(cu.EventDefault)
		}},
		{"stream", []string{"cuCtxPushCurrent", "cuStreamCreate"}, func(gpu *cu.Context, _ *cu.Stream) (io.Closer, error) {
			return gpu.NewStream(cu.StreamNonBlocking)
		}},
		{"event created by its first record", []string{"cuCtxPushCurrent", "cuEventCreate", "cuEventRecord"}, func(_ *cu.Context, s *cu.Stream) (io.Closer, error) {
			e := new(cu.Event)
			err := e.Record(s)
			if err != nil && !e.Created() {
				// The event is unchanged, and its next record creates it.
				if err := e.Record(s); err != nil {
					return nil, err
				}
			}
			// If only the record failed, the event was created.
			return e, err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim, gpu := openCu(t)
			defer gpu.Close()
			s, err := gpu.NewStream(cu.StreamNonBlocking)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, name := range c.functions {
				before := sim.Census() // with a stream, the library creates a wake-up stream
				sim.Inject(fault(name, driver.ResultOutOfMemory))
				made, err := c.create(gpu, s)
				if !errors.Is(err, cu.ResultOutOfMemory) {
					t.Errorf("%s failed: %v", name, err)
				}
				if c.name == "event created by its first record" {
					if err := made.Close(); err != nil {
						t.Error(err)
					}
				}
				if got := sim.Census(); !maps.Equal(got, before) {
					t.Errorf("%s failed: alive are %v, and were %v", name, got, before)
				}
				if made, err = c.create(gpu, s); err != nil {
					t.Fatalf("after %s failed: %v", name, err)
				}
				if err := made.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// openCu returns the software driver, and the primary context of its first device. No object may be
// left at the end.
func openCu(t *testing.T) (*cusim.Driver, *cu.Context) {
	t.Helper()
	drv, sim := cutest.Soft(t)
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		t.Fatal(err)
	}
	return sim, gpu
}

// TestE14Checks calls every function of the unit with arguments that must fail before anything
// else: NULL, before cuInit, destroyed objects, objects of a destroyed context, and any object
// after a sticky error.
func TestE14Checks(t *testing.T) {
	// These are the arguments with which a driver in C does not crash, as seen on an H200.
	null := []string{"cuEventQuery", "cuEventSynchronize", "cuEventDestroy", "cuEventRecord", "cuEventElapsedTime", "cuEventElapsedTime_v2", "cuStreamWaitEvent"}

	onEach(t, func(l *lab) {
		s, e := l.stream(nonBlocking), l.event(timed)
		l.record(e, s)
		l.complete("a record", e)
		for _, f := range unit() {
			if takesEvent(f) && (l.sim != nil || slices.Contains(null, f.name)) {
				want := driver.ResultInvalidHandle
				if f.name == "cuIpcGetEventHandle" { // as an H200 answered
					want = driver.ResultInvalidValue
				}
				l.want(f.name+" of NULL", want, l.call(f.name, args{End: e, Stream: s, Context: l.ctx}).Result)
			}
		}
		if l.sim != nil {
			l.want("cuEventElapsedTime to NULL", driver.ResultInvalidHandle, l.call("cuEventElapsedTime", args{Event: e}).Result)
		}
		p := l.peer(serveBare)
		p.want("before cuInit, NULL", "cuEventQuery", args{}, driver.ResultInvalidHandle)
		p.want("before cuInit", "cuEventCreate", args{}, driver.ResultNotInitialized)

		// A context that another thread has destroyed is still current. It is not known whether
		// NVIDIA's driver survives that, so another process makes the call.
		other := l.peer(serve)
		for _, name := range []string{"cuEventCreate", "cuEventRecord", "cuStreamQuery", "cuCtxSynchronize"} {
			other.want("the legacy default stream", inDestroyed+name, args{}, driver.ResultContextIsDestroyed)
		}

		// The error cannot be cleared.
		sick := l.peer(serve)
		there := sick.want("a stream", "cuStreamCreate", args{Flags: nonBlocking}, ok).Stream
		ctx := sick.want("its context", "cuCtxGetCurrent", args{}, ok).Context
		first := sick.want("an event", "cuEventCreate", args{}, ok).Event
		second := sick.want("an event", "cuEventCreate", args{}, ok).Event
		for _, e := range []driver.Event{first, second} {
			sick.want("a record", "cuEventRecord", args{Event: e, Stream: there}, ok)
			sick.complete("a record", e)
		}
		sick.want("the stream of", "a kernel that writes to an illegal address", args{Stream: there}, driver.ResultIllegalAddress)
		list := unit()
		slices.SortStableFunc(list, func(a, b function) int { // destructions come last
			return destroys(a) - destroys(b)
		})
		for _, f := range list {
			r := sick.call(f.name, args{Event: first, End: second, Stream: there, Context: ctx}).Result
			if what := "after a fault: " + f.name; f.name == "cuIpcOpenEventHandle" {
				l.seen(what, driver.ResultIllegalAddress, r)
			} else {
				l.want(what, driver.ResultIllegalAddress, r)
			}
		}
		sick.want("after a fault", "cuStreamDestroy", args{Stream: there}, driver.ResultIllegalAddress)
	})

	// A driver in C crashes in these calls.
	onSoftware(t, func(l *lab) {
		s, mark := l.stream(nonBlocking), l.event(timed)
		l.record(mark, s)
		misused := func(what string, want driver.Result, call func() driver.Result) {
			l.t.Helper()
			l.want(what, want, call())
			l.misused++
			if n := l.misuses(); n != l.misused {
				l.t.Errorf("%s: %d misuses were noticed, and not %d", what, n, l.misused)
				l.misused = n
			}
		}
		gone := l.event(timed)
		l.destroy(gone)
		left := l.destroyedContext()
		goneStream, r := l.StreamCreate(l.at, nonBlocking)
		l.must(r)
		l.must(l.StreamDestroy(l.at, goneStream))
		for _, f := range unit() {
			if takesEvent(f) {
				a := args{Event: gone, End: mark, Stream: s, Context: l.ctx}
				want := driver.ResultContextIsDestroyed
				if f.name == "cuIpcGetEventHandle" { // it looks at the event's flags first
					want = driver.ResultInvalidHandle
				}
				misused(f.name+" of a destroyed event", want, func() driver.Result { return l.call(f.name, a).Result })
			}
			if takesStream(f) {
				a := args{Event: mark, Stream: goneStream}
				misused(f.name+" on a destroyed stream", driver.ResultContextIsDestroyed, func() driver.Result { return l.call(f.name, a).Result })
			}
			if takesEvent(f) && f.name != "cuEventDestroy" {
				a := args{Event: left.e, End: left.e, Stream: s, Context: l.ctx}
				misused(f.name+" of an event of a destroyed context", driver.ResultContextIsDestroyed, func() driver.Result { return l.call(f.name, a).Result })
			}
			if takesStream(f) {
				a := args{Event: mark, Stream: left.s}
				misused(f.name+" on a stream of a destroyed context", driver.ResultContextIsDestroyed, func() driver.Result { return l.call(f.name, a).Result })
			}
		}
		misused("cuStreamDestroy in a destroyed context", driver.ResultContextIsDestroyed, func() driver.Result { return l.StreamDestroy(l.at, left.s) })
		misused("cuEventDestroy in a destroyed context", driver.ResultContextIsDestroyed, func() driver.Result { return l.EventDestroy(l.at, left.e) })
		for _, f := range unit() {
			if takesContext(f) {
				a := args{Event: mark, Context: left.c}
				misused(f.name+" of a destroyed context", driver.ResultContextIsDestroyed, func() driver.Result { return l.call(f.name, a).Result })
			}
		}
		l.complete("an event that was not misused", mark)
	})
}

// takesEvent, takesStream and takesContext report which arguments a function has.
func takesEvent(f function) bool {
	return f.name != "cuEventCreate" && f.name != "cuIpcOpenEventHandle"
}

func takesStream(f function) bool {
	return slices.Contains([]string{"cuEventRecord", "cuEventRecordWithFlags", "cuStreamWaitEvent"}, f.name)
}

func takesContext(f function) bool {
	return slices.Contains([]string{"cuCtxRecordEvent", "cuCtxWaitEvent"}, f.name)
}

// destroys returns 1 if the function destroys its argument.
func destroys(f function) int {
	if f.name == "cuEventDestroy" {
		return 1
	}
	return 0
}

// inDestroyed is a prefix of the names of functions that are called in a destroyed context.
const inDestroyed = "in a destroyed context: "

// inDestroyedContext makes a call on a thread whose current context is destroyed.
func (l *lab) inDestroyedContext(call func(at driver.At, e driver.Event) driver.Result) answer {
	e, th, in := l.event(timed), l.thread(), l.context(0)
	l.must(th.do(func(at driver.At) driver.Result { return l.CtxSetCurrent(at, in.Context) }))
	l.gone[uintptr(in.Context)] = true
	l.must(l.CtxDestroy(l.at, in.Context))
	r := th.do(func(at driver.At) driver.Result { return call(at, e) })
	l.must(th.do(func(at driver.At) driver.Result { return l.CtxSetCurrent(at, l.ctx) }))
	l.must(th.do(func(at driver.At) driver.Result { return l.CtxSynchronize(at) }))
	return answer{Result: r}
}

// remains has what is left of a destroyed context.
type remains struct {
	c driver.Context
	s driver.Stream
	e driver.Event
}

// destroyedContext destroys a context, and returns what is left of it.
func (l *lab) destroyedContext() (d remains) {
	l.t.Helper()
	in := l.context(0)
	var r driver.Result
	d.c = in.Context
	d.s, r = l.StreamCreate(in, nonBlocking)
	l.must(r)
	d.e, r = l.EventCreate(in, timed)
	l.must(r)
	l.record(d.e, d.s)
	l.gone[uintptr(d.c)] = true
	l.must(l.CtxDestroy(l.at, d.c))
	return d
}

// unitCodes returns the codes that the unit can return for reasons that no test can cause. The
// other rows have the other codes.
func unitCodes() []driver.Result {
	return []driver.Result{
		driver.ResultOutOfMemory, driver.ResultNotInitialized, driver.ResultDeinitialized, driver.ResultMapFailed, driver.ResultUnmapFailed,
		driver.ResultECCUncorrectable, driver.ResultOperatingSystem, driver.ResultIllegalAddress, driver.ResultLaunchOutOfResources,
		driver.ResultLaunchTimeout, driver.ResultLaunchFailed, driver.ResultUnknown,
	}
}

// TestE15Results makes every function of the unit fail with every code, on the software driver
// only.
func TestE15Results(t *testing.T) {
	// The call returns the code and does nothing: afterwards, the same call returns what it
	// returned before.
	onSoftware(t, func(l *lab) {
		s, mark := l.stream(nonBlocking), l.event(timed)
		l.record(mark, s)
		shared := l.event(interprocess)
		h, r := l.IpcGetEventHandle(l.at, shared)
		if r != driver.ResultNotSupported { // some systems cannot share events between processes
			l.must(r)
		}
		for _, f := range unit() {
			for _, code := range unitCodes() {
				what := fmt.Sprintf("%s, told to answer %v", f.name, code)
				before := l.sim.Census()
				var made driver.Event
				ask := func() driver.Result {
					a := args{Event: mark, End: mark, Stream: s, Context: l.ctx, Handle: h}
					switch f.name {
					case "cuEventDestroy":
						if made == 0 {
							made, _ = l.EventCreate(l.at, timed)
						}
						a.Event = made
					case "cuIpcGetEventHandle":
						a.Event = shared
					}
					got := l.call(f.name, a)
					switch {
					case got.Event != 0:
						l.must(l.EventDestroy(l.at, got.Event))
					case f.name == "cuEventDestroy" && got.Result == ok:
						made = 0
					}
					return got.Result
				}
				usual := ask()
				l.sim.Inject(fault(f.name, code))
				l.want(what, code, ask())
				l.want(what+", and then not", usual, ask())
				if after := l.sim.Census(); !maps.Equal(before, after) {
					l.t.Errorf("%s: alive are %v, and were %v", what, after, before)
				}
			}
		}
		l.complete("an event that was asked for all that", mark)
	})

	t.Run("cu", func(t *testing.T) {
		for _, code := range unitCodes() {
			for _, op := range cuOps() {
				t.Run(fmt.Sprintf("%d/%s", code, op.name), func(t *testing.T) { op.fail(t, cu.Result(code)) })
			}
		}
	})
}

// A cuOp is an operation of package cu, and the function that it calls.
type cuOp struct {
	name, function string
	call           func(w *cuWorld) error
}

// cuWorld has the objects of the operations. Its event was recorded, and not queried.
type cuWorld struct {
	gpu   *cu.Context
	s     *cu.Stream
	start *cu.Event
	e     *cu.Event
	more  []*cu.Event
}

func cuOps() []cuOp {
	return []cuOp{
		{"NewEvent", "cuEventCreate", func(w *cuWorld) error {
			e, err := w.gpu.NewEvent(cu.EventDefault)
			if err == nil {
				w.more = append(w.more, e)
			}
			return err
		}},
		{"Record of a zero Event", "cuEventCreate", func(w *cuWorld) error {
			e := new(cu.Event)
			w.more = append(w.more, e)
			return e.Record(w.s)
		}},
		{"Record", "cuEventRecord", func(w *cuWorld) error { return w.e.Record(w.s) }},
		{"RecordWithFlags", "cuEventRecordWithFlags", func(w *cuWorld) error { return w.e.RecordWithFlags(w.s, cu.RecordDefault) }},
		{"Query", "cuEventQuery", func(w *cuWorld) error { _, err := w.e.Query(); return err }},
		{"Wait", "cuEventQuery", func(w *cuWorld) error { return w.e.Wait(context.Background()) }},
		{"Synchronize", "cuEventSynchronize", func(w *cuWorld) error { return w.e.Synchronize() }},
		{"Since", "cuEventElapsedTime", func(w *cuWorld) error { _, _, err := w.e.Since(w.start); return err }},
		{"Elapsed", "cuEventElapsedTime", func(w *cuWorld) error { _, err := cu.Elapsed(context.Background(), w.start, w.e); return err }},
		{"WaitEvent", "cuStreamWaitEvent", func(w *cuWorld) error { return w.s.WaitEvent(w.e) }},
		{"Context.RecordEvent", "cuCtxRecordEvent", func(w *cuWorld) error { return w.gpu.RecordEvent(w.e) }},
		{"Context.WaitEvent", "cuCtxWaitEvent", func(w *cuWorld) error { return w.gpu.WaitEvent(w.e) }},
		{"Close", "cuEventDestroy", func(w *cuWorld) error { return w.e.Close() }},
	}
}

// fail makes the operation fail with a code. The error must name the code, other operations must
// still work, and no object may be left.
func (op cuOp) fail(t *testing.T, code cu.Result) {
	sim, w := newWorld(t)
	sim.Inject(fault(op.function, driver.Result(code)))
	err := op.call(w)
	sim.ClearFaults()
	if code.Sticky() {
		sim.Poison(int(code)) // as after a real error of this code
	}
	var e *cu.Error
	if !errors.Is(err, code) || !errors.As(err, &e) || e.Result != code {
		t.Errorf("the error is %v", err)
	}
	for _, other := range unitCodes() {
		if other := cu.Result(other); other != code && errors.Is(err, other) {
			t.Errorf("the error is %v, too", other)
		}
	}
	switch again := op.call(w); {
	case op.name == "Close":
		// A failed destruction counts as done, so that the object is not destroyed twice. The fault
		// leaves the object in the driver.
		if again != nil {
			t.Errorf("the second time: %v", again)
		}
		if n := sim.Census()["event"]; n != 2 {
			t.Errorf("%d events are alive", n)
		}
		if r := sim.Software().EventDestroy(nil, driver.Event(e.Handle)); r != ok && r != driver.Result(code) {
			t.Errorf("the event %#x: %v", e.Handle, r)
		}
	case code.Sticky():
		if !errors.Is(again, code) || !errors.Is(again, cu.ErrContextPoisoned) {
			t.Errorf("in a context that is poisoned: %v", again)
		}
	case again != nil:
		t.Errorf("the second time: %v", again)
	}
	if err := w.gpu.Err(); cu.NeedsRestart(code) != (err != nil) || err != nil && !errors.Is(err, code) {
		t.Errorf("the context's error is %v", err)
	}
	if err := w.close(); err != nil && !code.Sticky() {
		t.Errorf("closing: %v", err)
	}
}

// newWorld returns a world on a software driver of its own.
func newWorld(t *testing.T) (*cusim.Driver, *cuWorld) {
	t.Helper()
	sim, gpu := openCu(t)
	w := &cuWorld{gpu: gpu}
	var err1, err2, err3 error
	w.s, err1 = gpu.NewStream(cu.StreamNonBlocking)
	w.start, err2 = gpu.NewEvent(cu.EventDefault)
	w.e, err3 = gpu.NewEvent(cu.EventDefault)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.start.Record(w.s), w.e.Record(w.s)); err != nil {
		t.Fatal(err)
	}
	return sim, w
}

func (w *cuWorld) close() error {
	errs := []error{w.start.Close(), w.e.Close()}
	for _, e := range w.more {
		errs = append(errs, e.Close())
	}
	return errors.Join(append(errs, w.s.Close(), w.gpu.Close())...)
}
