package conformance

import (
	"errors"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
)

// This file tests what an event stands for: rows E1 to E4, E10 and E11.

// TestE01Kinds creates events of all kinds: local events, shared events of this process, and shared
// events of another one. There are no other kinds: the driver's interface cannot create NVN events,
// and EGL events fail.
func TestE01Kinds(t *testing.T) {
	onEach(t, func(l *lab) {
		s, t := l.stream(nonBlocking), l.t.(*testing.T)
		local := l.event(timed)
		_, r := l.IpcGetEventHandle(l.at, local)
		l.want("the handle of a local event", driver.ResultInvalidHandle, r)
		shared, h := l.export(t, 0)
		_, r = l.IpcOpenEventHandle(l.at, h)
		l.want("opening a handle of this process", driver.ResultInvalidContext, r)
		p := l.peer(serve)
		remote := p.want("of this process", "cuIpcOpenEventHandle", args{Handle: h}, ok).Event
		again := p.want("the same once more", "cuIpcOpenEventHandle", args{Handle: h}, ok).Event
		if remote == again {
			t.Error("a handle that is opened twice gave the same event")
		}
		there := p.call("cuStreamCreate", args{Flags: nonBlocking}).Stream
		for _, e := range []driver.Event{local, shared} {
			l.record(e, s)
			l.complete("a record", e)
		}
		p.want("opened", "cuEventRecord", args{Event: remote, Stream: there}, ok)
		p.complete("what was recorded there", remote)
		l.seen("the handle of another process's event", driver.ResultInvalidHandle, p.call("cuIpcGetEventHandle", args{Event: remote}).Result)
		for _, e := range []driver.Event{remote, again} {
			p.want("opened", "cuEventDestroy", args{Event: e}, ok)
		}

		for _, flags := range []uint32{8, 16, 1 << 31} {
			_, r := l.EventCreate(l.at, flags)
			l.want("a flag that there is not", driver.ResultInvalidValue, r)
		}
		option := cu.WithLibrary(l.tg.Library)
		if l.sim != nil {
			option = cu.WithSoftware(l.sim)
		}
		drv, err := cu.Open(option)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := drv.Proc("cuEventCreateFromEGLSync"); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("an event of EGL: %v", err)
		}
	})
}

// TestE02States calls functions with an event in each state, and tests each change to another
// state. An invalid event can be recorded again or destroyed. The driver also accepts it as an
// event of a graph node. At a launch the graph records or waits for whatever the event is then. The
// H200 does so, although the row does not say so.
func TestE02States(t *testing.T) {
	const (
		no      = driver.ResultInvalidHandle
		invalid = driver.ResultInvalidValue
		pending = driver.ResultNotReady
		waits   = driver.Result(-1) // the call would wait, and is not made
	)
	onEach(t, func(l *lab) {
		s, other, held := l.stream(nonBlocking), l.stream(nonBlocking), l.stream(nonBlocking)
		before := l.mark(s)
		l.complete("a record", before)
		l.hold(held)
		g, r := l.GraphCreate(l.at, 0)
		l.must(r)
		for _, state := range []struct {
			name string
			make func() driver.Event
			// These are the results in the state: query, synchronize, elapsed time with the event
			// as the end, wait, wait of the context, and IPC handle.
			query, synchronize, elapsed, wait, ctxWait, ipc driver.Result
		}{
			{"empty", func() driver.Event { return l.event(timed) }, ok, ok, no, ok, ok, no},
			{"recorded and complete", func() driver.Event {
				e := l.mark(s)
				l.complete("a record", e)
				return e
			}, ok, ok, ok, ok, ok, no},
			{"recorded and pending", func() driver.Event { return l.mark(held) }, pending, waits, pending, ok, waits, no},
			{"invalid", func() driver.Event { return l.invalid(s) }, invalid, invalid, invalid, invalid, invalid, no},
		} {
			e := state.make()
			want := func(what string, want driver.Result, ask func() driver.Result) {
				l.t.Helper()
				if want != waits {
					l.want(state.name+": "+what, want, ask())
				}
			}
			want("cuEventQuery", state.query, func() driver.Result { return l.EventQuery(l.at, e) })
			want("cuEventSynchronize", state.synchronize, func() driver.Result { return l.EventSynchronize(l.at, e) })
			for _, name := range []string{"cuEventElapsedTime", "cuEventElapsedTime_v2"} {
				want(name, state.elapsed, func() driver.Result { return l.call(name, args{Event: before, End: e}).Result })
				want(name, state.elapsed, func() driver.Result { return l.call(name, args{Event: e, End: before}).Result })
			}
			want("cuStreamWaitEvent", state.wait, func() driver.Result { return l.StreamWaitEvent(l.at, other, e, 0) })
			want("cuCtxWaitEvent", state.ctxWait, func() driver.Result { return l.CtxWaitEvent(l.at, l.ctx, e) })
			want("cuIpcGetEventHandle", state.ipc, func() driver.Result { _, r := l.IpcGetEventHandle(l.at, e); return r })
			want("cuGraphAddEventRecordNode", ok, func() driver.Result { _, r := l.GraphAddEventRecordNode(l.at, g, nil, e); return r })
			want("cuGraphAddEventWaitNode", ok, func() driver.Result { _, r := l.GraphAddEventWaitNode(l.at, g, nil, e); return r })

			// Test every change from this state to another one.
			e = state.make()
			l.destroy(e)
			e = state.make()
			l.record(e, s)
			l.complete(state.name+", recorded again", e)
			e = state.make()
			l.want(state.name+": cuEventRecordWithFlags", ok, l.EventRecordWithFlags(l.at, e, s, 0))
			l.complete(state.name+", recorded again with flags", e)
			e = state.make()
			l.must(l.StreamBeginCapture(l.at, s, relaxed))
			l.record(e, s)
			l.want(state.name+", then captured", driver.ResultCapturedEvent, l.EventQuery(l.at, e))
			l.want("the capture whose event was queried", driver.ResultStreamCaptureInvalidated, l.end(s))
		}
		e := l.invalid(s)
		l.want("cuCtxRecordEvent of an invalid event", ok, l.CtxRecordEvent(l.at, l.ctx, e))
		l.pending("which has become a recorded one", e)
		l.must(l.GraphDestroy(l.at, g))
	})
}

