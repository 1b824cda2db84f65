package nvml_test

import (
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// stateGPU has performance states.
type stateGPU struct {
	basis
	states int
	text   string
}

func (g *stateGPU) DeviceGetSupportedPerformanceStates(_ raw.Device, states []raw.Pstates) raw.Return {
	for i := range states {
		if states[i] = raw.Pstates(i); i >= g.states {
			states[i] = raw.NVML_PSTATE_UNKNOWN
		}
	}
	return raw.NVML_SUCCESS
}

func (g *stateGPU) DeviceGetDynamicPstatesInfo(_ raw.Device, info *raw.GpuDynamicPstatesInfo) raw.Return {
	info.Utilization[2] = raw.GpuDynamicPstatesInfoUtilization{BIsPresent: 1, Percentage: 40, IncThreshold: 80, DecThreshold: 10}
	return raw.NVML_SUCCESS
}

func (g *stateGPU) DeviceGetCurrentClockFreqs(_ raw.Device, freqs *raw.DeviceCurrentClockFreqs) raw.Return {
	copy(freqs.Str[:], g.text)
	return raw.NVML_SUCCESS
}

func (g *stateGPU) DeviceGetPerformanceModes(_ raw.Device, modes *raw.DevicePerfModes) raw.Return {
	copy(modes.Str[:], g.text)
	return raw.NVML_SUCCESS
}

func TestPerformance(t *testing.T) {
	g := &stateGPU{states: 2}
	d := deviceOf(t, g)
	wants(t, []nvml.PState{0, 1})(d.SupportedPerformanceStates())
	g.states = 16
	if all, err := d.SupportedPerformanceStates(); len(all) != 16 || err != nil {
		t.Errorf("the states are %v (%v)", all, err)
	}
	wants(t, []nvml.DomainUtilization{{Domain: nvml.DomainVideo, Use: 40, Raise: 80, Lower: 10}})(d.DynamicPStates())
	wants(t, nvml.ClockValues{})(d.CurrentClocks())
	wants(t, []nvml.ClockValues(nil))(d.PerformanceModes())
	g.text = "perf=0, nvclock=324, odd=x,\nnvclockeditable=0 ;\nperf=1, nvclock=640 ; "
	levels := []nvml.ClockValues{{"perf": 0, "nvclock": 324, "nvclockeditable": 0}, {"perf": 1, "nvclock": 640}}
	wants(t, levels)(d.PerformanceModes())
	wants(t, levels[0])(d.CurrentClocks())
}
