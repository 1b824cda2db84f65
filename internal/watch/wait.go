package watch

import (
	"time"

	"github.com/purecu/purecu/internal/explore"
)

// Wait is one thing that is waited for: an item in its present generation, or a number that a
// counter in memory is to reach. All who wait for the item share it. The watcher's lock guards
// it, but for generation and ending, which are the watcher's goroutine's own.
type Wait struct {
	item       Item // nil for a counter in memory
	generation uint64
	counter    *Counter // nil when the wait has ended
	number     uint64   // in the heap
	group      *Group
	subs       *Sub
	since      time.Duration // since the watcher was made
	round      uint64        // in which it was looked at
	list       links         // of its counter's loose waits
	ring       links         // of all loose waits
	members    links         // of its group
	wakeUp     WakeUp        // the stream that notifies the watcher, if one does
	flags
}

// flags are what is known about a wait. They are in a struct of their own for the limit on fields.
type flags struct {
	where place
	// head says that it was the first of its counter in the last round: that is armed first.
	head bool
	// ending says that another goroutine is about to end it.
	ending bool
	// unarmable says that no stream will notify. starting says that one is about to be told to.
	unarmable, starting bool
}

type links struct{ prev, next *Wait }

// place says where a counter has a wait.
type place uint8

const (
	nowhere place = iota
	inHeap
	inList
)

// asleep reports whether a stream notifies the watcher when the wait is over.
func (of *Wait) asleep() bool { return of.wakeUp != nil && !of.item.Exposed() }

// Sub is somebody's interest in a wait. It is used once.
type Sub struct {
	// Call is called on a goroutine of its own when the wait has ended. It is for interests that
	// are no goroutine's.
	Call func(*Sub)
	// Final is false if another wait may end in another way. Final and Err are set before the
	// Waiter is ready, or Call is called.
	Err   error
	Final bool

	over       bool
	counted    bool // it is one of the watcher's waiters
	wait       *Wait
	prev, next *Sub
	to         *Waiter
}

// Waiter is a goroutine that waits for a number of outcomes. These may be of several watchers,
// which have no lock in common.
type Waiter struct {
	ready signal
	left  atomicInt
}

// NewWaiter returns a waiter for so many outcomes.
func NewWaiter(outcomes int) *Waiter {
	w := new(Waiter)
	w.init(outcomes)
	return w
}

func (w *Waiter) init(outcomes int) {
	w.ready = newSignal()
	w.left.Store(int32(outcomes))
}

// Wait sleeps until the waiter has its outcomes. It reports false if done was closed before.
func (w *Waiter) Wait(done <-chan struct{}) bool { return w.ready.wait(done) }

// Join makes the interest, which was not added yet, the waiter's.
func (w *Waiter) Join(s *Sub) { s.to = w }

// Give gives the waiter an outcome that is no watcher's.
func (w *Waiter) Give() {
	if w.left.Add(-1) == 0 {
		w.ready.send()
	}
}

// Single is the interest of a goroutine that waits for one item, after [Watcher.Poll].
type Single struct {
	Sub
	waiter Waiter
}

// NewSingle returns such an interest.
func NewSingle() *Single {
	s := new(Single)
	s.init()
	return s
}

func (s *Single) init() {
	s.waiter.init(1)
	s.to, s.counted = &s.waiter, true
}

// Wait is [Waiter.Wait].
func (s *Single) Wait(done <-chan struct{}) bool { return s.waiter.Wait(done) }

// Value is the interest of a goroutine that waits for a number of a counter in memory.
type Value struct {
	Single
	wait Wait
}

// NewValue returns such an interest.
func NewValue(number uint64) *Value {
	v := new(Value)
	v.init()
	v.wait.number = number
	return v
}

// outcome is how a wait ends.
type outcome struct {
	wait   *Wait
	final  bool
	err    error
	answer Answer
}

// notices are those that have to be woken or called, and the items to release, when the lock
// is no longer held. For waits for counters in memory, which have waiters only, they may be nil.
type notices struct {
	ready []signal
	subs  []*Sub
	items []Item
}

// Where more than fewWaiting are waited for, or so many wait for one item, other goroutines wake
// those who have waited, wakeGroup each, and the watcher goes on asking.
const (
	fewWaiting = 128
	wakeGroup  = 128
)

// wakeAll wakes goroutines that wait.
func wakeAll(ready []signal) {
	for _, s := range ready {
		s.send()
	}
}

// wake has one woken: at once without notices.
func (n *notices) wake(s signal) {
	if n == nil {
		s.send()
		return
	}
	n.ready = append(n.ready, s)
}

// deliver runs nothing of the program's on this goroutine, which may be the watcher's.
func (n *notices) deliver(w *Watcher) {
	wakeAll(n.ready)
	callAll(n.subs)
	w.release(n.items)
}

func callAll(subs []*Sub) {
	for _, s := range subs {
		explore.Go(func() { s.Call(s) })
	}
}

// release releases items for which drop has counted late.
func (w *Watcher) release(items []Item) {
	for _, item := range items {
		item.Drop()
		w.late.Add(-1)
	}
}
