//go:build linux || windows

package ccall

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// TestPin checks that a pinned goroutine stays on its thread, while other goroutines compete for
// the threads.
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

// TestThreadEnds checks whether a goroutine is still locked to its thread when it ends. If so, the
// thread ends, too.
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
					t.Error("the thread has not ended")
				}
				return
			}
			// The runtime keeps idle threads. A thread that has to end does so at once.
			time.Sleep(20 * time.Millisecond)
			if !threadAlive(tid) {
				t.Error("the thread has ended")
			}
		})
	}
}

// onOtherThread runs do in a goroutine and returns the thread on which it ended. It avoids the main
// thread, which never ends.
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
				<-release // occupies the main thread, so that the next goroutine runs elsewhere
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

// eventually reports whether cond becomes true within ten seconds.
func eventually(cond func() bool) bool {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if cond() {
			return true
		}
	}
	return false
}
