package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/driver"
)

// This file tests shared events in package cu: rows A9, A10, B2 and D13, and also E8 and E9. The
// tests start processes of their own binary, which use package cu on the same driver. Each call
// there is made on a thread without a current context, as in any Go program.

const shared = cu.EventInterprocess | cu.EventDisableTiming

// besideRequest is a request for a call in the other process. The handle is passed as bytes or as
// text, which is a part of the tests.
type besideRequest struct {
	Call   string
	Device int               `json:",omitempty"`
	Handle cu.IPCEventHandle `json:",omitzero"`
	Bytes  []byte            `json:",omitempty"`
}

// besideAnswer is the result of a requested call.
type besideAnswer struct {
	Status cu.Status         `json:",omitempty"`
	Handle cu.IPCEventHandle `json:",omitzero"`
	Result cu.Result         `json:",omitempty"` // the result that the error matches
	Err    string            `json:",omitempty"`
	Is     []string          `json:",omitempty"` // the mistakes that the error matches
}

// besideMistakes are the mistakes that an answer names.
var besideMistakes = map[string]error{
	"ErrNotTimed": cu.ErrNotTimed, "ErrImported": cu.ErrImported, "ErrSameProcess": cu.ErrSameProcess, "ErrClosed": cu.ErrClosed,
	"ErrContextMismatch": cu.ErrContextMismatch, "ErrDeviceMismatch": cu.ErrDeviceMismatch, "deadline": context.DeadlineExceeded,
}

// besideCalls are the calls. They use the newest event that the process has created or opened, and
// a stream of that event's context.
type besideCalls struct {
	*lab
	drv  *cu.Driver
	gpu  *cu.Context
	s    *cu.Stream
	e    *cu.Event
	gate *gate
}

func (b *besideCalls) call(q besideRequest) (a besideAnswer, err error) {
	switch q.Call {
	case "device":
		var dev *cu.Device
		if dev, err = b.drv.Device(q.Device); err != nil {
			return a, err
		}
		if b.gpu, err = dev.PrimaryContext(); err != nil {
			return a, err
		}
		b.s, err = b.gpu.NewStream(cu.StreamNonBlocking)
	case "create":
		if b.e, err = b.gpu.NewEvent(shared); err == nil {
			var none context.Context // not used, because the event exists
			a.Handle, err = b.e.IPCHandle(none)
		}
	case "open":
		h := q.Handle
		if q.Bytes != nil {
			if err := h.UnmarshalBinary(q.Bytes); err != nil {
				return a, err
			}
		}
		b.e, err = b.gpu.OpenIPCEvent(h)
	case "export":
		a.Handle, err = b.e.IPCHandle(context.Background())
	case "record":
		err = b.e.Record(b.s)
	case "query":
		a.Status, err = b.e.Query()
	case "synchronize":
		err = b.e.Synchronize()
	case "wait": // the host waits
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err = b.e.Wait(ctx)
	case "block": // a stream waits
		err = b.e.Block(b.s)
	case "stream":
		a.Status, err = b.s.Query()
	case "drain":
		err = b.s.Synchronize()
	case "time":
		_, a.Status, err = b.e.Since(b.e)
	case "capture":
		var inside error
		var g *graph.Graph
		g, err = graph.Capture(b.s, graph.CaptureGlobal, func() error {
			inside = errors.Join(b.e.Record(b.s), b.s.WaitEvent(b.e))
			return nil
		})
		if err == nil { // the capture is valid
			err = errors.Join(inside, g.Close())
		}
	case "close":
		err = b.e.Close()
	default:
		err = errors.New("there is no such call")
	}
	return a, err
}

