package vm

import "math/bits"

// Warp is 32 threads of a block, of which some may not exist. All functions of instructions get it.
type Warp struct {
	// R has the registers, and P the predicates, with a bit for each lane.
	R []Column
	P []uint32
	// Active has the lanes that execute the present instruction.
	Active uint32
	// Fault is the fault of the present instruction, or nil.
	Fault *Fault
	// Result is what a barrier has computed, for the function of an instruction that waited for it.
	Result uint32

	worker *worker
	block  *block
	index  int
	local  []byte
	own    segment
	clusterArrivals
	saved *[Lanes][]uint64 // registers of functions that have called others: see Save
	laneGroups
	count  uint64 // the instructions so far
	waited int64  // by how much looks at clocks have advanced them
}

// clusterArrivals is what a warp knows of the barrier of its cluster.
type clusterArrivals struct {
	// arrived are the lanes that have arrived there, at any time, arrivedAt is the phase in which each did so last, and
	// clusterWaits says that lanes wait there.
	arrived      uint32
	arrivedAt    [Lanes]uint32
	clusterWaits bool
}

// laneGroups says at which instructions the lanes of a warp are, and which of them are executed.
type laneGroups struct {
	pc     int32  // of the lanes in mask
	mask   uint32 // the lanes that are executed together
	groups []group
	exited uint32 // and the lanes that do not exist
	spins  int    // how often lanes went back while others waited
	hold   int    // how many more times the present lanes keep their turn
	turn   uint32
	syncWaits
}

// group is lanes of a warp that are at the same instruction, and are not executed at present.
type group struct {
	pc    int32
	mask  uint32
	state state
	id    int32  // of the barrier
	turn  uint32 // when it was executed last
}

// state says what lanes wait for.
type state uint8

const (
	ready     state = iota
	atSync          // for other lanes of the warp
	atBarrier       // for other threads of the block
	atCluster       // for other threads of the cluster
)

// Each calls yield for each active lane. It is for range.
func (w *Warp) Each(yield func(lane int) bool) {
	for m := w.Active; m != 0; m &= m - 1 {
		if !yield(bits.TrailingZeros32(m) & (Lanes - 1)) {
			return
		}
	}
}

// Index returns the number of the warp in its block.
func (w *Warp) Index() int { return w.index }

// First returns the lowest active lane.
func (w *Warp) First() int { return bits.TrailingZeros32(w.Active) & (Lanes - 1) }

// Live returns the lanes that exist and have not exited.
func (w *Warp) Live() uint32 { return ^w.exited }

// Truth returns the lanes in which a predicate is true: its index and 1, negative if it is negated.
// For 0 these are all lanes.
func (w *Warp) Truth(p int32) uint32 {
	switch {
	case p > 0:
		return w.P[p-1]
	case p < 0:
		return ^w.P[-p-1]
	}
	return Full
}

// SetPredicate sets a predicate in the active lanes.
func (w *Warp) SetPredicate(p int32, v uint32) { w.P[p] = w.P[p]&^w.Active | v&w.Active }

// lookTime is how much a virtual clock advances at least when a warp looks at it, in nanoseconds. A warp that
// has waited long advances it by a part of that time, 1/longTime, so that it waits for an hour in a few thousand looks.
const (
	lookTime = 1000
	longTime = 1000
)

// Time returns the time of the device in nanoseconds.
func (w *Warp) Time() int64 {
	if w.block.run.Virtual {
		w.waited += max(lookTime, w.waited/longTime)
	}
	return w.block.run.Clock() + w.waited
}

// Cycles returns a number that rises.
func (w *Warp) Cycles() uint64 {
	w.waited++
	return w.count + uint64(w.waited)
}

// fail records a fault of a lane.
func (w *Warp) fail(code, lane int) {
	if w.Fault == nil {
		w.Fault = &Fault{Code: code}
		w.block.locate(w.Fault, w.index, lane)
		w.locate(w.Fault)
	}
}

// Fail records a fault of the first active lane.
func (w *Warp) Fail(code int, reason string) {
	w.fail(code, w.First())
	w.Fault.Reason = reason
}

// locate notes the instruction.
func (w *Warp) locate(f *Fault) { w.locateAt(f, w.pc) }

