package cu

import (
	"runtime"

	"github.com/purecu/purecu/driver"
)

// DeviceMem is memory on the device.
type DeviceMem struct {
	_       noCopy
	core    *memCore
	cleanup runtime.Cleanup
}

// newDeviceMem returns the owner of device memory.
func newDeviceMem(ctx *contextCore, mc *memCore) *DeviceMem {
	m := &DeviceMem{core: mc}
	m.cleanup = newMemory(m, ctx, mc)
	return m
}

// Alloc allocates size bytes of device memory (cuMemAlloc). Its content is
// whatever was there before. It does not wait for the GPU, unless there is too little memory: then it frees what was
// forgotten, or closed while it was in use, for which it waits, and tries again.
// It may wait for the GPU: see docs/blocking.md.
func (c *Context) Alloc(size uint64) (*DeviceMem, error) {
	const op = "cuMemAlloc"
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if size == 0 {
		return nil, invalid(op, "the size is 0 bytes: ask for at least one")
	}
	if old := core.takeMemory(deviceMemory, 0, size); old != nil {
		return newDeviceMem(core, &memCore{is: deviceMemory, raw: old.raw, size: size, capacity: old.capacity}), nil
	}
	var raw driver.DevicePtr
	res := core.allocate(func() (res driver.Result) {
		raw, res = core.drv.table.MemAlloc(driver.At{Context: core.raw}, size)
		return res
	})
	if res != driver.ResultSuccess {
		return nil, core.failAlloc(op, size, res)
	}
	return newDeviceMem(core, &memCore{is: deviceMemory, raw: raw, size: size, capacity: size}), nil
}

// Close frees the memory (cuMemFree). This waits for all work in the context, whether or not it uses the memory,
// and holds up whoever enqueues work there meanwhile: see docs/blocking.md. If calls that use the memory are in
// flight, or a graph uses it, Close returns at once: the memory is freed by the next call that may wait, which are
// Close of memory, of a module, a green context, a context or the driver, [Context.LoadModule] and
// [Context.Synchronize]. So is memory that was forgotten. Further calls return nil.
func (m *DeviceMem) Close() error {
	if m == nil || m.core == nil {
		return errNil("cuMemFree", "device memory")
	}
	return m.core.closeOwned(m.cleanup)
}

// Size returns the size in bytes, 0 for nil.
func (m *DeviceMem) Size() uint64 { return m.region().size }

func (m *DeviceMem) region() region {
	if m == nil || m.core == nil {
		return region{}
	}
	return region{mem: m.core, size: m.core.size}
}

func (m *DeviceMem) span() Span {
	r := m.region()
	return Span{mem: r.mem, owner: m, size: r.size}
}

// Span returns size bytes of the memory, beginning at off. If there are not so
// many, whatever the Span is used for fails.
func (m *DeviceMem) Span(off, size uint64) Span { return m.span().Span(off, size) }

// Handle lends the CUdeviceptr to code that calls the driver in another way. It
// is good until the DeviceMem is closed or collected. For nil and for closed
// memory it is 0.
func (m *DeviceMem) Handle() uint64 {
	if m == nil || m.core == nil || m.core.Closed() {
		return 0
	}
	m.core.exposed.Store(true)
	return uint64(m.core.raw)
}

// CopyFrom copies src to the beginning of the device memory, and returns when
// src may be used again (cuMemcpyHtoD). It is ordered with the work of the
// legacy default stream, not with that of non-blocking streams. It may wait for the GPU: see docs/blocking.md.
func (m *DeviceMem) CopyFrom(src []byte) error {
	_, err := m.WriteAt(src, 0)
	return err
}

// CopyTo copies from the beginning of the device memory to dst, and returns
// when dst is filled (cuMemcpyDtoH). It is ordered like [DeviceMem.CopyFrom].
// It may wait for the GPU: see docs/blocking.md.
func (m *DeviceMem) CopyTo(dst []byte) error {
	return m.copy("cuMemcpyDtoH", len(dst), 0, func(t *driver.Table, at driver.At, p driver.DevicePtr) driver.Result {
		return t.MemcpyDtoH(at, dst, p)
	})
}

// WriteAt implements io.WriterAt: it copies src to the device memory, beginning
// at byte off, like [DeviceMem.CopyFrom]. If src does not fit, nothing is copied.
// It may wait for the GPU: see docs/blocking.md.
func (m *DeviceMem) WriteAt(src []byte, off int64) (int, error) {
	if err := m.copy("cuMemcpyHtoD", len(src), off, func(t *driver.Table, at driver.At, p driver.DevicePtr) driver.Result {
		return t.MemcpyHtoD(at, p, src)
	}); err != nil {
		return 0, err
	}
	return len(src), nil
}

// ReadAt implements io.ReaderAt: it copies from the device memory, beginning at
// byte off, to dst, like [DeviceMem.CopyTo], and returns io.EOF if there are fewer
// bytes than dst has room for. It may wait for the GPU: see docs/blocking.md.
func (m *DeviceMem) ReadAt(dst []byte, off int64) (n int, err error) {
	dst, end := readable(dst, off, m.Size())
	if err := m.copy("cuMemcpyDtoH", len(dst), off, func(t *driver.Table, at driver.At, p driver.DevicePtr) driver.Result {
		return t.MemcpyDtoH(at, dst, p)
	}); err != nil {
		return 0, err
	}
	return len(dst), end
}

func (m *DeviceMem) copy(
	op string,
	n int,
	off int64,
	f func(*driver.Table, driver.At, driver.DevicePtr) driver.Result,
) error {
	if m == nil || m.core == nil {
		return errNil(op, "device memory")
	}
	mc := m.core
	if err := mc.Enter(mc, op); err != nil {
		return err
	}
	defer runtime.KeepAlive(m)
	defer mc.leave()
	if err := mc.fits(op, n, off); err != nil || n == 0 {
		return err
	}
	if !mc.copied.Load() {
		mc.copied.Store(true)
	}
	gate := &mc.ctx.gate.legacy // the call is ordered with the legacy stream, and checked like one about it
	place := gate.beginLong(mc.ctx.drv.table.Clock())
	res := f(mc.ctx.drv.table, driver.At{Context: mc.ctx.raw}, mc.raw+driver.DevicePtr(off))
	gate.endLong(place)
	if res != driver.ResultSuccess {
		return mc.ctx.fail(op, uintptr(mc.raw), res)
	}
	return nil
}

// Memset sets each byte of the device memory (cuMemsetD8). It is ordered like
// [DeviceMem.CopyFrom], and may return before the GPU has done it.
func (m *DeviceMem) Memset(value byte) error {
	const op = "cuMemsetD8"
	if m == nil || m.core == nil {
		return errNil(op, "device memory")
	}
	return m.copy(op, 1, 0, func(t *driver.Table, at driver.At, p driver.DevicePtr) driver.Result {
		return t.MemsetD8(at, p, value, m.core.size)
	})
}
