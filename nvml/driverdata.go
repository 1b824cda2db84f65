package nvml

import (
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// SharedData are groups of values that the driver writes into memory that programs can read without a call, as a sum of
// bits.
type SharedData uint64

// The groups of shared data. Unverified: no driver has confirmed them.
const (
	SharedClocks             SharedData = raw.NVML_RUSD_POLL_CLOCK
	SharedPerformance        SharedData = raw.NVML_RUSD_POLL_PERF
	SharedMemory             SharedData = raw.NVML_RUSD_POLL_MEMORY
	SharedPower              SharedData = raw.NVML_RUSD_POLL_POWER
	SharedThermal            SharedData = raw.NVML_RUSD_POLL_THERMAL
	SharedPCI                SharedData = raw.NVML_RUSD_POLL_PCI
	SharedFans               SharedData = raw.NVML_RUSD_POLL_FAN
	SharedProcessUtilization SharedData = raw.NVML_RUSD_POLL_PROC_UTIL
	SharedAll                SharedData = 1<<64 - 1
)

// SetSharedData says which values the driver writes into memory that programs can read without a call, or none for 0
// (nvmlDeviceSetRusdSettings_v1). It needs root. Unverified: no driver has confirmed it.
func (d *Device) SetSharedData(groups SharedData) error {
	const op = "nvmlDeviceSetRusdSettings_v1"
	_, err := d.obj().call(op, words{b: uint64(groups)}, func(l *raw.Library, w words) (words, raw.Return) {
		s := raw.RusdSettingsV1{Version: raw.RusdSettingsV1Version, PollMask: w.b}
		return words{}, l.DeviceSetRusdSettingsV1(raw.Device(w.a), &s)
	})
	return err
}

// DriverLoadedTime returns for how long a driver has been loaded in the life of the GPU, which the GPU counts in its
// InfoROM (nvmlDeviceGetBBXTimeData_v1). Unverified: no driver has confirmed it.
func (d *Device) DriverLoadedTime() (time.Duration, error) {
	const op = "nvmlDeviceGetBBXTimeData_v1"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var t raw.BBXTimeDataV1
		r := l.DeviceGetBBXTimeDataV1(raw.Device(w.a), &t)
		return words{a: uint64(t.TimeRun)}, r
	})
	return time.Duration(w.a) * time.Second, err
}
