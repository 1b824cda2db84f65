package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cutrace"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/tests/traceformat"
)

// lives checks that tracers get the creation of each event and stream once, then its uses, and its
// destruction once. Handles may be reused.
type lives struct {
	t       *testing.T
	mu      sync.Mutex
	alive   map[uintptr]bool
	created int
}

func (l *lives) trace(t trace.Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range []uintptr{t.Event, t.Stream} {
		if h <= driver.CU_STREAM_PER_THREAD {
			continue // none, or a default stream
		}
		created := t.Op == trace.EventCreate || t.Op == trace.StreamCreate
		if l.alive[h] == created {
			l.t.Errorf("%v of %#x, which was alive: %v", t.Op, h, l.alive[h])
		}
		if created {
			l.created++
			l.alive[h] = true
		}
		if t.Op == trace.EventDestroy || t.Op == trace.StreamDestroy {
			delete(l.alive, h)
		}
	}
}

// loadSpin loads the kernel that keeps a stream busy.
func (n *nouns) loadSpin() func(s *cu.Stream, d time.Duration) error {
	n.t.Helper()
	image := get(os.ReadFile("../behaviour/testdata/spin.ptx"))(n)
	mod := get(n.gpu.LoadModule(image))(n)
	n.closes(mod)
	f := get(mod.Function("spin"))(n)
	spin := func(s *cu.Stream, d time.Duration) error {
		return f.Launch(s, cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}, cu.U64(uint64(d)))
	}
	s := n.newStream()
	n.ok(spin(s, time.Microsecond)) // the first launch loads the kernel
	n.beginErr(s.Synchronize).returns("a first kernel", ok)
	return spin
}

// TestA15Lives makes all calls that create events and streams, including those that the library
// creates, on several goroutines, while tracers come and go. A tracer that stays gets the creation
// and the destruction of each object once, and no call outside of its life.
func TestA15Lives(t *testing.T) {
	onNouns(t, func(n *nouns) {
		spin := n.loadSpin()
		gpu := get(n.device(n.devices - 1).NewContext(0))(n)
		book := &lives{t: n.t, alive: make(map[uintptr]bool)}
		remove := trace.Add(n.drv, book.trace)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				check := func(err error) {
					if err != nil {
						n.t.Error(err)
					}
				}
				for range 20 {
					removeOther := trace.Add(n.drv, func(trace.Operation) {})
					removeCalls := trace.AddCalls(n.drv, func(trace.Call) {})
					s, err := gpu.NewStream(cu.StreamNonBlocking)
					check(err)
					shared, err := gpu.PoolStream(0)
					check(err)
					var e cu.Event
					check(e.RecordOnce(s))
					check(shared.WaitStream(s))
					check(e.Block(shared))
					removeOther()
					ticket, err := e.Ticket()
					check(err)
					check(e.Record(shared))
					check(ticket.Wait(context.Background()))
					host, err := gpu.AllocHost(8, 0)
					check(err)
					mem, err := gpu.Alloc(8)
					check(err)
					check(s.Copy(mem, host))
					check(e.Close())
					check(shared.Close())
					check(s.Close())
					check(host.Close()) // waits until the stream has ended
					check(mem.Close())
					removeCalls()
				}
			})
		}
		done := n.beginErr(func() error { wg.Wait(); return nil })
		done.returns("the goroutines", ok)
		n.ok(gpu.Close())
		n.until("everything is destroyed", func() bool {
			book.mu.Lock()
			defer book.mu.Unlock()
			return len(book.alive) == 0
		})
		remove()
		if book.created < 100 {
			n.t.Errorf("%d creations were told", book.created)
		}
		n.ok(spin(n.newStream(), time.Microsecond)) // there are no tracers
	})
}

// TestA15CallBack lets tracers use the objects in their traces.
func TestA15CallBack(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s, other := n.newStream(), n.newStream()
		var e cu.Event
		busy, told := false, 0
		again := func() {
			if told++; busy {
				return
			}
			busy = true
			defer func() { busy = false }()
			for _, err := range []error{e.RecordOnce(other), e.Record(other), e.Block(s), other.WaitStream(s), e.Synchronize()} {
				if err != nil {
					n.t.Error(err)
				}
			}
			if _, err := e.Query(); err != nil {
				n.t.Error(err)
			}
			trace.Add(n.drv, func(trace.Operation) {})()
		}
		remove := trace.Add(n.drv, func(trace.Operation) { again() })
		removeCalls := trace.AddCalls(n.drv, func(trace.Call) { again() })
		n.beginErr(func() error {
			if err := e.Record(s); err != nil {
				return err
			}
			if err := s.WaitStream(other); err != nil {
				return err
			}
			return s.Synchronize()
		}).returns("calls with tracers that call back", ok)
		remove()
		removeCalls()
		if told == 0 {
			n.t.Error("the tracers are told nothing")
		}
		n.ok(e.Close())
	})
}

