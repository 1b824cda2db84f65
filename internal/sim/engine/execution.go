package engine

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// executing is about goroutines that use memory without the driver's lock.
type executing struct {
	// BeforeMove is called without the lock before many bytes are moved. It does nothing, except in tests.
	BeforeMove func()
	// Settling is MostSettling, except in tests.
	Settling time.Duration

	outside []*Op    // operations that goroutines execute
	count   [3]int   // how many goroutines there are, by their kind
	starts  uint64   // how many there have ever been
	active  []uint64 // the numbers of those that there are, in their order
	stalled bool     // nothing begins or completes: see Stall
}

// Kind is the kind of an execution.
type Kind uint8

// The kinds of executions.
const (
	KernelInPTX Kind = iota
	KernelInGo       // nothing can stop it
	Move             // of bytes
)

// Execution is the use of memory by a goroutine, without the driver's lock.
type Execution struct {
	Kind   Kind
	Kernel string    // its name, or ""
	Begun  time.Time // by the machine's clock
	Ended  bool      // the kernel is ended, as nothing else is left to do
	late   bool      // the virtual time does not wait for it any more
	number uint64
}

// Begin notes the beginning of an execution.
func (e *Engine) Begin(x *Execution) {
	x.Begun = time.Now()
	e.starts++
	e.count[x.Kind]++
	x.number = e.starts
	e.active = append(e.active, x.number)
}

// End notes that the goroutine does not use memory any more.
func (e *Engine) End(x *Execution) {
	e.count[x.Kind]--
	e.active = slices.DeleteFunc(e.active, func(n uint64) bool { return n == x.number })
}

// Executing returns how many executions there are.
func (e *Engine) Executing() int { return len(e.active) }

// Moves reports whether bytes are moved.
func (e *Engine) Moves() bool { return e.count[Move] > 0 }

// Starts returns the number of the last execution.
func (e *Engine) Starts() uint64 { return e.starts }

// EndedUpTo reports whether all executions up to a number have ended.
func (e *Engine) EndedUpTo(number uint64) bool { return len(e.active) == 0 || number < e.active[0] }

// Outside returns the operations that goroutines execute.
func (e *Engine) Outside() []*Op { return e.outside }

// NoteExecution notes that a goroutine of the caller begins to execute an operation.
func (e *Engine) NoteExecution(o *Op, x *Execution) {
	e.Begin(x)
	o.execution = x
	if !o.Outside { // otherwise it begins now, and is noted then
		o.Apart = nil
		e.outside = append(e.outside, o)
	}
}

// Finish completes an operation that a goroutine has executed. By the virtual time that has taken no time.
func (e *Engine) Finish(o *Op) {
	if o.done {
		return // it was dropped during its execution
	}
	o.at = max(o.at, o.began) // it has no time yet if it began Outside
	if !e.Clock.Virtual {     // the program may have seen it pending until now
		o.at = max(o.at, e.Clock.At())
	}
	e.remove(o)
	e.complete(o)
	e.run()
	e.Arm() // a following operation may be visible
}

// FinishAt makes an operation that a goroutine has executed complete at a time.
func (e *Engine) FinishAt(o *Op, at func() int64) {
	if e.CatchUp(); o.done {
		return // it was dropped
	}
	e.remove(o)
	o.Outside, o.at = false, at()
	heap.Push(&e.running, o)
	e.CatchUp()
	e.Arm()
}

// remove removes an operation from those that goroutines execute.
func (e *Engine) remove(o *Op) {
	e.outside = slices.DeleteFunc(e.outside, func(other *Op) bool { return other == o })
}

// MoveApart makes a goroutine move the bytes of an operation whose time has come. Like a kernel in PTX, it uses
// memory that may be freed meanwhile. The operation completes when the bytes are moved, with the effect that move
// returns; by the virtual time that takes no time.
func (e *Engine) MoveApart(o *Op, move func() (effect func())) {
	x := &Execution{Kind: Move}
	e.NoteExecution(o, x)
	begin := e.BeforeMove
	go func() {
		begin()
		effect := move()
		e.lock.Lock()
		defer e.lock.Unlock()
		defer e.Changed.Broadcast()
		e.End(x)
		if o.execution = nil; !o.done { // else it was dropped
			o.Effect = effect
			e.Finish(o)
		}
	}()
}

