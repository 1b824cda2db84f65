package trace_test

import (
	"fmt"
	"log"
	"sync/atomic"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
)

// A tracer that counts records.
func ExampleAdd() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()

	var records atomic.Int32
	remove := trace.Add(drv, func(o trace.Operation) {
		if o.Op == trace.EventRecord {
			records.Add(1)
		}
	})
	defer remove()
	var e cu.Event
	defer e.Close()
	for range 3 {
		check(e.Record(s))
	}
	fmt.Println(records.Load(), "records")
	// Output: 3 records
}

// A tracer of calls finds those that the driver has refused.
func ExampleAddCalls() {
	sim := cusim.New()
	drv := must(cu.Open(cu.WithSoftware(sim)))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()

	remove := trace.AddCalls(drv, func(c trace.Call) {
		if c.Result != cu.ResultSuccess {
			fmt.Println(c.Op, "fails:", c.Result)
		}
	})
	defer remove()
	sim.Inject(cusim.Fault{Function: "cuStreamCreate", Code: int(cu.ResultInvalidValue)})
	_, err := gpu.NewStream(cu.StreamNonBlocking)
	fmt.Println(err != nil)
	// Output:
	// cuStreamCreate fails: CUDA_ERROR_INVALID_VALUE (1): invalid argument
	// true
}

// must returns v. If there is an error, it ends the program.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// check ends the program if there is an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
