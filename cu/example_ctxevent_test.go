package cu_test

import (
	"errors"
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

// There is no EGL here; a program that can do without asks.
func ExampleContext_NewEventFromEGLSync() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	const sync = 0x1000 // an EGLSync
	_, err := gpu.NewEventFromEGLSync(sync, cu.EventDefault)
	fmt.Println(errors.Is(err, errors.ErrUnsupported), errors.Is(err, cu.ResultNotSupported))
	// Output: true true
}

// A small part for urgent work, all others for the rest, and what a stream has of them.
func ExampleSMResource_SplitGroups() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New(cusim.Version(13010))))) // or the GPU's driver, from CUDA 13.1
	dev := must(drv.Device(0))
	gpu := must(dev.PrimaryContext())
	defer gpu.Close()
	parts, _, err := must(dev.SMResource()).SplitGroups(
		cu.SMGroup{Count: 16, Coscheduled: 4}, // for clusters of four blocks
		cu.SMGroup{Coscheduled: 2, Backfill: true})
	if err != nil {
		log.Fatal(err)
	}
	urgent, bulk := must(gpu.NewGreenContext(parts[0])), must(gpu.NewGreenContext(parts[1]))
	defer urgent.Close()
	defer bulk.Close()
	for _, g := range []*cu.GreenContext{urgent, bulk} {
		s := must(g.NewStream(0))
		defer s.Close()
		fmt.Println("a stream with", must(s.SMResource()).Count(), "multiprocessors")
	}
	// Output:
	// a stream with 16 multiprocessors
	// a stream with 116 multiprocessors
}

// A green context whose work does not wait in the work queues of others.
func ExampleContext_NewGreenContextQueues() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New(cusim.Version(13010))))) // or the GPU's driver, from CUDA 13.1
	dev := must(drv.Device(0))
	gpu := must(dev.PrimaryContext())
	defer gpu.Close()
	parts, _, err := must(dev.SMResource()).Split(60)
	if err != nil {
		log.Fatal(err)
	}
	g := must(gpu.NewGreenContextQueues(cu.WorkQueues{Limit: 2, Balanced: true}, parts[0]))
	defer g.Close()
	fmt.Printf("the device: %+v\nthe green context: %+v\n", must(dev.WorkQueues()), must(g.WorkQueues()))
	// Output:
	// the device: {Limit:8 Balanced:false}
	// the green context: {Limit:2 Balanced:true}
}

// Two shares of the multiprocessors: what runs on the one does not slow the other down.
func ExampleContext_NewGreenContext() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New()))) // or the GPU's driver, from CUDA 12.5
	dev := must(drv.Device(0))
	gpu := must(dev.PrimaryContext())
	defer gpu.Close()
	parts, rest, err := must(dev.SMResource()).Split(60)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(parts), "parts of", parts[0].Count(), "multiprocessors, and", rest.Count(), "left")

	urgent, bulk := must(gpu.NewGreenContext(parts[0])), must(gpu.NewGreenContext(parts[1], rest))
	defer urgent.Close()
	defer bulk.Close()
	s := must(urgent.NewStream(0))
	defer s.Close()
	mem := must(gpu.Alloc(1 << 20)) // memory, modules and events are the primary context's
	defer mem.Close()
	var done cu.Event
	defer done.Close()
	if err := s.Memset(mem, 0); err != nil {
		log.Fatal(err)
	}
	if err := urgent.RecordEvent(&done); err != nil { // of all its streams
		log.Fatal(err)
	}
	if err := done.Synchronize(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(must(done.Query()))
	// Output:
	// 2 parts of 64 multiprocessors, and 4 left
	// complete
}
