package softlib

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answers returns what a scenario of the program in C says: results by what was called. Lines
// that are none are returned, too.
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

// TestHostFuncTable holds that calls in a host function are answered as an H100 answers them.
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

// TestSticky holds that what is left after a kernel has failed is answered as on GPUs. A context
// that cannot be retained is not stored: an H100 left the old handle where it was, and returned 709
// (CUDA_ERROR_CONTEXT_IS_DESTROYED) for a new event. In the recording of an H200 that is 201
// (CUDA_ERROR_INVALID_CONTEXT), as where the program had NULL there before: the rows that end with
// "null". What that program passed is not known.
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

// TestFacts holds sizes to those of an H100, and what has no result to store it in. The pending
// event, and the wait that never returns on a GPU, are as this driver has them.
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

// TestUnknownKernels holds that each kernel that the driver does not know is named once, and can be refused.
func TestUnknownKernels(t *testing.T) {
	for env, want := range map[string]string{"CUSIM_UNKNOWN_KERNELS=": "0", "CUSIM_UNKNOWN_KERNELS=refuse": "801"} {
		got, others := answers(t, []string{env, "CUSIM_REPORT=1"}, "unknown")
		if got["it"] != want || got["that"] != want {
			t.Errorf("%s: %v, want %s", env, got, want)
		}
		for prefix, n := range map[string]int{
			`cusim: kernel "nobody_knows_it" is unknown`: 1, `cusim: kernel "nobody_knows_that" is unknown`: 1,
			"cusim: misuse: cuLaunchKernel(": 2,
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
