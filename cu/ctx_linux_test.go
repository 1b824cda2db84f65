package cu_test

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// TestDoKeepsThreads takes the context away in Do: the thread ends with the
// goroutine, but not after a sticky error, when nobody can say whether its end is safe.
func TestDoKeepsThreads(t *testing.T) {
	for _, poisoned := range []bool{false, true} {
		t.Run(fmt.Sprint("poisoned ", poisoned), func(t *testing.T) {
			r := newRig(t)
			do := func() (thread int) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					err := r.gpu.Do(func(th *Thread) error {
						thread = syscall.Gettid()
						if _, res := core.Of(r.drv).Table().CtxPopCurrent(driver.At{Thread: RawThread(th)}); res != driver.ResultSuccess {
							t.Errorf("cuCtxPopCurrent: %v", res)
						}
						if poisoned {
							r.tell("fake_poison", r.gpu.Handle(), int32(ResultIllegalAddress))
						}
						return nil
					})
					if !errors.Is(err, ResultInvalidContext) {
						t.Errorf("Do: %v", err)
					}
				}()
				<-done
				return thread
			}
			thread := do()
			if !poisoned && thread == os.Getpid() {
				thread = do() // the main thread never ends, but nobody gets it any more
			}
			lives := func() bool {
				_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
				return err == nil
			}
			patience := 5 * time.Second
			if poisoned {
				patience = 20 * time.Millisecond
			}
			for end := time.Now().Add(patience); lives() && time.Now().Before(end); time.Sleep(time.Millisecond) {
			}
			if lives() != poisoned {
				t.Errorf("the thread lives: %v", lives())
			}
		})
	}
}
