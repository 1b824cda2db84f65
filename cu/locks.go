package cu

// The locks of this package, outermost first: who holds one takes only others that are
// further down, and no second one of the same line but where it says so. None is held while
// a tracer, or anything else of the program's, is called. None is held while the driver is
// called, but where it says so; and nowhere by anybody else than a caller who would wait for
// the same thing in the driver.
//
//	execCore.mu        a call on an executable graph, graphCore.mu one on a graph: the driver leaves it to the
//	graphCore.mu       program that there is one at a time, so that both are held while it is called. Only a launch
//	                   may wait there, for room in its stream's queue; then other calls that need the same
//	                   executable graph wait, as they have to in C. What does not need the driver takes neither
//	                   lock (Handle, Close). An executable graph comes before a graph.
//	partOf.work        which capture a CUstream is part of. Held for reading by whoever enqueues work on the stream
//	                   that a graph may have to keep what it uses for, while the driver enqueues it, which may wait
//	                   for room in the stream's queue. Held for writing only by the beginning and the end of a
//	                   capture of the stream, which includes a wait by which the stream joins one: the driver
//	                   enqueues nothing then, and nobody sleeps for longer than markPatience. So
//	                   whoever waits for this lock is about to enqueue work on the same stream, or begins or ends
//	                   a capture of it. Who has enqueued something does not wait for
//	                   those who enqueue: see streamCore.capturing.
//	eventCore.moving   which slot an event has, that it stays there for good, and whose turn a RecordOnce is. The
//	                   driver is called only for the record that becomes a node of a graph, which enqueues nothing.
//	Thread.mu          the stream of a Thread.
//	streamPool.mu      the streams that PoolStream shares out.
//	uses.mu            what a graph uses. That of a graph that is being left behind, or copied, comes before that
//	                   of the new one.
//	captures.polls     nothing. Held for reading while an event is polled, or a stream of the library's own begins to
//	                   wait for it: the driver answers both at once, as nothing is enqueued on that stream. Held
//	                   for writing for no time at all: see captures.awaitPolls.
//	watcher.mu         all that is waited for, its order, and the streams that wake the watcher for it; of an event,
//	                   the list of its watches, of a timeline, its waits.
//	ticketCore.mu      who wants to know what becomes of a ticket's record.
//	usage.mu           the streams on which something was used, as long as they are changed.
//	execCore.late      what only earlier launches of an executable graph use.
//	cells.growing      nothing. Held while the driver registers a slab for the counters of timelines, which does not
//	                   wait for the GPU, by those who need one.
//	hostCalls.mu       the functions that the streams of a context have yet to call.
//	poolCore.mu        the entries of a pool of events.
//	captures.mu        the captures that are under way, and the streams that are part of each.
//	legacyMarks.mu     how many events are being recorded on the legacy default stream, and captures begin.
//	timelineCore.marksMu
//	                   the marks of a timeline.
//	exports.mu         the events whose IPC handles were given out.
//	Driver.mu          a driver's devices, contexts and claims, and the list of tracers while it is changed.
//	contextCore.mu     what a context keeps: parts, spare events, tails, pools, streams that wake the watcher.
//	deferred.mu        what is yet to be freed in a context.
//	cells.mu           the slabs and closed timelines of a context.
//	slabs.mu           the slabs that no context has.
//
// A pool's entries, the slot that an event has, calls in flight and records under way have
// no lock: see poolEntry.state, and package handle.
