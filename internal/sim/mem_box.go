package sim

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/purecu/purecu/driver"
)

// maxPitch is the largest number of bytes from one row to the next.
const maxPitch = math.MaxInt32

// extent is the size of a box: the bytes of a row, the rows of a plane, and the planes.
type extent struct{ width, height, depth uint64 }

func (e extent) empty() bool { return e.width == 0 || e.height == 0 || e.depth == 0 }

// box is a part of memory in rows and planes. Its span has all of its bytes, and those between
// them.
type box struct {
	span
	pitch, plane uint64 // bytes from one row to the next, and from one plane to the next
	height       uint64 // rows of a plane as the program gives them: 0 for a rectangle
}

// reach returns the number of bytes from the first to the last byte of a box, and reports false if
// there is no such number.
func (e extent) reach(pitch, plane uint64) (uint64, bool) {
	over, a := bits.Mul64(e.depth-1, plane)
	over2, b := bits.Mul64(e.height-1, pitch)
	n, carry := bits.Add64(a, b, 0)
	n, carry2 := bits.Add64(n, e.width, 0)
	return n, over|over2|carry|carry2 == 0
}

// corner is one end of a copy, as in C's structures.
type corner struct {
	kind          int32
	host          driver.HostPtr
	dev           driver.DevicePtr
	x, y, z       uint64
	pitch, height uint64
}

// sized returns a corner with its pitch and height, and reports whether the rows and planes of a box fit there.
// Where they begin in the row counts, too, but not for all memory. As for an H200, 0 is the smallest pitch
// and height that are possible.
func (c corner) sized(e extent) (corner, bool) {
	if c.pitch == 0 {
		c.pitch = c.x + e.width
	}
	if c.height == 0 {
		c.height = c.y + e.height
	}
	const most = 1 << 40 // of everything, so that sums of two are right
	return c, max(c.x, c.y, c.z, c.height, e.width, e.height, e.depth) <= most && c.pitch <= maxPitch &&
		c.pitch >= e.width && c.height >= c.y+e.height
}

// box returns the memory at one end of a copy. Arrays are not supported.
func (d *Driver) box(c corner, e extent) (box, driver.Result) {
	return d.boxIn(c, e, d.space.span)
}

// boxIn is box with the function that returns the memory of a range of the device.
func (d *Driver) boxIn(c corner, e extent, onDevice func(addr, n uint64) (span, driver.Result)) (box, driver.Result) {
	height := c.height
	c, fit := c.sized(e)
	if !fit {
		return box{}, driver.ResultInvalidValue
	}
	b := box{pitch: c.pitch, plane: c.pitch * c.height, height: height}
	if over, _ := bits.Mul64(c.pitch, c.height); over != 0 {
		b.plane = math.MaxUint64 // there can be only one
	}
	n, fits := e.reach(b.pitch, b.plane)
	off, near := extent{c.x, c.y + 1, c.z + 1}.reach(b.pitch, b.plane)
	begin := uint64(c.dev)
	if c.kind == driver.CU_MEMORYTYPE_HOST {
		begin = uint64(c.host)
	}
	addr, carry := bits.Add64(begin, off, 0)
	if !fits || !near || carry != 0 {
		return box{}, driver.ResultInvalidValue
	}
	var r driver.Result
	switch c.kind {
	case driver.CU_MEMORYTYPE_HOST, driver.CU_MEMORYTYPE_UNIFIED:
		b.span, r = d.space.hostSpan(driver.HostPtr(addr), n)
	case driver.CU_MEMORYTYPE_DEVICE:
		b.span, r = onDevice(addr, n)
	default:
		return box{}, driver.ResultInvalidValue
	}
	// In memory of pools rows may begin anywhere, as for an H200.
	if r == ok && c.pitch < c.x+e.width && !b.block.kind.pooled() {
		return box{}, driver.ResultInvalidValue
	}
	return b, r
}

// copyBox enqueues the copy of a box. A copy between devices has their contexts. As with other such
// copies, no capture takes it, even if the contexts are the same.
func (d *Driver) copyBox(name string, th *driver.Thread, to, from corner, e extent, h driver.Stream,
	peers ...driver.Context) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, h)
	if r == ok {
		r = d.ends(name, to, from, e, peers...)
	}
	if r == ok && len(peers) > 0 {
		r = d.uncaptured(s)
	}
	if r != ok || e.empty() {
		return r
	}
	dst, src, r := d.boxes(to, from, e)
	switch {
	case r != ok:
		return r
	case len(peers) == 0 && !s.ctx.copies(dst.block, src.block):
		return driver.ResultInvalidValue
	}
	return d.enqueueBox(name, s, dst, src, e)
}

