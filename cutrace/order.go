package cutrace

import (
	"fmt"

	"github.com/purecu/purecu/cu/trace"
)

// workOrder follows the order in which the host enqueues work, and what waits for what. Each
// record, each wait, and each beginning and end of a span has a sequence number. A lock of its
// owner guards it.
type workOrder struct {
	limit   int // of arrows
	seq     uint64
	lanes   map[uintptr]*lane // by the handle of the stream
	records map[uintptr]mark  // the newest record of each event
	arrows  []arrow
	dropped uint64
}

// lane is a stream of the trace.
type lane struct {
	id   uint64
	name string
}

// mark is a position in a stream's work.
type mark struct {
	lane *lane
	seq  uint64
}

// arrow leads from a record to a wait for it on another stream.
type arrow struct{ from, to mark }

// next returns the next sequence number.
func (o *workOrder) next() uint64 {
	o.seq++
	return o.seq
}

// before forgets an object that is about to be destroyed. A new object may have the handle.
func (o *workOrder) before(t trace.Operation) {
	switch t.Op {
	case trace.EventDestroy:
		delete(o.records, t.Event)
	case trace.StreamDestroy:
		delete(o.lanes, t.Stream)
	}
}

// after follows a call that has succeeded.
func (o *workOrder) after(t trace.Operation, stream uint64) {
	switch t.Op {
	case trace.EventCreate: // the object that had the handle was destroyed by other code
		delete(o.records, t.Event)
	case trace.StreamCreate:
		delete(o.lanes, t.Stream)
	case trace.EventRecord:
		if _, known := o.records[t.Event]; known || len(o.records) < maxObjects {
			seq := o.next()
			o.records[t.Event] = mark{o.lane(t.Stream, stream), seq}
		}
	case trace.StreamWait:
		from, ok := o.records[t.Event]
		to := o.lane(t.Stream, stream)
		if !ok || from.lane == to {
			return
		}
		if len(o.arrows) >= o.limit {
			o.dropped++
			return
		}
		o.arrows = append(o.arrows, arrow{from, mark{to, o.next()}})
	}
}

// lane returns the lane of a stream, or nil if there are too many.
func (o *workOrder) lane(h uintptr, id uint64) *lane {
	l := o.lanes[h]
	if l == nil && len(o.lanes) < maxObjects {
		l = &lane{id: id, name: fmt.Sprintf("stream %d", id)}
		switch h { // CUDA's own numbers
		case 1:
			l.name = "legacy default stream"
		case 2:
			l.name = "per-thread default streams"
		}
		o.lanes[h] = l
	}
	return l
}
