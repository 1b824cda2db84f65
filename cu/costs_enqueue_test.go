package cu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
)

// argsPTX has kernels that do nothing, with 0, 4 and 16 parameters.
var argsPTX = func() string {
	var b strings.Builder
	b.WriteString(".version 6.0\n.target sm_50\n.address_size 64\n")
	for _, n := range []int{0, 4, 16} {
		var params []string
		for i := range n {
			params = append(params, fmt.Sprintf(".param .u64 p%d", i))
		}
		fmt.Fprintf(&b, ".visible .entry args%d(%s)\n{\n\tret;\n}\n", n, strings.Join(params, ", "))
	}
	return b.String()
}()

// enqueueCosts compares calls that enqueue work with C.
type enqueueCosts struct {
	b     *testing.B
	gpu   *Context
	drv   *Driver
	c     *baseline
	s     *Stream
	dst   *DeviceMem
	src   *HostMem
	cargs *HostMem // for C: sixteen addresses, and then sixteen values
	mod   *Module
	rows  []comparison
}

// BenchmarkEnqueueAgainstC prints what calls that enqueue work cost beside the same calls in C, as
// BenchmarkAgainstC does. Rows that begin with Table are calls from Go without package cu.
func BenchmarkEnqueueAgainstC(b *testing.B) {
	if os.Getenv(gpuEnv) == "" {
		b.Skipf("%s is not set: this needs a real GPU", gpuEnv)
	}
	gpu := gpuContext(b)
	e := &enqueueCosts{b: b, gpu: gpu, drv: gpu.own.core.drv, c: newBaseline(b, gpu.own.core.drv)}
	e.s, e.mod = must(gpu.NewStream(StreamNonBlocking))(b), must(gpu.LoadModule([]byte(argsPTX)))(b)
	e.dst, e.src = must(gpu.Alloc(copySize))(b), must(gpu.AllocHost(copySize, HostDefault))(b)
	e.cargs = must(gpu.AllocHost(copySize, HostDefault))(b)
	b.Cleanup(func() { e.ok(errors.Join(e.src.Close(), e.dst.Close(), e.cargs.Close(), e.mod.Close(), e.s.Close())) })
	e.launches()
	e.copies()
	e.graphs()
	e.shortLived()
	var out, tsv strings.Builder
	out.WriteString("\n| call | C, ns | Go, ns | Go − C, ns (95 %) | ratio | allocations |\n|---|--:|--:|--:|--:|--:|\n")
	for _, r := range e.rows {
		r.goNs(r.n / 10) // warm up
		out.WriteString(r.row(*costRounds, &tsv) + "\n")
	}
	out.WriteString(e.threads())
	b.Log(out.String())
	b.Logf("engine %s, GOMAXPROCS %d, %s, CUDA %d", ccall.Engine, runtime.GOMAXPROCS(0), runtime.Version(), must(e.drv.Version())(b))
}

func (e *enqueueCosts) ok(err error) {
	if err != nil {
		e.b.Helper()
		e.b.Fatal(err)
	}
}

func (e *enqueueCosts) done(res driver.Result) {
	if res != driver.ResultSuccess {
		e.b.Helper()
		e.b.Fatal(res)
	}
}

// add adds a row. f is Go's call, and c makes n calls in C, which returns after the calls.
func (e *enqueueCosts) add(name string, n int, f func(), c func(n int) float64) {
	const inARow = 250 // a stream takes about a thousand kernels, and then holds its caller up
	sync := func() { e.ok(e.s.Synchronize()) }
	inContext := func(n int) float64 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		e.drv.table.CtxPushCurrent(driver.At{}, e.gpu.own.core.raw)
		defer e.drv.table.CtxPopCurrent(driver.At{})
		return c(n)
	}
	e.rows = append(e.rows, comparison{"", name, apart(inARow, loop(f), sync), apart(inARow, inContext, sync), n, nil})
}

// cParams writes the arguments of a kernel to memory that C can read, and returns the address of
// their addresses, 0 if there are none.
func (e *enqueueCosts) cParams(values []uint64) uintptr {
	if len(values) == 0 {
		return 0
	}
	at := e.cargs.Handle()
	e.ok(e.cargs.View(func(b []byte) error {
		for i, v := range values {
			binary.NativeEndian.PutUint64(b[8*i:], uint64(at)+uint64(128+8*i))
			binary.NativeEndian.PutUint64(b[128+8*i:], v)
		}
		return nil
	}))
	return at
}

