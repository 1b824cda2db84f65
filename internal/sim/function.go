package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/code"
)

// functionHandle returns the handle of a kernel.
func (d *Driver) functionHandle(f *function) driver.Function {
	if f.handle == 0 {
		f.handle = driver.Function(d.objects.add(functionKind, f))
	}
	return f.handle
}

// function returns a kernel by its handle.
func (d *Driver) function(name string, h driver.Function) (*function, driver.Result) {
	f, r := find[function](d, name, functionKind, uintptr(h))
	if r != ok {
		return nil, r
	}
	return f, d.of(name, f.module.ctx, uintptr(h), functionKind)
}

// aboutFunction begins a call with a kernel as an argument.
func (d *Driver) aboutFunction(name string, h driver.Function) (*function, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	return d.function(name, h)
}

// aboutGivenFunction is aboutFunction for functions in which NULL is an invalid value.
func (d *Driver) aboutGivenFunction(name string, h driver.Function) (*function, driver.Result) {
	f, r := d.aboutFunction(name, h)
	if r == driver.ResultInvalidHandle && h == 0 {
		r = driver.ResultInvalidValue
	}
	return f, r
}

// FuncGetAttribute is cuFuncGetAttribute.
func (d *Driver) FuncGetAttribute(_ *driver.Thread, attribute int32, h driver.Function) (int32, driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutFunction("cuFuncGetAttribute", h)
	switch {
	case r != ok:
		return 0, r
	case attribute < 0 || attribute >= driver.CU_FUNC_ATTRIBUTE_MAX:
		return 0, driver.ResultInvalidValue
	}
	return f.Attributes[attribute], ok
}

// FuncSetAttribute is cuFuncSetAttribute.
func (d *Driver) FuncSetAttribute(_ *driver.Thread, h driver.Function, attribute, value int32) driver.Result {
	defer d.mu.Unlock()
	f, r := d.aboutFunction("cuFuncSetAttribute", h)
	if r != ok {
		return r
	}
	if !f.Set(attribute, value) {
		return driver.ResultInvalidValue
	}
	return ok
}

// FuncGetName is cuFuncGetName.
func (d *Driver) FuncGetName(_ *driver.Thread, h driver.Function) (string, driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutGivenFunction("cuFuncGetName", h)
	if r != ok {
		return "", r
	}
	return f.Name, ok
}

// FuncGetParamInfo is cuFuncGetParamInfo.
func (d *Driver) FuncGetParamInfo(_ *driver.Thread, h driver.Function,
	i uint64) (offset, size uint64, r driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutGivenFunction("cuFuncGetParamInfo", h)
	switch {
	case r != ok:
		return 0, 0, r
	case i >= uint64(len(f.Params)):
		return 0, 0, driver.ResultInvalidValue
	}
	return f.Params[i].Offset, f.Params[i].Size, ok
}

// FuncGetModule is cuFuncGetModule.
func (d *Driver) FuncGetModule(_ *driver.Thread, h driver.Function) (driver.Module, driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutGivenFunction("cuFuncGetModule", h)
	if r != ok {
		return 0, r
	}
	return f.module.handle, ok
}

// FuncIsLoaded is cuFuncIsLoaded.
func (d *Driver) FuncIsLoaded(_ *driver.Thread, h driver.Function) (int32, driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutFunction("cuFuncIsLoaded", h)
	if r != ok || !f.Loaded {
		return driver.CU_FUNCTION_LOADING_STATE_UNLOADED, r
	}
	return driver.CU_FUNCTION_LOADING_STATE_LOADED, ok
}

// FuncLoad is cuFuncLoad.
func (d *Driver) FuncLoad(_ *driver.Thread, h driver.Function) driver.Result {
	defer d.mu.Unlock()
	f, r := d.aboutFunction("cuFuncLoad", h)
	if r == ok {
		f.Loaded = true
	}
	return r
}

// linked returns the kernel, whose PTX was translated when the module was loaded, with the addresses of the module's
// variables. The driver is locked.
func (f *function) linked() *code.Program { return f.Program(f.module) }
