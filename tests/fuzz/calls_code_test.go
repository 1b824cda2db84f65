package fuzz

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// callLibrary is a library with the kernels that a sequence has asked for.
type callLibrary struct {
	lib     driver.LibraryHandle
	image   codeImage
	kernels []driver.Kernel
}

// callLink is a linker.
type callLink struct {
	state     driver.LinkState
	completed bool
	inputs    []int // those that were added
	broken    bool  // the inputs do not fit together, so that it can only be destroyed
}

// codeImage is the number of an image of images, or linkedImage.
type codeImage int

// linkedImage is what the linker made last.
const linkedImage codeImage = -1

const ptxHead = ".version 7.0\n.target sm_70\n.address_size 64\n"

// images are what libraries are loaded from. NVIDIA's driver reads an image when its code is needed.
var images = []string{
	// Kernels with parameters, and a variable that one of them changes.
	ptxHead + `.visible .global .align 4 .u32 counter = 7;
.visible .global .align 8 .b8 table[24];
.visible .global .attribute(.managed) .align 4 .u32 everywhere = 9;
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
.visible .entry params(.param .u64 p, .param .u32 a, .param .align 16 .b8 b[16], .param .u16 c, .param .u8 d) { ret; }
.visible .entry bounded() .maxntid 128, 1, 1 { ret; }
`,
	ptxHead + ".visible .entry count(.param .u64 p) { ret; }\n",
	ptxHead, // no kernel
	ptxHead + ".visible .entry count() { ret }\n",
	".version 99.0\n.target sm_70\n.address_size 64\n.visible .entry count() { ret; }\n",
	"",
}

// usable reports whether the image has kernels.
func (i codeImage) usable() bool { return i <= 1 }

// inputs are texts that a linker gets. The first calls a function of the second and third, which have the
// same name.
var inputs = []string{
	ptxHead + `.extern .func (.param .b32 r) help(.param .b32 x);
.visible .entry count(.param .u64 p)
{
	.reg .u64 %a;
	.reg .b32 %v;
	ld.param.u64 %a, [p];
	cvta.to.global.u64 %a, %a;
	mov.u32 %v, 5;
	{ .param .b32 x; st.param.b32 [x], %v; .param .b32 r; call (r), help, (x); ld.param.b32 %v, [r]; }
	st.global.u32 [%a], %v;
	ret;
}
`,
	ptxHead + `.visible .func (.param .b32 r) help(.param .b32 x)
{
	.reg .b32 %v;
	ld.param.b32 %v, [x];
	mul.lo.s32 %v, %v, 3;
	st.param.b32 [r], %v;
	ret;
}
`,
	ptxHead + ".visible .func (.param .b32 r) help(.param .b32 x) { st.param.b32 [r], 4; ret; }\n",
	ptxHead + ".visible .entry bounded() .maxntid 128, 1, 1 { ret; }\n",
	"hello",
	".version 99.0\n.target sm_70\n.address_size 64\n",
}

// defined are the names that the inputs define.
var defined = []string{"count", "help", "help", "bounded"}

// unfit is the answer of a call of a linker whose inputs do not fit together. An H200 (driver 580) answers
// CUDA_ERROR_INVALID_SOURCE or CUDA_ERROR_UNKNOWN then, and if a function is not defined, even
// CUDA_SUCCESS, with an image. On what it depends is unknown: the same calls on a new linker had different
// answers in one process. These linkers have no log. Linkers with logs are in the tests of package cu.
var unfit = []uint64{1 << 62}

// has reports whether an input defines a name.
func (l *callLink) has(name string) bool {
	return slices.ContainsFunc(l.inputs, func(i int) bool { return defined[i] == name })
}

// add adds an input.
func (c *caller) add(l *callLink, typ int32, i int, data []byte) []uint64 {
	r := c.LinkAddData(c.at, l.state, typ, data, "input", nil, nil)
	if !l.completed && typ == driver.CU_JIT_INPUT_PTX && data != nil && i < len(defined) {
		if l.broken = l.has(defined[i]); l.broken && r != ok {
			return unfit
		}
		l.inputs = append(l.inputs, i)
	}
	return answers(r)
}

// withLibrary returns a call that uses a library, most often one with kernels.
func withLibrary(f func(c *caller, l *callLibrary) []uint64) func(c *caller) []uint64 {
	return func(c *caller) []uint64 {
		i := some(c, c.libraries)
		if i < 0 || !c.libraries[i].image.usable() && c.IntN(3) > 0 {
			return noOperands
		}
		c.say("image %d, ", c.libraries[i].image)
		return f(c, &c.libraries[i])
	}
}

