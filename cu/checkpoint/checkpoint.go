// Package checkpoint takes other processes that use CUDA off their GPUs, and puts them back later, as they were or on
// other GPUs. In between the GPUs are free for others, and the content of the process's device memory is in host
// memory. A program such as CRIU can save the process meanwhile.
//
//	drv, err := cu.Open()
//	job := checkpoint.Of(drv, pid)
//	err = job.Lock(ctx) // its calls of CUDA block now
//	err = job.Checkpoint(ctx)
//	// … the GPUs are free …
//	err = job.Restore(ctx)
//	err = job.Unlock(ctx)
//
// It needs Linux, and a driver for CUDA 12.8. Otherwise the errors match [errors.ErrUnsupported].
package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/subject"
	"github.com/purecu/purecu/internal/valuename"
	"github.com/purecu/purecu/internal/watch"
)

// State says whether a process can use CUDA (CUprocessState).
type State int32

const (
	// Running means that the process can call CUDA.
	Running State = driver.CU_PROCESS_STATE_RUNNING
	// Locked means that calls of CUDA block in the process.
	Locked State = driver.CU_PROCESS_STATE_LOCKED
	// Checkpointed means that the content of the process's device memory is in host memory, and that
	// the process holds no device.
	Checkpointed State = driver.CU_PROCESS_STATE_CHECKPOINTED
	// Failed means that a checkpoint or its restoration has failed. The process cannot recover.
	Failed State = driver.CU_PROCESS_STATE_FAILED
)

// String returns the name of the constant, or the number.
func (s State) String() string {
	return valuename.Of([]valuename.Name{
		{Value: int32(Running), Name: "Running"}, {Value: int32(Locked), Name: "Locked"},
		{Value: int32(Checkpointed), Name: "Checkpointed"}, {Value: int32(Failed), Name: "Failed"},
	}, int32(s))
}

// Process is another process that uses CUDA, which this one can checkpoint. It is a value, and is safe for
// concurrent use.
//
// A checkpoint is Lock and Checkpoint; Restore, or RestoreOn with other devices, and Unlock undo it.
// In between the process still runs, and its calls of CUDA block.
type Process struct {
	drv *core.Driver // nil if there is none
	pid int
}

// Of returns the process with this number. It makes no call of the driver.
func Of(drv *cu.Driver, pid int) Process { return Process{subject.Driver(drv), pid} }

// PID returns the number of the process.
func (p Process) PID() int { return p.pid }

// State returns the state of the process (cuCheckpointProcessGetState).
func (p Process) State() (State, error) {
	const op = "cuCheckpointProcessGetState"
	if err := p.check(op); err != nil {
		return 0, err
	}
	s, res := p.drv.Table().CheckpointProcessGetState(driver.At{}, int32(p.pid))
	return State(s), p.result(op, res)
}

// RestoreThread returns the number of the thread of the process that restores it
// (cuCheckpointProcessGetRestoreThreadId). A program that restores whole processes (CRIU) lets this
// thread run before [Process.Restore].
func (p Process) RestoreThread() (tid int, err error) {
	const op = "cuCheckpointProcessGetRestoreThreadId"
	if err := p.check(op); err != nil {
		return 0, err
	}
	t, res := p.drv.Table().CheckpointProcessGetRestoreThreadId(driver.At{}, int32(p.pid))
	return int(t), p.result(op, res)
}

// Lock makes the process's calls of CUDA block, after the present ones (cuCheckpointProcessLock). If
// ctx ends first, the process stays Running, and the error matches ctx.Err(). The process must
// be Running. This process cannot lock itself, because this library's own calls would block.
func (p Process) Lock(ctx context.Context) error {
	const (
		op   = "cuCheckpointProcessLock"
		once = 100 * time.Millisecond // the driver cannot be told that ctx has ended
	)
	if err := p.check(op); err != nil {
		return err
	}
	switch {
	case ctx == nil:
		return drivercall.NoGoContextError(op, nil)
	case p.pid == os.Getpid():
		return drivercall.BadValue(op, nil, "a process cannot lock itself: lock it from another process")
	case ctx.Err() != nil:
		return drivercall.NotCalledError(op, ctx)
	}
	clock := p.drv.Table().Clock()
	back := watch.BackOff{Policy: watch.Patient, Clock: clock}
	defer back.End()
	for ctx.Err() == nil {
		left := once
		if deadline, ok := ctx.Deadline(); ok {
			left = max(time.Millisecond, min(left, time.Until(deadline)))
		}
		args := driver.CheckpointLockArgs{TimeoutMs: uint32(left.Milliseconds())}
		begun := clock.Now()
		switch res := p.drv.Table().CheckpointProcessLock(driver.At{}, int32(p.pid), &args); res {
		case driver.ResultNotReady, driver.ResultTimeout:
			if clock.Now().Sub(begun) < left/2 { // the driver did not wait
				back.Wait()
			}
		default:
			return p.result(op, res)
		}
	}
	return &cu.Error{Op: op, Result: cu.ResultTimeout, Err: drivercall.EndedError(ctx), Detail: fmt.Sprintf(
		"process %d: a call of CUDA in the process has not returned: try again later", p.pid)}
}

