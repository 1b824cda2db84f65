package nvml_test

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// BenchmarkCalls makes calls to the first GPU, as programs that watch GPUs do. It also compiles with go-nvml.
func BenchmarkCalls(b *testing.B) {
	if ret := nvml.Init(); ret != nvml.SUCCESS {
		b.Skipf("there is no NVML: %v", ret)
	}
	defer nvml.Shutdown()
	d, ret := nvml.DeviceGetHandleByIndex(0)
	if ret != nvml.SUCCESS {
		b.Skipf("there is no GPU: %v", ret)
	}
	for _, bench := range []struct {
		name string
		call func() nvml.Return
	}{
		{"DeviceGetHandleByIndex", func() nvml.Return { _, ret := nvml.DeviceGetHandleByIndex(0); return ret }},
		{"GetIndex", func() nvml.Return { _, ret := d.GetIndex(); return ret }},
		{"GetMaxPcieLinkWidth", func() nvml.Return { _, ret := d.GetMaxPcieLinkWidth(); return ret }},
		{"GetEnforcedPowerLimit", func() nvml.Return { _, ret := d.GetEnforcedPowerLimit(); return ret }},
		{"GetPerformanceState", func() nvml.Return { _, ret := d.GetPerformanceState(); return ret }},
		{"GetName", func() nvml.Return { _, ret := d.GetName(); return ret }},
		{"GetTemperature", func() nvml.Return { _, ret := d.GetTemperature(nvml.TEMPERATURE_GPU); return ret }},
		{"GetPowerUsage", func() nvml.Return { _, ret := d.GetPowerUsage(); return ret }},
		{"GetMemoryInfo", func() nvml.Return { _, ret := d.GetMemoryInfo(); return ret }},
		{"GetUtilizationRates", func() nvml.Return { _, ret := d.GetUtilizationRates(); return ret }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			if ret := bench.call(); ret != nvml.SUCCESS {
				b.Skip(ret)
			}
			b.ReportAllocs()
			for b.Loop() {
				bench.call()
			}
		})
	}
}
