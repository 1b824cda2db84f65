package core

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/deferred"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/handle"
)

// Object is an object that can only be created, used and destroyed: a stream, a module, memory.
type Object interface {
	drivercall.Named
	// Destroy destroys the object, and returns the C function that did so. If other code owns the
	// object, it ends only the library's use.
	Destroy(at driver.At) (op string, res driver.Result)
}

// MemoryObject is an object that is memory, to which more happens at its end than to other objects. It is an
// interface, so that programs without memory do not contain what it does.
type MemoryObject interface {
	Object
	SizeInBytes() uint64
	// DropLocal makes the streams of the memory's own context release it.
	DropLocal()
	// CloseInPool is CloseOwned for memory of a pool, and DestroyInPool is DestroyLate after the work that uses such
	// memory has ended. They report false for other memory, to which they do nothing.
	CloseInPool() (closed bool, err error)
	DestroyInPool(l drivercall.LeakReport) bool
	// LeftToOther reports whether another opening of the memory frees it. If so, this one has ended.
	LeftToOther() bool
	// KeepHost keeps memory of the program from the garbage collector, for as long as the driver is open.
	KeepHost()
	// Reuse returns which allocations the memory can serve. reusable is false if it can serve none.
	Reuse() (capacity uint64, fit deferred.Fit, reusable bool)
	// Unmark ends the use of the event by which the end of work without a stream was observed.
	Unmark()
	// MemoryBytes returns how much memory is freed with the object.
	MemoryBytes() uint64
}

// Resource is the lifetime of an object, which contains it. The owner, such as a cu.Stream, and calls
// in flight point to the object.
type Resource struct {
	handle.Refs
	Ctx  *Context
	Self Object
	// FreeWaits says that the driver may wait for the GPU when it frees the object: see deferredList.
	FreeWaits bool
	// tries is how often the driver failed to report when the object's last work is done. The lock
	// of the context's deferred objects guards it.
	tries uint8
	// number is the object's number in the sets of objects that streams keep: see handle.Kept.
	number uint8
	// Only is not nil if only nodes of the graph with these objects can use the object.
	Only *ObjectSet
	// Freed is set when the object is freed.
	Freed atomic.Bool
	// UsedStreams is not nil if the work that uses the object must be done before it is freed.
	UsedStreams *StreamSet
}

// BackgroundAt returns how a background call is made, and a call that is documented to return at
// once. Such a call invalidates no capture, and must not wait for the GPU.
func BackgroundAt() driver.At { return driver.At{Relaxed: true, NoWait: true} }

// Owned makes a new resource a user of the context, to be closed when its owner is abandoned.
func Owned[O any](owner *O, r *Resource, self Object, ctx *Context) runtime.Cleanup {
	r.Init(self, ctx)
	return runtime.AddCleanup(owner, func(r *Resource) { r.Forgotten() }, r)
}

// Init makes a new resource a user of the context.
func (r *Resource) Init(self Object, ctx *Context) {
	ctx.Hold() // cannot fail: the caller is a user of the context
	r.Ctx, r.Self, r.number = ctx, self, uint8(ctx.numbers.Add(1))
}

// Context returns the context that the object belongs to.
func (r *Resource) Context() *Context { return r.Ctx }

// EndCall ends a call that Enter or Acquire began.
func (r *Resource) EndCall() { r.Release(r) }

// Leave is EndCall for handle.Kept.
func (r *Resource) Leave() { r.EndCall() }

// CloseKept closes the resource, as handle.Refs.Close does. The streams that keep the resource release
// it: at once, or after the work that is being enqueued there now.
func (r *Resource) CloseKept() (first, last bool) {
	if r.UsedStreams == nil {
		return r.Close()
	}
	if !r.CloseAndRetain() {
		return false, false
	}
	// Work that adds the resource to a stream's set looks after that whether it is closed. So one of
	// the two sees the other.
	r.DropKept(r.UsedStreams)
	if m, ok := r.Self.(MemoryObject); ok {
		m.DropLocal()
	}
	return true, r.ReleaseLast() // the streams' release was not the last
}

// DropKept makes streams release the resource.
func (r *Resource) DropKept(u *StreamSet) {
	for _, sc := range u.List() {
		sc.Kept.Drop(&sc.Refs, r, r.number)
	}
}

// Refused returns the error of a call that began after the resource was closed.
func (r *Resource) Refused(op string) error {
	return drivercall.ClosedError(op, r.Self)
}

// Last destroys the resource when the last call on it has ended.
func (r *Resource) Last(later bool) {
	r.Ctx.Drv.AfterLastCall(later, func() { r.DestroyLate(false) })
}

