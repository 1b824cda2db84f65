package races

import (
	"cmp"
	"slices"
)

// memory is what is known about the uses of all memory. Each space has an index: memory of devices,
// whose addresses differ, and memory of the host.
type memory struct {
	segments    [2][]segment     // in the order of the addresses, without overlaps
	allocations [2][]*allocation // the same
	freed       []*allocation    // in the order in which they were freed
	mappings    []*allocation    // those with physical memory that are not freed
}

// maxFreed is how many freed allocations are known, for reports of their use.
const maxFreed = 256

// segment is a range of memory whose bytes have been used in the same way.
type segment struct {
	from, to uint64
	write    *access
	reads    []*access // after write, and not in order with each other
}

// access is one use of memory.
type access struct {
	lane int
	n    uint64
	made uint64
	by   *work
	use  Use
}

// allocation is memory that the program has allocated.
type allocation struct {
	what       string
	addr, size uint64
	onHost     bool
	stack      []uintptr
	freed      []uintptr // where it was freed, or nil
	physical   uint64    // the number of the physical memory that is mapped there, or 0
	openings   int       // how many there are of memory that a handle names
}

// compare compares the beginning of the allocation with an address.
func (a *allocation) compare(addr uint64) int { return cmp.Compare(a.addr, addr) }

func space(onHost bool) int {
	if onHost {
		return 1
	}
	return 0
}

// use notes the uses of a step, and finds those that are not in order with earlier uses.
func (m *memory) use(d *Detector, s *step) {
	for _, u := range s.work.uses {
		a := &access{lane: s.lane.id, n: s.n, made: s.made, by: s.work}
		if u.Address {
			of := m.holding(u.Addr, false)
			if of == nil {
				of = m.holding(u.Addr, true) // most host memory has the same address on the device
			}
			if of == nil || m.endsAt(u.Addr, of.onHost) {
				continue // a number that is no address, or perhaps the end of other memory
			}
			u.OnHost, u.Size = of.onHost, 1
			if a.use = u; of.freed != nil {
				d.find(Race{Kind: UsedAfterFree, Second: a.party(), memory: of, Addr: u.Addr, Size: 1})
				continue
			}
			d.overwritten(of.addr, of.size, s, 0) // perhaps
		}
		if a.use = u; u.Size == 0 {
			continue
		}
		if u.Write {
			d.overwritten(u.Addr, u.Size, s, 0)
		}
		m.note(d, s, a, u)
		for _, other := range m.elsewhere(u) {
			m.note(nil, s, a, other) // the races are those that were found at u
		}
	}
}

// note notes an access of memory, and finds those that are not in order with earlier ones, unless d is nil.
func (m *memory) note(d *Detector, s *step, a *access, u Use) {
	list := &m.segments[space(u.OnHost)]
	first := m.split(u)
	end := first
	for ; end < len(*list) && (*list)[end].from < u.Addr+u.Size; end++ {
		m.check(d, s, &(*list)[end], a)
	}
	m.merge(list, first, end)
}

// elsewhere returns the same use at the other addresses of physical memory.
func (m *memory) elsewhere(u Use) (list []Use) {
	if u.OnHost {
		return nil
	}
	for _, a := range m.mappings {
		from, to := max(u.Addr, a.addr), min(u.Addr+u.Size, a.addr+a.size)
		if from >= to {
			continue
		}
		for _, b := range m.mappings {
			if b != a && b.physical == a.physical {
				other := u
				other.Addr, other.Size = b.addr+from-a.addr, to-from
				list = append(list, other)
			}
		}
	}
	return list
}

// mapped notes that physical memory is mapped at an address. Its uses at another address count there, too.
func (m *memory) mapped(a *allocation) {
	list := &m.segments[space(false)]
	for _, b := range m.mappings {
		if b.physical != a.physical {
			continue
		}
		first, end := m.cut(list, b.addr), m.cut(list, b.addr+b.size)
		same := slices.Clone((*list)[first:end])
		for i := range same {
			same[i].from += a.addr - b.addr
			same[i].to += a.addr - b.addr
			same[i].reads = slices.Clone(same[i].reads)
		}
		*list = slices.Insert(*list, m.cut(list, a.addr), same...)
		break
	}
	m.mappings = append(m.mappings, a)
}

// merge joins neighbours, from first to end, that have been used in the same way.
func (m *memory) merge(list *[]segment, first, end int) {
	kept := first
	for i := first + 1; i < end; i++ {
		if a, b := &(*list)[kept], &(*list)[i]; a.to == b.from && a.write == b.write && slices.Equal(a.reads, b.reads) {
			a.to = b.to
			continue
		}
		kept++
		(*list)[kept] = (*list)[i]
	}
	if first < end {
		*list = slices.Delete(*list, kept+1, end)
	}
}

// endsAt reports whether memory ends at the address.
func (m *memory) endsAt(addr uint64, onHost bool) bool {
	of := m.holding(addr-1, onHost)
	return of != nil && of.addr+of.size == addr
}

