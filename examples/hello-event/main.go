// Command hello-event measures the time between two points of a stream on the GPU.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/purecu/purecu/cu"
)

func main() {
	drv := must(cu.Open())
	dev := must(drv.Device(0))
	gpu := must(dev.PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	start, stop := must(gpu.NewEvent(cu.EventDefault)), must(gpu.NewEvent(cu.EventDefault))
	defer start.Close()
	defer stop.Close()

	check(start.Record(s))
	// … enqueue work on s …
	check(stop.Record(s))

	st := must(stop.Query()) // cu.Pending or cu.Complete, at once
	fmt.Println("the stop event is", st)
	d := must(cu.Elapsed(context.Background(), start, stop)) // waits without blocking a thread
	fmt.Println("the GPU was busy for", d)
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
