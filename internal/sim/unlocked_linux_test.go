package sim

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

var errFull = errors.New("the file system is full")

// allocating makes a call, and calls f when the file system would allocate a part of a file for it.
// No part is allocated, and what f returns is the result, also of another attempt. It fails the
// test if the driver is locked then.
func (r *lab) allocating(f func() error, call func()) {
	r.t.Helper()
	before, asked := r.allocateFile, false
	var err error
	defer func() { r.allocateFile = before }()
	r.allocateFile = func(_ *os.File, _, n uint64) error {
		switch {
		case n == 0 || asked:
			return err
		case !r.mu.TryLock():
			r.t.Error("the driver is locked while the file system allocates memory")
			return nil
		}
		r.mu.Unlock()
		asked = true
		err = f()
		return err
	}
	call()
	if !asked {
		r.t.Error("the file system was not asked for memory while the driver was unlocked")
	}
}

// used returns how much memory of the device is in use.
func (r *lab) used() uint64 {
	r.t.Helper()
	free, total, res := r.MemGetInfo(r.th)
	r.must(res)
	return total - free
}

// TestCreateUnlocked makes calls while another one allocates physical memory.
func TestCreateUnlocked(t *testing.T) {
	const large = mostFree/2/granularity*granularity + granularity // two are too large
	r := newLab(t, BackedMemory(deviceMemory))
	before := r.used()
	create := func() (driver.MemGenericAllocationHandle, driver.Result) {
		return r.MemCreate(r.th, large, deviceProp(driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), 0)
	}
	r.allocating(func() error {
		if n := r.used() - before; n != large {
			t.Errorf("%d bytes are in use meanwhile, not %d", n, uint64(large))
		}
		_, res := create()
		r.want("more physical memory than there is", driver.ResultOutOfMemory, res)
		_, res = r.MemAlloc(r.th, large)
		r.want("more memory than there is", driver.ResultOutOfMemory, res)
		return nil
	}, func() {
		h, res := create()
		r.must(res)
		r.must(r.MemRelease(r.th, h))
	})
	files := openFiles(t)
	r.allocating(func() error { return errFull }, func() {
		_, res := create()
		r.want("a full file system", driver.ResultOutOfMemory, res)
	})
	if n := r.used() - before; n != 0 || openFiles(t) != files {
		t.Errorf("%d bytes and %d files are left", n, openFiles(t)-files)
	}
}

// TestIPCMemUnlocked makes calls while another one allocates the file of memory.
func TestIPCMemUnlocked(t *testing.T) {
	r := newLab(t)
	th := r.otherThread()
	files := openFiles(t)
	for name, c := range map[string]struct {
		meanwhile func(p driver.DevicePtr, own driver.Context) driver.Result
		want      driver.Result
	}{
		"a write": {func(p driver.DevicePtr, _ driver.Context) driver.Result {
			return r.MemcpyHtoD(th, p, []byte{7})
		}, ok},
		"another handle": {func(p driver.DevicePtr, _ driver.Context) driver.Result {
			if _, res := r.IpcGetMemHandle(th, p); res != ok {
				return res
			}
			return r.MemcpyHtoD(th, p, []byte{7})
		}, ok},
		"a free": {func(p driver.DevicePtr, _ driver.Context) driver.Result {
			return r.MemFree(th, p)
		}, driver.ResultInvalidValue},
		"the end of the context": {func(_ driver.DevicePtr, own driver.Context) driver.Result {
			return r.CtxDestroy(th, own)
		}, driver.ResultContextIsDestroyed},
	} {
		p, res := r.MemAlloc(r.th, 64)
		r.must(res)
		own, res := r.CtxCreate(r.th, nil, 0, 0)
		r.must(res)
		r.allocating(func() error { r.must(c.meanwhile(p, own)); return nil }, func() {
			h, res := r.IpcGetMemHandle(r.th, p)
			r.want(name, c.want, res)
			if again, _ := r.IpcGetMemHandle(th, p); res == ok && again != h {
				t.Errorf("%s: the handle has changed", name)
			}
		})
		if c.want == ok && r.content(p, 1)[0] != 7 {
			t.Errorf("%s: the content is lost", name)
		}
		if c.want != driver.ResultContextIsDestroyed {
			r.must(r.CtxDestroy(r.th, own))
		}
		r.must(r.CtxSetCurrent(r.th, r.ctx))
		r.MemFree(r.th, p)
	}
	if n := openFiles(t); n != files {
		t.Errorf("%d files are open, and %d were before", n, files)
	}
}

