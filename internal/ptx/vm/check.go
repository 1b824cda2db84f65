package vm

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// Checks says which mistakes a launch looks for, in addition to its faults. A mistake does not end the
// launch.
type Checks struct {
	Memory   bool // reads of shared memory, and of memory of the device, that nothing has written
	Races    bool // accesses of shared memory by two threads without an order
	Barriers bool // barriers that some threads do not reach
	// Defined returns the memory of a device that contains an address: its first address, its size, and
	// which of its bytes were written, or nil if that is not known.
	Defined func(addr uint64) (base, size uint64, d *Defined)
}

// mostFindings is how many mistakes of a launch are noted.
const mostFindings = 100

// findings are the mistakes of a launch, each with the first block that makes it.
type findings struct {
	mu   sync.Mutex
	list map[findingKey]*finding
}

// findingKey has the kind of a mistake, and the places of the two accesses.
type findingKey struct {
	kind      string
	pc, other int32
}

type finding struct {
	fault *Fault
	block uint64
}

// note notes a mistake, unless there is the same one of an earlier block.
func (r *run) note(b *block, key findingKey, fault func() *Fault) {
	l := &r.findings
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.list[key]
	switch {
	case old == nil && len(l.list) == mostFindings, old != nil && old.block <= b.number:
		return
	case l.list == nil:
		l.list = make(map[findingKey]*finding)
	}
	l.list[key] = &finding{fault(), b.number}
}

// all returns the mistakes in the order of the text.
func (l *findings) all() (list []*Fault) {
	for _, f := range l.list {
		list = append(list, f.fault)
	}
	slices.SortFunc(list, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Address, b.Address))
	})
	return list
}

// access says what an instruction does to memory.
type access uint8

const (
	reads access = 1 << iota
	writes
	strong // it is atomic, volatile, or has an order
	acquires
	releases
)

// accessOf returns what an instruction does, or 0 if each access says that itself.
func accessOf(text string) (a access) {
	name, rest, _ := strings.Cut(text, ".")
	rest = "." + rest + "."
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(rest, "."+w+".") })
	}
	switch {
	case name == "ld", name == "ldu":
		a = reads
	case name == "st":
		a = writes
	case name == "atom", name == "red":
		a = reads | writes | strong
	case name == "mbarrier" && has("init"):
		return writes
	case name == "mbarrier" && has("inval"):
		return writes
	case name == "mbarrier", name == "cp" && has("mbarrier"):
		return reads | writes | strong | acquires | releases
	default:
		return 0
	}
	if has("volatile", "relaxed", "acquire", "release", "acq_rel") {
		a |= strong
	}
	if has("acquire", "acq_rel") {
		a |= acquires
	}
	if has("release", "acq_rel") {
		a |= releases
	}
	return a
}

// blockChecks is what a block knows of its threads and its shared memory for checks.
type blockChecks struct {
	mu      sync.Mutex // other blocks of the cluster may have access
	written []bool     // the bytes of the shared memory, or nil
	races   *races     // or nil
	exits   []int32    // the places at which threads have exited, and 1, or nil
}

// newChecks returns the checks of a block.
func (r *run) newChecks(threads int) *blockChecks {
	c := new(blockChecks)
	size := int(r.Kernel.Shared + r.Dynamic)
	if r.Checks.Memory {
		c.written = make([]bool, size)
	}
	if r.Checks.Races {
		c.races = newRaces(threads, size)
	}
	if r.Checks.Barriers {
		c.exits = make([]int32, threads)
	}
	return c
}

// reset is for the next block.
func (c *blockChecks) reset() {
	clear(c.written)
	clear(c.exits)
	if c.races != nil {
		c.races.reset()
	}
}

// memory returns how much memory the checks of a block take, in bytes.
func (c *Checks) memory(threads, shared uint64) (n uint64) {
	if c == nil {
		return 0
	}
	if c.Memory {
		n += shared
	}
	if c.Races {
		n += shared*cellSize + mostOrders*threads*4
	}
	return n
}

// kind returns what the present instruction does.
func (w *Warp) kind(write bool) access {
	switch k := w.block.run.kinds[w.pc]; {
	case k != 0:
		return k
	case write:
		return writes
	}
	return reads
}

// note notes a mistake of a lane.
func (w *Warp) note(lane int, kind string, other int32, f func(f *Fault)) {
	b := w.block
	b.run.note(b, findingKey{kind, w.pc, other}, func() *Fault {
		fault := new(Fault)
		b.locate(fault, w.index, lane)
		w.locate(fault)
		f(fault)
		return fault
	})
}

