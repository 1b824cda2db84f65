package sim

import (
	"cmp"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/descriptor"
	"github.com/purecu/purecu/internal/sim/mem"
)

// This file has memory of other APIs. Here such memory is what files of cuMemExportToShareableHandle stand
// for, which a GPU's driver accepts, too.

// external begins a call with an object that is of another API, and of a context.
func external[T any](d *Driver, name string, k kind, h uintptr) (*T, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	x, r := find[T](d, name, k, h)
	if r != ok {
		return nil, driver.ResultInvalidValue
	}
	return x, ok
}

// leaving begins a call that destroys an import. It is refused during a capture, before its argument is looked at.
func leaving[T any](d *Driver, name string, th *driver.Thread, k kind, h uintptr) (*T, driver.Result) {
	x, r := external[T](d, name, k, h)
	if r == ok || r == driver.ResultInvalidValue {
		r = cmp.Or(d.forbidden(d.thread(th), nil), r)
	}
	return x, r
}

// ImportExternalMemory is cuImportExternalMemory. If it succeeds, the file descriptor is the driver's. As
// on a GPU, the size may be larger than that of the memory.
func (d *Driver) ImportExternalMemory(th *driver.Thread,
	desc driver.ExternalMemoryHandleDesc) (driver.ExternalMemory, driver.Result) {
	defer d.mu.Unlock()
	c, r := d.changing("cuImportExternalMemory", th)
	fd := *desc.Handle.Fd()
	switch {
	case r != ok:
		return 0, r
	case desc.Size == 0, desc.Flags&^uint32(driver.CUDA_EXTERNAL_MEMORY_DEDICATED) != 0:
		return 0, driver.ResultInvalidValue
	}
	dedicated := desc.Flags != 0
	wrong := false // as an H200 checks it
	switch desc.Type {
	case driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32,
		driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_KMT, driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP:
	case driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE, driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE,
		driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE_KMT:
		wrong = !dedicated
	case driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF:
		wrong = dedicated
	case driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD:
		wrong = dedicated || fd < 0
	default:
		wrong = true
	}
	switch {
	case wrong:
		return 0, driver.ResultInvalidValue
	case desc.Type != driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD:
		return 0, driver.ResultNotSupported
	}
	if !canShareMemory {
		return 0, driver.ResultNotSupported
	}
	size := sizeOfFile(int(fd))
	if !isMemoryFile(size) {
		return 0, driver.ResultUnknown
	}
	f, err := openFile(int(fd), size)
	if err != nil {
		return 0, d.lacks("cuImportExternalMemory", err, 0, driver.ResultOutOfMemory)
	}
	descriptor.Close(fd)
	m := &externalMemory{ctx: c, file: f, size: min(size, desc.Size), dedicated: dedicated}
	m.handle = driver.ExternalMemory(d.objects.add(externalMemoryKind, m))
	c.imported = append(c.imported, m)
	return m.handle, ok
}

// isMemoryFile reports whether a file with a size can be one of physical memory.
func isMemoryFile(size uint64) bool {
	return size != 0 && size%granularity == 0 && size <= mostMemory
}

// ExternalMemoryGetMappedBuffer is cuExternalMemoryGetMappedBuffer. Each call maps the memory at another
// address, where it stays when the external memory is destroyed. As on an H200, neither a capture nor
// a sticky error matters.
func (d *Driver) ExternalMemoryGetMappedBuffer(_ *driver.Thread, h driver.ExternalMemory,
	desc driver.ExternalMemoryBufferDesc) (driver.DevicePtr, driver.Result) {
	const name = "cuExternalMemoryGetMappedBuffer"
	defer d.mu.Unlock()
	m, r := external[externalMemory](d, name, externalMemoryKind, uintptr(h))
	if r == ok && m.ctx.destroyed {
		r = d.of(name, m.ctx, uintptr(h), externalMemoryKind)
	}
	switch {
	case r != ok:
		return 0, r
	case desc.Size == 0, desc.Offset > m.size, desc.Size > m.size-desc.Offset, desc.Flags != 0,
		m.dedicated && desc.Offset != 0, desc.Reserved != [16]uint32{}:
		return 0, driver.ResultInvalidValue
	}
	f, err := m.file.again()
	if err != nil {
		return 0, d.lacks(name, err, 0, driver.ResultOutOfMemory)
	}
	if err := f.mapMemory(); err != nil {
		f.close()
		return 0, d.lacks(name, err, 0, driver.ResultOutOfMemory)
	}
	page := desc.Offset % granularity // the address has it, too
	addr, there := d.space.reserve(page+desc.Size, granularity)
	if !there {
		f.close()
		return 0, driver.ResultOutOfMemory
	}
	end := desc.Offset + desc.Size
	d.space.add(&block{addr: addr + page, size: desc.Size, kind: externalBlock, ctx: m.ctx,
		mem: mem.Of(f.mapped()[desc.Offset:end:end]), blockOwner: blockOwner{shared: &ipcMemory{file: f}}})
	return driver.DevicePtr(addr + page), ok
}

// DestroyExternalMemory is cuDestroyExternalMemory. It does not wait.
func (d *Driver) DestroyExternalMemory(th *driver.Thread, h driver.ExternalMemory) driver.Result {
	const name = "cuDestroyExternalMemory"
	defer d.mu.Unlock()
	m, r := leaving[externalMemory](d, name, th, externalMemoryKind, uintptr(h))
	if r == ok && m.ctx.destroyed {
		r = d.of(name, m.ctx, uintptr(h), externalMemoryKind)
	}
	if r != ok {
		return r
	}
	d.objects.remove(uintptr(h))
	m.ctx.forgetImport(m)
	d.space.discard(m.file)
	r = d.lost
	d.reclaim()
	return r
}
