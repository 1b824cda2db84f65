package softlib

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/purecu/purecu/cu"
)

// TestThreadsEnd ends threads that have called the library while they get signals. Before the
// library knows of the end, Go frees what its signal handlers need, with all signals blocked.
func TestThreadsEnd(t *testing.T) { child(t, "end") }

func end(path string) error {
	drv, err := cu.Open(cu.WithLibrary(path))
	if err != nil {
		return err
	}
	for range 200 {
		id := make(chan int)
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
			_, err := drv.Devices()
			id <- syscall.Gettid()
			done <- err
		}()
		thread := <-id
		err := <-done
		if thread == os.Getpid() {
			continue // the first thread of the process does not end
		}
		for err == nil {
			err = syscall.Tgkill(os.Getpid(), thread, syscall.SIGURG)
		}
		if !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("a thread that ends: %w", err)
		}
	}
	return nil
}