// serveBeside makes calls until there are no more requests.
func serveBeside(p *process, tg target) {
	b := &besideCalls{lab: newLab(p, tg)}
	option := cu.WithLibrary(tg.Library)
	if b.sim != nil {
		option = cu.WithSoftware(b.sim)
	}
	var err error
	if b.drv, err = cu.Open(option); err != nil {
		p.Fatalf("%v", err)
	}
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var q besideRequest
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			p.Fatalf("%v", err)
		}
		var a besideAnswer
		var err error
		switch q.Call { // raw calls need the lab's thread
		case "hold":
			b.gate = b.hold(driver.Stream(b.s.Handle()))
		case "let go":
			b.gate.open()
		default:
			done := make(chan struct{})
			go func() { // its thread has no current context
				defer close(done)
				a, err = b.call(q)
			}()
			<-done
		}
		if err != nil {
			a.Err = err.Error()
			var e *cu.Error
			if errors.As(err, &e) {
				a.Result = e.Result
			}
			for name, m := range besideMistakes {
				if errors.Is(err, m) {
					a.Is = append(a.Is, name)
				}
			}
		}
		if err := out.Encode(a); err != nil {
			p.Fatalf("%v", err)
		}
	}
}

// beside is another process that uses package cu.
type beside struct {
	n       *nouns
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan besideAnswer // closed when there are no more
	errs    *strings.Builder
	killed  bool
	over    bool
}

// beside starts another process, which uses a device. The process ends with the test at the latest.
func (n *nouns) beside(device int) *beside {
	n.t.Helper()
	tg := n.tg
	tg.Virtual = false // no test could move its time
	cmd, err := command(job{shareEvents, tg})
	n.ok(err)
	b := &beside{n: n, cmd: cmd, answers: make(chan besideAnswer, 1), errs: new(strings.Builder)}
	cmd.Stderr = b.errs
	b.in, err = cmd.StdinPipe()
	n.ok(err)
	out, err := cmd.StdoutPipe()
	n.ok(err)
	n.ok(cmd.Start())
	go func() {
		defer close(b.answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var a besideAnswer
			if json.Unmarshal(lines.Bytes(), &a) == nil { // a driver may print other lines
				b.answers <- a
			}
		}
	}()
	n.later(b.end)
	b.must(besideRequest{Call: "device", Device: device})
	return b
}

// end lets the process end by itself.
func (b *beside) end() {
	b.n.t.Helper()
	if b.over {
		return
	}
	b.over = true
	_ = b.in.Close() // ends the process
	kill := time.AfterFunc(patience, func() { _ = b.cmd.Process.Kill() })
	defer kill.Stop()
	for range b.answers {
		// Discard the remaining answers.
	}
	if err := b.cmd.Wait(); err != nil && !b.killed {
		b.n.t.Errorf("the other process: %v: %.2000s", err, b.errs)
	}
}

// kill kills the process, and waits for its end.
func (b *beside) kill() {
	b.n.t.Helper()
	b.killed = true
	b.n.ok(b.cmd.Process.Kill())
	b.end()
}

// ask requests a call.
func (b *beside) ask(q besideRequest) besideAnswer {
	b.n.t.Helper()
	line, err := json.Marshal(q)
	b.n.ok(err)
	if _, err := b.in.Write(append(line, '\n')); err != nil {
		b.n.t.Fatalf("the other process does not listen: %v: %.2000s", err, b.errs)
	}
	for end := time.Now().Add(2 * patience); time.Now().Before(end); { // the first request waits for the start of the process
		select {
		case a, more := <-b.answers:
			if !more {
				b.n.t.Fatalf("the other process has ended: %.2000s", b.errs)
			}
			return a
		case <-time.After(time.Millisecond):
			b.n.settle()
		}
	}
	b.n.t.Fatalf("the other process does not answer: %s", q.Call)
	return besideAnswer{}
}

// must requests a call that must succeed.
func (b *beside) must(q besideRequest) besideAnswer {
	b.n.t.Helper()
	a := b.ask(q)
	if a.Result == cu.ResultNotSupported && (q.Call == "create" || q.Call == "open") {
		b.n.t.Skip("processes cannot share events on this system")
	}
	if a.Err != "" {
		b.n.t.Fatalf("the other process: %s: %s", q.Call, a.Err)
	}
	return a
}

func (b *beside) do(calls ...string) {
	b.n.t.Helper()
	for _, call := range calls {
		b.must(besideRequest{Call: call})
	}
}

