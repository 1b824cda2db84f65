package green_test

import (
	"fmt"
	"log"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cusim"
)

// Two shares of the multiprocessors: what runs on the one does not slow the other down.
func ExampleNew() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New()))) // or the GPU's driver, from CUDA 12.5
	dev := must(drv.Device(0))
	gpu := must(dev.PrimaryContext())
	defer gpu.Close()
	parts, rest, err := must(green.DeviceSMs(dev)).Split(60)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(parts), "parts of", parts[0].Count(), "multiprocessors, and", rest.Count(), "left")

	urgent, bulk := must(green.New(gpu, parts[0])), must(green.New(gpu, parts[1], rest))
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

// A green context whose work does not wait in the work queues of others.
func ExampleNewWithQueues() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New(cusim.Version(13010))))) // or the GPU's driver, from CUDA 13.1
	dev := must(drv.Device(0))
	gpu := must(dev.PrimaryContext())
	defer gpu.Close()
	parts, _, err := must(green.DeviceSMs(dev)).Split(60)
	if err != nil {
		log.Fatal(err)
	}
	g := must(green.NewWithQueues(gpu, green.WorkQueues{Limit: 2, Balanced: true}, parts[0]))
	defer g.Close()
	fmt.Printf("the device: %+v\nthe green context: %+v\n", must(green.DeviceQueues(dev)), must(g.Queues()))
	// Output:
	// the device: {Limit:8 Balanced:false}
	// the green context: {Limit:2 Balanced:true}
}

// A small part for urgent work, all others for the rest, and what a stream has of them.
func ExampleSMResource_SplitGroups() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New(cusim.Version(13010))))) // or the GPU's driver, from CUDA 13.1
	dev := must(drv.Device(0))
	gpu := must(dev.PrimaryContext())
	defer gpu.Close()
	parts, _, err := must(green.DeviceSMs(dev)).SplitGroups(
		green.SMGroup{Count: 16, Coscheduled: 4}, // for clusters of four blocks
		green.SMGroup{Coscheduled: 2, Backfill: true})
	if err != nil {
		log.Fatal(err)
	}
	urgent, bulk := must(green.New(gpu, parts[0])), must(green.New(gpu, parts[1]))
	defer urgent.Close()
	defer bulk.Close()
	for _, g := range []*green.Context{urgent, bulk} {
		s := must(g.NewStream(0))
		defer s.Close()
		fmt.Println("a stream with", must(green.StreamSMs(s)).Count(), "multiprocessors")
	}
	// Output:
	// a stream with 16 multiprocessors
	// a stream with 116 multiprocessors
}
