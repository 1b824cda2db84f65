package library

import (
	"bytes"
	"fmt"
	"runtime"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/codeimage"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/launch"
	"github.com/purecu/purecu/internal/loaded"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/subject"
)

// Library is GPU code for all contexts and devices of a driver (CUlibrary, CUDA 12.0).
// [Library.Kernel] and [Kernel.Function] return its kernels. It is safe for concurrent use.
type Library struct {
	_       core.NoCopy
	core    *loaded.Library
	cleanup runtime.Cleanup
}

// Load loads GPU code for all contexts: a cubin, a fatbin, or PTX (cuLibraryLoadData, CUDA
// 12.0). It needs no context. The driver compiles PTX, but reports mistakes in the code when the
// library is first used: the errors of [Library.Kernel] and others then contain the compiler's log.
//
// What [cu.Context.LoadModule] says of images that may crash the process applies.
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func Load(d *cu.Driver, image []byte, opts ...cu.JITOption) (*Library, error) {
	const op = "cuLibraryLoadData"
	dc := subject.Driver(d)
	if dc == nil {
		return nil, drivercall.NilError(op, "driver")
	}
	if wrong := codeimage.Check(image); wrong != "" {
		return nil, drivercall.BadValue(op, nil, wrong)
	}
	image = append(bytes.Clone(image), 0) // see LoadModule; the driver copies it
	var raw driver.LibraryHandle
	var jit *driver.JITBuffers
	res, collection := dc.Allocate(core.EveryDevice, func() (res driver.Result) {
		raw, jit, res = dc.Table().LibraryLoadJIT(driver.At{}, image, subject.JITOptions(opts))
		return res
	})
	if res != driver.ResultSuccess {
		return nil, loaded.Compiled(collection.Explain(dc.ResultError(op, 0, res)), jit.Log())
	}
	lc := &loaded.Library{Drv: dc, Raw: raw, Kernels: loaded.KernelsOf(image), Jit: jit}
	l := &Library{core: lc}
	l.cleanup = runtime.AddCleanup(l, (*loaded.Library).Forgotten, lc)
	return l, nil
}

// LoadFile loads GPU code from a file: see [Load].
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func LoadFile(d *cu.Driver, path string, opts ...cu.JITOption) (*Library, error) {
	const op = "cuLibraryLoadData"
	if subject.Driver(d) == nil {
		return nil, drivercall.NilError(op, "driver")
	}
	return loaded.ReadImage(op, nil, path, func(image []byte) (*Library, error) { return Load(d, image, opts...) })
}

// enter begins a call on the library. leave ends it.
func (l *Library) enter(op string) (*loaded.Library, error) {
	if l == nil || l.core == nil {
		return nil, drivercall.NilError(op, "library")
	}
	return l.core, l.core.Enter(l.core, op)
}

func (l *Library) leave() {
	l.core.EndCall()
	runtime.KeepAlive(l)
}

// Log returns the log of the driver's compiler for the library's PTX, "" if it is empty: see
// [cu.JITVerbose].
func (l *Library) Log() string {
	if l == nil || l.core == nil {
		return ""
	}
	return l.core.Jit.Log().Info
}

// Close unloads the library and closes what was made of it (cuLibraryUnload). It waits until the
// kernels have run, as the driver does for all work in the contexts that have used the library. If
// calls that enqueue work are in flight on a stream where a kernel was launched, or memory that
// [cu.Module.Global] returned is open, or such a stream is being captured, Close returns at once, and
// the next freeing call unloads the library: see docs/blocking.md. Further calls return nil.
func (l *Library) Close() error {
	if l == nil || l.core == nil {
		return drivercall.NilError("cuLibraryUnload", "library")
	}
	l.cleanup.Stop()
	err := l.core.CloseModules()
	l.core.Drv.FreeLibraries()
	return err
}

// Handle returns the CUlibrary, for code that calls the driver without this package. It is valid
// until the Library is closed or collected. For a nil or closed Library it is 0.
func (l *Library) Handle() uintptr {
	if l == nil || l.core == nil || l.core.Closed() {
		return 0
	}
	return uintptr(l.core.Raw)
}

// Module returns the library's kernels and variables in a context (cuLibraryGetModule). Each context
// has its own variables. Close of the Module unloads nothing, and Close of the Library also closes the
// Module. It may wait for the GPU, as the driver does when it loads the library into the context: see
// docs/blocking.md.
func (l *Library) Module(c *cu.Context) (*cu.Module, error) { return l.module("cuLibraryGetModule", c) }

