package vm

import (
	"sync/atomic"
	"unsafe"
)

// Memory is the memory of the devices and the host. It is used by several goroutines at once.
type Memory interface {
	// Region returns memory that contains an address: its first address, and its content, which must not
	// move. It is only for reads, or also for writes. It returns nil if there is none, and whether that is
	// because the machine has no memory left.
	Region(addr uint64, write bool) (base uint64, data []byte, full bool)
}

// columnSize is the size of a register of all lanes.
const columnSize = uint64(unsafe.Sizeof(Column{}))

// cellSize is the size of what is known of a byte of shared memory to find races.
const cellSize = uint64(unsafe.Sizeof(cell{}))

// segment is a piece of memory with one owner.
type segment struct {
	base, size uint64
	data       unsafe.Pointer
}

func segmentOf(base uint64, data []byte) segment {
	return segment{base, uint64(len(data)), unsafe.Pointer(unsafe.SliceData(data))}
}

// has reports whether an access is within the segment.
func (s *segment) has(addr, n uint64) bool {
	off := addr - s.base
	return off < s.size && s.size-off >= n
}

// Fault is the reason for which a kernel ended.
type Fault struct {
	Code        int // a CUresult
	Kernel      string
	Line        int32
	Instruction string
	File        string // the source file and the line in it, if they are known
	Source      uint32
	Block       [3]uint32
	Thread      [3]uint32
	Access      bool   // Address is meant
	Write       bool   // of an access
	Address     uint64 // of an access
	Size        uint64 // of an access, in bytes
	Reason      string
	// Other is the other access of a race, or where the thread is that does not reach a barrier.
	Other *Fault
}

// The results of faults, with the numbers of CUresult.
const (
	IllegalAddress     = 700
	AssertFailed       = 710
	IllegalInstruction = 715
	Misaligned         = 716
	InvalidPC          = 718
	LaunchFailed       = 719
)

// find returns the segment of an access to the generic address space. It remembers the segment in
// the place of the instruction.
func (w *Warp) find(o *Op, lane int, addr, n uint64, write bool) *segment {
	if addr&(n-1) != 0 {
		w.accessFault(Misaligned, lane, addr, n, write)
		return nil
	}
	s, checked := w.cached(o, write), w.block.checks != nil
	if checked { // it is not remembered, as each access is checked
		s = &w.own
	}
	owner := w.block
	switch addr &^ (WindowSize - 1) {
	case SharedWindow:
		if *s = (segment{}); addr-SharedWindow < 1<<32 {
			if owner, _ = w.sharedOf(uint32(addr)); owner != nil {
				*s = owner.whole
				s.base += addr &^ (1<<rankShift - 1)
			}
		}
	case LocalWindow: // it belongs to this warp only
		s = &w.own
		*s = segmentOf(LocalWindow, w.local)
	case ParamWindow:
		if *s = (segment{}); !write {
			*s = segmentOf(ParamWindow, w.block.run.Params)
		}
	case ConstWindow:
		if *s = (segment{}); !write {
			*s = segmentOf(ConstWindow, w.block.run.Const)
		}
	default:
		base, data, full := w.block.run.Memory.Region(addr, write)
		if *s = segmentOf(base, data); full {
			*s = segment{}
			w.accessFault(LaunchFailed, lane, addr, n, write)
			w.Fault.Reason = "the machine has no memory left for what it writes"
			return nil
		}
	}
	switch {
	case owner == nil:
		w.noOwner(lane, addr, n, write)
		return nil
	case !s.has(addr, n):
		*s = segment{}
		w.accessFault(w.outside(owner, uint32(addr)), lane, addr, n, write)
		return nil
	}
	if checked {
		switch addr &^ (WindowSize - 1) {
		case SharedWindow:
			w.checkShared(owner, lane, addr&(1<<rankShift-1), n, w.kind(write))
		case LocalWindow, ParamWindow, ConstWindow:
		default:
			w.checkGlobal(lane, addr, n, write)
		}
		// It has this access, but no room for that of another lane.
		w.own = segment{addr, 0, unsafe.Add(s.data, addr-s.base)}
	}
	return s
}

// cacheSize is how many segments a worker remembers for each kind of access.
const cacheSize = 64

