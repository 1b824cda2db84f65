package vm

import (
	"fmt"
	"math/bits"
	"runtime"
)

// block is a block of threads. One worker at a time executes it.
type block struct {
	run *run
	blockPosition
	warps  []*Warp
	whole  segment      // the shared memory
	shared segment      // the same for accesses that need no checks; empty if there are checks
	checks *blockChecks // or nil
	memory []byte
	bars   [16]barrier
	live   int // the threads that have not exited
	// own are the values of the special registers of the last block, unless it is fresh: see placesOf.
	own   [4]uint32
	fresh bool
	turn  int // how many instructions it executes until it is suspended
}

// blockPosition says which block of the grid a block is.
type blockPosition struct {
	number uint64
	index  [3]uint32

	cluster      *cluster // or nil
	clusterIndex [3]uint32
	inCluster    [3]uint32
	rank         uint32
}

// barrier is a barrier of a block.
type barrier struct {
	arrived int // the threads
	want    int // the number of threads, or 0 for all
	any     bool
	all     bool
	count   uint32
}

// locate notes the block and the thread of a fault.
func (b *block) locate(f *Fault, warp, lane int) {
	f.Block = b.index
	n, size := uint32(warp*Lanes+lane), b.run.Block
	f.Thread = [3]uint32{n % size[0], n / size[0] % size[1], n / size[0] / size[1]}
}

// mostThreads is the largest number of threads of a barrier.
const mostThreads = 2048

// arrive makes the active lanes of a warp arrive at a barrier.
func (b *block) arrive(w *Warp, o *Op) {
	id := uint32(w.R[o.A][w.First()]) % uint32(len(b.bars)) // as on an H200
	bar, x := &b.bars[id], o.X
	if n := uint32(w.R[o.B][w.First()]); x.Counted && (n%Lanes != 0 || n > mostThreads) {
		w.Fail(IllegalInstruction, fmt.Sprintf("the number of threads of a barrier is %d: it has to be a multiple of "+
			"32, and at most 2048", n))
		return
	}
	if bar.arrived == 0 {
		*bar = barrier{all: true}
	}
	if b.checks != nil {
		b.checkArrival(w, id)
	}
	n := bits.OnesCount32(w.Active)
	if x.Counted {
		bar.want = int(uint32(w.R[o.B][w.First()]))
		// All threads of a warp count, also those that do not exist.
		if w.Active == w.Live() {
			n = Lanes
		}
	}
	bar.arrived += n
	if x.Reduce {
		p := w.Truth(o.C) & w.Active
		bar.any = bar.any || p != 0
		bar.all = bar.all && p == w.Active
		bar.count += uint32(bits.OnesCount32(p))
	}
	w.pc++
	if !x.Arrive {
		w.groups = append(w.groups, group{pc: w.pc, mask: w.Active, state: atBarrier, id: int32(id), turn: w.turn})
		w.mask &^= w.Active
	}
	b.check(int32(id))
}

// left notes that threads have exited.
func (b *block) left(n int) {
	b.live -= n
	for id := range b.bars {
		b.check(int32(id))
	}
}

// check lets the threads at a barrier continue if all have arrived.
func (b *block) check(id int32) {
	bar := &b.bars[id]
	switch {
	case bar.arrived == 0, bar.want == 0 && bar.arrived < b.live, bar.arrived < bar.want:
		return
	}
	if b.checks != nil && bar.want == 0 {
		b.checkComplete(id)
	}
	bar.arrived, bar.want = 0, 0
	for _, w := range b.warps {
		for i := range w.groups {
			g := &w.groups[i]
			if g.state != atBarrier || g.id != id {
				continue
			}
			g.state = ready
			if b.checks != nil && b.checks.races != nil {
				b.checks.races.complete(w, uint32(id), g.mask)
			}
			if o := &b.run.Kernel.Code[g.pc-1]; o.Run != nil {
				active := w.Active
				w.Active = g.mask
				w.Result = bar.result(o.Imm)
				o.Run(w, o)
				w.Active = active
			}
		}
	}
	if b.checks != nil && b.checks.races != nil {
		b.checks.races.bars[id] = gathering{}
	}
}

// The reductions of a barrier.
const (
	ReduceCount = iota
	ReduceAnd
	ReduceOr
)

// result returns a reduction. Of a truth, all bits are the same.
func (b *barrier) result(how int64) uint32 {
	switch {
	case how == ReduceCount:
		return b.count
	case how == ReduceAnd && b.all, how == ReduceOr && b.any:
		return Full
	}
	return 0
}

// slice is how many instructions a warp executes before others have their turn.
const slice = 4096

// execute executes the block until it ends, or has used its budget.
func (b *block) execute(wk *worker, budget int) (outcome, *Fault) {
	for _, w := range b.warps {
		w.worker = wk
	}
	chosen := b.run.schedule
	for budget > 0 {
		running, moved, waiting, warps := 0, false, false, b.warps
		if chosen != nil {
			warps = chosen.warps(warps)
		}
		for _, w := range warps {
			if w.exited == Full {
				continue
			}
			if w.clusterWaits {
				w.pollCluster()
			}
			before := w.count
			switch w.execute(slice) {
			case fails:
				return fails, w.Fault
			case ends:
			default:
				running++
			}
			budget -= int(w.count - before)
			moved = moved || w.count != before
			waiting = waiting || w.clusterWaits
			if b.run.stop.stopped() || chosen != nil && moved && chosen.chance(chosen.blockTurns) {
				return paused, nil
			}
		}
		switch {
		case running == 0:
			return ends, nil
		case !moved && waiting: // for blocks that others execute
			if fault := b.cluster.stalled(b); fault != nil {
				return fails, fault
			}
			runtime.Gosched()
			return paused, nil
		case !moved:
			fault, _ := b.deadlock()
			return fails, fault
		}
	}
	return paused, nil
}

const endless = "all threads of the block wait for each other; on a GPU this never ends"

// deadlock returns the fault for threads that wait for each other. It says whether it is about threads
// that wait for others of the block, and not for the cluster.
func (b *block) deadlock() (f *Fault, other bool) {
	for _, w := range b.warps {
		for _, g := range w.groups {
			if f != nil && (other || g.state == atCluster) {
				continue
			}
			other = g.state != atCluster
			f = &Fault{Code: LaunchFailed, Reason: endless}
			if w.pc = g.pc; g.state == atBarrier || g.state == atCluster {
				w.pc--
			}
			b.locate(f, w.index, bits.TrailingZeros32(g.mask))
			w.locate(f)
		}
	}
	if f == nil {
		f = &Fault{Code: LaunchFailed, Reason: endless}
	}
	return f, other
}

// where returns the place of a thread that has not exited. It is empty if all have.
func (b *block) where() *Fault {
	for _, w := range b.warps {
		pc, lanes := w.pc, w.mask
		if lanes == 0 && len(w.groups) > 0 {
			pc, lanes = w.groups[0].pc, w.groups[0].mask
		}
		if lanes != 0 {
			return w.elsewhere(pc, w.index*Lanes+bits.TrailingZeros32(lanes))
		}
	}
	return new(Fault)
}