// checkShared checks an access of a lane to the shared memory of a block.
func (w *Warp) checkShared(b *block, lane int, addr, n uint64, k access) {
	c, off := b.checks, addr-SharedBegin
	if c.written != nil {
		c.mu.Lock()
		part := c.written[off : off+n]
		if i := slices.Index(part, false); i >= 0 && k&reads != 0 {
			w.undefined(lane, addr, n, uint64(i), "shared memory that no thread of the block has written")
		}
		if k&writes != 0 {
			for i := range part {
				part[i] = true
			}
		}
		c.mu.Unlock()
	}
	if c.races != nil && b == w.block {
		c.races.access(w, lane, off, n, k)
		if k&strong != 0 {
			c.races.order(w, lane, SharedWindow|addr, k)
		}
	}
}

// checkGlobal checks an access of a lane to other memory.
func (w *Warp) checkGlobal(lane int, addr, n uint64, write bool) {
	k := w.kind(write)
	if c := w.block.run.Checks; c.Memory {
		base, size, d := w.worker.base, w.worker.size, w.worker.defined
		if addr-base >= size {
			base, size, d = c.Defined(addr)
			w.worker.base, w.worker.size, w.worker.defined = base, size, d
		}
		if d != nil {
			if k&reads != 0 {
				if at, is := d.Missing(addr-base, n); is {
					w.undefined(lane, addr, n, base+at-addr, "memory of the device that nothing has written")
				}
			}
			if k&writes != 0 {
				d.Set(addr-base, n)
			}
		}
	}
	if c := w.block.checks; c.races != nil && k&strong != 0 {
		c.races.order(w, lane, addr, k)
	}
}

// undefined notes a read of bytes that were not written, of which the first is at an offset.
func (w *Warp) undefined(lane int, addr, n, first uint64, what string) {
	w.note(lane, "undefined", 0, func(f *Fault) {
		f.Access, f.Address, f.Size, f.Reason = true, addr, n, what
		if first > 0 {
			f.Reason += fmt.Sprintf(", from byte %d of the access", first)
		}
	})
}

// checkArrival notes that the active lanes of a warp have arrived at a barrier. It checks that all lanes
// wait at one place for a barrier that the whole warp has to reach together.
func (b *block) checkArrival(w *Warp, id uint32) {
	if b.checks.races != nil {
		b.checks.races.arrive(w, id)
	}
	if b.checks.exits == nil || !w.aligned(w.pc) {
		return
	}
	for _, g := range w.groups {
		if g.state == atBarrier && g.id == int32(id) && g.pc != w.pc+1 && w.aligned(g.pc-1) {
			w.note(w.First(), "barrier", g.pc, func(f *Fault) {
				f.Reason = "threads of a warp wait at two places for one barrier, which they have to reach together"
				f.Other = w.elsewhere(g.pc-1, w.index*Lanes+bits.TrailingZeros32(g.mask))
			})
			return
		}
	}
}

// aligned reports whether a barrier is one that a warp has to reach together.
func (w *Warp) aligned(pc int32) bool {
	text := w.block.run.Kernel.Places[pc].Text
	return strings.HasPrefix(text, "bar.") || strings.Contains(text, ".aligned")
}

// elsewhere returns the place of another thread of the block.
func (w *Warp) elsewhere(pc int32, thread int) *Fault {
	f := new(Fault)
	w.block.locate(f, thread/Lanes, thread%Lanes)
	w.locateAt(f, pc)
	return f
}

// checkComplete checks that no thread has exited before a barrier of all threads that is complete.
func (b *block) checkComplete(id int32) {
	gone := slices.IndexFunc(b.checks.exits, func(pc int32) bool { return pc != 0 })
	if gone < 0 {
		return
	}
	for _, w := range b.warps {
		for _, g := range w.groups {
			if g.state != atBarrier || g.id != id || b.run.Kernel.Code[g.pc-1].X.Counted {
				continue
			}
			pc := w.pc
			w.pc = g.pc - 1
			w.note(bits.TrailingZeros32(g.mask), "barrier", b.checks.exits[gone], func(f *Fault) {
				f.Reason = "a thread of the block has ended and does not reach the barrier"
				f.Other = w.elsewhere(b.checks.exits[gone]-1, gone)
			})
			w.pc = pc
			return
		}
	}
}

// checkExit notes where the active lanes exit.
func (w *Warp) checkExit() {
	if list := w.block.checks.exits; list != nil {
		for i := range w.Each {
			list[w.index*Lanes+i] = w.pc + 1
		}
	}
}
