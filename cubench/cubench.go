// Package cubench measures in Go benchmarks how long the GPU takes for work.
//
//	func BenchmarkScale(b *testing.B) {
//		…
//		cubench.Run(b, gpu, func(s *cu.Stream) error {
//			return scale.Launch(s, cu.Grid1D(n, 256), cu.Ptr(x), cu.U32(n))
//		}, cubench.Bytes(8*n))
//	}
//
// The output has the format of Go's benchmarks, so benchstat can compare two versions:
//
//	BenchmarkScale-16    1893    819200.00 MB/s    10240 gpu-ns/op    10272 gpu-p95-ns/op    1893 samples
package cubench

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
)

// Option changes how [Run] measures.
type Option func(*options)

type options struct {
	bytes     int64
	kernels   int
	precision float64
	longest   time.Duration
	clock     Clock
	// patience is how long a stream is held while work is enqueued.
	patience time.Duration
	// operations is the largest number of operations in a sample.
	operations int
	// target is how long the work of a sample should take on the GPU.
	target time.Duration
}

// Bytes says how many bytes one operation moves. Run then reports MB/s, in millions of bytes per
// second of the GPU's time. Use it in place of b.SetBytes, which would count the host's time.
func Bytes(n int64) Option { return func(o *options) { o.bytes = n } }

// WithoutLaunches subtracts what n empty kernels take on the GPU, where n is how many kernels one
// operation launches. What is left is close to the time from a kernel's first to its last
// instruction. Without this option the result contains the time that the GPU needs to begin and to
// end each kernel, which is 1.7 to 1.9 µs on an H100.
//
// Run also reports what it has subtracted, as launch-ns/op. The benchmark fails if that is more than
// the operation takes. The empty kernel, cubench_empty, is compiled from PTX by the driver. On the
// software driver it takes the time that cusim.WithKernel says.
func WithoutLaunches(n int) Option { return func(o *options) { o.kernels = n } }

// Precision is the relative error at which Run stops to take samples; the default is 0.005. The
// error is half the width of the 95 % interval of the median, divided by the median. With
// -benchtime=Nx it adds no samples.
func Precision(relative float64) Option { return func(o *options) { o.precision = relative } }

// Longest is how long Run takes samples if the relative error stays too large; the default is ten
// seconds. It takes them for at least -benchtime, if that is longer.
func Longest(d time.Duration) Option { return func(o *options) { o.longest = d } }

// Clock is the time of a software driver with virtual time, such as a cusim.Driver with
// cusim.VirtualTime.
type Clock interface{ Advance(by time.Duration) }

// Virtual says that the work runs on a software driver with virtual time. While Run waits for the
// work it advances the time. So the times do not depend on the machine; the number of samples does.
func Virtual(c Clock) Option { return func(o *options) { o.clock = c } }

// Run measures how long the GPU takes for an operation. op enqueues the operation's work on the
// stream that it gets, and returns the first error, which ends the benchmark. Run calls op from the
// benchmark's goroutine, many times for one sample. Call Run once in a benchmark.
//
// # What is measured
//
// For one sample, the stream waits until the operations and an event before and after them are
// enqueued. So the time that the host needs to enqueue them does not matter. The sample is the time
// between the events, divided by the number of operations. A sample has as many operations as the
// GPU does in half a millisecond: at least one, and at most 256. The first samples are not used: Run
// discards samples until the time is stable, but at most 50.
//
// A stream's queue has room for about a thousand calls. If a sample's work does not fit, Run uses
// fewer operations. The benchmark fails if not even one operation fits, or if op waits for its own
// work: then the host's time would be part of the result.
//
// # Results
//
// Run reports the median of the samples as gpu-ns/op, the 95th percentile as gpu-p95-ns/op, and the
// number of samples. The time on the host (ns/op) is left out. Samples are taken for -benchtime, or
// longer if the relative error is larger than [Precision]. With -benchtime=Nx there are exactly N
// samples.
//
// Run logs a warning if the result may be wrong: samples that are close to the resolution of
// events, samples that spread, and a GPU that becomes slower during the benchmark, for example
// because it lowers its clock.
func Run(b *testing.B, gpu *cu.Context, op func(s *cu.Stream) error, opts ...Option) {
	b.Helper()
	o := options{
		precision: 0.005, longest: 10 * time.Second, patience: 100 * time.Millisecond, target: 500 * time.Microsecond,
		operations: 256, // the queue of a stream has room for about a thousand calls
	}
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	m, err := newMeasurement(b.Context(), gpu, op, o)
	if err != nil {
		b.Fatalf("cubench: %v", err)
	}
	defer func() {
		if err := m.close(); err != nil {
			b.Errorf("cubench: %v", err)
		}
	}()
	if err := m.warmUp(); err != nil {
		b.Fatalf("cubench: %v", err)
	}
	if err := m.take(b); err != nil {
		b.Fatalf("cubench: %v", err)
	}
	r, err := m.result()
	if err != nil {
		b.Fatalf("cubench: %v", err)
	}
	b.ReportMetric(0, "ns/op") // is left out of the output
	b.ReportMetric(r.median, "gpu-ns/op")
	b.ReportMetric(r.p95, "gpu-p95-ns/op")
	b.ReportMetric(float64(len(m.samples)), "samples")
	if o.kernels > 0 {
		b.ReportMetric(m.launches(), "launch-ns/op")
	}
	if o.bytes > 0 && r.median > 0 {
		b.ReportMetric(float64(o.bytes)/r.median*1e3, "MB/s")
	}
	for _, w := range r.warnings {
		b.Logf("cubench: %s", w)
	}
}

// take takes samples for -benchtime, or for longer until the result is precise.
func (m *measurement) take(b *testing.B) error {
	begin := time.Now()
	for b.Loop() {
		if err := m.add(); err != nil {
			return err
		}
	}
	for !counted() && !m.precise() && time.Since(begin) < m.opts.longest {
		// Some more at a time, because precise sorts them all.
		for range max(leastSamples, len(m.samples)/10) {
			if err := m.add(); err != nil {
				return err
			}
		}
	}
	return nil
}

// counted reports whether -benchtime is a number of iterations.
func counted() bool {
	f := flag.Lookup("test.benchtime")
	return f != nil && strings.HasSuffix(f.Value.String(), "x")
}
