package behaviour

import "github.com/purecu/purecu/driver"

// countText has a variable, and a kernel that writes its value and adds to it.
const countText = `.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .entry count(.param .u64 p)
{
	.reg .u64 %a;
	.reg .u32 %v;
	ld.param.u64 %a, [p];
	cvta.to.global.u64 %a, %a;
	ld.global.u32 %v, [counter];
	st.global.u32 [%a], %v;
	add.u32 %v, %v, 1;
	st.global.u32 [counter], %v;
	ret;
}
.visible .entry nothing() { ret; }
` + "\x00"

// library loads a library with an image, and returns its kernel with a name.
func (c *raw) library(text, name string) (driver.LibraryHandle, driver.Kernel) {
	l, res := c.LibraryLoadData(c.at, []byte(text), nil, nil, nil, nil)
	c.must("cuLibraryLoadData", res)
	k, res := c.LibraryGetKernel(c.at, l, name)
	c.must("cuLibraryGetKernel", res)
	return l, k
}

// runKernel launches a kernel without arguments by either kind of handle.
func (c *raw) runKernel(f driver.Function, s driver.Stream) driver.Result {
	return c.LaunchKernel(c.at, f, 1, 1, 1, 1, 1, 1, 0, s, driver.KernelParams{})
}

// foundLibraries are about code that is independent of contexts, and its kernels.
func foundLibraries() []found {
	return []found{
		{famLibrary, "library-without-a-context", "what a library needs a current context for", func(c *raw) {
			c.setup()
			c.must("cuCtxSetCurrent", c.CtxSetCurrent(c.at, 0))
			l, res := c.LibraryLoadData(c.at, []byte(countText), nil, nil, nil, nil)
			c.res("load", res)
			k, res := c.LibraryGetKernel(c.at, l, "count")
			c.res("get-kernel", res)
			c.res("get-function", bare(c.KernelGetFunction(c.at, k)))
			c.res("get-module", bare(c.LibraryGetModule(c.at, l)))
			_, _, res = c.LibraryGetGlobal(c.at, l, "counter")
			c.res("get-global", res)
			_, _, res = c.KernelGetParamInfo(c.at, k, 0)
			c.res("parameter", res)
			c.res("attribute", bare(c.KernelGetAttribute(c.at, 0, k, 0)))
			c.res("unload", c.LibraryUnload(c.at, l))
		}},
		{famLibrary, "library-names", "names that a library has, or has not", func(c *raw) {
			c.setup()
			l, _ := c.library(countText, "count")
			c.res("absent", bare(c.LibraryGetKernel(c.at, l, "absent")))
			c.res("a-variable", bare(c.LibraryGetKernel(c.at, l, "counter")))
			c.res("no-name", bare(c.LibraryGetKernel(c.at, l, "")))
			_, _, res := c.LibraryGetGlobal(c.at, l, "absent")
			c.res("absent-global", res)
			_, _, res = c.LibraryGetManaged(c.at, l, "counter")
			c.res("managed-that-is-not", res)
			c.res("unified-function", bare(c.LibraryGetUnifiedFunction(c.at, l, "count")))
		}},
		{famLibrary, "library-kernel-as-variable", "asking for a variable by the name of a kernel", func(c *raw) {
			c.setup()
			l, _ := c.library(countText, "count")
			_, _, res := c.LibraryGetGlobal(c.at, l, "count")
			c.res("kernel", res)
			_, _, res = c.LibraryGetManaged(c.at, l, "count")
			c.res("kernel-as-managed", res)
			m, res := c.LibraryGetModule(c.at, l)
			c.must("cuLibraryGetModule", res)
			_, _, res = c.ModuleGetGlobal(c.at, m, "count")
			c.res("of-the-module", res)
		}},
		{famLibrary, "library-code", "which call reports a mistake in the code", func(c *raw) {
			c.setup()
			for _, image := range []struct{ name, text string }{
				{"empty", ""},
				{"no-kernel", ".version 7.0\n.target sm_70\n.address_size 64\n"},
				{"a-mistake", ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry count() { ret }\n"},
				{"a-version", ".version 99.0\n.target sm_70\n.address_size 64\n.visible .entry count() { ret; }\n"},
				{"a-target", ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry count() { ret; }\n"},
			} {
				l, res := c.LibraryLoadData(c.at, []byte(image.text+"\x00"), nil, nil, nil, nil)
				c.res(image.name+"-load", res)
				if res != driver.ResultSuccess {
					continue
				}
				k, res := c.LibraryGetKernel(c.at, l, "count")
				c.res(image.name+"-kernel", res)
				if res == driver.ResultSuccess {
					c.res(image.name+"-function", bare(c.KernelGetFunction(c.at, k)))
				}
				c.res(image.name+"-module", bare(c.LibraryGetModule(c.at, l)))
				c.res(image.name+"-unload", c.LibraryUnload(c.at, l))
			}
		}},
		{famLibrary, "linker-without-input", "linking nothing", func(c *raw) {
			c.setup()
			l, res := c.LinkCreate(c.at, nil, nil)
			c.must("cuLinkCreate", res)
			_, size, res := c.LinkComplete(c.at, l)
			c.res("complete", res)
			c.val("empty", size == 0)
			_, _, res = c.LinkComplete(c.at, l)
			c.res("complete-again", res)
			c.res("add", c.LinkAddData(c.at, l, driver.CU_JIT_INPUT_PTX, []byte(countText), "count", nil, nil))
			c.res("destroy", c.LinkDestroy(c.at, l))
		}},
		{famLibrary, "library-kernel-as-function", "the handle of a library's kernel where a function is expected",
			func(c *raw) {
				c.setup()
				l, k := c.library(countText, "nothing")
				f := driver.Function(k)
				c.res("launch", c.runKernel(f, 0))
				c.res("synchronize", c.CtxSynchronize(c.at))
				c.res("attribute", bare(c.FuncGetAttribute(c.at, 0, f)))
				c.res("name", bare(c.FuncGetName(c.at, f)))
				c.res("module", bare(c.FuncGetModule(c.at, f)))
				c.res("occupancy", bare(c.OccupancyMaxActiveBlocksPerMultiprocessor(c.at, f, 32, 0)))
				own, res := c.KernelGetFunction(c.at, k)
				c.must("cuKernelGetFunction", res)
				c.res("name-of-the-function-as-a-kernel", bare(c.KernelGetName(c.at, driver.Kernel(own))))
				m, res := c.LibraryGetModule(c.at, l)
				c.must("cuLibraryGetModule", res)
				c.res("unload-the-module", c.ModuleUnload(c.at, m))
				c.res("unload", c.LibraryUnload(c.at, l))
			}},
		{famLibrary, "library-contexts", "a function of one context that is launched in another", func(c *raw) {
			c.setup()
			_, k := c.library(countText, "nothing")
			first, res := c.KernelGetFunction(c.at, k)
			c.must("cuKernelGetFunction", res)
			ctx := c.context(0)
			c.res("launch-the-kernel", c.runKernel(driver.Function(k), 0))
			c.res("launch-the-function", c.runKernel(first, 0))
			second, res := c.KernelGetFunction(c.at, k)
			c.res("get-function", res)
			if first != second {
				c.res("another-function", driver.ResultSuccess)
			}
			c.res("destroy", c.CtxDestroy(c.at, ctx))
			c.res("get-function-again", bare(c.KernelGetFunction(c.at, k)))
		}},
		{famLibrary, "library-unload-waits", "work that has to end before a library is unloaded", func(c *raw) {
			c.setup()
			l, k := c.library(countText, "nothing")
			s, g := c.held(nonBlocking)
			ctx, res := c.CtxGetCurrent(c.at)
			c.must("cuCtxGetCurrent", res)
			waited, res := c.waits(ctx, g, func(c *raw) driver.Result { return bare(c.KernelGetFunction(c.at, k)) })
			c.res("first-function", res)
			if waited {
				c.res("first-function-waited", driver.ResultNotReady)
			}
			c.must("cuStreamSynchronize", c.StreamSynchronize(c.at, s))
			s, g = c.held(nonBlocking)
			waited, res = c.waits(ctx, g, func(c *raw) driver.Result { return c.LibraryUnload(c.at, l) })
			c.res("unload", res)
			if waited {
				c.res("unload-waited", driver.ResultNotReady)
			}
			c.must("cuStreamSynchronize", c.StreamSynchronize(c.at, s))
		}},
	}
}
