package nvml

import (
	"runtime"
	"unsafe"

	"github.com/purecu/purecu/nvml/raw"
)

// GetCpuAffinity calls nvmlDeviceGetCpuAffinity, for which it counts a word for each 8 CPUs, as go-nvml does.
func (device nvmlDevice) GetCpuAffinity(numCPUs int) ([]uint, Return) {
	return mask(numCPUs, func(m []raw.ULong) raw.Return { return native().DeviceGetCpuAffinity(device.Handle, m) })
}

// GetCpuAffinityWithinScope calls nvmlDeviceGetCpuAffinityWithinScope.
func (device nvmlDevice) GetCpuAffinityWithinScope(numCPUs int, scope AffinityScope) ([]uint, Return) {
	return mask(numCPUs, func(m []raw.ULong) raw.Return {
		return native().DeviceGetCpuAffinityWithinScope(device.Handle, m, raw.AffinityScope(scope))
	})
}

// GetMemoryAffinity calls nvmlDeviceGetMemoryAffinity.
func (device nvmlDevice) GetMemoryAffinity(numNodes int, scope AffinityScope) ([]uint, Return) {
	return mask(numNodes, func(m []raw.ULong) raw.Return {
		return native().DeviceGetMemoryAffinity(device.Handle, m, raw.AffinityScope(scope))
	})
}

// mask makes a call that sets bits.
func mask(bits int, call func([]raw.ULong) raw.Return) ([]uint, Return) {
	words := make([]raw.ULong, max(0, (bits-1)/int(unsafe.Sizeof(uint(0)))+1))
	ret := result(call(words))
	s := make([]uint, len(words))
	for i, w := range words {
		s[i] = uint(w)
	}
	return s, ret
}

// SetTemperatureThreshold calls nvmlDeviceSetTemperatureThreshold.
func (device nvmlDevice) SetTemperatureThreshold(thresholdType TemperatureThresholds, temp int) Return {
	t := int32(temp)
	return result(native().DeviceSetTemperatureThreshold(device.Handle, raw.TemperatureThresholds(thresholdType), &t))
}

// MemoryLimits_v1 are the limits of a namespace for the memory of a device.
type MemoryLimits_v1 struct {
	NameSpace   string
	SoftLimit   uint64
	HardLimit   uint64
	CurrentUsed uint64
}

// SetMemoryLimits_v1 calls nvmlDeviceSetMemoryLimits_v1.
func (device nvmlDevice) SetMemoryLimits_v1(namespace string, requests uint64, limits uint64) Return {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	request := SetMemoryLimits_v1{NameSpace: cString(&pinner, namespace), SoftLimit: requests, HardLimit: limits}
	return result(native().withPointer("nvmlDeviceSetMemoryLimits_v1", uintptr(device.Handle), as[byte](&request)))
}

// GetMemoryLimits_v1 calls nvmlDeviceGetMemoryLimits_v1.
func (device nvmlDevice) GetMemoryLimits_v1(namespace string) (MemoryLimits_v1, Return) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	request := GetMemoryLimits_v1{NameSpace: cString(&pinner, namespace)}
	ret := result(native().withPointer("nvmlDeviceGetMemoryLimits_v1", uintptr(device.Handle), as[byte](&request)))
	return MemoryLimits_v1{raw.Text(as[byte](request.NameSpace)), request.SoftLimit, request.HardLimit,
		request.CurrentUsed}, ret
}

// cString returns a pinned copy of a string for C.
func cString(pinner *runtime.Pinner, s string) *int8 {
	c := append([]byte(s), 0)
	pinner.Pin(&c[0])
	return as[int8](&c[0])
}

// GetRetiredPages_v2 calls nvmlDeviceGetRetiredPages_v2.
func (device nvmlDevice) GetRetiredPages_v2(cause PageRetirementCause) ([]uint64, []uint64, Return) {
	var times []uint64
	pages, ret := grow(func(n *uint32, s []uint64) raw.Return {
		times = make([]uint64, len(s))
		return native().DeviceGetRetiredPagesV2(device.Handle, raw.PageRetirementCause(cause), n, s, times)
	})
	if ret != SUCCESS {
		return nil, nil, ret
	}
	return pages, times[:len(pages)], ret
}

