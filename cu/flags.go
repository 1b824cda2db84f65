package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/launch"
	"github.com/purecu/purecu/internal/valuename"
)

// Status says whether work has completed.
type Status uint8

const (
	// StatusUnknown is the zero value. Methods return it together with an error.
	StatusUnknown Status = iota
	// Pending means that work has not completed yet. The driver's result is CUDA_ERROR_NOT_READY,
	// but it is not an error.
	Pending
	// Complete means that all the work has completed.
	Complete
)

// String returns the status as one word.
func (s Status) String() string {
	switch s {
	case Pending:
		return "pending"
	case Complete:
		return "complete"
	}
	return "unknown"
}

// EventFlags are the properties of an event. Except for EventExternal they have CUDA's values.
type EventFlags uint32

const (
	// EventDefault makes an event that records the time, and in whose wait the driver spins:
	// CU_EVENT_DEFAULT.
	EventDefault EventFlags = driver.CU_EVENT_DEFAULT
	// EventBlockingSync makes [Event.Synchronize] sleep in the kernel instead of spinning:
	// CU_EVENT_BLOCKING_SYNC.
	EventBlockingSync EventFlags = driver.CU_EVENT_BLOCKING_SYNC
	// EventDisableTiming makes an event that records no time, which makes a record several times
	// cheaper: CU_EVENT_DISABLE_TIMING.
	EventDisableTiming EventFlags = driver.CU_EVENT_DISABLE_TIMING
	// EventInterprocess makes an event that other processes can open by its [Event.IPCHandle]. It
	// requires EventDisableTiming, and the event cannot be part of a graph: CU_EVENT_INTERPROCESS.
	EventInterprocess EventFlags = driver.CU_EVENT_INTERPROCESS
	// EventExternal makes an event that is recorded and waited for as with RecordExternal and
	// WaitExternal whenever the stream is being captured. Each such call queries the driver for
	// that. The flag is this package's own, not CUDA's.
	EventExternal EventFlags = core.EventExternal
)

// String lists the flags by name.
func (f EventFlags) String() string { return core.EventFlagNames(uint32(f)) }

// RecordFlags say how an event is recorded. They have CUDA's values.
type RecordFlags uint32

const (
	// RecordDefault records like [Event.Record]: CU_EVENT_RECORD_DEFAULT.
	RecordDefault RecordFlags = driver.CU_EVENT_RECORD_DEFAULT
	// RecordExternal, on a capturing stream, adds a node to the graph that records the event
	// whenever the graph runs, instead of an edge inside the graph. On other streams the record
	// fails. The graph keeps the event if the capture is graph.Capture's; otherwise the program
	// must keep the event open while the graph is used: CU_EVENT_RECORD_EXTERNAL.
	//
	// Until the graph runs, the event stands for its earlier record. Waits and tickets for that
	// record continue, and the event completes with that record, but has no time of it. From the
	// first external record on, even if it fails, completion is not remembered, and a new wait is
	// for the newest record.
	RecordExternal RecordFlags = driver.CU_EVENT_RECORD_EXTERNAL
)

// String lists the flags by name.
func (f RecordFlags) String() string {
	return valuename.OfFlags(uint32(f), "RecordDefault", []string{"RecordExternal"})
}

// WaitFlags say how a stream waits for an event. They have CUDA's values.
type WaitFlags uint32

const (
	// WaitDefault waits like [Stream.WaitEvent]: CU_EVENT_WAIT_DEFAULT.
	WaitDefault WaitFlags = driver.CU_EVENT_WAIT_DEFAULT
	// WaitExternal, on a capturing stream, adds a node to the graph that waits for the event
	// whenever the graph runs, instead of an edge inside the graph. On other streams the wait
	// fails. The graph keeps the event if the capture is graph.Capture's; otherwise the program
	// must keep the event open while the graph is used: CU_EVENT_WAIT_EXTERNAL. It is not about
	// semaphores of other APIs, for which interop.Wait waits.
	WaitExternal WaitFlags = driver.CU_EVENT_WAIT_EXTERNAL
)

// String lists the flags by name.
func (f WaitFlags) String() string {
	return valuename.OfFlags(uint32(f), "WaitDefault", []string{"WaitExternal"})
}

// StreamFlags are the properties of a stream. They have CUDA's values.
type StreamFlags uint32

const (
	// StreamDefault makes a stream that synchronizes with the legacy default
	// stream: CU_STREAM_DEFAULT.
	StreamDefault StreamFlags = driver.CU_STREAM_DEFAULT
	// StreamNonBlocking makes a stream that does not synchronize with the legacy default stream:
	// CU_STREAM_NON_BLOCKING.
	StreamNonBlocking StreamFlags = driver.CU_STREAM_NON_BLOCKING
)

