package fuzz

import (
	"slices"

	"github.com/purecu/purecu/driver"
)

// set is a set of gates, or of the nodes of a graph.
type set uint64

const limit = 60 // the largest number of elements of a set

// eventState is what an event stands for.
type eventState uint8

const (
	empty eventState = iota
	pending
	complete
	captured
	invalid
	eventStates
)

// streamState is the state of a stream.
type streamState uint8

const (
	idle streamState = iota
	busy
	capturing
	invalidated
	streamStates
)

// mEvent is an event in the model.
type mEvent struct {
	slot    int
	ctx     int
	flags   uint32
	state   eventState // pending can also mean complete: see stateOf
	point   set        // the gates that the record waits for
	capture *mCapture
	nodes   set // the nodes before a captured record

	lane   *mStream // the stream of the newest record, if known
	number int      // the number of that record on the stream
	pinned bool     // used by graphs, so not destroyed before them
}

func (e *mEvent) timed() bool { return e.flags&driver.CU_EVENT_DISABLE_TIMING == 0 }

// mStream is a stream.
type mStream struct {
	slot     int
	ctx      int
	blocking bool
	legacy   bool
	flags    uint32
	priority int32
	tail     set // the gates that the newest work waits for
	capture  *mCapture
	nodes    set // the nodes before the next node of the capture
}

// mCapture is a capture that has not ended.
type mCapture struct {
	mode        int32
	thread      int
	origin      *mStream
	invalidated bool
	streams     []*mStream
	events      []*mEvent
	graph       *mGraph
	lost        set // nodes of streams that were destroyed
}

// mGraph is a graph.
type mGraph struct {
	ctx   int
	nodes []mNode
}

// mNode is a node: its dependencies, and the event that it records or waits for.
type mNode struct {
	after  set
	record *mEvent
	wait   *mEvent
}

// mExec is an executable graph.
type mExec struct {
	mGraph
	newest set
}

// mContext is a context.
type mContext struct {
	legacy  *mStream
	own     [threadSlots]*mStream
	streams []*mStream // in the order of their creation
	gate    set        // the gates that all new work waits for
	lane    set        // the gates of the next record or wait of the whole context
	ghosts  set        // gates of destroyed blocking streams
	lost    set        // gates of other destroyed streams
}

// mThread is a thread.
type mThread struct {
	stack []int
	mode  int32
}

// model is the expected state of a driver.
type model struct {
	contexts [contextSlots]mContext
	threads  [threadSlots]mThread
	streams  [streamSlots]*mStream
	events   [eventSlots]*mEvent
	graphs   [graphSlots]*mGraph
	execs    [execSlots]*mExec
	captures []*mCapture
	closed   set // gates
	gates    int
	records  int
	timed    int // the largest possible number of operations that take time
	poisoned bool
}

func newModel() *model {
	m := new(model)
	for i := range m.contexts {
		s := &mStream{slot: legacySlot, ctx: i, legacy: true}
		m.contexts[i].legacy = s
		m.contexts[i].streams = []*mStream{s}
	}
	for i := range m.threads {
		m.threads[i].stack = []int{0}
	}
	return m
}

// want is the expected answer of a driver.
type want struct {
	res   driver.Result
	value int64
	opens set // gates to open before the call, which would wait forever
}

const ok = driver.ResultSuccess

// current returns the context that is current on a thread, or -1.
func (m *model) current(thread uint8) int {
	stack := m.threads[thread].stack
	if len(stack) == 0 {
		return -1
	}
	return stack[len(stack)-1]
}

// stream returns the stream in a slot. It returns nil and success if the slot is empty.
func (m *model) stream(st step) (*mStream, driver.Result) {
	if st.stream >= firstStream {
		return m.streams[st.stream], ok
	}
	c := m.current(st.thread)
	if c < 0 {
		return nil, driver.ResultInvalidContext
	}
	ctx := &m.contexts[c]
	if st.stream == legacySlot {
		return ctx.legacy, ok
	}
	if ctx.own[st.thread] == nil {
		s := &mStream{slot: perThreadSlot, ctx: c, blocking: true}
		ctx.own[st.thread] = s
		ctx.streams = append(ctx.streams, s)
	}
	return ctx.own[st.thread], ok
}

