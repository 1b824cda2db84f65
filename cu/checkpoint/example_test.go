package checkpoint_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/checkpoint"
	"github.com/purecu/purecu/cusim"
)

// Another process gives its GPUs away for a while.
func ExampleProcess() {
	drv, err := cu.Open(cu.WithSoftware(cusim.New()))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	job := checkpoint.Of(drv, 4711)
	for _, step := range []func(context.Context) error{job.Lock, job.Checkpoint, job.Restore, job.Unlock} {
		if err := step(ctx); err != nil {
			log.Fatal(err)
		}
		state, err := job.State()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(state)
	}
	// Output:
	// Locked
	// Checkpointed
	// Locked
	// Running
}

// A process that sees two GPUs continues with the GPUs in the other order.
func ExampleProcess_RestoreOn() {
	drv, err := cu.Open(cu.WithSoftware(cusim.New(cusim.Devices(2))))
	if err != nil {
		log.Fatal(err)
	}
	devices, err := drv.Devices()
	if err != nil {
		log.Fatal(err)
	}
	var gpus []cu.UUID
	for _, dev := range devices {
		id, err := dev.UUID()
		if err != nil {
			log.Fatal(err)
		}
		gpus = append(gpus, id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	job := checkpoint.Of(drv, 4711)
	swap := func(ctx context.Context) error {
		return job.RestoreOn(ctx, map[cu.UUID]cu.UUID{gpus[0]: gpus[1], gpus[1]: gpus[0]})
	}
	for _, step := range []func(context.Context) error{job.Lock, job.Checkpoint, swap, job.Unlock} {
		if err := step(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(job.State())
	// Output: Running <nil>
}
