package ccall

import (
	"sync"
	"testing"
	"time"
	"unsafe"
)

// TestBell rings a bell from Go and from C, before and while somebody waits for it, for
// shorter and longer than a goroutine sleeps in the kernel.
func TestBell(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		b := NewBell()
		begin := time.Now()
		b.Wait(d)
		if took := time.Since(begin); took < d {
			t.Errorf("nobody has rung, and Wait(%v) returns after %v", d, took)
		}
		b.Ring()
		b.Ring()
		b.Wait(time.Hour) // once for both
		begin = time.Now()
		b.Wait(d)
		if took := time.Since(begin); took < d {
			t.Errorf("it was heard before, and Wait(%v) returns after %v", d, took)
		}
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
						f := Frame6{Head: Head{Fn: fn}, A: [6]uintptr{arg}}
						Call6(unsafe.Pointer(&f), Hot, nil)
					}
				})
			}
			for heard := uint64(0); heard < times*rings; heard = b.Heard() {
				b.Wait(d)
			}
			wg.Wait()
			begin = time.Now()
			b.Wait(d)
			if n, took := b.Heard(), time.Since(begin); n != times*rings || took < d {
				t.Errorf("C has rung %d times, want %d; Wait(%v) returns after %v", n, times*rings, d, took)
			}
		}
		b.Close()
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
