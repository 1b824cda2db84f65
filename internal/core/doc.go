// Package core has what the subjects of package cu share: contexts, streams, events, memory, code and
// timelines, with their handles and lifetimes; the protocols of records, waits and other work on streams;
// captures, as far as they are a state of streams; and the errors of calls.
//
// A program has a cu.Stream, which stands for a [Stream] here. The two are separate objects, because the
// garbage collector may find an abandoned cu.Stream while calls and other objects still need the Stream.
// Contexts, events, memory and so on have the same two types.
//
// The exported names are for package cu, and for packages of its subjects, only. The core trusts its
// callers: a comment says what the caller has to hold, such as a call in flight. A call is in flight from
// Enter or Acquire to EndCall. Names that are not declared here, such as Driver.Close, are those of
// package cu.
//
// # Files
//
// Read the groups in this order, which is from below. Within a group, begin with the first file.
//
//   - access.go, trace.go, drivererror.go, driverlog.go, driver.go: what every call of the driver needs
//   - errors.go, ctxerror.go, batcherror.go, names.go: the errors of mistakes, of calls in a context, and of several items;
//     the names of values in texts
//   - observer.go, race.go, norace.go: what the race detector is told
//   - device.go, ctx.go, peer.go: GPUs, contexts, who uses them, and whose memory their kernels can access
//   - stream*.go, mark.go: streams, and how the end of their work is known, also after they are destroyed
//   - enqueue.go, batchwork.go, kernelargs.go: how work is enqueued, and what it uses until it is done
//   - resource.go, deferred.go, objectset.go, collect.go: how objects are closed, kept, freed later, and found
//   - slot.go, event*.go, record.go: the CUevents of events, how they are recorded, and how events change them
//   - ipc.go, ipchandle.go: events that processes share, and handles for other processes
//   - wait.go, watchsource.go, wakeups.go, ticket.go, stats.go: how goroutines wait, and what wakes them
//   - calluntil.go: calls of the driver that may take long, for a goroutine that does not wait for their end
//   - mem*.go, span.go, planes.go, nodemem.go: memory, of pools and of graphs too: how it is allocated, used and freed
//   - library.go, module.go, launchmemory.go: code, and the arguments of kernels
//   - hostfunc.go, hostcalls.go: Go functions that streams call
//   - timeline*.go: timelines, and the memory of their counters
//   - external.go: semaphores of other APIs
//   - ref.go, value.go: how the packages of subjects get from an object of cu to its state here
//   - capture*.go: captures, the streams that join them, and what waits while one begins or ends
package core
