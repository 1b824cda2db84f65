package cu

import (
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// TestPopFails lets the thread's context not be put back after a creation has succeeded, on the
// software driver: the error names what has failed, and nothing is left behind.
func TestPopFails(t *testing.T) {
	r := newSoft(t)
	graph := r.graph(func() error { return r.work(r.s) })
	for name, create := range map[string]func() error{
		"event":      func() error { _, err := r.gpu.NewEvent(0); return err },
		"stream":     func() error { _, err := r.gpu.NewStream(0); return err },
		"priority":   func() error { _, err := r.gpu.NewStreamPriority(0, -1); return err },
		"memory":     func() error { _, err := r.gpu.Alloc(64); return err },
		"host":       func() error { _, err := r.gpu.AllocHost(64, 0); return err },
		"module":     func() error { _, err := r.gpu.LoadModule([]byte(spinPTX)); return err },
		"graph":      func() error { _, err := r.gpu.NewGraph(); return err },
		"executable": func() error { _, err := graph.Instantiate(); return err },
		"context":    func() error { _, err := r.gpu.Device().NewContext(0); return err },
	} {
		before := r.sim.Census()
		r.sim.Inject(cusim.Fault{Function: "cuCtxPopCurrent", Code: int(ResultNotPermitted)})
		err := create()
		r.sim.ClearFaults()
		var e *Error
		if !errors.As(err, &e) || e.Op != "cuCtxPopCurrent" || e.Result != ResultNotPermitted || e.Detail == "" {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, r.sim.Census()); diff != "" {
			t.Errorf("%s: something is left (-before +after):\n%s", name, diff)
		}
	}
}

// TestPopFailsInC is TestPopFails in C.
func TestPopFailsInC(t *testing.T) {
	r := newRig(t)
	runtime.LockOSThread() // the context stays current on it
	defer runtime.UnlockOSThread()
	before := r.ask("fake_census", 3)
	r.fail("cuCtxPopCurrent_v2", 1, ResultNotPermitted)
	_, err := r.gpu.NewEvent(0)
	var e *Error
	if !errors.As(err, &e) || e.Op != "cuCtxPopCurrent" || e.Result != ResultNotPermitted {
		t.Errorf("NewEvent: %v", err)
	}
	if _, res := r.drv.table.CtxPopCurrent(driver.At{}); res != driver.ResultSuccess {
		t.Errorf("no context is current: %v", res)
	}
	if after := r.ask("fake_census", 3); after != before {
		t.Errorf("%d events, and %d before", after, before)
	}
}
