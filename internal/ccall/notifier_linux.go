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

// Notifier wakes one goroutine, its owner. Go code notifies it with Notify. C code notifies it with
// the function of [Notifier.Callback], at any time. A Notifier has an eventfd from Wait or Callback
// to Close.
//
// Only the owner may call Wait, Callback, Close and Forget. The other methods are safe for
// concurrent use. The owner calls Close before it drops a Notifier.
type Notifier struct {
	// mu guards changes of the descriptor and of C's memory. The owner reads them without it.
	mu sync.Mutex
	// file is the eventfd, for the runtime's poller, or nil. fd is its number.
	file *os.File
	fd   int64
	// own is the gate for Go, and c the gate for C, or nil. c is in memory that Go does not manage.
	own    gate
	c      *gate
	memory []byte
	before uint64 // how often C has notified through gates that were freed

	channel channelNotifier // used by Go if there is no eventfd
	seen    uint64          // the number of notifications when Wait returned
}

// gate gives notifying threads access to a descriptor that may be closed at any time. A
// notification increments in, reads fd, writes to the descriptor, and increments out. To close the
// descriptor, the owner first sets fd to -1, and then waits until in equals out: later
// notifications find no descriptor. To wait, the owner first sets fd, and then reads in. So a
// notification either writes to the descriptor, or is visible in the count.
//
// The assembly uses the layout.
type gate struct {
	in, out atomic.Uint64
	fd      atomic.Int64 // negative if there is none
}

// empty reports whether no notification was in progress at some moment of the call.
func (g *gate) empty() bool {
	out := g.out.Load() // loaded first, as it is never more than in
	return g.in.Load() == out
}

const (
	efdCloexec  = 0x80000
	efdNonblock = 0x800

	prSetTimerslack = 29
	pollIn          = 1
)

// notifyABI0 is the address of a C function with one argument, the gate. The assembler sets it.
var notifyABI0 uintptr

// NewNotifier returns a notifier.
func NewNotifier() *Notifier {
	b := &Notifier{fd: -1}
	b.own.fd.Store(-1)
	b.channel.make()
	return b
}

// open opens the descriptor if necessary. It returns an error if the system has none left.
func (b *Notifier) open() error {
	if b.file != nil {
		return nil
	}
	// With CLOEXEC, so that processes that this process starts do not get the descriptor.
	fd, _, e := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, efdCloexec|efdNonblock, 0)
	if e != 0 {
		return os.NewSyscallError("eventfd", e)
	}
	f := os.NewFile(fd, "eventfd")
	if err := f.SetReadDeadline(time.Time{}); err != nil { // the runtime's poller does not support it
		f.Close()
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.file, b.fd = f, int64(fd)
	b.lead(b.fd)
	return nil
}

// lead sets the descriptor of both gates, -1 for none.
func (b *Notifier) lead(fd int64) {
	b.own.fd.Store(fd)
	if b.c != nil {
		b.c.fd.Store(fd)
	}
}

// Callback returns a C function and the argument with which it notifies the owner. It may be called
// on any thread, and only writes to a descriptor, if there is one. fn is 0 on platforms without
// such a function. ok is false there, and also if the system has no descriptor or memory left.
func (b *Notifier) Callback() (fn, arg uintptr, ok bool) {
	if b.open() != nil {
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

// Holds returns how many descriptors and pages of memory for C the notifier has now.
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

// Notify wakes the owner, or makes its next Wait return at once.
func (b *Notifier) Notify() {
	b.own.in.Add(1)
	if fd := b.own.fd.Load(); fd >= 0 {
		one := uint64(1)
		// The result does not matter: a full counter wakes the owner, too.
		syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8)
	} else {
		b.channel.notify()
	}
	b.own.out.Add(1)
}

// short is the longest sleep in the kernel, during which the goroutine keeps its thread. The
// runtime's timers are too inaccurate for such sleeps.
const short = 2 * time.Millisecond

// Wait returns after a notification since the last Wait returned, or after d. It may return early.
func (b *Notifier) Wait(d time.Duration) {
	open := b.open() == nil
	if b.notifications() == b.seen {
		switch {
		case !open:
			b.channel.wait(d)
		case d <= short && (d <= 0 || runtime.GOMAXPROCS(0) > 1): // with one processor, other goroutines could not run
			b.sleep(d)
		case b.file.SetReadDeadline(time.Now().Add(d)) == nil:
			var v [8]byte
			b.file.Read(v[:])
		}
	}
	if open { // the read does not block
		var v uint64
		syscall.RawSyscall(syscall.SYS_READ, uintptr(b.fd), uintptr(unsafe.Pointer(&v)), 8)
	}
	b.seen = b.notifications()
}

// notifications returns the number of notifications so far.
func (b *Notifier) notifications() uint64 { return b.own.in.Load() + b.notified() }

// sleep sleeps in the kernel for up to d.
func (b *Notifier) sleep(d time.Duration) {
	poll := struct {
		fd              int32
		events, revents int16
	}{fd: int32(b.fd), events: pollIn}
	ts := syscall.NsecToTimespec(int64(max(d, 0)))
	// A sleep is up to 50 microseconds too long unless the thread changes its timer slack. The
	// goroutine is locked to the thread until the slack is restored.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 1, 0)
	syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 0, 0)
}

// Close closes the descriptor. C may still notify afterwards: the notification is only counted.
// Close reports false, and keeps the descriptor, if a notification is about to write to it. The
// caller then tries again a little later.
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

// Forget frees the memory for C if C has notified as often as expected: then C will not notify
// again. Otherwise it reports false.
func (b *Notifier) Forget(expected uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		return true
	}
	notifications := b.c.out.Load() // out counts the notifications that have ended
	if b.before+notifications != expected {
		return false
	}
	if syscall.Munmap(b.memory) == nil {
		b.before += notifications
		b.c, b.memory = nil, nil
	}
	return true
}
