package sim

import (
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestOccupancyOfCaches sets the configuration of the cache of a context, of a kernel of a library, and of a function.
// Source: H200, driver 580, 2026-11-28.
func TestOccupancyOfCaches(t *testing.T) {
	const none, l1, shared = driver.CU_FUNC_CACHE_PREFER_NONE, driver.CU_FUNC_CACHE_PREFER_L1,
		driver.CU_FUNC_CACHE_PREFER_SHARED
	r := newLab(t)
	const text = header + ".entry k() { ret; }"
	is := func(what string, f driver.Function, want int32) {
		t.Helper()
		if n, res := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.th, f, 32, 48<<10); n != want || res != ok {
			t.Errorf("%s: %d blocks, %v; want %d", what, n, res, want)
		}
	}
	load := func() driver.Function {
		f, res := r.ModuleGetFunction(r.th, r.load(text), "k")
		r.must(res)
		return f
	}
	before := load()
	r.must(r.CtxSetCacheConfig(r.th, l1))
	is("loaded before", before, 1)
	f := load()
	is("loaded afterwards", f, 1)
	r.must(r.FuncSetCacheConfig(r.th, f, none))
	is("without an own configuration", f, 1)
	r.must(r.FuncSetCacheConfig(r.th, f, shared))
	is("with an own configuration", f, 4)
	r.must(r.CtxSetCacheConfig(r.th, none))

	for _, early := range []bool{false, true} {
		l := r.library(text)
		k, res := r.LibraryGetKernel(r.th, l, "k")
		r.must(res)
		if early { // the kernel has a function in this context
			f, res := r.KernelGetFunction(r.th, k)
			r.must(res)
			is("before", f, 4)
		}
		r.must(r.KernelSetCacheConfig(r.th, k, l1, 0))
		is("the kernel", driver.Function(k), 1)
		f, res := r.KernelGetFunction(r.th, k)
		r.must(res)
		is("its function", f, 1)
		r.must(r.LibraryUnload(r.th, l))
	}
	is("another kernel", load(), 4)
}
