package driver

import (
	"runtime"
	"testing"
	"time"

	"github.com/purecu/purecu/internal/ccall"
)

// TestBellDiscarded drops a bell that C has yet to ring: what C needs for that stays until it has, and no longer.
func TestBellDiscarded(t *testing.T) {
	collected := func(b *Bell) bool { // after some collections
		for range 200 {
			runtime.GC()
			time.Sleep(time.Millisecond)
			if _, pages := b.Holds(); pages == 0 {
				return true
			}
		}
		return false
	}
	b := new(Table).NewBell()
	b.Discard(0) // nobody has ever waited
	fn, arg, ok := b.native.Ringer()
	if !ok {
		t.Skip("C cannot ring a bell here")
	}
	ring := func() {
		t.Helper()
		if _, err := ccall.Invoke(fn, ccall.Hot, arg); err != nil {
			t.Fatal(err)
		}
	}
	if n, pages := b.Holds(); n != 1 || pages != 1 {
		t.Errorf("a bell that C can ring has %d descriptors and %d pages", n, pages)
	}
	ring()
	if !b.Close(2) || b.Heard() != 1 {
		t.Errorf("C has rung %d times of 2, and the descriptor stays", b.Heard())
	}
	if n, pages := b.Holds(); n != 0 || pages != 1 {
		t.Errorf("a bell that C has yet to ring has %d descriptors and %d pages", n, pages)
	}
	b.Discard(2)
	for range 10 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if _, pages := b.Holds(); pages != 1 {
		t.Fatal("C has yet to ring the bell, and has no memory for that any more")
	}
	ring()
	if !collected(b) {
		t.Error("C has rung as often as it was told to, and its memory stays")
	}
	if n := b.Heard(); n != 2 {
		t.Errorf("C has rung %d times, want 2", n)
	}
}
