package cu_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"runtime"
	"time"

	"github.com/purecu/purecu/cu"
)

// The Go programs of docs/coming-from.md, which shows what is between the
// braces.

func Example_comingFromC() {
	drv := must(cu.Open())
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mod := must(gpu.LoadModuleFile("spin.ptx"))
	defer mod.Close()
	spin := must(mod.Function("spin"))
	start, stop := must(gpu.NewEvent(cu.EventDefault)), must(gpu.NewEvent(cu.EventDefault))
	defer start.Close()
	defer stop.Close()

	check(start.Record(s))
	check(spin.Launch(s, cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}, cu.U64(10_000_000)))
	check(stop.Record(s))
	for must(stop.Query()) == cu.Pending {
		runtime.Gosched()
	}
	d, _, err := stop.Since(start)
	check(err)
	fmt.Println(d)
}

func Example_comingFromPyTorch() {
	load, compute := must(gpu.NewStream(cu.StreamNonBlocking)), must(gpu.NewStream(cu.StreamNonBlocking))
	defer load.Close()
	defer compute.Close()
	var loaded cu.Event // created by its first record
	defer loaded.Close()
	check(load.Copy(x, host))
	check(loaded.Record(load))
	check(compute.WaitEvent(&loaded))
	d := must(compute.Time(ctx, func() error {
		return compute.Memset32(x, math.Float32bits(1))
	}))
	fmt.Println(d)
}

func Example_comingFromCudaCore() {
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	start, stop := must(gpu.NewEvent(cu.EventDefault)), must(gpu.NewEvent(cu.EventDefault))
	defer start.Close()
	defer stop.Close()
	check(start.Record(s))
	check(spin.Launch(s, cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}, cu.U64(10_000_000)))
	check(stop.Record(s))
	fmt.Println(must(cu.Elapsed(ctx, start, stop))) // waits for both
}

func Example_comingFromGorgonia() {
	var done cu.Event
	defer done.Close()
	check(spin.Launch(s, cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}, cu.U64(10_000_000)))
	check(done.Record(s))
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	check(done.Wait(ctx)) // on any goroutine, for a minute at most
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func Example_comingFromCuPy() {
	sum := make([]float32, 3)
	a, b := must(cu.AllocFrom(gpu, []float32{1, 2, 3})), must(cu.AllocFrom(gpu, []float32{4, 5, 6}))
	c := must(cu.AllocFor[float32](gpu, len(sum)))
	defer func() { check(errors.Join(a.Close(), b.Close(), c.Close())) }()
	check(add.Launch(s, cu.Grid1D(len(sum), 256), cu.Ptr(c), cu.Ptr(a), cu.Ptr(b), cu.U32(3)))
	check(s.Synchronize())
	check(cu.CopyTo(c, sum))
	fmt.Println(sum)
}
