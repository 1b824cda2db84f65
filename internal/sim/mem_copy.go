package sim

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// span returns the memory of a range of the device. As on an H200, memory of pools of pinned memory
// is memory of the host only, although kernels and sets may use it.
func (a *addressSpace) span(addr, n uint64) (span, driver.Result) {
	s, r := a.part(addr, n)
	if r == ok && s.kind == pinnedPoolBlock {
		return span{}, driver.ResultInvalidValue
	}
	return s, r
}

// part returns the memory of a range.
func (a *addressSpace) part(addr, n uint64) (span, driver.Result) {
	b := a.At(addr)
	if b != nil && b.kind == mappedBlock && n > b.end()-addr {
		return a.across(addr, n)
	}
	if b == nil || a.hides(b) || n > b.end()-addr || !b.allowed(driver.CU_MEM_ACCESS_FLAGS_PROT_READ) {
		return span{}, driver.ResultInvalidValue
	}
	return span{b, addr - b.addr, n}, ok
}

// target is span for memory that is written.
func (a *addressSpace) target(addr, n uint64) (span, driver.Result) {
	s, r := a.span(addr, n)
	if r == ok && !s.allowed(driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
		return span{}, driver.ResultInvalidValue
	}
	return s, r
}

// hostSpan returns the memory of a range on the host, which may be memory that the driver does not
// know.
func (a *addressSpace) hostSpan(p driver.HostPtr, n uint64) (span, driver.Result) {
	addr := uint64(p)
	if a.At(addr) != nil {
		return a.part(addr, n)
	}
	if p == 0 || addr+n < addr || addr+n > deviceBase || a.Taken(addr, n) {
		return span{}, driver.ResultInvalidValue
	}
	return pageable(foreignBytes(p, n)), ok
}

// given returns memory that a program gives as memory of the host. As on an H200, C may give that of a device.
func (a *addressSpace) given(b []byte) (span, driver.Result) {
	if addr := mem.AddressOf(b); addr >= deviceBase {
		return a.span(addr, uint64(len(b)))
	}
	return pageable(b), ok
}

// taken is given for memory that a copy writes.
func (a *addressSpace) taken(b []byte) (span, driver.Result) {
	if known := a.At(mem.AddressOf(b)); known != nil && known.readOnly() {
		return span{}, driver.ResultInvalidValue
	}
	return a.given(b)
}

// pageable returns memory of the host that the driver does not know. Memory of C code may even be
// unmapped.
func pageable(b []byte) span {
	n := uint64(len(b))
	return span{&block{size: n, kind: pageableBlock, mem: mem.Of(b)}, 0, n}
}

// The model of copy times: a fixed part, and the bytes per nanosecond between the host and a
// device, and within devices.
const (
	copyTime      = int64(2 * time.Microsecond)
	hostBandwidth = 50
	bandwidth     = 2000
)

// duration returns how long it takes to move bytes.
func duration(n uint64, hosts ...blockKind) int64 {
	for _, k := range hosts {
		if k.onHost() {
			return copyTime + int64(n/hostBandwidth)
		}
	}
	return copyTime + int64(n/bandwidth)
}

// enqueueCopy enqueues a copy, if the stream's device has the access that it needs.
func (d *Driver) enqueueCopy(name string, s *stream, dst, src span) driver.Result {
	if dst.n != 0 && !s.ctx.copies(dst.block, src.block) {
		return driver.ResultInvalidValue
	}
	return d.enqueuePeerCopy(name, s, dst, src)
}

// enqueuePeerCopy is enqueueCopy for a copy between devices, which needs no access.
func (d *Driver) enqueuePeerCopy(name string, s *stream, dst, src span) driver.Result {
	if dst.n == 0 {
		return ok
	}
	return d.enqueueBox(name, s, dst.row(), src.row(), extent{dst.n, 1, 1})
}

// await waits for an operation. If the wait would never end, it drops the operation's effect. The
// driver is unlocked during the wait.
func (d *Driver) await(name string, o *op) driver.Result {
	r := d.waitFor(name, 0, o)
	if !o.Done() {
		o.Effect, o.Apart = nil, nil
	}
	return r
}

