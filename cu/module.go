package cu

import (
	"bytes"
	"fmt"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/codeimage"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/launch"
	"github.com/purecu/purecu/internal/loaded"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/valuename"
)

// Module is GPU code that is loaded into a context.
type Module struct {
	_ core.NoCopy
	moduleRef
}

// moduleRef is an alias, so that the field of a Module is not exported.
type moduleRef = core.Ref[loaded.ModuleUse]

// core returns the module, or nil if no call has made m.
func (m *Module) core() *loaded.Module {
	if m == nil || core.State(&m.moduleRef) == nil {
		return nil
	}
	return core.State(&m.moduleRef).Module
}

// JITOption changes how the driver compiles PTX. It has no effect on code that is compiled already.
type JITOption struct{ jitOptionValue }

// jitOptionValue is an alias, so that the field of a JITOption is not exported.
type jitOptionValue = core.Value[driver.JITOption]

// JITMaxRegisters limits the number of registers per thread: CU_JIT_MAX_REGISTERS.
func JITMaxRegisters(n uint32) JITOption {
	return JITOption{core.ValueTo(driver.JITOption{Option: driver.CU_JIT_MAX_REGISTERS, Value: uintptr(n)})}
}

// JITOptimizationLevel sets the compiler's optimization level, from 0 to 4. The default is 4:
// CU_JIT_OPTIMIZATION_LEVEL.
func JITOptimizationLevel(level uint32) JITOption {
	return JITOption{core.ValueTo(driver.JITOption{Option: driver.CU_JIT_OPTIMIZATION_LEVEL, Value: uintptr(level)})}
}

// JITLineInfo adds line numbers for profilers: CU_JIT_GENERATE_LINE_INFO.
func JITLineInfo() JITOption {
	return JITOption{core.ValueTo(driver.JITOption{Option: driver.CU_JIT_GENERATE_LINE_INFO, Value: 1})}
}

// JITDebugInfo adds information for debuggers: CU_JIT_GENERATE_DEBUG_INFO.
func JITDebugInfo() JITOption {
	return JITOption{core.ValueTo(driver.JITOption{Option: driver.CU_JIT_GENERATE_DEBUG_INFO, Value: 1})}
}

// JITVerbose makes [Module.Log] and library.Library.Log list the resources that each kernel uses:
// CU_JIT_LOG_VERBOSE.
func JITVerbose() JITOption {
	return JITOption{core.ValueTo(driver.JITOption{Option: driver.CU_JIT_LOG_VERBOSE, Value: 1})}
}

// rawOptions returns the options for the driver.
func rawOptions(opts []JITOption) (raw []driver.JITOption) {
	for _, o := range opts {
		if o != (JITOption{}) { // the zero option has no effect
			raw = append(raw, core.ValueFrom(o.jitOptionValue))
		}
	}
	return raw
}

// LoadModule loads GPU code: a cubin, a fatbin, or PTX, which the driver compiles
// (cuModuleLoadDataEx). If the driver refuses PTX, the error contains the compiler's log. It may
// wait for the GPU: see docs/blocking.md.
//
// The driver does not learn the length of the image. A binary image that is shorter than its
// headers say is refused. This package cannot detect other corruption of a binary image, which may
// crash the process. So may PTX with a mistake: driver 580 crashed at 17 of 10,000 texts with one wrong
// word, such as bar.sync.cc. Load PTX that is not trusted into the software driver first, which names
// the mistake, or load it in another process.
func (c *Context) LoadModule(image []byte, opts ...JITOption) (*Module, error) {
	const op = "cuModuleLoadDataEx"
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if wrong := codeimage.Check(image); wrong != "" {
		return nil, drivercall.BadValue(op, cc, wrong)
	}
	cc.FreeDeferred()
	// PTX is text that ends with a NUL. The binary formats have a size in their header, so the
	// additional byte does not matter.
	image = append(bytes.Clone(image), 0)
	var raw driver.Module
	var log driver.JITLog
	res, collection := cc.Allocate(func() (res driver.Result) {
		raw, log, res = cc.Drv.Table().ModuleLoadJIT(driver.At{Context: cc.Raw}, image, rawOptions(opts))
		return res
	})
	if res != driver.ResultSuccess {
		return nil, loaded.Compiled(collection.Explain(cc.CallError(op, 0, res)), log)
	}
	mc := &loaded.Module{Raw: raw, Kernels: loaded.KernelsOf(image)}
	mc.FreeWaits, mc.UsedStreams = true, new(core.StreamSet)
	m := new(Module)
	core.SetState(&m.moduleRef, &loaded.ModuleUse{Module: mc, Log: log.Info}, core.Owned(m, &mc.Resource, mc, cc))
	return m, nil
}

