package cu

import (
	"fmt"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
)

// HostMem is memory that the host and the GPU can access: pinned host memory ([Context.AllocHost]),
// the program's own memory ([Context.RegisterHost]), managed memory (memory.AllocManaged), or
// memory of a pool of pinned or managed memory (memory.Pool.AllocHost). Only the program's own memory
// can be of the Go heap: see [HostMem.View].
type HostMem struct {
	_ core.NoCopy
	memRef
}

// core returns the state of the memory, or nil for a nil or zero HostMem.
func (m *HostMem) core() *memstate.Mem {
	if m == nil {
		return nil
	}
	return core.State(&m.memRef)
}

// newHostMem returns a HostMem for a new state.
func newHostMem(ctx *core.Context, mc *memstate.Mem) *HostMem {
	m := new(HostMem)
	memstate.Attach(m, &m.memRef, ctx, mc)
	return m
}

var (
	pinnedMemory = memstate.Kind{
		Traits: memstate.Traits{OnHost: true, FreeWaits: true, Tracked: true},
		Funcs: &memstate.Funcs{
			Name: "host memory",
			Free: func(mc *memstate.Mem, at driver.At) (string, driver.Result) {
				mc.ObserveFree()
				return "cuMemFreeHost", mc.Ctx.Drv.Table().MemFreeHost(at, mc.Host)
			},
		},
	}
	registeredMemory = memstate.Kind{
		Traits: memstate.Traits{OnHost: true, FreeWaits: true, Tracked: true},
		Funcs: &memstate.Funcs{
			Name: "host memory",
			Free: func(mc *memstate.Mem, at driver.At) (string, driver.Result) {
				mc.ObserveFree()
				return "cuMemHostUnregister", mc.Ctx.Drv.Table().MemHostUnregister(at, mc.Host)
			},
		},
	}
)

// AllocHost allocates size bytes of pinned host memory (cuMemHostAlloc). The content is
// undefined. Pinned memory cannot be swapped out, so too much of it slows the machine down. Like
// [Context.Alloc], it may wait for the GPU: see docs/blocking.md.
func (c *Context) AllocHost(size uint64, flags HostFlags) (*HostMem, error) {
	const op = "cuMemHostAlloc"
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if size == 0 || size > 1<<62 {
		return nil, drivercall.BadValue(op, cc,
			fmt.Sprintf("the size is %d bytes: ask for at least 1 and at most 1<<62", size))
	}
	if flags&^(HostPortable|HostDeviceMap|HostWriteCombined) != 0 {
		return nil, drivercall.BadValue(op, cc, "unknown host memory flags "+flags.String()+": see HostFlags")
	}
	t, at := cc.Drv.Table(), driver.At{Context: cc.Raw}
	mc := &memstate.Mem{Is: pinnedMemory, Size: size, Capacity: size, Flags: uint32(flags)}
	if old := memstate.Take(cc, pinnedMemory, uint32(flags), size); old != nil {
		mc.Raw, mc.Host, mc.Capacity = old.Raw, old.Host, old.Capacity
	} else {
		res, collection := cc.Allocate(func() (res driver.Result) {
			mc.Host, res = t.MemHostAlloc(at, size, uint32(flags))
			return res
		})
		if res != driver.ResultSuccess {
			return nil, memstate.FailAlloc(cc, op, 0, size, res, collection)
		}
		// If the device cannot access the memory, copies still work.
		if raw, res := t.MemHostGetDevicePointer(at, mc.Host, 0); res == driver.ResultSuccess {
			mc.Raw = raw
		}
	}
	return newHostMem(cc, mc), nil
}

// RegisterHost pins the program's own memory, so that the GPU copies from and to it and kernels can
// access it (cuMemHostRegister). Until Close, b must stay mapped, and GPUs use it: the program must
// order its own accesses. flags are HostPortable, HostDeviceMap and HostReadOnly. [HostMem.View]
// returns b.
//
// Memory that the program may not write, such as that of a file that is mapped for reading, needs
// HostReadOnly. Copies, memsets and other work that would write it are refused then, and so is
// [HostMem.WriteAt]. Kernels are not checked: they must only read it.
//
// The driver pins whole pages. So use memory that begins and ends at a page, such as that of
// [syscall.Mmap], rather than small slices of Go's heap. If there is too little memory, it may wait for
// the GPU, as [Context.AllocHost] does: see docs/blocking.md.
func (c *Context) RegisterHost(b []byte, flags HostFlags) (*HostMem, error) {
	const op = "cuMemHostRegister"
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	switch {
	case len(b) == 0:
		return nil, drivercall.BadValue(op, cc, "there are no bytes to register")
	case flags&^(HostPortable|HostDeviceMap|HostReadOnly) != 0:
		return nil, drivercall.BadValue(op, cc,
			"the flags are "+flags.String()+": use HostPortable, HostDeviceMap and HostReadOnly")
	}
	t, at := cc.Drv.Table(), driver.At{Context: cc.Raw}
	mc := &memstate.Mem{Is: registeredMemory, Flags: uint32(flags), HostBytes: b}
	mc.Host, mc.Size, mc.Capacity = memstate.HostAddress(b), uint64(len(b)), uint64(len(b))
	res, collection := cc.Allocate(func() driver.Result {
		return t.MemHostRegister(at, mc.Host, mc.Size, uint32(flags))
	})
	if res != driver.ResultSuccess {
		return nil, memstate.FailAlloc(cc, op, mc.Handle(), mc.Size, res, collection)
	}
	if raw, res := t.MemHostGetDevicePointer(at, mc.Host, 0); res == driver.ResultSuccess {
		mc.Raw = raw
	}
	return newHostMem(cc, mc), nil
}

