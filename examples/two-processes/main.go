// Command two-processes records an event in one process, and waits for it in another. The first
// process starts its own program again, and passes the event as JSON.
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
	_ "github.com/purecu/purecu/cusim/auto"
)

// job is the message of the parent to the child.
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
	defer ready.Close() // after the child has ended, as the child has to open the event first

	// … enqueue work on s …
	check(ready.Record(s)) // before the child queries: an event without a record is complete
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
	// … enqueue work on s that uses the parent's results …

	// If the parent is killed, the event stays pending forever, so the wait has a timeout.
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
