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

// A test that searches for races in a kernel. If a seed finds one, the test says how to repeat it.
func ExampleSeeds() {
	test := func(t *testing.T) {
		cutest.Seeds(t, 100).Run(func(t *testing.T, seed uint64) {
			ctx := cutest.Context(t, cusim.Seed(seed))
			mod, err := ctx.LoadModule([]byte(ptx))
			if err != nil {
				t.Fatal(err)
			}
			defer mod.Close()
			// Launch the kernel, and compare its result.
		})
	}
	_ = test // a function of a test file, with a name such as TestReduce
}

// ptx is the text of a kernel.
const ptx = ".version 7.0\n.target sm_70\n.visible .entry k() { ret; }"
