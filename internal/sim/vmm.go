package sim

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// granularity is the unit of physical memory, and of its mappings, in bytes.
const granularity = 2 << 20

// addressRange is a range of addresses that the program has reserved.
type addressRange struct {
	addr, size uint64
	created    []uintptr // the stack of the creation
}

// physical is memory of a device that has no address. It exists until the program has released all
// handles, and has unmapped it everywhere.
type physical struct {
	handle  uintptr
	dev     *device
	prop    driver.MemAllocationProp
	size    uint64
	handles int // that are not released
	uses    int // handles and mappings
	mem     *mem.Content
	shared  *memoryFile // the file with the content, if other processes may get it
	// imported says that the memory is of another physical, perhaps of another process.
	imported bool
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
		a.discard(p.shared)
	}
	a.retire(p.mem)
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
	if b.mapping == nil {
		return !b.readOnly() || flags == driver.CU_MEM_ACCESS_FLAGS_PROT_READ
	}
	return b.mapping.access[v]&flags == flags
}

// readOnly reports whether the memory was registered for reading.
func (b *block) readOnly() bool {
	return b.kind == registeredBlock && b.flags&driver.CU_MEMHOSTREGISTER_READ_ONLY != 0
}

// allowed reports whether some device may access the memory. Memory that is not mapped may be
// accessed, unless it was registered for reading.
func (b *block) allowed(flags int32) bool {
	for _, s := range b.parts {
		if !s.allowed(flags) {
			return false
		}
	}
	if b.mapping == nil {
		return !b.readOnly() || flags == driver.CU_MEM_ACCESS_FLAGS_PROT_READ
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

// gathered is a copy of neighbours in one piece, for a kernel in Go.
type gathered struct {
	*block
	was *mem.Content // what the copy had in the beginning
}

// gather copies the content of a block that stands for neighbours to one piece. It reports false if the machine
// has too little memory.
func (b *block) gather(all *mem.Budget) (g gathered, there bool) {
	b.mem = mem.New(all, b.size)
	g = gathered{b, mem.New(all, b.size)}
	is, was := b.mem.Contiguous(0, b.size), g.was.Contiguous(0, b.size)
	if is == nil || was == nil {
		g.release()
		return g, false
	}
	span{&block{size: b.size, mem: b.mem}, 0, b.size}.copyFrom(0, span{b, 0, b.size}, 0, b.size)
	copy(was, is)
	return g, true
}

// release gives the memory of the copy back.
func (g gathered) release() {
	g.mem.Release()
	g.was.Release()
}

// store stores what has changed in the neighbours. It reports false if the machine has too little memory.
func (g gathered) store() bool {
	is, was := g.mem.Contiguous(0, g.size), g.was.Contiguous(0, g.size)
	const step = 4 << 10
	for at := uint64(0); at < g.size; {
		switch end := min(at+step, g.size); {
		case bytes.Equal(is[at:end], was[at:end]):
			at = end
			continue
		case is[at] == was[at]:
			at++
			continue
		}
		end := at + 1
		for end < g.size && is[end] != was[end] {
			end++
		}
		if !mem.Put(span{g.block, 0, g.size}, at, is[at:end]) {
			return false
		}
		at = end
	}
	return true
}

// mapped returns the memory from an address in a mapping up to the next address that is not mapped, or that the device
// may not write, or nil if the device may not access the address. The driver is locked.
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
	switch {
	case r != ok:
		return nil
	case len(s.parts) == 1:
		return s.parts[0].block
	}
	return s.block
}

// gather returns a block in one piece: the block itself, or a copy, if it stands for neighbours. What the kernel
// writes to a copy is stored when it has run. It returns nil if the machine has too little memory.
func (l *Launch) gather(b *block) *block {
	if b == nil || b.parts == nil {
		return b
	}
	for _, g := range l.gathered {
		if b.addr-g.addr < g.size {
			return g.block
		}
	}
	g, there := b.gather(&l.d.space.budget)
	if !there {
		l.lacks(b.size)
		return nil
	}
	l.gathered = append(l.gathered, g)
	return g.block
}

// store stores what the kernel has written to copies of memory. It reports false if the machine has too little memory.
func (l *Launch) store() (stored bool) {
	stored = true
	for _, g := range l.gathered {
		stored = g.store() && stored
		g.release()
	}
	l.gathered = nil
	return stored
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
	i := slices.IndexFunc(d.space.ranges, func(g *addressRange) bool { return g.addr == uint64(p) && g.size == size })
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
		var err error
		if !d.space.budget.Take(size) { // the file system is memory of the machine, as a rule
			return 0, driver.ResultOutOfMemory
		}
		v.memory += size // no other call gets it
		d.unlocked(func() { p.shared, err = d.newMemoryFile(size, size) })
		v.memory -= size
		if err != nil {
			d.space.budget.Give(size)
			return 0, d.lacks("cuMemCreate", err, size, driver.ResultOutOfMemory)
		}
		p.shared.charged = size
	}
	return d.addPhysical(p), ok
}

func (d *Driver) addPhysical(p *physical) driver.MemGenericAllocationHandle {
	if !p.imported {
		p.dev.memory += p.size
	}
	if p.mem = mem.New(&d.space.budget, p.size); p.shared != nil {
		p.mem = mem.Lazy(p.size, p.shared.mapped)
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
