package races

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/purecu/purecu/internal/lock"
)

// Detector finds races. It is an [Observer], and is safe for concurrent use.
type Detector struct {
	mu     lock.Mutex[lock.Races]
	report func(Race) // nil after Stop
	caller            // the host, but during a call by a function that knows less
	apart  apart
	lanes  lanes
	memory memory
	objects
	orderByHost
	words      words
	semaphores semaphores
	graphs
	found
	holds
	made uint64 // how many steps there were
}

// objects are the objects of the program that the detector knows.
type objects struct {
	streams  map[Stream]*stream
	numbered int // how many streams have a number
	contexts map[uintptr]*context
	events   map[uintptr]*event
	shared   queue // records of events that other processes may record
}

// New returns a detector that calls report for each race.
func New(report func(Race)) *Detector {
	return &Detector{
		report:  report,
		caller:  caller{own: &lane{}},
		objects: objects{streams: map[Stream]*stream{}, contexts: map[uintptr]*context{}, events: map[uintptr]*event{}},
		orderByHost: orderByHost{
			timelines: map[uintptr]*timeline{},
			hostFuncs: map[uint64]*hostFunc{},
		},
		graphs: graphs{described: map[uintptr]*graph{}, executable: map[uintptr]*exec{}},
		found:  found{reported: map[pair]bool{}},
	}
}

// stream is a stream of the program.
type stream struct {
	key         Stream
	name        string // in reports
	context     *context
	lane        *lane
	tail        *step // the last step, nil before the first one
	nonBlocking bool
	numbered    bool // name has a number
	// capture is the capture that the stream is part of, or nil; deps are the nodes that the
	// stream's next node comes after.
	capture *capture
	deps    []*node
}

// context is a CUDA context.
type context struct {
	streams map[*stream]struct{}
	legacy  *stream // nil before its first use
	// recorded has the records of the whole context, and awaited the waits. New streams begin after
	// awaited.
	recorded, awaited queue
	// threads are the ends of threads' default streams, whose streams other threads may have now.
	threads queue
	// blocking and nonBlocking are the ends of the destroyed streams of each kind.
	blocking, nonBlocking queue
}

// queue is a lane with its last step.
type queue struct {
	lane *lane
	tail *step // nil before the first one
}

// add adds a step after the last one.
func (q *queue) add(d *Detector, deps ...*step) *step {
	if q.lane == nil {
		q.lane = d.lanes.take(d.host)
	}
	q.tail = d.add(q.lane, nil, append(deps, q.tail)...)
	return q.tail
}

// event is the newest record of an event.
type event struct {
	step *step
	// If the record is part of a capture, these are the nodes before it.
	capture *capture
	deps    []*node
	// before is the record before this one, until the driver has taken the next one.
	before *event
}

func (d *Detector) context(raw uintptr) *context {
	c := d.contexts[raw]
	if c == nil {
		c = &context{streams: map[*stream]struct{}{}}
		d.contexts[raw] = c
	}
	return c
}

// stream returns a stream, which may be new to the detector.
func (d *Detector) stream(key Stream) *stream {
	id := key
	if key.Handle > PerThread {
		id.Context = 0 // the handle says enough
	}
	c := d.context(key.Context)
	if s := d.streams[id]; s != nil {
		if s.context == c {
			return s
		}
		d.forget(key) // another stream, which other code has created, has the handle now
	}
	s := &stream{key: key, context: c, lane: d.lanes.take(d.host), tail: c.awaited.tail}
	of := ""
	if len(d.contexts) > 1 {
		of = fmt.Sprintf(" of context %#x", key.Context)
	}
	switch key.Handle {
	case Legacy:
		c.legacy = s
		s.name = "the legacy default stream" + of
	case PerThread:
		s.name = "the thread's default stream" + of
		s.tail = c.threads.add(d, s.tail)
		for other := range c.streams {
			if other.key.Handle == PerThread { // it may be of the same thread
				s.tail = d.add(s.lane, nil, s.tail, other.tail)
			}
		}
	default:
		s.name = fmt.Sprintf("stream %#x", key.Handle)
	}
	c.streams[s] = struct{}{}
	d.streams[id] = s
	return s
}

// enqueue adds a step to a stream.
func (d *Detector) enqueue(s *stream, w *work, deps ...*step) *step {
	deps = append(deps, s.tail)
	switch c := s.context; {
	case s == c.legacy:
		deps = append(deps, c.blocking.tail)
		for other := range c.streams {
			if !other.nonBlocking {
				deps = append(deps, other.tail)
			}
		}
	case !s.nonBlocking && c.legacy != nil:
		deps = append(deps, c.legacy.tail)
	}
	s.tail = d.add(s.lane, w, deps...)
	return s.tail
}