// LoadModuleFile loads GPU code from a file: see [Context.LoadModule]. It may wait for the GPU: see
// docs/blocking.md.
func (c *Context) LoadModuleFile(path string, opts ...JITOption) (*Module, error) {
	const op = "cuModuleLoadDataEx"
	if c.own() == nil {
		return nil, drivercall.NilError(op, "context")
	}
	return loaded.ReadImage(op, c.own().Context, path,
		func(image []byte) (*Module, error) { return c.LoadModule(image, opts...) })
}

// Log returns the log of the driver's compiler for the module's PTX, "" if it is empty: see
// [JITVerbose].
func (m *Module) Log() string {
	if m.core() == nil {
		return ""
	}
	return core.State(&m.moduleRef).Log
}

// Close waits until the module's kernels have run, as the driver does for all work in the context,
// and unloads the module (cuModuleUnload). If calls that enqueue work are in flight on a stream on
// which a kernel was launched, or memory that [Module.Global] returned is open, or such a stream is
// being captured, Close returns at once, and the next freeing call unloads the module: see
// docs/blocking.md. Further calls return nil. A module of a library.Library stays loaded.
func (m *Module) Close() error {
	if m.core() == nil {
		return drivercall.NilError("cuModuleUnload", "module")
	}
	return m.core().CloseOwned("Module.Close", core.CleanupOf(&m.moduleRef))
}

// Handle returns the CUmodule, for code that calls the driver without this package. It is valid
// until the Module is closed or collected. For a nil or closed Module it is 0.
func (m *Module) Handle() uintptr {
	if m.core() == nil || m.core().Closed() {
		return 0
	}
	return uintptr(m.core().Raw)
}

// Global returns the memory of a variable of the module (cuModuleGetGlobal). Close of that memory
// frees nothing: the module owns the variable, and stays loaded until the memory is closed.
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func (m *Module) Global(name string) (*DeviceMem, error) {
	const op = "cuModuleGetGlobal"
	if m.core() == nil {
		return nil, drivercall.NilError(op, "module")
	}
	mc := m.core()
	if err := mc.Enter(mc, op); err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(m)
	var size uint64
	// it may load the module now
	raw, res, collection := core.Allocated(mc.Ctx, func() (raw driver.DevicePtr, res driver.Result) {
		raw, size, res = mc.Ctx.Drv.Table().ModuleGetGlobal(driver.At{Context: mc.Ctx.Raw}, mc.Raw, name)
		return raw, res
	})
	if res != driver.ResultSuccess {
		err := collection.Explain(mc.NotFound(op, "variable", name, res))
		mc.EndCall()
		return nil, err
	}
	// The memory now owns the call in flight.
	return newDeviceMem(mc.Ctx, &memstate.Mem{Is: loaded.ModuleVariable, Raw: raw, Size: size, Module: mc}), nil
}

// Function is a kernel of a module. It keeps the module loaded until the module is closed.
type Function struct{ functionValue }

// functionValue is an alias, so that the field of a Function is not exported.
type functionValue = core.Value[launch.Function]

// core returns the kernel for a launch, or nil for nil.
func (f *Function) core() *launch.Function {
	if f == nil {
		return nil
	}
	return core.ValueIn(&f.functionValue)
}

