package soak

import (
	"cmp"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutrace"
)

// This file measures how many bytes of Go's heap an operation leaves behind, for each kind of objects, each kind of
// stream and each way in which the objects end. TestSoak does many things at a time, in which a few hundred bytes of
// one are not seen. Here one thing is done many times, on one goroutine.

// mostBytes is the number of bytes that an operation may leave behind.
const mostBytes = 16

// slopes are the measurements of a driver.
type slopes struct {
	*soak
	rnd *rand.Rand
	// waits says that each operation waits for its stream. The detector of races keeps what is not known to be done.
	waits bool
	// census has the objects that the driver has between two operations.
	census map[string]int
}

// ends are the ways in which the objects of an operation end. In the last one some calls of the driver fail.
var ends = []string{"closed", "abandoned", "failed"}

// onStreams are the streams that operations use.
var onStreams = append([]string{"NewStream", "Thread.DefaultStream"}, streamKinds...)

// watchers are what may watch a driver, besides nothing. Each watches all calls, and knows objects by their handles.
var watchers = map[string]func(s *slopes) (stop func()){
	"": func(*slopes) func() { return func() {} },
	"traced": func(s *slopes) func() {
		rec := must(cutrace.Start(s.t.Context(), s.gpus[0], cutrace.Options{MaxCalls: 1, MaxSpans: 1}))(s.t)
		stop := must(cutrace.Log(s.drv, slog.New(slog.DiscardHandler), cutrace.LogOptions{}))(s.t)
		return func() {
			stop()
			if err := rec.Close(s.t.Context()); err != nil {
				s.t.Error(err)
			}
		}
	},
	"races detected": func(s *slopes) func() {
		s.waits = true
		return must(s.drv.DetectRaces(func(race cu.Race) { s.t.Errorf("%v", race) }))(s.t)
	},
}

// operation is what is done many times.
type operation struct {
	kind, stream, end string
	make              func(r *round)
}

func (o operation) String() string { return o.kind + ", " + o.stream + ", " + o.end }

// operations returns all combinations. The first of them have each kind with each end, and each stream.
func operations() (all []operation) {
	of := append(kinds, moreKinds...)
	for i := range onStreams {
		for e, end := range ends {
			for n, k := range of {
				all = append(all, operation{k.name, onStreams[(n+e+i)%len(onStreams)], end, k.make})
			}
		}
	}
	return all
}

// moreKinds are operations in addition to kinds.
var moreKinds = []kind{
	{"nothing", func(*round) {}},
	{"Thread.DefaultStream in new goroutines", func(r *round) {
		done := make(chan error)
		gpu := r.gpu
		go func() {
			done <- gpu.Do(func(t *cu.Thread) error {
				s, err := t.DefaultStream()
				if err != nil {
					return err
				}
				_, err = s.Query()
				return err
			})
		}()
		r.ok("Context.Do", <-done)
	}},
	{"a pinned goroutine", func(r *round) {
		done := make(chan error)
		gpu := r.gpu
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			done <- gpu.Do(func(t *cu.Thread) error {
				s, err := t.DefaultStream()
				if err != nil {
					return err
				}
				return s.Synchronize()
			})
		}()
		r.ok("Context.Do", <-done)
	}},
	{"green context", func(r *round) {
		g, err := newGreen(r.gpu, r.rnd.IntN(4))
		if r.ok("green.New", err) {
			r.add(g)
			s, err := g.NewStream(0)
			if r.ok("green.Context.NewStream", err) {
				r.add(s)
			}
		}
	}},
	{"failed capture", func(r *round) {
		s, err := r.gpu.NewStream(cu.StreamNonBlocking)
		if !r.ok("NewStream", err) {
			return
		}
		r.add(s)
		g, err := graph.New(r.gpu)
		if !r.ok("graph.New", err) {
			return
		}
		r.add(g)
		g.Capture(s, graph.CaptureThreadLocal, func() error { return s.Synchronize() })
		graph.Capture(s, graph.CaptureThreadLocal, func() error { return s.Synchronize() })
	}},
	{"context", func(r *round) {
		c, err := r.gpu.Device().NewContext(0)
		if r.ok("NewContext", err) {
			r.add(c)
		}
	}},
	{"words of memory", func(r *round) {
		m, err := r.gpu.Alloc(64)
		if !r.ok("Alloc", err) {
			return
		}
		r.add(m)
		s := r.stream
		r.use("BatchMemOps", func() error {
			return s.BatchMemOps(cu.WriteWord32(m.Span(0, 4), 1), cu.WriteWord64(m.Span(8, 8), 1),
				cu.WaitWord32(m.Span(0, 4), 1, cu.WaitAtLeast))
		})
	}},
	{"memory of a pool", func(r *round) {
		p, err := memory.NewPool(r.gpu, memory.PoolOptions{})
		if !r.ok("memory.NewPool", err) {
			return
		}
		r.add(p)
		m, err := p.Alloc(r.stream, 1<<10)
		if r.ok("memory.Pool.Alloc", err) {
			r.add(m)
		}
	}},
}

