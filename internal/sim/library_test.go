package sim

import (
	"testing"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// libraryPTX is the text of the library with which the results of an H200 were recorded.
const libraryPTX = `.version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 counter = 7;
.visible .entry put(.param .u64 p, .param .u32 v)
{
	.reg .u64 %a;
	.reg .u32 %v;
	ld.param.u64 %a, [p];
	ld.param.u32 %v, [v];
	cvta.to.global.u64 %a, %a;
	st.global.u32 [%a], %v;
	ret;
}
.visible .entry get(.param .u64 p)
{
	.reg .u64 %a;
	.reg .u32 %v;
	ld.param.u64 %a, [p];
	cvta.to.global.u64 %a, %a;
	ld.global.u32 %v, [%a];
	ret;
}
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
`

// library loads a library, which is unloaded at the end.
func (r *lab) library(text string) driver.LibraryHandle {
	r.t.Helper()
	l, res := r.LibraryLoadData(r.th, []byte(text), nil, nil, nil, nil)
	r.must(res)
	r.t.Cleanup(func() {
		if object, _ := r.objects.find(uintptr(l)); object != nil {
			r.must(r.LibraryUnload(r.th, l))
		}
	})
	return l
}

// TestLibraryResults has the results of an H200 (driver 580, CUDA 13.0).
func TestLibraryResults(t *testing.T) {
	r := newLab(t)
	const invalid, handle, context, missing = driver.ResultInvalidValue, driver.ResultInvalidHandle,
		driver.ResultInvalidContext, driver.ResultNotFound
	second := func(_ any, res driver.Result) driver.Result { return res }
	third := func(_, _ any, res driver.Result) driver.Result { return res }
	bare := new(driver.Thread) // without a context
	l := r.library(libraryPTX)
	k, res := r.LibraryGetKernel(bare, l, "put")
	r.want("get kernel without a context", ok, res)
	r.want("get function without a context", context, second(r.KernelGetFunction(bare, k)))
	r.want("get module without a context", context, second(r.LibraryGetModule(bare, l)))
	r.want("get global without a context", context, third(r.LibraryGetGlobal(bare, l, "counter")))
	r.want("parameter without a context", context, third(r.KernelGetParamInfo(bare, k, 0)))
	for _, name := range []string{"absent", "", "counter"} {
		r.want("kernel "+name, missing, second(r.LibraryGetKernel(r.th, l, name)))
	}
	if n, res := r.LibraryGetKernelCount(bare, l); n != 3 || res != ok {
		t.Errorf("%d kernels, %v", n, res)
	}
	list := make([]driver.Kernel, 8)
	r.must(r.LibraryEnumerateKernels(bare, nil, l))
	r.must(r.LibraryEnumerateKernels(bare, list[:2], l))
	if list[0] == 0 || list[1] == 0 || list[2] != 0 {
		t.Errorf("two of the kernels are %v", list)
	}
	r.must(r.LibraryEnumerateKernels(bare, list, l))
	for i, want := range []string{"count", "get", "put"} {
		if name, res := r.KernelGetName(bare, list[i]); name != want || res != ok {
			t.Errorf("kernel %d is %q, %v", i, name, res)
		}
	}
	if of, res := r.KernelGetLibrary(bare, k); list[2] != k || list[3] != 0 || of != l || res != ok {
		t.Errorf("the kernels are %v, and the library of %v is %v, %v", list, k, of, res)
	}

	const dynamic = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	r.want("attribute 16", invalid, second(r.KernelGetAttribute(bare, 16, k, 0)))
	r.want("attribute -1", invalid, second(r.KernelGetAttribute(bare, -1, k, 0)))
	r.want("device 99", driver.ResultInvalidDevice, second(r.KernelGetAttribute(bare, 0, k, 99)))
	r.want("device -1", driver.ResultInvalidDevice, second(r.KernelGetAttribute(bare, 0, k, -1)))
	r.want("set", ok, r.KernelSetAttribute(bare, dynamic, 40000, k, 0))
	r.want("too much", invalid, r.KernelSetAttribute(bare, dynamic, 1<<30, k, 0))
	r.want("-1", invalid, r.KernelSetAttribute(bare, dynamic, -1, k, 0))
	r.want("threads", invalid, r.KernelSetAttribute(bare, 0, 1, k, 0))
	r.want("carveout", ok, r.KernelSetAttribute(bare, driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50, k, 0))
	r.want("set on device 99", driver.ResultInvalidDevice, r.KernelSetAttribute(bare, dynamic, 1, k, 99))
	r.want("cache", ok, r.KernelSetCacheConfig(bare, k, 1, 0))
	r.want("cache 9", invalid, r.KernelSetCacheConfig(bare, k, 9, 0))

	f, res := r.KernelGetFunction(r.th, k)
	r.must(res)
	m, res := r.LibraryGetModule(r.th, l)
	r.must(res)
	if of, res := r.FuncGetModule(r.th, f); of != m || res != ok {
		t.Errorf("the function is of %v, not %v: %v", of, m, res)
	}
	if same, res := r.ModuleGetFunction(r.th, m, "put"); same != f || res != ok {
		t.Errorf("the module's function is %v, not %v: %v", same, f, res)
	}
	attribute := func(what string, want int32) {
		t.Helper()
		if n, res := r.FuncGetAttribute(r.th, dynamic, f); n != want || res != ok {
			t.Errorf("%s: %d, %v", what, n, res)
		}
	}
	attribute("the function's", 40000)
	r.must(r.FuncSetAttribute(r.th, f, dynamic, 20000))
	if n, res := r.KernelGetAttribute(r.th, dynamic, k, 0); n != 40000 || res != ok {
		t.Errorf("the kernel's: %d, %v", n, res)
	}
	r.must(r.KernelSetAttribute(r.th, dynamic, 30000, k, 0))
	attribute("the function's after the kernel's", 20000)
	if _, size, res := r.LibraryGetGlobal(r.th, l, "counter"); size != 4 || res != ok {
		t.Errorf("the variable has %d bytes, %v", size, res)
	}
	r.want("global", missing, third(r.LibraryGetGlobal(r.th, l, "absent")))
	r.want("a kernel as a global, as for an H200", invalid, third(r.LibraryGetGlobal(r.th, l, "put")))
	r.want("managed", missing, third(r.LibraryGetManaged(r.th, l, "counter")))
	r.want("unified function", invalid, second(r.LibraryGetUnifiedFunction(r.th, l, "put")))
	r.want("unload the module", driver.ResultNotPermitted, r.ModuleUnload(r.th, m))

	as := driver.Function(k)
	r.want("attribute of a kernel as a function", handle, second(r.FuncGetAttribute(r.th, 0, as)))
	r.want("name of a kernel as a function", handle, second(r.FuncGetName(r.th, as)))
	r.want("name of a function as a kernel", handle, second(r.KernelGetName(r.th, driver.Kernel(f))))
	r.want("kernel 0", handle, second(r.KernelGetFunction(r.th, 0)))
	r.want("name of 0", invalid, second(r.KernelGetName(r.th, 0)))
	r.want("library 0", handle, second(r.LibraryGetModule(r.th, 0)))
	r.want("unload 0", handle, r.LibraryUnload(r.th, 0))
	r.want("option", invalid, second(r.LibraryLoadData(r.th, []byte(libraryPTX), []uint32{999}, []uintptr{0}, nil, nil)))
	r.want("library option", invalid, second(r.LibraryLoadData(r.th, []byte(libraryPTX), nil, nil, []int32{9}, []uintptr{1})))
	r.want("no image", invalid, second(r.LibraryLoadData(r.th, nil, nil, nil, nil, nil)))
	if n, res := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.th, as, 32, 0); n != 32 || res != ok {
		t.Errorf("occupancy of a kernel as a function: %d, %v", n, res)
	}
	r.takeMisuses()
}

