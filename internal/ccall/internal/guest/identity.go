//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// identity is a thread of glibc's that does nothing by itself. Whoever has taken it has
// it to themselves. The assembly files know the fields by their offsets.
type identity struct {
	fs    uintptr // 0: its thread pointer
	sp    uintptr // 8: where the stack of direct calls begins, below its own frames
	state uint32  // 16: also what is waited for, by one thread at a time
	_     uint32
	thunk uintptr // 24: what its thread is to call,
	frame uintptr // 32: and with what

	next *identity // in a list of those that are free
}

// States.
const (
	starting = iota
	idle
	posted
	ending
	ended
)

// The C functions of the assembly files.
var bootMainABI0, identityMainABI0, threadHookABI0 unsafe.Pointer

// realThreadCreate is glibc's own pthread_create.
var realThreadCreate uintptr

// bootIdentity is that of the thread that begins in the loader.
var bootIdentity *identity

// cloneAt makes a thread, or a process, with all signals blocked, which begins at
// entry, with this stack pointer. If fd is not negative it is a process of which there
// is nothing but what it says there. The result is its number, or an error's, negated.
//
//go:noescape
func cloneAt(flags, entry, sp uintptr, fd int) (pid int32)

// direct calls thunk(frame) on this thread in the name of an identity.
//
//go:noescape
func direct(id *identity, thunk, frame unsafe.Pointer)

// postAndWait has the identity's thread call thunk(frame), and returns after it.
//
//go:noescape
func postAndWait(id *identity, thunk, frame unsafe.Pointer)

// entersyscall and exitsyscall are on the runtime's list of functions that packages
// reach by linkname, with these signatures. Between them the goroutine's stack does not
// move, so that C may be given addresses in it, and its processor may serve others.
//
//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// procPin and procUnpin are on that list, too.
//
//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

// call makes a direct call. It must not have a prologue that could move the stack after
// entersyscall, nor call anything that has.
//
//go:nosplit
func (id *identity) call(thunk, frame unsafe.Pointer) {
	entersyscall()
	direct(id, thunk, frame)
	exitsyscall()
	runtime.KeepAlive(frame)
	runtime.KeepAlive(id)
}

// post makes a worker call.
//
//go:nosplit
func (id *identity) post(thunk, frame unsafe.Pointer) {
	entersyscall()
	postAndWait(id, thunk, frame)
	exitsyscall()
	runtime.KeepAlive(frame)
	runtime.KeepAlive(id)
}

// end has the identity's thread end, and with it what libraries keep for it.
func (id *identity) end() {
	atomic.StoreUint32(&id.state, ending)
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&id.state)), futexWakePrivate, 1, 0, 0, 0)
}

const futexWakePrivate = 129

// grow makes one more identity.
func (g *Guest) grow() (*identity, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := new(identity)
	g.pool.keep(id)
	// The thread's number is written where nothing moves.
	tid := new(uintptr)
	pinnedWord = tid
	r := int32(g.on(g.boot, realThreadCreate, uintptr(unsafe.Pointer(tid)), 0, uintptr(identityMainABI0), uintptr(unsafe.Pointer(id))))
	if r != 0 {
		g.pool.drop(id)
		return nil, fmt.Errorf("glibc makes no more threads: %w", syscall.Errno(r))
	}
	g.on(g.boot, g.im.fn(fnDetach), *tid)
	for atomic.LoadUint32(&id.state) == starting {
		pause(bootPause)
	}
	return id, nil
}

// pinnedWord makes what is assigned to it escape to the heap.
var pinnedWord *uintptr

// pool holds the identities that nobody has. Each processor of Go's has a place for one,
// so that they do not fight over a list.
type pool struct {
	places  [places]place
	waiting atomic.Int32 // who waits for an identity, since there can be no more
	ending  atomic.Int32 // those of all that were told to end

	mu   sync.Mutex
	cond sync.Cond // of mu
	free *identity
	all  map[*identity]struct{} // those that C has heard of
}

const places = 64

type place struct {
	id atomic.Pointer[identity]
	_  [56]byte // to itself on a cache line
}

// get takes an identity.
func (p *pool) get(g *Guest) *identity {
	id := p.places[uint(procPin())%places].id.Swap(nil)
	procUnpin()
	if id != nil {
		return id
	}
	return p.find(g)
}

// put gives an identity back.
func (p *pool) put(id *identity) {
	if p.waiting.Load() == 0 {
		kept := p.places[uint(procPin())%places].id.CompareAndSwap(nil, id)
		procUnpin()
		if kept && p.waiting.Load() == 0 {
			return
		}
		if kept {
			if id = p.steal(); id == nil {
				return
			}
		}
	}
	p.mu.Lock()
	id.next, p.free = p.free, id
	p.mu.Unlock()
	p.cond.Signal()
}

// steal takes an identity from any processor's place.
func (p *pool) steal() *identity {
	for i := range p.places {
		if at := &p.places[i].id; at.Load() != nil {
			if id := at.Swap(nil); id != nil {
				return id
			}
		}
	}
	return nil
}

// pop takes one from the list. The mutex is held.
func (p *pool) pop() *identity {
	id := p.free
	if id != nil {
		p.free, id.next = id.next, nil
	}
	return id
}

// find takes an identity from wherever there is one, makes one, or waits for one.
func (p *pool) find(g *Guest) *identity {
	for {
		p.mu.Lock()
		id := p.pop()
		p.mu.Unlock()
		if id == nil {
			id = p.steal()
		}
		if id == nil {
			id, _ = g.grow()
		}
		if id != nil {
			return id
		}
		// There is one at least, and whoever has it gives it back. Memory may be had
		// again, too.
		p.waiting.Add(1)
		if id = p.steal(); id == nil {
			wake := time.AfterFunc(time.Second, p.cond.Broadcast)
			p.mu.Lock()
			if id = p.pop(); id == nil {
				p.cond.Wait()
				id = p.pop()
			}
			p.mu.Unlock()
			wake.Stop()
		}
		p.waiting.Add(-1)
		if id != nil {
			return id
		}
	}
}

// keep keeps an identity from the garbage collector, as long as C knows it.
func (p *pool) keep(id *identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = make(map[*identity]struct{})
		p.cond.L = &p.mu
	}
	if p.ending.Load() > 0 {
		for old := range p.all {
			if atomic.LoadUint32(&old.state) == ended {
				delete(p.all, old)
				p.ending.Add(-1)
			}
		}
	}
	p.all[id] = struct{}{}
}

func (p *pool) drop(id *identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, id)
}
