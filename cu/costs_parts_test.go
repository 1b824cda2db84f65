package cu_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/memstate"
	. "github.com/purecu/purecu/internal/testrig"
)

// BenchmarkParts prints what the parts of calls cost behind a call of the driver, which leaves
// little of Go's memory in the caches. In the table that it prints, a row contains the parts of the
// rows before it, and the last row is the whole call. The column "cu − table" is the cost of the
// parts. It needs a GPU, as [BenchmarkAgainstC] does.
//
// The rows of parts make the calls of internal functions that the whole call makes. So they show
// what a call without the later parts would cost, even though it would not be correct.
func BenchmarkParts(b *testing.B) {
	r := newCostRig(b)
	r.launchOnce()
	r.addPartsOfMemset()
	r.addPartsOfCopy()
	r.addPartsOfLaunch()
	r.addPartsOfGraphLaunch()
	r.addPartsOfRecord()
	r.addPartsOfLegacyRecord()
	r.addPartsOfWait()
	r.addPartsOfEvent()
	r.addPartsOfStream()
	r.addPartsOfMemory()
	for range 1 { // what is measured is not the loop
		table, _ := costTable(r.take())
		b.Log(table)
	}
	r.logMachine()
}

// part returns a way that makes a call of the driver, and parts of a call of this package.
func (r *costRig) part(name string, f func() driver.Result) way {
	return r.cu(name, "", func() error {
		if res := f(); res != driver.ResultSuccess {
			return res
		}
		return nil
	})
}

// turn returns a way that makes a call of the driver with the turn of the stream.
func (r *costRig) turn(call func() driver.Result) way {
	sc := core.Of(r.s)
	return r.part("with the turn", func() driver.Result {
		if !sc.Kept.BeginTurn(&sc.Refs) {
			return driver.ResultUnknown
		}
		res := call()
		sc.Kept.EndTurn(&sc.Refs, sc)
		return res
	})
}

// enqueued returns a way that makes a call of the driver between BeginEnqueue and End, after it has used
// what use uses.
func (r *costRig) enqueued(name string, use func(sc *core.Stream) bool, call func() driver.Result) way {
	sc := core.Of(r.s)
	return r.part(name, func() driver.Result {
		w, err := sc.BeginEnqueue(opMemset)
		if err != nil || use != nil && !use(w.Stream) {
			return driver.ResultUnknown
		}
		res := call()
		w.End()
		return res
	})
}

const lockPart, keptPart, wholePart = "and the lock against captures", "and the kept objects", "the whole call"

// addPartsOfMemset has the parts of a memset, and what else costs time behind a call of the driver:
// reading cache lines, one after the other, and atomic operations.
func (r *costRig) addPartsOfMemset() {
	tab, s, d := core.Of(r.drv).Table(), core.Of(r.s).Raw, core.Of(r.dst)
	call := func() driver.Result { return tab.MemsetD8Async(driver.At{}, d.Raw, 1, copySize, s) }
	type line struct {
		next *line
		_    [4*64 - 8]byte // no line is fetched along with another
	}
	lines, word := new([17]line), new(atomic.Uint32)
	for i := range len(lines) - 1 {
		lines[i].next = &lines[i+1]
	}
	thenRead := func(n int) func() driver.Result {
		return func() driver.Result {
			res, l := call(), &lines[0]
			for range n {
				l = l.next
			}
			if l == nil {
				r.b.Error("there are fewer lines")
			}
			return res
		}
	}
	r.add(cost{"parts of a memset", some, []way{
		r.inCInContext("memset", procName("cuMemsetD8Async"), uint64(d.Raw), copySize, uintptr(s)),
		r.bare("table", driver.At{}, func(driver.At) driver.Result { return call() }),
		r.part("then 8 cache lines", thenRead(8)),
		r.part("then 16 cache lines", thenRead(16)),
		r.part("then 4 atomic operations", func() driver.Result {
			res := call()
			for range 4 {
				word.Add(1)
			}
			return res
		}),
		r.turn(call),
		r.enqueued(lockPart, nil, call),
		r.enqueued(keptPart, func(sc *core.Stream) bool { return sc.Keeps(&d.Resource) }, call),
		r.cu(wholePart, "", func() error { return r.s.Memset(r.dst, 1) }),
	}, nil}, inARow, r.sync)
}

