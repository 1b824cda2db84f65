package sim

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/sim/mem"
)

// blockKind is the kind of a block of memory.
type blockKind uint8

const (
	deviceBlock      blockKind = iota // of cuMemAlloc
	poolBlock                         // of a pool of device memory
	graphBlock                        // of a node of a graph
	moduleBlock                       // a variable of a module
	mappedBlock                       // physical memory that is mapped
	ipcBlock                          // memory of another process, of cuIpcOpenMemHandle
	externalBlock                     // memory of another API, of cuExternalMemoryGetMappedBuffer
	managedBlock                      // of cuMemAllocManaged
	managedPoolBlock                  // of a pool of managed memory
	pinnedBlock                       // of cuMemHostAlloc
	pinnedPoolBlock                   // of a pool of pinned memory
	registeredBlock                   // memory of other code, pinned by cuMemHostRegister
	pageableBlock                     // memory of other code, not registered
)

// onHost reports whether it is memory of the host.
func (k blockKind) onHost() bool { return k >= pinnedBlock }

// visible reports whether the host can access the memory.
func (k blockKind) visible() bool { return k >= managedBlock }

// managed reports whether it is managed memory, and pooled whether it is of a pool.
func (k blockKind) managed() bool { return k == managedBlock || k == managedPoolBlock }

func (k blockKind) pooled() bool {
	return k == poolBlock || k == managedPoolBlock || k == pinnedPoolBlock
}

// foreign reports whether the memory belongs to other code, which could unmap it.
func (k blockKind) foreign() bool { return k >= registeredBlock }

// block is a piece of memory with one owner.
type block struct {
	addr, size uint64
	kind       blockKind
	ctx        *context
	flags      uint32       // flags of pinned and registered memory
	chunk      *chunk       // of a pool
	mapping    *mapping     // of physical memory
	parts      []span       // of a block that stands for neighbours: see addressSpace.across
	advice     []advised    // about managed memory, in the order of the offsets; nil if there is none
	id         uint64       // differs from those of all other blocks
	created    []uintptr    // the stack of the creation
	freer      string       // the function that frees it, or ""
	mem        *mem.Content // has what the block contains, from the offset begin on; nil if it has a mapping or parts
	begin      uint64
	// syncMemops is CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
	syncMemops bool
	// defined says which bytes were written, or is nil if no check of kernels needs it.
	defined *vm.Defined
	// leaving says that cuMemFreeAsync was called, and gone that the block is freed.
	leaving, gone bool
	// asleep says that the memory of a graph's node is not allocated now: see graphAlloc.
	asleep bool
	// variable says that the managed memory is a variable, which the program cannot free.
	variable bool
	alloc    *graphAlloc // of a graph's node
	shared   *ipcMemory  // of memory that processes share, or nil
}

// memory returns the content that the block is a part of, and where it begins there. A block that stands
// for neighbours has none.
func (b *block) memory() (*mem.Content, uint64) {
	if b.mapping != nil {
		return b.mapping.physical.mem, 0
	}
	return b.mem, b.begin
}

// owns reports whether the block is all that uses its content.
func (b *block) owns() bool {
	return b.mem != nil && b.shared == nil && b.chunk == nil
}

// end returns the address after the block.
func (b *block) end() uint64 { return b.addr + b.size }

// BackedMemory limits how much memory the driver uses for what programs write to memory of devices and
// the host.
func BackedMemory(most uint64) Option { return func(d *Driver) { d.space.budget.Most = most } }

// addressSpace is the unified address space of the devices and the host.
type addressSpace struct {
	blocks          []*block // sorted by address
	covered         []*block // see cover
	ranges          []*addressRange
	next            uint64 // the first unused address of the devices
	pinned, managed uint64 // sizes of the pinned and of the managed memory, in bytes
	ids             uint64 // the last assigned id
	// regions is what kernels in PTX see of the blocks, or nil after a change.
	regions regions
	missed  int // how often kernels asked without the list
	// freed has the blocks that were freed last, for reports about kernels that still use them.
	freed []freedBlock
	// building says that the call is about nodes of a graph, which may use memory that is not
	// allocated now: see graphAlloc.
	building bool

	budget    mem.Budget
	closing   []*memoryFile // see reclaim
	retired   []retired     // see reclaim
	stale     []stale       // in the order in which they were freed
	staleSize uint64
	shrunk    []*memPool // pools that processes share, and that have given chunks back: see reclaim
}

