package cu_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestWithMinVersion opens drivers of several versions.
func TestWithMinVersion(t *testing.T) {
	for _, c := range []struct {
		version, major, minor int
		ok                    bool
	}{
		{12040, 12, 4, true}, {12040, 12, 5, false}, {12040, 13, 0, false}, {12040, 11, 8, true},
		{13000, 12, 9, true}, {12040, 0, 0, true},
	} {
		drv, err := Open(WithSoftware(cusim.New(cusim.Version(c.version))), WithMinVersion(c.major, c.minor))
		if c.ok {
			if err != nil {
				t.Errorf("%d for %d.%d: %v", c.version, c.major, c.minor, err)
				continue
			}
			if err := drv.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if drv != nil || !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, ResultNotSupported) ||
			!strings.Contains(err.Error(), "supports CUDA 12.4") {
			t.Errorf("%d for %d.%d: %v", c.version, c.major, c.minor, err)
		}
	}
}

// TestGPUWithMinVersion asks a GPU's driver for its own version, and for one that does not exist.
func TestGPUWithMinVersion(t *testing.T) {
	own := int(Need(GPUDriver(t).Version())(t))
	option := WithSoftware(cusim.New(cusim.Version(own)))
	if path := os.Getenv(GPUEnv); path == "1" {
		option = nil
	} else if path != "" {
		option = WithLibrary(path)
	}
	drv := Need(Open(option, WithMinVersion(own/1000, own%1000/10)))(t)
	if err := drv.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(option, WithMinVersion(99, 0)); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