// is expects a status in the other process.
func (b *beside) is(what, call string, want cu.Status) {
	b.n.t.Helper()
	if got := b.must(besideRequest{Call: call}).Status; got != want {
		b.n.t.Errorf("the other process: %s: %s = %v, want %v", what, call, got, want)
	}
}

// refuses expects an error in the other process.
func (b *beside) refuses(call, mistake string, want cu.Result) {
	b.n.t.Helper()
	a := b.ask(besideRequest{Call: call})
	if a.Err == "" || a.Result != want || mistake != "" && !slices.Contains(a.Is, mistake) {
		b.n.t.Errorf("the other process: %s: %q, which is %v and %v, want %s and %v", call, a.Err, a.Result, a.Is, mistake, want)
	}
}

// export returns a new event that processes can share, and its handle.
func (n *nouns) export() (*cu.Event, cu.IPCEventHandle) {
	n.t.Helper()
	e := n.newEvent(shared)
	h, err := e.IPCHandle(n.t.Context())
	if errors.Is(err, cu.ResultNotSupported) {
		n.t.Skip("processes cannot share events on this system")
	}
	n.ok(err)
	return e, h
}

// opens opens an event of another process.
func (n *nouns) opens(gpu *cu.Context, h cu.IPCEventHandle) *cu.Event {
	n.t.Helper()
	e, err := gpu.OpenIPCEvent(h)
	n.ok(err)
	n.closes(e)
	return e
}

// TestA09IPCHandle gets handles of existing events, and of lazy events, which this creates in the
// context of the current stream.
func TestA09IPCHandle(t *testing.T) {
	onNouns(t, func(n *nouns) {
		e, h := n.export()
		if again := get(e.IPCHandle(n.t.Context()))(n); again != h || h.IsZero() {
			n.t.Errorf("two handles: %v and %v", h, again)
		}
		if _, other := n.export(); other == h {
			n.t.Errorf("two events have the handle %v", h)
		}

		for i := range n.devices {
			gpu := get(n.device(i).PrimaryContext())(n)
			n.closes(gpu)
			lazy := cu.LazyEvent(cu.EventInterprocess, cu.EventDisableTiming)
			n.closes(lazy)
			_, err := lazy.IPCHandle(n.patient())
			n.is("no current stream", err, cu.ErrNoCurrentStream)
			if lazy.Created() {
				n.t.Errorf("it was created")
			}
			h := get(lazy.IPCHandle(cu.WithStream(n.patient(), n.streamOf(gpu))))(n)
			if !lazy.Created() || lazy.DeviceIndex() != i {
				n.t.Errorf("created: %v, on device %d, want %d", lazy.Created(), lazy.DeviceIndex(), i)
			}
			var moved cu.Event
			n.closes(&moved)
			n.ok(lazy.MoveTo(&moved))
			if again := get(moved.IPCHandle(n.patient()))(n); again != h {
				n.t.Errorf("it moved, and has another handle: %v, not %v", again, h)
			}
		}

		// Other events have no handle, and the call does not create them.
		var zero cu.Event
		for _, e := range []*cu.Event{&zero, cu.LazyEvent(cu.EventDefault), n.newEvent(cu.EventDefault), n.newEvent(cu.EventDisableTiming)} {
			before := e.Created()
			_, err := e.IPCHandle(cu.WithStream(n.patient(), n.newStream()))
			n.is("an event that cannot be shared", err, cu.ErrNotInterprocess, cu.ResultInvalidHandle)
			if e.Created() != before {
				n.t.Errorf("it was created")
			}
		}
		gone := n.newEvent(shared)
		n.ok(gone.Close())
		_, err := gone.IPCHandle(n.patient())
		n.is("a closed event", err, cu.ErrClosed)
		closed := get(n.gpu.NewStream(cu.StreamNonBlocking))(n)
		n.ok(closed.Close())
		_, err = cu.LazyEvent(shared).IPCHandle(cu.WithStream(n.patient(), closed))
		n.is("a closed current stream", err, cu.ErrClosed)
		_, err = cu.LazyEvent(cu.EventInterprocess).IPCHandle(cu.WithStream(n.patient(), n.newStream()))
		n.is("flags that do not go together", err, cu.ResultInvalidValue)

		// Another process opens the event, and cannot get a handle of it.
		b := n.beside(0)
		b.must(besideRequest{Call: "open", Handle: h})
		b.refuses("export", "ErrImported", cu.ResultInvalidHandle)
	})
}

