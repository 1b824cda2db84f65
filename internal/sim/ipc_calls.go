package sim

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/purecu/purecu/driver"
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

// newIPCEvent connects an event with a slot, which already counts the event as a user.
func (d *Driver) newIPCEvent(e *event, f *ipcFile, index int, generation uint32) {
	f.used++
	e.ipc = &ipcEvent{d: d, e: e, file: f, slot: &f.page.slots[index], index: index, generation: generation, uses: 1}
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