// TestLibraryContexts launches a kernel by its own handle in two contexts, which have a variable each.
func TestLibraryContexts(t *testing.T) {
	r := newLab(t)
	l := r.library(libraryPTX)
	k, res := r.LibraryGetKernel(r.th, l, "count")
	r.must(res)
	count := func(th *driver.Thread, want string) {
		t.Helper()
		p, res := r.MemAlloc(th, 4)
		r.must(res)
		args := driver.KernelParams{Ptrs: []unsafe.Pointer{unsafe.Pointer(&p)}, Sizes: []uint32{8}}
		r.must(r.LaunchKernel(th, driver.Function(k), 1, 1, 1, 1, 1, 1, 0, 0, args))
		got := make([]byte, 4)
		r.must(r.MemcpyDtoH(th, got, p))
		r.must(r.MemFree(th, p))
		if string(got) != want {
			t.Errorf("counted %q, not %q", got, want)
		}
	}
	other := new(driver.Thread)
	ctx, res := r.CtxCreate(other, nil, 0, 0)
	r.must(res)
	count(r.th, "\x07\x00\x00\x00")
	count(r.th, "\x08\x00\x00\x00")
	count(other, "\x07\x00\x00\x00")
	in1, res1 := r.KernelGetFunction(r.th, k)
	in2, res2 := r.KernelGetFunction(other, k)
	if in1 == in2 || res1 != ok || res2 != ok {
		t.Errorf("functions %v, %v and %v, %v", in1, res1, in2, res2)
	}
	r.must(r.CtxDestroy(other, ctx))
	count(r.th, "\x09\x00\x00\x00")
	r.must(r.LibraryUnload(r.th, l))
}

