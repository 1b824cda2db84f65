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

// identity is a glibc thread that only waits. It belongs to one Go thread, from that thread's first
// call to its end. The assembly files use the offsets of the first fields.
type identity struct {
	fs    uintptr // 0: the glibc thread's thread pointer
	sp    uintptr // 8: the top of the stack of direct calls, below the glibc thread's own frames
	state uint32  // 16: a futex, on which one thread at a time waits
	_     uint32
	thunk uintptr // 24: the function that the glibc thread has to call,
	frame uintptr // 32: and its argument
	goFS  uintptr // 40: on amd64, the thread pointer that its owner began with
	goSP  uintptr // 48: on amd64, the owner's stack pointer during a direct call, or 0

	owner int // the number of the Go thread
}

// The states of an identity.
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

// sigactionAt is the address to which the loader writes the address of glibc's own sigaction,
// before constructors run.
var sigactionAt uintptr

// bootIdentity is the identity of the thread that begins in the loader.
var bootIdentity *identity

// cloneAt creates a thread or a process, with all signals blocked, which begins at entry with the
// stack pointer sp. If fd is not negative, it is a process whose output goes to fd. The result is
// its number, or a negated error number.
//
//go:noescape
func cloneAt(flags, entry, sp uintptr, fd int) (pid int32)

// postAndWait makes the identity's thread call thunk(frame), and waits for the call.
//
//go:noescape
func postAndWait(id *identity, thunk, frame unsafe.Pointer)

// entersyscall and exitsyscall are functions of the runtime, which lists them, with these
// signatures, among the functions that other packages may use by linkname. Between them the
// goroutine keeps its thread, other goroutines may use its processor, and its stack does not move,
// so that C may get addresses in it.
//
//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// Call calls thunk(frame) on this thread or, if elsewhere, on the thread of its identity. It
// initialises glibc if necessary. It reports false if the call was not made: there is no glibc, or
// no identity could be created within bindLimit.
//
// Between entersyscall and exitsyscall nothing may run that could move the stack. Therefore Call
// has no prologue that could grow it.
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

// atWork calls thunk(frame) on the thread of this thread's identity. If the program's credentials
// have changed, it calls thunk(frame) on this thread instead: Go has changed the credentials of its
// own threads only, and the call must not run with the old ones.
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
	if time.Since(begin) > longWork { // it may have loaded libraries that install signal handlers
		g.signals.restore()
	}
	return made
}

// longWork is shorter than the load of any library.
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

// bind gives an identity to the thread that the goroutine runs on. The caller then tries its call
// again, perhaps on another thread. bind reports false if no identity can be created.
func bind() bool {
	g := started()
	if g == nil {
		return false
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return g.ensureBound() == nil
}

// started returns the process's glibc, after initialising it if necessary, or nil.
func started() *Guest {
	if g := process.guest.Load(); g != nil {
		return g
	}
	Start() // an error may mean that only the thread is missing
	return process.guest.Load()
}

// bindLimit is how long a call waits until the system can create a thread.
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

// grow creates an identity for a thread.
func (g *Guest) grow(owner int) (*identity, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweep()
	id := &identity{owner: owner}
	g.identities[id] = struct{}{} // reachable while C has its address
	var pin runtime.Pinner
	defer pin.Unpin()
	tid := new(uintptr)
	pin.Pin(tid)
	r := int32(g.on(g.boot, realThreadCreate, uintptr(unsafe.Pointer(tid)), 0, uintptr(identityMainABI0), uintptr(unsafe.Pointer(id))))
	if r != 0 {
		delete(g.identities, id)
		return nil, fmt.Errorf("%w: glibc cannot create one: %w", ErrNoThread, syscall.Errno(r))
	}
	g.on(g.boot, g.im.fn(fnDetach), *tid)
	for atomic.LoadUint32(&id.state) == starting {
		pause(bootPause)
	}
	return id, nil
}

// sweep ends the identities of threads that have ended. It does so only if there are many
// identities. The mutex is held.
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

// end makes the identity's thread end.
func (id *identity) end() {
	atomic.StoreUint32(&id.state, ending)
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&id.state)), futexWakePrivate, 1, 0, 0, 0)
}

const futexWakePrivate = 129
