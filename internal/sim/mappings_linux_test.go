package sim

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// mapped maps pages of memory.
func (r *lab) mapped(fd, pages, prot, flags int) []byte {
	r.t.Helper()
	b, err := syscall.Mmap(fd, 0, pages*mem.Page, prot, flags)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = syscall.Munmap(b) })
	return b
}

func hostAddr(b []byte) driver.HostPtr { return driver.HostPtr(mem.AddressOf(b)) }

// unmapped returns registered memory that nobody can access any more. It is not unmapped before the end of the test, as
// Go's runtime may map its address then.
func (r *lab) unmapped() driver.HostPtr {
	r.t.Helper()
	b := r.mapped(-1, 1, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	p := hostAddr(b)
	r.must(r.MemHostRegister(r.th, p, mem.Page, 0))
	if err := syscall.Mprotect(b, syscall.PROT_NONE); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// TestKernelOnForeignMemory runs a kernel on registered memory that is not mapped any more.
func TestKernelOnForeignMemory(t *testing.T) {
	r := newLab(t, WithKernel("k", Kernel{Run: func(l *Launch) { l.Mem(0)[0] = 1 }}))
	s := r.newStream()
	nowhere := r.unmapped()
	r.must(r.launchOn(s, r.kernel("k", ".param .u64 p"), 1, params(uint64(nowhere))))
	r.want("synchronize", driver.ResultIllegalAddress, r.StreamSynchronize(r.th, s))
	r.want("unregister", driver.ResultIllegalAddress, r.MemHostUnregister(r.th, nowhere))
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("%d misuses", n)
	}
}

// TestForeignRegistered uses registered memory that is not mapped any more.
func TestForeignRegistered(t *testing.T) {
	t.Run("registered", func(t *testing.T) {
		r := newLab(t)
		s := r.newStream()
		nowhere := r.unmapped()
		r.must(r.MemcpyHtoDAsync(r.th, r.alloc("abc"), nowhere, 3, s))
		r.want("a copy from it", driver.ResultIllegalAddress, r.StreamSynchronize(r.th, s))
	})
	t.Run("awaited", func(t *testing.T) {
		r := newLab(t)
		s := r.newStream()
		nowhere := r.unmapped()
		r.must(r.StreamWaitValue32(r.th, s, driver.DevicePtr(nowhere), 1, 0))
		r.want("the wait", driver.ResultIllegalAddress, r.StreamSynchronize(r.th, s))
	})
}

// TestRegisterMappings registers memory of all kinds, for writing and for reading. The results are those of
// an H200.
func TestRegisterMappings(t *testing.T) {
	const (
		no   = 0
		r, w = syscall.PROT_READ, syscall.PROT_WRITE
		x    = syscall.PROT_EXEC
		anon = syscall.MAP_PRIVATE | syscall.MAP_ANON
		bad  = driver.ResultInvalidValue
	)
	l := newLab(t)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 2*mem.Page), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	// middle returns three pages, of which the one in the middle is protected otherwise.
	middle := func(prot int) []byte {
		b := l.mapped(-1, 3, r|w, anon)
		if err := syscall.Mprotect(b[mem.Page:2*mem.Page], prot); err != nil {
			t.Fatal(err)
		}
		return b
	}
	pages := l.mapped(-1, 2, r|w, anon)
	long := l.mapped(fd, 3, r, syscall.MAP_SHARED)
	copied := l.mapped(fd, 3, r|w, syscall.MAP_PRIVATE)
	type memory struct {
		name           string
		b              []byte
		write, reading driver.Result
	}
	list := []memory{
		{"anonymous", pages, ok, ok},
		{"some bytes", pages[100:110], ok, ok},
		{"across pages", pages[mem.Page-1 : mem.Page+1], ok, ok},
		{"no access in the middle", middle(no), bad, bad},
		{"read-only in the middle", middle(r), bad, ok},
		{"write-only in the middle", middle(w), ok, bad},
		{"no access", l.mapped(-1, 1, no, anon), bad, bad},
		{"read-only", l.mapped(-1, 1, r, anon), bad, ok},
		{"executable", l.mapped(-1, 1, x, anon), bad, bad},
		{"read-only and executable", l.mapped(-1, 1, r|x, anon), bad, ok},
		{"shared", l.mapped(-1, 1, r|w, syscall.MAP_SHARED|syscall.MAP_ANON), ok, ok},
		{"shared, read-only", l.mapped(-1, 1, r, syscall.MAP_SHARED|syscall.MAP_ANON), bad, ok},
		{"a file", copied[:2*mem.Page], ok, ok},
		{"a file, read-only", long[:2*mem.Page], bad, ok},
		{"behind the end of a file", long[2*mem.Page:], bad, bad},
		{"across the end of a file", long, bad, bad},
		{"behind the end of a copied file", copied[2*mem.Page:], bad, bad},
	}
	hole := l.mapped(-1, 3, r|w, anon) // the last one, as another would be mapped there
	page := uintptr(unsafe.Pointer(&hole[mem.Page]))
	if _, _, errno := syscall.Syscall(syscall.SYS_MUNMAP, page, mem.Page, 0); errno != 0 {
		t.Fatal(errno)
	}
	list = append(list, memory{"unmapped in the middle", hole, bad, bad},
		memory{"before the unmapped page", hole[:mem.Page], ok, ok})
	for _, tt := range list {
		for _, flags := range []uint32{0, driver.CU_MEMHOSTREGISTER_PORTABLE, driver.CU_MEMHOSTREGISTER_DEVICEMAP} {
			for read, want := range map[uint32]driver.Result{0: tt.write, driver.CU_MEMHOSTREGISTER_READ_ONLY: tt.reading} {
				p := hostAddr(tt.b)
				got := l.MemHostRegister(l.th, p, uint64(len(tt.b)), flags|read)
				if got != want {
					t.Errorf("%s, flags %d: %v", tt.name, flags|read, got)
				}
				if got == ok {
					l.must(l.MemHostUnregister(l.th, p))
				}
			}
		}
	}
	for size, want := range map[uint64]driver.Result{1 << 40: driver.ResultOutOfMemory, 1 << 62: driver.ResultNotSupported,
		^uint64(0): bad} {
		if size == 1<<40 && mem.MachineRoom(0) >= size {
			want = bad
		}
		l.want("a size", want, l.MemHostRegister(l.th, hostAddr(pages), size, 0))
	}
}

