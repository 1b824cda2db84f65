package vm

import (
	"math/bits"
	"sync"
)

// cluster is blocks that have barriers in common, and access the shared memory of each other.
type cluster struct {
	mu      sync.Mutex
	blocks  []*block // by their ranks; nil before a block has begun
	live    int      // the threads that have not exited
	arrived int      // at the barrier
	phase   uint32   // how often the barrier was complete
	stalls  []stall  // by the ranks of blocks

	ended int // the blocks that have ended; the run's lock protects it
}

// stall says that no thread of a block can continue before the barrier of the cluster is complete again.
type stall struct {
	over  bool   // the block has ended
	is    bool   // there is a stall, in phase
	phase uint32 // how often the barrier was complete when the block stalled
	fault *Fault // where threads wait
	other bool   // some wait for threads of the block only
}

// clusters is the number of blocks of a cluster in each dimension, and their product.
func (l *Launch) clusters() (size [3]uint32, count uint64) {
	for i, n := range l.Cluster {
		size[i] = max(n, 1)
	}
	return size, uint64(size[0]) * uint64(size[1]) * uint64(size[2])
}

// Clustered reports whether the launch has a size of clusters.
func (w *Warp) Clustered() bool { return w.block.run.Cluster != [3]uint32{} }

// place sets the index of the block with a number. The blocks of a cluster follow each other, so that
// they begin together.
func (r *run) place(b *block, n uint64) {
	size, count := r.clusters()
	c, rank := n/count, n%count
	at := func(n uint64, x, y uint32) [3]uint32 {
		return [3]uint32{uint32(n % uint64(x)), uint32(n / uint64(x) % uint64(y)), uint32(n / uint64(x) / uint64(y))}
	}
	b.clusterIndex = at(c, r.Grid[0]/size[0], r.Grid[1]/size[1])
	b.inCluster = at(rank, size[0], size[1])
	for i := range b.index {
		b.index[i] = b.clusterIndex[i]*size[i] + b.inCluster[i]
	}
	b.cluster, b.rank = nil, uint32(rank)
	if count == 1 && !r.Kernel.Clusters {
		return
	}
	if rank == 0 {
		threads := uint64(r.Block[0]) * uint64(r.Block[1]) * uint64(r.Block[2])
		r.cluster = &cluster{blocks: make([]*block, count), live: int(threads * count), stalls: make([]stall, count)}
	}
	b.cluster = r.cluster
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	b.cluster.blocks[rank] = b
}

// arrive notes that the active lanes of a warp have arrived at the barrier.
func (c *cluster) arrive(w *Warp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range w.Each {
		w.arrivedAt[i] = c.phase
	}
	w.arrived |= w.Active
	c.arrived += bits.OnesCount32(w.Active)
	c.check()
}

// exit notes that the active lanes of a warp have exited. Those that have arrived at the barrier no
// longer count there.
func (c *cluster) exit(w *Warp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for m := w.Active & w.arrived; m != 0; m &= m - 1 {
		if w.arrivedAt[bits.TrailingZeros32(m)&(Lanes-1)] == c.phase {
			c.arrived--
		}
	}
	c.live -= bits.OnesCount32(w.Active)
	c.stalls[w.block.rank].over = w.block.live == bits.OnesCount32(w.Active)
	c.check()
}

// stalled notes that no thread of a block can continue, and some wait for the cluster. It returns the
// fault if this is so for all blocks.
func (c *cluster) stalled(b *block) *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := &c.stalls[b.rank]
	if !own.is || own.phase != c.phase {
		for _, w := range b.warps {
			for _, g := range w.groups {
				if g.state == atCluster && uint32(g.id) != c.phase {
					return nil // the barrier is complete since
				}
			}
		}
		fault, other := b.deadlock()
		*own = stall{is: true, phase: c.phase, fault: fault, other: other}
	}
	var found *stall
	for i := range c.stalls {
		switch s := &c.stalls[i]; {
		case s.over:
		case !s.is || s.phase != c.phase:
			return nil
		case found == nil, s.other && !found.other:
			found = s
		}
	}
	found.fault.Reason = "all threads of the cluster wait for each other; on a GPU this never ends"
	return found.fault
}