// Function returns the kernel with this name (cuModuleGetFunction).
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func (m *Module) Function(name string) (*Function, error) {
	const op = "cuModuleGetFunction"
	if m.core() == nil {
		return nil, drivercall.NilError(op, "module")
	}
	f := new(Function)
	var err error
	*f.core(), err = launch.Find(op, m.core(), m, name,
		func(t *driver.Table, at driver.At) (driver.Function, driver.Result) {
			return t.ModuleGetFunction(at, m.core().Raw, name)
		})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Name returns the kernel's name, "" for nil.
func (f *Function) Name() string {
	if f == nil {
		return ""
	}
	return f.core().Name
}

// Params returns the sizes of the kernel's parameters in bytes. known is false if the driver is
// older than CUDA 12.4 and there is no PTX in the module. Then the arguments of launches are not checked.
func (f *Function) Params() (sizes []uint64, known bool) {
	if f == nil {
		return nil, false
	}
	for _, p := range f.core().Params {
		sizes = append(sizes, uint64(p.Size))
	}
	return sizes, f.core().Known
}

// Handle returns the CUfunction, for code that calls the driver without this package. It is valid
// until the Module is closed or collected. For a nil Function or a closed Module it is 0.
func (f *Function) Handle() uintptr {
	if f == nil || f.core().Mod == nil || f.core().Mod.Closed() {
		return 0
	}
	return uintptr(f.core().Raw)
}

// FunctionAttribute is a property of a kernel.
type FunctionAttribute int32

// String returns the attribute's name in lower case.
func (a FunctionAttribute) String() string { return valuename.Of(namesFunctionAttribute[:], int32(a)) }

// Attribute returns a property of the kernel (cuFuncGetAttribute). Sizes are in bytes. A version is
// a number such as 90 for compute capability 9.0.
func (f *Function) Attribute(a FunctionAttribute) (int, error) {
	const op = "cuFuncGetAttribute"
	if a < 0 {
		return 0, launch.UnknownAttribute(op, f.core().Object(), int32(a))
	}
	v, err := askFunction(f, op, func(t *driver.Table, at driver.At) (int32, driver.Result) {
		return t.FuncGetAttribute(at, int32(a), f.core().Raw)
	})
	return int(v), err
}

// SetAttribute sets a property of the kernel, such as the maximum dynamic shared memory of a launch
// (cuFuncSetAttribute).
func (f *Function) SetAttribute(a FunctionAttribute, value int) error {
	const op = "cuFuncSetAttribute"
	if a < 0 {
		return launch.UnknownAttribute(op, f.core().Object(), int32(a)) // the driver would read invalid memory
	}
	if int(int32(value)) != value {
		return drivercall.BadValue(op, f.core().Object(),
			fmt.Sprintf("%d does not fit into 32 bits: check the attribute's unit", value))
	}
	_, err := askFunction(f, op, func(t *driver.Table, at driver.At) (struct{}, driver.Result) {
		return struct{}{}, t.FuncSetAttribute(at, f.core().Raw, int32(a), int32(value))
	})
	return err
}

// MaxActiveBlocks returns how many blocks can run on one multiprocessor at the same time, each with
// this number of threads and sharedMem bytes of dynamic shared memory
// (cuOccupancyMaxActiveBlocksPerMultiprocessor).
func (f *Function) MaxActiveBlocks(threads int, sharedMem uint64) (int, error) {
	const op = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
	if int(int32(threads)) != threads || threads <= 0 {
		return 0, drivercall.BadValue(op, f.core().Object(),
			fmt.Sprintf("a block cannot have %d threads: ask for 1 to 1024", threads))
	}
	n, err := askFunction(f, op, func(t *driver.Table, at driver.At) (int32, driver.Result) {
		return t.OccupancyMaxActiveBlocksPerMultiprocessor(at, f.core().Raw, int32(threads), sharedMem)
	})
	return int(n), err
}

// SuggestBlockSize returns the number of threads per block with which the kernel reaches the best
// occupancy, and the smallest number of blocks that does so (cuOccupancyMaxPotentialBlockSize).
// Each block has sharedMem bytes of dynamic shared memory. limit is the maximum number of threads;
// 0 is no limit. If no block has so much shared memory, both results are 0.
func (f *Function) SuggestBlockSize(sharedMem uint64, limit int) (blocks, threads int, err error) {
	const op = "cuOccupancyMaxPotentialBlockSize"
	if int(int32(limit)) != limit || limit < 0 {
		return 0, 0, drivercall.BadValue(op, f.core().Object(),
			fmt.Sprintf("a block cannot be limited to %d threads: 0 stands for no limit", limit))
	}
	n, err := askFunction(f, op, func(t *driver.Table, at driver.At) ([2]int32, driver.Result) {
		b, th, res := t.OccupancyMaxPotentialBlockSize(at, f.core().Raw, 0, sharedMem, int32(limit))
		return [2]int32{b, th}, res
	})
	return int(n[0]), int(n[1]), err
}

// Load loads the kernel's code to the device now (cuFuncLoad, CUDA 12.4). Otherwise the driver may
// load it at the first launch, which then takes longer. It may wait for the GPU: see
// docs/blocking.md.
func (f *Function) Load() error {
	const op = "cuFuncLoad"
	load := func() error {
		_, err := askFunction(f, op, func(t *driver.Table, at driver.At) (struct{}, driver.Result) {
			return struct{}{}, t.FuncLoad(at, f.core().Raw)
		})
		return err
	}
	err := load()
	if core.LacksMemory(op, err) != nil {
		err = f.core().Mod.Ctx.FreeAndRetry(op, err, load)
	}
	return err
}

// Loaded reports whether the kernel's code is on the device: see [Function.Load] (cuFuncIsLoaded,
// CUDA 12.4).
func (f *Function) Loaded() (bool, error) {
	state, err := askFunction(f, "cuFuncIsLoaded", func(t *driver.Table, at driver.At) (int32, driver.Result) {
		return t.FuncIsLoaded(at, f.core().Raw)
	})
	return state == driver.CU_FUNCTION_LOADING_STATE_LOADED, err
}

// askFunction calls the driver about a kernel, in the kernel's context.
func askFunction[T any](f *Function, op string,
	call func(t *driver.Table, at driver.At) (T, driver.Result)) (v T, err error) {
	if f == nil || f.core().Mod == nil {
		return v, drivercall.NilError(op, "function")
	}
	mc := f.core().Mod
	if err := mc.Enter(mc, op); err != nil {
		return v, err
	}
	defer runtime.KeepAlive(f)
	defer mc.EndCall()
	v, res := call(mc.Ctx.Drv.Table(), driver.At{Context: mc.Ctx.Raw})
	if res != driver.ResultSuccess {
		var zero T
		return zero, mc.Ctx.CallError(op, uintptr(f.core().Raw), res)
	}
	return v, nil
}