// module is Module for the call named op.
func (l *Library) module(op string, c *cu.Context) (*cu.Module, error) {
	lc, err := l.enter(op)
	if err != nil {
		return nil, err
	}
	defer l.leave()
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	if cc.Drv != lc.Drv {
		return nil, drivercall.Misuse(op, lc, cu.ErrDriverMismatch,
			"the context and the library are of two drivers: open one driver and share it")
	}
	cc.FreeDeferred()
	raw, res, collection := core.Allocated(cc, func() (driver.Module, driver.Result) {
		return cc.Drv.Table().LibraryGetModule(driver.At{Context: cc.Raw}, lc.Raw)
	})
	if res != driver.ResultSuccess {
		return nil, lc.Compiled(collection.Explain(cc.CallError("cuLibraryGetModule", uintptr(lc.Raw), res)))
	}
	mc := &loaded.Module{Raw: raw, Kernels: lc.Kernels}
	mc.UsedStreams = new(core.StreamSet)
	lc.Adopt(mc, cc)
	return subject.NewModule(&loaded.ModuleUse{Module: mc, Keeps: l}), nil
}

// Managed returns a managed variable of the library, which the host can use, too. It is the same for all
// contexts. The HostMem is for streams of c, where the library is loaded before. Close of it frees nothing:
// the variable is freed with the library, which stays loaded until the HostMem is closed
// (cuLibraryGetManaged, CUDA 12.0). It may wait for the GPU, like [Library.Module]: see docs/blocking.md.
func (l *Library) Managed(c *cu.Context, name string) (*cu.HostMem, error) {
	const op = "cuLibraryGetManaged"
	m, err := l.module(op, c)
	if err != nil {
		return nil, err
	}
	mc := subject.Module(m)
	if err := mc.Enter(mc, op); err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(m)
	var size uint64
	raw, res, collection := core.Allocated(mc.Ctx, func() (raw driver.DevicePtr, res driver.Result) {
		raw, size, res = mc.Ctx.Drv.Table().LibraryGetManaged(driver.At{Context: mc.Ctx.Raw}, l.core.Raw, name)
		return raw, res
	})
	if res != driver.ResultSuccess {
		err := collection.Explain(mc.NotFound(op, "managed variable", name, res))
		mc.EndCall()
		return nil, err
	}
	// The memory now owns the call in flight.
	return subject.NewHostMem(mc.Ctx,
		&memstate.Mem{Is: loaded.ManagedVariable, Raw: raw, Host: driver.HostPtr(raw), Size: size, Module: mc}), nil
}

// Kernel is a kernel of a library, for all contexts (CUkernel). [Kernel.Function] is what a context
// launches. A Kernel keeps the Library from being collected, but not from being closed.
type Kernel struct {
	lib  *Library
	raw  driver.Kernel
	name string
}

// object returns what errors say of the kernel.
func (k *Kernel) object() drivercall.Named {
	if k == nil {
		return core.StandIn{ItsKind: "kernel"}
	}
	return core.StandIn{ItsKind: "kernel", Raw: uintptr(k.raw)}
}

// Kernel returns the kernel with this name (cuLibraryGetKernel).
func (l *Library) Kernel(name string) (*Kernel, error) {
	const op = "cuLibraryGetKernel"
	lc, err := l.enter(op)
	if err != nil {
		return nil, err
	}
	defer l.leave()
	raw, res := lc.Drv.Table().LibraryGetKernel(driver.At{}, lc.Raw, name)
	switch {
	case res == driver.ResultNotFound:
		return nil, drivercall.NewError(op, lc, res, nil,
			loaded.NoName("library", loaded.KernelKind, name)+loaded.Listed(name, l.names()))
	case res != driver.ResultSuccess:
		return nil, lc.Compiled(lc.Drv.ResultError(op, uintptr(lc.Raw), res))
	}
	return &Kernel{l, raw, name}, nil
}

// names returns the names of the library's kernels, or nothing if they are not known.
func (l *Library) names() (names []string) {
	kernels, _ := l.Kernels() // fails before CUDA 12.4
	for _, k := range kernels {
		names = append(names, k.name)
	}
	return names
}

