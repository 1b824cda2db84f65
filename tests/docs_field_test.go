package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fieldPage returns docs/field.md.
func fieldPage(t *testing.T) string {
	text, err := os.ReadFile(filepath.Join(moduleRoot, "docs", "field.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fieldSources returns where the cells of docs/field.md have been read, by row, library and cell.
func fieldSources(t *testing.T) map[[3]string]bool {
	text, err := os.ReadFile("testdata/field.tsv")
	if err != nil {
		t.Fatal(err)
	}
	sources := make(map[[3]string]bool)
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 4 && f[3] != "" {
			sources[[3]string(f[:3])] = true
		} else if !strings.HasPrefix(line, "#") {
			t.Errorf("testdata/field.tsv has the line %q", line)
		}
	}
	return sources
}

// TestField checks docs/field.md: each yes of purecu names a test, every named test exists, all rows have the same
// columns, and the cells of libraries whose sources were read say where.
func TestField(t *testing.T) {
	sources := fieldSources(t)
	for line := range strings.Lines(fieldPage(t)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 9 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[2]) == "purecu" {
			continue
		}
		row, _, _ := strings.Cut(strings.TrimSpace(cells[1]), " (`")
		for i, library := range map[int]string{4: "cudarc", 5: "CUDA.jl", 6: "baracuda"} {
			cell := strings.TrimSpace(cells[i])
			key := [3]string{row, library, cell}
			if (library == "baracuda" || cell == "raw" || cell == "no") && !sources[key] {
				t.Errorf("testdata/field.tsv does not say where %q has %q from: %s", library, cell, row)
			}
			delete(sources, key)
		}
	}
	for key := range sources {
		t.Errorf("docs/field.md has no row with the cell of testdata/field.tsv %q", key)
	}
}

// TestFieldTests checks the tests that docs/field.md names.
func TestFieldTests(t *testing.T) {
	text := fieldPage(t)
	named := regexp.MustCompile("`([\\w/]+)\\.(Test\\w+)`")
	declared := map[string]string{} // by package, the text of its tests
	n := 0
	for line := range strings.Lines(text) {
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
		if len(cells) != 9 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[2]) == "purecu" {
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
