package cu

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/clock"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/loader"
)

// Driver is a loaded and initialised CUDA driver. Programs open one and share
// it: objects of two drivers do not mix.
type Driver struct {
	// The tracers, nil if there are none, the flag behind them, and what every call looks at first in the
	// table, share a cache line.
	tracers atomic.Pointer[tracers]
	// ordered says that records note their order, as many have been waited for.
	ordered atomic.Bool
	calls   driver.Table

	table *driver.Table // &calls
	name  string
	hook  func(Leak)

	mu       lock.Mutex[lock.Driver]
	contexts map[contextKey]*contextCore
	// abandoned are the contexts that have a claim and no user.
	abandoned []*contextCore
	devices   map[driver.Device]*Device

	launches sync.Pool // of *launchFrame
	batches  sync.Pool // of *batch
	captures captures
	exports  exports
	watch    watcher
	slabs    slabs
	losses   losses

	// opened is when the driver was opened, by its clock, and since the same moment.
	opened time.Time
	since  clock.Watch

	// tag tells drivers apart, and events counts those that were created: together
	// they make keys of events.
	tag    uint64
	_      [64]byte // records and waits look at what comes before
	events atomic.Uint64
	// streams counts the streams that there were.
	streams atomic.Uint64
}

// Option changes how [Open] finds and uses a driver.
type Option func(*options)

type options struct {
	path     string
	software *driver.Provider // nil without WithSoftware
	hook     func(Leak)
	onWait   func(function string) // for tests: see driver.Table.OnWait
}

// WithLibrary makes Open load the file at path, and nothing else.
func WithLibrary(path string) Option {
	return func(o *options) { o.path = path }
}

// WithSoftware makes Open use a driver that is written in Go instead of loading
// a library: cusim's, or one of the program's own, see [driver.Unimplemented]. If p
// or its driver is nil Open fails with an error that matches [ErrNil].
func WithSoftware(p driver.Provider) Option {
	return func(o *options) { o.software = &p }
}

// softwareOf returns the driver of p, or nil if either of them is.
func softwareOf(p driver.Provider) driver.Software {
	isNil := func(v any) bool {
		r := reflect.ValueOf(v)
		return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
	}
	if isNil(p) {
		return nil
	}
	if s := p.Software(); !isNil(s) {
		return s
	}
	return nil
}

// WithLeakHook makes the driver report objects that the program forgot to
// close, and errors of destructions that nobody waits for. hook is called on a
// goroutine of its own, and must be safe for concurrent use.
func WithLeakHook(hook func(Leak)) Option {
	return func(o *options) { o.hook = hook }
}

// Leak is a report about an object that was destroyed without anyone waiting
// for the outcome.
type Leak struct {
	// Kind is the kind of object: "event", "stream", "context", "module",
	// "device memory", "host memory", "graph", "executable graph", "event pool",
	// "pooled event", "green context", "host function", "timeline".
	Kind string
	// Handle is the driver's handle of the object.
	Handle uintptr
	// Forgotten is true if the object was never closed, and the garbage
	// collector found it, or, for a pooled event, if its pool was closed first.
	Forgotten bool
	// Err is the error of the destruction. It is nil if it succeeded, or if it
	// is still to come because calls are in flight.
	Err error
}