// locateAt notes an instruction.
func (w *Warp) locateAt(f *Fault, pc int32) {
	k := w.block.run.Kernel
	f.Kernel = k.Name
	if int(pc) < len(k.Places) {
		p := &k.Places[pc]
		f.Line, f.Instruction, f.File, f.Source = p.Line, p.Text, k.Files[uint64(p.File)], p.Source
	}
}

// The outcome of run.
type outcome uint8

const (
	waits  outcome = iota // no lane can continue
	ends                  // all lanes have exited
	fails                 // a lane has a fault
	paused                // the budget is used up
)

// fairness is how often lanes may go back while others are ready, until one of those has its turn.
const fairness = 32

// run executes instructions. Each instruction takes one of the budget.
func (w *Warp) run(budget int) outcome {
	if w.mask == 0 && !w.choose() {
		return w.stuck()
	}
	code := w.block.run.Kernel.Code
	begun := budget
	defer func() { w.count += uint64(begun - budget) }()
	for ; budget > 0; budget-- {
		o := &code[w.pc]
		if o.Join && len(w.groups) > 0 {
			w.reschedule()
			o = &code[w.pc]
		}
		w.Active = w.mask
		if o.Guard != 0 {
			if o.Guard > 0 {
				w.Active &= w.P[o.Guard-1]
			} else {
				w.Active &^= w.P[-o.Guard-1]
			}
			if w.Active == 0 {
				w.pc++
				continue
			}
		}
		switch o.Kind {
		case Plain:
			o.Run(w, o)
			w.pc++
		case Touches:
			if o.Run(w, o); w.Fault != nil {
				return fails
			}
			w.pc++
		default:
			if w.control(o); w.Fault != nil {
				return fails
			}
			if w.mask == 0 && !w.choose() {
				budget--
				return w.stuck()
			}
		}
	}
	return paused
}

// stuck returns why no lane can be executed.
func (w *Warp) stuck() outcome {
	if w.exited == Full {
		return ends
	}
	return waits
}

// control executes an instruction that changes which lanes are executed.
func (w *Warp) control(o *Op) {
	switch o.Kind {
	case Branch:
		w.jump(o.Target)
	case Index:
		a := w.R[o.A]
		w.scatter(func(lane int) int32 {
			return o.X.Targets[min(uint64(uint32(a[lane])), uint64(len(o.X.Targets)-1))]
		})
	case Call:
		d := &w.R[o.D]
		for i := range w.Each {
			d[i] = uint64(w.pc + 1)
		}
		w.jump(o.Target)
	case CallTo:
		w.callTo(o)
	case Return:
		a := w.R[o.A]
		w.scatter(func(lane int) int32 { return int32(a[lane]) })
	case Exit:
		w.exit()
	case Trap:
		w.Fail(int(o.Imm), "")
	case Sync:
		w.sync(o)
	case Cluster:
		w.clusterBarrier(o)
	case Barrier:
		w.block.arrive(w, o)
	default: // Nothing
		w.pc++
	}
}

// jump makes the active lanes continue at a place, and the other lanes behind the instruction.
func (w *Warp) jump(to int32) {
	back := to <= w.pc
	if rest := w.mask &^ w.Active; rest != 0 {
		w.groups = append(w.groups, group{pc: w.pc + 1, mask: rest, turn: w.turn})
		w.mask = w.Active
	}
	w.pc = to
	if back && len(w.groups) > 0 {
		w.spins++
	}
}

// scatter makes each active lane continue at its own place.
func (w *Warp) scatter(place func(lane int) int32) {
	if rest := w.mask &^ w.Active; rest != 0 {
		w.groups = append(w.groups, group{pc: w.pc + 1, mask: rest, turn: w.turn})
	}
	for left := w.Active; left != 0; {
		to, same := place(bits.TrailingZeros32(left)&(Lanes-1)), uint32(0)
		for m := left; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros32(m) & (Lanes - 1); place(i) == to {
				same |= 1 << i
			}
		}
		left &^= same
		w.groups = append(w.groups, group{pc: to, mask: same, turn: w.turn})
	}
	w.spins++
	w.mask = 0
}

