// Package core has what the subjects of package cu share: contexts, streams and events, with their handles and
// lifetimes; the protocols of records, waits and other work on streams; captures, as far as they are a state of
// streams; and the errors of calls in contexts. Memory, code, timelines, pools of events and host functions have
// packages of their own above it, such as memstate. What a call needs that knows no context is below, in drivercall.
//
// A program has a cu.Stream, which stands for a [Stream] here. The two are separate objects, because the
// garbage collector may find an abandoned cu.Stream while calls and other objects still need the Stream.
// Contexts, events, memory and so on have the same two types.
//
// The exported names are for package cu, and for packages of its subjects, only. The core trusts its
// callers: a comment says what the caller has to hold, such as a call in flight. A call is in flight from
// Enter, Acquire, [Stream.Begin], [ContextOwner.Begin] or Retain to EndCall. Names that are not declared here, such as
// Driver.Close, are those of package cu.
//
// # Files
//
// Read the groups in this order, which is from below. Within a group, begin with the first file.
//
//   - driver.go, device.go, ctx.go, peer.go: drivers, GPUs, contexts, who uses them, and whose memory their kernels can
//     access
//   - ctxerror.go: the errors of calls in a context
//   - observer.go, race.go, norace.go: what the race detector is told
//   - stream*.go, mark.go: streams, and how the end of their work is known, also after they are destroyed
//   - enqueue.go, kernelargs.go: how work is enqueued, and what it uses until it is done
//   - resource.go, deferred.go, objectset.go, collect.go: how objects are closed, kept, freed later, and found
//   - slot.go, event*.go, record.go: the CUevents of events, how they are recorded, and how events change them
//   - ipc.go: events that processes share
//   - watchsource.go, wakeups.go, stats.go: what the watcher asks, and what wakes goroutines
//   - hostcalls.go: the functions that streams have yet to call
//   - timelinememory.go: the memory of the counters of timelines, which the release of a context waits for
//   - ref.go, value.go: how the packages of subjects get from an object of cu to its state here
//   - capture*.go: captures, the streams that join them, and what waits while one begins or ends
package core
