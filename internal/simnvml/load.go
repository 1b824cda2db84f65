package simnvml

import (
	"cmp"
	"math"
	"time"

	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/nvml/raw"
)

// The model of a GPU, with values that an H200 had: of a GPU without work, and of one that works all the time.
const (
	powerShare         = 690.0 / 700 // of the power that it may draw
	idleTemp, fullTemp = 33, 58      // degrees Celsius
	memoryShare        = 0.06        // of the utilization
)

// powers returns what a GPU draws without work, and with as much work as it can do, in milliwatts.
func powers(p *profile.GPU) (idle, full float64) {
	return float64(p.Power.Idle), math.Round(powerShare * float64(p.Power.Most))
}

// between returns the value for a utilization of 0 to 1.
func between(idle, full, utilization float64) float64 { return idle + (full-idle)*utilization }

// percent returns a share as a whole number, rounded.
func percent(share float64) uint32 { return uint32(math.Round(100 * share)) }

// power returns what the GPU draws, in milliwatts.
func power(now GPU) uint32 {
	idle, full := powers(now.Profile)
	return uint32(min(between(idle, full, now.Utilization), float64(now.Settings[powerLimit])))
}

// temperature returns the temperature of the GPU, in degrees Celsius.
func temperature(now GPU) uint32 {
	return uint32(math.Round(between(idleTemp, fullTemp, now.Utilization)))
}

// clock returns the present frequency of a part of the GPU, in MHz. A locked clock supersedes that of programs.
func clock(now GPU, kind raw.ClockType) uint32 {
	s, c := &now.Settings, &now.Profile.Clocks
	switch kind {
	case raw.NVML_CLOCK_GRAPHICS, raw.NVML_CLOCK_SM:
		if now.Utilization > 0 {
			return uint32(cmp.Or(s[mostClock], s[appClock], uint64(c.Graphics)))
		}
		return uint32(cmp.Or(s[leastClock], uint64(c.Idle)))
	case raw.NVML_CLOCK_MEM:
		return uint32(cmp.Or(s[mostMemoryClock], s[appMemoryClock]))
	}
	if now.Utilization > 0 {
		return uint32(c.Video)
	}
	return uint32(c.IdleVideo)
}

// energy returns what the GPU has used since the NVML was made, in millijoules.
func (s *state) energy(now GPU) uint64 {
	all := s.machine.Clock().Now().Sub(s.begun).Seconds()
	idle, full := powers(now.Profile)
	return uint64(idle*all + (full-idle)*now.Busy.Seconds())
}

// DeviceGetUtilizationRates returns the share of the last second in which work ran.
func (n *model) DeviceGetUtilizationRates(device raw.Device, utilization *raw.Utilization) raw.Return {
	return n.then(n.answers.DeviceGetUtilizationRates(device, utilization), device, func(_ *gpu, now GPU) {
		*utilization = raw.Utilization{Gpu: percent(now.Utilization), Memory: percent(memoryShare * now.Utilization)}
	})
}

// DeviceGetDynamicPstatesInfo returns the utilization of the GPU's parts.
func (n *model) DeviceGetDynamicPstatesInfo(device raw.Device, info *raw.GpuDynamicPstatesInfo) raw.Return {
	return n.then(n.answers.DeviceGetDynamicPstatesInfo(device, info), device, func(_ *gpu, now GPU) {
		info.Utilization[0].Percentage = percent(now.Utilization)
		info.Utilization[1].Percentage = percent(memoryShare * now.Utilization)
	})
}

// DeviceGetPowerUsage returns what the GPU draws.
func (n *model) DeviceGetPowerUsage(device raw.Device, usage *uint32) raw.Return {
	return n.then(n.answers.DeviceGetPowerUsage(device, usage), device, func(_ *gpu, now GPU) { *usage = power(now) })
}

// DeviceGetTotalEnergyConsumption returns what the GPU has used.
func (n *model) DeviceGetTotalEnergyConsumption(device raw.Device, energy *uint64) raw.Return {
	return n.then(n.answers.DeviceGetTotalEnergyConsumption(device, energy), device, func(_ *gpu, now GPU) {
		*energy = n.energy(now)
	})
}

// DeviceGetTemperature returns the temperature.
func (n *model) DeviceGetTemperature(device raw.Device, sensor raw.TemperatureSensors, temp *uint32) raw.Return {
	return n.then(n.answers.DeviceGetTemperature(device, sensor, temp), device,
		func(_ *gpu, now GPU) { *temp = temperature(now) })
}

// DeviceGetTemperatureV returns the temperature.
func (n *model) DeviceGetTemperatureV(device raw.Device, temp *raw.Temperature) raw.Return {
	return n.then(n.answers.DeviceGetTemperatureV(device, temp), device, func(_ *gpu, now GPU) {
		temp.Temperature = int32(temperature(now))
	})
}

// DeviceGetMarginTemperature returns how much hotter the GPU may become.
func (n *model) DeviceGetMarginTemperature(device raw.Device, margin *raw.MarginTemperature) raw.Return {
	return n.then(n.answers.DeviceGetMarginTemperature(device, margin), device, func(g *gpu, now GPU) {
		margin.MarginTemperature = g.profile.Temperatures.Most - int32(temperature(now))
	})
}

