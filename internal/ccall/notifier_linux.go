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

// Notifier wakes the one goroutine that waits on it, its owner. Go code notifies it, or a C library that calls the
// function of [Notifier.Callback]. It has an eventfd from the first Wait, or Callback, until Close, and again from the
// next one on. C may call at any time.
//
// Wait, Callback, Close and Forget are for the owner; everything else is safe for concurrent use. Whoever drops a
// Notifier has called Close.
type Notifier struct {
	// mu is held while the descriptor and C's memory come and go. The owner need not take it to look at them.
	mu sync.Mutex
	// file is the eventfd, for the runtime's poller; nil while there is none. fd is its number.
	file *os.File
	fd   int64
	// own is the gate that Go notifies through, and c that for C, nil while there is none. c is in memory that is not
	// Go's.
	own    gate
	c      *gate
	memory []byte
	before uint64 // how often C has notified through gates that are gone

	channel channelNotifier // for Go where there is no eventfd
	seen    uint64          // how many notifications there were when Wait returned
}

// gate leads those who notify to a descriptor, which may be closed. Each counts itself in, looks for the descriptor,
// writes to it, and counts itself out. So whoever takes the descriptor away, and then finds nobody inside, may
// close it: those who come later find that there is none. Whoever waits puts the descriptor there, and looks at
// the count then. So either it is written to, or the count says that somebody has called Notify.
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

// notifyABI0 is the address of a C function of one argument, set by the assembler: the gate.
var notifyABI0 uintptr

// NewNotifier returns a notifier.
func NewNotifier() *Notifier {
	b := &Notifier{fd: -1}
	b.own.fd.Store(-1)
	b.channel.make()
	return b
}

// open makes the notifier have a descriptor. It reports false if there is none to be had.
func (b *Notifier) open() bool {
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

// lead leads those who notify to a descriptor, or to none.
func (b *Notifier) lead(fd int64) {
	b.own.fd.Store(fd)
	if b.c != nil {
		b.c.fd.Store(fd)
	}
}

// Callback returns a C function and the argument with which it notifies the owner, on whichever
// thread calls it: it does nothing but write to a descriptor, if there is one. fn is 0 where there
// is no such function, and ok is false, too, where the system has no descriptor or memory left.
func (b *Notifier) Callback() (fn, arg uintptr, ok bool) {
	if !b.open() {
		return notifyABI0, 0, false
	}
	if b.c == nil {
		m, err := syscall.Mmap(-1, 0, os.Getpagesize(),
			syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			return notifyABI0, 0, false
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.memory, b.c = m, (*gate)(unsafe.Pointer(unsafe.SliceData(m)))
		b.c.fd.Store(b.fd)
	}
	return notifyABI0, uintptr(unsafe.Pointer(b.c)), true
}

// Notified returns how often C has called.
func (b *Notifier) Notified() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.notified()
}

// notified is Notified with mu held, or for the owner.
func (b *Notifier) notified() uint64 {
	if b.c == nil {
		return b.before
	}
	return b.before + b.c.in.Load()
}

// Holds returns how many descriptors, and how many pages of memory for C, the notifier has now.
func (b *Notifier) Holds() (descriptors, pages int) {
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

// Notify wakes the goroutine that waits, or else the next one that will.
func (b *Notifier) Notify() {
	b.own.in.Add(1)
	if fd := b.own.fd.Load(); fd >= 0 {
		one := uint64(1)
		// A counter that is full wakes the owner, too.
		syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8)
	} else {
		b.channel.notify()
	}
	b.own.out.Add(1)
}

// short is up to which time a goroutine sleeps in the kernel, and holds its thread:
// the runtime's timers are too coarse.
const short = 2 * time.Millisecond

// Wait returns when there was a notification since the last Wait returned, or when d has passed. It may return early.
func (b *Notifier) Wait(d time.Duration) {
	open := b.open()
	if b.notifications() == b.seen {
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
	b.seen = b.notifications()
}

// notifications returns how many notifications there were.
func (b *Notifier) notifications() uint64 { return b.own.in.Load() + b.notified() }

// sleep sleeps in the kernel for up to d.
func (b *Notifier) sleep(d time.Duration) {
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

// Close gives the descriptor back. C may go on notifying: it finds that there is none, and is counted. Close reports
// false if somebody was about to write to the descriptor, which stays then: call it again a little later.
func (b *Notifier) Close() bool {
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

// Forget gives up what C notifies through, if C has called as often as expected, since it was made: nobody
// will call any more. Else it reports false.
func (b *Notifier) Forget(expected uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		return true
	}
	notifications := b.c.out.Load() // nobody is inside any more
	if b.before+notifications != expected {
		return false
	}
	if syscall.Munmap(b.memory) == nil {
		b.before += notifications
		b.c, b.memory = nil, nil
	}
	return true
}
