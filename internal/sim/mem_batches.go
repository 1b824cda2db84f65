package sim

import "github.com/purecu/purecu/driver"

// This file has copies, prefetches and discards of several pieces of memory.

// noCopy is the index that says that an error is about no single copy.
const noCopy = ^uint64(0)

// refusedOn returns the index that a batch of copies returns if its stream is refused. As for an H200, it
// depends on how the program names the default stream.
func refusedOn(h driver.Stream, r driver.Result) uint64 {
	if h == 0 && r == driver.ResultInvalidValue {
		return 0
	}
	return noCopy
}

// onBatchStream begins a call on a stream that takes several pieces of memory. Such calls are not for
// the legacy default stream, and invalidate no capture of other streams.
func (d *Driver) onBatchStream(name string, th *driver.Thread, h driver.Stream) (*stream, driver.Result) {
	s, _, r := d.askStream(name, th, h)
	switch {
	case (h == 0 || h == driver.CU_STREAM_LEGACY) &&
		(d.thread(th).current() != nil || r == driver.ResultInvalidContext): // also if the context is poisoned
		r = driver.ResultInvalidValue
	case r != ok:
	case s.capture != nil:
		d.space.building = true
	}
	return s, r
}

// onCopyStream is onBatchStream for copies. A capture does not accept them, and goes on.
func (d *Driver) onCopyStream(name string, th *driver.Thread, h driver.Stream) (*stream, driver.Result) {
	s, r := d.onBatchStream(name, th, h)
	if r == ok {
		r = s.captureValid()
	}
	if r == ok && s.capture != nil {
		r = driver.ResultStreamCaptureUnsupported
	}
	if r == ok && d.thread(th).current() == nil {
		r = driver.ResultInvalidValue
	}
	return s, r
}

// firsts reports whether the indexes say for all of n items which of several values they have.
func firsts(indexes []uint64, n int) bool {
	for i, at := range indexes {
		if i == 0 && at != 0 || i > 0 && at <= indexes[i-1] || at >= uint64(n) {
			return false
		}
	}
	return len(indexes) != 0
}

// preferOverlap is CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE.
const preferOverlap = 1

// ordered reports whether a copy accesses its source in a way that exists.
func ordered(order int32, flags uint32) bool {
	return order >= driver.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= driver.CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
		flags <= preferOverlap
}

// hinted reports whether a place can be where a copy finds managed memory. Most often there is none.
func (d *Driver) hinted(l driver.MemLocation) bool {
	_, r := d.place(l)
	return r == ok || l.Type == driver.CU_MEM_LOCATION_TYPE_INVALID
}

// MemcpyBatchAsync is cuMemcpyBatchAsync_v2.
func (d *Driver) MemcpyBatchAsync(th *driver.Thread, dsts, srcs []driver.DevicePtr, sizes []uint64,
	attrs []driver.MemcpyAttributes, indexes []uint64, h driver.Stream) driver.Result {
	_, r := d.MemcpyBatchAsyncV1(th, dsts, srcs, sizes, attrs, indexes, h)
	return r
}

