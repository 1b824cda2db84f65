package watch

import (
	"time"

	"github.com/purecu/purecu/internal/explore"
)

// Wait is a wait for an item in its present generation, or for a number of a counter in memory. All
// Subs for the item share it. The watcher's lock guards all fields but generation and ending, which
// only the watcher's goroutine uses.
type Wait struct {
	item       Item // nil for a counter in memory
	generation uint64
	counter    *Counter // nil when the wait has ended
	number     uint64   // in the heap
	group      *Group
	subs       *Sub
	since      time.Duration // when the wait began, counted from the watcher's Init
	round      uint64        // the last round that considered it
	list       links         // in its counter's list of unnumbered waits
	ring       links         // in the ring of all unnumbered waits
	members    links         // in the list of its group
	wakeUp     WakeUp        // the stream that notifies the watcher, or nil
	flags
}

// flags are the flags of a wait. A separate struct keeps Wait within the limit on fields.
type flags struct {
	where place
	// head says that the wait was the first of its counter in the last round. Such waits are armed
	// first.
	head bool
	// ending says that another goroutine is about to end the wait.
	ending bool
	// unarmable says that no stream will notify for this wait. starting says that WakeUp.Start
	// runs.
	unarmable, starting bool
}

type links struct{ prev, next *Wait }

// place says in which structure of its counter a wait is.
type place uint8

const (
	nowhere place = iota
	inHeap
	inList
)

// asleep reports whether a stream notifies the watcher when the item has completed.
func (wait *Wait) asleep() bool { return wait.wakeUp != nil && !wait.item.Exposed() }

// Sub subscribes a goroutine or a function to a wait. It is used once.
type Sub struct {
	// Call is called on a new goroutine when the wait has ended, unless the Sub has a Waiter.
	Call func(*Sub)
	// Final is false if another wait for the same item may end with another outcome. Final and Err
	// are set before the Waiter is ready, and before Call is called.
	Err   error
	Final bool

	ended      bool
	counted    bool // it counts as one of the watcher's waiters
	wait       *Wait
	prev, next *Sub
	to         *Waiter
}

// Waiter is a goroutine that waits for a number of outcomes. They may come from several watchers,
// which have no lock in common.
type Waiter struct {
	ready signal
	left  atomicInt
}

// NewWaiter returns a waiter for the given number of outcomes.
func NewWaiter(outcomes int) *Waiter {
	w := new(Waiter)
	w.init(outcomes)
	return w
}

func (w *Waiter) init(outcomes int) {
	w.ready = newSignal()
	w.left.Store(int32(outcomes))
}

// Wait sleeps until the waiter has all its outcomes. It reports false if done was closed before.
func (w *Waiter) Wait(done <-chan struct{}) bool { return w.ready.wait(done) }

// Receive makes the waiter receive the outcome of the Sub, which must not have been added yet.
func (w *Waiter) Receive(s *Sub) { s.to = w }

// CountOutcome counts an outcome that does not come from a watcher.
func (w *Waiter) CountOutcome() {
	if w.left.Add(-1) == 0 {
		w.ready.send()
	}
}

// ItemSub is the Sub of a goroutine that waits for one item, after [Watcher.Poll].
type ItemSub struct {
	Sub
	waiter Waiter
}

// NewItemSub returns an ItemSub that is ready to be added.
func NewItemSub() *ItemSub {
	s := new(ItemSub)
	s.init()
	return s
}

func (s *ItemSub) init() {
	s.waiter.init(1)
	s.to, s.counted = &s.waiter, true
}

// Wait is [Waiter.Wait].
func (s *ItemSub) Wait(done <-chan struct{}) bool { return s.waiter.Wait(done) }

// NumberSub is the Sub of a goroutine that waits until a counter in memory reaches a number.
type NumberSub struct {
	ItemSub
	wait Wait
}

// NewNumberSub returns a NumberSub for the given number.
func NewNumberSub(number uint64) *NumberSub {
	v := new(NumberSub)
	v.init()
	v.wait.number = number
	return v
}

// outcome says how a wait ends.
type outcome struct {
	wait   *Wait
	final  bool
	err    error
	answer Answer
}

// notices collects the goroutines to wake, the Subs to call and the items to release after the lock
// was released. A nil notices is allowed where only waits for counters in memory end: these have no
// callbacks and no items.
type notices struct {
	ready []signal
	subs  []*Sub
	items []Item
}

// If there are more than fewWaiting waits, or many Subs of one wait, other goroutines wake the
// waiters, wakeGroup each, while the watcher continues its round.
const (
	fewWaiting = 128
	wakeGroup  = 128
)

// wakeAll wakes waiting goroutines.
func wakeAll(ready []signal) {
	for _, s := range ready {
		s.send()
	}
}

// wake notes that a goroutine is to be woken, or wakes it at once if n is nil.
func (n *notices) wake(s signal) {
	if n == nil {
		s.send()
		return
	}
	n.ready = append(n.ready, s)
}

// deliver wakes, calls and releases. It runs no code of the program on this goroutine, which may be
// the watcher's.
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

// release drops items that were counted in late.
func (w *Watcher) release(items []Item) {
	for _, item := range items {
		item.Drop()
		w.late.Add(-1)
	}
}
