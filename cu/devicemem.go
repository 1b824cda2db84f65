package cu

import (
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
)

// DeviceMem is memory on the device: of [Context.Alloc], of a pool ([Stream.Alloc],
// memory.Pool.Alloc), a variable of a module, what is mapped in a memory.Virtual, or memory of another
// process (memory.OpenIPC), of another API (interop.ImportMem) or of other code
// (memory.Wrap).
type DeviceMem struct {
	_ core.NoCopy
	memRef
}

// core returns the state of the memory, or nil for a nil or zero DeviceMem.
func (m *DeviceMem) core() *memstate.Mem {
	if m == nil {
		return nil
	}
	return core.State(&m.memRef)
}

// newDeviceMem returns a DeviceMem for a new state.
func newDeviceMem(ctx *core.Context, mc *memstate.Mem) *DeviceMem {
	m := new(DeviceMem)
	memstate.Attach(m, &m.memRef, ctx, mc)
	return m
}

// Alloc allocates size bytes of device memory (cuMemAlloc). The content of the memory is undefined.
// Alloc does not wait for the GPU unless there is too little memory. In that case it frees the
// objects that were abandoned, or closed while they were in use, for whose work it waits, and tries
// again: see docs/blocking.md.
func (c *Context) Alloc(size uint64) (*DeviceMem, error) {
	const op = "cuMemAlloc"
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if size == 0 {
		return nil, drivercall.BadValue(op, cc, "the size is 0 bytes: ask for at least one")
	}
	if old := memstate.Take(cc, memstate.DeviceMemory, 0, size); old != nil {
		mc := &memstate.Mem{Is: memstate.DeviceMemory, Raw: old.Raw, Size: size, Capacity: old.Capacity}
		return newDeviceMem(cc, mc), nil
	}
	var raw driver.DevicePtr
	res, collection := cc.Allocate(func() (res driver.Result) {
		raw, res = cc.Drv.Table().MemAlloc(driver.At{Context: cc.Raw}, size)
		return res
	})
	if res != driver.ResultSuccess {
		return nil, memstate.OutOfMemory(cc, memstate.FailAlloc(cc, op, 0, size, res, collection))
	}
	return newDeviceMem(cc, &memstate.Mem{Is: memstate.DeviceMemory, Raw: raw, Size: size, Capacity: size}), nil
}

// Close frees the memory (cuMemFree), or ends the access to memory of another process
// (cuIpcCloseMemHandle) or of another API (cuMemFree, cuDestroyExternalMemory). It waits for all work
// in the context, also for work that does not use the memory. Meanwhile it blocks other calls that
// enqueue work in the context: see docs/blocking.md. Further calls return nil.
//
// If calls that use the memory are in flight, or a graph uses the memory, Close returns at once.
// The memory is then freed by the program's next freeing call, such as [Context.Synchronize]:
// docs/blocking.md lists these calls. The same holds for memory that was abandoned. A call that
// enqueues work on a stream counts as a call that uses all memory which earlier work on the stream
// has used. Memory of a pool is freed in another way: see [Stream.Alloc]. Memory of other code is not
// freed: see memory.Wrap.
func (m *DeviceMem) Close() error {
	if m.core() == nil {
		return drivercall.NilError("cuMemFree", "device memory")
	}
	if m.core().Virt != nil {
		return m.core().Virt.Close(core.CleanupOf(&m.memRef))
	}
	return m.core().CloseOwned("DeviceMem.Close", core.CleanupOf(&m.memRef))
}

// Size returns the size in bytes, or 0 for nil.
func (m *DeviceMem) Size() uint64 { return m.core().Whole().Size }

func (m *DeviceMem) span() Span {
	r := m.core().Whole()
	return newSpan(memstate.Span{Mem: r.Mem, Owner: m, Size: r.Size})
}

// Span returns size bytes of the memory, beginning at off. If the memory is smaller, the calls that
// use the Span fail.
func (m *DeviceMem) Span(off, size uint64) Span { return m.span().Span(off, size) }

// Handle returns the CUdeviceptr, for code that calls the driver directly. The handle is valid
// until the DeviceMem is closed or collected. Handle returns 0 for nil and for closed memory.
func (m *DeviceMem) Handle() uint64 {
	if m.core() == nil || m.core().Current().Closed() {
		return 0
	}
	m.core().Exposed.Store(true)
	return uint64(m.core().Raw)
}

// CopyFrom copies src to the beginning of the device memory, and returns when the copy is done
// (cuMemcpyHtoD, cuStreamSynchronize). So work that is enqueued afterwards, on any stream, reads the
// copied bytes. It may wait for the GPU: see docs/blocking.md.
//
// The copy begins after the earlier work on the legacy default stream and on blocking streams. It is
// not ordered with earlier work on non-blocking streams: synchronize such a stream first if its work
// uses the memory. If a capture with a blocking or a wrapped stream of the context begins during the
// call, CopyFrom returns as soon as src can be used again.
func (m *DeviceMem) CopyFrom(src []byte) error {
	_, err := m.WriteAt(src, 0)
	return err
}

