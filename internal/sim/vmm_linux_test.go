package sim

import (
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// TestDescriptorsAreNotInherited starts programs while memory is exported and imported: they get no
// descriptor of it.
func TestDescriptorsAreNotInherited(t *testing.T) {
	ls, err := osexec.LookPath("ls")
	if err != nil {
		t.Skip(err)
	}
	r := newLab(t)
	h, res := r.MemCreate(r.th, granularity, deviceProp(driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), 0)
	r.must(res)
	var done sync.WaitGroup
	stop := make(chan struct{})
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			fd, res := r.MemExportToShareableHandle(r.th, h, driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
			if r.want("export", ok, res); res != ok {
				return
			}
			f := os.NewFile(uintptr(fd[0]), "exported")
			in, res := r.MemImportFromShareableHandle(r.th, driver.HostPtr(f.Fd()),
				driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
			r.want("import", ok, res)
			r.want("release", ok, r.MemRelease(r.th, in))
			f.Close()
		}
	})
	for begin, i := time.Now(), 0; i < 30 && time.Since(begin) < 3*time.Second; i++ {
		out, err := osexec.Command(ls, "-l", "/proc/self/fd").CombinedOutput()
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(string(out), "(deleted)") { // the file has no name
			t.Errorf("run %d: %s", i, out)
			break
		}
	}
	close(stop)
	done.Wait()
	r.must(r.MemRelease(r.th, h))
}

// TestPhysicalImportedTwice imports memory from a descriptor twice. As an H200 (driver 580) does in another process,
// each import has a handle of its own, with a reference of its own.
func TestPhysicalImportedTwice(t *testing.T) {
	r := newLab(t)
	const typ = driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	h, res := r.MemCreate(r.th, granularity, deviceProp(typ), 0)
	r.must(res)
	fd, res := r.MemExportToShareableHandle(r.th, h, typ, 0)
	r.must(res)
	f := os.NewFile(uintptr(fd[0]), "exported")
	defer f.Close()
	var in [2]driver.MemGenericAllocationHandle
	for i := range in {
		in[i], res = r.MemImportFromShareableHandle(r.th, driver.HostPtr(f.Fd()), typ)
		r.must(res)
	}
	if in[0] == in[1] {
		t.Error("both imports have the same handle")
	}
	r.must(r.MemRelease(r.th, in[0]))
	r.must(r.MemRelease(r.th, in[1]))
	r.want("release once more", invalidValue, r.MemRelease(r.th, in[1]))
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("%d misuses, not 1", n)
	}
	r.must(r.MemRelease(r.th, h))
}

// allocated returns how many bytes of a file the file system has allocated.
func (s *memoryFile) allocated(t *testing.T) uint64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(s.file.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return uint64(st.Blocks) * 512
}

// TestMemoryIsAllocated asks how much of the files of shared memory the file system has allocated.
func TestMemoryIsAllocated(t *testing.T) {
	r := newLab(t)
	h, res := r.MemCreate(r.th, 2*granularity, deviceProp(driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), 0)
	r.must(res)
	m, _ := find[physical](r.Driver, "", physicalKind, uintptr(h))
	if n := m.shared.allocated(t); n < 2*granularity {
		t.Errorf("%d bytes of physical memory", n)
	}
	r.must(r.MemRelease(r.th, h))

	q, res := r.MemAlloc(r.th, granularity)
	r.must(res)
	_, res = r.IpcGetMemHandle(r.th, q)
	r.must(res)
	if n := r.space.At(uint64(q)).shared.file.allocated(t); n < granularity {
		t.Errorf("%d bytes of memory of cuMemAlloc", n)
	}
	r.must(r.MemFree(r.th, q))

	pool, s := r.sharedPool(0, 0), r.newStream()
	p, _ := find[memPool](r.Driver, "", poolKind, uintptr(pool))
	r.must(r.MemPoolSetAttribute(r.th, pool, driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 1<<40))
	has := func(what string, least, most uint64) {
		t.Helper()
		if n := p.file.allocated(t); n < least || n > most+chunkUnit { // a file system may allocate a little more
			t.Errorf("%s: the file system has allocated %d bytes, not %d to %d", what, n, least, most)
		}
	}
	alloc := func(n uint64) driver.DevicePtr {
		t.Helper()
		a, res := r.MemAllocFromPoolAsync(r.th, n, pool, s)
		r.must(res)
		return a
	}
	free := func(a driver.DevicePtr) {
		t.Helper()
		r.must(r.MemFreeAsync(r.th, a, s))
		r.must(r.StreamSynchronize(r.th, s))
	}
	has("a new pool", 0, 0)
	a := alloc(5 << 20)
	has("5 MiB", 5<<20, 6<<20)
	b := alloc(28 << 20)
	has("33 MiB", 33<<20, 34<<20)
	free(a)
	a = alloc(5 << 20)
	has("memory that was freed, and is used again", 33<<20, 34<<20)
	free(b)
	r.must(r.MemPoolTrimTo(r.th, pool, 0))
	has("after a trim", 5<<20, 6<<20)
	b = alloc(28 << 20)
	r.must(r.MemcpyHtoD(r.th, b, []byte{7}))
	has("after a trim, 33 MiB", 33<<20, 34<<20)
	free(a)
	r.must(r.MemPoolSetAttribute(r.th, pool, driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0))
	r.must(r.StreamSynchronize(r.th, s))
	r.must(r.CtxSynchronize(r.th)) // any call gives the parts back
	has("28 MiB", 28<<20, 28<<20)
	if got := r.content(b, 1); got[0] != 7 {
		t.Errorf("the memory that is left has %d", got)
	}
	free(b)
	r.must(r.MemPoolDestroy(r.th, pool))
}

