package cu_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// drops are ways to allocate memory, and what the program drops.
var drops = []struct {
	name string
	make func(gpu *Context, s *Stream, size uint64) (any, error)
}{
	{"Context.Alloc", func(gpu *Context, _ *Stream, n uint64) (any, error) { return gpu.Alloc(n) }},
	{"Context.AllocPitch", func(gpu *Context, _ *Stream, n uint64) (any, error) {
		m, _, err := gpu.AllocPitch(1<<20, n>>20, 4)
		return m, err
	}},
	{"Stream.Alloc", func(gpu *Context, s *Stream, n uint64) (any, error) { return s.Alloc(n) }},
	{"memory.Pool.Alloc", func(gpu *Context, s *Stream, n uint64) (any, error) {
		p, err := memory.NewPool(gpu, memory.PoolOptions{})
		if err != nil {
			return nil, err
		}
		return p.Alloc(s, n)
	}},
	{"memory.NewPhysical", func(gpu *Context, _ *Stream, n uint64) (any, error) {
		return memory.NewPhysical(gpu, n, memory.PhysicalOptions{})
	}},
	{"memory.Virtual.Grow", func(gpu *Context, _ *Stream, n uint64) (any, error) {
		v, err := memory.Reserve(gpu, n)
		if err != nil {
			return nil, err
		}
		return v, v.Grow(n)
	}},
	{"a closed piece of an abandoned graph", func(gpu *Context, _ *Stream, n uint64) (any, error) {
		m, err := gpu.Alloc(n)
		if err != nil {
			return nil, err
		}
		g, err := graph.New(gpu)
		if err != nil {
			return nil, err
		}
		_, err = g.Add(&graph.Memset{Dst: m.Span(0, 16), Value: 1})
		return g, errors.Join(err, m.Close())
	}},
}

// droppedMemory drops memory that is three times as much as the device has.
func droppedMemory(t *testing.T, gpu *Context) {
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	_, total, err := gpu.MemInfo()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range drops {
		t.Run(c.name, func(t *testing.T) {
			for i := range 300 {
				if _, err := c.make(gpu, s, total/100>>21<<21); err != nil {
					t.Fatalf("piece %d: %v", i, err)
				}
			}
		})
	}
}

// TestGPUDroppedMemory drops memory of all kinds.
func TestGPUDroppedMemory(t *testing.T) { droppedMemory(t, GPUContext(t)) }

// TestDroppedMemory does so with virtual time, with many pieces, and during a capture.
func TestDroppedMemory(t *testing.T) {
	t.Run("virtual time", func(t *testing.T) {
		r := NewSoft(t, cusim.VirtualTime())
		over, ended := make(chan struct{}), make(chan struct{})
		go func() { // lets the work end that uses the memory
			defer close(ended)
			for {
				select {
				case <-over:
					return
				case <-time.After(time.Millisecond):
					r.Sim.Advance(time.Second)
				}
			}
		}()
		droppedMemory(t, r.GPU)
		close(over)
		<-ended
	})
	t.Run("1000 pieces of 1 GiB", func(t *testing.T) {
		gpu := NewSoft(t).GPU
		for i := range 1000 {
			if _, err := gpu.Alloc(1 << 30); err != nil {
				t.Fatalf("piece %d: %v", i, err)
			}
		}
	})
	t.Run("during a capture", func(t *testing.T) {
		r := NewSoft(t)
		g := Need(graph.Capture(r.S, graph.CaptureRelaxed, func() error {
			for i := range 300 {
				if _, err := r.GPU.Alloc(1 << 30); err != nil {
					t.Fatalf("piece %d: %v", i, err)
				}
			}
			return r.Other.Synchronize()
		}))(t)
		r.OK(g.Close())
	})
}

