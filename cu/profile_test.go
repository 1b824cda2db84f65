package cu_test

import (
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestProfile starts and stops the collection of a profile, of which there is none.
func TestProfile(t *testing.T) {
	r := NewSoft(t)
	for range 2 {
		r.OK(r.GPU.StartProfile())
	}
	r.OK(r.GPU.StopProfile())
	for _, f := range []string{"cuProfilerStart", "cuProfilerStop"} {
		r.Sim.Inject(cusim.Fault{Function: f, Code: int(ResultProfilerDisabled)})
	}
	r.Is(r.GPU.StartProfile(), ResultProfilerDisabled)
	r.Is(r.GPU.StopProfile(), ResultProfilerDisabled)
	r.Is((*Context)(nil).StartProfile(), ErrNil)
	r.Is((*Context)(nil).StopProfile(), ErrNil)
	gpu := Need(r.GPU.Device().NewContext(ContextDefault))(t)
	r.OK(gpu.Close())
	r.Is(gpu.StartProfile(), ErrClosed)
}

// TestProfileInCapture starts and stops a profile while the goroutine captures.
func TestProfileInCapture(t *testing.T) {
	r := NewSoft(t)
	for _, call := range []func() error{r.GPU.StartProfile, r.GPU.StopProfile} {
		Need(graph.Capture(r.S, graph.CaptureRelaxed, call))(t).Close()
		_, err := graph.Capture(r.S, graph.CaptureThreadLocal, func() error {
			r.Is(call(), ResultStreamCaptureUnsupported)
			return nil
		})
		r.Is(err, ResultStreamCaptureInvalidated)
	}
}

// TestGPUProfile starts and stops a profile without a tool that collects it.
func TestGPUProfile(t *testing.T) {
	gpu := GPUContext(t)
	for _, err := range []error{gpu.StartProfile(), gpu.StartProfile(), gpu.StopProfile(), gpu.StopProfile()} {
		if err != nil {
			t.Error(err)
		}
	}
}
