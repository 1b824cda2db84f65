package softlib

import (
	"os"
	"path/filepath"
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
	table, err := os.ReadFile(filepath.Join(moduleRoot, "cusim", "testdata", "hostfunc-h100-cuda13.0.tsv"))
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

// TestSticky holds that what is left after a kernel has failed is answered as an H200 answered a
// program in C: it puts NULL where a context cannot be retained.
func TestSticky(t *testing.T) {
	want := map[string]string{
		"elapsed-nilout": "400", "elapsed_v2-nilout": "400", "record-after-bad": "0", "sync": "700", "query-E": "700", "setcurrent": "0",
		"reset": "0", "retain-again": "700", "retained": "0", "set-again": "0", "create-again": "201",
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
