package sim

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
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
func (d *Driver) ipcResult(name string, err error) driver.Result {
	if errors.Is(err, errors.ErrUnsupported) {
		return driver.ResultNotSupported
	}
	const size = 16 << 10 // of an ipcPage
	return d.lacks(name, err, size, driver.ResultMapFailed)
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
	d.misuse(name, uintptr(e.handle),
		"the event that was to be opened is gone: it was destroyed, or its process has ended", nil)
	return e.handle, ok
}

// Processes share memory of cuMemAlloc through a file with its content, which all of them have mapped.
// The first handle of the memory moves the content there. The file has no name: other processes find
// it in /proc, among the descriptors of the process that has allocated the memory. They keep the
// content when that process frees the memory, as on an H200.

const ipcMemMagic = 0x6d65_7563_6572_7570 // "purecuem" in memory

// encode returns the handle's bytes.
func (h *ipcMemHandle) encode() (b driver.IPCMemHandle) {
	le := binary.LittleEndian
	le.PutUint64(b[0:], ipcMemMagic)
	le.PutUint32(b[8:], ipcVersion)
	le.PutUint32(b[12:], h.pid)
	le.PutUint64(b[16:], h.namespace)
	le.PutUint32(b[24:], uint32(h.fd))
	le.PutUint64(b[32:], h.size)
	copy(b[40:56], h.file[:])
	le.PutUint64(b[56:], ipcSum(b[:56]))
	return b
}

// decode reads a handle's bytes, and reports whether they are a handle.
func (h *ipcMemHandle) decode(b driver.IPCMemHandle) bool {
	le := binary.LittleEndian
	if le.Uint64(b[0:]) != ipcMemMagic || le.Uint32(b[8:]) != ipcVersion || le.Uint64(b[56:]) != ipcSum(b[:56]) {
		return false
	}
	*h = ipcMemHandle{
		pid: le.Uint32(b[12:]), namespace: le.Uint64(b[16:]), fd: int32(le.Uint32(b[24:])), size: le.Uint64(b[32:]),
	}
	copy(h.file[:], b[40:56])
	return h.fd >= 0 && h.size > 0 && h.size <= mostMemory
}

// IpcGetMemHandle is cuIpcGetMemHandle. The handle is of the whole allocation. Unlike a GPU's driver it
// waits until no kernel is executed, as the content of the memory may move, unless nothing has used
// the memory.
func (d *Driver) IpcGetMemHandle(th *driver.Thread, p driver.DevicePtr) (handle driver.IPCMemHandle, r driver.Result) {
	const name = "cuIpcGetMemHandle"
	defer d.mu.Unlock()
	c, _, r := d.inContext(name, th)
	switch {
	case r == driver.ResultInvalidContext && p == 0:
		return handle, driver.ResultInvalidValue
	case r != ok:
		return handle, r
	}
	b := d.space.known(p)
	if b == nil || b.kind != deviceBlock {
		return handle, driver.ResultInvalidValue
	}
	if b.shared == nil {
		if r := cmp.Or(d.shareMemory(name, b), d.live(c)); r != ok {
			return handle, r
		}
	}
	h := ipcMemHandle{
		pid: uint32(os.Getpid()), fd: b.shared.file.descriptor(), namespace: pidNamespace(),
		size: b.size, file: b.shared.id,
	}
	return h.encode(), ok
}

// shareMemory moves the content of a block to a file, if other processes can open it. The driver is
// unlocked while the file system allocates the file, while kernels are executed, and while bytes are copied.
// Other calls may free the memory then, or share it.
func (d *Driver) shareMemory(name string, b *block) (r driver.Result) {
	var f *memoryFile
	var id ipcID
	size := rounded(b.size)
	if !d.space.budget.Take(size) { // the file system is memory of the machine, as a rule
		return driver.ResultOutOfMemory
	}
	var err error
	d.unlocked(func() { f, id, err = d.newIPCMemory(b.size) })
	switch {
	case err == nil:
		f.charged = size
	case errors.Is(err, errors.ErrUnsupported):
		r = driver.ResultNotSupported
	default:
		r = d.lacks(name, err, b.size, driver.ResultOutOfMemory)
	}
	moves := func() bool { return r == ok && b.shared == nil && !b.gone && !b.leaving }
	if moves() && (d.engine.Moves() || !b.mem.Freeze()) {
		if d.engine.Quiet(); moves() {
			begin := d.engine.BeforeMove
			defer d.engine.Stall(func() {
				begin()
				b.mem.CopyTo(f.mapped())
			})()
		}
	}
	unused := f
	switch {
	case b.gone || b.leaving:
		r = driver.ResultInvalidValue
	case b.shared != nil:
		r = ok
	case r == ok:
		d.space.retire(b.mem)
		b.mem, b.shared, unused = mem.Of(f.mapped()[:b.size:b.size]), &ipcMemory{file: f, id: id}, nil
		b.defined = nil // nobody knows what other processes write
		d.space.Changed()
	}
	switch {
	case unused != nil:
		d.space.discard(unused)
	case f == nil:
		d.space.budget.Give(size)
	}
	return r
}

// IpcOpenMemHandle is cuIpcOpenMemHandle_v2. As on an H200, a context that opens memory again gets
// the same address, and no other context of the device can open it meanwhile.
func (d *Driver) IpcOpenMemHandle(th *driver.Thread, handle driver.IPCMemHandle,
	flags uint32) (driver.DevicePtr, driver.Result) {
	const name = "cuIpcOpenMemHandle"
	defer d.mu.Unlock()
	c, _, r := d.inContext(name, th)
	var h ipcMemHandle
	switch {
	case r != ok:
		return 0, r
	case flags&driver.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS == 0, !h.decode(handle):
		return 0, driver.ResultInvalidValue
	case h.pid == uint32(os.Getpid()) && h.namespace == pidNamespace():
		return 0, driver.ResultInvalidContext
	}
	for _, b := range d.space.All() {
		if b.kind != ipcBlock || b.shared.id != h.file || b.leaving {
			continue
		}
		if b.ctx == c {
			b.shared.opens++
			return driver.DevicePtr(b.addr), ok
		}
		if b.ctx.dev == c.dev {
			return 0, driver.ResultInvalidHandle
		}
	}
	f, err := openIPCMemory(&h)
	switch {
	case lacksMachine(err):
		return 0, d.lacks(name, err, h.size, driver.ResultMapFailed)
	case err != nil:
		return 0, driver.ResultInvalidValue
	}
	addr, there := d.space.place(h.size)
	if !there {
		f.close()
		return 0, driver.ResultOutOfMemory
	}
	d.space.add(&block{addr: addr, size: h.size, kind: ipcBlock, ctx: c, mem: mem.Of(f.mapped()[:h.size:h.size]),
		blockOwner: blockOwner{shared: &ipcMemory{file: f, id: h.file, opens: 1}}})
	return driver.DevicePtr(addr), ok
}

// IpcCloseMemHandle is cuIpcCloseMemHandle. The last one for an address waits for all work in the
// context.
func (d *Driver) IpcCloseMemHandle(th *driver.Thread, p driver.DevicePtr) driver.Result {
	const name = "cuIpcCloseMemHandle"
	defer d.mu.Unlock()
	if _, _, r := d.inContext(name, th); r != ok {
		return r
	}
	b := d.space.of(uint64(p), ipcBlock)
	if b == nil {
		return driver.ResultInvalidValue
	}
	if b.shared.opens--; b.shared.opens > 0 {
		return ok
	}
	r := d.free(name, b)
	if !b.gone {
		b.shared.opens++
	}
	return r
}
