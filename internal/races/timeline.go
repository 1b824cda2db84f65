package races

import (
	"cmp"
	"slices"
)

// orderByHost is how the host and streams order work, beside events.
type orderByHost struct {
	timelines map[uintptr]*timeline
	hostFuncs map[uint64]*hostFunc
	functions uint64 // the number of the last host function
}

// timeline is a counter in memory.
type timeline struct {
	// known says that NewTimeline was called: values has the first value, too.
	known  bool
	values []reached // in the order of the values
	gates  []awaited
}

// reached says what comes before the time when a timeline had a value.
type reached struct {
	value uint64
	clock clock
}

// awaited is a gate that is opened when a timeline has a value.
type awaited struct {
	value uint64
	gate  *step
}

// maxReached is how many values of a timeline are kept. A wait for a value that is no longer kept
// counts as a wait for the lowest value that is.
const maxReached = 256

// NewTimeline implements [Observer].
func (d *Detector) NewTimeline(raw uintptr, value uint64) {
	defer d.enter()()
	d.timelines[raw] = &timeline{known: true, values: []reached{{value, d.host}}}
}

func (d *Detector) timeline(raw uintptr) *timeline {
	t := d.timelines[raw]
	if t == nil {
		t = new(timeline)
		d.timelines[raw] = t
	}
	return t
}

// raise notes that a timeline has a value.
func (d *Detector) raise(t *timeline, value uint64, c clock) {
	at, found := slices.BinarySearchFunc(t.values, value, func(r reached, v uint64) int {
		return cmp.Compare(int64(r.value-v), 0) // on a circle
	})
	if found { // the first raise to the value counts
		t.values = t.values[:at+1]
	} else {
		t.values = append(t.values[:at], reached{value, c}) // a lower value lowers the timeline
		if n := len(t.values) - maxReached; n > 0 {
			t.values = slices.Delete(t.values, 0, n)
		}
	}
	d.openGates(t, value, c)
}

// openGates opens the gates for the values up to this one.
func (d *Detector) openGates(t *timeline, value uint64, c clock) {
	var open []*step
	t.gates = slices.DeleteFunc(t.gates, func(a awaited) bool {
		if int64(value-a.value) < 0 {
			return false
		}
		open = append(open, a.gate)
		return true
	})
	for _, g := range open {
		d.open(g, c)
	}
}

// reaching returns a step that comes after the raise of a timeline to a value. Nobody knows who has raised
// a timeline that is older than the detector: the step comes after everything.
func (d *Detector) reaching(t *timeline, value uint64) *step {
	for _, r := range t.values {
		if int64(r.value-value) >= 0 {
			return known(r.clock)
		}
	}
	if !t.known {
		return known(d.everything())
	}
	g := gate()
	t.gates = append(t.gates, awaited{value, g})
	return g
}

// Signal implements [Observer].
func (d *Detector) Signal(key Stream, raw uintptr, value uint64) {
	defer d.enter()()
	s, t := d.stream(key), d.timeline(raw)
	if s.capture != nil {
		s.node(&node{timeline: t, value: value, signals: true})
		return
	}
	d.signal(d.enqueue(s, nil), t, value)
}

// signal makes a step raise a timeline.
func (d *Detector) signal(s *step, t *timeline, value uint64) {
	if s.pending == 0 {
		d.raise(t, value, s.clock)
		return
	}
	s.then = func() { d.raise(t, value, s.clock) }
}

// Block implements [Observer].
func (d *Detector) Block(key Stream, raw uintptr, value uint64) {
	defer d.enter()()
	s, t := d.stream(key), d.timeline(raw)
	if s.capture != nil {
		s.node(&node{timeline: t, value: value})
		return
	}
	d.enqueue(s, nil, d.reaching(t, value))
}

