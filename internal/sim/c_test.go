package sim

import (
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// Tests of functions for callers in C: see libcuda.

// TestEndThread ends threads that have per-thread default streams. The state of the threads is
// removed, and the work on the streams is done.
func TestEndThread(t *testing.T) {
	r := newLab(t, VirtualTime())
	streams := func() int { return len(r.devices[0].contexts[0].streams) }
	before := streams()
	for range 3 {
		th := r.otherThread()
		r.must(r.StreamQuery(th, driver.CU_STREAM_PER_THREAD))
		if n := streams(); n != before+1 {
			t.Fatalf("%d streams, want %d", n, before+1)
		}
		r.EndThread(th)
	}
	if n := streams(); n != before {
		t.Errorf("%d streams are left, want %d", n, before)
	}

	th := r.otherThread()
	f := r.kernel("spin", ".param .u64 ns")
	r.must(r.LaunchKernel(th, f, 1, 1, 1, 1, 1, 1, 0, driver.CU_STREAM_PER_THREAD, params(uint64(time.Second))))
	r.EndThread(th)
	r.want("the legacy stream, behind the work of the thread", driver.ResultNotReady, r.record())
	r.Advance(time.Second)
	r.must(r.CtxSynchronize(r.th))

	// A capture on it ends.
	th = r.otherThread()
	r.must(r.StreamBeginCapture(th, driver.CU_STREAM_PER_THREAD, driver.CU_STREAM_CAPTURE_MODE_GLOBAL))
	r.EndThread(th)
	p, res := r.MemAlloc(r.th, 16) // refused during a capture
	r.must(res)
	r.must(r.MemFree(r.th, p))
}

// record records an event on the legacy stream, and returns its status.
func (r *lab) record() driver.Result {
	e, res := r.EventCreate(r.th, driver.CU_EVENT_DISABLE_TIMING)
	r.must(res)
	r.must(r.EventRecord(r.th, e, driver.CU_STREAM_LEGACY))
	res = r.EventQuery(r.th, e)
	r.must(r.EventDestroy(r.th, e))
	return res
}

// TestKernelParamsArray launches a kernel with an array of C, which does not contain the number of
// arguments.
func TestKernelParamsArray(t *testing.T) {
	r := newLab(t)
	f := r.kernel("fill", ".param .u64 dst, .param .u32 value, .param .u32 n")
	p, res := r.MemAlloc(r.th, 8)
	r.must(res)
	value, n := uint32(0x01020304), uint32(2)
	array := [...]unsafe.Pointer{unsafe.Pointer(&p), unsafe.Pointer(&value), unsafe.Pointer(&n)}
	r.must(r.LaunchKernel(r.th, f, 1, 1, 1, 2, 1, 1, 0, driver.CU_STREAM_LEGACY, driver.KernelParams{Array: unsafe.Pointer(&array)}))
	got := make([]byte, 8)
	r.must(r.MemcpyDtoH(r.th, got, p))
	if [8]byte(got) != [8]byte{4, 3, 2, 1, 4, 3, 2, 1} {
		t.Errorf("the memory is %v", got)
	}
	r.must(r.MemFree(r.th, p))
}

// TestUnmappedMemory copies from and to memory that C code has unmapped. The device has a fault,
// and the process continues.
func TestUnmappedMemory(t *testing.T) {
	for _, toDevice := range []bool{true, false} {
		r := newLab(t)
		p, res := r.MemAlloc(r.th, 16)
		r.must(res)
		gone := foreignBytes(1<<15, 16) // below all addresses that Linux and Windows map
		if toDevice {
			res = r.MemcpyHtoD(r.th, p, gone)
		} else {
			res = r.MemcpyDtoH(r.th, gone, p)
		}
		r.want("the copy", driver.ResultIllegalAddress, res)
		r.MemFree(r.th, p)
	}
}
