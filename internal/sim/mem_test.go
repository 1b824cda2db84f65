package sim

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/sim/graph"
	"github.com/purecu/purecu/internal/sim/mem"
)

// TestMemoryResults makes calls with memory, and checks their results.
func TestMemoryResults(t *testing.T) {
	const (
		portable   = driver.CU_MEMHOSTALLOC_PORTABLE
		invalid    = driver.ResultInvalidValue
		wild       = driver.DevicePtr(0x1_7f55_0000_0000)
		registered = 3 * mem.Page
	)
	own := mem.NewBytes(registered)
	alloc := func(size uint64) func(r *lab) driver.Result {
		return func(r *lab) driver.Result {
			p, res := r.MemAlloc(r.th, size)
			r.MemFree(r.th, p)
			return res
		}
	}
	host := func(size uint64, flags uint32) func(r *lab) driver.Result {
		return func(r *lab) driver.Result {
			p, res := r.MemHostAlloc(r.th, size, flags)
			if res == ok {
				res = r.MemFreeHost(r.th, p)
			}
			return res
		}
	}
	address := driver.HostPtr(sliceAddress(own))
	for _, tt := range []struct {
		name string
		want driver.Result
		call func(r *lab) driver.Result
	}{
		{"alloc", ok, alloc(1)},
		{"alloc nothing", invalid, alloc(0)},
		{"alloc all", ok, alloc(mostFree)},
		{"alloc more than there is", driver.ResultOutOfMemory, alloc(mostFree + 1)},
		{"alloc too much for any number", driver.ResultOutOfMemory, alloc(1<<64 - 1)},
		{"alloc without a context", driver.ResultInvalidContext, func(r *lab) driver.Result {
			_, res := r.MemAlloc(nil, 1)
			return res
		}},
		{"free NULL", ok, func(r *lab) driver.Result { return r.MemFree(r.th, 0) }},
		{"free garbage", invalid, func(r *lab) driver.Result { return r.MemFree(r.th, wild) }},
		{"free the middle", invalid, func(r *lab) driver.Result { return r.MemFree(r.th, r.alloc("abc")+1) }},
		{"free twice", invalid, func(r *lab) driver.Result {
			p := r.alloc("abc")
			r.must(r.MemFree(r.th, p))
			return r.MemFree(r.th, p)
		}},
		{"free pinned memory", invalid, func(r *lab) driver.Result {
			_, p := r.pinned("abc")
			return r.MemFree(r.th, driver.DevicePtr(p))
		}},
		{"free a variable", invalid, func(r *lab) driver.Result {
			p, _, res := r.ModuleGetGlobal(r.th, r.load(header+".global .u32 x;"), "x")
			r.must(res)
			return r.MemFree(r.th, p)
		}},
		{"alloc host", ok, host(1, portable)},
		{"alloc host nothing", ok, host(0, 0)},
		{"alloc host with unknown flags", invalid, host(1, 8)},
		{"alloc host too much", driver.ResultOutOfMemory, host(1<<63, 0)},
		{"free host NULL", ok, func(r *lab) driver.Result { return r.MemFreeHost(r.th, 0) }},
		{"free host of a device", invalid, func(r *lab) driver.Result { return r.MemFreeHost(r.th, driver.HostPtr(r.alloc("abc"))) }},
		{"free host twice", invalid, func(r *lab) driver.Result {
			_, p := r.pinned("abc")
			r.must(r.MemFreeHost(r.th, p))
			return r.MemFreeHost(r.th, p)
		}},
		{"device pointer", ok, func(r *lab) driver.Result {
			_, p := r.pinned("abc")
			if p%mem.Page != 0 {
				r.t.Errorf("it is at %#x, which is no page", p)
			}
			dp, res := r.MemHostGetDevicePointer(r.th, p+1, 0)
			if uint64(dp) != uint64(p)+1 {
				r.t.Errorf("the device knows %#x as %#x", p+1, dp)
			}
			return res
		}},
		{"device pointer with flags", invalid, func(r *lab) driver.Result {
			_, p := r.pinned("abc")
			_, res := r.MemHostGetDevicePointer(r.th, p, 1)
			return res
		}},
		{"device pointer of the device's", invalid, func(r *lab) driver.Result {
			_, res := r.MemHostGetDevicePointer(r.th, driver.HostPtr(r.alloc("abc")), 0)
			return res
		}},
		{"flags", ok, func(r *lab) driver.Result {
			p, res := r.MemHostAlloc(r.th, 1, portable)
			r.must(res)
			flags, res := r.MemHostGetFlags(r.th, p)
			if flags != portable|driver.CU_MEMHOSTALLOC_DEVICEMAP {
				r.t.Errorf("the flags are %#x", flags)
			}
			r.must(r.MemFreeHost(r.th, p))
			return res
		}},
		{"flags of garbage", invalid, func(r *lab) driver.Result {
			_, res := r.MemHostGetFlags(r.th, 16)
			return res
		}},
		{"register nothing", invalid, func(r *lab) driver.Result { return r.MemHostRegister(r.th, address, 0, 0) }},
		{"register NULL", invalid, func(r *lab) driver.Result { return r.MemHostRegister(r.th, 0, 1, 0) }},
		{"register around the end", invalid, func(r *lab) driver.Result { return r.MemHostRegister(r.th, address, 1<<64-1, 0) }},
		{"register with unknown flags", invalid, func(r *lab) driver.Result { return r.MemHostRegister(r.th, address, 1, 16) }},
		{"register a device's registers", invalid, func(r *lab) driver.Result {
			return r.MemHostRegister(r.th, address, 1, driver.CU_MEMHOSTREGISTER_IOMEMORY)
		}},
		{"register, and overlap", driver.ResultHostMemoryAlreadyRegistered, func(r *lab) driver.Result {
			r.must(r.MemHostRegister(r.th, address+mem.Page, mem.Page, 0))
			defer func() { r.must(r.MemHostUnregister(r.th, address+mem.Page)) }()
			return r.MemHostRegister(r.th, address, mem.Page+1, 0)
		}},
		{"register side by side", ok, func(r *lab) driver.Result {
			for _, off := range []driver.HostPtr{mem.Page, 0, 2 * mem.Page} {
				r.must(r.MemHostRegister(r.th, address+off, mem.Page, 0))
				defer func() { r.must(r.MemHostUnregister(r.th, address+off)) }()
			}
			return ok
		}},
		{"unregister what is not registered", driver.ResultHostMemoryNotRegistered, func(r *lab) driver.Result { return r.MemHostUnregister(r.th, address) }},
		{"unregister twice", driver.ResultHostMemoryNotRegistered, func(r *lab) driver.Result {
			r.must(r.MemHostRegister(r.th, address, registered, 0))
			r.must(r.MemHostUnregister(r.th, address))
			return r.MemHostUnregister(r.th, address)
		}},
		{"free what is registered", invalid, func(r *lab) driver.Result {
			r.must(r.MemHostRegister(r.th, address, registered, 0))
			defer func() { r.must(r.MemHostUnregister(r.th, address)) }()
			return r.MemFreeHost(r.th, address)
		}},
		{"alloc async nothing", ok, func(r *lab) driver.Result {
			_, res := r.MemAllocAsync(r.th, 0, r.newStream())
			return res
		}},
		{"free async garbage", invalid, func(r *lab) driver.Result { return r.MemFreeAsync(r.th, wild, r.newStream()) }},
		{"free async twice", invalid, func(r *lab) driver.Result {
			s, p := r.newStream(), r.alloc("abc")
			r.must(r.MemFreeAsync(r.th, p, s))
			return r.MemFreeAsync(r.th, p, s)
		}},
		{"copy nothing to nowhere", ok, func(r *lab) driver.Result { return r.MemcpyHtoD(r.th, 0, nil) }},
		{"copy from nowhere", invalid, func(r *lab) driver.Result { return r.MemcpyDtoH(r.th, make([]byte, 1), wild) }},
		{"copy over the end", invalid, func(r *lab) driver.Result { return r.MemcpyHtoD(r.th, r.alloc("abc")+1, []byte("abc")) }},
		{"copy over the end of the source", invalid, func(r *lab) driver.Result { return r.MemcpyDtoD(r.th, r.alloc("abcd"), r.alloc("abc"), 4) }},
		{"copy async over the end", invalid, func(r *lab) driver.Result {
			_, p := r.pinned("abcd")
			return r.MemcpyDtoHAsync(r.th, p, r.alloc("abc"), 4, r.newStream())
		}},
		{"copy async over the end of pinned memory", invalid, func(r *lab) driver.Result {
			_, p := r.pinned("abc")
			return r.MemcpyHtoDAsync(r.th, r.alloc("abcd"), p, 4, r.newStream())
		}},
		{"copy async from NULL", invalid, func(r *lab) driver.Result { return r.MemcpyHtoDAsync(r.th, r.alloc("abcd"), 0, 4, r.newStream()) }},
		{"copy async from where nothing is", invalid, func(r *lab) driver.Result {
			return r.MemcpyHtoDAsync(r.th, r.alloc("abcd"), 64, 4, r.newStream())
		}},
		{"copy async from what is registered in part", invalid, func(r *lab) driver.Result {
			r.must(r.MemHostRegister(r.th, address+mem.Page, mem.Page, 0))
			defer func() { r.must(r.MemHostUnregister(r.th, address+mem.Page)) }()
			return r.MemcpyHtoDAsync(r.th, r.alloc(strings.Repeat("x", 2*mem.Page)), address, 2*mem.Page, r.newStream())
		}},
		{"copy from behind the end", invalid, func(r *lab) driver.Result {
			p := r.alloc(strings.Repeat("x", alignment))
			r.alloc("more") // the next block
			return r.MemcpyDtoH(r.th, make([]byte, 1), p+alignment)
		}},
		{"copy between contexts of which one is none", ok, func(r *lab) driver.Result {
			p := r.alloc("abc")
			return r.MemcpyPeer(r.th, p, r.ctx, p, 0, 3)
		}},
		{"set over the end", invalid, func(r *lab) driver.Result { return r.MemsetD8(r.th, r.alloc("abc"), 1, 4) }},
		{"set misaligned words", invalid, func(r *lab) driver.Result { return r.MemsetD32(r.th, r.alloc("abcdefgh")+2, 1, 1) }},
		{"set too many words", invalid, func(r *lab) driver.Result {
			return r.MemsetD32Async(r.th, r.alloc("abcdefgh"), 1, 1<<62, r.newStream())
		}},
		{"set nothing", ok, func(r *lab) driver.Result { return r.MemsetD32(r.th, wild, 1, 0) }},
		{"wait for a misaligned word", invalid, func(r *lab) driver.Result {
			return r.StreamWaitValue32(r.th, r.newStream(), r.alloc("abcdefgh")+2, 1, 0)
		}},
		{"wait for half a word", invalid, func(r *lab) driver.Result {
			return r.StreamWaitValue64(r.th, r.newStream(), r.alloc("abcd"), 1, 0)
		}},
		{"wait with unknown flags", invalid, func(r *lab) driver.Result {
			return r.StreamWaitValue32(r.th, r.newStream(), r.alloc("abcd"), 1, 4)
		}},
		{"wait with a flush", driver.ResultNotSupported, func(r *lab) driver.Result {
			return r.StreamWaitValue32(r.th, r.newStream(), r.alloc("abcd"), 1, driver.CU_STREAM_WAIT_VALUE_FLUSH)
		}},
		{"write with unknown flags", invalid, func(r *lab) driver.Result {
			return r.StreamWriteValue32(r.th, r.newStream(), r.alloc("abcd"), 1, 2)
		}},
		{"write a misaligned word", invalid, func(r *lab) driver.Result {
			return r.StreamWriteValue64(r.th, r.newStream(), r.alloc("abcdefghijkl")+4, 1, 0)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newLab(t)
			r.want(tt.name, tt.want, tt.call(r))
		})
	}
	runtime.KeepAlive(own)
}

