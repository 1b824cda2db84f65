package vm

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Launch is a launch of a kernel.
type Launch struct {
	Kernel *Kernel
	Shape
	Params []byte
	Const  []byte // the constant memory of the module
	// Constants are the values of Kernel.Constants, in which the addresses of variables are known.
	Constants []Constant
	Device
	// Room is asked for the memory of blocks, or nil if there is enough.
	Room     Room
	Workers  int // how many goroutines execute blocks at most
	Resident int // how many blocks may have begun and not ended
	ID       uint64
	// Workspace is the address of 64 bytes of memory for the whole grid of a cooperative launch, which
	// are zero at its beginning, otherwise 0.
	Workspace uint64
	// Checks are the mistakes that the launch looks for, or nil.
	Checks *Checks
	// Watch is what the launch does for somebody who looks for a mistake, or nil.
	Watch *Watch
}

// Shape is how the threads of a launch are divided.
type Shape struct {
	Grid    [3]uint32
	Block   [3]uint32
	Cluster [3]uint32 // the blocks of a cluster, or zeros: each block is a cluster of its own, without a size
	Dynamic uint32    // the size of the dynamic shared memory of a block, in bytes
}

// Device is what kernels use of the device that executes them. Several goroutines call its functions at once.
type Device struct {
	Memory Memory
	Images Images // or nil if it has none
	// Multiprocessors is how many it seems to have, Warps the most of each, and SharedUnit of how many bytes of shared
	// memory a block gets a multiple. 0 means 1.
	Multiprocessors, Warps, SharedUnit uint32

	Clock   func() int64 // the time in nanoseconds
	Virtual bool         // the clock stands still: each instruction and each look at the clock takes time
	// Print gets what kernels print, and of assertions that fail. It is nil if nobody wants it.
	Print func(text []byte, failed bool)
	// Heap is the memory that kernels allocate and free, or nil if they cannot.
	Heap Heap
	// Condition sets a value that conditional nodes of a graph read. It reports whether the graph has the value.
	Condition func(handle uint64, value uint32) bool
	// Wide is locked while 128 bits are accessed at once: Go has no atomic accesses to as many. Launches that share memory
	// share it. If it is nil, the launch has one of its own.
	Wide *sync.Mutex
}

// Room is memory of the machine. It is used by several goroutines, one after the other.
type Room interface {
	// Take takes a number of bytes, or reports false.
	Take(n uint64) bool
}

// Stop ends a launch.
type Stop struct{ why atomic.Pointer[Fault] }

// Stop makes the launch end soon. Blocks that have not ended do not continue. If there are any, why is the
// fault of the launch, with a place that they have reached. Only the first call has an effect.
func (s *Stop) Stop(why *Fault) { s.why.CompareAndSwap(nil, why) }

// stopped reports whether the launch has to end.
func (s *Stop) stopped() bool { return s.why.Load() != nil }

// run is a launch that is executed.
type run struct {
	*Launch
	stop     *Stop
	blocks   uint64 // of the grid
	resident int

	mu sync.Mutex
	blockQueue
	done    Stats
	cluster *cluster // of the block that has begun last

	others sync.WaitGroup         // the workers but one
	spare  *spare                 // of an earlier launch, or nil
	places [4]int32               // see placesOf
	last   atomic.Pointer[worker] // one that has ended

	kinds    []access // of the instructions, if there are checks
	findings findings
	schedule *schedule // that follows from a seed, or nil
}

// blockQueue has the blocks that a worker can execute next. The lock of the run guards it.
type blockQueue struct {
	next      uint64    // the first block that has not begun
	begun     int       // the blocks that have begun, and whose memory is in use
	suspended []*block  // blocks that have begun, and no worker executes
	idle      []*block  // blocks that have ended, whose memory others can have
	first     [1]*block // where idle begins
	fresh     bool      // the next block is one that has not begun
	asking    bool      // a worker asks for room
	asked     sync.Cond // signalled when it has
}

