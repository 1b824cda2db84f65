// Package behaviour compares the behaviour of drivers, call by call, with that of an H200
// (testdata/h200-cuda13.0.tsv). The same table has the answers of package cu. Each case runs in a
// process of its own, because some cases leave the process unable to use CUDA.
//
// Further behaviours that were found later are in another table (h200-cuda13.0-found.tsv).
// TestFound writes it with -behaviour.record: on a machine with a GPU from the GPU's answers, and
// elsewhere from those of the software driver, for a comparison.
//
// The drivers are the software drivers in softwareDrivers; the system's driver if PURECU_TEST_GPU
// is set ("1", or the path of the library); cusim as a C library if PURECU_TEST_SOFTLIB is its path
// (see cusim/libcuda); and the libraries in PURECU_TEST_LIBCUDA, for the cases that need no GPU.
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
