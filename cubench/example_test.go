package cubench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cubench"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

const ptx = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry scale(.param .u32 n) { ret; }"

// On the software driver the kernel takes two nanoseconds for each element.
var scale = cusim.WithKernel("scale", cusim.Kernel{Time: func(l *cusim.Launch) time.Duration {
	return 2 * time.Duration(l.U32(0))
}})

// A benchmark of a kernel on the software driver. In virtual time the results do not depend on the
// machine. To measure a GPU, open the driver with cutest.Driver, and leave out cubench.Virtual.
func ExampleRun() {
	benchmarkScale := func(b *testing.B) {
		drv, sim := cutest.Soft(b, scale, cusim.VirtualTime())
		dev, err := drv.Device(0)
		if err != nil {
			b.Fatal(err)
		}
		gpu, err := dev.PrimaryContext()
		if err != nil {
			b.Fatal(err)
		}
		defer gpu.Close()
		mod, err := gpu.LoadModule([]byte(ptx))
		if err != nil {
			b.Fatal(err)
		}
		defer mod.Close()
		f, err := mod.Function("scale")
		if err != nil {
			b.Fatal(err)
		}
		const n = 10_000
		cubench.Run(b, gpu, func(s *cu.Stream) error {
			return f.Launch(s, cu.Grid1D(n, 256), cu.U32(n))
		}, cubench.Bytes(8*n), cubench.Virtual(sim))
	}
	r := testing.Benchmark(benchmarkScale)
	fmt.Println(r.Extra["gpu-ns/op"], "gpu-ns/op")
	fmt.Println(r.Extra["MB/s"], "MB/s")
	// Output:
	// 20000 gpu-ns/op
	// 4000 MB/s
}
