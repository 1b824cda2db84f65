package sim

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// A pool that processes share has a file, of which a chunk is a part. The file is sparse. Its size says
// that it is a pool's, and of which device: it is larger than that of physical memory can be.

// poolFileSize returns the size of the file of a pool of a device.
func poolFileSize(index int) uint64 {
	return (deviceMemory/granularity + 2 + uint64(index)) * granularity
}

// room returns a part of the pool's file that no chunk has.
func (p *memPool) room(size uint64) (offset uint64, there bool) {
	for _, c := range p.byOffset() {
		if c.offset-offset >= size {
			break
		}
		offset = c.offset + c.size
	}
	return offset, size <= poolFileSize(p.dev.index)-offset
}

// part returns the content of a part of the pool's file.
func (p *memPool) part(offset, n uint64) *mem.Content {
	return mem.Of(p.file.mapped()[offset : offset+n : offset+n])
}

// lacks returns how many bytes of the chunk's part of the pool's file the file system still has to
// allocate, up to an address.
func (c *chunk) lacks(end uint64) uint64 {
	if c.pool.file == nil || end-c.addr <= c.allocated {
		return 0
	}
	return (end-c.addr+chunkUnit-1)/chunkUnit*chunkUnit - c.allocated
}

// lacking returns the chunk with a piece of n bytes that fits and lacks least of the pool's file,
// and how much that is, or nil.
func (p *memPool) lacking(n uint64, fits func(*piece) bool) (best *chunk, least uint64) {
	for _, c := range p.chunks {
		for i := range c.free {
			q := &c.free[i]
			if more := c.lacks(q.addr + n); more != 0 && q.size >= n && (best == nil || more < least) && fits(q) {
				best, least = c, more
			}
		}
	}
	return best, least
}

// allocate makes the file system allocate n more bytes of the chunk's part of the pool's file, and
// reports false if it is full. The driver is unlocked meanwhile. One call at a time does this for a
// pool, as bytes that others get must not be overwritten: see writeZeros.
func (c *chunk) allocate(d *Driver, n uint64) (there bool) {
	p, begin := c.pool, c.offset+c.allocated
	p.growing = true
	c.live++                                // so that the pool keeps its file, and the chunk its part
	fresh := make([]uint64, 0, n/chunkUnit) // units that the file system does not have of an earlier chunk
	for unit := begin / chunkUnit; unit < (begin+n)/chunkUnit; unit++ {
		if !p.charged[unit] {
			fresh = append(fresh, unit)
		}
	}
	if need := uint64(len(fresh)) * chunkUnit; d.space.budget.Take(need) {
		var err error
		d.unlocked(func() { err = p.file.allocate(d, begin, n) })
		p.lack = err
		if there = err == nil; there {
			c.allocated += n
			if p.charged == nil {
				p.charged = make(map[uint64]bool)
			}
			for _, unit := range fresh {
				p.charged[unit] = true
			}
		} else {
			d.space.budget.Give(need)
		}
	}
	c.live--
	p.growing = false
	d.engine.Changed.Broadcast()
	return there
}

// shrink gives the parts of the pool's file that no chunk has back to the file system. The driver is unlocked
// meanwhile. The pool does not grow then, as a new chunk could get such a part.
func (p *memPool) shrink(d *Driver) {
	var holes []piece
	end := uint64(0)
	for _, c := range p.byOffset() {
		if c.offset > end {
			holes = append(holes, piece{addr: end, size: c.offset - end})
		}
		end = c.offset + c.size
	}
	if all := poolFileSize(p.dev.index); end < all {
		holes = append(holes, piece{addr: end, size: all - end})
	}
	p.growing = true
	file := p.file
	d.unlocked(func() {
		holes = slices.DeleteFunc(holes, func(h piece) bool { return !d.punchFile(file, h.addr, h.size) })
	})
	before := len(p.charged)
	maps.DeleteFunc(p.charged, func(unit uint64, _ bool) bool {
		return slices.ContainsFunc(holes, func(h piece) bool { return unit*chunkUnit-h.addr < h.size })
	})
	d.space.budget.Give(uint64(before-len(p.charged)) * chunkUnit)
	p.growing = false
	d.space.giveBack(p, func(*chunk) bool { return false }) // the pool may be destroyed by now
	d.engine.Changed.Broadcast()
}

// byOffset returns the chunks in the order in which they are in the pool's file.
func (p *memPool) byOffset() []*chunk {
	return slices.SortedFunc(slices.Values(p.chunks), func(a, b *chunk) int { return cmp.Compare(a.offset, b.offset) })
}

// MemPoolExportToShareableHandle is cuMemPoolExportToShareableHandle. The handle is the descriptor of the
// pool's file.
func (d *Driver) MemPoolExportToShareableHandle(th *driver.Thread, h driver.MemoryPool, handleType int32,
	flags uint64) (s driver.ShareableHandle, r driver.Result) {
	defer d.mu.Unlock()
	p, r := d.aboutPool("cuMemPoolExportToShareableHandle", th, h)
	switch {
	case r != ok:
		return s, r
	case p.file == nil || p.imported || handleType != driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0:
		return s, driver.ResultInvalidValue
	}
	fd, err := p.file.duplicate()
	if err != nil {
		return s, d.lacks("cuMemPoolExportToShareableHandle", err, 0, driver.ResultOutOfMemory)
	}
	s[0] = uint64(uint32(fd))
	return s, ok
}