// NewStream implements [Observer].
func (d *Detector) NewStream(key Stream, nonBlocking, fresh bool) {
	defer d.enter()()
	if fresh {
		d.forget(key)
	}
	s := d.stream(key)
	if s.nonBlocking = nonBlocking; !s.numbered {
		d.numbered++
		s.numbered, s.name = true, fmt.Sprintf("stream %d", d.numbered)
	}
}

// EndThread implements [Observer].
func (d *Detector) EndThread(key Stream) {
	defer d.enter()()
	s := d.streams[key]
	if s == nil {
		return
	}
	d.forget(key)
	c := s.context
	c.threads.add(d, s.tail)
	for other := range c.streams {
		if other.key.Handle == PerThread { // it may be of the same thread
			other.tail = d.add(other.lane, nil, other.tail, s.tail)
		}
	}
}

// StreamDestroyed implements [Observer].
func (d *Detector) StreamDestroyed(key Stream) {
	defer d.enter()()
	d.forget(key)
}

// forget ends the lane of a stream. Its work may still run.
func (d *Detector) forget(key Stream) {
	id := key
	if key.Handle > PerThread {
		id.Context = 0
	}
	s := d.streams[id]
	if s == nil {
		return
	}
	delete(d.streams, id)
	delete(s.context.streams, s)
	if c := s.context; s.nonBlocking {
		c.nonBlocking.add(d, s.tail)
	} else {
		c.blocking.add(d, s.tail)
	}
	d.lanes.end(s.lane)
}

// Enqueue implements [Observer].
func (d *Detector) Enqueue(key Stream, call, detail string, uses []Use) {
	stack := callers()
	defer d.enter()()
	s := d.stream(key)
	w := &work{call: call, detail: detail, uses: uses, stack: stack, on: s.name}
	if s.capture != nil {
		s.node(&node{work: w})
		return
	}
	d.enqueue(s, w)
}

// Record implements [Observer].
func (d *Detector) Record(key Stream, raw uintptr, kind EventKind) {
	defer d.enter()()
	s := d.stream(key)
	switch {
	case s.capture == nil:
		d.recorded(raw, kind, d.enqueue(s, nil))
	case kind == ExternalEvent:
		s.node(&node{event: raw, records: true})
	default:
		d.setEvent(raw, &event{capture: s.capture, deps: slices.Clone(s.deps)})
	}
}

// recorded notes the newest record of an event.
func (d *Detector) recorded(raw uintptr, kind EventKind, s *step) {
	d.setEvent(raw, &event{step: s})
	if kind == SharedEvent {
		d.shared.add(d, s)
	}
}

// setEvent replaces the newest record of an event.
func (d *Detector) setEvent(raw uintptr, e *event) {
	if e.before = d.events[raw]; e.before != nil {
		e.before.before = nil
	}
	d.events[raw] = e
}

// RecordFailed implements [Observer].
func (d *Detector) RecordFailed(raw uintptr) {
	defer d.enter()()
	if e := d.events[raw]; e != nil && e.before != nil {
		d.events[raw] = e.before
	} else {
		delete(d.events, raw)
	}
}

// RecordContext implements [Observer].
func (d *Detector) RecordContext(ctx, raw uintptr, kind EventKind) {
	defer d.enter()()
	c := d.context(ctx)
	d.recorded(raw, kind, c.recorded.add(d, c.tails()...))
}

// tails returns the last steps of the context, none of one that is not known.
func (c *context) tails() []*step {
	if c == nil {
		return nil
	}
	all := []*step{c.awaited.tail, c.blocking.tail, c.nonBlocking.tail}
	for s := range c.streams {
		all = append(all, s.tail)
	}
	return all
}

// before returns the steps that a wait for an event comes after. Through another process, a wait for
// a shared event may follow each record of one that this process has made before.
func (d *Detector) before(raw uintptr, kind EventKind) []*step {
	var deps []*step
	if e := d.events[raw]; e != nil {
		deps = append(deps, e.step)
	}
	if kind == SharedEvent {
		deps = append(deps, d.shared.tail)
	}
	return deps
}

// Wait implements [Observer].
func (d *Detector) Wait(key Stream, raw uintptr, kind EventKind) {
	defer d.enter()()
	s, e := d.stream(key), d.events[raw]
	switch {
	case kind == ExternalEvent && s.capture != nil:
		s.node(&node{event: raw})
	case e != nil && e.capture != nil:
		s.join(e.capture, e.deps)
	case s.capture == nil:
		d.enqueue(s, nil, d.before(raw, kind)...)
	}
}

// WaitContext implements [Observer].
func (d *Detector) WaitContext(ctx, raw uintptr, kind EventKind) {
	defer d.enter()()
	c := d.context(ctx)
	all := c.awaited.add(d, d.before(raw, kind)...)
	for s := range c.streams {
		s.tail = d.add(s.lane, nil, s.tail, all)
	}
}

// EventDestroyed implements [Observer].
func (d *Detector) EventDestroyed(raw uintptr) {
	defer d.enter()()
	delete(d.events, raw)
}

