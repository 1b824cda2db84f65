//go:build explore

package explore

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
)

// maxSteps is how many steps a schedule may have. A program with more steps counts as one that
// never ends.
const maxSteps = 5000

// current is the present run. It is a variable of the package because the explored types cannot
// refer to a Run: their zero values are ready for use, and their methods have the standard
// signatures.
var current *Run

// Run is one run of a program, under one schedule.
type Run struct {
	strategy   strategy
	goroutines []*goroutine
	// running is the goroutine that makes the present step. It is nil during the program function
	// itself, and during the functions of Finally.
	running *goroutine
	// next is the goroutine that makes the next step, or nil if none can.
	next        *goroutine
	finally     []func()
	steps       int
	preemptions int
	// decisions are the chosen options, for each choice between at least two.
	decisions []int
	failure   string
	// abandoned says that the run is over, and the remaining goroutines have to end.
	abandoned bool
	// trace holds a line for each step, if traced is set.
	traced bool
	trace  []string
}

// goroutine is a goroutine that the scheduler controls. It is a coroutine, as only one of them runs
// at a time.
type goroutine struct {
	id      int
	resume  func() (struct{}, bool)
	stop    func()
	suspend func(struct{}) bool
	// started is set when it has reached its first scheduling point.
	started, done bool
	op            string
	ready         func() bool // nil if it can make its next step
}

// unwind is the value of the panic that ends a goroutine after the run is over.
type unwind struct{}

// strategy chooses the schedule.
type strategy interface {
	// pick returns an option from 0 to n-1. If preempting is set, each option but 0 is a
	// preemption.
	pick(r *Run, n int, preempting bool) int
}

// Go starts a goroutine of the program.
func (r *Run) Go(f func()) { r.start(f) }

// Finally registers f, which is called after all goroutines have returned. Functions that were
// registered later are called earlier. They make no steps of the schedule.
func (r *Run) Finally(f func()) { r.finally = append(r.finally, f) }

// Fail reports a fault of the program, and ends the run.
func (r *Run) Fail(format string, args ...any) {
	if r.failure == "" {
		r.failure = fmt.Sprintf(format, args...)
	}
	panic(unwind{})
}

// start starts a goroutine, and runs it up to its first scheduling point. No other goroutine can
// observe its work before that.
func (r *Run) start(f func()) {
	g := &goroutine{id: len(r.goroutines)}
	r.goroutines = append(r.goroutines, g)
	g.resume, g.stop = iter.Pull(func(yield func(struct{}) bool) {
		g.suspend = yield
		defer func() { g.done = true }()
		defer r.caught()
		f()
	})
	before := r.running
	r.running = g
	g.resume()
	r.running = before
}

// caught recovers from a panic. The panic is a failure unless its value is unwind.
func (r *Run) caught() {
	switch e := recover().(type) {
	case nil, unwind:
	default:
		if r.failure == "" {
			r.failure = fmt.Sprintf("panic: %v", e)
		}
	}
}

// do makes the run.
func (r *Run) do(program func(*Run)) {
	current = r
	defer func() { current = nil }()
	r.set(func() { program(r) })
	if r.failure == "" {
		r.next = r.choose(nil, false)
	}
	for r.next != nil && r.failure == "" {
		g := r.next
		r.running = g
		g.resume()
		if g.done && r.failure == "" {
			r.next = r.choose(nil, false)
		}
	}
	r.running = nil
	if r.failure == "" {
		r.failure = r.stuck()
	}
	r.abandoned = true
	for _, g := range r.goroutines {
		r.running = g
		g.stop()
	}
	r.running = nil
	for _, f := range slices.Backward(r.finally) {
		if r.failure == "" {
			r.set(f)
		}
	}
}

// set runs a part of the program outside of its goroutines.
func (r *Run) set(f func()) {
	defer r.caught()
	f()
}

