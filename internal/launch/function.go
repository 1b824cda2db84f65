package launch

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/loaded"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/ptx"
)

// Function is a kernel of a module.
type Function struct {
	Mod   *loaded.Module // nil in the zero value
	Owner any            // the object of the module, which is not collected before the kernel's
	Raw   driver.Function
	Name  string
	// Params are the parameters. Known says that Params is valid. text is what the PTX says of them, or nil.
	Params []Param
	Known  bool
	text   []ptx.Param
}

// Object returns what errors say of the kernel.
func (f *Function) Object() core.Member {
	if f == nil {
		return core.StandIn{ItsKind: "kernel"}
	}
	return core.StandIn{ItsKind: "kernel", Raw: uintptr(f.Raw), Ctx: f.Context()}
}

// Context returns the kernel's context, or nil for no kernel.
func (f *Function) Context() *core.Context {
	if f == nil || f.Mod == nil {
		return nil
	}
	return f.Mod.Ctx
}

// Find returns the kernel of a module with this name, whose handle call finds. owner is the object of the module.
func Find(op string, mc *loaded.Module, owner any, name string,
	call func(*driver.Table, driver.At) (driver.Function, driver.Result)) (f Function, err error) {
	if err := mc.Enter(mc, op); err != nil {
		return f, err
	}
	defer runtime.KeepAlive(owner)
	defer mc.EndCall()
	at := driver.At{Context: mc.Ctx.Raw}
	raw, res, collection := core.Allocated(mc.Ctx,
		func() (driver.Function, driver.Result) { return call(mc.Ctx.Drv.Table(), at) })
	if res != driver.ResultSuccess {
		return f, collection.Explain(mc.NotFound(op, loaded.KernelKind, name, res))
	}
	f = Function{Mod: mc, Owner: owner, Raw: raw, Name: name}
	err = f.findParams(at)
	return f, err
}

// UnknownAttribute returns the error for an attribute of a kernel that does not exist.
func UnknownAttribute(op string, of drivercall.Named, attribute int32) error {
	return drivercall.BadValue(op, of, fmt.Sprintf("there is no attribute %d: see FunctionAttribute", attribute))
}

// MaxParamBytes is the most that the parameters of a kernel can have. It ends loops for a driver that
// reports more parameters.
const MaxParamBytes = 32764

// findParams finds the kernel's parameters: their number and sizes from the driver, or else from the PTX, and
// what they take from the PTX.
func (f *Function) findParams(at driver.At) error {
	const op = "cuFuncGetParamInfo"
	mc := f.Mod
	for i := range uint64(MaxParamBytes + 1) {
		_, size, res := mc.Ctx.Drv.Table().FuncGetParamInfo(at, f.Raw, i)
		switch {
		case res == driver.ResultInvalidValue: // i is the number of parameters
			f.Known = true
			f.readText()
			return nil
		case mc.Ctx.Drv.Table().Missing(res) != nil: // before CUDA 12.4
			var list []ptx.Param
			list, f.Known = mc.Kernels()[f.Name]
			for _, p := range list {
				f.Params = append(f.Params, Param{uint32(p.Size), Any})
			}
			f.readText()
			return nil
		case res != driver.ResultSuccess:
			return mc.Ctx.CallError(op, uintptr(f.Raw), res)
		}
		f.Params = append(f.Params, Param{uint32(min(size, math.MaxUint32)), Any})
	}
	return drivercall.NewError(op, f.Object(), driver.ResultUnknown, nil,
		"the driver lists more parameters than a kernel can have")
}

// readText notes what the parameters take, if the PTX says it.
func (f *Function) readText() {
	list := f.Mod.Kernels()[f.Name]
	if !slices.EqualFunc(list, f.Params, func(p ptx.Param, q Param) bool { return p.Size == uint64(q.Size) }) {
		return // it is another kernel
	}
	f.text = list
	for i, p := range list {
		switch p.Kind {
		case ptx.Integer:
			f.Params[i].Takes = Integer
		case ptx.Float:
			f.Params[i].Takes = Float
		}
	}
}

