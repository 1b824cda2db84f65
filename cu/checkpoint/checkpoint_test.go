package checkpoint_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/checkpoint"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/testrig/override"
)

// TestProcess makes every call in every state.
func TestProcess(t *testing.T) {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))(t)
	p := checkpoint.Of(drv, 4711)
	if p.PID() != 4711 {
		t.Errorf("PID = %d", p.PID())
	}
	steps := map[string]func(context.Context) error{"lock": p.Lock, "checkpoint": p.Checkpoint, "restore": p.Restore,
		"unlock": p.Unlock}
	for _, at := range []struct {
		state   checkpoint.State
		allowed map[string]checkpoint.State
		next    string
	}{
		{checkpoint.Running, map[string]checkpoint.State{"lock": checkpoint.Locked}, "lock"},
		{checkpoint.Locked, map[string]checkpoint.State{"checkpoint": checkpoint.Checkpointed, "unlock": checkpoint.Running},
			"checkpoint"},
		{checkpoint.Checkpointed, map[string]checkpoint.State{"restore": checkpoint.Locked}, "restore"},
		{checkpoint.Locked, map[string]checkpoint.State{"checkpoint": checkpoint.Checkpointed, "unlock": checkpoint.Running}, "unlock"},
	} {
		if s := must(p.State())(t); s != at.state {
			t.Fatalf("it is %v, want %v", s, at.state)
		}
		for name, step := range steps {
			if _, ok := at.allowed[name]; ok {
				continue
			}
			if err := step(t.Context()); !errors.Is(err, cu.ResultIllegalState) ||
				!strings.Contains(err.Error(), "process 4711; the process is in another state: ") {
				t.Errorf("%s while %v: %v", name, at.state, err)
			}
		}
		if err := steps[at.next](t.Context()); err != nil {
			t.Errorf("%s while %v: %v", at.next, at.state, err)
		}
		if s := must(p.State())(t); s != at.allowed[at.next] {
			t.Errorf("after %s: %v", at.next, s)
		}
	}
	if tid := must(p.RestoreThread())(t); tid <= 0 {
		t.Errorf("the thread is %d", tid)
	}
	for s, name := range map[checkpoint.State]string{checkpoint.Running: "Running", checkpoint.Locked: "Locked",
		checkpoint.Checkpointed: "Checkpointed", checkpoint.Failed: "Failed", 9: "9", -1: "-1"} {
		if s.String() != name {
			t.Errorf("state %d is %v, want %s", int32(s), s, name)
		}
	}
}

// processHooks is a driver that calls functions before calls about other processes.
type processHooks struct {
	Software         driver.Software
	lock, checkpoint func()
}

func (d *processHooks) CheckpointProcessLock(th *driver.Thread, pid int32,
	args *driver.CheckpointLockArgs) driver.Result {
	if d.lock != nil {
		d.lock()
	}
	return d.Software.CheckpointProcessLock(th, pid, args)
}

func (d *processHooks) CheckpointProcessCheckpoint(th *driver.Thread, pid int32,
	args *driver.CheckpointCheckpointArgs) driver.Result {
	if d.checkpoint != nil {
		d.checkpoint()
	}
	return d.Software.CheckpointProcessCheckpoint(th, pid, args)
}

