package nvml_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// busyGPU has two samples, at 10 and 20 microseconds.
type busyGPU struct {
	basis
	newer bool
}

func (g busyGPU) DeviceGetUtilizationRates(_ raw.Device, u *raw.Utilization) raw.Return {
	*u = raw.Utilization{Gpu: 80, Memory: 30}
	return raw.NVML_SUCCESS
}

// samples sets a list of those samples that are later than a time.
func samples[T any](after uint64, n *uint32, list []T, entry func(at uint64) T) raw.Return {
	if after >= 20 {
		return raw.NVML_ERROR_NOT_FOUND
	}
	if list == nil {
		*n = 2
		return raw.NVML_SUCCESS
	}
	*n = 0
	for at := uint64(10); at <= 20; at += 10 {
		if at > after {
			list[*n] = entry(at)
			*n++
		}
	}
	return raw.NVML_SUCCESS
}

func (g busyGPU) DeviceGetProcessesUtilizationInfo(_ raw.Device, u *raw.ProcessesUtilizationInfo) raw.Return {
	if !g.newer {
		return raw.Unimplemented{}.DeviceGetProcessesUtilizationInfo(0, u)
	}
	if u.Version != raw.ProcessesUtilizationInfoV1Version {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	var all []raw.ProcessUtilizationInfoV1
	if u.ProcUtilArray != nil {
		all = unsafe.Slice(u.ProcUtilArray, u.ProcessSamplesCount)
	}
	return samples(u.LastSeenTimeStamp, &u.ProcessSamplesCount, all, func(at uint64) raw.ProcessUtilizationInfoV1 {
		return raw.ProcessUtilizationInfoV1{TimeStamp: at, Pid: 4, SmUtil: 1, MemUtil: 2, EncUtil: 3, DecUtil: 4, JpgUtil: 5,
			OfaUtil: 6}
	})
}

func (g busyGPU) DeviceGetProcessUtilization(_ raw.Device, all []raw.ProcessUtilizationSample, n *uint32,
	after uint64) raw.Return {
	return samples(after, n, all, func(at uint64) raw.ProcessUtilizationSample {
		return raw.ProcessUtilizationSample{TimeStamp: at, Pid: 4, SmUtil: 1, MemUtil: 2, EncUtil: 3, DecUtil: 4}
	})
}

func (g busyGPU) DeviceGetSamples(_ raw.Device, t raw.SamplingType, after uint64, kind *raw.ValueType, n *uint32,
	all []raw.Sample) raw.Return {
	*kind = raw.NVML_VALUE_TYPE_UNSIGNED_INT
	return samples(after, n, all, func(at uint64) (s raw.Sample) {
		s.TimeStamp = at
		*s.SampleValue.UiVal() = uint32(at) + uint32(t)
		return s
	})
}

func TestUtilization(t *testing.T) {
	d := deviceOf(t, busyGPU{newer: true})
	wants(t, nvml.Utilization{GPU: 80, Memory: 30})(d.Utilization())
	use := nvml.ProcessUtilization{PID: 4, Time: time.UnixMicro(20), SM: 1, Memory: 2, Encoder: 3, Decoder: 4, JPEG: 5,
		OpticalFlow: 6}
	wants(t, []nvml.ProcessUtilization{use})(d.ProcessUtilization(time.UnixMicro(10)))
	older := deviceOf(t, busyGPU{})
	use.JPEG, use.OpticalFlow = 0, 0
	wants(t, []nvml.ProcessUtilization{use})(older.ProcessUtilization(time.UnixMicro(10)))
	for _, d := range []*nvml.Device{d, older} {
		if all, err := d.ProcessUtilization(use.Time); len(all) != 0 || err != nil {
			t.Errorf("there are later samples: %v (%v)", all, err)
		}
		for _, begin := range []time.Time{{}, time.Unix(-1, 0)} {
			if all, err := d.ProcessUtilization(begin); len(all) != 2 || err != nil {
				t.Errorf("of all samples there are %v (%v)", all, err)
			}
		}
	}
}

func TestSamples(t *testing.T) {
	d := deviceOf(t, busyGPU{})
	all, err := d.Samples(nvml.SamplesProcessorClk, time.Time{})
	if err != nil || len(all) != 2 || all[1].Value.Uint64() != 25 || !all[1].Time.Equal(time.UnixMicro(20)) {
		t.Errorf("the samples are %v (%v)", all, err)
	}
	if all, err = d.Samples(nvml.SamplesProcessorClk, all[1].Time); len(all) != 0 || err != nil {
		t.Errorf("there are later samples: %v (%v)", all, err)
	}
}
