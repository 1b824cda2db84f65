//go:build linux && (amd64 || arm64)

package ccall

import (
	"encoding/binary"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Bell wakes the one goroutine that waits for it: it is rung from Go, or by a C
// library that was given the function of [Bell.Ringer] to call. It is an eventfd.
// Wait and Close are for the owner; everything else is safe for concurrent use.
type Bell struct {
	// file is what the runtime's poller reads. The garbage collector may close
	// it, and closes nothing that C has heard of.
	file *os.File
	// fd is a duplicate, which is what C writes to.
	fd      int
	channel channelBell // where there is no eventfd
	heard   atomic.Uint64
}

// What is added to the eventfd's counter: C's rings are counted, Go's are not told
// apart.
const (
	ringGo = 1
	ringC  = 1 << 32
)

const (
	efdCloexec  = 0x80000
	efdNonblock = 0x800

	prSetTimerslack = 29
	fDupfdCloexec   = 1030
	pollIn          = 1
)

// bellABI0 is the address of a C function of one argument, set by the assembler:
// the descriptor to write to.
var bellABI0 uintptr

// NewBell returns a bell that was not rung.
func NewBell() *Bell {
	b := &Bell{fd: -1}
	b.channel.make()
	// The descriptors, and their numbers, belong to this process alone.
	fd, _, e := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, efdCloexec|efdNonblock, 0)
	if e != 0 {
		return b
	}
	dup, _, e := syscall.RawSyscall(syscall.SYS_FCNTL, fd, fDupfdCloexec, 0)
	if e != 0 {
		syscall.Close(int(fd))
		return b
	}
	f := os.NewFile(fd, "eventfd")
	if f.SetReadDeadline(time.Time{}) != nil { // the runtime's poller does not take it
		f.Close()
		syscall.Close(int(dup))
		return b
	}
	b.file, b.fd = f, int(dup)
	return b
}

// Ringer returns a C function and the argument with which it rings the bell, on
// whichever thread calls it: it does nothing but write to a descriptor. ok is
// false where there is no such thing.
func (b *Bell) Ringer() (fn, arg uintptr, ok bool) {
	return bellABI0, uintptr(b.fd), b.fd >= 0
}

// Heard returns how often C has rung the bell, as far as Wait has heard it.
func (b *Bell) Heard() uint64 { return b.heard.Load() }

// Ring wakes the goroutine that waits, or else the next one that will.
func (b *Bell) Ring() {
	if b.fd < 0 {
		b.channel.ring()
		return
	}
	one := uint64(ringGo)
	// A counter that is full has been rung, too.
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(b.fd), uintptr(unsafe.Pointer(&one)), 8)
}

// short is up to which time a goroutine sleeps in the kernel, and holds its thread:
// the runtime's timers are too coarse.
const short = 2 * time.Millisecond

// Wait returns when the bell has been rung since the last Wait returned, or when d has
// passed.
func (b *Bell) Wait(d time.Duration) {
	switch {
	case b.fd < 0:
		b.channel.wait(d)
		return
	case d <= short && (d <= 0 || runtime.GOMAXPROCS(0) > 1): // or nobody else runs meanwhile
		b.sleep(d)
	default:
		if b.file.SetReadDeadline(time.Now().Add(d)) == nil {
			var v [8]byte
			if n, _ := b.file.Read(v[:]); n == len(v) {
				b.heard.Add(binary.NativeEndian.Uint64(v[:]) / ringC)
			}
			return
		}
	}
	// The descriptor does not block.
	var v uint64
	if _, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(b.fd), uintptr(unsafe.Pointer(&v)), 8); e == 0 {
		b.heard.Add(v / ringC)
	}
}

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

// Close gives the descriptors back. No C code may ring the bell any more: the number
// of its descriptor may be somebody else's soon.
func (b *Bell) Close() {
	if b.fd >= 0 {
		b.file.Close()
		syscall.Close(b.fd)
		b.fd = -1
	}
}