// CloseOwned is the Close of the owner. It invalidates no capture. If the driver may wait in it, it
// also frees the context's deferred objects. method is the method that the program has called.
func (r *Resource) CloseOwned(method string, cleanup runtime.Cleanup) error {
	first, last := r.CloseKept()
	if first {
		cleanup.Stop()
	}
	if !last {
		return nil
	}
	if m, ok := r.Self.(MemoryObject); ok {
		if closed, err := m.CloseInPool(); closed {
			return err
		}
	}
	late := true
	defer func() {
		if late { // DestroyLate repeats the wait for the last work; also if a tracer panics
			r.DestroyLate(false)
		}
	}()
	r.Ctx.ObserveNeeded()
	if err := r.UsedStreams.wait(); err != nil {
		switch {
		case !errors.Is(err, driver.ResultNotPermitted): // which is the answer to a host function
			return nil
		case r.FreeWaits:
			return LaterError(method, r.Self, err, AfterFreeing)
		}
		return LaterError(method, r.Self, err, "when its work is done")
	}
	late = false
	if o, ok := r.Self.(interface{ ObserveLaunchesDone() }); ok {
		o.ObserveLaunchesDone()
	}
	if !r.FreeWaits {
		return r.destroy(driver.At{Relaxed: true})
	}
	defer r.Ctx.ReleaseLate()
	err := r.DestroyNow(driver.At{Relaxed: true})
	switch {
	case err == nil:
		r.Ctx.ObserveDone() // the driver has waited for all work in the context
	case errors.Is(err, driver.ResultNotPermitted): // nothing was freed
		r.Freed.Store(false)
		r.Ctx.AddDeferred(r)
		return LaterError(method, r.Self, err, AfterFreeing)
	}
	return err
}

// LaterError is the error of a method that closes an object, if it must not wait for the object's work, or if the
// driver refuses to destroy the object now. The object is closed, and destroyed later. err names the driver's function.
func LaterError(method string, of drivercall.Named, err error, when string) error {
	return drivercall.NewError(method, of, driver.ResultNotPermitted, err,
		"the "+of.Kind()+" is closed, and is destroyed "+when)
}

// AfterFreeing says when a deferred object is destroyed.
const AfterFreeing = "by the next call that frees such objects: see docs/blocking.md#freeing-calls"

// Forgotten closes a resource whose owner is abandoned. An object that is part of it may be in use.
func (r *Resource) Forgotten() {
	first, last := r.CloseKept()
	if first {
		size := uint64(0)
		if m, ok := r.Self.(interface{ MemoryBytes() uint64 }); ok { // also physical memory
			size = m.MemoryBytes()
		}
		r.Ctx.Drv.NoteAbandoned(size)
	}
	switch {
	case last:
		r.DestroyLate(true)
	case first:
		r.Ctx.Drv.Leak(drivercall.LeakReport{Kind: r.Self.Kind(), Handle: r.Self.Handle(), Abandoned: true})
	}
}

// destroy frees the object, and ends its use of the context.
func (r *Resource) destroy(at driver.At) error {
	defer r.Ctx.EndHold() // also if a tracer panics
	return r.DestroyNow(at)
}

// DestroyNow destroys the object. The caller ends its use of the context.
func (r *Resource) DestroyNow(at driver.At) error {
	defer r.Freed.Store(true)
	if op, res := r.Self.Destroy(at); res != driver.ResultSuccess {
		e := r.Ctx.BackgroundError(op, r.Self.Handle(), res)
		e.Object = drivercall.Describe(r.Self)
		return e
	}
	return nil
}

// keepForever leaves the object for the life of the process, because the end of the GPU's use is unknown.
func (r *Resource) keepForever(err error) error {
	if m, ok := r.Self.(MemoryObject); ok {
		m.KeepHost()
	}
	return KeptError(r.Self.Kind(), r.Self.Handle(), err)
}

// KeptError returns the error that the leak hook gets about an object that is never destroyed.
func KeptError(kind string, handle uintptr, err error) error {
	return &cuerror.Error{Op: "Close", Handle: handle, Err: err,
		Detail: "the " + kind + " is not freed: the GPU may still use it"}
}

// UsedOn notes a stream before work that uses the object is enqueued on it: see StreamSet.
func (r *Resource) UsedOn(sc *Stream) (noted bool) {
	if r.Ctx != sc.Ctx && !sc.Shared.UsesOthers.Load() {
		sc.Shared.UsesOthers.Store(true)
	}
	return r.UsedStreams.Note(sc)
}

// DestroyLate destroys the resource in the background; an error goes to the leak hook. If work that
// uses the resource must end first, it waits on a new goroutine. If the driver may wait for the
// GPU, the resource is deferred.
func (r *Resource) DestroyLate(abandoned bool) {
	drv, l := r.Ctx.Drv, drivercall.LeakReport{Kind: r.Self.Kind(), Handle: r.Self.Handle(), Abandoned: abandoned}
	m, isMemory := r.Self.(MemoryObject)
	if isMemory && m.LeftToOther() {
		drv.Leak(l)
		return
	}
	if r.FreeWaits {
		drv.Leak(l)
		r.Ctx.AddDeferred(r)
		r.Ctx.EndHold()
		return
	}
	destroy := func() {
		l.Err = r.UsedStreams.WaitLong(drv.Table().Clock())
		if isMemory && l.Err == nil && m.DestroyInPool(l) {
			return
		}
		if l.Err == nil {
			l.Err = r.destroy(BackgroundAt())
		} else {
			l.Err = r.keepForever(l.Err)
		}
		drv.Leak(l)
	}
	if r.UsedStreams != nil {
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
func (r *Resource) usableIn(c *capture) bool {
	return r.Only == nil || c != nil && c.Objects == r.Only
}

// NoCopy makes go vet report copies. The cleanup of an object closes it when the original is
// abandoned, although a copy may still be used.
type NoCopy struct{}

// Lock makes go vet treat the type as a lock, which must not be copied.
func (*NoCopy) Lock() {}

// Unlock does nothing.
func (*NoCopy) Unlock() {}
