package cu

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// Dim3 is a number of blocks or threads in three dimensions. A zero Y or Z counts as 1.
type Dim3 struct{ X, Y, Z uint32 }

// LaunchConfig is the configuration of a launch.
type LaunchConfig struct {
	// Grid is the number of blocks, Block the number of threads in each.
	Grid, Block Dim3
	// SharedMem is the size of the dynamic shared memory of a block, in bytes.
	SharedMem uint32
	// Flags choose how the kernel is launched.
	Flags LaunchFlags
	// Attributes are further properties of the launch, such as clusters: see [LaunchWith]. nil stands
	// for none. With attributes the driver's function is cuLaunchKernelEx (CUDA 11.6).
	Attributes *LaunchAttributes
}

// Launch enqueues the kernel on a stream (cuLaunchKernel). It returns when the kernel is enqueued,
// not when it has run. The stream must be of the context into which the module was loaded. It may
// wait for the GPU: see docs/blocking.md.
//
// The number and sizes of the arguments are checked if [Function.Params] reports them: the driver
// (CUDA 12.4), or else the PTX of the module, has them. Otherwise wrong arguments make the driver
// read invalid memory, which this package cannot detect. If the module is PTX, or a fatbin with it, a float
// for an integer or a pointer, and the other way round, is a mistake, too. An integer may be passed for a
// pointer; signed and unsigned integers are the same.
func (f *Function) Launch(s *Stream, cfg LaunchConfig, args ...Arg) error {
	return f.launchOn(s, &cfg, args, nil)
}

// launchOn launches the kernel on a stream with args, or with prepared arguments.
func (f *Function) launchOn(s *Stream, cfg *LaunchConfig, args []Arg, prepared *preparedArgs) error {
	done, err := f.launchFast(s, cfg, args, prepared)
	if !done {
		err = f.launchOnce(s, cfg, args, prepared)
	}
	if err != nil {
		err = s.core().Retry(cfg.op(), err, nil)
	}
	return err
}

// launchOnce is launchOn in all cases, with one attempt.
func (f *Function) launchOnce(s *Stream, cfg *LaunchConfig, args []Arg, prepared *preparedArgs) error {
	op := cfg.op()
	if f == nil || f.mod == nil {
		return core.NilError(op, "function")
	}
	sc := s.core()
	if sc == nil {
		return core.NilArgError(op, f.object(), "stream")
	}
	if ctx := f.mod.core.Ctx; ctx.Drv != sc.Ctx.Drv {
		return core.MixedError(op, f.object(), sc)
	}
	if sc.Ctx.Drv.Tracers.Load() != nil {
		return f.launchTraced(s, cfg, args, prepared)
	}
	_, err := f.enqueue(sc, cfg, args, prepared)
	runtime.KeepAlive(s)
	return err
}

// launchFast is launchOn in the usual case.
func (f *Function) launchFast(s *Stream, cfg *LaunchConfig, args []Arg, prepared *preparedArgs) (done bool, err error) {
	sc := s.core()
	if f == nil || f.mod == nil || sc == nil || cfg.Flags != 0 ||
		cfg.Attributes != nil || cfg.Grid.X == 0 || cfg.Block.X == 0 {
		return false, nil
	}
	values := &sc.Frame.Args
	if prepared == nil && (f.known && len(args) != len(f.params)) || !sc.BeginFast(core.WorkLaunch) {
		return false, nil
	}
	usual := sc.Keeps(&f.mod.core.Resource)
	if prepared != nil {
		args, values = prepared.args, &prepared.values
		for _, i := range prepared.memory {
			usual = usual && sc.KeepsMemory(args[i].mem)
		}
	} else if usual = usual && len(args) <= len(values.Values); usual {
		for i := range args {
			a := &args[i]
			if f.known && !f.params[i].fits(a) || a.mem == nil && a.ref != nil ||
				a.mem != nil && !sc.KeepsMemory(a.mem) {
				usual = false
				break
			}
			values.Values[i], values.Sizes[i] = a.bits, a.size
		}
	}
	if !usual {
		sc.EndFast()
		return false, nil
	}
	g, b := cfg.Grid.normalize(), cfg.Block.normalize()
	res := sc.Ctx.Drv.Table().LaunchKernel(driver.At{}, f.raw,
		g.X, g.Y, g.Z, b.X, b.Y, b.Z, cfg.SharedMem, sc.Raw, values.Params(len(args)))
	sc.EndFast()
	runtime.KeepAlive(s)
	runtime.KeepAlive(f)
	runtime.KeepAlive(args) // these have the owners of memory
	runtime.KeepAlive(prepared)
	if res == driver.ResultSuccess {
		return true, nil
	}
	if res == driver.ResultInvalidContext {
		return false, nil
	}
	return true, f.failed(sc, cfg, res)
}

