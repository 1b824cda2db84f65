package loaded

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/codeimage"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/ptx"
)

// Module is loaded code, whose functions a context can launch (CUmodule).
type Module struct {
	core.Resource
	Raw driver.Module
	// Kernels returns what the module's PTX says of its kernels.
	Kernels kernelTexts
	// library owns the module, with a call in flight for it, or is nil.
	library *Library
	// variables has the sizes of the variables whose uses are observed, by their addresses.
	variables sync.Map
}

// Kind names the kind of the object in errors and reports.
func (mc *Module) Kind() string { return "module" }

// Handle returns the driver's handle.
func (mc *Module) Handle() uintptr { return uintptr(mc.Raw) }

// Destroy destroys the object in the driver, unless other code owns it: see core.Object.
func (mc *Module) Destroy(at driver.At) (string, driver.Result) {
	at.Context = mc.Ctx.Raw
	if o := mc.Ctx.Drv.Observer(); o != nil {
		for addr, size := range mc.variables.Range {
			o.Unloaded(uint64(addr.(driver.DevicePtr)), size.(uint64))
		}
	}
	if lc := mc.library; lc != nil {
		lc.Modules.Delete(mc)
		lc.EndCall()
		return "cuLibraryUnload", driver.ResultSuccess
	}
	return "cuModuleUnload", mc.Ctx.Drv.Table().ModuleUnload(at, mc.Raw)
}

// Observed notes that the race detector is told about a variable of the module.
func (mc *Module) Observed(variable driver.DevicePtr, size uint64) {
	mc.variables.Store(variable, size)
}

// Compiled adds the compiler's log to the error of a call that has compiled code.
func Compiled(e *cuerror.Error, log driver.JITLog) *cuerror.Error {
	if log.Error != "" {
		e.Detail = drivercall.JoinText("the compiler says:\n\t"+strings.ReplaceAll(log.Error, "\n", "\n\t"), e.Detail)
	}
	return e
}

// kernelTexts returns what PTX says of kernels: their parameters, by the names of the kernels.
type kernelTexts func() map[string][]ptx.Param

// KernelsOf returns what the PTX in an image, also in a fatbin, says of its kernels.
// The text is read when it is first needed, and not kept afterwards.
func KernelsOf(image []byte) kernelTexts {
	text := codeimage.Text(image)
	return sync.OnceValue(func() map[string][]ptx.Param { return ptx.Kernels(text()) })
}

// NotFound returns the error of a failed look-up of a name.
func (mc *Module) NotFound(op, what, name string, res driver.Result) *cuerror.Error {
	if res != driver.ResultNotFound {
		return mc.Ctx.CallError(op, uintptr(mc.Raw), res)
	}
	detail := NoName("module", what, name)
	if what == KernelKind {
		detail += Listed(name, mc.kernelNames())
	}
	return drivercall.NewError(op, mc, res, nil, detail)
}

// NoName says that code has nothing with a name.
func NoName(in, what, name string) string {
	return fmt.Sprintf("the %s has no %s named %q: C++ names are mangled unless they are declared extern \"C\"",
		in, what, name)
}

// KernelKind names kernels in errors.
const KernelKind = "kernel"

// kernelNames returns the names of the module's kernels, or nothing if they are not known.
func (mc *Module) kernelNames() (names []string) {
	at, t := driver.At{Context: mc.Ctx.Raw, Relaxed: true}, mc.Ctx.Drv.Table()
	n, res := t.ModuleGetFunctionCount(at, mc.Raw)
	if res != driver.ResultSuccess { // before CUDA 12.4
		return slices.Collect(maps.Keys(mc.Kernels()))
	}
	all := make([]driver.Function, n)
	if t.ModuleEnumerateFunctions(at, all, mc.Raw) == driver.ResultSuccess {
		for _, f := range all {
			if name, res := t.FuncGetName(at, f); res == driver.ResultSuccess {
				names = append(names, name)
			}
		}
	}
	return names
}

// Listed continues an error about an unknown name with the names that there are. Those that contain the
// name come first, as mangled names do. It names a few, because code may have thousands of kernels.
func Listed(unknown string, names []string) string {
	const most = 6
	if len(names) == 0 {
		return ""
	}
	slices.SortFunc(names, func(a, b string) int {
		if x, y := strings.Contains(a, unknown), strings.Contains(b, unknown); x != y {
			if x {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
	}
	return "; there are " + strings.Join(names[:min(most, len(names))], ", ") + more
}

// ModuleUse is what a cu.Module refers to: a module, and what else the cu.Module has.
type ModuleUse struct {
	*Module
	Log   string // of the driver's compiler
	Keeps any    // the library of the module, which is not collected before the cu.Module, or nil
}

// ReadImage reads a file with GPU code, and loads it.
func ReadImage[T any](
	op string, of drivercall.Named, path string, load func(image []byte) (T, error),
) (loaded T, err error) {
	image, err := codeimage.Read(path)
	if err != nil {
		return loaded, drivercall.NewError(op, of, driver.ResultFileNotFound, err,
			"the file with the GPU code cannot be read: check its path and its permissions")
	}
	loaded, err = load(image)
	if e, ok := err.(*cuerror.Error); ok {
		e.Detail = drivercall.JoinText("file "+path, e.Detail)
	}
	return loaded, err
}

// FreeVariable ends the variable's use of its module.
func FreeVariable(mc *memstate.Mem, at driver.At) (string, driver.Result) {
	if mc.Module.EndCall(); !at.NoWait {
		mc.Ctx.FreeDeferred() // this frees the module if it was closed before
	}
	return "", driver.ResultSuccess
}

// ModuleVariable is a variable of a module.
var ModuleVariable = memstate.Kind{
	Traits: memstate.Traits{Others: true},
	Funcs: &memstate.Funcs{
		Name:     "device memory",
		Free:     FreeVariable,
		Unshared: "the memory is a variable of a module: copy it to memory of Context.Alloc",
	},
}

// ManagedVariable is owned by a module of its library.
var ManagedVariable = memstate.Kind{
	Traits: memstate.Traits{Managed: true, Others: true},
	Funcs: &memstate.Funcs{
		Name: "managed memory",
		Free: FreeVariable,
	},
}
