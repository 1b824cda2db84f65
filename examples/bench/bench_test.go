package bench

import (
	"flag"
	"testing"
	"time"

	"github.com/purecu/purecu/cubench"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

// mine is the kernel on the software driver, which has to be told how long it takes.
var mine = cusim.WithKernel("mine", cusim.Kernel{Time: func(l *cusim.Launch) time.Duration {
	return time.Duration(l.U32(0))
}})

func BenchmarkMine(b *testing.B) { measure(b, cutest.Driver(b, mine)) }

// BenchmarkVirtual measures in virtual time. Its result is the same on every machine.
func BenchmarkVirtual(b *testing.B) {
	drv, sim := cutest.Soft(b, mine, cusim.VirtualTime())
	measure(b, drv, cubench.Virtual(sim))
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
	if r := testing.Benchmark(BenchmarkVirtual); r.Extra["gpu-p95-ns/op"] != 20_000 || r.Extra["gpu-ns/op"] != 20_000 {
		t.Errorf("BenchmarkVirtual: %v", r)
	}
}
