package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// isDebugger reports whether a name belongs to the interface for cuda-gdb, which is not part of the
// driver API.
func isDebugger(name string) bool { return strings.HasPrefix(name, "cudbg") }

// TestExports checks that the library of a version exports exactly what NVIDIA's drivers of that version do,
// whose names are in testdata. Missing names belong in tools/gen-symbols/libcuda.tsv.
func TestExports(t *testing.T) {
	for file, version := range map[string]string{
		"exports-535.txt": "12.2", "exports-550.txt": "12.4", "exports-580.txt": "13.0",
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		v, err := parseVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Fields(string(text))
		want = slices.DeleteFunc(want, isDebugger)
		var ours []string
		for _, f := range exports(v) {
			ours = append(ours, f.name)
		}
		if diff := cmp.Diff(want, ours, cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("CUDA %s (-driver +ours):\n%s", version, diff)
		}
	}
}
