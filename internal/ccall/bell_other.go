//go:build !linux || !(amd64 || arm64)

package ccall

import "time"

// Bell wakes the one goroutine that waits for it. C cannot ring it on this platform.
type Bell struct{ channel channelBell }

// NewBell returns a bell that was not rung.
func NewBell() *Bell {
	b := new(Bell)
	b.channel.make()
	return b
}

// Ringer reports false: there is no C function that rings the bell.
func (b *Bell) Ringer() (fn, arg uintptr, ok bool) { return 0, 0, false }

// Heard returns how often C has rung the bell: never.
func (b *Bell) Heard() uint64 { return 0 }

// Holds returns how many descriptors, and how many pages of memory for C, the bell has: none.
func (b *Bell) Holds() (descriptors, pages int) { return 0, 0 }

// Ring wakes the goroutine that waits, or else the next one that will.
func (b *Bell) Ring() { b.channel.ring() }

// Wait returns when the bell has been rung since the last Wait returned, or when d has
// passed.
func (b *Bell) Wait(d time.Duration) { b.channel.wait(d) }

// Close has nothing to give back.
func (b *Bell) Close() bool { return true }

// Forget has nothing to give up.
func (b *Bell) Forget(uint64) bool { return true }