// DeviceGetThermalSettings returns the temperatures of the sensors.
func (n *model) DeviceGetThermalSettings(device raw.Device, sensor uint32,
	settings *raw.GpuThermalSettings) raw.Return {
	return n.then(n.answers.DeviceGetThermalSettings(device, sensor, settings), device, func(_ *gpu, now GPU) {
		if settings.Sensor[0].CurrentTemp != 0 { // the sensor that was asked for
			settings.Sensor[0].CurrentTemp = int32(temperature(now))
		}
	})
}

// DeviceGetClockInfo returns the present frequency of a part of the GPU.
func (n *model) DeviceGetClockInfo(device raw.Device, kind raw.ClockType, mhz *uint32) raw.Return {
	return n.then(n.answers.DeviceGetClockInfo(device, kind, mhz), device,
		func(_ *gpu, now GPU) { *mhz = clock(now, kind) })
}

// DeviceGetClock returns the present frequency of a part of the GPU, or another one of it.
func (n *model) DeviceGetClock(device raw.Device, kind raw.ClockType, id raw.ClockId, mhz *uint32) raw.Return {
	r := n.answers.DeviceGetClock(device, kind, id, mhz)
	if id != raw.NVML_CLOCK_ID_CURRENT {
		return r
	}
	return n.then(r, device, func(_ *gpu, now GPU) { *mhz = clock(now, kind) })
}

// DeviceGetCurrentClocksEventReasons returns why clocks are not higher.
func (n *model) DeviceGetCurrentClocksEventReasons(device raw.Device, reasons *uint64) raw.Return {
	return n.then(n.answers.DeviceGetCurrentClocksEventReasons(device, reasons), device, func(g *gpu, now GPU) {
		*reasons = g.reasons
		s, most := &now.Settings, uint64(now.Profile.Clocks.Graphics)
		if now.Utilization == 0 {
			*reasons |= raw.ClocksEventReasonGpuIdle
		} else if s[mostClock] == 0 && s[appClock] != 0 && s[appClock] < most {
			*reasons |= raw.ClocksEventReasonApplicationsClocksSetting
		}
	})
}

// DeviceGetCurrentClocksThrottleReasons returns why clocks are not higher.
func (n *model) DeviceGetCurrentClocksThrottleReasons(device raw.Device, reasons *uint64) raw.Return {
	return n.DeviceGetCurrentClocksEventReasons(device, reasons)
}

// sampleEvery is the time between two samples.
const sampleEvery = 100 * time.Millisecond

// DeviceGetSamples returns what a GPU did, sample by sample, up to now. All have the present value.
func (n *model) DeviceGetSamples(device raw.Device, kind raw.SamplingType, since uint64, valueType *raw.ValueType,
	count *uint32,
	samples []raw.Sample) raw.Return {
	checks := n.answers.DeviceGetSamples(device, kind, since, valueType, count, samples)
	if len(samples) == 0 {
		return checks
	}
	return n.then(checks, device, func(g *gpu, now GPU) {
		var value uint32
		switch kind {
		case raw.NVML_TOTAL_POWER_SAMPLES:
			value = power(now)
		case raw.NVML_GPU_UTILIZATION_SAMPLES:
			value = percent(now.Utilization)
		case raw.NVML_MEMORY_UTILIZATION_SAMPLES:
			value = percent(memoryShare * now.Utilization)
		case raw.NVML_PROCESSOR_CLK_SAMPLES:
			value = clock(now, raw.NVML_CLOCK_SM)
		}
		end := n.timestamp()
		room := min(*count, uint32(len(samples)))
		*count = 0
		for i := range room {
			at := end - uint64(room-1-i)*uint64(sampleEvery.Microseconds())
			if at > since {
				samples[*count] = raw.Sample{TimeStamp: at}
				*samples[*count].SampleValue.UiVal() = value
				*count++
			}
		}
	})
}

// DeviceGetSupportedGraphicsClocks returns which frequencies of the multiprocessors go with one of the memory. The
// table has no answer for a frequency that the GPU has.
func (n *model) DeviceGetSupportedGraphicsClocks(device raw.Device, memory uint32, count *uint32,
	clocks []uint32) raw.Return {
	index, ok := n.indexOf(device)
	if !ok || count == nil {
		return n.answers.DeviceGetSupportedGraphicsClocks(device, memory, count, clocks)
	}
	p := n.machine.GPUs()[index].Profile
	if !isMemoryClock(p, memory) {
		return n.answers.DeviceGetSupportedGraphicsClocks(device, memory, count, clocks)
	}
	c := &p.Clocks
	steps := uint32((c.Graphics-c.Idle)/c.Step + 1)
	room := min(*count, uint32(len(clocks)))
	if *count = steps; room < steps {
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	for i := range clocks[:steps] {
		clocks[i] = uint32(c.Graphics - c.Step*int32(i))
	}
	return raw.NVML_SUCCESS
}

// DeviceGetSupportedPerformanceStates returns the performance states that a GPU has. A list may have any size: it gets
// the first ones, and the rest of it is set to NVML_PSTATE_UNKNOWN.
func (n *model) DeviceGetSupportedPerformanceStates(device raw.Device, states []raw.Pstates) raw.Return {
	all := make([]raw.Pstates, min(len(states), 1)*recordedSize)
	r := n.answers.DeviceGetSupportedPerformanceStates(device, all)
	if r != raw.NVML_SUCCESS {
		return r
	}
	for i := copy(states, all); i < len(states); i++ {
		states[i] = raw.NVML_PSTATE_UNKNOWN
	}
	return r
}

// recordedSize is the number of elements of the lists with which functions were recorded.
const recordedSize = 512
