package ccall

import (
	"sync"
	"testing"
	"time"
	"unsafe"
)

// quiet checks that Wait lasts for d. It tries twice, as the first Wait may return early because of
// an earlier notification.
func quiet(t *testing.T, b *Notifier, d time.Duration, what string) {
	t.Helper()
	var took time.Duration
	for range 2 {
		begin := time.Now()
		b.Wait(d)
		if took = time.Since(begin); took >= d {
			return
		}
	}
	t.Errorf("%s: Wait(%v) returns after %v", what, d, took)
}

// descriptors returns the number of a notifier's descriptors.
func descriptors(b *Notifier) int {
	n, _ := b.Holds()
	return n
}

// notifyFromC notifies a notifier through its C function.
func notifyFromC(fn, arg uintptr) {
	f := Frame6{Head: Head{Fn: fn}, A: [6]uintptr{arg}}
	Call6(unsafe.Pointer(&f), Hot, nil)
}

// TestNotifier notifies a notifier from Go and from C, before and during a wait, with waits shorter
// and longer than a sleep in the kernel, and while the notifier is closed.
func TestNotifier(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		b := NewNotifier()
		b.Notify()
		b.Wait(time.Hour)
		quiet(t, b, d, "without a notification")
		b.Notify()
		b.Notify()
		b.Wait(time.Hour) // returns once for both notifications
		quiet(t, b, d, "after a notification")
		if n := b.Notified(); n != 0 {
			t.Errorf("C has called %d times", n)
		}
		done := make(chan bool)
		go func() {
			b.Wait(time.Hour)
			close(done)
		}()
		time.Sleep(time.Millisecond)
		b.Notify()
		<-done

		if fn, arg, ok := b.Callback(); ok {
			const times, notifications = 8, 1000
			var wg sync.WaitGroup
			for range times {
				wg.Go(func() {
					for range notifications {
						notifyFromC(fn, arg)
					}
				})
			}
			for notified := uint64(0); notified < times*notifications; notified = b.Notified() {
				b.Wait(d)
			}
			wg.Wait()
			quiet(t, b, d, "after a notification from C")
			if n := b.Notified(); n != times*notifications {
				t.Errorf("C has called %d times, want %d", n, times*notifications)
			}
			if n := descriptors(b); n != 1 {
				t.Errorf("an open notifier has %d descriptors", n)
			}
			if !b.Close() {
				t.Error("Close reports a notification in progress, and there is none")
			}
			notifyFromC(fn, arg)
			if n := b.Notified(); n != times*notifications+1 || descriptors(b) != 0 {
				t.Errorf("a closed notifier was notified %d times, want %d; it has %d descriptors", n,
					times*notifications+1, descriptors(b))
			}
			b.Wait(time.Hour)
			quiet(t, b, d, "after a notification while it was closed")
			if b.Forget(times*notifications + 2) {
				t.Error("one notification from C is missing, and Forget reports true")
			}
			notifyFromC(fn, arg)
			for range 2 {
				if !b.Forget(times*notifications + 2) {
					t.Error("C has notified as often as expected, and Forget reports false")
				}
			}
			if _, pages := b.Holds(); pages != 0 {
				t.Errorf("the notifier keeps %d pages for C, which has notified", pages)
			}
			if fn, arg, ok = b.Callback(); !ok {
				t.Fatal("Callback fails after Forget")
			}
			notifyFromC(fn, arg)
			if n := b.Notified(); n != times*notifications+3 {
				t.Errorf("C has called %d times, want %d", n, times*notifications+3)
			}
			b.Wait(time.Hour)
			if !b.Close() || !b.Forget(times*notifications+3) {
				t.Error("the notifier is not collected")
			}
		}
		b.Notify() // has no effect
		if !b.Close() || descriptors(b) != 0 {
			t.Errorf("a closed notifier has %d descriptors", descriptors(b))
		}
	}
}

// TestNotifierWithoutDescriptor notifies a notifier that has no descriptor.
func TestNotifierWithoutDescriptor(t *testing.T) {
	var b channelNotifier
	b.make()
	b.notify()
	b.notify()
	b.wait(time.Hour)
	begin := time.Now()
	if b.wait(time.Millisecond); time.Since(begin) < time.Millisecond {
		t.Error("Wait returns without a notification")
	}
}