// now begins a synchronous copy on the legacy default stream. As for an H200, only captures of blocking streams
// of the context matter.
func (d *Driver) now(name string, th *driver.Thread) (*context, driver.Result) {
	c, _, r := d.inContext(name, th)
	if r == ok {
		r = d.legacyFree(c)
	}
	return c, r
}

// synchronous reports whether memory has CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
func (s span) synchronous() bool {
	return s.syncMemops || slices.ContainsFunc(s.parts, span.synchronous)
}

// copyNow is runNow for a copy, if the context's device has the access that it needs.
func (d *Driver) copyNow(name string, c *context, wait bool, m movement, dst, src span) driver.Result {
	if !c.copies(dst.block, src.block) {
		return driver.ResultInvalidValue
	}
	return d.runNow(name, c, wait, m, dst, src)
}

// runNow accesses memory on the legacy default stream. It waits for that with wait set, or if memory has
// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS. The access takes no time in the model, as with virtual time the call
// could not return otherwise.
func (d *Driver) runNow(name string, c *context, wait bool, m movement, spans ...span) driver.Result {
	wait = wait || slices.ContainsFunc(spans, span.synchronous)
	var short *driver.Result
	if wait {
		short = new(driver.Result)
	}
	o := d.accessFor(short, &op{}, m, spans...)
	if !canProvideFor(o) {
		return driver.ResultOutOfMemory
	}
	d.enqueue(c.legacy, o)
	if !wait {
		for o.Moving() { // as if it had taken no time
			d.engine.Changed.Wait()
		}
		return d.lost
	}
	return cmp.Or(d.await(name, o), *short)
}

// MemcpyHtoD is cuMemcpyHtoD_v2. It takes no time, but waits for earlier work of the stream.
func (d *Driver) MemcpyHtoD(th *driver.Thread, dst driver.DevicePtr, src []byte) driver.Result {
	defer d.mu.Unlock()
	c, r := d.now("cuMemcpyHtoD", th)
	if r != ok || len(src) == 0 {
		return r
	}
	to, r := d.space.target(uint64(dst), uint64(len(src)))
	if r != ok {
		return r
	}
	from, r := d.space.given(src)
	if r != ok {
		return r
	}
	return d.copyNow("cuMemcpyHtoD", c, true, copyOf(to, from), to, from)
}

// MemcpyDtoH is cuMemcpyDtoH_v2. It takes no time, but waits for earlier work of the stream.
func (d *Driver) MemcpyDtoH(th *driver.Thread, dst []byte, src driver.DevicePtr) driver.Result {
	defer d.mu.Unlock()
	c, r := d.now("cuMemcpyDtoH", th)
	if r != ok || len(dst) == 0 {
		return r
	}
	from, r := d.space.span(uint64(src), uint64(len(dst)))
	if r != ok {
		return r
	}
	to, r := d.space.taken(dst)
	if r != ok {
		return r
	}
	return d.copyNow("cuMemcpyDtoH", c, true, copyOf(to, from), to, from)
}

// spans returns the memory of both ends of a copy.
func (d *Driver) spans(dst, src driver.DevicePtr, n uint64) (to, from span, r driver.Result) {
	if n == 0 {
		return span{}, span{}, ok
	}
	if to, r = d.space.target(uint64(dst), n); r == ok {
		from, r = d.space.span(uint64(src), n)
	}
	return to, from, r
}

// MemcpyDtoD is cuMemcpyDtoD_v2. It does not wait for the copy.
func (d *Driver) MemcpyDtoD(th *driver.Thread, dst, src driver.DevicePtr, n uint64) driver.Result {
	defer d.mu.Unlock()
	c, r := d.now("cuMemcpyDtoD", th)
	if r != ok || n == 0 {
		return r
	}
	to, from, r := d.spans(dst, src, n)
	if r != ok {
		return r
	}
	return d.copyNow("cuMemcpyDtoD", c, false, copyOf(to, from), to, from)
}

// anywhere returns the memory of both ends of a copy between addresses of the device or of the host.
func (d *Driver) anywhere(dst, src driver.DevicePtr, n uint64) (to, from span, r driver.Result) {
	if to, r = d.space.hostSpan(driver.HostPtr(dst), n); r == ok {
		from, r = d.space.hostSpan(driver.HostPtr(src), n)
	}
	return to, from, r
}

