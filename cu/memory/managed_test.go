package memory_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	. "github.com/purecu/purecu/internal/testrig"
)

func newManaged(r *Soft, size uint64) *HostMem {
	r.T.Helper()
	m := Need(memory.AllocManaged(r.GPU, size, memory.AttachGlobal))(r.T)
	r.T.Cleanup(func() { m.Close() })
	return m
}

// TestManaged uses managed memory on the host and on two devices.
func TestManaged(t *testing.T) {
	r := NewSoft(t, AddKernel)
	m := newManaged(r, 1<<16)
	NoErr(t, View(m, func(v []float32) error { v[0] = 40; return nil }))
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	for i := range 2 {
		ctx := Need(Need(r.Drv.Device(i))(t).PrimaryContext())(t)
		defer ctx.Close()
		s := Need(ctx.NewStream(StreamNonBlocking))(t)
		defer s.Close()
		mod := Need(ctx.LoadModule([]byte(SpinPTX)))(t)
		defer mod.Close()
		NoErr(t, memory.Prefetch(s, m, memory.LocationOf(ctx.Device())))
		NoErr(t, Need(mod.Function("add"))(t).Launch(s, one, Ptr(m), U32(1), F32(1)))
		NoErr(t, s.Memset(m.Span(4, 4), byte(i)))
		dev := Need(ctx.Alloc(8))(t)
		defer dev.Close()
		NoErr(t, s.Copy(dev, m.Span(0, 8)))
		NoErr(t, s.Copy(m.Span(8, 8), dev))
		NoErr(t, s.Synchronize())
	}
	NoErr(t, View(m, func(v []float32) error {
		if v[0] != 42 || v[2] != 42 {
			t.Errorf("the values are %v", v[:4])
		}
		return nil
	}))
	info := Need(memory.PointerInfoOf(r.GPU, uint64(m.Handle())))(t)
	if !info.Managed || info.Type != memory.TypeDevice || info.HostPointer != uint64(m.Handle()) {
		t.Errorf("%+v", info)
	}
	NoErr(t, m.Close())
	if n := r.Sim.Census()["managed memory"]; n != 0 {
		t.Errorf("%d pieces are not freed", n)
	}
}

func TestManagedAdvice(t *testing.T) {
	r := NewSoft(t)
	m := newManaged(r, 1<<16)
	dev := memory.LocationOf(r.GPU.Device())
	info := func(mem Memory, want memory.ManagedInfo) {
		t.Helper()
		if diff := cmp.Diff(want, Need(memory.ManagedInfoOf(r.GPU, mem))(t)); diff != "" {
			t.Errorf("ManagedInfo (-want +got):\n%s", diff)
		}
	}
	info(m, memory.ManagedInfo{})
	first, second := m.Span(0, 1<<15), m.Span(1<<15, 1<<15)
	NoErr(t, memory.Advise(r.GPU, first, memory.AdviseReadMostly, memory.Location{}))
	NoErr(t, memory.Advise(r.GPU, first, memory.AdvisePreferredLocation, memory.Location{Type: memory.LocationHost}))
	NoErr(t, memory.Advise(r.GPU, m, memory.AdvisePreferredLocation, memory.Location{Type: memory.LocationHostNUMA, ID: 0})) // has no effect
	NoErr(t, memory.Advise(r.GPU, m, memory.AdviseAccessedBy, dev))
	NoErr(t, memory.Advise(r.GPU, first, memory.AdviseAccessedBy, memory.Location{Type: memory.LocationHost}))
	NoErr(t, memory.Prefetch(r.S, second, dev))
	both := []memory.Location{dev, {Type: memory.LocationHost}}
	info(first, memory.ManagedInfo{ReadMostly: true, Preferred: both[1], AccessedBy: both})
	info(second, memory.ManagedInfo{LastPrefetch: dev, AccessedBy: both[:1]})
	info(m, memory.ManagedInfo{AccessedBy: both[:1]})
	NoErr(t, memory.Advise(r.GPU, m, memory.UnadviseReadMostly, memory.Location{}))
	NoErr(t, memory.Advise(r.GPU, m, memory.UnadvisePreferredLocation, memory.Location{}))
	NoErr(t, memory.Advise(r.GPU, m, memory.UnadviseAccessedBy, dev))
	info(first, memory.ManagedInfo{AccessedBy: both[1:]})
	NoErr(t, memory.Attach(r.S, m, memory.AttachSingle))
	NoErr(t, r.S.Synchronize())

	plain := Need(r.GPU.AllocHost(64, 0))(t)
	defer plain.Close()
	for name, err := range map[string]error{
		"advice about other memory":  memory.Advise(r.GPU, plain, memory.AdviseReadMostly, dev),
		"unknown advice":             memory.Advise(r.GPU, m, 99, dev),
		"advice without a place":     memory.Advise(r.GPU, m, memory.AdviseAccessedBy, memory.Location{}),
		"a prefetch of other memory": memory.Prefetch(r.S, plain, dev),
		"a prefetch to nowhere":      memory.Prefetch(r.S, m, memory.Location{}),
		"flags together":             memory.Attach(r.S, m, memory.AttachGlobal|memory.AttachHost),
		"attaching other memory":     memory.Attach(r.S, plain, memory.AttachGlobal),
		"unknown flags":              ErrorOf(memory.AllocManaged(r.GPU, 8, memory.AttachSingle)),
		"no bytes":                   ErrorOf(memory.AllocManaged(r.GPU, 0, memory.AttachGlobal)),
	} {
		if !errors.Is(err, ResultInvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := memory.Advise(r.GPU, nil, memory.AdviseReadMostly, dev); !errors.Is(err, ErrNil) {
		t.Errorf("no memory: %v", err)
	}
	if got := dev.String() + ", " + both[1].String() + ", " +
		memory.AdviseReadMostly.String(); got != "device 0, host, AdviseReadMostly" {
		t.Error(got)
	}
}

// TestManagedUnsupported refuses managed memory that the host could not access at any time.
func TestManagedUnsupported(t *testing.T) {
	r := NewSoft(t, cusim.DeviceAttribute(driver.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0))
	if _, err := memory.AllocManaged(r.GPU, 64, memory.AttachGlobal); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
