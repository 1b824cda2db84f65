package mem

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	// Granule is the unit in which the machine provides memory for a content, in bytes. It is the size of
	// a huge page, which the machine may provide for a single byte.
	Granule = 2 << 20
	// Whole is the largest size of a content that the machine provides as a whole, in bytes, unless the
	// host can access it.
	Whole = 64 << 10
)

// Content is what memory contains. The machine provides memory for it, granule by granule, when the
// driver or a kernel writes there. Until then it is zero. Its methods are safe for concurrent use, but
// for release.
type Content struct {
	size    uint64
	budget  *Budget       // or nil if others have provided the memory
	open    func() []byte // returns memory that others have provided, or nil if it cannot; may be nil
	layout  atomic.Pointer[layout]
	mu      sync.Mutex // is held while the layout changes
	charged uint64     // bytes that the budget has given
	gone    bool       // Release was called
}

// layout says where a content is.
type layout struct {
	// whole is the content in one piece. If the process has too few addresses for that, it is nil, and
	// each granule is in a place of its own.
	whole  []byte
	pieces []atomic.Pointer[byte]
	// mappings are those of whole or of pieces. They end with the layout, by cleanups, if nobody releases the
	// content, as a driver need not be closed.
	mappings [][]byte
	cleanups []runtime.Cleanup
	slab     *slab           // that has whole instead, or nil
	there    []atomic.Uint64 // a bit for each granule that the machine provides, or nil if it provides all
	missing  atomic.Int64    // how many granules it does not provide
	granules uint64
	host     bool // code of the host may have written anywhere
}

// New returns a content that nothing has written. It costs nothing.
func New(b *Budget, size uint64) *Content { return &Content{size: size, budget: b} }

// Of returns the content of memory that others have provided.
func Of(memory []byte) *Content {
	c := &Content{size: uint64(len(memory))}
	c.layout.Store(&layout{whole: memory})
	return c
}

// Lazy returns the content of memory that others provide when it is used first. open returns nil if it cannot.
func Lazy(size uint64, open func() []byte) *Content { return &Content{size: size, open: open} }

// Size returns the size in bytes.
func (c *Content) Size() uint64 { return c.size }

// Uncount gives back what the budget has given, though the content stays.
func (c *Content) Uncount() {
	c.budget.Give(c.charged)
	c.charged = 0
}

// Untouched reports whether nothing was written, so that all bytes are zero.
func (c *Content) Untouched() bool { return c.layout.Load() == nil && c.open == nil }

