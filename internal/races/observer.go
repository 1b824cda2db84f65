// Package races finds work for the GPU that uses the same memory without an order between the uses.
//
// A [Detector] observes what a program enqueues, records, waits for and learns. It never asks the
// driver, and never waits. From what it observes it derives which work the program has put in order:
//
//   - Each piece of work is a step. A step has a position in a lane: a stream is a lane, and so is
//     each chain of nodes of an executable graph. The host is one lane, whichever goroutine calls.
//   - A step depends on earlier steps: on the one before it in its stream, on records that the stream
//     has waited for, on whatever the host knew when the step was enqueued.
//   - The clock of a step has, for each lane, the last position that comes before the step. So two
//     steps are in order if the clock of one includes the position of the other.
//   - A step may depend on something that comes later, such as the raise of a timeline. It is pending
//     until then, and so are the steps that depend on it. A step is checked when it is no longer pending.
//   - For each range of memory the detector has the last write, and the reads after it. A use that is
//     not in order with these is a race.
//
// The host learns that work is done only from the results of calls that the program makes. It does
// not matter how fast the GPU is, so a race is found even if the work is always done in time.
package races

// Stream identifies a stream. Default streams have the same handles in all contexts. Thread is a number
// for a thread that uses its own default stream, and otherwise 0.
type Stream struct {
	Context, Handle uintptr
	Thread          uint64
}

// The handles of default streams.
const (
	Legacy    = 1 // waits for the blocking streams of its context, and they wait for it
	PerThread = 2 // each thread has one
)

// EventKind says what the record of an event, or a wait for an event, means.
type EventKind uint8

const (
	PlainEvent    EventKind = iota
	ExternalEvent           // a node of the graph that is being captured
	SharedEvent             // other processes may record the event
)

// Use is a use of memory.
type Use struct {
	Addr, Size uint64
	OnHost     bool // Addr is the address of pinned host memory for the host
	Write      bool // otherwise the memory is only read
	// Address says that a kernel gets the address as a number: nobody knows how much memory it uses,
	// and whether it writes.
	Address bool
	// As says how the memory is used: "argument 0", "source".
	As string
}

// NodeWork is what a node of a graph does. The zero value is a node without work.
type NodeWork struct {
	// Event is an event that the node records, or that it waits for, or 0.
	Event uintptr
	Waits bool
	// Call, Detail and Uses are as for [Observer.Enqueue].
	Call, Detail string
	Uses         []Use
	// HostFunc is a function that the node calls, or 0.
	HostFunc uint64
	// Timeline is a timeline that the node waits for, or raises, or 0.
	Timeline uintptr
	Value    uint64
	// Words are operations that the node does in their order.
	Words []WordOp
	// Graph is a graph whose work the node does as the graph is now, or 0.
	Graph uintptr
	// Bodies are graphs of which the node does the work of some, as they are at the instantiation.
	Bodies []uintptr
}