// TestIPCEventUnlocked makes calls while another one creates a file for an event of several processes.
func TestIPCEventUnlocked(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(r *lab, th *driver.Thread, e driver.Event) driver.Result
		want      driver.Result
	}{
		"another handle": {func(r *lab, th *driver.Thread, e driver.Event) driver.Result {
			r.newIPCFile = newIPCFile
			_, res := r.IpcGetEventHandle(th, e)
			return res
		}, ok},
		"the end of the event": {func(r *lab, th *driver.Thread, e driver.Event) driver.Result {
			return r.EventDestroy(th, e)
		}, driver.ResultInvalidHandle},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			th, files := r.otherThread(), openFiles(t)
			e, res := r.EventCreate(r.th, driver.CU_EVENT_INTERPROCESS|driver.CU_EVENT_DISABLE_TIMING)
			r.must(res)
			r.newIPCFile = func(named bool) (*ipcFile, error) {
				if !r.mu.TryLock() {
					t.Fatal("the driver is locked while the file is created")
				}
				r.mu.Unlock()
				f, err := newIPCFile(named)
				r.must(c.meanwhile(r, th, e))
				return f, err
			}
			h, res := r.IpcGetEventHandle(r.th, e)
			r.want(name, c.want, res)
			if res == ok {
				if again, res := r.IpcGetEventHandle(r.th, e); res != ok || again != h {
					t.Errorf("the handle has changed, %v", res)
				}
				r.must(r.EventDestroy(r.th, e))
			}
			if n := openFiles(t); n != files {
				t.Errorf("%d files are open, and %d were before", n, files)
			}
		})
	}
}

// TestIPCMemCopyUnlocked makes calls while another one copies the content of memory to a file. Work that writes the
// memory meanwhile comes afterwards.
func TestIPCMemCopyUnlocked(t *testing.T) {
	const n = 4<<20 + 100
	for name, meanwhile := range map[string]func(r *lab, th *driver.Thread, p driver.DevicePtr) driver.Result{
		"a small set": func(r *lab, th *driver.Thread, p driver.DevicePtr) driver.Result {
			return r.MemsetD8Async(th, p, 'y', 10, driver.CU_STREAM_LEGACY)
		},
		"a large set": func(r *lab, th *driver.Thread, p driver.DevicePtr) driver.Result {
			return r.MemsetD8Async(th, p, 'y', n, driver.CU_STREAM_LEGACY)
		},
		"a kernel": func(r *lab, th *driver.Thread, p driver.DevicePtr) driver.Result {
			return r.launchOn(0, r.writer(), 1, params(p, uint32(10), uint32('y')))
		},
		"a free": func(r *lab, th *driver.Thread, p driver.DevicePtr) driver.Result { return r.MemFree(th, p) },
		"a sticky error": func(r *lab, th *driver.Thread, p driver.DevicePtr) driver.Result {
			r.Poison(int(driver.ResultLaunchFailed))
			return ok
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			th := r.otherThread()
			p, res := r.MemAlloc(r.th, n)
			r.must(res)
			r.must(r.MemsetD8(r.th, p, 'x', n))
			small, other := r.alloc("small"), r.newStream()
			begun, goOn := r.slowMoves()
			shared := make(chan driver.Result)
			go func() {
				_, res := r.IpcGetMemHandle(r.th, p)
				shared <- res
			}()
			begun()
			r.want("the query of another stream", ok, r.StreamQuery(th, other))
			r.must(meanwhile(r, th, p))
			if name != "a sticky error" {
				r.must(r.MemsetD8Async(th, small, 'S', 1, other))
			}
			goOn()
			res = <-shared
			switch name {
			case "a free":
				r.want("a handle of memory that is freed", invalidValue, res)
			case "a sticky error":
				r.want("a handle after a sticky error", driver.ResultLaunchFailed, res)
			default:
				r.must(res)
				if got, want := r.read(p, n)[:11], "yyyyyyyyyyx"; got != want && name != "a large set" {
					t.Errorf("the memory has %q, want %q", got, want)
				}
				if got := r.read(p+n-1, 1); (got == "y") != (name == "a large set") {
					t.Errorf("the last byte is %q", got)
				}
			}
			if name != "a sticky error" {
				r.must(r.StreamSynchronize(th, other))
				if got := r.read(small, 5); got != "Small" {
					t.Errorf("the other memory has %q", got)
				}
			}
			r.MemFree(r.th, p)
		})
	}
}

