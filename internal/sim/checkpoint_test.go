package sim

import (
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
)

// TestCheckpointRestoreArgs restores processes with and without pairs of GPUs.
func TestCheckpointRestoreArgs(t *testing.T) {
	const pid = 4711
	a, b, other := newDevice(0, profile.Default()).uuid(), newDevice(1, profile.Default()).uuid(), driver.UUID{1}
	given := func(uuids ...driver.UUID) *driver.CheckpointRestoreArgs {
		var pairs []driver.CheckpointGpuPair
		for i := 0; i < len(uuids); i += 2 {
			pairs = append(pairs, driver.CheckpointGpuPair{OldUuid: uuids[i], NewUuid: uuids[i+1]})
		}
		return &driver.CheckpointRestoreArgs{GpuPairs: &pairs[0], GpuPairsCount: uint32(len(pairs))}
	}
	reserved := given(a, a, b, b)
	reserved.Reserved[39] = 1
	const invalid = driver.ResultInvalidValue
	for _, tt := range []struct {
		name    string
		version int
		args    *driver.CheckpointRestoreArgs
		want    driver.Result
	}{
		{"no arguments", 13000, nil, ok},
		{"no pairs", 13000, &driver.CheckpointRestoreArgs{}, ok},
		{"no pairs, CUDA 12.8", 12080, &driver.CheckpointRestoreArgs{}, ok},
		{"the same GPUs", 13000, given(a, a, b, b), ok},
		{"the same GPUs, CUDA 12.8", 12080, given(a, a, b, b), invalid},
		{"each other's GPU", 13000, given(b, a, a, b), ok},
		{"one of two GPUs", 13000, given(a, b), invalid},
		{"more than all GPUs", 13000, given(a, a, b, b, other, other), invalid},
		{"an old GPU twice", 13000, given(a, a, a, b), invalid},
		{"a new GPU twice", 13000, given(a, a, b, a), invalid},
		{"an unknown old GPU", 13000, given(a, a, other, b), invalid},
		{"an unknown new GPU", 13000, given(a, a, b, other), invalid},
		{"a number without pairs", 13000, &driver.CheckpointRestoreArgs{GpuPairsCount: 2}, invalid},
		{"a reserved member", 13000, reserved, invalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Devices(2), Version(tt.version))
			restore := func() driver.Result { return r.tab.CheckpointProcessRestore(driver.At{}, pid, tt.args) }
			r.want(driver.ResultIllegalState, restore())
			r.ok(r.tab.CheckpointProcessLock(driver.At{}, pid, nil))
			r.ok(r.tab.CheckpointProcessCheckpoint(driver.At{}, pid, nil))
			r.want(tt.want, restore())
			state, res := r.tab.CheckpointProcessGetState(driver.At{}, pid)
			r.ok(res)
			if restored := state == driver.CU_PROCESS_STATE_LOCKED; restored != (tt.want == ok) {
				t.Errorf("the state is %d", state)
			}
		})
	}
}

// TestCheckpointWithoutInit checkpoints another process from one that has not called cuInit.
func TestCheckpointWithoutInit(t *testing.T) {
	const pid = 4711
	d := New(Devices(2))
	uuids := [2]driver.UUID{newDevice(0, profile.Default()).uuid(), newDevice(1, profile.Default()).uuid()}
	pairs := []driver.CheckpointGpuPair{{OldUuid: uuids[0], NewUuid: uuids[1]}, {OldUuid: uuids[1], NewUuid: uuids[0]}}
	state := func(want int32) {
		t.Helper()
		if got, r := d.CheckpointProcessGetState(nil, pid); got != want || r != ok {
			t.Errorf("the state is %d, %v; want %d", got, r, want)
		}
	}
	succeeds := func(r driver.Result) {
		t.Helper()
		if r != ok {
			t.Error(r)
		}
	}
	state(driver.CU_PROCESS_STATE_RUNNING)
	id, r := d.CheckpointProcessGetRestoreThreadId(nil, pid)
	if succeeds(r); id <= 0 {
		t.Errorf("the thread that restores is %d", id)
	}
	succeeds(d.CheckpointProcessLock(nil, pid, nil))
	state(driver.CU_PROCESS_STATE_LOCKED)
	succeeds(d.CheckpointProcessCheckpoint(nil, pid, nil))
	state(driver.CU_PROCESS_STATE_CHECKPOINTED)
	succeeds(d.CheckpointProcessRestore(nil, pid, &driver.CheckpointRestoreArgs{GpuPairs: &pairs[0], GpuPairsCount: 2}))
	state(driver.CU_PROCESS_STATE_LOCKED)
	succeeds(d.CheckpointProcessUnlock(nil, pid, nil))
	state(driver.CU_PROCESS_STATE_RUNNING)
}
