package cu

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/purecu/purecu/cusim"
)

// TestWorkQueues makes green contexts with work queues, and refuses what they cannot have.
func TestWorkQueues(t *testing.T) {
	r := newSoft(t, cusim.Version(13010))
	dev := r.gpu.Device()
	its := must(dev.WorkQueues())(t)
	if its != (WorkQueues{Limit: 8}) {
		t.Errorf("the device's work queues are %+v", its)
	}
	parts, _, err := must(dev.SMResource())(t).Split(8)
	r.ok(err)
	for i, c := range []struct{ asked, want WorkQueues }{
		{WorkQueues{}, its},
		{WorkQueues{Balanced: true}, WorkQueues{Limit: 8, Balanced: true}},
		{WorkQueues{Limit: 3, Balanced: true}, WorkQueues{Limit: 3, Balanced: true}},
		{WorkQueues{Limit: 100}, WorkQueues{Limit: 100}},
	} {
		g := must(r.gpu.NewGreenContextQueues(c.asked, parts[2*i], parts[2*i+1]))(t)
		if got := must(g.WorkQueues())(t); got != c.want {
			t.Errorf("asked for %+v: %+v, want %+v", c.asked, got, c.want)
		}
		if n := must(g.SMResource())(t).Count(); n != 16 {
			t.Errorf("%d multiprocessors, want 16", n)
		}
		s := must(g.NewStream(0))(t)
		r.ok(s.Synchronize())
		r.ok(s.Close())
		r.ok(g.Close())
		_, err := g.WorkQueues()
		r.is(err, ErrClosed)
	}
	plain := must(r.gpu.NewGreenContext(parts[0]))(t)
	if got := must(plain.WorkQueues())(t); got != its {
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
	parts, _, err := must(dev.SMResource())(t).Split(8)
	r.ok(err)
	g := must(r.gpu.NewGreenContext(parts[0]))(t)
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
	if v := must(dev.Driver().Version())(t); v < 13010 {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("on a driver for CUDA %v: %v", v, err)
		}
		return
	}
	parts, _, err := must(dev.SMResource())(t).Split(8)
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range []WorkQueues{its, {Limit: 2}, {Limit: 2, Balanced: true}} {
		g := must(gpu.NewGreenContextQueues(asked, parts[0]))(t)
		if got := must(g.WorkQueues())(t); got != asked {
			t.Errorf("asked for %+v: %+v", asked, got)
		}
		s := must(g.NewStream(0))(t)
		if err := s.Synchronize(); err != nil {
			t.Error(err)
		}
		closeIt(t, s)
		closeIt(t, g)
	}
}