// worker is a goroutine that executes blocks.
type worker struct {
	loads, stores [cacheSize]segment
	fence         atomic.Uint32
	// The memory that was checked last.
	base, size uint64
	defined    *Defined
	counts     []Count // of the Watch
}

// A block executes so many instructions at first, and later, until it is suspended for others. Blocks
// that wait for each other so continue in turn.
const (
	firstTurn = 1 << 16
	laterTurn = 1 << 13
)

// Stats are counts of what a launch has done.
type Stats struct {
	Instructions uint64 // of all warps
	Waited       int64  // how much later it was for the last warp that looked at a virtual clock
	Ended        uint64 // how many blocks have run to their end
	// Findings are what the checks of the launch have found.
	Findings []*Fault
}

// Execute executes a launch, and returns what was done, and the first fault. There is a fault unless all
// blocks of the grid have run to their end. Execute returns when no goroutine of the launch runs any more.
func (l *Launch) Execute(stop *Stop) (Stats, *Fault) {
	r := &run{Launch: l, stop: stop, blocks: uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2]),
		places: l.Kernel.placesOf()}
	if l.Wide == nil {
		l.Wide = new(sync.Mutex)
	}
	workers := int(min(uint64(max(l.Workers, 1)), r.blocks, max(mostMemory/l.blockMemory(), 1)))
	if r.watch(); r.schedule != nil {
		workers = 1
	}
	r.resident, r.idle, r.asked.L = l.residents(workers), r.first[:0], &r.mu
	if l.Checks == nil {
		r.spare = l.Kernel.spare.Swap(nil)
	}
	if l.Checks != nil {
		for _, p := range l.Kernel.Places {
			r.kinds = append(r.kinds, accessOf(p.Text))
		}
	}
	for range workers - 1 {
		r.others.Go(r.work)
	}
	r.work()
	r.others.Wait()
	for _, b := range r.suspended { // they were stopped
		r.count(b)
	}
	r.watched()
	r.done.Findings = r.findings.all()
	if r.done.Ended != r.blocks {
		return r.done, r.cut()
	}
	r.keep()
	return r.done, nil
}

// cut returns the fault of a launch of which not all blocks have run to their end: that of a block, or else
// why the launch was stopped, with the place of a thread that has not exited.
func (r *run) cut() *Fault {
	why := r.stop.why.Load()
	switch {
	case why == nil:
		why = &Fault{Code: LaunchFailed, Reason: "the executor has lost blocks"}
	case why.Kernel != "":
		return why
	}
	if len(r.suspended) == 0 && r.next < r.blocks {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.room() {
			r.suspended = append(r.suspended, r.beginBlock(r.next))
		}
	}
	f := &Fault{}
	if len(r.suspended) > 0 {
		f = r.suspended[0].where()
	}
	f.Code, f.Kernel = why.Code, r.Kernel.Name
	f.Reason = fmt.Sprintf("%s; %d of %d blocks have run to their end", why.Reason, r.done.Ended, r.blocks)
	if r.resident < r.Resident && uint64(r.resident) < r.blocks {
		f.Reason += fmt.Sprintf("; %d blocks are executed at the same time, each of which takes %d bytes: if they wait for "+
			"others, the launch never ends", r.resident, r.blockMemory())
	}
	return f
}

// mostMemory is how much memory the blocks that have begun may take, unless the grid is cooperative or
// there are fewer blocks than workers.
const mostMemory = 1 << 28

// residents returns how many blocks may have begun and not ended.
func (l *Launch) residents(workers int) int {
	_, together := l.clusters()
	n := max(l.Resident, int(together), 1)
	if l.Workspace == 0 { // not all blocks have to begin together
		n = max(min(n, int(mostMemory/l.blockMemory())), int(together), workers)
	}
	return n
}

