package cu

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/clock"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/initresult"
	"github.com/purecu/purecu/internal/remedy"
	"github.com/purecu/purecu/loader"
)

// Driver is a loaded and initialised CUDA driver. A program should open one Driver and share it:
// objects of two Drivers cannot be used together.
type Driver struct {
	core core.Driver
	// devices are the Devices that calls have returned. The mutex of Driver guards them.
	devices   map[driver.Device]*Device
	closed    atomic.Bool
	driverRef // to core, for the packages in this folder
}

// driverRef is an alias, so that the field of a Driver is not exported.
type driverRef = core.Ref[core.Driver]

// Option changes how [Open] finds and uses a driver.
type Option func(*options)

type options struct {
	path     string
	software func(*driver.TableState) error // makes the table call a software driver; nil without WithSoftware
	hook     func(drivercall.LeakReport)
	// minVersion is the oldest driver version that Open accepts, as in Driver.Version.
	minVersion int
}

// driverVariable names the environment variable that chooses a driver where the program does not, and softDriver
// is its value for the driver of package cusim/auto.
const (
	driverVariable = "PURECU_DRIVER"
	softDriver     = "soft"
	importAuto     = `import _ "github.com/purecu/purecu/cusim/auto"`
)

// useVariable applies the environment variable PURECU_DRIVER to options that name no driver.
func (o *options) useVariable() error {
	v := os.Getenv(driverVariable)
	switch use := driver.Registered(v); {
	case o.path != "" || o.software != nil || v == "" || v == "cuda":
	case use != nil:
		o.software = use
	case strings.ContainsAny(v, `/\`):
		o.path = v
	case v == softDriver:
		return drivercall.BadValue("Open", nil,
			driverVariable+" is soft, and the program has no software driver: "+importAuto+
				" in the main package, or unset the variable")
	default:
		return drivercall.BadValue("Open", nil, fmt.Sprintf("%s is %q, and no such driver is registered: "+
			"use cuda, soft, or the path of a library", driverVariable, v))
	}
	return nil
}

// WithLibrary makes Open load the file at path, and no other library. An empty path is the same as no
// option.
func WithLibrary(path string) Option {
	return func(o *options) { o.path = path }
}

// WithMinVersion makes Open fail if the driver does not support this version of CUDA: WithMinVersion(12,
// 4) is for programs that need functions of CUDA 12.4. The error matches [errors.ErrUnsupported], and
// names both versions.
func WithMinVersion(major, minor int) Option {
	return func(o *options) { o.minVersion = 1000*major + 10*minor }
}

// WithSoftware makes Open use a driver that is written in Go instead of loading a library: cusim's,
// or another implementation of [driver.Software], see [driver.Unimplemented]. If p or its driver is
// nil, Open fails with an error that matches [ErrNil].
func WithSoftware(p driver.Provider) Option {
	return func(o *options) {
		o.software = func(s *driver.TableState) error { return (*driver.Table)(s).UseProvider(p) }
	}
}

// Open loads NVIDIA's driver library and initialises it (cuInit), or uses the software driver of
// [WithSoftware]. [loader.Open] describes which libraries are tried.
//
// If the program chooses no driver, the environment variable PURECU_DRIVER can: soft is the software
// driver, if the program imports package cusim/auto; a value with a slash is the path of a library;
// cuda is NVIDIA's driver, as without the variable; other values are names of [driver.Register].
//
// The error matches [ErrNoDriver] if there is no usable library. It also matches
// [errors.ErrUnsupported] if NVIDIA ships no driver for this platform. It matches [ErrNoDevice] if
// the driver finds no device, and [errors.ErrUnsupported] if the driver is older than
// [WithMinVersion] asks for.
func Open(opts ...Option) (*Driver, error) {
	var o options
	for _, f := range opts {
		if f != nil {
			f(&o)
		}
	}
	instead := o.instead()
	if err := o.useVariable(); err != nil {
		return nil, err
	}
	d := &Driver{
		core: core.Driver{
			Access:         drivercall.Access{Hook: o.hook},
			DriverContexts: core.DriverContexts{Contexts: make(map[core.ContextKey]*core.Context)},
			Numbering:      core.Numbering{Tag: rand.Uint64()},
		},
		devices: make(map[driver.Device]*Device),
	}
	d.driverRef = core.RefTo(&d.core)
	d.core.Frames.New = func() any { return new(core.WorkFrame) }
	if o.software != nil {
		switch err := o.software(&d.core.Functions); {
		case errors.Is(err, driver.ErrNilProvider):
			return nil, drivercall.Misuse("Open", nil, ErrNil,
				"the software driver is nil: pass the result of cusim.New, or do not use WithSoftware")
		case err != nil:
			return nil, &Error{Op: "Open", Result: ResultInvalidValue, Err: err}
		}
		d.core.Name = "the software driver"
	} else {
		lib, err := loader.Open(o.path)
		if err != nil {
			e := noDriver(err)
			e.Detail += instead
			return nil, e
		}
		d.core.Table().Use(lib)
		d.core.Name, d.core.Simulated = lib.Name(), lib.Simulated()
	}
	switch res := d.core.Table().Init(driver.At{}, 0); res {
	case driver.ResultSuccess:
		if v := d.core.Table().Version(); v < o.minVersion {
			d.core.Table().Closed()
			return nil, &Error{Op: "Open", Result: ResultNotSupported, Err: errors.ErrUnsupported, Detail: fmt.Sprintf(
				"the driver supports CUDA %s, and the program needs %s: install a newer NVIDIA driver",
				driver.Version(v), driver.Version(o.minVersion))}
		}
		d.core.Opened, d.core.Since = d.core.Table().Clock().Now(), clock.Start()
		if d.core.Table().Version() < core.ContextFree {
			d.core.NeedContext.Store(1<<len(core.WorkFunctions) - 1)
		}
		d.core.InitWatch()
		d.core.Log.Begin(d.core.Table())
		return d, nil
	case driver.ResultNoDevice:
		e := d.core.ResultError("cuInit", 0, res)
		e.Err = ErrNoDevice
		if !d.core.Software() {
			e.Detail = d.noDevice() + instead
		}
		return nil, e
	default:
		return nil, d.core.ResultError("cuInit", 0, res)
	}
}

// instead returns what a program that finds no driver or no device can do, or "". A program that chooses a driver
// does not read the variable.
func (o *options) instead() string {
	switch {
	case o.path != "" || o.software != nil:
		return ""
	case driver.Registered(softDriver) == nil:
		return "; to run without a GPU, " + importAuto + " in the main package, and set " + driverVariable + "=" + softDriver
	}
	return "; to run without a GPU, set " + driverVariable + "=" + softDriver
}

// noDevice returns the remedy for a driver of NVIDIA's that finds no device.
func (d *Driver) noDevice() string {
	return fmt.Sprintf("%s loads, but finds no GPU: check that nvidia-smi lists one, %sand that CUDA_VISIBLE_DEVICES "+
		"does not hide it; "+initresult.See, d.core.Name, checkFiles())
}

// checkFiles returns a further thing to check on systems with device files.
func checkFiles() string {
	if runtime.GOOS == "windows" {
		return ""
	}
	return "that this process may open /dev/nvidia*, "
}

// noDriver returns the error of Open for an error of the loader.
func noDriver(err error) *Error {
	detail := initresult.See
	if errors.Is(err, errors.ErrUnsupported) { // there is no driver for this platform
		detail = "run the program on Linux or Windows"
	}
	return &Error{Op: "Open", Err: fmt.Errorf("%w: %w", ErrNoDriver, err), Detail: detail}
}

// open reports whether the driver came from Open.
func (d *Driver) open() bool { return d != nil && d.devices != nil }

// Close frees all objects that were abandoned, or closed while they were in use, and are not freed
// yet. It may wait for the GPU: see docs/blocking.md. It also unmaps the memory of timelines in
// contexts that were released, so close the Driver last. The leak hook gets the errors.
// [Driver.Stats] counts the objects that are left.
//
// Close does not unload the driver library, because a process cannot unload it. Open objects
// stay usable until they are closed. Close may be called again, and then does the same. If the
// Driver is never closed, objects that are not freed yet stay until the process ends.
func (d *Driver) Close() error {
	if d.open() {
		d.core.FreeDeferred(core.EveryDevice)
		d.core.UnmapSlabs()
		if !d.closed.Swap(true) {
			d.core.Table().Closed()
		}
	}
	return nil
}

// String returns the name of the library.
func (d *Driver) String() string {
	if !d.open() {
		return "no driver"
	}
	return d.core.Name
}

// Version is a version of CUDA. As a number it is in CUDA's notation, 12080 for 12.8; its String
// method returns "12.8".
type Version = driver.Version

// Version returns the newest CUDA version that the driver supports (cuDriverGetVersion).
func (d *Driver) Version() (Version, error) {
	if !d.open() {
		return 0, drivercall.NilError("cuDriverGetVersion", "driver")
	}
	v, res := d.core.Table().DriverGetVersion(driver.At{})
	if res != driver.ResultSuccess {
		return 0, d.core.ResultError("cuDriverGetVersion", 0, res)
	}
	return Version(v), nil
}

// DeviceCount returns the number of devices (cuDeviceGetCount).
func (d *Driver) DeviceCount() (int, error) {
	if !d.open() {
		return 0, drivercall.NilError("cuDeviceGetCount", "driver")
	}
	n, res := d.core.Table().DeviceGetCount(driver.At{})
	if res != driver.ResultSuccess {
		return 0, d.core.ResultError("cuDeviceGetCount", 0, res)
	}
	return int(n), nil
}

// Symbol describes one interface of a function of the driver API, and whether the driver has it.
type Symbol struct {
	// Name is the function's name in C programs.
	Name string `json:"name"`
	// Export is the library's name for this interface.
	Export string `json:"export"`
	// Since is the CUDA version that introduced the interface: 12080 is 12.8.
	Since int `json:"since"`
	// Current says that the headers of CUDA 13.0 use this interface for Name.
	Current bool `json:"current"`
	// Addr is the function's address, 0 if the driver lacks it.
	Addr uintptr `json:"-"`
	// Err says why the driver lacks the function. It matches errors.ErrUnsupported. It is nil if
	// the driver has the function.
	Err error `json:"-"`
}

// Symbols looks up every interface of every function of the driver API up to CUDA 13.4. The result is
// sorted by Export. A software driver has no symbols.
func (d *Driver) Symbols() []Symbol {
	if !d.open() {
		return nil
	}
	return symbolsOf(d.core.Table())
}

// LibrarySymbols is [Driver.Symbols] for a library that is loaded but not initialised. It needs no
// device.
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
		all[i] = Symbol{
			Name: info.Base, Export: info.Export, Since: info.Version, Current: info.Current, Addr: addr, Err: err,
		}
	}
	return all
}

// MissingError is the error of a call to a function that the driver does not have. It matches
// errors.ErrUnsupported. It names the function, the CUDA version that introduced the function, and
// the driver's version.
type MissingError = driver.MissingError

// Proc is a function of the driver. It is for functions for which this package has no method.
type Proc struct {
	drv *Driver
	sym driver.Symbol
}

// Proc looks up a function of the driver API by its name in C programs, such as
// "cuMemAllocManaged". It returns the interface that the headers of CUDA 13.0 use for this name. A
// name with a suffix, such as "cuCtxCreate_v2", selects that interface. If the driver is too old
// for the function, the error matches errors.ErrUnsupported.
func (d *Driver) Proc(name string) (Proc, error) {
	if !d.open() {
		return Proc{}, drivercall.NilError(name, "driver")
	}
	sym, ok := driver.FindSymbol(name)
	if !ok {
		m := &driver.MissingError{Symbol: name}
		return Proc{}, &Error{Op: name, Result: ResultNotFound, Err: m, Detail: remedy.OfMissing(m)}
	}
	if _, err := d.core.Table().Resolve(sym); err != nil {
		e := &Error{Op: name, Result: ResultOperatingSystem, Err: err, Detail: d.core.Remedy(name, ResultOperatingSystem)}
		if m := (*driver.MissingError)(nil); errors.As(err, &m) { // else the lookup itself failed
			e.Result, e.Detail = ResultNotSupported, remedy.OfMissing(m)
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
	a, _ := p.drv.core.Table().Resolve(p.sym)
	return a
}

// Call calls the function with up to fourteen words, and returns the function's result. The error
// is for calls that could not be made. The call is made on the goroutine's current thread.
//
// Call checks nothing, and this package's guarantees do not hold: a wrong argument crashes the
// process. An argument that is an address must be of memory that does not move and that outlives
// the call. A Go variable qualifies only if it is known to be on the heap.
func (p Proc) Call(args ...uintptr) (Result, error) {
	if p.drv == nil {
		return ResultNotFound, drivercall.NilError("Proc.Call", "function")
	}
	r, res := p.drv.core.Table().CallSymbol(driver.At{}, p.sym, args...)
	if res != driver.ResultSuccess {
		err := p.drv.core.ResultError(p.sym.Info().Export, 0, res)
		return ResultInvalidValue, err
	}
	result := Result(int32(r))
	if result != ResultSuccess {
		p.drv.core.NoteInvalidating(&Error{Op: p.sym.Info().Base, Result: result})
	}
	return result, nil
}