// stateOf returns an event's state.
func (m *model) stateOf(e *mEvent) eventState {
	if e.state == pending && e.point&m.closed == 0 {
		return complete
	}
	return e.state
}

// streamStateOf returns a stream's state.
func (m *model) streamStateOf(s *mStream) streamState {
	switch {
	case s.capture != nil && s.capture.invalidated:
		return invalidated
	case s.capture != nil:
		return capturing
	case s.tail&m.closed != 0:
		return busy
	}
	return idle
}

// barriers returns the gates that the next work on a stream waits for, besides those of the stream.
func (m *model) barriers(s *mStream) set {
	return m.contexts[s.ctx].gate | m.defaults(s)
}

// defaults returns the gates that the next work on a stream waits for because that stream or
// another one is the legacy default stream.
func (m *model) defaults(s *mStream) (b set) {
	c := &m.contexts[s.ctx]
	if s.legacy {
		b |= c.ghosts
		for _, other := range c.streams {
			if other.blocking {
				b |= other.tail
			}
		}
	}
	if s.blocking {
		b |= c.legacy.tail
	}
	return b
}

// enqueue adds work to a stream, and returns the gates that the work waits for.
func (m *model) enqueue(s *mStream, after set) set {
	s.tail = (s.tail | m.barriers(s) | after) & m.closed
	return s.tail
}

// earlier returns the gates that the next record of an event waits for. A record of a shared event
// waits for the previous record.
func (e *mEvent) earlier() set {
	if e.flags&driver.CU_EVENT_INTERPROCESS != 0 {
		return e.point
	}
	return 0
}

// record makes an event stand for a position.
func (m *model) record(e *mEvent, at set, lane *mStream) {
	m.forget(e)
	m.records++
	e.state, e.point, e.lane, e.number = pending, at, lane, m.records
}

// forget removes an event from its capture.
func (m *model) forget(e *mEvent) {
	if c := e.capture; c != nil {
		c.events = slices.DeleteFunc(c.events, func(other *mEvent) bool { return other == e })
	}
	e.capture, e.nodes = nil, 0
}

// invalidate invalidates a capture and its events.
func invalidate(c *mCapture, r driver.Result) want {
	c.invalidated = true
	c.invalidateEvents()
	return want{res: r}
}

// invalidateEvents makes the events of a capture invalid.
func (c *mCapture) invalidateEvents() {
	for _, e := range c.events {
		e.state, e.capture, e.nodes = invalid, nil, 0
	}
	c.events = nil
}

// forbidden returns the result of a call that captures do not allow, even captures of other streams
// and threads. ctx is the context of calls that wait for a whole context.
func (m *model) forbidden(thread uint8, ctx int) driver.Result {
	r := ok
	mode := m.threads[thread].mode
	for _, c := range m.captures {
		conflict := slices.ContainsFunc(c.streams, func(s *mStream) bool { return s.ctx == ctx })
		if ctx < 0 && mode != driver.CU_STREAM_CAPTURE_MODE_RELAXED && c.mode != driver.CU_STREAM_CAPTURE_MODE_RELAXED {
			conflict = conflict || c.thread == int(thread) ||
				c.mode == driver.CU_STREAM_CAPTURE_MODE_GLOBAL && mode == driver.CU_STREAM_CAPTURE_MODE_GLOBAL
		}
		if conflict {
			invalidate(c, ok)
			r = driver.ResultStreamCaptureUnsupported
		}
	}
	return r
}

// implicit returns the captures of blocking streams of a context. The legacy default stream of the
// context conflicts with them.
func (m *model) implicit(s *mStream) (list []*mCapture) {
	if s == nil || !s.legacy {
		return nil
	}
	for _, other := range m.contexts[s.ctx].streams {
		if other.blocking && other.capture != nil {
			list = append(list, other.capture)
		}
	}
	return list
}