// cached returns the segment that an instruction used before. It may be of another block's shared
// memory only if the caches were not cleared since. What is only read may be memory that must not be
// written, or that the machine has not provided yet, so writes have segments of their own.
func (w *Warp) cached(o *Op, write bool) *segment {
	if write {
		return &w.worker.stores[placeOf(o)]
	}
	return &w.worker.loads[placeOf(o)]
}

// Aligned reports whether an address is a multiple of a size. Otherwise there is a fault.
func (w *Warp) Aligned(lane int, addr, n uint64, write bool) bool {
	if addr&(n-1) != 0 {
		w.accessFault(Misaligned, lane, addr, n, write)
		return false
	}
	return true
}

// accessFault records a fault of an access.
func (w *Warp) accessFault(code, lane int, addr, n uint64, write bool) {
	w.fail(code, lane)
	w.Fault.Access, w.Fault.Address, w.Fault.Size, w.Fault.Write = true, addr, n, write
}

// outside returns the result of an access beyond the shared memory of a block. As on an H200, another
// block has another one, unless the address is far beyond.
func (w *Warp) outside(owner *block, addr uint32) int {
	const far = 1 << 18
	if owner != w.block && addr&(1<<rankShift-1) < far {
		return LaunchFailed
	}
	return IllegalAddress
}

// noOwner records a fault of an access to the shared memory of a block that is not there.
func (w *Warp) noOwner(lane int, addr, n uint64, write bool) {
	w.accessFault(LaunchFailed, lane, addr, n, write)
	w.Fault.Reason = "this is shared memory of another block, and the cluster has no such block, or it has ended"
}

// Word is an unsigned integer of the size of an access.
type Word interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Load loads a word from the generic address space.
//
//go:norace
func Load[T Word](w *Warp, o *Op) {
	d, a, off, n := &w.R[o.D], &w.R[o.A], uint64(o.Imm), uint64(unsafe.Sizeof(T(0)))
	s := *w.cached(o, false)
	if loadAll(d, a, s.accesses(off, n), w.Active, n) {
		return
	}
	if w.Active == Full {
		for i := range d {
			addr := a[i] + off
			at := addr - s.base
			if at >= s.size || s.size-at < n || addr&(n-1) != 0 {
				p := w.find(o, i, addr, n, false)
				if p == nil {
					return
				}
				s = *p
				at = addr - s.base
			}
			d[i] = uint64(*(*T)(unsafe.Add(s.data, at)))
		}
		return
	}
	for i := range w.Each {
		addr := a[i] + off
		if !s.has(addr, n) || addr&(n-1) != 0 {
			p := w.find(o, i, addr, n, false)
			if p == nil {
				return
			}
			s = *p
		}
		d[i] = uint64(*(*T)(unsafe.Add(s.data, addr-s.base)))
	}
}

// Store stores a word to the generic address space.
//
//go:norace
func Store[T Word](w *Warp, o *Op) {
	b, a, off, n := &w.R[o.B], &w.R[o.A], uint64(o.Imm), uint64(unsafe.Sizeof(T(0)))
	s := *w.cached(o, true)
	if storeAll(b, a, s.accesses(off, n), w.Active, n) {
		return
	}
	if w.Active == Full {
		for i := range b {
			addr := a[i] + off
			at := addr - s.base
			if at >= s.size || s.size-at < n || addr&(n-1) != 0 {
				p := w.find(o, i, addr, n, true)
				if p == nil {
					return
				}
				s = *p
				at = addr - s.base
			}
			*(*T)(unsafe.Add(s.data, at)) = T(b[i])
		}
		return
	}
	for i := range w.Each {
		addr := a[i] + off
		if !s.has(addr, n) || addr&(n-1) != 0 {
			p := w.find(o, i, addr, n, true)
			if p == nil {
				return
			}
			s = *p
		}
		*(*T)(unsafe.Add(s.data, addr-s.base)) = T(b[i])
	}
}

