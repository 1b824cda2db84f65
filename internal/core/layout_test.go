package core

import (
	"reflect"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestLines keeps what every record and wait looks at away from what others write.
func TestLines(t *testing.T) {
	const line = 64
	offset := func(typ reflect.Type, name string) uintptr {
		f, ok := typ.FieldByName(name)
		if !ok {
			t.Fatalf("%v has no field %s", typ, name)
		}
		at := uintptr(0) // FieldByName returns the offset in the embedded structure
		for _, i := range f.Index {
			field := typ.Field(i)
			at, typ = at+field.Offset, field.Type
		}
		return at
	}
	// Those that goroutines of their own use begin, and end, with a line.
	for _, typ := range []reflect.Type{reflect.TypeFor[Event](), reflect.TypeFor[Stream]()} {
		if typ.Size()%line != 0 {
			t.Errorf("%v has %d bytes", typ, typ.Size())
		}
	}
	event, stream := reflect.TypeFor[Event](), reflect.TypeFor[Stream]()
	first := offset(event, "First")
	if end := first + offset(reflect.TypeFor[Slot](), "On"); end > line {
		t.Errorf("what a query touches are the first %d bytes of an event", end)
	}
	if end := offset(event, "ID"); end > 2*line || first+offset(reflect.TypeFor[Slot](), "capture") > end {
		t.Errorf("what a record touches are the first %d bytes of an event", end)
	}
	end := offset(stream, "Resource") + offset(reflect.TypeFor[Resource](), "Self")
	if end > line || offset(stream, "Serial") > end {
		t.Errorf("what a record touches are the first %d bytes of a stream", end)
	}
	drv := reflect.TypeFor[Driver]()
	table := offset(drv, "Functions")
	for _, name := range []string{"Tracers", "Capturing", "NeedContext", "Sequenced"} {
		if offset(drv, name) > table {
			t.Errorf("%s comes after the calls of the driver", name)
		}
	}
	if end := table + offset(reflect.TypeFor[driver.Table](), "clock"); end > line {
		t.Errorf("what every call reads are the first %d bytes of a driver", end)
	}
	for _, name := range []string{"Events", "Captures", "eventSlabs"} {
		if offset(drv, name) < 2*line {
			t.Errorf("%s is written, and only %d bytes from what every call reads", name, offset(drv, name))
		}
	}
}
