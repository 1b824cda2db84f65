// Package bench measures how long a GPU takes for a kernel. Without a GPU the software driver runs it:
//
//	go test -bench . ./examples/bench
//	PURECU_TEST_GPU=1 go test -bench . ./examples/bench
package bench

import (
	_ "embed"
	"flag"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cubench"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

//go:embed mine.ptx
var ptx []byte

// mine is the kernel on the software driver, which has to be told how long it takes.
var mine = cusim.WithKernel("mine", cusim.Kernel{Time: func(l *cusim.Launch) time.Duration {
	return time.Duration(l.U32(0))
}})

func BenchmarkMine(b *testing.B) {
	benchmark(b, cutest.Driver(b, mine))
}

// BenchmarkVirtual measures in virtual time. Its result is the same on every machine.
func BenchmarkVirtual(b *testing.B) {
	drv, sim := cutest.Soft(b, mine, cusim.VirtualTime())
	benchmark(b, drv, cubench.Virtual(sim))
}

func benchmark(b *testing.B, drv *cu.Driver, opts ...cubench.Option) {
	dev, err := drv.Device(0)
	if err != nil {
		b.Fatal(err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		b.Fatal(err)
	}
	defer gpu.Close()
	mod, err := gpu.LoadModule(ptx)
	if err != nil {
		b.Fatal(err)
	}
	defer mod.Close()
	f, err := mod.Function("mine")
	if err != nil {
		b.Fatal(err)
	}
	launch, err := f.Prepare(cu.Grid1D(1, 1), cu.U32(20_000))
	if err != nil {
		b.Fatal(err)
	}
	cubench.Run(b, gpu, launch.Launch, opts...)
}

// TestBenchmarks runs both benchmarks with a few samples.
func TestBenchmarks(t *testing.T) {
	benchtime := flag.Lookup("test.benchtime").Value
	defer benchtime.Set(benchtime.String())
	if err := benchtime.Set("20x"); err != nil {
		t.Fatal(err)
	}
	if r := testing.Benchmark(BenchmarkMine); r.Extra["samples"] != 20 || r.Extra["gpu-ns/op"] <= 0 {
		t.Errorf("BenchmarkMine: %v", r)
	}
	if r := testing.Benchmark(BenchmarkVirtual); r.Extra["samples"] != 20 || r.Extra["gpu-ns/op"] != 20_000 ||
		r.Extra["gpu-p95-ns/op"] != 20_000 {
		t.Errorf("BenchmarkVirtual: %v", r)
	}
}
