package softlib

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answers runs a scenario of the C program, and returns the results by call, and all other lines.
func answers(t *testing.T, env []string, scenario string) (results map[string]string, others []string) {
	t.Helper()
	lib, program := library(t), compiled(t, "answers")
	results = make(map[string]string)
	for line := range strings.Lines(run(t, env, program, lib, scenario)) {
		line = strings.TrimSuffix(line, "\n")
		if what, result, found := strings.Cut(line, "\t"); found {
			results[what] = result
		} else {
			others = append(others, line)
		}
	}
	return results, others
}

// TestHostFuncTable checks that calls in a host function return what an H100 returned.
func TestHostFuncTable(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(moduleRoot, "internal", "sim", "testdata", "hostfunc-h100-cuda13.0.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for line := range strings.Lines(string(table)) {
		if what, result, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); found && line[0] != '#' {
			want[what] = result
		}
	}
	got, others := answers(t, nil, "hostfunc")
	if diff := cmp.Diff(want, got); diff != "" || len(others) > 0 {
		t.Errorf("results (-want +got):\n%s%q", diff, others)
	}
}

// TestSticky checks the results after a kernel has failed, which must be those of a GPU. If a
// context cannot be retained, no handle is stored. An H100 left the old handle in its place, and
// returned 709 (CUDA_ERROR_CONTEXT_IS_DESTROYED) for a new event. An H200 returned 201
// (CUDA_ERROR_INVALID_CONTEXT), as if the old handle had been NULL: see the results that end with
// "null". What the program on the H200 passed is not known.
func TestSticky(t *testing.T) {
	want := map[string]string{
		"elapsed-nilout": "400", "elapsed_v2-nilout": "400", "record-after-bad": "0", "sync": "700", "query-E": "700", "setcurrent": "0",
		"reset": "0", "retain-again": "700", "retained": "1", "set-again": "0", "create-again": "709",
		"retain-null": "700", "retained-null": "0", "set-null": "0", "create-null": "201",
	}
	var got map[string]string
	var others []string
	for range 20 { // a machine that is busy may let the kernel fail before the record
		if got, others = answers(t, nil, "sticky"); got["record-after-bad"] == "0" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(others) > 0 {
		t.Errorf("results (-want +got):\n%s%q", diff, others)
	}
}

// TestFacts compares sizes with those of an H100, and checks calls whose results cannot be stored.
// For the pending event, and the wait that never returns on a GPU, it expects this driver's
// behaviour.
func TestFacts(t *testing.T) {
	const used = 556597248
	got, others := answers(t, nil, "facts")
	bytes, err := strconv.Atoi(got["bytes in use beside one context"])
	if err != nil || bytes < used || bytes > used+2<<20 {
		t.Errorf("%d bytes are in use, %v; want %d, and perhaps what was allocated besides", bytes, err, used)
	}
	delete(got, "bytes in use beside one context")
	want := map[string]string{
		"constant memory of reads": "32", "local memory of reads": "0", "constant memory of reads_not": "32", "local memory of reads_not": "24",
		"nil-out, recorded events": "400", "nil-out, one pending": "600",
		"cuEventDestroy, pending": "0", "cuStreamSynchronize, its own stream": "800",
	}
	if diff := cmp.Diff(want, got); diff != "" || len(others) > 0 {
		t.Errorf("results (-want +got):\n%s%q", diff, others)
	}
}

// TestUnknownKernels checks that each unknown kernel is named once, and that its launches are refused.
func TestUnknownKernels(t *testing.T) {
	const want = "801"
	for _, env := range []string{"CUSIM_UNKNOWN_KERNELS=", "CUSIM_UNKNOWN_KERNELS=refuse"} {
		got, others := answers(t, []string{env, "CUSIM_REPORT=1"}, "unknown")
		if got["it"] != want || got["that"] != want {
			t.Errorf("%s: %v, want %s", env, got, want)
		}
		for prefix, n := range map[string]int{
			`cusim: kernel "nobody_knows_it" is unknown: its launches return CUDA_ERROR_NOT_SUPPORTED (801); ` +
				`its PTX cannot be executed: line `: 1,
			`cusim: kernel "nobody_knows_that" is unknown`: 1,
			"cusim: misuse: cuLaunchKernel(":               2,
		} {
			count := 0
			for _, line := range others {
				if strings.HasPrefix(line, prefix) {
					count++
				}
			}
			if count != n {
				t.Errorf("%s: %d lines begin with %q, want %d:\n%s", env, count, prefix, n, strings.Join(others, "\n"))
			}
		}
	}
}
