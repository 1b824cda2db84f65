package core

import (
	"runtime"

	"github.com/purecu/purecu/driver"
)

// The packages in the folder of cu get from an object of cu to its state by the functions of this file, which package
// internal/subject wraps. What cu embeds for that has no exported field or method, so programs see nothing of it.

// Ref refers to the state of an object of cu, or of a package in its folder, such as the Stream of a cu.Stream. The
// object embeds it by an alias that is not exported: so it has the method ref, and is a Has[T]. The zero Ref refers to
// nothing.
type Ref[T any] struct {
	to *T
	// cleanup closes the state of an object that is abandoned.
	cleanup runtime.Cleanup
}

// RefTo returns a Ref to a state that needs no cleanup.
func RefTo[T any](to *T) Ref[T] { return Ref[T]{to: to} }

func (r *Ref[T]) ref() *Ref[T] { return r }

// Has is an object of cu with a state of type T. The interface is sealed: only types that embed a Ref have its method.
type Has[T any] interface{ ref() *Ref[T] }

// RefOf returns the Ref of an object of cu. The pointer in h must not be nil.
func RefOf[T any](h Has[T]) *Ref[T] { return h.ref() }

// Of returns the state of an object of cu, or nil if no call of cu has made the object. The pointer in h must not be
// nil, because there is no Ref then.
func Of[T any](h Has[T]) *T { return h.ref().to }

// State is Of for the package of the object, which has the Ref itself.
func State[T any](r *Ref[T]) *T { return r.to }

// SetState makes r, the Ref of a new object of cu, refer to a state.
func SetState[T any](r *Ref[T], to *T, cleanup runtime.Cleanup) { r.to, r.cleanup = to, cleanup }

// CleanupOf returns the cleanup of the object that has the Ref.
func CleanupOf[T any](r *Ref[T]) runtime.Cleanup { return r.cleanup }

// AttachStream makes sc the state of a new cu.Stream, which has the Ref. If the owner is closed or abandoned, the life
// of sc ends.
func AttachStream[O any](owner *O, r *Ref[Stream], ctx *Context, sc *Stream) {
	sc.Serial = ctx.Drv.Streams.Add(1)
	sc.Shared = ctx.TakeShared(sc.Raw, &sc.Own)
	SetState(r, sc, Owned(owner, &sc.Resource, sc, ctx))
	if !sc.Foreign {
		ctx.AddWakeUp()
	}
	if sc.Raw == driver.CU_STREAM_LEGACY {
		ctx.CaptureGate.Legacy.AddCounter(&sc.Refs)
	}
}
