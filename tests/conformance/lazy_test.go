package conformance

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/driver"
)

// This file tests lazy events: rows A1 to A8, and A11 to A15.

// TestA01Flags creates lazy events without flags, with one or several flags, and with flags that
// exclude each other.
func TestA01Flags(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		for _, c := range []struct {
			e    *cu.Event
			want cu.EventFlags
		}{
			{new(cu.Event), cu.EventDisableTiming},
			{cu.LazyEvent(), cu.EventDisableTiming},
			{cu.LazyEvent(cu.EventDefault), cu.EventDefault},
			{cu.LazyEvent(cu.EventBlockingSync), cu.EventBlockingSync},
			{cu.LazyEvent(cu.EventBlockingSync, cu.EventDisableTiming), cu.EventBlockingSync | cu.EventDisableTiming},
		} {
			n.closes(c.e)
			before := c.e.Flags()
			n.ok(c.e.Record(s))
			if after := c.e.Flags(); before != c.want || after != c.want {
				n.t.Errorf("flags %v before the first record, and %v after it, want %v", before, after, c.want)
			}
			n.ok(c.e.Synchronize())
			_, _, err := c.e.Since(c.e)
			if timed := c.want&cu.EventDisableTiming == 0; timed != (err == nil) {
				n.t.Errorf("flags %v: Since returns %v", c.want, err)
			}
		}
		wrong := cu.LazyEvent(cu.EventInterprocess)
		n.is("a record with flags that do not go together", wrong.Record(s), cu.ResultInvalidValue)
		n.is("again, once", wrong.RecordOnce(s), cu.ResultInvalidValue)
		if wrong.Created() {
			n.t.Errorf("it was created")
		}
	})
}

// TestA02FirstRecord creates events by their first records, in the contexts of the streams.
func TestA02FirstRecord(t *testing.T) {
	onNouns(t, func(n *nouns) {
		for i := range n.devices {
			gpu := get(n.device(i).PrimaryContext())(n)
			n.closes(gpu)
			s := n.streamOf(gpu)
			n.alive("before", 0)
			var e cu.Event
			n.ok(e.Record(s))
			n.alive("after the first record", 1)
			n.ok(e.Record(s))
			n.alive("after the second", 1)
			if dev, ok := e.Device(); !ok || dev != n.device(i) {
				n.t.Errorf("the event is on %v", dev)
			}
			n.ok(e.Close())
		}
		// A record that fails creates nothing.
		s := get(n.gpu.NewStream(cu.StreamNonBlocking))(n)
		n.ok(s.Close())
		var e cu.Event
		n.is("a record on a closed stream", e.Record(s), cu.ErrClosed)
		if e.Created() {
			n.t.Errorf("it created the event")
		}
		n.alive("afterwards", 0)
	})
}

// TestA03Records records on a stream and on the current stream, and with RecordOnce.
func TestA03Records(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s, other := n.newStream(), n.newStream()
		ctx := cu.WithStream(n.patient(), s)
		if got, err := cu.CurrentStream(ctx); got != s || err != nil {
			n.t.Errorf("the current stream is %v, %v", got, err)
		}
		inner := cu.WithStream(ctx, other)
		if got, err := cu.CurrentStream(inner); got != other || err != nil {
			n.t.Errorf("the inner current stream is %v, %v", got, err)
		}
		var e cu.Event
		n.closes(&e)
		n.is("no current stream", e.RecordCurrent(n.patient()), cu.ErrNoCurrentStream)
		n.is("no current stream any more", e.RecordCurrent(cu.WithStream(ctx, nil)), cu.ErrNoCurrentStream)
		_, err := cu.CurrentStream(n.patient())
		n.is("no current stream", err, cu.ErrNoCurrentStream, cu.ResultInvalidHandle)
		if e.Created() {
			n.t.Errorf("a refused record created the event")
		}

		g := n.holds(other)
		n.ok(e.RecordCurrent(ctx))
		n.ok(e.Wait(n.patient()))
		n.ok(e.RecordCurrent(inner))
		n.settle()
		n.status("a record on the inner current stream, which is held", &e, cu.Pending)
		n.ok(e.RecordOnce(s))
		n.settle()
		n.status("recorded once, but it was recorded before", &e, cu.Pending)
		n.ok(e.Record(s))
		n.ok(e.Wait(n.patient()))

		// Of several concurrent calls of RecordOnce, one records. With two records the event would
		// be complete, because the last one is on an idle stream.
		for range 20 {
			var once cu.Event
			n.ok(once.RecordOnce(other))
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					if err := once.RecordOnce(s); err != nil {
						n.t.Errorf("RecordOnce: %v", err)
					}
				})
			}
			wg.Wait()
			n.ok(s.Synchronize())
			n.status("recorded once", &once, cu.Pending)
			n.ok(once.Close())
			n.is("recorded once, but closed", once.RecordOnce(s), cu.ErrClosed)
		}
		g.open()
		n.ok(other.Synchronize())
	})
}

