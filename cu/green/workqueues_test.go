package green_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cusim"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestWorkQueues makes green contexts with work queues, and refuses what they cannot have.
func TestWorkQueues(t *testing.T) {
	r := NewSoft(t, cusim.Version(13010))
	dev := r.GPU.Device()
	its := Need(green.DeviceQueues(dev))(t)
	if its != (green.WorkQueues{Limit: 8}) {
		t.Errorf("the device's work queues are %+v", its)
	}
	parts, _, err := Need(green.DeviceSMs(dev))(t).Split(8)
	r.OK(err)
	for i, c := range []struct{ asked, want green.WorkQueues }{
		{green.WorkQueues{}, its},
		{green.WorkQueues{Balanced: true}, green.WorkQueues{Limit: 8, Balanced: true}},
		{green.WorkQueues{Limit: 3, Balanced: true}, green.WorkQueues{Limit: 3, Balanced: true}},
		{green.WorkQueues{Limit: 100}, green.WorkQueues{Limit: 100}},
	} {
		g := Need(green.NewWithQueues(r.GPU, c.asked, parts[2*i], parts[2*i+1]))(t)
		if got := Need(g.Queues())(t); got != c.want {
			t.Errorf("asked for %+v: %+v, want %+v", c.asked, got, c.want)
		}
		if n := Need(g.SMs())(t).Count(); n != 16 {
			t.Errorf("%d multiprocessors, want 16", n)
		}
		s := Need(g.NewStream(0))(t)
		r.OK(s.Synchronize())
		r.OK(s.Close())
		r.OK(g.Close())
		_, err := g.Queues()
		r.Is(err, ErrClosed)
	}
	plain := Need(green.New(r.GPU, parts[0]))(t)
	if got := Need(plain.Queues())(t); got != its {
		t.Errorf("without work queues of its own: %+v, want the device's", got)
	}
	r.OK(plain.Close())

	for _, n := range []int{-1, math.MinInt, math.MaxUint32 + 1} {
		_, err := green.NewWithQueues(r.GPU, green.WorkQueues{Limit: n}, parts[0])
		r.Is(err, ResultInvalidValue)
	}
	_, err = green.NewWithQueues(r.GPU, its)
	r.Is(err, ResultInvalidValue)
	for _, err := range []error{
		ErrorOf(green.DeviceQueues((*Device)(nil))), ErrorOf((*green.Context)(nil).Queues()),
		ErrorOf(green.NewWithQueues((*Context)(nil), its, parts[0])),
	} {
		r.Is(err, ErrNil)
	}
	for _, f := range []string{"cuDeviceGetDevResource", "cuDevResourceGenerateDesc"} {
		r.Sim.Inject(cusim.Fault{Function: f, Code: int(ResultOutOfMemory)})
		_, err = green.NewWithQueues(r.GPU, its, parts[0])
		r.Is(err, ResultOutOfMemory)
		r.Sim.ClearFaults()
	}
}

// TestWorkQueuesMissing asks older drivers for work queues.
func TestWorkQueuesMissing(t *testing.T) {
	r := NewSoft(t, cusim.Version(13000))
	dev := r.GPU.Device()
	parts, _, err := Need(green.DeviceSMs(dev))(t).Split(8)
	r.OK(err)
	g := Need(green.New(r.GPU, parts[0]))(t)
	defer g.Close()
	for _, err := range []error{
		ErrorOf(green.DeviceQueues(dev)), ErrorOf(g.Queues()),
		ErrorOf(green.NewWithQueues(r.GPU, green.WorkQueues{}, parts[1])),
	} {
		r.Is(err, errors.ErrUnsupported)
		r.Is(err, ResultNotSupported)
		if m := (*MissingError)(nil); !errors.As(err, &m) || m.Since != 13010 || m.Driver != 13000 {
			t.Errorf("%v does not say which versions", err)
		}
		if !strings.Contains(err.Error(), "CUDA 13.1 or newer; this one is for CUDA 13.0") {
			t.Error(err)
		}
	}
}

// TestGPUWorkQueues makes green contexts with work queues, if the driver knows them.
func TestGPUWorkQueues(t *testing.T) {
	gpu := GPUContext(t)
	dev := gpu.Device()
	its, err := green.DeviceQueues(dev)
	if v := Need(dev.Driver().Version())(t); v < 13010 {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("on a driver for CUDA %v: %v", v, err)
		}
		return
	}
	parts, _, err := Need(green.DeviceSMs(dev))(t).Split(8)
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range []green.WorkQueues{its, {Limit: 2}, {Limit: 2, Balanced: true}} {
		g := Need(green.NewWithQueues(gpu, asked, parts[0]))(t)
		if got := Need(g.Queues())(t); got != asked {
			t.Errorf("asked for %+v: %+v", asked, got)
		}
		s := Need(g.NewStream(0))(t)
		if err := s.Synchronize(); err != nil {
			t.Error(err)
		}
		CloseIt(t, s)
		CloseIt(t, g)
	}
}
