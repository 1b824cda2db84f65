package entries

import "github.com/purecu/purecu/driver"

// code is a library with variables, and what is in it.
type code struct {
	library driver.LibraryHandle
	kernel  driver.Kernel
}

// kernelFile has a kernel of another name than every other image.
const kernelFile = "testdata/kernel.ptx"

const ptxHead = ".version 7.0\n.target sm_70\n.address_size 64\n"

// These are images with one kernel each, for a linker, and one with a kernel and variables.
const (
	firstInput  = ptxHead + ".visible .entry first_input() { ret; }\n\x00"
	secondInput = ptxHead + ".visible .entry second_input() { ret; }\n\x00"
	thirdInput  = ptxHead + ".visible .entry third_input() { ret; }\n"
	variables   = ptxHead + ".visible .global .align 4 .u32 variable = 1;\n" +
		".visible .global .attribute(.managed) .align 4 .u32 everywhere = 7;\n" +
		".visible .entry " + kernelName + "(.param .u64 p) { ret; }\n\x00"
)

func (w *world) addLibrary(at A) {
	var r R
	w.code.library, r = w.LibraryLoadData(at, []byte(variables), nil, nil, nil, nil)
	w.must("cuLibraryLoadData", r)
	w.code.kernel, r = w.LibraryGetKernel(at, w.code.library, kernelName)
	w.must("cuLibraryGetKernel", r)
	w.finally("cuLibraryUnload", func(at A) R { return w.LibraryUnload(at, w.code.library) })
}

func (w *world) loadLibrary(at A) {
	w.addLibrary(at)
	_, r := w.LibraryGetModule(at, w.code.library)
	w.must("cuLibraryGetModule", r)
}

func (w *world) addLinker(at A) {
	var r R
	w.linker, r = w.LinkCreate(at, nil, nil)
	w.must("cuLinkCreate", r)
	w.must("cuLinkAddData", w.LinkAddData(at, w.linker, driver.CU_JIT_INPUT_PTX, []byte(firstInput), "first", nil, nil))
}

// linkerCalls are about linkers. In one world, no input is added twice. The thread that makes a call
// also creates and destroys the linkers.
func linkerCalls() []call {
	return with(codeLinker,
		alone("cuLinkCreate", func(w W, at A) R {
			l, r := w.LinkCreate(at, nil, nil)
			if r == ok {
				w.must("cuLinkDestroy", w.LinkDestroy(at, l))
			}
			return r
		}),
		destroys(alone("cuLinkAddData", func(w W, at A) R {
			return w.LinkAddData(at, w.linker, driver.CU_JIT_INPUT_PTX, []byte(secondInput), "second", nil, nil)
		})),
		destroys(alone("cuLinkAddFile", func(w W, at A) R {
			return w.LinkAddFile(at, w.linker, driver.CU_JIT_INPUT_PTX, kernelFile, nil, nil)
		})),
		destroys(alone("cuLinkComplete", func(w W, at A) R { _, _, r := w.LinkComplete(at, w.linker); return r })),
		destroys(alone("cuLinkDestroy", func(w W, at A) R {
			r := w.LinkDestroy(at, w.linker)
			if r == ok {
				w.linker = 0
			}
			return r
		})),
	)
}

// libraryCalls are about libraries and their kernels.
func libraryCalls() []call {
	return with(codeLibrary,
		alone("cuLibraryLoadFromFile", func(w W, at A) R {
			l, r := w.LibraryLoadFromFile(at, kernelFile, nil, nil, nil, nil)
			return w.later(r, func(at A) R { return w.LibraryUnload(at, l) })
		}),
		alone("cuLibraryGetKernelCount", func(w W, at A) R {
			_, r := w.LibraryGetKernelCount(at, w.code.library)
			return r
		}),
		alone("cuLibraryEnumerateKernels", func(w W, at A) R {
			return w.LibraryEnumerateKernels(at, make([]driver.Kernel, 1), w.code.library)
		}),
		alone("cuLibraryGetGlobal", func(w W, at A) R {
			_, _, r := w.LibraryGetGlobal(at, w.code.library, "variable")
			return r
		}),
		alone("cuLibraryGetManaged before", func(w W, at A) R {
			_, _, r := w.LibraryGetManaged(at, w.code.library, "everywhere")
			return r
		}),
		refused(alone("cuLibraryGetUnifiedFunction", func(w W, at A) R {
			_, r := w.LibraryGetUnifiedFunction(at, w.code.library, "absent")
			return r
		})),
		alone("cuKernelGetLibrary", func(w W, at A) R { _, r := w.KernelGetLibrary(at, w.code.kernel); return r }),
		alone("cuKernelGetName", func(w W, at A) R { _, r := w.KernelGetName(at, w.code.kernel); return r }),
		alone("cuKernelGetParamInfo", func(w W, at A) R {
			_, _, r := w.KernelGetParamInfo(at, w.code.kernel, 0)
			return r
		}),
		alone("cuKernelSetAttribute", func(w W, at A) R {
			return w.KernelSetAttribute(at, driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -1, w.code.kernel, 0)
		}),
		alone("cuKernelSetCacheConfig", func(w W, at A) R {
			return w.KernelSetCacheConfig(at, w.code.kernel, driver.CU_FUNC_CACHE_PREFER_NONE, 0)
		}),
	)
}

