package sim

import (
	"os"
	"slices"

	"github.com/purecu/purecu/driver"
)

// Other processes cannot use this driver. To it every number but its own process's is a process with
// CUDA, whose state is the only thing that calls change. Such a process uses all devices. As on an H200, the process
// that calls needs no cuInit.

// checkpoint is a call about a process's state. It moves the process from one state to another. args
// are those of a restoration.
func (d *Driver) checkpoint(name string, pid, from, to int32, args *driver.CheckpointRestoreArgs) driver.Result {
	r := d.enter(name)
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
	case args != nil && !d.restores(args):
		return driver.ResultInvalidValue
	}
	if d.processes == nil {
		d.processes = make(map[int32]int32)
	}
	d.processes[pid] = to
	return ok
}

// restores reports whether a process can be restored with these arguments. NVIDIA documents that there
// must be a pair for every GPU of the checkpoint, if there are pairs. Two old GPUs for one new one are
// refused, as it is not known whether a GPU's driver takes them.
func (d *Driver) restores(args *driver.CheckpointRestoreArgs) bool {
	var known driver.CheckpointRestoreArgs // the other members are reserved, and must be zero
	if d.version >= 13000 {
		known.GpuPairs, known.GpuPairsCount = args.GpuPairs, args.GpuPairsCount
	}
	pairs := elements(args.GpuPairs, args.GpuPairsCount)
	if *args != known || len(pairs) != int(args.GpuPairsCount) {
		return false
	}
	if len(pairs) == 0 { // the process returns to its GPUs
		return true
	}
	if len(pairs) != len(d.devices) {
		return false
	}
	for _, v := range d.devices {
		id := v.uuid()
		if !slices.ContainsFunc(pairs, func(p driver.CheckpointGpuPair) bool { return p.OldUuid == id }) ||
			!slices.ContainsFunc(pairs, func(p driver.CheckpointGpuPair) bool { return p.NewUuid == id }) {
			return false
		}
	}
	return true
}

// CheckpointProcessGetState is cuCheckpointProcessGetState.
func (d *Driver) CheckpointProcessGetState(_ *driver.Thread, pid int32) (int32, driver.Result) {
	r := d.enter("cuCheckpointProcessGetState")
	defer d.mu.Unlock()
	if r == ok && pid <= 0 {
		r = driver.ResultInvalidValue
	}
	return d.processes[pid], r
}

// CheckpointProcessGetRestoreThreadId is cuCheckpointProcessGetRestoreThreadId.
func (d *Driver) CheckpointProcessGetRestoreThreadId(_ *driver.Thread, pid int32) (int32, driver.Result) {
	r := d.enter("cuCheckpointProcessGetRestoreThreadId")
	defer d.mu.Unlock()
	if r == ok && pid <= 0 {
		r = driver.ResultInvalidValue
	}
	return pid, r
}

// CheckpointProcessLock is cuCheckpointProcessLock.
func (d *Driver) CheckpointProcessLock(_ *driver.Thread, pid int32, _ *driver.CheckpointLockArgs) driver.Result {
	return d.checkpoint("cuCheckpointProcessLock", pid, driver.CU_PROCESS_STATE_RUNNING,
		driver.CU_PROCESS_STATE_LOCKED, nil)
}

// CheckpointProcessCheckpoint is cuCheckpointProcessCheckpoint.
func (d *Driver) CheckpointProcessCheckpoint(_ *driver.Thread, pid int32,
	_ *driver.CheckpointCheckpointArgs) driver.Result {
	return d.checkpoint("cuCheckpointProcessCheckpoint", pid, driver.CU_PROCESS_STATE_LOCKED,
		driver.CU_PROCESS_STATE_CHECKPOINTED, nil)
}

// CheckpointProcessRestore is cuCheckpointProcessRestore.
func (d *Driver) CheckpointProcessRestore(_ *driver.Thread, pid int32,
	args *driver.CheckpointRestoreArgs) driver.Result {
	return d.checkpoint("cuCheckpointProcessRestore", pid, driver.CU_PROCESS_STATE_CHECKPOINTED,
		driver.CU_PROCESS_STATE_LOCKED, args)
}

// CheckpointProcessUnlock is cuCheckpointProcessUnlock.
func (d *Driver) CheckpointProcessUnlock(_ *driver.Thread, pid int32, _ *driver.CheckpointUnlockArgs) driver.Result {
	return d.checkpoint("cuCheckpointProcessUnlock", pid, driver.CU_PROCESS_STATE_LOCKED,
		driver.CU_PROCESS_STATE_RUNNING, nil)
}
