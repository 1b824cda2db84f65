package nvml_test

import (
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// oldSched has the schedulers of drivers up to 580.
type oldSched struct {
	migFake
	set  raw.VgpuSchedulerSetState
	setG raw.VgpuSchedulerState
}

func arrParams(p *raw.VgpuSchedulerParams) {
	*p.VgpuSchedDataWithARR() = raw.VgpuSchedulerParamsVgpuSchedDataWithARR{AvgFactor: 33, Timeslice: 2_000_000}
}

func (f *oldSched) DeviceGetVgpuSchedulerState(d raw.Device, s *raw.VgpuSchedulerGetState) raw.Return {
	s.SchedulerPolicy, s.ArrMode = raw.NVML_VGPU_SCHEDULER_POLICY_EQUAL_SHARE, raw.NVML_VGPU_SCHEDULER_ARR_ENABLE
	arrParams(&s.SchedulerParams)
	return raw.NVML_SUCCESS
}

func (f *oldSched) GpuInstanceGetVgpuSchedulerState(g raw.GpuInstance, s *raw.VgpuSchedulerStateInfo) raw.Return {
	s.SchedulerPolicy, s.ArrMode = raw.NVML_VGPU_SCHEDULER_POLICY_FIXED_SHARE, raw.NVML_VGPU_SCHEDULER_ARR_DISABLE
	s.SchedulerParams.VgpuSchedData().Timeslice = 3_000_000
	return raw.NVML_SUCCESS
}

func (f *oldSched) DeviceSetVgpuSchedulerState(d raw.Device, s *raw.VgpuSchedulerSetState) raw.Return {
	f.set = *s
	return raw.NVML_SUCCESS
}

func (f *oldSched) GpuInstanceSetVgpuSchedulerState(g raw.GpuInstance, s *raw.VgpuSchedulerState) raw.Return {
	f.setG = *s
	return raw.NVML_SUCCESS
}

func (f *oldSched) DeviceGetVgpuSchedulerLog(d raw.Device, l *raw.VgpuSchedulerLog) raw.Return {
	l.SchedulerPolicy, l.ArrMode, l.EntriesCount = 2, raw.NVML_VGPU_SCHEDULER_ARR_ENABLE, 1
	arrParams(&l.SchedulerParams)
	l.LogEntries[0] = raw.VgpuSchedulerLogEntry{Timestamp: 1, TimeRunTotal: 2, TimeRun: 3, SwRunlistId: 4,
		TargetTimeSlice:          5,
		CumulativePreemptionTime: 6}
	return raw.NVML_SUCCESS
}

func (f *oldSched) GpuInstanceGetVgpuSchedulerLog(g raw.GpuInstance, l *raw.VgpuSchedulerLogInfo) raw.Return {
	l.EntriesCount = 1000
	return raw.NVML_SUCCESS
}

func (f *oldSched) DeviceGetVgpuSchedulerCapabilities(d raw.Device, c *raw.VgpuSchedulerCapabilities) raw.Return {
	*c = raw.VgpuSchedulerCapabilities{SupportedSchedulers: [3]uint32{1, 3, 0}, MaxTimeslice: 30_000_000,
		MinTimeslice:       1_000_000,
		IsArrModeSupported: 1, MaxFrequencyForARR: 960, MinFrequencyForARR: 63, MaxAvgFactorForARR: 60, MinAvgFactorForARR: 1}
	return raw.NVML_SUCCESS
}

// newSched has the schedulers of newer drivers, too.
type newSched struct {
	oldSched
	set2, setG2 raw.VgpuSchedulerStateV2
}

func (f *newSched) DeviceGetVgpuSchedulerStateV2(d raw.Device, s *raw.VgpuSchedulerStateInfoV2) raw.Return {
	s.SchedulerPolicy, s.AvgFactor, s.Timeslice = 2, 34, 4_000_000
	return raw.NVML_SUCCESS
}

func (f *newSched) GpuInstanceGetVgpuSchedulerStateV2(g raw.GpuInstance, s *raw.VgpuSchedulerStateInfoV2) raw.Return {
	return f.DeviceGetVgpuSchedulerStateV2(0, s)
}

func (f *newSched) DeviceSetVgpuSchedulerStateV2(d raw.Device, s *raw.VgpuSchedulerStateV2) raw.Return {
	f.set2 = *s
	return raw.NVML_SUCCESS
}

func (f *newSched) GpuInstanceSetVgpuSchedulerStateV2(g raw.GpuInstance, s *raw.VgpuSchedulerStateV2) raw.Return {
	f.setG2 = *s
	return raw.NVML_SUCCESS
}

func (f *newSched) DeviceGetVgpuSchedulerLogV2(d raw.Device, l *raw.VgpuSchedulerLogInfoV2) raw.Return {
	l.SchedulerPolicy, l.AvgFactor, l.Timeslice, l.EntriesCount = 2, 34, 4_000_000, 1
	l.LogEntries[0] = raw.VgpuSchedulerLogEntryV2{Timestamp: 1, TimeRunTotal: 2, TimeRun: 3, SwRunlistId: 4,
		TargetTimeSlice:          5,
		CumulativePreemptionTime: 6, Weight: 7}
	return raw.NVML_SUCCESS
}

func (f *newSched) GpuInstanceGetVgpuSchedulerLogV2(g raw.GpuInstance, l *raw.VgpuSchedulerLogInfoV2) raw.Return {
	return f.DeviceGetVgpuSchedulerLogV2(0, l)
}

func TestVGPUScheduler(t *testing.T) {
	f := &oldSched{}
	d := device(t, f)
	g := must(d.GPUInstance(2))(t)
	adaptive := nvml.VGPUSchedulerState{Engine: nvml.VGPUEngineGraphics, Policy: nvml.VGPUSchedulerEqualShare,
		AdaptiveRoundRobin: nvml.VGPUSchedulerARREnable, AverageFactor: 33, Timeslice: 2 * time.Millisecond}
	equal(t, "the state", adaptive)(d.VGPUScheduler(0))
	equal(t, "the state of an instance", nvml.VGPUSchedulerState{Engine: 3, Policy: nvml.VGPUSchedulerFixedShare,
		AdaptiveRoundRobin: nvml.VGPUSchedulerARRDisable, Timeslice: 3 * time.Millisecond})(g.VGPUScheduler(3))
	entry := nvml.VGPUSchedulerLogEntry{Preempted: 1, RunTotal: 2, Run: 3, Runlist: 4, Timeslice: 5, Preemption: 6}
	equal(t, "the log", nvml.VGPUSchedulerLog{VGPUSchedulerState: adaptive,
		Entries: []nvml.VGPUSchedulerLogEntry{entry}})(d.VGPUSchedulerLog(0))
	if l := must(g.VGPUSchedulerLog(3))(t); len(l.Entries) != 200 || l.Engine != 3 {
		t.Errorf("the log of engine %d has %d entries", l.Engine, len(l.Entries))
	}
	equal(t, "the capabilities", nvml.VGPUSchedulerCapabilities{
		Policies:     []nvml.VGPUSchedulerPolicy{nvml.VGPUSchedulerBestEffort, nvml.VGPUSchedulerFixedShare},
		MinTimeslice: time.Millisecond, MaxTimeslice: 30 * time.Millisecond, AdaptiveRoundRobin: true, MinFrequency: 63,
		MaxFrequency: 960, MinAverageFactor: 1, MaxAverageFactor: 60})(d.VGPUSchedulerCapabilities())

	n := &newSched{}
	d = device(t, n)
	g = must(d.GPUInstance(2))(t)
	newer := nvml.VGPUSchedulerState{Engine: 3, Policy: nvml.VGPUSchedulerEqualShare, AverageFactor: 34,
		Timeslice: 4 * time.Millisecond}
	equal(t, "the newer state", newer)(d.VGPUScheduler(3))
	equal(t, "the newer state of an instance", newer)(g.VGPUScheduler(3))
	entry.Weight = 7
	log := nvml.VGPUSchedulerLog{VGPUSchedulerState: newer, Entries: []nvml.VGPUSchedulerLogEntry{entry}}
	equal(t, "the newer log", log)(d.VGPUSchedulerLog(3))
	equal(t, "the newer log of an instance", log)(g.VGPUSchedulerLog(3))
}

func TestSetVGPUScheduler(t *testing.T) {
	f := &newSched{}
	d := device(t, f)
	g := must(d.GPUInstance(2))(t)
	adaptive := nvml.VGPUSchedulerSettings{Policy: nvml.VGPUSchedulerEqualShare,
		AdaptiveRoundRobin: nvml.VGPUSchedulerARREnable,
		AverageFactor:      33, Frequency: 960}
	if err := d.SetVGPUScheduler(adaptive); err != nil || f.set2 != (raw.VgpuSchedulerStateV2{EngineId: 1,
		SchedulerPolicy: 2,
		AvgFactor:       33, Frequency: 960}) {
		t.Errorf("%+v (%v)", f.set2, err)
	}
	if err := g.SetVGPUScheduler(adaptive); err != nil || f.setG2 != f.set2 {
		t.Errorf("%+v (%v)", f.setG2, err)
	}
	slice := nvml.VGPUSchedulerSettings{Policy: nvml.VGPUSchedulerFixedShare, Timeslice: 2 * time.Millisecond}
	if err := d.SetVGPUScheduler(slice); err != nil || f.set.SchedulerPolicy != 3 ||
		f.set.SchedulerParams.VgpuSchedData().Timeslice != 2_000_000 {
		t.Errorf("%+v (%v)", f.set, err)
	}
	if err := g.SetVGPUScheduler(slice); err != nil || f.setG.Version != raw.VgpuSchedulerStateV1Version ||
		f.setG.EngineId != 1 ||
		f.setG.SchedulerParams.VgpuSchedData().Timeslice != 2_000_000 {
		t.Errorf("%+v (%v)", f.setG, err)
	}
	for _, s := range []nvml.VGPUSchedulerSettings{{Frequency: -1}, {AverageFactor: 1 << 32}, {Timeslice: 5 * time.Second}} {
		fails(t, "a setting", d.SetVGPUScheduler(s), nvml.ErrInvalidArgument)
		fails(t, "a setting", g.SetVGPUScheduler(s), nvml.ErrInvalidArgument)
	}
	old := &oldSched{}
	if err := device(t, old).SetVGPUScheduler(adaptive); err != nil ||
		old.set.EnableARRMode != raw.NVML_VGPU_SCHEDULER_ARR_ENABLE ||
		*old.set.SchedulerParams.VgpuSchedDataWithARR() != (raw.VgpuSchedulerSetParamsVgpuSchedDataWithARR{AvgFactor: 33,
			Frequency: 960}) {
		t.Errorf("%+v (%v)", old.set, err)
	}
}
