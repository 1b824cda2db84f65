package sim

import (
	"github.com/purecu/purecu/driver"
)

// aboutOccupancy begins a call with a kernel and a configuration. The result says how many blocks a
// multiprocessor can run at the same time.
func (d *Driver) aboutOccupancy(name string, h driver.Function, c *driver.LaunchConfig) (*function, uint32,
	launchOptions, driver.Result) {
	var o launchOptions
	if r := d.begin(name); r != ok {
		return nil, 0, o, r
	}
	if h == 0 {
		return nil, 0, o, driver.ResultInvalidValue
	}
	f, r := d.function(name, h)
	if r != ok {
		return nil, 0, o, r
	}
	list, r := attributesOf(c)
	for _, a := range list {
		switch a.ID {
		case driver.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, driver.CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
			driver.CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE: // these need a stream, and change nothing
			continue
		}
		if r == ok {
			r = d.launchAttribute(name, f.module.ctx.dev, nil, &a, &o)
		}
	}
	grid, block := Dim3{c.GridX, c.GridY, c.GridZ}, Dim3{c.BlockX, c.BlockY, c.BlockZ}
	if r == ok && !f.module.ctx.dev.Clusters {
		r = driver.ResultNotSupported
	}
	if r == ok && (grid.Count() == 0 || block.Count() == 0) {
		r = driver.ResultInvalidValue
	}
	if r != ok {
		return nil, 0, o, r
	}
	return f, f.Occupancy(grid, block, c.SharedMemBytes), o, ok
}

// OccupancyMaxActiveClusters is cuOccupancyMaxActiveClusters.
func (d *Driver) OccupancyMaxActiveClusters(_ *driver.Thread, h driver.Function,
	c driver.LaunchConfig) (int32, driver.Result) {
	defer d.mu.Unlock()
	f, blocks, o, r := d.aboutOccupancy("cuOccupancyMaxActiveClusters", h, &c)
	if r != ok {
		return 0, r
	}
	size, r := f.ClusterOf(o.Cluster)
	if none := (Dim3{}); r != ok || size == none {
		return 0, r
	}
	if !f.Divides(size, Dim3{c.GridX, c.GridY, c.GridZ}) {
		return 0, driver.ResultInvalidClusterSize
	}
	return int32(f.ActiveClusters(size.Count(), uint64(blocks))), ok
}

// OccupancyMaxPotentialClusterSize is cuOccupancyMaxPotentialClusterSize.
func (d *Driver) OccupancyMaxPotentialClusterSize(_ *driver.Thread, h driver.Function,
	c driver.LaunchConfig) (int32, driver.Result) {
	defer d.mu.Unlock()
	f, blocks, o, r := d.aboutOccupancy("cuOccupancyMaxPotentialClusterSize", h, &c)
	size := Dim3{}
	if r == ok {
		size, r = f.ClusterOf(o.Cluster)
	}
	switch none := (Dim3{}); {
	case r != ok:
		return 0, r
	case size != none && !f.Divides(size, Dim3{c.GridX, c.GridY, c.GridZ}):
		return 0, driver.ResultInvalidClusterSize
	case blocks == 0:
		return 0, ok
	}
	return int32(f.LargestCluster()), ok
}

// OccupancyAvailableDynamicSMemPerBlock is cuOccupancyAvailableDynamicSMemPerBlock.
func (d *Driver) OccupancyAvailableDynamicSMemPerBlock(th *driver.Thread, h driver.Function, blocks,
	threads int32) (uint64, driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutFunctionOrKernel("cuOccupancyAvailableDynamicSMemPerBlock", th, h)
	if r != ok {
		return 0, r
	}
	return f.Available(blocks, threads)
}

// FuncSetCacheConfig is cuFuncSetCacheConfig, which changes the occupancy.
func (d *Driver) FuncSetCacheConfig(_ *driver.Thread, h driver.Function, config int32) driver.Result {
	defer d.mu.Unlock()
	f, r := d.configured("cuFuncSetCacheConfig", h, config, driver.CU_FUNC_CACHE_PREFER_EQUAL)
	if r == ok {
		f.Cache = config
	}
	return r
}

// FuncSetSharedMemConfig is cuFuncSetSharedMemConfig, which has no effect.
func (d *Driver) FuncSetSharedMemConfig(_ *driver.Thread, h driver.Function, config int32) driver.Result {
	defer d.mu.Unlock()
	_, r := d.configured("cuFuncSetSharedMemConfig", h, config, driver.CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
	return r
}

// configured begins a call with a kernel and a configuration for it.
func (d *Driver) configured(name string, h driver.Function, config, most int32) (*function, driver.Result) {
	f, r := d.aboutFunction(name, h)
	if r == ok && (config < 0 || config > most) {
		r = driver.ResultInvalidValue
	}
	return f, r
}

// OccupancyMaxActiveBlocksPerMultiprocessorWithFlags is the function of this name. The flag has no effect, as no
// device has caches for global memory that can be switched off.
func (d *Driver) OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(th *driver.Thread, f driver.Function, threads int32,
	shared uint64, flags uint32) (int32, driver.Result) {
	const disableCachingOverride = 1 // CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE
	r := d.begin("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
	d.mu.Unlock()
	switch {
	case r != ok:
		return 0, r
	case flags&^disableCachingOverride != 0:
		return 0, driver.ResultInvalidValue
	}
	return d.OccupancyMaxActiveBlocksPerMultiprocessor(th, f, threads, shared)
}

// OccupancyMaxActiveBlocksPerMultiprocessor is
// cuOccupancyMaxActiveBlocksPerMultiprocessor.
func (d *Driver) OccupancyMaxActiveBlocksPerMultiprocessor(th *driver.Thread, h driver.Function, threads int32,
	dynamic uint64) (int32, driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutFunctionOrKernel("cuOccupancyMaxActiveBlocksPerMultiprocessor", th, h)
	switch {
	case r != ok:
		return 0, r
	case threads <= 0:
		return 0, driver.ResultInvalidValue
	}
	return f.Active(threads, dynamic), ok
}

// BlockSizes sets the function that calls a C function for the shared memory of a block with a number of
// threads.
func BlockSizes(call func(f uintptr, threads int32) uint64) Option {
	return func(d *Driver) { d.blockSizes = call }
}

// OccupancyMaxPotentialBlockSize is cuOccupancyMaxPotentialBlockSize. The C function sizes, if it is not 0,
// returns the dynamic shared memory for each size of a block. It is called while the driver is unlocked, as
// it may call the driver. If no block fits, both results are 0.
func (d *Driver) OccupancyMaxPotentialBlockSize(th *driver.Thread, h driver.Function, sizes uintptr, dynamic uint64,
	limit int32) (grid, block int32, r driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutFunctionOrKernel("cuOccupancyMaxPotentialBlockSize", th, h)
	switch {
	case r != ok:
		return 0, 0, r
	case limit < 0:
		return 0, 0, driver.ResultInvalidValue
	case sizes != 0 && d.blockSizes == nil:
		return 0, 0, driver.ResultNotSupported
	}
	grid, block = f.Best(limit, func(threads int32) uint64 {
		if sizes != 0 {
			d.unlocked(func() { dynamic = d.blockSizes(sizes, threads) })
		}
		return dynamic
	})
	return grid, block, ok
}