const (
	// deviceBase is the first address of the devices. These addresses look like those of a GPU, but
	// are above all addresses of a process. So no memory of the host has such an address, and a
	// program that uses one as a pointer fails at once.
	deviceBase = 0x1_7f00_0000_0000
	// deviceEnd is the end of these addresses. Behind it kernels have other memory.
	deviceEnd = vm.SharedWindow
	// alignment is the alignment of device memory, in bytes.
	alignment = 512
	// mostPinned is the largest size of all pinned memory, and mostManaged that of all managed memory, in
	// bytes. Both are more than most machines have: see mem.Content.
	mostPinned  = 1 << 35
	mostManaged = 1 << 38
	// contextMemory is the size of the device memory that a context uses for itself, in bytes. It
	// was measured on an H100 (driver 580.159.04, CUDA 13.0) with one context that had two streams,
	// a module and 64 bytes of memory. Other versions of the driver use other sizes.
	contextMemory = 556_597_248
)

// after returns the index of the first block that ends after an address.
func (a *addressSpace) after(addr uint64) int {
	i, _ := slices.BinarySearchFunc(a.blocks, addr, func(b *block, addr uint64) int {
		if b.end() <= addr {
			return -1
		}
		return 1
	})
	return i
}

// at returns the block that contains an address, or nil.
func (a *addressSpace) at(addr uint64) *block {
	if i := a.after(addr); i < len(a.blocks) && a.blocks[i].addr <= addr {
		return a.blocks[i]
	}
	return nil
}

// known returns the block that contains an address, or nil.
func (a *addressSpace) known(p driver.DevicePtr) *block {
	if b := a.at(uint64(p)); b != nil && !a.hides(b) {
		return b
	}
	return nil
}

// of returns the block that begins at an address, or nil. The block must be of one of the kinds,
// and must not be about to be freed.
func (a *addressSpace) of(addr uint64, kinds ...blockKind) *block {
	if b := a.at(addr); b != nil && b.addr == addr && !a.hides(b) && slices.Contains(kinds, b.kind) {
		return b
	}
	return nil
}

// hides reports whether the call cannot use the block, which is about to be freed, or is the memory of
// a graph's node that is not allocated.
func (a *addressSpace) hides(b *block) bool {
	return b.leaving || b.alloc != nil && !b.alloc.allocated && !a.building
}

// taken reports whether a block contains a byte of a range.
func (a *addressSpace) taken(addr, n uint64) bool {
	i := a.after(addr)
	return i < len(a.blocks) && a.blocks[i].addr < addr+n
}

// add adds a block.
func (a *addressSpace) add(b *block) {
	i, _ := slices.BinarySearchFunc(a.blocks, b.addr, func(o *block, addr uint64) int { return cmp.Compare(o.addr, addr) })
	a.blocks = slices.Insert(a.blocks, i, b)
	a.regions.Store(nil)
	a.ids++
	b.id, b.created = a.ids, stack()
}

// remove removes a block. Enqueued work that uses the block fails when it is done: see access.
func (a *addressSpace) remove(b *block) {
	if b.gone {
		return
	}
	b.gone = true
	a.forget(b)
	a.noteFreed(b)
	if b.shared != nil {
		a.discard(b.shared.file)
	}
	if b.owns() {
		r := retired{Content: b.mem}
		if b.kind == pinnedBlock || b.kind == managedBlock {
			f := a.freed[len(a.freed)-1]
			r.freed = &f
		}
		a.retired = append(a.retired, r)
	}
	switch b.kind {
	case poolBlock, managedPoolBlock, pinnedPoolBlock:
		a.unused(b)
	case mappedBlock:
		a.drop(b.mapping.physical)
	case deviceBlock, moduleBlock:
		b.ctx.dev.memory -= rounded(b.size)
	case pinnedBlock, managedBlock:
		*a.onHost(b.kind) -= b.size
	}
}