// ends checks the sizes of the ends of a copy, and then the contexts of a copy between devices.
func (d *Driver) ends(name string, to, from corner, e extent, peers ...driver.Context) driver.Result {
	for _, c := range []corner{to, from} {
		if _, fit := c.sized(e); !fit && !e.empty() {
			return driver.ResultInvalidValue
		}
	}
	return d.peers(name, peers...)
}

// boxes returns both ends of a copy.
func (d *Driver) boxes(to, from corner, e extent) (dst, src box, r driver.Result) {
	dst, r = d.box(to, e)
	if r == ok && !dst.allowed(driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
		r = driver.ResultInvalidValue
	}
	if r == ok {
		src, r = d.box(from, e)
	}
	return dst, src, r
}

// enqueueBox enqueues the copy of a box.
func (d *Driver) enqueueBox(name string, s *stream, dst, src box, e extent) driver.Result {
	pageable := s.capture == nil && (dst.kind == pageableBlock || src.kind == pageableBlock)
	var staged *content
	if pageable && src.kind == pageableBlock {
		copied, r := d.stage(e, src)
		switch {
		case r != ok:
			return r
		case d.lost != ok, s.ctx.destroyed, dst.gone, dst.leaving, s.capture != nil: // by another call
			d.space.retire(copied.mem)
			if s.capture == nil {
				return cmp.Or(d.lost, d.live(s.ctx), driver.ResultInvalidValue)
			}
			pageable = false
		default:
			src, staged = copied, copied.mem
		}
	}
	var done *op
	r := d.submit(s, s.copyWork(dst, src, e, func() *op {
		time := duration(e.width*e.height*e.depth, dst.kind, src.kind)
		done = d.access(&op{duration: time, staged: staged}, e.copying(dst, src), dst.span, src.span)
		return done
	}))
	switch {
	case r != ok && staged != nil:
		d.space.retire(staged)
	case r == ok && pageable && dst.kind == pageableBlock:
		return d.await(name, done)
	}
	return r
}

// stage copies a box of memory that the program may change after the call. The driver is unlocked while
// many bytes are copied.
func (d *Driver) stage(e extent, src box) (staged box, r driver.Result) {
	n := e.width * e.height * e.depth
	mem := newContent(&d.space.budget, n)
	staged = box{span{&block{size: n, kind: pinnedBlock, mem: mem}, 0, n}, e.width, e.width * e.height, e.height}
	r = driver.ResultOutOfMemory
	if mem.provide(0, n) {
		move := func() {
			if !touch(func() { e.copying(staged, src).run() }) {
				r = driver.ResultInvalidValue
				return
			}
			r = ok
		}
		if n > mostLocked {
			begin := d.beforeMove
			d.unlocked(func() {
				begin()
				move()
			})
		} else {
			move()
		}
	}
	if r != ok {
		mem.release()
	}
	return staged, r
}

// copyWork returns the work of a copy. If the stream is captured, it has what a node that was added has.
// As on an H200, a rectangle has the height 0 at both ends. What a GPU's driver returns for offsets
// was not observed: here they are in the addresses.
func (s *stream) copyWork(dst, src box, e extent, make func() *op) *work {
	w := &work{node: memcpyNode, make: make}
	if s.capture == nil {
		return w
	}
	p := &driver.Memcpy3D{WidthInBytes: e.width, Height: e.height, Depth: e.depth}
	p.DstMemoryType, p.DstHost, p.DstDevice, p.DstPitch, p.DstHeight = dst.corner()
	p.SrcMemoryType, p.SrcHost, p.SrcDevice, p.SrcPitch, p.SrcHeight = src.corner()
	w.copies, w.memoryTypes = p, [2]int32{p.DstMemoryType, p.SrcMemoryType}
	w.blocks, w.manyRows = []*block{dst.block, src.block}, e.height > 1 || e.depth > 1
	return w
}

// corner returns where a box is, as parameters of a copy have it.
func (b box) corner() (kind int32, host driver.HostPtr, dev driver.DevicePtr, pitch, height uint64) {
	addr := b.addr + b.off
	if b.kind.onHost() {
		return driver.CU_MEMORYTYPE_HOST, driver.HostPtr(addr), 0, b.pitch, b.height
	}
	return driver.CU_MEMORYTYPE_DEVICE, 0, driver.DevicePtr(addr), b.pitch, b.height
}

// setWork is copyWork for a memset.
func (s *stream) setWork(to *block, p driver.DevicePtr, pitch uint64, value []byte, width, height uint64,
	make func() *op) *work {
	w := &work{node: memsetNode, make: make}
	if s.capture == nil {
		return w
	}
	var v [4]byte
	copy(v[:], value)
	w.blocks, w.manyRows = []*block{to}, height > 1
	w.sets = &driver.MemsetNodeParams{Dst: p, Pitch: pitch, Value: binary.LittleEndian.Uint32(v[:]),
		ElementSize: uint32(len(value)), Width: width, Height: height}
	return w
}

