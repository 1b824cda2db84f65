package tests

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// systems are the five event systems of docs/systems.md, with their numbers of rows.
var systems = map[string]int{"A": 16, "B": 6, "C": 9, "D": 15, "E": 16}

// coming are the rows that have no test yet.
var coming []string

// A systemRow is a row of a table in docs/systems.md.
type systemRow struct {
	name, behaviour string
	tests           []string
	api             string
}

// systemRows reads the tables of a page.
func systemRows(p page) (rows []systemRow) {
	_, lines := p.split()
	for _, line := range lines {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !rowName.MatchString(strings.TrimSpace(cells[0])) {
			continue
		}
		r := systemRow{name: strings.TrimSpace(cells[0]), behaviour: strings.TrimSpace(cells[1]), api: strings.TrimSpace(cells[3])}
		for _, m := range codeSpan.FindAllStringSubmatch(cells[2], -1) {
			r.tests = append(r.tests, m[1])
		}
		rows = append(rows, r)
	}
	return rows
}

var (
	rowName = regexp.MustCompile(`^[A-E][0-9]+$`)
	rowTest = regexp.MustCompile(`^Test([A-E])0?([0-9]+)[A-Z]`)
)

// wrongSystems returns what is wrong with the rows of docs/systems.md, given the tests and the rows
// that have no test yet.
func wrongSystems(rows []systemRow, tests, coming []string) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	shown := map[string][]string{} // by row, the tests with its name
	for _, name := range tests {
		if m := rowTest.FindStringSubmatch(name); m != nil {
			shown[m[1]+m[2]] = append(shown[m[1]+m[2]], name)
		}
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
		if r.behaviour == "" {
			bad("%s: says nothing", r.name)
		}
		isComing := slices.Contains(coming, r.name)
		switch {
		case isComing && len(shown[r.name]) > 0:
			bad("%s: is no longer coming: %v shows it; name it in docs/systems.md and take the row out of the list of those that are coming", r.name, shown[r.name])
		case isComing && len(r.tests) > 0:
			bad("%s: is coming, and has tests", r.name)
		case !isComing && len(r.tests) == 0:
			bad("%s: no test shows it", r.name)
		case !isComing && r.api == "":
			bad("%s: there is nothing in Go for it", r.name)
		}
		for _, name := range r.tests {
			if !slices.Contains(tests, name) {
				bad("%s: there is no %s", r.name, name)
			} else if !slices.Contains(shown[r.name], name) {
				bad("%s: %s is not named after it", r.name, name)
			}
		}
		for _, name := range shown[r.name] {
			if !slices.Contains(r.tests, name) && !isComing {
				bad("%s: does not name %s", r.name, name)
			}
		}
	}
	for _, system := range slices.Sorted(maps.Keys(systems)) {
		for i := range systems[system] {
			name := fmt.Sprint(system, i+1)
			switch at := slices.Index(names, name); {
			case at < 0:
				bad("%s: is missing", name)
			case slices.Contains(names[at+1:], name):
				bad("%s: is there twice", name)
			}
			names = slices.DeleteFunc(names, func(n string) bool { return n == name })
		}
	}
	for _, name := range names {
		bad("%s: there is no such row", name)
	}
	for _, name := range coming {
		if !slices.ContainsFunc(rows, func(r systemRow) bool { return r.name == name }) {
			bad("%s: is coming, and has no row", name)
		}
	}
	return wrong
}

// TestSystems compares docs/systems.md with the tests in tests/conformance. Each row has a test
// with its name, unless it is in coming, and each of those tests is in a row.
func TestSystems(t *testing.T) {
	all := pages(t)
	i := slices.IndexFunc(all, func(p page) bool { return p.name == "docs/systems.md" })
	if i < 0 {
		t.Fatal("there is no docs/systems.md")
	}
	for _, w := range wrongSystems(systemRows(all[i]), conformanceTests(t), coming) {
		t.Errorf("docs/systems.md: %s", w)
	}
}

// conformanceTests returns the names of the tests in tests/conformance.
func conformanceTests(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("conformance", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range functions(t, name, src) {
			if strings.HasPrefix(f.name, "Test") && f.name != "TestMain" {
				names = append(names, f.name)
			}
		}
	}
	if len(names) < 50 {
		t.Fatalf("there are only %d tests", len(names))
	}
	return names
}

// TestSystemsChecks checks that wrongSystems finds each kind of error.
func TestSystemsChecks(t *testing.T) {
	const head = "| row | behaviour | shown by | in Go |\n|---|---|---|---|\n"
	tests := []string{"TestA01Flags", "TestA01More", "TestA02First", "TestHelpers"}
	row := func(name, test, api string) string {
		return fmt.Sprintf("| %s | something | %s | %s |\n", name, test, api)
	}
	for _, c := range []struct{ rows, want string }{
		{row("A1", "`TestA01Flags`, `TestA01More`", "`cu.Event`"), ""},
		{row("A1", "`TestA01Flags`", "`cu.Event`"), "A1: does not name TestA01More"},
		{row("A2", "`TestA02First`, `TestA02Second`", "`cu.Event`"), "A2: there is no TestA02Second"},
		{row("A2", "`TestA02First`, `TestHelpers`", "`cu.Event`"), "A2: TestHelpers is not named after it"},
		{row("A2", "`TestA02First`", ""), "A2: there is nothing in Go for it"},
		{row("A3", "coming", "`cu.Event`"), "A3: no test shows it"},
		{row("A4", "coming", ""), ""},
		{row("A4", "`TestHelpers`", ""), "A4: is coming, and has tests"},
		{row("A17", "coming", "`cu.Event`"), "A17: there is no such row"},
		{row("A4", "coming", "") + row("A4", "coming", ""), "A4: is there twice"},
		{row("B1", "`TestHelpers`", "`cu.Event`"), "A1: is missing"},
		{"| A1 | | `TestA01Flags` | `cu.Event` |\n", "A1: says nothing"},
	} {
		wrong := wrongSystems(systemRows(page{"docs/systems.md", head + c.rows}), tests, []string{"A4"})
		if c.want == "" {
			if i := slices.IndexFunc(wrong, func(w string) bool { return strings.HasPrefix(w, c.rows[2:4]+":") }); i >= 0 {
				t.Errorf("%s: %s", c.rows, wrong[i])
			}
		} else if !slices.Contains(wrong, c.want) {
			t.Errorf("%s: %q, which does not have %q", c.rows, wrong, c.want)
		}
	}
	if wrong := wrongSystems(nil, tests, []string{"A1"}); !slices.Contains(wrong, "A1: is coming, and has no row") {
		t.Errorf("a row that is coming, and is not there: %q", wrong)
	}
	shown := wrongSystems(systemRows(page{"docs/systems.md", head + row("A2", "coming", "")}), tests, []string{"A2"})
	if !slices.ContainsFunc(shown, func(w string) bool { return strings.HasPrefix(w, "A2: is no longer coming: [TestA02First]") }) {
		t.Errorf("a row that is coming, and is there: %q", shown)
	}
}
