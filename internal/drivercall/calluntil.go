package drivercall

import (
	"context"
	"errors"

	"github.com/purecu/purecu/cu/cuerror"
)

// ErrGoexit is wrapped in the error for a call whose goroutine ended before the call returned.
var ErrGoexit = errors.New("the goroutine of the call ended")

// CallUntil returns the result of f, or an error with the detail if ctx ends first. f runs on a
// goroutine of its own. If it succeeds after ctx has ended, late gets the value.
func CallUntil[T any](ctx context.Context, op, detail string, f func() (T, error), late func(T)) (v T, err error) {
	if ctx == nil {
		return v, NoGoContextError(op, nil)
	}
	if ctx.Err() != nil {
		return v, NotCalledError(op, ctx)
	}
	type result struct {
		v   T
		err error
	}
	returned := make(chan result)
	go func() {
		r := result{err: &cuerror.Error{Op: op, Err: ErrGoexit,
			Detail: "a software driver or a tracer called runtime.Goexit"}}
		defer func() {
			select {
			case returned <- r:
			case <-ctx.Done():
				if r.err == nil {
					late(r.v)
				}
			}
		}()
		r.v, r.err = f()
	}()
	select {
	case r := <-returned:
		return r.v, r.err
	case <-ctx.Done():
		return v, &cuerror.Error{Op: op, Err: EndedError(ctx), Detail: detail}
	}
}
