package ptxrandom

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/isa"
)

var update = flag.Bool("update", false, "write testdata/table.txt")

// TestTable checks that the generator has all instructions of the table. After -update the programs
// with new rows differ from the recorded ones, unless testdata/unrecorded.txt has the new rows.
func TestTable(t *testing.T) {
	if *update {
		var b strings.Builder
		for _, row := range isa.All() {
			b.WriteString(tableLine(row) + "\n")
		}
		if err := os.WriteFile("testdata/table.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, row := range isa.All() {
		if strings.HasPrefix(row.Name, "%") {
			continue
		}
		for _, v := range row.Variants() {
			if _, is := findForm(v.String()); !is {
				t.Errorf("testdata/table.txt does not have %s: run the test with -update, and record the programs anew", v)
				break
			}
		}
	}
	for _, row := range table() {
		if row.emit == nil && !structural(row) && !unrecorded(row.id) {
			t.Errorf("the generator does not know how to write %s", row.id)
		}
	}
	for id := range strings.Lines(unrecordedText) {
		id = strings.TrimSuffix(id, "\n")
		if !strings.HasPrefix(id, "#") && !slices.ContainsFunc(table(), func(r *tableRow) bool { return r.id == id }) {
			t.Errorf("testdata/unrecorded.txt has %s, which is no row", id)
		}
	}
}

// TestReplay checks that a seed always gives the same program.
func TestReplay(t *testing.T) {
	for seed := range uint64(300) {
		a, _ := generate(seed).kernel(nil, -1, nil)
		b, _ := generate(seed).kernel(nil, -1, nil)
		if strings.Join(a, "\n") != strings.Join(b, "\n") {
			t.Fatalf("seed %d has two programs", seed)
		}
	}
}
