package sim

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
)

// granularity is the unit of physical memory, and of its mappings, in bytes.
const granularity = 2 << 20

// addressRange is a range of addresses that the program has reserved.
type addressRange struct{ addr, size uint64 }

// physical is memory of a device that has no address. It exists until the program has released all
// handles, and has unmapped it everywhere.
type physical struct {
	handle  uintptr
	dev     *device
	prop    driver.MemAllocationProp
	size    uint64
	handles int // that are not released
	uses    int // handles and mappings
	data    []byte
	shared  *memoryFile // the file with the content, if other processes may get it
	// imported says that the memory is of another physical, perhaps of another process.
	imported bool
}

// bytes returns the content.
func (p *physical) bytes() []byte {
	switch {
	case p.data != nil:
	case p.shared != nil:
		p.data = p.shared.bytes()
	default:
		p.data = newBytes(p.size)
	}
	return p.data
}

// drop ends a use.
func (a *addressSpace) drop(p *physical) {
	if p.uses--; p.uses > 0 {
		return
	}
	if !p.imported {
		p.dev.memory -= p.size
	}
	if p.shared != nil {
		a.closing = append(a.closing, p.shared)
	}
}

// closeFiles closes the files of memory that does not exist any more, and gives parts of the files
// of pools back. A kernel that is executed at present may access such memory. The driver is
// unlocked while files are closed: a call does this at its beginning or at its end.
func (d *Driver) closeFiles() {
	a := &d.space
	if len(a.closing)+len(a.shrunk) == 0 || d.engine.executing > 0 {
		return
	}
	for _, p := range a.shrunk {
		p.discard()
	}
	files := a.closing
	a.closing, a.shrunk = nil, nil
	if len(files) > 0 {
		d.unlocked(func() {
			for _, f := range files {
				d.closeFile(f)
			}
		})
	}
}

// mapping is physical memory at an address: that of its block.
type mapping struct {
	physical *physical
	access   map[*device]int32
}

// allows reports whether a device may access mapped memory.
func (b *block) allows(v *device, flags int32) bool {
	for _, s := range b.parts {
		if !s.allows(v, flags) {
			return false
		}
	}
	return b.mapping == nil || b.mapping.access[v]&flags == flags
}

// allowed reports whether some device may access the memory. Memory that is not mapped may be
// accessed.
func (b *block) allowed(flags int32) bool {
	for _, s := range b.parts {
		if !s.allowed(flags) {
			return false
		}
	}
	if b.mapping == nil {
		return true
	}
	for _, f := range b.mapping.access {
		if f&flags == flags {
			return true
		}
	}
	return false
}

// neighbours returns the mappings that have all bytes of a range, or nil if some byte is not
// mapped.
func (a *addressSpace) neighbours(addr, n uint64) (list []*block) {
	for i := a.after(addr); n > 0; i++ {
		if i == len(a.blocks) || a.blocks[i].addr > addr || a.blocks[i].kind != mappedBlock {
			return nil
		}
		b := a.blocks[i]
		list = append(list, b)
		n -= min(n, b.end()-addr)
		addr = b.end()
	}
	return list
}

// across returns a range of several mappings as one span.
func (a *addressSpace) across(addr, n uint64) (span, driver.Result) {
	list := a.neighbours(addr, n)
	if list == nil {
		return span{}, driver.ResultInvalidValue
	}
	whole := &block{addr: addr, size: n, kind: mappedBlock, ctx: list[0].ctx}
	for _, b := range list {
		off := max(addr, b.addr) - b.addr
		whole.parts = append(whole.parts, span{b, off, min(b.size, addr+n-b.addr) - off})
	}
	if !whole.allowed(driver.CU_MEM_ACCESS_FLAGS_PROT_READ) {
		return span{}, driver.ResultInvalidValue
	}
	return span{whole, 0, n}, ok
}

// gather fills a block that stands for neighbours with their content, and returns a function that
// stores what has changed since then.
func (b *block) gather() (store func()) {
	if b.parts == nil {
		return func() {}
	}
	b.data = nil
	if b.untouched() {
		b.data = newBytes(b.size)
	} else {
		for _, s := range b.parts {
			b.data = append(b.data, s.bytes()...)
		}
	}
	before := slices.Clone(b.data)
	return func() {
		at := uint64(0)
		for _, s := range b.parts {
			was, is := before[at:at+s.n], b.data[at:at+s.n]
			if at += s.n; bytes.Equal(was, is) {
				continue
			}
			to := s.bytes()
			for i, v := range is {
				if v != was[i] {
					to[i] = v
				}
			}
		}
	}
}

// mapped returns the memory from an address in a mapping up to the next address that is not mapped,
// or that the device may not write, as one block. What a kernel writes is stored when it has run. It
// returns nil if the device may not access the address.
func (l *Launch) mapped(addr uint64) *block {
	a, v := &l.d.space, l.module.ctx.dev
	end := addr
	for i := a.after(addr); i < len(a.blocks) && a.blocks[i].kind == mappedBlock && a.blocks[i].addr <= end &&
		a.blocks[i].allows(v, driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE); i++ {
		end = a.blocks[i].end()
	}
	if end == addr {
		return nil
	}
	s, r := a.across(addr, end-addr)
	if r != ok {
		return nil
	}
	if len(s.parts) == 1 {
		return s.parts[0].block
	}
	l.stores = append(l.stores, s.gather())
	return s.block
}