// Kernels returns all kernels of the library, in no particular order (cuLibraryEnumerateKernels, CUDA
// 12.4).
func (l *Library) Kernels() ([]*Kernel, error) {
	const op = "cuLibraryEnumerateKernels"
	lc, err := l.enter(op)
	if err != nil {
		return nil, err
	}
	defer l.leave()
	t := lc.Drv.Table()
	n, res := t.LibraryGetKernelCount(driver.At{}, lc.Raw)
	if res != driver.ResultSuccess {
		return nil, lc.Compiled(lc.Drv.ResultError("cuLibraryGetKernelCount", uintptr(lc.Raw), res))
	}
	raw := make([]driver.Kernel, n)
	if res = t.LibraryEnumerateKernels(driver.At{}, raw, lc.Raw); res != driver.ResultSuccess {
		return nil, lc.Compiled(lc.Drv.ResultError(op, uintptr(lc.Raw), res))
	}
	kernels := make([]*Kernel, n)
	for i, k := range raw {
		name, res := t.KernelGetName(driver.At{}, k)
		if res != driver.ResultSuccess {
			return nil, lc.Drv.ResultError("cuKernelGetName", uintptr(k), res)
		}
		kernels[i] = &Kernel{l, k, name}
	}
	return kernels, nil
}

// Name returns the kernel's name, "" for nil.
func (k *Kernel) Name() string {
	if k == nil {
		return ""
	}
	return k.name
}

// Library returns the library of the kernel, nil for nil.
func (k *Kernel) Library() *Library {
	if k == nil {
		return nil
	}
	return k.lib
}

// Handle returns the CUkernel, for code that calls the driver without this package. It is valid until
// the Library is closed or collected. For a nil Kernel or a closed Library it is 0.
func (k *Kernel) Handle() uintptr {
	if k == nil || k.lib.Handle() == 0 {
		return 0
	}
	return uintptr(k.raw)
}

// Function returns the kernel for launches in a context (cuKernelGetFunction). Keep it, as each call
// asks the driver. It may wait for the GPU, like [Library.Module]: see docs/blocking.md. The Function
// is closed with the Library.
func (k *Kernel) Function(c *cu.Context) (*cu.Function, error) {
	const op = "cuKernelGetFunction"
	if k == nil || k.lib == nil {
		return nil, drivercall.NilError(op, "kernel")
	}
	m, err := k.lib.module(op, c)
	if err != nil {
		return nil, err
	}
	fn, err := launch.Find(op, subject.Module(m), m, k.name,
		func(t *driver.Table, at driver.At) (driver.Function, driver.Result) {
			return t.KernelGetFunction(at, k.raw)
		})
	if err != nil {
		return nil, err
	}
	return subject.NewFunction(fn), nil
}

// Attribute returns a property of the kernel on a device (cuKernelGetAttribute). Sizes are in bytes.
func (k *Kernel) Attribute(dev *cu.Device, a cu.FunctionAttribute) (int, error) {
	const op = "cuKernelGetAttribute"
	var v int32
	err := k.attribute(op, dev, a, func(t *driver.Table) (res driver.Result) {
		v, res = t.KernelGetAttribute(driver.At{}, int32(a), k.raw, subject.Device(dev).Raw)
		return res
	})
	if err != nil {
		return 0, err
	}
	return int(v), nil
}

// SetAttribute sets a property of the kernel in all contexts of a device (cuKernelSetAttribute), except
// in those where [cu.Function.SetAttribute] has set it. It may wait for the GPU, as the driver does when it
// loads the library: see docs/blocking.md.
func (k *Kernel) SetAttribute(dev *cu.Device, a cu.FunctionAttribute, value int) error {
	const op = "cuKernelSetAttribute"
	if int(int32(value)) != value {
		return drivercall.BadValue(op, k.object(),
			fmt.Sprintf("%d does not fit into 32 bits: check the attribute's unit", value))
	}
	return k.attribute(op, dev, a, func(t *driver.Table) driver.Result {
		return t.KernelSetAttribute(driver.At{}, int32(a), int32(value), k.raw, subject.Device(dev).Raw)
	})
}

// attribute makes a call about an attribute of the kernel.
func (k *Kernel) attribute(op string, dev *cu.Device, a cu.FunctionAttribute,
	call func(*driver.Table) driver.Result) error {
	switch {
	case k == nil || k.lib == nil:
		return drivercall.NilError(op, "kernel")
	case subject.Device(dev) == nil:
		return drivercall.NilArgError(op, k.object(), "device")
	case subject.Device(dev).Drv != k.lib.core.Drv:
		return drivercall.Misuse(op, k.object(), cu.ErrDriverMismatch,
			"the device and the library are of two drivers: open one driver and share it")
	case a < 0:
		return launch.UnknownAttribute(op, k.object(), int32(a))
	}
	lc, err := k.lib.enter(op)
	if err != nil {
		return err
	}
	defer k.lib.leave()
	if res := call(lc.Drv.Table()); res != driver.ResultSuccess {
		return lc.Drv.ResultError(op, uintptr(k.raw), res)
	}
	return nil
}