// TestDroppedText makes sure that the error of an allocation says what was abandoned, and that what the program drops
// after an allocation has failed is found by the next one.
func TestDroppedText(t *testing.T) {
	r := NewSoft(t)
	free, _, err := r.GPU.MemInfo()
	r.OK(err)
	for range 10 {
		held := Need(r.GPU.Alloc(free - 8<<30))(t)
		Need(r.GPU.Alloc(1 << 30))(t) // is dropped
		_, err = r.GPU.Alloc(16 << 30)
		r.Is(err, ResultOutOfMemory)
		for _, want := range []string{"17179869184 bytes", "1073741824 bytes of abandoned memory"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
		_, err = r.GPU.Alloc(16 << 30)
		r.Is(err, ResultOutOfMemory)
		if !strings.Contains(err.Error(), "no abandoned memory") {
			t.Errorf("the error of the second attempt: %v", err)
		}
		runtime.KeepAlive(held)
		held = nil
		r.OK(Need(r.GPU.Alloc(free - 8<<30))(t).Close())
	}
}

// TestDroppedInHostFunc makes a call in a host function that finds too little memory. It frees nothing, for which it
// might wait, as what is freed may be in use behind the function.
func TestDroppedInHostFunc(t *testing.T) {
	r := NewSoft(t)
	other := Need(r.GPU.NewStream(StreamNonBlocking))(t)
	m := Need(r.GPU.Alloc(64))(t)
	var err error
	r.OK(r.S.HostFunc(func() {
		Need(r.GPU.AllocHost(64<<20, 0))(t) // is dropped
		r.Sim.Inject(cusim.Fault{Function: "cuMemsetD8Async", Code: int(ResultOutOfMemory)})
		err = other.Memset(m, 1)
	}))
	r.OK(r.S.Synchronize())
	r.Is(err, ResultOutOfMemory)
	r.OK(other.Memset(m, 1))
	r.OK(other.Close())
}

// TestDroppedRetry makes the driver answer each kind of call once with result 2. If the program has dropped memory, the
// call frees it and succeeds, or lets the program repeat what may be partly done. Otherwise the error remains. During a
// capture, also one of other code, nothing is freed.
func TestDroppedRetry(t *testing.T) {
	r := NewSoft(t)
	mod := Need(r.GPU.LoadModule([]byte(SpinPTX)))(t)
	spin := Need(mod.Function("spin"))(t)
	m, host := Need(r.GPU.Alloc(4096))(t), Need(r.GPU.AllocHost(4096, 0))(t)
	managed := Need(memory.AllocManaged(r.GPU, 4096, memory.AttachGlobal))(t)
	word := Need(r.GPU.Alloc(4))(t)
	g := Need(graph.New(r.GPU))(t)
	Need(g.Add(&graph.Memset{Dst: m, Value: 1}))(t)
	x := Need(g.Instantiate())(t)
	buf := make([]byte, 4096)
	image := Rows{Mem: m, Pitch: 64}
	lib := Need(library.Load(r.Drv, []byte(ManagedPTX)))(t)
	fail := func(_ any, err error) error { return err }
	type row struct {
		function string
		call     func() error
		enqueues bool // also in a capture
		once     bool // is not repeated
	}
	rows := []row{
		{"cuMemAlloc", func() error { return fail(r.GPU.Alloc(1 << 20)) }, false, false},
		{"cuMemAllocManaged", func() error { return fail(memory.AllocManaged(r.GPU, 1<<20, memory.AttachGlobal)) }, false, false},
		{"cuMemHostAlloc", func() error { return fail(r.GPU.AllocHost(1<<20, 0)) }, false, false},
		{"cuMemHostRegister", func() error { return fail(r.GPU.RegisterHost(make([]byte, 4096), 0)) }, false, false},
		{"cuMemAllocAsync", func() error { return fail(r.S.Alloc(64)) }, false, false},
		{"cuMemPoolCreate", func() error { return fail(memory.NewPool(r.GPU, memory.PoolOptions{})) }, false, false},
		{"cuMemsetD8", func() error { return m.Memset(1) }, false, false},
		{"cuMemcpyHtoD", func() error { return m.CopyFrom(buf) }, false, false},
		{"cuMemcpyDtoH", func() error { return m.CopyTo(buf) }, false, false},
		{"cuModuleLoadDataEx", func() error { return fail(r.GPU.LoadModule([]byte(SpinPTX))) }, false, false},
		{"cuModuleGetFunction", func() error { return fail(mod.Function("spin")) }, false, false},
		{"cuFuncLoad", spin.Load, false, false},
		{"cuLibraryGetManaged", func() error { return fail(lib.Managed(r.GPU, "total")) }, false, false},
		{"cuLibraryLoadData", func() error { return fail(library.Load(r.Drv, []byte(SpinPTX))) }, false, false},
		{"cuStreamCreate", func() error { return fail(r.GPU.NewStream(StreamNonBlocking)) }, false, false},
		{"cuGraphCreate", func() error { return fail(graph.New(r.GPU)) }, false, false},
		{"cuGraphClone", func() error { return fail(g.Clone()) }, false, false},
		{"cuGraphInstantiateWithFlags", func() error { return fail(g.Instantiate()) }, false, false},
		{"cuGraphInstantiateWithParams", func() error { return fail(g.InstantiateWithFlags(0)) }, false, false},
		{"cuCtxSetLimit", func() error { return r.GPU.SetLimit(LimitStackSize, 4096) }, false, false},
		{"cuGraphLaunch", func() error { return x.Launch(r.S) }, false, true},
		{"cuGraphUpload", func() error { return x.Upload(r.S) }, false, false},
		{"cuMemPrefetchAsync", func() error { return memory.Prefetch(r.S, managed, memory.Location{Type: memory.LocationHost}) }, false, false},
		{"cuMemsetD8Async", func() error { return r.S.Memset(m, 1) }, true, false},
		{"cuMemsetD32Async", func() error { return r.S.Memset32(m, 1) }, true, false},
		{"cuMemsetD16Async", func() error { return r.S.Memset16(m, 1) }, true, false},
		{"cuMemsetD2D8Async", func() error { return r.S.Memset2D(image, 1, 8, 8) }, true, false},
		{"cuMemcpyHtoDAsync", func() error { return r.S.Copy(m, host) }, true, false},
		{"cuMemcpyDtoHAsync", func() error { return r.S.Copy(host, m) }, true, false},
		{"cuMemcpy2DAsync", func() error { return r.S.Copy2D(image, Rows{Mem: host, Pitch: 64}, 8, 8) }, true, false},
		{"cuStreamBatchMemOp", func() error { return r.S.BatchMemOps(WriteWord32(word, 1)) }, true, true},
		{"cuLaunchKernel", func() error { return spin.Launch(r.S, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, U64(0)) }, true, true},
	}
	if runtime.GOOS == "linux" { // pools are shared there
		shared := Need(memory.NewPool(r.GPU, memory.PoolOptions{Shareable: true}))(t)
		f, piece := Need(shared.Export())(t), Need(shared.Alloc(r.S, 64))(t)
		defer f.Close()
		defer shared.Close()
		defer piece.Close()
		h, imported := Need(memory.PoolHandleOf(piece))(t), Need(memory.ImportPool(r.GPU, f.Fd()))(t)
		defer imported.Close()
		rows = append(rows,
			row{"cuMemPoolImportFromShareableHandle", func() error { return fail(memory.ImportPool(r.GPU, f.Fd())) }, false, false},
			row{"cuMemPoolImportPointer", func() error { return fail(imported.Open(h)) }, false, false})
	}
	for _, c := range rows {
		t.Run(c.function, func(t *testing.T) {
			r.OK(c.call()) // from now on the stream keeps the objects: the usual calls follow
			runtime.GC()
			for range 2 {
				Need(r.GPU.AllocHost(64<<20, 0))(t) // is dropped
				r.Sim.Inject(cusim.Fault{Function: c.function, Code: int(ResultOutOfMemory)})
				err := c.call()
				if c.once {
					if text := fmt.Sprint(err); !strings.Contains(text, " bytes of abandoned memory") ||
						!strings.Contains(text, core.FreedDetail) {
						t.Errorf("the error: %v", err)
					}
					err = c.call()
				}
				r.OK(err)
				r.Sim.ClearFaults()
			}
			r.Sim.Inject(cusim.Fault{Function: c.function, Code: int(ResultOutOfMemory), Every: true})
			defer r.Sim.ClearFaults()
			err := c.call()
			r.Is(err, ResultOutOfMemory)
			if n := strings.Count(err.Error(), "the garbage collector has run"); n != 1 || strings.Contains(err.Error(), " 0 bytes") {
				t.Errorf("the error: %v", err)
			}
			if !c.enqueues {
				return
			}
			_, err = graph.Capture(r.S, graph.CaptureRelaxed, func() error {
				if err := c.call(); err == nil || strings.Contains(err.Error(), "garbage collector") {
					t.Errorf("during a capture: %v", err)
				}
				return nil
			})
			_ = err // whether the capture is valid is the driver's business
			table, at := core.Of(r.Drv).Table(), driver.At{Context: core.Of(r.S).Ctx.Raw}
			if res := table.StreamBeginCapture(at, core.Of(r.S).Raw, driver.CU_STREAM_CAPTURE_MODE_RELAXED); res != 0 {
				t.Fatal(res)
			}
			if err := c.call(); err == nil || strings.Contains(err.Error(), "garbage collector") {
				t.Errorf("while other code captures the stream: %v", err)
			}
			if g, res := table.StreamEndCapture(at, core.Of(r.S).Raw); res == driver.ResultSuccess {
				table.GraphDestroy(at, g)
			}
		})
	}
	r.OK(r.S.Synchronize())
	for _, c := range []io.Closer{x, g, word, managed, host, m, mod, lib} {
		r.OK(c.Close())
	}
}

// TestDroppedGraphs drops executable graphs whose launches have allocated memory.
func TestDroppedGraphs(t *testing.T) {
	r := NewSoft(t)
	for i := range 300 {
		g := Need(graph.New(r.GPU))(t)
		_, m, err := AddAlloc(g, 1<<30)
		r.OK(err)
		x := Need(g.Instantiate())(t)
		err = x.Launch(r.S)
		if errors.Is(err, ResultOutOfMemory) { // the error says that memory was freed, and that the program may call again
			err = x.Launch(r.S)
		}
		if err != nil {
			t.Fatalf("graph %d: %v", i, err)
		}
		Need(x.Take(m))(t)
	}
}
