//go:build !linux || !(amd64 || arm64)

package ccall

import "time"

// Notifier wakes one goroutine, its owner. C cannot notify it on this platform.
type Notifier struct{ channel channelNotifier }

// NewNotifier returns a notifier.
func NewNotifier() *Notifier {
	n := new(Notifier)
	n.channel.make()
	return n
}

// Callback reports false: there is no C function that notifies.
func (n *Notifier) Callback() (fn, arg uintptr, ok bool) { return 0, 0, false }

// Notified returns 0, as C cannot notify.
func (n *Notifier) Notified() uint64 { return 0 }

// Holds returns 0 and 0, as the notifier has no descriptors and no memory for C.
func (n *Notifier) Holds() (descriptors, pages int) { return 0, 0 }

// Notify wakes the owner, or makes its next Wait return at once.
func (n *Notifier) Notify() { n.channel.notify() }

// Wait returns after a notification since the last Wait returned, or after d.
func (n *Notifier) Wait(d time.Duration) { n.channel.wait(d) }

// Close has nothing to close.
func (n *Notifier) Close() bool { return true }

// Forget has nothing to free.
func (n *Notifier) Forget(uint64) bool { return true }