// lay returns where the content is, or nil if that cannot be anywhere.
func (c *Content) lay() *layout {
	if l := c.layout.Load(); l != nil {
		return l
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.layout.Load()
	if l != nil || c.gone {
		return l
	}
	switch {
	case c.open != nil:
		l = &layout{whole: c.open()}
		if l.whole == nil {
			return nil
		}
	case c.size <= Whole:
		if !c.budget.Take(c.size) {
			return nil
		}
		l = new(layout)
		if l.whole, l.slab = c.budget.takeSlot(c.size); l.whole == nil {
			c.budget.Give(c.size)
			return nil
		}
		c.charged = c.size
	default:
		l = c.reserve()
		if l.whole == nil {
			l.pieces = make([]atomic.Pointer[byte], l.granules)
		}
	}
	c.layout.Store(l)
	return l
}

// Place gives the content addresses of the host, and returns the first, or 0 if there are none.
func (c *Content) Place() uint64 {
	l := c.reserve()
	if l.whole == nil {
		return 0
	}
	l.host = true
	c.layout.Store(l)
	return AddressOf(l.whole)
}

// reserve returns the layout of a content that the machine provides nothing of. It has no place if there
// are too few addresses.
func (c *Content) reserve() *layout {
	n := (c.size + Granule - 1) / Granule
	l := &layout{granules: n, there: make([]atomic.Uint64, (n+63)/64)}
	l.missing.Store(int64(n))
	if c.size <= 1<<mostSlot {
		if l.whole, l.slab = c.budget.takeSlot(max(c.size, Page)); l.whole != nil {
			l.whole = l.whole[:c.size:c.size]
		}
		return l
	}
	whole, m := c.budget.mapPages(c.size)
	if l.whole = whole; m != nil {
		l.hold(m)
	}
	return l
}

// hold notes a mapping of the layout.
func (l *layout) hold(m []byte) {
	l.mappings = append(l.mappings, m)
	l.cleanups = append(l.cleanups, runtime.AddCleanup(l, unmapPages, m))
}

// all reports whether the machine provides the whole content, in one piece.
func (l *layout) all() bool { return l.whole != nil && (l.there == nil || l.missing.Load() == 0) }

// has reports whether the machine provides a granule.
func (l *layout) has(i uint64) bool { return l.there[i/64].Load()>>(i%64)&1 != 0 }

// run returns the end of the granules from i up to n that are all provided, or all are not.
func (l *layout) run(i, n uint64) uint64 {
	same := uint64(0)
	if l.has(i) {
		same = ^same
	}
	for i < n {
		more := uint64(bits.TrailingZeros64((l.there[i/64].Load() ^ same) >> (i % 64)))
		if more < 64-i%64 {
			return min(i+more, n)
		}
		i += 64 - i%64
	}
	return n
}

// before returns the first of the granules up to i that are all provided.
func (l *layout) before(i uint64) uint64 {
	for i > 0 {
		word := ^l.there[(i-1)/64].Load() << (63 - (i-1)%64)
		same := uint64(bits.LeadingZeros64(word))
		if have := (i-1)%64 + 1; same < have {
			return i - same
		}
		i -= (i-1)%64 + 1
	}
	return 0
}

// sizeOf returns the size of a granule.
func (c *Content) sizeOf(i uint64) uint64 { return min(Granule, c.size-i*Granule) }

// Lacks returns how many bytes the machine has to provide before n bytes at an offset can be written.
func (c *Content) Lacks(off, n uint64) (bytes uint64) {
	l := c.layout.Load()
	switch {
	case n == 0 || l != nil && l.all():
		return 0
	case l == nil && c.size <= Whole:
		return c.size
	}
	for i := off / Granule; i <= (off+n-1)/Granule; i++ {
		if l == nil || !l.has(i) {
			bytes += c.sizeOf(i)
		}
	}
	return bytes
}

// Provide makes the machine provide memory for n bytes at an offset, which are written next. It reports
// false if there is too little; then it has changed nothing, unless the process has too few addresses.
func (c *Content) Provide(off, n uint64) bool {
	l := c.lay()
	switch {
	case l == nil:
		return false
	case n == 0 || l.all():
		return true
	}
	if c.Lacks(off, n) == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	need := c.Lacks(off, n)
	if !c.budget.Take(need) {
		return false
	}
	for i := off / Granule; i <= (off+n-1)/Granule; i++ {
		if l.has(i) {
			continue
		}
		if l.whole == nil {
			_, m := c.budget.mapPages(c.sizeOf(i))
			if m == nil {
				c.budget.Give(need)
				return false
			}
			l.hold(m)
			l.pieces[i].Store(unsafe.SliceData(m))
		}
		l.there[i/64].Or(1 << (i % 64))
		l.missing.Add(-1)
		c.charged += c.sizeOf(i)
		need -= c.sizeOf(i)
	}
	return true
}

// piece returns a granule that the machine provides.
func (l *layout) piece(i, size uint64) []byte {
	if l.whole != nil {
		return l.whole[i*Granule : i*Granule+size]
	}
	return unsafe.Slice(l.pieces[i].Load(), size)
}

// Part returns the first of n bytes at an offset: how many are in one piece, and these, or nil if nothing
// was written there.
func (c *Content) Part(off, n uint64) (data []byte, length uint64) {
	l := c.layout.Load()
	if l == nil && c.open != nil {
		l = c.lay()
	}
	switch {
	case l == nil:
		return nil, n
	case l.all(), l.host:
		return l.whole[off : off+n], n
	}
	i := off / Granule
	end := l.run(i, (off+n-1)/Granule+1)
	if l.pieces != nil && l.has(i) {
		end = i + 1
	}
	length = min(n, end*Granule-off)
	switch {
	case !l.has(i):
		return nil, length
	case l.whole != nil:
		return l.whole[off : off+length], length
	}
	return l.piece(i, c.sizeOf(i))[off-i*Granule:][:length], length
}

// Clear makes n bytes zero. It needs no memory of the machine: what nothing has written is zero.
//
//go:norace
func (c *Content) Clear(off, n uint64) {
	for n > 0 {
		data, length := c.Part(off, n)
		if l := c.layout.Load(); l != nil && l.host && !l.all() {
			i := off / Granule
			length = min(n, l.run(i, (off+n-1)/Granule+1)*Granule-off)
			if data = data[:length]; !l.has(i) {
				discardPages(data)
				data = nil
			}
		}
		clear(data)
		off, n = off+length, n-length
	}
}

// CopyTo copies the content to new memory, which is zero.
func (c *Content) CopyTo(fresh []byte) {
	for off := uint64(0); off < c.size; {
		data, n := c.Part(off, c.size-off)
		CopyBytes(fresh[off:], data)
		off += n
	}
}

// Window returns memory around an offset for accesses without the driver's lock, and where it begins. It
// returns nil if the machine has too little memory. All windows of a byte are the same memory, so that
// reads see later writes. So the machine also provides memory for reads, if the content is not in one
// piece.
func (c *Content) Window(off uint64, write bool) (begin uint64, data []byte) {
	l := c.lay()
	switch {
	case l == nil:
		return 0, nil
	case l.all(), l.whole != nil && !write:
		return 0, l.whole
	case !c.Provide(off, 1):
		return 0, nil
	}
	i := off / Granule
	if l.whole == nil {
		return i * Granule, l.piece(i, c.sizeOf(i))
	}
	begin = l.before(i) * Granule
	return begin, l.whole[begin:min(l.run(i, l.granules)*Granule, c.size)]
}

// Contiguous returns n bytes at an offset for writes, or nil if the machine has too little memory, or the
// process too few addresses.
func (c *Content) Contiguous(off, n uint64) []byte {
	if !c.Provide(off, n) {
		return nil
	}
	if data, length := c.Part(off, n); length == n {
		return data
	}
	return nil
}

// Freeze ends the use of a content that nothing has written, or reports false. Then the content is as if it
// were released.
func (c *Content) Freeze() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = c.gone || c.Untouched()
	return c.gone
}

