// Package lock has the mutexes of package cu, and the order in which they are taken.
//
// A goroutine that holds a lock takes only locks that stand further down in the list below, and no second lock of the
// same line, except where the line says so. No lock is held while a tracer, a leak hook, or other code of the program
// is called. No lock is held while the driver is called, except where the line says so; then only a caller who would
// wait for the same thing in the driver waits for the lock.
//
// In a program a [Mutex] is a [sync.Mutex]. With the build tag lockorder each lock and unlock is checked against the
// list, and [None] checks that the goroutine holds nothing: a violation ends the test with the locks that are held.
package lock

// The locks, outermost first. The type names the lock, and its comment says what the lock protects.
type (
	// Exec is execCore.mu: a call on an executable graph. The driver leaves it to the program that
	// there is one at a time, so that this lock and the next one are held while the driver is
	// called. Only a launch may wait there, for room in its stream's queue; then other calls that
	// need the same executable graph wait, as they have to in C. What does not need the driver
	// takes neither lock (Handle, Close).
	Exec struct{}
	// Graph is graphCore.mu: a call on a graph. See Exec.
	Graph struct{}
	// Work is partOf.work: which capture a CUstream is part of. Held for reading by whoever
	// enqueues work on the stream that a graph may have to keep what it uses for, while the driver
	// enqueues the work, which may wait for room in the stream's queue. Held for writing only by
	// the beginning and the end of a capture of the stream, which includes a wait by which the
	// stream joins one: the driver enqueues nothing then, and nobody waits for longer than
	// gatePatience. So whoever waits for this lock is about to enqueue work on the same stream, or
	// begins or ends a capture of it. A goroutine may hold those of several streams, for reading.
	Work struct{}
	// Moving is eventCore.moving: which slot an event has, that it stays there for good, and whose
	// turn a RecordOnce is. The driver is called only for the record that becomes a node of a
	// graph, which enqueues nothing.
	Moving struct{}
	// Thread is Thread.mu: the stream of a Thread.
	Thread struct{}
	// StreamPool is streamPool.mu: the streams that PoolStream shares out.
	StreamPool struct{}
	// Uses is uses.mu: what a graph uses. That of a graph that is being left behind, or copied,
	// comes before that of the new one.
	Uses struct{}
	// Owner is Event.mu: which CUevent an Event stands for. A goroutine may hold those of two events, the second of
	// which it does not wait for.
	Owner struct{}
	// Polls is captures.polls: nothing. Held for reading while an event is polled, or a stream of
	// the library's own begins to wait for it: the driver answers both at once, as nothing is
	// enqueued on that stream. Held for writing for no time at all: see captures.awaitPolls.
	Polls struct{}
	// Watcher is watch.Watcher.mu: all that is waited for, its order, and the wake-up streams that are armed for it. An
	// event and a stream have a group of waits there, a context a domain, and a timeline a counter.
	Watcher struct{}
	// Ticket is ticketCore.mu: who wants to know what becomes of a ticket's record.
	Ticket struct{}
	// Usage is usage.mu: the streams on which something was used, as long as they are changed.
	Usage struct{}
	// Late is execCore.late: what only earlier launches of an executable graph use.
	Late struct{}
	// Growing is cells.growing: nothing. Held while the driver registers a slab for the counters of
	// timelines, which does not wait for the GPU, by those who need one.
	Growing struct{}
	// HostCalls is hostCalls.mu: the functions that the streams of a context have yet to call.
	HostCalls struct{}
	// EventPool is poolCore.mu: the entries of a pool of events.
	EventPool struct{}
	// Captures is captures.mu: the captures that are under way, and the streams that are part of each.
	Captures struct{}
	// Marks is timelineCore.marksMu: the marks of a timeline.
	Marks struct{}
	// Exports is exports.mu: the events whose IPC handles were given out.
	Exports struct{}
	// Driver is Driver.mu: a driver's devices, contexts and claims, and the list of tracers while it is changed.
	Driver struct{}
	// StreamEnds is streamEnds.mu: the tails of streams that are gone.
	StreamEnds struct{}
	// Context is contextCore.mu: what a context keeps: parts, pools.
	Context struct{}
	// WakeUps is wakeUpPool.mu: the wake-up streams of a context that are free.
	WakeUps struct{}
	// EventCache is eventCache.mu: the CUevents of a context that nobody uses.
	EventCache struct{}
	// Peers is peers.mu: the contexts whose memory a context can reach, while they are changed.
	Peers struct{}
	// Deferred is deferred.mu: what is yet to be freed in a context.
	Deferred struct{}
	// Cells is cells.mu: the slabs and closed timelines of a context.
	Cells struct{}
	// Slabs is slabs.mu: the slabs that no context has.
	Slabs struct{}
	// LongCalls is checkedCalls.mu: the calls of one kind that wait for the GPU.
	LongCalls struct{}
	// Gates is gates.mu: the gates of all contexts of the process.
	Gates struct{}
)
