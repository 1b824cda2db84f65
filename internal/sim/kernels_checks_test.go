package sim

import (
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestCheckMemory writes 64 bytes of memory in many ways, or only some of them, and lets a kernel read them.
func TestCheckMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		write func(r *lab, p driver.DevicePtr)
		want  string // a part of the report, or "" for none
	}{
		"nothing": {func(*lab, driver.DevicePtr) {}, "ld.global.u64 reads 8 bytes at"},
		"copy":    {func(r *lab, p driver.DevicePtr) { r.must(r.MemcpyHtoD(r.th, p, make([]byte, 64))) }, ""},
		"short copy": {func(r *lab, p driver.DevicePtr) { r.must(r.MemcpyHtoD(r.th, p, make([]byte, 63))) },
			"thread (7, 0, 0) of block (0, 0, 0), at line 5 of the PTX, ld.global.u64 reads 8 bytes at"},
		"copy behind the first byte": {func(r *lab, p driver.DevicePtr) { r.must(r.MemcpyHtoD(r.th, p+1, make([]byte, 63))) },
			"thread (0, 0, 0)"},
		"asynchronous copy": {func(r *lab, p driver.DevicePtr) {
			_, from := r.pinned(strings.Repeat("x", 64))
			r.must(r.MemcpyHtoDAsync(r.th, p, driver.HostPtr(from), 64, 0))
		}, ""},
		"memset":       {func(r *lab, p driver.DevicePtr) { r.must(r.MemsetD8(r.th, p, 0, 64)) }, ""},
		"short memset": {func(r *lab, p driver.DevicePtr) { r.must(r.MemsetD32(r.th, p, 1, 15)) }, "from byte 4 of the access"},
		"rows": {func(r *lab, p driver.DevicePtr) {
			r.must(r.MemsetD2D8(r.th, p, 16, 0, 8, 4))
			r.must(r.MemsetD2D8Async(r.th, p+8, 16, 5, 8, 4, 0))
		}, ""},
		"too short rows": {func(r *lab, p driver.DevicePtr) { r.must(r.MemsetD2D8(r.th, p, 16, 5, 15, 4)) }, "thread (1, 0, 0)"},
		"box": {func(r *lab, p driver.DevicePtr) {
			from := r.alloc(strings.Repeat("x", 64))
			r.must(r.Memcpy2DAsync(r.th, driver.Memcpy2D{SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: from, SrcPitch: 16,
				DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: p, DstPitch: 16, WidthInBytes: 16, Height: 4}, 0))
		}, ""},
		"copy of memory that is not written": {func(r *lab, p driver.DevicePtr) {
			from, res := r.MemAlloc(r.th, 64)
			r.must(res)
			r.must(r.MemcpyHtoD(r.th, from, make([]byte, 40)))
			r.must(r.MemcpyDtoD(r.th, p, from, 64))
			r.MemFree(r.th, from)
		}, "thread (5, 0, 0)"},
		"word": {func(r *lab, p driver.DevicePtr) {
			r.must(r.MemcpyHtoD(r.th, p, make([]byte, 56)))
			r.must(r.StreamWriteValue64(r.th, 0, p+56, 5, 0))
		}, ""},
		"kernel in Go": {func(r *lab, p driver.DevicePtr) {
			f := r.kernel("fill", ".param .u64 dst, .param .u32 value, .param .u32 n")
			r.must(r.launchOn(0, f, 16, params(p, uint32(7), uint32(16))))
		}, ""},
		"kernel": {func(r *lab, p driver.DevicePtr) {
			m := r.load(header + ".entry w(.param .u64 p) { .reg .b64 a, b; .reg .b32 t; ld.param.u64 a, [p]; mov.u32 t, %tid.x; " +
				"mul.wide.u32 b, t, 16; add.u64 a, a, b; st.global.v2.u64 [a], {a, a}; ret; }")
			f, res := r.ModuleGetFunction(r.th, m, "w")
			r.must(res)
			r.must(r.launchGrid(f, 1, 1, 4, 1, 0, p))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var found []string
			var r *lab
			r = newLab(t, CheckKernels(CheckMemory, func(text string) {
				r.Misuses() // it may call the driver
				found = append(found, text)
			}))
			p, res := r.MemAlloc(r.th, 64)
			r.must(res)
			tt.write(r, p)
			m := r.load(header + ".entry reads(.param .u64 p) { .reg .b64 a, b; .reg .b32 t; ld.param.u64 a, [p]; mov.u32 t, %tid.x;\n" +
				"mad.wide.u32 a, t, 8, a; ld.global.u64 b, [a]; ret; }")
			f, res := r.ModuleGetFunction(r.th, m, "reads")
			r.must(res)
			r.must(r.launchGrid(f, 1, 1, 8, 1, 0, p))
			if (len(found) > 0) != (tt.want != "") || tt.want != "" && !strings.Contains(found[0], tt.want) {
				t.Errorf("found %q, want %q", found, tt.want)
			}
			if n := r.takeMisuses(); n != len(found) {
				t.Errorf("%d misuses, %q", n, found)
			}
			r.MemFree(r.th, p)
		})
	}
}

// TestParseChecks parses lists of checks.
func TestParseChecks(t *testing.T) {
	for s, want := range map[string]Checks{"all": CheckAll, "memory": CheckMemory, "races, barriers": CheckRaces | CheckBarriers,
		"": 0, "memory,": 0, "speed": 0} {
		if got, err := ParseChecks(s); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
}
