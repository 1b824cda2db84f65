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

// captureGate keeps the beginnings and ends of captures in a CUDA context apart from the calls that the driver checks
// against the captures in the context. A driver crashes if both meet: see docs/design/captures.md.
type captureGate struct {
	// whole counts the calls about all streams of the context: cuCtxSynchronize, cuCtxRecordEvent, cuCtxWaitEvent and
	// their kin for green contexts. They are checked against every capture.
	whole checkedCalls
	// legacy counts the calls about the legacy default stream. They are checked against captures of blocking streams.
	legacy checkedCalls
}

// gatePatience is how long a capture waits for checked calls. The driver checks a call at once. A call that takes longer
// waits for the GPU, perhaps for work that the program enqueues or releases after the capture.
const gatePatience = time.Second

// gateTurn is for how long a capture lets calls go first that have waited for an earlier one.
const gateTurn = 20 * time.Millisecond

// shutGates keeps checked calls from beginning in the contexts of streams that are, or will be, part of a capture, until
// open is called. It waits for the calls that are under way, but not for longer than gatePatience in all.
func shutGates(streams []*streamCore, clock driver.Clock) (open func()) {
	var shut []*checkedCalls
	for _, sc := range streams {
		gate := sc.ctx.gate
		if !slices.Contains(shut, &gate.whole) {
			shut = append(shut, &gate.whole)
		}
		// Other code may have made its own streams part of the capture of a stream that it knows.
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
	for some((*checkedCalls).waiting) && b.Slept < gateTurn {
		b.Wait() // or a program that captures all the time would keep the calls out
	}
	for _, c := range calls {
		c.word.Add(oneCapture)
	}
	begun := b.Slept
	for some((*checkedCalls).busy) {
		if b.Slept-begun > gatePatience {
			for _, c := range calls {
				c.longHaveBeenChecked()
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

// checkedCalls counts calls of one kind that are under way, in the lower half of the word, and in the upper half the
// captures that begin or end. A call waits while the upper half is not 0.
type checkedCalls struct {
	word  atomic.Uint64
	queue atomic.Int32 // calls that wait
	mu    lock.Mutex[lock.LongCalls]
	// long are calls that wait for the GPU: they are not in the lower half. A capture that has waited for one in vain
	// notes that, so that no other capture does.
	long []longCall
}

// longCall is a place for a call that waits for the GPU.
type longCall struct{ used, checked bool }

const oneCapture = 1 << 32

func (c *checkedCalls) waiting() bool { return c.queue.Load() != 0 }

// busy reports whether a call is under way that the driver may be checking.
func (c *checkedCalls) busy() bool {
	if uint32(c.word.Load()) != 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.long, longCall{used: true})
}

// longHaveBeenChecked notes that the calls in long have been checked by now.
func (c *checkedCalls) longHaveBeenChecked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.long {
		c.long[i].checked = true
	}
}

// beginLong is begin for a call that waits for the GPU. The caller passes what it returns to endLong.
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

// begin begins a call, and end ends it.
func (c *checkedCalls) begin(clock driver.Clock) {
	if !c.tryBegin() {
		c.beginWaiting(clock)
	}
}

// beginWaiting is begin where a capture is in the way.
func (c *checkedCalls) beginWaiting(clock driver.Clock) {
	c.queue.Add(1)
	defer c.queue.Add(-1)
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

// beginWhole is called before the driver is called about all streams of the context, and endWhole after it.
func (c *contextCore) beginWhole() { c.gate.whole.begin(c.drv.table.Clock()) }
func (c *contextCore) endWhole()   { c.gate.whole.end() }

// beginLegacy is called before the driver is called for the stream, and endLegacy after it: they do something for the
// legacy default stream only.
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

// tryBeginLegacy is beginLegacy for calls that this package makes of its own accord. It reports false instead of
// waiting.
func (sc *streamCore) tryBeginLegacy() bool {
	return sc.raw != driver.CU_STREAM_LEGACY || sc.ctx.gate.legacy.tryBegin()
}

// isBlocking reports whether the stream may be a blocking one.
func (sc *streamCore) isBlocking() bool { return sc.flags&StreamNonBlocking == 0 }

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
