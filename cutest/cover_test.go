package cutest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

// TestCover reads what a test has written at its end.
func TestCover(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	t.Run("inner", func(t *testing.T) {
		cover := cutest.Cover(t, folder)
		for _, seed := range []uint64{1, 2} { // several drivers
			gpu, done := software(cusim.New(cover, cusim.Seed(seed)))
			launchScale(gpu, 3, 4)
			done()
		}
	})
	for name, want := range map[string]string{"ptx-coverage.out": "mode: count\nscale.ptx:4.2,4.20 1 8\n",
		"ptx-coverage.txt": "scale.ptx: 85.7% (12 of 14) of lines, 75.0% (3 of 4) of branches\n\n"} {
		if got := string(must(os.ReadFile(filepath.Join(folder, name)))); !strings.HasPrefix(got, want) {
			t.Errorf("%s is\n%s", name, got)
		}
	}
}
