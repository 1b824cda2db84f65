package loader

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/internal/ccall"
)

// TestPlatforms checks that Open searches and loads nothing where NVIDIA ships no driver, and that
// the error says so, in its text and for errors.Is.
func TestPlatforms(t *testing.T) {
	for _, tt := range []struct {
		platform string
		shipped  bool
	}{
		{"linux/amd64", true},
		{"linux/arm64", true},
		{"linux/ppc64le", true},
		{"windows/amd64", true},
		{"windows/arm64", true},
		{"linux/riscv64", false},
		{"linux/loong64", false},
		{"darwin/amd64", false},
		{"darwin/arm64", false},
		{"freebsd/amd64", false},
		{"freebsd/arm64", false},
		{"netbsd/amd64", false},
		{"netbsd/arm64", false},
	} {
		var loaded []string
		sys := thisSystem()
		sys.platform = tt.platform
		sys.lookupEnv = func(string) (string, bool) { return "", false }
		sys.dlopen = func(name string) (ccall.Library, error) {
			loaded = append(loaded, name)
			return ccall.Library{}, errors.New(name + ": not today")
		}
		lib, tried := sys.open(cudaDriver(), "")
		err := &LoadError{Candidates: tried, Platform: tt.platform}
		text := "loader: NVIDIA ships no CUDA driver for " + tt.platform
		if lib != nil || errors.Is(err, errors.ErrUnsupported) == tt.shipped || (err.Error() == text) == tt.shipped {
			t.Errorf("%s: %v", tt.platform, err)
		}
		if !tt.shipped && len(loaded)+len(tried) > 0 {
			t.Errorf("%s: %q were loaded", tt.platform, loaded)
		}

		// A named library is tried on every platform. The error then has both reasons.
		named := filepath.Join(t.TempDir(), "libcuda.so.1")
		lib, tried = sys.open(cudaDriver(), named)
		err = &LoadError{Candidates: tried, Platform: tt.platform}
		if lib != nil || len(tried) != 1 || tried[0].Name != named || !errors.Is(err, fs.ErrNotExist) ||
			errors.Is(err, errors.ErrUnsupported) == tt.shipped ||
			strings.HasSuffix(err.Error(), "\n\tNVIDIA ships no CUDA driver for "+tt.platform) == tt.shipped {
			t.Errorf("%s: %v", tt.platform, err)
		}

		m := machine{system: sys, openDevice: openDevice, uid: os.Geteuid(), after: time.After}
		if v := m.diagnose("").Verdict(); (v.Title == "NVIDIA ships no CUDA driver for "+tt.platform) == tt.shipped {
			t.Errorf("%s: the verdict is %+v", tt.platform, v)
		}
	}
}
