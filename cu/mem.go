package cu

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// DeviceMem is memory on the device.
type DeviceMem struct {
	_       noCopy
	core    *memCore
	cleanup runtime.Cleanup
}

// HostMem is pinned memory on the host, which the GPU can copy from and to while
// the program goes on. It is not Go's: see [HostMem.View].
type HostMem struct {
	_       noCopy
	core    *memCore
	cleanup runtime.Cleanup
}

// memCore is an allocation.
type memCore struct {
	resource
	raw  driver.DevicePtr // 0 if the device cannot reach it
	host driver.HostPtr   // 0 for device memory
	size uint64
	// capacity is how much the driver has allocated, which is more where the memory served another allocation before.
	capacity uint64
	flags    HostFlags // of host memory
	// exposed says that others know the address.
	exposed atomic.Bool
	// copied says that a call without a stream has used the memory, which the GPU may be at on the legacy default
	// stream when it has returned. marked is an event that was recorded there later, to know when it is not.
	copied atomic.Bool
	marked driver.Event
	// listed is where it is in the list of those that allocations can take: see deferred, whose lock guards it.
	listed *list.Element
	// local is where device memory was used in its own context. To free it waits for all work there, so only who
	// takes it for another allocation has to know.
	local usage
	// module has the variable whose memory this is, and a call in flight for it.
	module *moduleCore
}

func (mc *memCore) kind() string {
	if mc.host != 0 {
		return "host memory"
	}
	return "device memory"
}

func (mc *memCore) handle() uintptr {
	if mc.host != 0 {
		return uintptr(mc.host)
	}
	return uintptr(mc.raw)
}

// used notes that work which uses the memory is about to be enqueued on a stream,
// while calls on both are in flight: the memory stays until it is done.
func (mc *memCore) used(sc *streamCore) {
	switch {
	case mc.module != nil:
		mc.module.usedOn(sc)
	case mc.host != 0 || sc.ctx != mc.ctx:
		mc.usedOn(sc)
	default:
		mc.local.note(sc, false)
	}
}

// idle reports whether all work that uses the memory is known to be done. It does not wait. No call is in flight.
func (mc *memCore) idle() bool {
	if mc.exposed.Load() || !mc.usage.idle() || !mc.local.idle() {
		return false
	}
	if !mc.copied.Load() {
		return true
	}
	if mc.marked == 0 {
		legacy := &streamCore{raw: driver.CU_STREAM_LEGACY, at: driver.At{Context: mc.ctx.raw}}
		legacy.ctx, legacy.part = mc.ctx, &legacy.own
		e, err := legacy.mark()
		if err != nil {
			return false
		}
		mc.marked = e
	}
	return mc.ctx.queryEvent(mc.marked) == driver.ResultSuccess
}

// fit returns which allocations the memory is good for.
func (mc *memCore) fit() memoryFit { return fit(mc.host != 0, mc.flags, mc.capacity) }

// unmark gives back the event that idle has recorded for memory.
func (r *resource) unmark() {
	if mc, ok := r.self.(*memCore); ok {
		mc.unmark()
	}
}

// unmark gives back the event that idle has recorded.
func (mc *memCore) unmark() {
	if mc.marked != 0 {
		mc.ctx.doneWith(EventDisableTiming, mc.marked)
		mc.marked = 0
	}
}

// usedLike is used for each stream that something else was used on.
func (mc *memCore) usedLike(u *usage) {
	if l := u.streams.Load(); l != nil {
		for _, sc := range *l {
			mc.used(sc)
		}
	}
}

func (mc *memCore) free(at driver.At) (op string, res driver.Result) {
	at.Context = mc.ctx.raw
	t := mc.ctx.drv.table
	switch {
	case mc.module != nil:
		if mc.module.leave(); !at.NoWait {
			mc.ctx.freeDeferred() // the module, if it was closed before
		}
	case mc.host != 0:
		op, res = "cuMemFreeHost", t.MemFreeHost(at, mc.host)
	default:
		op, res = "cuMemFree", t.MemFree(at, mc.raw)
	}
	return op, res
}