// launchTraced is launchOn with tracers. They are called during a call on the stream.
func (f *Function) launchTraced(s *Stream, cfg *LaunchConfig, args []Arg, prepared *preparedArgs) error {
	sc, err := s.enter(cfg.op())
	if err != nil {
		return err
	}
	defer s.leave()
	t := sc.Ctx.Drv.Trace(core.TraceLaunch, 0, sc.Raw)
	res, err := f.enqueue(sc, cfg, args, prepared)
	t.Done(core.TraceLaunch, 0, sc.Raw, res)
	sc.Ctx.Drv.ReportRaces()
	return err
}

// enqueue enqueues the kernel on a stream, and returns the driver's result, or notCalled.
func (f *Function) enqueue(sc *core.Stream, cfg *LaunchConfig, args []Arg,
	prepared *preparedArgs) (driver.Result, error) {
	w, err := sc.BeginEnqueue(cfg.op())
	if err != nil {
		return notCalled, err
	}
	params, err := f.useAll(&w, cfg, args, prepared)
	if err != nil {
		w.End()
		return notCalled, err
	}
	var res driver.Result
	if cfg.Attributes == nil {
		res = f.launch(sc, cfg, params)
	} else {
		res = f.launchEx(&w, cfg, params)
	}
	w.End()
	runtime.KeepAlive(f)
	runtime.KeepAlive(args) // these have the owners of memory
	runtime.KeepAlive(prepared)
	if res != driver.ResultSuccess {
		return res, f.failed(sc, cfg, res)
	}
	if o := sc.Ctx.Drv.Observer(); o != nil {
		if prepared != nil {
			args = prepared.args
		}
		o.Enqueue(sc.Observed(), cfg.op(), "kernel "+f.name, used(args))
	}
	return res, nil
}

// notCalled is a result of which tracers are not told.
const notCalled driver.Result = -1

// launch calls the driver.
func (f *Function) launch(sc *core.Stream, cfg *LaunchConfig, params driver.KernelParams) (res driver.Result) {
	g, b, fn := cfg.Grid.normalize(), cfg.Block.normalize(), cfg.function()
	sc.BeginLegacy()
	for in, again := sc.ContextFor(fn), true; again; in, again = sc.NeedsContext(fn, in, res) {
		if fn == core.WorkLaunchCooperative {
			res = sc.Ctx.Drv.Table().LaunchCooperativeKernel(sc.Within(in), f.raw,
				g.X, g.Y, g.Z, b.X, b.Y, b.Z, cfg.SharedMem, sc.Raw, params)
		} else {
			res = sc.Ctx.Drv.Table().LaunchKernel(sc.Within(in), f.raw,
				g.X, g.Y, g.Z, b.X, b.Y, b.Z, cfg.SharedMem, sc.Raw, params)
		}
	}
	sc.EndLegacy()
	return res
}

