package softlib

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestOldGlibc checks that the libraries ask for no symbol that glibc 2.17 lacks, whatever glibc they are built with:
// docs/install.md promises it.
func TestOldGlibc(t *testing.T) {
	dir, asked := filepath.Dir(library(t)), 0
	for _, name := range []string{"libcuda.so.1", "libnvidia-ml.so.1", "libcusim.so"} {
		file, err := elf.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		symbols, err := file.ImportedSymbols()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range symbols {
			version, ok := strings.CutPrefix(s.Version, "GLIBC_")
			if !ok {
				continue
			}
			asked++
			var major, minor int
			if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || major != 2 || minor > 17 {
				t.Errorf("%s needs %s of %s: add it to cusim/libcuda/build/glibc.go, or do without it", name,
					s.Name, s.Version)
			}
		}
	}
	if asked == 0 {
		t.Error("no library asks for a function of glibc's")
	}
}
