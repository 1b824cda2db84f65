package cu_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// affine is a driver for a client of the Multi-Process Service.
type affine struct {
	Software driver.Software
	asked    uint32
}

func (d *affine) CtxCreateV3(th *driver.Thread, params []driver.ExecAffinityParam, flags uint32,
	dev driver.Device) (driver.Context, driver.Result) {
	d.asked = params[0].Param.SmCount().Val
	return d.Software.CtxCreate(th, nil, flags, dev)
}

func (d *affine) CtxGetExecAffinity(*driver.Thread, int32) (p driver.ExecAffinityParam, r driver.Result) {
	p.Param.SmCount().Val = (d.asked + 7) &^ 7
	return p, r
}

func (d *affine) DeviceGetExecAffinitySupport(*driver.Thread, int32, driver.Device) (int32, driver.Result) {
	return 1, driver.ResultSuccess
}

// TestContextWithSMs creates contexts with some of the multiprocessors.
func TestContextWithSMs(t *testing.T) {
	sim := cusim.New()
	d := &affine{Software: sim.Software()}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(d)))))(t)
	dev := Need(drv.Device(0))(t)
	if !Need(dev.LimitsSMs())(t) {
		t.Error("LimitsSMs is false")
	}
	gpu := Need(dev.NewContextWithSMs(0, 9))(t)
	if n := Need(gpu.SMCount())(t); n != 16 || d.asked != 9 {
		t.Errorf("%d multiprocessors, asked for %d", n, d.asked)
	}
	m := Need(gpu.Alloc(4))(t)
	NoErr(t, errors.Join(m.Close(), gpu.Close(), drv.Close()))
	CheckFreed(t, sim)
}

// TestContextWithSMsRefused asks drivers that cannot limit the multiprocessors.
func TestContextWithSMsRefused(t *testing.T) {
	r := NewSoft(t)
	dev := r.GPU.Device()
	if Need(dev.LimitsSMs())(t) {
		t.Error("LimitsSMs is true")
	}
	_, err := dev.NewContextWithSMs(0, 8)
	r.Is(err, ResultUnsupportedExecAffinity)
	_, err = dev.NewContextWithSMs(0, 0)
	r.Is(err, drivercall.ErrInvalid)
	_, err = dev.NewContextWithSMs(1<<30, 1)
	r.Is(err, drivercall.ErrInvalid)
	_, err = (*Device)(nil).NewContextWithSMs(0, 1)
	r.Is(err, ErrNil)
	_, err = (*Device)(nil).LimitsSMs()
	r.Is(err, ErrNil)
	all := Need(dev.Attribute(DeviceAttributeMultiprocessorCount))(t)
	if n := Need(r.GPU.SMCount())(t); n != all {
		t.Errorf("%d multiprocessors of %d", n, all)
	}
	old := Need(Open(WithSoftware(cusim.New(cusim.Version(11030)))))(t)
	_, err = Need(old.Device(0))(t).NewContextWithSMs(0, 1)
	r.Is(err, errors.ErrUnsupported)
	NoErr(t, old.Close())
}

// TestGPUContextWithSMs asks a real GPU for a context with some of the multiprocessors: see gpu_test.go.
func TestGPUContextWithSMs(t *testing.T) {
	gpu := GPUContext(t)
	dev := gpu.Device()
	can := Need(dev.LimitsSMs())(t)
	all := Need(gpu.SMCount())(t)
	t.Logf("limits: %v, multiprocessors: %d", can, all)
	c, err := dev.NewContextWithSMs(0, 8)
	if !can {
		if !errors.Is(err, ResultUnsupportedExecAffinity) {
			t.Errorf("without support: %v", err)
		}
		return
	}
	NoErr(t, err)
	if n := Need(c.SMCount())(t); n < 8 || n > all {
		t.Errorf("%d multiprocessors of %d", n, all)
	}
	NoErr(t, c.Close())
}
