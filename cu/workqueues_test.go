package cu_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// TestWorkQueues makes green contexts with work queues, and refuses what they cannot have.
func TestWorkQueues(t *testing.T) {
	r := newSoft(t, cusim.Version(13010))
	dev := r.gpu.Device()
	its := need(dev.WorkQueues())(t)
	if its != (WorkQueues{Limit: 8}) {
		t.Errorf("the device's work queues are %+v", its)
	}
	parts, _, err := need(dev.SMResource())(t).Split(8)
	r.ok(err)
	for i, c := range []struct{ asked, want WorkQueues }{
		{WorkQueues{}, its},
		{WorkQueues{Balanced: true}, WorkQueues{Limit: 8, Balanced: true}},
		{WorkQueues{Limit: 3, Balanced: true}, WorkQueues{Limit: 3, Balanced: true}},
		{WorkQueues{Limit: 100}, WorkQueues{Limit: 100}},
	} {
		g := need(r.gpu.NewGreenContextQueues(c.asked, parts[2*i], parts[2*i+1]))(t)
		if got := need(g.WorkQueues())(t); got != c.want {
			t.Errorf("asked for %+v: %+v, want %+v", c.asked, got, c.want)
		}
		if n := need(g.SMResource())(t).Count(); n != 16 {
			t.Errorf("%d multiprocessors, want 16", n)
		}
		s := need(g.NewStream(0))(t)
		r.ok(s.Synchronize())
		r.ok(s.Close())
		r.ok(g.Close())
		_, err := g.WorkQueues()
		r.is(err, ErrClosed)
	}
	plain := need(r.gpu.NewGreenContext(parts[0]))(t)
	if got := need(plain.WorkQueues())(t); got != its {
		t.Errorf("without work queues of its own: %+v, want the device's", got)
	}
	r.ok(plain.Close())

	for _, n := range []int{-1, math.MinInt, math.MaxUint32 + 1} {
		_, err := r.gpu.NewGreenContextQueues(WorkQueues{Limit: n}, parts[0])
		r.is(err, ResultInvalidValue)
	}
	_, err = r.gpu.NewGreenContextQueues(its)
	r.is(err, ResultInvalidValue)
	for _, err := range []error{
		second2((*Device)(nil).WorkQueues()), second2((*GreenContext)(nil).WorkQueues()),
		second2((*Context)(nil).NewGreenContextQueues(its, parts[0])),
	} {
		r.is(err, ErrNil)
	}
	for _, f := range []string{"cuDeviceGetDevResource", "cuDevResourceGenerateDesc"} {
		r.sim.Inject(cusim.Fault{Function: f, Code: int(ResultOutOfMemory)})
		_, err = r.gpu.NewGreenContextQueues(its, parts[0])
		r.is(err, ResultOutOfMemory)
		r.sim.ClearFaults()
	}
}

// TestWorkQueuesMissing asks older drivers for work queues.
func TestWorkQueuesMissing(t *testing.T) {
	r := newSoft(t, cusim.Version(13000))
	dev := r.gpu.Device()
	parts, _, err := need(dev.SMResource())(t).Split(8)
	r.ok(err)
	g := need(r.gpu.NewGreenContext(parts[0]))(t)
	defer g.Close()
	for _, err := range []error{
		second2(dev.WorkQueues()), second2(g.WorkQueues()),
		second2(r.gpu.NewGreenContextQueues(WorkQueues{}, parts[1])),
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
	its, err := dev.WorkQueues()
	if v := need(dev.Driver().Version())(t); v < 13010 {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("on a driver for CUDA %v: %v", v, err)
		}
		return
	}
	parts, _, err := need(dev.SMResource())(t).Split(8)
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range []WorkQueues{its, {Limit: 2}, {Limit: 2, Balanced: true}} {
		g := need(gpu.NewGreenContextQueues(asked, parts[0]))(t)
		if got := need(g.WorkQueues())(t); got != asked {
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
