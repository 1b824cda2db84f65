package sim

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestMemoryStorm allocates, copies, launches, calls and frees on many threads at the same time.
// Each thread must read the bytes that it has copied.
func TestMemoryStorm(t *testing.T) {
	const threads, rounds = 8, 40
	r := newLab(t, Devices(2), WithKernel("count", Kernel{Run: func(l *Launch) { l.Mem(0)[l.U32(1)]++ }}))
	peer := r.primary(1)
	var wg sync.WaitGroup
	for n := range threads {
		wg.Go(func() {
			th := r.otherThread()
			if n%2 == 1 {
				if res := r.CtxSetCurrent(th, peer); res != ok {
					t.Error(res)
				}
			}
			for round := range rounds {
				if err := r.storm(th, fmt.Sprintf("thread %02d round %03d 0", n, round)); err != nil {
					t.Errorf("thread %d, round %d: %v", n, round, err)
					return
				}
			}
		})
	}
	wg.Wait()
	r.must(r.DevicePrimaryCtxRelease(nil, 1))
}

// storm copies a text several times, and increments its last letter with a kernel.
func (r *lab) storm(th *driver.Thread, text string) error {
	size := uint64(len(text))
	var called atomic.Bool
	s, r1 := r.StreamCreate(th, driver.CU_STREAM_NON_BLOCKING)
	p, r2 := r.MemAlloc(th, size)
	q, r3 := r.MemAllocAsync(th, size, s)
	host, r4 := r.MemHostAlloc(th, size, 0)
	m, r5 := r.ModuleLoadData(th, []byte(header+".entry count(.param .u64 p, .param .u32 i) { ret; }"))
	f, r6 := r.ModuleGetFunction(th, m, "count")
	b := foreignBytes(host, size)
	copy(b, text)
	results := []driver.Result{r1, r2, r3, r4, r5, r6,
		r.MemcpyHtoDAsync(th, p, host, size, s),
		r.MemsetD8Async(th, driver.DevicePtr(host), '.', size, s),
		r.MemcpyDtoDAsync(th, q, p, size, s),
		r.LaunchKernel(th, f, 1, 1, 1, 1, 1, 1, 0, s, params(q, uint32(size-1))),
		r.MemcpyDtoHAsync(th, host, q, size, s),
		r.MemFreeAsync(th, q, s),
		r.LaunchHostFunc(th, s, driver.Callback{Go: func() { called.Store(true) }}),
		r.StreamSynchronize(th, s),
	}
	got, want := string(b), text[:size-1]+"1"
	results = append(results, r.MemFree(th, p), r.MemFreeHost(th, host), r.ModuleUnload(th, m), r.StreamDestroy(th, s))
	for i, res := range results {
		if res != ok {
			return fmt.Errorf("step %d: %v", i, res)
		}
	}
	if got != want || !called.Load() {
		return fmt.Errorf("it has %q, want %q; the function was called: %v", got, want, called.Load())
	}
	return nil
}
