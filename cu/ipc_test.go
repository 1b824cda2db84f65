package cu_test

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// What other processes see is tested in tests/conformance, with other processes.

const sharedFlags = EventInterprocess | EventDisableTiming

var (
	_ encoding.BinaryMarshaler   = IPCEventHandle{}
	_ encoding.BinaryAppender    = IPCEventHandle{}
	_ encoding.BinaryUnmarshaler = new(IPCEventHandle)
	_ encoding.TextMarshaler     = IPCEventHandle{}
	_ encoding.TextAppender      = IPCEventHandle{}
	_ encoding.TextUnmarshaler   = new(IPCEventHandle)
)

// TestIPCEventHandle sends a handle through everything that takes one.
func TestIPCEventHandle(t *testing.T) {
	h, text := AnyIPCHandle(), "c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf"+
		"e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
	if h.String() != text || h.IsZero() {
		t.Errorf("String = %q, IsZero = %v", h.String(), h.IsZero())
	}
	var got IPCEventHandle
	ok := func(what string, err error) {
		t.Helper()
		if err != nil || got != h {
			t.Errorf("%s: %v, %v", what, got, err)
		}
		got = IPCEventHandle{}
	}
	b := Need(h.MarshalBinary())(t)
	if len(b) != 64 || b[63] != h[63] {
		t.Errorf("the bytes are %x", b)
	}
	ok("bytes", got.UnmarshalBinary(b))
	b[0] = 0 // which is nobody else's
	if h[0] != 0xc0 {
		t.Error("the bytes are the handle's own")
	}
	if b := Need(h.AppendBinary([]byte("x")))(t); len(b) != 65 || b[0] != 'x' || b[1] != h[0] {
		t.Errorf("appended bytes are %x", b)
	}
	if b := Need(h.AppendText([]byte("x")))(t); string(b) != "x"+text {
		t.Errorf("appended text is %s", b)
	}
	ok("text", got.UnmarshalText(Need(h.MarshalText())(t)))
	ok("capitals", got.UnmarshalText([]byte(strings.ToUpper(text))))

	doc := struct {
		Event IPCEventHandle
		Names map[IPCEventHandle]string
	}{h, map[IPCEventHandle]string{h: "upload"}}
	j := Need(json.Marshal(doc))(t)
	if want := `{"Event":"` + text + `","Names":{"` + text + `":"upload"}}`; string(j) != want {
		t.Errorf("JSON is %s", j)
	}
	again := doc
	again.Event, again.Names = IPCEventHandle{}, nil
	if err := json.Unmarshal(j, &again); err != nil || !cmp.Equal(again, doc) {
		t.Errorf("JSON came back as %v, %v", again, err)
	}

	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.TextVar(&got, "event", IPCEventHandle{}, "whose `event` to wait for")
	fs.PrintDefaults()
	ok("a flag", fs.Parse([]string{"-event", text}))
	if err := fs.Parse([]string{"-event", "deadbeef"}); err == nil {
		t.Error("a flag took deadbeef")
	}
}

