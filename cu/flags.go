package cu

import (
	"fmt"
	"strings"

	"github.com/purecu/purecu/internal/driver"
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
	// EventInterprocess makes an event that other processes can open; it needs
	// EventDisableTiming: CU_EVENT_INTERPROCESS.
	EventInterprocess EventFlags = driver.CU_EVENT_INTERPROCESS
)

// String lists the flags by name.
func (f EventFlags) String() string {
	return flagNames(uint32(f), "EventDefault", []string{"EventBlockingSync", "EventDisableTiming", "EventInterprocess"})
}

// check refuses combinations that the driver would refuse.
func (f EventFlags) check() error {
	const op = "cuEventCreate"
	switch {
	case f&^(EventBlockingSync|EventDisableTiming|EventInterprocess) != 0:
		return invalid(op, fmt.Sprintf("unknown event flags %v", f))
	case f&EventInterprocess != 0 && f&EventDisableTiming == 0:
		return invalid(op, "an interprocess event cannot record the time: add EventDisableTiming")
	}
	return nil
}

// RecordFlags choose how an event is recorded; they are CUDA's own bits.
type RecordFlags uint32

const (
	// RecordDefault records like [Event.Record]: CU_EVENT_RECORD_DEFAULT.
	RecordDefault RecordFlags = driver.CU_EVENT_RECORD_DEFAULT
	// RecordExternal, on a capturing stream, adds a node to the graph that
	// records the event whenever the graph runs, instead of an edge inside it:
	// CU_EVENT_RECORD_EXTERNAL.
	RecordExternal RecordFlags = driver.CU_EVENT_RECORD_EXTERNAL
)

// String lists the flags by name.
func (f RecordFlags) String() string {
	return flagNames(uint32(f), "RecordDefault", []string{"RecordExternal"})
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