// String lists the flags by name.
func (f StreamFlags) String() string {
	return valuename.OfFlags(uint32(f), "StreamDefault", []string{"StreamNonBlocking"})
}

// ContextFlags are the properties of a context. They have CUDA's values. At most one of the three
// Sched flags may be set.
type ContextFlags uint32

const (
	// ContextDefault lets the driver choose how to wait: CU_CTX_SCHED_AUTO.
	ContextDefault ContextFlags = driver.CU_CTX_SCHED_AUTO
	// ContextSchedSpin makes Synchronize spin: CU_CTX_SCHED_SPIN.
	ContextSchedSpin ContextFlags = driver.CU_CTX_SCHED_SPIN
	// ContextSchedYield makes Synchronize yield its thread between two queries: CU_CTX_SCHED_YIELD.
	ContextSchedYield ContextFlags = driver.CU_CTX_SCHED_YIELD
	// ContextSchedBlockingSync makes Synchronize sleep in the kernel: CU_CTX_SCHED_BLOCKING_SYNC.
	ContextSchedBlockingSync ContextFlags = driver.CU_CTX_SCHED_BLOCKING_SYNC
	// ContextMapHost allows pinned host memory to be mapped, which every context does today:
	// CU_CTX_MAP_HOST.
	ContextMapHost ContextFlags = driver.CU_CTX_MAP_HOST
	// ContextLocalMemResizeToMax keeps local memory at its largest size, instead of shrinking it
	// after a kernel: CU_CTX_LMEM_RESIZE_TO_MAX.
	ContextLocalMemResizeToMax ContextFlags = driver.CU_CTX_LMEM_RESIZE_TO_MAX
	// ContextCoredump makes the driver write GPU core dumps for this context (CUDA 12.1):
	// CU_CTX_COREDUMP_ENABLE.
	ContextCoredump ContextFlags = driver.CU_CTX_COREDUMP_ENABLE
	// ContextUserCoredump allows the program to request a GPU core dump (CUDA 12.1):
	// CU_CTX_USER_COREDUMP_ENABLE.
	ContextUserCoredump ContextFlags = driver.CU_CTX_USER_COREDUMP_ENABLE
	// ContextSyncMemOps makes synchronous memory operations always synchronize
	// (CUDA 12.1): CU_CTX_SYNC_MEMOPS.
	ContextSyncMemOps ContextFlags = driver.CU_CTX_SYNC_MEMOPS
)

// String lists the flags by name.
func (f ContextFlags) String() string {
	return valuename.OfFlags(uint32(f), "ContextDefault", []string{
		"ContextSchedSpin", "ContextSchedYield", "ContextSchedBlockingSync", "ContextMapHost",
		"ContextLocalMemResizeToMax", "ContextCoredump", "ContextUserCoredump", "ContextSyncMemOps",
	})
}

// HostFlags are the properties of pinned host memory. They have CUDA's values.
type HostFlags uint32

const (
	// HostDefault is plain pinned memory.
	HostDefault HostFlags = 0
	// HostPortable makes the memory pinned for all contexts:
	// CU_MEMHOSTALLOC_PORTABLE.
	HostPortable HostFlags = driver.CU_MEMHOSTALLOC_PORTABLE
	// HostDeviceMap maps the memory into the GPU's address space. Where addresses are unified
	// (64-bit systems), all pinned memory is mapped: CU_MEMHOSTALLOC_DEVICEMAP.
	HostDeviceMap HostFlags = driver.CU_MEMHOSTALLOC_DEVICEMAP
	// HostWriteCombined makes host writes and GPU reads over PCIe fast, and host reads very slow:
	// CU_MEMHOSTALLOC_WRITECOMBINED.
	HostWriteCombined HostFlags = driver.CU_MEMHOSTALLOC_WRITECOMBINED
	// HostReadOnly registers memory that the program may not write, such as that of a file that is
	// mapped for reading ([Context.RegisterHost]): CU_MEMHOSTREGISTER_READ_ONLY.
	HostReadOnly HostFlags = driver.CU_MEMHOSTREGISTER_READ_ONLY
)

// String lists the flags by name.
func (f HostFlags) String() string {
	return valuename.OfFlags(uint32(f), "HostDefault",
		[]string{"HostPortable", "HostDeviceMap", "HostWriteCombined", "HostReadOnly"})
}

// LaunchFlags say how a kernel is launched.
type LaunchFlags uint32

const (
	// LaunchDefault launches by cuLaunchKernel.
	LaunchDefault LaunchFlags = 0
	// LaunchCooperative allows the blocks of the grid to wait for each other. All of them must fit
	// on the device at once (cuLaunchCooperativeKernel).
	LaunchCooperative LaunchFlags = 1
)

// String lists the flags by name.
func (f LaunchFlags) String() string {
	return launch.FlagNames(uint32(f))
}
