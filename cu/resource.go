package cu

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
)

// object is an object that can only be created, used and destroyed: a stream, a module, memory.
type object interface {
	named
	// free destroys the object, and returns the C function that did so. If other code owns the
	// object, it ends only this package's use.
	free(at driver.At) (op string, res driver.Result)
}

// memoryObject is an object that is memory, to which more happens at its end than to other objects. It is an
// interface, so that programs without memory do not contain what it does.
type memoryObject interface {
	object
	sizeInBytes() uint64
	// dropLocal makes the streams of the memory's own context release it.
	dropLocal()
	// closeInPool is closeOwned for memory of a pool, and destroyInPool is destroyLate after the work that uses such
	// memory has ended. They report false for other memory, to which they do nothing.
	closeInPool() (closed bool, err error)
	destroyInPool(l leakReport) bool
	// leftToOther reports whether another opening of the memory frees it. If so, this one has ended.
	leftToOther() bool
	// keepHost keeps memory of the program from the garbage collector, for as long as the driver is open.
	keepHost()
	// reuse returns which allocations the memory can serve. reusable is false if it can serve none.
	reuse() (capacity uint64, fit memoryFit, reusable bool)
	// unmark ends the use of the event by which the end of work without a stream was observed.
	unmark()
	// memoryBytes returns how much memory is freed with the object.
	memoryBytes() uint64
}

// resource is the lifetime of an object, which contains it. The owner, such as a Stream, and calls
// in flight point to the object.
type resource struct {
	handle.Refs
	ctx  *contextCore
	self object
	// freeWaits says that the driver may wait for the GPU when it frees the object: see deferredList.
	freeWaits bool
	// tries is how often the driver failed to report when the object's last work is done. The lock
	// of the context's deferred objects guards it.
	tries uint8
	// number is the object's number in the sets of objects that streams keep: see handle.Kept.
	number uint8
	// only is not nil if only nodes of the graph with these objects can use the object.
	only *objectSet
	// freed is set when the object is freed.
	freed atomic.Bool
	// usedStreams is not nil if the work that uses the object must be done before it is freed.
	usedStreams *streamSet
}

// background returns how a background call is made, and a call that is documented to return at
// once. Such a call invalidates no capture, and must not wait for the GPU.
func background() driver.At { return driver.At{Relaxed: true, NoWait: true} }

// owned makes a new resource a user of the context, to be closed when its owner is abandoned.
func owned[O any](owner *O, r *resource, self object, ctx *contextCore) runtime.Cleanup {
	r.begin(self, ctx)
	return runtime.AddCleanup(owner, func(r *resource) { r.forgotten() }, r)
}

// begin makes a new resource a user of the context.
func (r *resource) begin(self object, ctx *contextCore) {
	ctx.hold() // cannot fail: the caller is a user of the context
	r.ctx, r.self, r.number = ctx, self, uint8(ctx.numbers.Add(1))
}

// context returns the context that the object belongs to.
func (r *resource) context() *contextCore { return r.ctx }

// leave ends a call that Enter or Acquire began.
func (r *resource) leave() { r.Release(r) }

// Leave is leave for handle.Kept.
func (r *resource) Leave() { r.leave() }

// close closes the resource, as handle.Refs.Close does. The streams that keep the resource release
// it: at once, or after the work that is being enqueued there now.
func (r *resource) close() (first, last bool) {
	if r.usedStreams == nil {
		return r.Close()
	}
	if !r.CloseAndRetain() {
		return false, false
	}
	// Work that adds the resource to a stream's set looks after that whether it is closed. So one of
	// the two sees the other.
	r.dropKept(r.usedStreams)
	if m, ok := r.self.(memoryObject); ok {
		m.dropLocal()
	}
	return true, r.ReleaseLast() // the streams' release was not the last
}

// dropKept makes streams release the resource.
func (r *resource) dropKept(u *streamSet) {
	for _, sc := range u.list() {
		sc.kept.Drop(&sc.Refs, r, r.number)
	}
}

// Refused returns the error of a call that began after the resource was closed.
func (r *resource) Refused(op string) error {
	return errClosed(op, r.self)
}

// Last destroys the resource when the last call on it has ended.
func (r *resource) Last(later bool) {
	r.ctx.drv.afterLastCall(later, func() { r.destroyLate(false) })
}