// Memcpy2DAsync is cuMemcpy2DAsync_v2.
func (d *Driver) Memcpy2DAsync(th *driver.Thread, c driver.Memcpy2D, h driver.Stream) driver.Result {
	return d.copyBox("cuMemcpy2DAsync", th,
		corner{c.DstMemoryType, c.DstHost, c.DstDevice, c.DstXInBytes, c.DstY, 0, c.DstPitch, 0},
		corner{c.SrcMemoryType, c.SrcHost, c.SrcDevice, c.SrcXInBytes, c.SrcY, 0, c.SrcPitch, 0},
		extent{c.WidthInBytes, c.Height, 1}, h)
}

// Memcpy3DAsync is cuMemcpy3DAsync_v2.
func (d *Driver) Memcpy3DAsync(th *driver.Thread, c driver.Memcpy3D, h driver.Stream) driver.Result {
	return d.copyBox("cuMemcpy3DAsync", th,
		corner{c.DstMemoryType, c.DstHost, c.DstDevice, c.DstXInBytes, c.DstY, c.DstZ, c.DstPitch, c.DstHeight},
		corner{c.SrcMemoryType, c.SrcHost, c.SrcDevice, c.SrcXInBytes, c.SrcY, c.SrcZ, c.SrcPitch, c.SrcHeight},
		extent{c.WidthInBytes, c.Height, c.Depth}, h)
}

// setBox enqueues the setting of a rectangle. width is a number of values.
func (d *Driver) setBox(name string, th *driver.Thread, p driver.DevicePtr, pitch uint64, value []byte, width,
	height uint64,
	h driver.Stream) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, h)
	e := extent{width, height, 1}
	if r != ok || e.empty() {
		return r
	}
	b, r := d.rectangle(p, pitch, uint64(len(value)), &e)
	switch {
	case r != ok:
		return r
	case s.capture == nil && !s.ctx.reaches(b.block):
		return driver.ResultInvalidValue
	}
	return d.submit(s, s.setWork(b.block, p, pitch, value, width, height, func() *op {
		return d.access(&op{duration: duration(e.width*e.height, b.kind)}, e.setting(b, value), b.span)
	}))
}

// rectangle returns the memory of a rectangle of values of a size. It changes the width from values to
// bytes.
func (d *Driver) rectangle(p driver.DevicePtr, pitch, size uint64, e *extent) (box, driver.Result) {
	if uint64(p)%size != 0 || e.width > maxPitch || e.height > 1 && (pitch%size != 0 || pitch < e.width*size) {
		return box{}, driver.ResultInvalidValue
	}
	if e.width *= size; e.height == 1 {
		pitch = max(pitch, e.width)
	}
	return d.boxIn(corner{kind: driver.CU_MEMORYTYPE_DEVICE, dev: p, pitch: pitch}, *e, d.space.part)
}

// MemsetD2D8Async is cuMemsetD2D8Async.
func (d *Driver) MemsetD2D8Async(th *driver.Thread, p driver.DevicePtr, pitch uint64, v uint8, width, height uint64,
	h driver.Stream) driver.Result {
	return d.setBox("cuMemsetD2D8Async", th, p, pitch, []byte{v}, width, height, h)
}

// MemsetD2D32Async is cuMemsetD2D32Async.
func (d *Driver) MemsetD2D32Async(th *driver.Thread, p driver.DevicePtr, pitch uint64, v uint32, width, height uint64,
	h driver.Stream) driver.Result {
	return d.setBox("cuMemsetD2D32Async", th, p, pitch, binary.LittleEndian.AppendUint32(nil, v), width, height, h)
}

// MemAllocPitch is cuMemAllocPitch_v2.
func (d *Driver) MemAllocPitch(th *driver.Thread, width, height uint64,
	element uint32) (driver.DevicePtr, uint64, driver.Result) {
	defer d.mu.Unlock()
	c, t, r := d.inContext("cuMemAllocPitch", th)
	if r == ok && (width == 0 || height == 0) {
		r = driver.ResultInvalidValue
	}
	if r == ok {
		r = d.forbidden(t, nil)
	}
	switch {
	case r != ok:
		return 0, 0, r
	case element != 4 && element != 8 && element != 16 || rounded(width) < width:
		return 0, 0, driver.ResultInvalidValue
	}
	pitch := rounded(width)
	switch {
	case pitch*height == 0: // an H200 calculates with 64 bits
		return 0, 0, driver.ResultInvalidValue
	case height > deviceMemory/pitch:
		return 0, 0, driver.ResultOutOfMemory
	}
	b, r := d.newDeviceBlock(c, pitch*height, deviceBlock)
	if r != ok {
		return 0, 0, r
	}
	return driver.DevicePtr(b.addr), pitch, ok
}
