package cutrace

import (
	"slices"
	"sync"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/trace"
)

// hostTrace is the host's part of a trace. The tracers fill it. They see a destruction before the
// driver makes it, and each call after it has returned. One lock guards all parts, because a call
// changes most of them. The lock is held for moments, and never while package cu is called, because
// package cu calls the tracers.
type hostTrace struct {
	mu      sync.Mutex
	latest  time.Time // when the newest call began
	objects objects
	own     ownEvents
	log     callLog
	order   workOrder
}

// init makes the host's part empty. Times are relative to the zero time until start is called.
func (h *hostTrace) init(opts Options) {
	h.own = ownEvents{live: make(map[uintptr]ownCall), dying: make(map[uintptr]bool)}
	h.log = callLog{limit: opts.MaxCalls}
	h.order = workOrder{limit: opts.MaxSpans, lanes: make(map[uintptr]*lane), records: make(map[uintptr]mark)}
}

// start begins the trace. It forgets what other code called before, while the clocks were compared.
func (h *hostTrace) start(origin time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = callLog{limit: h.log.limit, origin: origin}
	h.order.arrows, h.order.dropped = nil, 0
}

// before is a [trace.Tracer]. It notes a destruction before the driver makes it, because a new object
// may have the handle as soon as the old one is destroyed.
func (h *hostTrace) before(t trace.Operation) {
	if t.Op != trace.EventDestroy && t.Op != trace.StreamDestroy {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.objects.before(t)
	h.order.before(t)
	h.own.before(t)
}

// after is a [trace.CallTracer].
func (h *hostTrace) after(c trace.Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.Start.After(h.latest) {
		h.latest = c.Start
	}
	if h.own.after(c) {
		if c.Op == trace.EventDestroy {
			h.objects.of(c.Operation) // forgets the number
		}
		return
	}
	event, stream := h.objects.of(c.Operation)
	if c.Result == cu.ResultSuccess {
		h.order.after(c.Operation, stream)
	}
	h.log.add(c, event, stream)
}

// disown takes the calls of a new event out of the trace. The event is the recorder's own. Its
// creation is in the trace already, because the tracer could not know the handle before.
func (h *hostTrace) disown(event uintptr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.own.live[event] = ownCall{}
	h.log.removeCreation(event)
}

// times returns the times of the newest record of an own event.
func (h *hostTrace) times(event uintptr) ownCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.own.live[event]
}

// newest returns when the newest call began.
func (h *hostTrace) newest() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest
}

// next returns the next sequence number.
func (h *hostTrace) next() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.order.next()
}

// lane returns a stream's lane, or nil if there are too many.
func (h *hostTrace) lane(stream uintptr) *lane {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.order.lane(stream, h.objects.streams.of(stream))
}

// name gives a stream's lane a name.
func (h *hostTrace) name(stream uintptr, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.order.lane(stream, h.objects.streams.of(stream)); l != nil {
		l.name = name
	}
}

// all returns copies of the calls and the arrows.
func (h *hostTrace) all() ([]call, []arrow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.log.calls), slices.Clone(h.order.arrows)
}

// names returns the names of the lanes of spans.
func (h *hostTrace) names(spans []span) map[*lane]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make(map[*lane]string)
	for i := range spans {
		names[spans[i].lane] = spans[i].lane.name
	}
	return names
}

// count adds the host's part to the statistics.
func (h *hostTrace) count(st *Stats) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st.Calls, st.DroppedCalls = len(h.log.calls), h.log.dropped
	st.Arrows, st.DroppedArrows = len(h.order.arrows), h.order.dropped
}

// ownEvents knows the recorder's own events, and the times of their calls. The calls are not part
// of the trace.
type ownEvents struct {
	live  map[uintptr]ownCall
	dying map[uintptr]bool // from before the destruction until it has returned
}

// ownCall holds when the newest record of an own event began, and when the first query that found
// the record complete returned.
type ownCall struct{ begun, done time.Time }

func (o *ownEvents) before(t trace.Operation) {
	if _, ok := o.live[t.Event]; ok && t.Op == trace.EventDestroy {
		delete(o.live, t.Event)
		o.dying[t.Event] = true
	}
}

// after reports whether the call was for an own event.
func (o *ownEvents) after(c trace.Call) bool {
	if c.Op == trace.EventDestroy && o.dying[c.Event] {
		delete(o.dying, c.Event)
		return true
	}
	own, ok := o.live[c.Event]
	if !ok {
		return false
	}
	switch {
	case c.Op == trace.EventRecord:
		own = ownCall{begun: c.Start}
	case c.Op == trace.EventQuery && c.Result == cu.ResultSuccess && own.done.IsZero():
		own.done = c.Start.Add(c.Duration)
	}
	o.live[c.Event] = own
	return true
}

// callLog is the calls of the host, up to a limit.
type callLog struct {
	limit   int
	origin  time.Time
	calls   []call
	dropped uint64
}

// call is a call of the host.
type call struct {
	op            trace.Op
	event, stream uint64 // numbers
	eventH, strmH uintptr
	start, took   time.Duration // the start since the origin
	result        cu.Result
}

func (l *callLog) add(c trace.Call, event, stream uint64) {
	if len(l.calls) >= l.limit {
		l.dropped++
		return
	}
	l.calls = append(l.calls, call{c.Op, event, stream, c.Event, c.Stream, c.Start.Sub(l.origin), c.Duration, c.Result})
}

// removeCreation removes an event's creation, or no longer counts it if it was dropped.
func (l *callLog) removeCreation(event uintptr) {
	for i := len(l.calls) - 1; i >= 0; i-- {
		if c := l.calls[i]; c.op == trace.EventCreate && c.eventH == event {
			l.calls = append(l.calls[:i], l.calls[i+1:]...)
			return
		}
	}
	if l.dropped > 0 {
		l.dropped--
	}
}