// TestA15Calls compares the traces of the two kinds of tracers.
func TestA15Calls(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		var ops traced
		var calls []trace.Call
		defer trace.Add(n.drv, ops.add)()
		defer trace.AddCalls(n.drv, func(c trace.Call) { calls = append(calls, c) })()
		e := get(s.RecordNew(cu.EventDefault))(n)
		n.ok(s.WaitEvent(e))
		n.ok(e.Synchronize())
		n.ok(s.Synchronize())
		n.ok(e.Close())
		told := ops.take()
		if len(told) != 6 || len(calls) != 6 {
			n.t.Fatalf("told %v, and %v", told, calls)
		}
		var last time.Time
		for i, c := range calls {
			if c.Operation != told[i] || c.Result != cu.ResultSuccess || c.Duration < 0 || c.Start.Before(last) {
				n.t.Errorf("call %d is %+v, told %v", i, c, told[i])
			}
			last = c.Start
		}
	})
}

// TestA15Timeline traces a pipeline of three streams. Viewers must accept the file, and its
// intervals are the results of Since.
func TestA15Timeline(t *testing.T) {
	onNouns(t, func(n *nouns) {
		spin := n.loadSpin()
		var rec *cutrace.Recorder
		n.beginErr(func() (err error) {
			rec, err = cutrace.Start(context.Background(), n.gpu, cutrace.Options{})
			return err
		}).returns("Start", ok)
		const rounds = 4
		var streams [3]*cu.Stream
		var events [3]cu.Event
		type measured struct {
			name        string
			s           *cu.Stream
			start, stop *cu.Event
		}
		var own []measured
		for i := range streams {
			streams[i] = n.newStream()
			rec.Name(streams[i], fmt.Sprint("stage ", i))
			defer events[i].Close()
		}
		for round := range rounds {
			for i, s := range streams {
				n.ok(s.WaitEvent(&events[(i+2)%3]))
				start, stop := n.newEvent(cu.EventDefault), n.newEvent(cu.EventDefault)
				n.ok(rec.Span(s, fmt.Sprintf("span %d.%d", round, i), func() error {
					n.ok(start.Record(s))
					n.ok(spin(s, time.Duration(50+10*i)*time.Microsecond))
					return stop.Record(s)
				}))
				own = append(own, measured{fmt.Sprintf("interval %d.%d", round, i), s, start, stop})
				n.ok(events[i].Record(s))
			}
		}
		ctx := n.patient()
		n.beginErr(func() error { return rec.Flush(ctx) }).returns("Flush", ok)
		for _, m := range own {
			n.ok(rec.Interval(ctx, m.s, m.name, m.start, m.stop))
		}
		n.beginErr(func() error { return rec.Close(ctx) }).returns("Close", ok)
		if st := rec.Stats(); st.Spans != 6*rounds || st.Arrows != 3*rounds-1 || st.Err != nil || st.DroppedSpans != 0 {
			n.t.Errorf("%+v", st)
		}
		var file bytes.Buffer
		get(rec.WriteTo(&file))(n)
		tr, err := traceformat.Parse(file.Bytes())
		n.ok(err)
		spans := make(map[string]traceformat.Event)
		arrows := make(map[int][]traceformat.Event)
		for _, e := range tr.Events {
			switch e.Ph {
			case "X":
				spans[e.Name] = e
			case "s", "f":
				arrows[e.ID] = append(arrows[e.ID], e)
			}
		}
		for _, m := range own {
			d, st, err := m.stop.Since(m.start)
			n.ok(err)
			s := spans[m.name]
			if st != cu.Complete || s.Length != int64(d) || s.Args["ns"] != json.Number(fmt.Sprint(int64(d))) {
				n.t.Errorf("%s is %d ns long in the trace, %v says Since", m.name, s.Length, d)
			}
			outer := spans["span"+m.name[len("interval"):]]
			const rounding = 2000
			if s.Start < outer.Start-rounding || s.End() > outer.End()+rounding {
				n.t.Errorf("%s lies from %d to %d, and the span around it from %d to %d", m.name, s.Start, s.End(), outer.Start, outer.End())
			}
		}
		if len(arrows) != 3*rounds-1 {
			n.t.Errorf("%d arrows, want %d", len(arrows), 3*rounds-1)
		}
		for id, a := range arrows {
			if *a[0].TID == *a[1].TID {
				n.t.Errorf("arrow %d is on one stream", id)
			}
		}
	})
}
