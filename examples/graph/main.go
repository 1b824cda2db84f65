// Command graph captures ten kernels, launches the graph a thousand times, and times and traces that.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"github.com/purecu/purecu/cu/graph"
	"log"
	"os"
	"time"

	"github.com/purecu/purecu/cu"
	_ "github.com/purecu/purecu/cusim/auto"
	"github.com/purecu/purecu/cutrace"
)

//go:embed spin.ptx
var ptx []byte

func main() {
	ctx, gpu := context.Background(), must(must(must(cu.Open()).Device(0)).PrimaryContext())
	s, mod := must(gpu.NewStream(cu.StreamNonBlocking)), must(gpu.LoadModule(ptx))
	spin := must(must(mod.Function("spin")).Prepare(cu.Grid1D(1, 1), cu.U64(10_000)))
	g := must(graph.Capture(s, graph.CaptureGlobal, func() error { return times(10, func(int) error { return spin.Launch(s) }) }))
	exec := must(g.Instantiate())
	replay := func() error { return exec.Launch(s) }

	rec := must(cutrace.Start(ctx, gpu, cutrace.Options{}))
	rec.Name(s, "replay")
	begin := time.Now()
	check(times(1000, func(i int) error { return rec.Span(s, fmt.Sprint("replay ", i), replay) }))
	enqueued := time.Since(begin)
	check(rec.Close(ctx)) // waits for the replays
	fmt.Printf("enqueued in %v, all done in %v, %+v\n", enqueued, time.Since(begin), rec.Stats())
	d := must(s.Time(ctx, func() error { return times(1000, func(int) error { return replay() }) }))
	fmt.Println("1000 replays by one interval:", d)
	file := must(os.Create(os.TempDir() + "/graph-trace.json"))
	fmt.Println(must(rec.WriteTo(file)), "bytes for ui.perfetto.dev in", file.Name())
	check(errors.Join(file.Close(), exec.Close(), g.Close(), mod.Close(), s.Close(), gpu.Close()))
}

func times(n int, f func(i int) error) (err error) {
	for i := 0; i < n && err == nil; i++ {
		err = f(i)
	}
	return err
}

func must[T any](v T, err error) T { check(err); return v }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