// TestA04Mismatch records events on streams of another device and of another context of the same
// device. The errors name both.
func TestA04Mismatch(t *testing.T) {
	onNouns(t, func(n *nouns) {
		type stranger struct {
			gpu  *cu.Context
			want error
			both []string
		}
		s := n.newStream()
		beside := get(n.device(0).NewContext(cu.ContextDefault))(n)
		n.closes(beside)
		strangers := []stranger{{beside, cu.ErrContextMismatch, []string{fmt.Sprintf("%#x", n.gpu.Handle()), fmt.Sprintf("%#x", beside.Handle())}}}
		if n.devices > 1 {
			far := get(n.device(1).PrimaryContext())(n)
			n.closes(far)
			strangers = append(strangers, stranger{far, cu.ErrDeviceMismatch, []string{"device 0", "device 1"}})
		}
		for _, c := range strangers {
			other := n.streamOf(c.gpu)
			for name, record := range map[string]func(e *cu.Event) error{
				"Record":        func(e *cu.Event) error { return e.Record(other) },
				"RecordCurrent": func(e *cu.Event) error { return e.RecordCurrent(cu.WithStream(n.patient(), other)) },
			} {
				var e cu.Event
				n.ok(e.Record(s))
				err := record(&e)
				n.is(name, err, c.want, cu.ResultInvalidHandle)
				for _, side := range c.both {
					if !strings.Contains(err.Error(), side) {
						n.t.Errorf("%s: %q does not name %s", name, err, side)
					}
				}
				n.ok(e.Wait(n.patient())) // its previous record remains
				n.ok(e.Close())
			}
			// This event is created, but not recorded.
			e := get(n.gpu.NewEvent(cu.EventDefault))(n)
			n.is("RecordOnce", e.RecordOnce(other), c.want)
			n.ok(e.RecordOnce(s))
			n.ok(e.RecordOnce(other)) // does nothing
			n.ok(e.Close())
		}
	})
}

// TestA05Query queries an event before its creation, while its record is pending, and after that.
// No error remains, in package cu or in the driver.
func TestA05Query(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s, free := n.newStream(), n.newStream()
		var e cu.Event
		n.closes(&e)
		n.status("not created", &e, cu.Complete)
		g := n.holds(s)
		n.ok(e.Record(s))
		n.settle()
		for range 3 {
			n.status("held", &e, cu.Pending)
			n.ok(n.gpu.Err())
			if st, err := free.Query(); st != cu.Complete || err != nil {
				n.t.Errorf("a stream beside it: %v, %v", st, err)
			}
		}
		g.open()
		n.ok(e.Wait(n.patient()))
		n.status("opened", &e, cu.Complete)
		n.ok(e.Close())
		_, err := e.Query()
		n.is("closed", err, cu.ErrClosed)
	})
}

