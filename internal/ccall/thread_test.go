//go:build linux || windows

package ccall

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// TestPin holds that a pinned goroutine stays on its thread, while others
// take every chance to run there.
func TestPin(t *testing.T) {
	id, slow := cfunc(t, "thread_id"), cfunc(t, "out_slow")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	together(t, 32, func(g int) error {
		if g%2 == 0 { // not pinned
			for range rounds(200) {
				callOut(slow, 0)
				runtime.Gosched()
			}
			return nil
		}
		th := Pin()
		defer th.Unpin()
		first := threadID(id)
		for i := range rounds(1000) {
			if now := threadID(id); now != first {
				return fmt.Errorf("call %d ran on thread %d, the first on %d", i, now, first)
			}
			switch i % 100 {
			case 0:
				time.Sleep(time.Microsecond)
			case 50:
				runtime.Gosched()
			}
		}
		return nil
	})
}

// TestThreadEnds tells whether a goroutine was still locked to its thread when
// it ended: if so, the thread ends too.
func TestThreadEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func()
		ends bool
	}{
		{"pin", func() { Pin() }, true},
		{"pin, unpin", func() { Pin().Unpin() }, false},
		{"pin, abandon", func() { Pin().Abandon() }, true},
		{"pin, abandon, unpin", func() { th := Pin(); th.Abandon(); th.Unpin() }, true},
		{"pin, unpin, abandon", func() { th := Pin(); th.Unpin(); th.Abandon() }, false},
		{"pin twice, unpin one", func() { Pin(); Pin().Unpin() }, true},
		{"pin twice, unpin both", func() { a, b := Pin(), Pin(); a.Unpin(); b.Unpin() }, false},
		{"pin twice, unpin one twice", func() { Pin(); th := Pin(); th.Unpin(); th.Unpin() }, true},
		{"unpin nil", func() { runtime.LockOSThread(); (*Thread)(nil).Unpin() }, true},
		{"abandon nil", func() { (*Thread)(nil).Abandon() }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			id := cfunc(t, "thread_id")
			tid := onOtherThread(id, test.do)
			if test.ends {
				if !eventually(func() bool { return !threadAlive(tid) }) {
					t.Error("the thread lives on")
				}
				return
			}
			// The runtime keeps idle threads. One that was to end would do so
			// at once.
			time.Sleep(20 * time.Millisecond)
			if !threadAlive(tid) {
				t.Error("the thread has ended")
			}
		})
	}
}

// onOtherThread runs do in a goroutine and returns the thread that it was on
// at last. The main thread, which never ends, is avoided.
func onOtherThread(id uintptr, do func()) (tid uintptr) {
	done := make(chan uintptr)
	release := make(chan struct{})
	defer close(release)
	for {
		go func() {
			runtime.LockOSThread()
			tid := threadID(id)
			if tid == mainThread() {
				done <- 0
				<-release // keep it from the next goroutine
				runtime.UnlockOSThread()
				return
			}
			defer func() { done <- tid }()
			defer runtime.UnlockOSThread()
			do()
		}()
		if tid := <-done; tid != 0 {
			return tid
		}
	}
}

// eventually tells whether cond becomes true within ten seconds.
func eventually(cond func() bool) bool {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if cond() {
			return true
		}
	}
	return false
}
