package nvml

import (
	"path/filepath"
	"testing"

	_ "github.com/purecu/purecu/cusim/auto"
)

// TestSoftware uses the software NVML that package cusim/auto registers, twice at a time.
func TestSoftware(t *testing.T) {
	t.Setenv("PURECU_DRIVER", "soft")
	first, second := New(), New()
	for _, l := range []Interface{first, second, first} {
		if ret := l.Init(); ret != SUCCESS {
			t.Fatalf("Init: %v", ret)
		}
	}
	for _, ret := range []Return{second.Shutdown(), first.Shutdown()} {
		if ret != SUCCESS {
			t.Errorf("Shutdown: %v", ret)
		}
	}
	d, ret := first.DeviceGetHandleByIndex(0)
	if ret != SUCCESS {
		t.Fatalf("DeviceGetHandleByIndex: %v", ret)
	}
	if name, ret := d.GetName(); name != "Simulated H200" || ret != SUCCESS {
		t.Errorf("GetName: %q, %v", name, ret)
	}
	if list, ret := d.GetComputeRunningProcesses(); len(list) != 0 || ret != SUCCESS {
		t.Errorf("GetComputeRunningProcesses: %v, %v", list, ret)
	}
	for name, has := range map[string]bool{"nvmlInit_v2": true, "nvmlNone": false} {
		if err := first.Extensions().LookupSymbol(name); (err == nil) != has {
			t.Errorf("LookupSymbol(%s): %v", name, err)
		}
	}
	if _, ret := first.DeviceGetHandleByIndex(99); ret != ERROR_INVALID_ARGUMENT || ret.Error() != "Invalid Argument" {
		t.Errorf("DeviceGetHandleByIndex: %v", ret)
	}
	if ret := first.Shutdown(); ret != SUCCESS {
		t.Errorf("Shutdown: %v", ret)
	}
	if _, ret := d.GetName(); ret != ERROR_UNINITIALIZED {
		t.Errorf("GetName after Shutdown: %v", ret)
	}
}

// TestSoftwareNotChosen checks that PURECU_DRIVER has no effect if the program names a library.
func TestSoftwareNotChosen(t *testing.T) {
	t.Setenv("PURECU_DRIVER", "soft")
	l := New(WithLibraryPath(filepath.Join(t.TempDir(), "libnvidia-ml.so.1")))
	if ret := l.Init(); ret != ERROR_LIBRARY_NOT_FOUND {
		t.Errorf("Init: %v", ret)
	}
}
