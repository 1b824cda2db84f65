package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
)

// described checks the properties of physical memory, and returns its device. This driver has no
// physical memory of the host, none that is compressed, and none for other kinds of handles.
func (d *Driver) described(p *driver.MemAllocationProp) (*device, driver.Result) {
	const win32 = driver.CU_MEM_HANDLE_TYPE_WIN32 | driver.CU_MEM_HANDLE_TYPE_WIN32_KMT
	host := p.Location.Type == driver.CU_MEM_LOCATION_TYPE_HOST ||
		p.Location.Type == driver.CU_MEM_LOCATION_TYPE_HOST_NUMA
	var v *device
	if p.Location.Type == driver.CU_MEM_LOCATION_TYPE_DEVICE {
		var r driver.Result
		if v, r = d.device(driver.Device(p.Location.ID)); r != ok {
			return nil, r
		}
	}
	switch {
	case p.Type != driver.CU_MEM_ALLOCATION_TYPE_PINNED, p.Win32HandleMetaData != 0,
		p.RequestedHandleTypes&win32 != 0, p.AllocFlags.Reserved != [4]uint8{},
		p.AllocFlags.CompressionType > 1,
		!host && v == nil, p.Location.Type == driver.CU_MEM_LOCATION_TYPE_HOST_NUMA && p.Location.ID != 0:
		return nil, driver.ResultInvalidValue
	case p.RequestedHandleTypes&driver.CU_MEM_HANDLE_TYPE_FABRIC != 0:
		return nil, driver.ResultNotPermitted
	case host || p.AllocFlags.CompressionType != 0 || p.AllocFlags.GpuDirectRDMACapable != 0 || p.AllocFlags.Usage != 0,
		p.RequestedHandleTypes&driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR != 0 && !canShareMemory:
		return nil, driver.ResultNotSupported
	}
	return v, ok
}

// MemGetAllocationGranularity is cuMemGetAllocationGranularity. Like an H200, it does not check the
// properties.
func (d *Driver) MemGetAllocationGranularity(_ *driver.Thread, _ driver.MemAllocationProp,
	option int32) (uint64, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuMemGetAllocationGranularity"); r != ok {
		return 0, r
	}
	if option != driver.CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != driver.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED {
		return 0, driver.ResultInvalidValue
	}
	return granularity, ok
}

// MemAddressReserve is cuMemAddressReserve. It ignores which address is preferred.
func (d *Driver) MemAddressReserve(_ *driver.Thread, size, alignment uint64, hint driver.DevicePtr,
	flags uint64) (driver.DevicePtr, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuMemAddressReserve"); r != ok {
		return 0, r
	}
	switch {
	case size == 0, size%granularity != 0, alignment&(alignment-1) != 0, alignment >= 1<<62, hint%granularity != 0,
		flags != 0:
		return 0, driver.ResultInvalidValue
	case size > mostReserved || alignment > 1<<45:
		return 0, driver.ResultOutOfMemory
	}
	addr, there := d.space.reserve(size, max(alignment, granularity))
	if !there {
		return 0, driver.ResultOutOfMemory
	}
	d.space.ranges = append(d.space.ranges, &addressRange{addr, size, stack()})
	return driver.DevicePtr(addr), ok
}

// mostReserved is the largest size of one reservation, in bytes.
const mostReserved = 1 << 46

// MemAddressFree is cuMemAddressFree. The range must be a whole reservation without mappings.
func (d *Driver) MemAddressFree(_ *driver.Thread, p driver.DevicePtr, size uint64) driver.Result {
	defer d.mu.Unlock()
	if r := d.begin("cuMemAddressFree"); r != ok {
		return r
	}
	i := slices.IndexFunc(d.space.ranges, func(g *addressRange) bool { return g.addr == uint64(p) && g.size == size })
	if i < 0 || d.space.Taken(uint64(p), size) {
		return driver.ResultInvalidValue
	}
	d.space.ranges = slices.Delete(d.space.ranges, i, i+1)
	return ok
}

