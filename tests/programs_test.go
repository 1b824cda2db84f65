package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// programsTable is what docs/programs.md has between these comments.
var programsTable = regexp.MustCompile(`(?s)(<!-- table of the runs.*? -->\n)(.*)(<!-- end of the table -->\n)`)

// A program is a program of tests/programs, with its line of testdata/runs.tsv.
type program struct {
	title, note string
	onCI        bool
	run         []string // name, version, tests, passed, why the others did not, day
}

// programField returns a field of the first lines of a program's file.
func programField(text, name string) string {
	head, _, _ := strings.Cut(text, "\n\n")
	for line := range strings.Lines(head) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		if value, ok := strings.CutPrefix(line, "# "+name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// programs reads the files of tests/programs, and the lines of their runs.
func programs(t *testing.T) (all []program) {
	t.Helper()
	read := func(name ...string) string {
		b, err := os.ReadFile(filepath.Join(append([]string{moduleRoot}, name...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	_, step, _ := strings.Cut(read(".ci", "run"), "\nstep_programs()")
	step, _, _ = strings.Cut(step, "\n}\n")
	for line := range strings.Lines(read("tests", "programs", "testdata", "runs.tsv")) {
		run := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(run) != 6 {
			t.Fatalf("runs.tsv: %q has %d columns, want 6", line, len(run))
		}
		text := read("tests", "programs", run[0]+".bash")
		title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		onCI := regexp.MustCompile(`\b` + regexp.QuoteMeta(run[0]) + `\b`).MatchString(step)
		all = append(all, program{title, programField(text, "note"), onCI, run})
	}
	return all
}

// programsText returns the part of docs/programs.md that is generated.
func programsText(all []program) string {
	var b strings.Builder
	b.WriteString("\n| Program | Version | Passed | Why the others do not | Run |\n|---|---|---|---|---|\n")
	for _, p := range all {
		by := p.run[5]
		if p.onCI {
			by += ", CI"
		}
		why := strings.ReplaceAll(p.run[4], "|", `\|`)
		fmt.Fprintf(&b, "| [%s](../tests/programs/%s.bash) | %s | %s of %s | %s | %s |\n", p.title, p.run[0], p.run[1],
			p.run[3], p.run[2], why, by)
	}
	b.WriteString("\nA number is how often that was the reason.\n\n")
	for _, p := range all {
		name, _, _ := strings.Cut(p.title, ":")
		fmt.Fprintf(&b, "- %s (`%s`): %s\n", name, p.run[0], p.note)
	}
	return b.String() + "\n"
}

// TestPrograms checks that docs/programs.md has the recorded runs of tests/programs.
func TestPrograms(t *testing.T) {
	name := filepath.Join(moduleRoot, "docs", "programs.md")
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	all := programs(t)
	for _, p := range all {
		if p.title == "" || p.note == "" {
			t.Errorf("%s.bash has no title or no note", p.run[0])
		}
	}
	parts := programsTable.FindSubmatchIndex(old)
	if parts == nil {
		t.Fatal("docs/programs.md has no place for the table")
	}
	text := string(old[:parts[3]]) + programsText(all) + string(old[parts[6]:])
	if text == string(old) {
		return
	}
	if !*update {
		t.Fatal("docs/programs.md is not up to date: go test ./tests -run '^TestPrograms$' -update")
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
