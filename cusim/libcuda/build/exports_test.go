package main

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// isDebugger reports whether a name belongs to the interface for cuda-gdb, which is not part of the
// driver API.
func isDebugger(name string) bool { return strings.HasPrefix(name, "cudbg") }

// TestExports checks that the library exports all names of NVIDIA's libraries: of those that
// PURECU_TEST_LIBCUDA lists (tests/libcuda/fetch), and of driver 580, whose names are in testdata.
// Missing names belong in tools/gen-symbols/libcuda.tsv.
func TestExports(t *testing.T) {
	ours := map[string]bool{}
	for _, f := range functions {
		ours[f.name] = true
	}
	for _, path := range filepath.SplitList(os.Getenv("PURECU_TEST_LIBCUDA")) {
		holds(t, path, ours, exported(t, path))
	}
	const list = "testdata/exports-580.txt"
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(text))
	holds(t, list, ours, names)
	for name := range ours {
		if !slices.Contains(names, name) {
			t.Errorf("the driver 580 does not export %s", name)
		}
	}
}

// holds reports the names of a driver that are missing.
func holds(t *testing.T, driver string, ours map[string]bool, names []string) {
	t.Helper()
	n := 0
	for _, name := range names {
		if isDebugger(name) {
			continue
		}
		if n++; !ours[name] {
			t.Errorf("%s exports %s, which is missing here", driver, name)
		}
	}
	if n < 500 {
		t.Errorf("%s exports only %d functions", driver, n)
	}
}

// exported returns the names that a library defines.
func exported(t *testing.T, path string) (names []string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	return names
}
