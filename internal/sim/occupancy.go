package sim

import (
	"github.com/purecu/purecu/driver"
)

// clusterGroups are the numbers of multiprocessors in the groups of an H200 of which a cluster can
// use one. They follow from the results of cuOccupancyMaxActiveClusters. Other H200s may have others.
var clusterGroups = []uint64{18, 18, 16, 16, 16, 16, 16, 8, 2, 2, 2, 2}

// mostBlocksOfClusters is the largest number of blocks of clusters on a multiprocessor.
const mostBlocksOfClusters = 8

// required returns the size of clusters that the kernel's text or attributes say, or the zero Dim3.
func (f *function) required() Dim3 {
	return Dim3{uint32(f.attributes[driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH]),
		uint32(f.attributes[driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT]),
		uint32(f.attributes[driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH])}
}

// clusterOf returns the size of the clusters of a launch: that of the launch, or else of the kernel.
func (f *function) clusterOf(given Dim3) (Dim3, driver.Result) {
	required := f.required()
	switch none := (Dim3{}); {
	case given == none && required == none && f.attributes[driver.CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET] != 0,
		given != none && required != none && given != required,
		given == none && required.ofBlocks() != ok: // CUDA checks at the launch that all dimensions were set
		return none, driver.ResultInvalidClusterSize
	case given == none:
		return required, ok
	}
	return given, ok
}

// blocksOf returns the number of blocks in each cluster of a launch, and whether the launch or the
// kernel sets it.
func (f *function) blocksOf(given Dim3) (blocks Dim3, clustered bool) {
	if c, r := f.clusterOf(given); r == ok && c.count() > 0 {
		return c, true
	}
	return Dim3{1, 1, 1}, false
}

// largestCluster returns the largest number of blocks of a cluster.
func (f *function) largestCluster() uint64 {
	if f.attributes[driver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] != 0 {
		return mostNonPortable
	}
	return mostInCluster
}

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
			r = d.launchAttribute(name, nil, &a, &o)
		}
	}
	grid, block := Dim3{c.GridX, c.GridY, c.GridZ}, Dim3{c.BlockX, c.BlockY, c.BlockZ}
	if r == ok && (grid.count() == 0 || block.count() == 0) {
		r = driver.ResultInvalidValue
	}
	if r != ok {
		return nil, 0, o, r
	}
	if !grid.within(driver.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
		!block.within(driver.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) {
		return f, 0, o, ok
	}
	return f, uint32(f.active(int32(block.count()), uint64(c.SharedMemBytes))), o, ok
}

// OccupancyMaxActiveClusters is cuOccupancyMaxActiveClusters.
func (d *Driver) OccupancyMaxActiveClusters(_ *driver.Thread, h driver.Function,
	c driver.LaunchConfig) (int32, driver.Result) {
	defer d.mu.Unlock()
	f, blocks, o, r := d.aboutOccupancy("cuOccupancyMaxActiveClusters", h, &c)
	if r != ok {
		return 0, r
	}
	size, r := f.clusterOf(o.cluster)
	if none := (Dim3{}); r != ok || size == none {
		return 0, r
	}
	if !f.divides(size, &c) {
		return 0, driver.ResultInvalidClusterSize
	}
	return int32(activeClusters(size.count(), uint64(blocks))), ok
}

// activeClusters returns how many clusters of a number of blocks the device can run at the same time, if a
// multiprocessor can run a number of the kernel's blocks.
func activeClusters(size, blocks uint64) (clusters uint64) {
	blocks = min(blocks, mostBlocksOfClusters)
	for _, group := range clusterGroups {
		if size <= group { // each block can have a multiprocessor of its own
			clusters += group * blocks / size
		}
	}
	return clusters
}

// divides reports whether clusters of a size can make up the grid of a configuration.
func (f *function) divides(size Dim3, c *driver.LaunchConfig) bool {
	return Dim3{c.GridX, c.GridY, c.GridZ}.divisibleBy(size) && size.count() <= f.mostOfCluster()
}

// mostOfCluster returns the number of blocks above which the occupancy of clusters is an error. With
// clusters that are not portable there is none.
func (f *function) mostOfCluster() uint64 {
	most := uint64(mostInCluster)
	if f.attributes[driver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] != 0 {
		most = 1 << 32
	}
	if f.maxRank > 0 {
		most = min(most, uint64(f.maxRank))
	}
	return most
}

// OccupancyMaxPotentialClusterSize is cuOccupancyMaxPotentialClusterSize.
func (d *Driver) OccupancyMaxPotentialClusterSize(_ *driver.Thread, h driver.Function,
	c driver.LaunchConfig) (int32, driver.Result) {
	defer d.mu.Unlock()
	f, blocks, o, r := d.aboutOccupancy("cuOccupancyMaxPotentialClusterSize", h, &c)
	size := Dim3{}
	if r == ok {
		size, r = f.clusterOf(o.cluster)
	}
	switch none := (Dim3{}); {
	case r != ok:
		return 0, r
	case size != none && !f.divides(size, &c):
		return 0, driver.ResultInvalidClusterSize
	case blocks == 0:
		return 0, ok
	}
	return int32(f.largestCluster()), ok
}

