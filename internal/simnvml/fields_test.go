package simnvml

import (
	"testing"

	"github.com/purecu/purecu/nvml/raw"
)

// TestClearFieldValues sets a counter to 0.
func TestClearFieldValues(t *testing.T) {
	b := newBench(t, 2)
	get := func(gpu int, id uint32) uint32 {
		t.Helper()
		f := []raw.FieldValue{{FieldId: id}}
		succeeds(t, b.DeviceGetFieldValues(b.gpus[gpu], f))
		returns(t, f[0].NvmlReturn, raw.NVML_SUCCESS)
		return *f[0].Value.UiVal()
	}
	const replays = raw.NVML_FI_DEV_PCIE_REPLAY_COUNTER
	if get(0, replays) == 0 {
		t.Fatal("the counter is 0 before")
	}
	f := []raw.FieldValue{{FieldId: replays}, {FieldId: raw.NVML_FI_DEV_POWER_INSTANT}, {FieldId: 1 << 20}}
	succeeds(t, b.DeviceClearFieldValues(b.gpus[0], f))
	for i, want := range []raw.Return{raw.NVML_SUCCESS, raw.NVML_ERROR_INVALID_ARGUMENT,
		raw.NVML_ERROR_INVALID_ARGUMENT} {
		if f[i].NvmlReturn != want {
			t.Errorf("field %d: %v, want %v", f[i].FieldId, f[i].NvmlReturn, want)
		}
	}
	var count [2]uint32
	for i := range count {
		succeeds(t, b.DeviceGetPcieReplayCounter(b.gpus[i], &count[i]))
	}
	if got := [2]uint32{get(0, replays), get(1, replays)}; got != [2]uint32{0, 1} || got != count {
		t.Errorf("the counters are %d and %d", got, count)
	}
	returns(t, b.DeviceClearFieldValues(0, f[:1]), b.DeviceGetFieldValues(0, f[:1]))
}

// TestSupportedPerformanceStates asks for the states with lists of sizes that were not recorded.
func TestSupportedPerformanceStates(t *testing.T) {
	b := newBench(t, 1)
	for _, n := range []int{1, 2, 3, 16, 600} {
		states := make([]raw.Pstates, n)
		succeeds(t, b.DeviceGetSupportedPerformanceStates(b.gpus[0], states))
		for i, got := range states {
			want := raw.Pstates(raw.NVML_PSTATE_UNKNOWN)
			if i < 2 {
				want = []raw.Pstates{raw.NVML_PSTATE_2, raw.NVML_PSTATE_0}[i]
			}
			if got != want {
				t.Errorf("%d of %d is %d, want %d", i, n, got, want)
			}
		}
	}
	returns(t, b.DeviceGetSupportedPerformanceStates(b.gpus[0], nil), raw.NVML_ERROR_INVALID_ARGUMENT)
}
