package sim

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/purecu/purecu/driver"
)

// A pool that processes share has a file, of which a chunk is a part. The file is sparse. Its size says
// that it is a pool's, and of which device or that it is of the host: it is larger than that of physical memory can be.

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
	for _, v := range append([]*device{nil}, d.devices...) {
		if size != poolFileSize(v) {
			continue
		}
		if p := importedPool(*d.poolsOf(v), id); p != nil {
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
		if v != nil {
			d.defaultPool(v)
		}
		p := d.newPool(kindOfPool(false, v), v)
		p.created, p.imported, p.file = true, true, f
		return p.handle, ok
	}
	return 0, driver.ResultUnknown
}

// importedPool returns the imported pool of a file, or nil.
func importedPool(pools []*memPool, id fileID) *memPool {
	for _, p := range pools {
		if p.imported && p.isOf(id) {
			return p
		}
	}
	return nil
}

// isOf reports whether the pool has a file.
func (p *memPool) isOf(id fileID) bool {
	of, open := fileOf(p.file.descriptor())
	return open && of == id
}

// isOpen reports whether memory of an imported pool is open, and no free of it was enqueued.
func (p *memPool) isOpen(all *addressSpace) bool {
	for _, c := range p.chunks {
		if b := all.of(c.addr, p.kind); c.live != 0 && b != nil && b.chunk == c && !b.leaving {
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
	b := d.space.of(uint64(ptr), poolBlock, pinnedPoolBlock)
	if b == nil || b.leaving || b.chunk.pool.file == nil || b.chunk.pool.imported {
		return data, driver.ResultInvalidValue
	}
	id, _ := fileOf(b.chunk.pool.file.descriptor())
	for i, v := range []uint64{poolMemory, b.chunk.offset + b.addr - b.chunk.addr, b.size, id.device, id.number} {
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
		if b := all.of(c.addr, p.kind); b != nil && b.chunk == c && b.size == size && !b.leaving {
			return b
		}
	}
	return nil
}

// vacate makes addresses free for a new block if the frees of all blocks there were enqueued, and reports false if
// one is open: the program that has exported it has freed it too early.
func (a *addressSpace) vacate(addr, n uint64) bool {
	_, from := a.Split(addr)
	end := slices.IndexFunc(from, func(b *block) bool { return b.addr >= addr+n })
	if end >= 0 {
		from = from[:end]
	}
	if slices.ContainsFunc(from, func(b *block) bool { return !b.leaving }) {
		return false
	}
	for _, b := range slices.Clone(from) {
		a.cover(b)
	}
	return true
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
	case !p.imported:
		return 0, driver.ResultInvalidValue
	}
	var v [5]uint64
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(data[8*i:])
	}
	offset, size, end := v[1], v[2], poolFileSize(p.dev)
	if v[0] != poolMemory || size == 0 || offset%alignment != 0 || size > end || offset > end-size ||
		!p.isOf(fileID{v[3], v[4]}) { // an H200 also refuses memory of another pool
		return 0, driver.ResultInvalidValue
	}
	if b := p.opened(&d.space, offset, size); b != nil {
		return driver.DevicePtr(b.addr), ok
	}
	c := d.thread(th).current()
	if c == nil || p.dev != nil && c.dev != p.dev {
		c = cmp.Or(p.dev, d.devices[0]).nowhere()
	}
	addr, there := uint64(0), true
	if p.dev == nil {
		if addr = p.addressAt(offset); !d.space.vacate(addr, size) {
			return 0, driver.ResultInvalidValue
		}
	} else if addr, there = d.space.place(size); !there {
		return 0, driver.ResultOutOfMemory
	}
	k := &chunk{pool: p, addr: addr, size: rounded(size), offset: offset, live: 1, mem: p.part(offset, size)}
	b := &block{addr: addr, size: size, kind: p.kind, ctx: c, chunk: k, mem: k.mem}
	p.chunks = append(p.chunks, k)
	p.used.add(size)
	d.space.add(b)
	return driver.DevicePtr(addr), ok
}
