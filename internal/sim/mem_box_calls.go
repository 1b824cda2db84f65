package sim

import (
	"encoding/binary"

	"github.com/purecu/purecu/driver"
)

// This file has the calls that copy and set boxes and rectangles, and sets of words of 16 bits.

// MemsetD16 is cuMemsetD16_v2.
func (d *Driver) MemsetD16(th *driver.Thread, dst driver.DevicePtr, v uint16, n uint64) driver.Result {
	return d.memset("cuMemsetD16", th, dst, binary.LittleEndian.AppendUint16(nil, v), n)
}

// MemsetD16Async is cuMemsetD16Async.
func (d *Driver) MemsetD16Async(th *driver.Thread, dst driver.DevicePtr, v uint16, n uint64,
	h driver.Stream) driver.Result {
	return d.memsetAsync("cuMemsetD16Async", th, dst, binary.LittleEndian.AppendUint16(nil, v), n, h)
}

// MemsetD2D16Async is cuMemsetD2D16Async.
func (d *Driver) MemsetD2D16Async(th *driver.Thread, p driver.DevicePtr, pitch uint64, v uint16, width, height uint64,
	h driver.Stream) driver.Result {
	return d.setBox("cuMemsetD2D16Async", th, p, pitch, binary.LittleEndian.AppendUint16(nil, v), width, height, h)
}

// MemsetD2D8 is cuMemsetD2D8_v2.
func (d *Driver) MemsetD2D8(th *driver.Thread, p driver.DevicePtr, pitch uint64, v uint8, width,
	height uint64) driver.Result {
	return d.setBoxNow("cuMemsetD2D8", th, p, pitch, []byte{v}, width, height)
}

// MemsetD2D16 is cuMemsetD2D16_v2.
func (d *Driver) MemsetD2D16(th *driver.Thread, p driver.DevicePtr, pitch uint64, v uint16, width,
	height uint64) driver.Result {
	return d.setBoxNow("cuMemsetD2D16", th, p, pitch, binary.LittleEndian.AppendUint16(nil, v), width, height)
}

// MemsetD2D32 is cuMemsetD2D32_v2.
func (d *Driver) MemsetD2D32(th *driver.Thread, p driver.DevicePtr, pitch uint64, v uint32, width,
	height uint64) driver.Result {
	return d.setBoxNow("cuMemsetD2D32", th, p, pitch, binary.LittleEndian.AppendUint32(nil, v), width, height)
}

// setBoxNow sets a rectangle on the legacy default stream. It waits for the operation only if it is
// memory of the host.
func (d *Driver) setBoxNow(name string, th *driver.Thread, p driver.DevicePtr, pitch uint64, value []byte, width,
	height uint64) driver.Result {
	defer d.mu.Unlock()
	c, r := d.now(name, th)
	e := extent{width, height, 1}
	if r != ok || e.empty() {
		return r
	}
	b, r := d.rectangle(p, pitch, uint64(len(value)), &e)
	switch {
	case r != ok:
		return r
	case !c.reaches(b.block):
		return driver.ResultInvalidValue
	}
	return d.runNow(name, c, b.kind.onHost(), e.setting(b, value), b.span)
}

// Memcpy2D is cuMemcpy2D_v2.
func (d *Driver) Memcpy2D(th *driver.Thread, c driver.Memcpy2D) driver.Result {
	return d.copyRectangleNow("cuMemcpy2D", th, c)
}

// Memcpy2DUnaligned is cuMemcpy2DUnaligned_v2.
func (d *Driver) Memcpy2DUnaligned(th *driver.Thread, c driver.Memcpy2D) driver.Result {
	return d.copyRectangleNow("cuMemcpy2DUnaligned", th, c)
}

func (d *Driver) copyRectangleNow(name string, th *driver.Thread, c driver.Memcpy2D) driver.Result {
	to, from, e := endsOf(planeOf(&c))
	return d.copyBoxNow(name, th, to, from, e)
}

// Memcpy3D is cuMemcpy3D_v2.
func (d *Driver) Memcpy3D(th *driver.Thread, c driver.Memcpy3D) driver.Result {
	to, from, e := endsOf(&c)
	return d.copyBoxNow("cuMemcpy3D", th, to, from, e)
}

// peerEnds returns the ends of a copy between devices, and its size.
func peerEnds(c driver.Memcpy3DPeer) (to, from corner, e extent) {
	to = corner{c.DstMemoryType, c.DstHost, c.DstDevice, c.DstXInBytes, c.DstY, c.DstZ, c.DstPitch, c.DstHeight,
		c.DstArray, nil}
	from = corner{c.SrcMemoryType, c.SrcHost, c.SrcDevice, c.SrcXInBytes, c.SrcY, c.SrcZ, c.SrcPitch, c.SrcHeight,
		c.SrcArray, nil}
	return to, from, extent{c.WidthInBytes, c.Height, c.Depth}
}

// Memcpy3DPeer is cuMemcpy3DPeer.
func (d *Driver) Memcpy3DPeer(th *driver.Thread, c driver.Memcpy3DPeer) driver.Result {
	to, from, e := peerEnds(c)
	return d.copyBoxNow("cuMemcpy3DPeer", th, to, from, e, c.DstContext, c.SrcContext)
}

// Memcpy3DPeerAsync is cuMemcpy3DPeerAsync.
func (d *Driver) Memcpy3DPeerAsync(th *driver.Thread, c driver.Memcpy3DPeer, h driver.Stream) driver.Result {
	to, from, e := peerEnds(c)
	return d.copyBox("cuMemcpy3DPeerAsync", th, to, from, e, h, c.DstContext, c.SrcContext)
}

// copyBoxNow copies a box on the legacy default stream, and waits for it. A copy between devices has
// their contexts.
func (d *Driver) copyBoxNow(name string, th *driver.Thread, to, from corner, e extent,
	peers ...driver.Context) driver.Result {
	defer d.mu.Unlock()
	c, r := d.now(name, th)
	if r == ok {
		r = d.ends(name, &to, &from, e, peers...)
	}
	if r != ok || e.empty() {
		return r
	}
	dst, r := d.box(to, e)
	if r != ok {
		return r
	}
	src, r := d.box(from, e)
	if r != ok {
		return r
	}
	wait := dst.kind.onHost() || src.kind.onHost()
	if len(peers) == 0 && !c.copies(dst.block, src.block) {
		return driver.ResultInvalidValue
	}
	return d.runNow(name, c, wait, e.copying(dst, src), dst.span, src.span)
}

// Memcpy2DAsync is cuMemcpy2DAsync_v2.
func (d *Driver) Memcpy2DAsync(th *driver.Thread, c driver.Memcpy2D, h driver.Stream) driver.Result {
	to, from, e := endsOf(planeOf(&c))
	return d.copyBox("cuMemcpy2DAsync", th, to, from, e, h)
}

// Memcpy3DAsync is cuMemcpy3DAsync_v2.
func (d *Driver) Memcpy3DAsync(th *driver.Thread, c driver.Memcpy3D, h driver.Stream) driver.Result {
	to, from, e := endsOf(&c)
	return d.copyBox("cuMemcpy3DAsync", th, to, from, e, h)
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
	return d.submit(s, d.setWork(s, b.span, e.setting(b, value), p, pitch, value, width, height))
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
	case height > c.dev.Memory.Size/pitch:
		return 0, 0, driver.ResultOutOfMemory
	}
	b, r := d.newDeviceBlock(c, pitch*height, deviceBlock)
	if r != ok {
		return 0, 0, r
	}
	return driver.DevicePtr(b.addr), pitch, ok
}
