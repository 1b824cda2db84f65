package cu

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/purecu/purecu/internal/driver"
)

// page is memory for a counter. It is mapped for as long as the process lives, so that a
// late read is of an old value and no fault. When nobody can read it any more, another
// timeline gets it: one of the same context, if that has kept it registered.
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
	registered atomic.Bool // perhaps: the GPU may still write to it
	unread     atomic.Bool // nobody can read it any more
	given      atomic.Bool // it was given back
	// home is the context that keeps it registered, once one does.
	home atomic.Pointer[contextCore]
}

// pages are a driver's pages that nobody can read any more, and that are not registered.
type pages struct {
	mu   sync.Mutex
	free []driver.HostPtr
}

// keptPages are the pages that a context keeps registered, though they are no timeline's.
type keptPages struct {
	mu sync.Mutex
	// spare are those of all that nobody can read any more.
	all   map[*pageLife]struct{}
	spare []*pageLife
}

// maxPages is how many pages a context keeps.
const maxPages = 1024

// newPage returns a page.
func (d *Driver) newPage() (*page, error) {
	if !d.table.Software() {
		return d.pages.take()
	}
	size := os.Getpagesize()
	life := &pageLife{heap: make([]byte, 2*size)}
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(life.heap)))
	life.addr = driver.HostPtr((addr + uintptr(size) - 1) &^ (uintptr(size) - 1))
	return d.pages.hand(life), nil
}

// take returns a page that is not Go's, newly mapped if need be.
func (ps *pages) take() (*page, error) {
	ps.mu.Lock()
	var addr driver.HostPtr
	if n := len(ps.free); n > 0 {
		addr, ps.free = ps.free[n-1], ps.free[:n-1]
	}
	ps.mu.Unlock()
	if addr == 0 {
		mapped, err := mapPage(os.Getpagesize())
		if err != nil {
			return nil, err
		}
		addr = driver.HostPtr(mapped)
	}
	return ps.hand(&pageLife{addr: addr}), nil
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

// put takes a page back if nobody can read it any more, and it is not registered: whoever finds that out
// last calls it.
func (ps *pages) put(life *pageLife) {
	if life.heap == nil && life.unread.Load() && !life.registered.Load() && life.given.CompareAndSwap(false, true) {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		ps.free = append(ps.free, life.addr)
	}
}

// register has the driver pin the page.
func (p *page) register(t *driver.Table, at driver.At) driver.Result {
	p.life.registered.Store(true)
	res := t.MemHostRegister(at, p.addr, uint64(os.Getpagesize()), driver.CU_MEMHOSTREGISTER_PORTABLE|driver.CU_MEMHOSTREGISTER_DEVICEMAP)
	if res != driver.ResultSuccess {
		p.life.registered.Store(false)
	}
	return res
}

// unregister undoes that.
func (life *pageLife) unregister(c *contextCore, at driver.At) driver.Result {
	res := c.drv.table.MemHostUnregister(at, life.addr)
	if res == driver.ResultSuccess {
		life.registered.Store(false)
		c.drv.pages.put(life)
	}
	return res
}

// keepPage keeps a page registered that no timeline and no work needs any more. It reports false if
// there are too many, or the context is of no use.
func (c *contextCore) keepPage(p *page) bool {
	if c.poison.Load() != nil {
		return false
	}
	k := &c.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.all) >= maxPages {
		return false
	}
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

// dropPages unregisters what the context has kept, which may wait for work of others in it. Nobody else here is
// left to use it.
func (c *contextCore) dropPages() {
	k := &c.kept
	k.mu.Lock()
	all := k.all
	k.all, k.spare = nil, nil
	k.mu.Unlock()
	for life := range all {
		if res := life.unregister(c, driver.At{Context: c.raw, Relaxed: true}); res != driver.ResultSuccess {
			c.drv.leak(Leak{Kind: "timeline", Handle: uintptr(life.addr), Err: c.failed("cuMemHostUnregister", uintptr(life.addr), res)})
		}
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
