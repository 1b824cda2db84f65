package cu_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// many is how often the costs of short calls are measured in a round, some those of long calls.
const many, some = 20000, 2000

func (r *costRig) addQueries() {
	pending, held := r.pending()
	complete := r.recorded(EventDisableTiming)
	// The shortest calls are in the loop itself, like their counterparts in C.
	query := func(name, op string, e *Event, want Status) way {
		return way{wayCu, name, op, func(n int) float64 {
			t0 := time.Now()
			for range n {
				if st, err := e.Query(); st != want || err != nil {
					r.b.Fatal(st, err)
				}
			}
			return float64(time.Since(t0)) / float64(n)
		}}
	}
	queryStream := func(op string, s *Stream, want Status) way {
		return way{wayCu, "Stream.Query", op, func(n int) float64 {
			t0 := time.Now()
			for range n {
				if st, err := s.Query(); st != want || err != nil {
					r.b.Fatal(st, err)
				}
			}
			return float64(time.Since(t0)) / float64(n)
		}}
	}
	raw := rawOf(pending)
	bareQuery := way{wayTable, "Table.EventQuery", "", func(n int) float64 {
		t := core.Of(r.drv).Table()
		t0 := time.Now()
		for range n {
			t.EventQuery(driver.At{}, raw)
		}
		return float64(time.Since(t0)) / float64(n)
	}}
	exchanged := way{wayCu, "capture mode exchanged", "",
		loop(func() { EventOf(pending).Slot.Load().Query(driver.At{Relaxed: true}) })}
	eventQuery, streamQuery := procName("cuEventQuery"), procName("cuStreamQuery")
	r.add(cost{"cuEventQuery, pending", many, []way{
		r.inC("loop1", eventQuery, uintptr(raw)), bareQuery,
		query("Event.Query", opQueryPending, pending, Pending), exchanged,
	}, nil}, 0, nil)
	r.add(cost{"cuEventQuery, complete", many, []way{
		r.inC("loop1", eventQuery, uintptr(rawOf(complete))),
		query("Event.Query, remembered", opQueryComplete, complete, Complete),
	}, nil}, 0, nil)
	r.add(cost{"cuStreamQuery, pending", many, []way{
		r.inC("loop1", streamQuery, uintptr(core.Of(held).Raw)), queryStream(opStreamBusy, held, Pending),
	}, nil}, 0, nil)
	r.add(cost{"cuStreamQuery, complete", many, []way{
		r.inC("loop1", streamQuery, uintptr(core.Of(r.s).Raw)), queryStream(opStreamIdle, r.s, Complete),
	}, nil}, 0, nil)
}

func (r *costRig) addRecords() {
	untimed, timed := r.recorded(EventDisableTiming), r.recorded(EventDefault)
	legacy := Need(r.gpu.LegacyStream())(r.b)
	ways := func(op string, e *Event, s *Stream, at driver.At, in func(string, ...any) way) []way {
		raw, stream, name := rawOf(e), core.Of(s).Raw, "Table.EventRecord"
		if at.Context != 0 {
			name += " in the context"
		}
		return []way{
			in("loop2", procName("cuEventRecord"), uintptr(raw), uintptr(stream)),
			{wayTable, name, "", func(n int) float64 {
				t := core.Of(r.drv).Table()
				t0 := time.Now()
				for range n {
					t.EventRecord(at, raw, stream)
				}
				return float64(time.Since(t0)) / float64(n)
			}},
			{wayCu, "Event.Record", op, func(n int) float64 {
				t0 := time.Now()
				for range n {
					if err := e.Record(s); err != nil {
						r.b.Fatal(err)
					}
				}
				return float64(time.Since(t0)) / float64(n)
			}},
		}
	}
	r.add(cost{"cuEventRecord, untimed", many, ways(opRecord, untimed, r.s, driver.At{}, r.inC), nil}, 0, r.sync)
	r.add(cost{"cuEventRecord, timed", some, ways(opRecordTimed, timed, r.s, driver.At{}, r.inC), nil}, 0, r.sync)
	r.add(cost{"cuEventRecord, legacy default stream", many,
		ways(opRecordLegacy, untimed, legacy, r.inContext(), r.inCInContext), nil},
		inARow, func() { r.ok(legacy.Synchronize()) })
}

