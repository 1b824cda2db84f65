package cutest_test

import (
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

// A test that runs on three GPUs.
func ExampleMatrix() {
	test := func(t *testing.T) {
		cutest.Matrix(t, "T4", "A100", "H100").Run(func(t *testing.T, gpu string) {
			ctx := cutest.Context(t, cusim.Profile(gpu))
			most, err := ctx.Device().Attribute(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin)
			if err != nil || most < 64<<10 {
				t.Errorf("a block can have %d bytes of shared memory, %v", most, err)
			}
		})
	}
	_ = test // a function of a test file, with a name such as TestSharedMemory
}
