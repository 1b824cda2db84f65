package sim

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/purecu/purecu/driver"
)

// kind is the kind of object that a handle stands for.
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
	poolKind
	physicalKind
	partKind // a graph that a node owns, or a graph that is lost: nobody can destroy it
	libraryKind
	kernelKind
	linkKind
	externalMemoryKind
	externalSemaphoreKind
	userObjectKind
	arrayKind
	textureKind
	surfaceKind
)

// String returns the name of the kind.
func (k kind) String() string {
	return [...]string{"nothing", "context", "stream", "event", "module", "function", "graph", "executable graph", "graph node", "green context",
		"resource descriptor", "memory pool", "physical memory", "graph of a node", "library", "kernel",
		"linker", "external memory", "external semaphore", "user object", "array", "texture object",
		"surface object"}[k]
}

// objects maps handles to objects. A handle contains an index of the table, and how often this
// place was used. So the handle of a destroyed object is recognised, until its place has been used
// many thousand times more.
type objects struct {
	places []place
	free   []uint32
	left   []uintptr // the handles of objects whose contexts have ended, in this order
	images images
}

// images are the textures and surfaces.
type images struct {
	sync.Map        // by their imageKey: kernels read them without the lock
	launches uint64 // how many launches were enqueued
	gone     []imageKey
}

// imageKey is the kind and the handle of a texture or a surface.
type imageKey struct {
	kind   kind
	handle uintptr
}

// place is an entry of the table.
type place struct {
	object    any
	kind      kind
	uses      uint16
	created   []uintptr // the stack of the creation
	destroyed []uintptr // the stack of the destruction
}

// Handles look like addresses, so that they are not mistaken for other numbers.
const (
	handleBase  = 0x5a << 44
	handleShift = 4
)

// add adds an object, and returns its handle.
func (t *objects) add(k kind, object any) uintptr {
	var i uint32
	if n := len(t.free); n > 64 { // reuse places late, so that uses of destroyed handles are recognised
		i = t.free[0]
		t.free = t.free[1:]
	} else {
		t.places = append(t.places, place{})
		i = uint32(len(t.places) - 1)
	}
	p := &t.places[i]
	p.object, p.kind, p.created, p.destroyed = object, k, stack(), nil
	p.uses++
	return p.handle(i)
}

// handle returns the handle of the object at a place, which has an index.
func (p *place) handle(i uint32) uintptr {
	return handleBase | uintptr(p.uses&0xff)<<36 | uintptr(i)<<handleShift
}

// stack returns the program counters of the callers.
func stack() []uintptr {
	var pcs [24]uintptr
	return slices.Clone(pcs[:runtime.Callers(3, pcs[:])])
}

// find returns the object of a handle and its place, or nil. The place is empty if another object uses it by now.
func (t *objects) find(h uintptr) (object any, p *place) {
	i := h & (1<<36 - 1) >> handleShift
	if h&^(0xff<<36|(1<<36-1)) != handleBase || i >= uintptr(len(t.places)) || h&(1<<handleShift-1) != 0 {
		return nil, nil
	}
	p = &t.places[i]
	if uintptr(p.uses&0xff) != h>>36&0xff {
		return nil, new(place)
	}
	return p.object, p
}

// lose lets a graph not count as open any more.
func (t *objects) lose(h uintptr) {
	if _, p := t.find(h); p != nil && p.kind == graphKind {
		p.kind = partKind
	}
}

// remove removes an object, if it was not removed before.
func (t *objects) remove(h uintptr) {
	object, p := t.find(h)
	if object == nil {
		return
	}
	p.object, p.created, p.destroyed = nil, nil, stack()
	t.free = append(t.free, uint32(h&(1<<36-1)>>handleShift))
}

