package ccall

import (
	"sync"
	"testing"
	"time"
	"unsafe"
)

// quiet checks that Wait takes its time: at the second try at the latest, as it may return early once for what was
// notified before.
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

// descriptors returns how many descriptors a notifier has.
func descriptors(b *Notifier) int {
	n, _ := b.Holds()
	return n
}

// ringFromC calls the C function that notifications a notifier.
func ringFromC(fn, arg uintptr) {
	f := Frame6{Head: Head{Fn: fn}, A: [6]uintptr{arg}}
	Call6(unsafe.Pointer(&f), Hot, nil)
}

// TestNotifier notifications a notifier from Go and from C, before and while somebody waits for it, for
// shorter and longer than a goroutine sleeps in the kernel, and while it is closed.
func TestNotifier(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		b := NewNotifier()
		b.Notify()
		b.Wait(time.Hour)
		quiet(t, b, d, "nobody has notified")
		b.Notify()
		b.Notify()
		b.Wait(time.Hour) // once for both
		quiet(t, b, d, "it was notified before")
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
						ringFromC(fn, arg)
					}
				})
			}
			for notified := uint64(0); notified < times*notifications; notified = b.Notified() {
				b.Wait(d)
			}
			wg.Wait()
			quiet(t, b, d, "C was notified before")
			if n := b.Notified(); n != times*notifications {
				t.Errorf("C has called %d times, want %d", n, times*notifications)
			}
			if n := descriptors(b); n != 1 {
				t.Errorf("an open notifier has %d descriptors", n)
			}
			if !b.Close() {
				t.Error("nobody notifications, and Close waits for somebody")
			}
			ringFromC(fn, arg)
			if n := b.Notified(); n != times*notifications+1 || descriptors(b) != 0 {
				t.Errorf(
					"a closed notifier was notified %d times, want %d; it has %d descriptors",
					n,
					times*notifications+1,
					descriptors(b),
				)
			}
			b.Wait(time.Hour)
			quiet(t, b, d, "what C has called meanwhile was notified")
			if b.Forget(times*notifications + 2) {
				t.Error("C has yet to call once, and Forget does not wait for it")
			}
			ringFromC(fn, arg)
			for range 2 {
				if !b.Forget(times*notifications + 2) {
					t.Error("C has called as often as expected, and Forget waits")
				}
			}
			if _, pages := b.Holds(); pages != 0 {
				t.Errorf("the notifier keeps %d pages for C, which has notified", pages)
			}
			if fn, arg, ok = b.Callback(); !ok {
				t.Fatal("C cannot ring any more")
			}
			ringFromC(fn, arg)
			if n := b.Notified(); n != times*notifications+3 {
				t.Errorf("C has called %d times, want %d", n, times*notifications+3)
			}
			b.Wait(time.Hour)
			if !b.Close() || !b.Forget(times*notifications+3) {
				t.Error("the notifier is not collected")
			}
		}
		b.Notify() // nobody hears
		if !b.Close() || descriptors(b) != 0 {
			t.Errorf("a closed notifier has %d descriptors", descriptors(b))
		}
	}
}

// TestNotifierWithoutDescriptor notifications a notifier that has none.
func TestNotifierWithoutDescriptor(t *testing.T) {
	var b channelNotifier
	b.make()
	b.notify()
	b.notify()
	b.wait(time.Hour)
	begin := time.Now()
	if b.wait(time.Millisecond); time.Since(begin) < time.Millisecond {
		t.Error("it was notified before")
	}
}