// GetSamples calls nvmlDeviceGetSamples.
func (device nvmlDevice) GetSamples(samplingType SamplingType, lastSeenTimestamp uint64) (ValueType, []Sample, Return) {
	var kind raw.ValueType
	samples, ret := fill(func(n *uint32, s []Sample) raw.Return {
		return native().DeviceGetSamples(device.Handle, raw.SamplingType(samplingType), lastSeenTimestamp, &kind, n,
			asSlice[raw.Sample](s))
	})
	return ValueType(kind), samples, ret
}

// SetHostname_v1 calls nvmlDeviceSetHostname_v1. A name that is too long is cut off.
func (device nvmlDevice) SetHostname_v1(hostName string) Return {
	var name Hostname_v1
	for i, c := range []byte(hostName[:min(len(hostName), len(name.Value)-1)]) {
		name.Value[i] = int8(c)
	}
	return result(native().DeviceSetHostnameV1(device.Handle, as[raw.HostnameV1](&name)))
}

// SetNvLinkUtilizationControl calls nvmlDeviceSetNvLinkUtilizationControl.
func (device nvmlDevice) SetNvLinkUtilizationControl(link int, counter int, control *NvLinkUtilizationControl,
	reset bool) Return {
	flag := uint32(0)
	if reset {
		flag = 1
	}
	return result(native().DeviceSetNvLinkUtilizationControl(device.Handle, uint32(link), uint32(counter),
		as[raw.NvLinkUtilizationControl](control), flag))
}

// GetFieldValues calls nvmlDeviceGetFieldValues.
func (device nvmlDevice) GetFieldValues(values []FieldValue) Return {
	if len(values) == 0 {
		return ERROR_INVALID_ARGUMENT
	}
	return result(native().DeviceGetFieldValues(device.Handle, asSlice[raw.FieldValue](values)))
}

// ClearFieldValues calls nvmlDeviceClearFieldValues.
func (device nvmlDevice) ClearFieldValues(values []FieldValue) Return {
	if len(values) == 0 {
		return ERROR_INVALID_ARGUMENT
	}
	return result(native().DeviceClearFieldValues(device.Handle, asSlice[raw.FieldValue](values)))
}

// GetProcessUtilization calls nvmlDeviceGetProcessUtilization. If there are no samples, the result is what the library
// returns.
func (device nvmlDevice) GetProcessUtilization(lastSeenTimestamp uint64) ([]ProcessUtilizationSample, Return) {
	call := func(n *uint32, s []ProcessUtilizationSample) raw.Return {
		return native().DeviceGetProcessUtilization(device.Handle, asSlice[raw.ProcessUtilizationSample](s), n,
			lastSeenTimestamp)
	}
	n := uint32(0)
	ret := result(call(&n, nil))
	switch {
	case ret != ERROR_INSUFFICIENT_SIZE:
		return nil, ret
	case n == 0:
		return []ProcessUtilizationSample{}, ret
	}
	return fillWith(n, call)
}

// GetSupportedPerformanceStates calls nvmlDeviceGetSupportedPerformanceStates.
func (device nvmlDevice) GetSupportedPerformanceStates() ([]Pstates, Return) {
	var states [MAX_GPU_PERF_PSTATES]raw.Pstates
	ret := result(native().DeviceGetSupportedPerformanceStates(device.Handle, states[:]))
	s := make([]Pstates, 0, len(states))
	for _, p := range states {
		if Pstates(p) == PSTATE_UNKNOWN {
			break
		}
		s = append(s, Pstates(p))
	}
	return s, ret
}

