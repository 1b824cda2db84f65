package cu

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
)

// MaxActiveClusters returns how many clusters of a launch with this configuration the device can run
// at the same time. [LaunchCluster] among the attributes, or else the kernel, says how large a cluster
// is. It is 0 if there are no clusters, or if one does not fit (cuOccupancyMaxActiveClusters, CUDA
// 11.8).
func (f *Function) MaxActiveClusters(cfg LaunchConfig) (int, error) {
	return f.askClusters("cuOccupancyMaxActiveClusters", cfg, (*driver.Table).OccupancyMaxActiveClusters)
}

// MaxPotentialClusterSize returns the largest number of blocks that a cluster of the kernel can have
// in a launch with this configuration, whose own clusters do not matter. It is 0 if a block does not
// fit on a multiprocessor. FunctionAttributeNonPortableClusterSizeAllowed may allow more
// (cuOccupancyMaxPotentialClusterSize, CUDA 11.8).
func (f *Function) MaxPotentialClusterSize(cfg LaunchConfig) (int, error) {
	return f.askClusters("cuOccupancyMaxPotentialClusterSize", cfg, (*driver.Table).OccupancyMaxPotentialClusterSize)
}

func (f *Function) askClusters(op string, cfg LaunchConfig,
	call func(*driver.Table, driver.At, driver.Function, driver.LaunchConfig) (int32, driver.Result)) (int, error) {
	if f == nil || f.core().Mod == nil {
		return 0, drivercall.NilError(op, "function")
	}
	c := cfg.core()
	if err := f.core().CheckConfig(&c); err != nil {
		err.(*Error).Op = op
		return 0, err
	}
	n, err := askFunction(f, op, func(t *driver.Table, at driver.At) (int32, driver.Result) {
		return call(t, at, f.core().Raw, c.Params())
	})
	if e, ok := err.(*Error); ok {
		e.Detail = drivercall.JoinText(e.Detail, c.ExceededAttribute(f.core().Mod.Ctx, e.Result))
	}
	return int(n), err
}

// AvailableSharedMem returns the most dynamic shared memory, in bytes, with which this number of
// blocks fits on one multiprocessor, each with this number of threads
// (cuOccupancyAvailableDynamicSMemPerBlock). An H200 does not subtract the KiB that the driver uses in
// each block, so the result may be a little too large: check it with [Function.MaxActiveBlocks].
func (f *Function) AvailableSharedMem(blocks, threads int) (uint64, error) {
	const op = "cuOccupancyAvailableDynamicSMemPerBlock"
	if int(int32(blocks)) != blocks || int(int32(threads)) != threads || blocks < 1 || threads < 1 {
		return 0, drivercall.BadValue(op, f.core().Object(),
			fmt.Sprintf("%d blocks of %d threads: there must be at least one of each", blocks, threads))
	}
	n, err := askFunction(f, op, func(t *driver.Table, at driver.At) (uint64, driver.Result) {
		return t.OccupancyAvailableDynamicSMemPerBlock(at, f.core().Raw, int32(blocks), int32(threads))
	})
	if e, ok := err.(*Error); ok && e.Err == nil && e.Result == ResultInvalidValue {
		e.Detail = fmt.Sprintf("a multiprocessor cannot run %d blocks of %d threads at once: "+
			"MaxActiveBlocks says how many it can", blocks, threads)
	}
	return n, err
}