// launchEx calls the driver for a launch with attributes, in the stream's context.
func (f *Function) launchEx(w *core.Work, cfg *LaunchConfig, params driver.KernelParams) driver.Result {
	g, b, sc := cfg.Grid.normalize(), cfg.Block.normalize(), w.Stream
	c := w.Frame.ExConfig()
	*c = driver.LaunchConfig{GridX: g.X, GridY: g.Y, GridZ: g.Z, BlockX: b.X, BlockY: b.Y, BlockZ: b.Z,
		SharedMemBytes: cfg.SharedMem, Stream: sc.Raw}
	if list := cfg.Attributes.of(cfg.Flags&LaunchCooperative != 0); len(list) != 0 {
		c.Attributes, c.Count = &list[0], uint32(len(list))
	}
	sc.BeginLegacy()
	res := sc.Ctx.Drv.Table().LaunchKernelEx(sc.InContext(), c, f.raw, params)
	sc.EndLegacy()
	return res
}

// failed returns the error of a launch that the driver has refused.
func (f *Function) failed(sc *core.Stream, cfg *LaunchConfig, res driver.Result) error {
	e := sc.Ctx.CallError(cfg.op(), uintptr(f.raw), res)
	if e.Err == nil && res == driver.ResultInvalidValue {
		e.Detail = deviceOf(sc.Ctx).exceededLimit(cfg.Grid.normalize(), cfg.Block.normalize())
	}
	if cfg.Attributes != nil {
		e.Detail = core.Join(e.Detail, deviceOf(sc.Ctx).exceededAttribute(cfg.Attributes, res))
	}
	return e
}

// useAll makes the work use the kernel's module and the memory of its arguments, and returns the
// arguments for the driver.
func (f *Function) useAll(w *core.Work, cfg *LaunchConfig, args []Arg,
	prepared *preparedArgs) (p driver.KernelParams, err error) {
	if err = f.useModule(w, cfg); err != nil {
		return p, err
	}
	if prepared != nil {
		for _, i := range prepared.memory {
			if mc := prepared.args[i].mem; !w.UseMemory(mc) {
				return p, f.badMemory(cfg, i, w.Stream.Ctx, mc)
			}
		}
		return prepared.values.Params(len(prepared.args)), nil
	}
	if err = f.check(cfg, args); err != nil {
		return p, err
	}
	values := &w.Frame.Args
	values.Grow(len(args))
	for i := range args {
		a := &args[i]
		if a.mem != nil && !w.UseMemory(a.mem) {
			return p, f.badMemory(cfg, i, w.Stream.Ctx, a.mem)
		}
		if err = a.setIn(values, i); err != nil {
			return p, f.badArg(cfg, i, err)
		}
	}
	return values.Params(len(args)), nil
}

// useModule makes the work use the kernel's module.
func (f *Function) useModule(w *core.Work, cfg *LaunchConfig) error {
	switch mc := f.mod.core; {
	case mc.Ctx != w.Stream.Ctx && !mc.Closed():
		return core.MixedError(cfg.op(), f.object(), w.Stream)
	case mc.Ctx != w.Stream.Ctx, !w.Kept(&mc.Resource) && !w.Use(&mc.Resource, mc):
		return mc.Refused(cfg.op())
	}
	return nil
}

