package cu_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/purecu/purecu/cu"
)

// The whole program, with both processes, is examples/two-processes.
func ExampleEvent_IPCHandle() {
	ready, err := gpu.NewEvent(cu.EventInterprocess | cu.EventDisableTiming)
	if err != nil {
		log.Fatal(err)
	}
	defer ready.Close()
	if err := ready.Record(s); err != nil { // before the other process looks
		log.Fatal(err)
	}
	h, err := ready.IPCHandle(ctx)
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"ready": h}) // for the other process
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(text))
}

// The other process: the handle comes in its environment.
func ExampleContext_OpenIPCEvent() {
	var h cu.IPCEventHandle
	if err := h.UnmarshalText([]byte(os.Getenv("EVENT"))); err != nil {
		log.Fatal(err)
	}
	ready, err := gpu.OpenIPCEvent(h)
	if err != nil {
		log.Fatal(err)
	}
	defer ready.Close()
	if err := s.WaitEvent(ready); err != nil { // the GPU waits
		log.Fatal(err)
	}
	// On the host, for a time: if the process that records it is killed, it stays pending.
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := ready.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
}

// A handle travels as bytes, as text, in JSON, and as a flag.
func ExampleIPCEventHandle() {
	var h cu.IPCEventHandle
	fs := flag.NewFlagSet("consumer", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.TextVar(&h, "ready", cu.IPCEventHandle{}, "handle of the `event` to wait for")
	fmt.Println(fs.Parse([]string{"-ready", "cafe"}))
	fmt.Println(h.IsZero())
	// Output:
	// invalid value "cafe" for flag -ready: cu: IPCEventHandle.UnmarshalText: invalid argument; there are 4 characters, and a handle has 128: pass the result of MarshalText
	// true
}
