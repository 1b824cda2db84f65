package cu

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// HostMem is pinned memory on the host, which the GPU can copy from and to while
// the program goes on. It is not Go's: see [HostMem.View].
type HostMem struct {
	_       noCopy
	core    *memCore
	cleanup runtime.Cleanup
}

// AllocHost allocates size bytes of pinned host memory (cuMemHostAlloc). Its
// content is whatever was there before. Pinned memory cannot be swapped out: too
// much of it slows the machine down. Whether it waits for the GPU is as for [Context.Alloc].
// It may wait for the GPU: see docs/blocking.md.
func (c *Context) AllocHost(size uint64, flags HostFlags) (*HostMem, error) {
	const op = "cuMemHostAlloc"
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if size == 0 || size > 1<<62 {
		return nil, invalid(
			op,
			fmt.Sprintf("the size is %d bytes: ask for at least one, and for no more than there can be", size),
		)
	}
	if flags&^(HostPortable|HostDeviceMap|HostWriteCombined) != 0 {
		return nil, invalid(op, "unknown host memory flags "+flags.String()+": see HostFlags")
	}
	t, at := core.drv.table, driver.At{Context: core.raw}
	mc := &memCore{is: pinnedMemory, size: size, capacity: size, flags: flags}
	if old := core.takeMemory(pinnedMemory, flags, size); old != nil {
		mc.raw, mc.host, mc.capacity = old.raw, old.host, old.capacity
	} else {
		res := core.allocate(func() (res driver.Result) {
			mc.host, res = t.MemHostAlloc(at, size, uint32(flags))
			return res
		})
		if res != driver.ResultSuccess {
			return nil, core.failAlloc(op, size, res)
		}
		// Where the device cannot reach it, copies still work.
		if raw, res := t.MemHostGetDevicePointer(at, mc.host, 0); res == driver.ResultSuccess {
			mc.raw = raw
		}
	}
	m := &HostMem{core: mc}
	m.cleanup = newMemory(m, core, mc)
	return m, nil
}

// Close frees the memory (cuMemFreeHost). This waits for all work in the context, and for what is enqueued on
// streams of others that the memory was used on: see [DeviceMem.Close], also for memory that is in use, or
// forgotten. So is memory that was used on a stream that is being captured. Further calls return nil. It may wait
// for the GPU: see docs/blocking.md.
func (m *HostMem) Close() error {
	if m == nil || m.core == nil {
		return errNil("cuMemFreeHost", "host memory")
	}
	return m.core.closeOwned(m.cleanup)
}

// Size returns the size in bytes, 0 for nil.
func (m *HostMem) Size() uint64 { return m.region().size }

func (m *HostMem) region() region {
	if m == nil || m.core == nil {
		return region{}
	}
	return region{mem: m.core, size: m.core.size}
}

func (m *HostMem) span() Span {
	r := m.region()
	return Span{mem: r.mem, owner: m, size: r.size}
}

// Span returns size bytes of the memory, beginning at off. If there are not so
// many, whatever the Span is used for fails.
func (m *HostMem) Span(off, size uint64) Span { return m.span().Span(off, size) }

// Handle lends the host address to code that calls the driver in another way. It
// is good until the HostMem is closed or collected. For nil and for closed memory
// it is 0.
func (m *HostMem) Handle() uintptr {
	if m == nil || m.core == nil || m.core.Closed() {
		return 0
	}
	m.core.exposed.Store(true)
	return uintptr(m.core.host)
}

// View calls f with the memory, which stays allocated until f has returned: f
// must not keep the slice. Whether the GPU is at work on the memory meanwhile is
// for the program to know.
func (m *HostMem) View(f func(b []byte) error) error {
	const op = "HostMem.View"
	if m == nil || m.core == nil {
		return errNil(op, "host memory")
	}
	if f == nil {
		return mistake(op, ErrNil, 0, "the function is nil: pass what is to be done with the memory")
	}
	mc := m.core
	if err := mc.Enter(mc, op); err != nil {
		return err
	}
	defer runtime.KeepAlive(m)
	defer mc.leave()
	return f(mc.bytes())
}

// WriteAt implements io.WriterAt: it copies src to the host memory, beginning at
// byte off. If src does not fit, nothing is copied.
func (m *HostMem) WriteAt(src []byte, off int64) (int, error) {
	err := m.View(func(b []byte) error {
		if err := m.core.fits("HostMem.WriteAt", len(src), off); err != nil {
			return err
		}
		copy(b[off:], src)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(src), nil
}

// ReadAt implements io.ReaderAt: it copies from the host memory, beginning at
// byte off, to dst, and returns io.EOF if there are fewer bytes than dst has room
// for.
func (m *HostMem) ReadAt(dst []byte, off int64) (int, error) {
	dst, end := readable(dst, off, m.Size())
	err := m.View(func(b []byte) error {
		if err := m.core.fits("HostMem.ReadAt", len(dst), off); err != nil {
			return err
		}
		copy(dst, b[off:])
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(dst), end
}

// bytes returns the host memory. The caller has a call in flight.
func (mc *memCore) bytes() []byte {
	// The address is of memory that C allocated, which the garbage collector
	// neither moves nor frees; written this way because it comes as a number.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&mc.host))
	return unsafe.Slice((*byte)(p), mc.size)
}
