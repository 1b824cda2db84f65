package sim

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/engine"
)

// TB is a cusim.TB.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Finish releases all held streams, and advances virtual time until all work has completed that
// only needs time.
func (d *Driver) Finish() {
	d.mu.Lock()
	for _, dev := range d.devices {
		for _, c := range dev.contexts {
			for _, s := range slices.Clone(c.streams) {
				if s.Held() {
					d.engine.Release(&s.Stream)
				}
			}
		}
	}
	d.mu.Unlock()
	for range 1000 { // work may enqueue more
		d.mu.Lock()
		if d.engine.Settle(engine.LateSettling); d.engine.Executing() > 0 { // a kernel that would never end
			for _, o := range d.engine.Outside() {
				switch x := o.Execution(); {
				case x == nil:
				case x.Kind == engine.KernelInGo:
					d.misuse(x.Kernel, 0, "the function in Go that takes the place of the kernel has not returned: it may "+
						"wait for what the program has to do", nil)
				default:
					x.Ended = true
				}
			}
			d.poison(driver.ResultLaunchTimeout)
			d.engine.Quiet()
		}
		at, pending := d.engine.Next()
		by := time.Duration(at - d.engine.Clock.At())
		d.mu.Unlock()
		if !d.engine.Clock.Virtual || !pending {
			return
		}
		d.Advance(max(by, 0))
	}
}

// Census returns the number of objects that were created and not destroyed, by kind. After the loss
// of the device the result is empty, as a program then cannot destroy anything.
func (d *Driver) Census() map[string]int {
	n := make(map[string]int)
	for kind := range d.open {
		n[kind]++
	}
	return n
}

// open yields the kind and the stack of the creation of each object that the program has to destroy.
func (d *Driver) open(yield func(kind string, created []uintptr) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine.CatchUp()
	if d.unreachable {
		return
	}
	for i := range d.objects.places {
		if p := &d.objects.places[i]; p.open() && !yield(p.kind.String(), p.created) {
			return
		}
	}
	d.space.open(yield)
}

// open reports whether the place has an object that the program has to destroy.
func (p *place) open() bool {
	if c := p.context(); c != nil {
		return !c.destroyed && p.kind != functionKind
	}
	switch o := p.object.(type) {
	case *context:
		return !o.destroyed
	case *memPool:
		return o.created
	}
	switch p.kind {
	case graphKind, graphExecKind, greenKind, physicalKind, libraryKind, linkKind, userObjectKind:
		return p.object != nil
	}
	return false
}

// Report makes the driver write a report to w when it ends: see End.
func Report(w io.Writer) Option { return func(d *Driver) { d.report = w } }

// Closed is called when a program closes the driver. The last one of those that have opened it ends the driver.
func (d *Driver) Closed() {
	d.mu.Lock()
	d.opens--
	last := d.opens == 0
	d.mu.Unlock()
	if last {
		d.End(true)
	}
}

// End writes the misuses and the objects that are still open, if Report has asked for that. stacks says
// whether it writes where objects were destroyed, which is in Go code only.
func (d *Driver) End(stacks bool) {
	if d.report == nil {
		return
	}
	for _, m := range d.Misuses() {
		if m.Count > 1 {
			m.What += fmt.Sprintf(" (%d times)", m.Count)
		}
		if !stacks {
			m.Destroyed = ""
		}
		fmt.Fprintf(d.report, "cusim: misuse: %s\n", strings.TrimSuffix(m.String(), "\n"))
	}
	census := d.Census()
	for _, k := range slices.Sorted(maps.Keys(census)) {
		fmt.Fprintf(d.report, "cusim: not closed: %d × %s\n", census[k], k)
	}
}

// Check reports the objects that were not destroyed, and the misuses, as errors of a test.
func (d *Driver) Check(t TB) {
	t.Helper()
	if left := d.leftOpen(); left != "" {
		t.Errorf("cusim: not closed at the end of the test: %s", left)
	}
	for _, m := range d.Misuses() {
		t.Errorf("cusim: misuse: %v", m)
	}
}

// mostPlaces is how many places in the program leftOpen names.
const mostPlaces = 20

// leftOpen says which objects of the program are open, and where they were created.
func (d *Driver) leftOpen() string {
	kinds, places := map[string]int{}, map[string]int{}
	add := func(kind string, created []uintptr) {
		kinds[kind]++
		places[kind+", created here:\n"+inProgram(created)]++
	}
	var closed [][]uintptr // contexts that cutest has closed
	for kind, created := range d.open {
		switch at := frames(created, nothing); {
		case kind == streamKind.String() && strings.Contains(at, ownStreams): // its context is open, too
		case kind == contextKind.String() && strings.Contains(at, ownContext):
			closed = append(closed, created)
		default:
			add(kind, created)
		}
	}
	if len(kinds) == 0 { // else what is open keeps them
		for _, created := range closed {
			add(contextKind.String(), created)
		}
	}
	list := func(of map[string]int, sep string) string {
		var s []string
		for _, k := range slices.Sorted(maps.Keys(of)) {
			s = append(s, fmt.Sprintf("%d × %s", of[k], k))
		}
		if n := len(s) - mostPlaces; n > 0 {
			s = append(s[:mostPlaces], fmt.Sprintf("and at %d more places", n))
		}
		return strings.Join(s, sep)
	}
	if len(kinds) == 0 {
		return ""
	}
	return list(kinds, ", ") + "\n" + list(places, "")
}

// ownStreams is the function in which package cu's core creates streams of its own.
const ownStreams = "purecu/internal/core.(*Context).AddWakeUp\n"

// ownContext is the function in which package cutest creates a context, which it closes itself.
const ownContext = "purecu/cutest.Context\n"
