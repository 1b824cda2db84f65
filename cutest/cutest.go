// Package cutest opens drivers for tests of programs that use package cu: a
// software driver, so that the tests run everywhere, or the machine's GPU, if the
// environment asks for it.
//
//	func TestPipeline(t *testing.T) {
//		drv := cutest.Driver(t)
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

// Environment is the name of the environment variable that makes [Driver] open the
// machine's GPU: "1" for the driver library that the system has, else the library's
// path.
const Environment = "PURECU_TEST_GPU"

// Driver returns a driver for the test: a software driver with these options, or,
// if the environment variable PURECU_TEST_GPU is set, the machine's GPU, for which
// the options mean nothing. When the test ends, what the test left open on a
// software driver makes it fail.
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

// Soft returns a software driver for the test, and the driver that it opened on it:
// for tests that hold streams, move the time or look at misuse, which a GPU cannot.
// When the test ends, streams that are held are released, virtual time moves on, and
// what is still open then makes the test fail, and so does misuse. Streams of the library's own, one for each of
// a context's first four, count as open as long as the context is.
//
// A call may wait for a stream that the test holds, or for virtual time, as a deferred Close
// of memory does: who waits, for what, and what lets it go on, is logged after a second in
// which nothing else happens. After ten seconds of that the test fails, and what it holds is
// released, so that it ends.
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
		// What was closed last may be destroyed in the background, when its work is
		// done, and what was forgotten when the garbage collector has found it: some of it by drv.Close.
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
