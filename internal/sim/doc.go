// Package sim implements the software driver of package cusim: the functions of the driver API, as
// a [driver.Software], and the model of a device. Package cusim documents the options and controls.
//
// One mutex, Driver.mu, guards the driver and its engine. Only the clock has a mutex of its own. A
// call that waits for work releases Driver.mu during the wait.
//
// # A call
//
// A function of the API is a method of [Driver] with its name in C, without cu. It begins with a
// method that locks the driver, meets the faults that a test has set, and finds the objects of the
// handles: begin, inContext, onStream, askStream, aboutGreen and so on. streamForWork finds a stream in a call that has
// begun. The caller unlocks, also after an error:
//
//	defer d.mu.Unlock()
//	s, t, r := d.onStream("cuStreamWaitEvent", th, h)
//	if r != ok {
//		return r
//	}
//
// # Work
//
// A call that enqueues something makes a [work] (state_graph.go), and passes it to submit. If the stream is being
// captured, the work becomes a node of the capture's graph. Otherwise its method op makes an op of it,
// and enqueue adds that to the stream. A launch of a graph makes an op of each node's work. Package graph
// has the nodes and edges of graphs, and keeps their handles and contexts for this package. Package engine
// orders the ops of streams, and executes them; enqueue says which ops of other streams come before. An
// event stands for an op (a point). Kernels in PTX are executed on goroutines.
//
// # Memory
//
// A block is an allocation, of any kind: see blockKind. (Launch.Block is the size of a block of
// threads.) A span is a part of a block, a box is a part in rows and planes, and a corner is one
// end of a copy as C's structures have it. The addressSpace has all blocks. Package mem has what
// blocks contain, and finds the block of an address.
//
// # Files
//
// The files state*.go have the types that refer to each other: read them first. The others build on them. The comment
// of a function of the API says its name in C: search for "is cuMemAllocAsync". If a subject has a file with _calls,
// that has the functions that only programs call.
//
//   - driver.go, call.go, objects.go, thread*.go, fault.go, log.go, check.go: the driver itself,
//     how a call begins, handles and threads, faults that tests set, and what tests ask for
//   - gpus.go, settings.go, accounts.go, ledger*.go: what NVML and other processes know of the devices
//   - visible.go, checkpoint.go: which devices the process sees, and other processes
//   - work.go, wait.go: what is done on streams, and calls that wait for it
//   - device.go, attributes.go, context*.go, limits.go, green*.go, stream*.go, event*.go, ipc*.go, hostfunc*.go:
//     devices, contexts, streams and events
//   - mem*.go, managed.go, registered.go, advice.go, vmm*.go: memory. mem*.go allocate, mem_copy.go and
//     mem_box.go copy and set, mempool.go has pools, and mempool_calls.go allocates from them
//   - array*.go, texture.go, tensormap.go: arrays, the textures and surfaces that kernels read and write, and maps of
//     tensors
//   - external*.go, files_*.go, mappings_*.go, poller_*.go: memory and semaphores of other APIs, and what ipc*.go and
//     these need of the operating system
//   - module.go, library.go, link.go, function.go, occupancy.go, unknown.go: handles of code, which package code
//     compiles
//   - launch*.go, kernels_*.go, heap.go: kernels, in Go and in PTX, which package vm executes, and their checks
//   - capture*.go, graph*.go, userobject.go: captures, the work of nodes, and launches of graphs, whose structure
//     package graph has
package sim