func (e *enqueueCosts) launches() {
	for _, n := range []int{0, 4, 16} {
		kernel := must(e.mod.Function(fmt.Sprintf("args%d", n)))(e.b)
		var args []Arg
		var values []uint64
		for i := range n {
			if i%2 == 0 {
				args, values = append(args, Ptr(e.dst)), append(values, uint64(e.dst.core.raw))
			} else {
				args, values = append(args, U64(uint64(i))), append(values, uint64(i))
			}
		}
		launch := func(n int) float64 {
			return e.c.ns("launch", e.c.proc("cuLaunchKernel"), uintptr(kernel.raw), uintptr(e.s.core.raw), e.cParams(values), n)
		}
		params := kernelParams(args...)
		prepared := must(kernel.Prepare(oneThread, args...))(e.b)
		name := fmt.Sprintf("cuLaunchKernel, %d arguments: ", n)
		for _, in := range []driver.Context{0, e.gpu.own.core.raw} {
			e.add(name+[]string{"Table.LaunchKernel", "Table.LaunchKernel in the context"}[min(in, 1)], 2000, func() {
				at := driver.At{Context: in}
				e.done(e.drv.table.LaunchKernel(at, kernel.raw, 1, 1, 1, 1, 1, 1, 0, e.s.core.raw, params))
			}, launch)
		}
		e.add(name+"Function.Launch", 2000, func() { e.ok(kernel.Launch(e.s, oneThread, args...)) }, launch)
		e.add(name+"PreparedLaunch.Launch", 2000, func() { e.ok(prepared.Launch(e.s)) }, launch)
	}
}

func (e *enqueueCosts) copies() {
	tab, s, d, h := e.drv.table, e.s.core.raw, e.dst.core.raw, e.src.core.host
	toDevice := func(n int) float64 {
		return e.c.ns("copy", e.c.proc("cuMemcpyHtoDAsync"), uint64(d), uintptr(h), copySize, uintptr(s), n)
	}
	toHost := func(n int) float64 {
		return e.c.ns("copy", e.c.proc("cuMemcpyDtoHAsync"), uintptr(h), uint64(d), copySize, uintptr(s), n)
	}
	set := func(n int) float64 {
		return e.c.ns("memset", e.c.proc("cuMemsetD8Async"), uint64(d), copySize, uintptr(s), n)
	}
	const n = 2000
	e.add("cuMemcpyHtoDAsync, 4 KiB, pinned: Table.MemcpyHtoDAsync", n,
		func() { e.done(tab.MemcpyHtoDAsync(driver.At{}, d, h, copySize, s)) }, toDevice)
	e.add("cuMemcpyHtoDAsync, 4 KiB, pinned: Stream.Copy", n, func() { e.ok(e.s.Copy(e.dst, e.src)) }, toDevice)
	e.add("cuMemcpyHtoDAsync, 4 KiB, pinned: Stream.Copy of spans", n,
		func() { e.ok(e.s.Copy(e.dst.Span(0, copySize), e.src.Span(0, copySize))) }, toDevice)
	e.add("cuMemcpyDtoHAsync, 4 KiB, pinned: Stream.Copy", n, func() { e.ok(e.s.Copy(e.src, e.dst)) }, toHost)
	e.add("cuMemsetD8Async, 4 KiB: Table.MemsetD8Async", n,
		func() { e.done(tab.MemsetD8Async(driver.At{}, d, 1, copySize, s)) }, set)
	e.add("cuMemsetD8Async, 4 KiB: Stream.Memset", n, func() { e.ok(e.s.Memset(e.dst, 1)) }, set)
}

func (e *enqueueCosts) graphs() {
	kernel := must(e.mod.Function("args0"))(e.b)
	g := must(e.s.Capture(CaptureRelaxed, func() (err error) {
		for range 10 {
			err = errors.Join(err, kernel.Launch(e.s, oneThread))
		}
		return err
	}))(e.b)
	x := must(g.Instantiate())(e.b)
	e.b.Cleanup(func() { e.ok(errors.Join(x.Close(), g.Close())) })
	raw := x.core.raw
	launch := func(n int) float64 {
		return e.c.ns("loop2", e.c.proc("cuGraphLaunch"), uintptr(raw), uintptr(e.s.core.raw), n)
	}
	e.add("cuGraphLaunch, 10 kernels: Table.GraphLaunch", 1000,
		func() { e.done(e.drv.table.GraphLaunch(driver.At{}, raw, e.s.core.raw)) }, launch)
	e.add("cuGraphLaunch, 10 kernels: GraphExec.Launch", 1000, func() { e.ok(x.Launch(e.s)) }, launch)
}