// BlockFailed implements [Observer].
func (d *Detector) BlockFailed(key Stream) {
	defer d.enter()()
	if s := d.stream(key); s.tail != nil && s.capture == nil {
		for _, g := range slices.Clone(s.tail.waits) {
			if g.lane == nil {
				d.open(g, nil)
			}
		}
	}
}

// HostSignal implements [Observer].
func (d *Detector) HostSignal(raw uintptr, value uint64) {
	defer d.enter()()
	d.raise(d.timeline(raw), value, d.host)
}

// HostSees implements [Observer].
func (d *Detector) HostSees(raw uintptr, value uint64) {
	defer d.enter()()
	t := d.timeline(raw)
	for _, r := range t.values {
		if int64(r.value-value) >= 0 {
			d.host = join(d.host, r.clock)
			return
		}
	}
	d.openGates(t, value, d.host) // something that the detector does not see has raised the timeline
}

// hostFunc is a function of the program that streams call.
type hostFunc struct {
	inGraph bool // otherwise it is called once
	// waiting are the calls that have not begun, in the order in which they were enqueued, and
	// running those that have begun.
	waiting, running []hostCall
}

// hostCall is one call of a host function: a step before it, and a gate for what comes after it.
type hostCall struct {
	before, after *step
	launch        *work // of the graph that calls the function, or nil
}

// NewHostFunc implements [Observer].
func (d *Detector) NewHostFunc() uint64 {
	defer d.enter()()
	d.functions++
	d.hostFuncs[d.functions] = new(hostFunc)
	return d.functions
}

// EnqueueHostFunc implements [Observer].
func (d *Detector) EnqueueHostFunc(key Stream, f uint64) {
	defer d.enter()()
	s := d.stream(key)
	if s.capture != nil {
		if h := d.hostFuncs[f]; h != nil {
			h.inGraph = true
		}
		s.node(&node{hostFunc: f})
		return
	}
	d.enqueue(s, nil, d.call(f, d.enqueue(s, nil), nil))
}

// call notes a call of a host function after a step, and returns the gate behind the call.
func (d *Detector) call(f uint64, before *step, launch *work) *step {
	h, g := d.hostFuncs[f], gate()
	if h == nil {
		return before
	}
	h.waiting = append(h.waiting, hostCall{before, g, launch})
	return g
}

// HostFuncBegins implements [Observer].
func (d *Detector) HostFuncBegins(f uint64) {
	c, before, ok := d.begin(f)
	if !ok {
		return
	}
	d.hold(&held{behind: c.after, made: c.before.made})
	defer d.enter()()
	d.beginApart(before, c.before)
	d.learn(c.before)
}

// begin moves a call of a function to those that are running. It also returns what the host knows.
func (d *Detector) begin(f uint64) (c hostCall, host clock, ok bool) {
	defer d.enter()()
	h := d.hostFuncs[f]
	if h == nil || len(h.waiting) == 0 {
		return c, nil, false
	}
	// The first call whose work is not pending, if there is one: launches may run in another order.
	i := max(0, slices.IndexFunc(h.waiting, func(c hostCall) bool { return c.before.pending == 0 }))
	c = h.waiting[i]
	h.waiting, h.running = slices.Delete(h.waiting, i, i+1), append(h.running, c)
	return c, d.host, true
}

// HostFuncEnds implements [Observer].
func (d *Detector) HostFuncEnds(f uint64) {
	defer d.enter()()
	if h := d.hostFuncs[f]; h != nil && len(h.running) > 0 {
		c := h.running[0]
		h.running = h.running[1:]
		if !h.inGraph {
			delete(d.hostFuncs, f)
		}
		d.open(c.after, d.host)
	}
	d.endApart()
}

// HostFuncDropped implements [Observer].
func (d *Detector) HostFuncDropped(f uint64) {
	defer d.enter()()
	if h := d.hostFuncs[f]; h != nil {
		delete(d.hostFuncs, f)
		for _, c := range append(h.waiting, h.running...) {
			d.open(c.after, d.host)
		}
	}
}
