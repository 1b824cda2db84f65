package sim

import (
	"container/heap"
	"slices"
	"time"

	"github.com/purecu/purecu/driver"
)

// engine executes the work on streams. It has no goroutine. The next call of the driver completes
// the work that is due, in the order of its times. A timer does so if a call waits, or if an effect
// is visible outside of the driver.
type engine struct {
	d         *Driver
	running   opHeap   // operations with a time, by the time of their completion
	polled    []*op    // operations that wait for a value in memory
	outside   []*op    // operations that goroutines execute
	executing int      // goroutines that execute kernels, or move bytes
	moving    int      // those of executing that move bytes
	inGo      int      // those of executing that execute kernels in Go
	starts    uint64   // how many of executing have ever begun
	active    []uint64 // the numbers of executing, in their order
	work      []*op    // operations that have become ready
	busy      bool     // run is active
	stalled   bool     // nothing begins or completes: see stall
	timer     *time.Timer
	due       int64 // when the timer fires, if it is armed
	armed     bool
}

// op is a piece of work on a stream.
type op struct {
	s     *stream
	after int   // number of operations that have to complete before
	next  []*op // operations that wait for this one
	began int64 // the earliest time at which it may begin

	duration  int64       // the time that it takes
	begin     func()      // called when it begins; may be nil
	ready     func() bool // reports whether it may complete; nil if it waits for operations only
	effect    func()      // called when it completes; may be nil
	visible   bool        // the effect is visible without a call of the driver
	outside   bool        // a goroutine that begin has started completes it
	execution *execution  // of a kernel, or nil
	dropped   func()      // called if it will never run; may be nil

	// The next ones are for operations that move bytes: see access.

	provide func() bool   // reports whether the machine has memory for what is written; may be nil
	apart   func() bool   // makes a goroutine do what has an effect, and then call effect, if it returns true; may be nil
	moving  bool          // the goroutine is active
	staged  *content      // has the bytes of a copy, or nil
	waited  bool          // a call waits, and returns result if there was too little memory
	result  driver.Result // ok, or that there was too little memory

	done bool
	at   int64 // the time of its completion

	overtakes bool // does not wait for the legacy default stream, though it is on a blocking stream
	pendingPlace
}

// enqueue adds an operation to a stream. It waits for the stream's work, for the stream's barriers,
// and for the operations in after.
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

// run begins the operations that have become ready, and completes those that take no time.
func (e *engine) run() {
	if e.busy || e.stalled {
		return // the active run handles the new work, or stall does
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
	case e.d.lost != ok: // begin has caused a sticky error
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
	if o.apart != nil && e.d.lost == ok && o.apart() {
		return // the operation completes later
	}
	o.done = true
	o.s.ctx.pending.remove(o)
	if o.effect != nil && e.d.lost == ok {
		o.effect()
	}
	e.over(o)
}

// over removes an operation that has ended, and makes operations ready that waited only for it.
func (e *engine) over(o *op) {
	for _, n := range o.next {
		n.began = max(n.began, o.at)
		if n.after--; n.after == 0 {
			e.work = append(e.work, n)
		}
	}
	o.next, o.begin, o.effect, o.ready, o.dropped, o.provide, o.apart = nil, nil, nil, nil, nil, nil, nil
	if o.staged != nil {
		e.d.space.retire(o.staged)
		o.staged = nil
	}
	if len(e.d.waits) > 0 {
		e.d.changed.Broadcast()
	}
}

// finish completes an operation that a goroutine has executed.
func (e *engine) finish(o *op) {
	if o.done {
		return // it was dropped during its execution
	}
	e.remove(o)
	e.complete(o)
	e.run()
	e.arm() // a following operation may be visible
}

// begins notes that a goroutine begins to use memory without the driver's lock, and returns its number.
func (e *engine) begins() uint64 {
	e.executing++
	e.starts++
	e.active = append(e.active, e.starts)
	return e.starts
}

// ends notes that the goroutine with a number does not use memory any more.
func (e *engine) ends(number uint64) {
	e.executing--
	e.active = slices.DeleteFunc(e.active, func(n uint64) bool { return n == number })
}

// remove removes an operation from those that goroutines execute.
func (e *engine) remove(o *op) {
	e.outside = slices.DeleteFunc(e.outside, func(other *op) bool { return other == o })
}

// completeAt makes an operation that a goroutine has executed complete at a time.
func (e *engine) completeAt(o *op, at func() int64) {
	if e.catchUp(); o.done {
		return // it was dropped
	}
	e.remove(o)
	o.outside, o.at = false, at()
	heap.Push(&e.running, o)
	e.catchUp()
	e.arm()
}

// drop ends an operation that will not run, and all operations that wait for it.
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

// catchUp completes the operations that are due now.
func (e *engine) catchUp() {
	if len(e.running) == 0 && len(e.polled) == 0 {
		return
	}
	e.advance(e.d.clock.now())
}

// advance completes the operations that are due at a time.
func (e *engine) advance(now int64) {
	if e.stalled {
		return
	}
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

// pollEvery is the interval in which the memory that an operation waits for is read.
const pollEvery = 50 * time.Microsecond

// arm sets the timer, so that the next operation completes without a call of the driver. With
// virtual time only Advance completes operations. Then the timer is only for reading memory while a
// call waits.
func (e *engine) arm() {
	if e.stalled {
		return
	}
	at, any := e.next()
	now := e.d.clock.now()
	if e.d.clock.virtual {
		if len(e.polled) == 0 || len(e.d.waits) == 0 {
			return
		}
		at, any = 0, false // the program may write the memory at any time
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

// fire is the function of the timer.
func (e *engine) fire() {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	e.armed = false
	e.catchUp()
	e.arm()
}

// release continues a held stream.
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

// poison drops all pending operations.
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

// Len implements heap.Interface.
func (h opHeap) Len() int { return len(h) }

// Less implements heap.Interface: the operation that completes first is the least.
func (h opHeap) Less(i, j int) bool { return h[i].at < h[j].at }

// Swap implements heap.Interface.
func (h opHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *opHeap) Push(x any) { *h = append(*h, x.(*op)) }

// Pop implements heap.Interface.
func (h *opHeap) Pop() any {
	old := *h
	o := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return o
}
