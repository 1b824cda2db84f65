package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// word returns the memory of an aligned word.
func (d *Driver) word(p driver.DevicePtr, size uint64) (span, driver.Result) {
	if uint64(p)%size != 0 {
		return span{}, driver.ResultInvalidValue
	}
	s, r := d.space.span(uint64(p), size)
	// as an H200's driver answers
	if r == ok && (s.kind.managed() || s.kind.pooled() || s.kind == graphBlock) {
		r = driver.ResultInvalidValue
	}
	return s, r
}

// passes reports whether a value in memory ends a stream's wait. signed converts a difference to a
// signed number, as values may wrap around.
func passes(have, want uint64, flags uint32, all uint64, signed func(uint64) int64) bool {
	switch flags {
	case driver.CU_STREAM_WAIT_VALUE_GEQ:
		return signed(have-want) >= 0
	case driver.CU_STREAM_WAIT_VALUE_EQ:
		return have == want
	case driver.CU_STREAM_WAIT_VALUE_AND:
		return have&want != 0
	}
	return ^(have|want)&all != 0
}

// passes32 is passes for 32 bits.
func passes32(have, want, flags uint32) bool {
	return passes(uint64(have), uint64(want), flags, 1<<32-1, func(v uint64) int64 { return int64(int32(v)) })
}

// passes64 is passes for 64 bits.
func passes64(have, want uint64, flags uint32) bool {
	return passes(have, want, flags, 1<<64-1, func(v uint64) int64 { return int64(v) })
}

// waitValue makes a stream wait until a word in memory passes.
func (d *Driver) waitValue(name string, th *driver.Thread, h driver.Stream, p driver.DevicePtr, size uint64, flags uint32, passes func([]byte) bool) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, h)
	if r != ok {
		return r
	}
	w, r := d.waitWork(p, size, flags, passes)
	if r == ok {
		r = d.reachesWord(s.ctx, p)
	}
	if r != ok {
		return r
	}
	return d.submit(s, w)
}

// reachesWord returns ok if a stream of a context can wait for a word, or write it: not in another device's memory.
func (d *Driver) reachesWord(c *context, p driver.DevicePtr) driver.Result {
	if b := d.space.At(uint64(p)); b != nil && !c.reaches(b) {
		return driver.ResultInvalidValue
	}
	return ok
}

// waitValueWork waits until a word in memory passes.
type waitValueWork struct {
	valueWork
	passes func([]byte) bool
}

// valueWork is that of a node with one operation on a word in memory.
type valueWork struct {
	commonWork
	d    *Driver
	word span
}

// Type implements graph.Work.
func (valueWork) Type() graph.Type { return graph.BatchMemOpNode }

// Updatable implements graph.Work: a batch cannot replace the operation.
func (valueWork) Updatable(other graph.Work) bool {
	_, batch := other.(*memOps)
	return !batch
}

func (w valueWork) Replaceable(other graph.Work) bool { return w.Updatable(other) }

// waitWork returns the work that waits until a word in memory passes.
func (d *Driver) waitWork(p driver.DevicePtr, size uint64, flags uint32,
	passes func([]byte) bool) (work, driver.Result) {
	switch {
	case flags&driver.CU_STREAM_WAIT_VALUE_FLUSH != 0: // not supported, according to the device's attribute
		return nil, driver.ResultNotSupported
	case flags > driver.CU_STREAM_WAIT_VALUE_NOR:
		return nil, driver.ResultInvalidValue
	}
	w, r := d.word(p, size)
	return &waitValueWork{valueWork{d: d, word: w}, passes}, r
}

func (w *waitValueWork) op(graph.Values) *op {
	o := w.d.access(&op{}, small(func() bool { return w.passes(w.word.word()) || true }), w.word)
	o.Ready = func() bool { return look(w.word, w.passes) }
	return o
}

// look reports whether a word ends a wait. If the memory was freed, the operation continues, and
// has a fault.
func look(w span, passes func([]byte) bool) (yes bool) {
	switch {
	case w.gone || w.asleep:
		return true
	case !w.kind.foreign():
		return passes(w.word())
	}
	return !touch(func() { yes = passes(w.word()) }) || yes
}

// writeValue makes a stream write a word.
func (d *Driver) writeValue(name string, th *driver.Thread, h driver.Stream, p driver.DevicePtr, size uint64, flags uint32, write func([]byte)) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, h)
	switch {
	case r != ok:
		return r
	case flags != 0: // an H200's driver does not accept CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER either
		return driver.ResultInvalidValue
	}
	w, r := d.writeWork(p, size, write)
	if r == ok {
		r = d.reachesWord(s.ctx, p)
	}
	if r != ok {
		return r
	}
	return d.submit(s, w)
}

// writeValueWork writes a word in memory.
type writeValueWork struct {
	valueWork
	write func([]byte)
}

// writeWork returns the work that writes a word.
func (d *Driver) writeWork(p driver.DevicePtr, size uint64, write func([]byte)) (work, driver.Result) {
	w, r := d.word(p, size)
	return &writeValueWork{valueWork{d: d, word: w}, write}, r
}

func (w *writeValueWork) op(graph.Values) *op {
	to := w.word
	return w.d.access(&op{}, movement{ready: func() bool { return to.Provide(0, to.n) }, run: func() bool {
		if !to.allowed(driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE) { // as on an H200
			w.d.poison(driver.ResultLaunchFailed)
			return true
		}
		if !to.Provide(0, to.n) {
			return false
		}
		w.write(to.word())
		to.written(0, to.n)
		return true
	}}, to)
}

// StreamWaitValue32 is cuStreamWaitValue32_v2.
func (d *Driver) StreamWaitValue32(th *driver.Thread, h driver.Stream, p driver.DevicePtr, v, flags uint32) driver.Result {
	return d.waitValue("cuStreamWaitValue32", th, h, p, 4, flags, func(b []byte) bool { return passes32(load32(b), v, flags) })
}

// StreamWaitValue64 is cuStreamWaitValue64_v2.
func (d *Driver) StreamWaitValue64(th *driver.Thread, h driver.Stream, p driver.DevicePtr, v uint64, flags uint32) driver.Result {
	return d.waitValue("cuStreamWaitValue64", th, h, p, 8, flags, func(b []byte) bool { return passes64(load64(b), v, flags) })
}

// StreamWriteValue32 is cuStreamWriteValue32_v2.
func (d *Driver) StreamWriteValue32(th *driver.Thread, h driver.Stream, p driver.DevicePtr, v, flags uint32) driver.Result {
	return d.writeValue("cuStreamWriteValue32", th, h, p, 4, flags, func(b []byte) { store32(b, v) })
}

// StreamWriteValue64 is cuStreamWriteValue64_v2.
func (d *Driver) StreamWriteValue64(th *driver.Thread, h driver.Stream, p driver.DevicePtr, v uint64, flags uint32) driver.Result {
	return d.writeValue("cuStreamWriteValue64", th, h, p, 8, flags, func(b []byte) { store64(b, v) })
}
