package cu

import (
	"runtime"
	"sync/atomic"
	"time"
	"weak"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// captureGate keeps the beginnings and ends of captures in a CUDA context apart from the calls that the driver checks
// against the captures in the context. A driver crashes if both meet: see docs/design/captures.md.
type captureGate struct {
	// all is for the calls about all streams of the context: cuCtxSynchronize, cuCtxRecordEvent, cuCtxWaitEvent and their
	// kin for green contexts. They are checked against every capture.
	all checkedCalls
	// blocking is for the calls about the legacy default stream. They are checked against captures of blocking streams.
	blocking checkedCalls
}

// change keeps checked calls off while a capture begins or ends, until the function that it returns is called. blocking
// says that a blocking stream may be part of the capture.
func (g *captureGate) change(blocking bool, clock driver.Clock) (done func()) {
	g.all.keepOff(clock)
	if !blocking {
		return g.all.admit
	}
	g.blocking.keepOff(clock)
	return func() {
		g.blocking.admit()
		g.all.admit()
	}
}

// checkedCalls counts calls of one kind that are under way, in the lower half of the word, and in the upper half the
// captures that begin or end, or wait to do so.
//
// A call waits while the upper half is not 0. A capture waits until the lower half is 0, but only for gatePatience. The
// driver checks a call at once. A call that takes longer waits for the GPU, perhaps for work that the program enqueues
// or releases after the capture.
type checkedCalls struct{ word atomic.Uint64 }

const (
	oneCapture   = 1 << 32
	gatePatience = time.Second
)

// begin begins a call, and end ends it.
func (c *checkedCalls) begin(clock driver.Clock) {
	if !c.tryBegin() {
		c.beginLate(clock)
	}
}

// beginLate is begin where a capture is in the way.
func (c *checkedCalls) beginLate(clock driver.Clock) {
	b := watch.BackOff{Policy: watch.Brief, Clock: clock}
	defer b.End()
	for !c.tryBegin() {
		b.Wait()
	}
}

// tryBegin is begin, and reports false if it would wait.
func (c *checkedCalls) tryBegin() bool {
	if c.word.Add(1) < oneCapture {
		return true
	}
	c.end()
	return false
}

func (c *checkedCalls) end() { c.word.Add(^uint64(0)) }

// keepOff keeps calls from beginning until admit is called, and waits for those that are under way.
func (c *checkedCalls) keepOff(clock driver.Clock) {
	if uint32(c.word.Add(oneCapture)) == 0 {
		return
	}
	b := watch.BackOff{Policy: watch.Brief, Clock: clock}
	defer b.End()
	for uint32(c.word.Load()) != 0 && b.Slept < gatePatience {
		b.Wait()
	}
}

func (c *checkedCalls) admit() { c.word.Add(^uint64(oneCapture - 1)) }

// beginWhole is called before the driver is called about all streams of the context, and endWhole after it.
func (c *contextCore) beginWhole() { c.gate.all.begin(c.drv.table.Clock()) }
func (c *contextCore) endWhole()   { c.gate.all.end() }

// beginLegacy is called before the driver is called for the stream, and endLegacy after it: they do something for the
// legacy default stream only.
func (sc *streamCore) beginLegacy() {
	if sc.raw == driver.CU_STREAM_LEGACY {
		sc.ctx.gate.blocking.begin(sc.ctx.drv.table.Clock())
	}
}

func (sc *streamCore) endLegacy() {
	if sc.raw == driver.CU_STREAM_LEGACY {
		sc.ctx.gate.blocking.end()
	}
}

// tryBeginLegacy is beginLegacy for calls that this package makes of its own accord. It reports false instead of
// waiting.
func (sc *streamCore) tryBeginLegacy() bool {
	return sc.raw != driver.CU_STREAM_LEGACY || sc.ctx.gate.blocking.tryBegin()
}

// mayBlock reports whether the stream is a blocking one, as far as this package knows.
func (sc *streamCore) mayBlock() bool {
	return sc.flags&StreamNonBlocking == 0 || sc.foreign && !sc.pooled
}

// gates are the gates of all CUDA contexts of the process. Two Drivers may use the same context, and the driver in C
// crashes whichever of them makes a call: so this is the only state that Drivers share.
var gates struct {
	mu lock.Mutex[lock.Gates]
	m  map[contextKey]weak.Pointer[captureGate]
}

// gateOf returns the gate of a CUDA context. A software driver's contexts are not those of the process, and have gates of
// their own.
func (d *Driver) gateOf(key contextKey) *captureGate {
	if d.table.Software() {
		return new(captureGate)
	}
	gates.mu.Lock()
	defer gates.mu.Unlock()
	if g := gates.m[key].Value(); g != nil {
		return g
	}
	g := new(captureGate)
	p := weak.Make(g)
	if gates.m == nil {
		gates.m = make(map[contextKey]weak.Pointer[captureGate])
	}
	gates.m[key] = p
	runtime.AddCleanup(g, forgetGate, key)
	return g
}

// forgetGate removes a gate that nobody holds any more, unless the context has another one since.
func forgetGate(key contextKey) {
	gates.mu.Lock()
	defer gates.mu.Unlock()
	if gates.m[key].Value() == nil {
		delete(gates.m, key)
	}
}