// MemCreate is cuMemCreate.
func (d *Driver) MemCreate(_ *driver.Thread, size uint64, prop driver.MemAllocationProp,
	flags uint64) (driver.MemGenericAllocationHandle, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuMemCreate"); r != ok {
		return 0, r
	}
	if size == 0 || size%granularity != 0 || flags != 0 {
		return 0, driver.ResultInvalidValue
	}
	v, r := d.described(&prop)
	switch {
	case r != ok:
		return 0, r
	case size > v.free():
		return 0, driver.ResultOutOfMemory
	}
	p := &physical{dev: v, prop: prop, size: size}
	if prop.RequestedHandleTypes&driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR != 0 {
		var err error
		if !d.space.budget.Take(size) { // the file system is memory of the machine, as a rule
			return 0, driver.ResultOutOfMemory
		}
		v.take(size) // no other call gets it
		d.unlocked(func() { p.shared, err = d.newMemoryFile(size, size) })
		v.give(size)
		if err != nil {
			d.space.budget.Give(size)
			return 0, d.lacks("cuMemCreate", err, size, driver.ResultOutOfMemory)
		}
		p.shared.charged = size
	}
	return d.addPhysical(p), ok
}

// MemRelease is cuMemRelease.
func (d *Driver) MemRelease(_ *driver.Thread, h driver.MemGenericAllocationHandle) driver.Result {
	defer d.mu.Unlock()
	p, r := d.aboutPhysical("cuMemRelease", h)
	if r != ok {
		return r
	}
	if p.handles--; p.handles == 0 {
		d.objects.remove(p.handle)
		p.handle = 0
	}
	d.space.drop(p)
	d.reclaim()
	return ok
}

// MemRetainAllocationHandle is cuMemRetainAllocationHandle.
func (d *Driver) MemRetainAllocationHandle(_ *driver.Thread,
	addr driver.HostPtr) (driver.MemGenericAllocationHandle, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuMemRetainAllocationHandle"); r != ok {
		return 0, r
	}
	b := d.space.At(uint64(addr))
	if b == nil || b.kind != mappedBlock {
		return 0, driver.ResultInvalidValue
	}
	p := b.mapping.physical
	if p.handles == 0 {
		p.handle = d.objects.add(physicalKind, p)
	}
	p.handles++
	p.uses++
	return driver.MemGenericAllocationHandle(p.handle), ok
}

// MemGetAllocationPropertiesFromHandle is cuMemGetAllocationPropertiesFromHandle.
func (d *Driver) MemGetAllocationPropertiesFromHandle(_ *driver.Thread,
	h driver.MemGenericAllocationHandle) (driver.MemAllocationProp, driver.Result) {
	defer d.mu.Unlock()
	p, r := d.aboutPhysical("cuMemGetAllocationPropertiesFromHandle", h)
	if r != ok {
		return driver.MemAllocationProp{}, r
	}
	return p.prop, ok
}

// MemMap is cuMemMap. It maps whole allocations only.
func (d *Driver) MemMap(_ *driver.Thread, p driver.DevicePtr, size, offset uint64,
	h driver.MemGenericAllocationHandle, flags uint64) driver.Result {
	addr := uint64(p)
	defer d.mu.Unlock()
	m, r := d.aboutPhysical("cuMemMap", h)
	if r != ok {
		return r
	}
	switch {
	case size == 0:
		return driver.ResultInvalidValue
	case size != m.size || offset != 0:
		return driver.ResultNotSupported
	case flags != 0 || addr%granularity != 0 || !d.space.reserved(addr, size) || d.space.Taken(addr, size):
		return driver.ResultInvalidValue
	}
	m.uses++
	d.space.add(&block{addr: addr, size: size, kind: mappedBlock, ctx: m.dev.nowhere(), mapping: &mapping{physical: m}})
	return ok
}

