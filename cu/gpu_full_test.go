package cu_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// fill records events on a stream that is held until the driver has no room for more, on a
// goroutine, and returns how many it had room for; 0 if there seems to be no end.
func fill(t *testing.T, gpu *Context, raw driver.Stream, stop *atomic.Bool, done chan struct{}) int {
	t.Helper()
	cc := core.Of(gpu).Context
	e, err := cc.CreateEvent(driver.CU_EVENT_DISABLE_TIMING, driver.At{})
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	at := driver.At{Context: cc.Raw}
	go func() {
		defer close(done)
		for !stop.Load() && n.Load() < 100_000 {
			if res := cc.Drv.Table().EventRecord(at, e, raw); res != driver.ResultSuccess {
				t.Logf("record %d: %v", n.Load(), res) // the legacy stream's, while another is being captured
				break
			}
			n.Add(1)
		}
		if err := cc.DestroyEvent(e, driver.At{}); err != nil {
			t.Error(err)
		}
	}()
	for {
		before := n.Load()
		select {
		case <-done:
			return 0
		case <-time.After(time.Second):
		}
		if now := n.Load(); now == before {
			return int(now)
		}
	}
}

// TestGPUFullQueue says what returns while a record waits for room in its stream's queue,
// and expects of this package that it adds nothing to that. For each call the log has what
// the driver's function does, and then this package's.
func TestGPUFullQueue(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy %v", legacy), func(t *testing.T) {
			gpu := GPUContext(t)
			tab := core.Of(gpu).Context.Drv.Table()
			line, err := gpu.NewTimeline(0)
			if err != nil {
				t.Skip(err)
			}
			defer line.Close()
			full := Need(gpu.NewStream(StreamNonBlocking))(t)
			if legacy {
				full = Need(gpu.LegacyStream())(t)
			}
			free, blocking := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(0))(t)
			defer closeAll(t, []*Stream{full, free, blocking})
			e := Need(gpu.NewEvent(EventDisableTiming))(t)
			raw := Need(gpu.NewEvent(EventDisableTiming))(t)
			defer closeAll(t, []*Event{e, raw})
			if err := errors.Join(e.Record(free), raw.Record(free), line.Block(full, 1), e.Record(full)); err != nil {
				t.Fatal(err)
			}
			ticket := Need(e.Ticket())(t)
			var stop atomic.Bool
			filled := make(chan struct{})
			n := fill(t, gpu, core.Of(full).Raw, &stop, filled)
			if n == 0 {
				if err := errors.Join(line.Set(1), ticket.Wait(t.Context())); err != nil {
					t.Error(err)
				}
				t.Skip("the queue has room for all")
			}
			t.Logf("a record waits behind %d others", n)
			// try reports whether a call returns, which it does in the end.
			var late []chan struct{}
			try := func(what string, do func()) bool {
				returned := make(chan struct{})
				began := time.Now()
				go func() { defer close(returned); do() }()
				select {
				case <-returned:
					t.Logf("%s returns after %v", what, time.Since(began))
					return true
				case <-time.After(3 * time.Second):
					t.Logf("%s has not returned after %v", what, time.Since(began))
					late = append(late, returned)
					return false
				}
			}
			check := func(what string, raw, own func()) {
				if try("the driver: "+what, raw) && !try("this package: "+what, own) {
					t.Errorf("%s waits, and the driver does not", what)
				}
			}
			ev := driver.Event(rawEvent(raw))
			check("record elsewhere, of an event that is waited for",
				func() { tab.EventRecord(driver.At{}, ev, core.Of(free).Raw) }, func() { e.Record(free) })
			check("query", func() { tab.EventQuery(driver.At{}, ev) }, func() { raw.Query() })
			check("wait with an end", func() { tab.EventQuery(driver.At{}, ev) }, func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				ticket.Wait(ctx)
			})
			check("wait of a stream", func() { tab.StreamWaitEvent(driver.At{}, core.Of(free).Raw, ev, 0) }, func() { free.WaitEvent(raw) })
			for name, s := range map[string]*Stream{"blocking": blocking, "non-blocking": free} {
				try("this package: capture of a "+name+" stream", func() {
					g, err := graph.Capture(s, graph.CaptureRelaxed, func() error { return nil })
					if err != nil {
						t.Log(err)
						return
					}
					g.Close()
				})
			}
			// A record on the legacy stream that waited for room is made while a blocking one is being captured.
			try("the driver: capture of a blocking stream, beside the record", func() {
				th := tab.Pin()
				defer th.Unpin()
				at := driver.At{Thread: th}
				res := tab.StreamBeginCapture(at, core.Of(blocking).Raw, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
				t.Logf("the capture begins: %v", res)
				if res != driver.ResultSuccess {
					return
				}
				stop.Store(true)
				line.Set(1)
				<-filled
				g, res := tab.StreamEndCapture(at, core.Of(blocking).Raw)
				if t.Logf("the capture ends: %v", res); res == driver.ResultSuccess {
					tab.GraphDestroy(at, g)
				}
			})
			stop.Store(true)
			if err := line.Set(1); err != nil {
				t.Error(err)
			}
			<-filled
			for _, c := range late {
				<-c
			}
			if err := ticket.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
