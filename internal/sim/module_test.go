package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/sim/code"
)

// TestModuleImages loads valid and invalid images.
func TestModuleImages(t *testing.T) {
	const (
		invalidImage = driver.ResultInvalidImage
		invalidPTX   = driver.ResultInvalidPTX
	)
	for _, tt := range []struct {
		name, image string
		want        driver.Result
		log         string // part of the log
	}{
		{"nothing", "", invalidImage, "neither"},
		{"a NUL", "\x00" + header, invalidImage, "neither"},
		{"garbage", "\xff\xfe\x01", invalidImage, "neither"},
		{"another text", "int main() {}", invalidImage, "neither"},
		{"a cubin", "\x7fELF\x02\x01\x01", driver.ResultNoBinaryForGPU, "load PTX"},
		{"a fatbin with nothing", fatbin("", 0), driver.ResultNoBinaryForGPU, "the fatbin has no PTX"},
		{"a fatbin with PTX", fatbin(header+".global .u32 x;", 1), ok, ""},
		{"a fatbin with machine code", fatbin("\x7fELF", 2), driver.ResultNoBinaryForGPU, "the fatbin has no PTX"},
		{"a fatbin that is too short", "\x50\xed\x55\xba\x01\x00", invalidImage, "no fatbin"},
		{"header only", header, ok, ""},
		{"with a NUL, and text after it", header + "\x00 {{{", ok, ""},
		{"comments", "// one\n/* two\n */" + header + "// three", ok, ""},
		{"several targets", ".version 7.0 .target sm_80, debug .address_size 64", ok, ""},
		{"a target with a letter", ".version 8.0 .target sm_90a", ok, ""},
		{"unknown directive", ".entyr oops", invalidImage, "PTX begins with .version"},
		{"unknown directive behind the header", header + ".entyr oops", invalidPTX, `line 4, column 1: fatal: ".entyr" begins no declaration`},
		{"no version", ".target sm_50 .visible .entry k() { ret; }", invalidImage, "neither"},
		{"a version after the target", ".target sm_50 " + header, invalidImage, "neither"},
		{"a comment alone", "// one", invalidImage, "neither"},
		{"an open comment", "/* " + header, invalidImage, "neither"},
		{"a version in a comment", "// .version 7.0\n.target sm_50", invalidImage, "neither"},
		{"half a directive", ".versio 7.0", invalidImage, "neither"},
		{"a longer directive", ".versionx 7.0", invalidPTX, "version"},
		{"a byte order mark", "\ufeff" + header, invalidImage, "neither"},
		{"a vertical tab", "\v" + header, invalidPTX, ""},
		{"a form feed", "\f" + header, ok, ""},
		{"a line for a preprocessor", "#line 1\n" + header, invalidImage, "neither"},
		{"a target is expected", ".version 7.0\n.visible .entry k() { ret; }", invalidPTX, `line 2, column 1: fatal: ".visible" stands where ".target" is expected`},
		{"no number", ".version seven", invalidPTX, "a version is expected"},
		{"no architecture", ".version 7.0 .target debug", invalidPTX, "the target is no architecture"},
		{"odd architecture", ".version 7.0 .target sm_", invalidPTX, "a target is expected"},
		{"newer than the device", ".version 8.6 .target sm_100", invalidPTX, "sm_90"},
		{"newer than the driver", ".version 9.1 .target sm_90", driver.ResultUnsupportedPTXVersion, "up to 9.0"},
		{"32 bits", ".version 7.0 .target sm_50 .address_size 32", invalidPTX, "64 is expected"},
		{"a comment without an end", header + "/* ", invalidPTX, "comment"},
		{"a string without an end", header + `.pragma "x`, invalidPTX, "string"},
		{"a body without an end", header + ".entry k() { ret; ", invalidPTX, `the text ends, and "}" is missing`},
		{"a body without a beginning", header + ".entry k() ret; }", invalidPTX, ""},
		{"one brace too many", header + ".entry k() { { ret; } } }", invalidPTX, `column 25: fatal: "}" begins no declaration`},
		{"nested braces", header + ".entry k() { { ret; } }", ok, ""},
		{"a body is missing", header + ".entry k()", invalidPTX, "a body is missing"},
		{"a prototype", header + ".entry k();", ok, ""},
		{"odd parameters", header + ".entry k(.param .what x) { ret; }", invalidPTX, `there is no type ".what"`},
		{"parameters without an end", header + ".entry k(.param .u64 x", invalidPTX, ""},
		{"threads", header + ".entry k() .maxntid 32, 2, 1 .minnctapersm 2 { ret; }", ok, ""},
		{"threads without a number", header + ".entry k() .maxntid many { ret; }", invalidPTX, `"many" stands where a number`},
		{"a function", header + ".visible .func (.param .b32 r) f(.param .b32 a) { ret; }", ok, ""},
		{"a prototype of a function", header + ".extern .func (.param .b32 r) printf(.param .b64 a, .param .b64 b);", ok, ""},
		{"a function without an end", header + ".func f() {", invalidPTX, `the text ends, and "}" is missing`},
		{"a function without a body", header + ".func f()", invalidPTX, "a body is missing"},
		{"debug information", header + ".file 1 \"a.cu\", 1, 2\n.section .debug_str { info: .b8 1 }\n.entry k() { .loc 1 2 3 ret; }", ok, ""},
		{"a section without braces", header + ".section .debug_str", invalidPTX, `"{" is missing`},
		{"a section without an end", header + ".section .debug_str {", invalidPTX, `the text ends, and "}" is missing`},
		{"shared memory", header + ".shared .align 4 .b8 s[16]; .extern .shared .b8 t[]; .pragma \"nounroll\";", ok, ""},
		{"shared memory without an end", header + ".shared .b8 s[16]", invalidPTX, `";" is missing`},
		{"a variable without a type", header + ".global x;", invalidPTX, "a type is expected"},
		{"a variable without a name", header + ".global .u32 ;", invalidPTX, "a name is expected"},
		{"a variable without an end", header + ".global .u32 x = 1", invalidPTX, `";" is missing`},
		{"a variable of an unknown type", header + ".global .u33 x;", invalidPTX, ".u33"},
		{"a variable of no length", header + ".global .u32 x[0];", invalidPTX, "length"},
		{"a variable of too much", header + ".global .u32 x[1099511627776];", invalidPTX, "length"},
		{"a variable of more than the device has", header + ".global .b8 x[500000000000];", driver.ResultOutOfMemory, ""},
		{"too many values", header + ".global .u32 x[1] = {1, 2};", invalidPTX, "more than it can hold"},
		{"values without an end", header + ".global .u32 x[2] = {1, 2", invalidPTX, ""},
		{"values without commas", header + ".global .u32 x[2] = {1 2};", invalidPTX, `"2" stands where "}" is expected`},
		{"the address of nothing", header + ".global .u64 x = generic(y);", invalidPTX, "y, whose address is a value of x, is not defined"},
		{"an address that does not fit", header + ".global .u32 x = y; .global .u32 y;", invalidPTX, "no room for an address"},
		{"a float as an integer", header + ".global .u32 x = 1.5;", invalidPTX, "line 4, column 18: fatal: a float"},
		{"two kernels", header + ".entry k() { ret; } .entry k() { ret; }", invalidPTX, "column 21: fatal: k is defined twice"},
		{"a variable and a function", header + ".global .u32 k; .func k() { ret; }", invalidPTX, "k is defined twice"},
		{"a declaration before and after", header + ".extern .global .u32 x; .global .u32 x; .extern .global .u32 x; .func f(); .func f() { ret; } .func f();", ok, ""},
		{"an unknown directive of a kernel", header + ".entry k() .what 1 { ret; }", invalidPTX, `".what" stands where a body is expected`},
		{"too large parameters", header + ".entry k(.param .b8 x[32765]) { ret; }", invalidPTX, "more than 32764 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newLab(t)
			m, log, res := r.ModuleLoadLog(r.th, []byte(tt.image), nil)
			r.want("cuModuleLoadDataEx", tt.want, res)
			if !strings.Contains(log.Error, tt.log) {
				t.Errorf("the log is %q, want %q in it", log.Error, tt.log)
			}
			if silent := res == ok || res == driver.ResultOutOfMemory; silent != (log.Error == "") {
				t.Errorf("the log is %q", log.Error)
			}
			if m != 0 {
				r.must(r.ModuleUnload(r.th, m))
			}
			if free, _, _ := r.MemGetInfo(r.th); free != mostFree {
				t.Errorf("%d bytes are left", mostFree-free)
			}
		})
	}
}

