package sim

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/purecu/purecu/driver"
)

// waiting contains the calls that wait, and the running host functions, which may make such calls.
type waiting struct {
	changed  *sync.Cond // signalled when work completes or a stream is released
	waits    []*wait
	lastMove time.Time         // the last event that could end one of waits
	asking   int               // calls of Blocked that want to know the callers of waits
	hosts    map[int]*hostCall // the running host functions, by thread
}

// wait is a call that waits for operations, or for all operations of a context up to a number.
type wait struct {
	op     string  // the C function
	handle uintptr // the handle in its arguments, or 0
	ops    []*op
	any    bool // one of ops is enough
	ctx    *context
	last   uint64

	host   *hostCall // the host function that makes the call, or nil
	begun  time.Time
	caller []uintptr // nil until a call of Blocked asks
}

// over reports whether the wait has ended.
func (w *wait) over() bool {
	if w.ctx != nil {
		return w.ctx.pending.none() || w.ctx.pending.oldest.number > w.last
	}
	return !slices.ContainsFunc(w.ops, func(o *op) bool { return o != nil && !o.done })
}

// needs reports whether an operation has to complete before the call can return.
func (w *wait) needs(o *op) bool {
	if w.any {
		return !slices.ContainsFunc(w.ops, func(one *op) bool { return !(&wait{ops: []*op{one}}).needs(o) })
	}
	seen := make(map[*op]bool)
	for list := []*op{o}; len(list) > 0; {
		o, list = list[len(list)-1], list[:len(list)-1]
		switch {
		case o.done || seen[o]:
			continue
		case w.awaits(o):
			return true
		}
		seen[o] = true
		list = append(list, o.next...)
	}
	return false
}

// behind adds to found the operations that have to complete after an operation before the call can return, and reports
// whether the call waits for the operation. How long they take is not known before they begin.
func (w *wait) behind(o *op, found map[*op]bool) bool {
	if is, known := found[o]; known {
		return is
	}
	is := w.awaits(o)
	found[o] = is
	for _, n := range o.next {
		is = w.behind(n, found) || is
	}
	found[o] = is
	return is
}

// awaits reports whether the call waits for the operation itself.
func (w *wait) awaits(o *op) bool {
	if w.ctx != nil {
		return o.s.ctx == w.ctx && o.number <= w.last
	}
	return slices.Contains(w.ops, o)
}

// wait waits until w is over, or until a sticky error, which it returns. A wait that would never
// end is a misuse, and returns CUDA_ERROR_NOT_PERMITTED. The driver is unlocked during the wait.
func (d *Driver) wait(w *wait) driver.Result {
	d.engine.catchUp()
	if d.lost != ok {
		d.quiet()
	}
	if w.over() || d.lost != ok {
		return d.lost
	}
	if w.host = d.host(); w.host != nil {
		if d.endless(w) {
			d.misuse(w.op, w.handle, endlessWait, nil)
			return driver.ResultNotPermitted
		}
		defer w.host.begin(w)()
	}
	w.begun = time.Now()
	d.waits = append(d.waits, w)
	for !w.over() && d.lost == ok {
		d.engine.arm()
		d.changed.Wait()
		if d.asking > 0 && w.caller == nil { // not before, as it takes as long as a short kernel
			w.caller = make([]uintptr, 32)
			w.caller = w.caller[:runtime.Callers(2, w.caller)]
			d.changed.Broadcast()
		}
		d.engine.catchUp()
	}
	d.waits = slices.DeleteFunc(d.waits, func(other *wait) bool { return other == w })
	if d.lost != ok {
		d.quiet()
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
	d.engine.catchUp()
	w, waited := &wait{op: "cuEventQuery", host: host, any: len(events) > 1}, uintptr(h)
	if len(events) == 0 {
		object, _ := d.objects.find(uintptr(h))
		c, is := object.(*context)
		if !is {
			return nil, ok
		}
		w.op, w.ctx, w.last = "cuCtxSynchronize", c, c.pending.numbers
	}
	for _, e := range events {
		object, _ := d.objects.find(uintptr(e))
		e, is := object.(*event)
		if !is || e.point.op == nil {
			return nil, ok
		}
		w.ops, waited = append(w.ops, e.point.op), uintptr(events[0])
	}
	if d.endless(w) {
		d.misuse(w.op, waited, endlessWait, nil)
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
			case seen[h] || h.op == nil || !next.needs(h.op):
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

// moved notes an event that may end a wait.
func (d *Driver) moved() {
	if len(d.waits) > 0 {
		d.lastMove = time.Now()
	}
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
	d.engine.catchUp()
	for _, w := range d.waits {
		b := Blocked{Function: w.op, Handle: w.handle, Caller: frames(w.caller)}
		if d.obstacles(w, &b); len(b.Reasons) == 0 {
			continue
		}
		since := w.begun
		if d.lastMove.After(since) {
			since = d.lastMove
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
			d.changed.Broadcast()
			d.changed.Wait()
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
				if s.held && slices.ContainsFunc(s.parked, w.needs) {
					b.Held = append(b.Held, uintptr(s.handle))
					because("stream %#x is held, and goes on with Release(%#[1]x), or Finish", uintptr(s.handle))
				}
			}
		}
	}
	if d.clock.virtual {
		last, running := int64(-1), 0
		found := map[*op]bool{}
		for _, o := range d.engine.running {
			if w.behind(o, found) {
				last, running = max(last, o.at), running+1
			}
		}
		if last >= 0 {
			more := -running
			for _, is := range found {
				if is {
					more++
				}
			}
			now := time.Duration(max(last-d.clock.now(), 0))
			if more == 0 {
				because("the virtual time stands still, and work ends with Advance(%v), or Finish", now)
			} else {
				because("the virtual time stands still: Advance(%v) ends the work that runs now, and work that has not begun "+
					"comes behind it (%d operations): advance further, or use Finish, which ends all", now, more)
			}
		}
	}
	for _, o := range d.engine.polled {
		if w.needs(o) {
			because("stream %#x waits for a value in memory, such as a timeline's", uintptr(o.s.handle))
		}
	}
	for _, o := range d.engine.outside {
		switch {
		case !w.needs(o), o.moving: // a move ends by itself
		case o.execution == nil:
			because("stream %#x calls a host function that has not returned", uintptr(o.s.handle))
		case time.Since(o.execution.begun) > mostSettling:
			because("stream %#x executes kernel %q, which has not ended", uintptr(o.s.handle), o.execution.kernel)
		}
	}
}

// frames returns the callers outside of the driver, innermost first, without functions whose names begin as one of
// without.
func frames(pcs []uintptr, without ...string) string {
	var b strings.Builder
	for f, more := runtime.CallersFrames(pcs), true; more; {
		var frame runtime.Frame
		frame, more = f.Next()
		inside := func(what string) bool { return strings.Contains(frame.Function, what) }
		if frame.Function == "" || inside("purecu/internal/sim.(*") ||
			strings.HasPrefix(frame.Function, "github.com/purecu/purecu/driver.") ||
			strings.HasPrefix(frame.Function, "runtime.") ||
			slices.ContainsFunc(without, func(p string) bool { return strings.HasPrefix(frame.Function, p) }) {
			continue
		}
		fmt.Fprintf(&b, "\t%s\n\t\t%s:%d\n", frame.Function, frame.File, frame.Line)
	}
	return b.String()
}
