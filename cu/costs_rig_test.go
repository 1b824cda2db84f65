package cu_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// BenchmarkAgainstC prints what calls of this package cost beside the same
// driver calls in C loops of the same process, measured in turn, on a real
// GPU:
//
//	PURECU_TEST_GPU=1 go test ./cu -run '^$' -bench '^BenchmarkAgainstC$' -benchtime 1x -v
//
// Rows that begin with Table are calls from Go without package cu. With [costsEnv] set it writes what
// it measured to a file, too. Without a GPU it makes a few calls on the software driver, beside
// nothing, and the numbers mean nothing.
func BenchmarkAgainstC(b *testing.B) {
	r := newCostRig(b)
	for range 1 { // what is measured is not the loop
		held, heldLines := costTable(r.besideHeldStreams())
		r.release()
		free, freeLines := costTable(r.besideNothing())
		b.Log(held + strings.TrimPrefix(free, "\n"+costHeader))
		if path := os.Getenv(costsEnv); path != "" {
			r.ok(os.WriteFile(path, []byte(heldLines+freeLines), 0o644))
		}
	}
	r.logMachine()
}

// besideHeldStreams returns what is measured while a stream is held, so that something is pending.
func (r *costRig) besideHeldStreams() []cost {
	r.launchOnce()
	r.gate = NewGate(r.b, r.gpu)
	r.addQueries()
	r.addRecords()
	r.addStreamWaits()
	r.addEvents()
	r.addLaunch(0, opLaunch)
	r.addCopyToDevice()
	r.addQueriesOf16() // may hold up other streams, as the GPU has few queues: nothing may need one
	return r.take()
}

// besideNothing returns what may wait for held streams.
func (r *costRig) besideNothing() []cost {
	r.addLaunch(4, opLaunchArgs)
	r.addLaunch(16, "")
	r.addCopyToHost()
	r.addMemset()
	r.addGraph()
	r.addGraphUpdate()
	r.addStreams()
	r.addMemory()
	return r.take()
}

// costRig has what the costs of calls are measured with.
type costRig struct {
	b          *testing.B
	gpu        *Context
	drv        *Driver
	c          *baseline // nil on a driver that is not in C
	gate       *Gate
	s, other   *Stream
	held       []*Stream
	events     []*Event // those of the held streams
	dst        *DeviceMem
	src, cargs *HostMem // cargs is for C: sixteen addresses, and then sixteen values
	mod        *Module
	costs      []cost
}

// copySize is how much is copied to compare what copies cost to begin.
const copySize = 4096

// argsPTX has kernels that do nothing, with 0, 4 and 16 parameters: in turn 64 and 32 bits wide.
var argsPTX = func() string {
	var b strings.Builder
	b.WriteString(".version 6.0\n.target sm_50\n.address_size 64\n")
	for _, n := range []int{0, 4, 16} {
		var params []string
		for i := range n {
			params = append(params, fmt.Sprintf(".param .u%d p%d", []int{64, 32}[i%2], i))
		}
		fmt.Fprintf(&b, ".visible .entry args%d(%s)\n{\n\tret;\n}\n", n, strings.Join(params, ", "))
	}
	return b.String()
}()

func newCostRig(b *testing.B) *costRig {
	if os.Getenv(GPUEnv) == "" {
		*costRounds, *costCalls = min(*costRounds, 2), min(*costCalls, 20)
	}
	gpu := GPUContext(b)
	r := &costRig{b: b, gpu: gpu, drv: gpu.Device().Driver()}
	if !core.Of(r.drv).Table().Software() {
		r.c = newBaseline(b, r.drv)
	}
	r.s, r.other = r.newStream(), r.newStream()
	r.dst, r.src = Need(gpu.Alloc(copySize))(b), Need(gpu.AllocHost(copySize, HostDefault))(b)
	r.cargs = Need(gpu.AllocHost(copySize, HostDefault))(b)
	r.mod = Need(gpu.LoadModule([]byte(argsPTX)))(b)
	// After the gate's, as this waits for what the gate holds.
	b.Cleanup(func() { r.ok(errors.Join(r.src.Close(), r.cargs.Close(), r.dst.Close(), r.mod.Close())) })
	return r
}

func (r *costRig) ok(err error) {
	if err != nil {
		r.b.Helper()
		r.b.Fatal(err)
	}
}

// logMachine says what the table was measured with.
func (r *costRig) logMachine() {
	r.b.Logf("engine %s, GOMAXPROCS %d, %s, CUDA %d", ccall.Engine, runtime.GOMAXPROCS(0), runtime.Version(),
		Need(r.drv.Version())(r.b))
}

func (r *costRig) newStream() *Stream {
	s := Need(r.gpu.NewStream(StreamNonBlocking))(r.b)
	r.b.Cleanup(func() { r.ok(s.Close()) })
	return s
}

func (r *costRig) newEvent(f EventFlags) *Event {
	e := Need(r.gpu.NewEvent(f))(r.b)
	r.b.Cleanup(func() { r.ok(e.Close()) })
	return e
}

// recorded returns an event whose record has completed.
func (r *costRig) recorded(f EventFlags) *Event {
	e := r.newEvent(f)
	r.ok(errors.Join(e.Record(r.s), r.s.Synchronize()))
	return e
}

