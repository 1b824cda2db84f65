package softlib

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// host compiles the C program host, and returns its path.
func host(t *testing.T) string { return compiled(t, "host") }

// compiled compiles a C program, and returns its path.
func compiled(t *testing.T, name string, flags ...string) string {
	t.Helper()
	cc, err := compiler()
	if why := skip(""); errors.As(err, &why) {
		t.Skip(why)
	}
	path := filepath.Join(t.TempDir(), name)
	flags = append([]string{"-std=gnu11", "-O1", "-Wall", "-Werror", "-pthread", "-o", path}, flags...)
	out, err := exec.Command(cc, append(flags, filepath.Join("testdata", name+".c"), "-ldl")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestHost runs the C program, which uses the library as programs use NVIDIA's. Each scenario has a
// process of its own.
func TestHost(t *testing.T) {
	lib, program := library(t), host(t)
	for _, tt := range []struct {
		scenario string
		env      []string
	}{
		{scenario: "lazy"},
		{scenario: "processes"},
		{scenario: "fork-before"},
		{scenario: "fork-after"},
		{scenario: "fork-while"},
		{scenario: "siblings"},
		{scenario: "threads"},
		{scenario: "callbacks"},
		{scenario: "memory"},
		{scenario: "virtual_memory"},
		{scenario: "wild"},
		{scenario: "nulls"},
		{scenario: "nodes"},
		{scenario: "allocations"},
		{scenario: "more"},
		{scenario: "signals"},
		{scenario: "unload"},
		{scenario: "misuse"},
		{scenario: "configured", env: []string{"CUSIM_DRIVER_VERSION=11.8", "CUSIM_DEVICES=3", "CUSIM_FAULTS=cuMemAlloc@2=2"}},
		{scenario: "subnormals"},
		{scenario: "profiles", env: []string{"CUSIM_PROFILE=A100:2,T4"}},
		// The program is started with other settings than those that it sets itself.
		{scenario: "in-process", env: []string{"CUSIM_DEVICES=2", "CUSIM_FAULT_RATE=1=2"}},
		{scenario: "stale"},
		{scenario: "faults", env: []string{"CUSIM_FAULTS=cuDeviceComputeCapability=46,cuGraphInstantiate_v2=46,cuLaunchKernelEx=46,cuMemAllocHost_v2=46,cuMemcpy=46," +
			"cuMemcpyAsync=46,cuModuleLoad=46,cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags=46,cuOccupancyMaxPotentialBlockSizeWithFlags=46"}},
		{scenario: "no-init 100", env: []string{"CUSIM_DEVICES=0"}},
		{scenario: "no-init 46", env: []string{"CUSIM_FAULTS=cuInit+=46"}},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			said := run(t, tt.env, append([]string{program, lib}, strings.Fields(tt.scenario)...)...)
			if said = withoutMissing(said); said != "" {
				t.Errorf("it was not asked to say anything:\n%s", said)
			}
		})
	}
}

// TestFastMath runs a C program whose threads take subnormal numbers for zero.
func TestFastMath(t *testing.T) {
	run(t, nil, compiled(t, "host", "-ffast-math"), library(t), "subnormals")
}

// missing is a line about the first function that returns CUDA_ERROR_NOT_SUPPORTED, or that gets machine code.
var missing = regexp.MustCompile(
	`(?m)^cusim: (cu\w+) returns CUDA_ERROR_(NOT_SUPPORTED \(801\)|NO_BINARY_FOR_GPU \(209\)): .*\n`)

// withoutMissing removes these lines, of which there is one for each result.
func withoutMissing(said string) string {
	for range 2 {
		if at := missing.FindStringIndex(said); at != nil {
			said = said[:at[0]] + said[at[1]:]
		}
	}
	return said
}

// TestLoad runs the C program that loads and launches a kernel in all ways.
func TestLoad(t *testing.T) {
	if said := run(t, nil, compiled(t, "load"), library(t), t.TempDir()); said != "" {
		t.Errorf("it was not asked to say anything:\n%s", said)
	}
}