// TestIPCEventHandleRefused takes handles from what is none: the receiver stays what it was.
func TestIPCEventHandleRefused(t *testing.T) {
	text := AnyIPCHandle().String()
	bytes := AnyIPCHandle()
	for _, c := range []struct {
		name string
		take func(*IPCEventHandle) error
		is   error
		code Result
		want string
	}{
		{"no bytes", func(h *IPCEventHandle) error { return h.UnmarshalBinary(nil) }, drivercall.ErrInvalid,
			ResultInvalidValue,
			"cu: IPCEventHandle.UnmarshalBinary: invalid argument; there are 0 bytes, and a handle has 64: pass the result of MarshalBinary"},
		{"63 bytes", func(h *IPCEventHandle) error { return h.UnmarshalBinary(bytes[:63]) }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: IPCEventHandle.UnmarshalBinary: invalid argument; there are 63 bytes, and a handle has 64: pass the result of MarshalBinary"},
		{"65 bytes", func(h *IPCEventHandle) error { return h.UnmarshalBinary(append(bytes[:], 0)) }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: IPCEventHandle.UnmarshalBinary: invalid argument; there are 65 bytes, and a handle has 64: pass the result of MarshalBinary"},
		{"zero bytes", func(h *IPCEventHandle) error { return h.UnmarshalBinary(make([]byte, 64)) }, ErrNil, ResultInvalidHandle,
			"cu: IPCEventHandle.UnmarshalBinary: nil object; the handle is zero, and names no event: pass one that Event.IPCHandle has returned"},
		{"short text", func(h *IPCEventHandle) error { return h.UnmarshalText([]byte(text[1:])) }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: IPCEventHandle.UnmarshalText: invalid argument; there are 127 characters, and a handle has 128: pass the result of MarshalText"},
		{"a line", func(h *IPCEventHandle) error { return h.UnmarshalText([]byte(text + "\n")) }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: IPCEventHandle.UnmarshalText: invalid argument; there are 129 characters, and a handle has 128: pass the result of MarshalText"},
		{"other text", func(h *IPCEventHandle) error { return h.UnmarshalText([]byte(text[1:] + "g")) }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: IPCEventHandle.UnmarshalText: invalid argument; encoding/hex: invalid byte: U+0067 'g': a handle's text has hexadecimal digits only"},
		{"zero text", func(h *IPCEventHandle) error { return h.UnmarshalText([]byte(strings.Repeat("0", 128))) }, ErrNil, ResultInvalidHandle,
			"cu: IPCEventHandle.UnmarshalText: nil object; the handle is zero, and names no event: pass one that Event.IPCHandle has returned"},
		{"zero to bytes", func(*IPCEventHandle) error { _, err := IPCEventHandle{}.MarshalBinary(); return err }, ErrNil, ResultInvalidHandle,
			"cu: IPCEventHandle.AppendBinary: nil object; the handle is zero, and names no event: pass one that Event.IPCHandle has returned"},
		{"zero to text", func(*IPCEventHandle) error { _, err := IPCEventHandle{}.MarshalText(); return err }, ErrNil, ResultInvalidHandle,
			"cu: IPCEventHandle.AppendText: nil object; the handle is zero, and names no event: pass one that Event.IPCHandle has returned"},
		{"nil, bytes", func(*IPCEventHandle) error { return (*IPCEventHandle)(nil).UnmarshalBinary(bytes[:]) }, ErrNil, ResultInvalidHandle,
			"cu: IPCEventHandle.UnmarshalBinary: nil object; the handle is nil: check the error of the call that should have made it"},
		{"nil, text", func(*IPCEventHandle) error { return (*IPCEventHandle)(nil).UnmarshalText([]byte(text)) }, ErrNil, ResultInvalidHandle,
			"cu: IPCEventHandle.UnmarshalText: nil object; the handle is nil: check the error of the call that should have made it"},
	} {
		h := AnyIPCHandle()
		err := c.take(&h)
		if !errors.Is(err, c.is) || !errors.Is(err, c.code) {
			t.Errorf("%s: %v; want one that matches %q and %s", c.name, err, c.is, c.code.Name())
			continue
		}
		got, _, _ := strings.Cut(err.Error(), " (docs/errors.md#")
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if h != AnyIPCHandle() {
			t.Errorf("%s: the handle is %v now", c.name, h)
		}
	}
	if _, err := json.Marshal(IPCEventHandle{}); !errors.Is(err, ErrNil) {
		t.Errorf("the zero handle as JSON: %v", err)
	}
	var h IPCEventHandle
	for _, j := range []string{`""`, `"00"`, `7`, `[1]`, `{}`} {
		if err := json.Unmarshal([]byte(j), &h); err == nil || !h.IsZero() {
			t.Errorf("JSON %s: %v, %v", j, h, err)
		}
	}
	if s := h.String(); s != "" {
		t.Errorf("the zero handle is %q", s)
	}
}

// FuzzIPCEventHandleText looks for texts that are taken and do not come back.
func FuzzIPCEventHandleText(f *testing.F) {
	for _, s := range []string{"", "00", AnyIPCHandle().String(), strings.ToUpper(AnyIPCHandle().String()), strings.Repeat("0", 128), strings.Repeat("g", 128)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		h := AnyIPCHandle()
		if err := h.UnmarshalText(text); err != nil {
			if !errors.Is(err, drivercall.ErrInvalid) && !errors.Is(err, ErrNil) || h != AnyIPCHandle() {
				t.Errorf("%v; the handle is %v", err, h)
			}
			return
		}
		if back := Need(h.MarshalText())(t); !strings.EqualFold(string(back), string(text)) {
			t.Errorf("it comes back as %s", back)
		}
	})
}

// FuzzIPCEventHandleBinary looks for bytes that are taken and do not come back.
func FuzzIPCEventHandleBinary(f *testing.F) {
	h := AnyIPCHandle()
	for _, b := range [][]byte{nil, make([]byte, 64), h[:], h[1:], append(h[:], 1)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := AnyIPCHandle()
		if err := h.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, drivercall.ErrInvalid) && !errors.Is(err, ErrNil) || h != AnyIPCHandle() {
				t.Errorf("%v; the handle is %v", err, h)
			}
			return
		}
		if back := Need(h.MarshalBinary())(t); string(back) != string(data) {
			t.Errorf("it comes back as %x", back)
		}
	})
}

// opened returns an event of another process.
func (f *fake) opened(c *Context) *Event {
	f.t.Helper()
	e := Need(c.OpenIPCEvent(ForeignHandle()))(f.t)
	f.t.Cleanup(func() { e.Close() })
	return e
}

// TestIPCMistakes makes mistakes with shared events, one by one, and looks at the errors. The
// driver hears of none of them, but where that is said.
func TestIPCMistakes(t *testing.T) {
	r := newRig(t)
	shared, plain, opened := r.event(r.gpu, sharedFlags), r.event(r.gpu, 0), r.opened(r.gpu)
	h := Need(shared.IPCHandle(t.Context()))(t)
	closed, closedContext := r.event(r.gpu, sharedFlags), Need(r.gpu.Device().PrimaryContext())(t)
	closed.Close()
	closedContext.Close()
	far := r.context(r.drv, 1)
	farStream, farOpened := r.stream(far), r.opened(far)
	beside := Need(r.gpu.Device().NewContext(0))(t)
	t.Cleanup(func() { beside.Close() })
	besideStream := r.stream(beside)
	built := Need(graph.New(r.gpu))(t)
	t.Cleanup(func() { built.Close() })
	handle := func(e *Event) func() error {
		return func() error { _, err := e.IPCHandle(context.Background()); return err }
	}
	open := func(c *Context, h IPCEventHandle) func() error {
		return func() error { _, err := c.OpenIPCEvent(h); return err }
	}
	for _, c := range []struct {
		name string
		err  func() error
		is   error
		code Result
		want string
	}{
		{"nil", handle(nil), ErrNil, ResultInvalidHandle, "cu: cuIpcGetEventHandle: nil object; the event is nil: check the error of the call that should have made it"},
		{"zero", handle(new(Event)), ErrNotInterprocess, ResultInvalidHandle,
			"cu: cuIpcGetEventHandle: event cannot be shared between processes; create it with EventInterprocess|EventDisableTiming, by gpu.NewEvent or cu.LazyEvent"},
		{"plain", handle(plain), ErrNotInterprocess, ResultInvalidHandle,
			"cu: cuIpcGetEventHandle(event H): event cannot be shared between processes; create it with EventInterprocess|EventDisableTiming, by gpu.NewEvent or cu.LazyEvent"},
		{"closed", handle(closed), ErrClosed, ResultInvalidHandle, "cu: cuIpcGetEventHandle(event H): already closed; the event was closed before the call: close it after its last use"},
		{"opened", handle(opened), ErrImported, ResultInvalidHandle,
			"cu: cuIpcGetEventHandle(event H): object of another process; only the process that created it can get its handle: pass on the handle that this event was opened by"},
		{"no current stream", handle(LazyEvent(sharedFlags)), ErrNoCurrentStream, ResultInvalidHandle,
			"cu: CurrentStream: no current stream; the context.Context has no stream: pass a context.Context that cu.WithStream has returned"},
		{"external", func() error { _, err := r.gpu.NewEvent(sharedFlags | EventExternal); return err }, drivercall.ErrInvalid, ResultInvalidValue,
			"cu: cuEventCreate(context H): invalid argument; an interprocess event cannot be part of a graph: omit EventExternal or EventInterprocess"},

		{"open, nil", open(nil, h), ErrNil, ResultInvalidHandle, "cu: cuIpcOpenEventHandle: nil object; the context is nil: check the error of the call that should have made it"},
		{"open, zero", open(new(Context), h), ErrNil, ResultInvalidHandle, "cu: cuIpcOpenEventHandle: nil object; the context is nil: check the error of the call that should have made it"},
		{"open, closed", open(closedContext, h), ErrClosed, ResultInvalidHandle,
			"cu: cuIpcOpenEventHandle(context H): already closed; the context was closed before the call: close it after its last use"},
		{"open, zero handle", open(r.gpu, IPCEventHandle{}), ErrNil, ResultInvalidHandle,
			"cu: cuIpcOpenEventHandle(context H): nil object; the handle is zero, and names no event: pass one that Event.IPCHandle has returned"},
		{"open, own", open(r.gpu, h), ErrSameProcess, ResultInvalidContext,
			"cu: cuIpcOpenEventHandle(context H): object of this process; the handle is of an event of this process: use that Event, and open the handle in another process"},

		{"wait, devices", func() error { return r.s.WaitEvent(farOpened) }, ErrDeviceMismatch, ResultInvalidHandle,
			"cu: cuStreamWaitEvent(event H): objects of different devices; only streams of its own context, H on device 1, can wait for an event that processes share, and the stream is of H on device 0: let a stream of the event's context wait for it, and this stream for that stream, by WaitStream"},
		{"wait, contexts", func() error { return besideStream.WaitEvent(opened) }, ErrContextMismatch, ResultInvalidHandle,
			"cu: cuStreamWaitEvent(event H): objects of different contexts; only streams of its own context, H on device 0, can wait for an event that processes share, and the stream is of H on device 0: let a stream of the event's context wait for it, and this stream for that stream, by WaitStream"},
		{"wait, devices, own", func() error { return farStream.WaitEvent(shared) }, ErrDeviceMismatch, ResultInvalidHandle, ""},
		{"block, contexts", func() error { return opened.Block(besideStream) }, ErrContextMismatch, ResultInvalidHandle, ""},
		{"wait, external", func() error { return r.s.WaitEventWithFlags(opened, WaitExternal) }, core.ErrShared, ResultStreamCaptureUnsupported,
			"cu: cuStreamWaitEvent(H): an event that processes share cannot be part of a graph; record it, or wait for it, before or after the launch of the graph, " +
				"on the same stream; in a graph use an event without EventInterprocess"},
		{"record, external", func() error { return opened.RecordWithFlags(r.s, RecordExternal) }, core.ErrShared, ResultStreamCaptureUnsupported,
			"cu: cuEventRecordWithFlags(H): an event that processes share cannot be part of a graph; record it, or wait for it, before or after the launch of the graph, " +
				"on the same stream; in a graph use an event without EventInterprocess"},
		{"record, external, closed", func() error { return closed.RecordWithFlags(r.s, RecordExternal) }, ErrClosed, ResultInvalidHandle, ""},
		{"record, contexts", func() error { return opened.Record(besideStream) }, ErrContextMismatch, ResultInvalidHandle, ""},
		{"graph, record", func() error { _, err := built.Add(&graph.Record{Event: shared}); return err }, core.ErrShared, ResultStreamCaptureUnsupported, ""},
		{"graph, not created yet", func() error { _, err := built.Add(&graph.Wait{Event: LazyEvent(sharedFlags)}); return err }, core.ErrShared, ResultStreamCaptureUnsupported, ""},
		{"graph, wait", func() error { _, err := built.Add(&graph.Wait{Event: opened}); return err }, core.ErrShared, ResultStreamCaptureUnsupported, ""},
		{"time", func() error { _, _, err := opened.Since(opened); return err }, ErrNotTimed, ResultInvalidHandle, ""},
		{"time, from a plain one", func() error { _, err := Elapsed(t.Context(), plain, opened); return err }, ErrNotTimed, ResultInvalidHandle, ""},
	} {
		calls := r.ask("fake_all_calls")
		err := c.err()
		if r.ask("fake_all_calls") != calls {
			t.Errorf("%s: the driver was called", c.name)
		}
		if !errors.Is(err, c.is) || !errors.Is(err, c.code) {
			t.Errorf("%s: %v; want one that matches %q and %s", c.name, err, c.is, c.code.Name())
			continue
		}
		if diff := cmp.Diff(c.want, r.plain(err)); diff != "" && c.want != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}

	// The driver knows better when the original is closed, and what is no handle.
	r.ok(shared.Close())
	if _, err := r.gpu.OpenIPCEvent(h); !errors.Is(err, ErrSameProcess) || !errors.Is(err, ResultInvalidContext) {
		t.Errorf("a handle of this process, whose event was closed: %v", err)
	}
	if _, err := r.gpu.OpenIPCEvent(AnyIPCHandle()); !errors.Is(err, ResultMapFailed) || !strings.Contains(err.Error(), "the bytes are not an event's handle, or the event is not accessible") {
		t.Errorf("bytes that are no handle: %v", err)
	}
	// What cannot be created, or opened, leaves nothing behind.
	r.fail("cuEventCreate", 1, ResultOutOfMemory)
	lazy := LazyEvent(sharedFlags)
	if _, err := lazy.IPCHandle(WithStream(t.Context(), r.s)); !errors.Is(err, ResultOutOfMemory) || lazy.Created() {
		t.Errorf("an event that cannot be created: %v", err)
	}
	r.fail("cuIpcOpenEventHandle", 1, ResultNotSupported)
	if _, err := r.gpu.OpenIPCEvent(ForeignHandle()); !errors.Is(err, ResultNotSupported) || !strings.Contains(err.Error(), "this device or system cannot share events between processes") {
		t.Errorf("where events cannot be shared: %v", err)
	}
	r.fail("cuIpcGetEventHandle", 1, ResultNotSupported)
	if _, err := r.event(r.gpu, sharedFlags).IPCHandle(t.Context()); !errors.Is(err, ResultNotSupported) || !strings.Contains(err.Error(), "this device or system cannot share events between processes") {
		t.Errorf("where events cannot be shared: %v", err)
	}
}

// TestIPCCalls makes every call on events that processes share: the fake driver crashes where
// their context is not current, and it is not so on the test's thread.
func TestIPCCalls(t *testing.T) {
	r := newRig(t)
	var seen []trace.Op
	remove := trace.Add(r.drv, func(tr trace.Operation) { seen = append(seen, tr.Op) })
	opened := Need(r.gpu.OpenIPCEvent(ForeignHandle()))(t)
	lazy := LazyEvent(EventInterprocess, EventDisableTiming)
	h := Need(lazy.IPCHandle(WithStream(t.Context(), r.s)))(t)
	if again := Need(lazy.IPCHandle(t.Context()))(t); again != h || h.IsZero() {
		t.Errorf("two handles: %v and %v", h, again)
	}
	remove()
	if diff := cmp.Diff([]trace.Op{trace.EventCreate, trace.EventCreate}, seen); diff != "" {
		t.Errorf("traces (-want +got):\n%s", diff)
	}
	if opened.Flags() != sharedFlags || opened.DeviceIndex() != 0 || !opened.Created() || opened.Key() == lazy.Key() {
		t.Errorf("the opened event: %v, %d, %v, %v", opened.Flags(), opened.DeviceIndex(), opened.Created(), opened.Key())
	}
	wrapped := Need(r.gpu.WrapEvent(lazy.Handle(), sharedFlags))(t)
	if again := Need(wrapped.IPCHandle(t.Context()))(t); again != h {
		t.Errorf("the wrapped event's handle is %v, not %v", again, h)
	}
	moved := new(Event)
	r.ok(opened.MoveTo(moved))
	if opened.Created() {
		t.Error("what has moved is still there")
	}
	for _, e := range []*Event{moved, lazy, wrapped} {
		if e.Ticket(); EventOf(e).Slot.Load().Unrecorded() {
			t.Error("it does not count as recorded")
		}
		r.ok(e.Record(r.s))
		r.ok(e.RecordWithFlags(r.s, RecordDefault))
		r.ok(e.RecordOnce(r.s))
		r.ok(e.RecordCurrent(WithStream(t.Context(), r.s)))
		for range 2 { // completion is not remembered
			calls := r.calls("cuEventQuery")
			if st, err := e.Query(); st != Complete || err != nil || r.calls("cuEventQuery") != calls+1 {
				t.Errorf("Query = %v, %v", st, err)
			}
		}
		r.ok(e.Synchronize())
		r.ok(e.Wait(t.Context()))
		r.ok(Need(e.Ticket())(t).Wait(t.Context()))
		r.ok(r.s.WaitEvent(e))
		r.ok(e.Block(r.s))
		legacy := Need(r.gpu.LegacyStream())(t)
		r.ok(e.Record(legacy))
		r.ok(legacy.WaitEvent(e))
		r.ok(legacy.Close())
		r.ok(r.gpu.Do(func(th *Thread) error {
			s, err := th.DefaultStream()
			return errors.Join(err, e.Record(s), s.WaitEvent(e), e.Synchronize())
		}))
		// Another record, while somebody waits: the wait is for the newest one.
		r.hold(r.s)
		r.ok(e.Record(r.s))
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() { done <- e.Wait(ctx) }()
		slot := EventOf(e).Slot.Load()
		if !Eventually(func() bool { return slot.WaitCount() >= 1 }) {
			t.Fatal("nobody waits")
		}
		r.ok(e.Record(r.s))
		if EventOf(e).Slot.Load() != slot {
			t.Error("the event has moved to another CUevent")
		}
		cancel(io.EOF)
		if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, io.EOF) {
			t.Errorf("a wait that was released: %v", err)
		}
		r.release(r.s)
		r.ok(e.Wait(t.Context()))
	}
	r.ok(wrapped.Close())
	r.ok(lazy.Close())
	r.ok(moved.Close())
	r.ok(moved.Close())
	if _, err := moved.Query(); !errors.Is(err, ErrClosed) {
		t.Errorf("a query of a closed event: %v", err)
	}
}