// invalid returns an event of a capture that has ended.
func (l *lab) invalid(s driver.Stream) driver.Event {
	l.t.Helper()
	e := l.event(timed)
	l.must(l.StreamBeginCapture(l.at, s, relaxed))
	l.record(e, s)
	l.must(l.end(s))
	return e
}

// TestE03PointsAreCopied lets a thread and streams wait for a record of an event, while others
// query the event, record it again and destroy it. Each wait is for the record at its call, and
// does not block the others.
func TestE03PointsAreCopied(t *testing.T) {
	onEach(t, func(l *lab) {
		first, second := l.stream(nonBlocking), l.stream(nonBlocking)

		// This is the thread's wait. The test cannot see when the wait begins. If it begins late,
		// it waits for the second record. Then the test tries again with more time.
		right := false
		for delay := time.Millisecond; delay <= 100*time.Millisecond && !right; delay *= 10 {
			e := l.event(untimed)
			g1, g2 := l.hold(first), l.hold(second)
			l.record(e, first)
			w := l.begin(func(at driver.At) driver.Result { return l.EventSynchronize(at, e) })
			time.Sleep(delay)
			l.pending("a query while a thread waits", e)
			l.record(e, second)
			l.pending("the second record", e)
			g1.open()
			r, returned := w.result(10 * delay)
			right = returned && r == ok
			l.pending("the second record, when the first is complete", e)
			g2.open()
			if !returned {
				w.returns("the thread that waits", ok)
			}
		}
		if !right {
			l.t.Errorf("a thread that waits for a record waits for the next one, too")
		}

		// These are the waits of streams.
		e := l.event(untimed)
		waits, late, after := l.stream(nonBlocking), l.stream(nonBlocking), l.stream(nonBlocking)
		g1, g2 := l.hold(first), l.hold(second)
		l.record(e, first)
		l.wait(waits, e)
		for1 := l.mark(waits)
		l.record(e, second)
		l.wait(late, e)
		for2 := l.mark(late)
		l.pending("behind the first record", for1)
		g1.open()
		l.complete("behind the first record", for1)
		l.pending("behind the second record", for2)
		l.destroy(e)
		l.pending("behind the record of an event that was destroyed", for2)
		g2.open()
		l.complete("behind the record of an event that was destroyed", for2)

		// If the event was complete at the wait, the stream does not wait for later records.
		e = l.mark(first)
		l.complete("a record", e)
		l.wait(after, e)
		g1 = l.hold(first)
		l.record(e, first)
		l.complete("behind a record that was complete", l.mark(after))
		g1.open()
	})
}

