package sim

import (
	"github.com/purecu/purecu/driver"
)

// ArrayCreate is cuArrayCreate_v2.
func (d *Driver) ArrayCreate(th *driver.Thread, desc driver.ArrayDescriptor) (driver.Array, driver.Result) {
	defer d.mu.Unlock()
	return d.newArray("cuArrayCreate", th, driver.Array3DDescriptor{Width: desc.Width, Height: desc.Height,
		Format: desc.Format, NumChannels: desc.NumChannels})
}

// Array3DCreate is cuArray3DCreate_v2.
func (d *Driver) Array3DCreate(th *driver.Thread, desc driver.Array3DDescriptor) (driver.Array, driver.Result) {
	defer d.mu.Unlock()
	return d.newArray("cuArray3DCreate", th, desc)
}

// aboutArray begins a call with an array as an argument.
func (d *Driver) aboutArray(name string, th *driver.Thread, h driver.Array) (*cudaArray, driver.Result) {
	if _, _, r := d.inContext(name, th); r != ok {
		return nil, r
	}
	return d.array(name, h)
}

// ArrayGetDescriptor is cuArrayGetDescriptor_v2.
func (d *Driver) ArrayGetDescriptor(th *driver.Thread, h driver.Array) (driver.ArrayDescriptor, driver.Result) {
	defer d.mu.Unlock()
	a, r := d.aboutArray("cuArrayGetDescriptor", th, h)
	if r != ok {
		return driver.ArrayDescriptor{}, r
	}
	return driver.ArrayDescriptor{Width: a.desc.Width, Height: a.desc.Height, Format: a.desc.Format,
		NumChannels: a.desc.NumChannels}, ok
}

// Array3DGetDescriptor is cuArray3DGetDescriptor_v2.
func (d *Driver) Array3DGetDescriptor(th *driver.Thread, h driver.Array) (driver.Array3DDescriptor, driver.Result) {
	defer d.mu.Unlock()
	a, r := d.aboutArray("cuArray3DGetDescriptor", th, h)
	if r != ok {
		return driver.Array3DDescriptor{}, r
	}
	return a.desc, ok
}

// ArrayDestroy is cuArrayDestroy. It waits for all work in the array's context. After a sticky error it destroys the
// array, too.
func (d *Driver) ArrayDestroy(th *driver.Thread, h driver.Array) driver.Result {
	const name = "cuArrayDestroy"
	defer d.mu.Unlock()
	if _, r := d.changing(name, th); r != d.lost {
		return r
	}
	a, r := d.array(name, h)
	if r != d.lost {
		return r
	}
	if r = d.free(name, a.block); r != driver.ResultNotPermitted {
		d.objects.remove(uintptr(h))
	}
	return r
}

// end is one end of a copy of n bytes: it finds the memory, as one row, while the driver is locked.
type end func(n uint64) (box, driver.Result)

// inArray returns an end in an array. As on an H200, such copies reach its first row only.
func (d *Driver) inArray(name string, h driver.Array, off uint64) end {
	return func(n uint64) (box, driver.Result) {
		if h == 0 {
			return box{}, driver.ResultInvalidValue
		}
		a, r := d.array(name, h)
		if r == ok && (off > a.row || n > a.row-off) {
			r = driver.ResultInvalidValue
		}
		if r != ok {
			return box{}, r
		}
		return a.box(corner{x: off}, extent{n, 1, 1}), ok
	}
}

// endAt returns an end in other memory, which a function finds.
func endAt[P any](find func(p P, n uint64) (span, driver.Result), p P) end {
	return func(n uint64) (box, driver.Result) {
		s, r := find(p, n)
		return s.row(), r
	}
}

// endIn returns an end in memory of the host that a program gives, which a function finds.
func endIn(find func(b []byte) (span, driver.Result), b []byte) end {
	return func(uint64) (box, driver.Result) {
		s, r := find(b)
		return s.row(), r
	}
}

// both returns the memory of both ends.
func both(n uint64, to, from end) (dst, src box, r driver.Result) {
	if dst, r = to(n); r == ok {
		src, r = from(n)
	}
	return dst, src, r
}

// moveNow copies bytes between an array and something else on the legacy default stream.
func (d *Driver) moveNow(name string, th *driver.Thread, n uint64, to, from end) driver.Result {
	defer d.mu.Unlock()
	c, r := d.now(name, th)
	if r != ok || n == 0 {
		return r
	}
	dst, src, r := both(n, to, from)
	if r != ok {
		return r
	}
	wait := dst.kind.onHost() || src.kind.onHost()
	return d.copyNow(name, c, wait, extent{n, 1, 1}.copying(dst, src), dst.span, src.span)
}

