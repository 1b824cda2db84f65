//go:build !explore

package watch

import "github.com/purecu/purecu/internal/lock"

// mutex is a lock with a place in the lock order of package cu.
type mutex = lock.Mutex[lock.Watcher]
