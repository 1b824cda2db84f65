package isa

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestSince compares the first versions and targets of instructions with those that the compiler of an H200's driver
// (580, CUDA 13.0) has said. A table has forms of all entries, each with its version and its target, or "-" if the
// target is not known.
func TestSince(t *testing.T) {
	f, err := os.Open("testdata/h200-since.tsv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for lines := bufio.NewScanner(z); lines.Scan(); n++ {
		parts := strings.Split(lines.Text(), "\t")
		version, target := Since(parts[0])
		if got := fmt.Sprint(version); got != parts[1] {
			t.Errorf("%s is in PTX since version %s, want %s", parts[0], got, parts[1])
		}
		if got := fmt.Sprint(target); got != parts[2] && parts[2] != "-" {
			t.Errorf("%s is in targets since sm_%s, want sm_%s", parts[0], got, parts[2])
		}
	}
	if n < 3000 {
		t.Errorf("there are %d forms", n)
	}
}
