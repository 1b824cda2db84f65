package interop_test

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// externalMemWorks writes memory that is imported twice, and reads it by the other address.
func externalMemWorks(t *testing.T, gpu *Context) {
	t.Helper()
	f, size := ExportedFile(t, gpu)
	open := OpenFiles()
	a := Need(interop.ImportMem(gpu, OpaqueFD(f), size))(t)
	b := Need(interop.ImportMem(gpu, OpaqueFD(f), size/2))(t)
	if a.Size() != size || b.Size() != size/2 || a.Handle() == b.Handle() {
		t.Errorf("%d bytes at %#x, and %d at %#x", a.Size(), a.Handle(), b.Size(), b.Handle())
	}
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	NoErr(t, s.Memset(a.Span(0, 64), 7))
	NoErr(t, s.Memset(a.Span(3, 2), 9))
	NoErr(t, s.Synchronize())
	got := make([]byte, 6)
	NoErr(t, b.CopyTo(got))
	if diff := cmp.Diff([]byte{7, 7, 7, 9, 9, 7}, got); diff != "" {
		t.Errorf("by the other address (-want +got):\n%s", diff)
	}
	info := Need(memory.PointerInfoOf(gpu, a.Handle()+5))(t)
	if info.Start != a.Handle() || info.Size != size {
		t.Errorf("the driver knows %d bytes at %#x", info.Size, info.Start)
	}
	_, err := memory.IPCHandleOf(a)
	const want = "invalid argument; the memory is of another API: pass on the handle that it was imported by"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("IPCHandle: %v", err)
	}
	_, err = interop.ImportMem(gpu, OpaqueFD(f), 4*size)
	if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "the memory may have less than") {
		t.Errorf("an import of too many bytes: %v", err)
	}
	NoErr(t, a.Close())
	NoErr(t, a.Close())
	NoErr(t, b.CopyTo(got))
	NoErr(t, b.Close())
	if err := s.Memset(b, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("a memset after Close: %v", err)
	}
	if n := OpenFiles(); n > open {
		t.Errorf("%d files are open, and %d were before", n, open)
	}
	got[0] = 1
	again := Need(interop.ImportMem(gpu, OpaqueFD(f), size))(t) // the file is still open
	NoErr(t, errors.Join(again.CopyFrom(got), again.Close()))
}

func TestExternalMem(t *testing.T) { externalMemWorks(t, NewSoft(t).GPU) }

// TestGPUExternalMem imports memory on a real GPU: see cu/gpu_test.go.
func TestGPUExternalMem(t *testing.T) { externalMemWorks(t, GPUContext(t)) }

// externalMemRefused makes imports that fail, and leave no file open.
func externalMemRefused(t *testing.T, gpu *Context) {
	t.Helper()
	f, size := ExportedFile(t, gpu)
	null := Need(os.Open(os.DevNull))(t)
	defer null.Close()
	open := OpenFiles()
	for name, c := range map[string]struct {
		h    interop.MemHandle
		size uint64
		is   error
	}{
		"the zero handle":  {interop.MemHandle{}, size, drivercall.ErrInvalid},
		"an unknown type":  {interop.MemHandle{Type: 10, Handle: f.Fd()}, size, drivercall.ErrInvalid},
		"an NvSciBuf":      {interop.MemHandle{Type: 8, Handle: f.Fd()}, size, drivercall.ErrInvalid},
		"no bytes":         {OpaqueFD(f), 0, drivercall.ErrInvalid},
		"another file":     {OpaqueFD(null), size, ResultUnknown},
		"a closed file":    {interop.MemHandle{Type: interop.MemOpaqueFD, Handle: 1 << 30}, size, syscall.EBADF},
		"no descriptor":    {interop.MemHandle{Type: interop.MemOpaqueFD, Handle: 1 << 31}, size, drivercall.ErrInvalid},
		"a name of a file": {interop.MemHandle{Type: interop.MemOpaqueFD, Name: "x"}, size, drivercall.ErrInvalid},
		"handle and name": {interop.MemHandle{Type: interop.MemD3D12Heap, Handle: 1, Name: "x"}, size,
			drivercall.ErrInvalid},
		"neither":            {interop.MemHandle{Type: interop.MemD3D12Heap}, size, ErrNil},
		"a handle elsewhere": {interop.MemHandle{Type: interop.MemOpaqueWin32, Handle: 8}, size, ResultNotSupported},
		"a name elsewhere":   {interop.MemHandle{Type: interop.MemD3D12Resource, Name: "x"}, size, ResultNotSupported},
	} {
		m, err := interop.ImportMem(gpu, c.h, c.size)
		if m != nil || !errors.Is(err, c.is) {
			t.Errorf("%s: %v; want %v", name, err, c.is)
		}
	}
	if _, err := interop.ImportMem(gpu, interop.MemHandle{Type: interop.MemDMABufFD, Handle: f.Fd()}, size); err == nil {
		t.Error("the file is no DMA-BUF, and was imported as one")
	}
	if n := OpenFiles(); n > open {
		t.Errorf("%d files are open, and %d were before", n, open)
	}
}

func TestExternalMemRefused(t *testing.T) { externalMemRefused(t, NewSoft(t).GPU) }