// Open loads NVIDIA's driver library and initialises it (cuInit), or takes the
// software driver that an option names. Which library is tried is described at
// [loader.Open].
//
// The error matches [ErrNoDriver] if there is no usable library, also
// [errors.ErrUnsupported] if NVIDIA ships none for this platform, and
// [ErrNoDevice] if the driver sees no device.
func Open(opts ...Option) (*Driver, error) {
	var o options
	for _, f := range opts {
		if f != nil {
			f(&o)
		}
	}
	d := &Driver{hook: o.hook, contexts: make(map[contextKey]*contextCore), devices: make(map[driver.Device]*Device), tag: rand.Uint64()}
	d.launches.New = func() any { return new(launchFrame) }
	d.table = &d.calls
	d.table.OnWait(o.onWait)
	if o.software != nil {
		s := softwareOf(*o.software)
		if s == nil {
			return nil, mistake("Open", ErrNil, 0,
				"the software driver is nil: pass what cusim.New returns, or leave WithSoftware out")
		}
		d.table.UseSoftware(s)
		d.name = "the software driver"
	} else {
		lib, err := loader.Open(o.path)
		if err != nil {
			return nil, noDriver(err)
		}
		d.table.Use(lib)
		d.name = lib.Name()
	}
	switch res := d.table.Init(driver.At{}, 0); res {
	case driver.ResultSuccess:
		d.opened, d.since = d.table.Clock().Now(), clock.Start()
		return d, nil
	case driver.ResultNoDevice:
		return nil, &Error{Op: "cuInit", Result: res, Err: ErrNoDevice, Detail: fmt.Sprintf(
			"%s loads, but sees no GPU: check that nvidia-smi lists one, %sand that CUDA_VISIBLE_DEVICES does not hide it", d.name, checkFiles())}
	default:
		return nil, d.fail("cuInit", 0, res)
	}
}

// checkFiles returns what else to check on systems with device files.
func checkFiles() string {
	if runtime.GOOS == "windows" {
		return ""
	}
	return "that this process may open /dev/nvidia*, "
}

// noDriver returns the error of Open when the loader has failed.
func noDriver(err error) error {
	detail := "cuprobe doctor looks for the cause"
	if errors.Is(err, errors.ErrUnsupported) { // there is nothing to find
		detail = "run the program on Linux or Windows, or on the software driver: cu.Open(cu.WithSoftware(cusim.New()))"
	}
	return &Error{Op: "Open", Err: fmt.Errorf("%w: %w", ErrNoDriver, err), Detail: detail}
}

// open reports whether the driver came from Open.
func (d *Driver) open() bool { return d != nil && d.table != nil }

// Close frees what was forgotten, or closed while it was in use, and has yet to be freed ([Driver.Stats] tells how
// much that is), for which it waits for the GPU, and gives back the memory of timelines in contexts that were given
// up: close the driver last. Errors go to the leak hook. It does nothing to the driver itself, which a process
// cannot unload, and nothing to objects that are open: they stay usable until they are closed. Further calls do the
// same. What is yet to be freed when the Driver itself is collected is left until the process ends. It may wait for
// the GPU: see docs/blocking.md.
func (d *Driver) Close() error {
	if d.open() {
		d.freeDeferred(nil)
		d.unmapSlabs()
	}
	return nil
}

// String names the library.
func (d *Driver) String() string {
	if !d.open() {
		return "no driver"
	}
	return d.name
}

// Version returns the newest CUDA version that the driver supports, as CUDA
// counts: 12080 is 12.8 (cuDriverGetVersion).
func (d *Driver) Version() (int, error) {
	if !d.open() {
		return 0, errNil("cuDriverGetVersion", "driver")
	}
	v, res := d.table.DriverGetVersion(driver.At{})
	if res != driver.ResultSuccess {
		return 0, d.fail("cuDriverGetVersion", 0, res)
	}
	return int(v), nil
}

// DeviceCount returns the number of devices that the driver sees
// (cuDeviceGetCount).
func (d *Driver) DeviceCount() (int, error) {
	if !d.open() {
		return 0, errNil("cuDeviceGetCount", "driver")
	}
	n, res := d.table.DeviceGetCount(driver.At{})
	if res != driver.ResultSuccess {
		return 0, d.fail("cuDeviceGetCount", 0, res)
	}
	return int(n), nil
}

// leak reports to the hook, if there is one: not on the caller's goroutine,
// which may hold locks that the hook takes, nor on the one that the runtime runs
// all cleanups on.
func (d *Driver) leak(l Leak) {
	if d.hook != nil && (l.Forgotten || l.Err != nil) {
		go d.hook(l)
	}
}