// CopyTo copies from the beginning of the device memory to dst, and returns when dst is filled
// (cuMemcpyDtoH). The copy begins after the earlier work on the legacy default stream and on blocking
// streams: synchronize a non-blocking stream first if its work writes the memory. It may wait for
// the GPU: see docs/blocking.md.
func (m *DeviceMem) CopyTo(dst []byte) error {
	return m.read(dst, 0)
}

// WriteAt implements io.WriterAt. It copies src to the device memory, beginning at byte off, like
// [DeviceMem.CopyFrom]. If src does not fit, nothing is copied. It may wait for the GPU: see
// docs/blocking.md.
func (m *DeviceMem) WriteAt(src []byte, off int64) (int, error) {
	const op = "cuMemcpyHtoD"
	err := m.copy(op, len(src), off, func(mc *memstate.Mem, p driver.DevicePtr) error {
		err := mc.LegacyCall(op, func(t *driver.Table, at driver.At) driver.Result { return t.MemcpyHtoD(at, p, src) })
		waited := false
		if err == nil {
			waited, err = memstate.FinishCopy(mc.Ctx)
		}
		if err == nil {
			mc.ObserveLegacy("DeviceMem.CopyFrom", off, len(src), true, waited)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(src), nil
}

// ReadAt implements io.ReaderAt. It copies from the device memory, beginning at byte off, to dst,
// like [DeviceMem.CopyTo]. If there are fewer bytes than len(dst), it returns io.EOF. It may wait
// for the GPU: see docs/blocking.md.
func (m *DeviceMem) ReadAt(dst []byte, off int64) (n int, err error) {
	dst, end := readable(dst, off, m.Size())
	if err := m.read(dst, off); err != nil {
		return 0, err
	}
	return len(dst), end
}

func (m *DeviceMem) read(dst []byte, off int64) error {
	const op = "cuMemcpyDtoH"
	return m.copy(op, len(dst), off, func(mc *memstate.Mem, p driver.DevicePtr) error {
		err := mc.LegacyCall(op, func(t *driver.Table, at driver.At) driver.Result { return t.MemcpyDtoH(at, dst, p) })
		if err == nil {
			mc.ObserveLegacy("DeviceMem.CopyTo", off, len(dst), false, true)
		}
		return err
	})
}

// object returns the object for an error, or nil if there is none.
func (m *DeviceMem) object() drivercall.Named {
	if m.core() == nil {
		return nil
	}
	return m.core()
}

// copy calls f, which copies n bytes at off, within a call on the memory.
func (m *DeviceMem) copy(op string, n int, off int64, f func(*memstate.Mem, driver.DevicePtr) error) error {
	if m.core() == nil {
		return drivercall.NilError(op, "device memory")
	}
	mc := m.core().Current()
	if err := mc.Enter(mc, op); err != nil {
		return err
	}
	defer runtime.KeepAlive(m)
	defer mc.EndCall()
	if mc.Only != nil {
		return mc.Refused(op)
	}
	if err := mc.Fits(op, n, off); err != nil || n == 0 {
		return err
	}
	if err := mc.Mapped(uint64(off), uint64(n)); err != nil {
		return drivercall.NewError(op, mc, ResultInvalidValue, err, "use memory.Virtual.Grow or Map")
	}
	if !mc.Copied.Load() {
		mc.Copied.Store(true)
	}
	if mc.Is.Tracked {
		mc.Resource.UsedOn(mc.Ctx.LegacyStream())
	}
	err := f(mc, mc.Raw+driver.DevicePtr(off))
	if err != nil {
		err = mc.Ctx.FreeAndRetry(op, err, func() error { return f(mc, mc.Raw+driver.DevicePtr(off)) })
	}
	return err
}

// Memset sets each byte of the device memory (cuMemsetD8). It begins after the earlier work on the
// legacy default stream and on blocking streams, and may return before the GPU has set the memory: work on a
// non-blocking stream can read the old bytes. Use [Stream.Memset] on that stream.
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func (m *DeviceMem) Memset(value byte) error {
	const op = "cuMemsetD8"
	return m.copy(op, 1, 0, func(mc *memstate.Mem, p driver.DevicePtr) error {
		err := mc.LegacyCall(op, func(t *driver.Table, at driver.At) driver.Result {
			return t.MemsetD8(at, p, value, mc.Length())
		})
		if err == nil {
			mc.ObserveLegacy("DeviceMem.Memset", 0, int(mc.Length()), true, false)
		}
		return err
	})
}
