package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/code"
)

// This file has the limits of contexts.

// mostFetched is the largest granularity of fetches to the L2 cache, in bytes.
const mostFetched = 128

// What limits can be, in bytes, on an H200 (driver 580.159.04). Whether another device has another largest stack,
// another least buffer for printf, or another heap, is not known.
const (
	mostStack               = 523_712
	leastPrintf, mostPrintf = 512 << 10, 2 << 30
	leastHeap, mostHeap     = 4 << 20, 17_681_179_680
)

// inUnits rounds a size up to a multiple of a unit.
func inUnits(size, unit uint64) uint64 { return (size + unit - 1) / unit * unit }

// CtxGetLimit is cuCtxGetLimit.
func (d *Driver) CtxGetLimit(th *driver.Thread, limit int32) (uint64, driver.Result) {
	defer d.mu.Unlock()
	c, _, r := d.inContext("cuCtxGetLimit", th)
	if r != ok {
		return 0, r
	}
	if v, set := c.limits[limit]; set {
		return v, ok
	}
	v, known := limits()[limit]
	switch {
	case known:
		return v, ok
	case limit < 0 || limit >= driver.CU_LIMIT_MAX:
		return 0, driver.ResultInvalidValue
	}
	return 0, driver.ResultUnsupportedLimit
}

// CtxSetLimit is cuCtxSetLimit.
func (d *Driver) CtxSetLimit(th *driver.Thread, limit int32, value uint64) driver.Result {
	defer d.mu.Unlock()
	c, r := d.changing("cuCtxSetLimit", th)
	if r != ok {
		return r
	}
	if _, known := limits()[limit]; !known {
		if limit < 0 || limit >= driver.CU_LIMIT_MAX {
			return driver.ResultInvalidValue
		}
		return driver.ResultUnsupportedLimit
	}
	switch limit {
	case driver.CU_LIMIT_STACK_SIZE:
		return c.setStack(value)
	case driver.CU_LIMIT_PRINTF_FIFO_SIZE:
		value = inUnits(min(max(value, leastPrintf), mostPrintf), 256)
	case driver.CU_LIMIT_MALLOC_HEAP_SIZE:
		if c.heap != nil { // a kernel may have memory there
			return driver.ResultInvalidValue
		}
		value = min(inUnits(min(max(value, leastHeap), mostHeap), 64<<10), mostHeap)
	case driver.CU_LIMIT_SHMEM_SIZE, driver.CU_LIMIT_CIG_ENABLED: // of contexts with graphics in CUDA
		return driver.ResultNotPermitted
	case driver.CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
		if value > mostFetched {
			return driver.ResultInvalidValue
		}
	case driver.CU_LIMIT_PERSISTING_L2_CACHE_SIZE: // a multiple of a tenth of the most
		most := mostPersistingL2()
		if value > most {
			return driver.ResultInvalidValue
		}
		value = inUnits(value, most/10)
	}
	c.setLimit(limit, value)
	return ok
}

// setLimit makes a limit a value that it can have.
func (c *context) setLimit(limit int32, value uint64) {
	if c.limits == nil {
		c.limits = make(map[int32]uint64)
	}
	c.limits[limit] = value
}

// setStack sets the size of the stack of a thread. As on an H200, a value that needs another size becomes that size,
// which is a multiple of 16 bytes, and other values stay what they are. All threads that can run at the same time must
// have a stack in the device's memory. An H200 with 70 GiB of free memory refused stacks that need 85 GiB. How much it
// needs beside the stacks is not known.
func (c *context) setStack(value uint64) driver.Result {
	const unit, threads = 16, code.MostThreads * code.Multiprocessors
	if value > mostStack {
		return driver.ResultInvalidValue
	}
	old, set := c.limits[driver.CU_LIMIT_STACK_SIZE]
	if !set {
		old = limits()[driver.CU_LIMIT_STACK_SIZE]
	}
	if size := inUnits(value, unit); size != inUnits(old, unit) {
		if size > old && size*threads > deviceMemory-c.dev.memory {
			return driver.ResultOutOfMemory
		}
		value = size
	}
	c.setLimit(driver.CU_LIMIT_STACK_SIZE, value)
	return ok
}
