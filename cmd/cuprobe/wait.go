package main

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// maxWait is how long opening the driver may take, and all checks of a device. The first context of
// a process takes about a second, and longer on large machines. After something has hung, other
// steps are likely to hang, and get maxWaitHung.
const (
	maxWait       = time.Minute
	maxWaitHung   = 10 * time.Second
	silence       = 3 * time.Second // after this time a message says what is waited for
	examining     = "the driver's library and the device files"
	openingDriver = "the driver, which is being opened"
)

// errHangs is the error of a call that does not return.
var errHangs = errors.New("it has not ended: the GPU or the driver hangs")

// waiter waits for calls that may hang.
type waiter struct {
	after      func(time.Duration) <-chan time.Time // time.After, except in tests
	messages   io.Writer                            // where it says what it waits for
	hung       bool                                 // a call has hung
	heartbeats atomic.Int64                         // how often a long call has shown that it continues
}

// timeout returns a channel that ends the wait for a call.
func (w *waiter) timeout() <-chan time.Time {
	if w.hung {
		return w.after(maxWaitHung)
	}
	return w.after(maxWait)
}

// withoutTimeout is a value for after: a message says what is waited for, but the wait never ends.
func (w *waiter) withoutTimeout(d time.Duration) <-chan time.Time {
	if d == silence {
		return w.after(d)
	}
	return nil
}

// waiting prints what is waited for.
func (w *waiter) waiting(what string) { fmt.Fprintf(w.messages, "cuprobe: waiting for %s\n", what) }

// within calls f, and returns an error after the timeout, which begins anew with each beat. Then f
// continues to run, as a call of a driver cannot be interrupted.
func within[T any](w *waiter, what string, f func() (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := f()
		done <- outcome{v, err}
	}()
	seen := w.heartbeats.Load()
	for tooLong, quiet := w.timeout(), w.after(silence); ; {
		var expired <-chan time.Time
		select {
		case o := <-done:
			return o.v, o.err
		case <-quiet:
			expired = quiet
		case <-tooLong:
			expired = tooLong
		}
		switch n := w.heartbeats.Load(); {
		case n != seen: // it continues
			seen, tooLong, quiet = n, w.timeout(), w.after(silence)
		case expired == quiet:
			w.waiting(what)
			quiet = nil
		default:
			w.hung = true
			var none T
			return none, errHangs
		}
	}
}