// Released reports whether the content was given back.
func (c *Content) Released() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// Mapped reports whether release takes long.
func (c *Content) Mapped() bool {
	l := c.layout.Load()
	return l != nil && l.granules > 0
}

// Release gives the memory back. Nothing may use the content any more.
func (c *Content) Release() {
	c.mu.Lock()
	c.gone = true
	l := c.layout.Swap(nil)
	c.mu.Unlock()
	if l == nil {
		return
	}
	for i, m := range l.mappings {
		l.cleanups[i].Stop()
		c.budget.unmapPages(m)
	}
	if l.slab != nil {
		c.budget.giveSlot(l.whole, l.slab)
	}
	if c.budget != nil {
		c.budget.Give(c.charged)
	}
}

// Budget is how much memory of the machine the driver may use.
type Budget struct {
	// Most is the largest number of bytes, if it is not 0. Otherwise it is what the machine has.
	Most uint64

	slots    slots        // for small contents
	Mappings atomic.Int64 // how many there are
	unasked  atomic.Int64 // what blocks of kernels have without a question, in bytes

	mu   sync.Mutex
	used uint64
	left uint64 // can be taken without another look at the machine
}

// Used returns how many bytes are taken.
func (b *Budget) Used() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// budgetStep is how much can be taken without another look at the machine, in bytes. A look reads a few files of
// /proc and of control groups, in about 0.1 ms, perhaps under the driver's lock. The machine needs a hundred times
// as long to provide so much memory.
const budgetStep = 64 << 20

// Take takes a number of bytes, or reports false.
func (b *Budget) Take(n uint64) bool {
	if n == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		room := uint64(0)
		if b.Most == 0 {
			room = MachineRoom(b.used)
		} else if b.used < b.Most {
			room = b.Most - b.used
		}
		if n > room {
			return false
		}
		b.left = max(n, min(room, budgetStep))
	}
	b.left -= n
	b.used += n
	return true
}

// Give gives bytes back.
func (b *Budget) Give(n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}
