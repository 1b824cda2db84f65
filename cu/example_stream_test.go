package cu_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// Non-blocking streams, which have nothing to do with the default stream, are
// what most programs want.
func ExampleContext_NewStream() {
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}

func ExampleContext_NewStreamPriority() {
	least, greatest, err := gpu.PriorityRange()
	if err != nil {
		log.Fatal(err)
	}
	urgent, err := gpu.NewStreamPriority(cu.StreamNonBlocking, greatest)
	if err != nil {
		log.Fatal(err)
	}
	defer urgent.Close()
	p, err := urgent.Priority()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p == greatest, greatest <= least) // lower numbers go first
}

// A nil stream is never the default stream: a mistake stays a mistake.
func ExampleStream_nil() {
	var e cu.Event
	var s *cu.Stream
	fmt.Println(errors.Is(e.Record(s), cu.ErrNil))
	fmt.Println(errors.Is(s.Synchronize(), cu.ErrNil))
	// Output:
	// true
	// true
}

func ExampleStream_Query() {
	st, err := s.Query()
	if err != nil {
		log.Fatal(err) // of any work on the stream
	}
	if st == cu.Pending {
		fmt.Println("there is work on the stream")
	}
}

// A stream tells how far it has got, in its turn among its work. The channel has room, so
// that the function need not wait: the stream waits for it.
func ExampleStream_HostFunc() {
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	const steps = 3
	progress := make(chan int, steps)
	for i := range steps {
		if err := spin.Launch(s, cfg, cu.U64(1000)); err != nil {
			log.Fatal(err)
		}
		if err := s.HostFunc(func() { progress <- i }); err != nil {
			log.Fatal(err)
		}
	}
	for range steps {
		fmt.Printf("kernel %d has run\n", <-progress)
	}
}

// Synchronize holds an operating system thread; Event.Wait does not, and can be
// cancelled.
func ExampleStream_Synchronize() {
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	if err := spin.Launch(s, cfg, cu.U64(1000)); err != nil {
		log.Fatal(err)
	}
	if err := s.Synchronize(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the kernel has run")
}

// How long the GPU takes, by its own clock.
func ExampleStream_Time() {
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	d, err := s.Time(ctx, func() error {
		return spin.Launch(s, cfg, cu.U64(1_000_000))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Round(time.Millisecond))
}

// Fork and join, without an event of one's own.
func ExampleStream_WaitStream() {
	if err := other.WaitStream(s); err != nil { // fork
		log.Fatal(err)
	}
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	for _, s := range []*cu.Stream{s, other} { // both at once
		if err := spin.Launch(s, cfg, cu.U64(1000)); err != nil {
			log.Fatal(err)
		}
	}
	if err := s.WaitStream(other); err != nil { // join
		log.Fatal(err)
	}
	if err := s.Synchronize(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("both kernels have run")
}

// In a stream that a graph is captured from, the flag makes the graph wait for
// the event whenever it runs.
func ExampleStream_WaitEventWithFlags() {
	var ready cu.Event
	defer ready.Close()
	if err := ready.Record(other); err != nil { // not captured
		log.Fatal(err)
	}
	if err := s.WaitEventWithFlags(&ready, cu.WaitExternal); err != nil {
		log.Fatal(err)
	}
}

// A stream that another library created, as a CUstream or cudaStream_t.
func ExampleContext_WrapStream() {
	handle := other.Handle() // stands for the other library's
	theirs, err := gpu.WrapStream(handle)
	if err != nil {
		log.Fatal(err)
	}
	defer theirs.Close() // does not destroy it
	if err := s.WaitStream(theirs); err != nil {
		log.Fatal(err)
	}
}

// What was enqueued is still done after Close. Closing twice does no harm.
func ExampleStream_Close() {
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Close(), s.Close())
	_, err = s.Query()
	fmt.Println(errors.Is(err, cu.ErrClosed))
}

func ExampleStreamFlags() {
	fmt.Println(cu.StreamDefault, cu.StreamNonBlocking)
	// Output: StreamDefault StreamNonBlocking
}

// Waiting for all that is on a stream takes no thread, and can be cancelled.
func ExampleStream_Wait() {
	// … enqueue work on s …
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the stream is idle")
}

// Kernels of a stream find a table in the L2 cache. Other streams with the same attributes get them at once.
func ExampleStream_SetAccessWindow() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	table := must(gpu.Alloc(1 << 20))
	defer table.Close()
	check(gpu.SetLimit(cu.LimitPersistingL2CacheSize, 1<<20)) // the set-aside part of the cache
	s, other := must(gpu.NewStream(cu.StreamNonBlocking)), must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	defer other.Close()

	check(s.SetAccessWindow(cu.AccessWindow{Memory: table, HitRatio: 1, Hit: cu.AccessPersisting,
		Miss: cu.AccessStreaming}))
	check(s.SetSyncPolicy(cu.SyncBlocking)) // Synchronize takes no processor
	check(other.CopyAttributes(s))
	addr, size, w, err := other.AccessWindow()
	check(err)
	fmt.Println(addr == uintptr(table.Handle()), size, w.Hit == cu.AccessPersisting)
	policy, set, err := other.SyncPolicy()
	check(err)
	fmt.Println(policy == cu.SyncBlocking, set)

	// Afterwards:
	check(s.SetAccessWindow(cu.AccessWindow{}))
	check(gpu.ResetPersistingL2())
	// Output:
	// true 1048576 true
	// true true
}

// One stream waits for two words that another one writes.
func ExampleStream_BatchMemOps() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s, other := must(gpu.NewStream(cu.StreamNonBlocking)), must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	defer other.Close()
	words := must(gpu.Alloc(8))
	defer words.Close()
	check(errors.Join(s.Memset(words, 0), s.Synchronize()))

	first, second := words.Span(0, 4), words.Span(4, 4)
	check(s.BatchMemOps(cu.WaitWord32(first, 1, cu.WaitAtLeast), cu.WaitWord32(second, 2, cu.WaitEqual)))
	fmt.Println(must(s.Query()))
	check(other.BatchMemOps(cu.WriteWord32(first, 1), cu.WriteWord32(second, 2)))
	check(s.Synchronize())
	fmt.Println(must(s.Query()))
	// Output:
	// pending
	// complete
}