// TestHostTold checks that the library prints its messages where it must.
func TestHostTold(t *testing.T) {
	lib, program := library(t), host(t)
	for _, tt := range []struct {
		scenario, env string
		want          []string
	}{
		{"misuse", "CUSIM_REPORT=1", []string{"misuse: cuEventDestroy(0x", "misuse: cuEventQuery(0x", "the event was destroyed\n", "1 × context", "1 × event"}},
		{"lazy", "CUSIM_DEVICES=1",
			[]string{"cusim: cuMipmappedArrayDestroy returns CUDA_ERROR_NOT_SUPPORTED (801): "}},
		{"configured", "CUSIM_DRIVER_VERSION=11.8\nCUSIM_DEVICES=3\nCUSIM_FAULTS=cuMemAlloc@2=2",
			[]string{"cusim: cuStreamGetId returns CUDA_ERROR_NOT_SUPPORTED (801): "}},
		{"more", "CUSIM_DEVICES=1", []string{"cusim: cuModuleLoadData returns CUDA_ERROR_NO_BINARY_FOR_GPU (209): "}},
		{"export-table", "CUSIM_DEVICES=1", []string{"cusim: cuGetExportTable returns CUDA_ERROR_NOT_SUPPORTED (801): ",
			"CUDA's runtime library (cudart) needs it: use the driver API"}},
		{"no-init 801", "CUSIM_FAULTS=cuInit+=801", []string{"cusim: cuInit returns CUDA_ERROR_NOT_SUPPORTED (801): "}},
		{"no-init 999", "CUSIM_DEVICES=many", []string{"CUSIM_DEVICES=many: "}},
		{"no-init 999", "CUSIM_PROFILE=A101", []string{"CUSIM_PROFILE=A101: "}},
		{"no-init 999", "CUSIM_PROFILE=A100\nCUSIM_DEVICES=2", []string{"CUSIM_PROFILE"}},
		{"no-init 999", "CUSIM_DRIVER_VERSION=9.2", []string{"CUSIM_DRIVER_VERSION=9.2: "}},
		{"no-init 999", "CUSIM_FAULTS=cuMemAlloc", []string{"CUSIM_FAULTS=cuMemAlloc: "}},
		{"no-init 999", "CUSIM_FAULTS=cuMemAloc=2", []string{"CUSIM_FAULTS=cuMemAloc=2: ", `there is no function "cuMemAloc"`}},
	} {
		said := run(t, strings.Split(tt.env, "\n"), append([]string{program, lib}, strings.Fields(tt.scenario)...)...)
		for _, want := range tt.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s with %s does not say %q:\n%s", tt.scenario, tt.env, want, said)
			}
		}
	}
}

// TestPython calls the library from Python, without additional packages.
func TestPython(t *testing.T) {
	if said := run(t, nil, python(t), filepath.Join("testdata", "host.py"), library(t)); said != "" {
		t.Error(said)
	}
}

// python returns the path of python3. It skips the test if there is none.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err == nil {
		err = exec.Command(path, "-c", "import ctypes, multiprocessing").Run()
	}
	if err != nil {
		t.Skipf("there is no python3 with ctypes: %v", err)
	}
	return path
}

// TestLaunches compares the results of creating contexts with parameters, and of launches with
// attributes and packed arguments, with those of an H100.
func TestLaunches(t *testing.T) {
	for _, name := range []string{"launches", "launches-more"} {
		t.Run(name, func(t *testing.T) {
			stdout, said := output(t, nil, python(t), filepath.Join("testdata", name+".py"), library(t))
			// The library says once, for each kernel, that the kernel does nothing.
			for line := range strings.Lines(withoutMissing(said)) {
				if !strings.HasPrefix(line, "cusim: kernel ") || !strings.Contains(line, " is unknown: ") {
					t.Errorf("on standard error: %s", line)
				}
			}
			recorded, err := os.ReadFile(filepath.Join("testdata", name+"-h100.tsv"))
			if err != nil {
				t.Fatal(err)
			}
			want := string(recorded)
			if name == "launches" {
				// The software driver has no graphs that kernels update.
				const theirs = "attributes: updatable 1\t801\tin a capture 0, status 1, end 0, nodes 1\n"
				const ours = "attributes: updatable 1\t801\tin a capture 801, status 1, end 0, nodes 0\n"
				if !strings.Contains(want, theirs) {
					t.Errorf("the GPU's answer is not there: %s", theirs)
				}
				want = strings.Replace(want, theirs, ours, 1)
			}
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(stdout, "\n")); diff != "" {
				t.Errorf("(-H100 +here):\n%s", diff)
			}
		})
	}
}