// TestManagedVariables has managed variables of a module, and of a library in two contexts.
func TestManagedVariables(t *testing.T) {
	r := newLab(t)
	image := []byte(".version 7.0\n.target sm_70\n.address_size 64\n" +
		".visible .global .attribute(.managed) .u32 total = 7;\n.visible .entry k() { ret; }\x00")
	managed := func(p driver.DevicePtr) bool {
		v, res := r.PointerGetAttribute(r.th, driver.CU_POINTER_ATTRIBUTE_IS_MANAGED, p)
		return res == ok && v[0] != 0
	}
	m, res := r.ModuleLoadData(r.th, image)
	r.must(res)
	p, size, res := r.ModuleGetGlobal(r.th, m, "total")
	if res != ok || size != 4 || !managed(p) {
		t.Errorf("the module's variable: %d bytes, %v", size, res)
	}
	r.want("freeing a variable", invalidValue, r.MemFree(r.th, p))
	r.must(r.ModuleUnload(r.th, m))
	if managed(p) {
		t.Error("the variable is there after its module")
	}

	l, res := r.LibraryLoadData(r.th, image, nil, nil, nil, nil)
	r.must(res)
	_, _, res = r.LibraryGetManaged(new(driver.Thread), l, "total")
	r.want("before a use, without a context", driver.ResultNotFound, res)
	_, _, res = r.LibraryGetManaged(r.th, l, "total")
	r.want("before a use", ok, res)
	_, res = r.LibraryGetModule(r.th, l)
	r.must(res)
	p, size, res = r.LibraryGetManaged(r.th, l, "total")
	if res != ok || size != 4 || !managed(p) {
		t.Errorf("the library's variable: %d bytes, %v", size, res)
	}
	second, res := r.CtxCreate(r.th, nil, 0, 0)
	r.must(res)
	if q, _, res := r.LibraryGetGlobal(r.th, l, "total"); q != p || res != ok {
		t.Errorf("in another context the variable is at %#x, want %#x (%v)", q, p, res)
	}
	r.must(r.CtxDestroy(r.th, second))
	r.must(r.CtxSetCurrent(r.th, r.ctx))
	if !managed(p) {
		t.Error("the variable went with the second context")
	}
	r.must(r.LibraryUnload(r.th, l))
	if managed(p) {
		t.Error("the variable is there after its library")
	}
}

// TestLibraryOfContexts uses a library in contexts that come and go. It keeps nothing of them.
func TestLibraryOfContexts(t *testing.T) {
	r := newLab(t)
	l := r.library(libraryPTX)
	object, _ := r.objects.find(uintptr(l))
	for range 5 {
		c, res := r.CtxCreate(r.th, nil, 0, 0)
		r.must(res)
		_, res = r.LibraryGetModule(r.th, l)
		r.must(res)
		if n := len(object.(*library).modules); n != 1 {
			t.Errorf("the library has modules of %d contexts", n)
		}
		r.must(r.CtxDestroy(r.th, c))
	}
}
