package simnvml

import (
	"testing"

	"github.com/purecu/purecu/nvml/raw"
)

// TestUUIDWithoutPrefix finds GPUs by a UUID as CUDA's programs write it.
func TestUUIDWithoutPrefix(t *testing.T) {
	b := newBench(t, 2)
	for i, want := range b.gpus {
		var got raw.Device
		succeeds(t, b.DeviceGetHandleByUUID(b.machine.gpus[i].UUID[len("GPU-"):], &got))
		if got != want {
			t.Errorf("GPU %d has the handle %#x, want %#x", i, got, want)
		}
	}
	returns(t, b.DeviceGetHandleByUUID(b.machine.gpus[0].UUID[1:], new(raw.Device)), raw.NVML_ERROR_NOT_FOUND)
}
