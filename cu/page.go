package cu

import (
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/purecu/purecu/internal/driver"
)

// page is memory for a counter. It is mapped for as long as the process lives, so that a
// late read is of an old value and no fault. When nobody can read it any more, another
// timeline gets it: one of the same context, while there is that.
//
// The end of the CUDA context unregisters it. Nobody else does: that waits for all work in the
// context, and whoever enqueues something there waits for that.
//
// For a software driver it is Go's own memory, so that the race detector sees what the
// counter orders there.
type page struct {
	addr driver.HostPtr
	life *pageLife
}

// pageLife is what outlasts a page.
type pageLife struct {
	addr       driver.HostPtr
	heap       []byte      // has the address, or is nil
	registered atomic.Bool // for a timeline, which the GPU may write to
	unread     atomic.Bool // nobody can read it any more
	given      atomic.Bool // it was given back
	// home is the context that keeps it registered, once one does.
	home atomic.Pointer[contextCore]
	// before says that it has been another timeline's. in is a CUDA context where it may be registered
	// still, as others go on with that.
	before bool
	in     driver.Context
}

// pages are a driver's pages that nobody can read any more, and that are no context's.
type pages struct {
	mu   sync.Mutex
	free []freePage
}

// freePage is where a page is, and in which CUDA context it may be registered.
type freePage struct {
	addr driver.HostPtr
	in   driver.Context
}

// keptPages are the pages that a context keeps registered, though they are no timeline's.
type keptPages struct {
	mu sync.Mutex
	// spare are those of all that nobody can read any more.
	all   map[*pageLife]struct{}
	spare []*pageLife
}

// newPage returns a page that is not registered, but perhaps in this CUDA context.
func (d *Driver) newPage(in driver.Context) (*page, error) {
	if !d.table.Software() {
		return d.pages.take(in)
	}
	size := os.Getpagesize()
	life := &pageLife{heap: make([]byte, 2*size)}
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(life.heap)))
	life.addr = driver.HostPtr((addr + uintptr(size) - 1) &^ (uintptr(size) - 1))
	return d.pages.hand(life), nil
}

// take returns a page that is not Go's, newly mapped if need be.
func (ps *pages) take(in driver.Context) (*page, error) {
	ps.mu.Lock()
	for _, where := range []driver.Context{in, 0} { // nobody else can have those that are there
		if i := slices.IndexFunc(ps.free, func(f freePage) bool { return f.in == where }); i >= 0 {
			f := ps.free[i]
			ps.free = slices.Delete(ps.free, i, i+1)
			ps.mu.Unlock()
			return ps.hand(&pageLife{addr: f.addr, in: f.in, before: true}), nil
		}
	}
	ps.mu.Unlock()
	mapped, err := mapPage(os.Getpagesize())
	if err != nil {
		return nil, err
	}
	return ps.hand(&pageLife{addr: driver.HostPtr(mapped)}), nil
}

// hand returns a page with this life.
func (ps *pages) hand(life *pageLife) *page {
	p := &page{addr: life.addr, life: life}
	runtime.AddCleanup(p, ps.unread, life)
	return p
}

// unread is called when nobody can read a page any more.
func (ps *pages) unread(life *pageLife) {
	life.unread.Store(true)
	if home := life.home.Load(); home != nil && home.kept.unread(life) {
		return
	}
	ps.put(life)
}

// put takes a page back if nobody can read it any more, and no context has it: whoever finds that out
// last calls it.
func (ps *pages) put(life *pageLife) {
	if life.heap == nil && life.unread.Load() && !life.registered.Load() && life.given.CompareAndSwap(false, true) {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		ps.free = append(ps.free, freePage{life.addr, life.in})
	}
}