// TestA06Block makes streams wait for events. A wait for an event that was not created does
// nothing. For an event of another device, the call is made in the stream's context.
func TestA06Block(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		var e cu.Event
		n.closes(&e)
		for i := range n.devices {
			gpu := get(n.device(i).PrimaryContext())(n)
			n.closes(gpu)
			waiter := n.streamOf(gpu)
			var none cu.Event
			n.ok(none.Block(waiter))
			n.ok(waiter.Synchronize())
			if none.Created() {
				n.t.Errorf("a wait created the event")
			}
			g := n.holds(s)
			n.ok(e.Record(s))
			n.ok(e.Block(waiter))
			after := get(waiter.RecordNew(cu.EventDisableTiming))(n)
			n.settle()
			n.status("behind the wait", after, cu.Pending)
			if dev, _ := after.Device(); dev != waiter.Device() {
				n.t.Errorf("what came behind the wait is on %v", dev)
			}
			g.open()
			n.ok(after.Wait(n.patient()))
			n.status("the event that was waited for", &e, cu.Complete)
			n.ok(after.Close())
		}
		n.is("no stream", e.Block(nil), cu.ErrNil)
	})
}

// TestA07Elapsed reads times between events. They are signed, and only recorded timed events have
// them.
func TestA07Elapsed(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		start, stop, none := cu.LazyEvent(cu.EventDefault), cu.LazyEvent(cu.EventDefault), cu.LazyEvent(cu.EventDefault)
		n.closes(start)
		n.closes(stop)
		n.ok(start.Record(s))
		g := n.holds(s)
		n.ok(stop.Record(s))
		n.settle()
		if _, st, err := stop.Since(start); st != cu.Pending || err != nil {
			n.t.Errorf("before the end: %v, %v", st, err)
		}
		g.open()
		d := get(cu.Elapsed(n.patient(), start, stop))(n)
		back, st, err := start.Since(stop)
		if d <= 0 || back != -d || st != cu.Complete || err != nil {
			n.t.Errorf("%v there, %v back, %v, %v", d, back, st, err)
		}
		_, _, err = none.Since(start)
		n.is("not created", err, cu.ErrNotRecorded, cu.ResultInvalidHandle)
		_, err = cu.Elapsed(n.patient(), start, none)
		n.is("not created", err, cu.ErrNotRecorded)
		created := get(n.gpu.NewEvent(cu.EventDefault))(n)
		n.closes(created)
		_, _, err = created.Since(start)
		n.is("not recorded", err, cu.ErrNotRecorded)
		var untimed cu.Event
		n.closes(&untimed)
		n.ok(untimed.Record(s))
		_, _, err = untimed.Since(start)
		n.is("not timed", err, cu.ErrNotTimed)
	})
}

// TestA08Synchronize waits for events, including an event that was not created.
func TestA08Synchronize(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		var e cu.Event
		n.closes(&e)
		n.ok(e.Synchronize())
		n.ok(e.Wait(n.patient()))
		if e.Created() {
			n.t.Errorf("a wait created the event")
		}
		g := n.holds(s)
		n.ok(e.Record(s))
		waits := []*waiter{
			n.beginErr(func() error { return e.Synchronize() }),
			n.beginErr(func() error { return e.Wait(n.patient()) }),
		}
		n.settle()
		n.status("held", &e, cu.Pending)
		for _, w := range waits {
			select {
			case r := <-w.done:
				n.t.Errorf("a wait for a held stream has returned %v", r)
			default:
			}
		}
		g.open()
		for _, w := range waits {
			w.returns("a wait", ok)
		}
	})
}

