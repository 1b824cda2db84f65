package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/purecu/purecu/internal/ccall"
)

// Kind names a library of NVIDIA's besides the CUDA driver, for [OpenLibrary].
type Kind string

const (
	// NVML is the library of nvidia-smi, a part of the driver: libnvidia-ml.so.1 or nvml.dll.
	NVML Kind = "NVML"
	// NVRTC compiles CUDA C++ to PTX and cubin. It is a part of the CUDA toolkit: libnvrtc.so.13
	// or an earlier one, or nvrtc64_130_0.dll or an earlier one.
	NVRTC Kind = "NVRTC"
	// NVENC encodes video. It is a part of the driver: libnvidia-encode.so.1 or nvEncodeAPI64.dll.
	NVENC Kind = "NVENC"
)

// Environment returns the name of the environment variable that names the library to load, such as
// "PURECU_NVML_LIBRARY". The variable is used as [Environment] is for the driver.
func (k Kind) Environment() string { return "PURECU_" + string(k) + "_LIBRARY" }

// product is a library, and how it is found and recognized.
type product struct {
	kind     Kind
	variable string   // the environment variable that names it
	names    []string // its names on Linux, in the order in which they are tried
	dlls     []string // its names on Windows
	toolkit  bool     // it is a part of the CUDA toolkit, not of the driver
	kit      string   // what has stubs of it
	// folders returns candidates with these names in folders that only this library is searched in:
	// those of the toolkit after the system's folders, others before them. It is nil for the driver, so
	// that a program that opens nothing else contains no such function.
	folders func(*system, []string) []choice
	// verify checks that a loaded library is the right one. The address is that of a function in it,
	// or 0 if no function is known.
	verify func(ccall.Library) (l *Library, addr uintptr, problem Problem, err error)
}

// libraryName is the driver's name on Linux. libcuda.so belongs to development packages.
const libraryName = "libcuda.so.1"

// cudaDriver returns the driver's library.
func cudaDriver() *product {
	return &product{
		variable: Environment, kit: toolkitName, names: []string{libraryName, "libcuda.so"},
		dlls:   []string{"nvcuda.dll"},
		verify: verifyDriver,
	}
}

// productOf returns the library of a kind, or nil if there is no such kind.
func productOf(k Kind) *product {
	p := product{kind: k, variable: k.Environment(), kit: toolkitName, folders: besideDriver}
	function := ""
	switch k {
	case NVML:
		p.names, p.dlls, function = []string{"libnvidia-ml.so.1"}, []string{"nvml.dll"}, "nvmlInit_v2"
	case NVENC:
		p.names, p.dlls, function = []string{"libnvidia-encode.so.1"}, []string{"nvEncodeAPI64.dll"},
			"NvEncodeAPICreateInstance"
		p.kit = "the Video Codec SDK"
	case NVRTC:
		p.names = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"}
		p.dlls = []string{"nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"}
		p.toolkit, p.folders, function = true, toolkitFolders, "nvrtcCompileProgram"
	default:
		return nil
	}
	p.verify = func(lib ccall.Library) (*Library, uintptr, Problem, error) {
		l := &Library{kind: k, lib: lib}
		addr, err := lib.Lookup(function)
		switch {
		case errors.Is(err, ccall.ErrNoThread): // the reason is not the library
			return l, 0, GlibcFailed, err
		case err != nil:
			return l, 0, OtherLibrary, fmt.Errorf("it was loaded, but is not %s: %w", k, err)
		}
		return l, addr, "", nil
	}
	return &p
}

const toolkitName = "the CUDA toolkit"

// title returns the library's name for errors.
func (k Kind) title() string {
	if k == "" {
		return "CUDA driver"
	}
	return string(k)
}

// install returns how to install the library, or "" for the driver.
func (k Kind) install() string {
	switch k {
	case NVML:
		return "NVML is a part of NVIDIA's driver (on Debian the package libnvidia-ml1, on Ubuntu " +
			"libnvidia-compute-VERSION); " +
			"a container has it if NVIDIA_DRIVER_CAPABILITIES contains utility; or set " + k.Environment() +
			" to its path"
	case NVENC:
		return "NVENC is a part of NVIDIA's driver (on Debian the package libnvidia-encode1, on Ubuntu " +
			"libnvidia-encode-VERSION); " +
			"a container has it if NVIDIA_DRIVER_CAPABILITIES contains video; or set " + k.Environment() +
			" to its path"
	case NVRTC:
		return "install NVRTC with the CUDA toolkit (NVIDIA's package cuda-nvrtc-VERSION), or for Python with " +
			"pip install nvidia-cuda-nvrtc; or set " + k.Environment() + " to its path"
	}
	return ""
}

// owner returns what the library is a part of.
func (p *product) owner() string {
	if p.toolkit {
		return p.kit
	}
	return "the NVIDIA driver"
}

