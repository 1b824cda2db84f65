package cu_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestNeedsRestart says what each result means for the process.
func TestNeedsRestart(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{(*Error)(nil), false},
		{errors.New("another"), false},
		{ResultIllegalAddress, true},
		{ResultECCUncorrectable, true},
		{ResultDeviceUnavailable, false}, // of what call?
		{ResultUnknown, false},
		{ResultNotReady, false},
		{fmt.Errorf("wrapped: %w", ErrContextPoisoned), true},
		{&BatchError{Errs: []error{nil, ResultInvalidValue, &Error{Result: ResultUnknown, Err: ErrDeviceLost}}}, true},
		{errors.Join(errors.New("another"), ErrDeviceLost), true},
	} {
		if got := NeedsRestart(c.err); got != c.want {
			t.Errorf("NeedsRestart(%v) = %v", c.err, got)
		}
	}
}

// TestDeviceLost has every call return what a driver returns that has lost a device.
func TestDeviceLost(t *testing.T) {
	for _, c := range []struct {
		code       Result
		afterOne   bool // one call is enough
		fresh, own bool // whether a context that is opened on another driver, or on this one, says so
	}{
		{ResultDeviceUnavailable, true, false, true},
		{ResultECCUncorrectable, true, true, true},
		{ResultUnknown, false, false, true},
	} {
		t.Run(c.code.String(), func(t *testing.T) {
			r := NewSoft(t)
			e := r.Event(0)
			r.OK(e.Record(r.S))
			r.Sim.Inject(cusim.Fault{Every: true, Code: int(c.code)})

			_, _, err := r.GPU.MemInfo()
			r.Is(err, c.code)
			if NeedsRestart(err) != c.afterOne || (r.GPU.Err() != nil) != c.afterOne {
				t.Errorf("after one call: %v; Err: %v", err, r.GPU.Err())
			}
			_, _, err = r.GPU.MemInfo() // the same call again says nothing new
			if NeedsRestart(err) != c.afterOne {
				t.Errorf("after the same call: %v", err)
			}
			for name, err := range map[string]error{
				"Record":      e.Record(r.S),
				"Synchronize": r.GPU.Synchronize(),
				"Err":         r.GPU.Err(),
				"Wait":        r.S.Wait(t.Context()),
			} {
				r.Is(err, ErrDeviceLost, c.code)
				if !NeedsRestart(err) || errors.Is(err, ErrContextPoisoned) {
					t.Errorf("%s: %v", name, err)
				}
				if !strings.Contains(err.Error(), "start the process again") {
					t.Errorf("%s does not say what to do: %v", name, err)
				}
			}
			_, _, err = r.GPU.MemInfo()
			r.Is(err, c.code, ErrDeviceLost)
			if _, err := r.GPU.Device().PrimaryContext(); NeedsRestart(err) != c.own {
				t.Errorf("another context: %v", err)
			}

			// Who has no context cannot tell a busy device from a lost one.
			sim := cusim.New(cusim.Faults(cusim.Fault{Function: "cuDevicePrimaryCtxRetain", Every: true, Code: int(c.code)},
				cusim.Fault{Function: "cuCtxCreate", Every: true, Code: int(c.code)}))
			dev := Need(Need(Open(WithSoftware(sim)))(t).Device(0))(t)
			_, err = dev.PrimaryContext()
			busy := strings.Contains(err.Error(), "the device is busy")
			if NeedsRestart(err) != c.fresh || busy != (c.code == ResultDeviceUnavailable) {
				t.Errorf("a context is opened: %v", err)
			}
			if c.code == ResultDeviceUnavailable {
				if _, err := dev.NewContext(0); NeedsRestart(err) || !strings.Contains(err.Error(), "the device is busy") {
					t.Errorf("a context is created: %v", err)
				}
			}
			r.Sim.ClearFaults()
		})
	}
}

// TestUnknownOnce has single calls fail with a result that says nothing.
func TestUnknownOnce(t *testing.T) {
	r := NewSoft(t)
	for range 2 { // of one function
		r.Sim.Inject(cusim.Fault{Function: "cuMemGetInfo", Code: int(ResultUnknown)})
		if _, _, err := r.GPU.MemInfo(); !errors.Is(err, ResultUnknown) || NeedsRestart(err) {
			t.Errorf("MemInfo: %v", err)
		}
	}
	r.OK(r.GPU.Err())
	r.Sim.Inject(cusim.Fault{Function: "cuStreamQuery", Code: int(ResultUnknown)})
	if _, err := r.S.Query(); !NeedsRestart(err) {
		t.Errorf("Query: %v", err)
	}
	r.Is(r.GPU.Err(), ErrDeviceLost, ResultUnknown)
}

