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

// TestExports checks that the libraries of a version export exactly what NVIDIA's drivers of that version do, whose
// names are in testdata. Missing names belong in tools/gen-symbols/libcuda.tsv, or in the manifests of tools/gen-nvml.
func TestExports(t *testing.T) {
	for driver, version := range map[string]string{"535": "12.2", "550": "12.4", "580": "13.0"} {
		v, err := parseVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		var ours []string
		for _, f := range exports(v) {
			ours = append(ours, f.name)
		}
		for file, ours := range map[string][]string{"exports-": ours, "nvml-exports-": nvmlExports(v)} {
			text, err := os.ReadFile(filepath.Join("testdata", file+driver+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			want := slices.DeleteFunc(strings.Fields(string(text)), isDebugger)
			if diff := cmp.Diff(want, ours, cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("CUDA %s, %s (-driver +ours):\n%s", version, file, diff)
			}
		}
	}
}
