package cu_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/memstate"
	. "github.com/purecu/purecu/internal/testrig"
)

// pages returns n bytes of Go's heap that begin at a page.
func pages(n int) []byte {
	b := make([]byte, n+4095)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) & 4095)
	return b[skip : skip+n : skip+n]
}

func TestRegisterHost(t *testing.T) {
	r := NewSoft(t)
	b := pages(4096)
	h := Need(r.GPU.RegisterHost(b, HostPortable|HostDeviceMap))(t)
	if h.Handle() != uintptr(unsafe.Pointer(&b[0])) || h.Size() != 4096 {
		t.Errorf("%#x, %d bytes", h.Handle(), h.Size())
	}
	m := Need(r.GPU.Alloc(4096))(t)
	defer m.Close()
	b[0], b[4095] = 1, 2
	NoErr(t, r.S.Copy(m, h))
	NoErr(t, r.S.Memset(h.Span(1, 1), 9))
	NoErr(t, r.S.Synchronize())
	got := make([]byte, 4096)
	NoErr(t, m.CopyTo(got))
	if got[0] != 1 || got[4095] != 2 || b[1] != 9 {
		t.Errorf("on the device: %d … %d; on the host: %d", got[0], got[4095], b[1])
	}
	if info := Need(memory.PointerInfoOf(r.GPU, uint64(h.Handle())))(t); info.Type != memory.TypeHost {
		t.Errorf("%+v", info)
	}
	if _, err := r.GPU.RegisterHost(b[:10], 0); !errors.Is(err, ResultHostMemoryAlreadyRegistered) {
		t.Errorf("a second registration: %v", err)
	}
	if _, err := r.GPU.RegisterHost(nil, 0); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("no bytes: %v", err)
	}
	if _, err := r.GPU.RegisterHost(b, HostWriteCombined); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("write-combined memory: %v", err)
	}
	NoErr(t, h.Close())
	odd := Need(r.GPU.RegisterHost(b[1:], 0))(t)
	defer odd.Close()
	if err := View(odd, func([]uint32) error { return nil }); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("words at an odd address: %v", err)
	}
}

// TestRegisteredAbandoned abandons registered memory that the GPU uses: it stays until it is unregistered.
func TestRegisteredAbandoned(t *testing.T) {
	r := NewSoft(t)
	r.Sim.Hold(r.S.Handle())
	freed := make(chan bool, 1)
	func() {
		b := pages(1 << 16)
		runtime.AddCleanup(&b[0], func(c chan bool) { c <- true }, freed)
		h := Need(r.GPU.RegisterHost(b, 0))(t)
		NoErr(t, r.S.Memset(h, 1))
	}()
	for range 5 {
		runtime.GC()
	}
	select {
	case <-freed:
		t.Fatal("the memory was collected while the GPU uses it")
	default:
	}
	r.Sim.Release(r.S.Handle())
	NoErr(t, r.S.Synchronize())
	if !Eventually(func() bool {
		runtime.GC()
		NoErr(t, r.GPU.Synchronize())
		select {
		case <-freed:
			return true
		default:
			return false
		}
	}) {
		t.Error("the memory is never collected")
	}
}

// TestRegisterReadOnly checks that nothing writes memory that is registered for reading.
func TestRegisterReadOnly(t *testing.T) {
	r := NewSoft(t)
	b := pages(8192)
	b[0] = 7
	h := Need(r.GPU.RegisterHost(b, HostReadOnly|HostPortable))(t)
	defer h.Close()
	m := Need(r.GPU.Alloc(8192))(t)
	defer m.Close()
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	refused := func(what string, err error) {
		t.Helper()
		var e *Error
		if !errors.Is(err, memstate.ErrReadOnly) || !errors.Is(err, ResultInvalidValue) || !errors.As(err, &e) ||
			e.Handle != h.Handle() || !strings.Contains(e.Detail, "HostReadOnly") {
			t.Errorf("%s: %v", what, err)
		}
	}
	rows := Rows{Mem: h.Span(0, 4096), Pitch: 64}
	from := Rows{Mem: m, Pitch: 64}
	refused("Copy", r.S.Copy(h, m))
	refused("Copy to a span", r.S.Copy(h.Span(16, 16), m.Span(0, 16)))
	refused("Memset", r.S.Memset(h, 1))
	refused("Memset16", r.S.Memset16(h, 1))
	refused("Memset32", r.S.Memset32(h, 1))
	refused("Copy2D", r.S.Copy2D(rows, from, 16, 2))
	refused("Copy3D", r.S.Copy3D(Planes{rows, 2}, Planes{from, 2}, 16, 2, 1))
	refused("Memset2D", r.S.Memset2D(rows, 1, 16, 2))
	refused("Memset2D16", r.S.Memset2D16(rows, 1, 8, 2))
	refused("Memset2D32", r.S.Memset2D32(rows, 1, 4, 2))
	refused("a memory operation", r.S.BatchMemOps(WriteWord32(h, 1)))
	refused("a memory operation of 8 bytes", r.S.BatchMemOps(WriteWord64(h, 1)))
	_, err := g.Add(&graph.Copy{Dst: h, Src: m})
	refused("AddCopy", err)
	_, err = g.Add(&graph.Memset{Dst: h, Value: 1})
	refused("AddMemset", err)
	_, err = h.WriteAt([]byte{1}, 0)
	refused("WriteAt", err)
	var batch *BatchError
	if err := r.S.CopyAll([]MemCopy{{Dst: m, Src: h}, {Dst: h, Src: m}}); !errors.As(err, &batch) || batch.Errs[0] != nil {
		t.Errorf("CopyAll: %v", err)
	} else {
		refused("CopyAll", batch.Errs[1])
	}
	NoErr(t, r.S.Copy(m, h)) // reading is allowed
	NoErr(t, r.S.Synchronize())
	got := make([]byte, 8192)
	NoErr(t, m.CopyTo(got))
	if got[0] != 7 {
		t.Errorf("the copy is %d", got[0])
	}
}