// MemcpyBatchAsyncV1 is cuMemcpyBatchAsync. It makes the copies in their order, up to the first that it
// refuses, as an H200 does.
func (d *Driver) MemcpyBatchAsyncV1(th *driver.Thread, dsts, srcs []driver.DevicePtr, sizes []uint64,
	attrs []driver.MemcpyAttributes, indexes []uint64, h driver.Stream) (failed uint64, r driver.Result) {
	const name = "cuMemcpyBatchAsync"
	defer d.mu.Unlock()
	s, r := d.onCopyStream(name, th, h)
	if r != ok {
		return refusedOn(h, r), r
	}
	if len(srcs) != len(dsts) || len(sizes) != len(dsts) || len(attrs) != len(indexes) || !firsts(indexes, len(dsts)) {
		return noCopy, driver.ResultInvalidValue
	}
	for _, a := range attrs {
		if !ordered(a.SrcAccessOrder, a.Flags) || !d.hinted(a.SrcLocHint) || !d.hinted(a.DstLocHint) {
			return noCopy, driver.ResultInvalidValue
		}
	}
	for i, n := range sizes {
		dst, r := d.space.hostSpan(driver.HostPtr(dsts[i]), n)
		if r == ok && (n == 0 || !dst.allowed(driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
			r = driver.ResultInvalidValue
		}
		var src span
		if r == ok {
			src, r = d.space.hostSpan(driver.HostPtr(srcs[i]), n)
		}
		if r == ok {
			r = d.enqueueCopy(name, s, dst, src)
		}
		if r != ok {
			return uint64(i), r
		}
	}
	return noCopy, ok
}

// Memcpy3DBatchAsync is cuMemcpy3DBatchAsync_v2.
func (d *Driver) Memcpy3DBatchAsync(th *driver.Thread, ops []driver.Memcpy3DBatchOp, flags uint64,
	h driver.Stream) driver.Result {
	_, r := d.Memcpy3DBatchAsyncV1(th, ops, flags, h)
	return r
}

// Memcpy3DBatchAsyncV1 is cuMemcpy3DBatchAsync. It makes the copies in their order. The sizes are checked
// first; then it makes copies up to the first whose memory it refuses, as an H200 does. Arrays are not
// supported.
func (d *Driver) Memcpy3DBatchAsyncV1(th *driver.Thread, ops []driver.Memcpy3DBatchOp, flags uint64,
	h driver.Stream) (failed uint64, r driver.Result) {
	const name = "cuMemcpy3DBatchAsync"
	defer d.mu.Unlock()
	s, r := d.onCopyStream(name, th, h)
	if r != ok {
		return refusedOn(h, r), r
	}
	if len(ops) == 0 || flags != 0 {
		return noCopy, driver.ResultInvalidValue
	}
	for i := range ops {
		o := &ops[i]
		e := extent{o.Extent.Width, o.Extent.Height, o.Extent.Depth}
		if e.empty() || !ordered(o.SrcAccessOrder, o.Flags) || !pointsTo(&o.Dst, e) || !pointsTo(&o.Src, e) {
			return uint64(i), driver.ResultInvalidValue
		}
	}
	for i := range ops {
		o := &ops[i]
		e := extent{o.Extent.Width, o.Extent.Height, o.Extent.Depth}
		dst, src, r := d.boxes(cornerOf(&o.Dst, e), cornerOf(&o.Src, e), e)
		if r == ok {
			r = d.enqueueBox(name, s, dst, src, e)
		}
		if r != ok {
			return noCopy, r
		}
	}
	return noCopy, ok
}

// pointsTo reports whether an end of a copy is an address with room for the rows and planes.
func pointsTo(o *driver.Memcpy3DOperand, e extent) bool {
	c := cornerOf(o, e)
	return o.Type == driver.CU_MEMCPY_OPERAND_TYPE_POINTER && c.pitch >= e.width && c.height >= e.height
}

// cornerOf returns one end of a copy of a batch.
func cornerOf(o *driver.Memcpy3DOperand, e extent) corner {
	p := o.Op.Ptr()
	c := corner{kind: driver.CU_MEMORYTYPE_HOST, host: driver.HostPtr(p.Ptr), pitch: p.RowLength, height: p.LayerHeight}
	if c.pitch == 0 {
		c.pitch = e.width
	}
	if c.height == 0 {
		c.height = e.height
	}
	return c
}

// moveAll is a call that discards ranges of managed memory, prefetches them, or both. If a range is wrong, the call
// fails, but has moved those before it, as on an H100.
func (d *Driver) moveAll(name string, th *driver.Thread, addrs []driver.DevicePtr, sizes []uint64,
	discard, prefetch bool, places []driver.MemLocation, indexes []uint64, flags uint64,
	h driver.Stream) driver.Result {
	defer d.mu.Unlock()
	s, r := d.onBatchStream(name, th, h)
	if r == ok {
		r = d.uncaptured(s)
	}
	if r != ok {
		return r
	}
	switch {
	case len(addrs) == 0, len(sizes) != len(addrs), flags != 0:
		return driver.ResultInvalidValue
	case prefetch && (len(places) != len(indexes) || !firsts(indexes, len(addrs))):
		return driver.ResultInvalidValue
	}
	for _, l := range places {
		if _, r := d.place(l); r != ok {
			return driver.ResultInvalidValue
		}
	}
	at := 0
	for i, p := range addrs {
		m, r := d.managed(p, sizes[i])
		if r != ok {
			return r
		}
		if prefetch {
			for at+1 < len(indexes) && indexes[at+1] <= uint64(i) {
				at++
			}
			// Unlike cuMemPrefetchAsync on an H200, this keeps the number of a host.
			m.advise(func(a *advice) { a.prefetch, a.loaded = places[at], true })
		}
		what := small(func() bool { return true })
		if discard {
			what = extent{m.n, 1, 1}.setting(box{span: m}, []byte{0})
		}
		d.enqueue(s, d.access(&op{Duration: duration(m.n, pinnedBlock)}, what, m))
	}
	return ok
}

// MemPrefetchBatchAsync is cuMemPrefetchBatchAsync.
func (d *Driver) MemPrefetchBatchAsync(th *driver.Thread, addrs []driver.DevicePtr, sizes []uint64,
	places []driver.MemLocation, indexes []uint64, flags uint64, h driver.Stream) driver.Result {
	return d.moveAll("cuMemPrefetchBatchAsync", th, addrs, sizes, false, true, places, indexes, flags, h)
}

// MemDiscardBatchAsync is cuMemDiscardBatchAsync. The content becomes zero.
func (d *Driver) MemDiscardBatchAsync(th *driver.Thread, addrs []driver.DevicePtr, sizes []uint64, flags uint64,
	h driver.Stream) driver.Result {
	return d.moveAll("cuMemDiscardBatchAsync", th, addrs, sizes, true, false, nil, nil, flags, h)
}

// MemDiscardAndPrefetchBatchAsync is cuMemDiscardAndPrefetchBatchAsync. The content becomes zero.
func (d *Driver) MemDiscardAndPrefetchBatchAsync(th *driver.Thread, addrs []driver.DevicePtr, sizes []uint64,
	places []driver.MemLocation, indexes []uint64, flags uint64, h driver.Stream) driver.Result {
	return d.moveAll("cuMemDiscardAndPrefetchBatchAsync", th, addrs, sizes, true, true, places, indexes, flags, h)
}
