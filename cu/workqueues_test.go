package cu_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cusim"
)

// TestWorkQueues makes green contexts with work queues, and refuses what they cannot have.
func TestWorkQueues(t *testing.T) {
	r := newSoft(t, cusim.Version(13010))
	dev := r.gpu.Device()
	its := need(green.DeviceQueues(dev))(t)
	if its != (green.WorkQueues{Limit: 8}) {
		t.Errorf("the device's work queues are %+v", its)
	}
	parts, _, err := need(green.DeviceSMs(dev))(t).Split(8)
	r.ok(err)
	for i, c := range []struct{ asked, want green.WorkQueues }{
		{green.WorkQueues{}, its},
		{green.WorkQueues{Balanced: true}, green.WorkQueues{Limit: 8, Balanced: true}},
		{green.WorkQueues{Limit: 3, Balanced: true}, green.WorkQueues{Limit: 3, Balanced: true}},
		{green.WorkQueues{Limit: 100}, green.WorkQueues{Limit: 100}},
	} {
		g := need(green.NewWithQueues(r.gpu, c.asked, parts[2*i], parts[2*i+1]))(t)
		if got := need(g.Queues())(t); got != c.want {
			t.Errorf("asked for %+v: %+v, want %+v", c.asked, got, c.want)
		}
		if n := need(g.SMs())(t).Count(); n != 16 {
			t.Errorf("%d multiprocessors, want 16", n)
		}
		s := need(g.NewStream(0))(t)
		r.ok(s.Synchronize())
		r.ok(s.Close())
		r.ok(g.Close())
		_, err := g.Queues()
		r.is(err, ErrClosed)
	}
	plain := need(green.New(r.gpu, parts[0]))(t)
	if got := need(plain.Queues())(t); got != its {
		t.Errorf("without work queues of its own: %+v, want the device's", got)
	}
	r.ok(plain.Close())

	for _, n := range []int{-1, math.MinInt, math.MaxUint32 + 1} {
		_, err := green.NewWithQueues(r.gpu, green.WorkQueues{Limit: n}, parts[0])
		r.is(err, ResultInvalidValue)
	}
	_, err = green.NewWithQueues(r.gpu, its)
	r.is(err, ResultInvalidValue)
	for _, err := range []error{
		second2(green.DeviceQueues((*Device)(nil))), second2((*green.Context)(nil).Queues()),
		second2(green.NewWithQueues((*Context)(nil), its, parts[0])),
	} {
		r.is(err, ErrNil)
	}
	for _, f := range []string{"cuDeviceGetDevResource", "cuDevResourceGenerateDesc"} {
		r.sim.Inject(cusim.Fault{Function: f, Code: int(ResultOutOfMemory)})
		_, err = green.NewWithQueues(r.gpu, its, parts[0])
		r.is(err, ResultOutOfMemory)
		r.sim.ClearFaults()
	}
}

// TestWorkQueuesMissing asks older drivers for work queues.
func TestWorkQueuesMissing(t *testing.T) {
	r := newSoft(t, cusim.Version(13000))
	dev := r.gpu.Device()
	parts, _, err := need(green.DeviceSMs(dev))(t).Split(8)
	r.ok(err)
	g := need(green.New(r.gpu, parts[0]))(t)
	defer g.Close()
	for _, err := range []error{
		second2(green.DeviceQueues(dev)), second2(g.Queues()),
		second2(green.NewWithQueues(r.gpu, green.WorkQueues{}, parts[1])),
	} {
		r.is(err, errors.ErrUnsupported)
		r.is(err, ResultNotSupported)
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
	gpu := gpuContext(t)
	dev := gpu.Device()
	its, err := green.DeviceQueues(dev)
	if v := need(dev.Driver().Version())(t); v < 13010 {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("on a driver for CUDA %v: %v", v, err)
		}
		return
	}
	parts, _, err := need(green.DeviceSMs(dev))(t).Split(8)
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range []green.WorkQueues{its, {Limit: 2}, {Limit: 2, Balanced: true}} {
		g := need(green.NewWithQueues(gpu, asked, parts[0]))(t)
		if got := need(g.Queues())(t); got != asked {
			t.Errorf("asked for %+v: %+v", asked, got)
		}
		s := need(g.NewStream(0))(t)
		if err := s.Synchronize(); err != nil {
			t.Error(err)
		}
		closeIt(t, s)
		closeIt(t, g)
	}
}