// TestCopies copies in all directions, between all kinds of memory, synchronously and on a stream.
func TestCopies(t *testing.T) {
	const content = "0123456789abcdef"
	r := newLab(t)
	s := r.newStream()
	_, pinned := r.pinned(content)
	own := mem.NewBytes(16)
	copy(own, content)
	address := driver.HostPtr(sliceAddress(own))
	r.must(r.MemHostRegister(r.th, address, 16, 0))
	defer func() { r.must(r.MemHostUnregister(r.th, address)) }()
	variable, _, res := r.ModuleGetGlobal(r.th, r.load(header+".global .b8 v[16] = {48,49,50,51,52,53,54,55,56,57,97,98,99,100,101,102};"), "v")
	r.must(res)
	memory := map[string]driver.DevicePtr{
		"device": r.alloc(content), "pinned": driver.DevicePtr(pinned), "registered": driver.DevicePtr(address), "variable": variable,
	}
	for from, src := range memory {
		for to, dst := range memory {
			for how, do := range map[string]func(dst, src driver.DevicePtr) driver.Result{
				"DtoD": func(dst, src driver.DevicePtr) driver.Result { return r.MemcpyDtoD(r.th, dst, src, 4) },
				"DtoDAsync": func(dst, src driver.DevicePtr) driver.Result {
					return r.MemcpyDtoDAsync(r.th, dst, src, 4, s)
				},
				"Peer": func(dst, src driver.DevicePtr) driver.Result { return r.MemcpyPeer(r.th, dst, r.ctx, src, r.ctx, 4) },
				"PeerAsync": func(dst, src driver.DevicePtr) driver.Result {
					return r.MemcpyPeerAsync(r.th, dst, r.ctx, src, r.ctx, 4, s)
				},
				"HtoDAsync": func(dst, src driver.DevicePtr) driver.Result {
					return r.MemcpyHtoDAsync(r.th, dst, driver.HostPtr(src), 4, s)
				},
				"DtoHAsync": func(dst, src driver.DevicePtr) driver.Result {
					return r.MemcpyDtoHAsync(r.th, driver.HostPtr(dst), src, 4, s)
				},
			} {
				for _, p := range memory {
					r.must(r.MemcpyHtoD(r.th, p, []byte(content)))
				}
				r.want(how, ok, do(dst+8, src+2))
				r.must(r.CtxSynchronize(r.th))
				if diff := cmp.Diff("012345672345cdef", r.read(dst, 16)); diff != "" {
					t.Errorf("%s from %s to %s (-want +got):\n%s", how, from, to, diff)
				}
			}
		}
	}
	for name, set := range map[string]func(p driver.DevicePtr) driver.Result{
		"D8":       func(p driver.DevicePtr) driver.Result { return r.MemsetD8(r.th, p, 'x', 8) },
		"D8Async":  func(p driver.DevicePtr) driver.Result { return r.MemsetD8Async(r.th, p, 'x', 8, s) },
		"D32":      func(p driver.DevicePtr) driver.Result { return r.MemsetD32(r.th, p, 0x78787878, 2) },
		"D32Async": func(p driver.DevicePtr) driver.Result { return r.MemsetD32Async(r.th, p, 0x78787878, 2, s) },
	} {
		for of, p := range memory {
			r.must(r.MemcpyHtoD(r.th, p, []byte(content)))
			r.want(name, ok, set(p+4))
			r.must(r.CtxSynchronize(r.th))
			if diff := cmp.Diff("0123xxxxxxxxcdef", r.read(p, 16)); diff != "" {
				t.Errorf("%s of %s (-want +got):\n%s", name, of, diff)
			}
		}
	}
	r.must(r.MemsetD32(r.th, memory["device"], 0x64636261, 4))
	if got := r.read(memory["device"], 16); got != "abcdabcdabcdabcd" {
		t.Errorf("words are set to %q", got)
	}
}