// reserved reports whether a range consists of reservations.
func (a *addressSpace) reserved(addr, size uint64) bool {
	for size > 0 {
		g := a.rangeOf(addr, 1)
		if g == nil {
			return false
		}
		n := min(size, g.addr+g.size-addr)
		addr, size = addr+n, size-n
	}
	return true
}

// mappings returns the mappings that a range consists of.
func (d *Driver) mappings(p driver.DevicePtr, size uint64) ([]*block, driver.Result) {
	list := d.space.neighbours(uint64(p), size)
	if list == nil || list[0].addr != uint64(p) || list[len(list)-1].end() != uint64(p)+size {
		return nil, driver.ResultInvalidValue
	}
	return list, ok
}

// MemUnmap is cuMemUnmap. It unmaps all that is mapped in a range, which must not begin or end in a
// mapping. It waits for no work: work that uses the memory later has a fault.
func (d *Driver) MemUnmap(_ *driver.Thread, p driver.DevicePtr, size uint64) driver.Result {
	addr := uint64(p)
	defer d.mu.Unlock()
	if r := d.begin("cuMemUnmap"); r != ok {
		return r
	}
	if size == 0 || addr+size < addr || d.space.rangeOf(addr, 1) == nil { // as an H200 does, whatever follows
		return driver.ResultInvalidValue
	}
	var list []*block
	_, from := d.space.Split(addr)
	for _, b := range from {
		if b.addr >= addr+size {
			break
		}
		if b.addr < addr || b.end()-addr > size {
			return driver.ResultInvalidValue
		}
		list = append(list, b)
	}
	for _, b := range list {
		d.space.remove(b)
	}
	d.reclaim()
	return ok
}

// MemSetAccess is cuMemSetAccess.
func (d *Driver) MemSetAccess(_ *driver.Thread, p driver.DevicePtr, size uint64,
	desc []driver.MemAccessDesc) driver.Result {
	defer d.mu.Unlock()
	if r := d.begin("cuMemSetAccess"); r != ok {
		return r
	}
	list, r := d.mappings(p, size)
	switch {
	case r != ok:
		return r
	case len(desc) == 0:
		return driver.ResultInvalidValue
	}
	devs := make([]*device, len(desc))
	for i, a := range desc {
		v, r := d.located(a.Location)
		switch {
		case a.Location.Type == driver.CU_MEM_LOCATION_TYPE_HOST,
			a.Location.Type == driver.CU_MEM_LOCATION_TYPE_HOST_NUMA:
			return driver.ResultNotSupported
		case r != ok:
			return driver.ResultInvalidValue
		case a.Flags != driver.CU_MEM_ACCESS_FLAGS_PROT_NONE && a.Flags != driver.CU_MEM_ACCESS_FLAGS_PROT_READ &&
			a.Flags != driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
			return driver.ResultInvalidValue
		}
		devs[i] = v
	}
	d.space.Changed()
	for _, b := range list {
		for i, v := range devs {
			b.mapping.set(v, desc[i].Flags)
		}
	}
	return ok
}

// set sets how a device may access the mapping.
func (m *mapping) set(v *device, flags int32) {
	if flags == driver.CU_MEM_ACCESS_FLAGS_PROT_NONE {
		delete(m.access, v)
		return
	}
	if m.access == nil {
		m.access = make(map[*device]int32)
	}
	m.access[v] = flags
}

// MemGetAccess is cuMemGetAccess.
func (d *Driver) MemGetAccess(_ *driver.Thread, l driver.MemLocation, p driver.DevicePtr) (uint64, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuMemGetAccess"); r != ok {
		return 0, r
	}
	b := d.space.At(uint64(p))
	switch v, r := d.located(l); {
	case b == nil:
		return 0, driver.ResultInvalidValue
	case r != ok:
		return 0, driver.ResultInvalidDevice
	case b.mapping != nil:
		return uint64(b.mapping.access[v]), ok
	}
	return 0, ok
}

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
