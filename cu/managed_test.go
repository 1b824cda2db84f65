package cu_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

func (r *soft) managed(size uint64) *HostMem {
	r.t.Helper()
	m := need(r.gpu.AllocManaged(size, AttachGlobal))(r.t)
	r.t.Cleanup(func() { m.Close() })
	return m
}

// TestManaged uses managed memory on the host and on two devices.
func TestManaged(t *testing.T) {
	r := newSoft(t, addKernel)
	m := r.managed(1 << 16)
	noErr(t, View(m, func(v []float32) error { v[0] = 40; return nil }))
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	for i := range 2 {
		ctx := need(need(r.drv.Device(i))(t).PrimaryContext())(t)
		defer ctx.Close()
		s := need(ctx.NewStream(StreamNonBlocking))(t)
		defer s.Close()
		mod := need(ctx.LoadModule([]byte(spinPTX)))(t)
		defer mod.Close()
		noErr(t, s.Prefetch(m, ctx.Device().Location()))
		noErr(t, need(mod.Function("add"))(t).Launch(s, one, Ptr(m), U32(1), F32(1)))
		noErr(t, s.Memset(m.Span(4, 4), byte(i)))
		dev := need(ctx.Alloc(8))(t)
		defer dev.Close()
		noErr(t, s.Copy(dev, m.Span(0, 8)))
		noErr(t, s.Copy(m.Span(8, 8), dev))
		noErr(t, s.Synchronize())
	}
	noErr(t, View(m, func(v []float32) error {
		if v[0] != 42 || v[2] != 42 {
			t.Errorf("the values are %v", v[:4])
		}
		return nil
	}))
	info := need(r.gpu.PointerInfo(uint64(m.Handle())))(t)
	if !info.Managed || info.Type != MemoryDevice || info.HostPointer != uint64(m.Handle()) {
		t.Errorf("%+v", info)
	}
	noErr(t, m.Close())
	if n := r.sim.Census()["managed memory"]; n != 0 {
		t.Errorf("%d pieces are not freed", n)
	}
}

func TestManagedAdvice(t *testing.T) {
	r := newSoft(t)
	m := r.managed(1 << 16)
	dev := r.gpu.Device().Location()
	info := func(mem Memory, want ManagedInfo) {
		t.Helper()
		if diff := cmp.Diff(want, need(r.gpu.ManagedInfo(mem))(t)); diff != "" {
			t.Errorf("ManagedInfo (-want +got):\n%s", diff)
		}
	}
	info(m, ManagedInfo{})
	first, second := m.Span(0, 1<<15), m.Span(1<<15, 1<<15)
	noErr(t, r.gpu.Advise(first, AdviseReadMostly, MemLocation{}))
	noErr(t, r.gpu.Advise(first, AdvisePreferredLocation, MemLocation{Type: LocationHost}))
	noErr(t, r.gpu.Advise(m, AdvisePreferredLocation, MemLocation{LocationHostNUMA, 0})) // has no effect
	noErr(t, r.gpu.Advise(m, AdviseAccessedBy, dev))
	noErr(t, r.gpu.Advise(first, AdviseAccessedBy, MemLocation{Type: LocationHost}))
	noErr(t, r.s.Prefetch(second, dev))
	both := []MemLocation{dev, {Type: LocationHost}}
	info(first, ManagedInfo{ReadMostly: true, Preferred: both[1], AccessedBy: both})
	info(second, ManagedInfo{LastPrefetch: dev, AccessedBy: both[:1]})
	info(m, ManagedInfo{AccessedBy: both[:1]})
	noErr(t, r.gpu.Advise(m, UnadviseReadMostly, MemLocation{}))
	noErr(t, r.gpu.Advise(m, UnadvisePreferredLocation, MemLocation{}))
	noErr(t, r.gpu.Advise(m, UnadviseAccessedBy, dev))
	info(first, ManagedInfo{AccessedBy: both[1:]})
	noErr(t, r.s.Attach(m, AttachSingle))
	noErr(t, r.s.Synchronize())

	plain := need(r.gpu.AllocHost(64, 0))(t)
	defer plain.Close()
	for name, err := range map[string]error{
		"advice about other memory":  r.gpu.Advise(plain, AdviseReadMostly, dev),
		"unknown advice":             r.gpu.Advise(m, 99, dev),
		"advice without a place":     r.gpu.Advise(m, AdviseAccessedBy, MemLocation{}),
		"a prefetch of other memory": r.s.Prefetch(plain, dev),
		"a prefetch to nowhere":      r.s.Prefetch(m, MemLocation{}),
		"flags together":             r.s.Attach(m, AttachGlobal|AttachHost),
		"attaching other memory":     r.s.Attach(plain, AttachGlobal),
		"unknown flags":              second2(r.gpu.AllocManaged(8, AttachSingle)),
		"no bytes":                   second2(r.gpu.AllocManaged(0, AttachGlobal)),
	} {
		if !errors.Is(err, ResultInvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.gpu.Advise(nil, AdviseReadMostly, dev); !errors.Is(err, ErrNil) {
		t.Errorf("no memory: %v", err)
	}
	if got := dev.String() + ", " + both[1].String() + ", " +
		AdviseReadMostly.String(); got != "device 0, host, AdviseReadMostly" {
		t.Error(got)
	}
}

func second2[T any](_ T, err error) error { return err }

// TestManagedUnsupported refuses managed memory that the host could not access at any time.
func TestManagedUnsupported(t *testing.T) {
	r := newSoft(t, cusim.DeviceAttribute(driver.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0))
	if _, err := r.gpu.AllocManaged(64, AttachGlobal); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