// bytes returns the host memory. The caller has a call in flight.
func (mc *memCore) bytes() []byte {
	// The address is of memory that C allocated, which the garbage collector
	// neither moves nor frees; written this way because it comes as a number.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&mc.host))
	return unsafe.Slice((*byte)(p), mc.size)
}

// Memory is memory that the GPU can work on: a [*DeviceMem], a [*HostMem], or a
// [Span] of one.
type Memory interface {
	span() Span
}

// Span is a part of an allocation, which it keeps from being collected, but not
// from being closed.
type Span struct {
	mem       *memCore
	owner     any
	off, size uint64
	err       error
}

func (s Span) span() Span { return s }

// Size returns the size in bytes.
func (s Span) Size() uint64 { return s.size }

// Span returns size bytes of the span, beginning at off. If there are not so many,
// whatever the Span is used for fails.
func (s Span) Span(off, size uint64) Span {
	if s.err == nil && (off > s.size || size > s.size-off) {
		s.err = fmt.Errorf("%w: %d bytes at %d, of %d", errInvalid, size, off, s.size)
	}
	s.off, s.size = s.off+off, size
	return s
}

// addr returns where on the device the span begins.
func (s Span) addr() driver.DevicePtr { return s.mem.raw + driver.DevicePtr(s.off) }

// hostAddr returns where on the host the span begins.
func (s Span) hostAddr() driver.HostPtr { return s.mem.host + driver.HostPtr(s.off) }

// enter begins a call on the memory of a span.
func (s Span) enter(op string) error {
	switch {
	case s.mem == nil:
		return errNil(op, "memory")
	case s.err != nil:
		return &Error{Op: op, Result: ResultInvalidValue, Err: s.err, Detail: "choose a span within the memory"}
	}
	return s.mem.Enter(s.mem, op)
}

func (s Span) leave() {
	s.mem.leave()
	runtime.KeepAlive(s.owner)
}

// spanOf returns the span of a Memory, which may be nil.
func spanOf(m Memory) Span {
	if m == nil {
		return Span{}
	}
	return m.span()
}

func (m *DeviceMem) span() Span {
	if m == nil || m.core == nil {
		return Span{}
	}
	return Span{mem: m.core, owner: m, size: m.core.size}
}

// Span returns size bytes of the memory, beginning at off. If there are not so
// many, whatever the Span is used for fails.
func (m *DeviceMem) Span(off, size uint64) Span { return m.span().Span(off, size) }

func (m *HostMem) span() Span {
	if m == nil || m.core == nil {
		return Span{}
	}
	return Span{mem: m.core, owner: m, size: m.core.size}
}

// Span returns size bytes of the memory, beginning at off. If there are not so
// many, whatever the Span is used for fails.
func (m *HostMem) Span(off, size uint64) Span { return m.span().Span(off, size) }

// newDeviceMem returns the owner of device memory.
func newDeviceMem(ctx *contextCore, mc *memCore) *DeviceMem {
	mc.waits, mc.usage = mc.module == nil, new(usage)
	m := &DeviceMem{core: mc}
	m.cleanup = owned(m, &mc.resource, mc, ctx)
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
	if old := core.takeMemory(false, 0, size); old != nil {
		return newDeviceMem(core, &memCore{raw: old.raw, size: size, capacity: old.capacity}), nil
	}
	var raw driver.DevicePtr
	res := core.allocate(func() (res driver.Result) {
		raw, res = core.drv.table.MemAlloc(driver.At{Context: core.raw}, size)
		return res
	})
	if res != driver.ResultSuccess {
		return nil, core.failAlloc(op, size, res)
	}
	return newDeviceMem(core, &memCore{raw: raw, size: size, capacity: size}), nil
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
		return nil, invalid(op, fmt.Sprintf("the size is %d bytes: ask for at least one, and for no more than there can be", size))
	}
	if flags&^(HostPortable|HostDeviceMap|HostWriteCombined) != 0 {
		return nil, invalid(op, "unknown host memory flags "+flags.String()+": see HostFlags")
	}
	t, at := core.drv.table, driver.At{Context: core.raw}
	mc := &memCore{size: size, capacity: size, flags: flags}
	if old := core.takeMemory(true, flags, size); old != nil {
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
	mc.waits, mc.usage = true, new(usage)
	m := &HostMem{core: mc}
	m.cleanup = owned(m, &mc.resource, mc, core)
	return m, nil
}

