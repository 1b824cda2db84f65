package cubench

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// spinPTX has a kernel that runs for a number of nanoseconds, and stores how long it ran.
const spinPTX = `
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 ns, .param .u64 span)
{
	.reg .u64 %limit, %begin, %now, %at;
	.reg .pred %more;
	ld.param.u64 %limit, [ns];
	ld.param.u64 %at, [span];
	mov.u64 %begin, %globaltimer;
again:
	mov.u64 %now, %globaltimer;
	sub.u64 %now, %now, %begin;
	setp.lt.u64 %more, %now, %limit;
	@%more bra again;
	st.global.u64 [%at], %now;
	ret;
}
`

// overhead is how long the GPU of the tests takes to begin and to end a kernel.
const overhead = time.Microsecond

// bench is what the tests measure with.
type bench struct {
	t    testing.TB
	sim  *cusim.Driver
	gpu  *cu.Context
	spin *cu.Function
	span *cu.DeviceMem
	runs int
}

// newBench returns a bench on a software driver with virtual time. The kernel takes as long as more
// says, if it is not nil.
func newBench(t testing.TB, more func(run int, d time.Duration) time.Duration) *bench {
	b := &bench{t: t}
	var drv *cu.Driver
	drv, b.sim = cutest.Soft(t, cusim.VirtualTime(),
		cusim.WithKernel("cubench_empty", cusim.Kernel{Time: func(*cusim.Launch) time.Duration { return overhead }}),
		cusim.WithKernel("spin", cusim.Kernel{Time: func(l *cusim.Launch) time.Duration {
			d := time.Duration(l.U64(0))
			if b.runs++; more != nil {
				d = more(b.runs, d)
			}
			return d + overhead
		}}))
	b.use(drv)
	return b
}

func (b *bench) use(drv *cu.Driver) {
	b.gpu = must(must(drv.Device(0))(b.t).PrimaryContext())(b.t)
	mod := must(b.gpu.LoadModule([]byte(spinPTX)))(b.t)
	b.spin = must(mod.Function("spin"))(b.t)
	b.span = must(b.gpu.Alloc(8))(b.t)
	b.t.Cleanup(func() {
		if err := errors.Join(b.span.Close(), mod.Close(), b.gpu.Close()); err != nil {
			b.t.Error(err)
		}
	})
}

var one = cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}

// kernel launches a kernel that runs for d.
func (b *bench) kernel(d time.Duration) func(s *cu.Stream) error {
	return func(s *cu.Stream) error { return b.spin.Launch(s, one, cu.U64(uint64(d)), cu.Ptr(b.span)) }
}

// run runs a benchmark with -benchtime=benchtime.
func run(t *testing.T, benchtime string, f func(b *testing.B)) testing.BenchmarkResult {
	t.Helper()
	old := flag.Lookup("test.benchtime").Value.String()
	if err := flag.Set("test.benchtime", benchtime); err != nil {
		t.Fatal(err)
	}
	defer flag.Set("test.benchtime", old)
	return testing.Benchmark(f)
}

// TestRun compares all results with the times of the software driver's kernels. The time advances
// while the work is enqueued, which must not matter.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name    string
		kernels int // of an operation
		opts    []Option
		want    map[string]float64
	}{
		{"without options", 1, []Option{nil}, map[string]float64{"gpu-ns/op": 21000, "gpu-p95-ns/op": 21000}},
		{"bytes", 1, []Option{Bytes(42000)}, map[string]float64{
			"gpu-ns/op": 21000, "gpu-p95-ns/op": 21000, "MB/s": 2000,
		}},
		{"without launches", 1, []Option{WithoutLaunches(1)}, map[string]float64{
			"gpu-ns/op": 20000, "gpu-p95-ns/op": 20000, "launch-ns/op": 1000,
		}},
		{"without three launches", 3, []Option{WithoutLaunches(3)}, map[string]float64{
			"gpu-ns/op": 60000, "gpu-p95-ns/op": 60000, "launch-ns/op": 3000,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, nil)
			kernel := b.kernel(20 * time.Microsecond)
			r := run(t, "12x", func(tb *testing.B) {
				Run(tb, b.gpu, func(s *cu.Stream) (err error) {
					for range c.kernels {
						err = errors.Join(err, kernel(s))
						b.sim.Advance(time.Millisecond)
					}
					return err
				}, append(c.opts, Virtual(b.sim))...)
			})
			if r.N != 12 {
				t.Errorf("%d iterations, want 12", r.N)
			}
			if c.want["ns/op"], c.want["samples"] = 0, 12; len(r.Extra) != len(c.want) {
				t.Errorf("%v, want %v", r.Extra, c.want)
			}
			for unit, want := range c.want {
				if got := r.Extra[unit]; math.Abs(got-want) > want/1000 {
					t.Errorf("%s: %v, want %v", unit, got, want)
				}
			}
			if s := r.String(); strings.Contains(s, " ns/op") {
				t.Errorf("the time on the host is printed: %s", s)
			}
		})
	}
}

