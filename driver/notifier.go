package driver

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/ccall"
)

// Notifier wakes the one goroutine that waits on it, its owner. Go code notifies it, or a stream that calls what
// [Notifier.Callback] returned. Wait, Callback, Close and Discard are for the owner.
type Notifier struct {
	native *ccall.Notifier // nil with a software driver
	// Else pending has room for one.
	pending  chan struct{}
	notified atomic.Uint64
	clock    Clock
	timer    Timer
}

// NewNotifier returns a notifier.
func (t *Table) NewNotifier() *Notifier {
	if t.soft == nil {
		return &Notifier{native: ccall.NewNotifier()}
	}
	return &Notifier{pending: make(chan struct{}, 1), clock: t.clock}
}

// Notify wakes the goroutine that waits, or else the next one that will.
func (n *Notifier) Notify() {
	if n.native != nil {
		n.native.Notify()
		return
	}
	select {
	case n.pending <- struct{}{}:
	default:
	}
}

// Wait returns when somebody has called Notify since the last Wait returned, or when d has passed. It may return early.
func (n *Notifier) Wait(d time.Duration) {
	if n.native != nil {
		n.native.Wait(d)
		return
	}
	if n.timer == nil {
		n.timer = n.clock.NewTimer(d)
	} else {
		n.timer.Reset(d)
	}
	select {
	case <-n.pending:
		n.timer.Stop()
		select { // it may have fired just now
		case <-n.timer.C():
		default:
		}
	case <-n.timer.C():
	}
}

// Notified returns how many streams have called back so far.
func (n *Notifier) Notified() uint64 {
	if n.native != nil {
		return n.native.Notified()
	}
	return n.notified.Load()
}

// Holds returns how many file descriptors the notifier has now, which it has while somebody waits, and how many pages
// of memory, while streams have yet to call back.
func (n *Notifier) Holds() (descriptors, pages int) {
	if n.native == nil {
		return 0, 0
	}
	return n.native.Holds()
}

// Callback returns what a stream calls to wake the owner, for [Table.LaunchHostFunc], which may be called elsewhere.
// It is for the notifier's owner. A stream does not notify after a sticky error. Where streams cannot do so
// the result is ResultNotSupported, and ResultOperatingSystem where the system has no descriptor left for that.
func (n *Notifier) Callback() (Callback, Result) {
	if n.native == nil {
		return Callback{Go: func() {
			n.notified.Add(1)
			n.Notify()
		}}, ResultSuccess
	}
	fn, arg, ok := n.native.Callback()
	switch {
	case fn == 0:
		return Callback{}, ResultNotSupported
	case !ok:
		return Callback{}, ResultOperatingSystem
	}
	return Callback{Addr: fn, Data: arg}, ResultSuccess
}

// Close gives the notifier's descriptor back, until the next Wait or Callback. armed is how many streams were given the
// callback so far; those that have not yet may do so at any time. It reports false if one of them was about
// to write to the descriptor, which stays then: call it again a little later.
func (n *Notifier) Close(armed uint64) bool {
	if n.native == nil {
		return true
	}
	if !n.native.Close() {
		return false
	}
	n.native.Forget(armed)
	return true
}

// Discard is Close for a notifier that nobody waits for any more. Where streams have yet to call
// back, the little memory that they need for that stays, and each garbage collection looks whether
// they have.
func (n *Notifier) Discard(armed uint64) {
	if n.native != nil && !(n.native.Close() && n.native.Forget(armed)) {
		runtime.AddCleanup(new(*Notifier), func(n *Notifier) { n.Discard(armed) }, n)
	}
}