// ReadPRMCounters_v1 calls nvmlDeviceReadPRMCounters_v1.
func (device nvmlDevice) ReadPRMCounters_v1(prmCounters []PRMCounterId, localPort int) ([]PRMCounter_v1, Return) {
	if len(prmCounters) == 0 {
		return nil, ERROR_INVALID_ARGUMENT
	}
	counters := make([]PRMCounter_v1, len(prmCounters))
	for i, id := range prmCounters {
		counters[i].CounterId, counters[i].InData.LocalPort = uint32(id), uint32(localPort)
	}
	list := PRMCounterList_v1{NumCounters: uint32(len(counters)), Counters: &counters[0]}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(list.Counters)
	if ret := result(native().DeviceReadPRMCountersV1(device.Handle, as[raw.PRMCounterListV1](&list))); ret != SUCCESS {
		return nil, ret
	}
	return counters, SUCCESS
}

// GetNvLinkTelemetrySamples_v1 calls nvmlDeviceGetNvLinkTelemetrySamples_v1.
func (device nvmlDevice) GetNvLinkTelemetrySamples_v1(samples NvlinkTelemetrySamples_v1) (NvlinkTelemetrySamples_v1,
	Return) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if samples.TelemetrySamples != nil && samples.TelemetryCount > 0 {
		pinner.Pin(samples.TelemetrySamples)
		for _, s := range unsafe.Slice(samples.TelemetrySamples, samples.TelemetryCount) {
			if s.Samples != nil && s.SampleCount > 0 {
				pinner.Pin(s.Samples)
			}
		}
	}
	ret := result(native().withPointer("nvmlDeviceGetNvLinkTelemetrySamples_v1", uintptr(device.Handle),
		as[byte](&samples)))
	return samples, ret
}

// WorkloadPowerProfileUpdateProfiles_v1 calls nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1.
func (device nvmlDevice) WorkloadPowerProfileUpdateProfiles_v1(operation PowerProfileOperation,
	profileTypes []PowerProfileType) Return {
	update := WorkloadPowerProfileUpdateProfiles_v1{Operation: uint32(operation)}
	for _, p := range profileTypes {
		if 0 <= p && p < 255 {
			update.UpdateProfilesMask.Mask[p/32] |= 1 << (uint(p) % 32)
		}
	}
	return result(native().DeviceWorkloadPowerProfileUpdateProfilesV1(device.Handle,
		as[raw.WorkloadPowerProfileUpdateProfilesV1](&update)))
}

// GetContextData_v1 calls nvmlEventSetGetContextData_v1.
func (eventSet nvmlEventSet) GetContextData_v1(data GetContextData_v1) (GetContextData_v1, Return) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if data.Data != nil && data.DataSize > 0 {
		pinner.Pin(data.Data)
	}
	ret := result(native().withPointer("nvmlEventSetGetContextData_v1", uintptr(eventSet.Handle), as[byte](&data)))
	return data, ret
}

// GetGpuInstances calls nvmlDeviceGetGpuInstances.
func (device nvmlDevice) GetGpuInstances(info *GpuInstanceProfileInfo) ([]GpuInstance, Return) {
	if info == nil || info.InstanceCount == 0 {
		return nil, ERROR_INVALID_ARGUMENT
	}
	n := info.InstanceCount
	list := make([]nvmlGpuInstance, n)
	ret := result(native().DeviceGetGpuInstances(device.Handle, info.Id, asSlice[raw.GpuInstance](list), &n))
	return handles[GpuInstance](list[:min(int(n), len(list))]), ret
}

// GetComputeInstances calls nvmlGpuInstanceGetComputeInstances.
func (gpuInstance nvmlGpuInstance) GetComputeInstances(info *ComputeInstanceProfileInfo) ([]ComputeInstance, Return) {
	if info == nil || info.InstanceCount == 0 {
		return nil, ERROR_INVALID_ARGUMENT
	}
	n := info.InstanceCount
	list := make([]nvmlComputeInstance, n)
	ret := result(native().GpuInstanceGetComputeInstances(gpuInstance.Handle, info.Id,
		asSlice[raw.ComputeInstance](list), &n))
	return handles[ComputeInstance](list[:min(int(n), len(list))]), ret
}