func (r *costRig) addStreamWaits() {
	d, s, other := core.Of(r.drv), core.Of(r.s).Raw, core.Of(r.other).Raw
	tab := d.Table()
	e, start, end := r.recorded(EventDisableTiming), r.recorded(EventDefault), r.recorded(EventDefault)
	raw, rawStart, rawEnd := rawOf(e), rawOf(start), rawOf(end)
	r.add(cost{"cuStreamWaitEvent", many, []way{
		r.inC("wait", procName("cuStreamWaitEvent"), uintptr(s), uintptr(raw)),
		r.bare("Table.StreamWaitEvent", driver.At{}, func(at driver.At) driver.Result {
			return tab.StreamWaitEvent(at, s, raw, 0)
		}),
		r.cu("Stream.WaitEvent", opWaitEvent, func() error { return r.s.WaitEvent(e) }),
	}, nil}, inARow, r.sync)
	r.add(cost{"cuEventRecord + cuStreamWaitEvent", many / 4, []way{
		r.inC("record_wait", procName("cuEventRecord"), procName("cuStreamWaitEvent"),
			uintptr(raw), uintptr(other), uintptr(s)),
		r.bare("Table.EventRecord + Table.StreamWaitEvent", driver.At{}, func(at driver.At) driver.Result {
			return max(tab.EventRecord(at, raw, other), tab.StreamWaitEvent(at, s, raw, 0))
		}),
		r.cu("Stream.WaitStream", opWaitStream, func() error { return r.s.WaitStream(r.other) }),
	}, nil}, inARow, r.syncBoth)
	r.add(cost{"cuEventElapsedTime", many, []way{
		r.inC("elapsed", procName("cuEventElapsedTime"), uintptr(rawStart), uintptr(rawEnd)),
		// The function that Since calls, too. The older cuEventElapsedTime takes 4 µs on an H100.
		r.bare("Table.EventElapsedTimeV2", driver.At{}, func(driver.At) driver.Result {
			_, res := ElapsedIn(d, rawStart, rawEnd)
			return res
		}),
		r.cu("Event.Since", opElapsed, func() error {
			_, st, err := end.Since(start)
			if st != Complete {
				err = errors.Join(err, errors.New("an event is pending"))
			}
			return err
		}),
	}, nil}, 0, nil)
}

// addEvents adds events that live for a moment.
func (r *costRig) addEvents() {
	pool := Need(r.gpu.EventPool())(r.b)
	r.b.Cleanup(func() { r.ok(pool.Close()) })
	tab, s := core.Of(r.drv).Table(), core.Of(r.s).Raw
	create, destroy := procName("cuEventCreate"), procName("cuEventDestroy")
	r.add(cost{"cuEventCreate + cuEventDestroy, untimed", some, []way{
		r.inCInContext("create_destroy", create, destroy, int(EventDisableTiming)),
		r.bareInContext("Table.EventCreate + Table.EventDestroy", func(at driver.At) driver.Result {
			e, res := tab.EventCreate(at, uint32(EventDisableTiming))
			return max(res, tab.EventDestroy(driver.At{}, e))
		}),
		r.cu("NewEvent + Close", opCreate, func() error {
			e, err := r.gpu.NewEvent(EventDisableTiming)
			return closed(e, err)
		}),
		{wayCu, "EventPool.Acquire + Pooled.Release", opMoment, func(n int) float64 {
			t0 := time.Now()
			for range n {
				e, err := pool.Acquire()
				if err == nil {
					err = e.Release()
				}
				if err != nil {
					r.b.Fatal(err)
				}
			}
			return float64(time.Since(t0)) / float64(n)
		}},
	}, nil}, 0, nil)
	r.add(cost{"cuEventCreate + cuEventRecord + cuEventDestroy, untimed", many / 4, []way{
		r.inCInContext("create_record_destroy", create, procName("cuEventRecord"), destroy,
			int(EventDisableTiming), uintptr(s)),
		r.bareInContext("Table.EventCreate, EventRecord + EventDestroy", func(at driver.At) driver.Result {
			e, res := tab.EventCreate(at, uint32(EventDisableTiming))
			return max(res, tab.EventRecord(driver.At{}, e, s), tab.EventDestroy(driver.At{}, e))
		}),
		r.cu("EventPool.Acquire, Record + Release", opMomentRecord, func() error {
			e, err := pool.Acquire()
			return errors.Join(err, e.Record(r.s), e.Release())
		}),
		r.cu("a zero Event, Record + Close", opCreateRecord, func() error {
			e := new(Event)
			return closed(e, e.Record(r.s))
		}),
		r.cu("RecordNew + Close", "", func() error {
			e, err := r.s.RecordNew(EventDisableTiming)
			return closed(e, err)
		}),
	}, nil}, inARow, r.sync)
}

