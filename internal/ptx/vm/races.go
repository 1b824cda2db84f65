package vm

// races finds accesses of shared memory by two threads of a block of which one writes, and which
// nothing orders. Each thread has a time that advances when it makes its accesses known: at a barrier,
// or at a fence that a strong write follows. A thread knows up to which time it has to see the accesses
// of each other thread.
type races struct {
	threads []timeline
	cells   []cell // by the bytes of the shared memory
	none    times
	bars    [16]gathering
	cluster gathering
	// orders are the accesses that strong writes have made known, by their addresses. Those of all
	// addresses after the first mostOrders are together at otherOrders.
	orders map[uint64]times
}

const (
	// mostOrders is for how many addresses a block knows what strong writes have made known. If there are
	// more, races may not be found, but none is reported that there is not.
	mostOrders  = 1024
	otherOrders = ^uint64(0)
)

// times are times of all threads. They do not change once a thread has them.
type times []uint32

// timeline is what a thread knows.
type timeline struct {
	seen times // the accesses of others that it has to see
	own  uint32
	// released is what the thread knew at its last fence, and releasedOwn its time then, or 0.
	released    times
	releasedOwn uint32
	acquired    times // what strong reads since the last fence have found, or nil
}

// touch is an access of a thread.
type touch struct {
	time   uint32 // of the thread, or 0 for none
	pc     int32
	thread int16
	strong bool
}

// cell has the last write of a byte, and reads since by two threads.
type cell struct {
	write touch
	read  [2]touch
}

func newRaces(threads, size int) *races {
	return &races{threads: make([]timeline, threads), cells: make([]cell, size), none: make(times, threads)}
}

// reset is for the next block.
func (r *races) reset() {
	clear(r.cells)
	for i := range r.threads {
		r.threads[i] = timeline{seen: r.none, own: 1}
	}
	r.bars, r.cluster = [16]gathering{}, gathering{}
	r.orders = make(map[uint64]times)
}

// gathering is what threads have made known to each other.
type gathering struct {
	all  times
	last *uint32 // of the times of the last thread: often, others have the same
}

// add adds what a thread knows, and its own accesses.
func (g *gathering) add(seen times, thread int, own uint32) {
	switch first := &seen[0]; {
	case g.all == nil:
		g.all, g.last = append(times(nil), seen...), first
	case first != g.last:
		g.all.join(seen)
		g.last = first
	}
	g.all[thread] = max(g.all[thread], own)
}

func (t times) join(other times) {
	for i, v := range other {
		t[i] = max(t[i], v)
	}
}

// joined returns the union of what a thread knows and other times.
func joined(a, b times) times {
	if len(a) == 0 || &a[0] == &b[0] {
		return b
	}
	sum := append(times(nil), a...)
	sum.join(b)
	return sum
}

// publish makes the accesses of a lane known to others.
func (r *races) publish(g *gathering, w *Warp, lane int) {
	i := w.index*Lanes + lane
	t := &r.threads[i]
	g.add(t.seen, i, t.own)
	t.own++
}

// arrive notes that the active lanes have arrived at a barrier of the block.
func (r *races) arrive(w *Warp, id uint32) {
	for i := range w.Each {
		r.publish(&r.bars[id], w, i)
	}
}

// complete is called for each group of lanes that continues after a barrier of the block.
func (r *races) complete(w *Warp, id, lanes uint32) {
	for i := range Lanes {
		if lanes>>i&1 != 0 {
			r.threads[w.index*Lanes+i].seen = r.bars[id].all
		}
	}
}

// meet notes that lanes of a warp have met.
func (r *races) meet(w *Warp, lanes uint32) {
	var g gathering
	for i := range Lanes {
		if lanes>>i&1 != 0 {
			r.publish(&g, w, i)
		}
	}
	for i := range Lanes {
		if lanes>>i&1 != 0 {
			r.threads[w.index*Lanes+i].seen = g.all
		}
	}
}

// arriveCluster notes that the active lanes have arrived at the barrier of the cluster.
func (r *races) arriveCluster(w *Warp) {
	g := gathering{}
	if r.cluster.all != nil {
		g.all = append(times(nil), r.cluster.all...) // others may have it
	}
	for i := range w.Each {
		r.publish(&g, w, i)
	}
	r.cluster = gathering{all: g.all}
}

