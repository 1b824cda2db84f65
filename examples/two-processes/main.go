// Command two-processes records an event in one process, and waits for it in another
// one: the first starts its own program once more, and hands it the event in JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"time"

	"github.com/purecu/purecu/cu"
)

// job is what the parent tells the child.
type job struct {
	Device int
	Ready  cu.IPCEventHandle // a string in JSON
}

func main() {
	if text := os.Getenv("TWO_PROCESSES_JOB"); text != "" {
		child(text)
		return
	}
	gpu := must(must(must(cu.Open()).Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	ready := must(gpu.NewEvent(cu.EventInterprocess | cu.EventDisableTiming))
	defer ready.Close() // after the child, which needs it until it has opened it

	// … enqueue work on s …
	check(ready.Record(s)) // before the child looks: an event without a record is complete
	text := must(json.Marshal(job{0, must(ready.IPCHandle(context.Background()))}))
	cmd := exec.Command(must(os.Executable()))
	cmd.Env = append(os.Environ(), "TWO_PROCESSES_JOB="+string(text))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	check(cmd.Run())
}

// child waits for the parent's event, on the GPU and on the host.
func child(text string) {
	var j job
	check(json.Unmarshal([]byte(text), &j))
	gpu := must(must(must(cu.Open()).Device(j.Device)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	ready := must(gpu.OpenIPCEvent(j.Ready))
	defer ready.Close()

	check(s.WaitEvent(ready)) // the GPU waits
	// … enqueue on s what uses the parent's work …

	// If the parent were killed, the event would stay pending for ever.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	check(ready.Wait(ctx))
	fmt.Println("the parent's work is done")
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
