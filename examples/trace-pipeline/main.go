// Command trace-pipeline runs a pipeline of three streams, and writes a trace of the calls and of
// the GPU's work for ui.perfetto.dev. Each stream waits for the previous one. Without a GPU it runs
// on the software driver.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	_ "github.com/purecu/purecu/cusim/auto"
	"github.com/purecu/purecu/cutrace"
)

//go:embed spin.ptx
var ptx []byte

func main() {
	out := flag.String("o", "trace.json", "the file to write")
	flag.Parse()
	drv, err := cu.Open()
	if errors.Is(err, cu.ErrNoDriver) || errors.Is(err, cu.ErrNoDevice) {
		drv, err = cu.Open(cu.WithSoftware(cusim.New()))
	}
	check(err)
	dev, err := drv.Device(0)
	check(err)
	gpu, err := dev.PrimaryContext()
	check(err)
	defer gpu.Close()
	file, err := os.Create(*out)
	check(err)
	check(run(context.Background(), gpu, file, time.Sleep, func() {}))
	check(file.Close())
	fmt.Println("open", *out, "in ui.perfetto.dev")
}

// run runs the pipeline and writes its trace. pause is called where a program would do work between
// batches, and finish after all work is enqueued.
func run(ctx context.Context, gpu *cu.Context, w io.Writer, pause func(time.Duration), finish func()) error {
	rec, err := cutrace.Start(ctx, gpu, cutrace.Options{})
	if err != nil {
		return err
	}
	pipeline(gpu, rec, pause, finish)
	if err := rec.Close(ctx); err != nil {
		return err
	}
	_, err = rec.WriteTo(w)
	return err
}

const (
	batches   = 5
	batchSize = 16 << 20
)

func pipeline(gpu *cu.Context, rec *cutrace.Recorder, pause func(time.Duration), finish func()) {
	mod := must(gpu.LoadModule(ptx))
	defer mod.Close()
	spin := must(mod.Function("spin"))
	one := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	in, out := must(gpu.AllocHost(batchSize, 0)), must(gpu.AllocHost(batchSize, 0))
	defer in.Close()
	defer out.Close()

	var streams [3]*cu.Stream
	for i, name := range []string{"load", "compute", "store"} {
		streams[i] = must(gpu.NewStream(cu.StreamNonBlocking))
		defer streams[i].Close()
		rec.Name(streams[i], name)
	}
	load, compute, store := streams[0], streams[1], streams[2]

	// Two buffers: one is filled while the kernel uses the other.
	var buffers [2]struct {
		mem                      *cu.DeviceMem
		loaded, computed, stored cu.Event
	}
	for i := range buffers {
		b := &buffers[i]
		b.mem = must(gpu.Alloc(batchSize))
		defer b.mem.Close()
		defer b.loaded.Close()
		defer b.computed.Close()
		defer b.stored.Close()
	}
	for i := range batches {
		b := &buffers[i%len(buffers)]
		name := func(what string) string { return fmt.Sprintf("%s %d", what, i+1) }
		check(load.WaitEvent(&b.stored)) // waits until the buffer is free; before the first record it does not wait
		check(rec.Span(load, name("load"), func() error { return load.Copy(b.mem, in) }))
		check(b.loaded.Record(load))

		check(compute.WaitEvent(&b.loaded))
		check(rec.Span(compute, name("compute"), func() error { return spin.Launch(compute, one, cu.U64(500_000)) }))
		check(b.computed.Record(compute))

		check(store.WaitEvent(&b.computed))
		check(rec.Span(store, name("store"), func() error { return store.Copy(out, b.mem) }))
		check(b.stored.Record(store))
		pause(100 * time.Microsecond)
	}
	finish()
	check(store.Synchronize())
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
