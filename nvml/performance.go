package nvml

import (
	"strconv"
	"strings"

	"github.com/purecu/purecu/nvml/raw"
)

// SupportedPerformanceStates returns the performance states that the GPU has (nvmlDeviceGetSupportedPerformanceStates).
func (d *Device) SupportedPerformanceStates() ([]PState, error) {
	const op = "nvmlDeviceGetSupportedPerformanceStates"
	return get(d.obj(), op, func(l *raw.Library, h uint64) ([]PState, raw.Return) {
		states := make([]PState, raw.NVML_MAX_GPU_PERF_PSTATES)
		r := l.DeviceGetSupportedPerformanceStates(raw.Device(h), states)
		for i, s := range states {
			if s == raw.NVML_PSTATE_UNKNOWN { // the rest is free
				return states[:i], r
			}
		}
		return states, r
	})
}

// DomainUtilization says how busy a part of a GPU was, and what follows.
type DomainUtilization struct {
	Domain UtilizationDomain
	// Use is the share of the last second in which the part was busy.
	Use Percent
	// Raise and Lower are the shares above and below which the performance state changes.
	Raise, Lower Percent
}

// DynamicPStates returns how busy the parts of the GPU were on which the performance state depends
// (nvmlDeviceGetDynamicPstatesInfo). Parts that the GPU does not have are left out.
func (d *Device) DynamicPStates() ([]DomainUtilization, error) {
	const op = "nvmlDeviceGetDynamicPstatesInfo"
	return get(d.obj(), op, func(l *raw.Library, h uint64) (parts []DomainUtilization, r raw.Return) {
		var info raw.GpuDynamicPstatesInfo
		r = l.DeviceGetDynamicPstatesInfo(raw.Device(h), &info)
		for i, u := range info.Utilization {
			if u.BIsPresent&1 != 0 {
				parts = append(parts, DomainUtilization{UtilizationDomain(i), Percent(u.Percentage), Percent(u.IncThreshold),
					Percent(u.DecThreshold)})
			}
		}
		return parts, r
	})
}

// ClockValues has the values of clocks by their names, such as "nvclock" for the graphics clock and "memclock" for
// that of the memory, in MHz. Names that end in "min" and "max" have the limits, and those that end in "editable"
// have 1 if the clock can be set. "perf" is the number of the performance level.
type ClockValues map[string]uint64

// CurrentClocks returns the values of the clocks and their limits (nvmlDeviceGetCurrentClockFreqs).
func (d *Device) CurrentClocks() (ClockValues, error) {
	const op = "nvmlDeviceGetCurrentClockFreqs"
	return get(d.obj(), op, func(l *raw.Library, h uint64) (ClockValues, raw.Return) {
		freqs := raw.DeviceCurrentClockFreqs{Version: raw.DeviceCurrentClockFreqsV1Version}
		r := l.DeviceGetCurrentClockFreqs(raw.Device(h), &freqs)
		for _, values := range parseClocks(text(freqs.Str[:])) {
			return values, r
		}
		return ClockValues{}, r
	})
}

// PerformanceModes returns the performance levels of the GPU, with the clocks that each allows
// (nvmlDeviceGetPerformanceModes). Level 0 is the slowest.
func (d *Device) PerformanceModes() ([]ClockValues, error) {
	const op = "nvmlDeviceGetPerformanceModes"
	return get(d.obj(), op, func(l *raw.Library, h uint64) ([]ClockValues, raw.Return) {
		modes := raw.DevicePerfModes{Version: raw.DevicePerfModesV1Version}
		r := l.DeviceGetPerformanceModes(raw.Device(h), &modes)
		return parseClocks(text(modes.Str[:])), r
	})
}

// parseClocks returns the values in a text such as "perf=0, nvclock=324 ; perf=1, nvclock=640". What is no number is
// left out.
func parseClocks(s string) (all []ClockValues) {
	for level := range strings.SplitSeq(s, ";") {
		values := ClockValues{}
		for pair := range strings.SplitSeq(level, ",") {
			name, value, _ := strings.Cut(pair, "=")
			if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
				values[strings.TrimSpace(name)] = n
			}
		}
		if len(values) > 0 {
			all = append(all, values)
		}
	}
	return all
}