// EventDone implements [Observer].
func (d *Detector) EventDone(raw uintptr, kind EventKind) {
	defer d.enter()()
	for _, s := range d.before(raw, kind) {
		d.learn(s)
	}
}

// StreamDone implements [Observer].
func (d *Detector) StreamDone(key Stream) {
	defer d.enter()()
	s := d.stream(key)
	if s == s.context.legacy {
		d.learn(d.enqueue(s, nil)) // the driver waits for the blocking streams
		return
	}
	d.learn(s.tail)
}

// ContextDone implements [Observer].
func (d *Detector) ContextDone(ctx uintptr) {
	defer d.enter()()
	for _, s := range d.contexts[ctx].tails() {
		d.learn(s)
	}
}

// DestroyContext implements [Observer].
func (d *Detector) DestroyContext(ctx uintptr) (destroyed func()) {
	defer d.enter()()
	c := d.contexts[ctx]
	if c == nil {
		return func() {}
	}
	tails := c.tails()
	for s := range c.streams {
		d.forget(s.key)
	}
	for _, q := range []*queue{&c.recorded, &c.awaited, &c.threads, &c.blocking, &c.nonBlocking} {
		if q.lane != nil {
			d.lanes.end(q.lane)
		}
	}
	delete(d.contexts, ctx)
	return func() {
		defer d.enter()()
		for _, s := range tails {
			d.learn(s)
		}
	}
}

// HostUse implements [Observer].
func (d *Detector) HostUse(call string, u Use) {
	stack := callers()
	defer d.enter()()
	d.hostUse(&work{call: call, uses: []Use{u}, stack: stack})
}

// hostUse adds a step of the host.
func (d *Detector) hostUse(w *work) *step {
	s := d.add(d.own, w)
	d.host = s.clock
	return s
}

// View is a use of pinned memory by the host that has begun.
type View struct{ step *step }

// BeginView implements [Observer].
func (d *Detector) BeginView(call string, u Use) View {
	stack := callers()
	defer d.enter()()
	return View{d.hostUse(&work{call: call, uses: []Use{u}, stack: stack})}
}

// EndView implements [Observer]. The writes count as made at the beginning: work that was enqueued
// meanwhile may use what was written before.
func (d *Detector) EndView(v View, written []Use) {
	defer d.enter()()
	w := *v.step.work
	w.uses = written
	s := *v.step
	s.work, s.late = &w, true
	d.memory.use(d, &s)
}

// Allocated implements [Observer].
func (d *Detector) Allocated(what string, addr, size uint64, onHost bool) {
	stack := callers()
	defer d.enter()()
	d.forgetWords(addr, size)
	d.memory.allocate(d, &allocation{what: what, addr: addr, size: size, onHost: onHost, stack: stack})
}

// Mapped implements [Observer].
func (d *Detector) Mapped(what string, addr, size, physical uint64) {
	stack := callers()
	defer d.enter()()
	d.mapped(&allocation{what: what, addr: addr, size: size, stack: stack, physical: physical})
}

func (d *Detector) mapped(a *allocation) {
	d.forgetWords(a.addr, a.size)
	d.memory.allocate(d, a)
	d.memory.mapped(a)
}

// Opened implements [Observer].
func (d *Detector) Opened(what string, addr, size, physical uint64) {
	stack := callers()
	defer d.enter()()
	a := d.memory.holding(addr, false)
	if a != nil && a.addr == addr && a.freed == nil && a.openings > 0 && a.physical == physical {
		a.openings++
		return
	}
	if size == 0 {
		return // the driver did not tell the size, and nothing uses the memory
	}
	d.mapped(&allocation{what: what, addr: addr, size: size, stack: stack, physical: physical, openings: 1})
}

// Freed implements [Observer].
func (d *Detector) Freed(addr uint64, onHost bool) {
	stack := callers()
	defer d.enter()()
	switch a := d.memory.holding(addr, onHost); {
	case a == nil, a.addr != addr, a.freed != nil:
	case a.openings > 1:
		a.openings--
	default:
		d.memory.free(d, a, stack)
	}
}

// Unloaded implements [Observer].
func (d *Detector) Unloaded(addr, size uint64) {
	defer d.enter()()
	d.memory.forget(d, false, addr, size)
}

// Report implements [Observer].
func (d *Detector) Report() {
	d.mu.Lock()
	list := d.list
	d.list = nil
	report := d.report
	d.mu.Unlock()
	if len(list) == 0 || report == nil {
		return
	}
	lock.None("a report of races")
	for _, r := range list {
		report(r)
	}
}

// Stop reports what was found, and then nothing any more.
func (d *Detector) Stop() {
	d.Report()
	defer d.enter()()
	d.report = nil
}

// callers returns the stack of the caller's caller.
func callers() []uintptr {
	var pcs [32]uintptr
	return slices.Clone(pcs[:runtime.Callers(3, pcs[:])])
}
