//go:build !explore

package watch

import "github.com/purecu/purecu/internal/lock"

// mutex has its place in the order of package cu's locks.
type mutex = lock.Mutex[lock.Watcher]
