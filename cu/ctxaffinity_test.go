package cu_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// affine is a driver for a client of the Multi-Process Service.
type affine struct {
	driver.Software
	asked uint32
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
	drv := need(Open(WithSoftware(driver.Provide(d))))(t)
	dev := need(drv.Device(0))(t)
	if !need(dev.LimitsSMs())(t) {
		t.Error("LimitsSMs is false")
	}
	gpu := need(dev.NewContextWithSMs(0, 9))(t)
	if n := need(gpu.SMCount())(t); n != 16 || d.asked != 9 {
		t.Errorf("%d multiprocessors, asked for %d", n, d.asked)
	}
	m := need(gpu.Alloc(4))(t)
	noErr(t, errors.Join(m.Close(), gpu.Close(), drv.Close()))
	checkFreed(t, sim)
}

// TestContextWithSMsRefused asks drivers that cannot limit the multiprocessors.
func TestContextWithSMsRefused(t *testing.T) {
	r := newSoft(t)
	dev := r.gpu.Device()
	if need(dev.LimitsSMs())(t) {
		t.Error("LimitsSMs is true")
	}
	_, err := dev.NewContextWithSMs(0, 8)
	r.is(err, ResultUnsupportedExecAffinity)
	_, err = dev.NewContextWithSMs(0, 0)
	r.is(err, core.ErrInvalid)
	_, err = dev.NewContextWithSMs(1<<30, 1)
	r.is(err, core.ErrInvalid)
	_, err = (*Device)(nil).NewContextWithSMs(0, 1)
	r.is(err, ErrNil)
	_, err = (*Device)(nil).LimitsSMs()
	r.is(err, ErrNil)
	all := need(dev.Attribute(DeviceAttributeMultiprocessorCount))(t)
	if n := need(r.gpu.SMCount())(t); n != all {
		t.Errorf("%d multiprocessors of %d", n, all)
	}
	old := need(Open(WithSoftware(cusim.New(cusim.Version(11030)))))(t)
	_, err = need(old.Device(0))(t).NewContextWithSMs(0, 1)
	r.is(err, errors.ErrUnsupported)
	noErr(t, old.Close())
}

// TestGPUContextWithSMs asks a real GPU for a context with some of the multiprocessors: see gpu_test.go.
func TestGPUContextWithSMs(t *testing.T) {
	gpu := gpuContext(t)
	dev := gpu.Device()
	can := need(dev.LimitsSMs())(t)
	all := need(gpu.SMCount())(t)
	t.Logf("limits: %v, multiprocessors: %d", can, all)
	c, err := dev.NewContextWithSMs(0, 8)
	if !can {
		if !errors.Is(err, ResultUnsupportedExecAffinity) {
			t.Errorf("without support: %v", err)
		}
		return
	}
	noErr(t, err)
	if n := need(c.SMCount())(t); n < 8 || n > all {
		t.Errorf("%d multiprocessors of %d", n, all)
	}
	noErr(t, c.Close())
}