// TestIPCAbandoned abandons events that processes share, which are closed, and reported.
func TestIPCAbandoned(t *testing.T) {
	r := newRig(t)
	func() {
		Need(Need(r.gpu.NewEvent(sharedFlags))(t).IPCHandle(t.Context()))(t)
		Need(r.gpu.OpenIPCEvent(ForeignHandle()))(t)
	}()
	r.collect()
	if got := r.leaked(2); len(got) != 2 || got[0] != "event abandoned" || got[1] != "event abandoned" {
		t.Errorf("reports: %v", got)
	}
}

// TestIPCPoisoned uses shared events in a poisoned context.
func TestIPCPoisoned(t *testing.T) {
	r := newRig(t)
	shared, opened := r.event(r.gpu, sharedFlags), r.opened(r.gpu)
	r.tell("fake_poison", r.gpu.Handle(), int32(ResultIllegalAddress))
	for name, err := range map[string]error{
		"Record":     opened.Record(r.s),
		"WaitEvent":  r.s.WaitEvent(opened),
		"Wait":       opened.Wait(t.Context()),
		"Query":      func() error { _, err := shared.Query(); return err }(),
		"IPCHandle":  func() error { _, err := shared.IPCHandle(t.Context()); return err }(),
		"Open":       func() error { _, err := r.gpu.OpenIPCEvent(ForeignHandle()); return err }(),
		"Close":      opened.Close(),
		"Close, own": shared.Close(),
	} {
		if !errors.Is(err, ErrContextPoisoned) || !errors.Is(err, ResultIllegalAddress) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIPCClosing closes shared events and their context beside all other calls.
func TestIPCClosing(t *testing.T) {
	r := newRig(t)
	r.tell("fake_spread", 1)
	gpu := Need(r.gpu.Device().PrimaryContext())(t)
	for range 50 {
		shared, opened := Need(gpu.NewEvent(sharedFlags))(t), Need(gpu.OpenIPCEvent(ForeignHandle()))(t)
		var wg sync.WaitGroup
		var first sync.Once
		for _, f := range []func() error{
			func() error { _, err := shared.IPCHandle(t.Context()); return err },
			func() error { return opened.Record(r.s) },
			func() error { return r.s.WaitEvent(opened) },
			func() error { return shared.Record(r.s) },
			func() error { _, err := opened.Query(); return err },
			func() error { return shared.Wait(t.Context()) },
			func() error { e, err := gpu.OpenIPCEvent(ForeignHandle()); return errors.Join(err, closeEvent(e)) },
			shared.Close, opened.Close, opened.Close,
		} {
			wg.Go(func() {
				for range 3 {
					if err := f(); err != nil && !errors.Is(err, ErrClosed) {
						first.Do(func() { t.Error(err) })
					}
					runtime.Gosched()
				}
			})
		}
		wg.Wait()
	}
	r.ok(gpu.Close())
}

func closeEvent(e *Event) error {
	if e == nil {
		return nil
	}
	return e.Close()
}

// TestIPCInCapture records shared events, and waits for them, on streams that are being
// captured: it is refused, and the captures go on, whoever has begun them.
func TestIPCInCapture(t *testing.T) {
	r := NewSoft(t)
	e, lazy := r.Event(sharedFlags), LazyEvent(sharedFlags)
	t.Cleanup(func() { lazy.Close() })
	g := Need(graph.Capture(r.S, graph.CaptureGlobal, func() error {
		fork := r.Event(EventDisableTiming)
		r.OK(fork.Record(r.S))
		r.OK(r.Other.WaitEvent(fork))
		for name, err := range map[string]error{
			"Record":              e.Record(r.S),
			"Record, joined":      e.Record(r.Other),
			"RecordOnce":          e.RecordOnce(r.S),
			"WaitEvent":           r.S.WaitEvent(e),
			"WaitEvent, joined":   r.Other.WaitEvent(e),
			"Record, external":    e.RecordWithFlags(r.S, RecordExternal),
			"WaitEvent, external": r.S.WaitEventWithFlags(e, WaitExternal),
			"Block":               e.Block(r.S),
			"RecordCurrent":       e.RecordCurrent(WithStream(t.Context(), r.S)),
			"lazy":                lazy.Record(r.S),
		} {
			if !errors.Is(err, ResultStreamCaptureUnsupported) || !errors.Is(err, core.ErrShared) {
				t.Errorf("%s: %v", name, err)
			}
		}
		// Elsewhere nothing is in the way.
		free := r.Stream()
		r.OK(e.Record(free))
		r.OK(free.WaitEvent(e))
		return r.S.WaitStream(r.Other)
	}))(t)
	r.OK(g.Close())

	// Somebody else's capture: the record is for the driver to refuse.
	raw := core.Of(r.Drv).Table()
	s := r.Stream()
	wrapped := Need(r.GPU.WrapStream(s.Handle()))(t)
	if res := raw.StreamBeginCapture(driver.At{}, core.Of(s).Raw, int32(graph.CaptureRelaxed)); res != 0 {
		t.Fatal(res)
	}
	for name, err := range map[string]error{"Record": e.Record(wrapped), "WaitEvent": wrapped.WaitEvent(e)} {
		if !errors.Is(err, ResultStreamCaptureUnsupported) {
			t.Errorf("somebody else's capture: %s: %v", name, err)
		}
	}
	built, res := raw.StreamEndCapture(driver.At{}, core.Of(s).Raw)
	if res != 0 {
		t.Fatalf("it was invalidated: %v", res)
	}
	raw.GraphDestroy(driver.At{}, built)
	r.OK(wrapped.Close())
}

// TestIPCSameProcess opens handles of a process's own events by way of another driver, which
// knows nothing of them: it asks the library.
func TestIPCSameProcess(t *testing.T) {
	r := NewSoft(t)
	h, err := r.Event(sharedFlags).IPCHandle(t.Context())
	if errors.Is(err, ResultNotSupported) {
		t.Skip("processes cannot share events on this system")
	}
	r.OK(err)
	sim := cusim.New()
	drv := Need(OpenNeverWait(WithSoftware(sim)))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	if _, err := gpu.OpenIPCEvent(h); !errors.Is(err, ErrSameProcess) || !errors.Is(err, ResultInvalidContext) {
		t.Errorf("another driver: %v", err)
	}
	r.OK(gpu.Close())
	sim.Check(t)
}

// TestExports closes many events, whose handles are not kept.
func TestExports(t *testing.T) {
	r := newRig(t)
	keep := r.event(r.gpu, sharedFlags)
	h := Need(keep.IPCHandle(t.Context()))(t)
	for range 10 * core.MinSweep {
		e := Need(r.gpu.NewEvent(sharedFlags))(t)
		Need(e.IPCHandle(t.Context()))(t)
		r.ok(e.Close())
	}
	x := core.StateOf[core.Exports](core.Of(r.drv))
	if n := len(x.ByHandle); n > core.MinSweep+1 {
		t.Errorf("%d handles are kept", n)
	}
	if !x.Has(driver.IPCEventHandle(h)) {
		t.Error("that of an open event is not")
	}
}
