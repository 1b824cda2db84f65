package fuzz

import (
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// This file has launches with attributes, occupancy, functions, and modules.

// attribute returns an attribute of a launch. Most are valid.
func (c *caller) attribute() (a driver.LaunchAttribute) {
	a.ID = one[int32](c, driver.CU_LAUNCH_ATTRIBUTE_IGNORE, driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
		driver.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
		driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY,
		driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)
	words := (*[16]uint32)(unsafe.Pointer(&a.Value))
	switch a.ID {
	case driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		*words = [16]uint32{one[uint32](c, 1, 2, 2, 4, 3, 0, 16), 1, 1}
	case driver.CU_LAUNCH_ATTRIBUTE_PRIORITY:
		words[0] = uint32(int32(-c.IntN(6)))
	default:
		words[0] = uint32(c.IntN(2))
	}
	return a
}

// config returns a launch with some attributes, of which each is there once. What it points to is in the list.
func (c *caller) config() (l driver.LaunchConfig, list []driver.LaunchAttribute) {
	l = driver.LaunchConfig{GridX: one[uint32](c, 1, 2, 4, 4, 0), GridY: 1, GridZ: 1,
		BlockX: one[uint32](c, 1, 32, 64, 64, 64, 257, 1025), BlockY: 1, BlockZ: 1,
		SharedMemBytes: one[uint32](c, 0, 0, 0, 100, 300<<10)}
	for range c.IntN(3) {
		a := c.attribute()
		if !slices.ContainsFunc(list, func(b driver.LaunchAttribute) bool { return b.ID == a.ID }) {
			list = append(list, a)
		}
	}
	c.say("%d × %d, %d", l.GridX, l.BlockX, l.SharedMemBytes)
	for _, a := range list {
		c.say(", attribute %d %v", a.ID, a.Value[:4])
	}
	l.Attributes, l.Count = unsafe.SliceData(list), uint32(len(list))
	return l, list
}

// putting returns the function that writes numbers to memory, and parameters for it. All threads with the same number
// in their blocks write the same.
func (c *caller) putting() (f driver.Function, p driver.KernelParams, found bool) {
	i := some(c, c.blocks)
	if i < 0 || c.blocks[i].size < 4*64 {
		return f, p, false
	}
	at, v := new(uint64), new(uint32)
	*at, *v = uint64(c.blocks[i].at), c.Uint32()
	c.say("block %d, ", i)
	return c.fns[0], driver.KernelParams{Ptrs: []unsafe.Pointer{unsafe.Pointer(at), unsafe.Pointer(v)},
		Sizes: []uint32{8, 4}}, true
}

// preference is what a kernel was told about its shared memory.
type preference struct {
	carved          bool  // by the attribute
	percent, config int32 // of the attribute, and of cuFuncSetCacheConfig
}

// function chooses one of the kernels of fns, and says which.
func (c *caller) function() int {
	i := c.IntN(2)
	c.say(" of kernel %d", i)
	return i
}

var launchCalls = []randomCall{
	{"cuLaunchKernelEx", func(c *caller) []uint64 {
		f, p, found := c.putting()
		if !found {
			return noOperands
		}
		l, list := c.config()
		if l.BlockX > 64 {
			f, p = c.fns[1], driver.KernelParams{}
		}
		l.Stream = c.anyStream()
		r := c.LaunchKernelEx(c.at, &l, f, p)
		c.alive = append(c.alive, list)
		return answers(r)
	}},
	{"cuLaunchCooperativeKernel", func(c *caller) []uint64 {
		f, p, found := c.putting()
		if !found {
			return noOperands
		}
		grid, threads, shared := one[uint32](c, 1, 2, 100, 0, 1<<20), one[uint32](c, 1, 32, 64, 1025),
			one[uint32](c, 0, 0, 0, 100, 300<<10)
		c.say("%d × %d, %d", grid, threads, shared)
		return answers(c.LaunchCooperativeKernel(c.at, f, grid, 1, 1, threads, 1, 1, shared, c.anyStream(), p))
	}},
	{"cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", func(c *caller) []uint64 {
		n, shared := one[int32](c, 1, 32, 33, 256, 257, 1024, 2000, 0), one[uint64](c, 0, 0, 1000, 48<<10, 300<<10)
		flags := one[uint32](c, 0, 1, 0, 1, 2)
		c.say("%d %d %d", n, shared, flags)
		k, r := c.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(c.at, c.fns[c.function()], n, shared, flags)
		return answers(r, uint64(k))
	}},
	{"cuOccupancyMaxPotentialBlockSize", func(c *caller) []uint64 {
		shared, limit := one[uint64](c, 0, 0, 1000, 48<<10, 300<<10), one[int32](c, 0, 0, 32, 100, 256, 2000)
		c.say("%d %d", shared, limit)
		i := c.function()
		// In one sequence an H200 had another answer, either about a kernel that preferred 50 percent or about one
		// that preferred shared memory. It is unknown which it was.
		if p := c.prefers[i]; p.carved && p.percent > 0 || p.config == driver.CU_FUNC_CACHE_PREFER_SHARED {
			return noOperands
		}
		grid, threads, r := c.OccupancyMaxPotentialBlockSize(c.at, c.fns[i], 0, shared, limit)
		all, _ := c.DeviceGetAttribute(c.at, driver.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0)
		return answers(r, uint64(grid/all), uint64(threads))
	}},
	{"cuOccupancyAvailableDynamicSMemPerBlock", func(c *caller) []uint64 {
		blocks, threads := one[int32](c, 1, 2, 3, 8, 32, 33, 0), one[int32](c, 1, 32, 64, 256, 1024, 0)
		c.say("%d %d", blocks, threads)
		i := c.function()
		// What is left for several blocks of a kernel that prefers none is unknown.
		if p := c.prefers[i]; blocks > 1 && (p.carved && p.percent == 0 || p.config == driver.CU_FUNC_CACHE_PREFER_L1) {
			return noOperands
		}
		n, r := c.OccupancyAvailableDynamicSMemPerBlock(c.at, c.fns[i], blocks, threads)
		return answers(r, n)
	}},
	{"cuOccupancyMaxActiveClusters", func(c *caller) []uint64 {
		l, list := c.config()
		_, r := c.OccupancyMaxActiveClusters(c.at, c.fns[c.function()], l) // how many depends on the device
		c.alive = append(c.alive, list)
		return answers(r)
	}},
	{"cuOccupancyMaxPotentialClusterSize", func(c *caller) []uint64 {
		l, list := c.config()
		n, r := c.OccupancyMaxPotentialClusterSize(c.at, c.fns[c.function()], l)
		c.alive = append(c.alive, list)
		return answers(r, uint64(n))
	}},
	{"cuFuncGetName", func(c *caller) []uint64 {
		name, r := c.FuncGetName(c.at, c.fns[c.function()])
		return answers(r, text(name))
	}},
	{"cuFuncGetModule", func(c *caller) []uint64 {
		m, r := c.FuncGetModule(c.at, c.fns[c.function()])
		return answers(r, uint64(boolean(m == c.module)))
	}},
	{"cuFuncIsLoaded", func(c *caller) []uint64 {
		_, r := c.FuncIsLoaded(c.at, c.fns[c.function()]) // when a driver loads it is its own matter
		return answers(r)
	}},
	{"cuFuncLoad", func(c *caller) []uint64 {
		f := c.fns[c.function()]
		r := c.FuncLoad(c.at, f)
		is, q := c.FuncIsLoaded(c.at, f)
		return answers(r, uint64(is), uint64(q))
	}},
	{"cuFuncSetCacheConfig", func(c *caller) []uint64 {
		// How much shared memory CU_FUNC_CACHE_PREFER_EQUAL is, is unknown.
		config := one[int32](c, 0, 1, 2, 2, 4, -1)
		c.say("%d", config)
		i := c.function()
		if c.prefers[i].carved { // which of the two counts is unknown
			return noOperands
		}
		r := c.FuncSetCacheConfig(c.at, c.fns[i], config)
		if r == ok {
			c.prefers[i].config = config
		}
		return answers(r)
	}},
	{"cuFuncSetSharedMemConfig", func(c *caller) []uint64 {
		config := one[int32](c, 0, 1, 2, 3)
		c.say("%d", config)
		return answers(c.FuncSetSharedMemConfig(c.at, c.fns[c.function()], config))
	}},
}

// hasModule returns a call that uses a module.
func hasModule(f func(c *caller, m driver.Module) []uint64) func(c *caller) []uint64 {
	return func(c *caller) []uint64 {
		i := some(c, c.modules)
		if i < 0 {
			return noOperands
		}
		c.say("module %d ", i)
		return f(c, c.modules[i])
	}
}

// loads returns a call that loads a module.
func loads(name string, f func(c *caller, i codeImage) (driver.Module, driver.Result)) randomCall {
	return randomCall{name, func(c *caller) []uint64 {
		if len(c.modules) > 5 {
			return noOperands
		}
		i := one[codeImage](c, 0, 0, 0, 1, 2, 3, 4)
		c.say("image %d", i)
		m, r := f(c, i)
		if r == ok {
			c.modules = append(c.modules, m)
		}
		return answers(r)
	}}
}

// image returns the text of an image as a driver takes it.
func image(i codeImage) []byte { return []byte(images[i] + "\x00") }

// file returns the path of an image, or of a file that does not exist.
func (c *caller) file(i codeImage) string { return filepath.Join(c.dir, string('0'+rune(i))+".ptx") }

// writeFiles writes the images to files.
func (c *caller) writeFiles() (err error) {
	if c.dir, err = os.MkdirTemp("", "purecu-calls"); err != nil {
		return err
	}
	for i, s := range images {
		if err := os.WriteFile(c.file(codeImage(i)), []byte(s), 0o600); err != nil {
			return err
		}
	}
	return nil
}

var loadCalls = []randomCall{
	loads("cuModuleLoadData", func(c *caller, i codeImage) (driver.Module, driver.Result) {
		return c.ModuleLoadData(c.at, image(i))
	}),
	loads("cuModuleLoadDataEx", func(c *caller, i codeImage) (driver.Module, driver.Result) {
		return c.ModuleLoadDataEx(c.at, image(i), nil, nil)
	}),
	loads("cuModuleLoadFatBinary", func(c *caller, i codeImage) (driver.Module, driver.Result) {
		return c.ModuleLoadFatBinary(c.at, image(i))
	}),
	loads("cuModuleLoad", func(c *caller, i codeImage) (driver.Module, driver.Result) {
		if c.IntN(6) == 0 {
			i = 9
		}
		return c.ModuleLoad(c.at, c.file(i))
	}),
	{"cuModuleUnload", func(c *caller) []uint64 {
		i := some(c, c.modules)
		if i < 0 {
			return noOperands
		}
		r := c.ModuleUnload(c.at, c.modules[i])
		c.modules = slices.Delete(c.modules, i, i+1)
		return answers(r)
	}},
	{"cuModuleGetFunction", hasModule(func(c *caller, m driver.Module) []uint64 {
		name := one(c, "count", "count", "params", "bounded", "counter", "absent")
		c.say("%s", name)
		f, r := c.ModuleGetFunction(c.at, m, name)
		if r != ok {
			return answers(r)
		}
		of, q := c.FuncGetModule(c.at, f)
		return answers(r, uint64(q), uint64(boolean(of == m)))
	})},
	{"cuModuleGetGlobal", hasModule(func(c *caller, m driver.Module) []uint64 {
		name := one(c, "counter", "counter", "table", "everywhere", "count", "absent")
		c.say("%s", name)
		p, n, r := c.ModuleGetGlobal(c.at, m, name)
		return c.variable(p, n, r)
	})},
	{"cuModuleGetLoadingMode", func(c *caller) []uint64 {
		_, r := c.ModuleGetLoadingMode(c.at) // of the environment
		return answers(r)
	}},
	{"cuLibraryLoadFromFile", func(c *caller) []uint64 {
		if len(c.libraries) > 3 {
			return noOperands
		}
		i := one[codeImage](c, 0, 0, 0, 1, 3, 9)
		c.say("image %d", i)
		l, r := c.LibraryLoadFromFile(c.at, c.file(i), nil, nil, nil, nil)
		if r == ok {
			c.libraries = append(c.libraries, callLibrary{lib: l, image: i})
		}
		return answers(r)
	}},
	{"cuLibraryGetManaged", withLibrary(func(c *caller, l *callLibrary) []uint64 {
		name := one(c, "everywhere", "everywhere", "everywhere", "counter", "absent")
		c.say("%s", name)
		p, n, r := c.LibraryGetManaged(c.at, l.lib, name)
		return c.variable(p, n, r)
	})},
}

// variable is the answer of a call that finds a variable.
func (c *caller) variable(p driver.DevicePtr, n uint64, r driver.Result) []uint64 {
	if r != ok {
		return answers(r)
	}
	b := make([]byte, n)
	q := c.MemcpyDtoH(c.at, b, p)
	return answers(r, n, uint64(q), text(string(b)))
}

// launchesTopic is about launches, functions and modules.
var launchesTopic = callTopic{
	slices.Concat([]randomCall{large, memoryCalls[2], attributeCalls[0]}, loadCalls[:2], loadCalls[8:9]),
	slices.Concat(launchCalls, loadCalls, loadCalls[2:7], loadCalls[9:], launchCalls[:2],
		named(attributeCalls, "cuFuncSetAttribute"), named(libraryCalls, "cuLibraryGetModule", "cuLibraryGetModule",
			"cuLibraryUnload")),
}
