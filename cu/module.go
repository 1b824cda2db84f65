package cu

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx"
)

// Module is GPU code that was loaded into a context.
type Module struct {
	_       noCopy
	core    *moduleCore
	log     string
	cleanup runtime.Cleanup
}

type moduleCore struct {
	resource
	raw driver.Module
	// ptx is the text of the module, if it is needed to find the parameters of
	// its kernels: if the driver cannot tell them.
	ptx []byte
}

func (mc *moduleCore) kind() string    { return "module" }
func (mc *moduleCore) handle() uintptr { return uintptr(mc.raw) }

func (mc *moduleCore) free(at driver.At) (string, driver.Result) {
	at.Context = mc.ctx.raw
	return "cuModuleUnload", mc.ctx.drv.table.ModuleUnload(at, mc.raw)
}

// JITOption changes how the driver compiles PTX. Options mean nothing for code
// that is compiled already.
type JITOption struct{ raw driver.JITOption }

// JITMaxRegisters limits the registers of a thread: CU_JIT_MAX_REGISTERS.
func JITMaxRegisters(n uint32) JITOption {
	return JITOption{driver.JITOption{Option: driver.CU_JIT_MAX_REGISTERS, Value: uintptr(n)}}
}

// JITOptimizationLevel chooses how much the compiler optimises, from 0 to 4,
// which is the default: CU_JIT_OPTIMIZATION_LEVEL.
func JITOptimizationLevel(level uint32) JITOption {
	return JITOption{driver.JITOption{Option: driver.CU_JIT_OPTIMIZATION_LEVEL, Value: uintptr(level)}}
}

// JITLineInfo adds line numbers for profilers: CU_JIT_GENERATE_LINE_INFO.
func JITLineInfo() JITOption {
	return JITOption{driver.JITOption{Option: driver.CU_JIT_GENERATE_LINE_INFO, Value: 1}}
}

// JITDebugInfo adds what debuggers need: CU_JIT_GENERATE_DEBUG_INFO.
func JITDebugInfo() JITOption {
	return JITOption{driver.JITOption{Option: driver.CU_JIT_GENERATE_DEBUG_INFO, Value: 1}}
}

// JITVerbose makes [Module.Log] say what each kernel uses: CU_JIT_LOG_VERBOSE.
func JITVerbose() JITOption {
	return JITOption{driver.JITOption{Option: driver.CU_JIT_LOG_VERBOSE, Value: 1}}
}

// LoadModule loads GPU code: PTX, which the driver compiles, a cubin or a
// fatbin (cuModuleLoadDataEx). If the driver refuses PTX, the error holds what its
// compiler said. The driver is not told how long the image is: a binary image
// that is shorter than its own headers say is refused, but one that is corrupt
// elsewhere is outside of what this package can make safe. It may wait for the GPU: see docs/blocking.md.
func (c *Context) LoadModule(image []byte, opts ...JITOption) (*Module, error) {
	const op = "cuModuleLoadDataEx"
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if err := checkImage(image); err != nil {
		return nil, err
	}
	core.freeDeferred()
	var options []driver.JITOption
	for _, o := range opts {
		if o != (JITOption{}) { // it changes nothing
			options = append(options, o.raw)
		}
	}
	// PTX is text that ends with a NUL. One byte more does no harm to the
	// binary formats, which know their own size.
	image = append(bytes.Clone(image), 0)
	raw, log, res := core.drv.table.ModuleLoadJIT(driver.At{Context: core.raw}, image, options)
	if res != driver.ResultSuccess {
		e := core.fail(op, 0, res)
		if log.Error != "" {
			e.Detail = join("the compiler says:\n\t"+strings.ReplaceAll(log.Error, "\n", "\n\t"), e.Detail)
		}
		return nil, e
	}
	mc := &moduleCore{raw: raw}
	mc.waits, mc.usage = true, new(usage)
	// A software driver's version does not say whether it has the function.
	if isPTX(image) && (core.drv.table.Software() || !core.drv.has("cuFuncGetParamInfo")) {
		mc.ptx = image
	}
	m := &Module{core: mc, log: log.Info}
	m.cleanup = owned(m, &mc.resource, mc, core)
	return m, nil
}

// LoadModuleFile loads GPU code from a file; see [Context.LoadModule]. It may wait for the GPU: see docs/blocking.md.
func (c *Context) LoadModuleFile(path string, opts ...JITOption) (*Module, error) {
	const op = "cuModuleLoadDataEx"
	if c == nil || c.own == nil {
		return nil, errNil(op, "context")
	}
	image, err := readImage(path)
	if err != nil {
		return nil, &Error{Op: op, Result: ResultFileNotFound, Err: err, Detail: "the file with the GPU code cannot be read"}
	}
	m, err := c.LoadModule(image, opts...)
	if e, ok := err.(*Error); ok {
		e.Detail = join("file "+path, e.Detail)
	}
	return m, err
}

