package nvml

import (
	"strconv"
	"strings"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// The reasons why clocks are not higher.
const (
	// ReasonIdle says that nothing runs on the GPU.
	ReasonIdle ClockReasons = raw.ClocksEventReasonGpuIdle
	// ReasonApplicationsClocks says that [Device.SetApplicationsClocks] or [Device.LockClocks] limits the clocks.
	ReasonApplicationsClocks ClockReasons = raw.ClocksEventReasonApplicationsClocksSetting
	// ReasonSoftwarePowerCap says that the driver lowers the clocks because the GPU would draw more than its limit.
	ReasonSoftwarePowerCap ClockReasons = raw.ClocksEventReasonSwPowerCap
	// ReasonHardwareSlowdown says that the hardware has halved the clocks, or lowered them more: the GPU is too hot, or
	// the power supply asks for it, or the GPU draws too much for a moment.
	ReasonHardwareSlowdown ClockReasons = raw.ClocksThrottleReasonHwSlowdown
	// ReasonSyncBoost says that the GPU belongs to a group whose clocks are equal.
	ReasonSyncBoost ClockReasons = raw.ClocksEventReasonSyncBoost
	// ReasonSoftwareThermal says that the driver lowers the clocks because the GPU or its memory is too hot.
	ReasonSoftwareThermal ClockReasons = raw.ClocksEventReasonSwThermalSlowdown
	// ReasonHardwareThermal says that the hardware lowers the clocks because the GPU is too hot.
	ReasonHardwareThermal ClockReasons = raw.ClocksThrottleReasonHwThermalSlowdown
	// ReasonPowerBrake says that the hardware lowers the clocks because the machine asks for it by a signal.
	ReasonPowerBrake ClockReasons = raw.ClocksThrottleReasonHwPowerBrakeSlowdown
	// ReasonDisplayClock says that the settings of a display limit the clocks.
	ReasonDisplayClock ClockReasons = raw.ClocksEventReasonDisplayClockSetting
)

// reasonNames are the names of the bits of ClockReasons.
const reasonNames = "idle,applications clocks,software power cap,hardware slowdown,sync boost," +
	"software thermal slowdown,hardware thermal slowdown,power brake,display clock"

// String returns the reasons, such as "software power cap, sync boost", or "none".
func (c ClockReasons) String() string {
	if c == 0 {
		return "none"
	}
	var names []string
	bit := ClockReasons(1)
	for name := range strings.SplitSeq(reasonNames, ",") {
		if c&bit != 0 {
			names = append(names, name)
		}
		c &^= bit
		bit <<= 1
	}
	if c != 0 {
		names = append(names, "0x"+strconv.FormatUint(uint64(c), 16))
	}
	return strings.Join(names, ", ")
}

// ClockReasons returns why the clocks are not higher (nvmlDeviceGetCurrentClocksEventReasons, and
// nvmlDeviceGetCurrentClocksThrottleReasons for older drivers).
func (d *Device) ClockReasons() (ClockReasons, error) {
	const op = "nvmlDeviceGetCurrentClocksEventReasons"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var reasons uint64
		r := l.DeviceGetCurrentClocksEventReasons(raw.Device(w.a), &reasons)
		if lacks(r) {
			r = l.DeviceGetCurrentClocksThrottleReasons(raw.Device(w.a), &reasons)
		}
		return words{a: reasons}, r
	})
	return ClockReasons(w.a), err
}

// SupportedClockReasons returns which reasons [Device.ClockReasons] can return
// (nvmlDeviceGetSupportedClocksEventReasons, and nvmlDeviceGetSupportedClocksThrottleReasons for older drivers).
func (d *Device) SupportedClockReasons() (ClockReasons, error) {
	const op = "nvmlDeviceGetSupportedClocksEventReasons"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var reasons uint64
		r := l.DeviceGetSupportedClocksEventReasons(raw.Device(w.a), &reasons)
		if lacks(r) {
			r = l.DeviceGetSupportedClocksThrottleReasons(raw.Device(w.a), &reasons)
		}
		return words{a: reasons}, r
	})
	return ClockReasons(w.a), err
}