// fullEnv is set in the process that TestFullFileSystem starts.
const fullEnv = "PURECU_TEST_FULL"

// TestFullFileSystem allocates memory that processes share until the file system is full.
func TestFullFileSystem(t *testing.T) {
	if os.Getenv(fullEnv) != "" {
		fullFileSystem(t)
		return
	}
	c := osexec.Command(os.Args[0], "-test.run=^TestFullFileSystem$", "-test.v")
	c.Env = append(os.Environ(), fullEnv+"=1", "TMPDIR=/dev/shm")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Skip("no process with other file systems: ", err)
	}
	err := c.Wait()
	if strings.Contains(out.String(), "--- SKIP") {
		t.Skip(out.String())
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func fullFileSystem(t *testing.T) {
	const room = 64 << 20
	if err := syscall.Mount("tmpfs", "/dev/shm", "tmpfs", 0, fmt.Sprint("size=", room)); err != nil {
		t.Skip("no file system: ", err)
	}
	r := newLab(t)
	s := r.newStream()
	fill := func(what string, alloc func() (driver.DevicePtr, driver.Result), free func(driver.DevicePtr)) {
		t.Helper()
		var list []driver.DevicePtr
		for {
			p, res := alloc()
			if res != ok {
				r.want(what, driver.ResultOutOfMemory, res)
				break
			}
			if list = append(list, p); len(list) > room/(4<<20) {
				t.Fatalf("%s: the file system is larger than its size", what)
			}
			r.must(r.MemsetD8(r.th, p, 1, 4<<20))
		}
		if len(list) < room/(4<<20)-2 {
			t.Errorf("%s: there was room for %d only", what, len(list))
		}
		for _, p := range list {
			free(p)
		}
		r.must(r.CtxSynchronize(r.th))
		r.must(r.CtxSynchronize(r.th))
	}
	fill("cuMemCreate", func() (driver.DevicePtr, driver.Result) {
		h, res := r.MemCreate(r.th, 4<<20, deviceProp(driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), 0)
		if res != ok {
			return 0, res
		}
		p := r.addresses(4 << 20)
		r.must(r.MemMap(r.th, p, 4<<20, 0, h, 0))
		r.must(r.MemRelease(r.th, h))
		return p, r.access(p, 4<<20, readWrite)
	}, func(p driver.DevicePtr) { r.must(r.MemUnmap(r.th, p, 4<<20)) })
	fill("cuIpcGetMemHandle", func() (driver.DevicePtr, driver.Result) {
		p, res := r.MemAlloc(r.th, 4<<20)
		r.must(res)
		if _, res = r.IpcGetMemHandle(r.th, p); res != ok {
			r.must(r.MemFree(r.th, p))
		}
		return p, res
	}, func(p driver.DevicePtr) { r.must(r.MemFree(r.th, p)) })
	pool := r.sharedPool(0, 0)
	for range 3 {
		fill("cuMemAllocFromPoolAsync", func() (driver.DevicePtr, driver.Result) {
			return r.MemAllocFromPoolAsync(r.th, 4<<20, pool, s)
		}, func(p driver.DevicePtr) { r.must(r.MemFreeAsync(r.th, p, s)) })
	}
	r.must(r.MemPoolDestroy(r.th, pool))
}
