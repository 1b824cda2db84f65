package cu

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/purecu/purecu/driver"
)

// Status is the answer to whether work has completed.
type Status uint8

const (
	// StatusUnknown is the zero value. It accompanies errors.
	StatusUnknown Status = iota
	// Pending means that work is still under way: what C calls
	// CUDA_ERROR_NOT_READY, though nothing is wrong.
	Pending
	// Complete means that all the work in question has completed.
	Complete
)

// String returns the status in a word.
func (s Status) String() string {
	switch s {
	case Pending:
		return "pending"
	case Complete:
		return "complete"
	}
	return "unknown"
}

// EventFlags choose properties of an event; they are CUDA's own bits.
type EventFlags uint32

const (
	// EventDefault makes an event that records the time and is waited for by
	// spinning: CU_EVENT_DEFAULT.
	EventDefault EventFlags = driver.CU_EVENT_DEFAULT
	// EventBlockingSync lets [Event.Synchronize] sleep in the kernel instead
	// of spinning: CU_EVENT_BLOCKING_SYNC.
	EventBlockingSync EventFlags = driver.CU_EVENT_BLOCKING_SYNC
	// EventDisableTiming makes an event that records no time, which is several
	// times cheaper to record: CU_EVENT_DISABLE_TIMING.
	EventDisableTiming EventFlags = driver.CU_EVENT_DISABLE_TIMING
	// EventInterprocess makes an event that other processes can open, by the handle
	// that [Event.IPCHandle] gives; it needs EventDisableTiming, and does not become part
	// of a graph: CU_EVENT_INTERPROCESS.
	EventInterprocess EventFlags = driver.CU_EVENT_INTERPROCESS
	// EventExternal makes an event that is recorded and waited for as with
	// RecordExternal and WaitExternal whenever the stream is being captured, for which
	// the driver is asked each time. It is this package's own bit, not CUDA's.
	EventExternal EventFlags = 1 << 30
)

// String lists the flags by name.
func (f EventFlags) String() string {
	names := []string{"EventBlockingSync", "EventDisableTiming", "EventInterprocess"}
	if f&EventExternal == 0 {
		return flagNames(uint32(f), "EventDefault", names)
	}
	if f &^= EventExternal; f == 0 {
		return "EventExternal"
	}
	return flagNames(uint32(f), "", names) + "|EventExternal"
}

// check refuses combinations that the driver would refuse.
func (f EventFlags) check() error {
	const op = "cuEventCreate"
	switch {
	case f&^(EventBlockingSync|EventDisableTiming|EventInterprocess|EventExternal) != 0:
		return invalid(op, fmt.Sprintf("unknown event flags %v: see EventFlags", f))
	case f&EventInterprocess != 0 && f&EventDisableTiming == 0:
		return invalid(op, "an interprocess event cannot record the time: add EventDisableTiming")
	case f&EventInterprocess != 0 && f&EventExternal != 0:
		return invalid(op, "an interprocess event does not become part of a graph: leave EventExternal or EventInterprocess out")
	}
	return nil
}

// RecordFlags choose how an event is recorded; they are CUDA's own bits.
type RecordFlags uint32

const (
	// RecordDefault records like [Event.Record]: CU_EVENT_RECORD_DEFAULT.
	RecordDefault RecordFlags = driver.CU_EVENT_RECORD_DEFAULT
	// RecordExternal, on a capturing stream, adds a node to the graph that
	// records the event whenever the graph runs, instead of an edge inside it.
	// Other streams refuse it. The graph keeps the event, if the capture is
	// [Stream.Capture]'s; else it has to stay open for as long as the graph is used.
	// Until the graph runs the event stands for its earlier record; if somebody waits for
	// that, the wait or the ticket goes on, and the event completes when that record does,
	// but has no time of it. From the first such record on, also if it is refused,
	// completion is not remembered, and a wait that begins is for the newest record:
	// CU_EVENT_RECORD_EXTERNAL.
	RecordExternal RecordFlags = driver.CU_EVENT_RECORD_EXTERNAL
)

// String lists the flags by name.
func (f RecordFlags) String() string {
	return flagNames(uint32(f), "RecordDefault", []string{"RecordExternal"})
}

// WaitFlags choose how a stream waits for an event; they are CUDA's own bits.
type WaitFlags uint32

const (
	// WaitDefault waits like [Stream.WaitEvent]: CU_EVENT_WAIT_DEFAULT.
	WaitDefault WaitFlags = driver.CU_EVENT_WAIT_DEFAULT
	// WaitExternal, on a capturing stream, adds a node to the graph that waits
	// for the event whenever the graph runs, instead of an edge inside it. Other
	// streams refuse it. The graph keeps the event, if the capture is
	// [Stream.Capture]'s; else it has to stay open for as long as the graph is
	// used: CU_EVENT_WAIT_EXTERNAL.
	WaitExternal WaitFlags = driver.CU_EVENT_WAIT_EXTERNAL
)

// String lists the flags by name.
func (f WaitFlags) String() string {
	return flagNames(uint32(f), "WaitDefault", []string{"WaitExternal"})
}

// StreamFlags choose properties of a stream; they are CUDA's own bits.
type StreamFlags uint32

const (
	// StreamDefault makes a stream that synchronizes with the legacy default
	// stream: CU_STREAM_DEFAULT.
	StreamDefault StreamFlags = driver.CU_STREAM_DEFAULT
	// StreamNonBlocking makes a stream that does not:
	// CU_STREAM_NON_BLOCKING.
	StreamNonBlocking StreamFlags = driver.CU_STREAM_NON_BLOCKING
)

// String lists the flags by name.
func (f StreamFlags) String() string {
	return flagNames(uint32(f), "StreamDefault", []string{"StreamNonBlocking"})
}

