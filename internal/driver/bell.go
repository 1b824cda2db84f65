package driver

import (
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/ccall"
)

// Bell wakes the one goroutine that waits for it. It is rung from Go, or by a stream
// that has got to where [Table.RingAt] was called. Wait and CloseAfter are for its owner.
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

// Wait returns when the bell has been rung since the last Wait returned, or when d has
// passed.
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

// Heard returns how many streams have rung the bell, as far as that is known.
func (b *Bell) Heard() uint64 {
	if b.native != nil {
		return b.native.Heard()
	}
	return b.heard.Load()
}

// RingAt makes a stream ring the bell when it has done all that is enqueued on it now
// (cuLaunchHostFunc). It does not after a sticky error. Where streams cannot ring bells
// the answer is ResultNotSupported.
func (t *Table) RingAt(at At, s Stream, b *Bell) Result {
	if b.native == nil {
		return t.LaunchHostFunc(at, s, Callback{Go: func() {
			b.heard.Add(1)
			b.Ring()
		}})
	}
	fn, arg, ok := b.native.Ringer()
	if !ok {
		return ResultNotSupported
	}
	return t.LaunchHostFunc(at, s, Callback{Addr: fn, Data: arg})
}

// CloseAfter gives the bell's descriptors back if so many streams have rung it, whether or not
// anybody has heard them: no other may ring it any more. Nobody waits for it meanwhile.
func (b *Bell) CloseAfter(rings uint64) {
	if b.native == nil {
		return
	}
	if b.native.Wait(0); b.native.Heard() == rings {
		b.native.Close()
	}
}
