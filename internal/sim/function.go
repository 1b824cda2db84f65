package sim

import (
	"github.com/purecu/purecu/driver"
)

// functionHandle returns the handle of a kernel.
func (d *Driver) functionHandle(f *function) driver.Function {
	if f.handle == 0 {
		f.handle = driver.Function(d.objects.add(functionKind, f))
	}
	return f.handle
}

// function returns a kernel by its handle.
func (d *Driver) function(op string, h driver.Function) (*function, driver.Result) {
	f, r := find[function](d, op, functionKind, uintptr(h))
	if r != ok {
		return nil, r
	}
	return f, d.of(op, f.module.ctx, uintptr(h), functionKind)
}

// aboutFunction begins a call with a kernel as an argument.
func (d *Driver) aboutFunction(op string, h driver.Function) (*function, driver.Result) {
	if r := d.begin(op); r != ok {
		return nil, r
	}
	return d.function(op, h)
}

// aboutGivenFunction is aboutFunction for functions in which NULL is an invalid value.
func (d *Driver) aboutGivenFunction(op string, h driver.Function) (*function, driver.Result) {
	f, r := d.aboutFunction(op, h)
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
	return f.attributes[attribute], ok
}

// FuncSetAttribute is cuFuncSetAttribute.
func (d *Driver) FuncSetAttribute(_ *driver.Thread, h driver.Function, attribute, value int32) driver.Result {
	defer d.mu.Unlock()
	f, r := d.aboutFunction("cuFuncSetAttribute", h)
	if r != ok {
		return r
	}
	if !settable(f.attributes, attribute, value) {
		return driver.ResultInvalidValue
	}
	if f.own == nil {
		f.own = make(map[int32]bool)
	}
	f.own[attribute] = true
	f.attributes[attribute] = value
	return ok
}

// settable reports whether an attribute of a kernel can have a value.
func settable(attributes map[int32]int32, attribute, value int32) bool {
	var least, most int32
	switch attribute {
	case driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		most = sharedOfBlock - attributes[driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]
	case driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		least, most = -1, 100
	case driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
		driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		most = 16
	case driver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		most = 1
	case driver.CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		most = 2
	default: // other attributes are read-only
		return false
	}
	return value >= least && value <= most
}

// FuncGetName is cuFuncGetName.
func (d *Driver) FuncGetName(_ *driver.Thread, h driver.Function) (string, driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutGivenFunction("cuFuncGetName", h)
	if r != ok {
		return "", r
	}
	return f.name, ok
}

// FuncGetParamInfo is cuFuncGetParamInfo.
func (d *Driver) FuncGetParamInfo(_ *driver.Thread, h driver.Function,
	i uint64) (offset, size uint64, r driver.Result) {
	defer d.mu.Unlock()
	f, r := d.aboutGivenFunction("cuFuncGetParamInfo", h)
	switch {
	case r != ok:
		return 0, 0, r
	case i >= uint64(len(f.params)):
		return 0, 0, driver.ResultInvalidValue
	}
	return f.params[i].offset, f.params[i].size, ok
}
