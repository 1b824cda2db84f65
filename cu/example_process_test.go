package cu_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/purecu/purecu/cu"
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
	job := drv.Process(4711)
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
	// ProcessLocked
	// ProcessCheckpointed
	// ProcessLocked
	// ProcessRunning
}