// closed closes what was created, unless that has failed.
func closed(c interface{ Close() error }, err error) error {
	if err != nil {
		return err
	}
	return c.Close()
}

// costArgs returns the arguments of the kernels of argsPTX, and their values.
func (r *costRig) costArgs(n int) (args []Arg, values []uint64) {
	for i := range n {
		if i%2 == 0 {
			args, values = append(args, Ptr(r.dst)), append(values, uint64(core.Of(r.dst).Raw))
		} else {
			args, values = append(args, U32(uint32(i))), append(values, uint64(i))
		}
	}
	return args, values
}

func (r *costRig) addLaunch(n int, op string) {
	kernel, tab, s := r.kernel(n), core.Of(r.drv).Table(), core.Of(r.s).Raw
	args, values := r.costArgs(n)
	params := kernelParams(args...)
	prepared := Need(kernel.Prepare(OneThread, args...))(r.b)
	inTable := func(at driver.At) driver.Result {
		return tab.LaunchKernel(at, RawFunction(kernel), 1, 1, 1, 1, 1, 1, 0, s, params)
	}
	launch := r.inCInContext("launch", procName("cuLaunchKernel"), uintptr(RawFunction(kernel)), uintptr(s), r.cParams(values))
	ns := launch.ns
	launch.ns = func(n int) float64 {
		r.cParams(values) // other kernels have others
		return ns(n)
	}
	r.add(cost{fmt.Sprintf("cuLaunchKernel, %d arguments", n), some, []way{
		launch,
		r.bare("Table.LaunchKernel", driver.At{}, inTable),
		r.bareInContext("Table.LaunchKernel", inTable),
		r.cu("Function.Launch", op, func() error { return kernel.Launch(r.s, OneThread, args...) }),
		r.cu("PreparedLaunch.Launch", "", func() error { return prepared.Launch(r.s) }),
	}, nil}, inARow, r.sync)
}

func (r *costRig) addCopyToDevice() {
	tab, s, d, h := core.Of(r.drv).Table(), core.Of(r.s).Raw, core.Of(r.dst).Raw, core.Of(r.src).Host
	inTable := func(at driver.At) driver.Result { return tab.MemcpyHtoDAsync(at, d, h, copySize, s) }
	r.add(cost{"cuMemcpyHtoDAsync, 4 KiB, pinned", some, []way{
		r.inCInContext("copy", procName("cuMemcpyHtoDAsync"), uint64(d), uintptr(h), copySize, uintptr(s)),
		r.bare("Table.MemcpyHtoDAsync", driver.At{}, inTable),
		r.bareInContext("Table.MemcpyHtoDAsync", inTable),
		r.cu("Stream.Copy", opCopy, func() error { return r.s.Copy(r.dst, r.src) }),
		r.cu("Stream.Copy of spans", "", func() error {
			return r.s.Copy(r.dst.Span(0, copySize), r.src.Span(0, copySize))
		}),
	}, nil}, inARow, r.sync)
}

func (r *costRig) addCopyToHost() {
	tab, s, d, h := core.Of(r.drv).Table(), core.Of(r.s).Raw, core.Of(r.dst).Raw, core.Of(r.src).Host
	inTable := func(at driver.At) driver.Result { return tab.MemcpyDtoHAsync(at, h, d, copySize, s) }
	r.add(cost{"cuMemcpyDtoHAsync, 4 KiB, pinned", some, []way{
		r.inCInContext("copy", procName("cuMemcpyDtoHAsync"), uintptr(h), uint64(d), copySize, uintptr(s)),
		r.bare("Table.MemcpyDtoHAsync", driver.At{}, inTable),
		r.bareInContext("Table.MemcpyDtoHAsync", inTable),
		r.cu("Stream.Copy", "", func() error { return r.s.Copy(r.src, r.dst) }),
		r.cu("Stream.Copy of spans", "", func() error {
			return r.s.Copy(r.src.Span(0, copySize), r.dst.Span(0, copySize))
		}),
	}, nil}, inARow, r.sync)
}