// fatbin returns a fatbin with an entry of a kind, or none.
func fatbin(content string, kind uint16) string {
	le := binary.LittleEndian
	b := le.AppendUint64(nil, 0x10_0001_ba55_ed50)
	if kind == 0 {
		return string(le.AppendUint64(b, 0))
	}
	b = le.AppendUint64(b, uint64(64+len(content)))
	entry := make([]byte, 64)
	le.PutUint16(entry, kind)
	le.PutUint32(entry[4:], 64)
	le.PutUint64(entry[8:], uint64(len(content)))
	le.PutUint32(entry[28:], 80)
	return string(b) + string(entry) + content
}

// TestModuleFatBinary loads a fatbin by the function for fatbins.
func TestModuleFatBinary(t *testing.T) {
	r := newLab(t)
	m, res := r.ModuleLoadFatBinary(r.th, []byte(fatbin(header+".visible .entry f() { ret; }", 1)))
	r.must(res)
	_, res = r.ModuleGetFunction(r.th, m, "f")
	r.must(res)
	r.must(r.ModuleUnload(r.th, m))
	_, res = r.ModuleLoadFatBinary(r.th, []byte(fatbin("", 0)))
	r.want("nothing in it", driver.ResultNoBinaryForGPU, res)
	_, res = r.ModuleLoadFatBinary(r.th, []byte("text"))
	r.want("no image", driver.ResultInvalidImage, res)
}