// TestE04RecordIsTransactional makes records fail. The event still stands for its previous record.
// The row says that a failed record of a captured event makes the event invalid. On the H200 the
// event is unchanged, whatever the reason of the failure is, unless the failure invalidates the
// capture of the event. Then the event becomes invalid at once.
func TestE04RecordIsTransactional(t *testing.T) {
	onEach(t, func(l *lab) {
		s, held := l.stream(nonBlocking), l.stream(nonBlocking)
		in := l.context(0)
		foreign := l.streamIn(in, nonBlocking)
		nowhere := l.thread()
		invalidated := l.stream(nonBlocking)
		l.must(l.StreamBeginCapture(l.at, invalidated, relaxed))
		l.want("what invalidates a capture", driver.ResultStreamCaptureUnsupported, l.StreamQuery(l.at, invalidated))

		type failing struct {
			name string
			want driver.Result
			call func(e driver.Event) driver.Result
		}
		list := []failing{
			{"a stream of another context", driver.ResultInvalidHandle, func(e driver.Event) driver.Result {
				return l.EventRecord(l.at, e, foreign)
			}},
			{"the default stream of another context", driver.ResultInvalidHandle, func(e driver.Event) driver.Result {
				return l.EventRecord(in, e, legacy)
			}},
			{"the default stream of no context", driver.ResultInvalidContext, func(e driver.Event) driver.Result {
				return nowhere.do(func(at driver.At) driver.Result { return l.EventRecord(at, e, legacy) })
			}},
			{"a flag that there is not", driver.ResultInvalidValue, func(e driver.Event) driver.Result {
				return l.EventRecordWithFlags(l.at, e, s, 2)
			}},
			{"external, outside a capture", driver.ResultIllegalState, func(e driver.Event) driver.Result {
				return l.EventRecordWithFlags(l.at, e, s, external)
			}},
			{"in a capture that is invalidated", driver.ResultStreamCaptureInvalidated, func(e driver.Event) driver.Result {
				return l.EventRecord(l.at, e, invalidated)
			}},
			{"external, in a capture that is invalidated", driver.ResultStreamCaptureInvalidated, func(e driver.Event) driver.Result {
				return l.EventRecordWithFlags(l.at, e, invalidated, external)
			}},
			{"the legacy default stream while a blocking stream is captured", driver.ResultStreamCaptureImplicit, func(e driver.Event) driver.Result {
				b := l.stream(blocking)
				l.must(l.StreamBeginCapture(l.at, b, relaxed))
				r := l.EventRecord(l.at, e, legacy)
				l.want("the end of that capture", driver.ResultStreamCaptureInvalidated, l.end(b))
				return r
			}},
		}
		if l.sim != nil { // the software driver fails on request
			for _, code := range unitCodes() {
				list = append(list, failing{"told to fail", code, func(e driver.Event) driver.Result {
					l.sim.Inject(fault("cuEventRecord", code))
					return l.EventRecord(l.at, e, s)
				}})
			}
		}
		before := l.mark(s)
		l.complete("a record", before)
		for _, f := range list {
			empty, complete, pending, invalid := l.event(timed), l.mark(s), l.event(timed), l.invalid(s)
			l.complete("a record", complete)
			ms, r := l.EventElapsedTime(l.at, before, complete)
			l.must(r)
			g := l.hold(held)
			l.record(pending, held)
			for _, e := range []driver.Event{empty, complete, pending, invalid} {
				l.want(f.name, f.want, f.call(e))
			}
			_, r = l.EventElapsedTime(l.at, before, empty)
			l.want(f.name+": a never recorded event", driver.ResultInvalidHandle, r)
			again, r := l.EventElapsedTime(l.at, before, complete)
			if r != ok || again != ms {
				l.t.Errorf("%s: a record of %v ms has become %v ms, %v", f.name, ms, again, r)
			}
			l.pending(f.name+": a pending record", pending)
			l.want(f.name+": an invalid event", driver.ResultInvalidValue, l.EventQuery(l.at, invalid))
			g.open()
			l.complete(f.name+": a record that was pending", pending)
		}

		// A shared event cannot be captured. The capture continues, and the event still stands for
		// its record.
		shared, h := l.event(interprocess), l.hold(held)
		l.record(shared, held)
		l.must(l.StreamBeginCapture(l.at, s, relaxed))
		l.want("a captured record of a shared event", driver.ResultStreamCaptureUnsupported, l.EventRecord(l.at, shared, s))
		l.pending("a shared event", shared)
		l.want("the end of the capture", ok, l.end(s))
		h.open()
		l.complete("a shared event", shared)

		// This is a captured event. A failure outside of its capture does not change the event. A
		// failure that invalidates the capture makes the event invalid.
		b, e := l.stream(blocking), l.event(timed)
		l.must(l.StreamBeginCapture(l.at, b, relaxed))
		l.record(e, b)
		l.want("a stream of another context", driver.ResultInvalidHandle, l.EventRecord(l.at, e, foreign))
		_, r := l.EventElapsedTime(l.at, before, e)
		l.want("a captured event after that", driver.ResultCapturedEvent, r)
		l.want("the legacy default stream", driver.ResultStreamCaptureImplicit, l.EventRecord(l.at, e, legacy))
		l.want("a captured event after that", driver.ResultInvalidValue, l.EventQuery(l.at, e))
		l.want("a record in its capture", driver.ResultStreamCaptureInvalidated, l.EventRecord(l.at, e, b))
		l.want("the end of the capture", driver.ResultStreamCaptureInvalidated, l.end(b))
		l.want("the end of the other capture", driver.ResultStreamCaptureInvalidated, l.end(invalidated))
		l.record(e, s)
		l.complete("the event, recorded again", e)
	})
}