func (r *costRig) addMemset() {
	tab, s, d := core.Of(r.drv).Table(), core.Of(r.s).Raw, core.Of(r.dst).Raw
	inTable := func(at driver.At) driver.Result { return tab.MemsetD8Async(at, d, 1, copySize, s) }
	r.add(cost{"cuMemsetD8Async, 4 KiB", some, []way{
		r.inCInContext("memset", procName("cuMemsetD8Async"), uint64(d), copySize, uintptr(s)),
		r.bare("Table.MemsetD8Async", driver.At{}, inTable),
		r.bareInContext("Table.MemsetD8Async", inTable),
		r.cu("Stream.Memset", opMemset, func() error { return r.s.Memset(r.dst, 1) }),
		r.cu("Stream.Memset of a span", "", func() error { return r.s.Memset(r.dst.Span(0, copySize), 1) }),
	}, nil}, inARow, r.sync)
}

// fewInARow is how many launches of tenKernels are made in a row.
const fewInARow = 50

// tenKernels returns an executable graph with ten kernels.
func (r *costRig) tenKernels() *graph.Exec {
	kernel := r.kernel(0)
	g := Need(graph.Capture(r.s, graph.CaptureRelaxed, func() (err error) {
		for range 10 {
			err = errors.Join(err, kernel.Launch(r.s, OneThread))
		}
		return err
	}))(r.b)
	x := Need(g.Instantiate())(r.b)
	r.b.Cleanup(func() { r.ok(errors.Join(x.Close(), g.Close())) })
	return x
}

// addGraph adds launches of a graph with ten kernels.
func (r *costRig) addGraph() {
	x, tab, s := r.tenKernels(), core.Of(r.drv).Table(), core.Of(r.s).Raw
	raw := driver.GraphExec(x.Handle())
	inTable := func(at driver.At) driver.Result { return tab.GraphLaunch(at, raw, s) }
	r.add(cost{"cuGraphLaunch, 10 kernels", some / 2, []way{
		r.inCInContext("loop2", procName("cuGraphLaunch"), uintptr(raw), uintptr(s)),
		r.bare("Table.GraphLaunch", driver.At{}, inTable),
		r.bareInContext("Table.GraphLaunch", inTable),
		r.cu("graph.Exec.Launch", opGraph, func() error { return x.Launch(r.s) }),
	}, nil}, fewInARow, r.sync)
}

// addGraphUpdate adds the replacement of the arguments of 32 kernel nodes, one after the other and at once.
func (r *costRig) addGraphUpdate() {
	const nodes = 32
	kernel, tab := r.kernel(4), core.Of(r.drv).Table()
	args, values := r.costArgs(4)
	g := Need(graph.New(r.gpu))(r.b)
	var list []graph.Node
	for range nodes {
		list = append(list, Need(g.Add(&graph.Kernel{Function: kernel, Config: OneThread, Args: args}))(r.b))
	}
	x := Need(g.Instantiate())(r.b)
	r.b.Cleanup(func() { r.ok(errors.Join(x.Close(), g.Close())) })
	raw, raws := driver.GraphExec(x.Handle()), make([]driver.GraphNode, nodes)
	for i, n := range list {
		raws[i] = RawNode(r.drv, n)
	}
	params := kernelParams(args...)
	p := driver.KernelNodeParams{
		Func: RawFunction(kernel), GridDimX: 1, GridDimY: 1, GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1,
		KernelParams: unsafe.Pointer(unsafe.SliceData(params.Ptrs)),
	}
	i := 0
	inTable := func(at driver.At) driver.Result {
		i++
		return tab.GraphExecKernelNodeSetParams(at, raw, raws[i%nodes], &p)
	}
	const at = 1024 // where the handles are in r.cargs
	inC := r.inCInContext("kernel_nodes", procName("cuGraphExecKernelNodeSetParams"), uintptr(raw), r.cargs.Handle()+at,
		uintptr(RawFunction(kernel)), r.cargs.Handle())
	ns := inC.ns
	inC.ns = func(n int) float64 {
		r.cParams(values)
		r.ok(r.cargs.View(func(b []byte) error {
			for i, n := range raws {
				binary.NativeEndian.PutUint64(b[at+8*i:], uint64(n))
			}
			return nil
		}))
		return ns(n)
	}
	updates, all := make([]graph.NodeUpdate, nodes), make([]*driver.KernelNodeParams, nodes)
	results := make([]driver.Result, nodes)
	for i, n := range list {
		updates[i], all[i] = graph.NodeUpdate{Node: n, Work: &graph.Kernel{Function: kernel, Config: OneThread, Args: args}}, &p
	}
	perNode := func(f func() error) func(int) float64 {
		return func(n int) float64 { return r.cu("", "", f).ns(max(1, n/nodes)) / nodes }
	}
	r.add(cost{"cuGraphExecKernelNodeSetParams, 32 nodes, 4 arguments", many / 4, []way{
		inC,
		r.bareInContext("Table.GraphExecKernelNodeSetParams", inTable), // without a context the driver crashes
		r.cu("graph.Exec.Set", "", func() error {
			i++
			return x.Set(list[i%nodes], updates[0].Work)
		}),
		{wayTable, "Table.GraphExecKernelNodeSetParamsAll in the context, per node", "", perNode(func() error {
			res := tab.GraphExecKernelNodeSetParamsAll(r.inContext(), raw, raws, all, results)
			if res != driver.ResultSuccess {
				return res
			}
			return nil
		})},
		{wayCu, "graph.Exec.SetAll, per node", "", perNode(func() error { return x.SetAll(updates...) })},
	}, nil}, 0, nil)
}

