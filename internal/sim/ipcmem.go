package sim

import (
	"cmp"
	"encoding/binary"
	"errors"
	"os"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

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
	return h.fd >= 0 && h.size > 0 && h.size <= deviceMemory
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
func (d *Driver) shareMemory(op string, b *block) (r driver.Result) {
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
		r = d.lacks(op, err, b.size, driver.ResultOutOfMemory)
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
		d.space.regions.Store(nil)
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
	for _, b := range d.space.blocks {
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