// captureInfo returns the id of a stream's capture, or 0, and the number of nodes that the next
// node would depend on.
func (l *lab) captureInfo(s driver.Stream) (id, nodes uint64) {
	l.t.Helper()
	status, id, _, _, nodes, r := l.StreamGetCaptureInfoV2(l.at, s)
	if l.Missing(r) != nil {
		status, id, _, _, _, nodes, r = l.StreamGetCaptureInfoV3(l.at, s)
	}
	l.must(r)
	if status != driver.CU_STREAM_CAPTURE_STATUS_ACTIVE {
		return 0, 0
	}
	return id, nodes
}

// TestE10CapturedEvents captures events. Each event keeps the nodes that it waits for. A record
// moves it to another capture or out of all captures. It becomes invalid when its capture ends or
// is invalidated.
func TestE10CapturedEvents(t *testing.T) {
	onEach(t, func(l *lab) {
		s, side, late := l.stream(nonBlocking), l.stream(nonBlocking), l.stream(nonBlocking)
		p, r := l.MemAlloc(l.at, 16)
		l.must(r)
		l.later(func() { l.want("cuMemFree", ok, l.MemFree(l.at, p)) })
		node := func(s driver.Stream) {
			l.t.Helper()
			l.want("cuMemsetD8Async", ok, l.MemsetD8Async(l.at, p, 1, 4, s))
		}
		before := l.mark(s)
		l.complete("a record", before)
		isCaptured := func(what string, e driver.Event) {
			l.t.Helper()
			_, r := l.EventElapsedTime(l.at, before, e) // has no effect
			l.want(what, driver.ResultCapturedEvent, r)
		}

		// Test the set of nodes.
		e, f, two := l.event(timed), l.event(timed), l.event(timed)
		l.must(l.StreamBeginCapture(l.at, s, relaxed))
		node(s)
		l.record(e, s)
		l.wait(side, e)
		node(side)
		node(s)
		l.record(f, side)
		l.wait(s, f)
		l.record(two, s)
		node(s)
		id, nodes := l.captureInfo(s)
		if nodes != 1 {
			l.t.Errorf("the next node would come after %d nodes, not 1", nodes)
		}
		for _, c := range []struct {
			e    driver.Event
			want uint64
		}{{e, 1}, {two, 2}} {
			into := l.stream(nonBlocking)
			l.wait(into, c.e)
			if got, nodes := l.captureInfo(into); got != id || nodes != c.want {
				l.t.Errorf("a stream that waits for %d nodes waits for %d, in capture %d of %d", c.want, nodes, got, id)
			}
			if c.e == two {
				// Wait also for an event whose nodes already precede the next node of the stream.
				// What NVIDIA's driver does then is not known.
				l.wait(into, e)
				if _, nodes := l.captureInfo(into); nodes != 3 && l.sim != nil {
					l.t.Errorf("a stream that waits for three nodes waits for %d", nodes)
				}
			}
		}
		isCaptured("an event of a capture that is under way", e)
		l.want("the end of the capture", ok, l.end(s))
		for _, e := range []driver.Event{e, f, two} {
			l.want("an event of a capture that has ended", driver.ResultInvalidValue, l.EventQuery(l.at, e))
			l.want("a wait for it", driver.ResultInvalidValue, l.StreamWaitEvent(l.at, late, e, 0))
		}

		// Move the event from one capture to another.
		other := l.stream(nonBlocking)
		l.must(l.StreamBeginCapture(l.at, s, relaxed))
		l.must(l.StreamBeginCapture(l.at, other, relaxed))
		here, _ := l.captureInfo(s)
		there, _ := l.captureInfo(other)
		if here == there || here == id || there == id {
			l.t.Errorf("three captures are %d, %d and %d", id, here, there)
		}
		node(s)
		node(other)
		l.record(e, s)
		l.record(e, other)
		l.wait(late, e)
		if got, _ := l.captureInfo(late); got != there {
			l.t.Errorf("who waits for the event is in capture %d, and not in %d", got, there)
		}
		l.want("the end of the capture that the event has left", ok, l.end(s))
		isCaptured("the event, when the capture has ended that it left", e)
		l.want("the end of the event's capture", ok, l.end(other))
		l.want("the event, when its capture has ended", driver.ResultInvalidValue, l.EventQuery(l.at, e))

		// Move one event out of the capture, and end the capture of the other.
		gone := l.event(timed)
		l.must(l.StreamBeginCapture(l.at, s, relaxed))
		l.record(e, s)
		l.record(gone, s)
		l.record(e, other)
		l.destroy(gone)
		l.complete("an event that was recorded elsewhere since", e)
		l.want("the end of the capture that it left", ok, l.end(s))
		l.complete("an event whose former capture has ended", e)

		// Invalidate a capture without ending it.
		l.must(l.StreamBeginCapture(l.at, s, relaxed))
		l.record(e, s)
		l.record(f, s)
		l.want("a query of a captured event", driver.ResultCapturedEvent, l.EventQuery(l.at, e))
		l.want("another event of the same capture", driver.ResultInvalidValue, l.EventQuery(l.at, f))
		l.record(e, other)
		l.complete("an event of an invalidated capture, recorded elsewhere", e)
		l.want("the end of the capture", driver.ResultStreamCaptureInvalidated, l.end(s))
		l.complete("the event, when the capture has ended", e)
	})
}

