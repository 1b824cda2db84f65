package sim

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/engine"
)

// Processes share an event through two numbers in memory that all of them have mapped: the number
// of the newest record, and the number of the newest completed record. A process that records the
// event raises the first number when it enqueues the record, and the second one when the stream
// reaches the record. Records complete in their order. The event is complete when the numbers are
// equal.
//
// A process is not notified when a record of another process completes. It polls the numbers, in
// real time even if its own time is virtual, as other processes do not know that time. A record
// that never runs, because its process died or its device has a sticky error, stays pending for all
// processes, and so do all later records.

// ipcSlot is the state of an event that processes share. Bit 31 of the state says that the event
// can be opened. The bits below count the events, of all processes, that use the slot. The bits
// above are the slot's generation: how often it was assigned to an event.
type ipcSlot struct {
	state    atomic.Uint64
	issued   atomic.Uint64
	complete atomic.Uint64
	_        [5]uint64 // padding: slots do not share cache lines
}

const (
	ipcOpen       = 1 << 31
	ipcUsers      = ipcOpen - 1
	ipcGeneration = 32
)

// join counts one more event that uses the slot, if the slot's event can be opened and has this
// generation.
func (s *ipcSlot) join(generation uint32) bool {
	for {
		v := s.state.Load()
		if v>>ipcGeneration != uint64(generation) || v&ipcOpen == 0 || v&ipcUsers == ipcUsers {
			return false
		}
		if s.state.CompareAndSwap(v, v+1) {
			return true
		}
	}
}

// reached reports whether a record is complete.
func (s *ipcSlot) reached(record uint64) bool { return s.complete.Load() >= record }

// ipcPage is the layout of a file of slots.
type ipcPage struct {
	magic   uint64
	version uint64
	id      ipcID
	_       [4]uint64
	slots   [255]ipcSlot
}

// ipcID is the unique identifier of a file.
type ipcID [16]byte

const (
	ipcMagic   = 0x7665_7563_6572_7570 // "purecuev" in memory
	ipcVersion = 1
)

// errNoIPCFile is the error for a file that does not exist, or has another identifier.
var errNoIPCFile = errors.New("there is no such file of shared events")

// ipcFile is a mapped file of slots.
type ipcFile struct {
	*ipcMapping
	page *ipcPage
	mine bool // this driver has created the file
	used int  // number of slots that this driver's events use
	next int  // where the search for a free slot begins
}

// take assigns a free slot to an event.
func (f *ipcFile) take() (slot int, found bool) {
	for range f.page.slots {
		i := f.next
		f.next = (f.next + 1) % len(f.page.slots)
		s := &f.page.slots[i]
		v := s.state.Load()
		if v&(ipcOpen|ipcUsers) != 0 {
			continue
		}
		// Only the process that has created the file changes a free slot. Generations wrap around
		// after 2^32 events.
		s.issued.Store(0)
		s.complete.Store(0)
		s.state.Store((v>>ipcGeneration+1)<<ipcGeneration | ipcOpen | 1)
		return i, true
	}
	return 0, false
}

// ipcEvent connects an event with its slot.
type ipcEvent struct {
	d          *Driver
	e          *event
	file       *ipcFile
	slot       *ipcSlot
	index      int
	generation uint32
	known      uint64 // the number of the record that the event's point stands for
	relays     []ipcRelay
	uses       int // the event itself, and its pending operations

	timer *time.Timer
	armed bool
	every time.Duration
}

// ipcRelay is an operation that represents a record of another process. It is on no stream.
// Operations of this process wait for it, and it completes when the other process's record has.
type ipcRelay struct {
	op    *op
	until uint64
}

// newIPCEvent connects an event with a slot, which already counts the event as a user.
func (d *Driver) newIPCEvent(e *event, f *ipcFile, index int, generation uint32) {
	f.used++
	e.ipc = &ipcEvent{d: d, e: e, file: f, slot: &f.page.slots[index], index: index, generation: generation, uses: 1}
}

// release ends one use of the slot.
func (v *ipcEvent) release() {
	if v.uses--; v.uses > 0 {
		return
	}
	if v.timer != nil {
		v.timer.Stop()
	}
	v.slot.state.Add(^uint64(0))
	v.slot = nil
	if v.file.used--; v.file.used == 0 {
		v.file.close()
	}
}

// destroy ends the event's own use of the slot. If this event has exported the handles, they cannot
// be opened any more. Processes that have opened them keep the slot.
func (v *ipcEvent) destroy() {
	if v.file.mine {
		v.slot.state.And(^uint64(ipcOpen))
	}
	if len(v.d.waits) == 0 { // a waiting call may wait for any relay
		v.relays = slices.DeleteFunc(v.relays, func(r ipcRelay) bool {
			unused := !r.op.Awaited()
			if unused {
				v.release()
			}
			return unused
		})
	}
	v.release()
}

