package sim

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
	"github.com/purecu/purecu/internal/sim/mem"
)

// maxPitch is the largest number of bytes from one row to the next.
const maxPitch = math.MaxInt32

func (e extent) empty() bool { return e.width == 0 || e.height == 0 || e.depth == 0 }

// corner is one end of a copy, as in C's structures.
type corner struct {
	kind          int32
	host          driver.HostPtr
	dev           driver.DevicePtr
	x, y, z       uint64
	pitch, height uint64
	array         driver.Array
	of            *cudaArray // the array, once it is found: see resolve
}

// endsOf returns the ends of a copy, and its size.
func endsOf(c *driver.Memcpy3D) (to, from corner, e extent) {
	to = corner{c.DstMemoryType, c.DstHost, c.DstDevice, c.DstXInBytes, c.DstY, c.DstZ, c.DstPitch, c.DstHeight,
		c.DstArray, nil}
	from = corner{c.SrcMemoryType, c.SrcHost, c.SrcDevice, c.SrcXInBytes, c.SrcY, c.SrcZ, c.SrcPitch, c.SrcHeight,
		c.SrcArray, nil}
	return to, from, extent{c.WidthInBytes, c.Height, c.Depth}
}

// planeOf returns the copy of a rectangle as one of a box with one plane.
func planeOf(c *driver.Memcpy2D) *driver.Memcpy3D {
	return &driver.Memcpy3D{
		DstMemoryType: c.DstMemoryType, DstHost: c.DstHost, DstDevice: c.DstDevice, DstArray: c.DstArray,
		DstXInBytes: c.DstXInBytes, DstY: c.DstY, DstPitch: c.DstPitch,
		SrcMemoryType: c.SrcMemoryType, SrcHost: c.SrcHost, SrcDevice: c.SrcDevice, SrcArray: c.SrcArray,
		SrcXInBytes: c.SrcXInBytes, SrcY: c.SrcY, SrcPitch: c.SrcPitch,
		WidthInBytes: c.WidthInBytes, Height: c.Height, Depth: 1}
}

