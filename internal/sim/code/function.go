package code

import (
	"cmp"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/sim/mem"
)

// Function is a kernel of a module, with the settings of the program.
type Function struct {
	*Kernel
	Attributes map[int32]int32
	Cache      int32  // of cuFuncSetCacheConfig
	OfContext  *int32 // of cuCtxSetCacheConfig
	Loaded     bool   // by cuFuncLoad or a launch

	own     map[int32]bool // the attributes that Set has set
	program *Program       // nil before it is needed
}

// Program is the translation of a function.
type Program struct {
	Kernel    *vm.Kernel
	Constants []vm.Constant // with the addresses of the module's variables
	Err       error         // why it cannot be executed
}

// Variables are those of a module.
type Variables interface {
	// Address returns the address of a variable, if there is one of this name.
	Address(name string) (addr uint64, there bool)
}

// Program returns the translation of the function, for the variables of its module.
func (f *Function) Program(v Variables) *Program {
	if f.program == nil {
		f.program = f.link(v)
	}
	return f.program
}

// Set sets an attribute. It reports false if the attribute cannot have the value.
func (f *Function) Set(attribute, value int32) bool {
	if !Settable(f.text.gpu, f.Attributes, attribute, value) {
		return false
	}
	if f.own == nil {
		f.own = make(map[int32]bool)
	}
	f.own[attribute] = true
	f.Attributes[attribute] = value
	return true
}

// SetUnlessOwn sets an attribute for the library's kernel, which does not replace what Set has set.
func (f *Function) SetUnlessOwn(attribute, value int32) {
	if !f.own[attribute] {
		f.Attributes[attribute] = value
	}
}

// Settable reports whether an attribute of a kernel can have a value on a GPU.
func Settable(gpu *profile.GPU, attributes map[int32]int32, attribute, value int32) bool {
	var least, most int32
	switch attribute {
	case driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		most = gpu.SharedOfBlock - attributes[driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]
	case driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		least, most = -1, 100
	case driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
		driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		if gpu.Clusters {
			most = 16
		}
	case driver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		if gpu.Clusters {
			most = 1
		}
	case driver.CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		most = 2
	default: // other attributes are read-only
		return false
	}
	return value >= least && value <= most
}

// LaunchShape is what the device has to know of a launch before it takes it.
type LaunchShape struct {
	Grid, Block Dim3
	Shared      uint32
	Options
}

// Options are options of a launch about its blocks.
type Options struct {
	Cooperative        bool
	Cluster, Preferred Dim3 // the sizes of the clusters, all 0 if not set
}

// FitsRest checks a launch after [Function.FitsThreads], in the order in which an H200 does, which checks the shared
// memory earlier if it captures.
func (f *Function) FitsRest(l LaunchShape, captured bool) driver.Result {
	r := fitsDevice(l.Grid)
	if r == ok {
		r = f.FitsClusters(l)
	}
	shared := f.fitsShared(l.Shared)
	if r == ok && captured {
		r = shared
	}
	if r == ok {
		r = cmp.Or(f.FitsTogether(l), shared)
	}
	return r
}

// FitsNode checks the dimensions and the shared memory of a node. Its attributes can come later, but they cannot change
// clusters that the kernel requires.
func (f *Function) FitsNode(grid, block Dim3, shared uint32) driver.Result {
	r := cmp.Or(fitsDevice(grid), f.FitsThreads(block), f.fitsShared(shared))
	if c := f.required(); r == ok && c.Count() > 0 && !f.canHave(c, grid) {
		r = driver.ResultInvalidClusterSize
	}
	return r
}

// fitsDevice checks the size of a grid.
func fitsDevice(grid Dim3) driver.Result {
	if !grid.within(largestGrid) {
		return driver.ResultInvalidValue
	}
	return ok
}

// FitsThreads checks the size of a block.
func (f *Function) FitsThreads(block Dim3) driver.Result {
	if !block.within(largestBlock) || block.Count() > mostInBlock || block.Count() > uint64(f.MaxThreads) ||
		f.Block != (Dim3{}) && f.Block != block {
		return driver.ResultInvalidValue
	}
	return ok
}

// fitsShared checks the dynamic shared memory of a block.
func (f *Function) fitsShared(dynamic uint32) driver.Result {
	if dynamic > uint32(f.Attributes[driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES]) {
		return driver.ResultInvalidValue
	}
	return ok
}

// FitsClusters checks the clusters of a launch.
func (f *Function) FitsClusters(l LaunchShape) driver.Result {
	cluster, r := f.ClusterOf(l.Cluster)
	if none := (Dim3{}); r == ok && cluster != none && !f.canHave(cluster, l.Grid) {
		r = driver.ResultInvalidClusterSize
	}
	return r
}

// canHave reports whether clusters of a size can make up the grid of a launch.
func (f *Function) canHave(cluster, grid Dim3) bool {
	most := f.LargestCluster()
	if f.MaxRank > 0 {
		most = min(most, uint64(f.MaxRank))
	}
	return cluster.Count() <= most && grid.DivisibleBy(cluster)
}

// FitsTogether checks that the blocks that have to run at the same time can do so. The clusters are those of
// [Function.FitsClusters].
func (f *Function) FitsTogether(l LaunchShape) driver.Result {
	cluster, _ := f.ClusterOf(l.Cluster)
	none := Dim3{}
	switch {
	case l.Preferred != none && (cluster == none || !l.Preferred.DivisibleBy(cluster)):
		return driver.ResultInvalidClusterSize
	case !l.Cooperative:
		return ok
	case l.Preferred != none:
		return driver.ResultNotSupported
	case int32(l.Shared) < 0: // as on an H200
		return driver.ResultInvalidValue
	}
	blocks := uint64(f.Active(int32(l.Block.Count()), uint64(l.Shared)))
	most := blocks * uint64(f.text.gpu.Multiprocessors)
	if cluster != none {
		most = f.ActiveClusters(cluster.Count(), blocks) * cluster.Count()
	}
	if l.Grid.Count() > most {
		return driver.ResultCooperativeLaunchTooLarge
	}
	return ok
}

// NewArguments returns memory for the values of a launch's arguments.
func (f *Function) NewArguments() Arguments {
	n := uint64(0)
	if last := len(f.Params) - 1; last >= 0 {
		n = f.Params[last].Offset + f.Params[last].Size
	}
	return Arguments{f.Params, mem.NewBytes(max(n, 8))[:n]}
}

// Arguments are the values of a launch's arguments, as they are in the memory of parameters.
type Arguments struct {
	params []Param
	Bytes  []byte // aligned for all types
}

// Len returns how many arguments there are.
func (a *Arguments) Len() int { return len(a.params) }

// At returns the value of argument i.
func (a *Arguments) At(i int) []byte {
	p := a.params[i]
	return a.Bytes[p.Offset:][:p.Size:p.Size]
}
