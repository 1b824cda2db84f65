package races

// step is a piece of work, a record, a wait, or a point that other steps depend on.
type step struct {
	lane *lane // nil for a gate
	n    uint64
	// clock says what comes before the step. It is valid when the step is no longer pending, and
	// includes the step's own position.
	clock   clock
	pending int // how many dependencies are pending
	next    []*step
	work    *work // the uses of memory, or nil
	// then is called when the step is no longer pending, or is nil.
	then func()
}

// work is what uses memory.
type work struct {
	call, detail string
	uses         []Use
	stack        []uintptr
	stream       *stream // nil for the host
	// launch is the launch of the graph that work is a node of, or nil.
	launch *work
}

// after adds a dependency. deps may contain nil.
func (s *step) after(deps ...*step) {
	for _, dep := range deps {
		switch {
		case dep == nil:
		case dep.pending == 0:
			s.clock = join(s.clock, dep.clock)
		default:
			s.pending++
			dep.next = append(dep.next, s)
		}
	}
}

// add adds a step to a lane, after everything that the host knows.
func (d *Detector) add(l *lane, w *work, deps ...*step) *step {
	l.last++
	s := &step{lane: l, n: l.last, clock: d.host, work: w}
	s.after(deps...)
	if s.pending == 0 {
		d.arrive(s)
	}
	return s
}

// gate returns a step that is pending until open is called for it.
func gate() *step { return &step{pending: 1} }

// open ends the pending state of a gate. c is what comes before.
func (d *Detector) open(g *step, c clock) {
	g.clock, g.pending = join(g.clock, c), 0
	d.arrive(g)
}

// known returns a step with a clock.
func known(c clock) *step { return &step{clock: c} }

// arrive is called when a step is no longer pending. It checks the step, and those that depend on it
// and are no longer pending either.
func (d *Detector) arrive(first *step) {
	for ready := []*step{first}; len(ready) > 0; {
		s := ready[0]
		ready = ready[1:]
		if s.lane != nil {
			s.clock = s.clock.with(s.lane.id, s.n)
		}
		if s.work != nil {
			d.memory.use(d, s)
		}
		for _, n := range s.next {
			n.clock = join(n.clock, s.clock)
			if n.pending--; n.pending == 0 {
				ready = append(ready, n)
			}
		}
		s.next = nil
		if s.then != nil {
			s.then()
			s.then = nil
		}
	}
}

// learn makes the host know that a step is done, as soon as the step is no longer pending.
func (d *Detector) learn(s *step) {
	switch {
	case s == nil:
	case s.pending == 0:
		d.host = join(d.host, s.clock)
	default:
		before := s.then
		s.then = func() {
			if before != nil {
				before()
			}
			d.host = join(d.host, s.clock)
		}
	}
}
