package code

import "github.com/purecu/purecu/driver"

// The largest number of blocks of a cluster, without and with
// CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED.
const (
	mostInCluster   = 8
	mostNonPortable = 16
)

// mostBlocksOfClusters is the largest number of blocks of clusters on a multiprocessor.
const mostBlocksOfClusters = 8

// required returns the size of clusters that the kernel's text or attributes say, or the zero Dim3.
func (f *Function) required() Dim3 {
	return Dim3{uint32(f.Attributes[driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH]),
		uint32(f.Attributes[driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT]),
		uint32(f.Attributes[driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH])}
}

// ClusterOf returns the size of the clusters of a launch: that of the launch, or else of the kernel.
func (f *Function) ClusterOf(given Dim3) (Dim3, driver.Result) {
	required := f.required()
	switch none := (Dim3{}); {
	case given == none && required == none && f.Attributes[driver.CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET] != 0,
		given != none && required != none && given != required,
		given == none && required.OfBlocks() != ok: // CUDA checks at the launch that all dimensions were set
		return none, driver.ResultInvalidClusterSize
	case given == none:
		return required, ok
	}
	return given, ok
}

// BlocksOf returns the number of blocks in each cluster of a launch, and whether the launch or the
// kernel sets it.
func (f *Function) BlocksOf(given Dim3) (blocks Dim3, clustered bool) {
	if c, r := f.ClusterOf(given); r == ok && c.Count() > 0 {
		return c, true
	}
	return Dim3{1, 1, 1}, false
}

// LargestCluster returns the largest number of blocks of a cluster.
func (f *Function) LargestCluster() uint64 {
	if f.Attributes[driver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] != 0 {
		return mostNonPortable
	}
	return mostInCluster
}

// Occupancy returns how many blocks of a size a multiprocessor can run at the same time, none if a launch with this
// grid is impossible.
func (f *Function) Occupancy(grid, block Dim3, shared uint32) uint32 {
	if !grid.within(largestGrid) || !block.within(largestBlock) {
		return 0
	}
	return uint32(f.Active(int32(block.Count()), uint64(shared)))
}

// ActiveClusters returns how many clusters of a number of blocks the device can run at the same time, if a
// multiprocessor can run a number of the kernel's blocks.
func (f *Function) ActiveClusters(size, blocks uint64) (clusters uint64) {
	blocks = min(blocks, mostBlocksOfClusters)
	for _, group := range f.text.gpu.Groups {
		if size <= group { // each block can have a multiprocessor of its own
			clusters += group * blocks / size
		}
	}
	return clusters
}

// Divides reports whether clusters of a size can make up a grid.
func (f *Function) Divides(size, grid Dim3) bool {
	return grid.DivisibleBy(size) && size.Count() <= f.mostOfCluster()
}

// mostOfCluster returns the number of blocks above which the occupancy of clusters is an error. With
// clusters that are not portable there is none.
func (f *Function) mostOfCluster() uint64 {
	most := uint64(mostInCluster)
	if f.Attributes[driver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] != 0 {
		most = 1 << 32
	}
	if f.MaxRank > 0 {
		most = min(most, uint64(f.MaxRank))
	}
	return most
}

// Available returns how much dynamic shared memory each of some blocks can have. As an H200 does, it does not
// subtract what the system uses for each block, and one block may have all of the memory, whatever the kernel prefers.
func (f *Function) Available(blocks, threads int32) (uint64, driver.Result) {
	if blocks < 1 || threads < 1 || blocks > f.Active(threads, 0) {
		return 0, driver.ResultInvalidValue
	}
	all := f.text.gpu.Shared
	if blocks > 1 {
		all = int32(f.carveOut(1))
	}
	n, static := all/blocks/f.text.gpu.SharedUnit*f.text.gpu.SharedUnit,
		f.Attributes[driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]
	if n < static {
		return 0, driver.ResultInvalidValue
	}
	return uint64(min(n-static, f.Attributes[driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES])), ok
}

// Active returns how many blocks with the given number of threads a multiprocessor can run at the
// same time. As on an H200, it may be another number than the kernel's text permits, and sizes of shared memory
// have 32 bits.
func (f *Function) Active(threads int32, dynamic uint64) int32 {
	gpu := f.text.gpu
	unit, system := uint32(gpu.SharedUnit), uint32(gpu.SharedOfSystem)
	shared := uint32(dynamic) + uint32(f.Attributes[driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]) + system
	shared = (shared + unit - 1) / unit * unit
	if threads > mostInBlock || shared > uint32(gpu.SharedOfBlock)+system ||
		int32(dynamic) > f.Attributes[driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] &&
			shared > sharedUnlessMore+system {
		return 0
	}
	threads = (threads + warp - 1) / warp * warp
	blocks := min(gpu.Blocks, gpu.Threads/threads, registers/(threads*registersEach))
	if shared > 0 {
		blocks = min(blocks, int32(f.carveOut(uint64(shared))/uint64(shared)))
	}
	return blocks
}

// Best returns the grid and the size of the blocks with which most threads run at the same time, and zeros if no block
// fits. dynamic returns the shared memory of a block with a number of threads. As on an H200, it is called for no
// smaller blocks than those that use all threads of a multiprocessor.
func (f *Function) Best(limit int32, dynamic func(threads int32) uint64) (grid, block int32) {
	if limit == 0 || limit > f.MaxThreads {
		limit = f.MaxThreads
	}
	best := int32(0) // the largest number of threads of a multiprocessor so far
	for threads := limit; threads > 0 && best != f.text.gpu.Threads; threads = (threads - 1) / warp * warp {
		if n := f.Active(threads, dynamic(threads)); n*threads > best {
			best, grid, block = n*threads, n*f.text.gpu.Multiprocessors, threads
		}
	}
	return grid, block
}

// carveOut returns how much of a multiprocessor's memory is shared memory, in bytes, for blocks that
// need some: the least that is as much as the kernel prefers.
func (f *Function) carveOut(least uint64) uint64 {
	percent, all := f.preferred(), uint64(f.text.gpu.Shared)
	if percent < 0 {
		return all
	}
	want := max(least, all*uint64(percent)/100)
	for _, kib := range f.text.gpu.CarveOuts {
		if kib<<10 >= want {
			return kib << 10
		}
	}
	return all
}

// preferred returns how much of a multiprocessor's memory the kernel prefers as shared memory, in percent,
// or a negative number for as much as possible. An attribute overrides cuFuncSetCacheConfig and
// cuKernelSetCacheConfig, which override cuCtxSetCacheConfig.
func (f *Function) preferred() int32 {
	if percent := f.Attributes[driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT]; percent >= 0 {
		return percent
	}
	cache := f.Cache
	if cache == driver.CU_FUNC_CACHE_PREFER_NONE {
		cache = *f.OfContext
	}
	switch cache {
	case driver.CU_FUNC_CACHE_PREFER_L1:
		return 0
	case driver.CU_FUNC_CACHE_PREFER_EQUAL:
		return 50
	}
	return -1
}