// TestBenchtime takes more samples than -benchtime asks for, until the spread is small enough or
// the longest time is over, but not more than a number that -benchtime tells.
func TestBenchtime(t *testing.T) {
	two := func(run int, d time.Duration) time.Duration { return d * time.Duration(1+run%2) }
	for _, c := range []struct {
		name, benchtime string
		more            func(run int, d time.Duration) time.Duration
		longest         time.Duration
		precise         bool
	}{
		{"equal", "1ns", nil, time.Minute, true},
		{"two values", "1ns", two, 30 * time.Millisecond, false},
		{"a number", "1x", two, time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.more)
			m := must(newMeasurement(t.Context(), b.gpu, b.kernel(time.Millisecond), options{
				clock: b.sim, patience: time.Minute, operations: 1, target: 1e6, precision: 0.005, longest: c.longest,
			}))(t)
			begin := time.Now()
			r := run(t, c.benchtime, func(tb *testing.B) {
				if err := m.take(tb); err != nil {
					t.Error(err)
				}
			})
			switch n := len(m.samples); {
			case c.benchtime == "1x":
				if n != 1 {
					t.Errorf("%d samples, want 1", n)
				}
			case c.precise:
				if n <= r.N || n < leastSamples || !m.precise() {
					t.Errorf("%d samples in %d iterations, precise: %v", n, r.N, m.precise())
				}
			case time.Since(begin) < c.longest || m.precise():
				t.Errorf("%d samples that differ, in %v, precise: %v", n, time.Since(begin), m.precise())
			}
			if err := m.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWarnings has results that may be wrong.
func TestWarnings(t *testing.T) {
	several := func(n int, f func(i int) float64) (s []float64) {
		for i := range n {
			s = append(s, f(i))
		}
		return s
	}
	for _, c := range []struct {
		name       string
		samples    []float64
		operations int
		want       []string
	}{
		{"good", several(100, func(int) float64 { return 1e5 }), 1, nil},
		{"short", several(100, func(int) float64 { return 1e3 }), 99, []string{"a sample takes 99µs"}},
		{"few", several(9, func(int) float64 { return 1e5 }), 1, []string{"there are 9 samples"}},
		{"spread", several(100, func(i int) float64 { return 1e5 * float64(1+i%2) }), 1, []string{"relative error"}},
		{"slower", several(100, func(i int) float64 { return 1e5 + 100*float64(i) }), 1,
			[]string{"relative error", "slower by 7 %"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &measurement{samples: c.samples, operations: c.operations, opts: options{precision: 0.005}}
			got := must(m.result())(t).warnings
			for i, w := range got {
				if i >= len(c.want) || !strings.Contains(w, c.want[i]) {
					t.Errorf("%q, want %q", got, c.want)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestErrors returns errors, waits for the work of a sample that failed, and closes everything.
func TestErrors(t *testing.T) {
	b := newBench(t, nil)
	broken := errors.New("broken")
	calls := 0
	kernel := b.kernel(20 * time.Microsecond)
	for name, c := range map[string]struct {
		op   func(s *cu.Stream) error
		opts options
		want string
	}{
		"nil":     {nil, options{}, "the operation is nil"},
		"kernels": {kernel, options{kernels: -1}, "WithoutLaunches(-1)"},
		"at once": {func(*cu.Stream) error { return broken }, options{}, "broken"},
		"in the middle of a sample": {func(s *cu.Stream) error {
			if calls++; calls == 20 {
				return broken
			}
			return kernel(s)
		}, options{}, "broken"},
		"a wait for its own work": {func(s *cu.Stream) error {
			return errors.Join(kernel(s), s.Wait(t.Context()))
		}, options{}, errNotHeld.Error()},
		"too many launches": {
			kernel, options{kernels: 50}, "50 empty kernels take 50000 ns, and the operation 21000 ns",
		},
	} {
		modules := b.sim.Census()["module"]
		c.opts.clock, c.opts.patience, c.opts.operations = b.sim, 50*time.Millisecond, 8
		c.opts.target, c.opts.longest = 500*time.Microsecond, time.Minute
		m, err := newMeasurement(t.Context(), b.gpu, c.op, c.opts)
		if err == nil {
			err = m.warmUp()
		}
		for i := 0; err == nil && i < 20; i++ {
			err = m.add()
		}
		if err == nil {
			_, err = m.result()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if m == nil {
			continue
		}
		if err := m.close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, errStream := m.s.Query()
		_, errStart := m.start.Query()
		_, errStop := m.stop.Query()
		for what, err := range map[string]error{
			"stream": errStream, "timeline": m.gate.Set(1 << 40), "first event": errStart, "last event": errStop,
		} {
			if !errors.Is(err, cu.ErrClosed) {
				t.Errorf("%s: the %s is open: %v", name, what, err)
			}
		}
		if n := b.sim.Census()["module"]; n != modules {
			t.Errorf("%s: %d modules, before %d", name, n, modules)
		}
	}
}

// TestFatal ends the benchmark in the middle of a sample. Afterwards nothing is held.
func TestFatal(t *testing.T) {
	b := newBench(t, nil)
	calls := 0
	kernel := b.kernel(20 * time.Microsecond)
	r := run(t, "12x", func(tb *testing.B) {
		Run(tb, b.gpu, func(s *cu.Stream) error {
			if calls++; calls == 30 {
				tb.FailNow()
			}
			return kernel(s)
		}, Virtual(b.sim))
	})
	if r.N != 0 {
		t.Errorf("the benchmark has the result %v", r)
	}
	if held := b.sim.Blocked(); len(held) != 0 {
		t.Errorf("%v", held)
	}
}

// TestFullQueue has an operation that waits until the stream goes on, as if the queue were full.
func TestFullQueue(t *testing.T) {
	b := newBench(t, nil)
	var m *measurement
	enqueued, turn := 0, uint64(0)
	kernel := b.kernel(10 * time.Microsecond)
	op := func(s *cu.Stream) error {
		if turn != m.turn {
			enqueued, turn = 0, m.turn
		}
		// There is room for 20 operations.
		if enqueued++; enqueued > 20 && m.gate.Value() < m.turn {
			if err := m.gate.Wait(t.Context(), m.turn); err != nil {
				return err
			}
		}
		return kernel(s)
	}
	o := options{clock: b.sim, patience: 10 * time.Millisecond, operations: 64, target: 500 * time.Microsecond}
	m = must(newMeasurement(t.Context(), b.gpu, op, o))(t)
	for range 10 {
		if err := m.add(); err != nil {
			t.Fatal(err)
		}
		m.operations = m.opts.operations // as warmUp would choose
	}
	if m.operations > 20 || m.operations < 8 {
		t.Errorf("%d operations in a sample, want at most 20", m.operations)
	}
	for _, ns := range m.samples {
		if ns != float64(11*time.Microsecond) {
			t.Errorf("samples: %v, want 11 µs", m.samples)
			break
		}
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
}

// kernelTimeEnv names a file with the output of tests/gpu/kerneltime.c.
const kernelTimeEnv = "PURECU_TEST_KERNELTIME"

// TestGPUKernelTime compares results with the time that a kernel runs by the GPU's own clock. The
// kernel stores it; a program in C has measured it before, if there is its output.
func TestGPUKernelTime(t *testing.T) {
	if os.Getenv(cutest.Environment) == "" {
		t.Skip("needs a GPU")
	}
	inC := make(map[int64]int64)
	if path := os.Getenv(kernelTimeEnv); path != "" {
		out := string(must(os.ReadFile(path))(t))
		for line := range strings.Lines(out) {
			var ns, span int64
			if n, err := fmt.Sscan(line, &ns, &span); n != 2 {
				t.Fatalf("%s: %q: %v", path, line, err)
			}
			inC[ns] = span
		}
	}
	b := &bench{t: t}
	b.use(cutest.Driver(t))
	for _, d := range []time.Duration{10 * time.Microsecond, time.Millisecond} {
		for _, without := range []int{0, 1} {
			r := run(t, "300ms", func(tb *testing.B) { Run(tb, b.gpu, b.kernel(d), WithoutLaunches(without)) })
			var span [1]uint64
			if err := cu.CopyTo(b.span, span[:]); err != nil {
				t.Fatal(err)
			}
			got := r.Extra["gpu-ns/op"]
			t.Logf("kernel of %v: %s; by its own clock %d ns, in C %d ns", d, r, span[0], inC[int64(d)])
			if without == 0 {
				continue
			}
			if len(inC) > 0 && inC[int64(d)] == 0 {
				t.Errorf("%s has no line for %v", os.Getenv(kernelTimeEnv), d)
			}
			for name, want := range map[string]float64{"its own clock": float64(span[0]), "C": float64(inC[int64(d)])} {
				if want != 0 && math.Abs(got-want) > want/50 {
					t.Errorf("a kernel of %v takes %.0f ns, by %s %.0f ns", d, got, name, want)
				}
			}
		}
	}
}
