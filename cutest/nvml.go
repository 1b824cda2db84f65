package cutest

import (
	"os"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
)

// Machine returns a driver for the test, as [Driver] does, and an NVML with the same devices. If the environment
// variable PURECU_TEST_GPU is set, NVML is the machine's. NVML is closed at the end of the test.
func Machine(t testing.TB, opts ...cusim.Option) (*cu.Driver, *nvml.Library) {
	t.Helper()
	if os.Getenv(Environment) == "" {
		drv, sim := Soft(t, opts...)
		return drv, NVML(t, sim)
	}
	drv := Driver(t)
	lib, err := nvml.Open()
	if err != nil {
		t.Fatalf("cutest: %s asks for a GPU: %v", Environment, err)
	}
	t.Cleanup(func() { closeNVML(t, lib) })
	return drv, lib
}

// NVML returns the software NVML of a driver that [Soft] has returned. It is for tests that make a GPU fail: see
// [cusim.Driver.InjectNVML] and the methods near it.
//
// At the end of the test, after what the test has closed by defer, faults are cleared, so that calls that hang return,
// and the library is closed. With virtual time a second passes then, which ends waits for events.
func NVML(t testing.TB, sim *cusim.Driver) *nvml.Library {
	t.Helper()
	lib, err := nvml.Open(nvml.WithSoftware(sim.NVML()))
	if err != nil {
		t.Fatalf("cutest: %v", err)
	}
	t.Cleanup(func() {
		sim.ClearFaults()
		closeNVML(t, lib)
		sim.Advance(time.Second)
	})
	return lib
}

func closeNVML(t testing.TB, lib *nvml.Library) {
	if err := lib.Close(); err != nil {
		t.Errorf("cutest: %v", err)
	}
}