// Log returns what the driver's compiler said when it compiled the module's PTX,
// "" if nothing; see [JITVerbose].
func (m *Module) Log() string {
	if m == nil {
		return ""
	}
	return m.log
}

// Close unloads the module (cuModuleUnload) when its kernels have run, for which it waits, as the driver does for
// all work in the context. If launches are in flight, or memory that [Module.Global] returned is still open, or a
// stream that a kernel was launched on is being captured, Close returns at once, and the module is unloaded by the
// next call that may wait: see [DeviceMem.Close] and docs/blocking.md. Further calls return nil.
func (m *Module) Close() error {
	if m == nil || m.core == nil {
		return errNil("cuModuleUnload", "module")
	}
	return m.core.closeOwned(m.cleanup)
}

// Handle lends the CUmodule to code that calls the driver in another way. It is
// good until the Module is closed or collected. For a nil or a closed Module it
// is 0.
func (m *Module) Handle() uintptr {
	if m == nil || m.core == nil || m.core.Closed() {
		return 0
	}
	return uintptr(m.core.raw)
}

// Global returns the memory of a variable of the module (cuModuleGetGlobal).
// Closing it frees nothing: the variable goes with its module, which stays loaded
// until the memory is closed.
func (m *Module) Global(name string) (*DeviceMem, error) {
	const op = "cuModuleGetGlobal"
	if m == nil || m.core == nil {
		return nil, errNil(op, "module")
	}
	mc := m.core
	if err := mc.Enter(mc, op); err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(m)
	raw, size, res := mc.ctx.drv.table.ModuleGetGlobal(driver.At{Context: mc.ctx.raw}, mc.raw, name)
	if res != driver.ResultSuccess {
		err := mc.notFound(op, "variable", name, res)
		mc.leave()
		return nil, err
	}
	// The memory takes the call in flight over.
	return newDeviceMem(mc.ctx, &memCore{is: moduleVariable, raw: raw, size: size, module: mc}), nil
}

// notFound returns the error for a name that the driver did not look up.
func (mc *moduleCore) notFound(op, what, name string, res driver.Result) error {
	if res == driver.ResultNotFound {
		return &Error{Op: op, Result: res, Handle: uintptr(mc.raw), Detail: fmt.Sprintf(
			"the module has no %s named %q: C++ names are mangled unless they are declared extern \"C\"", what, name)}
	}
	return mc.ctx.fail(op, uintptr(mc.raw), res)
}

// Function is a kernel of a module. It keeps the module loaded until the module
// is closed.
type Function struct {
	mod  *Module
	raw  driver.Function
	name string
	// params are the sizes of the parameters in bytes; known says whether
	// anybody could tell.
	params []uint64
	known  bool
}

// Function returns the kernel with the given name (cuModuleGetFunction).
func (m *Module) Function(name string) (*Function, error) {
	const op = "cuModuleGetFunction"
	if m == nil || m.core == nil {
		return nil, errNil(op, "module")
	}
	mc := m.core
	if err := mc.Enter(mc, op); err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(m)
	defer mc.leave()
	at := driver.At{Context: mc.ctx.raw}
	raw, res := mc.ctx.drv.table.ModuleGetFunction(at, mc.raw, name)
	if res != driver.ResultSuccess {
		return nil, mc.notFound(op, "kernel", name, res)
	}
	f := &Function{mod: m, raw: raw, name: name}
	if err := f.findParams(at); err != nil {
		return nil, err
	}
	return f, nil
}

// findParams finds the sizes of the kernel's parameters: the driver tells them,
// or else the module's text does.
func (f *Function) findParams(at driver.At) error {
	const op = "cuFuncGetParamInfo"
	// A kernel has at most this many bytes of parameters. The bound is for a
	// driver that answers nonsense.
	const limit = 32764
	ctx := f.mod.core.ctx
	for i := range uint64(limit + 1) {
		_, size, res := ctx.drv.table.FuncGetParamInfo(at, f.raw, i)
		switch {
		case res == driver.ResultInvalidValue: // there is no such parameter
			f.known = true
			return nil
		case ctx.drv.table.Missing(res) != nil: // before CUDA 12.4
			f.params, f.known = ptx.Kernels(f.mod.core.ptx)[f.name]
			return nil
		case res != driver.ResultSuccess:
			return ctx.fail(op, uintptr(f.raw), res)
		}
		f.params = append(f.params, size)
	}
	return &Error{Op: op, Result: ResultUnknown, Handle: uintptr(f.raw), Detail: "the driver lists more parameters than a kernel can have"}
}