// failAlloc is fail for allocations.
func (c *contextCore) failAlloc(op string, size uint64, res driver.Result) error {
	err := c.fail(op, 0, res)
	if e, ok := err.(*Error); ok && res == driver.ResultOutOfMemory {
		e.Detail = join(fmt.Sprintf("%d bytes were asked for", size), e.Detail)
	}
	return err
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
func (m *DeviceMem) Size() uint64 { return m.span().size }

// Size returns the size in bytes, 0 for nil.
func (m *HostMem) Size() uint64 { return m.span().size }

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

// readable cuts dst to what can be read at off of size bytes.
func readable(dst []byte, off int64, size uint64) ([]byte, error) {
	if off >= 0 && uint64(off) <= size && uint64(len(dst)) > size-uint64(off) {
		return dst[:size-uint64(off)], io.EOF
	}
	return dst, nil
}

func (m *DeviceMem) copy(op string, n int, off int64, f func(*driver.Table, driver.At, driver.DevicePtr) driver.Result) error {
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
	if res := f(mc.ctx.drv.table, driver.At{Context: mc.ctx.raw}, mc.raw+driver.DevicePtr(off)); res != driver.ResultSuccess {
		return mc.ctx.fail(op, uintptr(mc.raw), res)
	}
	return nil
}

// fits checks that n bytes at off are within the memory.
func (mc *memCore) fits(op string, n int, off int64) error {
	if off < 0 || uint64(off) > mc.size || uint64(n) > mc.size-uint64(off) {
		return invalid(op, fmt.Sprintf("%d bytes at %d do not fit into %d", n, off, mc.size))
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

// Copy enqueues a copy of src to the beginning of dst, and returns before it is
// done. One of the two may be host memory. Between the memory of two devices it
// needs no peer access. The stream must be of the context of the device memory:
// of either one, if there are two. Both stay allocated until the GPU has done the copy, also if
// they are closed (cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemcpyDtoDAsync,
// cuMemcpyPeerAsync). It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Copy(dst, src Memory) error {
	d, r := spanOf(dst), spanOf(src)
	op := "cuMemcpyDtoDAsync"
	switch {
	case d.mem == nil || r.mem == nil:
	case d.mem.host != 0 && r.mem.host != 0:
		return invalid(op, "both are host memory: copy within View")
	case d.mem.host != 0:
		op = "cuMemcpyDtoHAsync"
	case r.mem.host != 0:
		op = "cuMemcpyHtoDAsync"
	case d.mem.ctx != r.mem.ctx:
		op = "cuMemcpyPeerAsync"
	}
	return s.onMemory(op, d, r, func(sc *streamCore) (driver.Result, error) {
		if r.size > d.size {
			return 0, invalid(op, fmt.Sprintf("%d bytes do not fit into %d", r.size, d.size))
		}
		if r.size == 0 {
			return driver.ResultSuccess, nil
		}
		t, at, n := sc.ctx.drv.table, driver.At{Context: sc.ctx.raw, Thread: sc.at.Thread}, r.size
		switch {
		case d.mem.host != 0:
			return t.MemcpyDtoHAsync(at, d.hostAddr(), r.addr(), n, sc.raw), nil
		case r.mem.host != 0:
			return t.MemcpyHtoDAsync(at, d.addr(), r.hostAddr(), n, sc.raw), nil
		case d.mem.ctx != r.mem.ctx:
			return t.MemcpyPeerAsync(at, d.addr(), d.mem.ctx.raw, r.addr(), r.mem.ctx.raw, n, sc.raw), nil
		}
		return t.MemcpyDtoDAsync(at, d.addr(), r.addr(), n, sc.raw), nil
	})
}

// Memset enqueues the setting of each byte of the memory, which must be of the
// stream's context, or on the host (cuMemsetD8Async).
// It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset(dst Memory, value byte) error {
	const op = "cuMemsetD8Async"
	d := spanOf(dst)
	return s.onMemory(op, d, d, func(sc *streamCore) (driver.Result, error) {
		if d.size == 0 {
			return driver.ResultSuccess, nil
		}
		return sc.ctx.drv.table.MemsetD8Async(driver.At{Context: sc.ctx.raw, Thread: sc.at.Thread}, d.addr(), value, d.size, sc.raw), nil
	})
}

// Memset32 enqueues the setting of each 32-bit word of the memory, the address
// and the size of which must be multiples of four bytes. It must be of the
// stream's context, or on the host (cuMemsetD32Async).
// It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Memset32(dst Memory, value uint32) error {
	const op = "cuMemsetD32Async"
	d := spanOf(dst)
	return s.onMemory(op, d, d, func(sc *streamCore) (driver.Result, error) {
		if d.off%4 != 0 || d.size%4 != 0 {
			return 0, invalid(op, fmt.Sprintf("%d bytes at %d are not whole words: offset and size must be multiples of 4", d.size, d.off))
		}
		if d.size == 0 {
			return driver.ResultSuccess, nil
		}
		return sc.ctx.drv.table.MemsetD32Async(driver.At{Context: sc.ctx.raw, Thread: sc.at.Thread}, d.addr(), value, d.size/4, sc.raw), nil
	})
}

