package mem

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
)

// Room is the memory of the machine that the blocks of a launch take: it is Go's, which ends the process if there
// is none.
type Room struct {
	Budget  *Budget
	taken   uint64
	unasked uint64 // what was taken without a question
	left    uint64 // of what was taken last, blocks have not got so much
}

const (
	// roomStep is how much memory a launch takes at once, in bytes.
	roomStep = 16 << 20
	// mostUnasked is how much memory the blocks of all launches have without a question, in bytes: less than the
	// margins of the machine and of the limits of the process. A launch takes unaskedStep of it at once.
	mostUnasked, unaskedStep = 32 << 20, 256 << 10
)

// Take implements vm.Room.
func (k *Room) Take(n uint64) bool {
	if n > k.left && !k.takeUnasked(max(n, unaskedStep)) {
		step := max(n, roomStep)
		if !k.fits(step, 0) {
			debug.FreeOSMemory() // what earlier launches have left
			if !k.fits(step, idleHeap()) {
				return false
			}
		}
		k.taken, k.left = k.taken+step, step
	}
	k.left -= n
	return true
}

// takeUnasked takes a number of bytes if all launches together may have them without a question.
func (k *Room) takeUnasked(n uint64) bool {
	if n > mostUnasked {
		return false
	}
	if k.Budget.unasked.Add(int64(n)) > mostUnasked {
		k.Budget.unasked.Add(-int64(n))
		return false
	}
	k.unasked, k.left = k.unasked+n, n
	return true
}

// fits takes a number of bytes from the budget, if the limits of the process allow them. It has idle bytes already.
func (k *Room) fits(n, idle uint64) bool {
	return canMap(n-min(n, idle)) && k.Budget.Take(n)
}

// idleHeap returns how much memory Go's heap has that nothing uses, in bytes.
func idleHeap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return min(s[0].Value.Uint64(), math.MaxInt64) + min(s[1].Value.Uint64(), math.MaxInt64)
}

// Give gives everything back.
func (k *Room) Give() {
	k.Budget.Give(k.taken)
	k.Budget.unasked.Add(-int64(k.unasked))
	k.taken, k.unasked, k.left = 0, 0, 0
}