// exit ends the active lanes.
func (w *Warp) exit() {
	if w.block.checks != nil {
		w.checkExit()
	}
	w.exited |= w.Active
	w.mask &^= w.Active
	w.pc++
	for i := range w.groups { // the lanes may be the last that others waited for
		if w.groups[i].state == atSync {
			w.groups[i].state = ready
		}
	}
	if c := w.block.cluster; c != nil {
		c.exit(w)
	}
	w.block.left(bits.OnesCount32(w.Active))
}

// sync executes an instruction for which the lanes of a mask have to be together. Lanes with other
// masks do so apart.
func (w *Warp) sync(o *Op) {
	all, done := w.Active|w.waitingHere(), uint32(0)
	w.mask |= all
	mask := &w.R[o.E]
	for left := all; left != 0; {
		wanted, same := uint32(mask[bits.TrailingZeros32(left)&(Lanes-1)]), uint32(0)
		for m := left; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros32(m) & (Lanes - 1); uint32(mask[i]) == wanted {
				same |= 1 << i
			}
		}
		left &^= same
		switch members := wanted & w.Live(); {
		case members&^same == 0:
			w.Active = same
			o.Run(w, o)
			done |= same
			w.met(o, same)
		case o.Imm == AnyPlace && w.together(members, same):
			done |= same
		default:
			w.groups = append(w.groups, group{pc: w.pc, mask: same, state: atSync, turn: w.turn})
		}
	}
	w.mask &^= all &^ done
	w.pc++
}

// met notes that lanes have met, if the instruction orders their accesses of memory.
func (w *Warp) met(o *Op, lanes uint32) {
	if c := w.block.checks; c != nil && c.races != nil && o.Imm == AnyPlace {
		c.races.meet(w, lanes)
	}
}

// waitingHere removes the lanes that wait for others at the present instruction, and returns them.
func (w *Warp) waitingHere() (lanes uint32) {
	kept := w.groups[:0]
	for _, g := range w.groups {
		if g.state == atSync && g.pc == w.pc {
			lanes |= g.mask
		} else {
			kept = append(kept, g)
		}
	}
	w.groups = kept
	return lanes
}

// together reports whether all members have reached a barrier of the warp, in several places. Then
// those that wait continue.
func (w *Warp) together(members, lanes uint32) bool {
	for _, g := range w.groups {
		if g.state == atSync && w.block.run.Kernel.Code[g.pc].Imm == AnyPlace {
			lanes |= g.mask
		}
	}
	if members&^lanes != 0 {
		return false
	}
	w.met(&w.block.run.Kernel.Code[w.pc], members)
	for i := range w.groups {
		if g := &w.groups[i]; g.state == atSync && g.mask&members != 0 {
			g.state = ready
			g.pc++
		}
	}
	return true
}

// AnyPlace is the Imm of an instruction of kind Sync that may wait for lanes that wait at another
// instruction like it.
const AnyPlace = 1

// reschedule lets the lanes at the lowest address continue, together with others that are there.
// Lanes that go back again and again while others are ready lose their turn.
func (w *Warp) reschedule() {
	if w.hold > 0 {
		w.hold--
		w.merge()
		return
	}
	for i := range w.groups {
		if g := &w.groups[i]; g.state == ready && g.pc <= w.pc || w.spins > fairness {
			w.groups = append(w.groups, group{pc: w.pc, mask: w.mask, turn: w.turn})
			w.mask = 0
			w.choose()
			return
		}
	}
}

// merge adds the lanes that are at the same place.
func (w *Warp) merge() {
	kept := w.groups[:0]
	for _, g := range w.groups {
		// Lanes that wait for others wait with them.
		if g.pc == w.pc && g.state != atBarrier && g.state != atCluster {
			w.mask |= g.mask
		} else {
			kept = append(kept, g)
		}
	}
	w.groups = kept
}

// choose chooses lanes to execute, and reports whether there are any.
func (w *Warp) choose() bool {
	best := -1
	for i, g := range w.groups {
		switch {
		case g.state != ready:
		case best < 0:
			best = i
		case w.spins > fairness:
			if g.turn < w.groups[best].turn {
				best = i
			}
		case g.pc < w.groups[best].pc:
			best = i
		}
	}
	if best < 0 {
		return false
	}
	if w.spins > fairness {
		w.spins, w.hold = 0, fairness
	}
	w.turn++
	w.pc, w.mask = w.groups[best].pc, 0
	w.merge()
	return true
}
