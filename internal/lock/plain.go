//go:build !lockorder

package lock

import "sync"

type (
	// Mutex is a lock at the place R of the order.
	Mutex[R any] = sync.Mutex
	// RWMutex is a lock at the place R of the order, which several goroutines may hold for reading.
	RWMutex[R any] = sync.RWMutex
)

// None checks, with the build tag lockorder, that the calling goroutine holds no lock.
func None(before string) {}
