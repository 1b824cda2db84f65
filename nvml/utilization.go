package nvml

import (
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// Utilization says which share of a time a GPU was busy.
type Utilization struct {
	// GPU is the share in which a kernel ran. It does not say how much of the GPU the kernels filled.
	GPU Percent
	// Memory is the share in which the GPU's memory was read or written.
	Memory Percent
}

// Utilization returns which share of the last period the GPU was busy (nvmlDeviceGetUtilizationRates). The period is
// between a sixth of a second and a second. A GPU in MIG mode does not have this value.
func (d *Device) Utilization() (Utilization, error) {
	const op = "nvmlDeviceGetUtilizationRates"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var u raw.Utilization
		r := l.DeviceGetUtilizationRates(raw.Device(w.a), &u)
		return words{a: uint64(u.Gpu), b: uint64(u.Memory)}, r
	})
	return Utilization{Percent(w.a), Percent(w.b)}, err
}

// ProcessUtilization says how a process has used a GPU.
type ProcessUtilization struct {
	PID uint32
	// Time is when this was measured.
	Time                                            time.Time
	SM, Memory, Encoder, Decoder, JPEG, OpticalFlow Percent
}

// ProcessUtilization returns how processes have used the GPU after a time, for example that of an earlier result
// (nvmlDeviceGetProcessesUtilizationInfo, and nvmlDeviceGetProcessUtilization for older drivers, which leaves JPEG
// and OpticalFlow at 0). The zero Time asks for all that the driver has kept. The list is empty if no process was
// busy. A GPU in MIG mode does not have this.
func (d *Device) ProcessUtilization(since time.Time) ([]ProcessUtilization, error) {
	const op = "nvmlDeviceGetProcessesUtilizationInfo"
	after := microseconds(since)
	return get(d.obj(), op, func(l *raw.Library, h uint64) ([]ProcessUtilization, raw.Return) {
		all, r := list(func(n *uint32, infos []raw.ProcessUtilizationInfoV1) raw.Return {
			u := raw.ProcessesUtilizationInfo{Version: raw.ProcessesUtilizationInfoV1Version, ProcessSamplesCount: *n,
				LastSeenTimeStamp: after, ProcUtilArray: first(infos)}
			r := l.DeviceGetProcessesUtilizationInfo(raw.Device(h), &u)
			*n = u.ProcessSamplesCount
			return r
		})
		if !lacks(r) {
			return each(all, func(u raw.ProcessUtilizationInfoV1) ProcessUtilization {
				return ProcessUtilization{u.Pid, sinceEpoch(u.TimeStamp), Percent(u.SmUtil), Percent(u.MemUtil),
					Percent(u.EncUtil), Percent(u.DecUtil), Percent(u.JpgUtil), Percent(u.OfaUtil)}
			}), none(r)
		}
		older, r := list(func(n *uint32, infos []raw.ProcessUtilizationSample) raw.Return {
			return l.DeviceGetProcessUtilization(raw.Device(h), infos, n, after)
		})
		return each(older, func(u raw.ProcessUtilizationSample) ProcessUtilization {
			return ProcessUtilization{u.Pid, sinceEpoch(u.TimeStamp), Percent(u.SmUtil), Percent(u.MemUtil),
				Percent(u.EncUtil), Percent(u.DecUtil), 0, 0}
		}), none(r)
	})
}

// microseconds returns the microseconds from 1970 to a time, or 0 for an earlier one.
func microseconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(max(t.UnixMicro(), 0))
}

// none returns success for the result of a search for samples that has found none.
func none(r raw.Return) raw.Return {
	if r == raw.NVML_ERROR_NOT_FOUND {
		return raw.NVML_SUCCESS
	}
	return r
}

// Sample is what the driver has measured at a time.
type Sample struct {
	Time  time.Time
	Value Value
}

// Samples returns what the driver has measured after a time, for example that of the last sample of an earlier result
// (nvmlDeviceGetSamples). The zero Time asks for all that the driver has kept. Powers are in milliwatts, utilizations
// in percent, and clocks in MHz. The list is empty if there are no samples. A GPU in MIG mode has no samples of
// utilization.
func (d *Device) Samples(t SamplingType, since time.Time) ([]Sample, error) {
	after := microseconds(since)
	return get(d.obj(), "nvmlDeviceGetSamples", func(l *raw.Library, h uint64) ([]Sample, raw.Return) {
		var kind raw.ValueType
		all, r := list(func(n *uint32, samples []raw.Sample) raw.Return {
			return l.DeviceGetSamples(raw.Device(h), t, after, &kind, n, samples)
		})
		return each(all, func(s raw.Sample) Sample {
			return Sample{sinceEpoch(s.TimeStamp), Value{kind, s.SampleValue}}
		}), none(r)
	})
}
