package behaviour

import (
	"github.com/purecu/purecu/internal/driver"
)

// foundEvents are about records and waits.
func foundEvents() []found {
	return []found{
		{famRecord, "rerecord-pending-again", "a poller that believes that an event stays complete", func(c *raw) {
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
		{famRecord, "wait-keeps-old-record", "one event for two purposes: what waited for the first record is not freed by a second one", func(c *raw) {
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
		{famRecord, "rerecord-start", "a stopwatch whose start is recorded again: the time is negative, and no error", func(c *raw) {
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
		{famRecord, "elapsed-with-itself", "a division by the time from an event to itself", func(c *raw) {
			c.setup()
			a := c.ended(timed, c.stream(nonBlocking))
			ms, res := c.EventElapsedTime(c.at, a, a)
			c.res("elapsed", res)
			c.val("zero", ms == 0)
		}},
		{famRecord, "destroy-while-pending", "waiting before an event is destroyed: it need not be", func(c *raw) {
			c.setup()
			s, g := c.held(nonBlocking)
			e := c.event(timed)
			c.record(e, s)
			c.res("destroy", c.EventDestroy(c.at, e))
			c.res("stream", c.StreamQuery(c.at, s))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, s))
		}},
		{famRecord, "destroy-after-wait", "keeping an event alive for those that wait for it on the GPU: they have what they need", func(c *raw) {
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
		{famRecord, "failed-record", "taking an event for recorded, or for new, after a record that failed: it is what it was", func(c *raw) {
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
		{famRecord, "record-flags", "flags that are passed on unchecked", func(c *raw) {
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
		{famRecord, "elapsed-pending-start", "asking for a time before both ends are there: NOT_READY, whichever is missing", func(c *raw) {
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

		{famWait, "wait-takes-record-of-now", "waiting before the record: such a wait waits for nothing", func(c *raw) {
			c.setup()
			s1, g := c.held(nonBlocking)
			s2, e := c.stream(nonBlocking), c.event(untimed)
			c.res("wait", c.StreamWaitEvent(c.at, s2, e, 0))
			c.record(e, s1)
			c.res("waiter", c.reached(s2))
			g.open()
		}},
		{famWait, "wait-for-itself", "a deadlock by a stream that waits for its own event: there is none", func(c *raw) {
			c.setup()
			s, g := c.held(nonBlocking)
			e := c.event(untimed)
			c.record(e, s)
			c.res("wait", c.StreamWaitEvent(c.at, s, e, 0))
			g.open()
			c.res("sync", c.StreamSynchronize(c.at, s))
		}},
		{famWait, "wait-across-contexts", "refusing to wait for another context's event, although only records are tied to one", func(c *raw) {
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
		{famWait, "context-waits", "believing that cuCtxWaitEvent concerns the streams of now: those to come wait, too", func(c *raw) {
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
		{famWait, "context-waits-for-complete", "a barrier where none was asked for: does the wait for what is complete hold anything up?", func(c *raw) {
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
		{famWait, "context-waits-for-unrecorded", "the same with an event that was never recorded, and with a stream that is not behind the default one", func(c *raw) {
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
		{famWait, "context-records", "polling every stream: one event of the context is complete when all are", func(c *raw) {
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
		{famWait, "legacy-waits-for-complete", "a wait of the default stream that seems to do nothing: it is a barrier for all blocking streams", func(c *raw) {
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
		{famWait, "blocking-waits-for-complete", "a query of a stream that did nothing but wait for what is complete, while the default stream is busy", func(c *raw) {
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
		{famWait, "wait-flags", "flags that are passed on unchecked", func(c *raw) {
			c.setup()
			s, e := c.stream(nonBlocking), c.event(timed)
			c.res("two", c.StreamWaitEvent(c.at, s, e, 2))
			c.res("external-outside", c.StreamWaitEvent(c.at, s, e, driver.CU_EVENT_WAIT_EXTERNAL))
		}},
		{famWait, "wait-outlives-stream", "losing the order by destroying the stream that is waited for", func(c *raw) {
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
		{famWait, "wait-before-destroyed-waiter", "work that is lost with the stream it was put on: it is done", func(c *raw) {
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
	}
}

// recorded returns an event that is recorded on a stream now.
func (c *raw) recorded(s driver.Stream) driver.Event {
	e := c.event(untimed)
	c.record(e, s)
	return e
}
