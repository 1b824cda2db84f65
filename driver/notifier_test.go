package driver

import (
	"runtime"
	"testing"
	"time"

	"github.com/purecu/purecu/internal/ccall"
)

// TestNotifierDiscarded discards a notifier that C has not called yet. The memory that C needs
// stays until C has called, and no longer.
func TestNotifierDiscarded(t *testing.T) {
	collected := func(b *Notifier) bool { // reports whether garbage collections have freed it
		for range 200 {
			runtime.GC()
			time.Sleep(time.Millisecond)
			if _, pages := b.Holds(); pages == 0 {
				return true
			}
		}
		return false
	}
	b := new(Table).NewNotifier()
	b.Discard(0) // Wait was never called
	fn, arg, ok := b.native.Callback()
	if !ok {
		t.Skip("C cannot notify on this platform")
	}
	notify := func() {
		t.Helper()
		if _, err := ccall.Invoke(fn, ccall.Hot, arg); err != nil {
			t.Fatal(err)
		}
	}
	if n, pages := b.Holds(); n != 1 || pages != 1 {
		t.Errorf("a notifier that C can call has %d descriptors and %d pages", n, pages)
	}
	notify()
	if !b.Close(2) || b.Notified() != 1 {
		t.Errorf("C has called %d times of 2, and the descriptor stays", b.Notified())
	}
	if n, pages := b.Holds(); n != 0 || pages != 1 {
		t.Errorf("a notifier that C has not called yet has %d descriptors and %d pages", n, pages)
	}
	b.Discard(2)
	for range 10 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if _, pages := b.Holds(); pages != 1 {
		t.Fatal("C has not called yet, and its memory is freed")
	}
	notify()
	if !collected(b) {
		t.Error("C has made all its calls, and its memory is not freed")
	}
	if n := b.Notified(); n != 2 {
		t.Errorf("C has called %d times, want 2", n)
	}
}
