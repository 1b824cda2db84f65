//go:build !linux || !(amd64 || arm64)

package ccall

import "time"

// Notifier wakes the one goroutine that waits on it. C cannot notify it on this platform.
type Notifier struct{ channel channelNotifier }

// NewNotifier returns a notifier.
func NewNotifier() *Notifier {
	n := new(Notifier)
	n.channel.make()
	return n
}

// Callback reports false: there is no C function that notifies.
func (n *Notifier) Callback() (fn, arg uintptr, ok bool) { return 0, 0, false }

// Notified returns how often C has called: never.
func (n *Notifier) Notified() uint64 { return 0 }

// Holds returns how many descriptors, and how many pages of memory for C, the notifier has: none.
func (n *Notifier) Holds() (descriptors, pages int) { return 0, 0 }

// Notify wakes the goroutine that waits, or else the next one that will.
func (n *Notifier) Notify() { n.channel.notify() }

// Wait returns when there was a notification since the last Wait returned, or when d has
// passed.
func (n *Notifier) Wait(d time.Duration) { n.channel.wait(d) }

// Close has nothing to give back.
func (n *Notifier) Close() bool { return true }

// Forget has nothing to give up.
func (n *Notifier) Forget(uint64) bool { return true }
