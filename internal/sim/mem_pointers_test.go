package sim

import (
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestPointerSetAttribute makes sets of memory synchronous.
func TestPointerSetAttribute(t *testing.T) {
	const attribute = driver.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
	r := newLab(t)
	p, q := r.alloc("a"), r.alloc("b")
	is := func(want uint64) {
		t.Helper()
		if v, res := r.PointerGetAttribute(r.th, attribute, p); res != ok || v[0] != want {
			t.Errorf("the attribute is %d, %v", v[0], res)
		}
	}
	r.want("another attribute", invalidValue, r.PointerSetAttribute(r.th, 1, driver.CU_POINTER_ATTRIBUTE_MAPPED, p))
	r.want("no memory", invalidValue, r.PointerSetAttribute(r.th, 1, attribute, 16))
	is(0)
	s, res := r.StreamCreate(r.th, 0)
	r.must(res)
	defer func() { r.must(r.StreamDestroy(r.th, s)) }()
	// waits has a call that comes after the work of a held stream.
	waits := func(what string, call func(th *driver.Thread) driver.Result) {
		t.Helper()
		done := make(chan driver.Result)
		th := r.otherThread()
		go func() { done <- call(th) }()
		for waiting := 0; waiting == 0; {
			select {
			case res := <-done:
				t.Errorf("%s: it has returned at once: %v", what, res)
				r.Release(uintptr(s))
				return
			default:
			}
			r.mu.Lock()
			waiting = len(r.waits)
			r.mu.Unlock()
		}
		r.Release(uintptr(s))
		r.want(what, ok, <-done)
	}
	hold := func() {
		r.Hold(uintptr(s))
		r.must(r.MemsetD8Async(r.th, q, 'c', 1, s))
	}
	hold()
	r.must(r.MemsetD8(r.th, p, 'd', 1))
	waits("set the attribute", func(th *driver.Thread) driver.Result {
		return r.PointerSetAttribute(th, 1, attribute, p)
	})
	is(1)
	hold()
	waits("a set", func(th *driver.Thread) driver.Result { return r.MemsetD8(th, p, 'e', 1) })
	hold()
	waits("a copy", func(th *driver.Thread) driver.Result { return r.MemcpyDtoD(th, q, p, 1) })
	r.must(r.PointerSetAttribute(r.th, 0, attribute, p))
	is(0)
	hold()
	r.must(r.MemsetD8(r.th, p, 'f', 1)) // without the attribute it does not wait
	r.Release(uintptr(s))
	if got := r.read(p, 1); got != "f" {
		t.Errorf("the memory is %q", got)
	}
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_GLOBAL))
	r.want("during a capture", driver.ResultStreamCaptureUnsupported, r.PointerSetAttribute(r.th, 1, attribute, p))
	_, res = r.StreamEndCapture(r.th, s)
	r.want("the end of the capture", driver.ResultStreamCaptureInvalidated, res)
	is(0)
}
