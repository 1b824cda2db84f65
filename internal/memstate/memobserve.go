package memstate

import (
	"hash/maphash"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/races"
)

// This file tells the detector of races what happens to memory.

// ObserveLegacy is called after a method of cu.DeviceMem, which is work on the legacy default stream. done
// says that it has waited for the work.
func (mc *Mem) ObserveLegacy(op string, off int64, size int, write, done bool) {
	o := mc.Ctx.Drv.Observer()
	if o == nil {
		return
	}
	legacy := races.Stream{Context: uintptr(mc.Ctx.Raw), Handle: races.Legacy}
	o.Enqueue(legacy, op, "", []races.Use{mc.Used(uint64(off), uint64(size), write, "memory")})
	if done {
		o.StreamDone(legacy)
	}
	o.Report()
}

// Used describes a use of a part of the memory.
func (mc *Mem) Used(off, size uint64, write bool, as string) races.Use {
	return races.Use{Addr: uint64(mc.Handle()) + off, Size: size, OnHost: mc.OnHost(), Write: write, As: as}
}

// Used returns a use of size bytes from the beginning of the region, for the race detector.
func (r *Region) Used(size uint64, write bool, as string) races.Use {
	return r.Mem.Used(r.Off, size, write, as)
}

// ObserveWork is called after a copy or memset was enqueued. d and r are the same for a memset.
func ObserveWork(w *core.Work, op string, d, r *Region) {
	if w.Stream.Ctx.Drv.Observer() == nil {
		return
	}
	w.ObserveUses(op, usedByCopy(d, r))
}

// usedByCopy returns the uses of memory by a copy, or by a memset, whose regions are the same.
func usedByCopy(d, r *Region) []races.Use {
	uses := []races.Use{d.Used(r.Size, true, "destination")}
	if d != r {
		uses = append(uses, r.Used(r.Size, false, "source"))
	}
	return uses
}

// ObserveAllocation is called before the program gets memory. Memory that a handle names has
// ObserveOpened instead.
func (mc *Mem) ObserveAllocation() {
	if mc.Opened || mc.Is.Wrapped { // other memory may have the address
		return
	}
	o := mc.Ctx.Drv.Observer()
	if o != nil && mc.Module != nil {
		mc.Module.Observed(mc.Raw, mc.Size)
	} else if o != nil && !mc.OfGraph {
		o.Allocated(mc.Kind(), uint64(mc.Handle()), mc.Size, mc.OnHost())
		if !mc.Is.OfNode { // its graph is locked
			o.Report()
		}
	}
}

// openedSeed makes numbers of what names memory.
var openedSeed = maphash.MakeSeed()

// ObserveOpened is called before the program gets memory that a handle names. Equal names are of the
// same memory, which may have one address or several.
func ObserveOpened[N comparable](mc *Mem, name N) {
	if o := mc.Ctx.Drv.Observer(); o != nil {
		o.Opened(mc.Kind(), uint64(mc.Raw), mc.Size, maphash.Comparable(openedSeed, name))
		o.Report()
	}
}

// ObserveOrder is called after memory was allocated in the order of a stream. The allocation counts
// as a write, so other streams have to wait for it before they use the memory.
func (mc *Mem) ObserveOrder(op string, sc *core.Stream) {
	if o := mc.Ctx.Drv.Observer(); o != nil {
		o.Enqueue(sc.Observed(), op, "", []races.Use{mc.Used(0, mc.Size, true, "memory")})
		o.Report()
	}
}

// ObserveFree is called before the driver gets the memory back. For memory of an imported
// pool CountedOpening.Leave does it.
func (mc *Mem) ObserveFree() {
	if mc.Opening == nil {
		mc.ObserveGone()
	}
}

// ObserveGone is called before the program's use of the memory ends.
func (mc *Mem) ObserveGone() {
	if o := mc.Ctx.Drv.Observer(); o != nil && !mc.OfGraph {
		o.Freed(uint64(mc.Handle()), mc.OnHost())
	}
}

// observeFreeOn is ObserveFree before a stream frees the memory. Memory that a graph has allocated is
// not gone: the next launch allocates it again, and must come after the free.
func (mc *Mem) observeFreeOn(sc *core.Stream) {
	if mc.ObserveFree(); mc.OfGraph {
		if o := mc.Ctx.Drv.Observer(); o != nil {
			o.Enqueue(sc.Observed(), "cuMemFreeAsync", "", []races.Use{mc.Used(0, mc.Size, true, "memory")})
		}
	}
}

// ObserveHostUse is called before the host reads or writes a part of pinned memory.
func (mc *Mem) ObserveHostUse(op string, off int64, size int, write bool) {
	if o := mc.Ctx.Drv.Observer(); o != nil {
		o.HostUse(op, mc.Used(uint64(off), uint64(size), write, "memory"))
		o.Report()
	}
}

// viewBlock is the size of the blocks of which ObserveView notices that they have changed.
const viewBlock = 256

// ObserveView calls f with pinned memory. f may read all of it. What f writes is known by the blocks
// that have changed.
func (mc *Mem) ObserveView(op string, o races.Observer, b []byte, f func([]byte) error) error {
	v := o.BeginView(op, mc.Used(0, mc.Size, false, "memory"))
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
			case n > 0 && changed[n-1].Addr+changed[n-1].Size == uint64(mc.Host)+uint64(off):
				changed[n-1].Size += uint64(len(part))
			default:
				changed = append(changed, mc.Used(uint64(off), uint64(len(part)), true, "memory"))
			}
		}
		o.EndView(v, changed)
		o.Report()
	}()
	return f(b)
}