// MemPoolImportFromShareableHandle is cuMemPoolImportFromShareableHandle. As on an H200, a pool that is
// imported already keeps its handle. Whether the imports count there is not known. Here they do not, so
// that a program that ends one import too early gets an error: cuMemPoolDestroy ends them all.
func (d *Driver) MemPoolImportFromShareableHandle(th *driver.Thread, fd driver.HostPtr, handleType int32,
	_ uint64) (driver.MemoryPool, driver.Result) {
	defer d.mu.Unlock()
	const name = "cuMemPoolImportFromShareableHandle"
	if r := d.beginPools(name, th); r != ok {
		return 0, r
	}
	if handleType != driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR {
		return 0, driver.ResultNotSupported
	}
	if fd == 0 { // NULL, in C
		return 0, driver.ResultInvalidValue
	}
	id, _ := fileOf(int32(fd))
	size := sizeOfFile(int(int32(fd)))
	for _, v := range d.devices {
		if size != poolFileSize(v.index) {
			continue
		}
		if p := v.importedPool(id); p != nil {
			return p.handle, ok
		}
		f, err := openFile(int(int32(fd)), size)
		if err != nil {
			return 0, d.lacks(name, err, 0, driver.ResultOutOfMemory)
		}
		if err := f.mapMemory(); err != nil {
			f.close()
			return 0, d.lacks(name, err, 0, driver.ResultOutOfMemory)
		}
		d.defaultPool(v)
		p := d.newPool(poolBlock, v)
		p.created, p.imported, p.file = true, true, f
		return p.handle, ok
	}
	return 0, driver.ResultUnknown
}

// importedPool returns the imported pool of a file, or nil.
func (v *device) importedPool(id fileID) *memPool {
	for _, p := range v.pools {
		if !p.imported {
			continue
		}
		if of, open := fileOf(p.file.descriptor()); open && of == id {
			return p
		}
	}
	return nil
}

// isOpen reports whether memory of an imported pool is open, and no free of it was enqueued.
func (p *memPool) isOpen(all *addressSpace) bool {
	for _, c := range p.chunks {
		if b := all.of(c.addr, poolBlock); c.live != 0 && b != nil && b.chunk == c && !b.leaving {
			return true
		}
	}
	return false
}

// poolMemory marks the data that stands for memory of a pool.
const poolMemory = 0x6c6f6f70756372

// MemPoolExportPointer is cuMemPoolExportPointer.
func (d *Driver) MemPoolExportPointer(th *driver.Thread,
	ptr driver.DevicePtr) (data driver.MemPoolPtrExportData, r driver.Result) {
	defer d.mu.Unlock()
	if r := d.beginPools("cuMemPoolExportPointer", th); r != ok {
		return data, r
	}
	b := d.space.of(uint64(ptr), poolBlock)
	if b == nil || b.leaving || b.chunk.pool.file == nil || b.chunk.pool.imported {
		return data, driver.ResultInvalidValue
	}
	for i, v := range []uint64{poolMemory, b.chunk.offset + b.addr - b.chunk.addr, b.size} {
		binary.LittleEndian.PutUint64(data[8*i:], v)
	}
	return data, ok
}

// opened returns the memory of an imported pool that is open at a part of the pool's file, or nil.
func (p *memPool) opened(all *addressSpace, offset, size uint64) *block {
	for _, c := range p.chunks {
		if c.offset != offset || c.live == 0 {
			continue
		}
		if b := all.of(c.addr, poolBlock); b != nil && b.chunk == c && b.size == size && !b.leaving {
			return b
		}
	}
	return nil
}

// MemPoolImportPointer is cuMemPoolImportPointer. The memory is a chunk of its own. Memory that is open
// keeps its address, and the openings do not count: the first free ends them all.
func (d *Driver) MemPoolImportPointer(th *driver.Thread, h driver.MemoryPool,
	data driver.MemPoolPtrExportData) (driver.DevicePtr, driver.Result) {
	defer d.mu.Unlock()
	p, r := d.aboutPool("cuMemPoolImportPointer", th, h)
	switch {
	case r != ok:
		return 0, r
	case !p.imported: // it may be of no device
		return 0, driver.ResultInvalidValue
	}
	var v [3]uint64
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(data[8*i:])
	}
	offset, size, end := v[1], v[2], poolFileSize(p.dev.index)
	if v[0] != poolMemory || size == 0 || offset%alignment != 0 || size > end || offset > end-size {
		return 0, driver.ResultInvalidValue
	}
	if b := p.opened(&d.space, offset, size); b != nil {
		return driver.DevicePtr(b.addr), ok
	}
	c := d.thread(th).current()
	if c == nil || c.dev != p.dev {
		c = p.dev.nowhere()
	}
	addr, there := d.space.place(size)
	if !there {
		return 0, driver.ResultOutOfMemory
	}
	k := &chunk{pool: p, addr: addr, size: rounded(size), offset: offset, live: 1, mem: p.part(offset, size)}
	b := &block{addr: addr, size: size, kind: poolBlock, ctx: c, chunk: k, mem: k.mem}
	p.chunks = append(p.chunks, k)
	p.used.add(size)
	d.space.add(b)
	return driver.DevicePtr(addr), ok
}