// withKernel returns a call that uses a kernel of a library.
func withKernel(f func(c *caller, k driver.Kernel) []uint64) func(c *caller) []uint64 {
	return withLibrary(func(c *caller, l *callLibrary) []uint64 {
		i := some(c, l.kernels)
		if i < 0 {
			return noOperands
		}
		name, _ := c.KernelGetName(c.at, l.kernels[i])
		c.say("%s, ", name)
		return f(c, l.kernels[i])
	})
}

// text returns a number for a text.
func text(s string) (n uint64) {
	for _, b := range []byte(s) {
		n = n*31 + uint64(b)
	}
	return n
}

// load loads a library.
func (c *caller) load(image codeImage) []uint64 {
	if len(c.libraries) > 3 {
		return noOperands
	}
	code := c.linked
	if image != linkedImage {
		code = []byte(images[image] + "\x00")
	}
	var options []int32
	var values []uintptr
	if c.IntN(8) == 0 {
		options, values = []int32{one[int32](c, 7, -1)}, []uintptr{0}
	}
	c.say("image %d, %v", image, options)
	l, r := c.LibraryLoadData(c.at, code, nil, nil, options, values)
	if r == ok {
		c.libraries = append(c.libraries, callLibrary{lib: l, image: image})
	}
	return answers(r)
}

// attributeKept reports whether the value of a function's attribute is the same for all compilers.
func attributeKept(attr int32) bool {
	switch attr {
	case driver.CU_FUNC_ATTRIBUTE_NUM_REGS, driver.CU_FUNC_ATTRIBUTE_BINARY_VERSION,
		driver.CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, driver.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		return false
	}
	return true
}