// Checkpoint copies the process's device memory to host memory, and releases its devices
// (cuCheckpointProcessCheckpoint). The process must be Locked. It takes as long as the copy. If
// ctx ends first, the error matches ctx.Err(), and the call continues: see [cu.OpenContext].
func (p Process) Checkpoint(ctx context.Context) error {
	return p.call(ctx, "cuCheckpointProcessCheckpoint", func(t *driver.Table, pid int32) driver.Result {
		return t.CheckpointProcessCheckpoint(driver.At{}, pid, nil)
	})
}

// Restore gives the process its devices and its device memory back
// (cuCheckpointProcessRestore). The process must be Checkpointed, and is Locked then.
// ctx is as for [Process.Checkpoint]. [Process.RestoreOn] gives it other devices.
func (p Process) Restore(ctx context.Context) error {
	return p.call(ctx, "cuCheckpointProcessRestore", func(t *driver.Table, pid int32) driver.Result {
		return t.CheckpointProcessRestore(driver.At{}, pid, nil)
	})
}

// RestoreOn is [Process.Restore] on other GPUs (CUDA 13.0). For the UUID of each GPU that the process
// was checkpointed on, gpus has the UUID of the GPU on which it continues: see [cu.Device.UUID]. A GPU on
// which it stays is mapped to itself.
//
// NVIDIA documents that gpus must have every GPU of the checkpoint, also if only one changes, and that
// a new GPU needs the same type of chip as the old one, and enough memory. Otherwise the driver returns
// an error, such as [cu.ResultInvalidValue].
func (p Process) RestoreOn(ctx context.Context, gpus map[cu.UUID]cu.UUID) error {
	const op = "cuCheckpointProcessRestore"
	if err := p.check(op); err != nil {
		return err
	}
	pairs, err := p.pairs(op, gpus)
	if err != nil {
		return err
	}
	args := &driver.CheckpointRestoreArgs{GpuPairs: &pairs[0], GpuPairsCount: uint32(len(pairs))}
	return p.call(ctx, op, func(t *driver.Table, pid int32) driver.Result {
		return t.CheckpointProcessRestore(driver.At{}, pid, args)
	})
}

// pairs returns the pairs of GPUs for the driver, in the order of the old ones.
func (p Process) pairs(op string, gpus map[cu.UUID]cu.UUID) ([]driver.CheckpointGpuPair, error) {
	const since = 13000 // older drivers do not know the arguments
	if v := p.drv.Table().Version(); v < since {
		return nil, &cu.Error{Op: op, Result: cu.ResultNotSupported, Err: errors.ErrUnsupported, Detail: fmt.Sprintf(
			"process %d: RestoreOn needs a driver for CUDA %v, and this one is for CUDA %v: update the driver, or "+
				"use Restore, which needs the same GPUs", p.pid, cu.Version(since), cu.Version(v))}
	}
	if len(gpus) == 0 {
		return nil, drivercall.BadValue(op, nil, fmt.Sprintf(
			"process %d: no GPU is mapped: map every GPU of the process, or use Restore", p.pid))
	}
	var pairs []driver.CheckpointGpuPair
	for _, old := range slices.SortedFunc(maps.Keys(gpus), func(a, b cu.UUID) int { return bytes.Compare(a[:], b[:]) }) {
		if old == (cu.UUID{}) || gpus[old] == (cu.UUID{}) {
			return nil, drivercall.BadValue(op, nil, fmt.Sprintf("process %d: %v is mapped to %v, "+
				"and no GPU has a UUID of zeros: check the error of Device.UUID", p.pid, old, gpus[old]))
		}
		pairs = append(pairs, driver.CheckpointGpuPair{OldUuid: driver.UUID(old), NewUuid: driver.UUID(gpus[old])})
	}
	return pairs, nil
}

// Unlock lets the process's calls of CUDA continue (cuCheckpointProcessUnlock). The process must be
// Locked. ctx is as for [Process.Checkpoint].
func (p Process) Unlock(ctx context.Context) error {
	return p.call(ctx, "cuCheckpointProcessUnlock", func(t *driver.Table, pid int32) driver.Result {
		return t.CheckpointProcessUnlock(driver.At{}, pid, nil)
	})
}

// call makes a call that may take long.
func (p Process) call(ctx context.Context, op string, f func(*driver.Table, int32) driver.Result) error {
	if err := p.check(op); err != nil {
		return err
	}
	continues := fmt.Sprintf("process %d: the call continues: Process.State tells when it has ended", p.pid)
	_, err := drivercall.CallUntil(ctx, op, continues, func() (struct{}, error) {
		return struct{}{}, p.result(op, f(p.drv.Table(), int32(p.pid)))
	}, func(struct{}) {})
	return err
}

// check returns an error if p is no process.
func (p Process) check(op string) error {
	switch {
	case p.drv == nil:
		return drivercall.NilError(op, "process")
	case p.pid <= 0 || p.pid > math.MaxInt32:
		return drivercall.BadValue(op, nil, "the number of a process is positive")
	}
	return nil
}

// result returns the error for a result of the driver, or nil.
func (p Process) result(op string, res driver.Result) error {
	if res == driver.ResultSuccess {
		return nil
	}
	e := p.drv.ResultError(op, 0, res)
	e.Detail = drivercall.JoinText(fmt.Sprintf("process %d", p.pid), e.Detail)
	return e
}