func (e *enqueueCosts) shortLived() {
	create := func(n int) float64 {
		return e.c.ns("create_record_destroy", e.c.proc("cuEventCreate"), e.c.proc("cuEventRecord"), e.c.proc("cuEventDestroy"),
			int(EventDisableTiming), uintptr(e.s.core.raw), n)
	}
	e.add("cuEventCreate + cuEventRecord + cuEventDestroy, untimed: RecordNew + Close", 2000, func() {
		v, err := e.s.RecordNew(EventDisableTiming)
		e.ok(errors.Join(err, v.Close()))
	}, create)
	e.add("cuStreamCreate + cuStreamDestroy: NewStream + Close", 200, func() {
		v, err := e.gpu.NewStream(StreamNonBlocking)
		e.ok(errors.Join(err, v.Close()))
	}, func(n int) float64 {
		return e.c.ns("create_destroy", e.c.proc("cuStreamCreate"), e.c.proc("cuStreamDestroy"), int(StreamNonBlocking), n)
	})
	e.add("cuMemAlloc + cuMemFree, 1 MiB: Alloc + Close", 200, func() {
		v, err := e.gpu.Alloc(1 << 20)
		e.ok(errors.Join(err, v.Close()))
	}, func(n int) float64 {
		return e.c.ns("alloc_free", e.c.proc("cuMemAlloc"), e.c.proc("cuMemFree"), 1<<20, n)
	})
}

// threads compares the throughput of goroutines with that of C threads, each with a stream of its
// own. All launch one function with the same memory, or record events of their own.
func (e *enqueueCosts) threads() string {
	const most = 16
	kernel := must(e.mod.Function("args4"))(e.b)
	var streams, functions, events [most]uintptr
	var goStreams [most]*Stream
	var goEvents [most]*Event
	for i := range most {
		goStreams[i], goEvents[i] = must(e.gpu.NewStream(StreamNonBlocking))(e.b), must(e.gpu.NewEvent(EventDisableTiming))(e.b)
		e.b.Cleanup(func() { e.ok(errors.Join(goEvents[i].Close(), goStreams[i].Close())) })
		streams[i], functions[i] = uintptr(goStreams[i].core.raw), uintptr(kernel.raw)
		events[i] = uintptr(goEvents[i].core().slot.Load().raw)
	}
	values := []uint64{uint64(e.dst.core.raw), 1, uint64(e.dst.core.raw), 3}
	args := []Arg{Ptr(e.dst), U64(1), Ptr(e.dst), U64(3)}
	sync := func() {
		for _, s := range goStreams {
			e.ok(s.Synchronize())
		}
	}
	var out, tsv strings.Builder
	out.WriteString("\n| wall time per call, by threads | C, ns | Go, ns | Go − C, ns (95 %) | ratio | allocations |\n|---|--:|--:|--:|--:|--:|\n")
	// Neither side needs a current context on these streams.
	then := func(ns float64) float64 { // synchronizes after a measurement
		sync()
		return ns
	}
	for _, n := range []int{1, 2, 4, 8, 16} {
		for _, c := range []comparison{
			{name: fmt.Sprintf("cuLaunchKernel, 4 arguments, %d threads: Function.Launch", n), n: 4000, goNs: func(calls int) float64 {
				return then(together(n, calls, func(i int) {
					for range calls {
						if err := kernel.Launch(goStreams[i], oneThread, args...); err != nil {
							e.b.Error(err)
						}
					}
				}))
			}, cNs: func(calls int) float64 {
				return then(e.c.ns("threads", e.c.proc("cuLaunchKernel"), &functions[0], &streams[0], e.cParams(values), n, calls))
			}},
			{name: fmt.Sprintf("cuEventRecord, untimed, %d threads: Event.Record", n), n: 20000, goNs: func(calls int) float64 {
				return then(together(n, calls, func(i int) {
					for range calls {
						if err := goEvents[i].Record(goStreams[i]); err != nil {
							e.b.Error(err)
						}
					}
				}))
			}, cNs: func(calls int) float64 {
				return then(e.c.ns("threads", e.c.proc("cuEventRecord"), &events[0], &streams[0], 0, n, calls))
			}},
		} {
			c.goNs(c.n / 10)
			out.WriteString(c.row(min(*costRounds, 11), &tsv) + "\n")
		}
	}
	return out.String()
}
