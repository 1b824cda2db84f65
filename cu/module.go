package cu

import (
	"bytes"
	"runtime"

	"github.com/purecu/purecu/internal/driver"
)

// Module is GPU code that was loaded into a context.
type Module struct {
	_       noCopy
	core    *resource[driver.Module]
	cleanup runtime.Cleanup
}

// LoadModule loads GPU code: PTX, which the driver compiles, a cubin or a
// fatbin (cuModuleLoadData). The driver is not told how long the image is: a
// binary image that is shorter than its own headers say is refused, but one
// that is corrupt elsewhere is outside of what this package can make safe.
func (c *Context) LoadModule(image []byte) (*Module, error) {
	const op = "cuModuleLoadData"
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if err := checkImage(image); err != nil {
		return nil, err
	}
	// PTX is text that ends with a NUL. One byte more does no harm to the
	// binary formats, which know their own size.
	raw, res := core.drv.table.ModuleLoadData(driver.At{Context: core.raw}, append(bytes.Clone(image), 0))
	if res != driver.ResultSuccess {
		return nil, core.fail(op, 0, res)
	}
	m := &Module{core: new(resource[driver.Module])}
	m.cleanup = owned(m, m.core, core, raw)
	return m, nil
}

// Close unloads the module (cuModuleUnload), which may wait for kernels that
// run. If launches are in flight it is unloaded after them, in the background.
// Further calls return nil.
func (m *Module) Close() error {
	if m == nil || m.core == nil {
		return errNil("cuModuleUnload", "module")
	}
	return m.core.closeOwned(m.cleanup)
}

// Function is a kernel of a module. It keeps the module loaded until the module
// is closed.
type Function struct {
	mod  *Module
	raw  driver.Function
	name string
	// params are the sizes of the parameters in bytes; known says whether the
	// driver could tell.
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
	if err := mc.enter(op); err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(m)
	defer mc.leave()
	at := driver.At{Context: mc.ctx.raw}
	raw, res := mc.ctx.drv.table.ModuleGetFunction(at, mc.raw, name)
	if res == driver.ResultNotFound {
		return nil, &Error{Op: op, Result: Result(res), Handle: uintptr(mc.raw), Detail: "the module has no kernel named " + name +
			": names of C++ kernels are mangled unless they are declared extern \"C\""}
	}
	if res != driver.ResultSuccess {
		return nil, mc.ctx.fail(op, uintptr(mc.raw), res)
	}
	f := &Function{mod: m, raw: raw, name: name}
	if err := f.findParams(at); err != nil {
		return nil, err
	}
	return f, nil
}

// findParams asks for the sizes of the kernel's parameters.
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
			return nil
		case res != driver.ResultSuccess:
			return ctx.fail(op, uintptr(f.raw), res)
		}
		f.params = append(f.params, size)
	}
	return &Error{Op: op, Result: ResultUnknown, Handle: uintptr(f.raw), Detail: "the driver lists more parameters than a kernel can have"}
}
