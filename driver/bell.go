package driver

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/ccall"
)

// Bell wakes the one goroutine that waits for it. It is rung from Go, or by a stream that has got to where it was
// told to call what [Bell.Ringer] returned. Wait, Ringer, Close and Discard are for its owner.
type Bell struct {
	native *ccall.Bell // nil with a software driver
	// Else rung has room for one.
	rung  chan struct{}
	heard atomic.Uint64
	clock Clock
	timer Timer
}

// NewBell returns a bell that was not rung.
func (t *Table) NewBell() *Bell {
	if t.soft == nil {
		return &Bell{native: ccall.NewBell()}
	}
	return &Bell{rung: make(chan struct{}, 1), clock: t.clock}
}

// Ring wakes the goroutine that waits, or else the next one that will.
func (b *Bell) Ring() {
	if b.native != nil {
		b.native.Ring()
		return
	}
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

// Wait returns when the bell has been rung since the last Wait returned, or when d has passed. It may return early.
func (b *Bell) Wait(d time.Duration) {
	if b.native != nil {
		b.native.Wait(d)
		return
	}
	if b.timer == nil {
		b.timer = b.clock.NewTimer(d)
	} else {
		b.timer.Reset(d)
	}
	select {
	case <-b.rung:
		b.timer.Stop()
		select { // it may have fired just now
		case <-b.timer.C():
		default:
		}
	case <-b.timer.C():
	}
}

// Heard returns how many streams have rung the bell.
func (b *Bell) Heard() uint64 {
	if b.native != nil {
		return b.native.Heard()
	}
	return b.heard.Load()
}

// Holds returns how many file descriptors the bell has now, which it has while somebody waits, and how many pages
// of memory, while streams have yet to ring it.
func (b *Bell) Holds() (descriptors, pages int) {
	if b.native == nil {
		return 0, 0
	}
	return b.native.Holds()
}

// Ringer returns what a stream calls to ring the bell, for [Table.LaunchHostFunc], which may be called elsewhere.
// It is for the bell's owner. A stream does not ring the bell after a sticky error. Where streams cannot ring bells
// the result is ResultNotSupported, and ResultOperatingSystem where the system has no descriptor left for that.
func (b *Bell) Ringer() (Callback, Result) {
	if b.native == nil {
		return Callback{Go: func() {
			b.heard.Add(1)
			b.Ring()
		}}, ResultSuccess
	}
	fn, arg, ok := b.native.Ringer()
	switch {
	case fn == 0:
		return Callback{}, ResultNotSupported
	case !ok:
		return Callback{}, ResultOperatingSystem
	}
	return Callback{Addr: fn, Data: arg}, ResultSuccess
}

// Close gives the bell's descriptor back, until the next Wait or Ringer. rings is how many streams were told to
// ring the bell so far; those that have not yet may do so at any time. It reports false if one of them was about
// to write to the descriptor, which stays then: call it again a little later.
func (b *Bell) Close(rings uint64) bool {
	if b.native == nil {
		return true
	}
	if !b.native.Close() {
		return false
	}
	b.native.Forget(rings)
	return true
}

// Discard is Close for a bell that nobody waits for any more. Where streams have yet to ring it, the little memory
// that they need for that stays, and each garbage collection looks whether they have.
func (b *Bell) Discard(rings uint64) {
	if b.native != nil && !(b.native.Close() && b.native.Forget(rings)) {
		runtime.AddCleanup(new(*Bell), func(b *Bell) { b.Discard(rings) }, b)
	}
}
