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
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
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
		g, err := gpu.NewGraph()
		if err != nil {
			return nil, err
		}
		_, err = g.Add(&MemsetNode{Dst: m.Span(0, 16), Value: 1})
		return g, errors.Join(err, m.Close())
	}},
}

// droppedMemory drops memory that is three times as much as the device has.
func droppedMemory(t *testing.T, gpu *Context) {
	s := need(gpu.NewStream(StreamNonBlocking))(t)
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
func TestGPUDroppedMemory(t *testing.T) { droppedMemory(t, gpuContext(t)) }

// TestDroppedMemory does so with virtual time, with many pieces, and during a capture.
func TestDroppedMemory(t *testing.T) {
	t.Run("virtual time", func(t *testing.T) {
		r := newSoft(t, cusim.VirtualTime())
		over, ended := make(chan struct{}), make(chan struct{})
		go func() { // lets the work end that uses the memory
			defer close(ended)
			for {
				select {
				case <-over:
					return
				case <-time.After(time.Millisecond):
					r.sim.Advance(time.Second)
				}
			}
		}()
		droppedMemory(t, r.gpu)
		close(over)
		<-ended
	})
	t.Run("1000 pieces of 1 GiB", func(t *testing.T) {
		gpu := newSoft(t).gpu
		for i := range 1000 {
			if _, err := gpu.Alloc(1 << 30); err != nil {
				t.Fatalf("piece %d: %v", i, err)
			}
		}
	})
	t.Run("during a capture", func(t *testing.T) {
		r := newSoft(t)
		g := need(r.s.Capture(CaptureRelaxed, func() error {
			for i := range 300 {
				if _, err := r.gpu.Alloc(1 << 30); err != nil {
					t.Fatalf("piece %d: %v", i, err)
				}
			}
			return r.other.Synchronize()
		}))(t)
		r.ok(g.Close())
	})
}

// TestDroppedText makes sure that the error of an allocation says what was abandoned, and that what the program drops
// after an allocation has failed is found by the next one.
func TestDroppedText(t *testing.T) {
	r := newSoft(t)
	free, _, err := r.gpu.MemInfo()
	r.ok(err)
	for range 10 {
		held := need(r.gpu.Alloc(free - 8<<30))(t)
		need(r.gpu.Alloc(1 << 30))(t) // is dropped
		_, err = r.gpu.Alloc(16 << 30)
		r.is(err, ResultOutOfMemory)
		for _, want := range []string{"17179869184 bytes", "1073741824 bytes of abandoned memory"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
		_, err = r.gpu.Alloc(16 << 30)
		r.is(err, ResultOutOfMemory)
		if !strings.Contains(err.Error(), "no abandoned memory") {
			t.Errorf("the error of the second attempt: %v", err)
		}
		runtime.KeepAlive(held)
		held = nil
		r.ok(need(r.gpu.Alloc(free - 8<<30))(t).Close())
	}
}

// TestDroppedInHostFunc makes a call in a host function that finds too little memory. It frees nothing, for which it
// might wait, as what is freed may be in use behind the function.
func TestDroppedInHostFunc(t *testing.T) {
	r := newSoft(t)
	other := need(r.gpu.NewStream(StreamNonBlocking))(t)
	m := need(r.gpu.Alloc(64))(t)
	var err error
	r.ok(r.s.HostFunc(func() {
		need(r.gpu.AllocHost(64<<20, 0))(t) // is dropped
		r.sim.Inject(cusim.Fault{Function: "cuMemsetD8Async", Code: int(ResultOutOfMemory)})
		err = other.Memset(m, 1)
	}))
	r.ok(r.s.Synchronize())
	r.is(err, ResultOutOfMemory)
	r.ok(other.Memset(m, 1))
	r.ok(other.Close())
}

// TestDroppedRetry makes the driver answer each kind of call once with result 2. If the program has dropped memory, the
// call frees it and succeeds, or lets the program repeat what may be partly done. Otherwise the error remains. During a
// capture, also one of other code, nothing is freed.
func TestDroppedRetry(t *testing.T) {
	r := newSoft(t)
	mod := need(r.gpu.LoadModule([]byte(spinPTX)))(t)
	spin := need(mod.Function("spin"))(t)
	m, host := need(r.gpu.Alloc(4096))(t), need(r.gpu.AllocHost(4096, 0))(t)
	managed := need(memory.AllocManaged(r.gpu, 4096, memory.AttachGlobal))(t)
	word := need(r.gpu.Alloc(4))(t)
	g := need(r.gpu.NewGraph())(t)
	need(g.Add(&MemsetNode{Dst: m, Value: 1}))(t)
	x := need(g.Instantiate())(t)
	buf := make([]byte, 4096)
	image := Rows{Mem: m, Pitch: 64}
	lib := need(r.drv.LoadLibrary([]byte(managedPTX)))(t)
	fail := func(_ any, err error) error { return err }
	type row struct {
		function string
		call     func() error
		enqueues bool // also in a capture
		once     bool // is not repeated
	}
	rows := []row{
		{"cuMemAlloc", func() error { return fail(r.gpu.Alloc(1 << 20)) }, false, false},
		{"cuMemAllocManaged", func() error { return fail(memory.AllocManaged(r.gpu, 1<<20, memory.AttachGlobal)) }, false, false},
		{"cuMemHostAlloc", func() error { return fail(r.gpu.AllocHost(1<<20, 0)) }, false, false},
		{"cuMemHostRegister", func() error { return fail(r.gpu.RegisterHost(make([]byte, 4096), 0)) }, false, false},
		{"cuMemAllocAsync", func() error { return fail(r.s.Alloc(64)) }, false, false},
		{"cuMemPoolCreate", func() error { return fail(memory.NewPool(r.gpu, memory.PoolOptions{})) }, false, false},
		{"cuMemsetD8", func() error { return m.Memset(1) }, false, false},
		{"cuMemcpyHtoD", func() error { return m.CopyFrom(buf) }, false, false},
		{"cuMemcpyDtoH", func() error { return m.CopyTo(buf) }, false, false},
		{"cuModuleLoadDataEx", func() error { return fail(r.gpu.LoadModule([]byte(spinPTX))) }, false, false},
		{"cuModuleGetFunction", func() error { return fail(mod.Function("spin")) }, false, false},
		{"cuFuncLoad", spin.Load, false, false},
		{"cuLibraryGetManaged", func() error { return fail(lib.Managed(r.gpu, "total")) }, false, false},
		{"cuLibraryLoadData", func() error { return fail(r.drv.LoadLibrary([]byte(spinPTX))) }, false, false},
		{"cuStreamCreate", func() error { return fail(r.gpu.NewStream(StreamNonBlocking)) }, false, false},
		{"cuGraphCreate", func() error { return fail(r.gpu.NewGraph()) }, false, false},
		{"cuGraphClone", func() error { return fail(g.Clone()) }, false, false},
		{"cuGraphInstantiateWithFlags", func() error { return fail(g.Instantiate()) }, false, false},
		{"cuGraphInstantiateWithParams", func() error { return fail(g.InstantiateWithFlags(0)) }, false, false},
		{"cuCtxSetLimit", func() error { return r.gpu.SetLimit(LimitStackSize, 4096) }, false, false},
		{"cuGraphLaunch", func() error { return x.Launch(r.s) }, false, true},
		{"cuGraphUpload", func() error { return x.Upload(r.s) }, false, false},
		{"cuMemPrefetchAsync", func() error { return memory.Prefetch(r.s, managed, memory.Location{Type: memory.LocationHost}) }, false, false},
		{"cuMemsetD8Async", func() error { return r.s.Memset(m, 1) }, true, false},
		{"cuMemsetD32Async", func() error { return r.s.Memset32(m, 1) }, true, false},
		{"cuMemsetD16Async", func() error { return r.s.Memset16(m, 1) }, true, false},
		{"cuMemsetD2D8Async", func() error { return r.s.Memset2D(image, 1, 8, 8) }, true, false},
		{"cuMemcpyHtoDAsync", func() error { return r.s.Copy(m, host) }, true, false},
		{"cuMemcpyDtoHAsync", func() error { return r.s.Copy(host, m) }, true, false},
		{"cuMemcpy2DAsync", func() error { return r.s.Copy2D(image, Rows{Mem: host, Pitch: 64}, 8, 8) }, true, false},
		{"cuStreamBatchMemOp", func() error { return r.s.BatchMemOps(WriteWord32(word, 1)) }, true, true},
		{"cuLaunchKernel", func() error { return spin.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, U64(0)) }, true, true},
	}
	if runtime.GOOS == "linux" { // pools are shared there
		shared := need(memory.NewPool(r.gpu, memory.PoolOptions{Shareable: true}))(t)
		f, piece := need(shared.Export())(t), need(shared.Alloc(r.s, 64))(t)
		defer f.Close()
		defer shared.Close()
		defer piece.Close()
		h, imported := need(memory.PoolHandleOf(piece))(t), need(memory.ImportPool(r.gpu, f.Fd()))(t)
		defer imported.Close()
		rows = append(rows,
			row{"cuMemPoolImportFromShareableHandle", func() error { return fail(memory.ImportPool(r.gpu, f.Fd())) }, false, false},
			row{"cuMemPoolImportPointer", func() error { return fail(imported.Open(h)) }, false, false})
	}
	for _, c := range rows {
		t.Run(c.function, func(t *testing.T) {
			r.ok(c.call()) // from now on the stream keeps the objects: the usual calls follow
			runtime.GC()
			for range 2 {
				need(r.gpu.AllocHost(64<<20, 0))(t) // is dropped
				r.sim.Inject(cusim.Fault{Function: c.function, Code: int(ResultOutOfMemory)})
				err := c.call()
				if c.once {
					if text := fmt.Sprint(err); !strings.Contains(text, " bytes of abandoned memory") ||
						!strings.Contains(text, core.FreedDetail) {
						t.Errorf("the error: %v", err)
					}
					err = c.call()
				}
				r.ok(err)
				r.sim.ClearFaults()
			}
			r.sim.Inject(cusim.Fault{Function: c.function, Code: int(ResultOutOfMemory), Every: true})
			defer r.sim.ClearFaults()
			err := c.call()
			r.is(err, ResultOutOfMemory)
			if n := strings.Count(err.Error(), "the garbage collector has run"); n != 1 || strings.Contains(err.Error(), " 0 bytes") {
				t.Errorf("the error: %v", err)
			}
			if !c.enqueues {
				return
			}
			_, err = r.s.Capture(CaptureRelaxed, func() error {
				if err := c.call(); err == nil || strings.Contains(err.Error(), "garbage collector") {
					t.Errorf("during a capture: %v", err)
				}
				return nil
			})
			_ = err // whether the capture is valid is the driver's business
			table, at := core.Of(r.drv).Table(), driver.At{Context: core.Of(r.s).Ctx.Raw}
			if res := table.StreamBeginCapture(at, core.Of(r.s).Raw, driver.CU_STREAM_CAPTURE_MODE_RELAXED); res != 0 {
				t.Fatal(res)
			}
			if err := c.call(); err == nil || strings.Contains(err.Error(), "garbage collector") {
				t.Errorf("while other code captures the stream: %v", err)
			}
			if g, res := table.StreamEndCapture(at, core.Of(r.s).Raw); res == driver.ResultSuccess {
				table.GraphDestroy(at, g)
			}
		})
	}
	r.ok(r.s.Synchronize())
	for _, c := range []io.Closer{x, g, word, managed, host, m, mod, lib} {
		r.ok(c.Close())
	}
}

// TestDroppedGraphs drops executable graphs whose launches have allocated memory.
func TestDroppedGraphs(t *testing.T) {
	r := newSoft(t)
	for i := range 300 {
		g := need(r.gpu.NewGraph())(t)
		_, m, err := addAlloc(g, 1<<30)
		r.ok(err)
		x := need(g.Instantiate())(t)
		err = x.Launch(r.s)
		if errors.Is(err, ResultOutOfMemory) { // the error says that memory was freed, and that the program may call again
			err = x.Launch(r.s)
		}
		if err != nil {
			t.Fatalf("graph %d: %v", i, err)
		}
		need(x.Take(m))(t)
	}
}
