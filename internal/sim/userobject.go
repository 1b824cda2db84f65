package sim

import (
	"math"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// This file has user objects: counted references to what a program owns, and a function that is called after
// the last one is released. Graphs can have references. A clone, a child graph and an executable graph gets as
// many references as the graph has that it is made of.

// releaseAll releases references that were retained.
func (d *Driver) releaseAll(r graph.References) {
	for o, n := range r {
		d.unref(o, n)
	}
}

// unref releases references to a user object. After the last one its function is called.
func (d *Driver) unref(o *graph.UserObject, n uint64) {
	if o.All -= n; o.All == 0 {
		d.objects.remove(uintptr(o.Handle))
		d.call(o.Destroy, ok, &hostCall{}, func() {})
	}
}

// retainForNode makes a node of a graph have the references of its work, and of no earlier work.
func (d *Driver) retainForNode(n *graph.Node) {
	old := n.References
	n.References = n.Work.References().Retained()
	d.releaseAll(old)
}

// retainForExec makes an executable graph have the references of its work. Those of earlier work are released
// when all launches are done.
func (d *Driver) retainForExec(x *exec) {
	old := x.References
	x.References = x.AllReferences().Retained()
	if len(old) > 0 {
		x.newest.WhenOver(func() { d.releaseAll(old) })
	}
}

// isCount reports whether a number of references is valid, except for a new object.
func isCount(n uint32) bool { return n > 0 && n <= math.MaxInt32 }

// UserObjectCreate is cuUserObjectCreate. The function is called on another thread, and may not call the driver.
func (d *Driver) UserObjectCreate(_ *driver.Thread, destroy driver.Callback, count,
	flags uint32) (driver.UserObject, driver.Result) {
	defer d.mu.Unlock()
	r := d.begin("cuUserObjectCreate")
	if r == ok {
		r = callable(destroy)
	}
	switch {
	case r != ok:
		return 0, r
	case count == 0, flags != driver.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC:
		return 0, driver.ResultInvalidValue
	}
	o := &graph.UserObject{Destroy: destroy, Own: uint64(count), All: uint64(count)}
	o.Handle = driver.UserObject(d.objects.add(userObjectKind, o))
	return o.Handle, ok
}

// aboutObject begins a call with references to a user object.
func (d *Driver) aboutObject(name string, h driver.UserObject, count uint32) (*graph.UserObject, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	return d.userObject(name, h, count)
}

func (d *Driver) userObject(name string, h driver.UserObject, count uint32) (*graph.UserObject, driver.Result) {
	o, r := find[graph.UserObject](d, name, userObjectKind, uintptr(h))
	if r != ok || !isCount(count) {
		return nil, driver.ResultInvalidValue
	}
	return o, ok
}

// takeOwn takes references from the program, which must have them.
func (d *Driver) takeOwn(name string, o *graph.UserObject, count uint32) driver.Result {
	if o.Own < uint64(count) {
		d.misuse(name, uintptr(o.Handle), "the program does not have so many references", nil)
		return driver.ResultInvalidValue
	}
	o.Own -= uint64(count)
	return ok
}

// UserObjectRetain is cuUserObjectRetain.
func (d *Driver) UserObjectRetain(_ *driver.Thread, h driver.UserObject, count uint32) driver.Result {
	defer d.mu.Unlock()
	o, r := d.aboutObject("cuUserObjectRetain", h, count)
	if r == ok {
		o.Own += uint64(count)
		o.All += uint64(count)
	}
	return r
}

// UserObjectRelease is cuUserObjectRelease.
func (d *Driver) UserObjectRelease(_ *driver.Thread, h driver.UserObject, count uint32) driver.Result {
	const name = "cuUserObjectRelease"
	defer d.mu.Unlock()
	o, r := d.aboutObject(name, h, count)
	if r == ok {
		r = d.takeOwn(name, o, count)
	}
	if r == ok {
		d.unref(o, uint64(count))
	}
	return r
}

// GraphRetainUserObject is cuGraphRetainUserObject. With CU_GRAPH_USER_OBJECT_MOVE the graph gets references
// of the program, and else new ones.
func (d *Driver) GraphRetainUserObject(_ *driver.Thread, gh driver.Graph, h driver.UserObject, count,
	flags uint32) driver.Result {
	const name = "cuGraphRetainUserObject"
	defer d.mu.Unlock()
	g, r := d.graphOf(name, gh)
	if r != ok {
		return r
	}
	o, r := d.userObject(name, h, count)
	switch {
	case r != ok:
		return r
	case flags&^uint32(driver.CU_GRAPH_USER_OBJECT_MOVE) != 0:
		return driver.ResultInvalidValue
	case flags == 0:
		o.All += uint64(count)
	default:
		if r := d.takeOwn(name, o, count); r != ok {
			return r
		}
	}
	g.References.Add(graph.References{o: uint64(count)})
	return ok
}

// GraphReleaseUserObject is cuGraphReleaseUserObject. If the graph has fewer references, the rest
// are those of the program, and if it has none, nothing is released. This fits what an H200
// answered: both calls succeed, and after one for all references of the graph and the program, the
// destructor has run once. An H200 was not asked whether a call for a graph without references
// changes the program's, nor about references of other graphs: here they stay.
func (d *Driver) GraphReleaseUserObject(_ *driver.Thread, gh driver.Graph, h driver.UserObject,
	count uint32) driver.Result {
	const name = "cuGraphReleaseUserObject"
	defer d.mu.Unlock()
	g, r := d.graphOf(name, gh)
	if r != ok {
		return r
	}
	o, r := d.userObject(name, h, count)
	if r != ok {
		return r
	}
	n, has := uint64(count), g.References[o]
	if n > has {
		d.misuse(name, uintptr(h), "the graph does not have so many references", nil)
		if has == 0 {
			return ok
		}
		own := min(n-has, o.Own)
		o.Own -= own
		n = has + own
	}
	if g.References[o] -= min(n, has); g.References[o] == 0 {
		delete(g.References, o)
	}
	d.unref(o, n)
	return ok
}
