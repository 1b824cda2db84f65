package cutest

import (
	"os"
	"slices"
	"testing"

	"github.com/purecu/purecu/cusim"
)

// Profiles are the GPUs of a [Matrix].
type Profiles struct {
	t     *testing.T
	names []string
}

// Matrix makes a test run on several GPUs of the software driver, all of [cusim.Profiles] if none is named:
//
//	cutest.Matrix(t, "T4", "A100", "H100").Run(func(t *testing.T, gpu string) {
//		ctx := cutest.Context(t, cusim.Profile(gpu))
//		…
//	})
//
// A name may be a list as for cusim.Profile, such as "A100:2". If the environment variable PURECU_TEST_GPU is set, the
// test runs once, for the first of them, as options have no effect on the machine's GPU. That is another GPU than the
// name says, so a test gets what it expects from the attributes of the device, and not from the name.
func Matrix(t *testing.T, profiles ...string) Profiles {
	t.Helper()
	if len(profiles) == 0 {
		profiles = cusim.Profiles()
	}
	for _, p := range profiles {
		if err := cusim.New(cusim.Profile(p)).Err(); err != nil {
			t.Fatalf("cutest: Matrix: %v", err)
		}
	}
	if os.Getenv(Environment) != "" {
		profiles = profiles[:1]
	}
	return Profiles{t, slices.Clone(profiles)}
}

// Run runs f as a subtest for each GPU, with the GPU's name. f passes cusim.Profile(gpu) to [Context], [Driver], [Soft]
// or [Machine]: without this option their device is an H200.
func (p Profiles) Run(f func(t *testing.T, gpu string)) {
	for _, gpu := range p.names {
		p.t.Run(gpu, func(t *testing.T) { f(t, gpu) })
	}
}
