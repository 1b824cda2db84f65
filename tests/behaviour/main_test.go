// Package behaviour asserts how a driver behaves, call by call: every driver has
// to answer as an H200's did (testdata/h200-cuda13.0.tsv), and package cu as the
// same table says. Each case runs in a process of its own, since some poison
// theirs.
//
// What was found beyond that table has another one (h200-cuda13.0-found.tsv), which
// TestFound writes with -behaviour.record: on a machine with a GPU what the GPU
// answers, elsewhere what the software driver does, to be compared.
//
// The drivers are the software drivers that softwareDrivers lists, the system's
// if PURECU_TEST_GPU is set ("1", or a path to it), cusim as a library in C if
// PURECU_TEST_SOFTLIB is the path of one (see cusim/libcuda), and, for what needs no
// GPU, those that PURECU_TEST_LIBCUDA lists.
package behaviour

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(jobEnv); spec != "" {
		os.Exit(runJob(spec)) // a child: see launch
	}
	goleak.VerifyTestMain(m)
}
