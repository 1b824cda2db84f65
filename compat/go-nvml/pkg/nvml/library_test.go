package nvml

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/internal/dynlib"
)

// compile returns a library that the C compiler has made of testdata/nvml.c.
func compile(t *testing.T, flags ...string) string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil || runtime.GOOS != "linux" {
		t.Skip("there is no C compiler")
	}
	file := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := append(flags, "-w", "-shared", "-fPIC", "-o", file, filepath.Join("testdata", "nvml.c"))
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

func TestNoLibrary(t *testing.T) {
	l := New(WithLibraryPath(filepath.Join(t.TempDir(), "no.so")))
	if ret := l.Init(); ret != ERROR_LIBRARY_NOT_FOUND {
		t.Errorf("Init: %v", ret)
	}
	if ret := l.InitWithFlags(1); ret != ERROR_LIBRARY_NOT_FOUND || ret.Error() != "ERROR_LIBRARY_NOT_FOUND" {
		t.Errorf("InitWithFlags: %v", ret)
	}
	if ret := l.Shutdown(); ret != ERROR_UNINITIALIZED {
		t.Errorf("Shutdown: %v", ret)
	}
	if n, ret := l.DeviceGetCount(); n != 0 || ret != ERROR_UNINITIALIZED {
		t.Errorf("DeviceGetCount: %d, %v", n, ret)
	}
	if err := l.Extensions().LookupSymbol("nvmlInit_v2"); err == nil ||
		err.Error() != "error looking up nvmlInit_v2: library not loaded" {
		t.Errorf("LookupSymbol: %v", err)
	}
	if s := Return(77).Error(); s != "unknown return value: 77" {
		t.Errorf("Error: %q", s)
	}
	if s := ErrorString(ERROR_GPU_IS_LOST); s != "ERROR_GPU_IS_LOST" {
		t.Errorf("ErrorString: %q", s)
	}
}

// TestLibrary makes calls to a library in C.
func TestLibrary(t *testing.T) {
	for _, test := range []struct {
		name  string
		flags []string
		gpus  int
		lost  uint32 // the instance of a process
	}{{"new", nil, 2, 0}, {"old", []string{"-DOLD"}, 1, 0xFFFFFFFF}} {
		t.Run(test.name, func(t *testing.T) {
			file := compile(t, test.flags...)
			if lib, err := dynlib.Open(file, libraryFlags); err != nil {
				t.Fatal(err)
			} else if _, err := lib.Symbol("nvmlShutdown"); err != nil {
				t.Skip("a static program finds no functions of a library without nvmlInit_v2")
			}
			l := New(WithLibraryPath(file))
			for range 2 {
				if ret := l.Init(); ret != SUCCESS {
					t.Fatalf("Init: %v", ret)
				}
			}
			if n, ret := l.DeviceGetCount(); n != test.gpus || ret != SUCCESS {
				t.Errorf("DeviceGetCount: %d, %v", n, ret)
			}
			d, ret := l.DeviceGetHandleByIndex(1)
			if ret != SUCCESS {
				t.Fatalf("DeviceGetHandleByIndex: %v", ret)
			}
			if name, ret := d.GetName(); name != "GPU 1" || ret != SUCCESS {
				t.Errorf("GetName: %q, %v", name, ret)
			}
			list, ret := d.GetComputeRunningProcesses()
			want := ProcessInfo{Pid: 3, UsedGpuMemory: 300, GpuInstanceId: test.lost, ComputeInstanceId: test.lost}
			if len(list) != 3 || list[2] != want || ret != SUCCESS {
				t.Errorf("GetComputeRunningProcesses: %v, %v", list, ret)
			}
			testNewer(t, l, d)
			if _, ret := l.DeviceGetHandleByIndex(2); ret != ERROR_INVALID_ARGUMENT || ret.Error() != "Invalid Argument" {
				t.Errorf("DeviceGetHandleByIndex: %v", ret)
			}
			if err := l.Extensions().LookupSymbol("nvmlNone"); err == nil ||
				!strings.HasPrefix(err.Error(), `symbol "nvmlNone" not found: `) {
				t.Errorf("LookupSymbol: %v", err)
			}
			for _, want := range []Return{SUCCESS, SUCCESS, ERROR_UNINITIALIZED} {
				if err := l.Extensions().LookupSymbol("nvmlShutdown"); (err == nil) != (want == SUCCESS) {
					t.Errorf("LookupSymbol: %v", err)
				}
				if ret := l.Shutdown(); ret != want {
					t.Errorf("Shutdown: %v, want %v", ret, want)
				}
			}
		})
	}
}

// testNewer calls functions that package raw lacks, and one that the library lacks.
func testNewer(t *testing.T, l Interface, d Device) {
	if ret := l.DeviceSetAdaptiveTgpMode_v1(d, FEATURE_ENABLED); ret != SUCCESS {
		t.Errorf("DeviceSetAdaptiveTgpMode_v1: %v", ret)
	}
	if m, ret := d.GetMemoryLimits_v1("space"); m != (MemoryLimits_v1{"space", 1, 2, 3}) || ret != SUCCESS {
		t.Errorf("GetMemoryLimits_v1: %v, %v", m, ret)
	}
	if _, ret := d.GetGpuFabricInfo_v4(); ret != ERROR_FUNCTION_NOT_FOUND {
		t.Errorf("GetGpuFabricInfo_v4: %v", ret)
	}
	if _, ret := d.GetSerial(); ret != ERROR_FUNCTION_NOT_FOUND {
		t.Errorf("GetSerial: %v", ret)
	}
}

// TestSetLibraryOptions changes the library of the package's functions.
func TestSetLibraryOptions(t *testing.T) {
	if err := SetLibraryOptions(WithLibraryPath(compile(t))); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = SetLibraryOptions() }()
	if ret := Init(); ret != SUCCESS {
		t.Fatal(ret)
	}
	if err := SetLibraryOptions(); err == nil || err.Error() != "library already loaded" {
		t.Errorf("SetLibraryOptions: %v", err)
	}
	if n, ret := DeviceGetCount(); n != 2 || ret != SUCCESS {
		t.Errorf("DeviceGetCount: %d, %v", n, ret)
	}
	if ret := Shutdown(); ret != SUCCESS {
		t.Error(ret)
	}
}

// TestRealLibrary initialises NVIDIA's library, where there is no GPU.
func TestRealLibrary(t *testing.T) {
	files := os.Getenv("PURECU_TEST_NVML")
	if files == "" {
		t.Skip("PURECU_TEST_NVML names no libraries")
	}
	for file := range strings.SplitSeq(files, ":") {
		l := New(WithLibraryPath(file))
		ret := l.Init()
		if ret != ERROR_DRIVER_NOT_LOADED {
			t.Errorf("%s: Init: %v", file, ret)
		}
		if s := ret.Error(); s != "Driver Not Loaded" {
			t.Errorf("%s: Error: %q", file, s)
		}
		if err := l.Extensions().LookupSymbol("nvmlInit_v2"); err != nil {
			t.Error(err)
		}
		if n, ret := l.DeviceGetCount(); n != 0 || ret != ERROR_UNINITIALIZED {
			t.Errorf("%s: DeviceGetCount: %d, %v", file, n, ret)
		}
		removeCalls(l.(*library).calls) // Shutdown fails
	}
}
