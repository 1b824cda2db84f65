package conformance

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// This file tests the order of work: rows E5 and E7.

// TestE05NullStreamIsABarrier records an event on the idle legacy default stream. Earlier work on
// blocking streams precedes the record, and later work follows it.
func TestE05NullStreamIsABarrier(t *testing.T) {
	onEach(t, func(l *lab) {
		busy, idle, free := l.stream(blocking), l.stream(blocking), l.stream(nonBlocking)
		for _, name := range []string{"cuEventRecord", "cuEventRecordWithFlags"} {
			g := l.hold(busy)
			l.complete("a blocking stream that has nothing to do with it", l.mark(idle))
			barrier := l.event(untimed)
			l.want(name, ok, l.call(name, args{Event: barrier, Stream: legacy}).Result)
			l.pending("the record, behind a blocking stream", barrier)
			l.complete("a non-blocking stream", l.mark(free))
			after := []driver.Event{l.mark(idle), l.mark(perThread), l.mark(legacy)}
			for i, e := range after {
				l.pending(fmt.Sprintf("what comes after the record: %d", i), e)
			}
			l.want("a stream behind the record", driver.ResultNotReady, l.StreamQuery(l.at, idle))
			l.complete("a non-blocking stream, later", l.mark(free))
			g.open()
			l.complete("the record", barrier)
			for _, e := range after {
				l.complete("what comes after the record", e)
			}
			l.completes("a stream behind the record", func() driver.Result { return l.StreamQuery(l.at, idle) })
		}

		// In the other direction, blocking streams wait for the legacy default stream, whose record
		// follows its work.
		first := l.event(untimed)
		g := l.hold(free)
		l.record(first, free)
		l.wait(legacy, first)
		barrier := l.mark(legacy)
		l.pending("a record behind what the legacy default stream waits for", barrier)
		l.pending("a blocking stream behind that", l.mark(idle))
		g.open()
		l.complete("the record", barrier)
	})
}

// TestE07Waiting waits for events in contexts that sleep, yield or spin. The results are the same.
// The test cannot see how the processor spends the time, but it sees a call that returns before its
// event is complete.
func TestE07Waiting(t *testing.T) {
	onEach(t, func(l *lab) {
		for _, sched := range []uint32{driver.CU_CTX_SCHED_AUTO, driver.CU_CTX_SCHED_SPIN, driver.CU_CTX_SCHED_YIELD, driver.CU_CTX_SCHED_BLOCKING_SYNC} {
			in := l.context(sched)
			got, r := l.CtxGetFlags(in)
			l.must(r)
			if got&driver.CU_CTX_SCHED_MASK != sched {
				l.t.Errorf("a context that was made with flags %d has %d", sched, got)
			}
			s := l.streamIn(in, nonBlocking)
			for _, flags := range []uint32{timed, untimed, driver.CU_EVENT_BLOCKING_SYNC, driver.CU_EVENT_BLOCKING_SYNC | untimed, driver.CU_EVENT_BLOCKING_SYNC | interprocess} {
				what := fmt.Sprintf("context flags %d, event flags %d", sched, flags)
				e := l.eventIn(in, flags)
				l.want(what+": an event that was never recorded", ok, l.EventSynchronize(l.at, e))
				g := l.hold(s)
				l.record(e, s)
				var early atomic.Int32
				var waiters []*waiter
				for range 3 {
					waiters = append(waiters, l.begin(func(at driver.At) driver.Result {
						r := l.EventSynchronize(at, e)
						if g.word.Load() == 0 {
							early.Add(1)
						}
						return r
					}))
				}
				l.pending(what, e)
				if l.sim == nil || !l.tg.Virtual {
					time.Sleep(2 * time.Millisecond) // time for calls that return early
				}
				g.open()
				for _, w := range waiters {
					w.returns(what, ok)
				}
				if n := early.Load(); n > 0 {
					l.t.Errorf("%s: %d calls have returned before the event was complete", what, n)
				}
				l.want(what+": a complete event", ok, l.EventSynchronize(l.at, e))
				l.want(what+": its query", ok, l.EventQuery(l.at, e))
			}
		}
	})
}