// TestA10OpenIPCEvent opens an event of another process, on its device and on another one.
func TestA10OpenIPCEvent(t *testing.T) {
	onNouns(t, func(n *nouns) {
		b := n.beside(0)
		h := b.must(besideRequest{Call: "create"}).Handle
		for i := range n.devices {
			gpu := get(n.device(i).PrimaryContext())(n)
			n.closes(gpu)
			e, again, s := n.opens(gpu, h), n.opens(gpu, h), n.streamOf(gpu)
			if e.DeviceIndex() != i || !e.Created() || e.Flags() != shared || e.Key() == again.Key() {
				n.t.Errorf("device %d, created: %v, flags %v, keys %v and %v", e.DeviceIndex(), e.Created(), e.Flags(), e.Key(), again.Key())
			}
			n.status("never recorded", e, cu.Complete)
			b.do("hold", "record")
			for _, e := range []*cu.Event{e, again} {
				n.stillPending("the other process's record", e)
			}
			n.ok(s.WaitEvent(e))
			n.settle()
			if st, err := s.Query(); st != cu.Pending || err != nil {
				n.t.Errorf("a stream behind it: %v, %v", st, err)
			}
			_, err := e.IPCHandle(n.patient())
			n.is("a handle of an opened event", err, cu.ErrImported, cu.ResultInvalidHandle)
			_, _, err = e.Since(again)
			n.is("the time", err, cu.ErrNotTimed, cu.ResultInvalidHandle)

			// The first event is closed. The other one and the stream are not affected.
			var moved cu.Event
			n.ok(again.MoveTo(&moved))
			n.closes(&moved)
			n.ok(e.Close())
			n.stillPending("the other one", &moved)
			b.do("let go")
			n.ok(moved.Wait(n.patient()))
			n.ok(moved.Synchronize())
			n.ok(s.Synchronize())
		}

		_, own := n.export()
		_, err := n.gpu.OpenIPCEvent(own)
		n.is("an event of this process", err, cu.ErrSameProcess, cu.ResultInvalidContext)
		_, err = n.gpu.OpenIPCEvent(cu.IPCEventHandle{})
		n.is("the zero handle", err, cu.ErrNil, cu.ResultInvalidHandle)
		var garbage cu.IPCEventHandle
		for i := range garbage {
			garbage[i] = 0xa5 // as tested on an H200
		}
		_, err = n.gpu.OpenIPCEvent(garbage)
		n.is("garbage", err, cu.ResultMapFailed)
		closed := get(n.device(0).PrimaryContext())(n)
		n.ok(closed.Close())
		_, err = closed.OpenIPCEvent(h)
		n.is("a closed context", err, cu.ErrClosed)

		// A stream of another context cannot wait for the event. It can wait for a stream that waits
		// for the event.
		beside := get(n.gpu.Device().NewContext(cu.ContextDefault))(n)
		n.closes(beside)
		far, near, e := n.streamOf(beside), n.newStream(), n.opens(n.gpu, h)
		n.is("another context's stream", far.WaitEvent(e), cu.ErrContextMismatch, cu.ResultInvalidHandle)
		n.is("a record there", e.Record(far), cu.ErrContextMismatch, cu.ResultInvalidHandle)
		b.do("hold", "record")
		n.ok(near.WaitEvent(e))
		n.ok(far.WaitStream(near))
		n.settle()
		if st, err := far.Query(); st != cu.Pending || err != nil {
			n.t.Errorf("a stream behind a stream behind it: %v, %v", st, err)
		}
		b.do("let go")
		n.ok(far.Synchronize())

		// Events of pools and of graphs have no handles.
		pool := get(n.gpu.EventPool())(n)
		n.closes(pool)
		_, err = pool.Acquire(shared)
		n.is("a pool", err, cu.ResultInvalidValue)
		g := get(graph.New(n.gpu))(n)
		n.closes(g)
		_, err = g.Add(&graph.Record{Event: e})
		n.is("a graph that records it", err, cu.ResultStreamCaptureUnsupported)
		_, err = g.Add(&graph.Wait{Event: e})
		n.is("a graph that waits for it", err, cu.ResultStreamCaptureUnsupported)
	})
}

