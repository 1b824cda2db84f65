package nvml

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/nvml/raw"
)

const (
	// waitSlice is how long one call of C waits for events. C's wait cannot be interrupted, so it also is how long a
	// call can last after the last Wait or after Close.
	waitSlice = 100 * time.Millisecond
	// earlyPause follows a call that has ended before its time without an event, as after a signal. If all calls do so,
	// they do not keep a processor busy.
	earlyPause = 10 * time.Millisecond
)

// source waits for the events of one set of NVML, and hands them out. Each event is handed out once. As long as there
// are waiters, a goroutine calls C. It has no other purpose, so that a waiter can leave at any time: an event that no
// waiter is left for is kept.
type source[T any] struct {
	object // handle is the set, and lane is the set's own
	op     string
	poll   func(l *raw.Library, set uint64) ([]T, raw.Return)
	free   func(l *raw.Library, set uint64) raw.Return
	refs   handle.Refs // the calls in flight that use the set

	closed  chan struct{}
	mu      sync.Mutex
	shut    bool // closed is closed
	polling bool // there is the goroutine
	waiters []chan outcome[T]
	kept    []T // if there are no waiters
}

// outcome is what a waiter gets.
type outcome[T any] struct {
	value T
	err   error
}

// open creates the set. The source is a user of the library until the set is freed.
func (s *source[T]) open(l *Library, op string, create func(l *raw.Library) (uint64, raw.Return)) error {
	if l.obj() == nil {
		return nilError(op)
	}
	s.object, s.lane, s.closed = l.object, newLane(), make(chan struct{})
	if err := s.lib.refs.Enter(s.lib, op); err != nil {
		return err
	}
	const abandoned = ^uint64(0)
	var set atomic.Uint64
	_, err := l.call(op, words{}, func(l *raw.Library, _ words) (words, raw.Return) {
		h, r := create(l)
		if r == raw.NVML_SUCCESS && !set.CompareAndSwap(0, h) {
			s.free(l, h) // nobody waits for the result
		}
		return words{}, r
	})
	if err != nil && set.CompareAndSwap(0, abandoned) {
		s.lib.refs.Release(s.lib)
		return err
	}
	s.handle = set.Load()
	if !s.lib.own(s) {
		return s.lib.Refused(op)
	}
	return nil
}

// close ends all waits. The last call in flight, or close, frees the set.
func (s *source[T]) close() raw.Return {
	s.mu.Lock()
	first := !s.shut
	if first {
		s.shut, s.kept = true, nil
		close(s.closed)
	}
	s.mu.Unlock()
	if first {
		if _, last := s.refs.Close(); last {
			return s.end()
		}
	}
	return raw.NVML_SUCCESS
}

// Last frees the set after the last call. It may do so for its caller, who holds no lock: see handle.Owner.
func (s *source[T]) Last(bool) { s.end() }

func (s *source[T]) end() raw.Return {
	r := s.free(s.lib.raw, s.handle)
	s.lib.disown(s)
	s.lib.refs.Release(s.lib)
	return r
}

// Refused returns the error of a call after close.
func (s *source[T]) Refused(op string) error {
	if s.lib.refs.Closed() {
		return s.lib.Refused(op)
	}
	return &Error{Op: op, Err: ErrClosed, Detail: "the set of events was closed: make another one"}
}

// next returns an event that no other call returns. ended says that the error is the end of the context or of the set.
func (s *source[T]) next(ctx context.Context) (value T, ended bool, err error) {
	if ctx != nil && ctx.Err() != nil {
		return value, true, s.stopped(ctx)
	}
	if c := s.bound.ctx; c != nil && c.Err() != nil {
		return value, true, s.stopped(c)
	}
	s.mu.Lock()
	switch {
	case s.shut:
		s.mu.Unlock()
		return value, true, s.Refused(s.op)
	case len(s.kept) > 0:
		value, s.kept = s.kept[0], s.kept[1:]
		s.mu.Unlock()
		return value, false, nil
	}
	mine := make(chan outcome[T], 1)
	s.waiters = append(s.waiters, mine)
	if !s.polling {
		s.polling = true
		s.refs.Retain() // the set is not closed: see close
		go s.run()
	}
	s.mu.Unlock()
	ended, err = s.wait(ctx, mine)
	if err == nil || !s.leave(mine) {
		got := <-mine // before or during the end
		return got.value, false, got.err
	}
	return value, ended, err
}

// wait waits until an outcome is in mine, and returns nil then, or until there is a reason to leave.
func (s *source[T]) wait(ctx context.Context, mine chan outcome[T]) (ended bool, err error) {
	var done <-chan struct{}
	if ctx != nil {
		done = ctx.Done()
	}
	var look <-chan time.Time
	limit := s.bound.timeout + waitSlice
	if s.bound.timeout > 0 {
		ticker := time.NewTicker(limit)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case got := <-mine:
			mine <- got
			return false, nil
		case <-done:
			return true, s.stopped(ctx)
		case <-s.bound.ended():
			return true, s.stopped(s.bound.ctx)
		case <-s.closed:
			return true, s.Refused(s.op)
		case <-look:
			if _, lasts := s.lane.silent(); lasts >= limit {
				return false, s.exceeded(s.op)
			}
		}
	}
}

// leave ends the wait of a waiter. It reports false if the waiter has an outcome, which must not be lost.
func (s *source[T]) leave(mine chan outcome[T]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiters {
		if w == mine {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			return true
		}
	}
	return false
}

// stopped returns the error of a wait whose context has ended.
func (s *source[T]) stopped(ctx context.Context) error {
	detail := "no event came before the context ended"
	if op, lasts := s.lane.silent(); lasts > 2*waitSlice {
		detail += ", and " + op + " has not returned for " + lasts.Round(time.Millisecond).String()
	}
	return &Error{Op: s.op, Err: contextError(ctx), Detail: detail}
}

// run calls C as long as there are waiters.
func (s *source[T]) run() {
	for s.wanted() {
		began := time.Now()
		s.lane.turn <- struct{}{}
		s.lane.begin(s.op, began)
		values, r := s.poll(s.lib.raw, s.handle)
		s.lane.end()
		switch {
		case r == raw.NVML_SUCCESS:
			s.deliver(values)
		case r != raw.NVML_ERROR_TIMEOUT:
			s.refuse(s.fail(s.op, r))
			s.pause(waitSlice) // the next call may fail at once, and the program may not care
		case time.Since(began) < waitSlice:
			s.pause(earlyPause)
		}
	}
	s.refs.Release(s)
}

// wanted reports whether somebody waits. If not, run ends.
func (s *source[T]) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polling = !s.shut && len(s.waiters) > 0
	return s.polling
}

// deliver hands events to the waiters, who have waited longest first, and keeps the others.
func (s *source[T]) deliver(values []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		if !s.hand(outcome[T]{value: v}) && !s.shut {
			s.kept = append(s.kept, v)
		}
	}
}

// refuse hands an error to one waiter.
func (s *source[T]) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hand(outcome[T]{err: err})
}

// hand hands an outcome to a waiter, if there is one. The caller has the lock.
func (s *source[T]) hand(o outcome[T]) bool {
	if len(s.waiters) == 0 {
		return false
	}
	s.waiters[0] <- o // has room for one
	s.waiters = s.waiters[1:]
	return true
}

// pause waits for a time, or for close.
func (s *source[T]) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.closed:
	}
}

// all returns the events that next returns, until it says that the context or the set has ended. If broken is set, it
// ends after the first error.
func all[T any](broken bool, next func() (T, bool, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			value, ended, err := next()
			if ended || !yield(value, err) || broken {
				return
			}
		}
	}
}
