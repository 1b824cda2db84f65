package cu_test

import (
	"context"
	"fmt"
	"log"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// A program that feeds a GPU step by step, and follows it, by one counter. Even values are
// the host's: the input of a step is there. Odd ones are the GPU's: the step is done.
func ExampleTimeline() {
	drv, err := cu.Open(cu.WithSoftware(cusim.New())) // or the GPU's, by cu.Open()
	if err != nil {
		log.Fatal(err)
	}
	dev, err := drv.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	mem, err := gpu.Alloc(4)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	host, err := gpu.AllocHost(4, cu.HostDefault)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()

	steps, err := gpu.NewTimeline(0)
	if err != nil {
		log.Fatal(err) // errors.ErrUnsupported, perhaps
	}
	defer steps.Close()
	for i := range uint64(3) { // all is enqueued at once
		if err := steps.Block(s, 2*i+2); err != nil {
			log.Fatal(err)
		}
		if err := s.Copy(mem, host); err != nil {
			log.Fatal(err)
		}
		if err := steps.Signal(s, 2*i+3); err != nil {
			log.Fatal(err)
		}
	}
	for i, input := range []string{"ping", "pong", "done"} {
		if _, err := host.WriteAt([]byte(input), 0); err != nil {
			log.Fatal(err)
		}
		if err := steps.Set(uint64(2*i + 2)); err != nil {
			log.Fatal(err)
		}
		if err := steps.Wait(context.Background(), uint64(2*i+3)); err != nil {
			log.Fatal(err)
		}
		fmt.Println(steps.Value(), input)
	}
	// Output:
	// 3 ping
	// 5 pong
	// 7 done
}

// A program that stops itself: the call that waits for the stream keeps the goroutine from letting the
// stream go on. See docs/blocking.md.
func ExampleTimeline_Block_stopsItself() {
	drv, _ := cu.Open(cu.WithSoftware(cusim.New())) // or the GPU's, by cu.Open()
	dev, _ := drv.Device(0)
	gpu, _ := dev.PrimaryContext()
	s, _ := gpu.NewStream(cu.StreamNonBlocking)
	x, _ := gpu.Alloc(64)
	y, _ := gpu.Alloc(64)
	tl, _ := gpu.NewTimeline(0)

	tl.Block(s, 1) // the work of s continues when the counter is 1
	s.Memset(x, 0)
	y.Close() // waits for the work of s, so it never returns
	tl.Set(1)
}
