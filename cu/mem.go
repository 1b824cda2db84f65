package cu

import (
	"fmt"
	"runtime"

	"github.com/purecu/purecu/internal/driver"
)

// DeviceMem is memory on the device.
type DeviceMem struct {
	_       noCopy
	core    *resource[driver.DevicePtr]
	size    uint64
	cleanup runtime.Cleanup
}

// Alloc allocates size bytes of device memory (cuMemAlloc). Its content is
// whatever was there before.
func (c *Context) Alloc(size uint64) (*DeviceMem, error) {
	const op = "cuMemAlloc"
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if size == 0 {
		return nil, invalid(op, "the size is 0 bytes")
	}
	raw, res := core.drv.table.MemAlloc(driver.At{Context: core.raw}, size)
	if res != driver.ResultSuccess {
		return nil, core.fail(op, 0, res)
	}
	m := &DeviceMem{core: new(resource[driver.DevicePtr]), size: size}
	m.cleanup = owned(m, m.core, core, raw)
	return m, nil
}

// Close frees the memory (cuMemFree). This waits for all work that the device
// has been given, whether or not it uses the memory. If calls that use the
// memory are in flight it is freed after them, in the background. Further calls
// return nil.
func (m *DeviceMem) Close() error {
	if m == nil || m.core == nil {
		return errNil("cuMemFree", "device memory")
	}
	return m.core.closeOwned(m.cleanup)
}

// Size returns the size in bytes, 0 for nil.
func (m *DeviceMem) Size() uint64 {
	if m == nil || m.core == nil {
		return 0
	}
	return m.size
}

// CopyFrom copies src to the beginning of the device memory, and returns when
// src may be used again (cuMemcpyHtoD). It is ordered with the work of the
// legacy default stream, not with that of non-blocking streams.
func (m *DeviceMem) CopyFrom(src []byte) error {
	return m.copy("cuMemcpyHtoD", len(src), func(t *driver.Table, at driver.At) driver.Result {
		return t.MemcpyHtoD(at, m.core.raw, src)
	})
}

// CopyTo copies from the beginning of the device memory to dst, and returns
// when dst is filled (cuMemcpyDtoH). It is ordered like [DeviceMem.CopyFrom].
func (m *DeviceMem) CopyTo(dst []byte) error {
	return m.copy("cuMemcpyDtoH", len(dst), func(t *driver.Table, at driver.At) driver.Result {
		return t.MemcpyDtoH(at, dst, m.core.raw)
	})
}

func (m *DeviceMem) copy(op string, n int, f func(*driver.Table, driver.At) driver.Result) error {
	if m == nil || m.core == nil {
		return errNil(op, "device memory")
	}
	mc := m.core
	if err := mc.enter(op); err != nil {
		return err
	}
	defer runtime.KeepAlive(m)
	defer mc.leave()
	if uint64(n) > m.size {
		return invalid(op, fmt.Sprintf("%d bytes do not fit into %d", n, m.size))
	}
	if n == 0 {
		return nil
	}
	if res := f(mc.ctx.drv.table, driver.At{Context: mc.ctx.raw}); res != driver.ResultSuccess {
		return mc.ctx.fail(op, uintptr(mc.raw), res)
	}
	return nil
}