// Name returns the kernel's name, "" for nil.
func (f *Function) Name() string {
	if f == nil {
		return ""
	}
	return f.name
}

// Params returns the sizes of the kernel's parameters in bytes. known is false
// if nobody could tell them: if the driver is older than CUDA 12.4 and the module
// is not PTX. Then launches are not checked.
func (f *Function) Params() (sizes []uint64, known bool) {
	if f == nil {
		return nil, false
	}
	return append([]uint64(nil), f.params...), f.known
}

// Handle lends the CUfunction to code that calls the driver in another way. It is
// good until the Module is closed or collected. For nil, and once the Module is
// closed, it is 0.
func (f *Function) Handle() uintptr {
	if f == nil || f.mod == nil || f.mod.core.Closed() {
		return 0
	}
	return uintptr(f.raw)
}

// FunctionAttribute is a property of a kernel.
type FunctionAttribute int32

// String returns the attribute's name in lower case.
func (a FunctionAttribute) String() string { return nameOf(namesFunctionAttribute[:], int32(a)) }

// Attribute returns a property of the kernel: sizes are in bytes, versions such
// as 90 for compute capability 9.0 (cuFuncGetAttribute).
func (f *Function) Attribute(a FunctionAttribute) (int, error) {
	v, err := askFunction(f, "cuFuncGetAttribute", func(t *driver.Table, at driver.At) (int32, driver.Result) {
		return t.FuncGetAttribute(at, int32(a), f.raw)
	})
	return int(v), err
}

// SetAttribute sets a property of the kernel, such as how much dynamic shared
// memory a launch may ask for (cuFuncSetAttribute).
func (f *Function) SetAttribute(a FunctionAttribute, value int) error {
	const op = "cuFuncSetAttribute"
	if int(int32(value)) != value {
		return invalid(op, fmt.Sprintf("%d does not fit into 32 bits: check the attribute's unit", value))
	}
	_, err := askFunction(f, op, func(t *driver.Table, at driver.At) (struct{}, driver.Result) {
		return struct{}{}, t.FuncSetAttribute(at, f.raw, int32(a), int32(value))
	})
	return err
}

// MaxActiveBlocks returns how many blocks of the given number of threads, each
// with so many bytes of dynamic shared memory, can run on one multiprocessor at
// a time (cuOccupancyMaxActiveBlocksPerMultiprocessor).
func (f *Function) MaxActiveBlocks(threads int, sharedMem uint64) (int, error) {
	const op = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
	if int(int32(threads)) != threads || threads <= 0 {
		return 0, invalid(op, fmt.Sprintf("a block cannot have %d threads: ask for 1 to 1024", threads))
	}
	n, err := askFunction(f, op, func(t *driver.Table, at driver.At) (int32, driver.Result) {
		return t.OccupancyMaxActiveBlocksPerMultiprocessor(at, f.raw, int32(threads), sharedMem)
	})
	return int(n), err
}

// SuggestBlockSize returns the number of threads in a block with which the kernel
// can occupy the device best, each block with so many bytes of dynamic shared
// memory, and how many blocks that takes at least. limit bounds the number of
// threads; 0 is no limit (cuOccupancyMaxPotentialBlockSize).
func (f *Function) SuggestBlockSize(sharedMem uint64, limit int) (blocks, threads int, err error) {
	const op = "cuOccupancyMaxPotentialBlockSize"
	if int(int32(limit)) != limit || limit < 0 {
		return 0, 0, invalid(op, fmt.Sprintf("a block cannot be limited to %d threads: 0 stands for no limit", limit))
	}
	n, err := askFunction(f, op, func(t *driver.Table, at driver.At) ([2]int32, driver.Result) {
		b, th, res := t.OccupancyMaxPotentialBlockSize(at, f.raw, sharedMem, int32(limit))
		return [2]int32{b, th}, res
	})
	return int(n[0]), int(n[1]), err
}

// askFunction makes a call about a kernel, in its context.
func askFunction[T any](f *Function, op string, call func(t *driver.Table, at driver.At) (T, driver.Result)) (v T, err error) {
	if f == nil || f.mod == nil {
		return v, errNil(op, "function")
	}
	mc := f.mod.core
	if err := mc.Enter(mc, op); err != nil {
		return v, err
	}
	defer runtime.KeepAlive(f)
	defer mc.leave()
	v, res := call(mc.ctx.drv.table, driver.At{Context: mc.ctx.raw})
	if res != driver.ResultSuccess {
		var zero T
		return zero, mc.ctx.fail(op, uintptr(f.raw), res)
	}
	return v, nil
}
