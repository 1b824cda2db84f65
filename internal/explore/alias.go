//go:build !explore

package explore

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// The types are aliases of the standard types. The explored types have the same methods.
type (
	Bool           = atomic.Bool
	Int32          = atomic.Int32
	Int64          = atomic.Int64
	Uint32         = atomic.Uint32
	Uint64         = atomic.Uint64
	Pointer[T any] = atomic.Pointer[T]
	Mutex          = sync.Mutex
)

// Go starts a goroutine.
func Go(f func()) { go f() }

// Gosched yields the processor. A loop that waits for another goroutine's step calls it.
func Gosched() { runtime.Gosched() }

// Send sends on a buffered channel.
func Send[T any](ch chan<- T, v T) { ch <- v }

// TrySend sends on a buffered channel, and reports false if the buffer is full.
func TrySend[T any](ch chan<- T, v T) bool {
	select {
	case ch <- v:
		return true
	default:
		return false
	}
}

// Either receives from the first of two channels that is ready, and reports which: 0 or 1.
func Either[A, B any](a <-chan A, b <-chan B) int {
	select {
	case <-a:
		return 0
	case <-b:
		return 1
	}
}
