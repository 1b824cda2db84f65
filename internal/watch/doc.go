// Package watch implements waiting: many goroutines wait for numbers that rise.
//
// It knows no events, streams or contexts, and calls no driver. It works on two interfaces. An
// [Item] can be waited for. A [Source] queries many items at once, and can make a wake-up stream
// notify the watcher.
//
//	watcher.go   the Watcher: Poll, Add, Cancel, and the End methods
//	wait.go      Sub, Waiter, and Wait, which all Subs for one item share
//	counter.go   counters, and heap.go their order
//	loop.go      the goroutine and its rounds; round.go queries in a round; arm.go arms wake-up streams
//	item.go      the interfaces; backoff.go the pauses
//
// # Counters
//
// Every wait belongs to a [Counter]: a number that rises, with a heap of waits, the lowest number
// first. There are two kinds of counters.
//
// A counter in memory, such as a timeline's, is read in each round.
//
// The counter of a sequence, such as the records of a stream, is not in memory. The watcher queries
// only the first item of the heap. When this item has completed, all items before it have completed
// as well. After an outcome the watcher also queries the fourth, the sixteenth and so on, so that
// 1,000 items that complete at once need ten queries.
//
// An item without a known number is unnumbered. Each counter has a list of its unnumbered items.
// The watcher queries the first items of each list. A ring contains the items of all lists, and the
// watcher queries some more items in the order of the ring, so that each item is queried
// eventually.
//
// # A wait
//
// A goroutine first polls for itself, with [Watcher.Poll]. Then it adds a [Sub], and sleeps until
// its [Waiter] is ready. All Subs for the same item share a [Wait]. Adding and cancelling a Sub
// searches no list, even if one event has many items. Three things end a wait: an outcome,
// [Watcher.Cancel], and the End methods, which are called when something is closed.
//
//	Poll ─► Add ─► asleep ─► outcome, Cancel, or End
//
// # Rounds
//
// One goroutine of the [Watcher] queries for all waits. It runs while there are waits. In each
// round it gathers the items to query while it holds the lock, queries them without the lock, and
// takes the lock again to end waits. After a new wait or an outcome it makes rounds without a
// pause, within its share of a processor. Then it sleeps between rounds for a part of the time
// since then: see [Policy], which the waiting loops of other packages use, too.
//
// When a wait has lasted for long, the source arms a wake-up stream for its item. When the first
// items of all counters are armed, the goroutine sleeps until a stream or a new wait notifies it.
// It still queries everything from time to time, because a stream that has failed never notifies.
//
// # Rules
//
// The watcher's lock is not held while a method of a source runs, except where the method's comment
// says so. Code of the program, such as a tracer or a callback, never runs on the watcher's
// goroutine: it could wait for an outcome that only this goroutine finds. An item is retained while
// a wait for it exists, and while it is used without the lock. Other code may change an exposed
// item at any time: so it is queried alone, its outcome ends no other wait, and no other outcome
// ends a wait for it.
package watch
