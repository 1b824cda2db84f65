package sim

import (
	"slices"
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

// TestLeftObjects ends contexts in which there are objects. The driver knows the objects of the last ones only, and
// answers calls with all streams alike. A library that all contexts have used is unloaded then.
func TestLeftObjects(t *testing.T) {
	r := newLab(t)
	var streams []driver.Stream
	l, res := r.LibraryLoadData(r.th, []byte(header+".visible .entry own() { ret; }"), nil, nil, nil, nil)
	r.must(res)
	own, res := r.LibraryGetKernel(r.th, l, "own")
	r.must(res)
	for range mostLeft {
		c, res := r.CtxCreate(r.th, nil, 0, 0)
		r.must(res)
		s, res := r.StreamCreate(r.th, 0)
		r.must(res)
		_, res = r.EventCreate(r.th, 0)
		r.must(res)
		m, _, res := r.ModuleLoadLog(r.th, []byte(header+".visible .entry k() { ret; }"), nil)
		r.must(res)
		_, res = r.ModuleGetFunction(r.th, m, "k")
		r.must(res)
		_, res = r.KernelGetFunction(r.th, own)
		r.must(res)
		r.must(r.CtxDestroy(r.th, c))
		streams = append(streams, s)
	}
	r.must(r.CtxSetCurrent(r.th, r.ctx))
	for _, s := range []driver.Stream{streams[0], streams[mostLeft-1]} {
		if res := r.StreamSynchronize(r.th, s); res != driver.ResultContextIsDestroyed {
			t.Errorf("a stream whose context has ended: %v", res)
		}
	}
	r.takeMisuses()
	r.must(r.LibraryUnload(r.th, l))
	r.mu.Lock()
	defer r.mu.Unlock()
	free := slices.Sorted(slices.Values(r.objects.free))
	if n := len(free); len(slices.Compact(free)) != n {
		t.Error("a place is free twice")
	}
	if n := len(r.objects.places); n > 2*mostLeft {
		t.Errorf("there are %d places of objects", n)
	}
}
