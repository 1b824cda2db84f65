package isa

import (
	"fmt"
	"testing"

	"github.com/purecu/purecu/internal/ptx/tables"
)

// TestSince compares the first versions and targets of instructions with those that the compiler of an H200's driver
// (580, CUDA 13.0) has said. A table has forms of all entries, each with its version and its target, or "-" if the
// target is not known.
func TestSince(t *testing.T) {
	rows, err := tables.Read("testdata/h200-since.tsv.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, parts := range rows {
		version, target := Since(parts[0])
		if got := fmt.Sprint(version); got != parts[1] {
			t.Errorf("%s is in PTX since version %s, want %s", parts[0], got, parts[1])
		}
		if got := fmt.Sprint(target); got != parts[2] && parts[2] != "-" {
			t.Errorf("%s is in targets since sm_%s, want sm_%s", parts[0], got, parts[2])
		}
	}
	if len(rows) < 3000 {
		t.Errorf("there are %d forms", len(rows))
	}
}