// check completes the barrier if all have arrived that have not exited.
func (c *cluster) check() {
	if c.arrived > 0 && c.arrived >= c.live {
		c.arrived = 0
		c.phase++
	}
}

// complete returns how often the barrier was complete.
func (c *cluster) complete() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.phase
}

// clusterBarrier executes one half of a barrier of the cluster.
func (w *Warp) clusterBarrier(o *Op) {
	c := w.block.cluster
	w.pc++
	if o.X.Arrive {
		if checks := w.block.checks; checks != nil && checks.races != nil {
			checks.races.arriveCluster(w)
		}
		c.arrive(w)
		return
	}
	// Lanes that have not arrived do not wait, as on an H200.
	for m := w.Active & w.arrived; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & (Lanes - 1)
		w.groups = append(w.groups, group{pc: w.pc, mask: 1 << i, state: atCluster, id: int32(w.arrivedAt[i]), turn: w.turn})
	}
	w.mask &^= w.Active & w.arrived
	w.clusterWaits = true
	w.pollCluster()
}

// pollCluster makes lanes ready whose barrier of the cluster is complete.
func (w *Warp) pollCluster() {
	phase := w.block.cluster.complete()
	w.clusterWaits = false
	for i := range w.groups {
		switch g := &w.groups[i]; {
		case g.state != atCluster:
		case uint32(g.id) != phase:
			g.state = ready
			if checks := w.block.checks; checks != nil && checks.races != nil {
				checks.races.leaveCluster(w, g.mask)
			}
		default:
			w.clusterWaits = true
		}
	}
}

// The upper byte of an address of shared memory with 32 bits is 0 for that of the own block, and
// otherwise a rank in the cluster and 1.
const rankShift = 24

// sharedOf returns the block whose shared memory an address is in, and the address without the rank. If
// there is none, or the block has ended, it is nil.
func (w *Warp) sharedOf(addr uint32) (*block, uint32) {
	rank := addr >> rankShift
	if rank == 0 {
		return w.block, addr
	}
	addr &= 1<<rankShift - 1
	if c := w.block.cluster; c != nil && int(rank) <= len(c.blocks) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if b := c.blocks[rank-1]; b != nil && !c.stalls[rank-1].over {
			return b, addr
		}
	}
	return nil, addr
}

// MapRank returns the address with the same offset in the shared memory of the block with a rank. If
// there is no such block, nothing is at the address.
func (w *Warp) MapRank(addr uint64, rank uint32) uint64 {
	blocks := 1
	if c := w.block.cluster; c != nil {
		blocks = len(c.blocks)
	}
	addr &^= 0xff << rankShift
	switch {
	case uint64(rank) >= uint64(blocks):
		addr |= 0xff << rankShift
	case rank != w.block.rank:
		addr |= uint64(rank+1) << rankShift
	}
	return addr
}

// RankOf returns the rank of the block to which an address of shared memory belongs.
func (w *Warp) RankOf(addr uint64) uint32 {
	if rank := uint32(addr) >> rankShift; rank != 0 {
		return rank - 1
	}
	return w.block.rank
}

// clusterSpecials returns the special registers about clusters.
func (b *block) clusterSpecials() map[Special]uint32 {
	size, count := b.run.clusters()
	grid := b.run.Grid
	return map[Special]uint32{
		ClusterX: b.clusterIndex[0], ClusterY: b.clusterIndex[1], ClusterZ: b.clusterIndex[2],
		NclusterX: grid[0] / size[0], NclusterY: grid[1] / size[1], NclusterZ: grid[2] / size[2],
		ClusterCtaidX: b.inCluster[0], ClusterCtaidY: b.inCluster[1], ClusterCtaidZ: b.inCluster[2],
		ClusterNctaidX: size[0], ClusterNctaidY: size[1], ClusterNctaidZ: size[2],
		ClusterCtarank: b.rank, ClusterNctarank: uint32(count),
	}
}
