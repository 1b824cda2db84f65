//go:build !explore

package watch

import (
	"runtime"
	"time"
)

// pause is a sleep that ends by itself.
func (n *fakeNotifier) pause(time.Duration) { runtime.Gosched() }