// Violation says how long a policy has kept clocks lower than possible.
type Violation struct {
	// Time is when this was measured. Two results with different times say which share of the time between them it was.
	Time time.Time
	// Duration is how long it was since the driver was loaded.
	Duration time.Duration
}

// Violation returns how long a policy has kept the clocks lower than possible (nvmlDeviceGetViolationStatus). CUDA 14
// will not have it: [Device.Fields] reads FieldClocksEventReason… and FieldPerfPolicy… then.
func (d *Device) Violation(p PerfPolicy) (Violation, error) {
	const op = "nvmlDeviceGetViolationStatus"
	w, err := d.obj().call(op, words{b: uint64(p)}, func(l *raw.Library, w words) (words, raw.Return) {
		var t raw.ViolationTime
		r := l.DeviceGetViolationStatus(raw.Device(w.a), raw.PerfPolicyType(w.b), &t)
		return words{a: t.ReferenceTime, b: t.ViolationTime}, r
	})
	return Violation{sinceEpoch(w.a), time.Duration(w.b)}, err
}

// ClockFault is a clock that its monitor has found wrong.
type ClockFault struct {
	// Clock is the number of the clock, and Faults are bits for what is wrong. Both depend on the GPU.
	Clock, Faults uint32
}

// ClockMonitor returns whether the monitors of the clocks have found a fault, and the clocks that have one
// (nvmlDeviceGetClkMonStatus). It needs root. Only GPUs since Ampere have this.
func (d *Device) ClockMonitor() (faulty bool, faults []ClockFault, err error) {
	s, err := get(d.obj(), "nvmlDeviceGetClkMonStatus", func(l *raw.Library, h uint64) (raw.ClkMonStatus, raw.Return) {
		var s raw.ClkMonStatus
		r := l.DeviceGetClkMonStatus(raw.Device(h), &s)
		return s, r
	})
	for _, f := range s.ClkMonList[:min(int(s.ClkMonListSize), len(s.ClkMonList))] {
		faults = append(faults, ClockFault{f.ClkApiDomain, f.ClkDomainFaultMask})
	}
	return truth(s.BGlobalStatus), faults, err
}

// ClockOffset says by how many MHz a clock is higher than its voltage asks for, and which offsets can be set.
type ClockOffset struct{ Offset, Least, Most int }

// ClockOffset returns by how many MHz a clock is higher than its voltage asks for in a performance state
// (nvmlDeviceGetClockOffsets).
func (d *Device) ClockOffset(c ClockType, s PState) (ClockOffset, error) {
	const op = "nvmlDeviceGetClockOffsets"
	w, err := d.obj().call(op, words{b: uint64(c), c: uint64(s)}, func(l *raw.Library, w words) (words, raw.Return) {
		o := raw.ClockOffset{Version: raw.ClockOffsetV1Version, Type: raw.ClockType(w.b), Pstate: raw.Pstates(w.c)}
		r := l.DeviceGetClockOffsets(raw.Device(w.a), &o)
		return words{uint64(o.ClockOffsetMHz), uint64(o.MinClockOffsetMHz), uint64(o.MaxClockOffsetMHz), 0}, r
	})
	return ClockOffset{int(w.a), int(w.b), int(w.c)}, err
}

// SetClockOffset sets by how many MHz a clock is higher than its voltage asks for in a performance state
// (nvmlDeviceSetClockOffsets). It needs root. An offset that is too high makes programs and the GPU fail.
func (d *Device) SetClockOffset(c ClockType, s PState, offset int) error {
	const op = "nvmlDeviceSetClockOffsets"
	o := d.obj()
	if o != nil && offset != int(int32(offset)) {
		return o.invalid(op, "the offset "+strconv.Itoa(offset)+" MHz is out of range: see Device.ClockOffset")
	}
	w := words{b: uint64(c), c: uint64(s), d: uint64(offset)}
	_, err := o.call(op, w, func(l *raw.Library, w words) (words, raw.Return) {
		o := raw.ClockOffset{Version: raw.ClockOffsetV1Version, Type: raw.ClockType(w.b), Pstate: raw.Pstates(w.c),
			ClockOffsetMHz: int32(w.d)}
		return words{}, l.DeviceSetClockOffsets(raw.Device(w.a), &o)
	})
	return err
}