// onHost returns the size of the memory of a kind that the host can access.
func (a *addressSpace) onHost(k blockKind) *uint64 {
	if k.managed() {
		return &a.managed
	}
	return &a.pinned
}

// newHostContent returns a content with addresses of the host, and the first of them, or nil if there is
// too much such memory, or the process has too few addresses.
func (a *addressSpace) newHostContent(k blockKind, size uint64) (*mem.Content, uint64) {
	most := uint64(mostPinned)
	if k.managed() {
		most = mostManaged
	}
	used := a.onHost(k)
	if size > most-*used {
		return nil, 0
	}
	m := mem.New(&a.budget, size)
	addr := m.Place()
	if addr == 0 {
		return nil, 0
	}
	*used += size
	return m, addr
}

// forget removes a block, so that others can have its addresses.
func (a *addressSpace) forget(b *block) {
	if i := slices.Index(a.covered, b); i >= 0 {
		a.covered = slices.Delete(a.covered, i, i+1)
		a.regions.Store(nil)
		return
	}
	if i := a.after(b.addr); i < len(a.blocks) && a.blocks[i] == b {
		a.blocks = slices.Delete(a.blocks, i, i+1)
		a.regions.Store(nil)
	}
}

// forgetAll is forget for all blocks that are chosen, which it returns. To forget them one by one would
// move the others each time.
func (a *addressSpace) forgetAll(choose func(*block) bool) (chosen []*block) {
	take := func(b *block) bool {
		is := choose(b)
		if is {
			chosen = append(chosen, b)
		}
		return is
	}
	a.covered, a.blocks = slices.DeleteFunc(a.covered, take), slices.DeleteFunc(a.blocks, take)
	a.regions.Store(nil)
	return chosen
}

// open yields the kinds and the creations of what the program has to free, until yield returns false.
func (a *addressSpace) open(yield func(kind string, created []uintptr) bool) {
	for _, b := range a.blocks {
		if kind := b.opened(); kind != "" && !yield(kind, b.created) {
			return
		}
	}
	for _, r := range a.ranges {
		if !yield("address range", r.created) {
			return
		}
	}
}

// opened returns the kind of memory that the program has to free, or "".
func (b *block) opened() string {
	switch b.kind {
	case deviceBlock, poolBlock, ipcBlock:
		return "device memory"
	case mappedBlock, externalBlock:
		return "mapping"
	case graphBlock:
		if b.alloc.allocated {
			return "device memory"
		}
	case managedBlock, managedPoolBlock:
		if !b.variable {
			return "managed memory"
		}
	case pinnedBlock, pinnedPoolBlock, registeredBlock:
		return "host memory"
	}
	return ""
}

// rounded returns the size of device memory that a block uses.
func rounded(size uint64) uint64 { return (size + alignment - 1) &^ (alignment - 1) }

// newDeviceBlock allocates memory of a device. Addresses are used once, so that freed memory is
// never mistaken for newer memory. After each block there is a gap, so that an access beyond its
// end finds no memory.
func (d *Driver) newDeviceBlock(c *context, size uint64, k blockKind) (*block, driver.Result) {
	if size > deviceMemory-c.dev.memory || rounded(size) > deviceMemory-c.dev.memory {
		return nil, driver.ResultOutOfMemory
	}
	addr, there := d.space.place(size)
	if !there {
		return nil, driver.ResultOutOfMemory
	}
	b := &block{addr: addr, size: size, kind: k, ctx: c, defined: d.newDefined(k, size),
		mem: mem.New(&d.space.budget, size)}
	c.dev.memory += rounded(size)
	d.space.add(b)
	return b, ok
}

// place returns new addresses for memory of a device, or false if none are left.
func (a *addressSpace) place(size uint64) (addr uint64, there bool) {
	if a.next == 0 {
		a.next = deviceBase
	}
	addr = a.next
	if rest := deviceEnd - addr; size > rest || rounded(size)+alignment > rest {
		return 0, false
	}
	a.next += rounded(size) + alignment
	return addr, true
}