// Observer is told in which order a program does what. Except where a comment says something else,
// a method is called when the driver has made the call with success.
//
// A method never waits, and calls nothing of the program. So it may be called while locks are held.
// Report calls the program. Hold and HostFuncBegins wait.
type Observer interface {
	// NewStream is called before the program gets a stream. fresh says that the stream was created
	// now; otherwise it may have work already.
	NewStream(s Stream, nonBlocking, fresh bool)
	// StreamDestroyed is called before the stream is destroyed.
	StreamDestroyed(s Stream)

	// EndThread is called when a thread no longer uses its own default stream. Another thread's stream may
	// be the same one.
	EndThread(s Stream)

	// Enqueue is called for work that uses memory. call is the name of the function in C, and detail
	// says more about the work, such as the name of a kernel.
	Enqueue(s Stream, call, detail string, uses []Use)

	// NewHostFunc returns a number for a host function.
	NewHostFunc() (f uint64)
	// EnqueueHostFunc is called before the driver has the function.
	EnqueueHostFunc(s Stream, f uint64)
	// HostFuncBegins and HostFuncEnds are called by the goroutine of each call, which holds no lock.
	// HostFuncBegins waits like Hold, but not if the program waits for what the stream does afterwards.
	HostFuncBegins(f uint64)
	HostFuncEnds(f uint64)
	// HostFuncDropped is called if the driver did not take the function, or will not call it any more.
	HostFuncDropped(f uint64)

	// Record is called before the driver records an event.
	Record(s Stream, event uintptr, kind EventKind)
	// RecordFailed is called if the driver has refused a record: the event keeps the one before.
	RecordFailed(event uintptr)
	// RecordContext is Record for all streams of a context.
	RecordContext(ctx, event uintptr, kind EventKind)
	// Wait is called before the driver makes a stream wait for an event.
	Wait(s Stream, event uintptr, kind EventKind)
	// WaitContext is Wait for all streams of a context, present and later ones.
	WaitContext(ctx, event uintptr, kind EventKind)
	// EventDestroyed is called before the event is destroyed.
	EventDestroyed(event uintptr)

	// NewTimeline is called before the program gets a timeline with this value.
	NewTimeline(timeline uintptr, value uint64)
	// Signal is called before the driver has the raise of a timeline by a stream.
	Signal(s Stream, timeline uintptr, value uint64)
	// Block is called before the driver has the wait of a stream for a timeline.
	Block(s Stream, timeline uintptr, value uint64)
	// BlockFailed is called if the driver has refused the wait, or the operations.
	BlockFailed(s Stream)
	// WordOps is called before the driver has operations of a stream on words, or on semaphores of other
	// APIs.
	WordOps(s Stream, ops []WordOp)
	// SemaphoreDestroyed is called before a semaphore of another API is destroyed, by its number.
	SemaphoreDestroyed(semaphore uint64)
	// HostSignal is called before the host raises a timeline.
	HostSignal(timeline uintptr, value uint64)
	// HostSees is called when the host has seen the value of a timeline, or a higher one.
	HostSees(timeline uintptr, value uint64)

	// EventDone is called when the program learns that the record of an event is complete.
	EventDone(event uintptr, kind EventKind)
	// StreamDone is called when the program learns that a stream's work is done.
	StreamDone(s Stream)
	// ContextDone is called when the program learns that all work in a context is done.
	ContextDone(ctx uintptr)
	// DestroyContext is called before a context is destroyed, as another context may get its handle at once. It
	// returns a function that is called afterwards: all work of the context is done then.
	DestroyContext(ctx uintptr) (destroyed func())

	// EventNeeded, StreamNeeded and ContextNeeded are called before the program waits for what the methods above
	// will tell, and when the program has asked, and it is not done.
	EventNeeded(event uintptr, kind EventKind)
	StreamNeeded(s Stream)
	ContextNeeded(ctx uintptr)
	// Hold is called before the library tells the program something that the program may receive in a way that the
	// detector does not see. It waits until no goroutine of the program goes on without that. The caller holds no lock.
	Hold()

	// ExecDone is called when the program learns that the launches of an executable graph are done.
	ExecDone(exec uintptr)

	// HostUse is called before the host uses pinned memory.
	HostUse(call string, u Use)
	// BeginView is called before the program may read pinned memory, and perhaps write it. EndView is
	// called afterwards, with what it has written.
	BeginView(call string, u Use) (v View)
	EndView(v View, written []Use)
	// Allocated is called before the program gets memory.
	Allocated(what string, addr, size uint64, onHost bool)
	// Mapped is Allocated for physical memory, whose number is not 0, at an address of a device. It may be
	// mapped at other addresses, too.
	Mapped(what string, addr, size, physical uint64)
	// Opened is Mapped for memory that a handle names. Several openings may have one address.
	Opened(what string, addr, size, physical uint64)
	// Freed is called before the driver gets memory back, and before the end of an opening.
	Freed(addr uint64, onHost bool)
	// Unloaded is called before a module is unloaded, for each variable that the program has used.
	Unloaded(addr, size uint64)

	// BeginCapture is called after the beginning of a capture. graph is 0, or the graph that the
	// capture is into; after are the nodes that come before the captured work.
	BeginCapture(s Stream, graph uintptr, after []uintptr)
	// EndCapture is called after the end of the capture that began on the stream. graph is 0 if the
	// capture has failed.
	EndCapture(s Stream, graph uintptr)
	// NewGraph is called for an empty graph, and for a copy of graph from.
	NewGraph(graph, from uintptr)
	// ChildGraph is called for a copy of the child graph of a node.
	ChildGraph(graph, of, node uintptr)
	// AddNode is called for a node that was added.
	AddNode(graph, node uintptr, after []uintptr, w NodeWork)
	// LastNodes gives the last nodes of the latest capture into the graph their handles.
	LastNodes(graph uintptr, nodes []uintptr)
	// GraphDestroyed is called before a graph is destroyed.
	GraphDestroyed(graph uintptr)
	// SetNode replaces what a node does, in a graph or in an executable graph.
	SetNode(graph, node uintptr, w NodeWork)
	// EnableNode says whether a node of an executable graph does its work.
	EnableNode(exec, node uintptr, enabled bool)
	// RemoveNode removes a node with its edges.
	RemoveNode(graph, node uintptr)
	// AddEdge and RemoveEdge change whether node to comes after node from, or, if begins is set, after
	// what node from comes after.
	AddEdge(graph, from, to uintptr, begins bool)
	RemoveEdge(graph, from, to uintptr)
	// Instantiate makes exec do what the graph describes: a new executable graph, or an updated one.
	Instantiate(exec, graph uintptr)
	// Launch is called before the driver has the launch.
	Launch(s Stream, exec uintptr)
	// LaunchFailed is called if the driver has refused the latest launch.
	LaunchFailed(exec uintptr)
	// ExecDestroyed is called before an executable graph is destroyed.
	ExecDestroyed(exec uintptr)

	// Report passes the races that were found since the last call to the program. The caller holds no
	// lock.
	Report()
}