var libraryCalls = []randomCall{
	{"cuLibraryLoadData", func(c *caller) []uint64 {
		return c.load(one[codeImage](c, 0, 0, 0, 0, 1, 2, 3, 4, 5))
	}},
	{"cuLibraryLoadData, linked", func(c *caller) []uint64 {
		if c.linked == nil {
			return noOperands
		}
		return c.load(linkedImage)
	}},
	{"cuLibraryUnload", func(c *caller) []uint64 {
		i := some(c, c.libraries)
		if i < 0 || c.IntN(2) == 0 {
			return noOperands
		}
		r := c.LibraryUnload(c.at, c.libraries[i].lib)
		c.libraries = slices.Delete(c.libraries, i, i+1)
		return answers(r)
	}},
	{"cuLibraryGetKernel", withLibrary(func(c *caller, l *callLibrary) []uint64 {
		name := one(c, "count", "count", "params", "bounded", "counter", "absent")
		c.say("%s", name)
		k, r := c.LibraryGetKernel(c.at, l.lib, name)
		if r == ok && !slices.Contains(l.kernels, k) {
			l.kernels = append(l.kernels, k)
		}
		return answers(r, uint64(slices.Index(l.kernels, k)))
	})},
	{"cuLibraryGetModule", withLibrary(func(c *caller, l *callLibrary) []uint64 {
		m, r := c.LibraryGetModule(c.at, l.lib)
		if r != ok {
			return answers(r)
		}
		again, q := c.LibraryGetModule(c.at, l.lib)
		_, p := c.ModuleGetFunction(c.at, m, "count")
		return answers(r, uint64(q), uint64(boolean(again == m)), uint64(p))
	})},
	{"cuLibraryGetGlobal", withLibrary(func(c *caller, l *callLibrary) []uint64 {
		name := one(c, "counter", "counter", "table", "count", "absent")
		c.say("%s", name)
		p, n, r := c.LibraryGetGlobal(c.at, l.lib, name)
		if r != ok {
			return answers(r)
		}
		b := make([]byte, n)
		q := c.MemcpyDtoH(c.at, b, p)
		return answers(r, n, uint64(q), text(string(b)))
	})},
	{"cuLibraryGetKernelCount", withLibrary(func(c *caller, l *callLibrary) []uint64 {
		n, r := c.LibraryGetKernelCount(c.at, l.lib)
		return answers(r, uint64(n))
	})},
	{"cuLibraryEnumerateKernels", withLibrary(func(c *caller, l *callLibrary) []uint64 {
		list := make([]driver.Kernel, 1+c.IntN(4))
		r := c.LibraryEnumerateKernels(c.at, list, l.lib)
		if r != ok || l.image == linkedImage {
			// What a linker made has an order of its own: for the inputs 3, 0 and 1, an H200 listed the same kernel
			// first as for 0, 1 and 3. A list may be too short for all.
			return answers(r)
		}
		answer := answers(r, uint64(len(list)))
		for _, k := range list {
			if k != 0 {
				name, q := c.KernelGetName(c.at, k)
				answer = append(answer, uint64(q), text(name))
			}
		}
		return answer
	})},
	{"cuKernelGetName", withKernel(func(c *caller, k driver.Kernel) []uint64 {
		name, r := c.KernelGetName(c.at, k)
		return answers(r, text(name))
	})},
	{"cuKernelGetLibrary", withLibrary(func(c *caller, l *callLibrary) []uint64 {
		i := some(c, l.kernels)
		if i < 0 {
			return noOperands
		}
		lib, r := c.KernelGetLibrary(c.at, l.kernels[i])
		return answers(r, uint64(boolean(lib == l.lib)))
	})},
	{"cuKernelGetParamInfo", withKernel(func(c *caller, k driver.Kernel) []uint64 {
		i := uint64(c.IntN(6))
		c.say("%d", i)
		off, n, r := c.KernelGetParamInfo(c.at, k, i)
		return answers(r, off, n)
	})},
	{"cuKernelGetAttribute", withKernel(func(c *caller, k driver.Kernel) []uint64 {
		attr, dev := one(c, int32(c.IntN(17)), 8, 9), one[driver.Device](c, 0, 0, 0, 0, 9)
		c.say("%d %d", attr, dev)
		v, r := c.KernelGetAttribute(c.at, attr, k, dev)
		if !attributeKept(attr) {
			return answers(r)
		}
		return answers(r, uint64(v))
	})},
	{"cuKernelSetAttribute", withKernel(func(c *caller, k driver.Kernel) []uint64 {
		attr, dev := one[int32](c, 8, 9, 8, 9, 0, 3), one[driver.Device](c, 0, 0, 0, 0, 0, 9)
		v := one[int32](c, 0, -1, 50, 100, 101, 48<<10, 200<<10, 400<<10)
		c.say("%d %d %d", attr, v, dev)
		return answers(c.KernelSetAttribute(c.at, attr, v, k, dev))
	})},
	{"cuKernelSetCacheConfig", withKernel(func(c *caller, k driver.Kernel) []uint64 {
		config := one[int32](c, 0, 1, 2, 3, 4, -1)
		c.say("%d", config)
		return answers(c.KernelSetCacheConfig(c.at, k, config, 0))
	})},
	{"cuKernelGetFunction", withKernel(func(c *caller, k driver.Kernel) []uint64 {
		f, r := c.KernelGetFunction(c.at, k)
		if r != ok {
			return answers(r)
		}
		attr := one[int32](c, 0, 8, 9)
		v, q := c.FuncGetAttribute(c.at, attr, f)
		name, p := c.FuncGetName(c.at, f)
		return answers(r, uint64(attr), uint64(q), uint64(v), uint64(p), text(name))
	})},
	{"cuLaunchKernel, of a library", withKernel(func(c *caller, k driver.Kernel) []uint64 {
		i := some(c, c.blocks)
		name, r := c.KernelGetName(c.at, k)
		if i < 0 || c.blocks[i].size < 4 || r != ok || name == "params" {
			return noOperands
		}
		f := driver.Function(k) // C takes the kernel's handle, too
		if c.IntN(2) == 0 {
			if f, r = c.KernelGetFunction(c.at, k); r != ok {
				return answers(r)
			}
		}
		var p driver.KernelParams
		at := uint64(c.blocks[i].at)
		if name == "count" {
			p = driver.KernelParams{Ptrs: []unsafe.Pointer{unsafe.Pointer(&at)}, Sizes: []uint32{8}}
		}
		threads := one[uint32](c, 1, 1, 128, 129, 0)
		if name == "count" && threads > 1 {
			threads = 1 // several threads would race for the counter
		}
		c.say("%d", threads)
		return answers(c.LaunchKernel(c.at, f, 1, 1, 1, threads, 1, 1, 0, c.anyStream(), p))
	})},
}

// withModule returns a call that uses the module of a library.
func withModule(f func(c *caller, m driver.Module) []uint64) func(c *caller) []uint64 {
	return withLibrary(func(c *caller, l *callLibrary) []uint64 {
		m, r := c.LibraryGetModule(c.at, l.lib)
		if r != ok {
			return noOperands
		}
		return f(c, m)
	})
}