// invalidateAll invalidates captures.
func invalidateAll(list []*mCapture, r driver.Result) want {
	for _, c := range list {
		invalidate(c, r)
	}
	return want{res: r}
}

// capturesIn returns the captures that streams of a context are part of.
func (m *model) capturesIn(ctx int) (list []*mCapture) {
	for _, s := range m.contexts[ctx].streams {
		if s.capture != nil {
			list = append(list, s.capture)
		}
	}
	return list
}

// node adds a node to the capture of a stream. It returns false if there are too many.
func (m *model) node(s *mStream, n mNode) (want, bool) {
	g := s.capture.graph
	switch {
	case s.capture.invalidated:
		return want{res: driver.ResultStreamCaptureInvalidated}, true
	case len(g.nodes) >= limit:
		return want{}, false
	}
	n.after = s.nodes
	s.nodes |= 1 << len(g.nodes)
	g.nodes = append(g.nodes, n)
	for _, e := range []*mEvent{n.record, n.wait} {
		if e != nil {
			e.pinned = true
		}
	}
	return want{}, true
}

// finish ends a capture: its streams are no longer captured, and its events are invalid.
func (m *model) finish(c *mCapture) {
	for _, s := range c.streams {
		s.capture, s.nodes = nil, 0
	}
	c.invalidateEvents()
	m.captures = slices.DeleteFunc(m.captures, func(other *mCapture) bool { return other == c })
}

// apply returns the expected answer of a step, and applies the step to the model. It returns false
// if the step has no operands, or if the answer is not known.
func (m *model) apply(st step) (want, bool) {
	if m.poisoned {
		return m.applyPoisoned(st)
	}
	switch {
	case st.op == poison:
		m.poisoned = true
		return m.opening(m.closed), true // no gate may hold the kernel
	case st.op >= eventCreate && st.op <= eventElapsedV2:
		return m.applyEvent(st)
	case st.op >= streamCreate && st.op <= captureInfo:
		return m.applyStream(st)
	case st.op >= graphCreate && st.op <= graphDestroy:
		return m.applyGraph(st)
	}
	return m.applyContext(st)
}

func (m *model) applyEvent(st step) (want, bool) {
	e := m.events[st.event]
	if st.op == eventCreate {
		c := m.current(st.thread)
		flags := uint32(st.value)
		switch {
		case e != nil:
			return want{}, false
		case c < 0:
			return want{res: driver.ResultInvalidContext}, true
		case flags > 7 || flags&4 != 0 && flags&2 == 0:
			return want{res: driver.ResultInvalidValue}, true
		}
		e = &mEvent{slot: int(st.event), ctx: c, flags: flags}
		if flags&driver.CU_EVENT_INTERPROCESS != 0 {
			e.state = pending // another process may have recorded it
		}
		m.events[st.event] = e
		return want{}, true
	}
	if e == nil {
		return want{}, false
	}
	switch st.op {
	case eventDestroy:
		if e.pinned {
			return want{}, false
		}
		m.forget(e)
		m.events[st.event] = nil
		return want{}, true
	case eventRecord, eventRecordWithFlags:
		return m.applyRecord(st, e)
	case eventElapsed, eventElapsedV2:
		return m.applyElapsed(e, m.events[st.end])
	}
	switch m.stateOf(e) {
	case captured:
		return invalidate(e.capture, driver.ResultCapturedEvent), true
	case invalid:
		return want{res: driver.ResultInvalidValue}, true
	}
	if r := m.forbidden(st.thread, -1); r != ok {
		return want{res: r}, true
	}
	if m.stateOf(e) != pending {
		return want{}, true
	}
	if st.op == eventQuery {
		return want{res: driver.ResultNotReady}, true
	}
	return m.opening(e.point), true
}

// opening is the answer of a call that waits for gates, which are opened before the call.
func (m *model) opening(gates set) want {
	w := want{opens: gates & m.closed}
	m.closed &^= gates
	return w
}