// LoadShared loads a word from the shared memory of the block.
//
//go:norace
func LoadShared[T Word](w *Warp, o *Op) {
	d, a, off, n := &w.R[o.D], &w.R[o.A], uint32(o.Imm), uint32(unsafe.Sizeof(T(0)))
	s := &w.block.shared
	data, size := s.data, uint32(s.size)
	if loadAll(d, a, w.sharedAccesses(uint64(off), uint64(n)), w.Active, uint64(n)) {
		return
	}
	if w.Active == Full && size >= n {
		for i := range d {
			at := uint32(a[i]) + off - SharedBegin
			if at > size-n || at&(n-1) != 0 {
				// There is a fault, or it is the memory of another block.
				p := w.SharedPointer(i, uint32(a[i])+off, uint64(n), false)
				if p == nil {
					return
				}
				d[i] = uint64(*(*T)(p))
				continue
			}
			d[i] = uint64(*(*T)(unsafe.Add(data, at)))
		}
		return
	}
	loadFrom[T](w, o, SharedSpace)
}

// StoreShared stores a word to the shared memory of the block.
//
//go:norace
func StoreShared[T Word](w *Warp, o *Op) {
	b, a, off, n := &w.R[o.B], &w.R[o.A], uint32(o.Imm), uint32(unsafe.Sizeof(T(0)))
	s := &w.block.shared
	data, size := s.data, uint32(s.size)
	if storeAll(b, a, w.sharedAccesses(uint64(off), uint64(n)), w.Active, uint64(n)) {
		return
	}
	if w.Active == Full && size >= n {
		for i := range b {
			at := uint32(a[i]) + off - SharedBegin
			if at > size-n || at&(n-1) != 0 {
				p := w.SharedPointer(i, uint32(a[i])+off, uint64(n), true)
				if p == nil {
					return
				}
				*(*T)(p) = T(b[i])
				continue
			}
			*(*T)(unsafe.Add(data, at)) = T(b[i])
		}
		return
	}
	storeTo[T](w, o, SharedSpace)
}

// Pointer returns where an access of a lane is, or nil after a fault.
func (w *Warp) Pointer(o *Op, lane int, addr, n uint64, write bool) unsafe.Pointer {
	s := w.cached(o, write)
	if !s.has(addr, n) || addr&(n-1) != 0 {
		if s = w.find(o, lane, addr, n, write); s == nil {
			return nil
		}
	}
	return unsafe.Add(s.data, addr-s.base)
}

// SharedPointer is Pointer for the window of shared memory.
func (w *Warp) SharedPointer(lane int, addr uint32, n uint64, write bool) unsafe.Pointer {
	return w.sharedPointer(lane, addr, n, write, 0)
}

// CountingPointer is SharedPointer for a barrier that counts the bytes of an instruction. Who waits for the
// barrier has to see what the instruction has written.
func (w *Warp) CountingPointer(lane int, addr uint32) unsafe.Pointer {
	return w.sharedPointer(lane, addr, 8, true, reads|writes|strong|releases)
}

// sharedPointer is SharedPointer for an access of a kind, or 0 for that of the instruction.
func (w *Warp) sharedPointer(lane int, addr uint32, n uint64, write bool, k access) unsafe.Pointer {
	owner := w.block
	if addr>>rankShift != 0 {
		owner, addr = w.sharedOf(addr)
	}
	if owner == nil {
		w.noOwner(lane, uint64(addr), n, write)
		return nil
	}
	p := w.within(&owner.whole, lane, uint64(addr), n, write)
	if p == nil && w.Fault.Code == IllegalAddress {
		w.Fault.Code = w.outside(owner, addr)
	}
	if p != nil && w.block.checks != nil {
		if k == 0 {
			k = w.kind(write)
		}
		w.checkShared(owner, lane, uint64(addr), n, k)
	}
	return p
}

// ReadTexel reads n bytes, at most 16, of a texture or a surface. It reports false after a fault. Their address need
// not be aligned.
//
//go:norace
func (w *Warp) ReadTexel(o *Op, lane int, addr, n uint64) (texel [16]byte, there bool) {
	if addr >= SharedWindow { // the program has given the address
		w.accessFault(IllegalAddress, lane, addr, n, false)
		w.Fault.Reason = "textures read global memory only"
		return texel, false
	}
	for at, size := uint64(0), alignedSize(addr, n); at < n; at += size {
		p := w.Pointer(o, lane, addr+at, size, false)
		if p == nil {
			return texel, false
		}
		for i := range size {
			texel[at+i] = *(*byte)(unsafe.Add(p, i))
		}
	}
	return texel, true
}