// Stall makes no work begin or complete, as if the devices were slow, until the caller calls resume. Nothing is
// executed. The driver is unlocked while f moves what any work may use.
func (e *Engine) Stall(f func()) (resume func()) {
	x := &Execution{Kind: Move}
	e.Begin(x)
	e.stalled = true
	func() {
		e.lock.Unlock()
		defer e.lock.Lock()
		f()
	}()
	return func() {
		e.stalled = false
		e.End(x)
		e.run()
		e.CatchUp()
		e.Arm()
		e.Changed.Broadcast()
	}
}

// SettleMoves waits, if time is virtual, until no bytes are moved, so that what a program sees does not depend on
// the machine's speed. The driver is unlocked meanwhile.
func (e *Engine) SettleMoves() {
	for e.Clock.Virtual && e.Moves() {
		e.Changed.Wait()
	}
}

// Quiet waits until no kernel is executed and no bytes are moved, so that nothing uses memory that is freed or
// replaced. After Poison it does not wait for kernels in Go: nothing stops them, they may wait for the program,
// and what they use stays until they return. The driver is unlocked meanwhile.
func (e *Engine) Quiet() {
	for n := &e.count; n[KernelInPTX]+n[Move] > 0 || n[KernelInGo] > 0 && !e.poisoned; {
		e.Changed.Wait()
	}
}

// MostSettling is how long the virtual time waits for a kernel that is executed. Then the kernel is late,
// and each advance waits for late kernels only for LateSettling.
const (
	MostSettling = 5 * time.Second
	LateSettling = 50 * time.Millisecond
)

// Settle waits until no kernel is executed whose end has no time yet. It does not wait forever, as a
// kernel may wait for memory that the program has not written. It waits for kernels that are late no
// longer than forLate. The driver is unlocked meanwhile.
func (e *Engine) Settle(forLate time.Duration) {
	executes := func(late bool) bool {
		return slices.ContainsFunc(e.outside, func(o *Op) bool {
			return o.execution != nil && o.execution.Kind != Move && o.execution.late == late
		})
	}
	for {
		for _, w := range []struct {
			most time.Duration
			late bool
		}{{e.Settling, false}, {forLate, true}} {
			if w.most == 0 || !executes(w.late) {
				continue
			}
			over := false
			timer := time.AfterFunc(w.most, func() {
				e.lock.Lock()
				defer e.lock.Unlock()
				over = true
				e.Changed.Broadcast()
			})
			for executes(w.late) && !over {
				e.Changed.Wait()
			}
			timer.Stop()
		}
		if !e.Moves() {
			break
		}
		for e.Moves() { // kernels may follow
			e.Changed.Wait()
		}
	}
	for _, o := range e.outside {
		if o.execution != nil {
			o.execution.late = true
		}
	}
}

// Pass advances the virtual time. Work completes in the order of its times, and timers fire.
func (e *Engine) Pass(by time.Duration) {
	e.CatchUp() // the program may have written memory that streams wait for
	now := e.Clock.VirtualAt()
	target := Later(now, int64(by))
	for forLate := LateSettling; ; forLate = 0 {
		e.Settle(forLate)
		next, ok := e.Next()
		if !ok || next > target {
			break
		}
		// Work that a host function has delayed may be overdue. Another goroutine may have advanced the time
		// while Settle waited.
		now = max(now, next, e.Clock.VirtualAt())
		e.Clock.Set(now)
		e.Advance(now)
	}
	target = max(target, e.Clock.VirtualAt())
	e.Clock.Set(target)
	e.Advance(target)
	e.SettleMoves()
	e.Moved()
}

// Later adds a duration to a time, up to the end of time.
func Later(at, by int64) int64 { return at + min(by, math.MaxInt64-at) }