// TestB02IPCBytes passes handles as bytes and as text, in both directions, and makes the same calls
// in both processes.
func TestB02IPCBytes(t *testing.T) {
	onNouns(t, func(n *nouns) {
		e, h := n.export()
		data := get(h.MarshalBinary())(n)
		if len(data) != 64 {
			n.t.Errorf("the handle has %d bytes", len(data))
		}
		b, s := n.beside(0), n.newStream()
		for _, q := range []besideRequest{{Call: "open", Bytes: data}, {Call: "open", Handle: h}} {
			b.must(q)
			b.is("never recorded", "query", cu.Complete)
			g := n.holds(s)
			n.ok(e.Record(s))
			b.is("held", "query", cu.Pending)
			b.do("block")
			b.is("behind what is held", "stream", cu.Pending)
			g.open()
			b.do("wait", "synchronize", "drain")
			b.is("let go", "query", cu.Complete)
			b.do("hold", "record")
			n.stillPending("recorded there", e)
			b.do("let go")
			n.ok(e.Synchronize())
			b.refuses("time", "ErrNotTimed", cu.ResultInvalidHandle)
			b.do("close")
			b.refuses("query", "ErrClosed", cu.ResultInvalidHandle)
			n.status("closed there", e, cu.Complete)
		}
		// Too few bytes are not a handle, in either process.
		if a := b.ask(besideRequest{Call: "open", Bytes: data[:63]}); a.Result != cu.ResultInvalidValue {
			n.t.Errorf("63 bytes: %q", a.Err)
		}
	})
}

// TestD13SharedRecords makes both processes record an event and wait for it. All calls are about
// the newest record of either process, and a record does not complete before earlier ones.
func TestD13SharedRecords(t *testing.T) {
	onNouns(t, func(n *nouns) {
		e, h := n.export()
		b, s, idle, waits := n.beside(0), n.newStream(), n.newStream(), n.newStream()
		b.must(besideRequest{Call: "open", Handle: h})
		for range 3 {
			g := n.holds(s)
			n.ok(e.Record(s))
			b.is("held here", "query", cu.Pending)
			b.do("record") // on an idle stream
			b.is("not before the earlier one", "query", cu.Pending)
			n.stillPending("recorded there, and not before the earlier one", e)
			n.ok(waits.WaitEvent(e))
			behind := n.newEvent(cu.EventDisableTiming)
			n.ok(behind.Record(waits))
			n.stillPending("behind the other process's record", behind)
			g.open()
			n.ok(e.Wait(n.patient()))
			n.ok(behind.Wait(n.patient()))
			b.do("wait")
		}

		// A wait of the host is for the newest record, even if the record is made after the wait
		// began. New records keep the CUevent and the key.
		g := n.holds(s)
		n.ok(e.Record(s))
		ticket, key, raw := get(e.Ticket())(n), e.Key(), e.Handle()
		b.do("hold", "record")
		g.open()
		n.ok(s.Synchronize())
		ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Millisecond)
		n.is("a ticket for a record, after which there is another one", ticket.Wait(ctx), context.DeadlineExceeded)
		cancel()
		b.do("let go")
		n.ok(ticket.Wait(n.patient()))
		n.ok(e.Record(idle))
		if e.Key() != key || e.Handle() != raw {
			n.t.Errorf("the key or the handle has changed")
		}

		// The event cannot be captured in either process, and captures continue.
		refused := func(what string, err error) {
			n.t.Helper()
			n.is(what, err, cu.ResultStreamCaptureUnsupported)
		}
		graph := get(graph.Capture(idle, graph.CaptureGlobal, func() error {
			refused("a record in a capture", e.Record(idle))
			refused("an external one", e.RecordWithFlags(idle, cu.RecordExternal))
			refused("a wait in a capture", idle.WaitEvent(e))
			refused("an external one", idle.WaitEventWithFlags(e, cu.WaitExternal))
			return nil
		}))(n)
		n.ok(graph.Close())
		b.refuses("capture", "", cu.ResultStreamCaptureUnsupported)
		n.ok(e.Wait(n.patient()))
		b.do("record", "wait")
	})
}

