package memory_test

import (
	"errors"
	"testing"
	"unsafe"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUPointerInfo asks about all kinds of memory on a real GPU: see cu/gpu_test.go.
func TestGPUPointerInfo(t *testing.T) {
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	m, h := Need(gpu.Alloc(1000))(t), Need(gpu.AllocHost(1000, HostPortable|HostDeviceMap))(t)
	defer m.Close()
	defer h.Close()
	p := GPUPool(t, gpu, memory.PoolOptions{})
	pooled := Need(p.Alloc(s, 1000))(t)
	defer pooled.Close()
	own := make([]byte, 64)
	check := func(name string, addr uint64, want memory.PointerInfo) {
		t.Helper()
		got := Need(memory.PointerInfoOf(gpu, addr))(t)
		t.Logf("%s: %+v", name, got)
		if want.Type != memory.TypeUnregistered && (got.BufferID == 0 || got.Size < 1000) {
			t.Errorf("%s: the ID is %d, the size %d", name, got.BufferID, got.Size)
		}
		got.BufferID, got.Size = 0, 0
		if got != want {
			t.Errorf("%s: got  %+v\nwant %+v", name, got, want)
		}
	}
	host := uint64(h.Handle())
	check("device", m.Handle()+8,
		memory.PointerInfo{Type: memory.TypeDevice, Device: gpu.Device(), Context: gpu.Handle(), Start: m.Handle(),
			DevicePointer: m.Handle() + 8})
	check("host", host+8, memory.PointerInfo{Type: memory.TypeHost, Device: gpu.Device(), Context: gpu.Handle(), Start: host,
		DevicePointer: host + 8, HostPointer: host + 8})
	check("pool", pooled.Handle()+8, memory.PointerInfo{Type: memory.TypeDevice, Device: gpu.Device(), Start: pooled.Handle(),
		DevicePointer: pooled.Handle() + 8, Pool: p.Handle()})
	check("unregistered", uint64(uintptr(unsafe.Pointer(&own[0]))), memory.PointerInfo{})
	check("null", 0, memory.PointerInfo{})
	start, size, err := memory.AddressRange(gpu, m.Handle()+999)
	if start != m.Handle() || size < 1000 || err != nil {
		t.Errorf("AddressRange = %#x, %d, %v", start, size, err)
	}
	if _, _, err := memory.AddressRange(gpu, uint64(uintptr(unsafe.Pointer(&own[0])))); err == nil ||
		errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("AddressRange of unregistered memory: %v", err)
	} else {
		t.Log(err)
	}
}
