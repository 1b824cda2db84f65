package sim

import (
	"cmp"
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/engine"
	"github.com/purecu/purecu/internal/sim/mem"
)

// This file has the parts of the memory of pools, and which allocation gets which of them.

// after reports whether work that a stream does next comes after the free of the piece.
func (q *piece) after(p *memPool, s *stream) bool {
	switch {
	case q.op == nil || q.s == s:
		return true
	case q.op.Done():
		return p.reuse[driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC-1] != 0
	case s.Idle():
		return false
	}
	w := engine.WaitFor(s.Tail())
	return p.reuse[driver.CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES-1] != 0 &&
		w.Needs(q.op)
}

// take removes n bytes that fit from a chunk of the pool, and returns their address. The file
// system has allocated them if the pool has a file.
func (p *memPool) take(d *Driver, n uint64, fits func(*piece) bool) (c *chunk, got piece) {
	for _, c := range p.chunks {
		for i := range c.free {
			q := &c.free[i]
			if q.size < n || !fits(q) || c.lacks(q.addr+n) != 0 {
				continue
			}
			got := *q
			d.space.cover(got.was)
			if q.addr, q.size = q.addr+n, q.size-n; q.size == 0 {
				c.free = slices.Delete(c.free, i, i+1)
			}
			return c, got
		}
	}
	return nil, piece{}
}

// merge makes one piece of free pieces that follow each other. Otherwise allocations of different sizes
// would divide a chunk more and more. It reports whether there were such pieces.
func (p *memPool) merge() (merged bool) {
	opportunistic := p.reuse[driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC-1] != 0
	for _, c := range p.chunks {
		slices.SortFunc(c.free, func(a, b piece) int { return cmp.Compare(a.addr, b.addr) })
		kept := c.free[:0]
		for _, q := range c.free {
			if len(kept) > 0 {
				last := &kept[len(kept)-1]
				if last.addr+last.size == q.addr && last.settled() && q.settled() && (last.s == q.s || opportunistic) {
					merged = true
					last.size, last.op, last.was = last.size+q.size, cmp.Or(last.op, q.op), nil
					if last.s != q.s { // any stream may use it, also if this is forbidden later
						last.s, last.op = nil, nil
					}
					continue
				}
			}
			kept = append(kept, q)
		}
		clear(c.free[len(kept):])
		c.free = kept
	}
	return merged
}

// settled reports whether the free of the piece is done.
func (q *piece) settled() bool { return (q.op == nil || q.op.Done()) && (q.was == nil || q.was.gone) }

// grow makes room for n bytes in a chunk, which may be a new one, and reports false if there is too
// little memory. The driver may be unlocked meanwhile: another call may then use the room, or
// destroy the pool.
func (p *memPool) grow(d *Driver, n uint64, fits func(*piece) bool) bool {
	if p.growing { // or shrinking
		for p.growing {
			d.engine.Changed.Wait()
		}
		return true // perhaps there is room now
	}
	c, more := p.lacking(n, fits)
	added := c == nil
	if added {
		if c = p.reserve(d, n); c == nil {
			return false
		}
		more = c.lacks(c.addr + n)
	}
	there := more == 0 || c.allocate(d, more)
	if added && !there {
		d.space.giveBack(p, func(other *chunk) bool { return other == c })
	}
	p.reserved.add(0) // notes the most, which does not include a chunk that was given back
	return there
}

// reserve adds a chunk for n bytes to the pool, or returns nil if there is too little memory.
func (p *memPool) reserve(d *Driver, n uint64) *chunk {
	size := (n + chunkSize - 1) / chunkSize * chunkSize
	most := (min(p.max, mostMemory) + chunkSize - 1) / chunkSize * chunkSize
	if size < n || p.max != 0 && (size > most || p.reserved.now > most-size) {
		return nil
	}
	if p.kind.visible() {
		return p.reserveOnHost(d, size)
	}
	if room := p.dev.free(); size > room {
		for _, other := range p.dev.pools {
			d.space.trim(other, 0)
		}
		if size > p.dev.free() {
			return nil
		}
	}
	c := &chunk{pool: p, size: size}
	there := true
	if p.file == nil {
		c.mem = mem.New(&d.space.budget, size)
	} else {
		if c.offset, there = p.room(size); !there {
			return nil
		}
		c.mem = p.part(c.offset, size)
	}
	if c.addr, there = d.space.place(size); !there {
		return nil
	}
	p.dev.take(size)
	return p.added(c)
}

