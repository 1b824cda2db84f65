package cu_test

import (
	"fmt"
	"log"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// One event is for all streams of a context, and one wait for all that comes later: here
// a phase ends before the next one begins, whoever enqueues it.
func ExampleContext_RecordEvent() {
	sim := cusim.New() // or the GPU's driver, from CUDA 12.5
	drv := must(cu.Open(cu.WithSoftware(sim)))
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	load, compute := must(gpu.NewStream(cu.StreamNonBlocking)), must(gpu.NewStream(cu.StreamNonBlocking))
	defer load.Close()
	defer compute.Close()
	mem := must(gpu.Alloc(1 << 20))
	defer mem.Close()

	sim.Hold(load.Handle()) // it is slow
	if err := load.Memset(mem, 0); err != nil {
		log.Fatal(err)
	}
	var phase, next cu.Event
	defer phase.Close()
	defer next.Close()
	if err := gpu.RecordEvent(&phase); err != nil {
		log.Fatal(err)
	}
	if err := gpu.WaitEvent(&phase); err != nil {
		log.Fatal(err)
	}
	if err := next.Record(compute); err != nil {
		log.Fatal(err)
	}
	fmt.Println(must(phase.Query()), must(next.Query()))
	sim.Release(load.Handle())
	if err := next.Synchronize(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(must(phase.Query()), must(next.Query()))
	// Output:
	// pending pending
	// complete complete
}
