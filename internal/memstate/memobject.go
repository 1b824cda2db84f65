package memstate

import (
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/deferred"
	"github.com/purecu/purecu/internal/drivercall"
)

// This file has what memory does as a core.MemoryObject, and how memory that is not in use any more serves another
// allocation.

var _ core.MemoryObject = (*Mem)(nil)

// SizeInBytes returns the size, for errors.
func (mc *Mem) SizeInBytes() uint64 { return mc.Size }

// DropLocal makes the streams of the memory's own context release it.
func (mc *Mem) DropLocal() { mc.DropKept(&mc.localStreams) }

// CloseInPool is CloseOwned for memory of a pool. For other memory it reports false.
func (mc *Mem) CloseInPool() (closed bool, err error) {
	if mc.Is.Pooled == nil {
		return false, nil
	}
	return true, mc.Is.Pooled.closeOrdered(mc)
}

// DestroyInPool is DestroyLate for memory of a pool, when the work that uses it is done. For other memory it reports
// false.
func (mc *Mem) DestroyInPool(l drivercall.LeakReport) bool {
	if mc.Is.Pooled == nil {
		return false
	}
	mc.Is.Pooled.destroyIdle(mc, l)
	return true
}

// LeftToOther reports whether another opening of the memory frees it. If so, this one has ended.
func (mc *Mem) LeftToOther() bool {
	if mc.Opening == nil || mc.Opening.Leave() {
		return false
	}
	defer mc.Ctx.EndHold()
	mc.Freed.Store(true)
	mc.leavePool()
	return true
}

// KeepHost keeps memory of the program from the garbage collector, for as long as the driver is open.
func (mc *Mem) KeepHost() {
	if mc.HostBytes != nil {
		mc.Ctx.Drv.KeptHost.LoadOrStore(mc, true)
	}
}

// MemoryBytes returns how much memory is freed with mc.
func (mc *Mem) MemoryBytes() uint64 {
	switch {
	case mc.Is.Others:
		return 0
	case mc.Virt != nil:
		return mc.Virt.MemoryBytes()
	}
	return mc.Capacity
}

// Reuse returns which allocations the memory can serve. reusable is false if it can serve none.
func (mc *Mem) Reuse() (capacity uint64, fit deferred.Fit, reusable bool) {
	if mc.Exposed.Load() || mc.Is.Pooled != nil || mc.End != nil {
		return mc.Capacity, deferred.Fit{}, false
	}
	return mc.Capacity, fitOf(mc.Is, mc.Flags, mc.Capacity), true
}

// fitOf returns the allocations that memory of this size can serve. Their sizes are about the same. The kind is a value
// of type any in it, so that programs without memory do not contain Funcs.
func fitOf(is Kind, flags uint32, size uint64) deferred.Fit {
	const small, large = 512, 2 << 20
	unit := uint64(small)
	if size > large/2 {
		unit = large
	}
	return deferred.Fit{Kind: is.Funcs, Flags: flags, Class: (size + unit - 1) / unit * unit}
}

// maxTaken is the number of pieces of memory that an allocation tries.
const maxTaken = 4

// Take returns deferred memory of the context that fits and is not used by any work, or nil. It does not
// wait for the GPU. It never returns memory of a pool, which the pool reuses.
func Take(c *core.Context, is Kind, flags uint32, size uint64) *Mem {
	if c.Poison.Load() != nil {
		return nil // the driver's error for the allocation tells the program why
	}
	f := fitOf(is, flags, size)
	for range maxTaken {
		r, ok := c.Deferred.Take(f)
		if !ok {
			break
		}
		mc := r.Self.(*Mem) // only memory fits
		if idleOrPutBack(c, mc, size) {
			mc.Unmark()
			return mc
		}
	}
	return nil
}

// idleOrPutBack reports whether memory that was taken fits, and is not used by any work. If not, it
// adds the memory again, at the end of its list.
func idleOrPutBack(c *core.Context, mc *Mem, size uint64) (idle bool) {
	defer func() {
		if !idle { // also if a tracer panics
			c.AddDeferred(&mc.Resource)
		}
	}()
	return mc.Capacity >= size && mc.idle()
}

// idle reports, without waiting, whether all work that uses the memory is known to be done. No call
// is in flight.
func (mc *Mem) idle() bool {
	if mc.Exposed.Load() || !mc.UsedStreams.Idle() || !mc.localStreams.Idle() {
		return false
	}
	if !mc.Copied.Load() {
		return true
	}
	if mc.marked == 0 {
		e, err := mc.Ctx.LegacyStream().Mark()
		if err != nil {
			return false
		}
		mc.marked = e
	}
	return mc.Ctx.QueryEvent(mc.marked) == driver.ResultSuccess
}

// Unmark releases the event that idle recorded.
func (mc *Mem) Unmark() {
	if mc.marked != 0 {
		mc.Ctx.DoneWith(driver.CU_EVENT_DISABLE_TIMING, mc.marked)
		mc.marked = 0
	}
}

// Attach makes mc the state of a new cu.DeviceMem or cu.HostMem, which has the Ref. If the owner is closed or
// abandoned, the life of mc ends. Virtual memory, of which mc is the first generation, has an end of its own.
func Attach[O any](owner *O, r *core.Ref[Mem], ctx *core.Context, mc *Mem) {
	if mc.Virt != nil {
		core.SetState(r, mc, runtime.AddCleanup(owner, Virtual.Forgotten, mc.Virt))
		return
	}
	mc.FreeWaits, mc.UsedStreams = mc.Is.FreeWaits, new(core.StreamSet)
	core.SetState(r, mc, core.Owned(owner, &mc.Resource, mc, ctx))
	mc.ObserveAllocation()
}