func (m *model) applyRecord(st step, e *mEvent) (want, bool) {
	s, r := m.stream(st)
	switch {
	case r != ok:
		return want{res: r}, true
	case s == nil:
		return want{}, false
	case len(m.implicit(s)) > 0:
		return invalidateAll(m.implicit(s), driver.ResultStreamCaptureImplicit), true
	case st.op == eventRecordWithFlags && st.value == driver.CU_EVENT_RECORD_EXTERNAL && s.capture == nil:
		return want{res: driver.ResultIllegalState}, true
	case st.op == eventRecordWithFlags && st.value == driver.CU_EVENT_RECORD_EXTERNAL && e.ctx != s.ctx:
		return want{}, false
	case st.op == eventRecordWithFlags && st.value == driver.CU_EVENT_RECORD_EXTERNAL:
		return m.node(s, mNode{record: e})
	case s.capture != nil && s.capture.invalidated:
		return want{res: driver.ResultStreamCaptureInvalidated}, true
	case e.ctx != s.ctx:
		return want{res: driver.ResultInvalidHandle}, true
	case s.capture == nil && e.flags == driver.CU_EVENT_DISABLE_TIMING && !s.legacy && s.tail&m.closed == 0:
		m.record(e, m.barriers(s)&m.closed, s) // the stream stays idle
		return want{}, true
	case s.capture == nil:
		m.record(e, m.enqueue(s, e.earlier()), s)
		return want{}, true
	case e.flags&driver.CU_EVENT_INTERPROCESS != 0:
		return want{res: driver.ResultStreamCaptureUnsupported}, true
	}
	m.forget(e)
	e.state, e.capture, e.nodes = captured, s.capture, s.nodes
	e.capture.events = append(e.capture.events, e)
	return want{}, true
}

func (m *model) applyElapsed(a, b *mEvent) (want, bool) {
	if b == nil {
		return want{}, false
	}
	for _, e := range []*mEvent{a, b} { // the first event is checked first
		switch {
		case e.state == captured:
			return want{res: driver.ResultCapturedEvent}, true
		case e.state == invalid:
			return want{res: driver.ResultInvalidValue}, true
		case e.state == empty || !e.timed():
			return want{res: driver.ResultInvalidHandle}, true
		}
	}
	switch {
	case a.ctx != b.ctx:
		return want{res: driver.ResultInvalidHandle}, true
	case m.stateOf(a) == pending || m.stateOf(b) == pending:
		return want{res: driver.ResultNotReady}, true
	}
	w := want{}
	if a.lane != nil && a.lane == b.lane {
		w.value = int64(b.number - a.number) // has the sign of the time
	}
	return w, true
}

