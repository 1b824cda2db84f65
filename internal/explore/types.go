//go:build explore

package explore

import (
	"sync"
	"sync/atomic"
)

// Bool replaces [atomic.Bool].
type Bool struct{ v atomic.Bool }

// Load loads the value.
func (x *Bool) Load() bool { step("Bool.Load"); return x.v.Load() }

// Store stores a value.
func (x *Bool) Store(v bool) { step("Bool.Store"); x.v.Store(v) }

// CompareAndSwap stores a value if the former one is old.
func (x *Bool) CompareAndSwap(old, v bool) bool {
	step("Bool.CompareAndSwap")
	return x.v.CompareAndSwap(old, v)
}

// Pointer replaces [atomic.Pointer].
type Pointer[T any] struct{ v atomic.Pointer[T] }

// Load loads the pointer.
func (x *Pointer[T]) Load() *T { step("Pointer.Load"); return x.v.Load() }

// Store stores a pointer.
func (x *Pointer[T]) Store(v *T) { step("Pointer.Store"); x.v.Store(v) }

// Swap stores a pointer and returns the former one.
func (x *Pointer[T]) Swap(v *T) *T { step("Pointer.Swap"); return x.v.Swap(v) }

// CompareAndSwap stores a pointer if the former one is old.
func (x *Pointer[T]) CompareAndSwap(old, v *T) bool {
	step("Pointer.CompareAndSwap")
	return x.v.CompareAndSwap(old, v)
}

// Mutex replaces [sync.Mutex].
type Mutex struct {
	mu     sync.Mutex // used outside of a run
	locked atomic.Bool
}

// Lock locks the mutex.
func (m *Mutex) Lock() {
	if !wait("Mutex.Lock", func() bool { return !m.locked.Load() }) {
		m.mu.Lock()
		return
	}
	m.locked.Store(true)
}

// Unlock unlocks the mutex.
func (m *Mutex) Unlock() {
	if !step("Mutex.Unlock") {
		m.mu.Unlock()
		return
	}
	if !m.locked.CompareAndSwap(true, false) {
		fail("unlock of an unlocked Mutex")
	}
}

// Go starts a goroutine.
func Go(f func()) {
	if !step("go") {
		go f()
		return
	}
	current.start(f)
}

// Gosched makes another goroutine run before this one continues, if there is one that can.
func Gosched() { yield() }

// Send sends on a buffered channel.
func Send[T any](ch chan<- T, v T) {
	wait("send", func() bool { return len(ch) < cap(ch) })
	ch <- v
}

// TrySend sends on a buffered channel, and reports false if the buffer is full.
func TrySend[T any](ch chan<- T, v T) bool {
	step("try to send")
	select {
	case ch <- v:
		return true
	default:
		return false
	}
}

// Receive receives from a channel.
func Receive[T any](ch <-chan T) (v T, ok bool) {
	wait("receive", func() bool { return ready(ch) })
	v, ok = <-ch
	return v, ok
}

// Either receives from the first of two channels that is ready, and reports which: 0 or 1.
func Either[A, B any](a <-chan A, b <-chan B) int {
	if !wait("receive from either", func() bool { return ready(a) || ready(b) }) {
		select {
		case <-a:
			return 0
		case <-b:
			return 1
		}
	}
	which := 0
	switch inA, inB := ready(a), ready(b); {
	case inA && inB:
		which = Choose(2)
	case inB:
		which = 1
	}
	if which == 0 {
		<-a
	} else {
		<-b
	}
	return which
}

// ready reports whether a value can be received or the channel is closed. Only the running
// goroutine could send, and explored code sends on buffered channels only.
func ready[T any](ch <-chan T) bool {
	if len(ch) > 0 {
		return true
	}
	select {
	case <-ch:
		return true // it is closed
	default:
		return false
	}
}

// Close closes a channel.
func Close[T any](ch chan<- T) {
	step("close")
	close(ch)
}
