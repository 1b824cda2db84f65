//go:build explore

package watch

import "github.com/purecu/purecu/internal/explore"

type mutex = explore.Mutex
