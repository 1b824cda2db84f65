package cu_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// Closing order is nobody's problem: what was made in a context keeps it.
func ExampleContext_Close() {
	gpu, err := dev.PrimaryContext()
	if err != nil {
		log.Fatal(err)
	}
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		log.Fatal(err)
	}
	if err := gpu.Close(); err != nil { // refuses new children from now on
		log.Fatal(err)
	}
	if err := s.Synchronize(); err != nil { // still works
		log.Fatal(err)
	}
	if err := s.Close(); err != nil { // the context goes with its last child
		log.Fatal(err)
	}
}

// A client of the Multi-Process Service can have a context for some of the multiprocessors. Other
// programs can ask for a green context.
func ExampleDevice_NewContextWithSMs() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	dev := must(drv.Device(0))
	part, err := dev.NewContextWithSMs(cu.ContextDefault, 16)
	if errors.Is(err, cu.ResultUnsupportedExecAffinity) {
		fmt.Println("LimitsSMs:", must(dev.LimitsSMs()))
		part, err = dev.NewContext(cu.ContextDefault) // all of them
	}
	check(err)
	defer part.Close()
	all := must(dev.Attribute(cu.DeviceAttributeMultiprocessorCount))
	fmt.Println("multiprocessors:", must(part.SMCount()), "of", all)
	// Output:
	// LimitsSMs: false
	// multiprocessors: 132 of 132
}

// A profiling tool that waits for the program collects only what matters:
//
//	nsys profile --capture-range=cudaProfilerApi ./program
func ExampleContext_StartProfile() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New()))) // or the GPU's driver
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	if err := gpu.StartProfile(); err != nil {
		log.Fatal(err)
	}
	// … the work …
	err := errors.Join(gpu.Synchronize(), gpu.StopProfile())
	fmt.Println(err)
	// Output: <nil>
}

// A library that is called by its C interface relies on the thread's current
// context. Package cu does not: it needs no Do for its own calls.
func ExampleContext_Do() {
	err := gpu.Do(func(*cu.Thread) error {
		// … call the library …
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Each thread has a default stream of its own, for as long as Do holds it.
func ExampleThread_DefaultStream() {
	err := gpu.Do(func(t *cu.Thread) error {
		own, err := t.DefaultStream()
		if err != nil {
			return err
		}
		cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
		if err := spin.Launch(own, cfg, cu.U64(1000)); err != nil {
			return err
		}
		return own.Synchronize()
	})
	if err != nil {
		log.Fatal(err)
	}
}

// The legacy default stream waits for all blocking streams, and they for it.
func ExampleContext_LegacyStream() {
	null, err := gpu.LegacyStream()
	if err != nil {
		log.Fatal(err)
	}
	defer null.Close() // ends the use of the value, and nothing else
	st, err := null.Query()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(st)
}

// After a kernel went wrong, nothing works in this process any more.
func ExampleContext_Err() {
	if err := s.Synchronize(); err != nil && gpu.Err() != nil {
		log.Fatalf("start a new process: %v", err)
	}
}

func ExampleContext_Synchronize() {
	if err := gpu.Synchronize(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the GPU has done all work of this context")
}

func ExampleContext_MemInfo() {
	free, total, err := gpu.MemInfo()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d of %d GiB are free\n", free>>30, total>>30)
}

// The driver may choose another value than what it was asked for.
func ExampleContext_SetLimit() {
	if err := gpu.SetLimit(cu.LimitStackSize, 4096); err != nil {
		log.Fatal(err)
	}
	n, err := gpu.Limit(cu.LimitStackSize)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a thread's stack has at least 4096 bytes:", n >= 4096)
}

// Handles come back; the id of a context never does.
func ExampleContext_ID() {
	id, err := gpu.ID()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id != 0)
}

// Kernels of one GPU use the memory of another.
func ExampleContext_EnablePeerAccess() {
	peer, err := drv.Device(1)
	if err != nil {
		log.Fatal(err)
	}
	can, err := dev.CanAccessPeer(peer)
	if err != nil {
		log.Fatal(err)
	}
	if !can {
		fmt.Println("not linked: use Stream.Copy")
		return
	}
	theirs, err := peer.PrimaryContext()
	if err != nil {
		log.Fatal(err)
	}
	defer theirs.Close()
	mem, err := theirs.Alloc(4 * 1024)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()

	if err := gpu.EnablePeerAccess(theirs); err != nil {
		log.Fatal(err)
	}
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 4}, Block: cu.Dim3{X: 256}}
	if err := scale.Launch(s, cfg, cu.Ptr(mem), cu.F32(2), cu.U64(1024)); err != nil {
		log.Fatal(err)
	}
	if err := s.Synchronize(); err != nil {
		log.Fatal(err)
	}
	if err := gpu.DisablePeerAccess(theirs); err != nil {
		log.Fatal(err)
	}
}

func ExampleContextFlags() {
	fmt.Println(cu.ContextDefault)
	fmt.Println(cu.ContextSchedBlockingSync | cu.ContextMapHost)
	// Output:
	// ContextDefault
	// ContextSchedBlockingSync|ContextMapHost
}

// A nil context, as of a call whose error was not looked at, crashes nothing.
func ExampleContext_nil() {
	var gpu *cu.Context
	_, err := gpu.NewStream(cu.StreamNonBlocking)
	fmt.Println(err)
	// Output: cu: cuStreamCreate: nil object; the context is nil: check the error of the call that should have made it
}