// do does the operation once.
func (s *slopes) do(o operation) {
	w := &worker{soak: s.soak, rnd: s.rnd}
	r := &round{worker: w, kind: o.kind, way: o.end, gpu: s.gpus[s.rnd.IntN(len(s.gpus))], failing: o.end == "failed"}
	run := func() {
		o.make(r)
		for _, use := range r.uses {
			use()
		}
		if r.failing { // else work that has not failed may wait for what has
			s.raise(slices.Concat(r.objects, r.closed))
		}
		if o.end == "closed" || s.waits || s.rnd.IntN(2) == 0 {
			r.ok("Stream.Synchronize", r.stream.Synchronize())
		}
		slices.Reverse(r.objects)
		if o.end != "abandoned" {
			r.closeAll(r.objects)
		}
		r.closeAll(r.closed)
	}
	if o.stream == "Thread.DefaultStream" {
		r.ok("Context.Do", r.gpu.Do(func(t *cu.Thread) (err error) {
			r.private = true
			if r.stream, err = t.DefaultStream(); err == nil {
				run()
			}
			return err
		}))
		return
	}
	if r.stream = r.streamOf(o.stream); r.stream != nil {
		run()
	}
}

// raise raises timelines over all values.
func (s *slopes) raise(objects []io.Closer) {
	s.sim.ClearFaults()
	for _, o := range objects {
		if line, ok := o.(*cu.Timeline); ok {
			if err := line.Set(9); err != nil {
				s.t.Error(err)
			}
		}
	}
}

// failing are functions of which a call fails in a failed operation. Functions that end something or ask for a state
// are not among them: after these have failed, objects stay on purpose.
var failing = []string{
	"cuCtxCreate", "cuCtxGetId", "cuDevSmResourceSplitByCount", "cuDeviceGetDevResource", "cuDevicePrimaryCtxRetain",
	"cuEventCreate", "cuEventRecord", "cuEventRecordWithFlags", "cuGraphAddEventRecordNode", "cuGraphAddHostNode",
	"cuGraphAddKernelNode", "cuGraphAddMemsetNode", "cuGraphClone", "cuGraphCreate", "cuGraphExecUpdate",
	"cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphUpload", "cuGreenCtxCreate", "cuGreenCtxStreamCreate",
	"cuIpcGetEventHandle", "cuIpcOpenEventHandle", "cuLaunchHostFunc", "cuLaunchKernel", "cuMemAlloc",
	"cuMemAllocFromPoolAsync", "cuMemHostAlloc", "cuMemPoolCreate", "cuMemcpyAsync", "cuMemcpyDtoHAsync",
	"cuMemsetD32Async", "cuMemsetD8Async", "cuModuleGetFunction", "cuModuleGetGlobal", "cuModuleLoadData",
	"cuStreamBatchMemOp", "cuStreamBeginCapture", "cuStreamBeginCaptureToGraph", "cuStreamCreate",
	"cuStreamCreateWithPriority", "cuStreamWaitEvent", "cuStreamWaitValue64", "cuStreamWriteValue64",
}

// repeat does an operation n times. In those that fail, the calls of one function fail, or the first, second or third
// of them. It often runs the collector, so that more operations do not leave more objects and goroutines at a time: the
// runtime and the software driver keep what the most of these took, such as stacks of destructions for reports.
func (s *slopes) repeat(o operation, n int) {
	for i := range n {
		if i%64 == 63 {
			s.heap()
		}
		if o.end == "failed" && s.sim != nil {
			s.sim.Inject(cusim.Fault{Function: failing[s.rnd.IntN(len(failing))], Nth: s.rnd.IntN(3), Every: s.rnd.IntN(2) == 0,
				Code: int(cu.ResultOutOfMemory)})
		}
		s.do(o)
		if o.end == "failed" && s.sim != nil {
			s.sim.ClearFaults()
		}
	}
}

