package vm

import "math/rand/v2"

// schedule chooses the order of a launch's warps and blocks, and where they are switched, by random numbers that
// follow from a seed. One worker executes the launch, so that the same seed always makes the same choices.
type schedule struct {
	random *rand.PCG
	// A warp that has accessed memory gives its turn to another one with a chance of 1 in 1<<warpTurns, and a
	// block with 1 in 1<<blockTurns after each turn of a warp. never is no chance.
	warpTurns, blockTurns uint
	order                 []*Warp
}

// never is a number of bits that no random number has as zeros.
const never = 64

// newSchedule returns the schedule for a seed. Some mistakes need many switches, others one at the right place:
// so how frequent they are differs, too.
func (r *run) newSchedule(seed uint64) *schedule {
	s := &schedule{random: rand.NewPCG(seed, 0)}
	often := [...]uint{0, 0, 1, 2, 4, never}
	s.warpTurns, s.blockTurns = often[s.below(len(often))], often[s.below(len(often))]
	switch {
	case r.blocks == 1:
		s.blockTurns = never
	case r.Block[0]*r.Block[1]*r.Block[2] <= Lanes: // a block has no other warp
		s.blockTurns = 0
	}
	return s
}

// below returns a random number below n.
func (s *schedule) below(n int) int { return int(s.random.Uint64() % uint64(n)) }

// chance returns true once in 1<<bits calls, on the average. For never it is false.
func (s *schedule) chance(bits uint) bool { return bits != never && s.random.Uint64()&(1<<bits-1) == 0 }

// warps returns warps in the order of their next turns.
func (s *schedule) warps(list []*Warp) []*Warp {
	s.order = append(s.order[:0], list...)
	for i := len(s.order) - 1; i > 0; i-- {
		j := s.below(i + 1)
		s.order[i], s.order[j] = s.order[j], s.order[i]
	}
	return s.order
}

// switches reports whether other warps can notice an instruction of a kind, so that they may have their turn
// behind it. After what waits for other threads they have it anyway.
func (k Kind) switches() bool { return k == Touches || k == Sync || k == Barrier || k == Cluster }

// nextBlock returns which of the suspended blocks continues, or -1 if one begins that has not begun.
func (r *run) nextBlock(mayBegin bool) int {
	switch n := len(r.suspended); {
	case mayBegin && (n == 0 || r.schedule == nil && r.fresh):
		return -1
	case r.schedule == nil || n == 0:
		return 0
	case mayBegin:
		return r.schedule.below(n+1) - 1
	default:
		return r.schedule.below(n)
	}
}