// TestE11EntryChecks makes calls while a stream is being captured. Some calls fail because of the
// event's state, and some of them invalidate the capture. These are a few of the calls of
// tests/entries, in the situation that is called nonblocking there.
func TestE11EntryChecks(t *testing.T) {
	const (
		none     = driver.Stream(1000) + iota // not captured
		origin                                // the stream on which the capture began
		captured = driver.ResultCapturedEvent
		noHandle = driver.ResultInvalidHandle
		refused  = driver.ResultStreamCaptureUnsupported
		nothing  = driver.ResultInvalidValue
	)
	type state int
	const (
		isEmpty state = iota
		isComplete
		isCaptured
		isInvalid
		isShared // shared with other processes, never recorded
	)
	onEach(t, func(l *lab) {
		mark := l.mark(l.stream(nonBlocking))
		l.complete("a record", mark)
		for _, c := range []struct {
			call  string
			flags uint32
			s     driver.Stream
			event state
			want  driver.Result
			live  bool          // the capture continues
			after driver.Result // result of querying the event, or -1 for no query
		}{
			{"cuEventQuery", 0, 0, isCaptured, captured, false, nothing},
			{"cuEventQuery", 0, 0, isInvalid, nothing, true, nothing},
			{"cuEventQuery", 0, 0, isComplete, refused, false, ok}, // in global mode
			{"cuEventSynchronize", 0, 0, isCaptured, captured, false, nothing},
			{"cuEventSynchronize", 0, 0, isEmpty, refused, false, ok},
			{"cuEventElapsedTime", 0, 0, isCaptured, captured, true, captured},
			{"cuEventElapsedTime_v2", 0, 0, isCaptured, captured, true, captured},
			{"cuEventElapsedTime", 0, 0, isInvalid, nothing, true, nothing},
			{"cuEventElapsedTime", 0, 0, isComplete, ok, true, ok},
			{"cuEventDestroy", 0, 0, isCaptured, ok, true, -1},
			{"cuIpcGetEventHandle", 0, 0, isCaptured, noHandle, true, captured},
			{"cuIpcGetEventHandle", 0, 0, isShared, ok, true, ok},
			{"cuCtxRecordEvent", 0, 0, isEmpty, refused, false, ok},
			{"cuCtxRecordEvent", 0, 0, isCaptured, refused, false, nothing},
			{"cuCtxWaitEvent", 0, 0, isComplete, refused, false, ok},
			{"cuCtxWaitEvent", 0, 0, isInvalid, refused, false, nothing},
			{"cuEventRecord", 0, origin, isEmpty, ok, true, captured},
			{"cuEventRecord", 0, origin, isInvalid, ok, true, captured},
			{"cuEventRecord", 0, origin, isShared, refused, true, ok},
			{"cuEventRecord", 0, none, isCaptured, ok, true, ok},
			{"cuEventRecordWithFlags", external, origin, isShared, ok, true, ok},
			{"cuEventRecordWithFlags", external, origin, isCaptured, ok, true, captured},
			{"cuEventRecordWithFlags", external, none, isCaptured, driver.ResultIllegalState, true, captured},
			{"cuStreamWaitEvent", 0, origin, isEmpty, ok, true, ok},
			{"cuStreamWaitEvent", 0, origin, isComplete, driver.ResultStreamCaptureIsolation, false, ok},
			{"cuStreamWaitEvent", 0, origin, isInvalid, nothing, false, nothing},
			{"cuStreamWaitEvent", 0, origin, isShared, refused, false, ok},
			{"cuStreamWaitEvent", 0, none, isInvalid, nothing, true, nothing},
			{"cuStreamWaitEvent", 0, none, isCaptured, ok, true, captured},
			{"cuStreamWaitEvent", external, origin, isComplete, ok, true, ok},
			{"cuStreamWaitEvent", external, none, isCaptured, driver.ResultIllegalState, true, captured},
		} {
			s, free := l.stream(nonBlocking), l.stream(nonBlocking)
			var e driver.Event
			switch c.event {
			case isEmpty, isCaptured:
				e = l.event(timed)
			case isComplete:
				e = l.mark(free)
				l.complete("a record", e)
			case isInvalid:
				e = l.invalid(free)
			case isShared:
				e = l.event(interprocess)
			}
			l.must(l.StreamBeginCapture(l.at, s, driver.CU_STREAM_CAPTURE_MODE_GLOBAL))
			if c.event == isCaptured {
				l.record(e, s)
			}
			a := args{Event: e, End: mark, Stream: s, Context: l.ctx, Flags: c.flags}
			if c.s == none {
				a.Stream = free
			}
			if c.call == "cuEventDestroy" {
				l.gone[uintptr(e)] = true
			}
			r := l.call(c.call, a).Result
			if r == driver.ResultNotSupported && c.event == isShared { // some systems cannot share events between processes
				r = ok
			}
			status, sr := l.StreamIsCapturing(l.at, s)
			l.must(sr)
			live := status == driver.CU_STREAM_CAPTURE_STATUS_ACTIVE
			if r != c.want || live != c.live {
				l.t.Errorf("%s, flags %d, with an event in state %d: %d (%v), and the capture is in state %d; want %d, and going on: %v",
					c.call, c.flags, c.event, r, r, status, c.want, c.live)
			}
			if c.after >= 0 {
				in := l.at
				in.Relaxed = true
				l.want(c.call+": the event afterwards", c.after, l.eventually(func() driver.Result { return l.EventQuery(in, e) }))
			}
			end := ok
			if !c.live || c.after == captured { // or the call was that query
				end = driver.ResultStreamCaptureInvalidated
			}
			l.want(c.call+": the end of the capture", end, l.end(s))
		}
	})
}