// WriteTexel writes n bytes, at most 16, of a surface.
//
//go:norace
func (w *Warp) WriteTexel(o *Op, lane int, addr, n uint64, texel [16]byte) bool {
	for at, size := uint64(0), alignedSize(addr, n); at < n; at += size {
		p := w.Pointer(o, lane, addr+at, size, true)
		if p == nil {
			return false
		}
		for i := range size {
			*(*byte)(unsafe.Add(p, i)) = texel[at+i]
		}
	}
	return true
}

// alignedSize returns the size of the accesses that n bytes at an address need.
func alignedSize(addr, n uint64) uint64 {
	for addr&(n-1) != 0 {
		n /= 2
	}
	return n
}

// ParamPointer is Pointer for the parameters of a kernel.
func (w *Warp) ParamPointer(lane int, addr, n uint64) unsafe.Pointer {
	s := segmentOf(0, w.block.run.Params)
	return w.within(&s, lane, addr, n, false)
}

// LocalPointer is Pointer for the local memory of a thread.
func (w *Warp) LocalPointer(lane int, addr uint32, n uint64, write bool) unsafe.Pointer {
	size := uint64(w.block.run.Kernel.Local)
	if at := uint64(addr); at+n <= size && at&(n-1) == 0 { // nearly always
		return unsafe.Pointer(&w.local[uint64(lane)*size+at])
	}
	s := segmentOf(0, w.local[uint64(lane)*size:][:size])
	return w.within(&s, lane, uint64(addr), n, write)
}

// within returns where an access to a segment is, or nil after a fault.
func (w *Warp) within(s *segment, lane int, addr, n uint64, write bool) unsafe.Pointer {
	switch {
	case addr&(n-1) != 0:
		w.accessFault(Misaligned, lane, addr, n, write)
	case !s.has(addr, n):
		w.accessFault(IllegalAddress, lane, addr, n, write)
	default:
		return unsafe.Add(s.data, addr-s.base)
	}
	return nil
}

// Space finds the memory of an access to a state space, or returns nil after a fault.
type Space func(w *Warp, o *Op, lane int, addr, n uint64, write bool) unsafe.Pointer

// GenericSpace is the [Space] of generic addresses, and of global and constant memory.
func GenericSpace(w *Warp, o *Op, lane int, addr, n uint64, write bool) unsafe.Pointer {
	return w.Pointer(o, lane, addr, n, write)
}

// SharedSpace is the [Space] of the shared memory of the block.
func SharedSpace(w *Warp, _ *Op, lane int, addr, n uint64, write bool) unsafe.Pointer {
	return w.SharedPointer(lane, uint32(addr), n, write)
}

// LocalSpace is the [Space] of the local memory of the lane.
func LocalSpace(w *Warp, _ *Op, lane int, addr, n uint64, write bool) unsafe.Pointer {
	return w.LocalPointer(lane, uint32(addr), n, write)
}

// ParamSpace is the [Space] of the parameters of the kernel, which are only read.
func ParamSpace(w *Warp, _ *Op, lane int, addr, n uint64, _ bool) unsafe.Pointer {
	return w.ParamPointer(lane, addr, n)
}

// ConstSpace is the [Space] of the constant memory of the module, which is only read.
func ConstSpace(w *Warp, _ *Op, lane int, addr, n uint64, _ bool) unsafe.Pointer {
	s := segmentOf(0, w.block.run.Const)
	return w.within(&s, lane, addr, n, false)
}

// LoadSame returns a function that loads a word from a state space that is the same for all lanes, of which they mostly
// read the same word. It is read once then.
func LoadSame[T Word](space Space) Func {
	return func(w *Warp, o *Op) { loadSame[T](w, o, space) }
}

//go:norace
func loadSame[T Word](w *Warp, o *Op, space Space) {
	a, differs := &w.R[o.A], uint64(0)
	for i := range a {
		differs |= a[i] ^ a[0]
	}
	if w.Active != Full || differs != 0 || o.X != nil {
		loadFrom[T](w, o, space)
		return
	}
	p := space(w, o, 0, a[0]+uint64(o.Imm), uint64(unsafe.Sizeof(T(0))), false)
	if p != nil {
		w.fill(o.D, uint64(*(*T)(p)))
	}
}

