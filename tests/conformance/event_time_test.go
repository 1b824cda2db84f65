package conformance

import (
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// This file tests the time of events: row E6.

// TestE06TimingSemaphore measures times. The device writes the time of each record of a timed event
// when it reaches the record. Before that there is no time, not even that of the previous record.
// Other events have no times.
func TestE06TimingSemaphore(t *testing.T) {
	onEach(t, func(l *lab) {
		s, held := l.stream(nonBlocking), l.stream(nonBlocking)
		spin := l.spinner()
		functions := []string{"cuEventElapsedTime", "cuEventElapsedTime_v2"}
		elapsed := func(what string, start, end driver.Event, want driver.Result) {
			l.t.Helper()
			for _, name := range functions {
				l.want(what+": "+name, want, l.call(name, args{Event: start, End: end}).Result)
			}
		}
		between := func(start, end driver.Event) float32 {
			l.t.Helper()
			ms, r := l.EventElapsedTime(l.at, start, end)
			l.must(r)
			return ms
		}

		// A new event is complete, but has no time.
		born := l.event(timed)
		l.want("an event that was never recorded", ok, l.EventQuery(l.at, born))
		elapsed("an event that was never recorded", born, born, driver.ResultInvalidHandle)

		// Record three points of a stream's work.
		a, b, c := l.event(timed), l.event(timed), l.event(timed)
		l.record(a, s)
		spin(s, 2*time.Millisecond)
		l.record(b, s)
		spin(s, 3*time.Millisecond)
		l.record(c, s)
		l.complete("three records", c)
		ab, bc, ac := between(a, b), between(b, c), between(a, c)
		if ab <= 0 || bc <= 0 {
			l.t.Errorf("later records are earlier: %v ms, %v ms", ab, bc)
		}
		if sum := ab + bc; sum < ac-0.002 || sum > ac+0.002 { // two times half a microsecond, and the rounding of float32
			l.t.Errorf("%v ms and %v ms are not %v ms", ab, bc, ac)
		}
		if back := between(b, a); back != -ab {
			l.t.Errorf("%v ms there, and %v ms back", ab, back)
		}
		if same := between(a, a); same != 0 {
			l.t.Errorf("%v ms between a record and itself", same)
		}

		// Only timed events have a time.
		for _, flags := range []uint32{untimed, untimed | driver.CU_EVENT_BLOCKING_SYNC, interprocess} {
			u := l.event(flags)
			l.record(u, s)
			l.complete("an untimed record", u)
			elapsed("from an untimed event", u, c, driver.ResultInvalidHandle)
			elapsed("to an untimed event", a, u, driver.ResultInvalidHandle)
			elapsed("of an untimed event", u, u, driver.ResultInvalidHandle)
		}
		_, r := l.EventCreate(l.at, driver.CU_EVENT_INTERPROCESS)
		l.want("a timed event for several processes", driver.ResultInvalidValue, r)

		// Record the events again. The old time is gone at once, and the new time exists when the
		// stream reaches the record.
		g := l.hold(held)
		l.record(b, held)
		l.pending("a record that was not reached", b)
		elapsed("to a record that was not reached", a, b, driver.ResultNotReady)
		elapsed("from a record that was not reached", b, c, driver.ResultNotReady)
		elapsed("of a record that was not reached", b, b, driver.ResultNotReady)
		second := l.hold(held)
		l.record(b, held)
		g.open()
		l.settle()
		elapsed("to a second record, when the first is reached", a, b, driver.ResultNotReady)
		second.open()
		l.complete("both records", b)
		if again := between(a, b); again <= ac {
			l.t.Errorf("a record is at %v ms; that of another event, before it, at %v ms", again, ac)
		}
		if back := between(b, c); back >= 0 {
			l.t.Errorf("%v ms to an earlier record", back)
		}
		if same := between(a, c); same != ac {
			l.t.Errorf("other events' records were %v ms apart, and are %v ms", ac, same)
		}

		if l.tg.Virtual {
			l.exactTimes(s)
		} else {
			l.resolution(s)
		}
	})
}

// exactTimes measures with virtual time.
func (l *lab) exactTimes(s driver.Stream) {
	l.t.Helper()
	for _, d := range []time.Duration{0, 1, 500, time.Microsecond, 5 * time.Millisecond, 9 * time.Second, 16*time.Second + time.Microsecond, time.Hour + 1} {
		start := l.mark(s)
		l.sim.Advance(d)
		end := l.mark(s)
		ms, r := l.EventElapsedTimeV2(l.at, start, end)
		l.must(r)
		if want := float32(float64(d) / float64(time.Millisecond)); ms != want {
			l.t.Errorf("%v is %v ms, and not %v", d, ms, want)
		}
	}
}

// resolution logs the smallest difference between the times of two records.
func (l *lab) resolution(s driver.Stream) {
	l.t.Helper()
	least := float32(0)
	last := l.mark(s)
	for range 50 {
		e := l.mark(s)
		l.complete("a record", e)
		ms, r := l.EventElapsedTime(l.at, last, e)
		l.must(r)
		if ms > 0 && (least == 0 || ms < least) {
			least = ms
		}
		last = e
	}
	l.t.Logf("the shortest interval was %v ms", least)
}
