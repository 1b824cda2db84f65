package sim

import (
	"os"

	"github.com/purecu/purecu/driver"
)

// Other processes cannot use this driver. To it every number but its own process's is a process with
// CUDA, whose state is the only thing that calls change.

// checkpoint is a call about a process's state. It moves the process from one state to another.
func (d *Driver) checkpoint(op string, pid, from, to int32) driver.Result {
	r := d.begin(op)
	defer d.mu.Unlock()
	switch {
	case r != ok:
		return r
	case pid <= 0:
		return driver.ResultInvalidValue
	case int(pid) == os.Getpid():
		return driver.ResultNotSupported
	case d.processes[pid] != from:
		return driver.ResultIllegalState
	}
	if d.processes == nil {
		d.processes = make(map[int32]int32)
	}
	d.processes[pid] = to
	return ok
}

// CheckpointProcessGetState is cuCheckpointProcessGetState.
func (d *Driver) CheckpointProcessGetState(_ *driver.Thread, pid int32) (int32, driver.Result) {
	r := d.begin("cuCheckpointProcessGetState")
	defer d.mu.Unlock()
	if r == ok && pid <= 0 {
		r = driver.ResultInvalidValue
	}
	return d.processes[pid], r
}

// CheckpointProcessGetRestoreThreadId is cuCheckpointProcessGetRestoreThreadId.
func (d *Driver) CheckpointProcessGetRestoreThreadId(_ *driver.Thread, pid int32) (int32, driver.Result) {
	r := d.begin("cuCheckpointProcessGetRestoreThreadId")
	defer d.mu.Unlock()
	if r == ok && pid <= 0 {
		r = driver.ResultInvalidValue
	}
	return pid, r
}

// CheckpointProcessLock is cuCheckpointProcessLock.
func (d *Driver) CheckpointProcessLock(_ *driver.Thread, pid int32, _ *driver.CheckpointLockArgs) driver.Result {
	return d.checkpoint("cuCheckpointProcessLock", pid, driver.CU_PROCESS_STATE_RUNNING, driver.CU_PROCESS_STATE_LOCKED)
}

// CheckpointProcessCheckpoint is cuCheckpointProcessCheckpoint.
func (d *Driver) CheckpointProcessCheckpoint(_ *driver.Thread, pid int32,
	_ *driver.CheckpointCheckpointArgs) driver.Result {
	return d.checkpoint("cuCheckpointProcessCheckpoint", pid, driver.CU_PROCESS_STATE_LOCKED,
		driver.CU_PROCESS_STATE_CHECKPOINTED)
}

// CheckpointProcessRestore is cuCheckpointProcessRestore.
func (d *Driver) CheckpointProcessRestore(_ *driver.Thread, pid int32, _ *driver.CheckpointRestoreArgs) driver.Result {
	return d.checkpoint("cuCheckpointProcessRestore", pid, driver.CU_PROCESS_STATE_CHECKPOINTED,
		driver.CU_PROCESS_STATE_LOCKED)
}

// CheckpointProcessUnlock is cuCheckpointProcessUnlock.
func (d *Driver) CheckpointProcessUnlock(_ *driver.Thread, pid int32, _ *driver.CheckpointUnlockArgs) driver.Result {
	return d.checkpoint("cuCheckpointProcessUnlock", pid, driver.CU_PROCESS_STATE_LOCKED,
		driver.CU_PROCESS_STATE_RUNNING)
}