// Memcpy is cuMemcpy. It waits for the copy if the host's memory is not pinned.
func (d *Driver) Memcpy(th *driver.Thread, dst, src driver.DevicePtr, n uint64) driver.Result {
	const name = "cuMemcpy"
	defer d.mu.Unlock()
	c, r := d.now(name, th)
	if r != ok || n == 0 {
		return r
	}
	to, from, r := d.anywhere(dst, src, n)
	if r != ok {
		return r
	}
	wait := to.kind == pageableBlock || from.kind == pageableBlock
	return d.copyNow(name, c, wait, copyOf(to, from), to, from)
}

// MemcpyAsync is cuMemcpyAsync.
func (d *Driver) MemcpyAsync(th *driver.Thread, dst, src driver.DevicePtr, n uint64, h driver.Stream) driver.Result {
	const name = "cuMemcpyAsync"
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, h)
	if r != ok || n == 0 {
		return r
	}
	to, from, r := d.anywhere(dst, src, n)
	if r != ok {
		return r
	}
	return d.enqueueCopy(name, s, to, from)
}

// MemcpyPeer is cuMemcpyPeer. It does not wait for the copy.
func (d *Driver) MemcpyPeer(th *driver.Thread, dst driver.DevicePtr, dstCtx driver.Context, src driver.DevicePtr, srcCtx driver.Context, n uint64) driver.Result {
	const name = "cuMemcpyPeer"
	defer d.mu.Unlock()
	c, r := d.now(name, th)
	if r != ok {
		return r
	}
	if r := d.peers(name, dstCtx, srcCtx); r != ok || n == 0 {
		return r
	}
	to, from, r := d.spans(dst, src, n)
	if r != ok {
		return r
	}
	return d.runNow("cuMemcpyPeer", c, false, copyOf(to, from), to, from)
}

// peers checks the contexts of a copy between devices. As for an H200, they may be missing.
func (d *Driver) peers(name string, ctxs ...driver.Context) driver.Result {
	for _, h := range ctxs {
		if h == 0 {
			continue
		}
		c, r := find[context](d, name, contextKind, uintptr(h))
		if r != ok {
			return r
		}
		if r := d.live(c); r != ok {
			return r
		}
	}
	return ok
}

// MemcpyHtoDAsync is cuMemcpyHtoDAsync_v2.
func (d *Driver) MemcpyHtoDAsync(th *driver.Thread, dst driver.DevicePtr, src driver.HostPtr, n uint64, h driver.Stream) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuMemcpyHtoDAsync", th, h)
	if r != ok || n == 0 {
		return r
	}
	to, r := d.space.target(uint64(dst), n)
	if r != ok {
		return r
	}
	from, r := d.space.hostSpan(src, n)
	if r != ok {
		return r
	}
	return d.enqueueCopy("cuMemcpyHtoDAsync", s, to, from)
}

// MemcpyDtoHAsync is cuMemcpyDtoHAsync_v2.
func (d *Driver) MemcpyDtoHAsync(th *driver.Thread, dst driver.HostPtr, src driver.DevicePtr, n uint64, h driver.Stream) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuMemcpyDtoHAsync", th, h)
	if r != ok || n == 0 {
		return r
	}
	to, r := d.space.hostSpan(dst, n)
	if r != ok {
		return r
	}
	from, r := d.space.span(uint64(src), n)
	if r != ok {
		return r
	}
	return d.enqueueCopy("cuMemcpyDtoHAsync", s, to, from)
}

// MemcpyDtoDAsync is cuMemcpyDtoDAsync_v2.
func (d *Driver) MemcpyDtoDAsync(th *driver.Thread, dst, src driver.DevicePtr, n uint64, h driver.Stream) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuMemcpyDtoDAsync", th, h)
	if r != ok {
		return r
	}
	to, from, r := d.spans(dst, src, n)
	if r != ok {
		return r
	}
	return d.enqueueCopy("cuMemcpyDtoDAsync", s, to, from)
}

// MemcpyPeerAsync is cuMemcpyPeerAsync.
func (d *Driver) MemcpyPeerAsync(th *driver.Thread, dst driver.DevicePtr, dstCtx driver.Context, src driver.DevicePtr, srcCtx driver.Context, n uint64, h driver.Stream) driver.Result {
	const name = "cuMemcpyPeerAsync"
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, h)
	if r != ok {
		return r
	}
	if r := d.peers(name, dstCtx, srcCtx); r != ok {
		return r
	}
	to, from, r := d.spans(dst, src, n)
	if r != ok {
		return r
	}
	if r := d.uncaptured(s); r != ok { // even within one context
		return r
	}
	return d.enqueuePeerCopy(name, s, to, from)
}

