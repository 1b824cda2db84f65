package behaviour

import (
	"time"

	"github.com/purecu/purecu/driver"
)

// foundEvents are about records and waits.
func foundEvents() []found {
	return []found{
		{famRecord, "rerecord-pending-again", "a poller that assumes that an event stays complete", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			e := c.ended(timed, s)
			c.res("query-complete", c.EventQuery(c.at, e))
			g := c.gate()
			g.hold(s)
			c.record(e, s)
			c.res("query-again", c.settled(e))
			g.open()
			c.res("sync", c.EventSynchronize(c.at, e))
		}},
		{famRecord, "wait-keeps-old-record", "using one event for two purposes: a wait for the first record does not end with the second one", func(c *raw) {
			c.setup()
			s1, g := c.held(nonBlocking)
			e := c.event(untimed)
			c.record(e, s1)
			s2, s3 := c.stream(nonBlocking), c.stream(nonBlocking)
			c.res("wait", c.StreamWaitEvent(c.at, s2, e, 0))
			c.record(e, s3)
			c.res("query-newest", c.settled(e))
			c.res("waiter", c.reached(s2))
			g.open()
			c.res("waiter-afterwards", c.StreamSynchronize(c.at, s2))
		}},
		{famRecord, "rerecord-start", "recording the start of an interval again: the time is negative, without an error", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			a := c.ended(timed, s)
			b := c.ended(timed, s)
			c.record(a, s)
			c.sync(a)
			ms, res := c.EventElapsedTime(c.at, a, b)
			c.res("elapsed", res)
			c.val("negative", ms < 0)
		}},
		{famRecord, "elapsed-with-itself", "dividing by the time from an event to itself", func(c *raw) {
			c.setup()
			a := c.ended(timed, c.stream(nonBlocking))
			ms, res := c.EventElapsedTime(c.at, a, a)
			c.res("elapsed", res)
			c.val("zero", ms == 0)
		}},
		{famRecord, "destroy-while-pending", "waiting before destroying an event: this is not necessary", func(c *raw) {
			c.setup()
			s, g := c.held(nonBlocking)
			e := c.event(timed)
			c.record(e, s)
			c.res("destroy", c.EventDestroy(c.at, e))
			c.res("stream", c.StreamQuery(c.at, s))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, s))
		}},
		{famRecord, "destroy-after-wait", "keeping an event for streams that wait for it: they do not need the event any more", func(c *raw) {
			c.setup()
			s1, g := c.held(nonBlocking)
			s2 := c.stream(nonBlocking)
			e := c.event(untimed)
			c.record(e, s1)
			c.must("cuStreamWaitEvent", c.StreamWaitEvent(c.at, s2, e, 0))
			c.res("destroy", c.EventDestroy(c.at, e))
			c.res("waiter", c.reached(s2))
			g.open()
			c.res("waiter-afterwards", c.StreamSynchronize(c.at, s2))
		}},
		{famRecord, "failed-record", "assuming that an event has a record, or none, after a failed record: the event is unchanged", func(c *raw) {
			dev, ctx := c.setup()
			s, g := c.held(nonBlocking)
			e := c.event(untimed)
			c.record(e, s)
			c.context(dev)
			foreign := c.stream(nonBlocking)
			c.current(ctx)
			c.res("record-elsewhere", c.EventRecord(c.at, e, foreign))
			c.res("still-pending", c.settled(e))
			g.open()
			c.res("sync", c.EventSynchronize(c.at, e))
			c.res("record-elsewhere-again", c.EventRecord(c.at, e, foreign))
			c.res("still-complete", c.EventQuery(c.at, e))
		}},
		{famRecord, "record-flags", "passing flags on without a check", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			c.res("two", c.EventRecordWithFlags(c.at, e, s, 2))
			c.res("external-outside", c.EventRecordWithFlags(c.at, e, s, driver.CU_EVENT_RECORD_EXTERNAL))
			c.res("both", c.EventRecordWithFlags(c.at, e, s, 3))
			c.res("elapsed-afterwards", bare(c.EventElapsedTime(c.at, e, e)))
		}},
		{famRecord, "outlives-stream", "keeping a stream until its events were read", func(c *raw) {
			c.setup()
			s, g := c.held(nonBlocking)
			a, b := c.event(timed), c.event(timed)
			c.record(a, s)
			c.record(b, s)
			c.res("destroy-stream", c.StreamDestroy(c.at, s))
			c.res("query", c.settled(b))
			c.res("elapsed-pending", bare(c.EventElapsedTime(c.at, a, b)))
			g.open()
			c.res("sync", c.EventSynchronize(c.at, b))
			c.res("elapsed", bare(c.EventElapsedTime(c.at, a, b)))
		}},
		{famRecord, "elapsed-pending-start", "reading a time before both records are complete: NOT_READY, whichever is pending", func(c *raw) {
			c.setup()
			s, g := c.held(nonBlocking)
			a := c.event(timed)
			c.record(a, s)
			b := c.ended(timed, c.stream(nonBlocking))
			c.res("start-pending", bare(c.EventElapsedTime(c.at, a, b)))
			c.res("end-pending", bare(c.EventElapsedTime(c.at, b, a)))
			c.res("v2", bare(c.EventElapsedTimeV2(c.at, b, a)))
			g.open()
			c.sync(a)
			c.res("both", bare(c.EventElapsedTime(c.at, b, a)))
		}},

		{famWait, "wait-takes-record-of-now", "waiting before the record: such a wait does nothing", func(c *raw) {
			c.setup()
			s1, g := c.held(nonBlocking)
			s2, e := c.stream(nonBlocking), c.event(untimed)
			c.res("wait", c.StreamWaitEvent(c.at, s2, e, 0))
			c.record(e, s1)
			c.res("waiter", c.reached(s2))
			g.open()
		}},
		{famWait, "wait-for-itself", "avoiding that a stream waits for its own event: there is no deadlock", func(c *raw) {
			c.setup()
			s, g := c.held(nonBlocking)
			e := c.event(untimed)
			c.record(e, s)
			c.res("wait", c.StreamWaitEvent(c.at, s, e, 0))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, s))
		}},
		{famWait, "wait-across-contexts", "rejecting waits for events of another context: only records need the same context", func(c *raw) {
			dev, _ := c.setup()
			s1, g := c.held(nonBlocking)
			e := c.event(untimed)
			c.record(e, s1)
			c.context(dev)
			s2 := c.stream(nonBlocking)
			c.res("wait", c.StreamWaitEvent(c.at, s2, e, 0))
			c.res("waiter", c.reached(s2))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, s2))
		}},
		{famWait, "context-waits", "assuming that cuCtxWaitEvent affects existing streams only: future streams wait, too", func(c *raw) {
			_, ctx := c.setup()
			s1, g := c.held(nonBlocking)
			before := c.stream(nonBlocking)
			e := c.event(untimed)
			c.record(e, s1)
			c.res("wait", c.CtxWaitEvent(c.at, ctx, e))
			c.res("stream-of-before", c.reached(before))
			c.res("stream-of-afterwards", c.reached(c.stream(nonBlocking)))
			c.res("legacy", c.reached(null))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "context-waits-for-complete", "an unwanted barrier: whether a wait for a complete event blocks anything", func(c *raw) {
			_, ctx := c.setup()
			e := c.ended(untimed, c.stream(nonBlocking))
			blocking, g := c.held(0)
			c.res("legacy", c.settled(c.recorded(null)))
			c.res("wait", c.CtxWaitEvent(c.at, ctx, e))
			c.res("other-stream", c.reached(c.stream(nonBlocking)))
			c.res("held-stream", c.StreamQuery(c.at, blocking))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "context-waits-for-timed", "the same with an event that records the time", func(c *raw) {
			c.setup()
			c.contextWaits(c.ended(timed, c.stream(nonBlocking)), nonBlocking)
		}},
		{famWait, "context-waits-for-timed-unrecorded", "the same with one that was never recorded", func(c *raw) {
			c.setup()
			c.contextWaits(c.event(timed), nonBlocking)
		}},
		{famWait, "context-waits-for-complete-behind-legacy", "the same while the default stream is busy: which streams wait for it afterwards", func(c *raw) {
			c.setup()
			c.contextWaits(c.ended(untimed, c.stream(nonBlocking)), legacyIsHeld)
		}},
		{famWait, "context-waits-for-timed-behind-legacy", "the same with an event that records the time", func(c *raw) {
			c.setup()
			c.contextWaits(c.ended(timed, c.stream(nonBlocking)), legacyIsHeld)
		}},
		{famWait, "context-waits-for-per-thread", "the same with an event of the thread's default stream", func(c *raw) {
			c.setup()
			c.contextWaits(c.ended(timed, driver.CU_STREAM_PER_THREAD), legacyIsHeld)
		}},
		{famWait, "context-waits-for-legacy", "the same with an event of the default stream itself", func(c *raw) {
			c.setup()
			c.contextWaits(c.ended(untimed, null), nonBlocking)
		}},
		{famWait, "context-waits-for-unrecorded", "the same with an event without a record, and with a stream that does not wait for the default stream", func(c *raw) {
			_, ctx := c.setup()
			e, shared := c.event(untimed), c.event(untimed|driver.CU_EVENT_INTERPROCESS)
			_, g := c.held(nonBlocking)
			c.res("wait", c.CtxWaitEvent(c.at, ctx, e))
			c.res("other-stream", c.reached(c.stream(nonBlocking)))
			c.res("wait-interprocess", c.CtxWaitEvent(c.at, ctx, shared))
			c.res("other-stream-again", c.reached(c.stream(nonBlocking)))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "context-waits-for-interprocess", "the same with a complete shared event", func(c *raw) {
			_, ctx := c.setup()
			e := c.ended(untimed|driver.CU_EVENT_INTERPROCESS, c.stream(nonBlocking))
			_, g := c.held(nonBlocking)
			c.res("wait", c.CtxWaitEvent(c.at, ctx, e))
			other := c.stream(nonBlocking)
			c.res("other-stream", c.reached(other))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, other))
		}},
		{famWait, "context-waits-behind-its-records", "an unwanted barrier: a wait of a context follows an earlier record of that context", func(c *raw) {
			c.setup()
			c.waitsBehindRecords(c.ended(timed, c.stream(nonBlocking)), 0)
		}},
		{famWait, "context-waits-behind-its-records-for-unrecorded", "the same with an event that was never recorded", func(c *raw) {
			c.setup()
			c.waitsBehindRecords(c.event(timed), 0)
		}},
		{famWait, "context-waits-behind-its-records-for-legacy", "the same with an event of the default stream", func(c *raw) {
			c.setup()
			c.waitsBehindRecords(c.ended(timed, null), 0)
		}},
		{famWait, "context-waits-behind-its-records-for-untimed", "the same with an event that does not record the time", func(c *raw) {
			c.setup()
			c.waitsBehindRecords(c.ended(untimed, c.stream(nonBlocking)), 0)
		}},
		{famWait, "context-waits-behind-its-records-again", "the same with an event that it waited for already", func(c *raw) {
			c.setup()
			c.waitsBehindRecords(c.ended(timed, c.stream(nonBlocking)), 2)
		}},
		{famWait, "context-waits-among-others", "a deadlock: whether a wait for one event blocks streams until other waits have ended", func(c *raw) {
			_, ctx := c.setup()
			s, g1 := c.held(nonBlocking)
			_, g2 := c.held(nonBlocking)
			blocking, g3 := c.held(0)
			e, p := c.event(untimed), c.memory()
			c.record(e, s)
			c.must("cuMemsetD8Async", c.set(p, blocking))
			c.res("wait", c.CtxWaitEvent(c.at, ctx, e))
			other := c.stream(nonBlocking)
			c.must("cuMemsetD8Async", c.set(p, other))
			f, h := c.recorded(other), c.recorded(null)
			c.res("before", c.settled(f))
			g1.open()
			c.res("event-complete", c.settled(e))
			c.res("other-stream", c.settled(f))
			g2.open()
			c.res("other-open", c.settled(f))
			c.res("legacy", c.settled(h))
			g3.open()
			c.res("all-open", c.settled(f))
			c.res("legacy-all-open", c.settled(h))
		}},
		{famWait, "context-records", "polling every stream: one event of the context completes after all streams", func(c *raw) {
			_, ctx := c.setup()
			_, g1 := c.held(nonBlocking)
			_, g2 := c.held(0)
			e := c.event(untimed)
			c.res("record", c.CtxRecordEvent(c.at, ctx, e))
			c.res("query", c.settled(e))
			g1.open()
			c.res("one-open", c.settled(e))
			g2.open()
			c.res("both-open", c.EventSynchronize(c.at, e))
		}},
		{famWait, "legacy-waits-for-complete", "a wait of the default stream: it is a barrier for all blocking streams", func(c *raw) {
			c.setup()
			e := c.ended(untimed, c.stream(nonBlocking))
			_, g := c.held(0)
			other, free := c.stream(0), c.stream(nonBlocking)
			c.res("other-before", c.reached(other))
			c.res("wait", c.StreamWaitEvent(c.at, null, e, 0))
			c.res("other-afterwards", c.reached(other))
			c.res("non-blocking", c.reached(free))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "legacy-waits-for-unrecorded", "the same with an event that was never recorded", func(c *raw) {
			c.setup()
			_, g := c.held(0)
			other := c.stream(0)
			c.res("wait", c.StreamWaitEvent(c.at, null, c.event(untimed), 0))
			c.res("other-afterwards", c.reached(other))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "blocking-waits-for-complete", "querying a stream that only waited for a complete event, while the default stream is busy", func(c *raw) {
			c.setup()
			e := c.ended(untimed, c.stream(nonBlocking))
			s, g := c.stream(0), c.gate()
			g.hold(null)
			c.res("query-before", c.StreamQuery(c.at, s))
			c.res("wait", c.StreamWaitEvent(c.at, s, e, 0))
			c.res("query-afterwards", c.StreamQuery(c.at, s))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "blocking-waits-for-interprocess", "querying a stream that only waited for a shared event: it is not idle while the default stream is busy", func(c *raw) {
			c.setup()
			const shared = untimed | driver.CU_EVENT_INTERPROCESS
			complete, never, g := c.ended(shared, c.stream(nonBlocking)), c.event(shared), c.gate()
			own := c.stream(blocking)
			ofOwn := c.ended(shared, own)
			streams := []driver.Stream{c.stream(blocking), c.stream(blocking), own, c.stream(nonBlocking)}
			g.hold(null)
			for i, of := range []struct {
				name string
				e    driver.Event
			}{{"complete", complete}, {"unrecorded", never}, {"its-own", ofOwn}, {"non-blocking", complete}} {
				c.res(of.name, c.wait(streams[i], of.e))
				c.res(of.name+"-query", c.drained(streams[i]))
			}
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "legacy-waits-for-unrecorded-interprocess", "an unwanted barrier: the default stream waits for a shared event", func(c *raw) {
			c.setup()
			_, g := c.held(0)
			other := c.stream(0)
			c.res("wait", c.wait(null, c.event(untimed|driver.CU_EVENT_INTERPROCESS)))
			c.res("other-afterwards", c.reached(other))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famJoin, "context-waits-for-captured", "making a context wait for an event of another context's capture, which fails", func(c *raw) {
			dev, ctx := c.setup()
			other := c.aside(dev)
			for _, of := range []struct {
				name string
				mode int32
			}{{"global", capGlobal}, {"thread-local", capThread}, {"relaxed", capRelaxed}} {
				s, e := c.stream(nonBlocking), c.event(untimed)
				c.begin(s, of.mode)
				c.record(e, s)
				c.res(of.name, c.CtxWaitEvent(c.at, other, e))
				c.status(of.name+"-status", s)
				c.res(of.name+"-again", c.CtxWaitEvent(c.at, other, e))
				c.res(of.name+"-own", c.CtxWaitEvent(c.at, ctx, e))
				c.res(of.name+"-end", c.end(s))
			}
		}},
		{famJoin, "record-of-another-context-when-invalidated", "searching for the mistake in an event whose capture was invalidated before", func(c *raw) {
			dev, _ := c.setup()
			s, e := c.stream(nonBlocking), c.inside(c.aside(dev)).event(untimed)
			c.begin(s, capRelaxed)
			c.res("active", c.EventRecord(c.at, e, s))
			c.status("status", s)
			c.must("cuStreamEndCapture", c.end(s))
			c.begin(s, capRelaxed)
			c.res("spoil", c.streamQuery(s))
			c.res("invalidated", c.EventRecord(c.at, e, s))
			c.res("invalidated-external", c.external(e, s))
			c.res("end", c.end(s))
		}},
		{famWait, "wait-again-behind-legacy", "a second wait for the same event: whether it makes the stream wait for the default stream", func(c *raw) {
			c.setup()
			t, g := c.held(nonBlocking)
			e, f := c.event(untimed), c.event(untimed)
			once, twice, later, via := c.stream(blocking), c.stream(blocking), c.stream(blocking), c.stream(blocking)
			u, between := c.stream(nonBlocking), c.event(untimed)
			c.record(e, t)
			c.record(f, t)
			c.must("cuStreamWaitEvent", c.wait(twice, e))
			c.must("cuStreamWaitEvent", c.wait(later, f))
			c.must("cuStreamWaitEvent", c.wait(u, e))
			c.record(between, u)
			c.must("cuStreamWaitEvent", c.wait(via, between))
			last := c.gate()
			last.hold(null)
			for _, s := range []driver.Stream{once, twice, later, via} {
				c.must("cuStreamWaitEvent", c.wait(s, e))
			}
			g.open()
			c.res("event", c.settled(e))
			c.res("first-wait", c.drained(once))
			c.res("second-wait", c.drained(twice))
			c.res("after-a-later-one", c.drained(later))
			c.res("after-one-that-waits", c.drained(via))
			last.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "wait-for-legacy-behind-legacy", "a wait for an event of the default stream by a stream that waits for the default stream anyway", func(c *raw) {
			c.setup()
			idle, busy, timedBusy, recorded, p := c.stream(blocking), c.stream(blocking), c.stream(blocking), c.stream(blocking), c.memory()
			g, last, e, f := c.gate(), c.gate(), c.event(untimed), c.event(timed)
			g.hold(null)
			c.record(e, null)
			c.record(f, null)
			c.must("cuMemsetD8Async", c.set(p, busy))
			c.must("cuMemsetD8Async", c.set(p, timedBusy))
			c.record(c.event(timed), recorded)
			last.hold(null)
			c.must("cuStreamWaitEvent", c.wait(idle, e))
			c.must("cuStreamWaitEvent", c.wait(busy, e))
			c.must("cuStreamWaitEvent", c.wait(timedBusy, f))
			c.must("cuStreamWaitEvent", c.wait(recorded, e))
			g.open()
			c.res("event", c.settled(e))
			c.res("idle", c.drained(idle))
			c.res("busy", c.drained(busy))
			c.res("busy-timed", c.drained(timedBusy))
			c.res("recorded", c.drained(recorded))
			last.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "untimed-record-behind-legacy", "an event that completes at once, because its stream has no work except to wait for the default stream", func(c *raw) {
			c.setup()
			s, t, g := c.stream(0), c.stream(0), c.gate()
			g.hold(null)
			c.res("query-idle", c.StreamQuery(c.at, s))
			e, f := c.event(untimed), c.event(timed)
			c.record(e, s)
			c.res("untimed", c.settled(e))
			c.res("stream", c.StreamQuery(c.at, s))
			c.record(f, t)
			c.res("timed", c.settled(f))
			c.res("stream-timed", c.StreamQuery(c.at, t))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "untimed-record-behind-legacy-per-thread", "the same on the thread's default stream", func(c *raw) {
			c.setup()
			g, e := c.gate(), c.event(untimed)
			g.hold(null)
			c.res("query-idle", c.StreamQuery(c.at, driver.CU_STREAM_PER_THREAD))
			c.record(e, driver.CU_STREAM_PER_THREAD)
			c.res("untimed", c.settled(e))
			c.res("stream", c.StreamQuery(c.at, driver.CU_STREAM_PER_THREAD))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "blocking-record-behind-legacy", "the same for an event for which threads sleep: here its stream is busy", func(c *raw) {
			c.setup()
			s, g, e := c.stream(blocking), c.gate(), c.event(untimed|driver.CU_EVENT_BLOCKING_SYNC)
			g.hold(null)
			c.record(e, s)
			c.res("untimed", c.settled(e))
			c.res("stream", c.StreamQuery(c.at, s))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famRecord, "blocking-record-twice", "a record that blocks the host: an event for which threads sleep, recorded while its previous record is pending", func(c *raw) {
			c.setup()
			s, g, e := c.stream(blocking), c.gate(), c.event(untimed|driver.CU_EVENT_BLOCKING_SYNC)
			p := c.memory() // allocated before a stream is held
			g.hold(s)
			c.must("cuMemsetD8Async", c.set(p, null))
			c.record(e, driver.CU_STREAM_PER_THREAD)
			c.dare("record-again", func() driver.Result { return c.EventRecord(c.at, e, driver.CU_STREAM_PER_THREAD) })
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "untimed-record-behind-legacy-twice", "the same before a record on the default stream", func(c *raw) {
			c.setup()
			s, g, e, f := c.stream(blocking), c.gate(), c.event(untimed), c.event(untimed)
			g.hold(null)
			c.record(e, s)
			c.record(f, null)
			c.res("stream", c.StreamQuery(c.at, s))
			c.record(e, s)
			c.res("stream-again", c.StreamQuery(c.at, s))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "legacy-waits-for-its-own", "an unwanted barrier: the default stream waits for its own complete event", func(c *raw) {
			c.setup()
			e, s, free := c.ended(timed, null), c.stream(blocking), c.stream(blocking)
			g := c.gate()
			g.hold(s)
			c.res("wait", c.wait(null, e))
			c.res("blocking", c.reached(free))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "untimed-record-behind-blocking", "the same of the default stream, which waits for the blocking ones", func(c *raw) {
			c.setup()
			_, g := c.held(0)
			c.res("query-idle", c.StreamQuery(c.at, null))
			e, f := c.event(untimed), c.event(timed)
			c.record(e, null)
			c.res("untimed", c.settled(e))
			c.record(f, null)
			c.res("timed", c.settled(f))
			g.open()
			c.res("sync", c.CtxSynchronize(c.at))
		}},
		{famWait, "wait-flags", "passing flags on without a check", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			c.res("two", c.StreamWaitEvent(c.at, s, e, 2))
			c.res("external-outside", c.StreamWaitEvent(c.at, s, e, driver.CU_EVENT_WAIT_EXTERNAL))
		}},
		{famWait, "wait-outlives-stream", "losing the order by destroying a stream for which others wait", func(c *raw) {
			c.setup()
			s1, g := c.held(nonBlocking)
			s2, e := c.stream(nonBlocking), c.event(untimed)
			c.record(e, s1)
			c.must("cuStreamDestroy", c.StreamDestroy(c.at, s1))
			c.res("wait", c.StreamWaitEvent(c.at, s2, e, 0))
			c.res("waiter", c.reached(s2))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, s2))
		}},
		{famWait, "wait-before-destroyed-waiter", "assuming that work is lost when its stream is destroyed: the work is done", func(c *raw) {
			c.setup()
			s1, g := c.held(nonBlocking)
			s2, e, f := c.stream(nonBlocking), c.event(untimed), c.event(untimed)
			c.record(e, s1)
			c.must("cuStreamWaitEvent", c.StreamWaitEvent(c.at, s2, e, 0))
			c.record(f, s2)
			c.res("destroy", c.StreamDestroy(c.at, s2))
			c.res("query", c.settled(f))
			g.open()
			c.res("sync", c.EventSynchronize(c.at, f))
		}},

		{famRecord, "older-record-completes-later", "mistaking the completion of an older record on a slow stream for that of the newest record", func(c *raw) {
			c.setup()
			slow, fast := c.stream(nonBlocking), c.stream(nonBlocking)
			e, g := c.event(timed), c.gate()
			g.hold(slow)
			c.record(e, slow)
			c.res("query-older", c.query(e))
			c.record(e, fast)
			c.finish(fast)
			c.res("query-newest", c.query(e))
			mid := c.ended(timed, fast)
			time.Sleep(settling)
			g.open()
			c.finish(slow)
			c.res("query-when-older-is-done", c.query(e))
			c.res("elapsed", c.elapsed(e, mid))
			c.val("has-the-newest-time", c.after(e, mid))
		}},
		{famRecord, "synchronize-keeps-its-record", "a host thread that waits forever because another thread records the event again and again", func(c *raw) {
			_, ctx := c.setup()
			a, b := c.stream(nonBlocking), c.stream(nonBlocking)
			e, first, second := c.event(timed), c.gate(), c.gate()
			first.hold(a)
			second.hold(b)
			c.record(e, a)
			waited, res := c.waits(ctx, second, func(w *raw) driver.Result { return w.EventSynchronize(w.at, e) }, func() {
				c.record(e, b)
				first.open()
			})
			c.val("waits-for-the-newer", waited)
			c.res("sync", res)
			c.res("sync-newer", c.EventSynchronize(c.at, e))
		}},
		{famRecord, "time-is-of-completion", "measuring from the call of cuEventRecord: the time is that at which the stream reaches the record", func(c *raw) {
			c.setup()
			s, u := c.stream(nonBlocking), c.stream(nonBlocking)
			a, b, g := c.event(timed), c.event(timed), c.gate()
			g.hold(s)
			c.record(a, s)
			c.record(b, u)
			c.sync(b)
			time.Sleep(settling)
			g.open()
			c.sync(a)
			c.res("elapsed", c.elapsed(a, b))
			c.val("recorded-later-is-later", c.after(a, b))
		}},
		{famRecord, "elapsed-of-one-untimed", "reading a time of an event without a time, with several possible errors", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			g, a := c.gate(), c.ended(timed, s)
			b := c.ended(untimed, s)
			c.res("untimed-end", c.elapsed(a, b))
			c.res("untimed-start", c.elapsed(b, a))
			c.res("untimed-and-unrecorded", c.elapsed(b, c.event(timed)))
			p := c.event(timed)
			g.hold(s)
			c.record(b, s)
			c.record(p, s)
			c.res("untimed-pending", c.elapsed(a, b))
			c.res("untimed-and-pending", c.elapsed(b, p))
			c.res("pending-and-unrecorded", c.elapsed(p, c.event(timed)))
			g.open()
			c.finish(s)
			c.res("blocking-and-spinning", c.elapsed(a, c.ended(driver.CU_EVENT_BLOCKING_SYNC, s)))
		}},
		{famRecord, "refused-flags", "mistaking one error for another: which error is returned, and that the old record remains", func(c *raw) {
			dev, _ := c.setup()
			wrong := c.inside(c.aside(dev)).stream(nonBlocking)
			s := c.stream(nonBlocking)
			a, e := c.ended(timed, s), c.ended(timed, s)
			with := func(s driver.Stream, flags uint32) driver.Result { return c.EventRecordWithFlags(c.at, e, s, flags) }
			c.res("unknown", with(s, 2))
			c.res("external", with(s, driver.CU_EVENT_RECORD_EXTERNAL))
			c.res("unknown-and-external", with(s, 3))
			c.res("unknown-and-wrong-context", with(wrong, 2))
			c.res("external-and-wrong-context", with(wrong, driver.CU_EVENT_RECORD_EXTERNAL))
			c.res("query", c.query(e))
			c.res("elapsed", c.elapsed(a, e))
			c.res("default", with(s, driver.CU_EVENT_RECORD_DEFAULT))
		}},
		{famRecord, "synchronize-holds-nobody", "a driver call that is blocked by another thread's cuEventSynchronize", func(c *raw) {
			_, ctx := c.setup()
			s, u := c.stream(nonBlocking), c.stream(nonBlocking)
			e, f, g := c.event(driver.CU_EVENT_BLOCKING_SYNC), c.event(timed), c.gate()
			g.hold(s)
			c.record(e, s)
			w := c.worker(ctx)
			var res driver.Result
			w.tasks <- func(c *raw) { res = c.EventSynchronize(c.at, e) }
			time.Sleep(settling)
			c.res("query", c.query(e))
			c.res("record", c.EventRecord(c.at, f, u))
			c.res("sync-other", c.EventSynchronize(c.at, f))
			c.res("create", c.newEvent())
			c.res("elapsed", c.elapsed(f, e))
			g.open()
			<-w.done
			w.end()
			c.res("sync", res)
		}},
		{famRecord, "handle-comes-again", "destroying an event twice: the second call destroys another event with the same handle", func(c *raw) {
			c.setup()
			e := c.event(timed)
			c.res("destroy", c.EventDestroy(c.at, e))
			c.val("same-handle", c.event(timed) == e)
			s := c.stream(nonBlocking)
			c.res("destroy-stream", c.StreamDestroy(c.at, s))
			c.val("same-stream-handle", c.stream(nonBlocking) == s)
		}},
		{famRecord, "recorded-while-unrecorded-is-waited", "synchronizing before the record, which does not wait for that record", func(c *raw) {
			_, ctx := c.setup()
			s, e, g := c.stream(nonBlocking), c.event(timed), c.gate()
			g.hold(s)
			waited, res := c.waits(ctx, g, func(w *raw) driver.Result { return w.EventSynchronize(w.at, e) })
			c.val("unrecorded-waits", waited)
			c.res("unrecorded", res)
			again := c.gate()
			again.hold(s)
			c.record(e, s)
			waited, res = c.waits(ctx, again, func(w *raw) driver.Result { return w.EventSynchronize(w.at, e) })
			c.val("recorded-waits", waited)
			c.res("recorded", res)
		}},

		{famWait, "wait-for-complete", "assuming that a wait for a complete event is for the next record", func(c *raw) {
			c.setup()
			a, s := c.stream(nonBlocking), c.stream(nonBlocking)
			e, g := c.ended(untimed, a), c.gate()
			g.hold(s)
			c.res("wait-behind-a-gate", c.wait(s, e))
			held := c.gate()
			held.hold(a)
			c.record(e, a)
			g.open()
			c.res("waiter", c.drained(s))
			c.res("event", c.query(e))
			held.open()
			c.finish(a)
		}},
		{famWait, "wait-for-two", "a stream that continues after the first of two events for which it waits", func(c *raw) {
			c.setup()
			a, b, s := c.stream(nonBlocking), c.stream(nonBlocking), c.stream(nonBlocking)
			e, f, g, h := c.event(untimed), c.event(untimed), c.gate(), c.gate()
			g.hold(a)
			h.hold(b)
			c.record(e, a)
			c.record(f, b)
			c.res("wait-E", c.wait(s, e))
			c.res("wait-F", c.wait(s, f))
			h.open()
			c.finish(b)
			c.res("one-is-done", c.streamQuery(s))
			g.open()
			c.res("both-are-done", c.drained(s))
		}},
		{famWait, "ring-of-waits", "avoiding that two streams wait for each other in turn with one event: there is no deadlock", func(c *raw) {
			c.setup()
			s, t := c.stream(nonBlocking), c.stream(nonBlocking)
			e, g := c.event(untimed), c.gate()
			g.hold(s)
			for range 4 {
				c.record(e, s)
				c.must("cuStreamWaitEvent", c.wait(t, e))
				c.record(e, t)
				c.must("cuStreamWaitEvent", c.wait(s, e))
			}
			c.res("closed", c.streamQuery(t))
			g.open()
			c.res("S", c.drained(s))
			c.res("T", c.drained(t))
		}},
		{famWait, "context-record", "an event of a whole context that does not cover a kind of stream, or later work", func(c *raw) {
			dev, ctx := c.setup()
			other := c.aside(dev)
			free, block := c.stream(nonBlocking), c.stream(blocking)
			e := c.event(untimed)
			c.res("idle", c.CtxRecordEvent(c.at, ctx, e))
			c.res("idle-query", c.settled(e))
			for _, at := range []struct {
				name string
				s    driver.Stream
			}{{"non-blocking", free}, {"blocking", block}, {"legacy", legacy}, {"per-thread", perThread}} {
				g := c.gate()
				g.hold(at.s)
				c.res("record-"+at.name, c.CtxRecordEvent(c.at, ctx, e))
				c.res("query-"+at.name, c.query(e))
				g.open()
				c.res("sync-"+at.name, c.EventSynchronize(c.at, e))
			}
			g := c.gate()
			c.res("record", c.CtxRecordEvent(c.at, ctx, e))
			g.hold(free)
			c.res("later-work-is-not-part", c.settled(e))
			g.open()
			c.finish(free)
			c.res("other-context", c.CtxRecordEvent(c.at, other, e))
		}},
		{famWait, "context-wait", "work that must wait and does not, in a context's future streams or in other contexts", func(c *raw) {
			dev, ctx := c.setup()
			other := c.aside(dev)
			c2 := c.inside(other)
			s, busy, foreign := c.stream(nonBlocking), c.stream(nonBlocking), c2.stream(nonBlocking)
			e, before, g := c.event(untimed), c.event(untimed), c.gate()
			own := c.gate()
			own.hold(busy)
			c.record(before, busy)
			c2held := c2.stream(nonBlocking)
			waited := c2.event(untimed)
			g.hold(c2held)
			c2.record(waited, c2held)
			c.res("wait", c.CtxWaitEvent(c.at, ctx, waited))
			f, l := c.event(untimed), c.event(untimed)
			c.record(f, s)
			c.res("existing-stream", c.query(f))
			late := c.stream(nonBlocking)
			c.record(l, late)
			c.res("later-stream", c.query(l))
			c2.record(c2.event(untimed), foreign)
			c.res("other-context", c.drained(foreign))
			own.open()
			c.res("work-from-before", c.settled(before))
			g.open()
			c.res("existing-stream-when-done", c.settled(f))
			c.res("later-stream-when-done", c.settled(l))
			c.res("unrecorded", c.CtxWaitEvent(c.at, ctx, e))
			c.res("not-held", c.drained(s))
		}},
		{famWait, "wait-event-of-other-device", "destroying an event while another device waits for it", func(c *raw) {
			c.devices(2)
			_, ctx0 := c.primary(0)
			_, ctx1 := c.primary(1)
			c.current(ctx0)
			other := c.inside(ctx1)
			s, t, back := c.stream(nonBlocking), other.stream(nonBlocking), c.stream(nonBlocking)
			e, f, g := c.event(untimed), other.event(untimed), c.gate()
			g.hold(s)
			c.record(e, s)
			c.res("wait", c.wait(t, e))
			c.res("destroy", c.EventDestroy(c.at, e))
			c.res("record-behind", c.EventRecord(c.at, f, t))
			c.res("wait-back", c.wait(back, f))
			c.res("closed", c.streamQuery(back))
			g.open()
			c.res("open", c.drained(back))
			c.res("context-wait", c.CtxWaitEvent(c.at, ctx0, f))
			c.res("context-record", c.CtxRecordEvent(c.at, ctx1, c.event(untimed)))
		}},
	}
}

// recorded returns an event that was just recorded on a stream.
func (c *raw) recorded(s driver.Stream) driver.Event {
	e := c.event(untimed)
	c.record(e, s)
	return e
}

// legacyIsHeld is a flag of contextWaits: the legacy default stream is held.
const legacyIsHeld = 100

// contextWaits makes the context wait for an event that is complete or was never recorded, while a
// stream with the flags is held. It reports which streams wait.
func (c *raw) contextWaits(e driver.Event, flags uint32) {
	ctx, res := c.CtxGetCurrent(c.at)
	c.must("cuCtxGetCurrent", res)
	s, g := driver.Stream(null), c.gate()
	if flags != legacyIsHeld {
		s = c.stream(flags)
	}
	free, block, working, p := c.stream(nonBlocking), c.stream(blocking), c.stream(nonBlocking), c.memory()
	busy, own := c.stream(nonBlocking), c.gate()
	f := c.event(timed)
	g.hold(s)
	own.hold(busy)
	c.res("wait", c.CtxWaitEvent(c.at, ctx, e))
	c.res("non-blocking", c.reached(free))
	c.must("cuMemsetD8Async", c.set(p, working))
	c.res("working", c.drained(working))
	c.record(f, busy)
	own.open()
	c.res("busy", c.settled(f))
	c.res("blocking", c.reached(block))
	c.res("legacy", c.reached(null))
	c.res("held-stream", c.StreamQuery(c.at, s))
	g.open()
	c.res("sync", c.CtxSynchronize(c.at))
}

// waitsBehindRecords makes the context wait for an event that is complete or was never recorded,
// while a record of the whole context is pending. It reports whether other streams wait for that
// record. Before that, the context waits for the event several times.
func (c *raw) waitsBehindRecords(e driver.Event, before int) {
	ctx, res := c.CtxGetCurrent(c.at)
	c.must("cuCtxGetCurrent", res)
	f, p := c.event(untimed), c.memory()
	free, working := c.stream(nonBlocking), c.stream(nonBlocking)
	_, g := c.held(nonBlocking)
	for range before {
		c.must("cuCtxWaitEvent", c.CtxWaitEvent(c.at, ctx, e))
	}
	c.res("record", c.CtxRecordEvent(c.at, ctx, f))
	c.res("before", c.reached(free))
	c.res("wait", c.CtxWaitEvent(c.at, ctx, e))
	c.res("afterwards", c.reached(free))
	c.must("cuMemsetD8Async", c.set(p, working))
	c.res("working", c.drained(working))
	g.open()
	c.res("sync", c.CtxSynchronize(c.at))
}
