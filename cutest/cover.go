package cutest

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/purecu/purecu/cusim"
)

// The files that [Cover] writes.
const (
	coverProfile = "ptx-coverage.out"
	coverListing = "ptx-coverage.txt"
)

// Cover returns an option that collects which lines of PTX the test executes, with its subtests:
//
//	cover := cutest.Cover(t, "testdata")
//	ctx := cutest.Context(t, cover)
//
// At the end of the test it logs the summary, which go test -v shows. If folder is not empty, it also writes
// two files to it, which exists or is made: ptx-coverage.out is a profile as go test -coverprofile writes it,
// and ptx-coverage.txt the text of the modules, with how often each line was executed: see [cusim.Coverage].
// For all tests of a package, use [cusim.Cover] with a Coverage that TestMain writes. The option has no effect
// on the machine's GPU.
func Cover(t testing.TB, folder string) cusim.Option {
	t.Helper()
	c := new(cusim.Coverage)
	t.Cleanup(func() {
		t.Logf("cutest: PTX that was executed: %s", c.Summary())
		if folder == "" {
			return
		}
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Errorf("cutest: %v", err)
			return
		}
		files := map[string]func(io.Writer) error{coverProfile: c.WriteProfile, coverListing: c.WriteListing}
		for name, write := range files {
			if err := writeFile(filepath.Join(folder, name), write); err != nil {
				t.Errorf("cutest: %v", err)
			}
		}
	})
	return cusim.Cover(c)
}

// writeFile writes a file.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
