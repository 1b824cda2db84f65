package cu

import (
	"errors"
	"runtime"
	"testing"
	"unsafe"
)

// pages returns n bytes of Go's heap that begin at a page.
func pages(n int) []byte {
	b := make([]byte, n+4095)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) & 4095)
	return b[skip : skip+n : skip+n]
}

func TestRegisterHost(t *testing.T) {
	r := newSoft(t)
	b := pages(4096)
	h := must(r.gpu.RegisterHost(b, HostPortable|HostDeviceMap))(t)
	if h.Handle() != uintptr(unsafe.Pointer(&b[0])) || h.Size() != 4096 {
		t.Errorf("%#x, %d bytes", h.Handle(), h.Size())
	}
	m := must(r.gpu.Alloc(4096))(t)
	defer m.Close()
	b[0], b[4095] = 1, 2
	noErr(t, r.s.Copy(m, h))
	noErr(t, r.s.Memset(h.Span(1, 1), 9))
	noErr(t, r.s.Synchronize())
	got := make([]byte, 4096)
	noErr(t, m.CopyTo(got))
	if got[0] != 1 || got[4095] != 2 || b[1] != 9 {
		t.Errorf("on the device: %d … %d; on the host: %d", got[0], got[4095], b[1])
	}
	if info := must(r.gpu.PointerInfo(uint64(h.Handle())))(t); info.Type != MemoryHost {
		t.Errorf("%+v", info)
	}
	if _, err := r.gpu.RegisterHost(b[:10], 0); !errors.Is(err, ResultHostMemoryAlreadyRegistered) {
		t.Errorf("a second registration: %v", err)
	}
	if _, err := r.gpu.RegisterHost(nil, 0); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("no bytes: %v", err)
	}
	if _, err := r.gpu.RegisterHost(b, HostWriteCombined); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("write-combined memory: %v", err)
	}
	noErr(t, h.Close())
	odd := must(r.gpu.RegisterHost(b[1:], 0))(t)
	defer odd.Close()
	if err := View(odd, func([]uint32) error { return nil }); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("words at an odd address: %v", err)
	}
}

// TestRegisteredAbandoned abandons registered memory that the GPU uses: it stays until it is unregistered.
func TestRegisteredAbandoned(t *testing.T) {
	r := newSoft(t)
	r.sim.Hold(r.s.Handle())
	freed := make(chan bool, 1)
	func() {
		b := pages(1 << 16)
		runtime.AddCleanup(&b[0], func(c chan bool) { c <- true }, freed)
		h := must(r.gpu.RegisterHost(b, 0))(t)
		noErr(t, r.s.Memset(h, 1))
	}()
	for range 5 {
		runtime.GC()
	}
	select {
	case <-freed:
		t.Fatal("the memory was collected while the GPU uses it")
	default:
	}
	r.sim.Release(r.s.Handle())
	noErr(t, r.s.Synchronize())
	if !eventually(func() bool {
		runtime.GC()
		noErr(t, r.gpu.Synchronize())
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
