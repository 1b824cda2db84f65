package vm

import "math/bits"

// Watch is what a launch does for somebody who looks for a mistake. Its instructions are executed by
// [Warp.runWatched], which takes longer.
type Watch struct {
	// Seed chooses the order in which warps and blocks have their turns, if Seeded is set.
	Seed   uint64
	Seeded bool
	// Counts gets how often the instructions of the text were executed, by the index in Notes.Insts. It is nil
	// if nobody wants that.
	Counts []Count
	// Trace follows a thread, or is nil.
	Trace *Trace
}

// syncWaits has the lanes of a warp that have begun an instruction of kind Sync, and may execute it again, because they
// have waited there for other lanes. It is only known for a launch with a Watch.
type syncWaits struct {
	waiting uint32
	at      [Lanes]int32 // the places in Code of the waiting lanes
}

// Count is how many threads have executed an instruction, and how many have not, as its guard predicate was false.
type Count struct{ Executed, Skipped uint64 }

// Notes are about the instructions of the text from which the code of a kernel was made. Only a kernel that is
// watched has them.
type Notes struct {
	Insts  []Inst
	Begins []int32 // by the index in Code, the index in Insts and 1 of what begins there, or 0
}

// Inst is an instruction of the text.
type Inst struct {
	Line, Col int32
	Text      string
	Guard     int32 // as in [Op]
	// Reads and Writes are the registers of the text. A call writes none: instructions behind it do.
	Reads, Writes []Register
}

// Register is a register of the text: a column, or a predicate if the type is pred.
type Register struct {
	Name, Type string
	Column     int32
}

// Trace follows one thread of a launch, which has such a thread.
type Trace struct {
	Block, Thread [3]uint32
	// Step is called for each instruction that the thread has executed, one after the other.
	Step func(s Step)

	warp    *Warp // of the pending instruction
	lane    int
	pending Step // the instruction that the thread executes; without one Inst is nil
}

// Step is an instruction that a thread has executed.
type Step struct {
	*Inst
	Skipped bool // its guard predicate was false
	Ended   bool // it was executed to its end; otherwise there are no Writes
	// Reads and Writes are the values of the registers.
	Reads, Writes []uint64
}

// execute executes instructions, each of which takes one of the budget.
func (w *Warp) execute(budget int) outcome {
	if w.block.run.Watch != nil {
		return w.runWatched(budget)
	}
	return w.run(budget)
}

// runWatched is [Warp.run] for a launch with a Watch.
func (w *Warp) runWatched(budget int) outcome {
	if w.mask == 0 && !w.choose() {
		return w.stuck()
	}
	code, s := w.block.run.Kernel.Code, w.block.run.schedule
	begun := budget
	defer func() { w.count += uint64(begun - budget) }()
	for ; budget > 0; budget-- {
		if code[w.pc].Join && len(w.groups) > 0 {
			w.reschedule()
		}
		o := &code[w.pc]
		w.observe()
		if w.Active = w.mask & w.Truth(o.Guard); w.Active == 0 && o.Guard != 0 {
			w.pc++
			continue
		}
		switch o.Kind {
		case Plain:
			o.Run(w, o)
			w.pc++
		case Touches:
			if o.Run(w, o); w.Fault == nil {
				w.pc++
			}
		default:
			at := w.pc
			switch w.control(o); o.Kind {
			case Exit:
				w.traceExit()
			case Sync:
				w.noteWaits(at)
			}
		}
		switch {
		case w.Fault != nil:
			return fails
		case w.mask == 0 && !w.choose():
			budget--
			return w.stuck()
		case s != nil && o.Kind.switches() && s.chance(s.warpTurns):
			budget--
			return paused
		}
	}
	return paused
}