// TestA11Move moves events. The handle, the flags, the record, the device and current waits move
// along.
func TestA11Move(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		type state struct {
			key     cu.EventKey
			flags   cu.EventFlags
			device  int
			created bool
		}
		look := func(e *cu.Event) state { return state{e.Key(), e.Flags(), e.DeviceIndex(), e.Created()} }
		zero := look(new(cu.Event))

		a := cu.LazyEvent(cu.EventBlockingSync)
		was := look(a)
		b := a.Move() // before its creation the flags move along
		if look(a) != zero || look(b) != was {
			n.t.Errorf("moved before its creation: %+v, %+v", look(a), look(b))
		}
		g := n.holds(s)
		n.ok(b.Record(s))
		was = look(b)
		wait := n.beginErr(func() error { return b.Wait(n.patient()) })
		ticket := get(b.Ticket())(n)
		c := b.Move()
		if look(b) != zero || look(c) != was || !was.created || was.flags != cu.EventBlockingSync || was.device != 0 {
			n.t.Errorf("moved: %+v, %+v, was %+v", look(b), look(c), was)
		}
		n.settle()
		n.status("what it was moved from", b, cu.Complete)
		n.status("moved", c, cu.Pending)
		free := n.newStream()
		n.ok(c.RecordOnce(free)) // the state has moved along
		n.ok(free.Synchronize())
		n.status("recorded once", c, cu.Pending)

		d := cu.LazyEvent(cu.EventDisableTiming, cu.EventBlockingSync)
		n.ok(d.Record(free))
		its := look(d)
		n.ok(c.MoveTo(d)) // exchanges the two events
		if look(d) != was || look(c) != its {
			n.t.Errorf("moved to another one: %+v, %+v, were %+v, %+v", look(c), look(d), was, its)
		}
		n.ok(d.MoveTo(d))
		n.status("moved to another one", d, cu.Pending)
		n.ok(c.Wait(n.patient()))
		n.ok(b.Close()) // the zero Event: does nothing
		n.ok(c.Close())
		g.open()
		wait.returns("a wait from before the moves", ok)
		n.ok(ticket.Wait(n.patient()))
		n.ok(d.Wait(n.patient()))
		n.ok(d.Close())
		n.is("moved to nil", d.MoveTo(nil), cu.ErrNil)
		n.alive("at the end", 0)

		// All events that are exchanged while they are recorded are closed in the end.
		var events [3]cu.Event
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				for j := range 50 {
					x, y := &events[(i+j)%3], &events[(i+2*j+1)%3]
					if j%4 == 0 {
						if err := x.Record(free); err != nil {
							n.t.Errorf("Record: %v", err)
						}
					} else if err := x.MoveTo(y); err != nil {
						n.t.Errorf("MoveTo: %v", err)
					}
				}
			})
		}
		wg.Wait()
		for i := range events {
			n.ok(events[i].Close())
		}
	})
}

// TestA11Vet checks that go vet reports copies of events, and of other objects.
func TestA11Vet(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skipf("there is no Go here: %v", err)
	}
	out, err := exec.Command(goTool, "vet", "-copylocks", "./testdata/copies").CombinedOutput()
	if err == nil {
		t.Fatal("go vet finds nothing")
	}
	for _, what := range []string{"Event", "Stream", "Context", "Ticket", "EventPool", "Driver"} {
		if !strings.Contains(string(out), "github.com/purecu/purecu/cu."+what) {
			t.Errorf("go vet does not find the copy of %s:\n%s", what, out)
		}
	}
}

// TestA12Keys compares the keys of events, and uses them in maps.
func TestA12Keys(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		var e, none cu.Event
		if e.Key() != none.Key() || e.Key() != (cu.EventKey{}) || e.Compare(&none) != 0 {
			n.t.Errorf("events that were not created differ")
		}
		names := make(map[cu.EventKey]int)
		var events []*cu.Event
		for i := range 20 {
			x := get(s.RecordNew(cu.EventDisableTiming))(n)
			names[x.Key()] = i
			events = append(events, x)
		}
		if len(names) != len(events) {
			n.t.Fatalf("%d events have %d keys", len(events), len(names))
		}
		for i, x := range events {
			if names[x.Key()] != i || x.Compare(x) != 0 || x.Compare(&none) != 1 || none.Compare(x) != -1 {
				n.t.Errorf("event %d is not found, or not equal to itself", i)
			}
		}
		mixed := slices.Clone(events)
		slices.Reverse(mixed)
		slices.SortFunc(mixed, (*cu.Event).Compare)
		if !slices.Equal(mixed, events) {
			n.t.Errorf("events do not sort in the order of their creation")
		}
		// A key stays the same when the event gets another CUevent.
		g := n.holds(s)
		key := events[0].Key()
		n.ok(events[0].Record(s))
		wait := n.beginErr(func() error { return events[0].Wait(n.patient()) })
		n.settle()
		n.ok(events[0].Record(s))
		g.open()
		wait.returns("the wait", ok)
		first := events[0]
		if events[0] = first.Move(); events[0].Key() != key || first.Key() != none.Key() {
			n.t.Errorf("the key has changed")
		}
		// No other event has the key of a closed one.
		for _, x := range events {
			n.ok(x.Close())
		}
		n.ok(s.Synchronize())
		again := get(s.RecordNew(cu.EventDisableTiming))(n)
		if _, found := names[again.Key()]; found {
			n.t.Errorf("the key of an event that is gone came back")
		}
		n.ok(again.Close())
	})
}

