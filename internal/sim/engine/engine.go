package engine

import (
	"container/heap"
	"slices"
	"sync"
	"time"
)

// Engine executes the work on streams. It has no goroutine, except for large moves of bytes: see MoveApart. The next
// call of the driver completes the work that is due, in the order of its times. A timer does so if a call waits, or if
// an effect is visible outside of the driver.
type Engine struct {
	Clock   Clock
	Changed *sync.Cond // signalled when work completes, or something else happens that a call may wait for
	executing
	waiting

	lock     sync.Locker
	poisoned bool
	running  opHeap // operations with a time, by the time of their completion
	polled   []*Op  // operations that wait for a value in memory
	work     []*Op  // operations that have become ready
	busy     bool   // run is active
	timer    *time.Timer
	due      int64 // when the timer fires, if it is armed
	armed    bool
}

// Init makes the engine ready. lock is the driver's, which the callers of all methods hold.
func (e *Engine) Init(lock sync.Locker) {
	e.lock = lock
	e.Changed = sync.NewCond(lock)
	e.Clock.Init()
	e.BeforeMove = func() {}
	e.Settling = MostSettling
}

// Enqueue adds an operation to a stream. It waits for the stream's work, and for other operations.
func (e *Engine) Enqueue(s *Stream, o *Op, after ...[]*Op) {
	o.stream = s
	o.began = e.Clock.At()
	o.Follow(s.tail)
	for _, list := range after {
		for _, other := range list {
			o.Follow(other)
		}
	}
	s.tail = o
	s.Pending.add(o)
	e.Moved()
	if o.after == 0 {
		e.work = append(e.work, o)
		e.run()
	}
	if o.Visible && !o.done {
		e.Arm()
	}
}

// mostKept is the largest list of operations whose memory is kept while the list is empty.
const mostKept = 1 << 10

// run begins the operations that have become ready, and completes those that take no time.
func (e *Engine) run() {
	if e.busy || e.stalled {
		return // the active run handles the new work, or Stall does
	}
	e.busy = true
	for i := 0; i < len(e.work); i++ { // what an operation makes ready, comes at the end
		o := e.work[i]
		e.work[i] = nil
		switch {
		case e.poisoned:
			e.drop(o)
		case o.stream.held:
			o.stream.parked = append(o.stream.parked, o)
		case o.Ready != nil && !o.Ready():
			e.polled = append(e.polled, o)
			e.Arm()
		default:
			e.start(o)
		}
	}
	if e.work = e.work[:0]; cap(e.work) > mostKept {
		e.work = nil
	}
	e.busy = false
}

// start begins an operation.
func (e *Engine) start(o *Op) {
	if o.Begin != nil {
		o.Begin()
	}
	switch {
	case e.poisoned: // Begin has caused a sticky error
		e.drop(o)
		return
	}
	if load := o.stream.Pending.Load; load != nil && (o.Duration > 0 || o.execution != nil) {
		o.loads = true
		load.begin(o.began)
	}
	switch {
	case o.Outside:
		e.outside = append(e.outside, o)
		return
	}
	o.at = Later(o.began, o.Duration)
	if o.Duration == 0 {
		e.complete(o)
		return
	}
	heap.Push(&e.running, o)
	if o.Visible || e.waits > 0 {
		e.Arm()
	}
}

// complete completes an operation at its time.
func (e *Engine) complete(o *Op) {
	if o.Apart != nil && !e.poisoned && o.Apart() {
		return // the operation completes later
	}
	o.done = true
	o.stream.Pending.remove(o)
	if o.Effect != nil && !e.poisoned {
		o.Effect()
	}
	e.over(o)
}