// stuck describes the goroutines that cannot continue. It returns "" if all have returned.
func (r *Run) stuck() string {
	var all []string
	for _, g := range r.goroutines {
		if !g.done {
			all = append(all, fmt.Sprintf("goroutine %d: %s", g.id, g.op))
		}
	}
	if all == nil {
		return ""
	}
	return "no goroutine can continue: a deadlock, or a lost wake-up: " + strings.Join(all, ", ")
}

// choose returns the goroutine that makes the next step, or nil if none can. present is the
// goroutine that has made the last step, or nil if it has returned. yields says that another
// goroutine should make the next step.
func (r *Run) choose(present *goroutine, yields bool) *goroutine {
	if r.steps++; r.steps > maxSteps {
		r.failure = fmt.Sprintf("the program does not end: it has made %d steps", maxSteps)
		return nil
	}
	var options [8]*goroutine
	able := options[:0]
	canGoOn := present != nil && (present.ready == nil || present.ready())
	if canGoOn && !yields {
		able = append(able, present)
	}
	for _, g := range r.goroutines {
		if g != present && !g.done && (g.ready == nil || g.ready()) {
			able = append(able, g)
		}
	}
	switch {
	case len(able) == 0 && canGoOn:
		return present
	case len(able) == 0:
		return nil
	}
	i := r.decide(len(able), canGoOn && !yields)
	if canGoOn && !yields && i > 0 {
		r.preemptions++
	}
	return able[i]
}

// decide returns one of n options, and notes it.
func (r *Run) decide(n int, preempting bool) int {
	if n == 1 {
		return 0
	}
	i := r.strategy.pick(r, n, preempting)
	r.decisions = append(r.decisions, i)
	return i
}

// point is a scheduling point before an operation of the running goroutine. The goroutine does not
// continue while ready reports false.
func (r *Run) point(op string, ready func() bool, yields bool) {
	g := r.running
	if r.abandoned {
		if ready != nil {
			panic(unwind{})
		}
		return
	}
	g.op, g.ready = op, ready
	if g.started {
		r.next = r.choose(g, yields)
	} else {
		g.started = true
		r.next = nil
	}
	if r.next != g && !g.suspend(struct{}{}) {
		panic(unwind{})
	}
	g.ready = nil
	if r.traced {
		r.trace = append(r.trace, fmt.Sprintf("goroutine %d: %-24s %s", g.id, op, caller()))
	}
}

// caller returns where the running goroutine is, outside of this package's own code.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		own := strings.Contains(f.File, "internal/explore/") && !strings.HasSuffix(f.File, "_test.go")
		if !own || !more {
			return fmt.Sprintf("%s:%d", f.File[strings.LastIndex(f.File, "/")+1:], f.Line)
		}
	}
}

// step is a scheduling point. It reports false outside of a run.
func step(op string) bool {
	r := current
	if r == nil || r.running == nil {
		return false
	}
	r.point(op, nil, false)
	return true
}

// wait is a scheduling point of an operation that blocks until ready reports true. It reports false
// outside of a run.
func wait(op string, ready func() bool) bool {
	r := current
	if r == nil || r.running == nil {
		return false
	}
	r.point(op, ready, false)
	return true
}

func yield() {
	if r := current; r != nil && r.running != nil {
		r.point("Gosched", nil, true)
		return
	}
	runtime.Gosched()
}

// fail reports that the running program has misused a type of this package.
func fail(what string) {
	if r := current; r != nil && !r.abandoned {
		r.Fail("%s", what)
	}
}

// Await blocks until a condition holds, which steps of other goroutines make true. It is for the
// programs of tests.
func Await(what string, holds func() bool) { wait(what, holds) }

// Choose returns a number from 0 to n-1. Check explores all of them. It is for the programs of
// tests, for example for the answer of a device.
func Choose(n int) int {
	if r := current; r != nil && !r.abandoned {
		return r.decide(n, false)
	}
	return 0
}

// Peek returns a value without a scheduling point. It is for the checks of tests.
func Peek[T any](x interface{ peek() T }) T { return x.peek() }
