package cu_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// noParamInfo is a driver for CUDA 13.0 that lacks a function of CUDA 12.4.
type noParamInfo struct{ Software driver.Software }

func (noParamInfo) FuncGetParamInfo(th *driver.Thread, f driver.Function, i uint64) (uint64, uint64, driver.Result) {
	return driver.Unimplemented{}.FuncGetParamInfo(th, f, i)
}

// TestPartialDriverParams loads PTX into a software driver that lacks a function which drivers of its version have:
// launches are checked by the PTX.
func TestPartialDriverParams(t *testing.T) {
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(noParamInfo{cusim.New().Software()})))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	m := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	f := Need(m.Function("spin"))(t)
	if sizes, known := f.Params(); !known || len(sizes) == 0 {
		t.Errorf("the parameters are %v, known: %v", sizes, known)
	}
	if err := errors.Join(m.Close(), gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
}

// refusing is a driver that refuses all waits for events.
type refusing struct{ Software driver.Software }

func (refusing) BeginWait(_ driver.Context, events []driver.Event) (end func(), res driver.Result) {
	if len(events) == 0 {
		return nil, driver.ResultSuccess
	}
	return nil, driver.ResultNotPermitted
}

// TestRefusedWaits has the driver refuse waits, which do not count as waits then.
func TestRefusedWaits(t *testing.T) {
	sim := cusim.New()
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(refusing{sim.Software()})))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	sim.Hold(s.Handle())
	e := Need(s.RecordNew(EventDisableTiming))(t)
	for range 3 {
		if err := e.Wait(t.Context()); !errors.Is(err, ResultNotPermitted) {
			t.Errorf("Wait: %v", err)
		}
	}
	if st := drv.Stats(); st.Waits != 0 {
		t.Errorf("nobody waits, and Stats counts %d", st.Waits)
	}
	sim.Release(s.Handle())
	if err := errors.Join(e.Close(), s.Close(), gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
}
