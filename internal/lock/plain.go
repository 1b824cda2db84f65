//go:build !lockorder

package lock

import "sync"

type (
	// Mutex is the lock at the place R.
	Mutex[R any] = sync.Mutex
	// RWMutex is the lock at the place R, which several may hold for reading.
	RWMutex[R any] = sync.RWMutex
)

// None says that the goroutine holds no lock: what is about to be called may take any.
func None(before string) {}
