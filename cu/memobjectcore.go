package cu

import "github.com/purecu/purecu/driver"

// This file has what memory does as a memoryObject, and how memory that is not in use any more serves another
// allocation.

var _ memoryObject = (*memCore)(nil)

func (mc *memCore) sizeInBytes() uint64 { return mc.size }

func (mc *memCore) dropLocal() { mc.dropKept(&mc.localStreams) }

func (mc *memCore) closeInPool() (closed bool, err error) {
	if mc.is.pooled == nil {
		return false, nil
	}
	return true, mc.is.pooled.closeOrdered(mc)
}

func (mc *memCore) destroyInPool(l leakReport) bool {
	if mc.is.pooled == nil {
		return false
	}
	mc.is.pooled.destroyIdle(mc, l)
	return true
}

func (mc *memCore) leftToOther() bool {
	if mc.opening == nil || mc.opening.leave() {
		return false
	}
	defer mc.ctx.endHold()
	mc.freed.Store(true)
	mc.leavePool()
	return true
}

func (mc *memCore) keepHost() {
	if mc.own != nil {
		mc.ctx.drv.kept.LoadOrStore(mc, true)
	}
}

// memoryBytes returns how much memory is freed with mc.
func (mc *memCore) memoryBytes() uint64 {
	switch {
	case mc.is.others:
		return 0
	case mc.virt != nil:
		return mc.virt.memoryBytes()
	}
	return mc.capacity
}

func (mc *memCore) reuse() (capacity uint64, fit memoryFit, reusable bool) {
	if mc.exposed.Load() || mc.is.pooled != nil || mc.end != nil {
		return mc.capacity, memoryFit{}, false
	}
	return mc.capacity, fitOf(mc.is, mc.flags, mc.capacity), true
}

// fitOf returns the allocations that memory of this size can serve. Their sizes are about the same.
func fitOf(is memoryKind, flags uint32, size uint64) memoryFit {
	const small, large = 512, 2 << 20
	unit := uint64(small)
	if size > large/2 {
		unit = large
	}
	return memoryFit{is.memoryFuncs, flags, (size + unit - 1) / unit * unit}
}

// maxTaken is the number of pieces of memory that an allocation tries.
const maxTaken = 4

// takeMemory returns deferred memory that fits and is not used by any work, or nil. It does not
// wait for the GPU. It never returns memory of a pool, which the pool reuses.
func (c *contextCore) takeMemory(is memoryKind, flags uint32, size uint64) *memCore {
	if c.poison.Load() != nil {
		return nil // the driver's error for the allocation tells the program why
	}
	f := fitOf(is, flags, size)
	for range maxTaken {
		r, ok := c.deferred.Take(f)
		if !ok {
			break
		}
		mc := r.self.(*memCore) // only memory fits
		if c.idleOrPutBack(mc, size) {
			mc.unmark()
			return mc
		}
	}
	return nil
}

// idleOrPutBack reports whether memory that was taken fits, and is not used by any work. If not, it
// adds the memory again, at the end of its list.
func (c *contextCore) idleOrPutBack(mc *memCore, size uint64) (idle bool) {
	defer func() {
		if !idle { // also if a tracer panics
			c.addDeferred(&mc.resource)
		}
	}()
	return mc.capacity >= size && mc.idle()
}

// idle reports, without waiting, whether all work that uses the memory is known to be done. No call
// is in flight.
func (mc *memCore) idle() bool {
	if mc.exposed.Load() || !mc.usedStreams.idle() || !mc.localStreams.idle() {
		return false
	}
	if !mc.copied.Load() {
		return true
	}
	if mc.marked == 0 {
		e, err := mc.ctx.legacyStream().mark()
		if err != nil {
			return false
		}
		mc.marked = e
	}
	return mc.ctx.queryEvent(mc.marked) == driver.ResultSuccess
}

// unmark releases the event that idle recorded.
func (mc *memCore) unmark() {
	if mc.marked != 0 {
		mc.ctx.doneWith(driver.CU_EVENT_DISABLE_TIMING, mc.marked)
		mc.marked = 0
	}
}