// heap returns the size of the live heap after everything of the operations has ended: when it has not become smaller
// in some collections. Cleanups run after a collection, and what they let go is found by the next one.
func (s *slopes) heap() (least int) {
	least = math.MaxInt
	for i, same := 0, 0; i < 60 && same < 3; i++ {
		time.Sleep(time.Duration(i) * time.Millisecond / 4)
		for _, drv := range append(s.others, s.drv) {
			if err := drv.Close(); err != nil {
				s.t.Error(err)
			}
		}
		st := s.drv.Stats()
		over := st.Waits == 0 && st.WakeUps == 0 && st.DeferredObjects == 0 && st.AbandonedContexts == 0 &&
			st.Timelines == 0 && s.asBefore()
		if over {
			s.others = nil
		}
		runtime.GC()
		m := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(m)
		now := int(m[0].Value.Uint64())
		if same++; !over || now < least {
			same = 0
		}
		least = min(now, least)
	}
	s.others = nil
	clear(s.counts)
	return least
}

// asBefore reports whether the driver has the objects that it had between the operations before. What the library
// keeps for later does not count.
func (s *slopes) asBefore() bool {
	if s.sim == nil {
		return true
	}
	n := s.sim.Census()
	delete(n, "event")
	delete(n, "stream")
	delete(n, "host memory")
	if s.census == nil {
		s.census = n
	}
	return maps.Equal(s.census, n)
}

// first is how many operations come before the first sample. Each round has three times as many as have been done
// before, so that a map or a slice that grows with the operations grows in each.
const first, rounds = 16, 5

// measure returns how many bytes an operation leaves behind: the least of several rounds. What remains of caches and of
// the test does not grow in all of them. It ends after the first round in which nothing stays.
func (s *slopes) measure(o operation) (bytes int) {
	s.repeat(o, first)
	before, done := s.heap(), first
	bytes = math.MaxInt
	for range rounds {
		n := 3 * done
		s.repeat(o, n)
		done += n
		now := s.heap()
		bytes = min(bytes, (now-before)/n)
		if before = now; bytes <= mostBytes {
			break
		}
	}
	return bytes
}

// TestSlopes measures each kind of operation, with each end and with each watcher, on some stream. Then it measures
// the other combinations until its time is over.
func TestSlopes(t *testing.T) {
	if *soakSlopes == 0 {
		t.Skip("-soak.slopes is not set")
	}
	seed, until := *soakSeed, time.Now().Add(*soakSlopes)
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-soak.seed=%d", seed)
	for _, watched := range slices.Sorted(maps.Keys(watchers)) {
		t.Run(cmp.Or(watched, "unwatched"), func(t *testing.T) { leaves(t, watched, seed, until) })
	}
}

func leaves(t *testing.T, watched string, seed uint64, until time.Time) {
	sim := cusim.New(cusim.Devices(2))
	s := &slopes{soak: &soak{t: t, sim: sim, open: func() (*cu.Driver, error) { return cu.Open(cu.WithSoftware(sim)) },
		counts: make(map[string]int), broken: make(map[string]bool), without: regexp.MustCompile(*soakWithout)}}
	s.rnd = rand.New(rand.NewPCG(seed, 1))
	s.begin()
	stop := watchers[watched](s)
	s.heap()
	all, measured, only := operations(), 0, regexp.MustCompile(*soakOnly)
	few := len(all) / len(onStreams)
	s.rnd.Shuffle(len(all)-few, func(i, k int) { all[few+i], all[few+k] = all[few+k], all[few+i] })
	for i, o := range all {
		if i >= few && time.Now().After(until) {
			break
		}
		if s.without.MatchString(o.String()) || !only.MatchString(o.String()) {
			continue
		}
		bytes := s.measure(o)
		if bytes > mostBytes {
			t.Errorf("%v: each operation leaves %d bytes behind", o, bytes)
		}
		t.Logf("%6d bytes: %v", bytes, o)
		measured++
	}
	t.Logf("%d of %d combinations", measured, len(all))
	stop()
	s.end()
}