// loadedLibraryCalls are about libraries that a context has loaded.
func loadedLibraryCalls() []call {
	return with(loadedLibrary,
		alone("cuLibraryGetManaged", func(w W, at A) R {
			_, _, r := w.LibraryGetManaged(at, w.code.library, "everywhere")
			return r
		}),
		alone("cuLibraryGetGlobal loaded", func(w W, at A) R {
			_, _, r := w.LibraryGetGlobal(at, w.code.library, "variable")
			return r
		}),
		alone("cuKernelGetFunction loaded", func(w W, at A) R { _, r := w.KernelGetFunction(at, w.code.kernel); return r }),
	)
}

// oneThread is a launch of one thread.
var oneThread = driver.LaunchConfig{GridX: 1, GridY: 1, GridZ: 1, BlockX: 1, BlockY: 1, BlockZ: 1}

// functionCalls are about modules and their functions.
func functionCalls() []call {
	return with(0,
		alone("cuModuleLoad", func(w W, at A) R {
			m, r := w.ModuleLoad(at, kernelFile)
			return w.later(r, func(at A) R { return w.ModuleUnload(at, m) })
		}),
		alone("cuModuleLoadFatBinary", func(w W, at A) R {
			m, r := w.ModuleLoadFatBinary(at, image()) // an H200's driver takes PTX here, too
			return w.later(r, func(at A) R { return w.ModuleUnload(at, m) })
		}),
		alone("cuModuleLoadDataEx", func(w W, at A) R {
			m, r := w.ModuleLoadDataEx(at, image(), nil, nil)
			return w.later(r, func(at A) R { return w.ModuleUnload(at, m) })
		}),
		alone("cuModuleGetLoadingMode", func(w W, at A) R { _, r := w.ModuleGetLoadingMode(at); return r }),
		alone("cuModuleGetFunctionCount", func(w W, at A) R {
			_, r := w.ModuleGetFunctionCount(at, w.module)
			return r
		}),
		alone("cuModuleEnumerateFunctions", func(w W, at A) R {
			return w.ModuleEnumerateFunctions(at, make([]driver.Function, 1), w.module)
		}),
		refused(alone("cuModuleGetGlobal", func(w W, at A) R {
			_, _, r := w.ModuleGetGlobal(at, w.module, "absent")
			return r
		})),
		alone("cuFuncGetModule", func(w W, at A) R { _, r := w.FuncGetModule(at, w.function); return r }),
		alone("cuFuncGetName", func(w W, at A) R { _, r := w.FuncGetName(at, w.function); return r }),
		refused(alone("cuFuncGetParamInfo", func(w W, at A) R {
			_, _, r := w.FuncGetParamInfo(at, w.function, 0)
			return r
		})),
		alone("cuFuncIsLoaded", func(w W, at A) R { _, r := w.FuncIsLoaded(at, w.function); return r }),
		alone("cuFuncLoad", func(w W, at A) R { return w.FuncLoad(at, w.function) }),
		alone("cuFuncSetAttribute", func(w W, at A) R {
			return w.FuncSetAttribute(at, w.function, driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -1)
		}),
		alone("cuFuncSetCacheConfig", func(w W, at A) R {
			return w.FuncSetCacheConfig(at, w.function, driver.CU_FUNC_CACHE_PREFER_NONE)
		}),
		alone("cuFuncSetSharedMemConfig", func(w W, at A) R {
			return w.FuncSetSharedMemConfig(at, w.function, driver.CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE)
		}),
		alone("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", func(w W, at A) R {
			_, r := w.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(at, w.function, 32, 0, 0)
			return r
		}),
		alone("cuOccupancyMaxPotentialBlockSize", func(w W, at A) R {
			_, _, r := w.OccupancyMaxPotentialBlockSize(at, w.function, 0, 0, 0)
			return r
		}),
		alone("cuOccupancyAvailableDynamicSMemPerBlock", func(w W, at A) R {
			_, r := w.OccupancyAvailableDynamicSMemPerBlock(at, w.function, 1, 32)
			return r
		}),
		alone("cuOccupancyMaxActiveClusters", func(w W, at A) R {
			_, r := w.OccupancyMaxActiveClusters(at, w.function, oneThread)
			return r
		}),
		alone("cuOccupancyMaxPotentialClusterSize", func(w W, at A) R {
			_, r := w.OccupancyMaxPotentialClusterSize(at, w.function, oneThread)
			return r
		}),
		onStream("cuLaunchKernelEx", func(w W, at A, s S) R {
			c := oneThread
			c.Stream = s
			return w.LaunchKernelEx(at, &c, w.function, driver.KernelParams{})
		}),
		onStream("cuLaunchCooperativeKernel", func(w W, at A, s S) R {
			return w.LaunchCooperativeKernel(at, w.function, 1, 1, 1, 1, 1, 1, 0, s, driver.KernelParams{})
		}),
	)
}
