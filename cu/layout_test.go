package cu

import (
	"reflect"
	"testing"
)

// TestLines keeps what every record and wait looks at away from what others write.
func TestLines(t *testing.T) {
	const line = 64
	offset := func(typ reflect.Type, name string) uintptr {
		f, ok := typ.FieldByName(name)
		if !ok {
			t.Fatalf("%v has no field %s", typ, name)
		}
		return f.Offset
	}
	// Those that goroutines of their own use begin, and end, with a line.
	for _, typ := range []reflect.Type{reflect.TypeFor[eventCore](), reflect.TypeFor[streamCore]()} {
		if typ.Size()%line != 0 {
			t.Errorf("%v has %d bytes", typ, typ.Size())
		}
	}
	// A record and a query touch one line of an event.
	if end := offset(reflect.TypeFor[eventCore](), "first") + offset(reflect.TypeFor[slot](), "core"); end > line {
		t.Errorf("what a record touches are the first %d bytes of an event", end)
	}
	drv, captures := reflect.TypeFor[Driver](), reflect.TypeFor[captures]()
	n := offset(drv, "captures") + offset(captures, "n")
	for name, other := range map[string]uintptr{
		"events":                             offset(drv, "events"),
		"captures.mu":                        offset(drv, "captures") + offset(captures, "mu"),
		"captures.polls":                     offset(drv, "captures") + offset(captures, "polls"),
		"frames, which end before captures,": offset(drv, "captures"),
	} {
		if d := max(n, other) - min(n, other); d < line {
			t.Errorf("%s is %d bytes from captures.n", name, d)
		}
	}
}