// begins returns the lanes in w.mask that begin an instruction: not those that have waited there for other lanes.
func (w *Warp) begins() uint32 {
	lanes, s := w.mask, &w.syncWaits
	for m := s.waiting & w.mask; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros32(m) & (Lanes - 1); s.at[i] == w.pc {
			lanes &^= 1 << i
		}
	}
	s.waiting &^= w.mask
	return lanes
}

// noteWaits notes the lanes that wait for others at an instruction of kind Sync.
func (w *Warp) noteWaits(pc int32) {
	for _, g := range w.groups {
		if g.state != atSync || g.pc != pc {
			continue
		}
		w.waiting |= g.mask
		for m := g.mask; m != 0; m &= m - 1 {
			w.syncWaits.at[bits.TrailingZeros32(m)&(Lanes-1)] = pc
		}
	}
}

// observe notes that the lanes in w.mask are at an instruction.
func (w *Warp) observe() {
	r, lanes := w.block.run, w.begins()
	n := r.Kernel.Notes
	if n == nil || n.Begins[w.pc] == 0 {
		return
	}
	at := n.Begins[w.pc] - 1
	in := &n.Insts[at]
	executed := lanes & w.Truth(in.Guard)
	if c := w.worker.counts; c != nil {
		c[at].Executed += uint64(bits.OnesCount32(executed))
		c[at].Skipped += uint64(bits.OnesCount32(lanes &^ executed))
	}
	t := r.Watch.Trace
	if t == nil || w.block.index != t.Block {
		return
	}
	size := r.Block
	thread := int(t.Thread[0] + size[0]*(t.Thread[1]+size[1]*t.Thread[2]))
	if lane := thread - w.index*Lanes; lane >= 0 && lane < Lanes && lanes>>lane&1 != 0 {
		t.begin(w, lane, in, executed>>lane&1 == 0)
	}
}

// begin notes that the thread begins an instruction. It has executed the one before.
func (t *Trace) begin(w *Warp, lane int, in *Inst, skipped bool) {
	t.end(true)
	t.warp, t.lane = w, lane
	t.pending = Step{Inst: in, Skipped: skipped, Reads: t.values(in.Reads)}
}

// traceExit notes that the active lanes have exited.
func (w *Warp) traceExit() {
	t := w.block.run.Watch.Trace
	if t == nil || w.block.index != t.Block { // another worker may execute the block with the thread
		return
	}
	if t.warp == w && w.Active>>t.lane&1 != 0 {
		t.end(true)
	}
}

// values returns the values of registers.
func (t *Trace) values(list []Register) (values []uint64) {
	for _, r := range list {
		v := uint64(0)
		if r.Type == "pred" {
			v = uint64(t.warp.P[r.Column] >> t.lane & 1)
		} else {
			v = t.warp.R[r.Column][t.lane]
		}
		values = append(values, v)
	}
	return values
}

// end passes the pending instruction on, which was executed to its end or not.
func (t *Trace) end(ended bool) {
	s := t.pending
	if t.pending = (Step{}); s.Inst == nil {
		return
	}
	if s.Ended = ended; ended && !s.Skipped {
		s.Writes = t.values(s.Inst.Writes)
	}
	t.Step(s)
}

// watch prepares the parts of a launch that its Watch needs.
func (r *run) watch() {
	if r.Watch != nil && r.Watch.Seeded {
		r.schedule = r.newSchedule(r.Watch.Seed)
	}
}

// watched ends what the Watch of a launch has begun.
func (r *run) watched() {
	if r.Watch != nil && r.Watch.Trace != nil {
		r.Watch.Trace.end(false)
	}
}

// count begins to count for a worker. The result adds what it has counted to the counts of the launch.
func (wk *worker) count(r *run) (end func()) {
	if r.Watch == nil || r.Watch.Counts == nil {
		return func() {}
	}
	wk.counts = make([]Count, len(r.Watch.Counts))
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, c := range wk.counts {
			r.Watch.Counts[i].Executed += c.Executed
			r.Watch.Counts[i].Skipped += c.Skipped
		}
		wk.counts = nil
	}
}
