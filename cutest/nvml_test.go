package cutest_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
	"github.com/purecu/purecu/nvml"
)

// TestMachine finds CUDA's devices in NVML, with the memory that the test has.
func TestMachine(t *testing.T) {
	if os.Getenv(cutest.Environment) != "1" { // another library has no NVML
		t.Setenv(cutest.Environment, "")
	}
	drv, lib := cutest.Machine(t, cusim.Devices(2))
	for _, dev := range must(drv.Devices()) {
		gpu := must(dev.PrimaryContext())
		defer gpu.Close()
		mem := must(gpu.Alloc(1 << 30))
		defer mem.Close()
		d := must(lib.DeviceByUUID(nvml.UUID(must(dev.UUID()).String())))
		if m := must(d.Memory()); m.Used < 1<<30 {
			t.Errorf("%v uses %d bytes", d, m.Used)
		}
	}
}

// TestNVML closes NVML at the end of a test in which calls hang and an event is waited for.
func TestNVML(t *testing.T) {
	for _, opts := range [][]cusim.Option{nil, {cusim.VirtualTime()}} {
		synctest.Test(t, func(t *testing.T) { // no goroutine may be left in its bubble
			var lib *nvml.Library
			said := run(t, func(t testing.TB) {
				drv, sim := cutest.Soft(t, opts...)
				lib = cutest.NVML(t, sim)
				if uuid := must(must(lib.Device(0)).UUID()); string(uuid) != must(must(drv.Device(0)).UUID()).String() {
					t.Errorf("the device of NVML is %s", uuid)
				}
				set := must(lib.NewEventSet())
				check(set.Add(must(lib.Device(0)), nvml.EventXIDCritical))
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				if _, err := set.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				sim.InjectNVML(cusim.NVMLFault{Hangs: true})
				if _, err := lib.WithTimeout(time.Millisecond).DeviceCount(); !errors.Is(err, nvml.ErrTimeout) {
					t.Error(err)
				}
				if _, err := drv.DeviceCount(); err != nil {
					t.Error(err)
				}
			})
			if said != "" {
				t.Error(said)
			}
			if _, err := lib.DeviceCount(); !errors.Is(err, nvml.ErrClosed) {
				t.Error(err)
			}
			time.Sleep(time.Second)
		})
	}
}

// TestNVMLWork sees in NVML what CUDA does.
func TestNVMLWork(t *testing.T) {
	drv, sim := cutest.Soft(t, cusim.VirtualTime(), spins)
	dev := must(cutest.NVML(t, sim).Device(0))
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	for _, percent := range []nvml.Percent{25, 0, 100} {
		spin(gpu, s, time.Duration(percent)*time.Second/100)
		sim.Advance(time.Second)
		if use := must(dev.Utilization()); use.GPU != percent {
			t.Errorf("after %d %% of a second it was busy for %v", percent, use.GPU)
		}
	}
}
