package nvml

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"

	"github.com/purecu/purecu/nvml/raw"
)

// EventType is a kind of events, or a sum of several.
type EventType uint64

// The kinds of events. [Device.SupportedEvents] returns which of them a device reports.
const (
	// EventSingleBitECC is an error in memory that was corrected.
	EventSingleBitECC EventType = raw.EventTypeSingleBitEccError
	// EventDoubleBitECC is an error in memory that could not be corrected.
	EventDoubleBitECC EventType = raw.EventTypeDoubleBitEccError
	// EventPState is a change of the performance state.
	EventPState EventType = raw.EventTypePState
	// EventXIDCritical is an error that the driver also writes into the kernel's log, as an XID: see [Event.XID].
	EventXIDCritical EventType = raw.EventTypeXidCriticalError
	// EventClockChange is a change of clocks.
	EventClockChange EventType = raw.EventTypeClock
	// EventPowerSource is a change between mains and battery.
	EventPowerSource EventType = raw.EventTypePowerSourceChange
	// EventMIGConfig is a change of the GPU's MIG instances.
	EventMIGConfig EventType = raw.EventMigConfigChange
	// EventSingleBitECCStorm is a high rate of errors that were corrected.
	EventSingleBitECCStorm EventType = raw.EventTypeSingleBitEccErrorStorm
	// EventDRAMRetirement is a part of the memory that is replaced by a spare one, or no longer used.
	EventDRAMRetirement EventType = raw.EventTypeDramRetirementEvent
	// EventDRAMRetirementFailure is a part of the memory that should be replaced, and could not be.
	EventDRAMRetirementFailure EventType = raw.EventTypeDramRetirementFailure
	// EventNonFatalPoison is the use of damaged data that ended only the programs that used them.
	EventNonFatalPoison EventType = raw.EventTypeNonFatalPoisonError
	// EventFatalPoison is the use of damaged data after which the GPU must be reset.
	EventFatalPoison EventType = raw.EventTypeFatalPoisonError
	// EventGPUUnavailable is a GPU that can no longer be used.
	EventGPUUnavailable EventType = raw.EventTypeGpuUnavailableError
	// EventGPURecoveryAction is a change of what must be done with the GPU so that it is well again.
	EventGPURecoveryAction EventType = raw.EventTypeGpuRecoveryAction
)

// eventNames has the names of the bits, lowest first; "" is a bit that means nothing.
const eventNames = "SingleBitECC,DoubleBitECC,PState,XIDCritical,ClockChange,,,PowerSource,MIGConfig,SingleBitECCStorm," +
	"DRAMRetirement,DRAMRetirementFailure,NonFatalPoison,FatalPoison,GPUUnavailable,GPURecoveryAction"

// String lists the kinds by name, such as "EventXIDCritical|EventClockChange". No kind is "none".
func (t EventType) String() string { return bitNames(uint64(t), "Event", eventNames) }

// bitNames joins the names of the bits that are set, with a prefix. Bits without a name are one number.
func bitNames(bits uint64, prefix, names string) string {
	if bits == 0 {
		return "none"
	}
	var set []string
	bit := uint64(1)
	for name := range strings.SplitSeq(names, ",") {
		if name != "" && bits&bit != 0 {
			set = append(set, prefix+name)
			bits &^= bit
		}
		bit <<= 1
	}
	if bits != 0 {
		set = append(set, fmt.Sprintf("%#x", bits))
	}
	return strings.Join(set, "|")
}

// Event is something that happened to a device.
type Event struct {
	// Device is the one that was given to [EventSet.Add]. It is nil if NVML does not say which device it was.
	Device *Device
	// Type is the kind of the event.
	Type EventType
	// Data is the number of the XID for [EventXIDCritical], and 0 for others.
	Data uint64

	gpuInstance, computeInstance uint32 // the number plus 1, so that 0 is none
}

// XID returns the error of an event of kind [EventXIDCritical]. ok is false for other kinds.
func (e Event) XID() (x XID, ok bool) {
	if e.Type&EventXIDCritical == 0 {
		return 0, false
	}
	return XID(e.Data), true
}

