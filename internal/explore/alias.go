//go:build !explore

package explore

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// The types are those of the standard library, with the methods that the explored ones have.
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

// Gosched lets other goroutines run. Loops that wait for another goroutine's step call it.
func Gosched() { runtime.Gosched() }

// Send sends on a channel that has a buffer.
func Send[T any](ch chan<- T, v T) { ch <- v }

// TrySend sends on a channel that has a buffer, unless that is full.
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