func (m *model) applyStream(st step) (want, bool) {
	if st.op == streamCreate || st.op == streamCreateWithPriority {
		return m.applyStreamCreate(st)
	}
	s, r := m.stream(st)
	switch {
	case r != ok && st.op == beginCapture && (st.value < 0 || st.value > 2): // the mode is checked first
		return want{res: driver.ResultInvalidValue}, true
	case r != ok && st.op != streamDestroy:
		return want{res: r}, true
	case s == nil:
		return want{}, false
	}
	conflicts := m.implicit(s)
	switch st.op {
	case streamDestroy:
		if st.stream < firstStream {
			return want{}, false
		}
		return m.applyStreamDestroy(s), true
	case isCapturing, captureInfoV2, captureInfo:
		switch {
		case len(conflicts) > 0:
			return want{res: driver.ResultStreamCaptureImplicit}, true
		case s.capture == nil:
			return want{}, true
		case s.capture.invalidated:
			return want{value: driver.CU_STREAM_CAPTURE_STATUS_INVALIDATED}, true
		}
		return want{value: driver.CU_STREAM_CAPTURE_STATUS_ACTIVE}, true
	case beginCapture:
		if st.value < 0 || st.value > 2 {
			return want{res: driver.ResultInvalidValue}, true
		}
	}
	// The legacy stream would have to wait for streams that are being captured.
	if len(conflicts) > 0 {
		return invalidateAll(conflicts, driver.ResultStreamCaptureImplicit), true
	}
	switch st.op {
	case streamGetCtx, streamGetPriority:
		switch {
		case s.capture != nil && s.capture.invalidated:
			return want{res: driver.ResultStreamCaptureInvalidated}, true
		case st.op == streamGetCtx:
			return want{value: int64(s.ctx)}, true
		}
		return want{value: int64(s.priority)}, true
	case streamGetFlags, streamGetID, streamGetDevice:
		switch {
		case s.capture != nil:
			return invalidate(s.capture, driver.ResultStreamCaptureUnsupported), true
		case st.op == streamGetFlags:
			return want{value: int64(s.flags)}, true
		}
		return want{}, true
	case beginCapture:
		switch {
		case s.legacy:
			return want{res: driver.ResultStreamCaptureUnsupported}, true
		case s.capture != nil:
			return want{res: driver.ResultIllegalState}, true
		}
		s.capture = &mCapture{mode: st.value, thread: int(st.thread), origin: s, streams: []*mStream{s}, graph: &mGraph{ctx: s.ctx}}
		m.captures = append(m.captures, s.capture)
		return want{}, true
	case endCapture:
		return m.applyEnd(st, s)
	case streamWaitEvent:
		return m.applyWait(st, s)
	case streamQuery, streamSynchronize:
		if s.capture != nil {
			return invalidate(s.capture, driver.ResultStreamCaptureUnsupported), true
		}
		if r := m.forbidden(st.thread, -1); r != ok {
			return want{res: r}, true
		}
		work := s.tail
		if s.legacy {
			work |= m.defaults(s) // the gates that it would wait for count, too
		}
		switch {
		case work&m.closed == 0:
			return want{}, true
		case st.op == streamQuery:
			return want{res: driver.ResultNotReady}, true
		}
		return m.opening(work), true
	case streamWaitValue:
		if s.capture != nil || m.gates >= limit {
			return want{}, false
		}
		gate := set(1) << m.gates
		m.closed |= gate
		m.enqueue(s, gate)
		w := want{value: int64(m.gates)}
		m.gates++
		return w, true
	}
	if s.capture != nil { // work
		return m.node(s, mNode{})
	}
	m.enqueue(s, 0)
	m.timed++
	return want{}, true
}

func (m *model) applyStreamCreate(st step) (want, bool) {
	c := m.current(st.thread)
	switch {
	case st.stream < firstStream || m.streams[st.stream] != nil:
		return want{}, false
	case st.value < 0 || st.value > driver.CU_STREAM_NON_BLOCKING:
		return want{res: driver.ResultInvalidValue}, true
	case c < 0:
		return want{res: driver.ResultInvalidContext}, true
	}
	s := &mStream{slot: int(st.stream), ctx: c, flags: uint32(st.value), blocking: st.value == 0}
	if st.op == streamCreateWithPriority {
		s.priority = min(max(st.prio, -5), 0)
	}
	m.streams[st.stream] = s
	m.contexts[c].streams = append(m.contexts[c].streams, s)
	return want{}, true
}

func (m *model) applyStreamDestroy(s *mStream) want {
	if c := s.capture; c != nil {
		if c.origin == s {
			c.invalidated = true
			m.finish(c)
		}
		c.lost |= s.nodes
		c.streams = slices.DeleteFunc(c.streams, func(other *mStream) bool { return other == s })
	}
	ctx := &m.contexts[s.ctx]
	if s.blocking {
		ctx.ghosts |= s.tail
	} else {
		ctx.lost |= s.tail
	}
	ctx.streams = slices.DeleteFunc(ctx.streams, func(other *mStream) bool { return other == s })
	m.streams[s.slot] = nil
	return want{}
}

