package cu_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

func (r *soft) managed(size uint64) *HostMem {
	r.t.Helper()
	m := need(memory.AllocManaged(r.gpu, size, memory.AttachGlobal))(r.t)
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
		noErr(t, memory.Prefetch(s, m, memory.LocationOf(ctx.Device())))
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
	info := need(memory.PointerInfoOf(r.gpu, uint64(m.Handle())))(t)
	if !info.Managed || info.Type != memory.TypeDevice || info.HostPointer != uint64(m.Handle()) {
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
	dev := memory.LocationOf(r.gpu.Device())
	info := func(mem Memory, want memory.ManagedInfo) {
		t.Helper()
		if diff := cmp.Diff(want, need(memory.ManagedInfoOf(r.gpu, mem))(t)); diff != "" {
			t.Errorf("ManagedInfo (-want +got):\n%s", diff)
		}
	}
	info(m, memory.ManagedInfo{})
	first, second := m.Span(0, 1<<15), m.Span(1<<15, 1<<15)
	noErr(t, memory.Advise(r.gpu, first, memory.AdviseReadMostly, memory.Location{}))
	noErr(t, memory.Advise(r.gpu, first, memory.AdvisePreferredLocation, memory.Location{Type: memory.LocationHost}))
	noErr(t, memory.Advise(r.gpu, m, memory.AdvisePreferredLocation, memory.Location{Type: memory.LocationHostNUMA, ID: 0})) // has no effect
	noErr(t, memory.Advise(r.gpu, m, memory.AdviseAccessedBy, dev))
	noErr(t, memory.Advise(r.gpu, first, memory.AdviseAccessedBy, memory.Location{Type: memory.LocationHost}))
	noErr(t, memory.Prefetch(r.s, second, dev))
	both := []memory.Location{dev, {Type: memory.LocationHost}}
	info(first, memory.ManagedInfo{ReadMostly: true, Preferred: both[1], AccessedBy: both})
	info(second, memory.ManagedInfo{LastPrefetch: dev, AccessedBy: both[:1]})
	info(m, memory.ManagedInfo{AccessedBy: both[:1]})
	noErr(t, memory.Advise(r.gpu, m, memory.UnadviseReadMostly, memory.Location{}))
	noErr(t, memory.Advise(r.gpu, m, memory.UnadvisePreferredLocation, memory.Location{}))
	noErr(t, memory.Advise(r.gpu, m, memory.UnadviseAccessedBy, dev))
	info(first, memory.ManagedInfo{AccessedBy: both[1:]})
	noErr(t, memory.Attach(r.s, m, memory.AttachSingle))
	noErr(t, r.s.Synchronize())

	plain := need(r.gpu.AllocHost(64, 0))(t)
	defer plain.Close()
	for name, err := range map[string]error{
		"advice about other memory":  memory.Advise(r.gpu, plain, memory.AdviseReadMostly, dev),
		"unknown advice":             memory.Advise(r.gpu, m, 99, dev),
		"advice without a place":     memory.Advise(r.gpu, m, memory.AdviseAccessedBy, memory.Location{}),
		"a prefetch of other memory": memory.Prefetch(r.s, plain, dev),
		"a prefetch to nowhere":      memory.Prefetch(r.s, m, memory.Location{}),
		"flags together":             memory.Attach(r.s, m, memory.AttachGlobal|memory.AttachHost),
		"attaching other memory":     memory.Attach(r.s, plain, memory.AttachGlobal),
		"unknown flags":              second2(memory.AllocManaged(r.gpu, 8, memory.AttachSingle)),
		"no bytes":                   second2(memory.AllocManaged(r.gpu, 0, memory.AttachGlobal)),
	} {
		if !errors.Is(err, ResultInvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := memory.Advise(r.gpu, nil, memory.AdviseReadMostly, dev); !errors.Is(err, ErrNil) {
		t.Errorf("no memory: %v", err)
	}
	if got := dev.String() + ", " + both[1].String() + ", " +
		memory.AdviseReadMostly.String(); got != "device 0, host, AdviseReadMostly" {
		t.Error(got)
	}
}

func second2[T any](_ T, err error) error { return err }

// TestManagedUnsupported refuses managed memory that the host could not access at any time.
func TestManagedUnsupported(t *testing.T) {
	r := newSoft(t, cusim.DeviceAttribute(driver.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0))
	if _, err := memory.AllocManaged(r.gpu, 64, memory.AttachGlobal); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