// blockMemory returns how much memory a block takes, in bytes.
func (l *Launch) blockMemory() uint64 {
	threads := uint64(l.Block[0]) * uint64(l.Block[1]) * uint64(l.Block[2])
	k, warps := l.Kernel, (threads+Lanes-1)/Lanes
	saved := uint64(0)
	if k.Saves {
		saved = threads * mostSaved * 8
	}
	return saved + l.Checks.memory(threads, uint64(k.Shared)+uint64(l.Dynamic)) + uint64(k.Shared) + uint64(l.Dynamic) +
		warps*(uint64(k.Local)*Lanes+uint64(k.Columns)*columnSize+4096)
}

// room reports whether there is memory for the next block, and for the others of its cluster. The lock is held, but not
// while Room is asked, which may take long. No other worker begins a block meanwhile.
func (r *run) room() bool {
	_, together := r.clusters()
	if r.next%together != 0 || uint64(len(r.idle)) >= together {
		return true
	}
	if r.Room == nil {
		return true
	}
	n := (together - uint64(len(r.idle))) * r.blockMemory()
	r.asking = true
	r.mu.Unlock()
	there := r.Room.Take(n)
	r.mu.Lock()
	r.asking = false
	r.asked.Broadcast()
	return there || uint64(len(r.idle)) >= together // blocks have ended meanwhile
}

// lacks ends a launch for which there is too little memory, unless the blocks that have begun can end without others.
// The lock is held.
func (r *run) lacks() {
	_, together := r.clusters()
	switch {
	case r.Workspace != 0:
		together = r.blocks
	case r.begun > 0:
		r.resident = r.begun
		return
	}
	reason := fmt.Sprintf("the process may have too little memory for %d blocks that are executed together, each of "+
		"which takes %d bytes", together, r.blockMemory())
	r.stop.Stop(&Fault{Code: LaunchFailed, Kernel: r.Kernel.Name, Reason: reason})
}

// work executes blocks until there are no more.
func (r *run) work() {
	wk := r.worker()
	defer wk.count(r)()
	var b *block
	// Other code may have unmapped its memory.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if problem := recover(); problem != nil {
			r.stop.Stop(r.broken(b, problem))
		}
	}()
	for {
		if b = r.take(); b == nil {
			r.last.Store(wk)
			return
		}
		clear(wk.loads[:])
		clear(wk.stores[:])
		how, fault := b.execute(wk, b.turn)
		b.turn = laterTurn
		r.put(b, how, fault)
	}
}

// broken returns the fault for memory that is not there, or for an error of the machine.
func (r *run) broken(b *block, problem any) *Fault {
	f := &Fault{Code: IllegalAddress, Kernel: r.Kernel.Name, Reason: "the memory is not mapped"}
	if at, is := problem.(interface{ Addr() uintptr }); is {
		f.Access, f.Address = true, uint64(at.Addr())
	} else {
		f.Code, f.Reason = LaunchFailed, fmt.Sprintf("the executor failed: %v", problem)
	}
	if b != nil {
		f.Block = b.index
	}
	return f
}

// take returns a block to execute, or nil if there is none for this worker.
func (r *run) take() *block {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.stop.stopped() {
		next := r.nextBlock(!r.asking && r.next < r.blocks && r.begun < r.resident)
		if next < 0 {
			r.fresh = false // the next block is a suspended one
			if r.room() {
				b := r.beginBlock(r.next)
				r.next++
				r.begun++
				return b
			}
			r.lacks()
			continue
		}
		if len(r.suspended) > 0 {
			b := r.suspended[next]
			r.suspended[next] = r.suspended[0]
			r.suspended = r.suspended[1:]
			r.fresh = true
			return b
		}
		if !r.asking {
			break
		}
		r.asked.Wait()
	}
	return nil
}

