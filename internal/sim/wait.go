package sim

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/engine"
)

// waitFor makes a call wait for operations, which may be nil.
func (d *Driver) waitFor(name string, h uintptr, ops ...*op) driver.Result {
	if w := engine.WaitFor(ops...); d.over(&w) {
		return d.lost
	}
	// The caller's ops can stay on its stack if only a wait that lasts copies them.
	return d.wait(&wait{name: name, handle: h, Wait: engine.WaitFor(slices.Clone(ops)...)})
}

// waitAll makes a call wait for the operations of a context up to a number.
func (d *Driver) waitAll(name string, h uintptr, c *context, last uint64) driver.Result {
	w := engine.Wait{List: &c.pending, Last: last}
	if d.over(&w) {
		return d.lost
	}
	return d.wait(&wait{name: name, handle: h, Wait: w})
}

// drain waits for the operations that are pending in a context now, and not for later ones. The
// driver is unlocked during the wait.
func (d *Driver) drain(name string, h uintptr, c *context) driver.Result {
	return d.waitAll(name, h, c, c.pending.Newest())
}

// over reports whether a call need not wait, as w is over, or as there is a sticky error. Most calls ask only this,
// which allocates nothing.
func (d *Driver) over(w *engine.Wait) bool {
	d.engine.CatchUp()
	if d.lost != ok {
		d.engine.Quiet()
	}
	return d.lost != ok || w.Over()
}

// wait waits until w, which is not over, is over, or until a sticky error, which it returns. A wait that would never
// end is a misuse, and returns CUDA_ERROR_NOT_PERMITTED. The driver is unlocked during the wait.
func (d *Driver) wait(w *wait) driver.Result {
	if w.host = d.host(); w.host != nil {
		if d.endless(w) {
			d.misuse(w.name, w.handle, endlessWait, nil)
			return driver.ResultNotPermitted
		}
		defer w.host.begin(w)()
	}
	w.begun = time.Now()
	d.waits = append(d.waits, w)
	d.engine.Wait(&w.Wait, func() {
		if d.asking > 0 && w.caller == nil { // not before, as it takes as long as a short kernel
			w.caller = make([]uintptr, 32)
			w.caller = w.caller[:runtime.Callers(2, w.caller)]
			d.engine.Changed.Broadcast()
		}
	})
	d.waits = slices.DeleteFunc(d.waits, func(other *wait) bool { return other == w })
	if d.lost != ok {
		d.engine.Quiet()
	}
	return d.lost
}

// BeginWait is for package cu, which waits by polling. It returns CUDA_ERROR_NOT_PERMITTED if a host function is about
// to wait for one of several events, or without events for all work in a context, and has to return before that.
func (d *Driver) BeginWait(h driver.Context, events []driver.Event) (end func(), r driver.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	host := d.host()
	if host == nil || d.lost != ok {
		return nil, ok
	}
	d.engine.CatchUp()
	w, waited := &wait{name: "cuEventQuery", host: host}, uintptr(h)
	w.Any = len(events) > 1
	if len(events) == 0 {
		object, _ := d.objects.find(uintptr(h))
		c, is := object.(*context)
		if !is {
			return nil, ok
		}
		w.name, w.List, w.Last = "cuCtxSynchronize", &c.pending, c.pending.Newest()
	}
	for _, e := range events {
		object, _ := d.objects.find(uintptr(e))
		e, is := object.(*event)
		if !is || e.point.op == nil {
			return nil, ok
		}
		w.Ops, waited = append(w.Ops, e.point.op), uintptr(events[0])
	}
	if d.endless(w) {
		d.misuse(w.name, waited, endlessWait, nil)
		return nil, driver.ResultNotPermitted
	}
	over := host.begin(w)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		over()
	}, ok
}

const endlessWait = "a host function waits for what comes after it: this would never end; let the function return, " +
	"and another goroutine wait"

// endless reports whether a call of a host function waits for the end of this function, directly or
// through other waits.
func (d *Driver) endless(w *wait) bool {
	seen := make(map[*hostCall]bool)
	for list := []*wait{w}; len(list) > 0; {
		next := list[0]
		list = list[1:]
		for _, h := range d.hosts {
			switch {
			case seen[h] || h.op == nil || !next.Needs(h.op):
			case h == w.host:
				return true
			default:
				seen[h] = true
				list = append(list, h.waits...)
			}
		}
	}
	return false
}

// Blocked is a cusim.Blocked.
type Blocked struct {
	Function string
	Handle   uintptr
	Held     []uintptr
	Reasons  []string
	Caller   string
	For      time.Duration
}

// String returns a text with all fields.
func (b Blocked) String() string {
	on := ""
	if b.Handle != 0 {
		on = fmt.Sprintf("(%#x)", b.Handle)
	}
	return fmt.Sprintf("%s%s has waited for %v: %s\ncalled from\n%s", b.Function, on, b.For.Round(time.Millisecond),
		strings.Join(b.Reasons, "; "), b.Caller)
}

// Blocked returns the calls that wait for work that cannot continue by itself.
func (d *Driver) Blocked() (list []Blocked) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.askCallers()
	d.engine.CatchUp()
	for _, w := range d.waits {
		b := Blocked{Function: w.name, Handle: w.handle, Caller: frames(w.caller, nothing)}
		if d.obstacles(w, &b); len(b.Reasons) == 0 {
			continue
		}
		since := w.begun
		if d.engine.LastMove.After(since) {
			since = d.engine.LastMove
		}
		b.For = time.Since(since)
		list = append(list, b)
	}
	return list
}

// askCallers makes the calls that wait note their callers. The driver is unlocked meanwhile.
func (d *Driver) askCallers() {
	d.asking++
	for _, w := range slices.Clone(d.waits) {
		for w.caller == nil {
			d.engine.Changed.Broadcast()
			d.engine.Changed.Wait()
		}
	}
	d.asking--
}

// obstacles adds the reasons for which a call waits.
func (d *Driver) obstacles(w *wait, b *Blocked) {
	because := func(format string, args ...any) { b.Reasons = append(b.Reasons, fmt.Sprintf(format, args...)) }
	for _, dev := range d.devices {
		for _, c := range dev.contexts {
			for _, s := range c.streams {
				if s.Held() && slices.ContainsFunc(s.Parked(), w.Needs) {
					b.Held = append(b.Held, uintptr(s.handle))
					because("stream %#x is held, and goes on with Release(%#[1]x), or Finish", uintptr(s.handle))
				}
			}
		}
	}
	if d.engine.Clock.Virtual {
		if last, more := d.engine.Due(&w.Wait); last >= 0 {
			now := time.Duration(max(last-d.engine.Clock.At(), 0))
			if more == 0 {
				because("the virtual time stands still, and work ends with Advance(%v), or Finish", now)
			} else {
				because("the virtual time stands still: Advance(%v) ends the work that runs now, and work that has not begun "+
					"comes behind it (%d operations): advance further, or use Finish, which ends all", now, more)
			}
		}
	}
	handle := func(o *op) uintptr { return uintptr(o.Stream().Owner.(*stream).handle) }
	for _, o := range d.engine.Polled() {
		if w.Needs(o) {
			because("stream %#x waits for a value in memory, such as a timeline's", handle(o))
		}
	}
	for _, o := range d.engine.Outside() {
		switch x := o.Execution(); {
		case !w.Needs(o), o.Moving(): // a move ends by itself
		case x == nil:
			because("stream %#x calls a host function that has not returned", handle(o))
		case time.Since(x.Begun) > engine.MostSettling:
			because("stream %#x executes kernel %q, which has not ended", handle(o), x.Kernel)
		}
	}
}
