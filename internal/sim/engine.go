package sim

import (
	"container/heap"
	"slices"
	"time"
)

// engine executes what is enqueued on streams. It has no goroutine: what is due is
// done by whoever calls the driver next, in the order of its times, or by a timer
// where somebody waits or an effect can be seen from outside.
type engine struct {
	d       *Driver
	running opHeap // by the time of completion
	polled  []*op  // that wait for a value in memory
	outside []*op  // that goroutines are at
	work    []*op  // that became ready
	busy    bool   // work is being done
	timer   *time.Timer
	due     int64 // when the timer fires, if it is armed
	armed   bool
}

// op is a piece of work on a stream.
type op struct {
	s     *stream
	after int   // operations that have to complete first, and are not complete
	next  []*op // operations that have this one among those
	began int64 // when it could begin

	duration int64       // how long it takes
	begin    func()      // what happens when it begins, if anything
	ready    func() bool // what it waits for, if for anything else than operations
	effect   func()      // what happens when it completes, if anything
	visible  bool        // the effect can be seen without asking the driver
	outside  bool        // a goroutine completes it, that begin started
	dropped  func()      // what happens if it never runs, if anything

	done bool
	at   int64 // when it completed, or will

	overtakes bool // the legacy default stream, though it is on a blocking one
	pendingPlace
}

// enqueue puts an operation on a stream, after what is there, after what its
// barriers demand, and after further operations.
func (e *engine) enqueue(s *stream, o *op, after ...*op) {
	o.s = s
	now := e.d.clock.now()
	o.began = now
	o.follow(s.tail)
	for _, other := range s.gates() {
		o.follow(other)
	}
	if !o.overtakes {
		for _, other := range s.defaults() {
			o.follow(other)
		}
	}
	for _, other := range after {
		o.follow(other)
	}
	s.tail = o
	s.ctx.pending.add(o)
	e.d.moved()
	if o.after == 0 {
		e.work = append(e.work, o)
		e.run()
	}
	if o.visible && !o.done {
		e.arm()
	}
}

// follow makes the operation wait for another one.
func (o *op) follow(other *op) {
	if other != nil && !other.done && other != o {
		o.after++
		other.next = append(other.next, o)
	}
}

// run begins what became ready, and completes what takes no time.
func (e *engine) run() {
	if e.busy {
		return // whoever is at it will see it
	}
	e.busy = true
	for len(e.work) > 0 {
		o := e.work[0]
		e.work = e.work[1:]
		switch {
		case e.d.lost != ok:
			e.drop(o)
		case o.s.held:
			o.s.parked = append(o.s.parked, o)
		case o.ready != nil && !o.ready():
			e.polled = append(e.polled, o)
			e.arm()
		default:
			e.start(o)
		}
	}
	e.work = nil
	e.busy = false
}

// start begins an operation.
func (e *engine) start(o *op) {
	if o.begin != nil {
		o.begin()
	}
	switch {
	case e.d.lost != ok: // it did that
		e.drop(o)
		return
	case o.outside:
		e.outside = append(e.outside, o)
		return
	}
	o.at = later(o.began, o.duration)
	if o.duration == 0 {
		e.complete(o)
		return
	}
	heap.Push(&e.running, o)
	if o.visible || len(e.d.waits) > 0 {
		e.arm()
	}
}

// complete completes an operation at its time.
func (e *engine) complete(o *op) {
	o.done = true
	o.s.ctx.pending.remove(o)
	if o.effect != nil && e.d.lost == ok {
		o.effect()
	}
	e.over(o)
}

// over lets those go on that waited for an operation, which was its last.
func (e *engine) over(o *op) {
	for _, n := range o.next {
		n.began = max(n.began, o.at)
		if n.after--; n.after == 0 {
			e.work = append(e.work, n)
		}
	}
	o.next, o.begin, o.effect, o.ready, o.dropped = nil, nil, nil, nil, nil
	if len(e.d.waits) > 0 {
		e.d.changed.Broadcast()
	}
}

