package core_test

import (
	"reflect"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/core"
)

// impostor has a method of the same name, of another package.
type impostor struct{}

func (impostor) ref() *core.Ref[core.Driver] { return nil }

// open returns a Driver, and a Context and a Stream of its first device.
func open(t *testing.T) (*cu.Driver, *cu.Context, *cu.Stream) {
	t.Helper()
	drv, err := cu.Open(cu.WithSoftware(cusim.New()))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		t.Fatal(err)
	}
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		gpu.Close()
		drv.Close()
	})
	return drv, gpu, s
}

// TestRefs checks that the states of objects of cu are found from here.
func TestRefs(t *testing.T) {
	drv, gpu, s := open(t)
	other, _, _ := open(t)
	d := core.Of(drv)
	if d == nil || d != core.Of(drv) || d == core.Of(other) || d.Name != drv.String() {
		t.Errorf("the Driver is %p", d)
	}
	if dev := core.Of(gpu.Device()); dev.Drv != d || dev.Ordinal != gpu.Device().Ordinal() {
		t.Errorf("the Device is %v", dev)
	}
	cc := core.Of(gpu).Context
	if cc.Drv != d || uintptr(cc.Raw) != gpu.Handle() {
		t.Errorf("the Context is %p", cc)
	}
	if sc := core.Of(s); sc.Ctx != cc || uintptr(sc.Raw) != s.Handle() {
		t.Errorf("the Stream is %p", sc)
	}
	m, err := gpu.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if mc := core.Of(m); mc.Ctx != cc || mc.Size != m.Size() {
		t.Errorf("the Mem is %p", mc)
	}
	e, err := gpu.NewEvent(cu.EventDefault)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if ec := core.CreatedOwner(core.EventRefOf(e)).Event; ec.Ctx != cc {
		t.Errorf("the Event is %p", ec)
	}
	if core.Of(new(cu.Driver)) != nil || core.Of(new(cu.Stream)) != nil ||
		core.CreatedOwner(core.EventRefOf(new(cu.Event))) != nil {
		t.Error("a zero object has a state")
	}
	if _, is := any(impostor{}).(core.Has[core.Driver]); is || (impostor{}).ref() != nil {
		t.Error("a type of another package is a Has")
	}
}

// TestRefsAreHidden checks that what objects of cu embed shows nothing to programs.
func TestRefsAreHidden(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[cu.Driver](), reflect.TypeFor[cu.Device](), reflect.TypeFor[cu.Context](),
		reflect.TypeFor[cu.Stream](), reflect.TypeFor[cu.Event](), reflect.TypeFor[cu.DeviceMem](),
		reflect.TypeFor[cu.HostMem](),
		reflect.TypeFor[cu.Span](), reflect.TypeFor[cu.ExternalOp](), reflect.TypeFor[memory.Pool]()} {
		refs := 0
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.IsExported() {
				t.Errorf("%v has the exported field %s", typ, f.Name)
			}
			if !f.Anonymous {
				continue
			}
			refs++
			if reflect.PointerTo(f.Type).NumMethod() != 0 { // they would be promoted
				t.Errorf("%v has the methods of %v", typ, f.Type)
			}
			for j := range f.Type.NumField() {
				if f := f.Type.Field(j); f.IsExported() {
					t.Errorf("%v has the exported field %s", typ, f.Name)
				}
			}
		}
		if refs != 1 {
			t.Errorf("%v embeds %d types", typ, refs)
		}
	}
}

// TestRefIsCheap checks that it takes no memory to get from an object to its state.
func TestRefIsCheap(t *testing.T) {
	drv, e := new(cu.Driver), new(cu.Event)
	if n := testing.AllocsPerRun(100, func() {
		core.Of(drv)
		core.CreatedOwner(core.EventRefOf(e))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