// put takes back a block that a worker has executed.
func (r *run) put(b *block, how outcome, fault *Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch how {
	case ends:
		r.done.Ended++
		r.count(b)
		if c := b.cluster; c == nil {
			r.begun--
			r.idle = append(r.idle, b)
		} else if c.ended++; c.ended == len(c.blocks) { // before, others of the cluster may use the memory
			r.begun -= len(c.blocks)
			r.idle = append(r.idle, c.blocks...)
		}
	case fails:
		r.count(b)
		r.stop.Stop(fault)
	default:
		r.suspended = append(r.suspended, b)
	}
}

// count adds what a block has done.
func (r *run) count(b *block) {
	for _, w := range b.warps {
		r.done.Instructions += w.count
		r.done.Waited = max(r.done.Waited, w.waited)
	}
}

// beginBlock makes a block that has ended, or a new one, the block with a number.
func (r *run) beginBlock(n uint64) *block {
	var b *block
	if i := len(r.idle) - 1; i >= 0 {
		b, r.idle = r.idle[i], r.idle[:i]
	} else {
		b = r.newBlock()
	}
	b.number = n
	r.place(b, n)
	clear(b.memory)
	if b.checks != nil {
		b.checks.reset()
	}
	b.bars = [16]barrier{}
	threads := int(r.Block[0] * r.Block[1] * r.Block[2])
	own := [4]uint32{b.index[0], b.index[1], b.index[2], uint32(n % uint64(max(r.Multiprocessors, 1)))}
	b.live, b.turn = threads, firstTurn
	for i, w := range b.warps {
		w.pc, w.mask, w.groups, w.exited, w.spins, w.hold, w.count, w.waited = 0, Full, w.groups[:0], 0, 0, 0, 0, 0
		if left := threads - i*Lanes; left < Lanes {
			w.mask = 1<<left - 1
			w.exited = ^w.mask
		}
		w.arrived, w.arrivedAt, w.clusterWaits = 0, [Lanes]uint32{}, false
		if w.saved != nil {
			for i := range w.saved {
				w.saved[i] = w.saved[i][:0]
			}
		}
		if r.Kernel.Clusters {
			for s, v := range b.clusterSpecials() {
				if c, used := r.Kernel.Specials[s]; used {
					w.fill(c, uint64(v))
				}
			}
		}
		for i, c := range r.places {
			if c != 0 && (b.fresh || own[i] != b.own[i]) {
				w.fill(c, uint64(own[i]))
			}
		}
	}
	b.own, b.fresh = own, false
	return b
}

// placesOf returns the columns of the special registers that differ between blocks, or 0 for those that the kernel does
// not use.
func (k *Kernel) placesOf() [4]int32 {
	return [4]int32{k.Specials[CtaidX], k.Specials[CtaidY], k.Specials[CtaidZ], k.Specials[SMID]}
}

// fill sets a column to one value.
func (w *Warp) fill(c int32, v uint64) {
	d := &w.R[c]
	for i := range d {
		d[i] = v
	}
}

// spare is what a launch has left for the next one of the same kernel.
type spare struct {
	block  *block
	size   [3]uint32
	shared uint32 // the dynamic shared memory
	worker *worker
}

// mostSpare is how much memory a spare block takes at most, in bytes.
const mostSpare = 1 << 18

// keep leaves a block and a worker for the next launch, so that a small one allocates little.
func (r *run) keep() {
	wk := r.last.Load()
	if r.Checks != nil || len(r.idle) == 0 || wk == nil || r.blockMemory() > mostSpare {
		return
	}
	b := r.idle[0]
	b.run, b.cluster = nil, nil
	for _, w := range b.warps {
		w.worker = nil
	}
	*wk = worker{}
	s := r.spare
	if s == nil {
		s = new(spare)
	}
	*s = spare{b, r.Block, r.Dynamic, wk}
	r.Kernel.spare.Store(s)
}

// worker returns the worker of an earlier launch, or a new one.
func (r *run) worker() *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spare == nil || r.spare.worker == nil {
		return new(worker)
	}
	wk := r.spare.worker
	r.spare.worker = nil
	return wk
}

