// Package conformance has one test for each behaviour that the project promises. The name of a test
// begins with the number of its row: TestE04… is row E4.
//
// Rows E are the driver's event unit, which the software driver implements. Their tests make raw
// calls on the software driver, with virtual time and with real time, and, with PURECU_TEST_GPU
// ("1", or a path of the library), on NVIDIA's driver. They expect the same results everywhere.
// What cannot be tested on a driver in C, such as calls that crash it, is tested on the software
// driver only, and the test says so. If the answers of an H200 (testdata of tests/behaviour and
// tests/entries) differ from a row, the H200 is right, and the test says so.
//
// Rows A, B and C are what users of other event systems rely on, in package cu: lazy events, pools
// of streams, and pools of events. Their tests use package cu on the same drivers. They make raw
// calls only to hold streams and to count objects. Rows D are the driver API's event management.
// Their tests compare package cu with the driver's answers to the same calls. The tests of rows
// D13, A9, A10 and B2 share events with processes that they start.
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

// keep holds the primary context of the first GPU until the process ends. Creating a new one for
// each test would take longer than most tests.
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
