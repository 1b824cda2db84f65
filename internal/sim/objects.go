package sim

import (
	"runtime"

	"github.com/purecu/purecu/driver"
)

// kind is what a handle stands for.
type kind uint8

const (
	noKind kind = iota
	contextKind
	streamKind
	eventKind
	moduleKind
	functionKind
	graphKind
	graphExecKind
	nodeKind
	greenKind
	descriptorKind
	kindCount
)

// String names the kind.
func (k kind) String() string {
	return [...]string{"nothing", "context", "stream", "event", "module", "function", "graph", "executable graph", "graph node", "green context",
		"resource descriptor"}[k]
}

// objects maps handles to objects. A handle holds a place in the table, and how
// often the place was used: a handle of something that was destroyed is known as
// such, until its place has been used many thousand times more.
type objects struct {
	places []place
	free   []uint32
	live   [kindCount]int
}

// place is where an object is, or was.
type place struct {
	object    any
	kind      kind
	uses      uint16
	destroyed []uintptr // by whom
}

// orphan reports whether there is an object there whose context was destroyed.
func (p *place) orphan() bool {
	switch o := p.object.(type) {
	case *module:
		return o.ctx.destroyed
	case *stream:
		return o.ctx.destroyed
	case *event:
		return o.ctx.destroyed
	}
	return false
}

// Handles look like addresses, so that nobody takes them for anything else.
const (
	handleBase  = 0x5a << 44
	handleShift = 4
)

// add gives an object a handle.
func (t *objects) add(k kind, object any) uintptr {
	var i uint32
	if n := len(t.free); n > 64 { // later uses of a destroyed handle are found out
		i = t.free[0]
		t.free = t.free[1:]
	} else {
		t.places = append(t.places, place{})
		i = uint32(len(t.places) - 1)
	}
	p := &t.places[i]
	p.object, p.kind, p.destroyed = object, k, nil
	p.uses++
	t.live[k]++
	return handleBase | uintptr(p.uses&0xff)<<36 | uintptr(i)<<handleShift
}

// find returns the object behind a handle, and its place, or nil if the handle is
// none.
func (t *objects) find(h uintptr) (object any, p *place) {
	i := h & (1<<36 - 1) >> handleShift
	if h&^(0xff<<36|(1<<36-1)) != handleBase || i >= uintptr(len(t.places)) || h&(1<<handleShift-1) != 0 {
		return nil, nil
	}
	p = &t.places[i]
	if uintptr(p.uses&0xff) != h>>36&0xff {
		return nil, p // its place is used by another one
	}
	return p.object, p
}

// remove forgets an object.
func (t *objects) remove(h uintptr) {
	_, p := t.find(h)
	t.live[p.kind]--
	pcs := make([]uintptr, 12)
	p.destroyed = pcs[:runtime.Callers(3, pcs)]
	p.object = nil
	t.free = append(t.free, uint32(h&(1<<36-1)>>handleShift))
}

// find returns the object behind a handle. If there is none NVIDIA's driver would
// crash, unless the handle is NULL.
func find[T any](d *Driver, op string, k kind, h uintptr) (*T, driver.Result) {
	if h == 0 {
		return nil, driver.ResultInvalidHandle
	}
	object, p := d.objects.find(h)
	if o, is := object.(*T); is {
		return o, ok
	}
	switch {
	case p == nil:
		d.misuse(op, h, "this is no handle", nil)
	case object == nil:
		d.misuse(op, h, "the "+k.String()+" was destroyed", p.destroyed)
	default:
		d.misuse(op, h, "this handle is of kind "+p.kind.String()+", not "+k.String(), nil)
	}
	return nil, driver.ResultInvalidHandle
}
