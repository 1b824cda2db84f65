package cu

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// captureGate separates the beginnings and ends of captures in a CUDA context from the calls that
// the driver checks against the context's captures. A driver crashes if such a call and a beginning
// or an end overlap: see docs/design/captures.md.
type captureGate struct {
	// whole counts the calls on all streams of the context: cuCtxSynchronize, cuCtxRecordEvent,
	// cuCtxWaitEvent, and the same functions for green contexts. The driver checks them against
	// every capture.
	whole checkedCalls
	// legacy counts the calls on the legacy default stream, and synchronous copies and memsets. The
	// driver checks them against captures of blocking and per-thread streams.
	legacy checkedCalls
}

// gateTimeout is how long a capture waits for checked calls. The driver checks a call
// early; on a busy machine that took more than 20 ms. A call that takes longer waits for the GPU,
// perhaps for work that the program enqueues or releases after the capture.
const gateTimeout = time.Second

// gateYield is the longest time that a capture waits, before it begins or ends, to let calls begin
// that an earlier capture has kept waiting.
const gateYield = 20 * time.Millisecond

// shutGates makes checked calls wait until open is called, in the contexts of streams that are, or
// will be, part of a capture. It waits for the checked calls in flight: after at most gateYield,
// for at most gateTimeout.
func shutGates(streams []*streamCore, clock driver.Clock) (open func()) {
	var shut []*checkedCalls
	for _, sc := range streams {
		gate := sc.ctx.gate
		if !slices.Contains(shut, &gate.whole) {
			shut = append(shut, &gate.whole)
		}
		// Other code that has the handle of a stream may have made its own streams part of the
		// capture.
		if (sc.isBlocking() || sc.exposed.Load()) && !slices.Contains(shut, &gate.legacy) {
			shut = append(shut, &gate.legacy)
		}
	}
	return shutAll(shut, clock)
}

func shutAll(calls []*checkedCalls, clock driver.Clock) (open func()) {
	some := func(is func(*checkedCalls) bool) bool { return slices.ContainsFunc(calls, is) }
	b := watch.BackOff{Policy: watch.Brief, Clock: clock}
	defer b.End()
	for some((*checkedCalls).waiting) && b.Slept < gateYield {
		b.Wait() // else a program that captures all the time would keep these calls waiting forever
	}
	for _, c := range calls {
		c.word.Add(oneCapture)
	}
	begun := clock.Now()
	for some((*checkedCalls).busy) {
		if clock.Now().Sub(begun) > gateTimeout {
			for _, c := range calls {
				c.markLongChecked()
			}
			break
		}
		b.Wait()
	}
	return func() {
		for _, c := range calls {
			c.word.Add(^uint64(oneCapture - 1))
		}
	}
}

// checkedCalls counts calls of one kind. The lower half of the word is the number of calls in
// flight. The upper half is the number of captures that begin or end now. A call waits while the
// upper half is not 0.
type checkedCalls struct {
	word  atomic.Uint64
	queue atomic.Int32 // calls that wait
	mu    lock.Mutex[lock.LongCalls]
	// long are the calls in flight that wait for the GPU. They are not counted in the lower half. A
	// capture that has waited gateTimeout for such a call marks it as checked, so that no other
	// capture waits for it.
	long []longCall
}

// longCall is a place in checkedCalls.long.
type longCall struct{ used, checked bool }

const oneCapture = 1 << 32

func (c *checkedCalls) waiting() bool { return c.queue.Load() != 0 }

// busy reports whether a call is in flight that the driver may be checking.
func (c *checkedCalls) busy() bool {
	if uint32(c.word.Load()) != 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.long, longCall{used: true})
}

// markLongChecked notes that the driver has checked the calls in long by now.
func (c *checkedCalls) markLongChecked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.long {
		c.long[i].checked = true
	}
}

// beginLong is begin for a call that waits for the GPU. The caller passes the place to endLong.
func (c *checkedCalls) beginLong(clock driver.Clock) (place int) {
	c.begin(clock) // no capture begins or ends now
	defer c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.long {
		if !c.long[i].used {
			c.long[i] = longCall{used: true}
			return i
		}
	}
	c.long = append(c.long, longCall{used: true})
	return len(c.long) - 1
}

func (c *checkedCalls) endLong(place int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.long[place] = longCall{}
}

// begin begins a call, and waits while a capture begins or ends. end ends the call.
func (c *checkedCalls) begin(clock driver.Clock) {
	if !c.tryBegin() {
		c.beginWaiting(clock)
	}
}

// beginWaiting waits until no capture begins or ends, and begins a call.
func (c *checkedCalls) beginWaiting(clock driver.Clock) {
	c.queue.Add(1)
	defer c.queue.Add(-1)
	b := watch.BackOff{Policy: watch.Brief, Clock: clock}
	defer b.End()
	for !c.tryBegin() {
		b.Wait()
	}
}

// tryBegin is begin, but reports false instead of waiting.
func (c *checkedCalls) tryBegin() bool {
	if c.word.Add(1) < oneCapture {
		return true
	}
	c.end()
	return false
}

func (c *checkedCalls) end() { c.word.Add(^uint64(0)) }

// beginWhole precedes a call of the driver on all streams of the context, and endWhole follows it.
func (c *contextCore) beginWhole() { c.gate.whole.begin(c.drv.table.Clock()) }
func (c *contextCore) endWhole()   { c.gate.whole.end() }

// beginLegacy precedes a call of the driver on the stream, and endLegacy follows it. Both do
// nothing if the stream is not the legacy default stream.
func (sc *streamCore) beginLegacy() {
	if sc.raw == driver.CU_STREAM_LEGACY {
		sc.ctx.gate.legacy.begin(sc.ctx.drv.table.Clock())
	}
}

func (sc *streamCore) endLegacy() {
	if sc.raw == driver.CU_STREAM_LEGACY {
		sc.ctx.gate.legacy.end()
	}
}

// tryBeginLegacy is beginLegacy for background calls of this package. It reports false instead of
// waiting.
func (sc *streamCore) tryBeginLegacy() bool {
	return sc.raw != driver.CU_STREAM_LEGACY || sc.ctx.gate.legacy.tryBegin()
}

// isBlocking reports whether the stream may be a blocking stream.
func (sc *streamCore) isBlocking() bool { return sc.flags&StreamNonBlocking == 0 }

// gates are the gates of all CUDA contexts of the process. Two Drivers may use the same context,
// and calls of both together can crash the driver in C. Therefore Drivers share the gates, and no
// other state.
var gates struct {
	mu lock.Mutex[lock.Gates]
	m  map[contextKey]weak.Pointer[captureGate]
}

// gateOf returns the gate of a CUDA context. Each context of a software driver has a gate of its
// own, because it is no context of the process.
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

// forgetGate removes a gate that was collected, unless the context has a new gate.
func forgetGate(key contextKey) {
	gates.mu.Lock()
	defer gates.mu.Unlock()
	if gates.m[key].Value() == nil {
		delete(gates.m, key)
	}
}