// OccupancyAvailableDynamicSMemPerBlock is cuOccupancyAvailableDynamicSMemPerBlock. As an H200 does,
// it does not subtract what the system uses for each block, and one block may have all of the memory, whatever
// the kernel prefers.
func (d *Driver) OccupancyAvailableDynamicSMemPerBlock(th *driver.Thread, h driver.Function, blocks,
	threads int32) (uint64, driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutFunctionOrKernel("cuOccupancyAvailableDynamicSMemPerBlock", th, h)
	if r != ok {
		return 0, r
	}
	if blocks < 1 || threads < 1 || blocks > f.active(threads, 0) {
		return 0, driver.ResultInvalidValue
	}
	all := int32(sharedMemory)
	if blocks > 1 {
		all = int32(f.carveOut(1))
	}
	n, static := all/blocks/sharedUnit*sharedUnit, f.attributes[driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]
	if n < static {
		return 0, driver.ResultInvalidValue
	}
	return uint64(min(n-static, f.attributes[driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES])), ok
}

// FuncGetModule is cuFuncGetModule.
func (d *Driver) FuncGetModule(_ *driver.Thread, h driver.Function) (driver.Module, driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutGivenFunction("cuFuncGetModule", h)
	if r != ok {
		return 0, r
	}
	return f.module.handle, ok
}

// FuncIsLoaded is cuFuncIsLoaded.
func (d *Driver) FuncIsLoaded(_ *driver.Thread, h driver.Function) (int32, driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutFunction("cuFuncIsLoaded", h)
	if r != ok || !f.loaded {
		return driver.CU_FUNCTION_LOADING_STATE_UNLOADED, r
	}
	return driver.CU_FUNCTION_LOADING_STATE_LOADED, ok
}

// FuncLoad is cuFuncLoad.
func (d *Driver) FuncLoad(_ *driver.Thread, h driver.Function) driver.Result {
	defer d.mu.Unlock()
	f, r := d.aboutFunction("cuFuncLoad", h)
	if r == ok {
		f.loaded = true
	}
	return r
}

// FuncSetCacheConfig is cuFuncSetCacheConfig, which changes the occupancy.
func (d *Driver) FuncSetCacheConfig(_ *driver.Thread, h driver.Function, config int32) driver.Result {
	defer d.mu.Unlock()
	f, r := d.configured("cuFuncSetCacheConfig", h, config, driver.CU_FUNC_CACHE_PREFER_EQUAL)
	if r == ok {
		f.cache = config
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

// active returns how many blocks with the given number of threads a multiprocessor can run at the
// same time. As on an H200, it may be another number than the kernel's text permits, and sizes of shared memory
// have 32 bits.
func (f *function) active(threads int32, dynamic uint64) int32 {
	shared := uint32(dynamic) + uint32(f.attributes[driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]) + sharedOfSystem
	shared = (shared + sharedUnit - 1) / sharedUnit * sharedUnit
	if threads > mostInBlock || shared > sharedOfBlock+sharedOfSystem ||
		int32(dynamic) > f.attributes[driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] &&
			shared > sharedUnlessMore+sharedOfSystem {
		return 0
	}
	threads = (threads + warp - 1) / warp * warp
	blocks := min(mostBlocks, mostThreads/threads, registers/(threads*registersEach))
	if shared > 0 {
		blocks = min(blocks, int32(f.carveOut(uint64(shared))/uint64(shared)))
	}
	return blocks
}

// carveOut returns how much of a multiprocessor's memory is shared memory, in bytes, for blocks that
// need some: the least that is as much as the kernel prefers.
func (f *function) carveOut(least uint64) uint64 {
	percent := f.preferred()
	if percent < 0 {
		return sharedMemory
	}
	want := max(least, sharedMemory*uint64(percent)/100)
	for _, kib := range []uint64{8, 16, 32, 64, 100, 132, 164, 196} {
		if kib<<10 >= want {
			return kib << 10
		}
	}
	return sharedMemory
}

// preferred returns how much of a multiprocessor's memory the kernel prefers as shared memory, in percent,
// or a negative number for as much as possible. An attribute overrides cuFuncSetCacheConfig and
// cuKernelSetCacheConfig, which override cuCtxSetCacheConfig.
func (f *function) preferred() int32 {
	if percent := f.attributes[driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT]; percent >= 0 {
		return percent
	}
	cache := f.cache
	if cache == driver.CU_FUNC_CACHE_PREFER_NONE {
		cache = f.module.ctx.cacheConfig
	}
	switch cache {
	case driver.CU_FUNC_CACHE_PREFER_L1:
		return 0
	case driver.CU_FUNC_CACHE_PREFER_EQUAL:
		return 50
	}
	return -1
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
	return f.active(threads, dynamic), ok
}

// BlockSizes sets the function that calls a C function for the shared memory of a block with a number of
// threads.
func BlockSizes(call func(f uintptr, threads int32) uint64) Option {
	return func(d *Driver) { d.blockSizes = call }
}

// OccupancyMaxPotentialBlockSize is cuOccupancyMaxPotentialBlockSize. The C function sizes, if it is not 0,
// returns the dynamic shared memory for each size of a block. It is called while the driver is unlocked, as
// it may call the driver, and as on an H200, for no smaller blocks than those that use all threads of a
// multiprocessor. If no block fits, both results are 0.
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
	case limit == 0 || limit > f.maxThreads:
		limit = f.maxThreads
	}
	best := int32(0) // the largest number of threads of a multiprocessor so far
	for threads := limit; threads > 0 && best != mostThreads; threads = (threads - 1) / warp * warp {
		if sizes != 0 {
			d.unlocked(func() { dynamic = d.blockSizes(sizes, threads) })
		}
		if n := f.active(threads, dynamic); n*threads > best {
			best, grid, block = n*threads, n*multiprocessors, threads
		}
	}
	return grid, block, ok
}
