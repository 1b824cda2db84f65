// Package lock defines the mutexes of package cu and the packages in its folder, of their core, and of
// the internal packages that they import, and the order in which they are taken. Package internal/ccall
// has locks of its own: a goroutine that holds one of them takes none of the locks here.
//
// A goroutine that holds a lock takes only locks that are further down in the list below, and no
// second lock of the same type, except where the type's comment says so. No lock is held during a
// call of a tracer, a leak hook, or other code of the program. No lock is held during a call of the
// driver, except where the type's comment says so. Such a lock delays only calls that would block
// for the same reason in the driver.
//
// A goroutine may hold Exec, StreamCapture and Moving while it waits at a gate of package capturegate, and
// Graph and StreamCapture while it shuts a gate and waits for the calls there. No wait of these kinds ends
// later because of such a lock.
//
// In a program a [Mutex] is a [sync.Mutex]. With the build tag lockorder each Lock and RLock is
// checked against the list, and [None] checks that the goroutine holds no lock. A violation panics
// with a list of the held locks. TryLock, calls of the driver, and waits are not checked.
package lock

// The locks, outermost first. Each type names a lock, and its comment says what the lock protects.
type (
	// Exec is execCore.mu: a call on an executable graph. CUDA requires the program to make one
	// such call at a time, so this lock and the next one are held while the driver is called. A
	// launch may block there until its stream's queue has room, and graph.Graph.Instantiate until the
	// GPU has done its work. Other calls on the same objects then block, as they have to in C. Handle
	// takes neither lock. Close takes Graph with TryLock, and never waits for it. A launch on the
	// legacy stream waits at a gate under Exec. A capture into a graph shuts gates under Graph.
	Exec struct{}
	// Graph is graphFamily.mu: a call on a graph or on one of its clones, or the destruction of one
	// of these or of one of their executable graphs. See Exec. A goroutine may hold the locks of two
	// families, one of whose graphs becomes a part of the other. It takes the second one with TryLock.
	Graph struct{}
	// StreamCapture is CaptureLock of a stream's shared state in core: the capture that a CUstream is
	// part of. A call that enqueues work, and whose objects a captured graph would have to keep, holds it for reading
	// while the driver enqueues the work. The driver may block there until the stream's queue has room. Work on the
	// legacy stream waits at a gate before. Under the same lock the driver is asked about the stream's capture
	// (cuStreamIsCapturing, cuStreamGetCaptureInfo), and whether the stream is idle (cuStreamQuery). Only the beginning
	// and the end of a capture of the stream, and a wait by which the stream joins a capture, hold the lock for
	// writing. The driver enqueues nothing then. These calls wait at most capturegate.Patience for calls that are being
	// checked; a stream that joins a capture may also wait until that capture has ended. So a call that blocks on this
	// lock is about to enqueue work on the same stream, or begins or ends a capture of it. A goroutine may hold the
	// locks of several streams for reading.
	StreamCapture struct{}
	// Moving is core.Event.moving: the slot of an event, whether the event keeps it, and the order
	// of RecordOnce calls. The driver is called under this lock only for a record that becomes a
	// node of a graph, which enqueues nothing. On the legacy stream such a record waits at a gate
	// before.
	Moving struct{}
	// Prepared is PreparedLaunch.mu: the replacement of an argument.
	Prepared struct{}
	// Virtual is memory.virtualCore.mu: what is mapped in a range of addresses. The driver maps memory and sets
	// its access under this lock, and waits for no work meanwhile.
	Virtual struct{}
	// Thread is Thread.mu: the stream of a Thread.
	Thread struct{}
	// StreamPool is the mutex of core's streamPool: the streams that PoolStream returns.
	StreamPool struct{}
	// ObjectSet is core.ObjectSet.Mu: the objects that a graph uses. The lock of a graph that is
	// replaced or copied is taken before the lock of the new graph.
	ObjectSet struct{}
	// EventOwner is core.EventRef.mu: the owner that an Event points to. A goroutine may hold the locks of
	// two events. It takes the second one with TryLock.
	EventOwner struct{}
	// Polls is captures.polls, which protects no data. It is held for reading while an event is
	// polled, or while a stream of the library's own begins to wait for the event. The driver
	// returns from both calls without blocking, as nothing else is enqueued on that stream. A
	// writer releases it at once: see captures.awaitPolls.
	Polls struct{}
	// Watcher is watch.Watcher.mu: all waits, their counters, and the wake-up streams that are
	// armed for them. An event and a stream have a group of waits there, a context a domain, and a
	// timeline a counter.
	Watcher struct{}
	// Ticket is waits.Ticket.Mu: the channel and the functions that learn the outcome of a ticket's
	// record.
	Ticket struct{}
	// HandleUses is poolimport.handleUses.mu: the imported pools, and their memory that is open.
	HandleUses struct{}
	// StreamSet is core.StreamSet.mu: changes to the list of streams on which an object was used.
	StreamSet struct{}
	// Delayed is execCore.delayedMu: the objects that only earlier launches of an executable graph
	// use.
	Delayed struct{}
	// Growing is slab.Cells.growing, which protects no data. A goroutine that needs a slab for
	// timelines holds it while the driver registers the slab, which does not wait for the GPU.
	Growing struct{}
	// HostCalls is the mutex of core's hostCalls: the functions that the streams of a context still have to call.
	HostCalls struct{}
	// EventPool is eventpool.Pool.Mu: the entries of a pool of events.
	EventPool struct{}
	// Captures is captures.mu: the captures in progress, and the streams that are part of each.
	Captures struct{}
	// Marks is timelines.Timeline.MarksMu: the marks of a timeline.
	Marks struct{}
	// Exports is exports.mu: the events whose IPC handles were exported.
	Exports struct{}
	// Driver is core.DriverContexts.Mu: a driver's devices, contexts and claims, and changes to the list of
	// tracers.
	Driver struct{}
	// StreamEnds is streamEnds.mu: the tails of destroyed streams.
	StreamEnds struct{}
	// Context is core.ContextStreams.Mu: the objects that belong to a context, such as its pools.
	Context struct{}
	// WakeUps is wakeUpPool.mu: the free wake-up streams of a context.
	WakeUps struct{}
	// EventCache is eventCache.mu: the spare CUevents of a context.
	EventCache struct{}
	// Peers is peers.mu: changes to the list of contexts whose memory a context can access.
	Peers struct{}
	// Deferred is deferred.List.mu: the objects of a context that are deferred.
	Deferred struct{}
	// Timelines is the mutex of core's cells: a context's closed timelines, and how many are open.
	Timelines struct{}
	// Cells is slab.Cells.mu: the slabs of a context, and their free cells.
	Cells struct{}
	// Slabs is slab.Pool.mu: the slabs that belong to no context.
	Slabs struct{}
	// LongCalls is capturegate.Gate.mu: the running calls of one kind that wait for the GPU, and the
	// counters of calls that the gate does not count.
	LongCalls struct{}
	// Gates is contexts.mu of package capturegate: the gates of all contexts of the process.
	Gates struct{}
	// Races is races.Detector.mu: everything that a race detector knows.
	Races struct{}
	// Log is drivercall.DriverLog.mu: what was read of the driver's log.
	Log struct{}
)
