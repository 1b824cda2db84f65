package watch

import "time"

// Answer is what a source says about an item. Any other value is an error of the source's.
type Answer int32

// The answers that are no errors.
const (
	Pending  Answer = -1
	Complete Answer = 0
)

// Access says how an item may be asked for.
type Access uint8

const (
	// Together is for items that can be asked for with others.
	Together Access = iota
	// Alone is for items that are asked for one by one, as they need more care.
	Alone
	// Changing is Alone for an item that changes just now: the next round asks again.
	Changing
)

// Item is one thing that can be waited for. Its methods are called with and without the
// watcher's lock, and must not block.
type Item interface {
	// Look returns what a source is asked for, of which generation that is, and how it may be
	// asked for.
	Look() (handle uintptr, generation uint64, how Access)
	// Generation changes whenever the handle begins to stand for something new.
	Generation() uint64
	// Completed notes that the generation has completed, so that nobody asks again.
	Completed(generation uint64)
	// Position returns the sequence that the item is part of, and its number there. 0 stands for
	// what is not known, or may change.
	Position() (sequence, number uint64)
	// Exposed reports whether other code may change the item. It stays so.
	Exposed() bool
	// Shared returns where the watcher keeps the wait that is shared.
	Shared() *Shared
	// Watch counts a wait, and Unwatch counts it off.
	Watch()
	Unwatch()
	// Retain keeps the handle until Drop, which runs no code of the program.
	Retain()
	Drop()
}

// Shared is the part of an item where the watcher keeps the wait for its present generation.
// The watcher's lock guards it.
type Shared struct{ wait *Wait }

// Word is the number of a counter in memory.
type Word interface {
	// Load returns the number.
	Load() uint64
	// ErrClosed returns why nobody can wait any more, or nil.
	ErrClosed() error
	// Works returns an error if nothing raises the number any more. It may block: it is called
	// on a goroutine of its own.
	Works() error
	// Retain keeps the word until Drop, which is called on a goroutine of its own.
	Retain()
	Drop()
}

// Scope says what a wait ends with, besides its item.
type Scope struct {
	// Group is of what has to be open, such as an event or a stream.
	Group *Group
	// Domain is of what the item belongs to, such as a context. All items of a sequence have the
	// same.
	Domain *Domain
	// Owner is what Group is of.
	Owner Owner
}

// Owner is something that can be closed while it is waited for. Whoever closes it ends the
// waits of its group after that.
type Owner interface {
	// ErrClosed returns why nobody can wait any more, or nil.
	ErrClosed() error
}

// Group is a set of waits that end together, as those for one event do. The zero Group is empty.
type Group struct{ first firstWait }

// Empty reports whether no wait is in the group. It takes no lock: a wait that is added later
// finds the owner closed.
func (g *Group) Empty() bool { return g.first.Load() == nil }

// Domain is a set of counters whose waits end together, as those of one context do. The zero
// Domain is empty.
type Domain struct{ first *Counter }

// Source is what the watcher asks. It is asked by one goroutine at a time, and without the
// watcher's lock, except where a method says so.
type Source interface {
	// NewNotifier is called once, before anything is asked, with the watcher's lock.
	NewNotifier() Notifier
	// Query asks for all handles, and stores the answers. It reports false if it must not ask for
	// them, as something has changed since the round began: see [Query.Changed].
	Query(q *Query) bool
	// QueryAlone asks for one item.
	QueryAlone(item Item) Answer
	// Outcome returns what an answer, which is an error, means for those who wait. final is false
	// if another wait may end in another way.
	Outcome(item Item, a Answer) (final bool, err error)
	// Traced reports whether Trace has to be called, on a goroutine of its own, before outcomes
	// are known. Trace drops each item, which was retained for it.
	Traced() bool
	Trace(items []Item, answers []Answer)
	// Crowded says that many waits exist, so that it is worthwhile to number items. It is called
	// with the watcher's lock.
	Crowded()
	// MayArm reports whether anything can be armed now, and CanArm whether an item can. CanArm is
	// called with the watcher's lock.
	MayArm() bool
	CanArm(item Item) bool
	// Arm has a wake-up stream wait for the item with the handle. Only if the result is Armed the
	// caller calls Start next.
	Arm(item Item, handle uintptr, q *Query) (WakeUp, ArmResult)
}

// WakeUp is a wake-up stream that waits for an item.
type WakeUp interface {
	// Start has the stream notify the watcher when it gets there. It may block: it is called on a
	// goroutine of its own.
	Start() ArmResult
	// Return gives the stream back. It does not block.
	Return()
}

// ArmResult says whether a wake-up stream will notify the watcher.
type ArmResult uint8

const (
	// Armed says that a stream will.
	Armed ArmResult = iota
	// NoStream says that no stream is free in the item's domain just now.
	NoStream
	// NotNow says that nothing can be armed at the moment.
	NotNow
	// Failed says that the item cannot be armed. The next answer says what is wrong, if anything is.
	Failed
	// Unsupported says that nothing can ever be armed.
	Unsupported
)

// Notifier wakes the watcher's goroutine. Notify may be called by all; the rest is for that
// goroutine.
type Notifier interface {
	// Notify wakes the goroutine, or lets the next Wait return at once.
	Notify()
	// Wait sleeps until somebody has notified since the last Wait returned, or for d.
	Wait(d time.Duration)
	// Notified returns how often streams have notified so far. All may call it.
	Notified() uint64
	// Close gives back what the system is needed for while the goroutine sleeps. It reports false
	// if a stream is using that just now: call it again a little later.
	Close() bool
}

// Query is what a source is asked for at once.
type Query struct {
	// Handles are of items whose access is Together.
	Handles []uintptr
	// Answers are as many.
	Answers []Answer

	watcher   *Watcher
	waits     []*Wait
	exposures uint32
	buffer    [MaxQuery]Answer
}

// Changed reports whether an item was exposed since the round began: this query, or an item
// that is about to be armed, may be of one that may not be asked for in this way any more.
func (q *Query) Changed() bool { return q.watcher.exposures.Load() != q.exposures }

// Overtaken reports whether an item has another generation than when the round began, so that
// nobody waits for the old one any more.
func (q *Query) Overtaken() bool {
	for _, of := range q.waits {
		if of.item.Generation() != of.generation {
			return true
		}
	}
	return false
}

// NewQuery returns a query for items in their present generations, as a round would make it. It is
// for tests of a source.
func (w *Watcher) NewQuery(items ...Item) *Query {
	q := &Query{watcher: w, exposures: w.exposures.Load()}
	for _, item := range items {
		handle, generation, _ := item.Look()
		q.Handles = append(q.Handles, handle)
		q.waits = append(q.waits, &Wait{item: item, generation: generation})
	}
	q.Answers = q.buffer[:len(items)]
	return q
}