// registeredPage returns a page that the driver has pinned.
func (c *contextCore) registeredPage(at driver.At) (*page, error) {
	if p := c.takePage(); p != nil {
		return p, nil
	}
	for {
		p, err := c.drv.newPage(c.raw)
		if err != nil {
			return nil, &Error{Op: "mmap", Result: ResultOutOfMemory, Err: err, Detail: "the operating system gives no memory for the counter"}
		}
		life := p.life
		life.registered.Store(true)
		res := c.drv.table.MemHostRegister(at, p.addr, uint64(os.Getpagesize()), driver.CU_MEMHOSTREGISTER_PORTABLE|driver.CU_MEMHOSTREGISTER_DEVICEMAP)
		switch {
		case res == driver.ResultSuccess:
		case res == driver.ResultHostMemoryAlreadyRegistered && life.in == c.raw:
			// Since an earlier claim to this CUDA context, which has not ended meanwhile.
		case res == driver.ResultHostMemoryAlreadyRegistered && life.before:
			continue // the context's end has not unregistered it: it is nobody's from now on
		default:
			life.registered.Store(false)
			return nil, c.fail("cuMemHostRegister", 0, res)
		}
		return p, nil
	}
}

// unregister has the driver no longer pin the page.
func (life *pageLife) unregister(c *contextCore, at driver.At) driver.Result {
	res := c.drv.table.MemHostUnregister(at, life.addr)
	if res == driver.ResultSuccess {
		life.registered.Store(false)
		c.drv.pages.put(life)
	}
	return res
}

// keepPage keeps a page registered that no timeline and no work needs any more. It reports false if
// the context is of no use.
func (c *contextCore) keepPage(p *page) bool {
	if c.poison.Load() != nil {
		return false
	}
	k := &c.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = make(map[*pageLife]struct{})
	}
	k.all[p.life] = struct{}{}
	p.life.home.Store(c)
	runtime.KeepAlive(p)
	return true
}

// unread reports whether the page is one of those, and notes that nobody can read it any more.
func (k *keptPages) unread(life *pageLife) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.all[life]; !ok {
		return false
	}
	k.spare = append(k.spare, life)
	return true
}

// takePage returns a page that the context has kept, or nil.
func (c *contextCore) takePage() *page {
	k := &c.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.spare) - 1
	if n < 0 {
		return nil
	}
	old := k.spare[n]
	k.spare[n] = nil
	k.spare = k.spare[:n]
	delete(k.all, old)
	life := &pageLife{addr: old.addr, heap: old.heap}
	life.registered.Store(true)
	return c.drv.pages.hand(life)
}

// leavePages returns the pages that the context has kept, which it has no more. Those of a software driver
// are Go's memory, and are unregistered.
func (c *contextCore) leavePages() (left map[*pageLife]struct{}) {
	k := &c.kept
	k.mu.Lock()
	left = k.all
	k.all, k.spare = nil, nil
	k.mu.Unlock()
	if !c.drv.table.Software() {
		return left
	}
	for life := range left {
		if res := life.unregister(c, driver.At{Context: c.raw, Relaxed: true}); res != driver.ResultSuccess {
			c.drv.leak(Leak{Kind: "timeline", Handle: uintptr(life.addr), Err: c.failed("cuMemHostUnregister", uintptr(life.addr), res)})
		}
	}
	return nil
}

// putAll takes back what a context has left, after the end of the CUDA context, or, if others go on
// with that, of the claim to it.
func (ps *pages) putAll(left map[*pageLife]struct{}, in driver.Context) {
	for life := range left {
		life.in = in
		life.registered.Store(false)
		ps.put(life)
	}
}

// word returns the counter.
func (p *page) word() *atomic.Uint64 {
	// The address is of a page that was mapped for this, and is never unmapped: it is not
	// Go's, and the garbage collector neither moves nor frees it. Where it is Go's, it is on
	// the heap, which does not move either, and p keeps it. It is aligned as pages are.
	// Written this way because it comes as a number.
	return *(**atomic.Uint64)(unsafe.Pointer(&p.addr))
}