// pattern returns the memory of a memset, and what sets it.
func (d *Driver) pattern(dst driver.DevicePtr, value []byte, n uint64) (span, movement, driver.Result) {
	size := uint64(len(value))
	if uint64(dst)%size != 0 || n > 1<<62/size {
		return span{}, movement{}, driver.ResultInvalidValue
	}
	to, r := d.space.part(uint64(dst), n*size)
	if r == ok && !to.allowed(driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
		r = driver.ResultInvalidValue
	}
	if r != ok {
		return span{}, movement{}, r
	}
	return to, extent{to.n, 1, 1}.setting(box{span: to}, value), ok
}

// memset sets memory on the legacy default stream. It waits for the operation only if it is memory
// of the host.
func (d *Driver) memset(name string, th *driver.Thread, dst driver.DevicePtr, value []byte, n uint64) driver.Result {
	defer d.mu.Unlock()
	c, r := d.now(name, th)
	if r != ok || n == 0 {
		return r
	}
	to, set, r := d.pattern(dst, value, n)
	if r != ok {
		return r
	}
	if !c.reaches(to.block) {
		return driver.ResultInvalidValue
	}
	return d.runNow(name, c, to.kind.onHost(), set, to)
}

// reaches reports whether the context's device can set memory, which may belong to another device. Access
// between contexts does not include memory of pools.
func (c *context) reaches(b *block) bool {
	switch {
	case b.kind == mappedBlock:
		return b.allows(c.dev, driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
	case b.kind.pooled():
		return b.chunk.pool.reaches(c.dev)
	}
	return b.kind.visible() || b.ctx.dev == c.dev || c.peers[b.ctx]
}

// copies reports whether the context's device can copy memory, which may belong to another device. Only
// memory of a device's pool and mapped memory need access.
func (c *context) copies(dst, src *block) bool {
	for _, b := range []*block{dst, src} {
		if b.kind == poolBlock && !b.chunk.pool.reaches(c.dev) {
			return false
		}
	}
	return dst.allows(c.dev, driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE) &&
		src.allows(c.dev, driver.CU_MEM_ACCESS_FLAGS_PROT_READ)
}

// memsetAsync enqueues the setting of memory.
func (d *Driver) memsetAsync(name string, th *driver.Thread, dst driver.DevicePtr, value []byte, n uint64, h driver.Stream) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, h)
	if r != ok || n == 0 {
		return r
	}
	to, set, r := d.pattern(dst, value, n)
	if r != ok {
		return r
	}
	if s.capture == nil && !s.ctx.reaches(to.block) {
		return driver.ResultInvalidValue
	}
	return d.submit(s, d.setWork(s, to, set, dst, 0, value, n, 1))
}

// MemsetD8 is cuMemsetD8_v2.
func (d *Driver) MemsetD8(th *driver.Thread, dst driver.DevicePtr, v uint8, n uint64) driver.Result {
	return d.memset("cuMemsetD8", th, dst, []byte{v}, n)
}

// MemsetD32 is cuMemsetD32_v2.
func (d *Driver) MemsetD32(th *driver.Thread, dst driver.DevicePtr, v uint32, n uint64) driver.Result {
	return d.memset("cuMemsetD32", th, dst, binary.LittleEndian.AppendUint32(nil, v), n)
}

// MemsetD8Async is cuMemsetD8Async.
func (d *Driver) MemsetD8Async(th *driver.Thread, dst driver.DevicePtr, v uint8, n uint64, h driver.Stream) driver.Result {
	return d.memsetAsync("cuMemsetD8Async", th, dst, []byte{v}, n, h)
}

// MemsetD32Async is cuMemsetD32Async.
func (d *Driver) MemsetD32Async(th *driver.Thread, dst driver.DevicePtr, v uint32, n uint64, h driver.Stream) driver.Result {
	return d.memsetAsync("cuMemsetD32Async", th, dst, binary.LittleEndian.AppendUint32(nil, v), n, h)
}