func (m *model) applyWait(st step, s *mStream) (want, bool) {
	e := m.events[st.event]
	switch {
	case e == nil, e.flags&driver.CU_EVENT_INTERPROCESS != 0 && e.ctx != s.ctx: // a driver in C crashes
		return want{}, false
	case s.capture != nil && s.capture.invalidated:
		return want{res: driver.ResultStreamCaptureInvalidated}, true
	case e.state == invalid && s.capture != nil:
		return invalidate(s.capture, driver.ResultInvalidValue), true
	case e.state == invalid:
		return want{res: driver.ResultInvalidValue}, true
	case st.value == driver.CU_EVENT_WAIT_EXTERNAL:
		switch {
		case s.capture == nil:
			return want{res: driver.ResultIllegalState}, true
		case e.ctx != s.ctx, e.state == captured:
			return want{}, false
		}
		return m.node(s, mNode{wait: e})
	case e.state == captured:
		return m.applyJoin(s, e)
	case s.capture != nil:
		switch {
		case e.flags&driver.CU_EVENT_INTERPROCESS != 0:
			return invalidate(s.capture, driver.ResultStreamCaptureUnsupported), true
		case e.state == empty:
			return want{}, true
		}
		return invalidate(s.capture, driver.ResultStreamCaptureIsolation), true
	}
	if e.lane == s && !s.legacy && e.flags&driver.CU_EVENT_INTERPROCESS == 0 {
		return want{}, true // the work of one stream is in order
	}
	switch {
	case s.legacy && e.state != empty, e.flags&driver.CU_EVENT_INTERPROCESS != 0:
		m.enqueue(s, e.point) // it waits for the barriers, even if the event is complete
	case e.point&m.closed != 0:
		s.tail = (s.tail | m.contexts[s.ctx].gate | e.point) & m.closed
	}
	return want{}, true
}

// applyJoin makes a stream wait for a captured event.
func (m *model) applyJoin(s *mStream, e *mEvent) (want, bool) {
	c := e.capture
	switch {
	case s.ctx != e.ctx:
		return want{}, false
	case s.legacy:
		return invalidate(c, driver.ResultStreamCaptureImplicit), true
	case s.capture == nil:
		s.capture = c
		c.streams = append(c.streams, s)
	case s.capture != c:
		invalidate(s.capture, ok)
		return invalidate(c, driver.ResultStreamCaptureMerge), true
	}
	s.nodes |= e.nodes
	return want{}, true
}

func (m *model) applyEnd(st step, s *mStream) (want, bool) {
	c := s.capture
	switch {
	case m.graphs[st.graph] != nil:
		return want{}, false
	case c == nil:
		return want{res: driver.ResultIllegalState}, true
	case c.origin != s:
		return invalidate(c, driver.ResultStreamCaptureUnmatched), true
	}
	joined := c.lost&^s.nodes == 0
	for _, other := range c.streams {
		joined = joined && other.nodes&^s.nodes == 0
	}
	m.finish(c)
	switch {
	case c.invalidated:
		return want{res: driver.ResultStreamCaptureInvalidated}, true
	case !joined:
		return want{res: driver.ResultStreamCaptureUnjoined}, true
	case c.mode != driver.CU_STREAM_CAPTURE_MODE_RELAXED && c.thread != int(st.thread):
		return want{res: driver.ResultStreamCaptureWrongThread}, true
	}
	m.graphs[st.graph] = c.graph
	return want{value: int64(len(c.graph.nodes))}, true
}

