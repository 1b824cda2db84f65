// Package fuzz makes random sequences of driver calls on events, streams, contexts, captures and
// graphs. A sequence is data: it is computed from its seed, can be printed, and is made shorter
// while it still fails.
//
// A model of the driver gives the expected answer of each call. In the model work takes no time:
// whether something is pending depends only on gates, which are values in memory that streams wait
// for. So one driver is enough. In addition, the answers of two drivers are compared: software
// drivers with different configurations, or, with PURECU_TEST_GPU ("1", or a path of the library),
// a software driver and NVIDIA's driver.
package fuzz

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests.
func TestMain(m *testing.M) {
	// Processes of the tests are killed, so that they may not remove what they write.
	dir, err := os.MkdirTemp("", "purecu-fuzz-")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		os.RemoveAll(dir)
		os.Exit(status)
	}))
}