// addStreams adds streams that live for a moment.
func (r *costRig) addStreams() {
	tab := core.Of(r.drv).Table()
	r.add(cost{"cuStreamCreate + cuStreamDestroy", some / 10, []way{
		r.inCInContext("create_destroy", procName("cuStreamCreate"), procName("cuStreamDestroy"),
			int(StreamNonBlocking)),
		r.bareInContext("Table.StreamCreate + Table.StreamDestroy", func(at driver.At) driver.Result {
			s, res := tab.StreamCreate(at, uint32(StreamNonBlocking))
			return max(res, tab.StreamDestroy(driver.At{}, s))
		}),
		r.cu("NewStream + Close", "", func() error {
			s, err := r.gpu.NewStream(StreamNonBlocking)
			return closed(s, err)
		}),
	}, nil}, 0, nil)
}

// addMemory adds memory that is allocated for a moment.
func (r *costRig) addMemory() {
	const size = 1 << 20
	tab := core.Of(r.drv).Table()
	r.add(cost{"cuMemAlloc + cuMemFree, 1 MiB", some / 10, []way{
		r.inCInContext("alloc_free", procName("cuMemAlloc"), procName("cuMemFree"), size),
		r.bareInContext("Table.MemAlloc + Table.MemFree", func(at driver.At) driver.Result {
			p, res := tab.MemAlloc(at, size)
			return max(res, tab.MemFree(at, p))
		}),
		r.cu("Alloc + Close", "", func() error {
			m, err := r.gpu.Alloc(size)
			return closed(m, err)
		}),
	}, nil}, 0, nil)
}

// addQueriesOf16 adds queries of the events of sixteen held streams.
func (r *costRig) addQueriesOf16() {
	const streams = 16
	first := len(r.events)
	for range streams {
		r.pending()
	}
	goEvents := r.events[first:]
	events, results := make([]driver.Event, streams), make([]driver.Result, streams)
	handles := make([]uintptr, streams)
	for i, e := range goEvents {
		events[i], handles[i] = rawOf(e), uintptr(rawOf(e))
	}
	statuses, tab := make([]Status, streams), core.Of(r.drv).Table()
	inTurn := func(f func()) func(int) float64 { // per event
		return func(n int) float64 { return loop(f)(max(1, n/streams)) / streams }
	}
	query := procName("cuEventQuery")
	r.add(cost{"cuEventQuery of 16 pending, one after the other, per event", many, []way{
		{wayC, "C", "", func(n int) float64 {
			return r.c.ns("array", r.c.proc(string(query)), &handles[0], streams, max(1, n/streams))
		}},
		{wayTable, "Table.EventQueryAll", "", inTurn(func() {
			tab.EventQueryAll(driver.At{}, events, results)
		})},
		{wayCu, "QueryAll", "", inTurn(func() { r.ok(QueryAll(statuses, goEvents)) })},
	}, nil}, 0, nil)
	r.add(cost{"cuEventQuery of 16 pending, by 16 threads, wall time per call", many, []way{
		r.inThreads(threadCalls{f: query, handles: handles}, streams, many),
		{wayCu, "Event.Query by 16 goroutines", "", func(n int) float64 {
			return abreast(streams, 1, n, func(i int) {
				for range n {
					if st, err := goEvents[i].Query(); st != Pending || err != nil {
						r.b.Error(st, err)
						return
					}
				}
			}, nil)
		}},
	}, nil}, 0, nil)
}
