// Package conformance holds one test for each behaviour that the project promises,
// by the number of its row: TestE04… is row E4.
//
// Rows E are the driver's own event unit, which the software driver implements. Their
// tests make raw calls, on the software driver with virtual time and with the
// machine's, and, with PURECU_TEST_GPU ("1", or a path to the library), on NVIDIA's
// driver, and expect the same of all. What a driver in C cannot show, such as calls
// that crash it, is tested on the software driver only, and the test says so. Where
// what an H200 answered (testdata of tests/behaviour and tests/entries) differs from
// what a row says, the H200 is right, and the test says that, too.
//
// Rows A, B and C are what users of other event systems rely on, in package cu: lazy
// events, streams from pools, pools of events. Their tests use package cu on the same
// drivers, and raw calls only to hold streams up and to count what is alive. Rows D are
// the driver API's event management: their tests hold package cu to what the driver
// itself answers to the same call. Those of rows D13, A9, A10 and B2 share events with
// processes that they start.
package conformance

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/loader"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(jobEnv); spec != "" {
		os.Exit(runJob(spec)) // another process of a test: see peer
	}
	if err := keep(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// keep holds the primary context of the GPU's first device until the process ends: to
// make one anew for each test would take longer than most tests.
func keep() error {
	for _, tg := range targets() {
		if !tg.InC {
			continue
		}
		lib, err := loader.Open(tg.Library)
		if err != nil {
			return err
		}
		table := driver.New(lib)
		r := table.Init(driver.At{}, 0)
		if r == driver.ResultSuccess {
			_, r = table.DevicePrimaryCtxRetain(driver.At{}, 0)
		}
		if r != driver.ResultSuccess {
			return fmt.Errorf("the primary context of device 0: %v", r)
		}
	}
	return nil
}
