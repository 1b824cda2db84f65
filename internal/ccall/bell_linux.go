//go:build linux && (amd64 || arm64)

package ccall

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Bell wakes the one goroutine that waits for it: it is rung from Go, or by a C library that was given the
// function of [Bell.Ringer] to call. It has an eventfd from the first Wait, or Ringer, until Close, and again from
// the next one on. C may ring it at any time.
//
// Wait, Ringer, Close and Forget are for the owner; everything else is safe for concurrent use. Whoever drops a
// Bell has called Close.
type Bell struct {
	// mu is held while the descriptor and C's memory come and go. The owner need not take it to look at them.
	mu sync.Mutex
	// file is the eventfd, for the runtime's poller; nil while there is none. fd is its number.
	file *os.File
	fd   int64
	// own is the gate that Go rings through, and c that for C, nil while there is none. c is in memory that is not
	// Go's.
	own    gate
	c      *gate
	memory []byte
	before uint64 // how often C has rung through gates that are gone

	channel channelBell // for Go where there is no eventfd
	seen    uint64      // how often the bell had been rung when Wait returned
}

// gate leads those who ring to a descriptor, which may be closed. Each counts itself in, looks for the descriptor,
// writes to it, and counts itself out. So whoever takes the descriptor away, and then finds nobody inside, may
// close it: those who come later find that there is none. Whoever waits puts the descriptor there, and looks at
// the count then. So either it is written to, or the count says that somebody has rung.
//
// The assembly knows the layout.
type gate struct {
	in, out atomic.Uint64
	fd      atomic.Int64 // negative if there is none
}

// empty reports whether nobody was inside at some moment of the call.
func (g *gate) empty() bool {
	out := g.out.Load() // first: it is never more than in
	return g.in.Load() == out
}

const (
	efdCloexec  = 0x80000
	efdNonblock = 0x800

	prSetTimerslack = 29
	pollIn          = 1
)

// bellABI0 is the address of a C function of one argument, set by the assembler: the gate.
var bellABI0 uintptr

// NewBell returns a bell that was not rung.
func NewBell() *Bell {
	b := &Bell{fd: -1}
	b.own.fd.Store(-1)
	b.channel.make()
	return b
}

// open makes the bell have a descriptor. It reports false if there is none to be had.
func (b *Bell) open() bool {
	if b.file != nil {
		return true
	}
	// The descriptor, and its number, belong to this process alone.
	fd, _, e := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, efdCloexec|efdNonblock, 0)
	if e != 0 {
		return false
	}
	f := os.NewFile(fd, "eventfd")
	if f.SetReadDeadline(time.Time{}) != nil { // the runtime's poller does not take it
		f.Close()
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.file, b.fd = f, int64(fd)
	b.lead(b.fd)
	return true
}

// lead leads those who ring to a descriptor, or to none.
func (b *Bell) lead(fd int64) {
	b.own.fd.Store(fd)
	if b.c != nil {
		b.c.fd.Store(fd)
	}
}

// Ringer returns a C function and the argument with which it rings the bell, on whichever thread calls it: it does
// nothing but write to a descriptor, if there is one. fn is 0 where there is no such function, and ok is false,
// too, where the system has no descriptor or memory left.
func (b *Bell) Ringer() (fn, arg uintptr, ok bool) {
	if !b.open() {
		return bellABI0, 0, false
	}
	if b.c == nil {
		m, err := syscall.Mmap(-1, 0, os.Getpagesize(),
			syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			return bellABI0, 0, false
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.memory, b.c = m, (*gate)(unsafe.Pointer(unsafe.SliceData(m)))
		b.c.fd.Store(b.fd)
	}
	return bellABI0, uintptr(unsafe.Pointer(b.c)), true
}

// Heard returns how often C has rung the bell.
func (b *Bell) Heard() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heard()
}

// heard is Heard for the owner.
func (b *Bell) heard() uint64 {
	if b.c == nil {
		return b.before
	}
	return b.before + b.c.in.Load()
}

// Holds returns how many descriptors, and how many pages of memory for C, the bell has now.
func (b *Bell) Holds() (descriptors, pages int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file != nil {
		descriptors = 1
	}
	if b.c != nil {
		pages = 1
	}
	return descriptors, pages
}

// Ring wakes the goroutine that waits, or else the next one that will.
func (b *Bell) Ring() {
	b.own.in.Add(1)
	if fd := b.own.fd.Load(); fd >= 0 {
		one := uint64(1)
		// A counter that is full has been rung, too.
		syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8)
	} else {
		b.channel.ring()
	}
	b.own.out.Add(1)
}

// short is up to which time a goroutine sleeps in the kernel, and holds its thread:
// the runtime's timers are too coarse.
const short = 2 * time.Millisecond

// Wait returns when the bell has been rung since the last Wait returned, or when d has passed. It may return early.
func (b *Bell) Wait(d time.Duration) {
	open := b.open()
	if b.rings() == b.seen {
		switch {
		case !open:
			b.channel.wait(d)
		case d <= short && (d <= 0 || runtime.GOMAXPROCS(0) > 1): // or nobody else runs meanwhile
			b.sleep(d)
		case b.file.SetReadDeadline(time.Now().Add(d)) == nil:
			var v [8]byte
			b.file.Read(v[:])
		}
	}
	if open { // it does not block
		var v uint64
		syscall.RawSyscall(syscall.SYS_READ, uintptr(b.fd), uintptr(unsafe.Pointer(&v)), 8)
	}
	b.seen = b.rings()
}

// rings returns how often the bell was rung.
func (b *Bell) rings() uint64 { return b.own.in.Load() + b.heard() }

// sleep sleeps in the kernel for up to d.
func (b *Bell) sleep(d time.Duration) {
	poll := struct {
		fd              int32
		events, revents int16
	}{fd: int32(b.fd), events: pollIn}
	ts := syscall.NsecToTimespec(int64(max(d, 0)))
	// A thread's sleep is 50 microseconds too long unless it asks for better. The
	// goroutine has the thread to itself until that is taken back.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 1, 0)
	syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 0, 0)
}

// Close gives the descriptor back. C may go on ringing: it finds that there is none, and is counted. Close reports
// false if somebody was about to write to the descriptor, which stays then: call it again a little later.
func (b *Bell) Close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		return true
	}
	b.lead(-1)
	for tries := 0; !b.own.empty() || b.c != nil && !b.c.empty(); tries++ {
		if tries == 100 {
			b.lead(b.fd)
			return false
		}
		runtime.Gosched()
	}
	b.file.Close()
	b.file, b.fd = nil, -1
	return true
}

// Forget gives up what C rings through, if C has rung the bell as often as expected, since it was made: nobody
// will ring it any more. Else it reports false.
func (b *Bell) Forget(expected uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		return true
	}
	rings := b.c.out.Load() // nobody is inside any more
	if b.before+rings != expected {
		return false
	}
	if syscall.Munmap(b.memory) == nil {
		b.before += rings
		b.c, b.memory = nil, nil
	}
	return true
}
