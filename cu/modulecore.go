package cu

import (
	"fmt"

	"github.com/purecu/purecu/driver"
)

type moduleCore struct {
	resource
	raw driver.Module
	// ptx is the text of the module if the driver cannot report the parameters of its kernels.
	ptx []byte
}

func (mc *moduleCore) kind() string { return "module" }

func (mc *moduleCore) handle() uintptr { return uintptr(mc.raw) }

func (mc *moduleCore) free(at driver.At) (string, driver.Result) {
	at.Context = mc.ctx.raw
	return "cuModuleUnload", mc.ctx.drv.table.ModuleUnload(at, mc.raw)
}

// notFound returns the error of a failed look-up of a name.
func (mc *moduleCore) notFound(op, what, name string, res driver.Result) error {
	if res == driver.ResultNotFound {
		return &Error{Op: op, Result: res, Handle: uintptr(mc.raw), Detail: fmt.Sprintf(
			"the module has no %s named %q: C++ names are mangled unless they are declared extern \"C\"", what, name)}
	}
	return mc.ctx.callError(op, uintptr(mc.raw), res)
}