// TestCopyTime copies on a stream in virtual time.
func TestCopyTime(t *testing.T) {
	r := newLab(t, VirtualTime())
	s := r.newStream()
	host, address := r.pinned("new")
	p := r.alloc("old")
	back, backAddress := r.pinned("...")
	own := []byte("own")
	q := r.alloc("...")
	r.must(r.MemcpyHtoDAsync(r.th, p, address, 3, s))
	r.must(r.MemcpyDtoHAsync(r.th, backAddress, p, 3, s))
	r.must(r.MemcpyHtoDAsync(r.th, q, driver.HostPtr(sliceAddress(own)), 3, s))
	copy(host, "NEW") // before the copy
	copy(own, "...")  // pageable memory was read at the call
	look := func() []string { return []string{r.read(p, 3), string(back), r.read(q, 3)} }
	if diff := cmp.Diff([]string{"old", "...", "..."}, look()); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	r.Advance(2 * time.Microsecond)
	if diff := cmp.Diff([]string{"NEW", "...", "..."}, look()); diff != "" {
		t.Errorf("after one copy (-want +got):\n%s", diff)
	}
	r.want("query", driver.ResultNotReady, r.StreamQuery(r.th, s))
	r.Advance(time.Hour)
	if diff := cmp.Diff([]string{"NEW", "NEW", "own"}, look()); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
	r.want("query", ok, r.StreamQuery(r.th, s))
}