// sync updates the event's point from the slot, as other processes may have recorded or completed
// the event.
func (v *ipcEvent) sync() {
	v.completeReached()
	newest := v.slot.issued.Load()
	if newest == v.known {
		return
	}
	v.known = newest
	v.e.state, v.e.point = recorded, point{at: v.d.engine.Clock.At()}
	if !v.slot.reached(newest) {
		v.e.point = point{op: v.relay(newest)}
	}
}

// relay returns an operation that completes when a record is complete.
func (v *ipcEvent) relay(until uint64) *op {
	o := &op{}
	v.relays = append(v.relays, ipcRelay{o, until})
	v.uses++
	v.every = engine.PollEvery
	v.arm()
	return o
}

// completeReached completes the relays whose records are complete.
func (v *ipcEvent) completeReached() {
	var reached []*op
	v.relays = slices.DeleteFunc(v.relays, func(r ipcRelay) bool {
		if !v.slot.reached(r.until) {
			return false
		}
		reached = append(reached, r.op)
		v.uses-- // not the last use: see the callers
		return true
	})
	v.d.engine.Reached(reached)
}

// issue makes an operation the newest record of the event for all processes. It returns the
// operation that it has to follow, or nil. sync has updated the event's point before.
func (v *ipcEvent) issue(o *op) (after *op) {
	record := v.slot.issued.Add(1)
	switch {
	case v.slot.reached(record - 1):
	case v.known == record-1:
		after = v.e.point.op
	default: // another process was faster
		after = v.relay(record - 1)
	}
	v.known = record
	v.completes(o, record)
	return after
}

// completes makes the operation complete a record. If the operation never runs, the record stays
// pending.
func (v *ipcEvent) completes(o *op, record uint64) {
	v.uses++
	effect := o.Effect
	o.Visible = true
	o.Effect = func() {
		if effect != nil {
			effect()
		}
		v.slot.complete.Store(record)
		v.release()
	}
	o.Dropped = v.release
}

// pollMost is the longest interval between two polls of another process's record. The first
// interval is engine.PollEvery.
const pollMost = time.Millisecond

// arm starts the timer that polls records of other processes.
func (v *ipcEvent) arm() {
	switch {
	case v.armed:
		return
	case v.timer == nil:
		v.timer = time.AfterFunc(v.every, v.fire)
	default:
		v.timer.Reset(v.every)
	}
	v.armed = true
}

// fire is the function of the timer.
func (v *ipcEvent) fire() {
	v.d.mu.Lock()
	defer v.d.mu.Unlock()
	v.armed = false
	if len(v.relays) == 0 {
		return
	}
	v.d.engine.CatchUp()
	v.uses++ // until completeReached has returned
	v.completeReached()
	if len(v.relays) > 0 {
		v.every = min(2*v.every, pollMost)
		v.arm()
	}
	v.release()
}

// The handle of an event, in bytes:
//
//	 0  8  magic
//	 8  4  version
//	12  4  slot
//	16  4  the slot's generation
//	20  4  process
//	24  4  the file's descriptor in that process, -1 if the file has a name
//	28  4  0
//	32  8  what the process's number is valid in, as far as that is known
//	40 16  id of the file
//	56  8  FNV-1a of all that
type ipcHandle struct {
	slot, generation uint32
	pid              uint32
	fd               int32
	namespace        uint64
	file             ipcID
}

// ipcSum returns the sum at the end of a handle.
func ipcSum(b []byte) uint64 {
	f := fnv.New64a()
	f.Write(b)
	return f.Sum64()
}

// encode returns the handle's bytes.
func (h *ipcHandle) encode() (b driver.IPCEventHandle) {
	le := binary.LittleEndian
	le.PutUint64(b[0:], ipcMagic)
	le.PutUint32(b[8:], ipcVersion)
	le.PutUint32(b[12:], h.slot)
	le.PutUint32(b[16:], h.generation)
	le.PutUint32(b[20:], h.pid)
	le.PutUint32(b[24:], uint32(h.fd))
	le.PutUint64(b[32:], h.namespace)
	copy(b[40:56], h.file[:])
	le.PutUint64(b[56:], ipcSum(b[:56]))
	return b
}

// decode reads a handle's bytes, and reports whether they are a handle.
func (h *ipcHandle) decode(b driver.IPCEventHandle) bool {
	le := binary.LittleEndian
	if le.Uint64(b[0:]) != ipcMagic || le.Uint32(b[8:]) != ipcVersion || le.Uint64(b[56:]) != ipcSum(b[:56]) {
		return false
	}
	*h = ipcHandle{
		slot: le.Uint32(b[12:]), generation: le.Uint32(b[16:]),
		pid: le.Uint32(b[20:]), fd: int32(le.Uint32(b[24:])), namespace: le.Uint64(b[32:]),
	}
	copy(h.file[:], b[40:56])
	return h.slot < uint32(len(ipcPage{}.slots))
}

// mapped returns a mapped file of slots for which fits reports true. It searches the events, which
// refer to their files.
func (d *Driver) mapped(fits func(*ipcFile) bool) *ipcFile {
	for _, p := range slices.Backward(d.objects.places) {
		if e, is := p.object.(*event); is && e.ipc != nil && fits(e.ipc.file) {
			return e.ipc.file
		}
	}
	return nil
}

