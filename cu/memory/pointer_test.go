package memory_test

import (
	"errors"
	"testing"
	"unsafe"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	. "github.com/purecu/purecu/internal/testrig"
)

func TestPointerInfo(t *testing.T) {
	r := NewSoft(t)
	dev := r.GPU.Device()
	m, h := Need(r.GPU.Alloc(100))(t), Need(r.GPU.AllocHost(100, 0))(t)
	defer m.Close()
	defer h.Close()
	p := newPool(r)
	pooled := Need(p.Alloc(r.S, 100))(t)
	defer pooled.Close()
	own := make([]byte, 64)
	host, ctx := uint64(h.Handle()), r.GPU.Handle()
	for name, c := range map[string]struct {
		addr uint64
		want memory.PointerInfo
	}{
		"device": {m.Handle() + 7,
			memory.PointerInfo{Type: memory.TypeDevice, Device: dev, Context: ctx, Start: m.Handle(), Size: 100,
				DevicePointer: m.Handle() + 7}},
		"host": {host + 7, memory.PointerInfo{Type: memory.TypeHost, Device: dev, Context: ctx, Start: host, Size: 100,
			DevicePointer: host + 7, HostPointer: host + 7}},
		"pool": {pooled.Handle(), memory.PointerInfo{Type: memory.TypeDevice, Device: dev, Start: pooled.Handle(), Size: 100,
			DevicePointer: pooled.Handle(), Pool: p.Handle()}},
		"unregistered": {uint64(uintptr(unsafe.Pointer(&own[0]))), memory.PointerInfo{}},
		"null":         {0, memory.PointerInfo{}},
	} {
		got := Need(memory.PointerInfoOf(r.GPU, c.addr))(t)
		if (got.BufferID == 0) != (c.want.Type == memory.TypeUnregistered) {
			t.Errorf("%s: the buffer's ID is %d", name, got.BufferID)
		}
		got.BufferID = 0
		if got != c.want {
			t.Errorf("%s: got  %+v\nwant %+v", name, got, c.want)
		}
	}
	if start, size, err := memory.AddressRange(r.GPU, m.Handle()+99); start != m.Handle() || size != 100 || err != nil {
		t.Errorf("AddressRange = %#x, %d, %v", start, size, err)
	}
	if _, _, err := memory.AddressRange(r.GPU, m.Handle()+100); !errors.Is(err, ResultNotFound) {
		t.Errorf("AddressRange of no memory: %v", err)
	}
	r.Sim.Inject(cusim.Fault{Function: "cuPointerGetAttributes", Code: int(ResultUnknown)})
	if _, err := memory.PointerInfoOf(r.GPU, m.Handle()); !errors.Is(err, ResultUnknown) {
		t.Errorf("a failure of the driver: %v", err)
	}
}
