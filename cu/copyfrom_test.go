package cu_test

import (
	"errors"
	"slices"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// lateCopies is a software driver whose cuMemcpyHtoD copies later, as a driver in C may do: when the legacy stream is
// synchronized, or before the next copy there.
type lateCopies struct {
	Software driver.Software
	late     func(*driver.Thread) driver.Result
}

func (d *lateCopies) MemcpyHtoD(_ *driver.Thread, dstDevice driver.DevicePtr, srcHost []byte) driver.Result {
	src := slices.Clone(srcHost)
	d.late = func(th *driver.Thread) driver.Result { return d.Software.MemcpyHtoD(th, dstDevice, src) }
	return driver.ResultSuccess
}

func (d *lateCopies) copy(th *driver.Thread) (res driver.Result) {
	if d.late != nil {
		res = d.late(th)
		d.late = nil
	}
	return res
}

func (d *lateCopies) MemcpyDtoH(th *driver.Thread, dstHost []byte, srcDevice driver.DevicePtr) driver.Result {
	if res := d.copy(th); res != driver.ResultSuccess {
		return res
	}
	return d.Software.MemcpyDtoH(th, dstHost, srcDevice)
}

func (d *lateCopies) StreamSynchronize(th *driver.Thread, hStream driver.Stream) driver.Result {
	if hStream == driver.CU_STREAM_LEGACY {
		if res := d.copy(th); res != driver.ResultSuccess {
			return res
		}
	}
	return d.Software.StreamSynchronize(th, hStream)
}

// TestCopyFromIsDone copies bytes, and then enqueues other work with the memory on a non-blocking stream.
func TestCopyFromIsDone(t *testing.T) {
	sim := cusim.New()
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(&lateCopies{Software: sim.Software()})))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	copyFromIsDone(t, gpu, 1)
	if err := errors.Join(gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
	sim.Check(t)
}

// TestGPUCopyFromIsDone does so on a GPU.
func TestGPUCopyFromIsDone(t *testing.T) { copyFromIsDone(t, GPUContext(t), 2000) }

func copyFromIsDone(t *testing.T, gpu *Context, times int) {
	mem := Need(gpu.Alloc(4))(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	late, got := 0, make([]byte, 4)
	for range times {
		err := errors.Join(mem.CopyFrom([]byte("abcd")), s.Memset(mem, 'x'), s.Synchronize(), mem.CopyTo(got))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != "xxxx" {
			late++
		}
	}
	if late != 0 {
		t.Errorf("%d of %d copies came after later work", late, times)
	}
	if err := errors.Join(s.Close(), mem.Close()); err != nil {
		t.Error(err)
	}
}

// slowCopies is a software driver whose cuMemcpyHtoD calls a function before it returns.
type slowCopies struct {
	Software driver.Software
	copied   func()
}

func (d *slowCopies) MemcpyHtoD(th *driver.Thread, dstDevice driver.DevicePtr, srcHost []byte) driver.Result {
	res := d.Software.MemcpyHtoD(th, dstDevice, srcHost)
	d.copied()
	return res
}

// TestCopyFromBesideCapture has a capture of a blocking stream begin during a copy that takes longer than the capture
// waits for the copy. Neither fails.
func TestCopyFromBesideCapture(t *testing.T) {
	soft := cusim.New()
	sim := &slowCopies{Software: soft.Software()}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(sim)))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	mem, s := Need(gpu.Alloc(4))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
	joins := Need(gpu.NewStream(StreamDefault))(t)
	for name, capture := range map[string]func(f func() error) (*graph.Graph, error){
		"a capture of a blocking stream": func(f func() error) (*graph.Graph, error) { return graph.Capture(joins, graph.CaptureRelaxed, f) },
		"a blocking stream joins": func(f func() error) (*graph.Graph, error) {
			return graph.Capture(s, graph.CaptureRelaxed, func() error {
				return errors.Join(joins.WaitStream(s), f(), s.WaitStream(joins))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			copying, captured, done := make(chan struct{}), make(chan struct{}), make(chan error)
			goOn := captured
			sim.copied = func() { close(copying); <-goOn }
			go func() { done <- mem.CopyFrom([]byte("abcd")) }()
			<-copying
			g, err := capture(func() error { close(captured); captured = nil; return <-done })
			if err != nil {
				t.Error(err)
			}
			if captured != nil { // the capture did not begin
				close(captured)
				<-done
			}
			g.Close()
			if n := core.Of(gpu).Context.CaptureGate.Blocking.Load(); n != 0 {
				t.Errorf("%d blocking streams are left in captures", n)
			}
		})
	}
	if err := errors.Join(mem.Close(), s.Close(), joins.Close(), gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
	soft.Check(t)
}

// TestCopyFromBesideOtherContexts copies in one context during a capture of a blocking stream in another one.
func TestCopyFromBesideOtherContexts(t *testing.T) {
	sim := cusim.New()
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(&lateCopies{Software: sim.Software()})))))(t)
	dev := Need(drv.Device(0))(t)
	gpu, two := Need(dev.PrimaryContext())(t), Need(dev.NewContext(0))(t)
	s := Need(two.NewStream(StreamDefault))(t)
	g, err := graph.Capture(s, graph.CaptureRelaxed, func() error { copyFromIsDone(t, gpu, 1); return nil })
	if err := errors.Join(err, g.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	// A capture that does not begin is not counted.
	if _, err := graph.Capture(s, graph.CaptureRelaxed, func() error { return nil }); err == nil {
		t.Error("a closed stream was captured")
	}
	for _, c := range []*Context{gpu, two} {
		if n := core.Of(c).Context.CaptureGate.Blocking.Load(); n != 0 {
			t.Errorf("%d blocking streams are left in captures", n)
		}
	}
	if err := errors.Join(two.Close(), gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
	sim.Check(t)
}
