package cu

import (
	"fmt"
	"sync/atomic"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/launch"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/memstate"
)

// PreparedLaunch is a launch of a kernel with its configuration and its arguments, which were
// checked once. It can be launched any number of times, on any stream of the kernel's context. It is
// safe for concurrent use.
//
// It keeps the memory of its arguments from being collected, but not from being closed. It has no
// object of the driver, and needs no Close.
type PreparedLaunch struct {
	f    *Function
	cfg  LaunchConfig
	mu   lock.Mutex[lock.Prepared] // held while args is replaced
	args atomic.Pointer[preparedArgs]
}

// preparedArgs are the arguments of a PreparedLaunch. They never change, because the driver reads
// them during a launch.
type preparedArgs struct {
	args   []Arg // also keeps the owners of memory
	values core.KernelArgs
	// memory has the indexes of the arguments that are memory.
	memory []int
}

// Prepare returns a launch of the kernel with these arguments. They are checked as by
// [Function.Launch]; memory that is closed later is detected at each launch.
func (f *Function) Prepare(cfg LaunchConfig, args ...Arg) (*PreparedLaunch, error) {
	p, c := &PreparedLaunch{f: f, cfg: cfg}, cfg.core()
	if f == nil || f.core().Mod == nil {
		return nil, drivercall.NilError(c.Op(), "function")
	}
	a, err := f.prepareArgs(&c, args)
	if err != nil {
		return nil, err
	}
	for _, i := range a.memory {
		if err := f.checkMemory(&c, i, a.args[i].core().Mem); err != nil {
			return nil, err
		}
	}
	p.args.Store(a)
	return p, nil
}

// prepareArgs checks arguments, and copies them. It does not check memory.
func (f *Function) prepareArgs(cfg *launch.Config, args []Arg) (*preparedArgs, error) {
	if mc := f.core().Mod; mc.Closed() {
		return nil, mc.Refused(cfg.Op())
	}
	if err := f.check(cfg, args); err != nil {
		return nil, err
	}
	a := &preparedArgs{args: append([]Arg(nil), args...)}
	a.values.Grow(len(args))
	for i := range a.args {
		arg := a.args[i].core()
		if arg.Mem != nil {
			a.memory = append(a.memory, i)
		}
		if err := arg.SetIn(&a.values, i); err != nil {
			return nil, f.core().BadArg(cfg, i, err)
		}
	}
	return a, nil
}

// checkMemory returns an error if the memory of an argument is closed, or the kernel cannot access
// it.
func (f *Function) checkMemory(cfg *launch.Config, i int, mc *memstate.Mem) error {
	c := f.core().Mod.Ctx
	mc = mc.Current()
	if mc.Closed() || mc.Ctx != c && !memstate.CanAccess(c, mc) {
		return f.core().BadMemory(cfg, i, c, mc)
	}
	return nil
}

// SetArg replaces an argument for later launches. Launches that are in flight use the old or the new
// argument. The numbers of the arguments begin with 0. The memory of the other arguments may be
// closed.
func (p *PreparedLaunch) SetArg(i int, arg Arg) error {
	if p == nil || p.f == nil {
		return drivercall.NilError("cuLaunchKernel", "launch")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	old, c := p.args.Load(), p.cfg.core()
	if i < 0 || i >= len(old.args) {
		return p.f.core().Refuse(&c, fmt.Sprintf(": there is no argument %d: the launch has %d", i, len(old.args)))
	}
	args := append([]Arg(nil), old.args...)
	args[i] = arg
	a, err := p.f.prepareArgs(&c, args)
	if err != nil {
		return err
	}
	if m := arg.core().Mem; m != nil {
		if err := p.f.checkMemory(&c, i, m); err != nil {
			return err
		}
	}
	p.args.Store(a)
	return nil
}

// Launch enqueues the kernel on a stream, as [Function.Launch] does. It allocates nothing if the
// stream keeps the memory of the arguments. It may wait for the GPU: see docs/blocking.md.
func (p *PreparedLaunch) Launch(s *Stream) error {
	if p == nil || p.f == nil {
		return drivercall.NilError("cuLaunchKernel", "launch")
	}
	return p.f.launchOn(s, &p.cfg, nil, p.args.Load())
}