// BadMemory returns the error for an argument that is memory which the kernel cannot use. Drivers
// are compared first, then closed memory is detected, and then contexts are compared.
func (f *Function) BadMemory(cfg *Config, i int, c *core.Context, mc *memstate.Mem) error {
	err := core.Mismatch(mc.Ctx, c)
	if mc.Only != nil && mc.Ctx == c && !mc.Closed() {
		e := f.BadArg(cfg, i, memstate.ErrOtherGraph)
		e.Detail += " cannot be used here: " + memstate.OtherGraphDetail
		return e
	}
	// Of virtual memory the context is right, but it was unmapped at that moment.
	if err != mistake.ErrDriverMismatch && (mc.Current().Closed() || mc.Virt != nil && mc.Ctx == c) {
		err = mistake.ErrClosed
	}
	e := f.BadArg(cfg, i, err)
	switch err {
	case mistake.ErrDriverMismatch:
		e.Detail += fmt.Sprintf(" is %s, of %s, and the kernel is of %s: open one driver and share it",
			drivercall.Describe(mc), mc.Ctx.Drv.Which(), c.Drv.Which())
	case mistake.ErrClosed:
		e.Detail += " is closed: " + drivercall.Describe(mc) + "; close memory after its last use"
	default:
		e.Detail += " is " + drivercall.Describe(mc) + ", of another context, which the kernel may be unable to access: " +
			"allocate it in the kernel's context"
		switch {
		case err != mistake.ErrDeviceMismatch:
		case mc.Is.Pooled != nil:
			e.Detail += ", or allow the access by memory.Pool.SetAccess"
		case mc.Virt != nil:
			e.Detail += ", or allow the access by memory.Virtual.SetAccess"
		case mc.Is.OfNode: // no call allows the access
		default:
			e.Detail += ", or enable peer access"
		}
	}
	return e
}

// BadArg returns the error for an argument.
func (f *Function) BadArg(cfg *Config, i int, err error) *cuerror.Error {
	e := drivercall.NewError(cfg.Op(), f.Object(), driver.ResultInvalidValue, err,
		fmt.Sprintf("kernel %s: argument %d", f.Name, i))
	switch err {
	case mistake.ErrNil:
		e.Detail += " is nil memory: check the error of the call that should have made it"
	case memstate.ErrUnmapped:
		e.Detail += ": allocate it with HostDeviceMap"
	}
	return e
}

// Check checks the configuration of a launch, and compares its n arguments with the kernel's parameters, if they are
// known. A mistake in an argument itself is not reported: see Arg.SetIn.
func (f *Function) Check(cfg *Config, n int, arg func(i int) *Arg) error {
	if err := f.CheckConfig(cfg); err != nil || !f.Known {
		return err
	}
	if n != len(f.Params) {
		return f.Refuse(cfg, fmt.Sprintf(" takes %d arguments, not %d", len(f.Params), n))
	}
	for i := range n {
		if a := arg(i); !f.Params[i].Fits(a) && a.err() == nil {
			return f.Refuse(cfg, f.misfit(i, a))
		}
	}
	return nil
}

// misfit says why an argument does not fit its parameter.
func (f *Function) misfit(i int, a *Arg) string {
	p, name, typ := f.Params[i], "", ""
	if f.text != nil {
		name, typ = f.text[i].Name+" ", f.text[i].Type
	}
	if a.Size != p.Size {
		return fmt.Sprintf(": argument %d has %d bytes, and the kernel's parameter %shas %d: pass %s", i, a.Size, name,
			p.Size, p.constructor())
	}
	is := "an integer"
	switch {
	case a.Mem != nil:
		is = "an address"
	case a.Kind == Float:
		is = "a float"
	}
	return fmt.Sprintf(": argument %d is %s, and the kernel's parameter %sis %s: pass %s", i, is, name, typ,
		p.constructor())
}

// constructor returns what makes an argument for the parameter.
func (p Param) constructor() string {
	switch {
	case p.Takes == Float && p.Size == 8:
		return "cu.F64"
	case p.Takes == Float && p.Size == 4:
		return "cu.F32"
	case p.Takes == Integer && p.Size == 8:
		return "cu.Ptr for memory, or cu.U64 or cu.I64 for a number"
	case p.Takes == Integer && p.Size == 4:
		return "cu.U32 or cu.I32"
	}
	return "a value of that size"
}

// CheckConfig returns the mistake in the configuration of a launch, or nil.
func (f *Function) CheckConfig(cfg *Config) error {
	switch {
	case cfg.Flags&^cooperative != 0:
		return f.Refuse(cfg, fmt.Sprintf(": unknown launch flags %s: see LaunchFlags", FlagNames(cfg.Flags)))
	case cfg.Grid.X == 0 || cfg.Block.X == 0:
		return f.Refuse(cfg, ": Grid.X and Block.X must be at least 1")
	case cfg.Attributes != nil:
		return f.checkAttributes(cfg)
	}
	return nil
}

// checkAttributes returns the mistake in the attributes of the launch, or nil.
func (f *Function) checkAttributes(cfg *Config) error {
	a := cfg.Attributes
	if a.err != nil {
		return drivercall.About(f.Object(), a.err)
	}
	detail, res := a.wrong(cfg.Grid, f.Mod.Ctx.Drv.Table().Version())
	switch res {
	case driver.ResultSuccess:
		return nil
	case driver.ResultNotSupported:
		return drivercall.NewError(cfg.Op(), f.Object(), res, errors.ErrUnsupported, detail)
	}
	return drivercall.NewError(cfg.Op(), f.Object(), res, drivercall.ErrInvalid, detail)
}

// Refuse returns the error for a launch with a mistake.
func (f *Function) Refuse(cfg *Config, detail string) error {
	return drivercall.BadValue(cfg.Op(), f.Object(), "kernel "+f.Name+detail)
}