var moduleCalls = []randomCall{
	{"cuModuleGetFunctionCount", withModule(func(c *caller, m driver.Module) []uint64 {
		n, r := c.ModuleGetFunctionCount(c.at, m)
		return answers(r, uint64(n))
	})},
	{"cuModuleEnumerateFunctions", withModule(func(c *caller, m driver.Module) []uint64 {
		n, r := c.ModuleGetFunctionCount(c.at, m)
		list := make([]driver.Function, n)
		if r != ok || n == 0 {
			return noOperands
		}
		r = c.ModuleEnumerateFunctions(c.at, list, m)
		var names []uint64
		for _, f := range list {
			name, q := c.FuncGetName(c.at, f)
			names = append(names, text(name)+uint64(q)<<56)
		}
		slices.Sort(names)
		return answers(r, names...)
	})},
}

// withLink returns a call that uses a linker, rarely one that is completed.
func withLink(f func(c *caller, l *callLink) []uint64) func(c *caller) []uint64 {
	return func(c *caller) []uint64 {
		i := some(c, c.links)
		if i < 0 || c.links[i].broken || c.links[i].completed && c.IntN(4) > 0 {
			return noOperands
		}
		return f(c, &c.links[i])
	}
}

var linkCalls = []randomCall{
	{"cuLinkCreate", func(c *caller) []uint64 {
		if len(c.links) > 2 {
			return noOperands
		}
		var options []uint32
		var values []uintptr
		if c.IntN(4) == 0 {
			options, values = []uint32{one[uint32](c, 999, driver.CU_JIT_OPTIMIZATION_LEVEL)},
				[]uintptr{uintptr(c.IntN(5))}
		}
		c.say("%d %d", options, values)
		l, r := c.LinkCreate(c.at, options, values)
		if r == ok {
			c.links = append(c.links, callLink{state: l})
			c.alive = append(c.alive, values) // used until the linker is destroyed
		}
		return answers(r)
	}},
	{"cuLinkAddData", withLink(func(c *caller, l *callLink) []uint64 {
		i, typ := one(c, 0, 0, 1, 1, 1, 2, 3, 3, 4, 5), one[int32](c, 1, 1, 1, 1, 1, 1, 1, 1, 1, 99, -1)
		data := []byte(inputs[i] + "\x00")
		if c.IntN(12) == 0 {
			data = nil
		}
		c.say("input %d of %d bytes, type %d", i, len(data), typ)
		return c.add(l, typ, i, data)
	})},
	{"cuLinkComplete", withLink(func(c *caller, l *callLink) []uint64 {
		p, n, r := c.LinkComplete(c.at, l.state)
		if l.broken = !l.completed && l.has("count") && !l.has("help"); l.broken {
			return unfit
		}
		l.completed = true
		if r == ok {
			c.linked = bytes.Clone(foreign(p, n))
		}
		return answers(r, uint64(boolean(n > 0)))
	})},
	{"cuLinkDestroy", func(c *caller) []uint64 {
		i := some(c, c.links)
		if i < 0 || !c.links[i].completed && !c.links[i].broken && c.IntN(8) > 0 {
			return noOperands
		}
		r := c.LinkDestroy(c.at, c.links[i].state)
		c.links = slices.Delete(c.links, i, i+1)
		return answers(r)
	}},
}

// foreign returns memory of the driver.
func foreign(p driver.HostPtr, n uint64) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n)
}

// codeTopic is about libraries and linkers.
var codeTopic = func() callTopic {
	link := func(i int) randomCall {
		return randomCall{"cuLinkAddData", withLink(func(c *caller, l *callLink) []uint64 {
			c.say("input %d", i)
			return c.add(l, driver.CU_JIT_INPUT_PTX, i, []byte(inputs[i]+"\x00"))
		})}
	}
	load := randomCall{"cuLibraryLoadData", func(c *caller) []uint64 { return c.load(0) }}
	first := slices.Concat([]randomCall{large}, named(linkCalls, "cuLinkCreate"), []randomCall{link(0), link(1)},
		named(linkCalls, "cuLinkComplete"), []randomCall{load, load}, named(libraryCalls, "cuLibraryLoadData, linked",
			"cuLibraryGetKernel", "cuLibraryGetKernel", "cuLibraryGetKernel"))
	return callTopic{first, slices.Concat(libraryCalls, moduleCalls, linkCalls, linkCalls,
		named(linkCalls, "cuLinkAddData",
			"cuLinkComplete"),
		named(libraryCalls, "cuLibraryLoadData", "cuLibraryGetKernel"), memoryCalls[:1])}
}()

// named returns the calls with some names.
func named(list []randomCall, names ...string) (calls []randomCall) {
	for _, name := range names {
		i := slices.IndexFunc(list, func(k randomCall) bool { return k.name == name })
		calls = append(calls, list[i])
	}
	return calls
}

// functionOf returns the function that a call is of.
func functionOf(call string) string {
	name, _, _ := strings.Cut(call, ",")
	return name
}