func TestGPUExternalMemRefused(t *testing.T) { externalMemRefused(t, GPUContext(t)) }

// TestExternalMemWaits closes external memory while a stream is held that does not use it, and while a graph
// uses it.
func TestExternalMemWaits(t *testing.T) {
	r := NewSoft(t)
	f, size := ExportedFile(t, r.GPU)
	m := Need(interop.ImportMem(r.GPU, OpaqueFD(f), size))(t)
	r.Hold(r.Other)
	r.OK(r.Work(r.Other))
	done := make(chan error)
	go func() { done <- m.Close() }()
	if !Eventually(func() bool { return len(r.Sim.Blocked()) > 0 }) {
		t.Fatal("Close does not wait")
	}
	r.Release(r.Other)
	NoErr(t, <-done)

	m = Need(interop.ImportMem(r.GPU, OpaqueFD(f), size))(t)
	g := Need(graph.New(r.GPU))(t)
	Need(g.Add(&graph.Memset{Dst: m, Value: 3}))(t)
	x := r.Exec(g)
	NoErr(t, m.Close()) // the graph keeps it
	if n := r.Sim.Census(); n["external memory"] != 1 || n["mapping"] != 1 {
		t.Errorf("after Close there are %v", n)
	}
	NoErr(t, x.Launch(r.S))
	NoErr(t, errors.Join(g.Close(), x.Close(), r.GPU.Synchronize()))
	r.Freed(func() bool { return r.Sim.Census()["external memory"] == 0 })
}

// TestExternalMemFails lets calls of the driver fail. Nothing stays imported.
func TestExternalMemFails(t *testing.T) {
	r := NewSoft(t)
	f, size := ExportedFile(t, r.GPU)
	open := OpenFiles()
	for _, fn := range []string{"cuImportExternalMemory", "cuExternalMemoryGetMappedBuffer"} {
		r.Sim.Inject(cusim.Fault{Function: fn, Code: int(ResultOutOfMemory)})
		_, err := interop.ImportMem(r.GPU, OpaqueFD(f), size)
		r.Is(err, ResultOutOfMemory)
		if n := r.Sim.Census(); n["external memory"]+n["mapping"] != 0 || OpenFiles() > open {
			t.Errorf("%s has failed, and %v exist", fn, n)
		}
	}
	for fn, want := range map[string]string{
		"cuMemFree": "cuMemFree", "cuDestroyExternalMemory": "cuDestroyExternalMemory",
	} {
		m := Need(interop.ImportMem(r.GPU, OpaqueFD(f), size))(t)
		r.Sim.Inject(cusim.Fault{Function: fn, Code: int(ResultUnknown)})
		var e *Error
		if err := m.Close(); !errors.As(err, &e) || e.Op != want {
			t.Errorf("Close: %v; want an error of %s", err, want)
		}
	}
	// What the faults have kept is gone with its context.
	r.Sim.ClearFaults()
	r.Mod.Close()
	r.S.Close()
	r.Other.Close()
	r.GPU.Close()
}

// nameTaker is a driver that imports handles of Windows.
type nameTaker struct {
	Software driver.Software
	got      *[]driver.ExternalMemoryHandleDesc
	// name is what the last name was, during the call.
	name *[]uint16
}

func (d nameTaker) ImportExternalMemory(_ *driver.Thread,
	desc driver.ExternalMemoryHandleDesc) (driver.ExternalMemory, driver.Result) {
	runtime.GC()
	*d.got = append(*d.got, desc)
	if p := desc.Handle.Win32().Name; p != 0 {
		*d.name = slices.Clone(unsafe.Slice(*(**uint16)(unsafe.Pointer(&p)), 5))
	}
	return 0, driver.ResultNotSupported
}

// TestExternalMemOfWindows passes handles and names of Windows to the driver.
func TestExternalMemOfWindows(t *testing.T) {
	var got []driver.ExternalMemoryHandleDesc
	var name []uint16
	soft := cusim.New()
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(nameTaker{soft.Software(), &got, &name})))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	for _, h := range []interop.MemHandle{
		{Type: interop.MemOpaqueWin32, Handle: 0x123456789},
		{Type: interop.MemOpaqueWin32, Handle: 8, Dedicated: true},
		{Type: interop.MemD3D12Heap, Name: "G\U0001f3a8x"},
		{Type: interop.MemD3D12Resource, Handle: 8},
	} {
		if _, err := interop.ImportMem(gpu, h, 64); !errors.Is(err, ResultNotSupported) {
			t.Errorf("%+v: %v", h, err)
		}
	}
	if want := []uint16{'G', 0xd83c, 0xdfa8, 'x', 0}; !slices.Equal(name, want) {
		t.Errorf("the name is %x, not %x", name, want)
	}
	for i, want := range []struct {
		typ    int32
		handle driver.HostPtr
		named  bool
		flags  uint32
	}{{2, 0x123456789, false, 0}, {2, 8, false, 1}, {4, 0, true, 0}, {5, 8, false, 1}} {
		d := got[i]
		w := d.Handle.Win32()
		if d.Type != want.typ || w.Handle != want.handle || (w.Name != 0) != want.named || d.Flags != want.flags ||
			d.Size != 64 {
			t.Errorf("handle %d became %+v", i, d)
		}
	}
}