// TestCopyDuration measures copies with events, in virtual time.
func TestCopyDuration(t *testing.T) {
	r := newLab(t, VirtualTime())
	const size = 1 << 20
	p, q := r.alloc(strings.Repeat("x", size)), r.alloc(strings.Repeat("y", size))
	_, address := r.pinned(strings.Repeat("z", size))
	for name, tt := range map[string]struct {
		want time.Duration
		copy func(s driver.Stream) driver.Result
	}{
		"from the host": {22971, func(s driver.Stream) driver.Result { return r.MemcpyHtoDAsync(r.th, p, address, size, s) }},
		"to the host":   {22971, func(s driver.Stream) driver.Result { return r.MemcpyDtoHAsync(r.th, address, p, size, s) }},
		"on the device": {2524, func(s driver.Stream) driver.Result { return r.MemcpyDtoDAsync(r.th, p, q, size, s) }},
		"set":           {2524, func(s driver.Stream) driver.Result { return r.MemsetD8Async(r.th, p, 1, size, s) }},
		"nothing":       {0, func(s driver.Stream) driver.Result { return r.MemcpyDtoDAsync(r.th, p, q, 0, s) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := r.newStream()
			var e [2]driver.Event
			for i := range e {
				var res driver.Result
				e[i], res = r.EventCreate(r.th, 0)
				r.must(res)
				defer func() { r.must(r.EventDestroy(r.th, e[i])) }()
			}
			r.must(r.EventRecord(r.th, e[0], s))
			r.must(tt.copy(s))
			r.must(r.EventRecord(r.th, e[1], s))
			r.Advance(time.Second)
			ms, res := r.EventElapsedTimeV2(r.th, e[0], e[1])
			r.must(res)
			if diff := cmp.Diff(float32(float64(tt.want)/1e6), ms); diff != "" {
				t.Errorf("in milliseconds (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWaitsForTurn makes calls that have to wait for a held stream.
func TestWaitsForTurn(t *testing.T) {
	for name, tt := range map[string]struct {
		flags uint32 // the flags of the held stream
		call  func(r *lab, th *driver.Thread, p driver.DevicePtr) driver.Result
	}{
		"cuMemcpyHtoD": {0, func(r *lab, th *driver.Thread, p driver.DevicePtr) driver.Result {
			return r.MemcpyHtoD(th, p, []byte("2"))
		}},
		"cuMemcpyDtoH": {0, func(r *lab, th *driver.Thread, p driver.DevicePtr) driver.Result {
			b := []byte{0}
			res := r.MemcpyDtoH(th, b, p)
			if string(b) != "1" {
				r.t.Errorf("it copied %q", b)
			}
			return res
		}},
		"cuMemFree": {driver.CU_STREAM_NON_BLOCKING, func(r *lab, th *driver.Thread, p driver.DevicePtr) driver.Result {
			return r.MemFree(th, p)
		}},
		"cuMemsetD8 of pinned memory": {0, func(r *lab, th *driver.Thread, _ driver.DevicePtr) driver.Result {
			p, res := r.MemHostAlloc(th, 1, 0)
			r.must(res)
			r.must(r.MemsetD8(th, driver.DevicePtr(p), 'x', 1))
			if b := foreignBytes(p, 1); string(b) != "x" {
				r.t.Errorf("it is set to %q", b)
			}
			return r.MemFreeHost(th, p)
		}},
		"cuModuleUnload": {driver.CU_STREAM_NON_BLOCKING, func(r *lab, th *driver.Thread, _ driver.DevicePtr) driver.Result {
			m, res := r.ModuleLoadData(th, []byte(header))
			r.must(res)
			return r.ModuleUnload(th, m)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t, VirtualTime())
			s, res := r.StreamCreate(r.th, tt.flags)
			r.must(res)
			p := r.alloc("0")
			r.Hold(uintptr(s))
			r.must(r.MemsetD8Async(r.th, p, '1', 1, s))
			th, done := r.otherThread(), make(chan driver.Result)
			go func() { done <- tt.call(r, th, p) }()
			r.blocked(1)
			r.Release(uintptr(s))
			r.blocked(1)
			r.Advance(time.Second)
			r.want(name, ok, <-done)
			r.must(r.StreamDestroy(r.th, s))
		})
	}
}

// TestFreedConcurrently frees the same object on two threads. One call succeeds.
func TestFreedConcurrently(t *testing.T) {
	r := newLab(t, VirtualTime())
	s, p := r.newStream(), r.alloc("x")
	m, res := r.ModuleLoadData(r.th, []byte(header))
	r.must(res)
	r.spin(s, time.Second)
	memory, module := make(chan driver.Result, 2), make(chan driver.Result, 2)
	for range 2 {
		th := r.otherThread()
		go func() { memory <- r.MemFree(th, p) }()
		go func() { module <- r.ModuleUnload(th, m) }()
	}
	r.want("freed again", driver.ResultInvalidValue, <-memory)
	r.blocked(3)
	r.Advance(time.Second)
	r.want("freed", ok, <-memory)
	if diff := cmp.Diff([]driver.Result{ok, driver.ResultInvalidHandle}, slices.Sorted(slices.Values([]driver.Result{<-module, <-module}))); diff != "" {
		t.Errorf("unloaded twice (-want +got):\n%s", diff)
	}
}

// TestWaitsForEarlierWork frees memory and synchronizes while work is enqueued all the time. The
// calls do not wait for later work.
func TestWaitsForEarlierWork(t *testing.T) {
	for name, call := range map[string]func(r *lab, th *driver.Thread, p driver.DevicePtr) driver.Result{
		"cuMemFree":        func(r *lab, th *driver.Thread, p driver.DevicePtr) driver.Result { return r.MemFree(th, p) },
		"cuCtxSynchronize": func(r *lab, th *driver.Thread, _ driver.DevicePtr) driver.Result { return r.CtxSynchronize(th) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t, VirtualTime())
			s, other, p := r.newStream(), r.newStream(), r.alloc("x")
			r.spin(s, time.Second)
			r.spin(other, time.Second)
			done := make(chan driver.Result)
			th := r.otherThread()
			go func() { done <- call(r, th, p) }()
			r.blocked(1)
			r.spin(other, time.Hour)
			r.Advance(time.Second)
			r.want(name, ok, <-done)
			r.want("query", driver.ResultNotReady, r.StreamQuery(r.th, other))
			r.Advance(time.Hour)
		})
	}
}

// TestDoesNotWait makes calls that enqueue work on the legacy default stream, which waits for a
// held stream. The calls return at once.
func TestDoesNotWait(t *testing.T) {
	r := newLab(t, VirtualTime())
	s, res := r.StreamCreate(r.th, 0)
	r.must(res)
	p, q := r.alloc("12345678"), r.alloc("abcdefgh")
	r.Hold(uintptr(s))
	r.must(r.MemsetD8Async(r.th, p, '1', 1, s))
	r.must(r.MemsetD8(r.th, p, '2', 1))
	r.must(r.MemcpyDtoD(r.th, p+4, q, 4))
	r.must(r.MemcpyPeer(r.th, p+2, r.ctx, q, r.ctx, 1))
	r.want("query", driver.ResultNotReady, r.StreamQuery(r.th, driver.CU_STREAM_LEGACY))
	r.Release(uintptr(s))
	r.Advance(time.Second)
	if got := r.read(p, 8); got != "22a4abcd" {
		t.Errorf("the memory is %q", got)
	}
	r.must(r.StreamDestroy(r.th, s))
}

// TestUnusedMemory allocates more memory than the machine has. Unused memory needs none.
func TestUnusedMemory(t *testing.T) {
	r := newLab(t)
	const size = 60 << 30
	var p [2]driver.DevicePtr
	for i := range p {
		var res driver.Result
		p[i], res = r.MemAlloc(r.th, size)
		r.must(res)
	}
	free, total, res := r.MemGetInfo(r.th)
	r.must(res)
	if diff := cmp.Diff([]uint64{mostFree - 2*size, deviceMemory}, []uint64{free, total}); diff != "" {
		t.Errorf("cuMemGetInfo (-want +got):\n%s", diff)
	}
	_, res = r.MemAlloc(r.th, size)
	r.want("no room", driver.ResultOutOfMemory, res)
	r.must(r.MemcpyDtoD(r.th, p[0], p[1], size))
	r.must(r.MemsetD32(r.th, p[0], 0, size/4))
	b, host := r.pinned("...")
	r.must(r.MemcpyDtoHAsync(r.th, host, p[0]+size/2, 3, 0))
	r.must(r.CtxSynchronize(r.th))
	if string(b) != "\x00\x00\x00" {
		t.Errorf("it has %q", b)
	}
	if got := r.read(p[1]+size-3, 3); got != "\x00\x00\x00" {
		t.Errorf("it has %q", got)
	}
	for _, b := range r.space.All() {
		if b.kind == deviceBlock && !b.mem.Untouched() {
			t.Errorf("%d bytes were made for nothing", b.size)
		}
	}
	for _, p := range p {
		r.must(r.MemFree(r.th, p))
	}
	if free, _, _ := r.MemGetInfo(r.th); free != mostFree {
		t.Errorf("%d bytes are still in use", mostFree-free)
	}
}

// TestAsyncMemory allocates and frees in the order of a stream.
func TestAsyncMemory(t *testing.T) {
	r := newLab(t, VirtualTime())
	s := r.newStream()
	p, res := r.MemAllocAsync(r.th, 4, s)
	r.must(res)
	_, host := r.pinned("data")
	b, back := r.pinned("....")
	r.must(r.MemcpyHtoDAsync(r.th, p, host, 4, s))
	r.must(r.MemcpyDtoHAsync(r.th, back, p, 4, s))
	r.must(r.MemFreeAsync(r.th, p, s))
	r.want("a copy behind", driver.ResultInvalidValue, r.MemcpyDtoHAsync(r.th, back, p, 4, s))
	r.want("freed again", driver.ResultInvalidValue, r.MemFree(r.th, p))
	if n := r.Census()["device memory"]; n != 1 {
		t.Errorf("%d are there, and time has not moved", n)
	}
	r.Advance(time.Second)
	if string(b) != "data" {
		t.Errorf("what was copied is %q", b)
	}
	if n := r.Census()["device memory"]; n != 0 {
		t.Errorf("%d are left", n)
	}
	p, res = r.MemAllocAsync(r.th, 4, s)
	r.must(res)
	r.must(r.MemFree(r.th, p))
}

// TestMemoryOfContext destroys contexts that have memory.
func TestMemoryOfContext(t *testing.T) {
	r := newLab(t)
	th := new(driver.Thread)
	c, res := r.CtxCreate(th, nil, 0, 0)
	r.must(res)
	p, res := r.MemAlloc(th, 1000)
	r.must(res)
	host, res := r.MemHostAlloc(th, 1000, 0)
	r.must(res)
	kept := r.alloc("kept")
	r.must(r.CtxDestroy(th, c))
	r.want("free", driver.ResultInvalidValue, r.MemFree(r.th, p))
	r.want("free host", driver.ResultInvalidValue, r.MemFreeHost(r.th, host))
	if free, _, _ := r.MemGetInfo(r.th); free != mostFree-alignment {
		t.Errorf("%d bytes are in use", mostFree-free)
	}
	if got := r.read(kept, 4); got != "kept" {
		t.Errorf("another context's memory is %q", got)
	}
}

// TestMemoryInCapture makes calls with memory during a capture.
func TestMemoryInCapture(t *testing.T) {
	const unsupported, invalidated = driver.ResultStreamCaptureUnsupported, driver.ResultStreamCaptureInvalidated
	b := make([]byte, 1)
	now := []string{"HtoD", "DtoH", "DtoD", "memset"} // a capture of a non-blocking stream allows them, as on an H200
	for name, call := range map[string]func(r *lab, th *driver.Thread, p driver.DevicePtr, host driver.HostPtr) driver.Result{
		"alloc": func(r *lab, th *driver.Thread, _ driver.DevicePtr, _ driver.HostPtr) driver.Result {
			p, res := r.MemAlloc(th, 1)
			r.MemFree(th, p)
			return res
		},
		"free": func(r *lab, th *driver.Thread, _ driver.DevicePtr, _ driver.HostPtr) driver.Result {
			return r.MemFree(th, 0)
		},
		"alloc host": func(r *lab, th *driver.Thread, _ driver.DevicePtr, _ driver.HostPtr) driver.Result {
			p, res := r.MemHostAlloc(th, 1, 0)
			r.MemFreeHost(th, p)
			return res
		},
		"free host": func(r *lab, th *driver.Thread, _ driver.DevicePtr, p driver.HostPtr) driver.Result {
			res := r.MemFreeHost(th, p)
			return res
		},
		"HtoD": func(r *lab, th *driver.Thread, p driver.DevicePtr, _ driver.HostPtr) driver.Result {
			return r.MemcpyHtoD(th, p, b)
		},
		"DtoH": func(r *lab, th *driver.Thread, p driver.DevicePtr, _ driver.HostPtr) driver.Result {
			return r.MemcpyDtoH(th, b, p)
		},
		"DtoD": func(r *lab, th *driver.Thread, p driver.DevicePtr, _ driver.HostPtr) driver.Result {
			return r.MemcpyDtoD(th, p, p, 1)
		},
		"memset": func(r *lab, th *driver.Thread, p driver.DevicePtr, _ driver.HostPtr) driver.Result {
			return r.MemsetD8(th, p, 1, 1)
		},
	} {
		for _, tt := range []struct {
			how       string
			mode      int32 // the mode of the capture
			other     int32 // the mode of the calling thread
			elsewhere bool  // the call is on another thread
			call, end driver.Result
		}{
			{"global", driver.CU_STREAM_CAPTURE_MODE_GLOBAL, driver.CU_STREAM_CAPTURE_MODE_GLOBAL, false, unsupported, invalidated},
			{"global from elsewhere", driver.CU_STREAM_CAPTURE_MODE_GLOBAL, driver.CU_STREAM_CAPTURE_MODE_GLOBAL, true, unsupported, invalidated},
			{"global, relaxed elsewhere", driver.CU_STREAM_CAPTURE_MODE_GLOBAL, driver.CU_STREAM_CAPTURE_MODE_RELAXED, true, ok, ok},
			{"thread", driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, driver.CU_STREAM_CAPTURE_MODE_GLOBAL, false, unsupported, invalidated},
			{"thread, elsewhere", driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, driver.CU_STREAM_CAPTURE_MODE_GLOBAL, true, ok, ok},
			{"relaxed", driver.CU_STREAM_CAPTURE_MODE_RELAXED, driver.CU_STREAM_CAPTURE_MODE_GLOBAL, false, ok, ok},
		} {
			t.Run(name+"/"+tt.how, func(t *testing.T) {
				r := newLab(t)
				s, p := r.newStream(), r.alloc("x")
				_, host := r.pinned("x")
				th := r.th
				if tt.elsewhere {
					th = r.otherThread()
				}
				r.must(r.StreamBeginCapture(r.th, s, tt.mode))
				_, res := r.ThreadExchangeStreamCaptureMode(th, tt.other)
				r.must(res)
				if slices.Contains(now, name) {
					tt.call, tt.end = ok, ok
				}
				r.want(name, tt.call, call(r, th, p, host))
				g, res := r.StreamEndCapture(r.th, s)
				r.want("end", tt.end, res)
				if g != 0 {
					r.must(r.GraphDestroy(r.th, g))
				}
			})
		}
	}
}

// TestGraphOfCopies captures copies, and runs them twice. Before the second run memory is freed.
func TestGraphOfCopies(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	host, address := r.pinned("one ")
	p := r.alloc("....")
	back, backAddress := r.pinned("........")
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_GLOBAL))
	r.must(r.MemcpyHtoDAsync(r.th, p, address, 4, s))
	r.must(r.MemcpyDtoHAsync(r.th, backAddress, p, 4, s))
	r.must(r.MemsetD8Async(r.th, driver.DevicePtr(backAddress)+3, '!', 1, s))
	r.must(r.StreamWriteValue32(r.th, s, driver.DevicePtr(backAddress)+4, 0x676f6f64, 0))
	g, res := r.StreamEndCapture(r.th, s)
	r.must(res)
	nodes := make([]driver.GraphNode, 4)
	n, res := r.GraphGetNodes(r.th, g, nodes)
	r.must(res)
	var types []graph.Type
	for _, n := range nodes[:n] {
		k, res := r.GraphNodeGetType(r.th, n)
		r.must(res)
		types = append(types, graph.Type(k))
	}
	want := []graph.Type{graph.MemcpyNode, graph.MemcpyNode, graph.MemsetNode, graph.BatchMemOpNode}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if string(back) != "........" {
		t.Errorf("before the launch it has %q", back)
	}
	x, res := r.GraphInstantiateWithFlags(r.th, g, 0)
	r.must(res)
	for _, text := range []string{"1st ", "2nd "} {
		copy(host, text)
		r.must(r.GraphLaunch(r.th, x, s))
		r.must(r.StreamSynchronize(r.th, s))
		if want := text[:3] + "!doog"; string(back) != want {
			t.Errorf("it has %q, want %q", back, want)
		}
	}
	r.must(r.MemFree(r.th, p))
	r.must(r.GraphLaunch(r.th, x, s))
	r.want("with memory that was freed", driver.ResultIllegalAddress, r.StreamSynchronize(r.th, s))
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
}

// TestFreeAfterPoison frees objects after a sticky error. The calls return the error, and free.
func TestFreeAfterPoison(t *testing.T) {
	const poison = driver.ResultLaunchFailed
	r := newLab(t)
	own := mem.NewBytes(8)
	p, address := r.alloc("device"), driver.HostPtr(sliceAddress(own))
	_, host := r.pinned("host")
	r.must(r.MemHostRegister(r.th, address, 8, 0))
	m, res := r.ModuleLoadData(r.th, []byte(header+".global .u32 x;"))
	r.must(res)
	r.Poison(int(poison))
	r.want("NULL", poison, r.MemFree(r.th, 0))
	for range 2 {
		r.want("cuMemFree", poison, r.MemFree(r.th, p))
		r.want("cuMemFreeHost", poison, r.MemFreeHost(r.th, host))
		r.want("cuMemHostUnregister", poison, r.MemHostUnregister(r.th, address))
	}
	r.want("cuModuleUnload", poison, r.ModuleUnload(r.th, m))
	if n := len(r.space.All()); n != 0 {
		t.Errorf("%d blocks are left", n)
	}
}

// TestForeignMemory copies from and to memory that is not mapped.
func TestForeignMemory(t *testing.T) {
	const nowhere = driver.HostPtr(1 << 15) // no system maps this address
	t.Run("pageable", func(t *testing.T) {
		r := newLab(t)
		r.want("a copy to it", driver.ResultIllegalAddress, r.MemcpyDtoHAsync(r.th, nowhere, r.alloc("abc"), 3, r.newStream()))
	})
	t.Run("awaited in a graph", func(t *testing.T) {
		r := newLab(t)
		s, p := r.newStream(), r.alloc("\x00\x00\x00\x00")
		r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_GLOBAL))
		r.must(r.StreamWaitValue32(r.th, s, p, 1, 0))
		g, res := r.StreamEndCapture(r.th, s)
		r.must(res)
		x, res := r.GraphInstantiateWithFlags(r.th, g, 0)
		r.must(res)
		r.must(r.MemFree(r.th, p))
		r.must(r.GraphLaunch(r.th, x, s))
		r.want("the wait", driver.ResultIllegalAddress, r.StreamSynchronize(r.th, s))
		r.must(r.GraphExecDestroy(r.th, x))
		r.must(r.GraphDestroy(r.th, g))
	})
}

