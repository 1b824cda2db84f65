package tests

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/loader"
)

// realLibraries returns NVIDIA's driver libraries: those in PURECU_TEST_LIBCUDA, and with
// PURECU_TEST_GPU the system's. It skips the test if there are none.
func realLibraries(t *testing.T) []string {
	t.Helper()
	paths := filepath.SplitList(os.Getenv("PURECU_TEST_LIBCUDA"))
	switch gpu := os.Getenv("PURECU_TEST_GPU"); gpu {
	case "":
	case "1":
		paths = append(paths, "libcuda.so.1")
	default:
		paths = append(paths, gpu)
	}
	if len(paths) == 0 {
		t.Skip("PURECU_TEST_LIBCUDA and PURECU_TEST_GPU are not set: this needs a real driver library (see tests/libcuda/fetch)")
	}
	return paths
}

// TestSymbols checks the table of symbols on NVIDIA's drivers. For every symbol, the lookup by name
// and version must return the address that the library exports under the symbol's own name. If the
// driver is older than the symbol, the lookup must fail.
func TestSymbols(t *testing.T) {
	for _, path := range realLibraries(t) {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			lib, err := loader.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			table := driver.New(lib)
			var proved, viaDlsym, refused int
			for s := range driver.Symbol(driver.NumSymbols) {
				info := s.Info()
				got, err := table.Resolve(s)
				if lib.Version() < info.Version {
					var m *driver.MissingError
					if !errors.As(err, &m) || m.Since != info.Version || m.Driver != lib.Version() || !errors.Is(err, errors.ErrUnsupported) {
						t.Errorf("%s of CUDA %d: %#x, %v; want it refused", info.Export, info.Version, got, err)
					}
					refused++
					continue
				}
				want, exportErr := lib.Symbol(info.Export)
				if exportErr != nil {
					t.Errorf("%s is not exported: %v", info.Export, exportErr)
					continue
				}
				if err != nil || got != want {
					t.Errorf("%s resolved to %#x, %v; it is exported at %#x", info.Export, got, err, want)
				}
				if info.ViaDlsym {
					viaDlsym++
					continue
				}
				asked, err := lib.Proc(info.Ask, info.Version, info.PerThread)
				if err != nil || asked != want {
					t.Errorf("Proc(%s, %d, %v) = %#x, %v; %s is exported at %#x", info.Ask, info.Version, info.PerThread, asked, err, info.Export, want)
				}
				proved++
			}
			t.Logf("CUDA %s: of %d symbols %d proved by name and version, %d known by export only, %d newer than the driver",
				driver.Version(lib.Version()), driver.NumSymbols, proved, viaDlsym, refused)
		})
	}
}

// TestNoDevice checks that NVIDIA's driver without a device returns an error that programs can
// distinguish from a missing driver.
func TestNoDevice(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") != "" {
		t.Skip("there is a device")
	}
	for _, path := range realLibraries(t) {
		_, err := cu.Open(cu.WithLibrary(path))
		if !errors.Is(err, cu.ErrNoDevice) || !errors.Is(err, cu.ResultNoDevice) || errors.Is(err, cu.ErrNoDriver) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestLibrarySymbols checks that NVIDIA's driver lacks exactly the functions that are newer than
// the driver. That needs no device.
func TestLibrarySymbols(t *testing.T) {
	for _, path := range realLibraries(t) {
		lib, err := loader.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		all, perThread := cu.LibrarySymbols(lib), 0
		for _, s := range all {
			if (s.Err != nil) != (s.Since > lib.Version()) || (s.Addr == 0) != (s.Err != nil) {
				t.Errorf("%s of CUDA %d: %#x, %v", s.Export, s.Since, s.Addr, s.Err)
			}
			if strings.HasSuffix(s.Export, "_ptsz") && s.Err == nil {
				perThread++
			}
		}
		if len(all) != driver.NumSymbols || perThread < 50 {
			t.Errorf("%s: %d symbols, %d of them for per-thread default streams", path, len(all), perThread)
		}
	}
}

// TestElapsedTimeFallback checks the function for old drivers. cuEventElapsedTime_v2 came with CUDA
// 12.8. For that name, an older driver returns success and the older function, which must not be
// used.
func TestElapsedTimeFallback(t *testing.T) {
	v1, ok1 := driver.FindExport("cuEventElapsedTime")
	v2, ok2 := driver.FindSymbol("cuEventElapsedTime")
	if !ok1 || !ok2 || v1 == v2 {
		t.Fatalf("cuEventElapsedTime is symbol %d, %v and %d, %v", v1, ok1, v2, ok2)
	}
	for _, path := range realLibraries(t) {
		lib, err := loader.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		table := driver.New(lib)
		if _, err := table.Resolve(v1); err != nil {
			t.Error(err)
		}
		switch _, err := table.Resolve(v2); {
		case lib.Version() >= 12080:
			if err != nil {
				t.Error(err)
			}
		case !errors.Is(err, errors.ErrUnsupported):
			t.Errorf("%s: %v", path, err)
		default:
			t.Logf("%v", err)
		}
	}
}