// GPUInstance returns the number of the GPU instance whose program caused an event of kind [EventXIDCritical]. ok is
// false for other kinds, without MIG, and for an error of the whole GPU.
func (e Event) GPUInstance() (id int, ok bool) { return int(e.gpuInstance) - 1, e.gpuInstance != 0 }

// ComputeInstance returns the number of the compute instance, as [Event.GPUInstance] does for the GPU instance.
func (e Event) ComputeInstance() (id int, ok bool) {
	return int(e.computeInstance) - 1, e.computeInstance != 0
}

// String returns what happened to which device, for logs.
func (e Event) String() string {
	s := e.Device.String() + ": "
	if x, ok := e.XID(); ok {
		s += x.String()
	} else {
		s += e.Type.String()
	}
	if id, ok := e.GPUInstance(); ok {
		s += fmt.Sprintf(", GPU instance %d", id)
	}
	if id, ok := e.ComputeInstance(); ok {
		s += fmt.Sprintf(", compute instance %d", id)
	}
	return s
}

// EventSet reports events of devices. It is safe for concurrent use. [EventSet.Close] or [Library.Close] frees it. A
// set that the program no longer refers to is freed as well, some time after, and not during a call.
type EventSet struct{ e *eventSet }

// eventSet is what outlives an EventSet that the program no longer refers to.
type eventSet struct {
	source[Event]
	devices sync.Map // the *Device that was added, by its raw.Device
}

// NewEventSet returns an empty set of events (nvmlEventSetCreate). NVML has no events on Windows.
func (l *Library) NewEventSet() (*EventSet, error) {
	e := &eventSet{}
	e.op, e.poll = "nvmlEventSetWait_v2", e.wait
	e.free = func(l *raw.Library, set uint64) raw.Return { return l.EventSetFree(raw.EventSet(set)) }
	err := e.open(l, "nvmlEventSetCreate", func(l *raw.Library) (uint64, raw.Return) {
		var set raw.EventSet
		r := l.EventSetCreate(&set)
		return uint64(set), r
	})
	if err != nil {
		return nil, err
	}
	s := &EventSet{e: e}
	closeUnused(s, &e.source)
	return s, nil
}

// closeUnused closes the source of a set that nobody refers to. A goroutine does it, as it calls C, and cleanups must
// not wait for that.
func closeUnused[S, T any](set *S, s *source[T]) {
	runtime.AddCleanup(set, func(s *source[T]) { go s.close() }, s)
}

// Add makes the set report kinds of events of a device, from now on (nvmlDeviceRegisterEvents). A device can be added
// again, for other kinds. If NVML refuses, the error names the kinds that the device does not report, and the set
// remains as it was. The bound of the device applies: see [Device.WithTimeout]. MIG devices have no events of their
// own: add the GPU.
func (s *EventSet) Add(dev *Device, kinds EventType) error {
	const op = "nvmlDeviceRegisterEvents"
	d := dev.obj()
	switch {
	case s == nil || s.e == nil:
		return nilError(op)
	case d == nil:
		return &Error{Op: op, Err: ErrNil, Detail: "the device is nil: check the error of the call that returned it"}
	case d.lib != s.e.lib:
		return d.invalid(op, "the device was found by another Library than that of the set")
	case kinds == 0:
		return d.invalid(op, "no kind of events is given")
	}
	e := s.e
	before, had := e.devices.Swap(dev.Handle(), dev) // before an event can come
	w, err := d.call(op, words{b: uint64(kinds)}, func(l *raw.Library, w words) (words, raw.Return) {
		if !e.refs.Acquire(e) { // here, because the call may last longer than Add
			return words{b: 1}, raw.NVML_SUCCESS
		}
		r := l.DeviceRegisterEvents(raw.Device(w.a), w.b, raw.EventSet(e.handle))
		e.refs.Release(e)
		return words{}, r
	})
	runtime.KeepAlive(s)
	if err == nil && w.b != 0 {
		return e.Refused(op)
	}
	if err != nil && had {
		e.devices.CompareAndSwap(dev.Handle(), dev, before)
	}
	if errors.Is(err, ErrNotSupported) || errors.Is(err, ErrInvalidArgument) {
		return unreported(err, dev, kinds)
	}
	return err
}

