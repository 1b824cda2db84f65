package nvml_test

import (
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// clockGPU has clocks.
type clockGPU struct {
	basis
	newer  bool
	offset raw.ClockOffset
}

func (g *clockGPU) DeviceGetCurrentClocksEventReasons(_ raw.Device, reasons *uint64) raw.Return {
	if !g.newer {
		return raw.Unimplemented{}.DeviceGetCurrentClocksEventReasons(0, reasons)
	}
	*reasons = 0x44
	return raw.NVML_SUCCESS
}

func (g *clockGPU) DeviceGetCurrentClocksThrottleReasons(_ raw.Device, reasons *uint64) raw.Return {
	*reasons = 0x1
	return raw.NVML_SUCCESS
}

func (g *clockGPU) DeviceGetSupportedClocksThrottleReasons(_ raw.Device, reasons *uint64) raw.Return {
	*reasons = 0x1ff
	return raw.NVML_SUCCESS
}

func (g *clockGPU) DeviceGetViolationStatus(_ raw.Device, p raw.PerfPolicyType, t *raw.ViolationTime) raw.Return {
	*t = raw.ViolationTime{ReferenceTime: 5e15, ViolationTime: 100 + uint64(p)}
	return raw.NVML_SUCCESS
}

func (g *clockGPU) DeviceGetClkMonStatus(_ raw.Device, s *raw.ClkMonStatus) raw.Return {
	s.BGlobalStatus, s.ClkMonListSize = 1, 2
	s.ClkMonList[1] = raw.ClkMonFaultInfo{ClkApiDomain: 4, ClkDomainFaultMask: 8}
	return raw.NVML_SUCCESS
}

func (g *clockGPU) DeviceGetClockOffsets(_ raw.Device, o *raw.ClockOffset) raw.Return {
	if o.Version != raw.ClockOffsetV1Version || o.Type != g.offset.Type || o.Pstate != g.offset.Pstate {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	o.ClockOffsetMHz, o.MinClockOffsetMHz, o.MaxClockOffsetMHz = g.offset.ClockOffsetMHz, -300, 500
	return raw.NVML_SUCCESS
}

func (g *clockGPU) DeviceSetClockOffsets(_ raw.Device, o *raw.ClockOffset) raw.Return {
	g.offset = *o
	return raw.NVML_SUCCESS
}

func TestClockReasons(t *testing.T) {
	g := &clockGPU{newer: true}
	d := deviceOf(t, g)
	wants(t, nvml.ReasonSoftwarePowerCap|nvml.ReasonHardwareThermal)(d.ClockReasons())
	g.newer = false
	wants(t, nvml.ReasonIdle)(d.ClockReasons())
	wants(t, nvml.ClockReasons(0x1ff))(d.SupportedClockReasons())
	for reasons, want := range map[nvml.ClockReasons]string{
		0:    "none",
		0x41: "idle, hardware thermal slowdown",
		nvml.ReasonPowerBrake | nvml.ReasonDisplayClock | 0x3000: "power brake, display clock, 0x3000",
		nvml.ReasonApplicationsClocks:                            "applications clocks",
		nvml.ReasonSoftwarePowerCap:                              "software power cap",
		nvml.ReasonHardwareSlowdown:                              "hardware slowdown",
		nvml.ReasonSyncBoost:                                     "sync boost",
		nvml.ReasonSoftwareThermal:                               "software thermal slowdown",
	} {
		if got := reasons.String(); got != want {
			t.Errorf("%#x is %q, want %q", uint64(reasons), got, want)
		}
	}
}

func TestClocks(t *testing.T) {
	d := deviceOf(t, &clockGPU{})
	wants(t, nvml.Violation{Time: time.UnixMicro(5e15), Duration: 101})(d.Violation(nvml.PerfPolicyThermal))
	faulty, faults, err := d.ClockMonitor()
	if !faulty || len(faults) != 2 || faults[1] != (nvml.ClockFault{Clock: 4, Faults: 8}) || err != nil {
		t.Errorf("the faults are %v, %v (%v)", faulty, faults, err)
	}
	if err := d.SetClockOffset(nvml.ClockMemory, 3, -20); err != nil {
		t.Error(err)
	}
	wants(t, nvml.ClockOffset{Offset: -20, Least: -300, Most: 500})(d.ClockOffset(nvml.ClockMemory, 3))
	_, err = d.ClockOffset(nvml.ClockMemory, 4)
	isError(t, err, nvml.ErrInvalidArgument)
	isError(t, d.SetClockOffset(nvml.ClockMemory, 3, 1<<32-20), nvml.ErrInvalidArgument)
}
