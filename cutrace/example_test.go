package cutrace_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutrace"
)

var ctx = context.Background()

// open returns a context of the software driver, and a stream. The caller closes the stream: the
// garbage collector closes a stream that nothing uses any more, and a trace shows that call.
func open() (*cu.Context, *cu.Stream) {
	drv := try(cu.Open(cu.WithSoftware(cusim.New())))
	gpu := try(try(drv.Device(0)).PrimaryContext())
	return gpu, try(gpu.NewStream(cu.StreamNonBlocking))
}

func try[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The trace shows that a stream waits for another stream.
func ExampleRecorder() {
	gpu, load := open()
	defer load.Close()
	compute := try(gpu.NewStream(cu.StreamNonBlocking))
	defer compute.Close()
	rec := try(cutrace.Start(ctx, gpu, cutrace.Options{}))
	rec.Name(load, "load")
	rec.Name(compute, "compute")
	mem := try(gpu.Alloc(1 << 20))
	defer mem.Close()

	check(rec.Span(load, "fill", func() error { return load.Memset(mem, 1) }))
	check(compute.WaitStream(load)) // an arrow
	check(rec.Span(compute, "change", func() error { return compute.Memset(mem, 2) }))

	check(rec.Close(ctx)) // when the GPU has done it
	var trace bytes.Buffer
	try(rec.WriteTo(&trace)) // or a file, for ui.perfetto.dev
	st := rec.Stats()
	fmt.Println(st.Spans, "intervals,", st.Arrows, "arrow,", strings.Count(trace.String(), `"ph":"X"`), "slices")
	// Output: 2 intervals, 1 arrow, 5 slices
}

// A span gives a name to any interval of a stream's work.
func ExampleRecorder_Span() {
	gpu, s := open()
	defer s.Close()
	mem := try(gpu.Alloc(1 << 20))
	defer mem.Close()
	rec := try(cutrace.Start(ctx, gpu, cutrace.Options{}))
	err := rec.Span(s, "step", func() error {
		return rec.Span(s, "clear", func() error { return s.Memset(mem, 0) })
	})
	check(err)
	check(rec.Close(ctx))
	fmt.Println(rec.Stats().Spans)
	// Output: 2
}

// An interval can be between two events of the program.
func ExampleRecorder_Interval() {
	gpu, s := open()
	defer s.Close()
	rec := try(cutrace.Start(ctx, gpu, cutrace.Options{}))
	start, stop := try(gpu.NewEvent(cu.EventDefault)), try(gpu.NewEvent(cu.EventDefault))
	defer start.Close()
	defer stop.Close()
	check(start.Record(s))
	check(stop.Record(s))
	check(rec.Interval(ctx, s, "between", start, stop))
	check(rec.Close(ctx))
	fmt.Println(rec.Stats().Spans)
	// Output: 1
}

// Log writes a record for each call. Here the attributes that differ in each run are left out.
func ExampleLog() {
	gpu, s := open()
	defer s.Close()
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey, "duration", "event_handle", "stream_handle":
				return slog.Attr{}
			}
			return a
		},
	})
	stop := try(cutrace.Log(gpu.Device().Driver(), slog.New(handler), cutrace.LogOptions{}))
	defer stop()

	var e cu.Event
	check(e.Record(s))
	check(e.Synchronize())
	check(e.Close())
	// Output:
	// level=DEBUG msg=cuEventCreate event=1
	// level=DEBUG msg=cuEventRecord event=1 stream=1
	// level=DEBUG msg=cuEventSynchronize event=1
	// level=DEBUG msg=cuEventDestroy event=1
}
