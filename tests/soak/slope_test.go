package soak

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// This file measures how many bytes of Go's heap an operation leaves behind, for each kind of objects, each kind of
// stream and each way in which the objects end. TestSoak does many things at a time, in which a few hundred bytes of
// one are not seen. Here one thing is done many times, on one goroutine.

// mostBytes is the number of bytes that an operation may leave behind.
const mostBytes = 24

// slopes are the measurements of a driver.
type slopes struct {
	*soak
	rnd *rand.Rand
	// census has the objects that the driver has between two operations.
	census map[string]int
}

// ends are the ways in which the objects of an operation end. In the last one some calls of the driver fail.
var ends = []string{"closed", "abandoned", "failed"}

// onStreams are the streams that operations use.
var onStreams = append([]string{"NewStream", "Thread.DefaultStream"}, streamKinds...)

// operation is what is done many times.
type operation struct {
	kind, stream, end string
	make              func(r *round)
}

func (o operation) String() string { return o.kind + ", " + o.stream + ", " + o.end }

// operations returns all combinations.
func operations() (all []operation) {
	for _, end := range ends {
		for _, stream := range onStreams {
			for _, k := range append(kinds, moreKinds...) {
				all = append(all, operation{k.name, stream, end, k.make})
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
		if r.ok("NewGreenContext", err) {
			r.add(g)
			s, err := g.NewStream(0)
			if r.ok("GreenContext.NewStream", err) {
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
		g, err := r.gpu.NewGraph()
		if !r.ok("NewGraph", err) {
			return
		}
		r.add(g)
		g.Capture(s, cu.CaptureThreadLocal, func() error { return s.Synchronize() })
		s.Capture(cu.CaptureThreadLocal, func() error { return s.Synchronize() })
	}},
	{"context", func(r *round) {
		c, err := r.gpu.Device().NewContext(0)
		if r.ok("NewContext", err) {
			r.add(c)
		}
	}},
	{"memory of a pool", func(r *round) {
		p, err := r.gpu.NewMemPool(cu.MemPoolOptions{})
		if !r.ok("NewMemPool", err) {
			return
		}
		r.add(p)
		m, err := p.Alloc(r.stream, 1<<10)
		if r.ok("MemPool.Alloc", err) {
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
		if o.end == "closed" || s.rnd.IntN(2) == 0 {
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

// failing are functions of which a call fails in a failed operation. Functions that end something or ask for a state are
// not among them: after these have failed, objects stay on purpose.
var failing = []string{
	"cuCtxCreate", "cuCtxGetId", "cuDevSmResourceSplitByCount", "cuDeviceGetDevResource", "cuDevicePrimaryCtxRetain",
	"cuEventCreate", "cuEventRecord", "cuEventRecordWithFlags", "cuGraphAddEventRecordNode", "cuGraphAddHostNode",
	"cuGraphAddKernelNode", "cuGraphAddMemsetNode", "cuGraphClone", "cuGraphCreate", "cuGraphExecUpdate",
	"cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphUpload", "cuGreenCtxCreate", "cuGreenCtxStreamCreate",
	"cuIpcGetEventHandle", "cuIpcOpenEventHandle", "cuLaunchHostFunc", "cuLaunchKernel", "cuMemAlloc",
	"cuMemAllocFromPoolAsync", "cuMemHostAlloc", "cuMemPoolCreate", "cuMemcpyAsync", "cuMemcpyDtoHAsync",
	"cuMemsetD32Async", "cuMemsetD8Async", "cuModuleGetFunction", "cuModuleGetGlobal", "cuModuleLoadData",
	"cuStreamBeginCapture", "cuStreamBeginCaptureToGraph", "cuStreamCreate", "cuStreamCreateWithPriority",
	"cuStreamWaitEvent", "cuStreamWaitValue64", "cuStreamWriteValue64",
}

// repeat does an operation n times. In those that fail, the calls of one function fail, or the first, second or third
// of them.
func (s *slopes) repeat(o operation, n int) {
	for range n {
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

// heap returns the size of the live heap after everything of the operations has ended.
func (s *slopes) heap() int {
	var size int
	for i := range 60 {
		runtime.GC()
		for _, drv := range append(s.others, s.drv) {
			if err := drv.Close(); err != nil {
				s.t.Error(err)
			}
		}
		st := s.drv.Stats()
		if st.Waits == 0 && st.WakeUps == 0 && st.DeferredObjects == 0 && st.AbandonedContexts == 0 && st.Timelines == 0 &&
			s.asBefore() && i > 0 {
			break
		}
		time.Sleep(time.Duration(i) * time.Millisecond / 4)
	}
	s.others = nil
	clear(s.counts)
	for range 2 {
		runtime.GC()
		m := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(m)
		size = int(m[0].Value.Uint64())
	}
	return size
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

// measure returns how many bytes an operation leaves behind: the median of the differences of several samples, each
// after n operations.
func (s *slopes) measure(o operation, n int) int {
	const samples = 5
	s.repeat(o, n)
	before := s.heap()
	var steps []int
	for range samples {
		s.repeat(o, n)
		now := s.heap()
		steps = append(steps, now-before)
		before = now
	}
	slices.Sort(steps)
	return steps[samples/2] / n
}

// leaves measures operations in any order for a quarter of the time of the test.
func leaves(t *testing.T, seed uint64) {
	sim := cusim.New(cusim.Devices(2))
	s := &slopes{soak: &soak{t: t, sim: sim, open: func() (*cu.Driver, error) { return cu.Open(cu.WithSoftware(sim)) },
		counts: make(map[string]int), broken: make(map[string]bool), without: regexp.MustCompile(*soakWithout)}}
	s.rnd = rand.New(rand.NewPCG(seed, 1))
	s.begin()
	s.heap()
	all, until, measured := operations(), time.Now().Add(duration()/4), 0
	s.rnd.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for _, o := range all {
		if time.Now().After(until) {
			break
		}
		if s.without.MatchString(o.String()) {
			continue
		}
		n := fewest
		left := s.measure(o, n)
		for ; left > mostBytes && n < most; left = s.measure(o, n) {
			n *= 4
		}
		if left > mostBytes {
			t.Errorf("%v: each operation leaves %d bytes behind", o, left)
		}
		t.Logf("%6d bytes: %v", left, o)
		measured++
	}
	t.Logf("%d of %d combinations", measured, len(all))
	s.end()
}

// fewest and most are how many operations come before a sample. Each attempt has four times as many as the one before:
// what remains of caches, of maps and of the test does not grow with the number.
const fewest, most = 50, 50 * 16
