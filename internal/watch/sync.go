//go:build !explore

package watch

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// These are the steps that goroutines take together. With the build tag explore a scheduler
// controls each of them: see sync_explore.go.
type (
	mutex       = sync.Mutex
	atomicInt   = atomic.Int32
	atomicCount = atomic.Uint32
	atomicFlag  = atomic.Bool
	firstWait   = atomic.Pointer[Wait]
)

// spawn runs f on a goroutine of its own.
func spawn(f func()) { go f() }

// yield lets other goroutines run.
func yield() { runtime.Gosched() }

// signal wakes one goroutine, once.
type signal struct{ c chan struct{} }

func newSignal() signal { return signal{make(chan struct{}, 1)} }

// send never blocks: a signal is sent once.
func (s signal) send() { s.c <- struct{}{} }

// wait reports false if done was closed before the signal was sent.
func (s signal) wait(done <-chan struct{}) bool {
	select {
	case <-s.c:
		return true
	case <-done:
		return false
	}
}

// sent reports whether the signal was sent, and takes it.
func (s signal) sent() bool {
	select {
	case <-s.c:
		return true
	default:
		return false
	}
}
