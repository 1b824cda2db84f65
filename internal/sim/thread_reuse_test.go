package sim

import (
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestThreadsReused pins a thread after another has ended, whose state it may get. It must not count as the thread that
// has begun the other's capture, and it has no current context.
func TestThreadsReused(t *testing.T) {
	r := newRig(t)
	s := r.stream(nonBlocking)
	first := r.tab.Pin()
	r.ok(r.tab.CtxSetCurrent(driver.At{Thread: first}, r.in.Context))
	r.ok(r.tab.StreamBeginCapture(driver.At{Thread: first}, s, driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
	first.Unpin()

	second := r.tab.Pin()
	defer second.Unpin()
	if c, res := r.tab.CtxGetCurrent(driver.At{Thread: second}); c != 0 || res != ok {
		t.Errorf("another thread has the context %#x (%d)", c, res)
	}
	if _, res := r.tab.StreamEndCapture(driver.At{Thread: second}, s); res != driver.ResultStreamCaptureWrongThread {
		t.Errorf("another thread ends the capture: %d", res)
	}
	r.ok(r.tab.StreamDestroy(driver.At{}, s))
}
