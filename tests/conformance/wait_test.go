package conformance

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
)

// TestC05Notify calls functions when records complete: once, on a goroutine of their own. The
// functions may call anything.
func TestC05Notify(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s, free := n.newStream(), n.newStream()
		g := n.holds(s)
		e := get(n.gpu.NewEvent(cu.EventDisableTiming))(n)
		n.ok(e.Record(s))
		ticket := get(e.Ticket())(n)
		var calls atomic.Int32
		called := make(chan error, 8)
		tell := func(err error) {
			calls.Add(1)
			called <- err
		}
		var mu sync.Mutex
		mu.Lock() // a call on the goroutine of Notify would hang here
		for range 3 {
			if !ticket.Notify(func(err error) { mu.Lock(); defer mu.Unlock(); tell(err) }) {
				n.t.Error("Notify: nothing was outstanding")
			}
		}
		mu.Unlock()
		n.ok(e.Record(free)) // another record
		n.ok(e.Wait(n.patient()))
		n.settle()
		if n := calls.Load(); n != 0 {
			t.Errorf("%d functions were called while the record is pending", n)
		}
		g.open()
		for range 3 {
			n.ok(<-called)
		}

		// The function is also called for a complete record. Notify then returns false.
		if get(e.Ticket())(n).Notify(tell) || ticket.Notify(tell) {
			n.t.Error("Notify: something was outstanding")
		}
		n.ok(errors.Join(<-called, <-called))

		// The function closes its own event. For a closed event, the function gets an error.
		g = n.holds(s)
		n.ok(e.Record(s))
		other := get(n.gpu.NewEvent(cu.EventDisableTiming))(n)
		n.ok(other.Record(s))
		get(e.Ticket())(n).Notify(func(err error) { tell(errors.Join(err, e.Close())) })
		get(other.Ticket())(n).Notify(tell)
		n.ok(other.Close())
		n.is("closed", <-called, cu.ErrClosed)
		g.open()
		n.ok(<-called)
		n.settle()
		if n := calls.Load(); n != 7 {
			t.Errorf("%d calls, want 7", n)
		}
	})
}

// TestC06CompletedAt reads the times at which records were seen to be complete.
func TestC06CompletedAt(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		g := n.holds(s)
		begin := time.Now()
		var tickets []*cu.Ticket
		for range 3 {
			e := get(n.gpu.NewEvent(cu.EventDisableTiming))(n)
			n.closes(e)
			n.ok(e.Record(s))
			tickets = append(tickets, get(e.Ticket())(n))
		}
		first := tickets[0].Done()
		n.settle()
		for i, ticket := range tickets {
			if at, ok := ticket.CompletedAt(); ok {
				n.t.Errorf("record %d is pending, and has been complete since %v", i, at)
			}
		}
		g.open()
		<-first
		n.ok(tickets[1].Wait(n.patient()))
		at, ok := tickets[0].CompletedAt()
		again, _ := tickets[0].CompletedAt()
		if !ok || !again.Equal(at) || n.sim == nil && (at.Before(begin) || at.After(time.Now())) {
			n.t.Errorf("complete since %v, %v; asked again: %v", at, ok, again)
		}
		if later, ok := tickets[1].CompletedAt(); !ok {
			n.t.Errorf("the second: %v, %v", later, ok)
		}
		if at, ok := tickets[2].CompletedAt(); ok {
			n.t.Errorf("the third was not queried, and it is complete since %v", at)
		}
		n.ok(tickets[2].Wait(n.patient()))
		if at, ok := tickets[2].CompletedAt(); !ok || at.Before(must(tickets[0].CompletedAt())) {
			n.t.Errorf("the third: %v, %v", at, ok)
		}
	})
}

func must[T any](v T, _ bool) T { return v }

// TestC07Sleeps lets a thousand goroutines wait. They hold no threads.
func TestC07Sleeps(t *testing.T) {
	threads := func() int {
		list, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Skip("threads can only be counted on Linux")
		}
		return len(list)
	}
	threads()
	onNouns(t, func(n *nouns) {
		const waiters, streams = 1000, 4
		var gates []interface{ open() }
		var on []*cu.Stream
		for range streams {
			s := n.newStream()
			on = append(on, s)
			gates = append(gates, n.holds(s))
		}
		var wg sync.WaitGroup
		var woken atomic.Int32
		wait := func(i int) {
			e := get(n.gpu.NewEvent(cu.EventDisableTiming))(n)
			n.closes(e)
			n.ok(e.Record(on[i%streams]))
			wg.Go(func() {
				if err := e.Wait(n.patient()); err != nil {
					n.t.Error(err)
				}
				woken.Add(1)
			})
		}
		wait(0)
		time.Sleep(10 * time.Millisecond)
		before := threads()
		for i := range waiters {
			wait(i)
		}
		time.Sleep(30 * time.Millisecond)
		// On a busy machine Go starts threads beside those that are in a call into C for a moment.
		if after := threads(); after > before+waiters/2 {
			n.t.Errorf("%d threads, and %d with a thousand waiters more", before, after)
		}
		if k := woken.Load(); k != 0 {
			n.t.Errorf("%d are awake though the streams are held", k)
		}
		for _, g := range gates {
			g.open()
		}
		n.settle()
		wg.Wait()
	})
}

// TestC08Tickets uses each record of an event as a value: a wait is for the record at its call.
func TestC08Tickets(t *testing.T) {
	onNouns(t, func(n *nouns) {
		const records = 5
		e := get(n.gpu.NewEvent(cu.EventDisableTiming))(n)
		n.closes(e)
		var gates []interface{ open() }
		var tickets []*cu.Ticket
		for range records {
			s := n.newStream()
			gates = append(gates, n.holds(s))
			n.ok(e.Record(s))
			tickets = append(tickets, get(e.Ticket())(n))
		}
		for _, i := range []int{3, 0, 4, 1, 2} { // in any order, because the streams differ
			select {
			case <-tickets[i].Done():
				n.t.Errorf("value %d is reached before its stream went on", i)
			default:
			}
			gates[i].open()
			n.settle()
			n.ok(tickets[i].Wait(n.patient()))
			<-tickets[i].Done()
			n.ok(tickets[i].Err())
		}
	})
}

// TestC08Timeline raises a counter on streams and on the host, and waits for values of it.
func TestC08Timeline(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s, other := n.newStream(), n.newStream()
		tl := get(n.gpu.NewTimeline(7))(n)
		n.closes(tl)
		if v := tl.Value(); v != 7 {
			n.t.Errorf("it begins at %d, want 7", v)
		}
		n.ok(tl.Wait(n.patient(), 7))
		g := n.holds(s)
		n.ok(tl.Signal(s, 10))
		n.ok(tl.Block(other, 10))
		e := get(n.gpu.NewEvent(cu.EventDisableTiming))(n)
		n.closes(e)
		n.ok(e.Record(other))
		wait := n.beginErr(func() error { return tl.Wait(n.patient(), 9) })
		n.settle()
		n.status("behind the counter", e, cu.Pending)
		n.ok(tl.Set(8))
		n.settle()
		n.status("behind the counter, at 8", e, cu.Pending)
		g.open()
		n.settle()
		wait.returns("the wait for 9", ok)
		n.ok(e.Wait(n.patient()))
		if v := tl.Value(); v != 10 {
			n.t.Errorf("it is at %d, want 10", v)
		}
		n.is("back", tl.Set(9), cu.ResultInvalidValue)
	})
}
