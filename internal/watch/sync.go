package watch

import "github.com/purecu/purecu/internal/explore"

// The atomic operations of this package. They are those of sync/atomic, except with the build tag
// explore: then the scheduler of a test controls each of them.
type (
	atomicInt   = explore.Int32
	atomicCount = explore.Uint32
	atomicFlag  = explore.Bool
	firstWait   = explore.Pointer[Wait]
)

// signal wakes one goroutine, once.
type signal struct{ c chan struct{} }

func newSignal() signal { return signal{make(chan struct{}, 1)} }

// send does not block, as a signal is sent once.
func (s signal) send() { explore.Send(s.c, struct{}{}) }

// wait reports false if done was closed before the signal was sent.
func (s signal) wait(done <-chan struct{}) bool { return explore.Either(s.c, done) == 0 }
