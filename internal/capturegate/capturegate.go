// Package capturegate separates the beginnings and ends of captures from the calls that the driver
// checks against captures.
//
// A driver crashes if such a call and the beginning or end of a capture overlap: see
// docs/design/captures.md. Each CUDA context has gates, one for each kind of such calls. A call
// passes its gate: it begins and ends there. [Shut] makes calls wait at some gates while a capture
// begins or ends. The package makes no call of the driver: its user says which gates a call
// passes, and which gates a capture shuts.
package capturegate

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

// Context has the gates of one CUDA context.
type Context struct {
	// Whole is for calls on all streams of the context: cuCtxSynchronize, cuCtxRecordEvent,
	// cuCtxWaitEvent, and the same functions for green contexts. The driver checks them against
	// every capture.
	Whole Gate
	// Legacy is for calls on the legacy default stream, and synchronous copies and memsets. The
	// driver checks them against captures of blocking and per-thread streams.
	Legacy Gate
	// Blocking is how many blocking streams of the context are part of a capture, or are about to be.
	// While it is not 0, a call on the legacy default stream would invalidate a capture.
	Blocking atomic.Int32
}

// Patience is the longest time that Shut waits for calls that are being checked. The driver checks
// a call early; on a busy machine that took more than 20 ms. A call that takes longer waits for the
// GPU, perhaps for work that the program enqueues or releases after the capture.
const Patience = time.Second

// yield is the longest time that Shut waits, before it shuts a gate, to let calls begin that an
// earlier capture has kept waiting.
const yield = 20 * time.Millisecond

// Shut makes calls wait at the gates until open is called, which its caller does when a capture has
// begun or ended. It waits for the calls in flight: after at most 20 ms, for at most Patience.
func Shut(gates []*Gate, clock driver.Clock) (open func()) {
	some := func(is func(*Gate) bool) bool { return slices.ContainsFunc(gates, is) }
	b := watch.BackOff{Policy: watch.Brief, Clock: clock}
	defer b.End()
	for some((*Gate).Waiting) && b.Slept < yield {
		b.Wait() // else a program that captures all the time would keep these calls waiting forever
	}
	for _, g := range gates {
		g.word.Add(oneCapture)
	}
	begun := clock.Now()
	for some((*Gate).Busy) {
		if clock.Now().Sub(begun) > Patience {
			for _, g := range gates {
				g.markLongChecked()
			}
			break
		}
		b.Wait()
	}
	return func() {
		for _, g := range gates {
			g.word.Add(^uint64(oneCapture - 1))
		}
	}
}

// Gate counts the calls of one kind, and makes them wait while it is shut. Its zero value is an open
// gate.
type Gate struct {
	// The lower half of word is the number of calls in flight. The upper half is the number of
	// captures that begin or end now. A call waits while the upper half is not 0.
	word  atomic.Uint64
	queue atomic.Int32 // how many calls wait
	mu    lock.Mutex[lock.LongCalls]
	// long are the calls in flight that wait for the GPU. They are not counted in the lower half. A
	// capture that has waited Patience for such a call marks it as checked, so that no other capture
	// waits for it.
	long []longCall
	// counters count further calls in flight: see AddCounter.
	counters []Counter
}

// Counter counts calls in flight elsewhere than in a gate.
type Counter interface{ Gated() bool }

// longCall is a place in Gate.long.
type longCall struct{ used, checked bool }

const oneCapture = 1 << 32

// Waiting reports whether a call waits.
func (g *Gate) Waiting() bool { return g.queue.Load() != 0 }

// Busy reports whether a call is in flight that the driver may be checking.
func (g *Gate) Busy() bool {
	if uint32(g.word.Load()) != 0 {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.long, longCall{used: true}) || slices.ContainsFunc(g.counters, Counter.Gated)
}

// AddCounter makes captures also wait for the calls that c counts, until RemoveCounter. Such a call needs no
// addition to the gate's word. It is counted first. If IsShut then reports true, its caller takes
// the count back, and makes the call between Begin and End: either Shut sees the count, or the caller sees
// that the gate is shut.
func (g *Gate) AddCounter(c Counter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counters = append(g.counters, c)
}

// RemoveCounter undoes AddCounter.
func (g *Gate) RemoveCounter(c Counter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, o := range g.counters {
		if o == c {
			last := len(g.counters) - 1
			g.counters[i], g.counters[last] = g.counters[last], nil
			g.counters = g.counters[:last]
			return
		}
	}
}

// IsShut reports whether a capture begins or ends now.
func (g *Gate) IsShut() bool { return g.word.Load() >= oneCapture }

// markLongChecked notes that the driver has checked the calls in long by now.
func (g *Gate) markLongChecked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.long {
		g.long[i].checked = true
	}
}

// BeginLong is Begin for a call that waits for the GPU. The caller passes the place to EndLong.
func (g *Gate) BeginLong(clock driver.Clock) (place int) {
	g.Begin(clock) // no capture begins or ends now
	defer g.End()
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.long {
		if !g.long[i].used {
			g.long[i] = longCall{used: true}
			return i
		}
	}
	g.long = append(g.long, longCall{used: true})
	return len(g.long) - 1
}

// EndLong ends a call that BeginLong began.
func (g *Gate) EndLong(place int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.long[place] = longCall{}
}

// Begin begins a call, and waits while a capture begins or ends. End ends the call.
func (g *Gate) Begin(clock driver.Clock) {
	if !g.TryBegin() {
		g.beginWaiting(clock)
	}
}

// beginWaiting waits until no capture begins or ends, and begins a call.
func (g *Gate) beginWaiting(clock driver.Clock) {
	g.queue.Add(1)
	defer g.queue.Add(-1)
	b := watch.BackOff{Policy: watch.Brief, Clock: clock}
	defer b.End()
	for !g.TryBegin() {
		b.Wait()
	}
}

// TryBegin is Begin, but reports false instead of waiting.
func (g *Gate) TryBegin() bool {
	if g.word.Add(1) < oneCapture {
		return true
	}
	g.End()
	return false
}

// End ends a call that Begin or TryBegin began.
func (g *Gate) End() { g.word.Add(^uint64(0)) }

// contexts has the gates of CUDA contexts by the keys of Of. Two Drivers may use the same context,
// and calls of both together can crash the driver in C. Therefore Drivers share the gates, and no
// other state.
var contexts struct {
	mu lock.Mutex[lock.Gates]
	m  map[any]weak.Pointer[Context]
}

// Of returns the gates of the CUDA context that key identifies in the process. Its callers get the
// same gates for equal keys, as long as one of them refers to the gates.
func Of[K comparable](key K) *Context {
	contexts.mu.Lock()
	defer contexts.mu.Unlock()
	if c := contexts.m[key].Value(); c != nil {
		return c
	}
	c := new(Context)
	p := weak.Make(c)
	if contexts.m == nil {
		contexts.m = make(map[any]weak.Pointer[Context])
	}
	contexts.m[key] = p
	runtime.AddCleanup(c, forget, any(key))
	return c
}

// forget removes gates that were collected, unless the context has new gates.
func forget(key any) {
	contexts.mu.Lock()
	defer contexts.mu.Unlock()
	if contexts.m[key].Value() == nil {
		delete(contexts.m, key)
	}
}
