package nvml

import (
	"github.com/purecu/purecu/nvml/raw"
)

// ProcessInfo_v1Slice and ProcessInfo_v2Slice are processes as older versions of functions return them.
type (
	ProcessInfo_v1Slice []ProcessInfo_v1
	ProcessInfo_v2Slice []ProcessInfo_v2
)

// ToProcessInfoSlice returns the processes, with 0xFFFFFFFF for the instances, which version 1 does not have.
func (pis ProcessInfo_v1Slice) ToProcessInfoSlice() []ProcessInfo {
	var s []ProcessInfo
	for _, p := range pis {
		s = append(s, ProcessInfo{Pid: p.Pid, UsedGpuMemory: p.UsedGpuMemory, GpuInstanceId: 0xFFFFFFFF,
			ComputeInstanceId: 0xFFFFFFFF})
	}
	return s
}

// ToProcessInfoSlice returns the processes.
func (pis ProcessInfo_v2Slice) ToProcessInfoSlice() []ProcessInfo {
	var s []ProcessInfo
	for _, p := range pis {
		s = append(s, ProcessInfo(p))
	}
	return s
}

// A processList has the versions of a function that lists processes.
type processList struct {
	v1 func(*raw.Library, raw.Device, *uint32, []raw.ProcessInfoV1) raw.Return
	v2 func(*raw.Library, raw.Device, *uint32, []raw.ProcessInfoV2) raw.Return
	v3 func(*raw.Library, raw.Device, *uint32, []raw.ProcessInfo) raw.Return
}

var (
	computeProcesses = processList{(*raw.Library).DeviceGetComputeRunningProcesses,
		(*raw.Library).DeviceGetComputeRunningProcessesV2, (*raw.Library).DeviceGetComputeRunningProcessesV3}
	graphicsProcesses = processList{(*raw.Library).DeviceGetGraphicsRunningProcesses,
		(*raw.Library).DeviceGetGraphicsRunningProcessesV2, (*raw.Library).DeviceGetGraphicsRunningProcessesV3}
	mpsProcesses = processList{(*raw.Library).DeviceGetMPSComputeRunningProcesses,
		(*raw.Library).DeviceGetMPSComputeRunningProcessesV2, (*raw.Library).DeviceGetMPSComputeRunningProcessesV3}
)

// list calls the newest version that the library has.
func (p processList) list(device nvmlDevice, version uint8) ([]ProcessInfo, Return) {
	lib := native().Library
	switch version {
	case 3:
		return grow(func(n *uint32, s []ProcessInfo) raw.Return {
			return p.v3(lib, device.Handle, n, asSlice[raw.ProcessInfo](s))
		})
	case 2:
		s, ret := grow(func(n *uint32, s []ProcessInfo_v2) raw.Return {
			return p.v2(lib, device.Handle, n, asSlice[raw.ProcessInfoV2](s))
		})
		return ProcessInfo_v2Slice(s).ToProcessInfoSlice(), ret
	}
	s, ret := grow(func(n *uint32, s []ProcessInfo_v1) raw.Return {
		return p.v1(lib, device.Handle, n, asSlice[raw.ProcessInfoV1](s))
	})
	return ProcessInfo_v1Slice(s).ToProcessInfoSlice(), ret
}

// GetComputeRunningProcesses calls the newest version of nvmlDeviceGetComputeRunningProcesses that the library has.
func (device nvmlDevice) GetComputeRunningProcesses() ([]ProcessInfo, Return) {
	return computeProcesses.list(device, native().versions.deviceGetComputeRunningProcesses)
}

// GetGraphicsRunningProcesses calls the newest version of nvmlDeviceGetGraphicsRunningProcesses that the library has.
func (device nvmlDevice) GetGraphicsRunningProcesses() ([]ProcessInfo, Return) {
	return graphicsProcesses.list(device, native().versions.deviceGetGraphicsRunningProcesses)
}

// GetMPSComputeRunningProcesses calls the newest version of nvmlDeviceGetMPSComputeRunningProcesses that the library
// has.
func (device nvmlDevice) GetMPSComputeRunningProcesses() ([]ProcessInfo, Return) {
	return mpsProcesses.list(device, native().versions.deviceGetMPSComputeRunningProcesses)
}

// GetRunningProcessDetailList calls nvmlDeviceGetRunningProcessDetailList, with longer and longer lists.
func (device nvmlDevice) GetRunningProcessDetailList() (ProcessDetailList, Return) {
	var list ProcessDetailList
	list.Version = structVersion(&list, 1)
	for n := uint32(1); ; n = max(list.NumProcArrayEntries, 1) * 2 {
		details := make([]ProcessDetail_v1, n)
		list.NumProcArrayEntries, list.ProcArray = n, &details[0]
		ret := result(native().DeviceGetRunningProcessDetailList(device.Handle, as[raw.ProcessDetailList](&list)))
		if ret == SUCCESS && list.NumProcArrayEntries == 0 {
			list.ProcArray = nil
		}
		if ret != ERROR_INSUFFICIENT_SIZE {
			return list, ret
		}
	}
}
