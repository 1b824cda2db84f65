//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// identity is a thread of glibc's that does nothing by itself. It belongs to one of Go's
// threads, from that one's first call to its end. The assembly files know the first fields by their
// offsets.
type identity struct {
	fs    uintptr // 0: its thread pointer
	sp    uintptr // 8: where the stack of direct calls begins, below its own frames
	state uint32  // 16: also what is waited for, by one thread at a time
	_     uint32
	thunk uintptr // 24: what its thread is to call,
	frame uintptr // 32: and with what
	goFS  uintptr // 40: on amd64, the thread pointer that its owner began with
	goSP  uintptr // 48: on amd64, the owner's stack pointer while it is in a direct call, or 0

	owner int // the number of Go's thread
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
var bootMainABI0, identityMainABI0, threadHookABI0, actionHookABI0, callWordsABI0 unsafe.Pointer

// realThreadCreate is glibc's own pthread_create.
var realThreadCreate uintptr

// sigactionAt is where the loader puts the address of glibc's own sigaction, before constructors run.
var sigactionAt uintptr

// bootIdentity is that of the thread that begins in the loader.
var bootIdentity *identity

// cloneAt makes a thread, or a process, with all signals blocked, which begins at
// entry, with this stack pointer. If fd is not negative it is a process of which there
// is nothing but what it says there. The result is its number, or an error's, negated.
//
//go:noescape
func cloneAt(flags, entry, sp uintptr, fd int) (pid int32)

// postAndWait has the identity's thread call thunk(frame), and returns after it.
//
//go:noescape
func postAndWait(id *identity, thunk, frame unsafe.Pointer)

// entersyscall and exitsyscall are on the runtime's list of functions that packages
// reach by linkname, with these signatures. Between them the goroutine keeps its thread,
// and its stack does not move, so that C may be given addresses in it; its processor may
// serve others.
//
//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// Call calls thunk(frame) on this thread, or, if elsewhere, has the thread of this one's identity do it. A function
// that is in no library may be called before glibc is up. It reports false if nothing was called: where there is no
// glibc, or, after bindLimit and each time again, where no identity can be made that the call needs.
//
// Between entersyscall and exitsyscall nothing may run that could move the stack, which
// is why this has no prologue that does.
//
//go:nosplit
func Call(thunk, frame unsafe.Pointer, elsewhere bool) (made bool) {
	if elsewhere {
		return atWork(thunk, frame)
	}
	for {
		entersyscall()
		made = direct(thunk, frame)
		exitsyscall()
		if made || !bind() {
			break
		}
	}
	runtime.KeepAlive(frame)
	return made
}

// atWork has the thread of this thread's identity call thunk(frame). If the
// program has changed who it is the call is made on this thread: Go changes its own threads
// only, and what has fewer rights now must not be done with more.
func atWork(thunk, frame unsafe.Pointer) (made bool) {
	g := started()
	if g == nil {
		return false
	}
	begin := time.Now()
	if currentCredentials() != g.creds {
		made = Call(thunk, frame, false)
	} else {
		made = work(thunk, frame)
	}
	if time.Since(begin) > longWork { // it may have loaded libraries that take signals over
		g.signals.restore()
	}
	return made
}

// longWork is less than loading a library takes.
const longWork = 200 * time.Microsecond

//go:nosplit
func work(thunk, frame unsafe.Pointer) (made bool) {
	for {
		entersyscall()
		id := bound()
		if id != nil {
			postAndWait(id, thunk, frame)
		}
		exitsyscall()
		if made = id != nil; made || !bind() {
			break
		}
	}
	runtime.KeepAlive(frame)
	return made
}

// bind gives an identity to the thread that the goroutine is on, if it stays there; the
// caller tries again. It reports false where there can be none.
func bind() bool {
	g := started()
	if g == nil {
		return false
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return g.ensureBound() == nil
}

// started returns the process's glibc, which it brings up if need be, or nil.
func started() *Guest {
	if g := process.guest.Load(); g != nil {
		return g
	}
	Start() // which may be short of a thread, and bring it up all the same
	return process.guest.Load()
}

// bindLimit is how long a call waits for memory, or room for a thread, to come back.
const bindLimit = 5 * time.Second

// ensureBound gives this thread an identity if it has none. The goroutine is locked to it.
func (g *Guest) ensureBound() error {
	begin := time.Now()
	for wait := time.Millisecond; bound() == nil; wait = min(2*wait, 100*time.Millisecond) {
		err := g.bindHere()
		if err == nil {
			break
		}
		if time.Since(begin) > bindLimit {
			return err
		}
		time.Sleep(wait)
	}
	return nil
}

// bindHere gives this thread an identity. The goroutine is locked to it.
func (g *Guest) bindHere() error {
	id, err := g.grow(syscall.Gettid())
	if err != nil {
		return err
	}
	if err := id.bind(); err != nil {
		id.end()
		return fmt.Errorf("%w: giving it another thread pointer: %w", ErrNoThread, err)
	}
	return nil
}

// grow makes an identity for a thread.
func (g *Guest) grow(owner int) (*identity, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweep()
	id := &identity{owner: owner}
	g.identities[id] = struct{}{} // C will know it
	var pin runtime.Pinner
	defer pin.Unpin()
	tid := new(uintptr)
	pin.Pin(tid)
	r := int32(g.on(g.boot, realThreadCreate, uintptr(unsafe.Pointer(tid)), 0, uintptr(identityMainABI0), uintptr(unsafe.Pointer(id))))
	if r != 0 {
		delete(g.identities, id)
		return nil, fmt.Errorf("%w: glibc makes no more: %w", ErrNoThread, syscall.Errno(r))
	}
	g.on(g.boot, g.im.fn(fnDetach), *tid)
	for atomic.LoadUint32(&id.state) == starting {
		pause(bootPause)
	}
	return id, nil
}

// sweep ends the identities of threads that have ended, and what libraries kept for these,
// now and then. The mutex is held.
func (g *Guest) sweep() {
	if len(g.identities) < g.sweepAt {
		return
	}
	pid := syscall.Getpid()
	for id := range g.identities {
		switch {
		case atomic.LoadUint32(&id.state) == ended:
			delete(g.identities, id)
		case id.owner != 0 && syscall.Tgkill(pid, id.owner, 0) == syscall.ESRCH:
			id.unbind()
			id.owner = 0
			id.end()
		}
	}
	g.sweepAt = len(g.identities) + max(8, len(g.identities)/8)
}

// end has the identity's thread end.
func (id *identity) end() {
	atomic.StoreUint32(&id.state, ending)
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&id.state)), futexWakePrivate, 1, 0, 0, 0)
}

const futexWakePrivate = 129