// unreported adds to an error which kinds of events a device does not report.
func unreported(err error, dev *Device, kinds EventType) error {
	supported, failed := dev.SupportedEvents()
	if e, ok := err.(*Error); ok && failed == nil && kinds&^supported != 0 {
		e.Detail = fmt.Sprintf("the device does not report %v: it reports %v", kinds&^supported, supported)
	}
	return err
}

// Wait returns the next event (nvmlEventSetWait_v2, and nvmlEventSetWait for older drivers). Of several goroutines that
// wait, each event is returned to one. When ctx ends, Wait returns at once, with an error that matches that of ctx. No
// event is lost: one that comes then is returned by the next call. Close ends all waits, with an error that matches
// [ErrClosed].
//
// C's wait cannot be interrupted. So a goroutine of the set makes it, 100 milliseconds at a time, as long as somebody
// waits. If the library has a limit, as of [Library.WithTimeout], it does not limit the wait for an event. But if NVML
// does not return for longer than that, Wait returns an error that matches [ErrTimeout]. An error of NVML, such as
// [ErrGPULost], does not end the set: Wait can be called again, also in a loop, because an error is returned at most
// ten times a second.
func (s *EventSet) Wait(ctx context.Context) (Event, error) {
	e, _, err := s.next(ctx)
	return e, err
}

func (s *EventSet) next(ctx context.Context) (Event, bool, error) {
	if s == nil || s.e == nil {
		return Event{}, false, nilError("nvmlEventSetWait_v2")
	}
	e, ended, err := s.e.next(ctx)
	runtime.KeepAlive(s)
	return e, ended, err
}

// All returns the events that [EventSet.Wait] returns, one after the other. The sequence ends when ctx ends or the set
// is closed, which is no element. An error of NVML is an element, and the sequence goes on: break to end it.
func (s *EventSet) All(ctx context.Context) iter.Seq2[Event, error] {
	return all(s == nil || s.e == nil, func() (Event, bool, error) { return s.next(ctx) })
}

// Close ends all waits, and frees the set (nvmlEventSetFree). It does not wait: if calls are in flight, the last of
// them frees the set, within 100 milliseconds unless NVML hangs. If the library has a limit, as of
// [Library.WithTimeout], it also limits Close. Further calls of Close do nothing.
func (s *EventSet) Close() error {
	const op = "nvmlEventSetFree"
	if s == nil || s.e == nil {
		return nilError(op)
	}
	return s.e.within(op, s.e.close)
}

// wait makes one call of C that waits for an event.
func (e *eventSet) wait(l *raw.Library, set uint64) ([]Event, raw.Return) {
	const none = ^uint32(0)
	data := raw.EventData{GpuInstanceId: none, ComputeInstanceId: none}
	r := l.EventSetWaitV2(raw.EventSet(set), &data, uint32(waitSlice.Milliseconds()))
	if lacks(r) {
		data = raw.EventData{GpuInstanceId: none, ComputeInstanceId: none} // the older function does not set these
		r = l.EventSetWait(raw.EventSet(set), &data, uint32(waitSlice.Milliseconds()))
	}
	if r != raw.NVML_SUCCESS {
		return nil, r
	}
	return []Event{{
		Device: e.deviceOf(data.Device), Type: EventType(data.EventType), Data: data.EventData,
		gpuInstance: data.GpuInstanceId + 1, computeInstance: data.ComputeInstanceId + 1,
	}}, r
}

// deviceOf returns the device of an event.
func (e *eventSet) deviceOf(h raw.Device) *Device {
	if d, ok := e.devices.Load(h); ok {
		return d.(*Device)
	}
	if h == 0 {
		return nil
	}
	return e.device(h, fmt.Sprintf("the device with handle %#x", uint64(h)))
}