// Close frees the memory (cuMemFreeHost, cuMemFree), or ends its registration
// (cuMemHostUnregister). It waits for all work in the context, and for all work on streams of other
// contexts that used the memory. [DeviceMem.Close] says what happens to memory that is in use or
// abandoned; memory that was used on a stream that is being captured counts as in use. Memory of a
// pool is freed in another way: see memory.Pool.AllocHost. Further calls return nil. It may wait for
// the GPU: see docs/blocking.md.
func (m *HostMem) Close() error {
	if m.core() == nil {
		return drivercall.NilError("cuMemFreeHost", "host memory")
	}
	return m.core().CloseOwned("HostMem.Close", core.CleanupOf(&m.memRef))
}

// Size returns the size in bytes, 0 for nil.
func (m *HostMem) Size() uint64 { return m.core().Whole().Size }

func (m *HostMem) span() Span {
	r := m.core().Whole()
	return newSpan(memstate.Span{Mem: r.Mem, Owner: m, Size: r.Size})
}

// Span returns size bytes of the memory, from offset off. If they exceed the memory, every use of
// the Span fails.
func (m *HostMem) Span(off, size uint64) Span { return m.span().Span(off, size) }

// Handle returns the host address, for code that calls the driver without this package. It is valid
// until the HostMem is closed or collected. For nil and for closed memory it is 0.
func (m *HostMem) Handle() uintptr {
	if m.core() == nil || m.core().Closed() {
		return 0
	}
	m.core().Exposed.Store(true)
	return uintptr(m.core().Host)
}

// View calls f with the memory, which is not freed before f returns: f must not keep the slice. The
// program has to ensure that the GPU does not use the memory at the same time.
func (m *HostMem) View(f func(b []byte) error) error {
	const op = "HostMem.View"
	if f == nil && m.core() != nil {
		return errNoView(op, m)
	}
	return m.use(op, func(b []byte) error {
		if o := m.core().Ctx.Drv.Observer(); o != nil {
			return m.core().ObserveView(op, o, b, f)
		}
		return f(b)
	})
}

// object returns the object for an error, or nil if there is none.
func (m *HostMem) object() drivercall.Named {
	if m.core() == nil {
		return nil
	}
	return m.core()
}

// use calls f with the memory, within a call.
func (m *HostMem) use(op string, f func(b []byte) error) error {
	if m.core() == nil {
		return drivercall.NilError(op, "host memory")
	}
	mc := m.core()
	if err := mc.Enter(mc, op); err != nil {
		return err
	}
	defer runtime.KeepAlive(m)
	defer mc.EndCall()
	return f(mc.Bytes())
}

func errNoView(op string, m *HostMem) error {
	return drivercall.Misuse(op, m.object(), ErrNil, "the function is nil: pass a function that uses the memory")
}

// WriteAt implements io.WriterAt: it copies src to the memory at byte off. If src does not fit,
// nothing is copied.
func (m *HostMem) WriteAt(src []byte, off int64) (int, error) {
	const op = "HostMem.WriteAt"
	err := m.use(op, func(b []byte) error {
		if err := m.core().Fits(op, len(src), off); err != nil {
			return err
		}
		if m.core().Flags&driver.CU_MEMHOSTREGISTER_READ_ONLY != 0 {
			return memstate.ReadOnly(op, m.core())
		}
		m.core().ObserveHostUse(op, off, len(src), true)
		copy(b[off:], src)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(src), nil
}

// ReadAt implements io.ReaderAt: it copies from the memory at byte off to dst. It returns io.EOF if
// fewer than len(dst) bytes are left there.
func (m *HostMem) ReadAt(dst []byte, off int64) (int, error) {
	const op = "HostMem.ReadAt"
	dst, end := readable(dst, off, m.Size())
	err := m.use(op, func(b []byte) error {
		if err := m.core().Fits(op, len(dst), off); err != nil {
			return err
		}
		m.core().ObserveHostUse(op, off, len(dst), false)
		copy(dst, b[off:])
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(dst), end
}
