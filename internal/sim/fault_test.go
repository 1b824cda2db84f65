package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/purecu/purecu/driver"
)

// TestFaults sets faults, and makes calls.
func TestFaults(t *testing.T) {
	type results []driver.Result
	for _, tt := range []struct {
		name   string
		faults []Fault
		want   results // the results of calls of cuCtxGetDevice
	}{
		{"none", nil, results{0, 0}},
		{"first", []Fault{{Function: "cuCtxGetDevice", Code: 2}}, results{2, 0, 0}},
		{"first, by number", []Fault{{Function: "cuCtxGetDevice", Nth: 1, Code: 2}}, results{2, 0, 0}},
		{"third", []Fault{{Function: "cuCtxGetDevice", Nth: 3, Code: 719}}, results{0, 0, 719, 0}},
		{"from the second", []Fault{{Function: "cuCtxGetDevice", Nth: 2, Every: true, Code: 2}}, results{0, 2, 2, 2}},
		{"by a version's name", []Fault{{Function: "cuCtxGetDevice_v2", Code: 2}}, results{2, 0}},
		{"another function", []Fault{{Function: "cuCtxGetFlags", Code: 2}}, results{0, 0}},
		{"any function", []Fault{{Nth: 2, Code: 2}}, results{0, 2, 0}},
		{"several", []Fault{{Function: "cuCtxGetDevice", Code: 2}, {Function: "cuCtxGetDevice", Nth: 3, Code: 3}}, results{2, 0, 3, 0}},
		{"several at once", []Fault{{Function: "cuCtxGetDevice", Code: 2}, {Function: "cuCtxGetDevice", Code: 3}}, results{2, 0}},
		{"an undefined code", []Fault{{Function: "cuCtxGetDevice", Code: 12345}}, results{12345, 0}},
		{"no code", []Fault{{Function: "cuCtxGetDevice"}}, results{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newLab(t)
			for _, f := range tt.faults {
				r.Inject(f)
			}
			var got results
			for range tt.want {
				_, res := r.CtxGetDevice(r.th)
				got = append(got, res)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			r.ClearFaults()
			_, res := r.CtxGetDevice(r.th)
			r.want("afterwards", ok, res)
		})
	}
}

// TestStickyFault makes a call fail that would succeed after a sticky error.
func TestStickyFault(t *testing.T) {
	r := newLab(t)
	r.Inject(Fault{Function: "cuCtxGetFlags", Code: 719})
	_, res := r.CtxGetFlags(r.th)
	r.want("with a fault", driver.ResultLaunchFailed, res)
	r.Poison(719)
	_, res = r.CtxGetFlags(r.th)
	r.want("after a sticky error", ok, res)
	r.Inject(Fault{Function: "cuCtxGetFlags", Code: 719})
	_, res = r.CtxGetFlags(r.th)
	r.want("with both", driver.ResultLaunchFailed, res)
}

// TestFaultOption sets faults with an option.
func TestFaultOption(t *testing.T) {
	d := New(Faults(Fault{Function: "cuInit", Code: 100}, Fault{Function: "cuDeviceGetCount", Code: 3}))
	_, count := d.DeviceGetCount(nil)
	if diff := cmp.Diff([]driver.Result{100, 3, 0}, []driver.Result{d.Init(nil, 0), count, d.Init(nil, 0)}); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// TestMistypedFault sets faults of functions that do not exist.
func TestMistypedFault(t *testing.T) {
	d := New(Faults(Fault{Function: "cuMemAloc", Code: 2}), FaultRate(1, 1, 2, "cuMemAlloc_v2", "cuStreamQerry"))
	d.Inject(Fault{Function: "cuEventCreate", Code: 2})
	d.Inject(Fault{Code: 2})
	var got []string
	for _, m := range d.Misuses() {
		got = append(got, m.What)
	}
	want := []string{
		`CUDA has no function "cuMemAloc", so no call has this fault`,
		`CUDA has no function "cuStreamQerry", so no call has this fault`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the misuses are %q", got)
	}
}

// TestFaultHasNoEffect makes an allocation fail, and checks that nothing was allocated.
func TestFaultHasNoEffect(t *testing.T) {
	r := newLab(t, Faults(Fault{Function: "cuMemAlloc", Code: 2}))
	_, res := r.MemAlloc(r.th, 1)
	r.want("alloc", driver.ResultOutOfMemory, res)
	if free, _, _ := r.MemGetInfo(r.th); free != mostFree {
		t.Errorf("%d bytes are in use", mostFree-free)
	}
}

// TestFaultRate makes a part of the calls fail. These are the same calls in each run.
func TestFaultRate(t *testing.T) {
	const n = 1000
	run := func(seed uint64, p float64, functions ...string) (failed []int) {
		d := New(FaultRate(seed, p, 719, functions...))
		for d.Init(nil, 0) != ok {
		}
		for i := range n {
			switch _, res := d.DeviceGetCount(nil); res {
			case ok:
			case driver.ResultLaunchFailed:
				failed = append(failed, i)
			default:
				t.Fatalf("got %v", res)
			}
		}
		return failed
	}
	one := run(1, 0.25, "cuDeviceGetCount")
	if len(one) < 150 || len(one) > 350 {
		t.Errorf("%d of %d calls failed, and a quarter should have", len(one), n)
	}
	if diff := cmp.Diff(one, run(1, 0.25, "cuDeviceGetCount")); diff != "" {
		t.Errorf("the same seed again (-want +got):\n%s", diff)
	}
	if cmp.Equal(one, run(2, 0.25, "cuDeviceGetCount")) {
		t.Error("another seed makes the same calls fail")
	}
	if got := run(1, 1, "cuDeviceGet"); got != nil {
		t.Errorf("%d calls failed of a function that was not named", len(got))
	}
	if got := run(1, 0.25); len(got) < 150 || len(got) > 350 {
		t.Errorf("with no function named %d of %d calls failed", len(got), n)
	}
}

// TestSlow makes a call slow in virtual time. Other calls are not slow.
func TestSlow(t *testing.T) {
	r := newLab(t, VirtualTime())
	r.Inject(Fault{Function: "cuCtxGetDevice", Slow: time.Hour, Code: 2})
	done := make(chan driver.Result)
	th := r.otherThread()
	go func() {
		_, res := r.CtxGetDevice(th)
		done <- res
	}()
	for {
		if r.engine.Clock.Waiting() == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	_, res := r.CtxGetFlags(r.th)
	r.want("another call", ok, res)
	r.Advance(time.Hour - 1)
	select {
	case <-done:
		t.Error("it was not slow enough")
	default:
	}
	r.Advance(1)
	r.want("the slow one", driver.ResultOutOfMemory, <-done)
}

// TestPoison calls Poison without an error code, and with two codes. The first code stays, for all
// devices.
func TestPoison(t *testing.T) {
	r := newLab(t, Devices(2))
	th := new(driver.Thread)
	r.CtxSetCurrent(th, r.primary(1))
	r.Poison(0)
	r.must(r.CtxSynchronize(r.th))
	r.Poison(700)
	r.Poison(719)
	r.want("the device", driver.ResultIllegalAddress, r.CtxSynchronize(r.th))
	r.want("another one", driver.ResultIllegalAddress, r.CtxSynchronize(th))
	r.must(r.DevicePrimaryCtxRelease(nil, 1))
}

// TestDestroyAfterFault destroys a context with a sticky error, and goes on with its handle. The results are those
// of an H200.
func TestDestroyAfterFault(t *testing.T) {
	const poison, gone = driver.ResultIllegalAddress, driver.ResultContextIsDestroyed
	r := newLab(t)
	t.Cleanup(func() { r.takeMisuses() })
	c, res := r.CtxCreateV2(r.th, 0, 0)
	r.must(res)
	r.must(r.launchOn(0, r.kernel("fault", ""), 1, driver.KernelParams{}))
	r.want("cuCtxSynchronize", poison, r.CtxSynchronize(r.th))
	_, res = r.EventCreate(r.th, 0)
	r.want("cuEventCreate", poison, res)
	_, res = r.CtxCreateV2(r.th, 0, 0)
	r.want("cuCtxCreate", poison, res)
	r.must(r.CtxDestroy(r.th, c))
	r.must(r.CtxSetCurrent(r.th, c))
	_, res = r.EventCreate(r.th, 0)
	r.want("cuEventCreate", gone, res)
}

// TestEventOfOldContext queries an event after its primary context was reset, and after another one exists. The
// results are those of an H200.
func TestEventOfOldContext(t *testing.T) {
	r := newLab(t)
	t.Cleanup(func() { r.takeMisuses() })
	e, res := r.EventCreate(r.th, 0)
	r.must(res)
	r.must(r.DevicePrimaryCtxReset(nil, 0))
	r.want("cuEventQuery", driver.ResultContextIsDestroyed, r.EventQuery(r.th, e))
	_, res = r.DevicePrimaryCtxRetain(nil, 0)
	r.must(res)
	r.want("cuEventQuery", driver.ResultInvalidContext, r.EventQuery(r.th, e))
	r.must(r.DevicePrimaryCtxRelease(nil, 0))
}

// TestResetAfterFault resets the primary context after a sticky error, and goes on with its handle. The results
// are those of an H200, and the same each time.
func TestResetAfterFault(t *testing.T) {
	const poison, gone, none = driver.ResultIllegalAddress, driver.ResultContextIsDestroyed, driver.ResultInvalidContext
	uses := func(r *lab, what string, want, flags, device driver.Result) {
		t.Helper()
		_, res := r.EventCreate(r.th, 0)
		r.want(what+": cuEventCreate", want, res)
		_, res = r.StreamCreate(r.th, 0)
		r.want(what+": cuStreamCreate", want, res)
		_, res = r.MemAlloc(r.th, 64)
		r.want(what+": cuMemAlloc", want, res)
		r.want(what+": cuCtxSynchronize", want, r.CtxSynchronize(r.th))
		_, res = r.CtxGetApiVersion(r.th, 0)
		r.want(what+": cuCtxGetApiVersion of NULL", want, res)
		_, res = r.CtxGetFlags(r.th)
		r.want(what+": cuCtxGetFlags", flags, res)
		_, res = r.CtxGetDevice(r.th)
		r.want(what+": cuCtxGetDevice", device, res)
	}
	for _, synchronized := range []bool{true, false} {
		r := newLab(t)
		t.Cleanup(func() { r.takeMisuses() })
		e, res := r.EventCreate(r.th, 0)
		r.must(res)
		r.must(r.launchOn(0, r.kernel("fault", ""), 1, driver.KernelParams{}))
		if synchronized {
			r.want("cuCtxSynchronize", poison, r.CtxSynchronize(r.th))
		}
		r.must(r.DevicePrimaryCtxReset(nil, 0))
		uses(r, "after the reset", gone, ok, ok)
		c, res := r.DevicePrimaryCtxRetain(nil, 0)
		if res != poison || c != 0 {
			t.Errorf("cuDevicePrimaryCtxRetain: %v, %#x", res, c)
		}
		if _, active, _ := r.DevicePrimaryCtxGetState(nil, 0); active != 0 {
			t.Error("the context is active")
		}
		r.must(r.CtxSetCurrent(r.th, r.ctx))
		uses(r, "with the old handle", gone, ok, ok)
		r.want("cuEventQuery", gone, r.EventQuery(r.th, e))
		r.must(r.CtxSetCurrent(r.th, c))
		uses(r, "with NULL", none, none, none)
		r.must(r.CtxPushCurrent(r.th, r.ctx))
		if now, _ := r.CtxGetCurrent(r.th); now != r.ctx {
			t.Errorf("%#x is current", now)
		}
		r.must(r.DevicePrimaryCtxReset(nil, 0))
		_, res = r.DevicePrimaryCtxRetain(nil, 0)
		r.want("cuDevicePrimaryCtxRetain", poison, res)
		_, res = r.CtxCreateV2(r.th, 0, 0)
		r.want("cuCtxCreate", poison, res)
	}
}
