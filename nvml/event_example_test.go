package nvml_test

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/purecu/purecu/nvml"
)

// A program that reports the errors of all GPUs until it is interrupted.
func ExampleEventSet() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	lib, err := nvml.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer lib.Close()
	set, err := lib.NewEventSet()
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	for dev, err := range lib.Devices() {
		if err == nil {
			err = set.Add(dev, nvml.EventXIDCritical)
		}
		if err != nil {
			log.Print(err)
		}
	}
	for ev, err := range set.All(ctx) {
		if err != nil {
			log.Print(err) // for example, a GPU is lost: the set still reports events of the others
			continue
		}
		if x, ok := ev.XID(); ok {
			log.Printf("%v. %s What to do: %v", ev, x.Meaning(), x.Action())
		}
	}
}
