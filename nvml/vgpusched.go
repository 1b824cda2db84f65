package nvml

import (
	"math"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// VGPUSchedulerState says how an engine is shared among virtual GPUs. It means nothing with the policy
// [VGPUSchedulerBestEffort].
type VGPUSchedulerState struct {
	Engine VGPUEngine
	Policy VGPUSchedulerPolicy
	// AdaptiveRoundRobin says whether times that were too long are made up for. It is the default if the driver does
	// not say it, as those after 580.
	AdaptiveRoundRobin VGPUSchedulerARR
	// AverageFactor is over how many times the adaptive scheduler takes the average, or 0 for another scheduler.
	AverageFactor int
	// Timeslice is for how long a virtual GPU has the engine at a time.
	Timeslice time.Duration
}

// VGPUSchedulerSettings are what [Device.SetVGPUScheduler] sets.
type VGPUSchedulerSettings struct {
	// Engine is the engine that is shared, or 0 for graphics. With drivers up to 580, only GPU instances have a choice.
	Engine             VGPUEngine
	Policy             VGPUSchedulerPolicy
	AdaptiveRoundRobin VGPUSchedulerARR
	// AverageFactor and Frequency are for the adaptive scheduler. 0 is the default of drivers after 580.
	AverageFactor, Frequency int
	// Timeslice is for a scheduler that is not adaptive. 0 is the default of drivers after 580.
	Timeslice time.Duration
}

// VGPUSchedulerLog is what a scheduler has done lately.
type VGPUSchedulerLog struct {
	VGPUSchedulerState
	Entries []VGPUSchedulerLogEntry
}

// VGPUSchedulerLogEntry says how a list of work has run.
type VGPUSchedulerLogEntry struct {
	// Preempted is when the list had to stop, on a clock of the GPU.
	Preempted time.Duration
	// RunTotal is for how long the list has run altogether, and Run the last time.
	RunTotal, Run time.Duration
	Runlist       uint32
	// Timeslice is for how long the list could run.
	Timeslice time.Duration
	// Preemption is how long the list needed to stop, altogether.
	Preemption time.Duration
	// Weight is that of the list. It is 0 for drivers that do not say it.
	Weight int
}

// VGPUSchedulerCapabilities says which settings a GPU can have.
type VGPUSchedulerCapabilities struct {
	Policies                   []VGPUSchedulerPolicy
	MinTimeslice, MaxTimeslice time.Duration
	// AdaptiveRoundRobin reports whether the scheduler can be adaptive.
	AdaptiveRoundRobin                 bool
	MinFrequency, MaxFrequency         int
	MinAverageFactor, MaxAverageFactor int
}

// schedulerState returns a state from one of an older version.
func schedulerState(engine, policy, arr uint32, params *raw.VgpuSchedulerParams) VGPUSchedulerState {
	s := VGPUSchedulerState{Engine: VGPUEngine(engine), Policy: VGPUSchedulerPolicy(policy),
		AdaptiveRoundRobin: VGPUSchedulerARR(arr)}
	if arr == raw.NVML_VGPU_SCHEDULER_ARR_ENABLE {
		p := params.VgpuSchedDataWithARR()
		s.AverageFactor, s.Timeslice = int(p.AvgFactor), time.Duration(p.Timeslice)
	} else {
		s.Timeslice = time.Duration(params.VgpuSchedData().Timeslice)
	}
	return s
}

// engineOf returns the engine for C.
func engineOf(e VGPUEngine) uint32 {
	if e == 0 {
		return raw.NVML_VGPU_SCHEDULER_ENGINE_TYPE_GRAPHICS
	}
	return uint32(e)
}

// setParams returns the parameters of an older version.
func (s VGPUSchedulerSettings) setParams() (p raw.VgpuSchedulerSetParams) {
	if s.AdaptiveRoundRobin == raw.NVML_VGPU_SCHEDULER_ARR_ENABLE {
		*p.VgpuSchedDataWithARR() = raw.VgpuSchedulerSetParamsVgpuSchedDataWithARR{AvgFactor: uint32(s.AverageFactor),
			Frequency: uint32(s.Frequency)}
	} else {
		p.VgpuSchedData().Timeslice = uint32(s.Timeslice)
	}
	return p
}

// set makes the call of the newest version that the library has, and that can express the settings.
func (s VGPUSchedulerSettings) set(newer func(*raw.VgpuSchedulerStateV2) raw.Return,
	older func() raw.Return) raw.Return {
	if s.Timeslice != 0 || s.AdaptiveRoundRobin == raw.NVML_VGPU_SCHEDULER_ARR_DISABLE {
		return older() // the newer function does not have these
	}
	r := newer(&raw.VgpuSchedulerStateV2{EngineId: engineOf(s.Engine), SchedulerPolicy: uint32(s.Policy),
		AvgFactor: uint32(s.AverageFactor), Frequency: uint32(s.Frequency)})
	if lacks(r) {
		r = older()
	}
	return r
}

// check returns an error for settings that C cannot have.
func (s VGPUSchedulerSettings) check(o *object, op string) error {
	for _, n := range []int64{int64(s.AverageFactor), int64(s.Frequency), int64(s.Timeslice)} {
		if o != nil && (n < 0 || n > math.MaxUint32) {
			return o.invalid(op, "a number is negative or too large: see VGPUSchedulerCapabilities")
		}
	}
	return nil
}

// VGPUScheduler returns how an engine of the GPU is shared among virtual GPUs (nvmlDeviceGetVgpuSchedulerState_v2, and
// nvmlDeviceGetVgpuSchedulerState for older drivers). Drivers up to 580 ignore the engine. Unverified: no driver has
// confirmed nvmlDeviceGetVgpuSchedulerState_v2.
func (d *Device) VGPUScheduler(engine VGPUEngine) (VGPUSchedulerState, error) {
	const op = "nvmlDeviceGetVgpuSchedulerState_v2"
	return get(d.obj(), op, func(l *raw.Library, h uint64) (VGPUSchedulerState, raw.Return) {
		s := raw.VgpuSchedulerStateInfoV2{EngineId: engineOf(engine)}
		r := l.DeviceGetVgpuSchedulerStateV2(raw.Device(h), &s)
		if lacks(r) {
			var older raw.VgpuSchedulerGetState
			r = l.DeviceGetVgpuSchedulerState(raw.Device(h), &older)
			return schedulerState(raw.NVML_VGPU_SCHEDULER_ENGINE_TYPE_GRAPHICS, older.SchedulerPolicy, older.ArrMode,
				&older.SchedulerParams), r
		}
		return newState(s), r
	})
}

func newState(s raw.VgpuSchedulerStateInfoV2) VGPUSchedulerState {
	return VGPUSchedulerState{Engine: VGPUEngine(s.EngineId), Policy: VGPUSchedulerPolicy(s.SchedulerPolicy),
		AverageFactor: int(s.AvgFactor), Timeslice: time.Duration(s.Timeslice)}
}

// VGPUScheduler returns how an engine of the GPU instance is shared among virtual GPUs
// (nvmlGpuInstanceGetVgpuSchedulerState_v2, and nvmlGpuInstanceGetVgpuSchedulerState for older drivers). Unverified: no
// driver has confirmed nvmlGpuInstanceGetVgpuSchedulerState_v2.
func (g *GPUInstance) VGPUScheduler(engine VGPUEngine) (VGPUSchedulerState, error) {
	const op = "nvmlGpuInstanceGetVgpuSchedulerState_v2"
	return get(g.obj(), op, func(l *raw.Library, h uint64) (VGPUSchedulerState, raw.Return) {
		s := raw.VgpuSchedulerStateInfoV2{EngineId: engineOf(engine)}
		r := l.GpuInstanceGetVgpuSchedulerStateV2(raw.GpuInstance(h), &s)
		if lacks(r) {
			older := raw.VgpuSchedulerStateInfo{Version: raw.VgpuSchedulerStateInfoV1Version, EngineId: engineOf(engine)}
			r = l.GpuInstanceGetVgpuSchedulerState(raw.GpuInstance(h), &older)
			return schedulerState(older.EngineId, older.SchedulerPolicy, older.ArrMode, &older.SchedulerParams), r
		}
		return newState(s), r
	})
}

// SetVGPUScheduler sets how an engine of the GPU is shared among virtual GPUs (nvmlDeviceSetVgpuSchedulerState_v2, and
// nvmlDeviceSetVgpuSchedulerState for older drivers, and for a timeslice). It needs root, and that the GPU has no
// virtual GPU. It lasts until the driver is unloaded. Unverified: no driver has confirmed
// nvmlDeviceSetVgpuSchedulerState_v2.
func (d *Device) SetVGPUScheduler(s VGPUSchedulerSettings) error {
	const op = "nvmlDeviceSetVgpuSchedulerState_v2"
	o := d.obj()
	if err := s.check(o, op); err != nil {
		return err
	}
	_, err := get(o, op, func(l *raw.Library, h uint64) (struct{}, raw.Return) {
		return struct{}{}, s.set(func(v2 *raw.VgpuSchedulerStateV2) raw.Return {
			return l.DeviceSetVgpuSchedulerStateV2(raw.Device(h), v2)
		}, func() raw.Return {
			return l.DeviceSetVgpuSchedulerState(raw.Device(h), &raw.VgpuSchedulerSetState{SchedulerPolicy: uint32(s.Policy),
				EnableARRMode: uint32(s.AdaptiveRoundRobin), SchedulerParams: s.setParams()})
		})
	})
	return err
}

// SetVGPUScheduler sets how an engine of the GPU instance is shared among virtual GPUs
// (nvmlGpuInstanceSetVgpuSchedulerState_v2, and nvmlGpuInstanceSetVgpuSchedulerState for older drivers, and for a
// timeslice). It needs root, and that the GPU instance has no virtual GPU. Unverified: no driver has confirmed
// nvmlGpuInstanceSetVgpuSchedulerState_v2.
func (g *GPUInstance) SetVGPUScheduler(s VGPUSchedulerSettings) error {
	const op = "nvmlGpuInstanceSetVgpuSchedulerState_v2"
	o := g.obj()
	if err := s.check(o, op); err != nil {
		return err
	}
	_, err := get(o, op, func(l *raw.Library, h uint64) (struct{}, raw.Return) {
		return struct{}{}, s.set(func(v2 *raw.VgpuSchedulerStateV2) raw.Return {
			return l.GpuInstanceSetVgpuSchedulerStateV2(raw.GpuInstance(h), v2)
		}, func() raw.Return {
			return l.GpuInstanceSetVgpuSchedulerState(raw.GpuInstance(h), &raw.VgpuSchedulerState{
				Version: raw.VgpuSchedulerStateV1Version, EngineId: engineOf(s.Engine), SchedulerPolicy: uint32(s.Policy),
				EnableARRMode: uint32(s.AdaptiveRoundRobin), SchedulerParams: s.setParams()})
		})
	})
	return err
}

// newLog returns a log of the newer version.
func newLog(l *raw.VgpuSchedulerLogInfoV2) VGPUSchedulerLog {
	log := VGPUSchedulerLog{VGPUSchedulerState: VGPUSchedulerState{Engine: VGPUEngine(l.EngineId),
		Policy: VGPUSchedulerPolicy(l.SchedulerPolicy), AverageFactor: int(l.AvgFactor),
		Timeslice: time.Duration(l.Timeslice)}}
	for _, e := range l.LogEntries[:min(int(l.EntriesCount), len(l.LogEntries))] {
		log.Entries = append(log.Entries, VGPUSchedulerLogEntry{time.Duration(e.Timestamp), time.Duration(e.TimeRunTotal),
			time.Duration(e.TimeRun), e.SwRunlistId, time.Duration(e.TargetTimeSlice), time.Duration(e.CumulativePreemptionTime),
			int(e.Weight)})
	}
	return log
}

// oldLog returns a log of an older version.
func oldLog(s VGPUSchedulerState, entries []raw.VgpuSchedulerLogEntry, n uint32) VGPUSchedulerLog {
	log := VGPUSchedulerLog{VGPUSchedulerState: s}
	for _, e := range entries[:min(int(n), len(entries))] {
		log.Entries = append(log.Entries, VGPUSchedulerLogEntry{time.Duration(e.Timestamp), time.Duration(e.TimeRunTotal),
			time.Duration(e.TimeRun), e.SwRunlistId, time.Duration(e.TargetTimeSlice),
			time.Duration(e.CumulativePreemptionTime), 0})
	}
	return log
}

// VGPUSchedulerLog returns what the scheduler of an engine has done lately (nvmlDeviceGetVgpuSchedulerLog_v2, and
// nvmlDeviceGetVgpuSchedulerLog for older drivers). The log has up to 200 entries: a program that wants them all calls
// it five times a second. Unverified: no driver has confirmed nvmlDeviceGetVgpuSchedulerLog_v2.
func (d *Device) VGPUSchedulerLog(engine VGPUEngine) (VGPUSchedulerLog, error) {
	const op = "nvmlDeviceGetVgpuSchedulerLog_v2"
	return get(d.obj(), op, func(l *raw.Library, h uint64) (VGPUSchedulerLog, raw.Return) {
		log := raw.VgpuSchedulerLogInfoV2{EngineId: engineOf(engine)}
		r := l.DeviceGetVgpuSchedulerLogV2(raw.Device(h), &log)
		if lacks(r) {
			older := raw.VgpuSchedulerLog{EngineId: engineOf(engine)}
			r = l.DeviceGetVgpuSchedulerLog(raw.Device(h), &older)
			return oldLog(schedulerState(older.EngineId, older.SchedulerPolicy, older.ArrMode, &older.SchedulerParams),
				older.LogEntries[:], older.EntriesCount), r
		}
		return newLog(&log), r
	})
}

// VGPUSchedulerLog returns what the scheduler of an engine of the GPU instance has done lately
// (nvmlGpuInstanceGetVgpuSchedulerLog_v2, and nvmlGpuInstanceGetVgpuSchedulerLog for older drivers): see
// [Device.VGPUSchedulerLog]. Unverified: no driver has confirmed nvmlGpuInstanceGetVgpuSchedulerLog_v2.
func (g *GPUInstance) VGPUSchedulerLog(engine VGPUEngine) (VGPUSchedulerLog, error) {
	const op = "nvmlGpuInstanceGetVgpuSchedulerLog_v2"
	return get(g.obj(), op, func(l *raw.Library, h uint64) (VGPUSchedulerLog, raw.Return) {
		log := raw.VgpuSchedulerLogInfoV2{EngineId: engineOf(engine)}
		r := l.GpuInstanceGetVgpuSchedulerLogV2(raw.GpuInstance(h), &log)
		if lacks(r) {
			older := raw.VgpuSchedulerLogInfo{Version: raw.VgpuSchedulerLogInfoV1Version, EngineId: engineOf(engine)}
			r = l.GpuInstanceGetVgpuSchedulerLog(raw.GpuInstance(h), &older)
			return oldLog(schedulerState(older.EngineId, older.SchedulerPolicy, older.ArrMode, &older.SchedulerParams),
				older.LogEntries[:], older.EntriesCount), r
		}
		return newLog(&log), r
	})
}

// VGPUSchedulerCapabilities returns which settings the scheduler can have (nvmlDeviceGetVgpuSchedulerCapabilities).
func (d *Device) VGPUSchedulerCapabilities() (VGPUSchedulerCapabilities, error) {
	const op = "nvmlDeviceGetVgpuSchedulerCapabilities"
	return get(d.obj(), op, func(l *raw.Library, h uint64) (VGPUSchedulerCapabilities, raw.Return) {
		var c raw.VgpuSchedulerCapabilities
		r := l.DeviceGetVgpuSchedulerCapabilities(raw.Device(h), &c)
		all := VGPUSchedulerCapabilities{
			MinTimeslice:       time.Duration(c.MinTimeslice),
			MaxTimeslice:       time.Duration(c.MaxTimeslice),
			AdaptiveRoundRobin: truth(c.IsArrModeSupported),
			MinFrequency:       int(c.MinFrequencyForARR),
			MaxFrequency:       int(c.MaxFrequencyForARR),
			MinAverageFactor:   int(c.MinAvgFactorForARR),
			MaxAverageFactor:   int(c.MaxAvgFactorForARR),
		}
		for _, p := range c.SupportedSchedulers {
			if p != raw.NVML_VGPU_SCHEDULER_POLICY_UNKNOWN {
				all.Policies = append(all.Policies, VGPUSchedulerPolicy(p))
			}
		}
		return all, r
	})
}