func (m *model) applyContext(st step) (want, bool) {
	th := &m.threads[st.thread]
	c := m.current(st.thread)
	e := m.events[st.event]
	switch st.op {
	case exchangeMode:
		w := want{value: int64(th.mode)}
		th.mode = st.value
		return w, true
	case ctxGetCurrent:
		return want{value: int64(c)}, true
	case ctxPush:
		if st.ctx == 0 {
			return want{res: driver.ResultInvalidValue}, true
		}
		th.stack = append(th.stack, int(st.ctx)-1)
		return want{}, true
	case ctxPop:
		if c < 0 {
			return want{res: driver.ResultInvalidContext}, true
		}
		th.stack = th.stack[:len(th.stack)-1]
		return want{value: int64(c)}, true
	case ctxSetCurrent:
		th.stack = th.stack[:max(len(th.stack)-1, 0)]
		if st.ctx > 0 {
			th.stack = append(th.stack, int(st.ctx)-1)
		}
		return want{}, true
	case ctxSynchronize, memAlloc:
		if c < 0 {
			return want{res: driver.ResultInvalidContext}, true
		}
		of := -1
		if st.op == ctxSynchronize {
			of = c
		}
		if r := m.forbidden(st.thread, of); r != ok || st.op == memAlloc {
			return want{res: r}, true
		}
		return m.opening(m.closed), true
	case memMap:
		return want{}, true
	case openGate:
		if st.value >= 0 {
			return m.opening(1 << st.value), true
		}
		return m.opening(m.closed), true
	}
	// This event stands for all streams of a context.
	if e == nil || st.ctx == 0 {
		return want{}, false
	}
	ctx := &m.contexts[st.ctx-1]
	all := ctx.gate | ctx.ghosts | ctx.lost
	for _, s := range ctx.streams {
		all |= s.tail
	}
	if st.op == ctxRecordEvent {
		if e.ctx != int(st.ctx)-1 {
			return want{res: driver.ResultInvalidHandle}, true
		}
		if list := m.capturesIn(int(st.ctx) - 1); len(list) > 0 {
			return invalidateAll(list, driver.ResultStreamCaptureUnsupported), true
		}
		ctx.lane = (ctx.lane | all | e.earlier()) & m.closed
		m.record(e, ctx.lane, nil)
		return want{}, true
	}
	switch list := m.capturesIn(int(st.ctx) - 1); {
	case e.flags&driver.CU_EVENT_INTERPROCESS != 0 && e.ctx != int(st.ctx)-1: // a driver in C crashes
		return want{}, false
	case len(list) > 0:
		return invalidateAll(list, driver.ResultStreamCaptureUnsupported), true
	case e.state == invalid:
		return want{res: driver.ResultInvalidValue}, true
	case e.state == captured:
		return invalidate(e.capture, driver.ResultCapturedEvent), true
	}
	if e.flags&driver.CU_EVENT_INTERPROCESS != 0 {
		ctx.lane |= all // it is a barrier, even if the event is complete
	}
	if e.state == empty && e.flags&driver.CU_EVENT_INTERPROCESS == 0 {
		return want{}, true
	}
	ctx.lane = (ctx.lane | ctx.gate | e.point) & m.closed
	ctx.gate = ctx.lane
	return want{}, true
}

// applyPoisoned is apply after a sticky error.
func (m *model) applyPoisoned(st step) (want, bool) {
	sticky := want{res: driver.ResultIllegalAddress}
	e, s, g, x := m.events[st.event], m.streams[st.stream], m.graphs[st.graph], m.execs[st.exec]
	for _, a := range operationWeights.args[st.op] {
		switch {
		case a == 's' && st.stream < firstStream && m.current(st.thread) < 0: // it is not known which of two errors is returned
			return want{}, false
		case a == 's' && st.stream >= firstStream && s == nil, a == 'e' && e == nil, a == 'f' && m.events[st.end] == nil,
			a == 'g' && g == nil, a == 'x' && x == nil, a == 'c' && st.ctx == 0 && st.op != ctxSetCurrent && st.op != ctxPush,
			a == 'S' && s != nil, a == 'E' && e != nil, a == 'G' && g != nil, a == 'X' && x != nil:
			return want{}, false
		}
	}
	switch st.op {
	case ctxGetCurrent, ctxPush, ctxPop, ctxSetCurrent, exchangeMode:
		return m.applyContext(st)
	case graphCreate:
		return m.applyGraph(st)
	case graphAddRecord, graphAddWait:
		return want{}, g.ctx < 0 || g.ctx == e.ctx
	case poison, openGate, graphDestroy, graphExecDestroy, streamWaitValue:
		return want{}, false // the answer is not known, or there is no gate to wait for
	case eventCreate, streamCreate, streamCreateWithPriority:
		// Flags and the current context are checked, too, in an unknown order.
		return sticky, st.value >= 0 && st.value <= 1 && m.current(st.thread) >= 0
	case memMap:
		return want{}, true
	case memAlloc, ctxSynchronize, graphInstantiate:
		return sticky, m.current(st.thread) >= 0
	case beginCapture:
		if st.value < 0 || st.value > 2 {
			return want{res: driver.ResultInvalidValue}, true
		}
	case eventDestroy:
		if e.pinned {
			return want{}, false
		}
		m.events[st.event] = nil
	case streamDestroy:
		if st.stream < firstStream {
			return want{}, false
		}
		m.streams[st.stream] = nil
	}
	return sticky, true
}