func (r *costRig) addPartsOfCopy() {
	tab, s, d, h := core.Of(r.drv).Table(), core.Of(r.s).Raw, core.Of(r.dst), core.Of(r.src)
	call := func() driver.Result { return tab.MemcpyHtoDAsync(driver.At{}, d.Raw, h.Host, copySize, s) }
	r.add(cost{"parts of a copy to the device", some, []way{
		r.inCInContext("copy", procName("cuMemcpyHtoDAsync"), uint64(d.Raw), uintptr(h.Host), copySize, uintptr(s)),
		r.bare("table", driver.At{}, func(driver.At) driver.Result { return call() }),
		r.turn(call),
		r.enqueued(lockPart, nil, call),
		r.enqueued(keptPart, func(sc *core.Stream) bool { return sc.Keeps(&d.Resource) && sc.Keeps(&h.Resource) },
			call),
		r.cu(wholePart, "", func() error { return r.s.Copy(r.dst, r.src) }),
	}, nil}, inARow, r.sync)
}

func (r *costRig) addPartsOfLaunch() {
	const n = 4
	kernel, tab, sc := r.kernel(n), core.Of(r.drv).Table(), core.Of(r.s)
	s := sc.Raw
	args, values := r.costArgs(n)
	params := kernelParams(args...)
	prepared := Need(kernel.Prepare(OneThread, args...))(r.b)
	call := func() driver.Result {
		return tab.LaunchKernel(driver.At{}, RawFunction(kernel), 1, 1, 1, 1, 1, 1, 0, s, params)
	}
	inC := r.inCInContext("launch", procName("cuLaunchKernel"), uintptr(RawFunction(kernel)), uintptr(s), r.cParams(values))
	m, d := ModuleState(ModuleOf(kernel)), core.Of(r.dst)
	used := func(sc *core.Stream) bool { return sc.Keeps(&m.Resource) && sc.Keeps(&d.Resource) }
	cfg := OneThread
	r.add(cost{"parts of a launch with 4 arguments", some, []way{
		inC,
		r.bare("table", driver.At{}, func(driver.At) driver.Result { return call() }),
		r.turn(call),
		r.enqueued(lockPart, nil, call),
		r.enqueued(keptPart, used, call),
		r.part("and the arguments", func() driver.Result {
			w, err := sc.BeginEnqueue(opLaunch)
			if err != nil {
				return driver.ResultUnknown
			}
			p, err := UseAll(kernel, &w, &cfg, args)
			if err != nil {
				return driver.ResultUnknown
			}
			res := tab.LaunchKernel(driver.At{}, RawFunction(kernel), 1, 1, 1, 1, 1, 1, 0, s, p)
			w.End()
			return res
		}),
		r.cu(wholePart, "", func() error { return kernel.Launch(r.s, OneThread, args...) }),
		r.cu("the whole call, prepared", "", func() error { return prepared.Launch(r.s) }),
	}, nil}, inARow, r.sync)
}

func (r *costRig) addPartsOfGraphLaunch() {
	x, tab, sc := r.tenKernels(), core.Of(r.drv).Table(), core.Of(r.s)
	raw, s := driver.GraphExec(x.Handle()), sc.Raw
	call := func() driver.Result { return tab.GraphLaunch(driver.At{}, raw, s) }
	r.add(cost{"parts of a launch of a graph", some / 2, []way{
		r.inCInContext("loop2", procName("cuGraphLaunch"), uintptr(raw), uintptr(s)),
		r.bare("table", driver.At{}, func(driver.At) driver.Result { return call() }),
		r.turn(call),
		r.cu(wholePart, "", func() error { return x.Launch(r.s) }),
	}, nil}, fewInARow, r.sync)
}

// inFlight returns a way that makes a call of the driver with a call in flight on the stream.
func (r *costRig) inFlight(call func() driver.Result) way {
	sc := core.Of(r.s)
	return r.part("with a call in flight on the stream", func() driver.Result {
		if !sc.Acquire(sc) {
			return driver.ResultUnknown
		}
		res := call()
		sc.EndCall()
		return res
	})
}

