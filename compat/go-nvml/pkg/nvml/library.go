package nvml

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/NVIDIA/go-nvml/internal/dynlib"
	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/purecu/purecu/nvml/raw"
)

// What is loaded if no option says otherwise.
const (
	libraryName  = "libnvidia-ml.so.1"
	libraryFlags = dl.RTLD_LAZY | dl.RTLD_GLOBAL
)

var (
	errLibraryNotLoaded     = errors.New("library not loaded")
	errLibraryAlreadyLoaded = errors.New("library already loaded")
	errNoSoftware           = errors.New("PURECU_DRIVER is soft, and the program does not import " +
		"github.com/purecu/purecu/cusim/auto")
)

type libraryOptions struct{ path string }

// LibraryOption is an option of [New] and [SetLibraryOptions].
type LibraryOption func(*libraryOptions)

// WithLibraryPath sets which library is loaded: a path, or a name that the system's loader searches for.
func WithLibraryPath(path string) LibraryOption { return func(o *libraryOptions) { o.path = path } }

// library is an NVML that is loaded as long as it is initialised.
type library struct {
	mu    sync.Mutex
	path  string
	users int // the calls of Init less those of Shutdown
	calls *calls
	open  func(name string, flags int) (dynlib.Library, error)
}

// libnvml is the one that the package's functions use.
var libnvml = newLibrary()

// New returns an NVML. It is not loaded before Init.
func New(opts ...LibraryOption) Interface { return newLibrary(opts...) }

func newLibrary(opts ...LibraryOption) *library {
	l := &library{open: dynlib.Open}
	l.setOptions(opts)
	return l
}

func (l *library) setOptions(opts []LibraryOption) {
	o := libraryOptions{}
	for _, opt := range opts {
		opt(&o)
	}
	if o.path == "" {
		o.path = libraryName
	}
	l.path = o.path
}

// SetLibraryOptions sets the options of the library that the package's functions use. It returns an error if that is
// loaded.
func SetLibraryOptions(opts ...LibraryOption) error {
	libnvml.mu.Lock()
	defer libnvml.mu.Unlock()
	if libnvml.users != 0 {
		return errLibraryAlreadyLoaded
	}
	libnvml.setOptions(opts)
	return nil
}

// Extensions returns what is not a function of NVML.
func (l *library) Extensions() ExtendedInterface { return l }

// LookupSymbol returns an error if the library does not export the symbol, or is not loaded.
func (l *library) LookupSymbol(name string) error {
	if l == nil {
		return fmt.Errorf("error looking up %s: %w", name, errLibraryNotLoaded)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 {
		return fmt.Errorf("error looking up %s: %w", name, errLibraryNotLoaded)
	}
	if err := l.calls.lookup(name); err != nil {
		return fmt.Errorf("symbol %q not found: %w", name, err)
	}
	return nil
}

// find loads the library. If the program names none, and the environment variable PURECU_DRIVER is soft, it takes the
// software NVML that the program has registered.
func (l *library) find() (*calls, error) {
	name := os.Getenv("PURECU_DRIVER")
	switch software := raw.Registered(name); {
	case l.path != libraryName:
	case software != nil:
		r, err := software()
		if err != nil {
			return nil, err
		}
		return newCalls(r, nil), nil
	case name == "soft":
		return nil, errNoSoftware
	}
	lib, err := l.open(l.path, libraryFlags)
	if err != nil {
		return nil, err
	}
	return newCalls(raw.New(lib), lib), nil
}

// load loads the library, unless it is loaded, and counts its users. It returns the library's calls.
func (l *library) load() (*calls, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 {
		c, err := l.find()
		if err != nil {
			return nil, fmt.Errorf("error opening %s: %w", l.path, err)
		}
		l.calls = c
		addCalls(c)
	}
	l.users++
	return l.calls, nil
}

// Init loads the library and initialises it.
func (l *library) Init() Return {
	c, err := l.load()
	if err != nil {
		return ERROR_LIBRARY_NOT_FOUND
	}
	if c.Has("nvmlInit_v2") {
		return result(c.InitV2())
	}
	return result(c.Init())
}

// InitWithFlags loads the library and initialises it.
func (l *library) InitWithFlags(flags uint32) Return {
	c, err := l.load()
	if err != nil {
		return ERROR_LIBRARY_NOT_FOUND
	}
	return result(c.InitWithFlags(flags))
}

// Shutdown ends what Init has begun. The last one unloads the library.
func (l *library) Shutdown() Return {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 {
		return ERROR_UNINITIALIZED
	}
	if ret := result(l.calls.Shutdown()); ret != SUCCESS {
		return ret
	}
	if l.users == 1 {
		if err := l.calls.close(); err != nil {
			return ERROR_UNKNOWN
		}
		removeCalls(l.calls)
		l.calls = nil
	}
	l.users--
	return SUCCESS
}

// ErrorString returns what a Return means.
func (l *library) ErrorString(r Return) string { return r.Error() }

// String returns what a Return means.
func (r Return) String() string { return r.Error() }

// Error returns the library's text for a Return, or the name of the constant if no library is loaded.
func (r Return) Error() string {
	if c := loaded.first.Load(); c != nil {
		return c.ErrorString(raw.Return(r))
	}
	if name := returnName(r); name != "" {
		return name
	}
	return fmt.Sprintf("unknown return value: %d", int32(r))
}

// STRUCT_VERSION returns the number for the member Version of a struct, or of the struct that a pointer leads to.
func STRUCT_VERSION(data interface{}, version uint32) uint32 { return sizeOf(data) | version<<24 }
