package nvml

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"github.com/purecu/purecu/nvml/raw"
)

// SystemEventType is a kind of events about the machine, or a sum of several.
type SystemEventType uint64

// The kinds of events about the machine.
const (
	// SystemEventDriverUnbind is a GPU that the driver gives up, for example before it is removed from the machine.
	SystemEventDriverUnbind SystemEventType = raw.SystemEventTypeGpuDriverUnbind
	// SystemEventDriverBind is a GPU that the driver takes over, for example after it was added to the machine.
	SystemEventDriverBind SystemEventType = raw.SystemEventTypeGpuDriverBind
)

// String lists the kinds by name, such as "SystemEventDriverUnbind". No kind is "none".
func (t SystemEventType) String() string {
	return bitNames(uint64(t), "SystemEvent", "DriverUnbind,DriverBind")
}

// SystemEvent is something that happened to the machine.
type SystemEvent struct {
	// Type is the kind of the event.
	Type SystemEventType
	// GPU is the driver's number of the GPU, which is made of its PCI address.
	GPU uint32
}

// PCI returns the PCI address of the GPU. Only the lower 16 bits of the domain are known.
func (e SystemEvent) PCI() PCIAddress {
	return PCIAddress{Domain: e.GPU >> 16, Bus: e.GPU >> 8 & 0xff, Device: e.GPU & 0xff}
}

// String returns what happened to which GPU, for logs.
func (e SystemEvent) String() string { return fmt.Sprintf("GPU %v: %v", e.PCI(), e.Type) }

// SystemEventSet reports events about the machine, such as a GPU that is added. It is used, and freed, like an
// [EventSet].
type SystemEventSet struct{ src *source[SystemEvent] }

// systemEvents is how many events one call of C may return.
const systemEvents = 16

// NewSystemEventSet returns a set that reports kinds of events about the machine, from now on
// (nvmlSystemEventSetCreate, nvmlSystemRegisterEvents). It needs Linux and a newer driver. For others the error matches
// [errors.ErrUnsupported].
func (l *Library) NewSystemEventSet(kinds SystemEventType) (*SystemEventSet, error) {
	const op = "nvmlSystemRegisterEvents"
	if o := l.obj(); o != nil && kinds == 0 {
		return nil, o.invalid(op, "no kind of events is given")
	}
	src := &source[SystemEvent]{op: "nvmlSystemEventSetWait", poll: systemPoll()}
	src.free = func(l *raw.Library, set uint64) raw.Return {
		return l.SystemEventSetFree(&raw.SystemEventSetFreeRequest{
			Version: raw.SystemEventSetFreeRequestV1Version, Set: raw.SystemEventSet(set),
		})
	}
	err := src.open(l, "nvmlSystemEventSetCreate", func(l *raw.Library) (uint64, raw.Return) {
		q := raw.SystemEventSetCreateRequest{Version: raw.SystemEventSetCreateRequestV1Version}
		r := l.SystemEventSetCreate(&q)
		return uint64(q.Set), r
	})
	if err != nil {
		return nil, err
	}
	w, err := l.call(op, words{b: uint64(kinds)}, func(l *raw.Library, w words) (words, raw.Return) {
		if !src.refs.Acquire(src) {
			return words{b: 1}, raw.NVML_SUCCESS
		}
		q := raw.SystemRegisterEventRequest{
			Version: raw.SystemRegisterEventRequestV1Version, EventTypes: w.b, Set: raw.SystemEventSet(src.handle),
		}
		r := l.SystemRegisterEvents(&q)
		src.refs.Release(src)
		return words{}, r
	})
	if err == nil && w.b != 0 {
		err = src.Refused(op)
	}
	if err != nil {
		_ = src.within("nvmlSystemEventSetFree", src.close) // the error is that of the registration
		return nil, err
	}
	s := &SystemEventSet{src: src}
	closeUnused(s, src)
	return s, nil
}

// systemPoll returns the function that makes one call of C that waits for events.
func systemPoll() func(l *raw.Library, set uint64) ([]SystemEvent, raw.Return) {
	data := make([]raw.SystemEventDataV1, systemEvents)
	return func(l *raw.Library, set uint64) (events []SystemEvent, r raw.Return) {
		q := raw.SystemEventSetWaitRequest{
			Version: raw.SystemEventSetWaitRequestV1Version, Timeoutms: uint32(waitSlice.Milliseconds()),
			Set: raw.SystemEventSet(set), Data: &data[0], DataSize: systemEvents,
		}
		r = l.SystemEventSetWait(&q)
		if r != raw.NVML_SUCCESS {
			return nil, r
		}
		if q.NumEvent == 0 {
			return nil, raw.NVML_ERROR_TIMEOUT
		}
		for d := range slices.Values(data[:min(q.NumEvent, systemEvents)]) {
			events = append(events, SystemEvent{Type: SystemEventType(d.EventType), GPU: d.GpuId})
		}
		return events, r
	}
}

// Wait returns the next event, as [EventSet.Wait] does (nvmlSystemEventSetWait).
func (s *SystemEventSet) Wait(ctx context.Context) (SystemEvent, error) {
	e, _, err := s.next(ctx)
	return e, err
}

func (s *SystemEventSet) next(ctx context.Context) (SystemEvent, bool, error) {
	if s == nil || s.src == nil {
		return SystemEvent{}, false, nilError("nvmlSystemEventSetWait")
	}
	e, ended, err := s.src.next(ctx)
	runtime.KeepAlive(s)
	return e, ended, err
}

// All returns the events that [SystemEventSet.Wait] returns, as [EventSet.All] does.
func (s *SystemEventSet) All(ctx context.Context) iter.Seq2[SystemEvent, error] {
	return all(s == nil || s.src == nil, func() (SystemEvent, bool, error) { return s.next(ctx) })
}

// Close ends all waits, and frees the set, as [EventSet.Close] does (nvmlSystemEventSetFree).
func (s *SystemEventSet) Close() error {
	const op = "nvmlSystemEventSetFree"
	if s == nil || s.src == nil {
		return nilError(op)
	}
	return s.src.within(op, s.src.close)
}