// TestUnknownHandles imports handles that the driver does not know: no device is lost.
func TestUnknownHandles(t *testing.T) {
	r := NewSoft(t)
	null := Need(os.Open(os.DevNull))(t)
	defer null.Close()
	for fn, call := range map[string]func() error{
		drivercall.ImportMemOp: func() error {
			_, err := interop.ImportMem(r.GPU, interop.MemHandle{Type: interop.MemOpaqueFD, Handle: null.Fd()}, 1)
			return err
		},
		drivercall.ImportSemaphoreOp: func() error {
			_, err := interop.ImportSemaphore(r.GPU, interop.SemaphoreHandle{Type: interop.SemaphoreFD, Handle: null.Fd()})
			return err
		},
		drivercall.ImportPhysicalOp: func() error { _, err := memory.ImportPhysical(r.GPU, null.Fd(), 1); return err },
		drivercall.ImportPoolOp:     func() error { _, err := memory.ImportPool(r.GPU, null.Fd()); return err },
	} {
		r.Sim.Inject(cusim.Fault{Function: fn, Code: int(ResultUnknown)}) // also where files are not supported
		err := call()
		if errors.Is(err, errors.ErrUnsupported) { // Windows has no descriptors to duplicate
			continue
		}
		if r.Is(err, ResultUnknown); NeedsRestart(err) || !strings.Contains(err.Error(), "does not know the handle") ||
			strings.Contains(err.Error(), "earlier") {
			t.Errorf("%s: %v", fn, err)
		}
	}
	r.OK(r.GPU.Err())
}

// TestRestartAfterStickyError is about [cusim.Driver.LoseDevice], and a kernel's error.
func TestRestartAfterStickyError(t *testing.T) {
	for _, code := range []Result{ResultDeviceUnavailable, ResultIllegalAddress, ResultECCUncorrectable} {
		r := NewSoft(t)
		r.Sim.Poison(int(code))
		if err := r.S.Synchronize(); !NeedsRestart(err) || !NeedsRestart(r.GPU.Err()) {
			t.Errorf("%v: %v; Err: %v", code, err, r.GPU.Err())
		}
	}
}

// TestDestroyedContext does not blame who did nothing wrong.
func TestDestroyedContext(t *testing.T) {
	r := NewSoft(t)
	for _, code := range []Result{ResultContextIsDestroyed, ResultInvalidContext} {
		r.Sim.Inject(cusim.Fault{Function: "cuEventCreate", Code: int(code)})
		_, err := r.GPU.NewEvent(0)
		r.Is(err, code)
		if !strings.Contains(err.Error(), "other code in the process destroyed or reset the context") {
			t.Errorf("the error is %v", err)
		}
	}
}

// TestExcessiveLaunch launches shapes that the device does not allow.
func TestExcessiveLaunch(t *testing.T) {
	r := NewSoft(t)
	for want, cfg := range map[string]LaunchConfig{
		"Grid.Y is 65536, and the device allows 65535: put more": {Grid: Dim3{X: 1, Y: 65536}, Block: Dim3{X: 1}},
		"Grid.X is 2147483648, and the device allows 2147483647": {Grid: Dim3{X: 1 << 31}, Block: Dim3{X: 1}},
		"Block.Z is 65, and the device allows 64: call":          {Grid: Dim3{X: 1}, Block: Dim3{X: 1, Z: 65}},
		"the block has more threads, or more shared memory":      {Grid: Dim3{X: 1}, Block: Dim3{X: 1024, Y: 2}},
	} {
		for _, flags := range []LaunchFlags{LaunchDefault, LaunchCooperative} {
			cfg.Flags = flags
			err := r.Spin.Launch(r.S, cfg, U64(1))
			r.Is(err, ResultInvalidValue)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %s", cfg, err, want)
			}
		}
	}
	mod := Need(r.GPU.LoadModule([]byte(".version 6.0 .target sm_50 .address_size 64 .entry eight() .reqntid 8 { ret; }")))(t)
	defer mod.Close()
	err := Need(mod.Function("eight"))(t).Launch(r.S, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 4}})
	if r.Is(err, ResultInvalidValue); !strings.Contains(fmt.Sprint(err), "not have the size that the kernel prescribes") {
		t.Errorf("a block of another size: %v", err)
	}
}

// TestNoSoftware asks for a software driver, and passes none.
func TestNoSoftware(t *testing.T) {
	for _, opt := range []Option{WithSoftware(nil), WithSoftware((*cusim.Driver)(nil))} {
		drv, err := Open(opt, WithLibrary("/nowhere"))
		if drv != nil || !errors.Is(err, ErrNil) || errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), "cusim.New") {
			t.Errorf("Open: %v, %v", drv, err)
		}
	}
}

// TestResultString names results.
func TestResultString(t *testing.T) {
	for want, r := range map[string]Result{"CUDA_SUCCESS": 0, "CUDA_ERROR_NOT_READY": ResultNotReady, "12345": 12345} {
		if got := r.String(); got != want {
			t.Errorf("%d: %s, want %s", int(r), got, want)
		}
	}
}
