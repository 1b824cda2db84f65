package core

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/deferred"
)

// This file has what memory does as a memoryObject, and how memory that is not in use any more serves another
// allocation.

var _ memoryObject = (*Mem)(nil)

func (mc *Mem) sizeInBytes() uint64 { return mc.Size }

func (mc *Mem) dropLocal() { mc.dropKept(&mc.localStreams) }

func (mc *Mem) closeInPool() (closed bool, err error) {
	if mc.Is.Pooled == nil {
		return false, nil
	}
	return true, mc.Is.Pooled.closeOrdered(mc)
}

func (mc *Mem) destroyInPool(l LeakReport) bool {
	if mc.Is.Pooled == nil {
		return false
	}
	mc.Is.Pooled.destroyIdle(mc, l)
	return true
}

func (mc *Mem) leftToOther() bool {
	if mc.Opening == nil || mc.Opening.Leave() {
		return false
	}
	defer mc.Ctx.EndHold()
	mc.Freed.Store(true)
	mc.leavePool()
	return true
}

func (mc *Mem) keepHost() {
	if mc.Own != nil {
		mc.Ctx.Drv.kept.LoadOrStore(mc, true)
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

func (mc *Mem) reuse() (capacity uint64, fit deferred.Fit, reusable bool) {
	if mc.Exposed.Load() || mc.Is.Pooled != nil || mc.End != nil {
		return mc.Capacity, deferred.Fit{}, false
	}
	return mc.Capacity, fitOf(mc.Is, mc.Flags, mc.Capacity), true
}

// fitOf returns the allocations that memory of this size can serve. Their sizes are about the same. The kind is a value
// of type any in it, so that programs without memory do not contain MemoryFuncs.
func fitOf(is MemoryKind, flags uint32, size uint64) deferred.Fit {
	const small, large = 512, 2 << 20
	unit := uint64(small)
	if size > large/2 {
		unit = large
	}
	return deferred.Fit{Kind: is.MemoryFuncs, Flags: flags, Class: (size + unit - 1) / unit * unit}
}

// maxTaken is the number of pieces of memory that an allocation tries.
const maxTaken = 4

// TakeMemory returns deferred memory that fits and is not used by any work, or nil. It does not
// wait for the GPU. It never returns memory of a pool, which the pool reuses.
func (c *Context) TakeMemory(is MemoryKind, flags uint32, size uint64) *Mem {
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
		if c.idleOrPutBack(mc, size) {
			mc.unmark()
			return mc
		}
	}
	return nil
}

// idleOrPutBack reports whether memory that was taken fits, and is not used by any work. If not, it
// adds the memory again, at the end of its list.
func (c *Context) idleOrPutBack(mc *Mem, size uint64) (idle bool) {
	defer func() {
		if !idle { // also if a tracer panics
			c.addDeferred(&mc.Resource)
		}
	}()
	return mc.Capacity >= size && mc.idle()
}

// idle reports, without waiting, whether all work that uses the memory is known to be done. No call
// is in flight.
func (mc *Mem) idle() bool {
	if mc.Exposed.Load() || !mc.UsedStreams.idle() || !mc.localStreams.idle() {
		return false
	}
	if !mc.Copied.Load() {
		return true
	}
	if mc.marked == 0 {
		e, err := mc.Ctx.LegacyStream().mark()
		if err != nil {
			return false
		}
		mc.marked = e
	}
	return mc.Ctx.queryEvent(mc.marked) == driver.ResultSuccess
}

// unmark releases the event that idle recorded.
func (mc *Mem) unmark() {
	if mc.marked != 0 {
		mc.Ctx.doneWith(driver.CU_EVENT_DISABLE_TIMING, mc.marked)
		mc.marked = 0
	}
}
