package cu

import (
	"math"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/launch"
	"github.com/purecu/purecu/internal/memstate"
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
	if done && err == nil {
		return nil
	}
	c := cfg.core()
	if !done {
		err = f.launchOnce(s, &c, args, prepared)
	}
	if err != nil {
		err = s.core().FreeOnly(c.Op(), err)
	}
	return err
}

// launchFast is launchOn in the usual case. It finds no mistake in the arguments: launchOnce does.
func (f *Function) launchFast(s *Stream, cfg *LaunchConfig, args []Arg, prepared *preparedArgs) (done bool, err error) {
	sc := s.core()
	fn := f.core()
	if fn == nil || fn.Mod == nil || sc == nil || cfg.Flags != 0 ||
		cfg.Attributes != nil || cfg.Grid.X == 0 || cfg.Block.X == 0 {
		return false, nil
	}
	values := &sc.Frame.Args
	if prepared == nil && (fn.Known && len(args) != len(fn.Params)) || !sc.BeginFast(core.WorkLaunch) {
		return false, nil
	}
	usual := sc.Keeps(&fn.Mod.Resource)
	if prepared != nil {
		args, values = prepared.args, &prepared.values
		for _, i := range prepared.memory {
			usual = usual && memstate.KeptBy(sc, args[i].core().Mem)
		}
	} else if usual = usual && len(args) <= len(values.Values); usual {
		for i := range args {
			a := args[i].core()
			if fn.Known && !fn.Params[i].Fits(a) || a.Mem == nil && a.Ref != nil ||
				a.Mem != nil && !memstate.KeptBy(sc, a.Mem) {
				usual = false
				break
			}
			values.Values[i], values.Sizes[i] = a.Bits, a.Size
		}
	}
	if !usual {
		sc.EndFast()
		return false, nil
	}
	g, b := cfg.Grid.normalize(), cfg.Block.normalize()
	res := sc.Ctx.Drv.Table().LaunchKernel(driver.At{}, fn.Raw,
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
	c := cfg.core()
	return true, fn.Failed(sc, &c, res)
}

// launchOnce is launchOn in all cases, with one attempt.
func (f *Function) launchOnce(s *Stream, cfg *launch.Config, args []Arg, prepared *preparedArgs) error {
	fn, op := f.core(), cfg.Op()
	if fn == nil || fn.Mod == nil {
		return drivercall.NilError(op, "function")
	}
	sc := s.core()
	if sc == nil {
		return drivercall.NilArgError(op, fn.Object(), "stream")
	}
	if ctx := fn.Mod.Ctx; ctx.Drv != sc.Ctx.Drv {
		return core.MixedError(op, fn.Object(), sc)
	}
	if sc.Ctx.Drv.Tracers.Load() != nil {
		return f.launchTraced(s, cfg, args, prepared)
	}
	_, err := f.enqueue(sc, cfg, args, prepared)
	runtime.KeepAlive(s)
	return err
}

// launchTraced is launchOnce with tracers. They are called during a call on the stream.
func (f *Function) launchTraced(s *Stream, cfg *launch.Config, args []Arg, prepared *preparedArgs) error {
	sc, err := s.enter(cfg.Op())
	if err != nil {
		return err
	}
	defer s.leave()
	t := sc.Ctx.Drv.Trace(drivercall.TraceLaunch, 0, sc.Raw)
	res, err := f.enqueue(sc, cfg, args, prepared)
	t.Done(drivercall.TraceLaunch, 0, sc.Raw, res)
	sc.Ctx.Drv.ReportRaces()
	return err
}

// enqueue enqueues the kernel on a stream, and returns the driver's result, or notCalled.
func (f *Function) enqueue(sc *core.Stream, cfg *launch.Config, args []Arg,
	prepared *preparedArgs) (driver.Result, error) {
	w, err := sc.BeginEnqueue(cfg.Op())
	if err != nil {
		return notCalled, err
	}
	params, err := f.useAll(&w, cfg, args, prepared)
	if err != nil {
		w.End()
		return notCalled, err
	}
	res := f.core().Call(&w, cfg, params)
	w.End()
	runtime.KeepAlive(f)
	runtime.KeepAlive(args) // these have the owners of memory
	runtime.KeepAlive(prepared)
	if res != driver.ResultSuccess {
		return res, f.core().Failed(sc, cfg, res)
	}
	if o := sc.Ctx.Drv.Observer(); o != nil {
		if prepared != nil {
			args = prepared.args
		}
		o.Enqueue(sc.Observed(), cfg.Op(), "kernel "+f.core().Name,
			launch.Uses(len(args), func(i int) *launch.Arg { return args[i].core() }))
	}
	return res, nil
}

// notCalled is a result of which tracers are not told.
const notCalled driver.Result = -1

// useAll makes the work use the kernel's module and the memory of its arguments, and returns the
// arguments for the driver.
func (f *Function) useAll(w *core.Work, cfg *launch.Config, args []Arg,
	prepared *preparedArgs) (p driver.KernelParams, err error) {
	fn := f.core()
	if err = fn.UseModule(w, cfg); err != nil {
		return p, err
	}
	if prepared != nil {
		for _, i := range prepared.memory {
			if mc := prepared.args[i].core().Mem; !memstate.Use(w, mc) {
				return p, fn.BadMemory(cfg, i, w.Stream.Ctx, mc)
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
		a := args[i].core()
		if a.Mem != nil && !memstate.Use(w, a.Mem) {
			return p, fn.BadMemory(cfg, i, w.Stream.Ctx, a.Mem)
		}
		if err = a.SetIn(values, i); err != nil {
			return p, fn.BadArg(cfg, i, err)
		}
	}
	return values.Params(len(args)), nil
}

// check compares the launch with the kernel's parameters, if they are known.
func (f *Function) check(cfg *launch.Config, args []Arg) error {
	return f.core().Check(cfg, len(args), func(i int) *launch.Arg { return args[i].core() })
}

// core returns the configuration with 1 for a Y or Z of 0.
func (cfg *LaunchConfig) core() launch.Config {
	return launch.Config{Grid: launch.Dim(cfg.Grid.normalize()), Block: launch.Dim(cfg.Block.normalize()),
		SharedMem: cfg.SharedMem, Flags: uint32(cfg.Flags), Attributes: cfg.Attributes.core()}
}

// normalize replaces a zero Y or Z by 1.
func (d Dim3) normalize() Dim3 { return Dim3(launch.DimOf(d.X, d.Y, d.Z)) }

// Grid1D returns the configuration of a launch with at least n threads in one dimension, in blocks of
// the given number of threads. The kernel has to ignore the threads from n on. If n or block is less
// than 1, or if 1<<32 blocks or more are needed, the launch fails.
func Grid1D(n, block int) LaunchConfig {
	if n < 1 || block < 1 || uint64(block) > math.MaxUint32 || (uint64(n)-1)/uint64(block) >= math.MaxUint32 {
		return LaunchConfig{}
	}
	return LaunchConfig{Grid: Dim3{X: uint32((uint64(n)-1)/uint64(block) + 1)}, Block: Dim3{X: uint32(block)}}
}