// closeOwned is the Close of the owner. It invalidates no capture. If the driver may wait in it, it
// also frees the context's deferred objects. method is the method that the program has called.
func (r *resource) closeOwned(method string, cleanup runtime.Cleanup) error {
	first, last := r.close()
	if first {
		cleanup.Stop()
	}
	if !last {
		return nil
	}
	if m, ok := r.self.(memoryObject); ok {
		if closed, err := m.closeInPool(); closed {
			return err
		}
	}
	late := true
	defer func() {
		if late { // destroyLate repeats the wait for the last work; also if a tracer panics
			r.destroyLate(false)
		}
	}()
	r.ctx.observeNeeded()
	if err := r.usedStreams.wait(); err != nil {
		switch {
		case !errors.Is(err, driver.ResultNotPermitted): // which is the answer to a host function
			return nil
		case r.freeWaits:
			return errLater(method, r.self, err, afterFreeing)
		}
		return errLater(method, r.self, err, "when its work is done")
	}
	late = false
	if o, ok := r.self.(interface{ observeLaunchesDone() }); ok {
		o.observeLaunchesDone()
	}
	if !r.freeWaits {
		return r.destroy(driver.At{Relaxed: true})
	}
	defer r.ctx.releaseLate()
	err := r.free(driver.At{Relaxed: true})
	switch {
	case err == nil:
		r.ctx.observeDone() // the driver has waited for all work in the context
	case errors.Is(err, driver.ResultNotPermitted): // nothing was freed
		r.freed.Store(false)
		r.ctx.addDeferred(r)
		return errLater(method, r.self, err, afterFreeing)
	}
	return err
}

// errLater is the error of a method that closes an object, if it must not wait for the object's work, or if the driver
// refuses to destroy the object now. The object is closed, and destroyed later. err names the driver's function.
func errLater(method string, of named, err error, when string) error {
	return newError(method, of, driver.ResultNotPermitted, err, "the "+of.kind()+" is closed, and is destroyed "+when)
}

// afterFreeing says when a deferred object is destroyed.
const afterFreeing = "by the next call that frees such objects: see docs/blocking.md#freeing-calls"

// forgotten closes a resource whose owner is abandoned. An object that is part of it may be in use.
func (r *resource) forgotten() {
	first, last := r.close()
	if first {
		size := uint64(0)
		if m, ok := r.self.(interface{ memoryBytes() uint64 }); ok { // also physical memory
			size = m.memoryBytes()
		}
		r.ctx.drv.collector.abandoned(size)
	}
	switch {
	case last:
		r.destroyLate(true)
	case first:
		r.ctx.drv.leak(leakReport{Kind: r.self.kind(), Handle: r.self.handle(), Abandoned: true})
	}
}

// destroy frees the object, and ends its use of the context.
func (r *resource) destroy(at driver.At) error {
	defer r.ctx.endHold() // also if a tracer panics
	return r.free(at)
}

func (r *resource) free(at driver.At) error {
	defer r.freed.Store(true)
	if op, res := r.self.free(at); res != driver.ResultSuccess {
		e := r.ctx.backgroundError(op, r.self.handle(), res)
		e.Object = describe(r.self)
		return e
	}
	return nil
}

// keepForever leaves the object for the life of the process, because the end of the GPU's use is unknown.
func (r *resource) keepForever(err error) error {
	if m, ok := r.self.(memoryObject); ok {
		m.keepHost()
	}
	return errKept(r.self.kind(), r.self.handle(), err)
}

func errKept(kind string, handle uintptr, err error) error {
	return &cuerror.Error{Op: "Close", Handle: handle, Err: err, Detail: "the " + kind + " is not freed: the GPU may still use it"}
}

// usedOn notes a stream before work that uses the object is enqueued on it: see streamSet.
func (r *resource) usedOn(sc *streamCore) (noted bool) {
	if r.ctx != sc.ctx && !sc.shared.usesOthers.Load() {
		sc.shared.usesOthers.Store(true)
	}
	return r.usedStreams.note(sc, true)
}

// destroyLate destroys the resource in the background; an error goes to the leak hook. If work that
// uses the resource must end first, it waits on a new goroutine. If the driver may wait for the
// GPU, the resource is deferred.
func (r *resource) destroyLate(abandoned bool) {
	drv, l := r.ctx.drv, leakReport{Kind: r.self.kind(), Handle: r.self.handle(), Abandoned: abandoned}
	m, isMemory := r.self.(memoryObject)
	if isMemory && m.leftToOther() {
		drv.leak(l)
		return
	}
	if r.freeWaits {
		drv.leak(l)
		r.ctx.addDeferred(r)
		r.ctx.endHold()
		return
	}
	destroy := func() {
		l.Err = r.usedStreams.waitLong(drv.table().Clock())
		if isMemory && l.Err == nil && m.destroyInPool(l) {
			return
		}
		if l.Err == nil {
			l.Err = r.destroy(background())
		} else {
			l.Err = r.keepForever(l.Err)
		}
		drv.leak(l)
	}
	if r.usedStreams != nil {
		drv.collector.freeing.Add(1)
		go func() {
			defer drv.collector.freeing.Add(-1)
			destroy()
		}()
	} else {
		destroy()
	}
}

// usableIn reports whether work can use the object. c is the capture that the work becomes part of.
func (r *resource) usableIn(c *capture) bool {
	return r.only == nil || c != nil && c.objects == r.only
}

// noCopy makes go vet report copies. The cleanup of an object closes it when the original is
// abandoned, although a copy may still be used.
type noCopy struct{}

// Lock makes go vet treat the type as a lock, which must not be copied.
func (*noCopy) Lock() {}

// Unlock does nothing.
func (*noCopy) Unlock() {}