// find returns the object of a handle. If there is none, this is a misuse, as NVIDIA's driver would
// crash, unless the handle is NULL.
func find[T any](d *Driver, name string, k kind, h uintptr) (*T, driver.Result) {
	if h == 0 {
		return nil, k.unknown(nil)
	}
	object, p := d.objects.find(h)
	if o, is := object.(*T); is {
		return o, ok
	}
	switch {
	case p == nil:
		d.misuse(name, h, "this is no handle", nil)
	case object == nil:
		d.misuse(name, h, "the "+k.String()+" was destroyed", p.destroyed)
	default:
		d.misuse(name, h, "this handle is of kind "+p.kind.String()+", not "+k.String(), nil)
	}
	return nil, k.unknown(p)
}

// unknown is the result for a handle that is of no object of a kind. p is the handle's place, if it was ever a handle.
// Of streams, events, arrays and contexts, an H200 reads the context that should be there, if it does not crash, and
// finds that it is none.
func (k kind) unknown(p *place) driver.Result {
	ofContext := k == contextKind || k == greenKind
	switch {
	case k == contextKind && p != nil && p.kind == greenKind: // what it reads there is a context, but of another type
		return driver.ResultInvalidContext
	case p != nil && (ofContext || k == streamKind || k == eventKind || k == arrayKind):
		return driver.ResultContextIsDestroyed
	case ofContext:
		return driver.ResultInvalidContext
	}
	return driver.ResultInvalidHandle
}

// String returns a text with all fields.
func (m Misuse) String() string {
	s := fmt.Sprintf("%s(%#x): %s", m.Op, m.Handle, m.What)
	if m.Destroyed != "" {
		s += "; it was destroyed here:\n" + m.Destroyed
	}
	return s
}

// misuse records a call in which NVIDIA's driver may crash.
func (d *Driver) misuse(name string, h uintptr, what string, destroyed []uintptr) {
	m := Misuse{Op: name, Handle: h, What: what, Destroyed: inProgram(destroyed), Count: 1}
	if n := len(d.misuses); n > 0 {
		if last := &d.misuses[n-1]; last.Op == m.Op && last.Handle == m.Handle && last.What == m.What {
			last.Count++
			return
		}
	}
	if len(d.misuses) < maxMisuses {
		d.misuses = append(d.misuses, m)
	}
}

// maxMisuses is how many misuses are kept at most.
const maxMisuses = 1000

// frames returns the callers outside of the driver, innermost first, without the functions that hide selects.
func frames(pcs []uintptr, hide func(function string) bool) string {
	var b strings.Builder
	for f, more := runtime.CallersFrames(pcs), true; more; {
		var frame runtime.Frame
		frame, more = f.Next()
		inside := func(what string) bool { return strings.Contains(frame.Function, what) }
		if frame.Function == "" || inside("purecu/internal/sim.(*") || inside("purecu/internal/sim/engine.") ||
			strings.HasPrefix(frame.Function, "github.com/purecu/purecu/driver.") ||
			strings.HasPrefix(frame.Function, "runtime.") ||
			hide(frame.Function) {
			continue
		}
		fmt.Fprintf(&b, "\t%s\n\t\t%s:%d\n", frame.Function, frame.File, frame.Line)
	}
	return b.String()
}

// nothing hides no function.
func nothing(string) bool { return false }

// inProgram returns the frames of a program that uses package cu.
func inProgram(pcs []uintptr) string {
	return frames(pcs, func(function string) bool {
		return ofLibrary(function) || strings.HasPrefix(function, "testing.")
	})
}

// ofLibrary reports whether a function is of package cu, of one in its folder, or of one below. Tests in this package
// are programs.
func ofLibrary(function string) bool {
	rest, ok := strings.CutPrefix(function, "github.com/purecu/purecu/")
	pkg, _, _ := strings.Cut(rest, ".")
	return ok && !strings.HasSuffix(pkg, "_test") && pkg != "internal/sim" &&
		(pkg == "cu" || strings.HasPrefix(pkg, "cu/") || strings.HasPrefix(pkg, "internal/"))
}