// Symbol says what became of one function of the driver API, in one of its
// interfaces.
type Symbol struct {
	// Name is what a C program writes.
	Name string `json:"name"`
	// Export is what the library calls this interface.
	Export string `json:"export"`
	// Since is the CUDA version that introduced the interface: 12080 is 12.8.
	Since int `json:"since"`
	// Current marks the interface that Name means in the headers of CUDA 13.0.
	Current bool `json:"current"`
	// Addr is the function's address, 0 if the driver lacks it.
	Addr uintptr `json:"-"`
	// Err is why the driver lacks it, else nil; it matches
	// errors.ErrUnsupported.
	Err error `json:"-"`
}

// Symbols looks up every function of the driver API of CUDA 13.0, in each of its
// interfaces, sorted by what the library calls them. A software driver has none.
func (d *Driver) Symbols() []Symbol {
	if !d.open() {
		return nil
	}
	return symbolsOf(d.table)
}

// LibrarySymbols is [Driver.Symbols] for a library that was loaded and not
// initialised, so that no device is needed.
func LibrarySymbols(lib *loader.Library) []Symbol {
	if lib == nil {
		return nil
	}
	return symbolsOf(driver.New(lib))
}

func symbolsOf(table *driver.Table) []Symbol {
	all := make([]Symbol, driver.NumSymbols)
	for i := range all {
		info := driver.Symbol(i).Info()
		addr, err := table.Resolve(driver.Symbol(i))
		all[i] = Symbol{Name: info.Base, Export: info.Export, Since: info.Version, Current: info.Current, Addr: addr, Err: err}
	}
	return all
}

// MissingError is the error behind a call of a function that the driver does not
// have. It matches errors.ErrUnsupported, and names the function, the CUDA
// version that introduced it and the driver's.
type MissingError = driver.MissingError

// Proc is a function of the driver, for what this package has no wrapper for.
type Proc struct {
	drv *Driver
	sym driver.Symbol
}

// Proc looks up a function of the driver API by the name that a C program
// writes, such as "cuMemAllocManaged", and gives the interface that the headers
// of CUDA 13.0 give it; a name with a suffix, such as "cuCtxCreate_v2", asks for
// that interface. The error matches errors.ErrUnsupported if the driver is too
// old for it.
func (d *Driver) Proc(name string) (Proc, error) {
	if !d.open() {
		return Proc{}, errNil(name, "driver")
	}
	sym, ok := driver.FindSymbol(name)
	if !ok {
		m := &driver.MissingError{Symbol: name}
		return Proc{}, &Error{Op: name, Result: ResultNotFound, Err: m, Detail: missingHint(m)}
	}
	if _, err := d.table.Resolve(sym); err != nil {
		e := &Error{Op: name, Result: ResultOperatingSystem, Err: err, Detail: Remedy(ResultOperatingSystem)}
		if m := (*driver.MissingError)(nil); errors.As(err, &m) { // else the driver could not be asked
			e.Result, e.Detail = ResultNotSupported, missingHint(m)
		}
		return Proc{}, e
	}
	return Proc{d, sym}, nil
}

// Addr returns the address of the C function.
func (p Proc) Addr() uintptr {
	if p.drv == nil {
		return 0
	}
	a, _ := p.drv.table.Resolve(p.sym)
	return a
}

// Call calls the function with up to fourteen words and returns what it
// returned, whatever it is; the error is for calls that could not be made.
// Nothing is checked, and none of this package's promises holds: a
// wrong argument crashes the process. Arguments that are addresses must be of
// memory that does not move and that outlives the call, which a Go variable is
// only if it is known to be on the heap. The call is made on whichever thread
// the goroutine runs on.
func (p Proc) Call(args ...uintptr) (Result, error) {
	if p.drv == nil {
		return ResultNotFound, errNil("Proc.Call", "function")
	}
	r, res := p.drv.table.CallSymbol(driver.At{}, p.sym, args...)
	if res != driver.ResultSuccess {
		err := p.drv.fail(p.sym.Info().Export, 0, res)
		return ResultInvalidValue, err
	}
	return Result(int32(r)), nil
}
