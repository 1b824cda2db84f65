package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// moduleRoot is the root of the module that the generated files belong to.
const moduleRoot = "../.."

// TestCommitted checks that the committed manifest and calls produce the committed files.
func TestCommitted(t *testing.T) {
	for _, dir := range []string{"driver", "cu", "cusim/libcuda"} {
		if _, err := os.Stat(filepath.Join(moduleRoot, dir)); err != nil {
			t.Skipf("the library is not beside the tools: %v", err)
		}
	}
	m := committedManifest(t)
	files, err := emit(m, readSource(t, "calls.tsv"), committedName)
	if err != nil {
		t.Fatal(err)
	}
	library, err := emitLibrary(m, readSource(t, "calls.tsv"), readSource(t, "libcuda.tsv"), committedName,
		implementedHere(t))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(files, library)
	for name, data := range files {
		have, err := os.ReadFile(filepath.Join(moduleRoot, filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
			continue
		}
		if line, w, g := firstDifference(string(have), string(data)); line > 0 {
			t.Errorf("%s:%d is\n\t%s\nand the generator writes\n\t%s\n(run go generate)", name, line, w, g)
		}
	}
}

// TestFacts checks facts of the committed manifest that were seen on real drivers, and that a
// faulty generator would get wrong.
func TestFacts(t *testing.T) {
	m := committedManifest(t)
	if m.version != 13000 {
		t.Errorf("version is %d", m.version)
	}
	rows := map[string]funcFact{}
	for _, f := range m.funcs {
		rows[f.export] = f
	}
	for _, want := range []funcFact{
		{export: "cuCtxCreate_v3", ask: "cuCtxCreate", version: 11040, base: "cuCtxCreate", class: "setup"},
		{export: "cuCtxCreate_v4", ask: "cuCtxCreate", version: 12050, base: "cuCtxCreate", class: "setup", current: true},
		{export: "cuCtxGetDevice", ask: "cuCtxGetDevice", version: 2000, base: "cuCtxGetDevice", class: "hot", current: true},
		{export: "cuCtxGetDevice_v2", ask: "cuCtxGetDevice", version: 13000, base: "cuCtxGetDevice_v2", class: "hot", current: true},
		{export: "cuEventElapsedTime", ask: "cuEventElapsedTime", version: 2000, base: "cuEventElapsedTime", class: "hot"},
		{export: "cuEventElapsedTime_v2", ask: "cuEventElapsedTime", version: 12080, base: "cuEventElapsedTime", class: "hot", current: true},
		{export: "cuEventRecord", ask: "cuEventRecord", version: 2000, base: "cuEventRecord", class: "hot", current: true},
		{export: "cuEventRecord_ptsz", ask: "cuEventRecord", version: 7000, perThread: true, base: "cuEventRecord", class: "hot", current: true},
		{export: "cuGetProcAddress_v2", ask: "cuGetProcAddress", version: 12000, base: "cuGetProcAddress", class: "setup", current: true, dlsym: true},
		{export: "cuGraphInstantiate_v2", ask: "cuGraphInstantiate", version: 11000, base: "cuGraphInstantiate", class: "blocking"},
		{export: "cuGraphInstantiateWithFlags", ask: "cuGraphInstantiateWithFlags", version: 11040, base: "cuGraphInstantiate", class: "blocking", current: true},
		{export: "cuMemcpyHtoD_v2_ptds", ask: "cuMemcpyHtoD", version: 7000, perThread: true, base: "cuMemcpyHtoD", class: "blocking", current: true},
		{export: "cuMemcpyBatchAsync_v2", ask: "cuMemcpyBatchAsync", version: 13000, base: "cuMemcpyBatchAsync",
			class: "blocking", current: true},
		{export: "cuStreamGetCaptureInfo_v2", ask: "cuStreamGetCaptureInfo", version: 11030, base: "cuStreamGetCaptureInfo", class: "hot"},
		{export: "cuStreamGetCtx_v2_ptsz", ask: "cuStreamGetCtx", version: 12050, perThread: true, base: "cuStreamGetCtx_v2", class: "hot", current: true},
	} {
		got := rows[want.export]
		want.ret, want.params, got.params = "CUresult", nil, nil
		if got.export != want.export || got.ask != want.ask || got.version != want.version ||
			got.perThread != want.perThread ||
			got.base != want.base || got.class != want.class || got.current != want.current || got.dlsym != want.dlsym || got.ret != want.ret {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	if p := rows["cuIpcOpenEventHandle"].params; len(p) != 2 || p[1].size != 64 {
		t.Errorf("cuIpcOpenEventHandle has %+v", p)
	}
	var sticky []string
	for _, r := range m.results {
		if r.sticky {
			sticky = append(sticky, strings.TrimPrefix(r.name, "CUDA_ERROR_"))
		}
	}
	if got, want := strings.Join(sticky,
		" "), "CONTAINED ILLEGAL_ADDRESS LAUNCH_TIMEOUT ASSERT HARDWARE_STACK_ERROR ILLEGAL_INSTRUCTION "+
		"MISALIGNED_ADDRESS INVALID_ADDRESS_SPACE INVALID_PC LAUNCH_FAILED TENSOR_MEMORY_LEAK EXTERNAL_DEVICE"; got != want {
		t.Errorf("sticky are %s", got)
	}
}

// TestMeasuredClasses checks classes that the measurement on a GPU decides. The generator refuses rules
// that contradict it.
func TestMeasuredClasses(t *testing.T) {
	classes := map[string]string{}
	for _, f := range committedManifest(t).funcs {
		classes[f.export] = f.class
	}
	for export, want := range map[string]string{
		"cuMemFree_v2":              "blocking", // it waited
		"cuModuleLoadData":          "blocking",
		"cuMemPrefetchAsync_v2":     "blocking", // it waited at the 57th
		"cuGraphAddKernelNode_v2":   "hot",      // it returned
		"cuMemPoolDestroy":          "setup",    // it returned, after up to 71 ms
		"cuStreamGetCaptureInfo_v3": "hot",
		"cuEventRecord_ptsz":        "hot",      // it waited for room in a full stream
		"cuMemcpyDtoD_v2":           "blocking", // it returned, but not everything was measured
		"cuLinkCreate_v2":           "hot",      // it returned
		"cuGraphNodeGetToolsId":     "blocking", // not measured
		"cuInit":                    "setup",
	} {
		if classes[export] != want {
			t.Errorf("%s is of class %q, want %s", export, classes[export], want)
		}
	}
}

// TestFrames asks the compiler where variables are. The frames and results of calls that are made often stay on the
// stack. Everything whose address a rare call passes as a number has to be on the heap.
func TestFrames(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(moduleRoot, "driver/zcalls.go"))
	if err != nil {
		t.Skipf("package driver is not here: %v", err)
	}
	method, passed := "", regexp.MustCompile(`uintptr\(unsafe\.Pointer\(&(\w+)\)\)`)
	methods := []string{""} // by line, from 1
	want, got := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(source)) {
		if rest, begins := strings.CutPrefix(line, "func (t *Table) "); begins {
			method, _, _ = strings.Cut(rest, "(")
		}
		methods = append(methods, method)
		for _, m := range passed.FindAllStringSubmatch(line, -1) {
			want[method+" "+m[1]] = true
		}
	}
	cmd := exec.Command("go", "build", "-gcflags=-m", "-o", os.DevNull, "./driver")
	cmd.Dir = moduleRoot
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, m := range regexp.MustCompile(`zcalls\.go:(\d+):\d+: moved to heap: (\w+)`).FindAllStringSubmatch(string(out), -1) {
		line, _ := strconv.Atoi(m[1])
		got[methods[line]+" "+m[2]] = true
	}
	for v := range want {
		if !got[v] {
			t.Errorf("%s is on the stack, and its address is a number", v)
		}
	}
	for v := range got {
		if !want[v] {
			t.Errorf("%s is on the heap", v)
		}
	}
	if len(want) == 0 {
		t.Error("no call passes the address of a variable")
	}
}

// implementedHere returns the methods of the software driver.
func implementedHere(t *testing.T) map[string]bool {
	t.Helper()
	methods, err := implementedMethods(moduleRoot + "/internal/sim")
	if err != nil {
		t.Fatal(err)
	}
	return methods
}