// export assigns a slot to an event, and creates a new file if no file has a free slot.
func (d *Driver) export(e *event) error {
	index := 0
	var full *ipcFile // neighbours share it
	f := d.mapped(func(f *ipcFile) (found bool) {
		if f.mine && f != full {
			index, found = f.take()
			full = f
		}
		return found
	})
	if f == nil {
		var err error
		d.unlocked(func() { f, err = d.newIPCFile(false) }) // it looks into folders
		if err != nil {
			return err
		}
		if object, _ := d.objects.find(uintptr(e.handle)); object != e || e.ctx.destroyed || e.ipc != nil {
			f.close()
			return nil // another call has destroyed the event, or exported it
		}
		index, _ = f.take()
	}
	d.share(e, f, index)
	return nil
}

// share connects an event with a slot that was assigned to it.
func (d *Driver) share(e *event, f *ipcFile, index int) {
	generation := uint32(f.page.slots[index].state.Load() >> ipcGeneration)
	d.newIPCEvent(e, f, index, generation)
	if o := e.point.op; o != nil && !o.Done() {
		e.ipc.known = e.ipc.slot.issued.Add(1)
		e.ipc.completes(o, e.ipc.known)
		d.engine.Arm() // the record is visible to other processes from now on
	}
}

// IpcGetEventHandle is cuIpcGetEventHandle. An event of another process has no handle in this
// process.
func (d *Driver) IpcGetEventHandle(th *driver.Thread, h driver.Event) (handle driver.IPCEventHandle, r driver.Result) {
	const name = "cuIpcGetEventHandle"
	defer d.mu.Unlock()
	if r := d.begin(name); r != ok {
		return handle, r
	}
	if h == 0 {
		return handle, driver.ResultInvalidValue
	}
	if d.thread(th).current() == nil {
		return handle, driver.ResultInvalidContext
	}
	e, r := d.event(name, h)
	switch {
	case e == nil:
		return handle, driver.ResultInvalidHandle
	case r != ok:
		return handle, r
	case e.flags&driver.CU_EVENT_INTERPROCESS == 0, e.orphan, e.ipc != nil && !e.ipc.file.mine:
		return handle, driver.ResultInvalidHandle
	}
	if e.ipc == nil {
		if err := d.export(e); err != nil {
			return handle, d.ipcResult(name, err)
		}
		if r := d.live(e.ctx); r != ok || e.ipc == nil {
			return handle, cmp.Or(r, driver.ResultInvalidHandle)
		}
	}
	v := e.ipc
	made := ipcHandle{
		slot: uint32(v.index), generation: v.generation,
		pid: uint32(os.Getpid()), fd: v.file.descriptor(), namespace: pidNamespace(), file: v.file.page.id,
	}
	return made.encode(), ok
}

// ipcResult returns the result for a file that could not be created, opened or mapped.
func (d *Driver) ipcResult(op string, err error) driver.Result {
	if errors.Is(err, errors.ErrUnsupported) {
		return driver.ResultNotSupported
	}
	const size = 16 << 10 // of an ipcPage
	return d.lacks(op, err, size, driver.ResultMapFailed)
}

// gone reports whether a file could not be mapped because it no longer exists.
func gone(err error) bool { return errors.Is(err, errNoIPCFile) || errors.Is(err, fs.ErrNotExist) }

// IpcOpenEventHandle is cuIpcOpenEventHandle. The event belongs to the current context, on any
// device. As on an H200, a handle can still be opened after its event was destroyed, or after its
// process has ended. Such an event is complete and shared with no other process. Events that were
// opened before continue to work.
func (d *Driver) IpcOpenEventHandle(th *driver.Thread, handle driver.IPCEventHandle) (driver.Event, driver.Result) {
	const name = "cuIpcOpenEventHandle"
	defer d.mu.Unlock()
	c, _, r := d.inContext(name, th)
	if r != ok {
		return 0, r
	}
	var h ipcHandle
	switch {
	case !h.decode(handle):
		return 0, driver.ResultMapFailed
	case h.pid == uint32(os.Getpid()) && h.namespace == pidNamespace():
		return 0, driver.ResultInvalidContext
	}
	f := d.mapped(func(f *ipcFile) bool { return !f.mine && f.page.id == h.file })
	if f == nil {
		var err error
		f, err = openIPCFile(&h)
		if err != nil && !gone(err) {
			return 0, d.ipcResult(name, err)
		}
	}
	e := d.newEvent(c, driver.CU_EVENT_INTERPROCESS|driver.CU_EVENT_DISABLE_TIMING)
	if f != nil && f.page.slots[h.slot].join(h.generation) {
		d.newIPCEvent(e, f, int(h.slot), h.generation)
		return e.handle, ok
	}
	if f != nil && f.used == 0 {
		f.close()
	}
	e.orphan = true
	d.misuse(name, uintptr(e.handle), "the event that was to be opened is gone: it was destroyed, or its process has ended", nil)
	return e.handle, ok
}
