// Package watch implements waiting: many goroutines wait for numbers that rise.
//
// It knows no events, streams or contexts, and calls no driver. What it waits
// for is behind two interfaces: an [Item] can be waited for, and a [Source] can
// ask for many items at once, and can have a wake-up stream notify the watcher.
//
// # Counters
//
// Everything is a [Counter]: a number that rises, with a heap of waits, the
// lowest number first. There are two kinds. A counter in memory, as a timeline
// has, is read in each round. The counter of a sequence, as the records of a
// stream are, is not in memory: only the first item of the heap is asked for,
// and when it has completed, so have all before it. After an outcome the fourth,
// the sixteenth and so on are asked for as well, so that 1,000 items that
// complete at once need ten questions. An item without a known number is loose:
// a counter has its loose items in a list, and all lists are in one ring, so
// that those behind others have their turn.
//
// # A wait
//
// A goroutine first polls for itself: [Watcher.Poll]. Then it adds its interest,
// a [Sub], and sleeps until its [Waiter] is ready. Interests in the same item
// share a [Wait]. To add or to cancel one searches no list, also with many
// items of one event. Three things end a wait: an outcome, [Watcher.Cancel], or
// one of the End methods when something is closed.
//
//	Poll ─► Add ─► asleep ─► outcome, Cancel, or End
//
// # Rounds
//
// One goroutine of the [Watcher] asks for all waits, and runs while there are
// some. A round gathers what to ask for with the lock, asks without it, and takes
// the lock again to end waits. After news it asks again and again, within its
// share of a processor. Then it sleeps for one part of the time since the news:
// see [Policy], which is also that of every other loop that waits. When a wait
// has lasted for long the source arms a wake-up stream for its item. When all
// first items are armed, the goroutine sleeps until a stream or a new wait
// notifies it, and looks at everything now and then, as a stream that has failed
// notifies nobody.
//
// # Rules
//
// The watcher's lock is never held while a source is asked, but for the methods
// of the source that say otherwise. Code of the program, such as a tracer or a
// callback, never runs on the watcher's goroutine: it could wait for an outcome
// that only this goroutine finds. An item is retained while a wait for it exists,
// and while it is used without the lock. Another code's use may change an exposed
// item: it is asked for alone, and nothing is concluded from or for it.
package watch
