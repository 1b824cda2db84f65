package sim

import (
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// TestStale reads and writes memory of the host after it was freed.
func TestStale(t *testing.T) {
	r := newLab(t)
	kept, p := r.pinned("some text")
	r.must(r.MemFreeHost(r.th, p))
	if m := r.Misuses(); len(m) != 0 {
		t.Errorf("before the write: %v", m)
	}
	if string(kept) == "some text" {
		t.Error("freed memory has its content")
	}
	kept[5] = 'x'
	m := r.Misuses()
	if len(m) != 1 || !strings.Contains(m[0].What, "written to byte 5 of pinned or managed memory after it was freed") ||
		!strings.Contains(m[0].Destroyed, "TestStale") {
		t.Errorf("after the write: %v", m)
	}
	if m := r.Misuses(); len(m) != 1 {
		t.Errorf("one write is reported again: %v", m)
	}
	r.takeMisuses()
}

// TestStaleNames writes memory of the host after several functions have freed it. The misuse names the function.
func TestStaleNames(t *testing.T) {
	r := newLab(t)
	managed := func() driver.DevicePtr {
		p, res := r.MemAllocManaged(r.th, 16, driver.CU_MEM_ATTACH_GLOBAL)
		r.must(res)
		return p
	}
	variable := func() (driver.Module, driver.DevicePtr) {
		m, log, res := r.ModuleLoadLog(r.th, []byte(header+".visible .global .attribute(.managed) .align 8 .b8 v[16];"), nil)
		if res != ok {
			t.Fatal(res, log.Error)
		}
		p, _, res := r.ModuleGetGlobal(r.th, m, "v")
		r.must(res)
		return m, p
	}
	for want, free := range map[string]func() driver.DevicePtr{
		"cuMemFree": func() driver.DevicePtr {
			p := managed()
			r.must(r.MemFree(r.th, p))
			return p
		},
		"cuMemFreeHost": func() driver.DevicePtr {
			_, p := r.pinned("some text")
			r.must(r.MemFreeHost(r.th, p))
			return driver.DevicePtr(p)
		},
		"cuModuleUnload": func() driver.DevicePtr {
			m, p := variable()
			r.must(r.ModuleUnload(r.th, m))
			return p
		},
		"cuCtxDestroy": func() driver.DevicePtr {
			c, res := r.CtxCreate(r.th, nil, 0, 0)
			r.must(res)
			p := managed()
			r.must(r.CtxDestroy(r.th, c))
			r.must(r.CtxSetCurrent(r.th, r.ctx))
			return p
		},
	} {
		foreignBytes(driver.HostPtr(free()), 1)[0] = 'x'
		if m := r.Misuses(); len(m) != 1 || m[0].Op != want {
			t.Errorf("%s: %v", want, m)
		}
		r.takeMisuses()
	}
}

// TestStaleBounded frees so much memory that the first of it is unmapped, and is looked at before.
func TestStaleBounded(t *testing.T) {
	r := newLab(t)
	kept, p := r.pinned("some text")
	r.must(r.MemFreeHost(r.th, p))
	kept[0] = 'x'
	free := func(size uint64, n int) {
		for range n {
			p, res := r.MemHostAlloc(r.th, size, 0)
			r.must(res)
			r.must(r.MemFreeHost(r.th, p))
		}
	}
	free(mem.MostStale, 3*mem.MostStaleAll/mem.MostStale)
	free(64, 3*mem.MostStaleAll/mem.LeastStale)
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("%d misuses", n)
	}
}
