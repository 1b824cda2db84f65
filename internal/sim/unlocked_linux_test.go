package sim

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"sync"
	"testing"

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