// TestRegisteredReadOnly writes memory that is registered for reading. The results are those of an H200.
func TestRegisteredReadOnly(t *testing.T) {
	const bad, readOnly = driver.ResultInvalidValue, driver.CU_MEMHOSTREGISTER_READ_ONLY
	type call func(r *lab, s driver.Stream, p driver.HostPtr, b []byte, m driver.DevicePtr) driver.Result
	kernel := func(r *lab, s driver.Stream, p driver.HostPtr, _ []byte, _ driver.DevicePtr) driver.Result {
		m, res := r.ModuleLoadData(r.th, []byte(header+`.visible .entry put(.param .u64 a) { .reg .u64 %p;
			ld.param.u64 %p, [a]; st.global.u32 [%p], 7; ret; }`))
		r.must(res)
		f, res := r.ModuleGetFunction(r.th, m, "put")
		r.must(res)
		return r.launchOn(s, f, 1, params(uint64(p)))
	}
	for name, tt := range map[string]struct {
		f          call
		want, then driver.Result
	}{
		"cuMemcpyDtoH": {func(r *lab, s driver.Stream, p driver.HostPtr, b []byte, m driver.DevicePtr) driver.Result {
			return r.MemcpyDtoH(r.th, b, m)
		}, bad, ok},
		"cuMemcpyDtoHAsync": {func(r *lab, s driver.Stream, p driver.HostPtr, b []byte, m driver.DevicePtr) driver.Result {
			return r.MemcpyDtoHAsync(r.th, p, m, 64, s)
		}, bad, ok},
		"cuMemcpy": {func(r *lab, s driver.Stream, p driver.HostPtr, b []byte, m driver.DevicePtr) driver.Result {
			return r.Memcpy(r.th, driver.DevicePtr(p), m, 64)
		}, bad, ok},
		"cuMemcpyAsync": {func(r *lab, s driver.Stream, p driver.HostPtr, b []byte, m driver.DevicePtr) driver.Result {
			return r.MemcpyAsync(r.th, driver.DevicePtr(p), m, 64, s)
		}, bad, ok},
		"cuMemcpyDtoD": {func(r *lab, s driver.Stream, p driver.HostPtr, b []byte, m driver.DevicePtr) driver.Result {
			return r.MemcpyDtoD(r.th, driver.DevicePtr(p), m, 64)
		}, bad, ok},
		"cuMemcpyDtoDAsync": {func(r *lab, s driver.Stream, p driver.HostPtr, b []byte, m driver.DevicePtr) driver.Result {
			return r.MemcpyDtoDAsync(r.th, driver.DevicePtr(p), m, 64, s)
		}, bad, ok},
		"cuMemsetD8": {func(r *lab, s driver.Stream, p driver.HostPtr, b []byte, m driver.DevicePtr) driver.Result {
			return r.MemsetD8(r.th, driver.DevicePtr(p), 1, 64)
		}, bad, ok},
		"cuMemsetD8Async": {func(r *lab, s driver.Stream, p driver.HostPtr, b []byte, m driver.DevicePtr) driver.Result {
			return r.MemsetD8Async(r.th, driver.DevicePtr(p), 1, 64, s)
		}, bad, ok},
		"cuMemcpyHtoD": {func(r *lab, s driver.Stream, p driver.HostPtr, b []byte, m driver.DevicePtr) driver.Result {
			return r.MemcpyHtoD(r.th, m, b)
		}, ok, ok},
		"cuMemcpyHtoDAsync": {func(r *lab, s driver.Stream, p driver.HostPtr, b []byte, m driver.DevicePtr) driver.Result {
			return r.MemcpyHtoDAsync(r.th, m, p, 64, s)
		}, ok, ok},
		"a kernel": {kernel, ok, driver.ResultIllegalAddress},
		"cuStreamWriteValue32": {func(r *lab, s driver.Stream, p driver.HostPtr, b []byte, m driver.DevicePtr) driver.Result {
			return r.StreamWriteValue32(r.th, s, driver.DevicePtr(p), 1, 0)
		}, ok, driver.ResultLaunchFailed},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			s, m := r.newStream(), r.alloc(string(make([]byte, 64)))
			b := r.mapped(-1, 1, syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON)[:64]
			r.must(r.MemHostRegister(r.th, hostAddr(b), 64, readOnly))
			r.want("the call", tt.want, tt.f(r, s, hostAddr(b), b, m))
			r.want("the stream", tt.then, r.StreamSynchronize(r.th, s))
			r.takeMisuses()
			if b[0] != 0 {
				t.Error("the memory was written")
			}
		})
	}
}
