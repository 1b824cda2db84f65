package cu

import (
	"runtime"

	"github.com/purecu/purecu/driver"
)

// DeviceMem is memory on the device: of [Context.Alloc], of a pool ([Stream.Alloc],
// [MemPool.Alloc]), a variable of a module, what is mapped in a [VirtualMem], or memory of another
// process ([Context.OpenIPCMem]), of another API ([Context.ImportMem]) or of other code
// ([Context.WrapMem]).
type DeviceMem struct {
	_       noCopy
	core    *memCore
	cleanup runtime.Cleanup
}

func newDeviceMem(ctx *contextCore, mc *memCore) *DeviceMem {
	m := &DeviceMem{core: mc}
	m.cleanup = newMemory(m, ctx, mc)
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
		return nil, badValue(op, cc, "the size is 0 bytes: ask for at least one")
	}
	if old := cc.takeMemory(deviceMemory, 0, size); old != nil {
		return newDeviceMem(cc, &memCore{is: deviceMemory, raw: old.raw, size: size, capacity: old.capacity}), nil
	}
	var raw driver.DevicePtr
	res, own := cc.allocate(func() (res driver.Result) {
		raw, res = cc.drv.table().MemAlloc(driver.At{Context: cc.raw}, size)
		return res
	})
	if res != driver.ResultSuccess {
		return nil, cc.outOfMemory(cc.failAlloc(op, 0, size, res, own))
	}
	return newDeviceMem(cc, &memCore{is: deviceMemory, raw: raw, size: size, capacity: size}), nil
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
// freed: see [Context.WrapMem].
func (m *DeviceMem) Close() error {
	if m == nil || m.core == nil {
		return errNil("cuMemFree", "device memory")
	}
	if m.core.virt != nil {
		return m.core.virt.close(m.cleanup)
	}
	return m.core.closeOwned("DeviceMem.Close", m.cleanup)
}

// Size returns the size in bytes, or 0 for nil.
func (m *DeviceMem) Size() uint64 { return m.region().size }

func (m *DeviceMem) region() region {
	if m == nil || m.core == nil {
		return region{}
	}
	return region{mem: m.core.current(), size: m.core.length()}
}

func (m *DeviceMem) span() Span {
	r := m.region()
	return Span{mem: r.mem, owner: m, size: r.size}
}

// Span returns size bytes of the memory, beginning at off. If the memory is smaller, the calls that
// use the Span fail.
func (m *DeviceMem) Span(off, size uint64) Span { return m.span().Span(off, size) }

// Handle returns the CUdeviceptr, for code that calls the driver directly. The handle is valid
// until the DeviceMem is closed or collected. Handle returns 0 for nil and for closed memory.
func (m *DeviceMem) Handle() uint64 {
	if m == nil || m.core == nil || m.core.current().Closed() {
		return 0
	}
	m.core.exposed.Store(true)
	return uint64(m.core.raw)
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
	err := m.copy(op, len(src), off, func(mc *memCore, p driver.DevicePtr) error {
		err := mc.legacyCall(op, func(t *driver.Table, at driver.At) driver.Result { return t.MemcpyHtoD(at, p, src) })
		waited := false
		if err == nil {
			waited, err = mc.ctx.finishCopy()
		}
		if err == nil {
			mc.observeLegacy("DeviceMem.CopyFrom", off, len(src), true, waited)
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
	return m.copy(op, len(dst), off, func(mc *memCore, p driver.DevicePtr) error {
		err := mc.legacyCall(op, func(t *driver.Table, at driver.At) driver.Result { return t.MemcpyDtoH(at, dst, p) })
		if err == nil {
			mc.observeLegacy("DeviceMem.CopyTo", off, len(dst), false, true)
		}
		return err
	})
}

// object returns the object for an error, or nil if there is none.
func (m *DeviceMem) object() named {
	if m == nil || m.core == nil {
		return nil
	}
	return m.core
}

// copy calls f, which copies n bytes at off, within a call on the memory.
func (m *DeviceMem) copy(op string, n int, off int64, f func(*memCore, driver.DevicePtr) error) error {
	if m == nil || m.core == nil {
		return errNil(op, "device memory")
	}
	mc := m.core.current()
	if err := mc.Enter(mc, op); err != nil {
		return err
	}
	defer runtime.KeepAlive(m)
	defer mc.leave()
	if mc.only != nil {
		return mc.Refused(op)
	}
	if err := mc.fits(op, n, off); err != nil || n == 0 {
		return err
	}
	if err := mc.mapped(uint64(off), uint64(n)); err != nil {
		return newError(op, mc, ResultInvalidValue, err, "use VirtualMem.Grow or Map")
	}
	if !mc.copied.Load() {
		mc.copied.Store(true)
	}
	if mc.is.tracked {
		mc.resource.usedOn(mc.ctx.legacyStream())
	}
	err := f(mc, mc.raw+driver.DevicePtr(off))
	if err != nil {
		err = mc.ctx.retry(op, err, func() error { return f(mc, mc.raw+driver.DevicePtr(off)) })
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
	return m.copy(op, 1, 0, func(mc *memCore, p driver.DevicePtr) error {
		err := mc.legacyCall(op, func(t *driver.Table, at driver.At) driver.Result {
			return t.MemsetD8(at, p, value, mc.length())
		})
		if err == nil {
			mc.observeLegacy("DeviceMem.Memset", 0, int(mc.length()), true, false)
		}
		return err
	})
}
