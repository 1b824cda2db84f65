package launch

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
)

// Call calls the driver, which enqueues the kernel.
func (f *Function) Call(w *core.Work, cfg *Config, params driver.KernelParams) driver.Result {
	if cfg.Attributes != nil {
		return f.callEx(w, cfg, params)
	}
	return f.call(w.Stream, cfg, params)
}

func (f *Function) call(sc *core.Stream, cfg *Config, params driver.KernelParams) (res driver.Result) {
	g, b, fn := cfg.Grid, cfg.Block, cfg.workFunction()
	sc.EnterGate()
	for in, again := sc.ContextFor(fn), true; again; in, again = sc.NeedsContext(fn, in, res) {
		if fn == core.WorkLaunchCooperative {
			res = sc.Ctx.Drv.Table().LaunchCooperativeKernel(sc.Within(in), f.Raw,
				g.X, g.Y, g.Z, b.X, b.Y, b.Z, cfg.SharedMem, sc.Raw, params)
		} else {
			res = sc.Ctx.Drv.Table().LaunchKernel(sc.Within(in), f.Raw,
				g.X, g.Y, g.Z, b.X, b.Y, b.Z, cfg.SharedMem, sc.Raw, params)
		}
	}
	sc.LeaveGate()
	return res
}

// callEx calls the driver for a launch with attributes, in the stream's context.
func (f *Function) callEx(w *core.Work, cfg *Config, params driver.KernelParams) driver.Result {
	sc, c := w.Stream, w.Frame.ExConfig()
	*c = cfg.Params()
	c.Stream = sc.Raw
	sc.EnterGate()
	res := sc.Ctx.Drv.Table().LaunchKernelEx(sc.InContext(), c, f.Raw, params)
	sc.LeaveGate()
	return res
}

// Failed returns the error of a launch that the driver has refused.
func (f *Function) Failed(sc *core.Stream, cfg *Config, res driver.Result) error {
	e := sc.Ctx.CallError(cfg.Op(), uintptr(f.Raw), res)
	if e.Err == nil && res == driver.ResultInvalidValue {
		e.Detail = cfg.exceededLimit(sc.Ctx)
	}
	e.Detail = drivercall.JoinText(e.Detail, cfg.ExceededAttribute(sc.Ctx, res))
	return e
}

// UseModule makes the work use the kernel's module.
func (f *Function) UseModule(w *core.Work, cfg *Config) error {
	switch mc := f.Mod; {
	case mc.Ctx != w.Stream.Ctx && !mc.Closed():
		return core.MixedError(cfg.Op(), f.Object(), w.Stream)
	case mc.Ctx != w.Stream.Ctx, !w.Kept(&mc.Resource) && !w.Use(&mc.Resource, mc):
		return mc.Refused(cfg.Op())
	}
	return nil
}