// check looks for races in a segment, unless d is nil, and notes the access there.
func (m *memory) check(d *Detector, s *step, seg *segment, a *access) {
	ordered := func(b *access) bool {
		return s.clock.of(b.lane) >= b.n || b.by.launch != nil && b.by.launch.failed || b.by.byHost() && s.work.byHost()
	}
	if s.late {
		// Work that was enqueued meanwhile comes after it.
		before := ordered
		ordered = func(b *access) bool { return b.made > s.made || before(b) }
		if seg.write != nil && seg.write.made > s.made {
			return // it may be the work that has written
		}
	}
	if w := seg.write; w != nil && d != nil && !ordered(w) {
		d.race(w, a, seg)
	}
	if !a.use.Write {
		seg.reads = append(slices.DeleteFunc(seg.reads, ordered), a)
		return
	}
	for _, r := range seg.reads {
		if d != nil && !ordered(r) {
			d.race(r, a, seg)
		}
	}
	if seg.write = a; !s.late {
		seg.reads = nil
		return
	}
	seg.reads = slices.DeleteFunc(seg.reads, func(r *access) bool { return r.made <= s.made })
}

// split makes segments that begin and end where the use does, and that have no gaps in it. It returns
// the index of the first segment of the use.
func (m *memory) split(u Use) int {
	list := &m.segments[space(u.OnHost)]
	from, to := u.Addr, u.Addr+u.Size
	first := m.cut(list, from)
	end := m.cut(list, to)
	var filled []segment
	at := from
	for _, seg := range (*list)[first:end] {
		if seg.from > at {
			filled = append(filled, segment{from: at, to: seg.from})
		}
		filled = append(filled, seg)
		at = seg.to
	}
	if at < to {
		filled = append(filled, segment{from: at, to: to})
	}
	if len(filled) != end-first {
		*list = slices.Replace(*list, first, end, filled...)
	}
	return first
}

// cut makes no segment reach across an address. It returns the index of the first segment behind it.
func (m *memory) cut(list *[]segment, at uint64) int {
	i, _ := slices.BinarySearchFunc(*list, at, func(s segment, at uint64) int {
		if s.to <= at {
			return -1
		}
		return 1
	})
	if i < len(*list) && (*list)[i].from < at {
		left := (*list)[i]
		left.to = at
		left.reads = slices.Clone(left.reads)
		(*list)[i].from = at
		*list = slices.Insert(*list, i, left)
		i++
	}
	return i
}

// holding returns the allocation that has an address, or nil.
func (m *memory) holding(addr uint64, onHost bool) *allocation {
	list := m.allocations[space(onHost)]
	i, found := slices.BinarySearchFunc(list, addr, (*allocation).compare)
	if !found {
		i--
	}
	if i < 0 || addr-list[i].addr >= list[i].size {
		return nil
	}
	return list[i]
}

// allocate notes an allocation. The uses of memory that was there before are forgotten, after a look
// for work that may still use that memory: the library frees no memory whose use it knows, so only
// addresses that were passed as numbers count.
func (m *memory) allocate(d *Detector, a *allocation) {
	to := a.addr + a.size
	list := &m.segments[space(a.onHost)]
	first, end := m.cut(list, a.addr), m.cut(list, to)
	for _, seg := range (*list)[first:end] {
		for _, r := range seg.reads {
			if d.stillRead(r) {
				d.find(Race{Kind: Reused, First: r.party(), Second: Party{Call: a.what, Stack: a.stack}, memory: a,
					Addr: seg.from, Size: seg.to - seg.from})
			}
		}
	}
	*list = slices.Delete(*list, first, end)
	all := &m.allocations[space(a.onHost)]
	i, found := slices.BinarySearchFunc(*all, a.addr, (*allocation).compare)
	if !found && i > 0 && (*all)[i-1].addr+(*all)[i-1].size > a.addr {
		i--
	}
	behind := i
	for behind < len(*all) && (*all)[behind].addr < to {
		behind++
	}
	// The end of memory that is replaced was perhaps not seen.
	replaced := (*all)[i:behind]
	m.mappings = slices.DeleteFunc(m.mappings, func(b *allocation) bool { return slices.Contains(replaced, b) })
	*all = slices.Replace(*all, i, behind, a)
}

// stillRead reports whether work that got an address as a number may still use the memory there.
func (d *Detector) stillRead(r *access) bool { return r.use.Address && d.host.of(r.lane) < r.n }

// free notes that memory is freed. Of its uses only those stay that allocate looks for. The oldest of many freed
// allocations is forgotten.
func (m *memory) free(d *Detector, a *allocation, stack []uintptr) {
	a.freed = stack
	list := &m.segments[space(a.onHost)]
	first, end := m.cut(list, a.addr), m.cut(list, a.addr+a.size)
	kept := slices.DeleteFunc(slices.Clone((*list)[first:end]), func(seg segment) bool {
		return !slices.ContainsFunc(seg.reads, d.stillRead)
	})
	for i := range kept {
		kept[i].write = nil
	}
	*list = slices.Replace(*list, first, end, kept...)
	m.mappings = slices.DeleteFunc(m.mappings, func(b *allocation) bool { return b == a })
	m.freed = append(m.freed, a)
	if len(m.freed) <= maxFreed {
		return
	}
	old := m.freed[0]
	m.freed = m.freed[1:]
	if m.holding(old.addr, old.onHost) != old {
		return // other memory is there
	}
	all := &m.allocations[space(old.onHost)]
	*all = slices.DeleteFunc(*all, func(a *allocation) bool { return a == old })
	m.forget(d, old.onHost, old.addr, old.size)
}

// forget forgets the uses of memory, and the words there.
func (m *memory) forget(d *Detector, onHost bool, addr, size uint64) {
	d.forgetWords(addr, size)
	list := &m.segments[space(onHost)]
	first, end := m.cut(list, addr), m.cut(list, addr+size)
	*list = slices.Delete(*list, first, end)
}