// reserveOnHost is reserve for memory that the host can access.
func (p *memPool) reserveOnHost(d *Driver, size uint64) *chunk {
	c := &chunk{pool: p, size: size}
	if p.file == nil {
		if c.mem, c.addr = d.space.newHostContent(p.kind, size); c.mem == nil {
			return nil
		}
		return p.added(c)
	}
	there := d.space.takeOnHost(p.kind, size)
	if there {
		if c.offset, there = p.room(size); !there {
			*d.space.onHost(p.kind) -= size
		}
	}
	if !there {
		return nil
	}
	c.mem, c.addr = p.part(c.offset, size), p.addressAt(c.offset)
	return p.added(c)
}

// added adds a chunk to the pool.
func (p *memPool) added(c *chunk) *chunk {
	c.free = []piece{{addr: c.addr, size: c.size}}
	p.chunks = append(p.chunks, c)
	p.reserved.now += c.size
	return c
}

// trim gives unused chunks of a pool back until no more than keep bytes are reserved.
func (a *addressSpace) trim(p *memPool, keep uint64) {
	a.giveBack(p, func(*chunk) bool { return p.reserved.now > keep || p.imported })
}

// giveBack gives unused chunks of a pool back that are chosen. A pool that is destroyed gives its
// file away with the last chunk.
func (a *addressSpace) giveBack(p *memPool, choose func(*chunk) bool) {
	before := len(p.chunks)
	p.chunks = slices.DeleteFunc(p.chunks, func(c *chunk) bool {
		if c.live > 0 || !choose(c) {
			return false
		}
		a.retire(c.mem)
		switch {
		case p.imported:
			return true
		case p.kind.visible():
			*a.onHost(p.kind) -= c.size
		default:
			p.dev.give(c.size)
		}
		p.reserved.now -= c.size
		return true
	})
	switch {
	case p.file == nil:
	case p.destroyed && len(p.chunks) == 0 && !p.growing:
		p.file.charged = uint64(len(p.charged)) * chunkUnit
		a.discard(p.file)
		p.file, p.charged = nil, nil
	case len(p.chunks) < before && !p.imported && !slices.Contains(a.shrunk, p):
		a.shrunk = append(a.shrunk, p)
	}
}

// freed adds a block to the free pieces of its chunk, when a call makes a stream free it by an
// operation, or when it is freed at once.
func (b *block) freed(s *stream, o *op) {
	q := piece{addr: b.addr, size: rounded(b.size), s: s, op: o, was: b}
	b.chunk.free = slices.Insert(b.chunk.free, 0, q) // it is preferred to memory that was never used
}

// unused is called when the free of a pool's block is done. A chunk of a private pool without blocks needs no
// memory of the machine, though the pool keeps it.
func (a *addressSpace) unused(b *block) {
	c, p := b.chunk, b.chunk.pool
	c.live--
	switch {
	case c.live > 0:
	case p.destroyed:
		a.trim(p, 0)
	case p.kind == poolBlock && p.file == nil:
		a.retire(c.mem)
		c.mem = mem.New(&a.budget, c.size)
	}
}

// poolFileSize returns the size of the file of a pool of a device, or of the host if v is nil.
func poolFileSize(v *device) uint64 {
	units := uint64(mostMemory/granularity + 2)
	if v != nil {
		units += 1 + uint64(v.index)
	}
	return units * granularity
}

// room returns a part of the pool's file that no chunk has.
func (p *memPool) room(size uint64) (offset uint64, there bool) {
	for _, c := range p.byOffset() {
		if c.offset-offset >= size {
			break
		}
		offset = c.offset + c.size
	}
	return offset, size <= poolFileSize(p.dev)-offset
}

// part returns the content of a part of the pool's file.
func (p *memPool) part(offset, n uint64) *mem.Content {
	return mem.Of(p.file.mapped()[offset : offset+n : offset+n])
}

// addressAt returns the address of the host where a part of the pool's file is.
func (p *memPool) addressAt(offset uint64) uint64 { return mem.AddressOf(p.file.mapped()[offset:]) }

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
	if all := poolFileSize(p.dev); end < all {
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
