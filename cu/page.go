package cu

import (
	"errors"
	"math"
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
// The end of the CUDA context unregisters it. Nobody else does, but for a software driver: that waits
// for all work in the context, and whoever enqueues something there waits for that.
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
	registered atomic.Bool // a timeline or a context has it: the GPU may write to it
	unread     atomic.Bool // nobody can read it any more
	given      atomic.Bool // it was given back
	// home is the context that keeps it registered, once one does.
	home atomic.Pointer[contextCore]
	// in is a CUDA context where it may be registered still, as others go on with that.
	in contextKey
}

// pages are a driver's pages that nobody can read any more, and that are no context's.
type pages struct {
	mu   sync.Mutex
	free []freePage
}

// freePage is where a page is, and in which CUDA context it may be registered, if in any.
type freePage struct {
	addr driver.HostPtr
	in   contextKey
}

// keptPages are the pages that a context keeps registered, though they are no timeline's.
type keptPages struct {
	mu sync.Mutex
	// spare are those of all that nobody can read any more.
	all   map[*pageLife]struct{}
	spare []*pageLife
}

// heapPage returns a page of Go's.
func (ps *pages) heapPage() *page {
	size := os.Getpagesize()
	life := &pageLife{heap: make([]byte, 2*size)}
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(life.heap)))
	life.addr = driver.HostPtr((addr + uintptr(size) - 1) &^ (uintptr(size) - 1))
	return ps.hand(life)
}

// mappedPage returns a page that is not Go's.
func (ps *pages) mappedPage() (*page, error) {
	mapped, err := mapPage(os.Getpagesize())
	if err != nil {
		return nil, &Error{Op: "mmap", Result: ResultOutOfMemory, Err: err, Detail: "the operating system gives no memory for the counter"}
	}
	return ps.hand(&pageLife{addr: driver.HostPtr(mapped)}), nil
}

// take returns a free page that may be registered in this CUDA context, or is in none if that is no key; nil if
// there is none.
func (ps *pages) take(in contextKey) *page {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for i := len(ps.free) - 1; i >= 0; i-- {
		if ps.free[i].in == in {
			return ps.takeAt(i)
		}
	}
	return nil
}

// takeOldest returns the page that has been free for longest, or nil.
func (ps *pages) takeOldest() *page {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.free) == 0 {
		return nil
	}
	return ps.takeAt(0)
}

func (ps *pages) takeAt(i int) *page {
	f := ps.free[i]
	ps.free = slices.Delete(ps.free, i, i+1)
	return ps.hand(&pageLife{addr: f.addr, in: f.in})
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

// registeredPage returns a page that the driver has pinned: one that the context has kept, or that is
// registered in the CUDA context since an earlier claim to it; one that is not registered; one that was left
// in another CUDA context, if that has ended; or a new one.
func (c *contextCore) registeredPage(at driver.At) (*page, error) {
	if p := c.takePage(); p != nil {
		return p, nil
	}
	ps := &c.drv.pages
	if c.drv.table.Software() {
		p := ps.heapPage()
		return p, c.register(p, at)
	}
	for _, take := range []func() *page{
		func() *page { return ps.take(c.key) },
		func() *page { return ps.take(contextKey{}) },
		ps.takeOldest,
	} {
		if p := take(); p != nil {
			if err := c.register(p, at); !errors.Is(err, ResultHostMemoryAlreadyRegistered) {
				return p, err
			}
		}
	}
	p, err := ps.mappedPage()
	if err != nil {
		return nil, err
	}
	return p, c.register(p, at)
}

// register has the driver pin a page that nobody has read. If it fails, another timeline may get it.
func (c *contextCore) register(p *page, at driver.At) error {
	const op = "cuMemHostRegister"
	life := p.life
	life.registered.Store(true)
	res := c.drv.table.MemHostRegister(at, p.addr, uint64(os.Getpagesize()), driver.CU_MEMHOSTREGISTER_PORTABLE|driver.CU_MEMHOSTREGISTER_DEVICEMAP)
	if res == driver.ResultSuccess || res == driver.ResultHostMemoryAlreadyRegistered && life.in == c.key {
		return nil
	}
	if res == driver.ResultHostMemoryAlreadyRegistered && life.in == (contextKey{}) {
		life.in = contextKey{id: math.MaxUint64} // of no context: it is the last to be tried
	}
	life.registered.Store(false)
	life.unread.Store(true)
	c.drv.pages.put(life)
	runtime.KeepAlive(p)
	return c.fail(op, 0, res)
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

// keepPage keeps a page registered that no timeline and no work needs any more. It reports false for a
// software driver's context that is of no use: then the page has to be unregistered.
func (c *contextCore) keepPage(p *page) bool {
	if c.poison.Load() != nil && c.drv.table.Software() {
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

// putAll takes back what a context has left. in is the CUDA context, if it may go on.
func (ps *pages) putAll(left map[*pageLife]struct{}, in contextKey) {
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