// TestA13Close closes events of one device. No context is created on another device. Close returns
// errors, and never panics.
func TestA13Close(t *testing.T) {
	onNouns(t, func(n *nouns) {
		active := func(device int) bool {
			dev, r := n.DeviceGet(n.at, int32(device))
			n.must(r)
			_, on, r := n.DevicePrimaryCtxGetState(n.at, dev)
			n.must(r)
			return on != 0
		}
		if n.devices < 2 {
			n.t.Logf("there is one device, and the test needs another")
			return
		}
		far := get(n.device(1).PrimaryContext())(n)
		s := n.streamOf(far)
		var e cu.Event
		n.ok(e.Record(s))
		before := active(0)
		n.ok(s.Close())
		n.ok(far.Close())
		n.ok(e.Close())
		n.ok(e.Close())
		n.ok((&cu.Event{}).Close())
		if active(0) != before {
			n.t.Errorf("closing an event of device 1 changed device 0")
		}
		n.is("nil", (*cu.Event)(nil).Close(), cu.ErrNil)
		n.ok(n.drv.Close()) // the event's Close did not wait for the GPU
		if n.sim != nil {
			n.until("device 1 has no context any more", func() bool { return !active(1) })

			var e cu.Event
			s := n.newStream()
			n.ok(e.Record(s))
			raw := driver.Event(e.Handle())
			n.sim.Inject(fault("cuEventDestroy", driver.ResultUnknown))
			n.is("a destruction that fails", e.Close(), cu.ResultUnknown)
			n.ok(e.Close())
			n.must(n.EventDestroy(n.at, raw)) // the event that the fault left
		}
	})
}

// TestA14Facts reads properties of events before and after their creation.
func TestA14Facts(t *testing.T) {
	onNouns(t, func(n *nouns) {
		for _, e := range []*cu.Event{nil, new(cu.Event), cu.LazyEvent(cu.EventDefault)} {
			dev, ok := e.Device()
			if dev != nil || ok || e.DeviceIndex() != -1 || e.Created() || e.Handle() != 0 {
				n.t.Errorf("not created: device %v, %v, %d, created %v, handle %#x", dev, ok, e.DeviceIndex(), e.Created(), e.Handle())
			}
		}
		for i := range n.devices {
			gpu := get(n.device(i).PrimaryContext())(n)
			n.closes(gpu)
			var e cu.Event
			n.ok(e.Record(n.streamOf(gpu)))
			dev, ok := e.Device()
			if dev != n.device(i) || !ok || e.DeviceIndex() != i || !e.Created() || e.Handle() == 0 {
				n.t.Errorf("created: device %v, %v, %d, created %v, handle %#x", dev, ok, e.DeviceIndex(), e.Created(), e.Handle())
			}
			n.ok(e.Close())
			if e.Handle() != 0 || e.DeviceIndex() != i {
				n.t.Errorf("closed: device %d, handle %#x", e.DeviceIndex(), e.Handle())
			}
		}
	})
}

// traced collects the traces that tracers get.
type traced struct {
	mu  sync.Mutex
	all []trace.Operation
}

