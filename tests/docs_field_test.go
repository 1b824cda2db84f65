package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestField checks docs/field.md: each yes of purecu names a test, every named test exists, and all
// rows have the same columns.
func TestField(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(moduleRoot, "docs", "field.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([\\w/]+)\\.(Test\\w+)`")
	declared := map[string]string{} // by package, the text of its tests
	n := 0
	for line := range strings.Lines(string(text)) {
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			n++
			if _, read := declared[m[1]]; !read {
				files, err := filepath.Glob(filepath.Join(moduleRoot, m[1], "*_test.go"))
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range files {
					source, err := os.ReadFile(name)
					if err != nil {
						t.Fatal(err)
					}
					declared[m[1]] += string(source)
				}
			}
			if !strings.Contains(declared[m[1]], "\nfunc "+m[2]+"(") {
				t.Errorf("package %s has no %s", m[1], m[2])
			}
		}
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 8 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[2]) == "purecu" {
			continue
		}
		own := strings.TrimSpace(cells[2])
		first, _, _ := strings.Cut(own, " ")
		switch {
		case own == "no" || own == "not yet" || strings.HasPrefix(own, "raw, [unverified]"):
		case first != "yes" && first != "raw" && first != "example":
			t.Errorf("purecu's %q: %s", own, cells[1])
		case !named.MatchString(own):
			t.Errorf("purecu's %q names no test: %s", own, cells[1])
		}
	}
	if n < 30 {
		t.Errorf("docs/field.md names %d tests", n)
	}
}
