package sim

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

const peerAccess = uint32(driver.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)

// foreignMem makes a handle look like one of another process.
func foreignMem(t testing.TB, b driver.IPCMemHandle) driver.IPCMemHandle {
	t.Helper()
	var h ipcMemHandle
	if !h.decode(b) {
		t.Fatalf("this is no handle: %x", b)
	}
	h.namespace++
	return h.encode()
}

// exportMem allocates memory with a content, and returns its handle for another driver.
func (r *lab) exportMem(content []byte) (driver.DevicePtr, driver.IPCMemHandle) {
	r.t.Helper()
	p := r.alloc(string(content))
	h, res := r.IpcGetMemHandle(r.th, p)
	r.must(res)
	return p, foreignMem(r.t, h)
}

func (r *lab) openMem(h driver.IPCMemHandle) driver.DevicePtr {
	r.t.Helper()
	p, res := r.IpcOpenMemHandle(r.th, h, peerAccess)
	r.must(res)
	return p
}

func (r *lab) content(p driver.DevicePtr, n int) []byte {
	r.t.Helper()
	b := make([]byte, n)
	r.must(r.MemcpyDtoH(r.th, b, p))
	return b
}

func openFiles(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}

// TestIPCMem shares memory between two drivers, with the results of an H200.
func TestIPCMem(t *testing.T) {
	before := openFiles(t)
	r, other := newLab(t), newLab(t)
	p, h := r.exportMem([]byte{1, 2, 3, 4, 5})
	again, res := r.IpcGetMemHandle(r.th, p+3) // the handle is of the whole memory
	r.must(res)
	if foreignMem(t, again) != h {
		t.Error("the second handle differs")
	}
	q := other.openMem(h)
	base, size, res := other.MemGetAddressRange(other.th, q+2)
	other.must(res)
	if base != q || size != 5 {
		t.Errorf("the memory has %d bytes at %#x", size, base-q)
	}
	if got := other.content(q, 5); !slices.Equal(got, []byte{1, 2, 3, 4, 5}) {
		t.Errorf("opened: %d", got)
	}
	other.must(other.MemsetD8(other.th, q+1, 9, 2))
	if got := r.content(p, 5); !slices.Equal(got, []byte{1, 9, 9, 4, 5}) {
		t.Errorf("after a memset of the other process: %d", got)
	}

	if twice := other.openMem(h); twice != q {
		t.Errorf("opened again: %#x, not %#x", twice, q)
	}
	c, res := other.CtxCreate(other.th, nil, 0, 0)
	other.must(res)
	_, res = other.IpcOpenMemHandle(other.th, h, peerAccess)
	other.want("open in another context", driver.ResultInvalidHandle, res)
	other.must(other.CtxDestroy(other.th, c))
	other.must(other.CtxSetCurrent(other.th, other.ctx))
	_, res = other.IpcGetMemHandle(other.th, q)
	other.want("a handle of opened memory", driver.ResultInvalidValue, res)
	other.want("cuMemFree of opened memory", driver.ResultInvalidValue, other.MemFree(other.th, q))
	other.want("close within", driver.ResultInvalidValue, other.IpcCloseMemHandle(other.th, q+1))
	other.must(other.IpcCloseMemHandle(other.th, q))
	other.content(q, 5) // it is still open once

	r.must(r.MemFree(r.th, p))
	if got := other.content(q, 5); !slices.Equal(got, []byte{1, 9, 9, 4, 5}) {
		t.Errorf("after the free in its process: %d", got)
	}
	other.must(other.IpcCloseMemHandle(other.th, q))
	other.want("close again", driver.ResultInvalidValue, other.IpcCloseMemHandle(other.th, q))
	_, res = other.IpcOpenMemHandle(other.th, h, peerAccess)
	other.want("open after the free", driver.ResultInvalidValue, res)
	if n := openFiles(t); n != before {
		t.Errorf("%d files are open, and %d were before", n, before)
	}
}

// TestIPCMemRefused makes calls that a GPU refuses.
func TestIPCMemRefused(t *testing.T) {
	r := newLab(t)
	p, h := r.exportMem([]byte{1})
	own, res := r.IpcGetMemHandle(r.th, p)
	r.must(res)
	open := func(h driver.IPCMemHandle, flags uint32) driver.Result {
		_, res := r.IpcOpenMemHandle(r.th, h, flags)
		return res
	}
	get := func(p driver.DevicePtr) driver.Result {
		_, res := r.IpcGetMemHandle(r.th, p)
		return res
	}
	pooled, res := r.MemAllocAsync(r.th, 64, driver.CU_STREAM_LEGACY)
	r.must(res)
	for what, got := range map[string]driver.Result{
		"no flags":       open(h, 0),
		"other flags":    open(h, 2),
		"zero":           open(driver.IPCMemHandle{}, peerAccess),
		"changed":        open(func() driver.IPCMemHandle { b := h; b[20]++; return b }(), peerAccess),
		"no memory":      get(0),
		"memory of pool": get(pooled),
		"own memory":     r.IpcCloseMemHandle(r.th, p),
	} {
		r.want(what, driver.ResultInvalidValue, got)
	}
	r.want("the same process", driver.ResultInvalidContext, open(own, peerAccess))
	r.must(r.MemFree(r.th, pooled))
	r.must(r.MemFree(r.th, p))
}

