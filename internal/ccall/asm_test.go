package ccall

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAssemblyKeepsR27 checks that the assembly for arm64 loads no variable by its name. The
// assembler uses R27 for this, which functions that C calls have to preserve.
func TestAssemblyKeepsR27(t *testing.T) {
	byName := regexp.MustCompile(`^\s+(MOV|LD|ST)\S*\s+([^$/]*,\s*)?[^$\s,(/]\S*\(SB\)`)
	files := 0
	for _, pattern := range []string{"*_arm64.s", "internal/guest/*_arm64.s"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files++
			for i, line := range strings.Split(string(text), "\n") {
				if byName.MatchString(line) {
					t.Errorf("%s:%d: load the address first: %s", name, i+1, strings.TrimSpace(line))
				}
			}
		}
	}
	if files < 3 {
		t.Errorf("there are only %d files", files)
	}
	if !byName.MatchString("\tMOVD ·hostFD(SB), R0") || !byName.MatchString("\tMOVD R0, ·hostFD(SB)") || byName.MatchString("\tMOVD $·hostFD(SB), R0") {
		t.Error("the test finds no such load in the example")
	}
}