// LoadFrom returns a function that loads a word, or a vector of words, from a state space.
func LoadFrom[T Word](space Space) Func {
	return func(w *Warp, o *Op) { loadFrom[T](w, o, space) }
}

//go:norace
func loadFrom[T Word](w *Warp, o *Op, space Space) {
	a, n := &w.R[o.A], uint64(unsafe.Sizeof(T(0)))
	count := uint64(1)
	if o.X != nil {
		count = uint64(o.X.N)
	}
	for i := range w.Each {
		p := space(w, o, i, a[i]+uint64(o.Imm), n*count, false)
		if p == nil {
			return
		}
		if o.X == nil {
			w.R[o.D][i] = uint64(*(*T)(p))
			continue
		}
		for j, d := range o.X.D[:count] {
			if d >= 0 {
				w.R[d][i] = uint64(*(*T)(unsafe.Add(p, uint64(j)*n)))
			}
		}
	}
}

// StoreTo returns a function that stores a word, or a vector of words, to a state space.
func StoreTo[T Word](space Space) Func {
	return func(w *Warp, o *Op) { storeTo[T](w, o, space) }
}

//go:norace
func storeTo[T Word](w *Warp, o *Op, space Space) {
	a, n := &w.R[o.A], uint64(unsafe.Sizeof(T(0)))
	count := uint64(1)
	if o.X != nil {
		count = uint64(o.X.N)
	}
	for i := range w.Each {
		p := space(w, o, i, a[i]+uint64(o.Imm), n*count, true)
		if p == nil {
			return
		}
		if o.X == nil {
			*(*T)(p) = T(w.R[o.B][i])
			continue
		}
		for j, d := range o.X.D[:count] {
			*(*T)(unsafe.Add(p, uint64(j)*n)) = T(w.R[d][i])
		}
	}
}

// AtomicLoad loads a word of 32 or 64 bits with the order of sync/atomic.
func AtomicLoad(p unsafe.Pointer, n uint64) uint64 {
	if n == 8 {
		return atomic.LoadUint64((*uint64)(p))
	}
	return uint64(atomic.LoadUint32((*uint32)(p)))
}

// AtomicStore stores a word of 32 or 64 bits with the order of sync/atomic.
func AtomicStore(p unsafe.Pointer, n, v uint64) {
	if n == 8 {
		atomic.StoreUint64((*uint64)(p), v)
		return
	}
	atomic.StoreUint32((*uint32)(p), uint32(v))
}

// Update changes a word of 32 or 64 bits atomically, and returns the old value.
func Update(p unsafe.Pointer, n uint64, f func(old uint64) uint64) (old uint64) {
	for {
		old = AtomicLoad(p, n)
		v := f(old)
		var done bool
		if n == 8 {
			done = atomic.CompareAndSwapUint64((*uint64)(p), old, v)
		} else {
			done = atomic.CompareAndSwapUint32((*uint32)(p), uint32(old), uint32(v))
		}
		if done {
			return old
		}
	}
}

// Update16 changes a word of 16 bits atomically, and returns the old value.
func Update16(p unsafe.Pointer, f func(old uint64) uint64) (old uint64) {
	shift := uintptr(p) & 2 * 8
	word := unsafe.Add(p, -int(uintptr(p)&2))
	whole := Update(word, 4, func(v uint64) uint64 {
		return v&^(0xffff<<shift) | f(v>>shift&0xffff)&0xffff<<shift
	})
	return whole >> shift & 0xffff
}

// Fence orders the accesses of memory before it and after it.
func (w *Warp) Fence() {
	w.worker.fence.Add(1)
	if c := w.block.checks; c != nil && c.races != nil {
		c.races.fence(w)
	}
}

// BytesOf returns the bytes of words.
func BytesOf(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
}

// LocalSize returns the size of the local memory of a thread in bytes.
func (w *Warp) LocalSize() uint32 { return w.block.run.Kernel.Local }

// placeOf returns the place of an instruction among the segments that a worker remembers.
func placeOf(o *Op) uintptr { return uintptr(unsafe.Pointer(o)) / unsafe.Sizeof(*o) % cacheSize }
