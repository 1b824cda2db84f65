package loaded

import (
	"errors"
	"runtime"
	"sync"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/handle"
)

// Library is a library, which belongs to no context. The driver may wait for work in all contexts
// that have used it before it unloads it. So a library that is abandoned, or closed while it is in
// use, is deferred: the next freeing call in any context of the driver unloads it.
type Library struct {
	handle.Refs
	Drv     *core.Driver
	Raw     driver.LibraryHandle
	Kernels kernelTexts // see Module
	// Jit has the compiler's logs, to which the driver may write until the library is unloaded.
	Jit *driver.JITBuffers
	// Modules has the open *Modules of the library, each with a call in flight for it.
	Modules sync.Map
}

const closeLibraryOp = "Library.Close"

// Kind names the kind of the object in errors and reports.
func (lc *Library) Kind() string { return "library" }

// Handle returns the driver's handle.
func (lc *Library) Handle() uintptr { return uintptr(lc.Raw) }

// Refused returns the error of a call that began after the library was closed.
func (lc *Library) Refused(op string) error { return drivercall.ClosedError(op, lc) }

// Last defers the library when the last call on it has ended.
func (lc *Library) Last(bool) { lc.Drv.Libraries.Add(lc, 0) }

// EndCall ends a call in flight on the library.
func (lc *Library) EndCall() { lc.Release(lc) }

// Adopt makes a new module of a context one of the library's, within calls on both. The module is
// closed with the library.
func (lc *Library) Adopt(mc *Module, c *core.Context) {
	lc.Retain() // until the module is freed
	mc.library = lc
	mc.Init(mc, c)
	lc.Modules.Store(mc, true)
	if lc.Closed() { // CloseModules may not have seen the module
		mc.CloseOwned(closeLibraryOp, runtime.Cleanup{})
	}
}

// Abandoned closes a module of a library whose owner is abandoned, which is no leak: the program need
// not close it.
func (mc *Module) Abandoned() {
	if _, last := mc.CloseKept(); last {
		mc.DestroyLate(false)
	}
}

// CloseModules closes the library and its modules, and unloads it unless it is in use.
func (lc *Library) CloseModules() (err error) {
	if !lc.CloseAndRetain() {
		return nil
	}
	var used []*core.Context
	closed := false
	defer func() {
		switch last := lc.ReleaseLast(); {
		case last && closed:
			err = lc.Unload()
			switch {
			case err == nil:
				for _, c := range used {
					c.ObserveDone() // the driver has waited for all work in the context
				}
			case errors.Is(err, driver.ResultNotPermitted):
				lc.Last(false)
				err = core.LaterError(closeLibraryOp, lc, err, core.AfterFreeing)
			}
		case last: // a tracer panicked
			lc.Last(false)
		}
		drivercall.EachDespitePanic(len(used), func(i int) { used[i].ReleaseLate() })
	}()
	lc.Modules.Range(func(m, _ any) bool {
		mc := m.(*Module)
		if mc.Acquire(mc) { // so that the context lives on
			mc.Ctx.Hold()
			used = append(used, mc.Ctx)
			mc.EndCall()
		}
		var refused *cuerror.Error
		refusal := mc.CloseOwned(closeLibraryOp, runtime.Cleanup{})
		if errors.As(refusal, &refused) && refused.Result == driver.ResultNotPermitted {
			err = core.LaterError(closeLibraryOp, lc, refused.Err, core.AfterFreeing)
		}
		return true
	})
	closed = true
	return err
}

// Forgotten closes a library whose owner is abandoned. Its modules have been, too.
func (lc *Library) Forgotten() {
	first, last := lc.Close()
	if last {
		lc.Last(true)
	}
	if first {
		lc.Drv.NoteAbandoned(0)
		lc.Drv.Leak(drivercall.LeakReport{Kind: "library", Handle: uintptr(lc.Raw), Abandoned: true})
	}
}

// Compiled adds the compiler's log to the error of a call that has met a mistake in the code.
func (lc *Library) Compiled(e *cuerror.Error) *cuerror.Error {
	switch e.Result {
	case driver.ResultInvalidPTX, driver.ResultUnsupportedPTXVersion, driver.ResultInvalidImage,
		driver.ResultNoBinaryForGPU:
		return Compiled(e, lc.Jit.Log())
	}
	return e
}

// Unload unloads the library. It waits for the GPU.
func (lc *Library) Unload() error {
	if res := lc.Drv.Table().LibraryUnload(driver.At{Relaxed: true}, lc.Raw); res != driver.ResultSuccess {
		return lc.Drv.ResultError("cuLibraryUnload", uintptr(lc.Raw), res)
	}
	return nil
}