// onMemory makes a call that enqueues work on two spans, which may be the same.
func (s *Stream) onMemory(op string, d, r Span, call func(*streamCore) (driver.Result, error)) error {
	if s == nil || s.core == nil {
		return errNil(op, "stream")
	}
	for _, sp := range []Span{d, r} {
		if sp.mem != nil && sp.mem.ctx.drv != s.core.ctx.drv {
			return mixed(op, "memory", sp.mem.ctx, "stream", s.core.ctx)
		}
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	if err := d.enter(op); err != nil {
		return err
	}
	defer d.leave()
	if err := r.enter(op); err != nil {
		return err
	}
	defer r.leave()
	if op == "cuMemcpyPeerAsync" {
		if d.mem.ctx != sc.ctx && r.mem.ctx != sc.ctx {
			return mistake(op, mismatch(d.mem.ctx, sc.ctx), uintptr(sc.raw), fmt.Sprintf(
				"the memory is on devices %d and %d, the stream on device %d: use a stream of either memory's context", d.mem.ctx.dev, r.mem.ctx.dev, sc.ctx.dev))
		}
	} else {
		for _, sp := range []Span{d, r} {
			if sp.mem.host == 0 && sp.mem.ctx != sc.ctx {
				return mixed(op, "memory", sp.mem.ctx, "stream", sc.ctx)
			}
		}
	}
	if d.mem == r.mem && d.mem.host != 0 && d.mem.raw == 0 {
		return mistake(op, errUnmapped, d.mem.handle(), "allocate it with HostDeviceMap")
	}
	if c := sc.beginWork(); c != nil {
		c.uses.add(d.mem)
		c.uses.add(r.mem)
	} else {
		d.mem.used(sc)
		r.mem.used(sc)
	}
	defer sc.endWork()
	res, err := call(sc)
	if err == nil && res != driver.ResultSuccess {
		err = sc.ctx.fail(op, uintptr(sc.raw), res)
	}
	return err
}

// errUnmapped is behind the error of work on host memory that the device cannot
// reach.
var errUnmapped = errors.New("the device cannot reach the host memory")