// badMemory returns the error for an argument that is memory which the kernel cannot use. Drivers
// are compared first, then closed memory is detected, and then contexts are compared.
func (f *Function) badMemory(cfg *LaunchConfig, i int, c *core.Context, mc *core.Mem) error {
	err := core.Mismatch(mc.Ctx, c)
	if mc.Only != nil && mc.Ctx == c && !mc.Closed() {
		e := f.badArg(cfg, i, core.ErrOtherGraph)
		e.Detail += " cannot be used here: " + core.OtherGraphDetail
		return e
	}
	// Of virtual memory the context is right, but it was unmapped at that moment.
	if err != ErrDriverMismatch && (mc.Current().Closed() || mc.Virt != nil && mc.Ctx == c) {
		err = ErrClosed
	}
	e := f.badArg(cfg, i, err)
	switch err {
	case ErrDriverMismatch:
		e.Detail += fmt.Sprintf(" is %s, of %s, and the kernel is of %s: open one driver and share it",
			core.Describe(mc), mc.Ctx.Drv.Which(), c.Drv.Which())
	case ErrClosed:
		e.Detail += " is closed: " + core.Describe(mc) + "; close memory after its last use"
	default:
		e.Detail += " is " + core.Describe(mc) + ", of another context, which the kernel may be unable to access: " +
			"allocate it in the kernel's context"
		switch {
		case err != ErrDeviceMismatch:
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

// badArg returns the error for an argument.
func (f *Function) badArg(cfg *LaunchConfig, i int, err error) *Error {
	e := core.NewError(cfg.op(), f.object(), ResultInvalidValue, err, fmt.Sprintf("kernel %s: argument %d", f.name, i))
	switch err {
	case ErrNil:
		e.Detail += " is nil memory: check the error of the call that should have made it"
	case core.ErrUnmapped:
		e.Detail += ": allocate it with HostDeviceMap"
	}
	return e
}

// check compares the launch with the kernel's parameters, if they are known.
func (f *Function) check(cfg *LaunchConfig, args []Arg) error {
	if err := f.checkConfig(cfg); err != nil || !f.known {
		return err
	}
	if len(args) != len(f.params) {
		return f.refuse(cfg, fmt.Sprintf(" takes %d arguments, not %d", len(f.params), len(args)))
	}
	for i := range args {
		if a := &args[i]; !f.params[i].fits(a) && a.err() == nil {
			return f.refuse(cfg, f.misfit(i, a))
		}
	}
	return nil
}

// misfit says why an argument does not fit its parameter.
func (f *Function) misfit(i int, a *Arg) string {
	p, name, typ := f.params[i], "", ""
	if f.text != nil {
		name, typ = f.text[i].Name+" ", f.text[i].Type
	}
	if a.size != p.size {
		return fmt.Sprintf(": argument %d has %d bytes, and the kernel's parameter %shas %d: pass %s", i, a.size, name,
			p.size, p.constructor())
	}
	is := "an integer"
	switch {
	case a.mem != nil:
		is = "an address"
	case a.kind == floatArg:
		is = "a float"
	}
	return fmt.Sprintf(": argument %d is %s, and the kernel's parameter %sis %s: pass %s", i, is, name, typ,
		p.constructor())
}

// constructor returns what makes an argument for the parameter.
func (p kernelParam) constructor() string {
	switch {
	case p.takes == floatArg && p.size == 8:
		return "cu.F64"
	case p.takes == floatArg && p.size == 4:
		return "cu.F32"
	case p.takes == integerArg && p.size == 8:
		return "cu.Ptr for memory, or cu.U64 or cu.I64 for a number"
	case p.takes == integerArg && p.size == 4:
		return "cu.U32 or cu.I32"
	}
	return "a value of that size"
}

// checkConfig returns the mistake in the configuration of a launch, or nil.
func (f *Function) checkConfig(cfg *LaunchConfig) error {
	switch {
	case cfg.Flags&^LaunchCooperative != 0:
		return f.refuse(cfg, fmt.Sprintf(": unknown launch flags %v: see LaunchFlags", cfg.Flags))
	case cfg.Grid.X == 0 || cfg.Block.X == 0:
		return f.refuse(cfg, ": Grid.X and Block.X must be at least 1")
	case cfg.Attributes != nil:
		return f.checkAttributes(cfg)
	}
	return nil
}

// checkAttributes returns the mistake in the attributes of the launch, or nil.
func (f *Function) checkAttributes(cfg *LaunchConfig) error {
	a := cfg.Attributes
	if a.err != nil {
		return core.About(f.object(), a.err)
	}
	g := cfg.Grid.normalize()
	detail, res := a.wrong([3]uint32{g.X, g.Y, g.Z}, f.mod.core.Ctx.Drv.Table().Version())
	switch res {
	case driver.ResultSuccess:
		return nil
	case driver.ResultNotSupported:
		return core.NewError(cfg.op(), f.object(), res, errors.ErrUnsupported, detail)
	}
	return core.NewError(cfg.op(), f.object(), res, core.ErrInvalid, detail)
}

func (f *Function) refuse(cfg *LaunchConfig, detail string) error {
	return core.BadValue(cfg.op(), f.object(), "kernel "+f.name+detail)
}

// function returns the function of the launch.
func (cfg *LaunchConfig) function() core.WorkFunction {
	switch {
	case cfg.Attributes != nil:
		return core.WorkLaunchEx
	case cfg.Flags&LaunchCooperative != 0:
		return core.WorkLaunchCooperative
	}
	return core.WorkLaunch
}

func (cfg *LaunchConfig) op() string { return cfg.function().Op() }

// exceededLimit explains why the driver refused the configuration of a launch as an invalid value:
// it names the dimension that exceeds the device's limit, or else the limits that depend on the
// kernel.
func (dev *Device) exceededLimit(grid, block Dim3) string {
	if d := dev.exceededDimension(grid, block); d != "" {
		return d
	}
	return "the block has more threads, or more shared memory, than the kernel or the device allows, or does not have the " +
		"size that the kernel prescribes (.reqntid): call SuggestBlockSize, and raise " +
		"FunctionAttributeMaxDynamicSharedSizeBytes for more than 48 KiB"
}

// exceededAttribute says why the driver may have refused a launch with attributes.
func (dev *Device) exceededAttribute(a *LaunchAttributes, res driver.Result) string {
	if a.cluster[0] == 0 {
		return ""
	}
	if can, err := dev.Attribute(DeviceAttributeClusterLaunch); err == nil && can == 0 {
		return "the device has no clusters: they need compute capability 9.0"
	}
	if res == driver.ResultInvalidClusterSize {
		return fmt.Sprintf("a cluster has %d blocks: MaxPotentialClusterSize says how many the kernel can have, and "+
			"FunctionAttributeNonPortableClusterSizeAllowed allows more than 8",
			Dim3{a.cluster[0], a.cluster[1], a.cluster[2]}.blocks())
	}
	return ""
}

// blocks returns the number of blocks.
func (d Dim3) blocks() uint64 { return uint64(d.X) * uint64(d.Y) * uint64(d.Z) }

// exceededDimension names the dimension that exceeds the device's limit, or returns "".
func (dev *Device) exceededDimension(grid, block Dim3) string {
	for _, d := range []struct {
		name string
		size uint32
		most DeviceAttribute
		less string
	}{
		{"Grid.X", grid.X, DeviceAttributeMaxGridDimX, "give each thread more work"},
		{"Grid.Y", grid.Y, DeviceAttributeMaxGridDimY, "put more into Grid.X"},
		{"Grid.Z", grid.Z, DeviceAttributeMaxGridDimZ, "put more into Grid.X"},
		{"Block.X", block.X, DeviceAttributeMaxBlockDimX, "call SuggestBlockSize, and use more blocks"},
		{"Block.Y", block.Y, DeviceAttributeMaxBlockDimY, "call SuggestBlockSize, and use more blocks"},
		{"Block.Z", block.Z, DeviceAttributeMaxBlockDimZ, "call SuggestBlockSize, and use more blocks"},
	} {
		if most, err := dev.Attribute(d.most); err == nil && int64(d.size) > int64(most) {
			return fmt.Sprintf("%s is %d, and the device allows %d: %s", d.name, d.size, most, d.less)
		}
	}
	return ""
}

// normalize replaces a zero Y or Z by 1.
func (d Dim3) normalize() Dim3 {
	return Dim3{d.X, max(d.Y, 1), max(d.Z, 1)}
}

// Grid1D returns the configuration of a launch with at least n threads in one dimension, in blocks of
// the given number of threads. The kernel has to ignore the threads from n on. If n or block is less
// than 1, or if 1<<32 blocks or more are needed, the launch fails.
func Grid1D(n, block int) LaunchConfig {
	if n < 1 || block < 1 || uint64(block) > math.MaxUint32 || (uint64(n)-1)/uint64(block) >= math.MaxUint32 {
		return LaunchConfig{}
	}
	return LaunchConfig{Grid: Dim3{X: uint32((uint64(n)-1)/uint64(block) + 1)}, Block: Dim3{X: uint32(block)}}
}
