// Command hello-event records two events on a stream and prints the time
// between them.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/purecu/purecu/cu"
)

func main() {
	if err := hello(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func hello(ctx context.Context) error {
	drv, err := cu.Open()
	if err != nil {
		return err
	}
	dev, err := drv.Device(0)
	if err != nil {
		return err
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		return err
	}
	defer gpu.Close()
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		return err
	}
	defer s.Close()
	var events [2]*cu.Event
	for i := range events {
		if events[i], err = gpu.NewEvent(cu.EventDefault); err != nil {
			return err
		}
		defer events[i].Close()
		if err := events[i].Record(s); err != nil {
			return err
		}
	}
	d, err := cu.Elapsed(ctx, events[0], events[1])
	if err != nil {
		return err
	}
	fmt.Println("the second event was recorded", d, "after the first")
	return nil
}
