package ccall

import (
	"sync"
	"testing"
	"time"
	"unsafe"
)

// quiet checks that Wait takes its time: at the second try at the latest, as it may return early once for what was
// heard before.
func quiet(t *testing.T, b *Bell, d time.Duration, what string) {
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

// descriptors returns how many descriptors a bell has.
func descriptors(b *Bell) int {
	n, _ := b.Holds()
	return n
}

// ringFromC calls the C function that rings a bell.
func ringFromC(fn, arg uintptr) {
	f := Frame6{Head: Head{Fn: fn}, A: [6]uintptr{arg}}
	Call6(unsafe.Pointer(&f), Hot, nil)
}

// TestBell rings a bell from Go and from C, before and while somebody waits for it, for
// shorter and longer than a goroutine sleeps in the kernel, and while it is closed.
func TestBell(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		b := NewBell()
		b.Ring()
		b.Wait(time.Hour)
		quiet(t, b, d, "nobody has rung")
		b.Ring()
		b.Ring()
		b.Wait(time.Hour) // once for both
		quiet(t, b, d, "it was heard before")
		if n := b.Heard(); n != 0 {
			t.Errorf("C has rung %d times", n)
		}
		done := make(chan bool)
		go func() {
			b.Wait(time.Hour)
			close(done)
		}()
		time.Sleep(time.Millisecond)
		b.Ring()
		<-done

		if fn, arg, ok := b.Ringer(); ok {
			const times, rings = 8, 1000
			var wg sync.WaitGroup
			for range times {
				wg.Go(func() {
					for range rings {
						ringFromC(fn, arg)
					}
				})
			}
			for heard := uint64(0); heard < times*rings; heard = b.Heard() {
				b.Wait(d)
			}
			wg.Wait()
			quiet(t, b, d, "C was heard before")
			if n := b.Heard(); n != times*rings {
				t.Errorf("C has rung %d times, want %d", n, times*rings)
			}
			if n := descriptors(b); n != 1 {
				t.Errorf("an open bell has %d descriptors", n)
			}
			if !b.Close() {
				t.Error("nobody rings, and Close waits for somebody")
			}
			ringFromC(fn, arg)
			if n := b.Heard(); n != times*rings+1 || descriptors(b) != 0 {
				t.Errorf("a closed bell was rung %d times, want %d; it has %d descriptors", n, times*rings+1, descriptors(b))
			}
			b.Wait(time.Hour)
			quiet(t, b, d, "what C has rung meanwhile was heard")
			if b.Forget(times*rings + 2) {
				t.Error("C has yet to ring once, and Forget does not wait for it")
			}
			ringFromC(fn, arg)
			for range 2 {
				if !b.Forget(times*rings + 2) {
					t.Error("C has rung as often as expected, and Forget waits")
				}
			}
			if _, pages := b.Holds(); pages != 0 {
				t.Errorf("the bell keeps %d pages for C, which has rung", pages)
			}
			if fn, arg, ok = b.Ringer(); !ok {
				t.Fatal("C cannot ring any more")
			}
			ringFromC(fn, arg)
			if n := b.Heard(); n != times*rings+3 {
				t.Errorf("C has rung %d times, want %d", n, times*rings+3)
			}
			b.Wait(time.Hour)
			if !b.Close() || !b.Forget(times*rings+3) {
				t.Error("the bell is not given up")
			}
		}
		b.Ring() // nobody hears
		if !b.Close() || descriptors(b) != 0 {
			t.Errorf("a closed bell has %d descriptors", descriptors(b))
		}
	}
}

// TestBellWithoutDescriptor rings a bell that has none.
func TestBellWithoutDescriptor(t *testing.T) {
	var b channelBell
	b.make()
	b.ring()
	b.ring()
	b.wait(time.Hour)
	begin := time.Now()
	if b.wait(time.Millisecond); time.Since(begin) < time.Millisecond {
		t.Error("it was heard before")
	}
}
