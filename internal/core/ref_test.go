package core_test

import (
	"reflect"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/core"
)

// impostor has a method of the same name, of another package.
type impostor struct{}

func (impostor) driver() *core.Driver { return nil }

// TestRefs checks that what an object of cu embeds is found from here, and shows nothing to programs.
func TestRefs(t *testing.T) {
	drv, err := cu.Open(cu.WithSoftware(cusim.New()))
	if err != nil {
		t.Fatal(err)
	}
	other, err := cu.Open(cu.WithSoftware(cusim.New()))
	if err != nil {
		t.Fatal(err)
	}
	d := core.DriverOf(drv)
	if d == nil || d != core.DriverOf(drv) || d == core.DriverOf(other) || d.Name != drv.String() {
		t.Errorf("the Driver is %p", d)
	}
	if d := core.DriverOf(new(cu.Driver)); d != nil {
		t.Errorf("a zero cu.Driver has the Driver %p", d)
	}
	if _, is := any(impostor{}).(core.HasDriver); is || (impostor{}).driver() != nil {
		t.Error("a type of another package is a HasDriver")
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[core.DriverRef](), reflect.TypeFor[cu.Driver]()} {
		for f := range typ.NumField() {
			if f := typ.Field(f); f.IsExported() {
				t.Errorf("%v has the exported field %s", typ, f.Name)
			}
		}
	}
	if typ := reflect.TypeFor[*core.DriverRef](); typ.NumMethod() != 0 {
		t.Errorf("%v has the exported method %s", typ, typ.Method(0).Name)
	}
	for f := range reflect.TypeFor[cu.Driver]().NumField() { // a field that is embedded has its methods promoted
		if f := reflect.TypeFor[cu.Driver]().Field(f); f.Anonymous && reflect.PointerTo(f.Type).NumMethod() != 0 {
			t.Errorf("cu.Driver has the methods of %v", f.Type)
		}
	}
}

// TestRefIsCheap checks that it takes no memory to get from an object to its state.
func TestRefIsCheap(t *testing.T) {
	drv := new(cu.Driver)
	if n := testing.AllocsPerRun(100, func() { core.DriverOf(drv) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