// OpenLibrary loads a library of NVIDIA's besides the driver. It searches as [Open] does, with the
// environment variable of [Kind.Environment], and in more folders: those of libraries of the driver
// beside the CUDA driver that the process has loaded, and NVRTC in those of the CUDA toolkit
// (CUDA_HOME, CUDA_PATH, /usr/local/cuda), of Conda, and of NVIDIA's packages for Python.
//
// It makes no call of the library: call nvmlInit_v2 yourself. The error is a *LoadError, or matches
// [errors.ErrUnsupported] if there is no such kind.
func OpenLibrary(k Kind, path string) (*Library, error) {
	p := productOf(k)
	if p == nil {
		return nil, fmt.Errorf("loader: there is no kind %q of libraries: %w", string(k), errors.ErrUnsupported)
	}
	sys := thisSystem()
	lib, tried := sys.open(p, path)
	if lib == nil {
		return nil, &LoadError{Candidates: tried, Platform: sys.platform, Kind: k}
	}
	return lib, nil
}

// StatusError is the error of a function of [Library.Bind] whose C function returned a status that
// is not 0.
type StatusError struct {
	// Function is the name of the C function.
	Function string
	// Status is what it returned.
	Status int32
}

// Error returns the name of the function and the status.
func (e *StatusError) Error() string {
	if e == nil {
		return "loader: no error"
	}
	return fmt.Sprintf("%s returned %d", e.Function, e.Status)
}

// Bind sets a variable of a function type to a function that calls a C function of the library:
//
//	var count func(n *uint32) error
//	err := nvml.Bind(&count, "nvmlDeviceGetCount_v2")
//
// The type is the prototype, which Bind cannot check: a wrong one corrupts memory. Bind returns an
// error if the library lacks the function, or if the type is not supported.
//
// # Prototypes
//
// Parameters are integers of the size that C has, strings, which C receives as NUL-terminated
// copies, []string, pointers, and slices, which C receives as the address of the first element. An
// opaque handle is a uintptr. A type that a pointer or a slice leads to must have no pointers. C
// must not keep an address after it has returned, and must not call Go. nil is NULL.
//
// If the only result is an error, the C function returns a status (nvmlReturn_t, nvrtcResult), and
// the error for one that is not 0 is a [*StatusError]. With two results, the first one is what C
// returns, an integer, or a string (const char *). The error says then that the call was not made:
// a string contains a NUL, or, in a static program, no thread could be created.
//
// The function may be called from any goroutine, as far as the C function may. It costs about a
// microsecond more than C, in a static program tens of them, and blocks a thread while C waits.
func (l *Library) Bind(function any, name string) error {
	if l == nil {
		return fmt.Errorf("loader: %s: %w", name, errNoLibrary)
	}
	fn, err := l.lib.Lookup(name)
	if err != nil {
		return fmt.Errorf("loader: %s lacks the function %s: %w", l.Name(), name, err)
	}
	failed := func(status int32) error { return &StatusError{name, status} }
	if err := ccall.Bind(fn, function, failed); err != nil {
		return fmt.Errorf("loader: %s: %w", name, err)
	}
	return nil
}

// errNoLibrary is wrapped by the errors of methods of a nil *Library.
var errNoLibrary = errors.New("the library is nil: check the error of OpenLibrary")

// place is a folder in which a kind of system keeps its libraries.
type place struct{ folder, kind string }

// inFolders returns a candidate for each name that exists in each folder, and one for each folder
// that has none.
func (s *system) inFolders(folders []place, names []string) []choice {
	var list []choice
	for _, at := range folders {
		found := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			_, err := os.Lstat(s.file(filepath.Join(at.folder, name)))
			return err != nil
		})
		if len(found) == 0 {
			found = names[:1]
		}
		for _, name := range found {
			list = append(list, choice{Candidate: Candidate{Name: filepath.Join(at.folder, name), Source: at.kind}})
		}
	}
	return list
}

// folderIn returns the absolute path that an environment variable contains, or "". The user must
// not choose the code of a program that has rights that the user lacks.
func (s *system) folderIn(variable string) string {
	if v := s.getenv(variable); filepath.IsAbs(v) && !s.elevated() {
		return filepath.Clean(v)
	}
	return ""
}

// toolkits returns the folders of CUDA toolkits.
func (s *system) toolkits() []place {
	var list []place
	for _, variable := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if v := s.folderIn(variable); v != "" {
			list = append(list, place{v, "environment variable " + variable})
		}
	}
	if runtime.GOOS != "windows" {
		list = append(list, place{"/usr/local/cuda", "the CUDA toolkit"},
			place{"/opt/cuda", "the CUDA toolkit on Arch"})
	}
	return list
}
