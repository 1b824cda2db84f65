package sim

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/purecu/purecu/driver"
)

// TestStreamKeepsNoModule launches a kernel, and unloads its module. The stream keeps its newest operation, which must
// not keep the module's text.
func TestStreamKeepsNoModule(t *testing.T) {
	r := newRig(t)
	s := r.stream(nonBlocking)
	kept := func() weak.Pointer[module] {
		const kernel = ".entry e(.param .u64 a, .param .u32 b) { .reg .b32 %r; mov.u32 %r, %tid.x; ret; }"
		m, res := r.tab.ModuleLoadData(r.in, []byte(header+kernel)) // an empty kernel would not be executed
		r.ok(res)
		f, res := r.tab.ModuleGetFunction(r.in, m, "e")
		r.ok(res)
		r.d.mu.Lock()
		state, res := find[module](r.d, "cuModuleUnload", moduleKind, uintptr(m))
		r.d.mu.Unlock()
		r.ok(res)
		r.ok(r.tab.LaunchKernel(driver.At{}, f, 1, 1, 1, 32, 1, 1, 0, s, params(uint64(1), uint32(2))))
		r.ok(r.tab.StreamSynchronize(driver.At{}, s))
		r.ok(r.tab.ModuleUnload(r.in, m))
		return weak.Make(state)
	}()
	for range 10 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if kept.Value() != nil {
		t.Error("the stream keeps a module that was unloaded")
	}
	runtime.KeepAlive(r)
}
