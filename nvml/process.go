package nvml

import (
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// Process is a program that uses a GPU.
type Process struct {
	PID uint32
	// UsedMemory is how much of the GPU's memory the process has, in bytes. It is 0 if it is unknown: on Windows the
	// operating system manages the memory, and a GPU in MIG mode says it only to root.
	UsedMemory uint64
	// ProtectedMemory is how much of the protected memory of confidential computing the process has, in bytes. Only
	// [Device.ProcessDetails] sets it. It is 0 if it is unknown.
	ProtectedMemory uint64
	// GPUInstance and ComputeInstance are the numbers of the instances that the process uses, or -1 if there are none.
	GPUInstance, ComputeInstance int
}

// ProcessKind says how processes use a GPU.
type ProcessKind uint32

// The kinds of processes.
const (
	ProcessCompute  = ProcessKind(raw.NVML_PROCESS_MODE_COMPUTE)  // those that compute, for example with CUDA
	ProcessGraphics = ProcessKind(raw.NVML_PROCESS_MODE_GRAPHICS) // those that draw, for example with OpenGL
	ProcessMPS      = ProcessKind(raw.NVML_PROCESS_MODE_MPS)      // those that use the Multi-Process Service
)

// known returns a number of bytes, and 0 for one that the library does not know.
func known(bytes uint64) uint64 {
	if bytes == 1<<64-1 {
		return 0
	}
	return bytes
}

// instance returns the number of an instance, and -1 for none.
func instance(id uint32) int { return int(int32(id)) }

func processOf(p raw.ProcessInfo) Process {
	return Process{PID: p.Pid, UsedMemory: known(p.UsedGpuMemory), GPUInstance: instance(p.GpuInstanceId),
		ComputeInstance: instance(p.ComputeInstanceId)}
}

// processOf1 returns a process of the first version of the functions, which knows no instances.
func processOf1(p raw.ProcessInfoV1) Process {
	return Process{PID: p.Pid, UsedMemory: known(p.UsedGpuMemory), GPUInstance: -1, ComputeInstance: -1}
}

// each returns what f makes of the elements, and nil if there are none.
func each[F, T any](from []F, f func(F) T) []T {
	if len(from) == 0 {
		return nil
	}
	to := make([]T, len(from))
	for i, v := range from {
		to[i] = f(v)
	}
	return to
}

// A processCall is one version of a function that lists processes.
type processCall[T any] func(l *raw.Library, d raw.Device, n *uint32, infos []T) raw.Return

// processes lists processes with the newest of three versions of a function that the library has.
func processes(d *Device, op string, v3, v2 processCall[raw.ProcessInfo], v1 processCall[raw.ProcessInfoV1]) (
	[]Process, error) {
	return get(d.obj(), op, func(l *raw.Library, h uint64) ([]Process, raw.Return) {
		for _, f := range []processCall[raw.ProcessInfo]{v3, v2} {
			all, r := list(func(n *uint32, infos []raw.ProcessInfo) raw.Return { return f(l, raw.Device(h), n, infos) })
			if !lacks(r) {
				return each(all, processOf), r
			}
		}
		all, r := list(func(n *uint32, infos []raw.ProcessInfoV1) raw.Return { return v1(l, raw.Device(h), n, infos) })
		return each(all, processOf1), r
	})
}

// ComputeProcesses returns the processes that compute on the GPU, such as those that use CUDA
// (nvmlDeviceGetComputeRunningProcesses_v3, and _v2 or the one without a number for older drivers). In a container
// the PIDs may be those of the host. A GPU in MIG mode lists the processes of all its MIG devices, for which root is
// needed.
func (d *Device) ComputeProcesses() ([]Process, error) {
	return processes(d, "nvmlDeviceGetComputeRunningProcesses_v3",
		(*raw.Library).DeviceGetComputeRunningProcessesV3,
		(*raw.Library).DeviceGetComputeRunningProcessesV2,
		(*raw.Library).DeviceGetComputeRunningProcesses)
}

// GraphicsProcesses returns the processes that draw with the GPU, such as those that use OpenGL
// (nvmlDeviceGetGraphicsRunningProcesses_v3, and _v2 or the one without a number for older drivers).
func (d *Device) GraphicsProcesses() ([]Process, error) {
	return processes(d, "nvmlDeviceGetGraphicsRunningProcesses_v3",
		(*raw.Library).DeviceGetGraphicsRunningProcessesV3,
		(*raw.Library).DeviceGetGraphicsRunningProcessesV2,
		(*raw.Library).DeviceGetGraphicsRunningProcesses)
}

// MPSProcesses returns the processes that use the GPU through the Multi-Process Service
// (nvmlDeviceGetMPSComputeRunningProcesses_v3, and _v2 or the one without a number for older drivers).
func (d *Device) MPSProcesses() ([]Process, error) {
	return processes(d, "nvmlDeviceGetMPSComputeRunningProcesses_v3",
		(*raw.Library).DeviceGetMPSComputeRunningProcessesV3,
		(*raw.Library).DeviceGetMPSComputeRunningProcessesV2,
		(*raw.Library).DeviceGetMPSComputeRunningProcesses)
}

// ProcessDetails returns the processes of a kind, with the protected memory that they have
// (nvmlDeviceGetRunningProcessDetailList). Only GPUs since Hopper have this.
func (d *Device) ProcessDetails(kind ProcessKind) ([]Process, error) {
	const op = "nvmlDeviceGetRunningProcessDetailList"
	return get(d.obj(), op, func(l *raw.Library, h uint64) ([]Process, raw.Return) {
		all, r := list(func(n *uint32, infos []raw.ProcessDetailV1) raw.Return {
			p := raw.ProcessDetailList{Version: raw.ProcessDetailListV1Version, Mode: uint32(kind),
				NumProcArrayEntries: *n, ProcArray: first(infos)}
			r := l.DeviceGetRunningProcessDetailList(raw.Device(h), &p)
			*n = p.NumProcArrayEntries
			return r
		})
		return each(all, func(p raw.ProcessDetailV1) Process {
			return Process{p.Pid, known(p.UsedGpuMemory), known(p.UsedGpuCcProtectedMemory), instance(p.GpuInstanceId),
				instance(p.ComputeInstanceId)}
		}), r
	})
}

// AccountingStats says how a process has used a GPU.
type AccountingStats struct {
	// Utilization is the share of the process's life in which the GPU and its memory were busy. It counts only if
	// UtilizationKnown is true.
	Utilization      Utilization
	UtilizationKnown bool
	// MaxMemory is the most memory that the process had at a time, in bytes, or 0 if it is unknown.
	MaxMemory uint64
	// Start is when the process began.
	Start time.Time
	// Time is how long the process used the GPU. It is 0 while the process runs.
	Time    time.Duration
	Running bool
	// Samples is the number of samples that Utilization is the mean of, and GPUSum and MemorySum are the sums of their
	// percentages. They are 0 if the driver does not say them. Unverified: no driver has confirmed them.
	Samples           uint32
	GPUSum, MemorySum uint64
}

// AccountingStats returns how a process uses the GPU, or has used it until it ended (nvmlDeviceGetAccountingStats_v2,
// and nvmlDeviceGetAccountingStats for older drivers). [Device.AccountingMode] must be on; [Device.AccountingPIDs]
// lists the processes. The error matches [ErrNotFound] if there is nothing about the process.
func (d *Device) AccountingStats(pid uint32) (AccountingStats, error) {
	const op = "nvmlDeviceGetAccountingStats_v2"
	return get(d.obj(), op, func(l *raw.Library, h uint64) (AccountingStats, raw.Return) {
		s := raw.AccountingStatsV2{Pid: pid}
		r := l.DeviceGetAccountingStatsV2(raw.Device(h), &s)
		if lacks(r) {
			var older raw.AccountingStats
			r = l.DeviceGetAccountingStats(raw.Device(h), pid, &older)
			s = raw.AccountingStatsV2{IsRunning: older.IsRunning, GpuUtilization: older.GpuUtilization,
				MemoryUtilization: older.MemoryUtilization, MaxMemoryUsage: older.MaxMemoryUsage, Time: older.Time,
				StartTime: older.StartTime}
		}
		a := AccountingStats{MaxMemory: known(s.MaxMemoryUsage), Start: sinceEpoch(s.StartTime),
			Time: time.Duration(s.Time) * time.Millisecond, Running: truth(s.IsRunning), Samples: s.SampleCount,
			GPUSum: s.SumGpuUtil, MemorySum: s.SumFbUtil}
		const unknown = 1<<32 - 1
		if s.GpuUtilization != unknown && s.MemoryUtilization != unknown {
			a.Utilization = Utilization{Percent(s.GpuUtilization), Percent(s.MemoryUtilization)}
			a.UtilizationKnown = true
		}
		return a, r
	})
}