func (r *costRig) addPartsOfRecord() {
	e, sc, tab := r.recorded(EventDisableTiming), core.Of(r.s), core.Of(r.drv).Table()
	sl := EventOf(e).Slot.Load()
	call := func() driver.Result { return tab.EventRecord(driver.At{}, sl.Raw, sc.Raw) }
	r.add(cost{"parts of a record", many, []way{
		r.inC("loop2", procName("cuEventRecord"), uintptr(sl.Raw), uintptr(sc.Raw)),
		r.bare("table", driver.At{}, func(driver.At) driver.Result { return call() }),
		r.inFlight(call),
		r.part("and a record in flight of the event", func() driver.Result {
			if !sc.Acquire(sc) || !sl.Begin(sl) {
				return driver.ResultUnknown
			}
			res := call()
			sl.End(sl)
			sc.EndCall()
			return res
		}),
		r.cu(wholePart, "", func() error { return e.Record(r.s) }),
	}, nil}, 0, r.sync)
}

func (r *costRig) addPartsOfLegacyRecord() {
	legacy := Need(r.gpu.LegacyStream())(r.b)
	r.b.Cleanup(func() { r.ok(legacy.Close()) })
	e, sc, tab := r.recorded(EventDisableTiming), core.Of(legacy), core.Of(r.drv).Table()
	sl := EventOf(e).Slot.Load()
	call := func() driver.Result { return tab.EventRecord(r.inContext(), sl.Raw, sc.Raw) }
	r.add(cost{"parts of a record on the legacy default stream", many, []way{
		r.inCInContext("loop2", procName("cuEventRecord"), uintptr(sl.Raw), uintptr(sc.Raw)),
		r.bare("table, without a context", driver.At{}, func(driver.At) driver.Result {
			tab.EventRecord(driver.At{}, sl.Raw, sc.Raw) // the driver may refuse it
			return driver.ResultSuccess
		}),
		r.madeCurrent("table, where the context is current", func() driver.Result {
			if res := tab.EventRecord(driver.At{}, sl.Raw, sc.Raw); !tab.Software() {
				return res
			}
			return driver.ResultSuccess // its threads are not those of the system, so it has refused the record
		}),
		r.part("table, in the context", call),
		r.part("and a call in flight, marked for captures", func() driver.Result {
			if !sc.AcquireGated(sc) || sc.Ctx.CaptureGate.Legacy.IsShut() {
				return driver.ResultUnknown
			}
			res := call()
			sc.ReleaseGated(sc)
			return res
		}),
		r.part("and on the event", func() driver.Result {
			if !sc.AcquireGated(sc) || sc.Ctx.CaptureGate.Legacy.IsShut() || !sl.Begin(sl) {
				return driver.ResultUnknown
			}
			res := call()
			sl.End(sl)
			sc.ReleaseGated(sc)
			return res
		}),
		r.cu(wholePart, "", func() error { return e.Record(legacy) }),
	}, nil}, inARow, func() { r.ok(legacy.Synchronize()) })
}

func (r *costRig) addPartsOfWait() {
	e, sc, tab := r.recorded(EventDisableTiming), core.Of(r.s), core.Of(r.drv).Table()
	sl := EventOf(e).Slot.Load()
	call := func() driver.Result { return tab.StreamWaitEvent(driver.At{}, sc.Raw, sl.Raw, 0) }
	r.add(cost{"parts of a wait", many, []way{
		r.inC("wait", procName("cuStreamWaitEvent"), uintptr(sc.Raw), uintptr(sl.Raw)),
		r.bare("table", driver.At{}, func(driver.At) driver.Result { return call() }),
		r.inFlight(call),
		r.part("and on the event", func() driver.Result {
			if !sc.Acquire(sc) || !sl.Acquire(sl) {
				return driver.ResultUnknown
			}
			res := call()
			sl.EndCall()
			sc.EndCall()
			return res
		}),
		r.cu(wholePart, "", func() error { return r.s.WaitEvent(e) }),
	}, nil}, inARow, r.sync)
}