// TestD13Lifetimes closes the original, and ends its process, while another process has the event
// open.
func TestD13Lifetimes(t *testing.T) {
	onNouns(t, func(n *nouns) {
		// The original is closed while its record is pending.
		e, h := n.export()
		b, s := n.beside(0), n.newStream()
		b.must(besideRequest{Call: "open", Handle: h})
		g := n.holds(s)
		n.ok(e.Record(s))
		n.ok(e.Close())
		b.is("closed here", "query", cu.Pending)
		g.open()
		b.do("wait", "record", "synchronize", "close")

		// The process of the original ends.
		h = b.must(besideRequest{Call: "create"}).Handle
		opened := n.opens(n.gpu, h)
		b.do("record", "synchronize")
		b.end()
		n.status("its process has ended", opened, cu.Complete)
		n.ok(opened.Wait(n.patient()))
		n.ok(s.WaitEvent(opened))
		n.ok(opened.Record(s))
		n.ok(opened.Synchronize())
		n.ok(opened.Close())

		// If an event is opened after the process of the original has ended, it is complete and shared
		// with no other process. The software driver reports a misuse.
		late := n.opens(n.gpu, h)
		n.misused++
		n.status("opened when its process had ended", late, cu.Complete)
		_, err := late.IPCHandle(n.patient())
		n.is("a handle of what is gone", err, cu.ErrImported)
		n.ok(late.Record(s))
		n.ok(late.Wait(n.patient()))
	})
}

// TestD13Killed kills the process that has recorded an event before the record is complete. The
// event stays pending, as on a GPU, and a wait can be cancelled. The test does not call
// Synchronize, which would not return.
func TestD13Killed(t *testing.T) {
	onNouns(t, func(n *nouns) {
		own, h := n.export()
		exporter, importer := n.beside(0), n.beside(0)
		foreign := n.opens(n.gpu, exporter.must(besideRequest{Call: "create"}).Handle)
		importer.must(besideRequest{Call: "open", Handle: h})
		for _, c := range []struct {
			name string
			b    *beside
			e    *cu.Event
		}{{"the exporter", exporter, foreign}, {"an importer", importer, own}} {
			c.b.do("hold", "record")
			n.stillPending(c.name+" holds it", c.e)
			waits := make(chan error)
			ctx, cancel := context.WithCancelCause(n.t.Context())
			go func() { waits <- c.e.Wait(ctx) }()
			c.b.kill()
			n.stillPending(c.name+" was killed", c.e)
			select {
			case err := <-waits:
				n.t.Errorf("%s was killed, and a wait ended: %v", c.name, err)
				cancel(nil)
			default:
				cancel(errors.New("patience is over"))
				if err := <-waits; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "patience is over") {
					n.t.Errorf("%s was killed, and a wait was given up: %v", c.name, err)
				}
			}
			// Closing the event ends a wait, too, and everything else continues.
			go func() { waits <- c.e.Wait(n.t.Context()) }()
			n.settle()
			n.ok(c.e.Close())
			n.is(c.name+" was killed, and the event closed", <-waits, cu.ErrClosed)
			s := n.newStream()
			n.ok(get(s.RecordNew(shared))(n).Close())
			n.ok(s.Synchronize())
		}
	})
}