// TestProcessErrors checks what is refused, and that calls end with their context.
func TestProcessErrors(t *testing.T) {
	sim := cusim.New()
	hooks := &processHooks{Software: sim.Software()}
	drv := must(cu.Open(cu.WithSoftware(driver.Provide(override.Driver(hooks)))))(t)
	each := func(p checkpoint.Process, ctx context.Context) map[string]error {
		_, state := p.State()
		_, thread := p.RestoreThread()
		return map[string]error{"State": state, "RestoreThread": thread,
			"Lock": p.Lock(ctx), "Checkpoint": p.Checkpoint(ctx), "Restore": p.Restore(ctx), "Unlock": p.Unlock(ctx)}
	}
	var noDriver *cu.Driver
	for what, p := range map[string]checkpoint.Process{"the zero Process": {}, "a process of a nil Driver": checkpoint.Of(noDriver, 4711),
		"a process of a zero Driver": checkpoint.Of(new(cu.Driver), 4711)} {
		for name, err := range each(p, t.Context()) {
			if !errors.Is(err, cu.ErrNil) || !strings.Contains(err.Error(), "the process is nil") {
				t.Errorf("%s of %s: %v", name, what, err)
			}
		}
	}
	for _, pid := range []int{0, -1, 1 << 31} {
		for name, err := range each(checkpoint.Of(drv, pid), t.Context()) {
			if !errors.Is(err, cu.ResultInvalidValue) {
				t.Errorf("%s of process %d: %v", name, pid, err)
			}
		}
	}
	if err := checkpoint.Of(drv, os.Getpid()).Lock(t.Context()); !errors.Is(err, cu.ResultInvalidValue) ||
		!strings.Contains(err.Error(), "cannot lock itself") {
		t.Errorf("Lock of this process: %v", err)
	}
	p := checkpoint.Of(drv, 4711)
	var none context.Context
	if err := p.Lock(none); !errors.Is(err, cu.ErrNil) {
		t.Errorf("Lock without a context: %v", err)
	}

	errLate := errors.New("late")
	sim.Inject(cusim.Fault{Function: "cuCheckpointProcessLock", Every: true, Code: 600})
	ctx, cancel := context.WithCancelCause(t.Context())
	hooks.lock = func() { cancel(errLate) }
	if err := p.Lock(ctx); !errors.Is(err, errLate) || !errors.Is(err, cu.ResultTimeout) {
		t.Errorf("Lock of a busy process: %v", err)
	}
	hooks.lock = nil
	ended, cause := ended()
	for name, err := range map[string]error{"Lock": p.Lock(ended), "Checkpoint": p.Checkpoint(ended)} {
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "the driver was not called") {
			t.Errorf("%s with a context that has ended: %v", name, err)
		}
	}
	sim.ClearFaults()
	sim.Inject(cusim.Fault{Function: "cuCheckpointProcessLock", Code: 600})
	if err := p.Lock(t.Context()); err != nil {
		t.Errorf("the second attempt: %v", err)
	}
	goOn := make(chan struct{})
	ctx, cancel = context.WithCancelCause(t.Context())
	hooks.checkpoint = func() { cancel(errLate); <-goOn }
	if err := p.Checkpoint(ctx); !errors.Is(err, errLate) ||
		!strings.Contains(err.Error(), "process 4711: the call continues") {
		t.Errorf("a slow checkpoint: %v", err)
	}
	close(goOn)
	for late := time.Now().Add(10 * time.Second); must(p.State())(t) != checkpoint.Checkpointed; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the call does not continue")
		}
	}

	old := must(cu.Open(cu.WithSoftware(cusim.New(cusim.Version(12060)))))(t)
	for name, err := range each(checkpoint.Of(old, 4711), t.Context()) {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s with CUDA 12.6: %v", name, err)
		}
	}
}

