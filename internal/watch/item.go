package watch

import "time"

// Answer is the result of a query for an item. Values other than Pending and Complete are errors,
// whose meaning the source knows.
type Answer int32

// The answers that are not errors.
const (
	Pending  Answer = -1
	Complete Answer = 0
)

// Access says how an item may be queried.
type Access uint8

const (
	// Together means that the item can be queried together with others.
	Together Access = iota
	// Alone means that the item must be queried with [Source.QueryAlone].
	Alone
	// Changing is Alone for an item that is being changed. The next round queries it again.
	Changing
)

// Item can be waited for. Its methods are called with and without the watcher's lock, and must not
// block.
type Item interface {
	// Look returns the handle to query, the generation that the handle stands for, and how the item
	// may be queried.
	Look() (handle uintptr, generation uint64, how Access)
	// Generation returns a number that changes whenever the handle begins to stand for something
	// new.
	Generation() uint64
	// Completed notes that the generation has completed, so that it is not queried again.
	Completed(generation uint64)
	// Position returns the sequence that the item is part of, and its number there. Each is 0 if it
	// is not known or may change.
	Position() (sequence, number uint64)
	// Exposed reports whether other code may change the item. Once true, it stays true.
	Exposed() bool
	// CurrentWait returns the part of the item in which the watcher stores the wait for its present generation.
	CurrentWait() *CurrentWait
	// AddWait adds 1 to the number of waits for the item, and EndWait subtracts 1.
	AddWait()
	EndWait()
	// Retain keeps the handle valid until Drop. Drop runs no code of the program.
	Retain()
	Drop()
}

// CurrentWait is the part of an item in which the watcher stores the [Wait] for its present generation, or nil.
// The watcher's lock guards it.
type CurrentWait struct{ wait *Wait }

// Word is the number of a counter in memory.
type Word interface {
	// Load returns the number.
	Load() uint64
	// ErrClosed returns nil, or the error of a wait that begins after the close.
	ErrClosed() error
	// Works returns an error if the number can no longer rise. It may block, and is called on a new
	// goroutine.
	Works() error
	// Retain keeps the word valid until Drop, which is called on a new goroutine.
	Retain()
	Drop()
}

// Scope says which group and domain a wait belongs to.
type Scope struct {
	// Group is the group of the event or stream that the caller waits for.
	Group *Group
	// Domain is the domain of the context that the item belongs to. All items of a sequence have
	// the same domain.
	Domain *Domain
	// Owner is the object that Group belongs to.
	Owner Owner
}

// Owner is an object that can be closed during waits for it. The goroutine that closes it then ends
// the waits of its group.
type Owner interface {
	// ErrClosed returns nil, or the error of a wait that begins after the close.
	ErrClosed() error
}

// Group is a set of waits that end together, such as the waits for one event. The zero Group is
// empty.
type Group struct{ first firstWait }

// Empty reports whether no wait is in the group. It needs no lock: a wait that is added later finds
// that the owner is closed.
func (g *Group) Empty() bool { return g.first.Load() == nil }

// Domain is a set of counters whose waits end together, such as the waits of one context. The zero
// Domain is empty.
type Domain struct{ first *Counter }

// Source queries items for the watcher. One goroutine at a time calls its methods, without the
// watcher's lock, except where a method's comment says otherwise.
type Source interface {
	// NewNotifier is called once, before the first query, with the watcher's lock.
	NewNotifier() Notifier
	// Query queries all handles, and stores the answers. It reports false if it must not query them
	// because an item was exposed since the round began: see [Query.Changed].
	Query(q *Query) bool
	// QueryAlone queries one item.
	QueryAlone(item Item) Answer
	// Outcome returns the error with which a wait ends after an answer that is an error. final is
	// false if another wait for the item may have another outcome.
	Outcome(item Item, a Answer) (final bool, err error)
	// Traced reports whether Trace has to be called before outcomes are delivered. Trace is called
	// on a new goroutine, and drops each item, which was retained for it.
	Traced() bool
	Trace(items []Item, answers []Answer)
	// Crowded is called, with the watcher's lock, when there are so many waits that numbering the
	// items saves queries.
	Crowded()
	// MayArm reports whether items can be armed now, and CanArm whether a given item can. CanArm is
	// called with the watcher's lock.
	MayArm() bool
	CanArm(item Item) bool
	// Arm makes a wake-up stream wait for the item with the handle. If the result is Armed, the
	// caller calls Start next.
	Arm(item Item, handle uintptr, q *Query) (WakeUp, ArmResult)
}

// WakeUp is a wake-up stream that is armed for an item.
type WakeUp interface {
	// Start makes the stream notify the watcher after the item has completed. It may block, and is
	// called on a new goroutine.
	Start() ArmResult
	// Return makes the stream available for other items. It does not block.
	Return()
}

// ArmResult is the result of arming an item.
type ArmResult uint8

const (
	// Armed means that a stream will notify the watcher.
	Armed ArmResult = iota
	// NoStream means that no stream of the item's domain is free now.
	NoStream
	// NotNow means that nothing can be armed now.
	NotNow
	// Failed means that the item cannot be armed. If the item has an error, the next query finds
	// it.
	Failed
	// Unsupported means that nothing can ever be armed.
	Unsupported
)

// Notifier wakes the watcher's goroutine. Every goroutine may call Notify and Notified. Only the
// watcher's goroutine calls Wait and Close.
type Notifier interface {
	// Notify wakes the goroutine, or makes its next Wait return at once.
	Notify()
	// Wait sleeps for d, but only until the first notification since the last Wait returned.
	Wait(d time.Duration)
	// Notified returns how often streams have notified so far.
	Notified() uint64
	// Close releases the operating system's resources that Wait uses. It reports false if a stream
	// is using them. The caller then tries again a little later.
	Close() bool
}

// Query is a request to query several items at once.
type Query struct {
	// Handles are the handles of items whose access is Together.
	Handles []uintptr
	// Answers receives one answer for each handle.
	Answers []Answer

	watcher   *Watcher
	waits     []*Wait
	exposures uint32
	buffer    [MaxQuery]Answer
}

// Changed reports whether an item was exposed since the round began. If so, an item of the query,
// or one that is about to be armed, may be exposed and must not be used in this way.
func (q *Query) Changed() bool { return q.watcher.exposures.Load() != q.exposures }

// Overtaken reports whether an item's generation has changed since the round began. Then the
// query's answer may be about a record without waits.
func (q *Query) Overtaken() bool {
	for _, wait := range q.waits {
		if wait.item.Generation() != wait.generation {
			return true
		}
	}
	return false
}

// NewQuery returns a query as a round would make it, for items in their present generations. It is
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