// freeMemoryOf frees all memory of a context, which a function ends. The caller calls reclaim.
func (d *Driver) freeMemoryOf(op string, c *context) {
	for _, b := range d.space.forgetAll(func(b *block) bool { return b.ctx == c }) {
		if b.kind.pooled() && !b.leaving {
			b.freed(nil, nil)
		}
		if b.kind == graphBlock {
			b.alloc.allocated = false
		}
		b.freer = op
		d.space.remove(b)
	}
	if len(c.dev.contexts) == 0 {
		for _, p := range c.dev.pools {
			d.space.trim(p, 0)
		}
		d.space.trimGraphs(c.dev)
	}
}

// MemGetInfo is cuMemGetInfo_v2.
func (d *Driver) MemGetInfo(th *driver.Thread) (free, total uint64, r driver.Result) {
	defer d.mu.Unlock()
	c, _, r := d.inContext("cuMemGetInfo", th)
	if r != ok {
		return 0, 0, r
	}
	return deviceMemory - c.dev.memory, deviceMemory, ok
}

// changing begins a call that allocates, or changes something else of the current context. It is refused
// during a capture.
func (d *Driver) changing(op string, th *driver.Thread) (*context, driver.Result) {
	c, t, r := d.inContext(op, th)
	if r == ok {
		r = d.forbidden(t, nil)
	}
	return c, r
}

// freeing makes a call that frees memory. It is refused during a capture. It returns none if there
// is no such block. After a sticky error it returns the error, and still frees the memory.
func (d *Driver) freeing(op string, th *driver.Thread, addr uint64, k blockKind, none driver.Result) driver.Result {
	if r := d.begin(op); r != ok {
		return r
	}
	t := d.thread(th)
	if r := d.forbidden(t, nil); r != ok {
		return r
	}
	c, b := t.current(), d.space.of(addr, k)
	if k == deviceBlock {
		if b == nil {
			b = d.space.of(addr, poolBlock, managedPoolBlock, pinnedPoolBlock, managedBlock, graphBlock, externalBlock)
			if b != nil && b.variable {
				b = nil
			}
		}
		// It needs no current context, as the block refers to its context.
		switch {
		case b != nil:
			return cmp.Or(d.live(b.ctx), d.free(op, b))
		case c != nil:
			return cmp.Or(d.lost, none)
		}
		return none
	}
	r := d.lost
	if c != nil { // it needs no current context
		if r = d.live(c); r != d.lost {
			return r
		}
	}
	switch {
	case b != nil:
		return cmp.Or(r, d.free(op, b))
	case k == registeredBlock && (addr == 0 || d.space.at(addr) != nil): // inside of a registration, or other memory
		none = driver.ResultInvalidValue
	}
	return cmp.Or(r, none)
}

// MemAlloc is cuMemAlloc_v2.
func (d *Driver) MemAlloc(th *driver.Thread, size uint64) (driver.DevicePtr, driver.Result) {
	defer d.mu.Unlock()
	c, r := d.changing("cuMemAlloc", th)
	switch {
	case r != ok:
		return 0, r
	case size == 0:
		return 0, driver.ResultInvalidValue
	}
	b, r := d.newDeviceBlock(c, size, deviceBlock)
	if r != ok {
		return 0, r
	}
	return driver.DevicePtr(b.addr), ok
}

// MemFree is cuMemFree_v2. It waits for all work in the memory's context, unless the memory is of a
// pool. With NULL it does nothing.
func (d *Driver) MemFree(th *driver.Thread, p driver.DevicePtr) driver.Result {
	defer d.mu.Unlock()
	none := driver.ResultInvalidValue
	if p == 0 {
		none = ok
	}
	return d.freeing("cuMemFree", th, uint64(p), deviceBlock, none)
}

// free frees a block after all work in its context. If the wait would never end, it returns an
// error. The driver is unlocked during the wait.
func (d *Driver) free(op string, b *block) driver.Result {
	if b.kind == graphBlock {
		return d.freeGraphMemory(b, nil)
	}
	b.leaving, b.freer = true, op
	if b.kind.pooled() {
		b.freed(nil, nil)
		d.space.remove(b)
		d.reclaim()
		return ok
	}
	r := d.drain(op, uintptr(b.addr), b.ctx)
	if r == driver.ResultNotPermitted {
		b.leaving = false
		return r
	}
	d.space.remove(b)
	d.reclaim()
	return r
}