// TestIPCMemBesideWork asks for a handle of memory beside work that does not end by itself. Other calls go on
// meanwhile. The call waits for a kernel only.
func TestIPCMemBesideWork(t *testing.T) {
	const n = 1 << 20
	for _, c := range []struct {
		name  string
		begin func(r *lab, s driver.Stream, word driver.HostPtr) (end func())
		waits bool
	}{
		{name: "a kernel", waits: true, begin: func(r *lab, s driver.Stream, word driver.HostPtr) func() {
			f, res := r.ModuleGetFunction(r.th, r.load(`.version 8.0
				.target sm_90
				.address_size 64
				.visible .entry waits(.param .u64 p) { .reg .b64 a; .reg .b32 n; .reg .pred q; ld.param.u64 a, [p];
				W: ld.volatile.global.u32 n, [a]; setp.eq.u32 q, n, 0; @q bra W; ret; }`), "waits")
			r.must(cmp.Or(res, r.launchOn(s, f, 1, params(uint64(word)))))
			return func() { r.must(r.MemsetD32(r.otherThread(), driver.DevicePtr(word), 1, 1)) }
		}},
		{name: "a host function", begin: func(r *lab, s driver.Stream, _ driver.HostPtr) func() {
			wait := make(chan struct{})
			r.must(r.LaunchHostFunc(r.th, s, driver.Callback{Go: func() { <-wait }}))
			return func() { close(wait) }
		}},
		{name: "a stream that waits for a value", begin: func(r *lab, s driver.Stream, word driver.HostPtr) func() {
			r.must(r.StreamWaitValue32(r.th, s, driver.DevicePtr(word), 1, driver.CU_STREAM_WAIT_VALUE_EQ))
			return func() { r.must(r.MemsetD32(r.otherThread(), driver.DevicePtr(word), 1, 1)) }
		}},
		{name: "a held stream", begin: func(r *lab, s driver.Stream, _ driver.HostPtr) func() {
			r.Hold(uintptr(s))
			r.spin(s, time.Microsecond)
			return func() { r.Release(uintptr(s)) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newLab(t)
			p, res := r.MemAlloc(r.th, n)
			r.must(cmp.Or(res, r.MemsetD8(r.th, p, 'x', n), r.CtxSynchronize(r.th)))
			s, other, th, small := r.newStream(), r.newStream(), r.otherThread(), r.alloc("small")
			_, word := r.pinned("\x00\x00\x00\x00")
			end := c.begin(r, s, word)
			shared, in := make(chan driver.Result), r.otherThread()
			go func() {
				_, res := r.IpcGetMemHandle(in, p)
				shared <- res
			}()
			if !c.waits {
				r.must(<-shared)
			}
			r.must(r.MemsetD8Async(th, small, 'S', 1, other))
			r.must(r.StreamSynchronize(th, other))
			r.want("the stream of the work", driver.ResultNotReady, r.StreamQuery(th, s))
			end()
			if c.waits {
				r.must(<-shared)
			}
			r.must(r.StreamSynchronize(r.th, s))
			if got := r.read(p, 1) + r.read(p+n-1, 1) + r.read(small, 5); got != "xxSmall" {
				t.Errorf("the memory has %q", got)
			}
			r.must(r.MemFree(r.th, p))
		})
	}
}

// TestPoolUnlocked makes calls while another one allocates a part of a pool's file.
func TestPoolUnlocked(t *testing.T) {
	r := newLab(t)
	th := r.otherThread()
	before, files := r.used(), openFiles(t)
	for name, c := range map[string]struct {
		meanwhile func(h driver.MemoryPool, own driver.Context) driver.Result
		err       error
		want      driver.Result
	}{
		"other memory of the pool": {func(h driver.MemoryPool, _ driver.Context) driver.Result {
			p, res := r.MemAllocFromPoolAsync(th, 64, h, driver.CU_STREAM_LEGACY)
			if res != ok {
				return res
			}
			return r.MemFree(th, p)
		}, nil, ok},
		"a trim": {func(h driver.MemoryPool, _ driver.Context) driver.Result {
			return r.MemPoolTrimTo(th, h, 0)
		}, nil, ok},
		"a full file system": {func(driver.MemoryPool, driver.Context) driver.Result {
			return ok
		}, errFull, driver.ResultOutOfMemory},
		"the end of the pool": {func(h driver.MemoryPool, _ driver.Context) driver.Result {
			return r.MemPoolDestroy(th, h)
		}, nil, driver.ResultInvalidValue},
		"the end of the context": {func(_ driver.MemoryPool, own driver.Context) driver.Result {
			return r.CtxDestroy(th, own)
		}, nil, driver.ResultContextIsDestroyed},
	} {
		for _, size := range []uint64{chunkUnit, chunkSize} { // in the chunk that the pool has, and in another one
			h := r.sharedPool(0, 0)
			pool, _ := find[memPool](r.Driver, "", poolKind, uintptr(h))
			small, res := r.MemAllocFromPoolAsync(th, chunkUnit-alignment, h, driver.CU_STREAM_LEGACY)
			r.must(res)
			reserved := pool.reserved
			own, res := r.CtxCreate(r.th, nil, 0, 0)
			r.must(res)
			r.allocating(func() error { r.must(c.meanwhile(h, own)); return c.err }, func() {
				p, res := r.MemAllocFromPoolAsync(r.th, size, h, driver.CU_STREAM_LEGACY)
				r.want(name, c.want, res)
				if res == ok {
					r.must(r.MemcpyHtoD(r.th, p, []byte{7}))
					r.must(r.MemFree(r.th, p))
				} else if pool.reserved.now != reserved.now || c.err != nil && pool.reserved != reserved {
					t.Errorf("%s: the pool has reserved %d, and before %d", name, pool.reserved, reserved)
				}
			})
			if c.want != driver.ResultContextIsDestroyed {
				r.must(r.CtxDestroy(r.th, own))
			}
			r.must(r.CtxSetCurrent(r.th, r.ctx))
			r.must(r.MemFree(r.th, small))
			if !pool.destroyed {
				r.must(r.MemPoolDestroy(r.th, h))
			}
			r.must(r.CtxSynchronize(r.th))
			if n := r.used() - before; n != 0 || openFiles(t) != files {
				t.Errorf("%s: %d bytes and %d files are left", name, n, openFiles(t)-files)
			}
		}
	}
}

// TestPoolGrowsForMany allocates memory of a pool in several goroutines. The file system allocates
// parts of the pool's file by writing zeros there, which overwrites what others have written if
// they use the part.
func TestPoolGrowsForMany(t *testing.T) {
	r := newLab(t)
	r.allocateFile = writeZeros
	const n = chunkUnit / 5
	for range 10 {
		h := r.sharedPool(0, 0)
		var wg sync.WaitGroup
		for i := range 4 {
			th, s := r.otherThread(), r.newStream()
			content := bytes.Repeat([]byte{byte(i + 1)}, n)
			wg.Go(func() {
				var list []driver.DevicePtr
				for range 6 {
					p, res := r.MemAllocFromPoolAsync(th, n, h, s)
					if res == ok {
						res = r.MemcpyHtoD(th, p, content)
					}
					if res != ok {
						t.Error(res)
						return
					}
					list = append(list, p)
				}
				for _, p := range list {
					got := make([]byte, n)
					if res := r.MemcpyDtoH(th, got, p); res != ok || !bytes.Equal(got, content) {
						t.Errorf("the content of goroutine %d is lost, %v", i, res)
					}
					r.MemFreeAsync(th, p, s)
				}
			})
		}
		wg.Wait()
		r.must(r.CtxSynchronize(r.th))
		r.must(r.MemPoolDestroy(r.th, h))
	}
}

// TestClosedUnlocked makes calls that close files of memory.
func TestClosedUnlocked(t *testing.T) {
	const shared = driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	create := func(r *lab) driver.MemGenericAllocationHandle {
		h, res := r.MemCreate(r.th, granularity, deviceProp(shared), 0)
		r.must(res)
		return h
	}
	export := func(r *lab) driver.DevicePtr {
		p, res := r.MemAlloc(r.th, 64)
		r.must(res)
		_, res = r.IpcGetMemHandle(r.th, p)
		r.must(res)
		return p
	}
	imported := func(r *lab) driver.ExternalMemory {
		p, fd := r.exportFile()
		m, res := r.importMem(driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, fd, granularity, 0)
		r.must(res)
		r.must(r.MemRelease(r.th, p))
		return m
	}
	for name, c := range map[string]struct {
		prepare func(r *lab) (call func() driver.Result)
		want    int // files that are closed
	}{
		"cuMemRelease": {func(r *lab) func() driver.Result {
			h := create(r)
			return func() driver.Result { return r.MemRelease(r.th, h) }
		}, 1},
		"cuMemUnmap": {func(r *lab) func() driver.Result {
			h, p := create(r), r.addresses(granularity)
			r.must(r.MemMap(r.th, p, granularity, 0, h, 0))
			r.must(r.MemRelease(r.th, h))
			return func() driver.Result { return r.MemUnmap(r.th, p, granularity) }
		}, 1},
		"cuMemFree": {func(r *lab) func() driver.Result {
			p := export(r)
			return func() driver.Result { return r.MemFree(r.th, p) }
		}, 1},
		"cuMemFreeAsync": {func(r *lab) func() driver.Result {
			p := export(r)
			return func() driver.Result {
				return cmp.Or(r.MemFreeAsync(r.th, p, driver.CU_STREAM_LEGACY),
					r.StreamSynchronize(r.th, driver.CU_STREAM_LEGACY), r.StreamQuery(r.th, driver.CU_STREAM_LEGACY))
			}
		}, 1},
		"cuMemPoolDestroy": {func(r *lab) func() driver.Result {
			p := r.sharedPool(0, 0)
			return func() driver.Result { return r.MemPoolDestroy(r.th, p) }
		}, 1},
		"cuDestroyExternalMemory": {func(r *lab) func() driver.Result {
			m := imported(r)
			return func() driver.Result { return r.DestroyExternalMemory(r.th, m) }
		}, 1},
		"cuCtxDestroy": {func(r *lab) func() driver.Result {
			own, res := r.CtxCreate(r.th, nil, 0, 0)
			r.must(res)
			export(r)
			imported(r)
			return func() driver.Result { return r.CtxDestroy(r.th, own) }
		}, 2},
		"cuDevicePrimaryCtxReset": {func(r *lab) func() driver.Result {
			export(r)
			return func() driver.Result { return r.DevicePrimaryCtxReset(nil, 0) }
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			files, closed := openFiles(t), 0
			call := c.prepare(r)
			r.closeFile = func(f *memoryFile) {
				if r.mu.TryLock() {
					closed++
					r.mu.Unlock()
				}
				f.close()
			}
			r.must(call())
			r.closeFile = (*memoryFile).close
			if closed != c.want || openFiles(t) != files {
				t.Errorf("%d files were closed while the driver was unlocked, want %d; %d more are open",
					closed, c.want, openFiles(t)-files)
			}
		})
	}
}

// TestPoolShrinksUnlocked makes calls while a trimmed pool gives parts of its file back. What the pool gets
// meanwhile is no such part. The budget has the memory when the file system has it.
func TestPoolShrinksUnlocked(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(r *lab, h driver.MemoryPool, ended chan<- driver.Result)
		punched   bool
	}{
		"an allocation": {func(r *lab, h driver.MemoryPool, ended chan<- driver.Result) {
			th := r.otherThread()
			go func() { // it waits
				p, res := r.MemAllocFromPoolAsync(th, chunkSize, h, driver.CU_STREAM_LEGACY)
				if res == ok {
					res = cmp.Or(r.MemcpyHtoD(th, p, []byte{7}), r.MemFreeAsync(th, p, driver.CU_STREAM_LEGACY))
				}
				ended <- res
			}()
		}, true},
		"the end of the pool": {func(r *lab, h driver.MemoryPool, ended chan<- driver.Result) {
			ended <- r.MemPoolDestroy(r.otherThread(), h)
		}, true},
		"a file system that keeps all": {func(_ *lab, _ driver.MemoryPool, ended chan<- driver.Result) {
			ended <- ok
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			h := r.sharedPool(0, 0)
			p, res := r.MemAllocFromPoolAsync(r.th, chunkSize, h, driver.CU_STREAM_LEGACY)
			r.must(res)
			r.must(r.MemFreeAsync(r.th, p, driver.CU_STREAM_LEGACY))
			r.must(r.StreamSynchronize(r.th, driver.CU_STREAM_LEGACY))
			calls, ended := 0, make(chan driver.Result, 1)
			r.punchFile = func(f *memoryFile, offset, n uint64) bool {
				if calls++; calls > 1 {
					return c.punched && f.punch(offset, n)
				}
				if !r.mu.TryLock() {
					t.Error("the driver is locked while the file becomes smaller")
					return false
				}
				if r.space.budget.Used() != chunkSize {
					t.Errorf("%d bytes are in use", r.space.budget.Used())
				}
				r.mu.Unlock()
				c.meanwhile(r, h, ended)
				return c.punched && f.punch(offset, n)
			}
			r.must(r.CtxSynchronize(r.th)) // the first one has trimmed the pool
			if calls == 0 {
				t.Fatal("the file has not become smaller")
			}
			r.must(<-ended)
			r.must(r.CtxSynchronize(r.th))
			if n := r.space.budget.Used(); name == "a file system that keeps all" && n != chunkSize {
				t.Errorf("%d bytes are in use, which the file system keeps", n)
			}
			if name != "the end of the pool" {
				r.must(r.MemPoolDestroy(r.th, h))
			}
		})
	}
}
