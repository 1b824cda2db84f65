package sim

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
)

// deviceMemory is the memory of an H200, and mostFree the free memory of one with one context.
const (
	deviceMemory = 150_110_011_392
	mostFree     = deviceMemory - contextMemory
)

// A lab is a driver with a context, and a thread on which the context is current.
type lab struct {
	*Driver
	t   *testing.T
	th  *driver.Thread
	ctx driver.Context
}

// goKernels returns options with kernels in Go: k does nothing, spin takes the time of its argument in
// nanoseconds, fill sets 32-bit words (the memory, the value, and how many), and fault makes a wrong access.
func goKernels() []Option {
	return []Option{WithKernel("k", Kernel{}),
		WithKernel("fault", Kernel{
			Time: func(*Launch) time.Duration { return faultTime },
			Run:  func(l *Launch) { l.Fault(int(driver.ResultIllegalAddress)) },
		}),
		WithKernel("spin", Kernel{Time: func(l *Launch) time.Duration {
			return time.Duration(min(l.U64(0), math.MaxInt64))
		}}),
		WithKernel("fill", Kernel{Run: func(l *Launch) {
			for m := l.Mem(0)[:4*l.U32(2)]; len(m) > 0; m = m[4:] {
				copy(m, l.Bytes(1))
			}
		}})}
}

// newLab returns a lab: a software driver with a current context. newStream makes a stream, which is destroyed at the
// end of the test. Then there must be no open objects, and no misuses, such as a call with a destroyed handle, but those
// that the test has taken.
func newLab(t *testing.T, opts ...Option) *lab {
	t.Helper()
	r := &lab{Driver: New(append(goKernels(), opts...)...), t: t, th: new(driver.Thread)}
	r.must(r.Init(nil, 0))
	r.ctx = r.primary(0)
	r.must(r.CtxSetCurrent(r.th, r.ctx))
	t.Cleanup(func() {
		r.DevicePrimaryCtxRelease(nil, 0)
		r.Check(t)
		if n := r.space.pinned + r.space.managed + r.devices[0].memory; n != 0 || len(r.space.All()) != 0 {
			t.Errorf("%d bytes and %d blocks are left", n, len(r.space.All()))
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for r.engine.Executing() > 0 {
			r.engine.Changed.Wait()
		}
		r.reclaim()
		if n := r.space.budget.Used(); n != 0 {
			t.Errorf("%d bytes of the machine are still in use", n)
		}
	})
	return r
}

// primary returns a device's primary context.
func (r *lab) primary(dev driver.Device) driver.Context {
	r.t.Helper()
	c, res := r.DevicePrimaryCtxRetain(nil, dev)
	r.must(res)
	return c
}

// otherThread returns another thread, with the context current.
func (r *lab) otherThread() *driver.Thread {
	th := new(driver.Thread)
	r.must(r.CtxSetCurrent(th, r.ctx))
	return th
}

func (r *lab) must(res driver.Result) {
	r.t.Helper()
	if res != ok {
		r.t.Fatalf("got %v", res)
	}
}

func (r *lab) want(what string, want, got driver.Result) {
	r.t.Helper()
	if want != got {
		r.t.Errorf("%s: got %d (%v), want %d (%v)", what, got, got, want, want)
	}
}

// takeMisuses returns the number of misuses, and clears them.
func (r *lab) takeMisuses() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.misuses)
	r.misuses = nil
	return n
}

// newStream returns a non-blocking stream, which the test destroys.
func (r *lab) newStream() driver.Stream {
	r.t.Helper()
	s, res := r.StreamCreate(r.th, driver.CU_STREAM_NON_BLOCKING)
	r.must(res)
	r.t.Cleanup(func() { r.StreamDestroy(r.th, s) })
	return s
}

// alloc returns device memory with a content, which is freed at the end.
func (r *lab) alloc(content string) driver.DevicePtr {
	r.t.Helper()
	p, res := r.MemAlloc(r.th, uint64(len(content)))
	r.must(res)
	r.must(r.MemcpyHtoD(r.th, p, []byte(content)))
	r.t.Cleanup(func() { r.MemFree(r.th, p) })
	return p
}

// pinned returns pinned memory with a content, which is freed at the end, and its
// address.
func (r *lab) pinned(content string) ([]byte, driver.HostPtr) {
	r.t.Helper()
	p, res := r.MemHostAlloc(r.th, uint64(len(content)), 0)
	r.must(res)
	r.t.Cleanup(func() { r.MemFreeHost(r.th, p) })
	b := foreignBytes(p, uint64(len(content)))
	copy(b, content)
	return b, p
}

// read returns the content of memory.
func (r *lab) read(p driver.DevicePtr, n int) string {
	r.t.Helper()
	b := make([]byte, n)
	r.must(r.MemcpyDtoH(r.th, b, p))
	return string(b)
}

// load loads a module, which is unloaded at the end.
func (r *lab) load(text string) driver.Module {
	r.t.Helper()
	m, log, res := r.ModuleLoadLog(r.th, []byte(text), nil)
	if res != ok {
		r.t.Fatalf("got %v: %s", res, log.Error)
	}
	r.t.Cleanup(func() { r.ModuleUnload(r.th, m) })
	return m
}

// kernel returns a kernel with these parameters, of a module that is unloaded at the
// end.
func (r *lab) kernel(name, params string) driver.Function {
	r.t.Helper()
	f, res := r.ModuleGetFunction(r.th, r.load(header+".visible .entry "+name+"("+params+") { tcgen05.fence::before_thread_sync; ret; }"),
		name)
	r.must(res)
	return f
}

// launchOn launches one block of threads.
func (r *lab) launchOn(s driver.Stream, f driver.Function, threads uint32, p driver.KernelParams) driver.Result {
	return r.LaunchKernel(r.th, f, 1, 1, 1, threads, 1, 1, 0, s, p)
}

// params returns arguments.
func params(args ...any) (p driver.KernelParams) {
	for _, a := range args {
		var ptr unsafe.Pointer
		size := uint32(8)
		switch a := a.(type) {
		case uint32:
			ptr, size = unsafe.Pointer(&a), 4
		case float32:
			ptr, size = unsafe.Pointer(&a), 4
		case uint64:
			ptr = unsafe.Pointer(&a)
		case driver.DevicePtr:
			ptr = unsafe.Pointer(&a)
		}
		p.Ptrs = append(p.Ptrs, ptr)
		p.Sizes = append(p.Sizes, size)
	}
	return p
}

// sliceAddress returns the address of a slice, which is on the heap. The caller keeps the slice
// alive.
func sliceAddress(b []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(ccall.Heap(unsafe.SliceData(b)))))
}

// spin launches a kernel that takes d.
func (r *lab) spin(s driver.Stream, d time.Duration) {
	r.t.Helper()
	f := r.kernel("spin", ".param .u64 ns")
	r.must(r.launchOn(s, f, 1, params(uint64(d))))
}

// blocked waits until n calls wait.
func (r *lab) blocked(n int) {
	r.t.Helper()
	for range 10_000 {
		r.mu.Lock()
		waiting := len(r.waits)
		r.mu.Unlock()
		if waiting == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.t.Fatalf("there are no %d calls that wait", n)
}

// header is the beginning of a PTX text.
const header = ".version 7.8\n.target sm_70\n.address_size 64\n"

// count returns how many objects of a kind there are.
func (t *objects) count(k kind) (n int) {
	for i := range t.places {
		if p := &t.places[i]; p.object != nil && p.kind == k {
			n++
		}
	}
	return n
}
