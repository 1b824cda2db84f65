package simnvml

import (
	"testing"

	"github.com/purecu/purecu/nvml/raw"
)

// TestBAR1 uses more memory than the processor can address: that of a T4 is small.
func TestBAR1(t *testing.T) {
	b := newBenchOf(t, "T4,H200")
	for i, device := range b.gpus {
		b.machine.gpus[i].Used = 1 << 30
		var bar raw.BAR1Memory
		succeeds(t, b.DeviceGetBAR1MemoryInfo(device, &bar))
		if total := b.machine.gpus[i].Profile.Memory.BAR1; bar.Bar1Total != total || bar.Bar1Used+bar.Bar1Free != total ||
			bar.Bar1Used > total {
			t.Errorf("GPU %d: %+v", i, bar)
		}
	}
}

// TestLackingSetters calls functions that set what older GPUs do not have.
func TestLackingSetters(t *testing.T) {
	b := newBenchOf(t, "T4,A100,H200")
	for i, want := range []struct{ memory, gpm raw.Return }{
		{raw.NVML_ERROR_NOT_SUPPORTED, raw.NVML_ERROR_NOT_SUPPORTED}, {0, raw.NVML_ERROR_NOT_SUPPORTED}, {0, 0},
	} {
		mhz := uint32(b.machine.gpus[i].Profile.Clocks.Memory)
		returns(t, b.DeviceSetMemoryLockedClocks(b.gpus[i], mhz, mhz), want.memory)
		returns(t, b.DeviceResetMemoryLockedClocks(b.gpus[i]), want.memory)
		returns(t, b.GpmSetStreamingEnabled(b.gpus[i], 1), want.gpm)
	}
}