// TestPageableToHost copies to memory that is not registered. The call waits.
func TestPageableToHost(t *testing.T) {
	r := newLab(t, VirtualTime())
	s, p, own := r.newStream(), r.alloc("abc"), make([]byte, 3)
	done := make(chan driver.Result)
	th := r.otherThread()
	go func() { done <- r.MemcpyDtoHAsync(th, driver.HostPtr(sliceAddress(own)), p, 3, s) }()
	r.blocked(1)
	r.Advance(time.Second)
	r.want("copy", ok, <-done)
	if string(own) != "abc" {
		t.Errorf("it copied %q", own)
	}
}

// TestTwoDevices copies between devices.
func TestTwoDevices(t *testing.T) {
	r := newLab(t, Devices(2))
	th := new(driver.Thread)
	c := r.primary(1)
	r.must(r.CtxSetCurrent(th, c))
	p, res := r.MemAlloc(th, 3)
	r.must(res)
	q, s := r.alloc("abc"), r.newStream()
	r.must(r.MemcpyPeerAsync(r.th, p, c, q, r.ctx, 3, s))
	r.must(r.StreamSynchronize(r.th, s))
	b := make([]byte, 3)
	r.must(r.MemcpyDtoH(th, b, p))
	if string(b) != "abc" {
		t.Errorf("it copied %q", b)
	}
	if free, _, _ := r.MemGetInfo(th); free != mostFree-alignment {
		t.Errorf("on the second device %d bytes are in use", mostFree-free)
	}
	r.must(r.MemFree(r.th, p)) // from the first device's context
	r.must(r.DevicePrimaryCtxRelease(nil, 1))
}

