package cu_test

import (
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// TestProfile starts and stops the collection of a profile, of which there is none.
func TestProfile(t *testing.T) {
	r := newSoft(t)
	for range 2 {
		r.ok(r.gpu.StartProfile())
	}
	r.ok(r.gpu.StopProfile())
	for _, f := range []string{"cuProfilerStart", "cuProfilerStop"} {
		r.sim.Inject(cusim.Fault{Function: f, Code: int(ResultProfilerDisabled)})
	}
	r.is(r.gpu.StartProfile(), ResultProfilerDisabled)
	r.is(r.gpu.StopProfile(), ResultProfilerDisabled)
	r.is((*Context)(nil).StartProfile(), ErrNil)
	r.is((*Context)(nil).StopProfile(), ErrNil)
	gpu := need(r.gpu.Device().NewContext(ContextDefault))(t)
	r.ok(gpu.Close())
	r.is(gpu.StartProfile(), ErrClosed)
}

// TestProfileInCapture starts and stops a profile while the goroutine captures.
func TestProfileInCapture(t *testing.T) {
	r := newSoft(t)
	for _, call := range []func() error{r.gpu.StartProfile, r.gpu.StopProfile} {
		need(r.s.Capture(CaptureRelaxed, call))(t).Close()
		_, err := r.s.Capture(CaptureThreadLocal, func() error {
			r.is(call(), ResultStreamCaptureUnsupported)
			return nil
		})
		r.is(err, ResultStreamCaptureInvalidated)
	}
}

// TestGPUProfile starts and stops a profile without a tool that collects it.
func TestGPUProfile(t *testing.T) {
	gpu := gpuContext(t)
	for _, err := range []error{gpu.StartProfile(), gpu.StartProfile(), gpu.StopProfile(), gpu.StopProfile()} {
		if err != nil {
			t.Error(err)
		}
	}
}
