//go:build linux && (amd64 || arm64)

package ccall

import (
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// TestNotifierClosing closes a notifier repeatedly while C and Go notify it. Other files reuse the
// descriptor's number at once. Nothing may be written to them, and no notification may be lost.
func TestNotifierClosing(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 300
	}
	b := NewNotifier()
	fn, arg, ok := b.Callback()
	if !ok {
		t.Fatal("C cannot notify it")
	}
	var notified, asked atomic.Uint64
	var stop atomic.Bool
	var notifiers sync.WaitGroup
	for i := range 3 {
		notifiers.Go(func() {
			for !stop.Load() {
				if i == 2 {
					b.Notify()
				} else {
					asked.Add(1)
					notifyFromC(fn, arg)
					notified.Add(1)
				}
				time.Sleep(time.Microsecond)
			}
		})
	}
	defer func() { // runs also if a check fails
		stop.Store(true)
		notifiers.Wait()
	}()
	reused, late := 0, time.Now().Add(20*time.Second)
	for round := 0; round < rounds && time.Now().Before(late); round++ {
		b.Wait(time.Duration(round%3) * time.Millisecond)
		was := b.fd
		for !b.Close() {
			time.Sleep(10 * time.Microsecond)
		}
		var files []int
		for range 4 {
			fd, _, e := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, efdCloexec|efdNonblock, 0)
			if e != 0 {
				t.Fatal(e)
			}
			if files = append(files, int(fd)); int64(fd) == was {
				reused++
			}
		}
		time.Sleep(20 * time.Microsecond)
		for _, fd := range files {
			var v uint64
			if n, err := syscall.Read(fd, unsafe.Slice((*byte)(unsafe.Pointer(&v)), 8)); err != syscall.EAGAIN {
				t.Fatalf("round %d: %d was written to another file (%d, %v)", round, v, n, err)
			}
			syscall.Close(fd)
		}
		if before, now, after := notified.Load(), b.Notified(), asked.Load(); now < before || now > after {
			t.Fatalf("round %d: C has called from %d to %d times, and %d were notified", round, before, after, now)
		}
	}
	if reused == 0 {
		t.Error("no other file has reused the descriptor's number, so the test is void")
	}
	stop.Store(true)
	notifiers.Wait()
	if n := b.Notified(); n != notified.Load() {
		t.Errorf("C has called %d times, and %d were notified", notified.Load(), n)
	}
	if !b.Close() || !b.Forget(notified.Load()) {
		t.Error("the notifier is not collected")
	}
}

// TestNotifierStaysOpen closes a notifier during a notification that has read the descriptor's
// number and not written to it yet. The descriptor stays open until the write, and still wakes the
// owner.
func TestNotifierStaysOpen(t *testing.T) {
	b := NewNotifier()
	if _, _, ok := b.Callback(); !ok {
		t.Fatal("C cannot notify it")
	}
	for name, g := range map[string]*gate{"C": b.c, "Go": &b.own} {
		b.Wait(0) // opens the descriptor
		was := b.fd
		g.in.Add(1)
		fd := g.fd.Load()
		for range 3 {
			if b.Close() {
				t.Fatalf("%s is about to write to the descriptor, and it is closed", name)
			}
		}
		if fd != was || b.fd != was || g.fd.Load() != was || descriptors(b) != 1 {
			t.Errorf("%s: the descriptor was %d; the notification has read %d, later %d, and the notifier has %d",
				name, was, fd, g.fd.Load(), b.fd)
		}
		b.Wait(time.Hour) // returns at once, as it was notified
		one := [8]byte{1}
		if _, err := syscall.Write(int(fd), one[:]); err != nil {
			t.Errorf("%s cannot write: %v", name, err)
		}
		g.out.Add(1)
		if !b.Close() || g.fd.Load() >= 0 || descriptors(b) != 0 {
			t.Errorf("%s has written, and the descriptor stays", name)
		}
	}
	if b.Forget(0) || !b.Forget(1) {
		t.Error("C has called once")
	}
}

// TestNotifierWithoutDescriptors waits while the process cannot open files, and later when it can.
func TestNotifierWithoutDescriptors(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Skip(err)
	}
	b := NewNotifier()
	low := limit
	low.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Skip(err)
	}
	fn, _, ok := b.Callback()
	b.Notify()
	b.Wait(time.Hour)
	begin := time.Now()
	b.Wait(time.Millisecond)
	b.Wait(time.Millisecond) // the first one may return early
	took := time.Since(begin)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if ok || fn == 0 || b.fd >= 0 {
		t.Errorf("there are no descriptors, and it has %d; C may call: %t", b.fd, ok)
	}
	if took < time.Millisecond {
		t.Errorf("without a notification, two waits of a millisecond took %v", took)
	}
	var notifying sync.WaitGroup
	notifying.Go(b.Notify)
	b.Wait(time.Hour)
	if _, _, ok = b.Callback(); !ok || descriptors(b) != 1 {
		t.Errorf("there are descriptors, and it has %d; C may call: %t", descriptors(b), ok)
	}
	notifying.Wait() // Close refuses while Notify has not returned
	if !b.Close() || !b.Forget(0) {
		t.Error("the notifier is not collected")
	}
}

// TestNotifierWakes makes C notify while the owner is about to sleep or to open the descriptor.
// Each notification wakes the owner.
func TestNotifierWakes(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 2000
	}
	b := NewNotifier()
	calls, notified := make(chan [2]uintptr), make(chan struct{})
	go func() {
		for c := range calls {
			notifyFromC(c[0], c[1])
			notified <- struct{}{}
		}
	}()
	for round := range uint64(rounds) {
		fn, arg, ok := b.Callback()
		if !ok {
			t.Fatal("C cannot notify it")
		}
		if round%2 == 0 && !b.Close() {
			t.Fatal("Close reports a notification in progress, and there is none")
		}
		calls <- [2]uintptr{fn, arg}
		for begin := time.Now(); b.Notified() <= round; {
			if b.Wait(time.Hour); time.Since(begin) > 10*time.Second {
				t.Fatalf("round %d: the owner was not woken", round)
			}
		}
		<-notified
		if round%64 == 0 && !(b.Close() && b.Forget(round+1)) {
			t.Fatalf("round %d: the notifier is not collected", round)
		}
	}
	close(calls)
	b.Close()
}

// BenchmarkNotifierOpens measures the cost of opening and closing the descriptor for each wait.
func BenchmarkNotifierOpens(b *testing.B) {
	notifier := NewNotifier()
	for b.Loop() {
		notifier.Wait(0)
		notifier.Close()
	}
}
