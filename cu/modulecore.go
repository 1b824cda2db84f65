package cu

import (
	"fmt"
	"strings"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/codeimage"
)

type moduleCore struct {
	resource
	raw driver.Module
	// ptx is the text of the module if the driver cannot report the parameters of its kernels.
	ptx []byte
	// library owns the module, with a call in flight for it, or is nil.
	library *libraryCore
}

func (mc *moduleCore) kind() string { return "module" }

func (mc *moduleCore) handle() uintptr { return uintptr(mc.raw) }

func (mc *moduleCore) free(at driver.At) (string, driver.Result) {
	at.Context = mc.ctx.raw
	if lc := mc.library; lc != nil {
		lc.modules.Delete(mc)
		lc.leave()
		return "cuLibraryUnload", driver.ResultSuccess
	}
	return "cuModuleUnload", mc.ctx.drv.table().ModuleUnload(at, mc.raw)
}

// compiled adds the compiler's log to the error of a call that has compiled code.
func compiled(e *Error, log driver.JITLog) *Error {
	if log.Error != "" {
		e.Detail = join("the compiler says:\n\t"+strings.ReplaceAll(log.Error, "\n", "\n\t"), e.Detail)
	}
	return e
}

// textFor returns the image if parameters of kernels have to be found in it: it is PTX, and the driver
// may lack cuFuncGetParamInfo. The version of a software driver does not tell which functions it has.
func (d *driverCore) textFor(image []byte) []byte {
	if codeimage.IsPTX(image) && (d.table().Software() || !d.has("cuFuncGetParamInfo")) {
		return image
	}
	return nil
}

// notFound returns the error of a failed look-up of a name.
func (mc *moduleCore) notFound(op, what, name string, res driver.Result) error {
	if res == driver.ResultNotFound {
		return &Error{Op: op, Result: res, Handle: uintptr(mc.raw), Detail: noName("module", what, name)}
	}
	return mc.ctx.callError(op, uintptr(mc.raw), res)
}

// noName says that code has nothing with a name.
func noName(in, what, name string) string {
	return fmt.Sprintf("the %s has no %s named %q: C++ names are mangled unless they are declared extern \"C\"",
		in, what, name)
}