// moveOn is moveNow for a stream.
func (d *Driver) moveOn(name string, th *driver.Thread, n uint64, h driver.Stream, to, from end) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, h)
	if r != ok || n == 0 {
		return r
	}
	dst, src, r := both(n, to, from)
	if r != ok {
		return r
	}
	if !s.ctx.copies(dst.block, src.block) {
		return driver.ResultInvalidValue
	}
	return d.enqueueBox(name, s, dst, src, extent{n, 1, 1})
}

// MemcpyHtoA is cuMemcpyHtoA_v2.
func (d *Driver) MemcpyHtoA(th *driver.Thread, dst driver.Array, off uint64, src []byte) driver.Result {
	const name = "cuMemcpyHtoA"
	return d.moveNow(name, th, uint64(len(src)), d.inArray(name, dst, off), endIn(d.space.given, src))
}

// MemcpyAtoH is cuMemcpyAtoH_v2.
func (d *Driver) MemcpyAtoH(th *driver.Thread, dst []byte, src driver.Array, off uint64) driver.Result {
	const name = "cuMemcpyAtoH"
	return d.moveNow(name, th, uint64(len(dst)), endIn(d.space.taken, dst), d.inArray(name, src, off))
}

// MemcpyDtoA is cuMemcpyDtoA_v2.
func (d *Driver) MemcpyDtoA(th *driver.Thread, dst driver.Array, off uint64, src driver.DevicePtr,
	n uint64) driver.Result {
	const name = "cuMemcpyDtoA"
	return d.moveNow(name, th, n, d.inArray(name, dst, off), endAt(d.space.span, uint64(src)))
}

// MemcpyAtoD is cuMemcpyAtoD_v2.
func (d *Driver) MemcpyAtoD(th *driver.Thread, dst driver.DevicePtr, src driver.Array, off, n uint64) driver.Result {
	const name = "cuMemcpyAtoD"
	return d.moveNow(name, th, n, endAt(d.space.target, uint64(dst)), d.inArray(name, src, off))
}

// MemcpyAtoA is cuMemcpyAtoA_v2.
func (d *Driver) MemcpyAtoA(th *driver.Thread, dst driver.Array, off uint64, src driver.Array, at,
	n uint64) driver.Result {
	const name = "cuMemcpyAtoA"
	return d.moveNow(name, th, n, d.inArray(name, dst, off), d.inArray(name, src, at))
}

// MemcpyHtoAAsync is cuMemcpyHtoAAsync_v2.
func (d *Driver) MemcpyHtoAAsync(th *driver.Thread, dst driver.Array, off uint64, src driver.HostPtr, n uint64,
	h driver.Stream) driver.Result {
	const name = "cuMemcpyHtoAAsync"
	return d.moveOn(name, th, n, h, d.inArray(name, dst, off), endAt(d.space.hostSpan, src))
}

// MemcpyAtoHAsync is cuMemcpyAtoHAsync_v2.
func (d *Driver) MemcpyAtoHAsync(th *driver.Thread, dst driver.HostPtr, src driver.Array, off, n uint64,
	h driver.Stream) driver.Result {
	const name = "cuMemcpyAtoHAsync"
	return d.moveOn(name, th, n, h, endAt(d.space.hostSpan, dst), d.inArray(name, src, off))
}

// MemcpyDtoAOn is cuMemcpyDtoA on a stream: the driver API has it for the per-thread default stream only.
func (d *Driver) MemcpyDtoAOn(th *driver.Thread, dst driver.Array, off uint64, src driver.DevicePtr, n uint64,
	h driver.Stream) driver.Result {
	const name = "cuMemcpyDtoA"
	return d.moveOn(name, th, n, h, d.inArray(name, dst, off), endAt(d.space.span, uint64(src)))
}

// MemcpyAtoDOn is cuMemcpyAtoD on a stream.
func (d *Driver) MemcpyAtoDOn(th *driver.Thread, dst driver.DevicePtr, src driver.Array, off, n uint64,
	h driver.Stream) driver.Result {
	const name = "cuMemcpyAtoD"
	return d.moveOn(name, th, n, h, endAt(d.space.target, uint64(dst)), d.inArray(name, src, off))
}

// MemcpyAtoAOn is cuMemcpyAtoA on a stream.
func (d *Driver) MemcpyAtoAOn(th *driver.Thread, dst driver.Array, off uint64, src driver.Array, at, n uint64,
	h driver.Stream) driver.Result {
	const name = "cuMemcpyAtoA"
	return d.moveOn(name, th, n, h, d.inArray(name, dst, off), d.inArray(name, src, at))
}
