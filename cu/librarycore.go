package cu

import (
	"errors"
	"runtime"
	"sync"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
)

// libraryCore is a library, which belongs to no context. The driver may wait for work in all contexts
// that have used it before it unloads it. So a library that is abandoned, or closed while it is in
// use, is deferred: the next freeing call in any context of the driver unloads it.
type libraryCore struct {
	handle.Refs
	drv     *driverCore
	raw     driver.LibraryHandle
	kernels kernelTexts // see moduleCore
	// jit has the compiler's logs, to which the driver may write until the library is unloaded.
	jit *driver.JITBuffers
	// modules has the open *moduleCores of the library, each with a call in flight for it.
	modules sync.Map
}

const closeLibraryOp = "Library.Close"

func (lc *libraryCore) kind() string    { return "library" }
func (lc *libraryCore) handle() uintptr { return uintptr(lc.raw) }

// Refused returns the error of a call that began after the library was closed.
func (lc *libraryCore) Refused(op string) error { return errClosed(op, lc) }

// Last defers the library when the last call on it has ended.
func (lc *libraryCore) Last(bool) { lc.drv.libraries.Add(lc, 0) }

func (lc *libraryCore) leave() { lc.Release(lc) }

// adopt makes a new module of a context one of the library's, within calls on both. The module is
// closed with the library.
func (lc *libraryCore) adopt(mc *moduleCore, c *contextCore) {
	lc.Retain() // until the module is freed
	mc.library = lc
	mc.begin(mc, c)
	lc.modules.Store(mc, true)
	if lc.Closed() { // close may not have seen the module
		mc.closeOwned(closeLibraryOp, runtime.Cleanup{})
	}
}

// abandoned closes a module of a library whose owner is abandoned, which is no leak: the program need
// not close it.
func (mc *moduleCore) abandoned() {
	if _, last := mc.close(); last {
		mc.destroyLate(false)
	}
}

// close closes the library and its modules, and unloads it unless it is in use.
func (lc *libraryCore) close() (err error) {
	if !lc.CloseAndRetain() {
		return nil
	}
	var used []*contextCore
	closed := false
	defer func() {
		switch last := lc.ReleaseLast(); {
		case last && closed:
			err = lc.unload()
			switch {
			case err == nil:
				for _, c := range used {
					c.observeDone() // the driver has waited for all work in the context
				}
			case errors.Is(err, driver.ResultNotPermitted):
				lc.Last(false)
				err = errLater(closeLibraryOp, lc, err, afterFreeing)
			}
		case last: // a tracer panicked
			lc.Last(false)
		}
		eachDespitePanic(len(used), func(i int) { used[i].releaseLate() })
	}()
	lc.modules.Range(func(m, _ any) bool {
		mc := m.(*moduleCore)
		if mc.Acquire(mc) { // so that the context lives on
			mc.ctx.hold()
			used = append(used, mc.ctx)
			mc.leave()
		}
		var refused *cuerror.Error
		refusal := mc.closeOwned(closeLibraryOp, runtime.Cleanup{})
		if errors.As(refusal, &refused) && refused.Result == driver.ResultNotPermitted {
			err = errLater(closeLibraryOp, lc, refused.Err, afterFreeing)
		}
		return true
	})
	closed = true
	return err
}

// forgotten closes a library whose owner is abandoned. Its modules have been, too.
func (lc *libraryCore) forgotten() {
	first, last := lc.Close()
	if last {
		lc.Last(true)
	}
	if first {
		lc.drv.collector.abandoned(0)
		lc.drv.leak(leakReport{Kind: "library", Handle: uintptr(lc.raw), Abandoned: true})
	}
}

// compiled adds the compiler's log to the error of a call that has met a mistake in the code.
func (lc *libraryCore) compiled(e *cuerror.Error) *cuerror.Error {
	switch e.Result {
	case driver.ResultInvalidPTX, driver.ResultUnsupportedPTXVersion, driver.ResultInvalidImage,
		driver.ResultNoBinaryForGPU:
		return compiled(e, lc.jit.Log())
	}
	return e
}

// unload unloads the library. It waits for the GPU.
func (lc *libraryCore) unload() error {
	if res := lc.drv.table().LibraryUnload(driver.At{Relaxed: true}, lc.raw); res != driver.ResultSuccess {
		return lc.drv.resultError("cuLibraryUnload", uintptr(lc.raw), res)
	}
	return nil
}
