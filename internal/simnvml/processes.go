package simnvml

import (
	"bytes"
	"os"
	"slices"
	"strconv"

	"github.com/purecu/purecu/nvml/raw"
)

// none is the number of an instance in the rows of processes that use a whole GPU.
const none = ^uint32(0)

// processes sets a list of the processes of a GPU. A count that is too small becomes the number of processes.
func processes[T any](n *model, method string, device raw.Device, count *uint32, infos []T,
	row func(p Process, gpuID, computeID uint32) T) raw.Return {
	var room *uint32
	if count != nil {
		room = new(uint32)
		*room = *count
	}
	return n.check(n.answer(method, device, room, infos), device, func(g *gpu, now GPU) raw.Return {
		there := uint32(len(now.Processes))
		gpuID, computeID := g.ids()
		room := *count
		*count = there
		switch {
		case there > room:
			return raw.NVML_ERROR_INSUFFICIENT_SIZE
		case there > 0 && len(infos) == 0: // an empty slice is NULL
			return raw.NVML_ERROR_INVALID_ARGUMENT
		case int(there) > len(infos):
			return raw.NVML_ERROR_INSUFFICIENT_SIZE
		}
		for i, p := range now.Processes {
			infos[i] = row(p, gpuID, computeID)
		}
		return raw.NVML_SUCCESS
	})
}

// DeviceGetComputeRunningProcesses returns the processes with a context.
func (n *model) DeviceGetComputeRunningProcesses(device raw.Device, count *uint32,
	infos []raw.ProcessInfoV1) raw.Return {
	return processes(n, "DeviceGetComputeRunningProcesses", device, count, infos,
		func(p Process, _, _ uint32) raw.ProcessInfoV1 {
			return raw.ProcessInfoV1{Pid: p.ID, UsedGpuMemory: p.Used}
		})
}

// DeviceGetComputeRunningProcessesV2 returns the processes with a context.
func (n *model) DeviceGetComputeRunningProcessesV2(device raw.Device, count *uint32,
	infos []raw.ProcessInfoV2) raw.Return {
	return processes(n, "DeviceGetComputeRunningProcessesV2", device, count, infos, processInfo)
}

// DeviceGetComputeRunningProcessesV3 returns the processes with a context.
func (n *model) DeviceGetComputeRunningProcessesV3(device raw.Device, count *uint32,
	infos []raw.ProcessInfo) raw.Return {
	return processes(n, "DeviceGetComputeRunningProcessesV3", device, count, infos, processInfo)
}

func processInfo(p Process, gpuID, computeID uint32) raw.ProcessInfoV2 {
	return raw.ProcessInfoV2{Pid: p.ID, UsedGpuMemory: p.Used, GpuInstanceId: gpuID, ComputeInstanceId: computeID}
}

// DeviceGetRunningProcessDetailList returns the processes with a context.
func (n *model) DeviceGetRunningProcessDetailList(device raw.Device, list *raw.ProcessDetailList) raw.Return {
	var array []raw.ProcessDetailV1
	if list != nil {
		array = raw.Elements(list.ProcArray, list.NumProcArrayEntries)
	}
	checks := n.answers.DeviceGetRunningProcessDetailList(device, list)
	if checks != raw.NVML_SUCCESS || list.Mode != 0 {
		return checks
	}
	return n.check(checks, device, func(g *gpu, now GPU) raw.Return {
		there := uint32(len(now.Processes))
		gpuID, computeID := g.ids()
		list.NumProcArrayEntries = there
		if int(there) > len(array) {
			return raw.NVML_ERROR_INSUFFICIENT_SIZE
		}
		for i, p := range now.Processes {
			array[i] = raw.ProcessDetailV1{Pid: p.ID, UsedGpuMemory: p.Used, GpuInstanceId: gpuID,
				ComputeInstanceId: computeID}
		}
		return raw.NVML_SUCCESS
	})
}

// DeviceGetProcessUtilization returns how much processes have used a GPU in the last second.
func (n *model) DeviceGetProcessUtilization(device raw.Device, samples []raw.ProcessUtilizationSample, count *uint32,
	since uint64) raw.Return {
	r := n.answers.DeviceGetProcessUtilization(device, samples, count, since)
	if r != raw.NVML_ERROR_NOT_FOUND { // otherwise there is room for more processes than a GPU has
		return r
	}
	return n.check(raw.NVML_SUCCESS, device, func(_ *gpu, now GPU) raw.Return {
		switch there := len(now.Processes); {
		case there == 0 || now.Utilization == 0 || since >= n.timestamp():
			return raw.NVML_ERROR_NOT_FOUND
		case there > len(samples):
			*count = uint32(there)
			return raw.NVML_ERROR_INSUFFICIENT_SIZE
		}
		for i, p := range now.Processes {
			samples[i] = raw.ProcessUtilizationSample{Pid: p.ID, TimeStamp: n.timestamp(),
				SmUtil: percent(p.Utilization), MemUtil: percent(memoryShare * p.Utilization)}
		}
		*count = uint32(len(now.Processes))
		return raw.NVML_SUCCESS
	})
}

// timestamp returns the time in microseconds, as samples have it.
func (s *state) timestamp() uint64 { return uint64(s.machine.Clock().Now().UnixMicro()) }

// SystemGetProcessName returns the command line of a process.
func (n *model) SystemGetProcessName(pid uint32, name []byte) raw.Return {
	if r := n.answer("SystemGetProcessName", uint32(1), slices.Clone(name)); r != raw.NVML_SUCCESS &&
		r != raw.NVML_ERROR_INSUFFICIENT_SIZE {
		return r
	}
	if len(name) == 0 {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	line, err := os.ReadFile("/proc/" + strconv.Itoa(int(pid)) + "/cmdline")
	switch {
	case err != nil:
		return raw.NVML_ERROR_NOT_FOUND
	case len(line) == 0: // a thread of the kernel
		return raw.NVML_ERROR_NO_DATA
	}
	line = bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '})
	clear(name[copy(name[:len(name)-1], line):])
	return raw.NVML_SUCCESS
}