// addPartsOfEvent has the parts of an event that exists for a moment.
func (r *costRig) addPartsOfEvent() {
	tab, in := core.Of(r.drv).Table(), r.inContext()
	flags := uint32(EventDisableTiming)
	call := func() driver.Result {
		e, res := tab.EventCreate(in, flags)
		return max(res, tab.EventDestroy(driver.At{}, e))
	}
	var event *Event // so that it is on the heap
	var owner *core.EventOwner
	cc := new(core.Event) // whose finalizer is never run
	owned := func(register bool) func() driver.Result {
		return func() driver.Result {
			res := call()
			event = new(Event)
			if register {
				core.InitEvent(core.EventRefOf(event), cc)
				core.CreatedOwner(core.EventRefOf(event)).NoteClosed()
			} else {
				owner = &core.EventOwner{Event: cc}
				runtime.KeepAlive(owner)
			}
			return res
		}
	}
	r.add(cost{"parts of NewEvent + Close", some, []way{
		r.inCInContext("create_destroy", procName("cuEventCreate"), procName("cuEventDestroy"), int(flags)),
		r.bare("table, in the context", driver.At{}, func(driver.At) driver.Result { return call() }),
		r.part("and two allocations", owned(false)),
		r.part("and the registration with the collector", owned(true)),
		r.cu(wholePart, "", func() error {
			e, err := r.gpu.NewEvent(EventDisableTiming)
			return closed(e, err)
		}),
	}, nil}, 0, nil)
}

// madeCurrent returns a way that makes a call of the driver on a thread on which the context stays current. It shows
// what calls on default streams would cost if they did not set the context.
func (r *costRig) madeCurrent(name string, f func() driver.Result) way {
	w := r.part(name, f)
	w.ns = r.onCurrentThread(w.ns)
	return w
}

// registered returns a way that makes a call of the driver, and the allocations and the registration with the collector
// of an object whose state has type S.
func registered[S any](r *costRig, call func() driver.Result) way {
	type object struct{ state *S }
	var keep *object // so that it is on the heap
	return r.part("and two allocations and a cleanup", func() driver.Result {
		res := call()
		keep = &object{new(S)}
		cleanup := runtime.AddCleanup(keep, func(*S) {}, keep.state)
		cleanup.Stop()
		return res
	})
}

// addPartsOfStream has the parts of a stream that exists for a moment.
func (r *costRig) addPartsOfStream() {
	tab, in := core.Of(r.drv).Table(), r.inContext()
	call := func() driver.Result {
		s, res := tab.StreamCreate(in, uint32(StreamNonBlocking))
		return max(res, tab.StreamDestroy(driver.At{}, s))
	}
	r.add(cost{"parts of NewStream + Close", some / 10, []way{
		r.inCInContext("create_destroy", procName("cuStreamCreate"), procName("cuStreamDestroy"),
			int(StreamNonBlocking)),
		r.bare("table, in the context", driver.At{}, func(driver.At) driver.Result { return call() }),
		registered[core.Stream](r, call),
		r.cu(wholePart, "", func() error {
			s, err := r.gpu.NewStream(StreamNonBlocking)
			return closed(s, err)
		}),
	}, nil}, 0, nil)
}

// addPartsOfMemory has the parts of memory that exists for a moment.
func (r *costRig) addPartsOfMemory() {
	const size = 1 << 20
	tab, in := core.Of(r.drv).Table(), r.inContext()
	call := func() driver.Result {
		p, res := tab.MemAlloc(in, size)
		return max(res, tab.MemFree(in, p))
	}
	r.add(cost{"parts of Alloc + Close", some / 10, []way{
		r.inCInContext("alloc_free", procName("cuMemAlloc"), procName("cuMemFree"), size),
		r.bare("table, in the context", driver.At{}, func(driver.At) driver.Result { return call() }),
		registered[memstate.Mem](r, call),
		r.cu(wholePart, "", func() error {
			m, err := r.gpu.Alloc(size)
			return closed(m, err)
		}),
	}, nil}, 0, nil)
}
