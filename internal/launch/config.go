// Package launch has launches of kernels as streams and nodes of graphs need them: the kernel, its configuration and
// attributes, its arguments, and their mistakes.
package launch

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/valuename"
)

// cooperative is the flag of a launch whose blocks may wait for each other: cu.LaunchCooperative.
const cooperative = 1

// FlagNames returns the names that package cu has for the flags of a launch.
func FlagNames(flags uint32) string {
	return valuename.OfFlags(flags, "LaunchDefault", []string{"LaunchCooperative"})
}

// Config is the configuration of a launch.
type Config struct {
	Grid, Block Dim
	SharedMem   uint32 // in bytes
	Flags       uint32
	Attributes  *Attributes
}

// Dim is a number of blocks or threads in three dimensions.
type Dim struct{ X, Y, Z uint32 }

// DimOf returns a Dim in which a y or z of 0 counts as 1.
func DimOf(x, y, z uint32) Dim { return Dim{x, max(y, 1), max(z, 1)} }

// Size returns the number of blocks or threads.
func (d Dim) Size() uint64 { return uint64(d.X) * uint64(d.Y) * uint64(d.Z) }

// workFunction returns the function of the launch.
func (cfg *Config) workFunction() core.WorkFunction {
	switch {
	case cfg.Attributes != nil:
		return core.WorkLaunchEx
	case cfg.Flags&cooperative != 0:
		return core.WorkLaunchCooperative
	}
	return core.WorkLaunch
}

// Op returns the name of the function.
func (cfg *Config) Op() string { return cfg.workFunction().Op() }

// Cooperative reports whether the blocks may wait for each other.
func (cfg *Config) Cooperative() bool { return cfg.Flags&cooperative != 0 }

// Params returns the configuration as cuLaunchKernelEx takes it.
func (cfg *Config) Params() driver.LaunchConfig {
	g, b := cfg.Grid, cfg.Block
	c := driver.LaunchConfig{GridX: g.X, GridY: g.Y, GridZ: g.Z, BlockX: b.X, BlockY: b.Y, BlockZ: b.Z,
		SharedMemBytes: cfg.SharedMem}
	if list := cfg.Attributes.List(cfg.Cooperative()); len(list) != 0 {
		c.Attributes, c.Count = &list[0], uint32(len(list))
	}
	return c
}

// attribute returns a property of a context's device. ok is false if the driver does not say it.
func attribute(ctx *core.Context, a int32) (v int32, ok bool) {
	v, res := ctx.Drv.Table().DeviceGetAttribute(driver.At{}, a, ctx.Dev)
	return v, res == driver.ResultSuccess
}

// exceededLimit explains why the driver refused the configuration of a launch as an invalid value:
// it names the dimension that exceeds the device's limit, or else the limits that depend on the
// kernel.
func (cfg *Config) exceededLimit(ctx *core.Context) string {
	if d := ExceededDimension(ctx, cfg.Grid, cfg.Block); d != "" {
		return d
	}
	return "the block has more threads, or more shared memory, than the kernel or the device allows, or does not have " +
		"the size that the kernel prescribes (.reqntid): call SuggestBlockSize, and raise " +
		"FunctionAttributeMaxDynamicSharedSizeBytes for more than 48 KiB"
}

// ExceededAttribute says why the driver may have refused a launch with attributes.
func (cfg *Config) ExceededAttribute(ctx *core.Context, res driver.Result) string {
	a := cfg.Attributes
	if a == nil || a.cluster[0] == 0 {
		return ""
	}
	if can, ok := attribute(ctx, driver.CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH); ok && can == 0 {
		return "the device has no clusters: they need compute capability 9.0"
	}
	if res == driver.ResultInvalidClusterSize {
		return fmt.Sprintf("a cluster has %d blocks: MaxPotentialClusterSize says how many the kernel can have, and "+
			"FunctionAttributeNonPortableClusterSizeAllowed allows more than 8",
			Dim{a.cluster[0], a.cluster[1], a.cluster[2]}.Size())
	}
	return ""
}

// ExceededDimension names the dimension that exceeds the limit of the context's device, or returns "".
func ExceededDimension(ctx *core.Context, grid, block Dim) string {
	for _, d := range []struct {
		name string
		size uint32
		most int32
		less string
	}{
		{"Grid.X", grid.X, driver.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, "give each thread more work"},
		{"Grid.Y", grid.Y, driver.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, "put more into Grid.X"},
		{"Grid.Z", grid.Z, driver.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, "put more into Grid.X"},
		{"Block.X", block.X, driver.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, "call SuggestBlockSize, and use more blocks"},
		{"Block.Y", block.Y, driver.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, "call SuggestBlockSize, and use more blocks"},
		{"Block.Z", block.Z, driver.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, "call SuggestBlockSize, and use more blocks"},
	} {
		if most, ok := attribute(ctx, d.most); ok && int64(d.size) > int64(most) {
			return fmt.Sprintf("%s is %d, and the device allows %d: %s", d.name, d.size, most, d.less)
		}
	}
	return ""
}
