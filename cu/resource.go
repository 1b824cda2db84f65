package cu

import (
	"runtime"

	"github.com/purecu/purecu/internal/driver"
)

// resource is a handle of a kind that has no more to its life than being
// created, used and destroyed. It is what the owner, such as a Stream, points
// to, and what calls in flight hold on to. Its type says how to destroy it.
type resource[H driver.Stream | driver.Module | driver.DevicePtr] struct {
	refs
	raw H
	ctx *contextCore
}

// owned fills a resource, which becomes a user of the context, and has it
// closed when the garbage collector finds that nobody refers to its owner.
func owned[O any, H driver.Stream | driver.Module | driver.DevicePtr](owner *O, r *resource[H], ctx *contextCore, raw H) runtime.Cleanup {
	ctx.hold() // cannot fail: the caller is a user
	r.raw, r.ctx = raw, ctx
	return runtime.AddCleanup(owner, func(r *resource[H]) { r.forgotten() }, r)
}

// enter begins a call.
func (r *resource[H]) enter(op string) error {
	if r.acquire() {
		return nil
	}
	return r.refuse(op)
}

// refuse takes a call back that began after the resource was closed.
func (r *resource[H]) refuse(op string) error {
	r.leave()
	return errClosed(op, r.kind(), uintptr(r.raw))
}

// leave ends a call.
func (r *resource[H]) leave() {
	if r.release() {
		r.destroyLate(false)
	}
}

// closeOwned is the owner's Close.
func (r *resource[H]) closeOwned(cleanup runtime.Cleanup) error {
	first, last := r.close()
	if first {
		cleanup.Stop()
	}
	if last {
		return r.destroy(driver.At{})
	}
	return nil
}

// forgotten closes a resource whose owner the garbage collector found. No call
// can be in flight: calls keep the owner.
func (r *resource[H]) forgotten() {
	if _, last := r.close(); last {
		r.destroyLate(true)
	}
}

// kind names what the resource is.
func (r *resource[H]) kind() string {
	switch any(r.raw).(type) {
	case driver.Stream:
		return "stream"
	case driver.Module:
		return "module"
	}
	return "device memory"
}

// destroy calls the driver, and takes the resource away from its context.
func (r *resource[H]) destroy(at driver.At) error {
	t := r.ctx.drv.table
	var op string
	var res driver.Result
	switch raw := any(r.raw).(type) {
	case driver.Stream:
		r.ctx.drv.trace(traceStreamDestroyed, 0, raw)
		op, res = "cuStreamDestroy", t.StreamDestroy(at, raw)
	case driver.Module:
		at.Context = r.ctx.raw
		op, res = "cuModuleUnload", t.ModuleUnload(at, raw)
	case driver.DevicePtr:
		at.Context = r.ctx.raw
		op, res = "cuMemFree", t.MemFree(at, raw)
	}
	var err error
	if res != driver.ResultSuccess {
		err = r.ctx.fail(op, uintptr(r.raw), res)
	}
	r.ctx.childDone()
	return err
}

// destroyLate destroys the resource when nobody waits for the outcome, which
// goes to the leak hook; on a goroutine of its own, unless it is a stream: the
// others may wait for the GPU.
func (r *resource[H]) destroyLate(forgotten bool) {
	destroy := func() {
		err := r.destroy(driver.At{Relaxed: true})
		r.ctx.drv.leak(Leak{Kind: r.kind(), Handle: uintptr(r.raw), Forgotten: forgotten, Err: err})
	}
	if _, ok := any(r.raw).(driver.Stream); ok {
		destroy()
	} else {
		go destroy()
	}
}
