package cu

import (
	"hash/maphash"

	"github.com/purecu/purecu/internal/races"
)

// This file tells the detector of races what happens to memory.

// observeLegacy is called after a method of DeviceMem, which is work on the legacy default stream. done
// says that it has waited for the work.
func (mc *memCore) observeLegacy(op string, off int64, size int, write, done bool) {
	o := mc.ctx.drv.observer()
	if o == nil {
		return
	}
	legacy := races.Stream{Context: uintptr(mc.ctx.raw), Handle: races.Legacy}
	o.Enqueue(legacy, op, "", []races.Use{mc.used(uint64(off), uint64(size), write, "memory")})
	if done {
		o.StreamDone(legacy)
	}
	o.Report()
}

// used describes a use of a part of the memory.
func (mc *memCore) used(off, size uint64, write bool, as string) races.Use {
	return races.Use{Addr: uint64(mc.handle()) + off, Size: size, OnHost: mc.onHost(), Write: write, As: as}
}

func (r *region) used(size uint64, write bool, as string) races.Use {
	return r.mem.used(r.off, size, write, as)
}

// observeMemory is called after a copy or memset was enqueued. d and r are the same for a memset.
func (w *work) observeMemory(op string, d, r *region) {
	if w.sc.ctx.drv.observer() == nil {
		return
	}
	w.observeUses(op, usedByCopy(d, r))
}

// usedByCopy returns the uses of memory by a copy, or by a memset, whose regions are the same.
func usedByCopy(d, r *region) []races.Use {
	uses := []races.Use{d.used(r.size, true, "destination")}
	if d != r {
		uses = append(uses, r.used(r.size, false, "source"))
	}
	return uses
}

// observeAllocation is called before the program gets memory. Memory that a handle names has
// observeOpened instead.
func (mc *memCore) observeAllocation() {
	if mc.opened || mc.is.wrapped { // other memory may have the address
		return
	}
	o := mc.ctx.drv.observer()
	if o != nil && mc.module != nil {
		mc.module.variables.Store(mc.raw, mc.size)
	} else if o != nil && !mc.ofGraph {
		o.Allocated(mc.kind(), uint64(mc.handle()), mc.size, mc.onHost())
		if !mc.is.ofNode { // its graph is locked
			o.Report()
		}
	}
}

// openedSeed makes numbers of what names memory.
var openedSeed = maphash.MakeSeed()

// observeOpened is called before the program gets memory that a handle names. Equal names are of the
// same memory, which may have one address or several.
func observeOpened[N comparable](mc *memCore, name N) {
	if o := mc.ctx.drv.observer(); o != nil {
		o.Opened(mc.kind(), uint64(mc.raw), mc.size, maphash.Comparable(openedSeed, name))
		o.Report()
	}
}

// observeOrder is called after memory was allocated in the order of a stream. The allocation counts
// as a write, so other streams have to wait for it before they use the memory.
func (mc *memCore) observeOrder(op string, sc *streamCore) {
	if o := mc.ctx.drv.observer(); o != nil {
		o.Enqueue(sc.observed(), op, "", []races.Use{mc.used(0, mc.size, true, "memory")})
		o.Report()
	}
}

// observeFree is called before the driver gets the memory back. For memory of an imported
// pool countedOpening.leave does it.
func (mc *memCore) observeFree() {
	if mc.opening == nil {
		mc.observeGone()
	}
}

// observeGone is called before the program's use of the memory ends.
func (mc *memCore) observeGone() {
	if o := mc.ctx.drv.observer(); o != nil && !mc.ofGraph {
		o.Freed(uint64(mc.handle()), mc.onHost())
	}
}

// observeFreeOn is observeFree before a stream frees the memory. Memory that a graph has allocated is
// not gone: the next launch allocates it again, and must come after the free.
func (mc *memCore) observeFreeOn(sc *streamCore) {
	if mc.observeFree(); mc.ofGraph {
		if o := mc.ctx.drv.observer(); o != nil {
			o.Enqueue(sc.observed(), "cuMemFreeAsync", "", []races.Use{mc.used(0, mc.size, true, "memory")})
		}
	}
}

// observeHostUse is called before the host reads or writes a part of pinned memory.
func (mc *memCore) observeHostUse(op string, off int64, size int, write bool) {
	if o := mc.ctx.drv.observer(); o != nil {
		o.HostUse(op, mc.used(uint64(off), uint64(size), write, "memory"))
		o.Report()
	}
}

// viewBlock is the size of the blocks of which observeView notices that they have changed.
const viewBlock = 256

// observeView calls f with pinned memory. f may read all of it. What f writes is known by the blocks
// that have changed.
func (mc *memCore) observeView(op string, o races.Observer, b []byte, f func([]byte) error) error {
	v := o.BeginView(op, mc.used(0, mc.size, false, "memory"))
	seed := maphash.MakeSeed()
	var sums []uint64
	for off := 0; off < len(b); off += viewBlock {
		sums = append(sums, maphash.Bytes(seed, b[off:min(off+viewBlock, len(b))]))
	}
	defer func() { // also if f panics
		var changed []races.Use
		for i, sum := range sums {
			off := i * viewBlock
			part := b[off:min(off+viewBlock, len(b))]
			switch n := len(changed); {
			case maphash.Bytes(seed, part) == sum:
			case n > 0 && changed[n-1].Addr+changed[n-1].Size == uint64(mc.host)+uint64(off):
				changed[n-1].Size += uint64(len(part))
			default:
				changed = append(changed, mc.used(uint64(off), uint64(len(part)), true, "memory"))
			}
		}
		o.EndView(v, changed)
		o.Report()
	}()
	return f(b)
}
