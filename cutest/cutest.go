// Package cutest opens drivers for tests of programs that use package cu, and NVML for those that use
// package nvml. The driver is a software driver, so that the tests run everywhere. If an environment
// variable is set, it is the driver of the machine's GPU.
//
//	func TestPipeline(t *testing.T) {
//		gpu := cutest.Context(t)
//		…
//	}
package cutest

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// Environment is the name of the environment variable that makes [Driver] open the machine's GPU.
// Its value is "1" for the system's driver library, or the path of another library.
const Environment = "PURECU_TEST_GPU"

// Driver returns a driver for the test. By default it is a software driver with the given options.
// If the environment variable PURECU_TEST_GPU is set, it is the driver of the machine's GPU, and
// the options have no effect. The test fails if objects on a software driver are still open at its
// end. An object that the program does not refer to any more is not: the garbage collector closes it.
func Driver(t testing.TB, opts ...cusim.Option) *cu.Driver {
	t.Helper()
	path := os.Getenv(Environment)
	if path == "" {
		drv, _ := Soft(t, opts...)
		return drv
	}
	if path == "1" {
		path = ""
	}
	drv, err := cu.Open(cu.WithLibrary(path))
	if err != nil {
		t.Fatalf("cutest: %s asks for a GPU: %v", Environment, err)
	}
	return drv
}

// Context returns the primary context of device 0 of a driver of its own, which is that of [Driver]. It is closed at
// the end of the test, after what the test has closed by defer.
func Context(t testing.TB, opts ...cusim.Option) *cu.Context {
	t.Helper()
	drv := Driver(t, opts...)
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatalf("cutest: %v", err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		t.Fatalf("cutest: %v", err)
	}
	t.Cleanup(func() {
		if err := gpu.Close(); err != nil {
			t.Errorf("cutest: %v", err)
		}
	})
	return gpu
}

// Soft returns a software driver for the test, opened with cu, and the same driver as a
// [cusim.Driver]. It is for tests that hold streams, advance the time or check misuse, which is not
// possible with a GPU.
//
// # The end of the test
//
// At the end of the test, held streams are released, and virtual time advances. Then the test fails
// if there are open objects or misuses. The library's own streams, one for each of a context's
// first four streams, count as open until the context is closed.
//
// # Blocked calls
//
// A call may wait for a stream that the test holds, or for virtual time: for example a deferred
// Close of memory. After a second without another event, such a call is logged, with its reasons.
// After ten seconds the test fails, and the held streams are released, so that the test ends.
func Soft(t testing.TB, opts ...cusim.Option) (*cu.Driver, *cusim.Driver) {
	t.Helper()
	sim := cusim.New(opts...)
	drv, err := cu.Open(cu.WithSoftware(sim))
	if err != nil {
		t.Fatalf("cutest: %v", err)
	}
	w := watchSoft(t, sim, time.Second, 10*time.Second)
	t.Cleanup(func() {
		w.stop()
		// Objects that were closed last may be destroyed in the background after their work.
		// Abandoned objects are destroyed after the garbage collector has found them, some of them
		// by drv.Close.
		for i := 0; i < 200 && len(sim.Census()) > 0; i++ {
			sim.Finish()
			runtime.GC()
			drv.Close()
			time.Sleep(time.Duration(min(i, 10)) * time.Millisecond)
		}
		sim.Check(t)
	})
	return drv, sim
}
