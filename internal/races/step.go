package races

// step is a piece of work, a record, a wait, or a point that other steps depend on.
type step struct {
	lane *lane // nil for a gate
	n    uint64
	// clock says what comes before the step. It is valid when the step is no longer pending, and
	// includes the step's own position.
	clock   clock
	pending int     // how many dependencies are pending
	waits   []*step // the dependencies that were pending, until none is
	next    []*step
	made    uint64 // steps that were made later have higher numbers
	late    bool   // the uses are noted after steps that were made later
	work    *work  // the uses of memory, or nil
	// unseen says that what opens the gate may be work that the detector does not know: a kernel that
	// writes a word. outside says that it may be another API.
	unseen, outside bool
	needed          bool // the program waits for the gate, or for a step behind it
	// then is called when the step is no longer pending, or is nil.
	then func()
}

// work is what uses memory.
type work struct {
	call, detail string
	uses         []Use
	stack        []uintptr
	on           string // the name of the stream, which may end before the work is forgotten, or "" for the host
	// launch is the launch of the graph that work is a node of, or nil.
	launch *work
	// failed says that the driver has refused the launch.
	failed bool
}

// byHost reports whether the host does the work. All goroutines are one host: how they order what they do is not known.
func (w *work) byHost() bool { return w.on == "" && w.launch == nil }

// after adds a dependency. deps may contain nil.
func (s *step) after(deps ...*step) {
	for _, dep := range deps {
		switch {
		case dep == nil:
		case dep.pending == 0:
			s.clock = join(s.clock, dep.clock)
		default:
			s.pending++
			s.waits = append(s.waits, dep)
			dep.next = append(dep.next, s)
		}
	}
}

// add adds a step to a lane, after everything that the host knows.
func (d *Detector) add(l *lane, w *work, deps ...*step) *step {
	l.last++
	d.made++
	if w != nil {
		l.used = l.last
	}
	s := &step{lane: l, n: l.last, clock: d.host, work: w, made: d.made}
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
	if g.pending != 0 {
		g.clock, g.pending = join(g.clock, c), 0
		d.arrive(g)
	}
}

// openAll opens the gates that a pending step waits for. Something that the detector does not see has
// let the work go on.
func (d *Detector) openAll(s *step) {
	seen := map[*step]bool{}
	var gates []*step
	for list := []*step{s}; len(list) > 0; {
		s := list[0]
		list = list[1:]
		switch {
		case s.pending == 0 || seen[s]:
		case s.lane == nil:
			gates = append(gates, s)
		default:
			list = append(list, s.waits...)
		}
		seen[s] = true
	}
	for _, g := range gates {
		switch {
		case g.unseen:
			d.open(g, d.everything())
		case g.outside:
			d.open(g, d.outside())
		default:
			d.open(g, d.host)
		}
	}
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
		s.next, s.waits = nil, nil
		if s.then != nil {
			s.then()
			s.then = nil
		}
	}
}

// learn makes the host know that a step is done.
func (d *Detector) learn(s *step) {
	if s != nil {
		d.openAll(s)
		d.host = join(d.host, s.clock)
	}
}