// finish completes an operation that a goroutine was at.
func (e *engine) finish(o *op) {
	if o.done {
		return // it was dropped meanwhile
	}
	e.outside = slices.DeleteFunc(e.outside, func(other *op) bool { return other == o })
	e.complete(o)
	e.run()
	e.arm() // what comes next may be visible, or something behind it
}

// drop ends an operation that will not run. Those that waited for it go the same way.
func (e *engine) drop(o *op) {
	if o.done {
		return
	}
	o.done, o.at = true, e.d.clock.now()
	o.s.ctx.pending.remove(o)
	if o.dropped != nil {
		o.dropped()
	}
	e.over(o)
}

// catchUp does what is due now.
func (e *engine) catchUp() {
	if len(e.running) == 0 && len(e.polled) == 0 {
		return
	}
	e.advance(e.d.clock.now())
}

// advance does what is due at a time.
func (e *engine) advance(now int64) {
	for len(e.running) > 0 && e.running[0].at <= now {
		e.complete(heap.Pop(&e.running).(*op))
		e.run()
	}
	if len(e.polled) > 0 {
		polled := e.polled
		e.polled = nil
		for _, o := range polled {
			o.began = max(o.began, now)
			e.work = append(e.work, o)
		}
		e.run()
	}
}

// next returns when the next operation completes.
func (e *engine) next() (at int64, any bool) {
	if len(e.running) == 0 {
		return 0, false
	}
	return e.running[0].at, true
}

// pollEvery is how often memory is looked at that an operation waits for.
const pollEvery = 50 * time.Microsecond

// arm sees to it that what is due next is done although nobody calls the driver.
// With virtual time only Advance does that, but for looking at memory while somebody
// waits.
func (e *engine) arm() {
	at, any := e.next()
	now := e.d.clock.now()
	if e.d.clock.virtual {
		if len(e.polled) == 0 || len(e.d.waits) == 0 {
			return
		}
		at, any = 0, false // the program writes memory when it likes
	}
	if len(e.polled) > 0 && (!any || at > now+int64(pollEvery)) {
		at, any = now+int64(pollEvery), true
	}
	if !any || (e.armed && e.due <= at) {
		return
	}
	e.armed, e.due = true, at
	wait := time.Duration(max(at-now, 0))
	if e.timer == nil {
		e.timer = time.AfterFunc(wait, e.fire)
	} else {
		e.timer.Reset(wait)
	}
}

// fire is what the timer calls.
func (e *engine) fire() {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	e.armed = false
	e.catchUp()
	e.arm()
}

// hold keeps the stream from beginning anything, and release lets it go on.
func (e *engine) release(s *stream) {
	s.held = false
	now := e.d.clock.now()
	for _, o := range s.parked {
		o.began = max(o.began, now)
		e.work = append(e.work, o)
	}
	s.parked = nil
	e.d.moved()
	e.run()
	e.arm()
}

// poison drops everything that is pending: nothing runs any more.
func (e *engine) poison() {
	dead := slices.Concat(e.running, e.polled, e.outside)
	e.running, e.polled, e.outside = nil, nil, nil
	for _, dev := range e.d.devices {
		for _, ctx := range dev.contexts {
			for _, s := range ctx.streams {
				dead = append(dead, s.parked...)
				s.parked = nil
			}
		}
	}
	for _, o := range dead {
		e.drop(o)
	}
	e.run()
	e.d.changed.Broadcast()
}

// opHeap sorts operations by the time of their completion.
type opHeap []*op

// Len is for container/heap: the number of operations.
func (h opHeap) Len() int { return len(h) }

// Less is for container/heap: whether operation i completes before operation j.
func (h opHeap) Less(i, j int) bool { return h[i].at < h[j].at }

// Swap is for container/heap: it exchanges two operations.
func (h opHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is for container/heap: it appends an operation.
func (h *opHeap) Push(x any) { *h = append(*h, x.(*op)) }

// Pop is for container/heap: it takes the last operation away.
func (h *opHeap) Pop() any {
	old := *h
	o := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return o
}