// TestLastAddresses allocates memory when nearly all addresses of the devices were used.
func TestLastAddresses(t *testing.T) {
	r := newLab(t)
	r.alloc("x")
	r.space.next = vm.SharedWindow - 64<<20 - alignment
	const size = 128 << 20
	none := func(what string, _ any, res driver.Result) {
		t.Helper()
		r.want(what, driver.ResultOutOfMemory, res)
	}
	p, res := r.MemAlloc(r.th, size)
	none("cuMemAlloc", p, res)
	p, res = r.MemAllocAsync(r.th, size, 0)
	none("cuMemAllocAsync", p, res)
	p, res = r.MemAddressReserve(r.th, size, 0, 0, 0)
	none("cuMemAddressReserve", p, res)
	p, res = r.MemAddressReserve(r.th, granularity, 1<<40, 0, 0)
	none("an aligned one", p, res)
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	n, _, res := r.GraphAddMemAllocNode(r.th, g, nil, allocParams(size))
	none("cuGraphAddMemAllocNode", n, res)
	r.must(r.GraphDestroy(r.th, g))
	p, res = r.MemAlloc(r.th, 1<<20)
	r.must(res)
	if uint64(p)+1<<20 > vm.SharedWindow {
		t.Errorf("memory at %#x", p)
	}
	r.must(r.MemFree(r.th, p))
}

// TestUnregisterBesideAlloc ends a registration that does not exist, while another thread allocates memory. The race
// detector watches.
func TestUnregisterBesideAlloc(t *testing.T) {
	r := newLab(t)
	page := mem.NewBytes(64)
	var done sync.WaitGroup
	done.Go(func() {
		for range 1000 {
			r.alloc("0123")
		}
	})
	for range 1000 {
		res := r.MemHostUnregister(r.th, driver.HostPtr(sliceAddress(page)))
		if res != driver.ResultHostMemoryNotRegistered {
			t.Errorf("the result is %v", res)
		}
	}
	done.Wait()
}