// MemHostAlloc is cuMemHostAlloc. The memory is outside of Go's heap, as C code may keep the address after
// a free. It has the same address on the device.
func (d *Driver) MemHostAlloc(th *driver.Thread, size uint64, flags uint32) (driver.HostPtr, driver.Result) {
	return d.allocHost("cuMemHostAlloc", th, size, flags)
}

// MemAllocHost is cuMemAllocHost_v2.
func (d *Driver) MemAllocHost(th *driver.Thread, size uint64) (driver.HostPtr, driver.Result) {
	return d.allocHost("cuMemAllocHost", th, size, 0)
}

func (d *Driver) allocHost(name string, th *driver.Thread, size uint64, flags uint32) (driver.HostPtr, driver.Result) {
	const known = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP | driver.CU_MEMHOSTALLOC_WRITECOMBINED
	defer d.mu.Unlock()
	c, r := d.changing(name, th)
	switch {
	case r != ok:
		return 0, r
	case flags&^uint32(known) != 0:
		return 0, driver.ResultInvalidValue
	case size == 0: // as on an H200
		return 0, ok
	}
	addr, r := d.addPages(c, pinnedBlock, size, flags)
	return driver.HostPtr(addr), r
}

// addPages allocates host memory that the device can access.
func (d *Driver) addPages(c *context, kind blockKind, size uint64, flags uint32) (addr uint64, r driver.Result) {
	m, addr := d.space.newHostContent(kind, size)
	if m == nil {
		return 0, driver.ResultOutOfMemory
	}
	d.space.add(&block{addr: addr, size: size, kind: kind, ctx: c, flags: flags, mem: m})
	return addr, ok
}

// MemFreeHost is cuMemFreeHost. It waits for all work in the memory's context. As on an H200, the
// address 0 is no error.
func (d *Driver) MemFreeHost(th *driver.Thread, p driver.HostPtr) driver.Result {
	defer d.mu.Unlock()
	if p == 0 {
		if r := d.begin("cuMemFreeHost"); r != ok {
			return r
		}
		return cmp.Or(d.forbidden(d.thread(th), nil), d.lost)
	}
	return d.freeing("cuMemFreeHost", th, uint64(p), pinnedBlock, driver.ResultInvalidValue)
}

// aboutHost begins a call with pinned memory as an argument.
func (d *Driver) aboutHost(op string, th *driver.Thread, p driver.HostPtr) (*block, driver.Result) {
	if _, _, r := d.inContext(op, th); r != ok {
		return nil, r
	}
	b := d.space.at(uint64(p))
	if b == nil || !b.kind.onHost() || b.kind == pinnedPoolBlock || b.leaving {
		return nil, driver.ResultInvalidValue
	}
	return b, ok
}

// MemHostGetDevicePointer is cuMemHostGetDevicePointer_v2. Addresses are unified, and all pinned
// memory is mapped, so it returns the same address.
func (d *Driver) MemHostGetDevicePointer(th *driver.Thread, p driver.HostPtr, flags uint32) (driver.DevicePtr, driver.Result) {
	defer d.mu.Unlock()
	_, r := d.aboutHost("cuMemHostGetDevicePointer", th, p)
	switch {
	case r != ok:
		return 0, r
	case flags != 0:
		return 0, driver.ResultInvalidValue
	}
	return driver.DevicePtr(p), ok
}

// MemHostGetFlags is cuMemHostGetFlags. All pinned memory is mapped.
func (d *Driver) MemHostGetFlags(th *driver.Thread, p driver.HostPtr) (uint32, driver.Result) {
	defer d.mu.Unlock()
	b, r := d.aboutHost("cuMemHostGetFlags", th, p)
	if r != ok {
		return 0, r
	}
	kept := uint32(driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_WRITECOMBINED)
	if b.kind == registeredBlock {
		kept = driver.CU_MEMHOSTREGISTER_PORTABLE
	}
	return b.flags&kept | driver.CU_MEMHOSTALLOC_DEVICEMAP, ok
}