// joined returns the spans with the parts of those that stand for neighbours, and a function that
// calls f with the content of these.
func joined(spans []span, f func()) (all []span, with func()) {
	for _, s := range spans {
		all = append(all, s.parts...)
	}
	if all == nil {
		return spans, f
	}
	return append(all, spans...), func() {
		stores := make([]func(), len(spans))
		for i, s := range spans {
			stores[i] = s.gather()
		}
		f()
		for _, store := range stores {
			store()
		}
	}
}

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
	case size == 0, size%granularity != 0, alignment&(alignment-1) != 0, alignment > 1<<62, hint%granularity != 0,
		flags != 0:
		return 0, driver.ResultInvalidValue
	case size > mostReserved || alignment > 1<<45:
		return 0, driver.ResultOutOfMemory
	}
	addr, there := d.space.reserve(size, max(alignment, granularity))
	if !there {
		return 0, driver.ResultOutOfMemory
	}
	d.space.ranges = append(d.space.ranges, &addressRange{addr, size})
	return driver.DevicePtr(addr), ok
}

// mostReserved is the largest size of one reservation, in bytes.
const mostReserved = 1 << 46

// reserve returns new addresses that are a multiple of align, a power of two, or false if none are left.
func (a *addressSpace) reserve(size, align uint64) (addr uint64, there bool) {
	before := a.next
	a.next = min((cmp.Or(a.next, deviceBase)+align-1)&^(align-1), deviceEnd)
	if addr, there = a.place(size); !there {
		a.next = before
	}
	return addr, there
}

// MemAddressFree is cuMemAddressFree. The range must be a whole reservation without mappings.
func (d *Driver) MemAddressFree(_ *driver.Thread, p driver.DevicePtr, size uint64) driver.Result {
	defer d.mu.Unlock()
	if r := d.begin("cuMemAddressFree"); r != ok {
		return r
	}
	i := slices.IndexFunc(d.space.ranges, func(g *addressRange) bool { return *g == addressRange{uint64(p), size} })
	if i < 0 || d.space.taken(uint64(p), size) {
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
	case size > deviceMemory-v.memory:
		return 0, driver.ResultOutOfMemory
	}
	p := &physical{dev: v, prop: prop, size: size}
	if prop.RequestedHandleTypes&driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR != 0 {
		v.memory += size // no other call gets it
		d.unlocked(func() { p.shared = d.newMemoryFile(size, size) })
		v.memory -= size
		if p.shared == nil {
			return 0, driver.ResultOutOfMemory
		}
	}
	return d.addPhysical(p), ok
}

func (d *Driver) addPhysical(p *physical) driver.MemGenericAllocationHandle {
	if !p.imported {
		p.dev.memory += p.size
	}
	p.handle, p.handles, p.uses = d.objects.add(physicalKind, p), 1, 1
	return driver.MemGenericAllocationHandle(p.handle)
}

// aboutPhysical begins a call with physical memory as an argument.
func (d *Driver) aboutPhysical(name string, h driver.MemGenericAllocationHandle) (*physical, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	p, r := find[physical](d, name, physicalKind, uintptr(h))
	if r != ok {
		return nil, driver.ResultInvalidValue
	}
	return p, ok
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
	d.closeFiles()
	return ok
}

// MemRetainAllocationHandle is cuMemRetainAllocationHandle.
func (d *Driver) MemRetainAllocationHandle(_ *driver.Thread,
	addr driver.HostPtr) (driver.MemGenericAllocationHandle, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuMemRetainAllocationHandle"); r != ok {
		return 0, r
	}
	b := d.space.at(uint64(addr))
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
	case flags != 0 || addr%granularity != 0 || !d.space.reserved(addr, size) || d.space.taken(addr, size):
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

// rangeOf returns the reservation that has a range, or nil.
func (a *addressSpace) rangeOf(addr, size uint64) *addressRange {
	for _, g := range a.ranges {
		if addr >= g.addr && size <= g.size && addr-g.addr <= g.size-size {
			return g
		}
	}
	return nil
}

// nowhere returns the context of memory of the device that belongs to no context.
func (v *device) nowhere() *context {
	if v.noContext == nil {
		v.noContext = &context{dev: v}
	}
	return v.noContext
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
	for i := d.space.after(addr); i < len(d.space.blocks) && d.space.blocks[i].addr < addr+size; i++ {
		b := d.space.blocks[i]
		if b.addr < addr || b.end()-addr > size {
			return driver.ResultInvalidValue
		}
		list = append(list, b)
	}
	for _, b := range list {
		d.space.remove(b)
	}
	d.closeFiles()
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
	d.space.regions.Store(nil)
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
	b := d.space.at(uint64(p))
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
