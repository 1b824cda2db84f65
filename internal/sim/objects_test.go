package sim

import (
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestReusedPlace checks that the handle of a destroyed object is treated alike, whatever uses its place by now.
func TestReusedPlace(t *testing.T) {
	var o objects
	old := o.add(contextKind, new(context))
	o.remove(old)
	for range 64 { // a place is used again when so many others are free
		o.places = append(o.places, place{})
		o.free = append(o.free, uint32(len(o.places)-1))
	}
	if h := o.add(greenKind, new(greenContext)); o.places[0].object == nil {
		t.Fatalf("%#x is not at the place of %#x", h, old)
	}
	object, p := o.find(old)
	if got := contextKind.unknown(p); object != nil || got != driver.ResultContextIsDestroyed {
		t.Errorf("the handle of the context that was destroyed: %v, %v", object, got)
	}
	o.lose(old)
	if k := o.places[0].kind; k != greenKind {
		t.Errorf("the other object is of kind %v now", k)
	}
}