func (m *model) applyGraph(st step) (want, bool) {
	g, e, x := m.graphs[st.graph], m.events[st.event], m.execs[st.exec]
	switch st.op {
	case graphCreate:
		if g != nil {
			return want{}, false
		}
		m.graphs[st.graph] = &mGraph{ctx: -1}
		return want{}, true
	case graphAddRecord, graphAddWait:
		if g == nil || e == nil || e.state == captured || e.state == invalid || len(g.nodes) >= limit || g.ctx >= 0 && g.ctx != e.ctx {
			return want{}, false
		}
		n := mNode{record: e}
		if st.op == graphAddWait {
			n = mNode{wait: e}
		}
		e.pinned, g.ctx = true, e.ctx
		g.nodes = append(g.nodes, n)
		return want{}, true
	case graphInstantiate:
		if g == nil || x != nil || g.ctx < 0 || m.current(st.thread) != g.ctx {
			return want{}, false
		}
		if r := m.forbidden(st.thread, -1); r != ok {
			return want{res: r}, true
		}
		m.execs[st.exec] = &mExec{mGraph: mGraph{g.ctx, slices.Clone(g.nodes)}}
		return want{}, true
	case graphDestroy:
		m.graphs[st.graph] = nil
		return want{}, g != nil
	case graphExecDestroy:
		if x == nil || x.newest&m.closed != 0 {
			return want{}, false // the graph may run
		}
		if r := m.forbidden(st.thread, -1); r != ok {
			return want{res: r}, true
		}
		m.execs[st.exec] = nil
		return want{}, true
	}
	return m.applyLaunch(st, x)
}

func (m *model) applyLaunch(st step, x *mExec) (want, bool) {
	if x == nil {
		return want{}, false
	}
	s, r := m.stream(st)
	if r != ok {
		return want{res: r}, true
	}
	switch conflicts := m.implicit(s); {
	case s == nil || s.ctx != x.ctx:
		return want{}, false
	case len(conflicts) > 0:
		return invalidateAll(conflicts, driver.ResultStreamCaptureImplicit), true
	case s.capture != nil:
		return invalidate(s.capture, driver.ResultStreamCaptureUnsupported), true
	}
	for _, n := range x.nodes {
		if n.record != nil && n.record.flags&driver.CU_EVENT_INTERPROCESS != 0 && m.closed != 0 {
			return want{}, false // it is not known whether it waits for the previous record
		}
		for _, e := range []*mEvent{n.record, n.wait} {
			if e != nil && (e.state == captured || e.state == invalid) {
				return want{}, false
			}
		}
	}
	if len(x.nodes) == 0 {
		return want{}, true // adds no work
	}
	begin := m.enqueue(s, x.newest)
	ends := begin
	m.timed += len(x.nodes)
	at := make([]set, len(x.nodes))
	for i, n := range x.nodes {
		at[i] = begin
		for j := range i {
			if n.after&(1<<j) != 0 {
				at[i] |= at[j]
			}
		}
		if n.wait != nil {
			at[i] |= n.wait.point & m.closed
		}
		if n.record != nil {
			m.record(n.record, at[i], nil)
		}
		ends |= at[i]
	}
	x.newest = m.enqueue(s, ends)
	return want{}, true
}
