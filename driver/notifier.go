package driver

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/ccall"
)

// Notifier wakes one goroutine, its owner. Go code notifies it with Notify. A stream notifies it by
// calling the result of [Notifier.Callback]. Only the owner may call Wait, Callback, Close and
// Discard.
type Notifier struct {
	native *ccall.Notifier // nil with a software driver
	// With a software driver, pending is a channel with a buffer for one notification.
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

// Notify wakes the owner, or makes its next Wait return at once.
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

// Wait returns after a notification since the last Wait returned, or after d. It may return early.
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
		select { // the timer may have fired before Stop
		case <-n.timer.C():
		default:
		}
	case <-n.timer.C():
	}
}

// Notified returns how often streams have called the callback.
func (n *Notifier) Notified() uint64 {
	if n.native != nil {
		return n.native.Notified()
	}
	return n.notified.Load()
}

// Holds returns how many file descriptors and pages of memory the notifier uses now. It has a
// descriptor from Wait or Callback to Close, and a page while streams still have to call the
// callback.
func (n *Notifier) Holds() (descriptors, pages int) {
	if n.native == nil {
		return 0, 0
	}
	return n.native.Holds()
}

// Callback returns the callback with which a stream wakes the owner. Any goroutine may pass it to
// [Table.LaunchHostFunc]. A stream does not call it after a sticky error. The result is
// ResultNotSupported on platforms without such callbacks, and ResultOperatingSystem if the system
// has no file descriptor left.
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

// Close closes the notifier's descriptor, until the next Wait or Callback opens another one. armed
// is how often the callback was passed to a stream so far. Those streams may still call it at any
// time. Close reports false, and keeps the descriptor, if a stream is about to write to it. The
// caller then tries again a little later.
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

// Discard is Close for a notifier that is no longer used. If streams still have to call the
// callback, the small memory that they need for it stays until a garbage collection finds that they
// have.
func (n *Notifier) Discard(armed uint64) {
	if n.native != nil && !(n.native.Close() && n.native.Forget(armed)) {
		runtime.AddCleanup(new(*Notifier), func(n *Notifier) { n.Discard(armed) }, n)
	}
}
