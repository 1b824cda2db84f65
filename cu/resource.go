package cu

import (
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
)

// object is a handle of a kind that has no more to its life than being created,
// used and destroyed: a stream, a module, memory.
type object interface {
	// kind names what it is.
	kind() string
	// handle returns the driver's handle.
	handle() uintptr
	// free destroys it, and says by which function. Where there is nothing to
	// destroy, because it is somebody else's, it just lets go.
	free(at driver.At) (op string, res driver.Result)
}

// resource is the life of an object, which contains it. The object is what the
// owner, such as a Stream, points to, and what calls in flight hold on to.
type resource struct {
	handle.Refs
	ctx  *contextCore
	self object
	// waits says that the driver may wait for the GPU when it frees the object: see deferred.
	waits bool
	// tries is how often the driver failed to say when the object's last work is done.
	tries uint8
	// freed is set when the object is gone.
	freed atomic.Bool
	// usage is where the object was used, if that must be over before it is
	// freed.
	usage *usage
}

// background is how a call is made that the program has not asked for, or that is documented to return at once: it
// invalidates no capture, and must not be of a function that may wait for the GPU.
func background() driver.At { return driver.At{Relaxed: true, NoWait: true} }

// owned puts a resource into service, which becomes a user of the context, and
// has it closed when the garbage collector finds that nobody refers to its
// owner.
func owned[O any](owner *O, r *resource, self object, ctx *contextCore) runtime.Cleanup {
	ctx.hold() // cannot fail: the caller is a user
	r.ctx, r.self = ctx, self
	return runtime.AddCleanup(owner, func(r *resource) { r.forgotten() }, r)
}

// leave ends a call that Enter or Acquire has begun.
func (r *resource) leave() { r.Release(r) }

// Refused returns the error of a call that began after the resource was closed.
func (r *resource) Refused(op string) error {
	return errClosed(op, r.self.kind(), r.self.handle())
}

// Last destroys the resource when the last call on it has ended.
func (r *resource) Last(later bool) {
	r.ctx.drv.last(later, func() { r.destroyLate(false) })
}

// closeOwned is the owner's Close. It disturbs nobody's capture. Where the driver may wait, what is deferred is
// freed, too.
func (r *resource) closeOwned(cleanup runtime.Cleanup) error {
	first, last := r.Close()
	if first {
		cleanup.Stop()
	}
	if !last {
		return nil
	}
	late := true
	defer func() {
		if late { // perhaps it can be known later; also if a tracer panics
			r.destroyLate(false)
		}
	}()
	if r.usage.wait() != nil {
		return nil
	}
	late = false
	if !r.waits {
		return r.destroy(driver.At{Relaxed: true})
	}
	defer r.ctx.releaseLate()
	return r.free(driver.At{Relaxed: true})
}

// forgotten closes a resource whose owner the garbage collector found. Another
// object that is part of it may still be in use.
func (r *resource) forgotten() {
	switch first, last := r.Close(); {
	case last:
		r.destroyLate(true)
	case first:
		r.ctx.drv.leak(Leak{Kind: r.self.kind(), Handle: r.self.handle(), Forgotten: true})
	}
}

// destroy frees the object, and takes it away from its context.
func (r *resource) destroy(at driver.At) error {
	defer r.ctx.childDone() // also if a tracer panics
	return r.free(at)
}

// free frees the object.
func (r *resource) free(at driver.At) error {
	defer r.freed.Store(true)
	if op, res := r.self.free(at); res != driver.ResultSuccess {
		return r.ctx.failed(op, r.self.handle(), res)
	}
	return nil
}

// keep leaves the object as it is, for as long as the process lives, because the
// GPU may use it and there is no way to know when it does not.
func (r *resource) keep(err error) error { return errKept(r.self.kind(), r.self.handle(), err) }

func errKept(kind string, handle uintptr, err error) error {
	return &Error{Op: "Close", Handle: handle, Err: err, Detail: "the " + kind + " is not freed: the GPU may still use it"}
}

// usedOn notes that work which uses the object is about to be enqueued on a stream: see
// usage.
func (r *resource) usedOn(sc *streamCore) {
	if r.ctx != sc.ctx && !sc.part.usesOthers.Load() {
		sc.part.usesOthers.Store(true)
	}
	r.usage.note(sc, true)
}

// destroyLate destroys the resource when nobody waits for the outcome, which goes to the leak hook: on a goroutine
// of its own if work that uses it has to be waited for. Where the driver may wait, it is deferred instead.
func (r *resource) destroyLate(forgotten bool) {
	drv, l := r.ctx.drv, Leak{Kind: r.self.kind(), Handle: r.self.handle(), Forgotten: forgotten}
	if r.waits {
		drv.leak(l)
		r.ctx.deferred.add(r)
		r.ctx.childDone()
		return
	}
	destroy := func() {
		if l.Err = r.usage.waitLong(drv.table.Clock()); l.Err == nil {
			l.Err = r.destroy(background())
		} else {
			l.Err = r.keep(l.Err)
		}
		drv.leak(l)
	}
	if r.usage != nil {
		go destroy()
	} else {
		destroy()
	}
}
