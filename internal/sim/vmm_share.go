package sim

import "github.com/purecu/purecu/driver"

// This file has physical memory that processes share.

// MemExportToShareableHandle is cuMemExportToShareableHandle. The handle is the descriptor of a file
// with the content.
func (d *Driver) MemExportToShareableHandle(_ *driver.Thread, h driver.MemGenericAllocationHandle, handleType int32,
	flags uint64) (s driver.ShareableHandle, r driver.Result) {
	defer d.mu.Unlock()
	p, r := d.aboutPhysical("cuMemExportToShareableHandle", h)
	switch {
	case r != ok:
		return s, r
	case p.shared == nil || p.imported || handleType != driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0:
		return s, driver.ResultInvalidValue
	}
	fd, err := p.shared.duplicate()
	if err != nil {
		return s, d.lacks("cuMemExportToShareableHandle", err, 0, driver.ResultOutOfMemory)
	}
	s[0] = uint64(uint32(fd))
	return s, ok
}

// MemImportFromShareableHandle is cuMemImportFromShareableHandle.
func (d *Driver) MemImportFromShareableHandle(_ *driver.Thread, fd driver.HostPtr,
	handleType int32) (driver.MemGenericAllocationHandle, driver.Result) {
	const name = "cuMemImportFromShareableHandle"
	defer d.mu.Unlock()
	if r := d.begin(name); r != ok {
		return 0, r
	}
	switch handleType {
	case driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
	case driver.CU_MEM_HANDLE_TYPE_WIN32:
		return 0, driver.ResultNotSupported
	default:
		return 0, driver.ResultInvalidValue
	}
	if fd == 0 { // NULL, in C
		return 0, driver.ResultInvalidValue
	}
	size := sizeOfFile(int(int32(fd)))
	if !isMemoryFile(size) {
		return 0, driver.ResultUnknown
	}
	s, err := openFile(int(int32(fd)), size)
	if err != nil {
		return 0, d.lacks(name, err, size, driver.ResultOutOfMemory)
	}
	v := d.devices[0] // the file does not say
	return d.addPhysical(&physical{dev: v, size: size, shared: s, imported: true, prop: driver.MemAllocationProp{
		Type:     driver.CU_MEM_ALLOCATION_TYPE_PINNED,
		Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: int32(v.ordinal)}}}), ok
}