// sized returns a corner with its pitch and height, and reports whether the rows and planes of a box fit there.
// Where they begin in the row counts, too, but not for all memory. As for an H200, 0 is the smallest pitch
// and height that are possible.
func (c corner) sized(e extent) (corner, bool) {
	if c.of != nil {
		return c, c.within(e)
	}
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

// box returns the memory at one end of a copy.
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
	if c.of != nil {
		return c.of.box(c, e), ok
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

// array returns the array of a handle.
func (d *Driver) array(name string, h driver.Array) (*cudaArray, driver.Result) {
	a, r := find[cudaArray](d, name, arrayKind, uintptr(h))
	if r == ok {
		r = d.of(name, a.ctx, uintptr(h), arrayKind)
	}
	if r == d.lost && a != nil && a.block.leaving {
		d.misuse(name, uintptr(h), "another call is destroying the array", nil)
		return nil, driver.ResultContextIsDestroyed // as for one that is destroyed
	}
	return a, r
}

// resolve finds the array of an end of a copy, if it is one.
func (d *Driver) resolve(name string, c *corner) (r driver.Result) {
	if c.kind != driver.CU_MEMORYTYPE_ARRAY {
		return ok
	}
	if c.array == 0 {
		return driver.ResultInvalidValue
	}
	c.of, r = d.array(name, c.array)
	return r
}

// within reports whether a part of an array is a box.
func (c corner) within(e extent) bool {
	a := c.of
	return c.x <= a.row && e.width <= a.row-c.x && c.y <= a.rows && e.height <= a.rows-c.y && c.z <= a.planes &&
		e.depth <= a.planes-c.z
}

// box returns the part of an array at an end of a copy.
func (a *cudaArray) box(c corner, e extent) box {
	b := box{pitch: a.row, plane: a.row * a.rows, height: a.rows, array: a, at: [3]uint64{c.x, c.y, c.z}}
	n, _ := e.reach(b.pitch, b.plane)
	b.span = span{a.block, c.x + c.y*b.pitch + c.z*b.plane, n}
	return b
}

// copyBox enqueues the copy of a box. A copy between devices has their contexts. As with other such
// copies, no capture takes it, even if the contexts are the same.
func (d *Driver) copyBox(name string, th *driver.Thread, to, from corner, e extent, h driver.Stream,
	peers ...driver.Context) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, h)
	if r == ok {
		r = d.ends(name, &to, &from, e, peers...)
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
func (d *Driver) ends(name string, to, from *corner, e extent, peers ...driver.Context) driver.Result {
	for _, c := range []*corner{to, from} {
		if r := d.resolve(name, c); r != ok {
			return r
		}
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
	var staged *mem.Content
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
	w := &copyWork{d: d, dst: dst, src: src, size: e, staged: staged}
	if !pageable {
		if s.capture != nil {
			w.params = w.asNode()
		}
		return d.submit(s, w)
	}
	done, r := d.enqueueWork(s, w)
	switch {
	case r != ok && staged != nil:
		d.space.retire(staged)
	case r == ok && dst.kind == pageableBlock:
		return d.await(name, done)
	}
	return r
}

// stage copies a box of memory that the program may change after the call. The driver is unlocked while
// many bytes are copied.
func (d *Driver) stage(e extent, src box) (staged box, r driver.Result) {
	n := e.width * e.height * e.depth
	fresh := mem.New(&d.space.budget, n)
	staged = box{span: span{&block{size: n, kind: pinnedBlock, mem: fresh}, 0, n}, pitch: e.width,
		plane: e.width * e.height, height: e.height}
	r = driver.ResultOutOfMemory
	if fresh.Provide(0, n) {
		move := func() {
			if !touch(func() { e.copying(staged, src).run() }) {
				r = driver.ResultInvalidValue
				return
			}
			r = ok
		}
		if n > mostLocked {
			begin := d.engine.BeforeMove
			d.unlocked(func() {
				begin()
				move()
			})
		} else {
			move()
		}
	}
	if r != ok {
		fresh.Release()
	}
	return staged, r
}

// copyWork is that of a copy.
type copyWork struct {
	commonWork
	d        *Driver
	ctx      *context // of a node
	dst, src box
	size     extent
	staged   *mem.Content     // has the bytes, or nil
	params   *driver.Memcpy3D // of a node, else nil
}

// Type implements graph.Work.
func (*copyWork) Type() graph.Type { return graph.MemcpyNode }

func (w *copyWork) context() *context { return w.ctx }

func (w *copyWork) op(graph.Values) *op {
	time := duration(w.size.width*w.size.height*w.size.depth, w.dst.kind, w.src.kind)
	o := &op{Duration: time}
	if w.staged != nil {
		o.Over = func() { w.d.space.retire(w.staged) }
	}
	return w.d.access(o, w.size.copying(w.dst, w.src), w.dst.span, w.src.span)
}

// manyRows reports whether the copy has more than one row.
func (w *copyWork) manyRows() bool { return w.params.Height > 1 || w.params.Depth > 1 }

// Updatable implements graph.Work: the rows must be the same, if there are several, and so must be the kinds of memory.
func (w *copyWork) Updatable(other graph.Work) bool {
	o := other.(*copyWork)
	a, b := w.params, o.params
	if a.DstMemoryType != b.DstMemoryType || a.SrcMemoryType != b.SrcMemoryType || w.manyRows() != o.manyRows() {
		return false
	}
	// A captured copy of one plane has no heights of planes.
	return !w.manyRows() || a.WidthInBytes == b.WidthInBytes && a.Height == b.Height && a.Depth == b.Depth &&
		a.SrcPitch == b.SrcPitch && a.DstPitch == b.DstPitch &&
		(a.Depth == 1 || a.SrcHeight == b.SrcHeight && a.DstHeight == b.DstHeight)
}

// Replaceable implements graph.Work: the contexts must be the same, too. As on an H200, not even the addresses of
// several rows may change.
func (w *copyWork) Replaceable(other graph.Work) bool {
	o := other.(*copyWork)
	return w.Updatable(o) && (!w.manyRows() || *w.params == *o.params) &&
		w.dst.block.ctx == o.dst.block.ctx && w.src.block.ctx == o.src.block.ctx
}

// asNode returns the parameters of a node that a capture makes. As on an H200, a rectangle has the height 0 at both
// ends. What a GPU's driver returns for offsets was not observed: here they are in the addresses.
func (w *copyWork) asNode() *driver.Memcpy3D {
	p := &driver.Memcpy3D{WidthInBytes: w.size.width, Height: w.size.height, Depth: w.size.depth}
	p.DstMemoryType, p.DstHost, p.DstDevice, p.DstPitch, p.DstHeight = w.dst.corner()
	p.SrcMemoryType, p.SrcHost, p.SrcDevice, p.SrcPitch, p.SrcHeight = w.src.corner()
	if b := w.dst; b.array != nil {
		p.DstArray, p.DstXInBytes, p.DstY, p.DstZ = b.array.handle, b.at[0], b.at[1], b.at[2]
	}
	if b := w.src; b.array != nil {
		p.SrcArray, p.SrcXInBytes, p.SrcY, p.SrcZ = b.array.handle, b.at[0], b.at[1], b.at[2]
	}
	return p
}

// corner returns where a box is, as parameters of a copy have it.
func (b box) corner() (kind int32, host driver.HostPtr, dev driver.DevicePtr, pitch, height uint64) {
	addr := b.addr + b.off
	if b.array != nil {
		return driver.CU_MEMORYTYPE_ARRAY, 0, 0, 0, 0
	}
	if b.kind.onHost() {
		return driver.CU_MEMORYTYPE_HOST, driver.HostPtr(addr), 0, b.pitch, b.height
	}
	return driver.CU_MEMORYTYPE_DEVICE, 0, driver.DevicePtr(addr), b.pitch, b.height
}

// setWork is that of a memset.
type setWork struct {
	commonWork
	d      *Driver
	ctx    *context // of a node
	bytes  uint64
	set    movement
	spans  []span                   // one, or one for each row
	params *driver.MemsetNodeParams // of a node, else nil
}

// Type implements graph.Work.
func (*setWork) Type() graph.Type    { return graph.MemsetNode }
func (w *setWork) context() *context { return w.ctx }

func (w *setWork) op(graph.Values) *op {
	return w.d.access(&op{Duration: duration(w.bytes, w.spans[0].kind)}, w.set, w.spans...)
}

// block returns the memory of the last row.
func (w *setWork) block() *block { return w.spans[len(w.spans)-1].block }

// Updatable implements graph.Work: the rows must be the same, if there are several.
func (w *setWork) Updatable(other graph.Work) bool {
	a, b := w.params, other.(*setWork).params
	return (a.Height > 1) == (b.Height > 1) && (a.Height <= 1 || a.ElementSize == b.ElementSize &&
		a.Width == b.Width && a.Height == b.Height && a.Pitch == b.Pitch)
}

// Replaceable implements graph.Work: the context must be the same, too.
func (w *setWork) Replaceable(other graph.Work) bool {
	return w.Updatable(other) && w.block().ctx == other.(*setWork).block().ctx
}

// setWork returns the work of a memset on a stream. If that is captured, it has what a node that was added has.
func (d *Driver) setWork(s *stream, to span, set movement, p driver.DevicePtr, pitch uint64, value []byte, width,
	height uint64) *setWork {
	w := &setWork{d: d, bytes: width * height * uint64(len(value)), set: set, spans: []span{to}}
	if s.capture != nil {
		var v [4]byte
		copy(v[:], value)
		w.params = &driver.MemsetNodeParams{Dst: p, Pitch: pitch, Value: binary.LittleEndian.Uint32(v[:]),
			ElementSize: uint32(len(value)), Width: width, Height: height}
	}
	return w
}