// TestProcessRestoreOn restores a process on other GPUs.
func TestProcessRestoreOn(t *testing.T) {
	drv := must(cu.Open(cu.WithSoftware(cusim.New(cusim.Devices(2)))))(t)
	a, b := must(must(drv.Device(0))(t).UUID())(t), must(must(drv.Device(1))(t).UUID())(t)
	p := checkpoint.Of(drv, 4711)
	swapped, same := map[cu.UUID]cu.UUID{a: b, b: a}, map[cu.UUID]cu.UUID{a: a, b: b}
	if err := p.RestoreOn(t.Context(), swapped); !errors.Is(err, cu.ResultIllegalState) {
		t.Errorf("while it runs: %v", err)
	}
	for _, err := range []error{p.Lock(t.Context()), p.Checkpoint(t.Context())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var none context.Context
	ended, cause := ended()
	const zeros, missing = "check the error of Device.UUID", "map every GPU that the process"
	on := func(gpus map[cu.UUID]cu.UUID) error { return p.RestoreOn(t.Context(), gpus) }
	for name, tt := range map[string]struct {
		err, is error
		says    string
	}{
		"no process":    {checkpoint.Process{}.RestoreOn(t.Context(), same), cu.ErrNil, "the process is nil"},
		"no context":    {p.RestoreOn(none, same), cu.ErrNil, ""},
		"an ended one":  {p.RestoreOn(ended, same), cause, "the driver was not called"},
		"no map":        {on(nil), drivercall.ErrInvalid, "or use Restore"},
		"no GPU":        {on(map[cu.UUID]cu.UUID{}), drivercall.ErrInvalid, "map every GPU of the process"},
		"a zero old":    {on(map[cu.UUID]cu.UUID{{}: a, b: b}), drivercall.ErrInvalid, zeros},
		"a zero new":    {on(map[cu.UUID]cu.UUID{a: {}, b: b}), drivercall.ErrInvalid, a.String() + " is mapped to "},
		"one of two":    {on(map[cu.UUID]cu.UUID{a: b}), cu.ResultInvalidValue, missing},
		"two to one":    {on(map[cu.UUID]cu.UUID{a: b, b: b}), cu.ResultInvalidValue, "each to another one"},
		"an absent one": {on(map[cu.UUID]cu.UUID{a: {9}, b: b}), cu.ResultInvalidValue, "of the same chip"},
	} {
		if !errors.Is(tt.err, tt.is) || !strings.Contains(tt.err.Error(), tt.says) {
			t.Errorf("%s: %v", name, tt.err)
		}
	}
	for _, gpus := range []map[cu.UUID]cu.UUID{swapped, same} {
		if s := must(p.State())(t); s != checkpoint.Checkpointed {
			t.Fatalf("it is %v", s)
		}
		if err := p.RestoreOn(t.Context(), gpus); err != nil {
			t.Fatal(err)
		}
		if s := must(p.State())(t); s != checkpoint.Locked {
			t.Fatalf("it is %v", s)
		}
		if err := p.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestProcessRestoreOnOld checks that no driver before CUDA 13.0 is called, as it knows no pairs of GPUs.
func TestProcessRestoreOnOld(t *testing.T) {
	for _, version := range []int{12060, 12080, 12090} {
		old := &restoreCount{Software: cusim.New(cusim.Version(version)).Software()}
		p := checkpoint.Of(must(cu.Open(cu.WithSoftware(driver.Provide(override.Driver(old)))))(t), 4711)
		err := p.RestoreOn(t.Context(), map[cu.UUID]cu.UUID{{1}: {1}})
		if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, cu.ResultNotSupported) ||
			!strings.Contains(err.Error(), "needs a driver for CUDA 13.0, and this one is for CUDA "+
				cu.Version(version).String()) {
			t.Errorf("CUDA %d: %v", version, err)
		}
		if old.calls != 0 {
			t.Errorf("CUDA %d: the driver was called", version)
		}
	}
}

// restoreCount is a driver that counts restorations.
type restoreCount struct {
	Software driver.Software
	calls    int
}

func (d *restoreCount) CheckpointProcessRestore(th *driver.Thread, pid int32,
	args *driver.CheckpointRestoreArgs) driver.Result {
	d.calls++
	return d.Software.CheckpointProcessRestore(th, pid, args)
}

// slowLock is a driver in virtual time that takes a time to lock a process. Its clock counts the timers that are made,
// and lets their time pass.
type slowLock struct {
	Software driver.Software
	sim      *cusim.Driver
	slow     time.Duration
	timers   int
}

func (d *slowLock) CheckpointProcessLock(th *driver.Thread, pid int32,
	args *driver.CheckpointLockArgs) driver.Result {
	d.sim.Advance(d.slow)
	return d.Software.CheckpointProcessLock(th, pid, args)
}

func (d *slowLock) Clock() driver.Clock { return timerCount{d.Software.Clock(), d} }

type timerCount struct {
	driver.Clock
	of *slowLock
}

func (c timerCount) NewTimer(d time.Duration) driver.Timer {
	c.of.timers++
	timer := c.Clock.NewTimer(d)
	c.of.sim.Advance(d)
	return timer
}

// TestProcessLockPauses checks that Lock tries again at once if the driver has waited for the process, and else after
// a pause.
func TestProcessLockPauses(t *testing.T) {
	for slow, want := range map[time.Duration]int{0: 1, 60 * time.Millisecond: 0} {
		sim := cusim.New(cusim.VirtualTime())
		d := &slowLock{Software: sim.Software(), sim: sim, slow: slow}
		drv := must(cu.Open(cu.WithSoftware(driver.Provide(override.Driver(d)))))(t)
		sim.Inject(cusim.Fault{Function: "cuCheckpointProcessLock", Code: 600})
		before := d.timers
		if err := checkpoint.Of(drv, 4711).Lock(t.Context()); err != nil {
			t.Error(err)
		}
		if n := d.timers - before; n != want {
			t.Errorf("after an attempt of %v there are %d pauses, want %d", slow, n, want)
		}
	}
}