// TestIPCMemCloseWaits closes memory that work uses.
func TestIPCMemCloseWaits(t *testing.T) {
	r, other := newLab(t), newLab(t)
	p, h := r.exportMem([]byte{1})
	q := other.openMem(h)
	s, res := other.StreamCreate(other.th, nonBlocking)
	other.must(res)
	other.Hold(uintptr(s))
	other.must(other.MemsetD8Async(other.th, q, 7, 1, s))
	closed := make(chan driver.Result)
	go func() {
		th := other.otherThread()
		closed <- other.IpcCloseMemHandle(th, q)
	}()
	for waiting := 0; waiting == 0; {
		other.mu.Lock()
		waiting = len(other.waits)
		other.mu.Unlock()
	}
	other.Release(uintptr(s))
	other.must(<-closed)
	if got := r.content(p, 1); got[0] != 7 {
		t.Errorf("the memory has %d", got)
	}
	other.must(other.StreamDestroy(other.th, s))
	r.must(r.MemFree(r.th, p))
}

// TestIPCMemInUse gets handles while a kernel runs: at once for memory that nothing has used, and after the
// kernel for memory that it writes.
func TestIPCMemInUse(t *testing.T) {
	r, other := newLab(t), newLab(t)
	m := r.load(header + `
.visible .entry spins(.param .u64 to, .param .u64 flag) {
	.reg .b64 o, f; .reg .b32 a; .reg .pred p;
	ld.param.u64 o, [to]; ld.param.u64 f, [flag]; st.global.u8 [o], 7;
again: ld.volatile.global.u32 a, [f]; setp.eq.u32 p, a, 0; @p bra again;
	st.global.u8 [o+1], 9; ret; }`)
	k, res := r.ModuleGetFunction(r.th, m, "spins")
	r.must(res)
	p := r.alloc("\x00\x00")
	flag, at := r.pinned("\x00\x00\x00\x00")
	r.must(r.launchOn(driver.CU_STREAM_LEGACY, k, 1, params(p, uint64(at))))
	unused, res := r.MemAlloc(r.th, 64)
	r.must(res)
	_, res = r.IpcGetMemHandle(r.th, unused)
	r.must(res)
	handle := make(chan driver.IPCMemHandle)
	th := r.otherThread()
	go func() {
		h, res := r.IpcGetMemHandle(th, p)
		if res != ok {
			t.Error(res)
		}
		handle <- h
	}()
	select {
	case <-handle:
		t.Fatal("the handle is there while the kernel writes the memory")
	case <-time.After(10 * time.Millisecond):
	}
	store32(flag, 1)
	q := other.openMem(foreignMem(t, <-handle))
	if got := other.content(q, 2); !slices.Equal(got, []byte{7, 9}) {
		t.Errorf("got %d", got)
	}
	other.must(other.IpcCloseMemHandle(other.th, q))
	r.must(r.MemFree(r.th, unused))
}

// TestIPCMemOfContext ends contexts with shared memory.
func TestIPCMemOfContext(t *testing.T) {
	before := openFiles(t)
	r, other := newLab(t), newLab(t)
	c, res := r.CtxCreate(r.th, nil, 0, 0)
	r.must(res)
	there, res := other.CtxCreate(other.th, nil, 0, 0)
	other.must(res)
	_, h := r.exportMem([]byte{1})
	q := other.openMem(h)
	r.must(r.CtxDestroy(r.th, c))
	other.content(q, 1)
	other.must(other.CtxDestroy(other.th, there))
	if n := openFiles(t); n != before {
		t.Errorf("%d files are open, and %d were before", n, before)
	}
}

// FuzzIPCMemHandle opens arbitrary handles.
func FuzzIPCMemHandle(f *testing.F) {
	h := ipcMemHandle{pid: uint32(os.Getpid()), fd: 1, size: 64}
	b := h.encode()
	f.Add(b[:], false)
	f.Add(b[:], true)
	d := New()
	th := new(driver.Thread)
	d.Init(nil, 0)
	c, _ := d.DevicePrimaryCtxRetain(nil, 0)
	d.CtxSetCurrent(th, c)
	f.Fuzz(func(t *testing.T, b []byte, sum bool) {
		var h driver.IPCMemHandle
		copy(h[:], b)
		if sum {
			of := ipcMemHandle{
				pid: uint32(os.Getpid()), fd: int32(int8(h[24])), namespace: uint64(h[16]), size: uint64(h[32]),
			}
			h = of.encode()
		}
		switch _, res := d.IpcOpenMemHandle(th, h, peerAccess); res {
		case driver.ResultInvalidValue, driver.ResultInvalidContext:
		default:
			t.Errorf("%x: %v", h, res)
		}
	})
}