// ContextFlags choose properties of a context; they are CUDA's own bits. At
// most one of the three Sched flags may be set.
type ContextFlags uint32

const (
	// ContextDefault lets the driver choose how to wait: CU_CTX_SCHED_AUTO.
	ContextDefault ContextFlags = driver.CU_CTX_SCHED_AUTO
	// ContextSchedSpin lets Synchronize spin: CU_CTX_SCHED_SPIN.
	ContextSchedSpin ContextFlags = driver.CU_CTX_SCHED_SPIN
	// ContextSchedYield lets Synchronize yield its thread between looks:
	// CU_CTX_SCHED_YIELD.
	ContextSchedYield ContextFlags = driver.CU_CTX_SCHED_YIELD
	// ContextSchedBlockingSync lets Synchronize sleep in the kernel:
	// CU_CTX_SCHED_BLOCKING_SYNC.
	ContextSchedBlockingSync ContextFlags = driver.CU_CTX_SCHED_BLOCKING_SYNC
	// ContextMapHost lets pinned host memory be mapped, which every context
	// does today: CU_CTX_MAP_HOST.
	ContextMapHost ContextFlags = driver.CU_CTX_MAP_HOST
	// ContextLocalMemResizeToMax keeps local memory at its largest size instead
	// of shrinking it after a kernel: CU_CTX_LMEM_RESIZE_TO_MAX.
	ContextLocalMemResizeToMax ContextFlags = driver.CU_CTX_LMEM_RESIZE_TO_MAX
	// ContextCoredump lets the driver write a GPU core dump for this context
	// (CUDA 12.1): CU_CTX_COREDUMP_ENABLE.
	ContextCoredump ContextFlags = driver.CU_CTX_COREDUMP_ENABLE
	// ContextUserCoredump lets the program ask for a GPU core dump (CUDA 12.1):
	// CU_CTX_USER_COREDUMP_ENABLE.
	ContextUserCoredump ContextFlags = driver.CU_CTX_USER_COREDUMP_ENABLE
	// ContextSyncMemOps makes synchronous memory operations always synchronize
	// (CUDA 12.1): CU_CTX_SYNC_MEMOPS.
	ContextSyncMemOps ContextFlags = driver.CU_CTX_SYNC_MEMOPS
)

// String lists the flags by name.
func (f ContextFlags) String() string {
	return flagNames(uint32(f), "ContextDefault", []string{"ContextSchedSpin", "ContextSchedYield", "ContextSchedBlockingSync", "ContextMapHost",
		"ContextLocalMemResizeToMax", "ContextCoredump", "ContextUserCoredump", "ContextSyncMemOps"})
}

// check refuses combinations that the driver would refuse.
func (f ContextFlags) check(op string) error {
	if f&^driver.CU_CTX_FLAGS_MASK != 0 {
		return invalid(op, "unknown context flags "+f.String()+": see ContextFlags")
	}
	if sched := f & (ContextSchedSpin | ContextSchedYield | ContextSchedBlockingSync); sched&(sched-1) != 0 {
		return invalid(op, "a context waits in one way only: choose one of "+sched.String())
	}
	return nil
}

// HostFlags choose properties of pinned host memory; they are CUDA's own bits.
type HostFlags uint32

const (
	// HostDefault is plain pinned memory.
	HostDefault HostFlags = 0
	// HostPortable makes the memory pinned for all contexts:
	// CU_MEMHOSTALLOC_PORTABLE.
	HostPortable HostFlags = driver.CU_MEMHOSTALLOC_PORTABLE
	// HostDeviceMap maps the memory into the GPU's address space, which is so
	// for all pinned memory where addresses are unified (64-bit systems):
	// CU_MEMHOSTALLOC_DEVICEMAP.
	HostDeviceMap HostFlags = driver.CU_MEMHOSTALLOC_DEVICEMAP
	// HostWriteCombined makes the memory fast to write for the host and fast to
	// read for the GPU over PCIe, and very slow to read for the host:
	// CU_MEMHOSTALLOC_WRITECOMBINED.
	HostWriteCombined HostFlags = driver.CU_MEMHOSTALLOC_WRITECOMBINED
)

// String lists the flags by name.
func (f HostFlags) String() string {
	return flagNames(uint32(f), "HostDefault", []string{"HostPortable", "HostDeviceMap", "HostWriteCombined"})
}

// LaunchFlags choose how a kernel is launched.
type LaunchFlags uint32

const (
	// LaunchDefault is cuLaunchKernel.
	LaunchDefault LaunchFlags = 0
	// LaunchCooperative lets the blocks of the grid wait for each other; all of
	// them have to fit on the device at once (cuLaunchCooperativeKernel).
	LaunchCooperative LaunchFlags = 1
)

// String lists the flags by name.
func (f LaunchFlags) String() string {
	return flagNames(uint32(f), "LaunchDefault", []string{"LaunchCooperative"})
}

// enumName is the name of a value.
type enumName struct {
	value int32
	name  string
}

// nameOf returns a value's name, or its number.
func nameOf(names []enumName, v int32) string {
	for _, n := range names {
		if n.value == v {
			return n.name
		}
	}
	return strconv.Itoa(int(v))
}

// flagNames joins the names of the bits that are set in f, lowest first; bits
// without a name appear as a number.
func flagNames(f uint32, zero string, names []string) string {
	if f == 0 {
		return zero
	}
	var set []string
	for i, n := range names {
		if f&(1<<i) != 0 {
			set = append(set, n)
			f &^= 1 << i
		}
	}
	if f != 0 {
		set = append(set, fmt.Sprintf("%#x", f))
	}
	return strings.Join(set, "|")
}
