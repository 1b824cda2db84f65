package nvml_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

const unknown = 1<<64 - 1

// processGPU has processes. Another one begins while they are listed.
type processGPU struct {
	basis
	version int
	begun   uint32
}

// fillGrowing sets a list as the library does, and has one process more than it has told.
func fillGrowing[T any](begun, n *uint32, list []T, entry func(i uint32) T) raw.Return {
	room := *n
	*n = *begun + 1
	if len(list) == 0 {
		*begun++
	}
	if room < *begun+1 {
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	*n = *begun + 1
	for i := range *n {
		list[i] = entry(i)
	}
	return raw.NVML_SUCCESS
}

func processInfo(i uint32) raw.ProcessInfo {
	if i == 0 {
		return raw.ProcessInfo{Pid: 7, UsedGpuMemory: unknown, GpuInstanceId: 1, ComputeInstanceId: 0}
	}
	return raw.ProcessInfo{Pid: 7 + i, UsedGpuMemory: 5, GpuInstanceId: 1<<32 - 1, ComputeInstanceId: 1<<32 - 1}
}

func (g *processGPU) DeviceGetComputeRunningProcessesV3(_ raw.Device, n *uint32, infos []raw.ProcessInfo) raw.Return {
	if g.version < 3 {
		return raw.Unimplemented{}.DeviceGetComputeRunningProcessesV3(0, n, infos)
	}
	return fillGrowing(&g.begun, n, infos, processInfo)
}

func (g *processGPU) DeviceGetComputeRunningProcessesV2(_ raw.Device, n *uint32, infos []raw.ProcessInfoV2) raw.Return {
	if g.version < 2 {
		return raw.NVML_ERROR_FUNCTION_NOT_FOUND
	}
	return fillGrowing(&g.begun, n, infos, processInfo)
}

func (g *processGPU) DeviceGetComputeRunningProcesses(_ raw.Device, n *uint32, infos []raw.ProcessInfoV1) raw.Return {
	return fillGrowing(&g.begun, n, infos, func(i uint32) raw.ProcessInfoV1 {
		return raw.ProcessInfoV1{Pid: 7 + i, UsedGpuMemory: 5}
	})
}

func (g *processGPU) DeviceGetGraphicsRunningProcessesV3(_ raw.Device, n *uint32, _ []raw.ProcessInfo) raw.Return {
	*n = 0
	return raw.NVML_SUCCESS
}

func (g *processGPU) DeviceGetMPSComputeRunningProcessesV3(_ raw.Device, n *uint32,
	infos []raw.ProcessInfo) raw.Return {
	return raw.NVML_ERROR_NO_PERMISSION
}

func (g *processGPU) DeviceGetRunningProcessDetailList(_ raw.Device, p *raw.ProcessDetailList) raw.Return {
	if p.Version != raw.ProcessDetailListV1Version || p.Mode != uint32(nvml.ProcessMPS) {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	var all []raw.ProcessDetailV1
	if p.ProcArray != nil {
		all = unsafe.Slice(p.ProcArray, p.NumProcArrayEntries)
	}
	return fillGrowing(&g.begun, &p.NumProcArrayEntries, all, func(i uint32) raw.ProcessDetailV1 {
		return raw.ProcessDetailV1{Pid: i, UsedGpuMemory: 9, UsedGpuCcProtectedMemory: 4, GpuInstanceId: 2}
	})
}

func TestProcesses(t *testing.T) {
	want := []nvml.Process{{PID: 7, GPUInstance: 1}, {PID: 8, UsedMemory: 5, GPUInstance: -1, ComputeInstance: -1}}
	for version := 2; version <= 3; version++ {
		wants(t, want)(deviceOf(t, &processGPU{version: version}).ComputeProcesses())
	}
	want[0] = nvml.Process{PID: 7, UsedMemory: 5, GPUInstance: -1, ComputeInstance: -1}
	wants(t, want)(deviceOf(t, &processGPU{}).ComputeProcesses())
	d := deviceOf(t, &processGPU{})
	if all, err := d.GraphicsProcesses(); len(all) != 0 || err != nil {
		t.Errorf("there are %v (%v)", all, err)
	}
	_, err := d.MPSProcesses()
	isError(t, err, nvml.ErrNoPermission)
	wants(t, []nvml.Process{{UsedMemory: 9, ProtectedMemory: 4, GPUInstance: 2},
		{PID: 1, UsedMemory: 9, ProtectedMemory: 4, GPUInstance: 2}})(d.ProcessDetails(nvml.ProcessMPS))
	_, err = d.ProcessDetails(nvml.ProcessCompute)
	isError(t, err, nvml.ErrInvalidArgument)
}

// accountingGPU has statistics, of the first version or of the second.
type accountingGPU struct {
	basis
	newer bool
}

func (g accountingGPU) DeviceGetAccountingStats(_ raw.Device, pid uint32, s *raw.AccountingStats) raw.Return {
	if pid != 3 {
		return raw.NVML_ERROR_NOT_FOUND
	}
	*s = raw.AccountingStats{GpuUtilization: 1<<32 - 1, MaxMemoryUsage: unknown, Time: 1500, StartTime: 2e15, IsRunning: 1}
	return raw.NVML_SUCCESS
}

func (g accountingGPU) DeviceGetAccountingStatsV2(_ raw.Device, s *raw.AccountingStatsV2) raw.Return {
	if !g.newer {
		return raw.Unimplemented{}.DeviceGetAccountingStatsV2(0, s)
	}
	*s = raw.AccountingStatsV2{Pid: s.Pid, GpuUtilization: 50, MemoryUtilization: 20, MaxMemoryUsage: 6,
		SampleCount: s.Pid, SumGpuUtil: 150, SumFbUtil: 60}
	return raw.NVML_SUCCESS
}

func TestAccountingStats(t *testing.T) {
	wants(t, nvml.AccountingStats{Start: time.UnixMicro(2e15), Time: 1500 * time.Millisecond, Running: true})(
		deviceOf(t, accountingGPU{}).AccountingStats(3))
	wants(t, nvml.AccountingStats{Utilization: nvml.Utilization{GPU: 50, Memory: 20}, UtilizationKnown: true, MaxMemory: 6,
		Samples: 3, GPUSum: 150, MemorySum: 60})(deviceOf(t, accountingGPU{newer: true}).AccountingStats(3))
	_, err := deviceOf(t, accountingGPU{}).AccountingStats(4)
	isError(t, err, nvml.ErrNotFound)
}