// pending returns an event of a stream that is held.
func (r *costRig) pending() (*Event, *Stream) {
	s, e := r.newStream(), r.newEvent(EventDisableTiming)
	r.gate.Hold(r.b, s)
	r.ok(e.Record(s))
	r.held, r.events = append(r.held, s), append(r.events, e)
	return e, s
}

// release lets the held streams go on, and waits until they are done.
func (r *costRig) release() {
	r.gate.Open()
	for _, s := range r.held {
		r.ok(s.Synchronize())
	}
}

// launchOnce uses code and memory, which may wait for all streams when it is first used: also for a
// held one.
func (r *costRig) launchOnce() {
	r.ok(errors.Join(r.kernel(0).Launch(r.s, OneThread), r.s.Copy(r.dst, r.src), r.s.Synchronize()))
}

func (r *costRig) kernel(args int) *Function {
	return Need(r.mod.Function(fmt.Sprintf("args%d", args)))(r.b)
}

func rawOf(e *Event) driver.Event { return EventOf(e).Slot.Load().Raw }

// take returns the costs that were added, and forgets them.
func (r *costRig) take() []cost {
	costs := r.costs
	r.costs = nil
	return costs
}

// add adds a cost, of which at most so many calls are made in a row before catchUp lets the GPU do its
// part, untimed. For inARow 0 it is all of them.
func (r *costRig) add(c cost, inARow int, catchUp func()) {
	var ways []way
	for _, w := range c.ways {
		if w.kind == wayC && r.c == nil {
			continue
		}
		if inARow != 0 {
			w.ns = apart(inARow, w.ns, catchUp)
		}
		ways = append(ways, w)
	}
	c.ways = ways
	if inARow == 0 {
		c.after = catchUp
	}
	if c, any := c.chosen(); any {
		r.costs = append(r.costs, c)
	}
}

// inARow is how many calls are made in a row where they fill the queue of a stream.
const inARow = 250

func (r *costRig) sync()     { r.ok(r.s.Synchronize()) }
func (r *costRig) syncBoth() { r.ok(errors.Join(r.other.Synchronize(), r.s.Synchronize())) }

// procName is an argument of a function in C: the driver's function of this name.
type procName string

// inC returns the way of one of the functions of tests/gpu/baseline.c, which gets the number of calls
// as its last argument.
func (r *costRig) inC(function string, args ...any) way {
	return way{wayC, "C", "", func(n int) float64 { return r.c.ns(function, append(r.c.procs(args), n)...) }}
}

// procs returns the arguments with the addresses of functions.
func (b *baseline) procs(args []any) []any {
	var list []any
	for _, a := range args {
		if name, ok := a.(procName); ok {
			a = b.proc(string(name))
		}
		list = append(list, a)
	}
	return list
}

// inCInContext is inC for calls that need a current context.
func (r *costRig) inCInContext(function string, args ...any) way {
	w := r.inC(function, args...)
	w.ns = r.onCurrentThread(w.ns)
	return w
}

// onCurrentThread makes the context current on the thread of a measurement.
func (r *costRig) onCurrentThread(ns func(int) float64) func(int) float64 {
	return func(n int) float64 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		core.Of(r.drv).Table().CtxPushCurrent(driver.At{}, core.Of(r.gpu).Context.Raw)
		defer core.Of(r.drv).Table().CtxPopCurrent(driver.At{})
		return ns(n)
	}
}

// bare returns the way of calls through the table.
func (r *costRig) bare(name string, at driver.At, f func(at driver.At) driver.Result) way {
	return way{wayTable, name, "", func(n int) float64 {
		t0 := time.Now()
		for range n {
			if res := f(at); res != driver.ResultSuccess {
				r.b.Fatal(res)
			}
		}
		return float64(time.Since(t0)) / float64(n)
	}}
}

// inContext is where calls are made that need a context.
func (r *costRig) inContext() driver.At { return driver.At{Context: core.Of(r.gpu).Context.Raw} }

// bareInContext is bare in the context.
func (r *costRig) bareInContext(name string, f func(at driver.At) driver.Result) way {
	return r.bare(name+" in the context", r.inContext(), f)
}

// cu returns the way of calls through this package.
func (r *costRig) cu(name, op string, f func() error) way {
	return way{wayCu, name, op, func(n int) float64 {
		t0 := time.Now()
		for range n {
			if err := f(); err != nil {
				r.b.Fatal(err)
			}
		}
		return float64(time.Since(t0)) / float64(n)
	}}
}

// cParams writes the arguments of a kernel to memory that C can read, and returns the address of
// their addresses, 0 if there are none.
func (r *costRig) cParams(values []uint64) uintptr {
	if len(values) == 0 {
		return 0
	}
	at := r.cargs.Handle()
	r.ok(r.cargs.View(func(b []byte) error {
		for i, v := range values {
			binary.NativeEndian.PutUint64(b[8*i:], uint64(at)+uint64(128+8*i))
			binary.NativeEndian.PutUint64(b[128+8*i:], v)
		}
		return nil
	}))
	return at
}