// newBlock returns a block with everything that is the same for all blocks of a launch.
func (r *run) newBlock() *block {
	if s := r.spare; s != nil && s.block != nil && s.size == r.Block && s.shared == r.Dynamic {
		b := s.block
		b.run, b.fresh, s.block = r, true, nil
		for _, w := range b.warps {
			r.prepare(w)
		}
		return b
	}
	k := r.Kernel
	threads := int(r.Block[0] * r.Block[1] * r.Block[2])
	b := &block{run: r, fresh: true, warps: make([]*Warp, (threads+Lanes-1)/Lanes)}
	words := make([]uint64, (uint64(k.Shared)+uint64(r.Dynamic)+15)/8)
	b.memory = BytesOf(words)[:uint64(k.Shared)+uint64(r.Dynamic)]
	b.whole = segmentOf(SharedBegin, b.memory)
	if r.Checks != nil {
		b.checks = r.newChecks(threads)
	} else {
		b.shared = b.whole
	}
	for i := range b.warps {
		w := &Warp{R: make([]Column, k.Columns), P: make([]uint32, k.Predicates), block: b, index: i}
		if k.Local > 0 {
			w.local = BytesOf(make([]uint64, uint64(k.Local)*Lanes/8))
		}
		r.prepare(w)
		b.warps[i] = w
	}
	return b
}

// prepare sets what is the same for all blocks of a launch.
func (r *run) prepare(w *Warp) {
	for _, c := range r.Constants {
		w.fill(c.Column, c.Value)
	}
	for s, c := range r.Kernel.Specials {
		w.special(s, c)
	}
}

// special sets the column of a special register that is the same in all blocks.
func (w *Warp) special(s Special, c int32) {
	r, d := w.block.run, &w.R[c]
	size, same := r.Block, w.uniform(s)
	for i := range d {
		n := uint32(w.index*Lanes + i)
		switch s {
		case TidX:
			d[i] = uint64(n % size[0])
		case TidY:
			d[i] = uint64(n / size[0] % size[1])
		case TidZ:
			d[i] = uint64(n / size[0] / size[1])
		case LaneID:
			d[i] = uint64(i)
		case LanemaskEq:
			d[i] = 1 << i
		case LanemaskLt:
			d[i] = 1<<i - 1
		case LanemaskLe:
			d[i] = 2<<i - 1
		case LanemaskGt:
			d[i] = uint64(^uint32(2<<i - 1))
		case LanemaskGe:
			d[i] = uint64(^uint32(1<<i - 1))
		default:
			d[i] = same
		}
	}
}

// uniform returns the value of a special register that is the same in all lanes, and in all blocks.
func (w *Warp) uniform(s Special) uint64 {
	r := w.block.run
	switch s {
	case NtidX, NtidY, NtidZ:
		return uint64(r.Block[s-NtidX])
	case NctaidX, NctaidY, NctaidZ:
		return uint64(r.Grid[s-NctaidX])
	case WarpID:
		return uint64(w.index)
	case NwarpID:
		return uint64(max(r.Warps, 1))
	case DynamicShared:
		return uint64(r.Dynamic)
	case NSMID:
		return uint64(max(r.Multiprocessors, 1))
	case GridID:
		return r.ID
	case Env1:
		return r.Workspace >> 32
	case Env2:
		return r.Workspace & (1<<32 - 1)
	case TotalShared:
		return w.block.sharedSize()
	case AggregateShared:
		return w.block.sharedSize() + SharedBegin
	case Reserved:
		return SharedBegin
	case ReservedOne:
		return SharedBegin / 2
	case ExplicitCluster:
		if w.Clustered() {
			return 1
		}
	}
	return 0
}

// sharedSize returns how much shared memory the block has, in whole units.
func (b *block) sharedSize() uint64 {
	unit := uint64(max(b.run.SharedUnit, 1))
	return (uint64(b.run.Kernel.Static) + uint64(b.run.Dynamic) + unit - 1) / unit * unit
}