// over removes an operation that has ended, and makes operations ready that waited only for it.
func (e *Engine) over(o *Op) {
	if o.loads {
		o.stream.Pending.Load.end(o.at)
	}
	for _, n := range o.next {
		n.began = max(n.began, o.at)
		if n.after--; n.after == 0 {
			e.work = append(e.work, n)
		}
	}
	end := o.Over
	o.next, o.first, o.Calls = nil, [1]*Op{}, Calls{}
	if end != nil {
		end()
	}
	if e.waits > 0 {
		e.Changed.Broadcast()
	}
}

// drop ends an operation that will not run, and all operations that wait for it.
func (e *Engine) drop(o *Op) {
	if o.done {
		return
	}
	o.done, o.at = true, e.Clock.At()
	o.stream.Pending.remove(o)
	if o.Dropped != nil {
		o.Dropped()
	}
	e.over(o)
}

// CatchUp completes the operations that are due now.
func (e *Engine) CatchUp() {
	if len(e.running) == 0 && len(e.polled) == 0 {
		return
	}
	e.Advance(e.Clock.At())
}

// Advance completes the operations that are due at a time.
func (e *Engine) Advance(now int64) {
	if e.stalled {
		return
	}
	for len(e.running) > 0 && e.running[0].at <= now {
		e.complete(heap.Pop(&e.running).(*Op))
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

// Next returns when the next operation completes.
func (e *Engine) Next() (at int64, any bool) {
	if len(e.running) == 0 {
		return 0, false
	}
	return e.running[0].at, true
}

// PollEvery is the interval in which the memory that an operation waits for is read.
const PollEvery = 50 * time.Microsecond

// Arm sets the timer, so that the next operation completes without a call of the driver. With
// virtual time only Advance completes operations. Then the timer is only for reading memory while a
// call waits.
func (e *Engine) Arm() {
	if e.stalled {
		return
	}
	at, any := e.Next()
	now := e.Clock.At()
	if e.Clock.Virtual {
		if len(e.polled) == 0 || e.waits == 0 {
			return
		}
		at, any = 0, false // the program may write the memory at any time
	}
	if len(e.polled) > 0 && (!any || at > now+int64(PollEvery)) {
		at, any = now+int64(PollEvery), true
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
func (e *Engine) fire() {
	e.lock.Lock()
	defer e.lock.Unlock()
	e.armed = false
	e.CatchUp()
	e.Arm()
}

// Release continues a held stream.
func (e *Engine) Release(s *Stream) {
	s.held = false
	now := e.Clock.At()
	for _, o := range s.parked {
		o.began = max(o.began, now)
		e.work = append(e.work, o)
	}
	s.parked = nil
	e.Moved()
	e.run()
	e.Arm()
}

// Poison drops all pending operations, also those of streams that are held, and later ones.
func (e *Engine) Poison(held []*Stream) {
	e.poisoned = true
	dead := slices.Concat(e.running, e.polled, e.outside)
	e.running, e.polled, e.outside = nil, nil, nil
	for _, s := range held {
		dead = append(dead, s.parked...)
		s.parked = nil
	}
	for _, o := range dead {
		e.drop(o)
	}
	e.run()
	e.Changed.Broadcast()
}

// Reached completes operations that are on no stream.
func (e *Engine) Reached(ops []*Op) {
	if len(ops) == 0 {
		return
	}
	for _, o := range ops {
		o.done, o.at = true, e.Clock.At()
		e.over(o)
	}
	e.run()
	e.Arm()
}

// Polled returns the operations that wait for a value in memory.
func (e *Engine) Polled() []*Op { return e.polled }

// opHeap sorts operations by the time of their completion.
type opHeap []*Op

// Len implements heap.Interface.
func (h opHeap) Len() int { return len(h) }

// Less implements heap.Interface: the operation that completes first is the least.
func (h opHeap) Less(i, j int) bool { return h[i].at < h[j].at }

// Swap implements heap.Interface.
func (h opHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *opHeap) Push(x any) { *h = append(*h, x.(*Op)) }

// Pop implements heap.Interface.
func (h *opHeap) Pop() any {
	old := *h
	o := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return o
}