// TestVariables checks variables of modules.
func TestVariables(t *testing.T) {
	words := func(v ...uint32) (b []byte) {
		for _, v := range v {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}
	for text, want := range map[string][]byte{
		".global .align 4 .u32 v = 41;":                         words(41),
		".visible .global .align 4 .s32 v = -2;":                words(0xffff_fffe),
		".const .align 8 .u64 v = 0x100000002U;":                words(2, 1),
		".global .align 4 .u32 v;":                              words(0),
		".global .align 4 .u32 v[3] = {1, 2};":                  words(1, 2, 0),
		".global .align 4 .u32 v[2][2] = {{1, 2}, {3}};":        words(1, 2, 3, 0),
		".global .align 1 .b8 v[] = {104, 0x69, 041, 0};":       []byte("hi!\x00"),
		".global .align 4 .f32 v = 0f3F800000;":                 words(math.Float32bits(1)),
		".global .align 4 .f32 v[2] = {1.5, -0.25};":            words(math.Float32bits(1.5), math.Float32bits(-0.25)),
		".global .align 8 .f64 v = 0d3FF0000000000000;":         words(0, 0x3ff0_0000),
		".global .align 8 .f64 v = 2;":                          words(0, 0x4000_0000),
		".global .align 2 .u16 v = 0xffff;":                     {0xff, 0xff},
		".global .align 16 .v4 .u32 v = {1, 2, 3, 4};":          words(1, 2, 3, 4),
		".global .align 4 .u32 v[2][2] = {{1}, {2}};":           words(1, 0, 2, 0),
		".global .align 4 .f32 v[2] = {1, 0d3FF8000000000000};": words(math.Float32bits(1), math.Float32bits(1.5)),
		".weak .global .attribute(.managed) .u32 v = 0b11;":     words(3),
	} {
		t.Run(text, func(t *testing.T) {
			r := newLab(t)
			p, n, res := r.ModuleGetGlobal(r.th, r.load(header+text), "v")
			r.must(res)
			if diff := cmp.Diff(want, []byte(r.read(p, int(n)))); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInitialAddresses checks variables whose values are addresses.
func TestInitialAddresses(t *testing.T) {
	r := newLab(t)
	m := r.load(header + ".global .u64 v[4] = {x+4, generic(y), v-1, f}; .global .u32 x[2]; .const .u32 y; " +
		".global .b8 bytes[8] = {0xFF(x), 0xFF00(x), 0xFF0000(x), 0xFF000000(x), 0xFF00000000(x), 0xFF0000000000(x), 7}; " +
		".func f() { ret; } .func g() { ret; }")
	at := func(name string) uint64 {
		p, _, res := r.ModuleGetGlobal(r.th, m, name)
		r.must(res)
		return uint64(p)
	}
	got := []byte(r.read(driver.DevicePtr(at("v")), 32))
	words := make([]uint64, 4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(got[8*i:])
	}
	if diff := cmp.Diff([]uint64{at("x") + 4, vm.ConstWindow, at("v") - 1, 16}, words); diff != "" {
		t.Errorf("v (-want +got):\n%s", diff)
	}
	want := binary.LittleEndian.AppendUint64(nil, at("x"))
	want[6], want[7] = 7, 0
	if diff := cmp.Diff(want, []byte(r.read(driver.DevicePtr(at("bytes")), 8))); diff != "" {
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
}

// TestBlockSizes launches kernels whose text says how large blocks are.
func TestBlockSizes(t *testing.T) {
	r := newLab(t)
	m := r.load(header + ".entry most() .maxntid 8, 4 .minnctapersm 1 { ret; } .entry exact() .reqntid 8, 4 { ret; }")
	for _, tt := range []struct {
		kernel string
		x, y   uint32
		want   driver.Result
	}{
		{"most", 8, 4, ok}, {"most", 32, 1, ok}, {"most", 1, 1, ok}, {"most", 33, 1, driver.ResultInvalidValue},
		{"exact", 8, 4, ok}, {"exact", 1, 1, ok}, {"exact", 4, 8, driver.ResultInvalidValue}, {"exact", 8, 1, driver.ResultInvalidValue},
	} {
		f, res := r.ModuleGetFunction(r.th, m, tt.kernel)
		r.must(res)
		r.want(tt.kernel, tt.want, r.LaunchKernel(r.th, f, 1, 1, 1, tt.x, tt.y, 1, 0, 0, driver.KernelParams{}))
	}
}

// TestRequiredSize launches a kernel whose text says how large blocks are with blocks of one thread.
func TestRequiredSize(t *testing.T) {
	r := newLab(t)
	m := r.load(header + ".entry counts(.param .u64 p) .reqntid 8, 4 { .reg .b64 a; .reg .b32 n; ld.param.u64 a, [p]; " +
		"atom.global.add.u32 n, [a], 1; mov.u32 n, %ntid.y; st.global.u32 [a+4], n; ret; }")
	f, res := r.ModuleGetFunction(r.th, m, "counts")
	r.must(res)
	p := r.alloc("\x00\x00\x00\x00----")
	r.must(r.launchGrid(f, 3, 1, 1, 1, 0, p))
	if got := r.wordsAt(p, 2); got[0] != 3*32 || got[1] != 4 {
		t.Errorf("%d threads, %%ntid.y is %d", got[0], got[1])
	}
}

// TestModuleNames looks up existing and missing kernels and variables.
func TestModuleNames(t *testing.T) {
	r := newLab(t)
	m, res := r.ModuleLoadData(r.th, []byte(header+".global .u32 v; .extern .global .u32 elsewhere; .entry k() { ret; } .func f() { ret; }"))
	r.must(res)
	for name, want := range map[string][2]driver.Result{
		"v":         {driver.ResultNotFound, ok},
		"k":         {ok, driver.ResultInvalidValue}, // as for an H200
		"f":         {driver.ResultNotFound, driver.ResultNotFound},
		"elsewhere": {driver.ResultNotFound, driver.ResultNotFound},
		"":          {driver.ResultInvalidValue, driver.ResultInvalidValue},
	} {
		_, function := r.ModuleGetFunction(r.th, m, name)
		_, _, global := r.ModuleGetGlobal(r.th, m, name)
		if diff := cmp.Diff(want, [2]driver.Result{function, global}); diff != "" {
			t.Errorf("function and variable %q (-want +got):\n%s", name, diff)
		}
	}
	f, res := r.ModuleGetFunction(r.th, m, "k")
	r.must(res)
	if again, _ := r.ModuleGetFunction(r.th, m, "k"); again != f {
		t.Errorf("the function is %#x, and then %#x", f, again)
	}
	name, res := r.FuncGetName(r.th, f)
	if r.must(res); name != "k" {
		t.Errorf("its name is %q", name)
	}
	_, res = r.ModuleGetFunction(r.th, 0, "k")
	r.want("of no module", driver.ResultInvalidHandle, res)
	r.must(r.ModuleUnload(r.th, m))
	for what, call := range map[string]func() driver.Result{
		"function": func() driver.Result { _, res := r.FuncGetName(r.th, f); return res },
		"module":   func() driver.Result { _, res := r.ModuleGetFunction(r.th, m, "k"); return res },
		"unload":   func() driver.Result { return r.ModuleUnload(r.th, m) },
		"launch":   func() driver.Result { return r.launchOn(0, f, 1, driver.KernelParams{}) },
	} {
		r.want(what+" after the end", driver.ResultInvalidHandle, call())
	}
	if n := r.takeMisuses(); n != 4 {
		t.Errorf("%d were noted", n)
	}
}

// TestParams checks the offsets and sizes of kernels' parameters.
func TestParams(t *testing.T) {
	for text, want := range map[string][][2]uint64{
		"": nil,
		".param .u32 a, .param .u64 b, .param .u8 c":                         {{0, 4}, {8, 8}, {16, 1}},
		".param .align 8 .b8 a[12], .param .f32 b":                           {{0, 12}, {12, 4}},
		".param .u8 a, .param .align 4 .b8 b[16], .param .b16 c[3]":          {{0, 1}, {4, 16}, {20, 6}},
		".param .u32 a, .param .u64 .ptr .global .align 64 b, .param .f64 c": {{0, 4}, {8, 8}, {16, 8}},
	} {
		r := newLab(t)
		f := r.kernel("k", text)
		var got [][2]uint64
		for i := uint64(0); ; i++ {
			offset, size, res := r.FuncGetParamInfo(r.th, f, i)
			if res == driver.ResultInvalidValue {
				break
			}
			r.must(res)
			got = append(got, [2]uint64{offset, size})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestAttributes reads and sets the attributes of a kernel.
func TestAttributes(t *testing.T) {
	r := newLab(t)
	m := r.load(header + ".const .align 2 .b8 c[6]; .entry k() .maxntid 64, 4, 1 " +
		"{ .shared .align 4 .b8 s[1000]; .shared .f32 t[6]; .local .align 16 .b8 l[17]; ret; } .global .u64 g; .const .u64 d[2];")
	f, res := r.ModuleGetFunction(r.th, m, "k")
	r.must(res)
	for attribute, want := range map[int32]int32{
		driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:            256,
		driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:                1024,
		driver.CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:                 24,
		driver.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:                 17,
		driver.CU_FUNC_ATTRIBUTE_NUM_REGS:                         16,
		driver.CU_FUNC_ATTRIBUTE_PTX_VERSION:                      70,
		driver.CU_FUNC_ATTRIBUTE_BINARY_VERSION:                   90,
		driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:    47 << 10,
		driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: -1,
	} {
		if got, res := r.FuncGetAttribute(r.th, attribute, f); res != ok || got != want {
			t.Errorf("attribute %d is %d, %v; want %d", attribute, got, res, want)
		}
	}
	for _, attribute := range []int32{-1, driver.CU_FUNC_ATTRIBUTE_MAX} {
		_, res := r.FuncGetAttribute(r.th, attribute, f)
		r.want("unknown attribute", driver.ResultInvalidValue, res)
		r.want("set an unknown attribute", driver.ResultInvalidValue, r.FuncSetAttribute(r.th, f, attribute, 0))
	}
	for _, tt := range []struct {
		attribute, value int32
		want             driver.Result
	}{
		{driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 226 << 10, ok},
		{driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 226<<10 + 1, driver.ResultInvalidValue},
		{driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1, driver.ResultInvalidValue},
		{driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100, ok},
		{driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101, driver.ResultInvalidValue},
		{driver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, ok},
		{driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 8, ok},
		{driver.CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 3, driver.ResultInvalidValue},
		{driver.CU_FUNC_ATTRIBUTE_NUM_REGS, 8, driver.ResultInvalidValue},
	} {
		before, res := r.FuncGetAttribute(r.th, tt.attribute, f)
		r.must(res)
		r.want("set", tt.want, r.FuncSetAttribute(r.th, f, tt.attribute, tt.value))
		want := before
		if tt.want == ok {
			want = tt.value
		}
		if got, _ := r.FuncGetAttribute(r.th, tt.attribute, f); got != want {
			t.Errorf("attribute %d, set to %d, is %d", tt.attribute, tt.value, got)
		}
	}
}

// TestOccupancy checks the occupancy functions.
func TestOccupancy(t *testing.T) {
	r := newLab(t)
	f := r.kernel("k", "")
	if n, res := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.th, f, 32, 48<<10+1); n != 0 || res != ok {
		t.Errorf("with more shared memory than the kernel may use: %d, %v", n, res)
	}
	r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227<<10))
	for _, tt := range []struct {
		threads int32
		shared  uint64
		want    int32
		res     driver.Result
	}{
		{1, 0, 32, ok}, {64, 0, 32, ok}, {65, 0, 21, ok}, {256, 0, 8, ok}, {1024, 0, 2, ok}, {1025, 0, 0, ok},
		{32, 75 << 10, 3, ok}, {32, 227 << 10, 1, ok}, {32, 227<<10 + 1, 0, ok}, {32, 1<<64 - 1, 32, ok}, {32, 1 << 31, 0, ok},
		{0, 0, 0, driver.ResultInvalidValue}, {-1, 0, 0, driver.ResultInvalidValue},
	} {
		got, res := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.th, f, tt.threads, tt.shared)
		if got != tt.want || res != tt.res {
			t.Errorf("%d threads, %d bytes: %d, %v; want %d, %v", tt.threads, tt.shared, got, res, tt.want, tt.res)
		}
	}
	for _, tt := range []struct {
		shared      uint64
		limit       int32
		grid, block int32
		res         driver.Result
	}{
		{0, 0, 264, 1024, ok}, {0, 2000, 264, 1024, ok}, {0, 256, 1056, 256, ok}, {0, 1000, 528, 512, ok}, {100 << 10, 0, 264, 1024, ok},
		{1 << 20, 0, 0, 0, ok}, {0, -1, 0, 0, driver.ResultInvalidValue},
	} {
		grid, block, res := r.OccupancyMaxPotentialBlockSize(r.th, f, 0, tt.shared, tt.limit)
		if grid != tt.grid || block != tt.block || res != tt.res {
			t.Errorf("%d bytes, up to %d threads: %d blocks of %d, %v; want %d of %d, %v",
				tt.shared, tt.limit, grid, block, res, tt.grid, tt.block, tt.res)
		}
	}
}

// TestLogs reads the compiler's logs as a C program does.
func TestLogs(t *testing.T) {
	r := newLab(t)
	for _, tt := range []struct {
		image, info, error string
		size               int
	}{
		{header + ".entry spin(.param .u64 n) { ret; } .entry m() { .shared .u32 s; }", "cusim: kernel m: 16 registers, 4 bytes of shared memory; it does nothing\n" +
			"cusim: kernel spin: 16 registers, 0 bytes of shared memory; a function in Go takes the place of its PTX: see WithKernel", "", 300},
		{".version x", "", `cusim: line 1, column 10: fatal: "x" stands where a version is expected`, 100},
		{".version x", "", "cusim: li", 10},
	} {
		info, problem := make([]byte, 300), make([]byte, 300)
		options := []uint32{driver.CU_JIT_LOG_VERBOSE, driver.CU_JIT_INFO_LOG_BUFFER, driver.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
			driver.CU_JIT_ERROR_LOG_BUFFER, driver.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES}
		values := []uintptr{1, uintptr(sliceAddress(info)), uintptr(tt.size), uintptr(sliceAddress(problem)), uintptr(tt.size)}
		m, res := r.ModuleLoadDataEx(r.th, []byte(tt.image), options, values)
		if (res == ok) != (tt.error == "") {
			t.Errorf("%q: %v", tt.image, res)
		}
		got := []string{string(info[:values[2]]), string(problem[:values[4]])}
		if diff := cmp.Diff([]string{tt.info + "\x00", tt.error + "\x00"}, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.image, diff)
		}
		if m != 0 {
			r.must(r.ModuleUnload(r.th, m))
		}
	}
	_, res := r.ModuleLoadDataEx(r.th, []byte(header), []uint32{1}, nil)
	r.want("an option without a value", driver.ResultInvalidValue, res)
	_, res = r.ModuleLoadDataEx(r.th, []byte(header), []uint32{driver.CU_JIT_NUM_OPTIONS}, []uintptr{0})
	r.want("an unknown option", driver.ResultInvalidValue, res)
}

// TestModuleLarge loads a text with large variables.
func TestModuleLarge(t *testing.T) {
	r := newLab(t)
	for text, want := range map[string]driver.Result{
		".global .b8 a[107374182400];":                                               ok,
		".global .b8 a[107374182400] = {1};":                                         driver.ResultInvalidPTX,
		".global .b8 a[18446744073709551615] = {1};":                                 driver.ResultInvalidPTX,
		".const .b8 a[65537];":                                                       driver.ResultInvalidPTX,
		".const .b8 a[65536];":                                                       ok,
		".global .b8 a[1048576] = {1};":                                              ok,
		".global .b8 a[1000000000] = {1}; .global .b8 b[1000000000] = {1};":          driver.ResultInvalidPTX,
		".global .b8 a[1048576] = {1}; .global .b8 b[107374182400];":                 ok,
		".const .b32 a[4] = {1, 2, 3, 4}; .global .align 8 .b64 c[900000000] = {5};": driver.ResultInvalidPTX,
	} {
		m, log, res := r.ModuleLoadLog(r.th, []byte(header+text+" .entry k() { ret; }"), nil)
		if res != want {
			t.Errorf("%s: %v %s, want %v", text, res, log.Error, want)
		}
		if res == driver.ResultInvalidPTX && !strings.Contains(log.Error, "line 4") {
			t.Errorf("%s: the log is %q", text, log.Error)
		}
		if res == ok {
			r.must(r.ModuleUnload(r.th, m))
		}
	}
}

// TestModuleLoadBeside makes calls while a large text is compiled. One of them begins and ends before the text is
// compiled.
func TestModuleLoadBeside(t *testing.T) {
	r := newLab(t)
	var text strings.Builder
	text.WriteString(header + ".entry k() { .reg .b32 %r<10>; mov.u32 %r0, 1;\n")
	for i := range 60_000 {
		fmt.Fprintf(&text, "add.u32 %%r%d, %%r%d, %d;\n", (i+1)%10, i%10, i)
	}
	text.WriteString("ret; }")
	th := new(driver.Thread)
	r.must(r.CtxSetCurrent(th, r.ctx))
	const loads = 20
	for range loads { // a busy machine may let no other thread run during one
		done := make(chan driver.Result)
		go func() {
			m, res := r.ModuleLoadData(r.th, []byte(text.String()))
			if res == ok {
				res = r.ModuleUnload(r.th, m)
			}
			done <- res
		}()
		beside := false
		for loading := true; loading; {
			select {
			case res := <-done:
				r.must(res)
				loading = false
			default:
				before := compiling()
				r.want("a query", ok, r.StreamQuery(th, 0))
				beside = beside || before && compiling()
				time.Sleep(time.Millisecond)
			}
		}
		if beside {
			return
		}
	}
	if runtime.GOOS != "windows" { // Wine may let no other thread run meanwhile
		t.Errorf("no call ended while a text was compiled, in %d loads", loads)
	}
}

// compiling reports whether a goroutine compiles a text.
func compiling() bool {
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("ptx/compile.Parse("))
}

// TestModuleFunctions lists the functions of a module, and loads one from a file. The results are those of the
// documentation.
func TestModuleFunctions(t *testing.T) {
	r := newLab(t)
	const text = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry b() { ret; }\n" +
		".visible .entry a() { ret; }\n"
	path := filepath.Join(t.TempDir(), "two.ptx")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, res := r.ModuleLoad(r.th, path)
	r.must(res)
	defer r.ModuleUnload(r.th, m)
	n, res := r.ModuleGetFunctionCount(r.th, m)
	r.must(res)
	list := make([]driver.Function, 3)
	r.must(r.ModuleEnumerateFunctions(r.th, list, m))
	var names []string
	for _, f := range list[:n] {
		name, res := r.FuncGetName(r.th, f)
		r.must(res)
		names = append(names, name)
	}
	if want := []string{"a", "b"}; !slices.Equal(names, want) || list[2] != 0 {
		t.Errorf("%d functions: %v, want %v; behind them %#x", n, names, want, list[2])
	}
	first, res := r.ModuleGetFunction(r.th, m, "a")
	if res != ok || first != list[0] {
		t.Errorf("cuModuleGetFunction: %v, %#x, want %#x", res, first, list[0])
	}
	list = make([]driver.Function, 1)
	r.must(r.ModuleEnumerateFunctions(r.th, list, m))
	if list[0] != first {
		t.Errorf("the first function is %#x", list[0])
	}
	if mode, res := r.ModuleGetLoadingMode(r.th); res != ok || mode != driver.CU_MODULE_LAZY_LOADING {
		t.Errorf("the loading mode is %d, %v", mode, res)
	}
	_, res = r.ModuleLoad(r.th, path+".absent")
	r.want("no file", driver.ResultFileNotFound, res)
	_, res = r.ModuleGetFunctionCount(r.th, 0)
	r.want("no module", driver.ResultInvalidHandle, res)
	r.want("no module", driver.ResultInvalidHandle, r.ModuleEnumerateFunctions(r.th, list, 0))
	for flags, want := range []driver.Result{ok, ok, driver.ResultInvalidValue} {
		blocks, res := r.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(r.th, first, 128, 0, uint32(flags))
		r.want("occupancy", want, res)
		if plain, _ := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.th, first, 128, 0); res == ok && blocks != plain {
			t.Errorf("%d blocks with flags %d, %d without", blocks, flags, plain)
		}
	}
	r.takeMisuses()
}

// TestNoRoom loads PTX while the process may have too little memory to compile it.
func TestNoRoom(t *testing.T) {
	most := uint64(code.MostEach * 1000)
	r := newLab(t, Room(func(n uint64) bool { return n <= most }))
	small := header + ".entry k2() { ret; }"
	r.load(small)
	large := []byte(small + strings.Repeat("\n", 1000) + "\x00")
	if _, log, res := r.ModuleLoadLog(r.th, large, nil); res != driver.ResultOutOfMemory ||
		!strings.Contains(log.Error, "ulimit -v") {
		t.Errorf("%v, %q", res, log.Error)
	}
	if _, res := r.LibraryLoadData(r.th, large, nil, nil, nil, nil); res != driver.ResultOutOfMemory {
		t.Errorf("a library: %v", res)
	}
	most *= 100
	m, _, res := r.ModuleLoadLog(r.th, large, nil)
	r.must(res)
	r.must(r.ModuleUnload(r.th, m))
}