func (tr *traced) add(t trace.Operation) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.all = append(tr.all, t)
}

func (tr *traced) take() []trace.Operation {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	defer func() { tr.all = nil }()
	return tr.all
}

// TestA15Tracers adds two tracers. They get successful creations, records and waits, and get
// synchronizations and destructions before these are made.
func TestA15Tracers(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s, other := n.newStream(), n.newStream()
		h, oh := s.Handle(), other.Handle()
		var first, second traced
		remove := trace.Add(n.drv, first.add)
		removeSecond := trace.Add(n.drv, second.add)
		defer removeSecond()
		told := func(what string, want ...trace.Operation) {
			n.t.Helper()
			for _, tr := range []*traced{&first, &second} {
				if got := tr.take(); !slices.Equal(got, want) {
					n.t.Errorf("%s: told %v, want %v", what, got, want)
				}
			}
		}
		var e cu.Event
		n.ok(e.Block(s))
		n.ok(e.Synchronize())
		told("nothing that reaches the driver")
		n.ok(e.Record(s))
		raw := e.Handle()
		told("a first record", trace.Operation{Op: trace.EventCreate, Event: raw}, trace.Operation{Op: trace.EventRecord, Event: raw, Stream: h})
		n.ok(e.Record(s))
		told("a record", trace.Operation{Op: trace.EventRecord, Event: raw, Stream: h})
		n.ok(e.Block(other))
		told("a wait", trace.Operation{Op: trace.StreamWait, Event: raw, Stream: oh})
		n.ok(s.Synchronize())
		told("a synchronization", trace.Operation{Op: trace.StreamSynchronize, Stream: h})
		n.status("done", &e, cu.Complete)
		told("a query", trace.Operation{Op: trace.EventQuery, Event: raw})

		// The trace of a synchronization comes before its wait.
		g := n.holds(s)
		n.ok(e.Record(s))
		told("a record", trace.Operation{Op: trace.EventRecord, Event: raw, Stream: h})
		wait := n.beginErr(e.Synchronize)
		n.until("the synchronization is told about", func() bool {
			second.mu.Lock()
			defer second.mu.Unlock()
			return len(second.all) > 0
		})
		n.status("which has not returned", &e, cu.Pending)
		g.open()
		wait.returns("the synchronization", ok)
		told("a synchronization", trace.Operation{Op: trace.EventSynchronize, Event: raw}, trace.Operation{Op: trace.EventQuery, Event: raw})

		// The trace of a destruction comes even if the destruction fails. Other calls have a trace
		// only if they succeed.
		if n.sim != nil {
			n.sim.Inject(fault("cuEventRecord", driver.ResultUnknown))
			n.sim.Inject(fault("cuStreamWaitEvent", driver.ResultUnknown))
			n.sim.Inject(fault("cuEventCreate", driver.ResultOutOfMemory))
			n.sim.Inject(fault("cuEventDestroy", driver.ResultUnknown))
			n.is("a record that fails", e.Record(s), cu.ResultUnknown)
			n.is("a wait that fails", e.Block(s), cu.ResultUnknown)
			_, err := n.gpu.NewEvent(cu.EventDefault)
			n.is("a creation that fails", err, cu.ResultOutOfMemory)
			told("what has failed")
			n.is("a destruction that fails", e.Close(), cu.ResultUnknown)
			n.must(n.EventDestroy(n.at, driver.Event(raw))) // the event that the fault left
		} else {
			n.ok(e.Close())
		}
		told("a destruction", trace.Operation{Op: trace.EventDestroy, Event: raw})

		remove()
		remove()
		x := get(s.RecordNew(cu.EventDefault))(n)
		n.ok(x.Close())
		if got := first.take(); got != nil {
			n.t.Errorf("a removed tracer is told %v", got)
		}
		if got := second.take(); len(got) != 3 {
			n.t.Errorf("the other one is told %v", got)
		}
		trace.Add(n.drv, nil)()
	})
}