// leaveCluster notes that lanes continue after the barrier of the cluster.
func (r *races) leaveCluster(w *Warp, lanes uint32) {
	for i := range Lanes {
		if t := &r.threads; lanes>>i&1 != 0 && r.cluster.all != nil {
			one := &(*t)[w.index*Lanes+i]
			one.seen = joined(one.seen, r.cluster.all)
		}
	}
}

// fence notes a fence of the active lanes.
func (r *races) fence(w *Warp) {
	for i := range w.Each {
		t := &r.threads[w.index*Lanes+i]
		if t.acquired != nil {
			t.seen, t.acquired = joined(t.seen, t.acquired), nil
		}
		t.released, t.releasedOwn = t.seen, t.own
		t.own++
	}
}

// order notes a strong access, by which threads can tell each other that memory is written.
func (r *races) order(w *Warp, lane int, addr uint64, k access) {
	i := w.index*Lanes + lane
	t := &r.threads[i]
	if r.orders[addr] == nil && len(r.orders) >= mostOrders {
		addr = otherOrders
	}
	if found := r.orders[addr]; found != nil && k&reads != 0 {
		if k&acquires != 0 {
			t.seen = joined(t.seen, found)
		} else {
			t.acquired = joined(t.acquired, found)
		}
	}
	if k&writes == 0 || k&releases == 0 && t.releasedOwn == 0 {
		return
	}
	released, own := t.released, t.releasedOwn
	if k&releases != 0 {
		released, own = t.seen, t.own
		t.own++
	}
	known := joined(r.orders[addr], released)
	if known[i] < own {
		known = append(times(nil), known...)
		known[i] = own
	}
	r.orders[addr] = known
}

// ordered reports whether a thread has to see an access.
func (r *races) ordered(a touch, thread int) bool {
	return a.time == 0 || int(a.thread) == thread || r.threads[thread].seen[a.thread] >= a.time
}

// access checks and notes an access of a lane.
func (r *races) access(w *Warp, lane int, off, n uint64, k access) {
	thread := w.index*Lanes + lane
	now := touch{time: r.threads[thread].own, pc: w.pc, thread: int16(thread), strong: k&strong != 0}
	conflict := func(a touch) bool { return !(a.strong && now.strong) && !r.ordered(a, thread) }
	for i := range n {
		c := &r.cells[off+i]
		switch {
		case conflict(c.write) && !(k == writes && w.storesSame(lane, off, i, n)):
			r.report(w, lane, off+i, n, k, c.write, true)
		case k&writes == 0:
		case conflict(c.read[0]):
			r.report(w, lane, off+i, n, k, c.read[0], false)
		case conflict(c.read[1]):
			r.report(w, lane, off+i, n, k, c.read[1], false)
		}
		if k&writes != 0 {
			c.write, c.read = now, [2]touch{}
			continue
		}
		switch {
		case int(c.read[0].thread) == thread || r.ordered(c.read[0], thread):
			c.read[0] = now
		default:
			c.read[1] = now
		}
	}
}

// storesSame reports whether a store of a lane leaves a byte as it is.
func (w *Warp) storesSame(lane int, off, i, n uint64) bool {
	o := &w.block.run.Kernel.Code[w.pc]
	if w.block.run.kinds[w.pc] != writes {
		return false
	}
	column, size := o.B, n
	if o.X != nil && o.X.N > 0 {
		size = n / uint64(o.X.N)
		column = o.X.D[i/size]
	}
	return w.block.memory[off+i] == byte(w.R[column][lane]>>(8*(i%size)))
}

// report notes a race of two accesses.
func (r *races) report(w *Warp, lane int, off, n uint64, k access, other touch, wrote bool) {
	w.note(lane, "race", other.pc+1, func(f *Fault) {
		f.Access, f.Address, f.Size, f.Write = true, SharedBegin+off, n, k&writes != 0
		f.Reason = "a race in shared memory: another thread has "
		if wrote {
			f.Reason += "written"
		} else {
			f.Reason += "read"
		}
		f.Reason += " the memory, and nothing orders the two accesses"
		f.Other = w.elsewhere(other.pc, int(other.thread))
		f.Other.Write = wrote
	})
}
