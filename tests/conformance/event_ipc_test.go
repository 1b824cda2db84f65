package conformance

import (
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// This file tests events that processes share: rows E8 and E9.

// TestE08SharedRecords records an event in two processes. Each record is the newest one for both
// processes. It does not complete before the previous record, even if its stream has no other work.
func TestE08SharedRecords(t *testing.T) {
	onEach(t, func(l *lab) {
		e, h := l.export(l.t.(*testing.T), 0)
		p := l.peer(serve)
		remote := p.want("a handle", "cuIpcOpenEventHandle", args{Handle: h}, ok).Event
		there := p.want("a stream", "cuStreamCreate", args{Flags: nonBlocking}, ok).Stream
		waits := p.want("a stream", "cuStreamCreate", args{Flags: nonBlocking}, ok).Stream
		pendingThere := func(what string) {
			l.t.Helper()
			p.want(what, "cuEventQuery", args{Event: remote}, driver.ResultNotReady)
		}
		held, idle := l.stream(nonBlocking), l.stream(nonBlocking)
		p.want("never recorded", "cuEventQuery", args{Event: remote}, ok)
		for range 3 { // repeatedly, with the same event
			g := l.hold(held)
			l.record(e, held)
			pendingThere("the first record")
			p.want("the first record", "cuStreamWaitEvent", args{Stream: waits, Event: remote}, ok)
			p.want("behind the first record", "cuStreamQuery", args{Stream: waits}, driver.ResultNotReady)

			p.want("the second record", "cuEventRecord", args{Event: remote, Stream: there}, ok)
			pendingThere("the second record")
			l.pending("the second record", e)

			l.record(e, idle)
			l.pending("the third record", e)
			pendingThere("the third record")

			// A stream of this process waits for the record of the other one.
			local := l.stream(nonBlocking)
			l.wait(local, e)
			behind := l.mark(local)
			l.pending("behind the third record", behind)

			g.open()
			l.complete("the third record", e)
			l.complete("behind the third record", behind)
			p.complete("the third record", remote)
			p.want("behind the first record", "cuStreamSynchronize", args{Stream: waits}, ok)
			p.want("the second record", "cuStreamSynchronize", args{Stream: there}, ok)
		}

		// Both processes record in turn, many times. The numbers of records must stay correct.
		for range 50 {
			l.record(e, idle)
			p.want("a record", "cuEventRecord", args{Event: remote, Stream: there}, ok)
		}
		g := l.hold(held)
		l.record(e, held)
		pendingThere("a record after many")
		g.open()
		p.complete("a record after many", remote)
		l.complete("a record after many", e)
		p.want("at the end", "cuEventDestroy", args{Event: remote}, ok)
		l.record(e, idle)
		l.complete("a record after the other process's event was destroyed", e)
	})
}

// TestE09SharedEvents checks the other properties of events that processes share. A thread that
// waits for a record does not wait for later ones, and a query is about the newest one. Such an
// event counts as recorded from its creation, has no time, and cannot be captured.
func TestE09SharedEvents(t *testing.T) {
	onEach(t, func(l *lab) {
		s, first, second := l.stream(nonBlocking), l.stream(nonBlocking), l.stream(nonBlocking)
		p := l.peer(serve)
		for _, flags := range []uint32{0, driver.CU_EVENT_BLOCKING_SYNC} {
			e, h := l.export(l.t.(*testing.T), flags)
			remote := p.want("a handle", "cuIpcOpenEventHandle", args{Handle: h}, ok).Event

			// E3 explains the several attempts.
			right := false
			for delay := 5 * time.Millisecond; delay <= 500*time.Millisecond && !right; delay *= 10 {
				g1, g2 := l.hold(first), l.hold(second)
				l.record(e, first)
				p.begin("cuEventSynchronize", args{Event: remote})
				w := l.begin(func(at driver.At) driver.Result { return l.EventSynchronize(at, e) })
				time.Sleep(delay)
				l.record(e, second)
				l.pending("the second record", e)
				g1.open()
				a, came := p.answer(4 * delay)
				r, returned := w.result(4 * delay)
				l.pending("the second record, when the first is complete", e)
				if came {
					p.want("the second record, when the first is complete", "cuEventQuery", args{Event: remote}, driver.ResultNotReady)
				}
				right = came && returned && a.Result == ok && r == ok
				g2.open()
				if !came {
					if a, came = p.answer(patience); !came || a.Result != ok {
						l.t.Fatalf("the other process's wait: %v, returned: %v", a.Result, came)
					}
				}
				if !returned {
					w.returns("a wait", ok)
				}
				l.complete("the second record", e)
				p.complete("the second record", remote)
			}
			if !right {
				l.t.Errorf("event flags %d: who waits for a record waits for the next one, too", flags)
			}
			p.want("at the end", "cuEventDestroy", args{Event: remote}, ok)
		}

		// Check this process and the other one.
		e, h := l.export(l.t.(*testing.T), 0)
		remote := p.want("a handle", "cuIpcOpenEventHandle", args{Handle: h}, ok).Event
		there := p.want("a stream", "cuStreamCreate", args{Flags: nonBlocking}, ok).Stream
		for _, in := range []struct {
			name string
			call func(name string, a args) answer
			e    driver.Event
			s    driver.Stream
		}{
			{"here", l.call, e, s},
			{"there", p.call, remote, there},
		} {
			want := func(what string, want driver.Result, name string, a args) {
				l.t.Helper()
				l.want(in.name+": "+what+": "+name, want, in.call(name, a).Result)
			}
			a := args{Event: in.e, End: in.e, Stream: in.s}
			want("never recorded", ok, "cuEventQuery", a)
			want("never recorded", ok, "cuEventSynchronize", a)
			want("it has no time", driver.ResultInvalidHandle, "cuEventElapsedTime", a)
			want("it has no time", driver.ResultInvalidHandle, "cuEventElapsedTime_v2", a)

			// A capture continues after a record that fails, but not after a wait. For an event
			// that was never recorded here, the wait does nothing.
			want("a capture", ok, "cuStreamBeginCapture", a)
			want("it is not captured", driver.ResultStreamCaptureUnsupported, "cuEventRecord", a)
			want("the capture continues", ok, "cuStreamEndCapture", a)
			want("a capture", ok, "cuStreamBeginCapture", a)
			want("it counts as recorded", driver.ResultStreamCaptureUnsupported, "cuStreamWaitEvent", a)
			want("the capture does not go on", driver.ResultStreamCaptureInvalidated, "cuStreamEndCapture", a)
			want("it is what it was", ok, "cuEventQuery", a)
			want("a record", ok, "cuEventRecord", a)
			want("a record", ok, "cuEventSynchronize", a)
			want("it still has no time", driver.ResultInvalidHandle, "cuEventElapsedTime", a)
		}
		local := l.event(untimed)
		l.must(l.StreamBeginCapture(l.at, s, relaxed))
		l.want("a local event that was never recorded, in a capture", ok, l.StreamWaitEvent(l.at, s, local, 0))
		l.want("the end of that capture", ok, l.end(s))
		_, r := l.EventCreate(l.at, driver.CU_EVENT_INTERPROCESS)
		l.want("a timed event for several processes", driver.ResultInvalidValue, r)
		p.want("at the end", "cuEventDestroy", args{Event: remote}, ok)
	})
}
