package sim

import "github.com/purecu/purecu/driver"

// This file has the limits of contexts.

// mostFetched is the largest granularity of fetches to the L2 cache, in bytes.
const mostFetched = 128

// What limits can be, in bytes, on an H200 (driver 580.159.04). Whether another device has another largest stack,
// another least buffer for printf, or another heap, is not known. The heap cannot be larger than the memory.
const (
	mostStack               = 523_712
	leastPrintf, mostPrintf = 512 << 10, 2 << 30
	leastHeap, mostHeap     = 4 << 20, 17_681_179_680
)

// limits returns the limits at first. The buffer for printf has 64 KiB for each multiprocessor.
func (v *device) limits() map[int32]uint64 {
	all := map[int32]uint64{
		driver.CU_LIMIT_STACK_SIZE:                       1024,
		driver.CU_LIMIT_PRINTF_FIFO_SIZE:                 uint64(v.Multiprocessors) << 16,
		driver.CU_LIMIT_MALLOC_HEAP_SIZE:                 8 << 20,
		driver.CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: 2048,
		driver.CU_LIMIT_MAX_L2_FETCH_GRANULARITY:         64,
		driver.CU_LIMIT_SHMEM_SIZE:                       uint64(v.SharedOfBlock),
		driver.CU_LIMIT_CIG_ENABLED:                      0,
	}
	if most := uint64(v.Memory.Persisting); most > 0 {
		all[driver.CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = most / 10 * 3
	}
	return all
}

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
	v, known := c.dev.limits()[limit]
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
	if _, known := c.dev.limits()[limit]; !known {
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
		most := min(mostHeap, c.dev.Memory.Size)
		value = min(inUnits(min(max(value, leastHeap), most), 64<<10), most)
	case driver.CU_LIMIT_SHMEM_SIZE, driver.CU_LIMIT_CIG_ENABLED: // of contexts with graphics in CUDA
		return driver.ResultNotPermitted
	case driver.CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
		if value > mostFetched {
			return driver.ResultInvalidValue
		}
	case driver.CU_LIMIT_PERSISTING_L2_CACHE_SIZE: // a multiple of a tenth of the most
		most := uint64(c.dev.Memory.Persisting)
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
	const unit = 16
	threads := uint64(c.dev.Threads) * uint64(c.dev.Multiprocessors)
	if value > mostStack {
		return driver.ResultInvalidValue
	}
	old, set := c.limits[driver.CU_LIMIT_STACK_SIZE]
	if !set {
		old = c.dev.limits()[driver.CU_LIMIT_STACK_SIZE]
	}
	if size := inUnits(value, unit); size != inUnits(old, unit) {
		if size > old && size*threads > c.dev.free() {
			return driver.ResultOutOfMemory
		}
		value = size
	}
	c.setLimit(driver.CU_LIMIT_STACK_SIZE, value)
	return ok
}
